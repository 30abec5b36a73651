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
        (&[("LONGHAUL_TIME_ZONE", "Nowhere")], "LONGHAUL_TIME_ZONE must be a time zone such as"),
        (&[("LONGHAUL_ADDRESS_BOOK", "/nowhere")], "LONGHAUL_ADDRESS_BOOK names /nowhere, which"),
        (&[("LONGHAUL_LANGUAGE", "fr-CA")], "LONGHAUL_LANGUAGE must be one of en, zh, pt-BR"),
        (&[("LONGHAUL_OPERATORS", "+15550100,us")], "LONGHAUL_OPERATORS[1] must be a phone"),
        (&[("LONGHAUL_DAILY_BUDGET_USD", "$5")], "LONGHAUL_DAILY_BUDGET_USD must be a plain"),
        (&[("LONGHAUL_DAILY_BUDGET_USD", "0")], "LONGHAUL_DAILY_BUDGET_USD must be more than 0"),
        (&[("LONGHAUL_MODEL", "claude sonnet")], "LONGHAUL_MODEL must be a model's id"),
        (&[("LONGHAUL_MODEL_STREAMS", "0")], "LONGHAUL_MODEL_STREAMS must be a number from 1"),
        (&[("LONGHAUL_REQUESTS_MAX", "0")], "LONGHAUL_REQUESTS_MAX must be a number from 1"),
        (
            &[("LONGHAUL_HEADER_BYTES_MAX", "100")],
            "LONGHAUL_HEADER_BYTES_MAX must be a number from 8192",
        ),
        (
            &[("LONGHAUL_GRPC_WEB_ORIGINS", "a.example")],
            "LONGHAUL_GRPC_WEB_ORIGINS must be `*`, or origins",
        ),
        (&[("LONGHAUL_TLS_CERT_FILE", "/cert.pem")], "LONGHAUL_TLS_CERT_FILE and LONGHAUL_TLS"),
        (
            &[("LONGHAUL_TLS_CLIENT_CA_FILE", "/ca.pem")],
            "LONGHAUL_TLS_CLIENT_CA_FILE says nothing without",
        ),
        (&[("LONGHAUL_BODY_BYTES_MAX", "4MiB")], "LONGHAUL_BODY_BYTES_MAX must be a number from"),
        (&[("LONGHAUL_LENIENT", "yes")], "LONGHAUL_LENIENT must be `true` or `false`"),
        (&[("LONGHAUL_WEBHOOK_PREFIX", "a/{b}")], "LONGHAUL_WEBHOOK_PREFIX must be a path of"),
        (&[("LONGHAUL_WEBHOOK_PREFIX", "a//b")], "LONGHAUL_WEBHOOK_PREFIX must be a path of"),
        (&[("LONGHAUL_WEBHOOK_PREFIX", "a/..")], "LONGHAUL_WEBHOOK_PREFIX must be a path of"),
        (&[("LONGHAUL_WEBHOOK_PREFIX", "/approvals/")], "LONGHAUL_WEBHOOK_PREFIX must be a path"),
        (&[("LONGHAUL_CORS_ORIGINS", "https://a.example,*")], "LONGHAUL_CORS_ORIGINS must be"),
        (&[("LONGHAUL_KEY_HEADER", "a key")], "LONGHAUL_KEY_HEADER must be the name of a header"),
        (&[("LONGHAUL_KEY_HEADER", "Cookie")], "LONGHAUL_KEY_HEADER must be the name of a header"),
        (&[("LONGHAUL_KEY_HEADER", "HOST")], "LONGHAUL_KEY_HEADER must be the name of a header"),
        (&[("LONGHAUL_KEY_HEADER", "te")], "LONGHAUL_KEY_HEADER must be the name of a header"),
        (&[("LONGHAUL_KEY_HEADER", "Grpc-Timeout")], "LONGHAUL_KEY_HEADER must be the name of a"),
        (&[("LONGHAUL_DATABASE_DIRECT_URL", "host")], "LONGHAUL_DATABASE_DIRECT_URL must name"),
        (&[("LONGHAUL_PUBLIC_URL", "ftp://u:s3cret@host")], "LONGHAUL_PUBLIC_URL must be a plain"),
        (&[("LONGHAUL_WHATSAPP_BASE_URL", "http://host")], "LONGHAUL_WHATSAPP_BASE_URL says"),
        (&[("LONGHAUL_WHATSAPP_GRAPH_VERSION", "v1.0")], "LONGHAUL_WHATSAPP_GRAPH_VERSION says"),
        (&[("LONGHAUL_WHATSAPP_NOTICE_TEMPLATE", "a")], "LONGHAUL_WHATSAPP_NOTICE_TEMPLATE says"),
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

