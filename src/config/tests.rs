//! What a configuration may say, and how each mistake of it is told.

use super::*;

fn mistakes(variables: &[(&str, &str)]) -> Vec<String> {
    let any = "127.0.0.1:0".parse().unwrap();
    let listen = Listen { grpc_addr: any, http_addr: any, insecure: false };
    let find = |name: &str| {
        let good = [("DATABASE_URL", "postgres://user@host/database")];
        let all = variables.iter().chain(&good);
        all.copied().find(|(given, _)| *given == name).map(|(_, value)| value.to_owned())
    };
    Config::from_variables(listen, find).map_or_else(|error| error.0, |_| Vec::new())
}

#[test]
fn each_mistake_is_told_once_and_in_the_words_of_its_rule() {
    let many: Vec<String> = (0..65).map(|number| format!("+155501{number:02}")).collect();
    let token = ("LONGHAUL_WHATSAPP_TOKEN", "t");
    for (variables, expected) in [
        (&[("LONGHAUL_NOTIFY", "+15550100,+15550100")][..], "LONGHAUL_NOTIFY[1] must not repeat"),
        (&[("LONGHAUL_NOTIFY", "+15550100, +05550100")], "LONGHAUL_NOTIFY[1] must be a phone"),
        (&[("LONGHAUL_NOTIFY", "Alice")], "LONGHAUL_NOTIFY[0] must be a phone number such as"),
        (&[("LONGHAUL_NOTIFY", &many.join(","))], "LONGHAUL_NOTIFY must have at most 64"),
        (&[("LONGHAUL_LANGUAGE", "fr-CA")], "LONGHAUL_LANGUAGE must be one of en, zh, pt-BR"),
        (&[("LONGHAUL_OPERATORS", "+15550100,us")], "LONGHAUL_OPERATORS[1] must be a phone"),
        (&[("LONGHAUL_DAILY_BUDGET_USD", "$5")], "LONGHAUL_DAILY_BUDGET_USD must be a plain"),
        (&[("LONGHAUL_DAILY_BUDGET_USD", "0")], "LONGHAUL_DAILY_BUDGET_USD must be more than 0"),
        (&[("LONGHAUL_MODEL", "claude sonnet")], "LONGHAUL_MODEL must be a model's id"),
        (&[("LONGHAUL_MODEL_STREAMS", "0")], "LONGHAUL_MODEL_STREAMS must be a number from 1"),
        (&[("LONGHAUL_REQUESTS_MAX", "0")], "LONGHAUL_REQUESTS_MAX must be a number from 1"),
        (&[("LONGHAUL_DATABASE_DIRECT_URL", "host")], "LONGHAUL_DATABASE_DIRECT_URL must name"),
        (&[("LONGHAUL_PUBLIC_URL", "ftp://u:s3cret@host")], "LONGHAUL_PUBLIC_URL must be a plain"),
        (&[("LONGHAUL_WHATSAPP_BASE_URL", "http://host")], "LONGHAUL_WHATSAPP_BASE_URL says"),
        (&[("LONGHAUL_WHATSAPP_GRAPH_VERSION", "v1.0")], "LONGHAUL_WHATSAPP_GRAPH_VERSION says"),
        (&[token], "LONGHAUL_WHATSAPP_TOKEN and LONGHAUL_WHATSAPP_PHONE_NUMBER_ID go together"),
        (&[("LONGHAUL_WHATSAPP_APP_SECRET", "s3cret")], "LONGHAUL_WHATSAPP_APP_SECRET and"),
        (&[("LONGHAUL_WHATSAPP_VERIFY_TOKEN", "s3cret")], "LONGHAUL_WHATSAPP_APP_SECRET and"),
        (&[("LONGHAUL_WHATSAPP_APP_SECRET_OLD", "s3cret")], "LONGHAUL_WHATSAPP_APP_SECRET_OLD"),
        (&[("LONGHAUL_MODEL_API_KEY_FILE", "/dev/null")], "LONGHAUL_MODEL_API_KEY_FILE names"),
        (&[("DATABASE_URL", "mysql://u:s3cret@host/d")], "DATABASE_URL must name a Postgres"),
        (&[("DATABASE_URL", "postgres://u:s3cret@host:no/d")], "DATABASE_URL must name a Postgres"),
        (&[("LONGHAUL_DATABASE_URL", "postgres:/")], "DATABASE_URL must name a Postgres"),
    ] {
        let told = mistakes(variables);
        assert_eq!(told.len(), 1, "{variables:?}: {told:?}");
        assert!(told[0].starts_with(expected), "{told:?}");
        assert!(!told[0].contains("s3cret"), "{told:?}");
    }
}

#[test]
fn what_is_right_is_taken() {
    for variables in [
        &[][..],
        &[("LONGHAUL_NOTIFY", " +15550100 , +15550101,")],
        &[("LONGHAUL_LANGUAGE", "zh-Hans")],
        &[("LONGHAUL_LANGUAGE", "pt-BR")],
        &[("LONGHAUL_MODEL", "claude-haiku")],
        &[("LONGHAUL_DAILY_BUDGET_USD", "12.50"), ("LONGHAUL_OPERATORS", "+15550100")],
        &[("LONGHAUL_DATABASE_URL", "postgresql:///database?host=/run/postgresql")],
        &[("LONGHAUL_PUBLIC_URL", "https://jobs.example/longhaul/")],
        &[("LONGHAUL_WHATSAPP_APP_SECRET", "a"), ("LONGHAUL_WHATSAPP_VERIFY_TOKEN", "b")],
    ] {
        assert_eq!(mistakes(variables), [""; 0], "{variables:?}");
    }
}
