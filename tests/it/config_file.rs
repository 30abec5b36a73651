//! The configuration in a file: each variable can be given by it, the environment goes before it, and what is wrong in
//! it is told together with everything else.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use longhaul::config::{Config, Flags, Source, VARIABLES, telemetry};
use longhaul::rpc::Origins;
use longhaul::rpc::proto::JobStatus;
use secrecy::ExposeSecret as _;

use crate::harness::{PATIENCE, Rig, job, wait};
use crate::program::{Folder, Program, SERVE};

/// What is asked of the environment alone, since it is no server's.
const OF_THE_ENVIRONMENT: [&str; 10] = [
    "LONGHAUL_CONFIG",
    "LONGHAUL_CLI_CONFIG",
    "LONGHAUL_PROFILE",
    "LONGHAUL_SERVER",
    "LONGHAUL_API_KEY",
    "LONGHAUL_CA_FILE",
    "LONGHAUL_CLIENT_CERT_FILE",
    "LONGHAUL_CLIENT_KEY_FILE",
    "OTEL_METRIC_EXPORT_INTERVAL",
    "NO_COLOR",
];

/// A configuration file that is gone with the test.
struct Written {
    folder: Folder,
    path: String,
}

impl Written {
    fn new(text: &str) -> Self {
        let folder = Folder::make();
        let path = folder.0.join("longhaul.toml");
        fs::write(&path, text).unwrap();
        Self { path: path.to_str().unwrap().to_owned(), folder }
    }

    fn source(&self) -> Source {
        Source::of_file(self.path.as_ref())
    }

    fn mistakes(&self) -> Vec<String> {
        Config::read(Flags::default(), &self.source()).map_or_else(|error| error.0, |_| Vec::new())
    }
}

/// The names in the list of variables, with their examples.
fn variables() -> Vec<(String, String)> {
    let lines = VARIABLES.lines().filter_map(|line| line.strip_prefix('#')?.split_once('='));
    let is_name = |name: &str| name.bytes().all(|b| b.is_ascii_uppercase() || b == b'_');
    let named = lines.filter(|(name, _)| is_name(name));
    named.map(|(name, example)| (name.to_owned(), example.to_owned())).collect()
}

fn key_of(name: &str) -> String {
    name.strip_prefix("LONGHAUL_").unwrap_or(name).to_lowercase()
}

#[test]
fn every_variable_can_be_given_by_the_file_and_is_found_there() {
    let all = variables();
    assert!(all.len() > 60, "{}", all.len());
    let mut found = BTreeSet::new();
    for (name, example) in all {
        let is_number = !example.is_empty() && example.bytes().all(|b| b.is_ascii_digit());
        let text = match example.as_str() {
            "true" | "false" => example.clone(),
            _ if is_number => example.clone(),
            _ => "'some text'".to_owned(),
        };
        let file = Written::new(&format!("{} = {text}\n", key_of(&name)));
        let source = file.source();
        if OF_THE_ENVIRONMENT.contains(&name.as_str()) {
            let told = file.mistakes().concat();
            assert!(told.contains("can only be said by the environment"), "{name}: {told}");
            continue;
        }
        // Both of its names are the same in the file.
        let read = if name == "LONGHAUL_DATABASE_URL" { "DATABASE_URL" } else { &name };
        assert_eq!(source.find(read).as_deref(), Some(text.trim_matches('\'')), "{name}");
        let told = file.mistakes();
        assert!(!told.iter().any(|told| told.contains("there is no variable")), "{name}: {told:?}");
        found.insert(name);
    }
    for name in ["RUST_LOG", "LONGHAUL_KEY_HEADER", "LONGHAUL_SLOTS", "LONGHAUL_DATA_DIR"] {
        assert!(found.contains(name), "{name} is not in the list");
    }
}

#[test]
fn what_is_secret_may_be_in_a_file_of_its_own_also_from_the_file() {
    let secret = Written::new("sk-from-a-file\n");
    let file = Written::new(&format!(
        "database_url = 'postgres://user@host/database'\nmodel_api_key_file = '{}'\nslots = 7\n\
         notify = ['+15550100', '+15550101']\ncors_origins = ['https://a.example', 'https://B.example:443/']\n\
         grpc_web_origins = ['http://a.example:80']\ndaily_budget_usd = 12.50\ngrpc_addr = '127.0.0.1:7'\n",
        secret.path
    ));
    let config = Config::read(Flags::default(), &file.source()).unwrap();
    assert_eq!(config.model.api_key.unwrap().expose_secret(), "sk-from-a-file");
    assert_eq!(config.engine.slots, 7);
    assert_eq!(config.engine.defaults.notify, ["+15550100", "+15550101"]);
    assert_eq!(*config.web.cors_origins, ["https://a.example", "https://b.example"]);
    let Some(Origins::These(origins)) = config.rpc.web_origins else { panic!("origins are named") };
    assert_eq!(origins, ["http://a.example"]);
    assert_eq!(config.grpc_addr.port(), 7);
    assert_eq!(config.engine.daily_budget_usd.unwrap().to_string(), "12.5");
}