/// With a sender.
fn mistakes_of_a_sender(name: &str, value: &str) -> Vec<String> {
    let token = ("LONGHAUL_WHATSAPP_TOKEN", "t");
    mistakes(&[token, ("LONGHAUL_WHATSAPP_PHONE_NUMBER_ID", "1"), (name, value)])
}

#[test]
fn whom_a_faulty_book_would_have_named_is_no_second_mistake() {
    let book = ("LONGHAUL_ADDRESS_BOOK", "/nowhere");
    let told = mistakes(&[book, ("LONGHAUL_NOTIFY", "ana"), ("LONGHAUL_OPERATORS", "bo")]);
    assert_eq!(told.len(), 1, "{told:?}");
}

#[test]
fn each_mistake_about_forms_is_told_in_the_words_of_its_rule() {
    for (name, value, expected) in [
        ("LONGHAUL_WHATSAPP_REQUEST_FORM", "Link", "must be one of text, link, buttons"),
        ("LONGHAUL_WHATSAPP_TEMPLATE_BUTTONS", "url", "must be one of urls, replies"),
        ("LONGHAUL_WHATSAPP_REQUEST_TEMPLATE", "Ask me", "must be the name of a template"),
        ("LONGHAUL_WHATSAPP_REQUEST_TEMPLATE_BACKUP", "ask", "says nothing without"),
        ("LONGHAUL_WHATSAPP_TEMPLATE_LANGUAGES", "fr=fr_FR", "must be pairs such as"),
        ("LONGHAUL_WHATSAPP_TEMPLATE_LANGUAGES", "en", "must be pairs such as"),
        ("LONGHAUL_WHATSAPP_ACCOUNT_ID", "1/me", "must be a number"),
        ("LONGHAUL_WHATSAPP_SPACING_SECONDS", "61", "must be a number from 0 to 60"),
    ] {
        let told = mistakes_of_a_sender(name, value);
        assert_eq!(told.len(), 1, "{name}: {told:?}");
        assert!(told[0].starts_with(name) && told[0].contains(expected), "{told:?}");
    }
    for (name, value) in [
        ("LONGHAUL_WHATSAPP_REQUEST_FORM", "buttons"),
        ("LONGHAUL_WHATSAPP_REQUEST_TEMPLATE", "longhaul_request_1"),
        ("LONGHAUL_WHATSAPP_TEMPLATE_LANGUAGES", "en=en, pt-BR = pt_PT,"),
        ("LONGHAUL_WHATSAPP_SPACING_SECONDS", "0"),
    ] {
        assert_eq!(mistakes_of_a_sender(name, value), [""; 0], "{name}");
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

/// An address book in a file that is gone with the test.
struct File(std::path::PathBuf);

impl File {
    fn new(text: &str) -> Self {
        let path = std::env::temp_dir().join(format!("longhaul-{}.toml", uuid::Uuid::now_v7()));
        std::fs::write(&path, text).unwrap();
        Self(path)
    }

    fn path(&self) -> &str {
        self.0.to_str().unwrap()
    }
}

impl Drop for File {
    fn drop(&mut self) {
        let _gone = std::fs::remove_file(&self.0);
    }
}

#[test]
fn a_person_of_the_address_book_is_known_by_name_and_number() {
    let file = File::new(
        "[people.ana]\nphone = '+5511987654321'\nlanguage = 'pt-BR'\ntime_zone = 'America/Sao_Paulo'\n",
    );
    let book = ("LONGHAUL_ADDRESS_BOOK", file.path());
    for notify in ["ana", "+5511987654321"] {
        assert_eq!(mistakes(&[book, ("LONGHAUL_NOTIFY", notify)]), [""; 0]);
    }
    let twice = mistakes(&[book, ("LONGHAUL_NOTIFY", "ana,+5511987654321")]);
    assert_eq!(twice, ["LONGHAUL_NOTIFY[1] must not repeat a person"]);
}

#[test]
fn each_mistake_of_an_address_book_is_told_with_its_place() {
    for (text, expected) in [
        ("people = 3", "names "),
        ("[people.ana]\nfone = '+15550100'", "names "),
        ("[people.ana]\nphone = '15550100'", "people.ana must have a phone such as"),
        ("[people.ana]\nlanguage = 'fr'\nphone = '+15550100'", "people.ana.language must be one"),
        ("[people.ana]\ntime_zone = 'x'\nphone = '+15550100'", "people.ana.time_zone must be"),
        ("[people.ana]", "people.ana must have a phone, a user_id or an endpoint"),
    ] {
        let file = File::new(text);
        let told = mistakes(&[("LONGHAUL_ADDRESS_BOOK", file.path())]);
        assert_eq!(told.len(), 1, "{text:?}: {told:?}");
        assert!(told[0].contains(expected), "{told:?}");
    }
}

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

#[test]
fn each_mistake_of_an_endpoint_is_told_with_its_place_and_without_its_secret() {
    let good = format!("url = 'https://h.example/s3cret'\nsecret = '{SECRET}'\n");
    for (text, expected) in [
        ("url = 3".to_owned(), "line 2: invalid type: integer `3`"),
        (format!("{good}secrets = ['s3cret']"), "line 4: unknown field `secrets`"),
        (format!("{good}events = 's3cret'"), "line 4: invalid type: string …, expected"),
        (format!("{good}url = 's3cret'"), "line 4: duplicate key"),
        (format!("secret = '{SECRET}'"), ".url must be an http or https address"),
        (format!("secret = '{SECRET}'\nurl = 'ftp://s3cret'"), ".url must be an http or https"),
        (format!("secret = '{SECRET}'\nurl = 'https://a:s3cret@h'"), ".url must be an http"),
        (format!("{good}url_file = '/x'"), " must not have both url and url_file"),
        ("url = 'https://h'".to_owned(), " must have a secret, a header or a body"),
        ("url = 'https://h'\nsecret = 's3cret'".to_owned(), ".secret must be `whsec_` and"),
        (format!("{good}secret_old = 'whsec_s3cret'"), ".secret_old must be `whsec_` and"),
        (
            format!("url = 'https://h'\nbody = '{{}}'\nsecret_old = '{SECRET}'"),
            ".secret_old says nothing",
        ),
        (
            "url = 'https://h'\nsecret_file = '/nowhere'\nbody = '{}'".to_owned(),
            ".secret_file names /nowhere, which cannot be read",
        ),
        ("url = 'https://h'\nheader = 's3cret'".to_owned(), ".header must be such as"),
        (format!("{good}events = []"), ".events must not be empty"),
        (format!("{good}events = ['done']"), ".events[0] must be one of approval_requested, "),
        (format!("{good}events = ['failed', 'failed']"), ".events[1] must not repeat"),
        (format!("{good}events = ['daily_budget']"), ".events[0] must be one of"),
        (format!("{good}body = '{{\"a\": {{{{ title }}}}}}'"), ".body must be JSON"),
        (format!("{good}body = '[\"{{{{ titel }}}}\"]'"), ".body names `titel`"),
        (format!("{good}success = 'ok'"), ".success must be such as `/code=0`"),
        (format!("{good}timeout_seconds = 31"), ".timeout_seconds must be from 1 to 30, is 31"),
    ] {
        let file = File::new(&format!("[endpoints.ops]\n{text}\n"));
        let told = mistakes(&[("LONGHAUL_ADDRESS_BOOK", file.path())]);
        assert_eq!(told.len(), 1, "{text}: {told:?}");
        assert!(told[0].contains(expected), "{expected}: {told:?}");
        assert!(!told[0].contains("s3cret") && !told[0].contains("Mf"), "{told:?}");
    }
    let file = File::new(&format!("[people.ana]\nendpoint = 'ops'\n[endpoints.ops]\n{good}"));
    assert_eq!(mistakes(&[("LONGHAUL_ADDRESS_BOOK", file.path())]), [""; 0]);
}