#[test]
fn each_mistake_in_the_file_is_told_with_its_line_and_without_what_stands_there() {
    for (line, expected) in [
        ("slotz = 7", "there is no variable slotz"),
        ("lh_S3cret = 7", "there is no variable …"),
        ("[web]\nslots = 7", "there is no variable web"),
        ("slots = 's3cret'", "slots must be a number"),
        ("slots = [1]", "slots must be a number"),
        ("slots = 0x10", "slots must be a number"),
        ("slots = 0", "LONGHAUL_SLOTS must be a number from 1 to 10000, is \"0\""),
        ("insecure = 1", "insecure must be true or false"),
        ("model_api_key = 3", "model_api_key must be a text in quotes"),
        ("model_api_key = ['s3cret']", "model_api_key must be a text in quotes"),
        ("notify = ['a,b']", "notify must be a text in quotes, or an array of them"),
        ("public_url = 'ftp://u:s3cret@h'", "LONGHAUL_PUBLIC_URL must be a plain http"),
        ("model_api_key_file = '/nowhere'", "LONGHAUL_MODEL_API_KEY_FILE names /nowhere"),
        ("grpc_addr = 'nowhere'", "LONGHAUL_GRPC_ADDR must be HOST:PORT"),
        ("api_key = 's3cret'", "api_key can only be said by the environment, as LONGHAUL_API_KEY"),
        ("api_key_file = 's3cret'", "api_key_file can only be said by the environment"),
        ("model_api_key = s3cret", "line 3: "),
    ] {
        let file = Written::new(&format!("# one\ndatabase_url = 'postgres://u@h/d'\n{line}\n"));
        let told = file.mistakes();
        assert!(!told.is_empty(), "{line}");
        assert!(told[0].contains(expected) && told[0].contains("line 3: "), "{line}: {told:?}");
        assert!(told[0].starts_with(&file.path), "{told:?}");
        let all = told.concat().to_lowercase();
        assert!(!all.contains("s3cret") || line.starts_with("api_key"), "{told:?}");
        assert!(!all.contains("s3cret"), "{told:?}");
    }
    let told = Source::of_file("/nowhere.toml".as_ref());
    let told = Config::read(Flags::default(), &told).unwrap_err().0;
    assert!(told[0].starts_with("/nowhere.toml cannot be read"), "{told:?}");
    let filter = Written::new("rust_log = 'a=b=c'\nlog_format = 'xml'\n");
    let told = telemetry(&filter.source()).unwrap_err().0;
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(told[0].contains("line 2: LONGHAUL_LOG_FORMAT must be"), "{told:?}");
    assert!(told[1].contains("line 1: RUST_LOG must be of the form"), "{told:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_runs_by_a_file_alone_and_the_environment_goes_before_it() {
    let rig = Rig::without_server(&[]).await;
    let mut text = String::from("grpc_addr = '127.0.0.1:0'\nhttp_addr = '127.0.0.1:0'\n");
    for (name, value) in rig.variables() {
        let is_number = !value.is_empty()
            && value.bytes().all(|b| b.is_ascii_digit())
            && !name.ends_with("_ID");
        let quote = if is_number { "" } else { "'" };
        text.extend([&key_of(name), " = ", quote, value, quote, "\n"]);
    }
    let file = Written::new(&text);
    let ready = Program::start(&["serve", "--config", &file.path], &BTreeMap::new()).await;
    let client = ready.client();
    client.submit(job("by-file", [wait(0)])).await;
    client.settled_as("by-file", JobStatus::Completed).await;
    ready.stop().await;

    // Where both say something, in whichever form, the environment counts.
    let secret = Written::new(&rig.db.url);
    for (name, value) in
        [("DATABASE_URL", rig.db.url.as_str()), ("DATABASE_URL_FILE", &secret.path)]
    {
        let wrong =
            Written::new("database_url = 'postgres://user@127.0.0.1:1/nowhere'\nslots = 0\n");
        let mut variables = BTreeMap::from([("LONGHAUL_CONFIG".to_owned(), wrong.path.clone())]);
        variables.insert("LONGHAUL_SLOTS".to_owned(), "3".to_owned());
        variables.insert(name.to_owned(), value.to_owned());
        Program::start(&SERVE, &variables).await.stop().await;
        drop(wrong.folder);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_wrong_in_the_file_and_in_the_environment_is_told_at_once() {
    let file = Written::new("slots = 0\nwords = 's3cret'\nlog_format = 'xml'\n");
    let variables = [
        ("LONGHAUL_CONFIG", file.path.as_str()),
        ("LONGHAUL_LEASE_SECONDS", "never"),
        ("LONGHAUL_HTTP_ADDR", "here"),
        ("LONGHAUL_INSECURE", "maybe"),
    ];
    let variables: BTreeMap<String, String> =
        variables.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    for (command, has_database) in [("serve", false), ("dev", true)] {
        let output = Program::run(&[command], &variables, PATIENCE).await;
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(78), "{said}");
        for part in [
            "the configuration is not valid",
            "line 1: LONGHAUL_SLOTS must be a number",
            "line 2: there is no variable words",
            "line 3: LONGHAUL_LOG_FORMAT must be",
            "\n  LONGHAUL_LEASE_SECONDS must be",
            "\n  LONGHAUL_HTTP_ADDR must be HOST:PORT",
        ] {
            assert_eq!(said.matches(part).count(), 1, "{command} says {part}: {said}");
        }
        assert_eq!(said.contains("DATABASE_URL must name"), !has_database, "{said}");
        assert_eq!(said.contains("LONGHAUL_INSECURE must be"), command == "serve", "{said}");
        assert!(!said.contains("s3cret"), "{said}");
    }
}
