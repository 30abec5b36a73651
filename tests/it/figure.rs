//! Figures and first contact: how fast a server starts, how little it takes, and how it refuses to start.

use std::collections::BTreeMap;
use std::fs;
use std::process::Output;
use std::time::Duration;

use crate::harness::{PATIENCE, Rig};
use crate::program::{Program, SERVE};

/// The promise is 40 MiB, of a release. A build for development, which this is, has more, most of which is the text of the
/// program that the kernel maps with the pages around it; so what counts here is what the server itself takes.
const OWN_KIB_MAX: u64 = 14 << 10;

async fn refused(args: &[&str], variables: &[(&str, &str)]) -> String {
    let variables: BTreeMap<String, String> =
        variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let Output { status, stdout, stderr } = Program::run(args, &variables, PATIENCE).await;
    let said = String::from_utf8(stderr).unwrap();
    assert_eq!(status.code(), Some(78), "{said}");
    assert!(stdout.is_empty(), "a refusal belongs to stderr");
    said
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_starts_within_two_seconds_and_idles_in_little_memory() {
    let rig = Rig::without_server(&[]).await;
    let server = Program::start(&SERVE, rig.variables()).await;
    let started_in = server.started_in;
    assert!(started_in < Duration::from_secs(2), "it took {started_in:?} to start");
    let health = format!("{}/healthz", server.address("http"));
    let answer = server.client().http.get(health).send().await.unwrap();
    assert_eq!(answer.text().await.unwrap(), "ok");
    let status = fs::read_to_string(format!("/proc/{}/status", server.pid())).unwrap();
    let own = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
    let own_kib: u64 = own.trim().trim_end_matches(" kB").parse().unwrap();
    assert!(own_kib < OWN_KIB_MAX, "an idle server takes {own_kib} KiB: {status}");
    println!("started in {started_in:?}, takes {:.1} MiB of its own", own_kib as f64 / 1024.0);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_that_others_reach_is_refused_unless_insecure_is_said() {
    let rig = Rig::without_server(&[]).await;
    let mut variables = rig.variables().clone();
    variables.insert("LONGHAUL_MODEL_API_KEY".to_owned(), "sk-very-secret".to_owned());
    let everywhere = ["serve", "--grpc-addr", "0.0.0.0:0", "--http-addr", "[::]:0"];
    let borrowed: Vec<(&str, &str)> =
        variables.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let said = refused(&everywhere, &borrowed).await;
    for part in ["longhaul key create", "LONGHAUL_TLS_CLIENT_CA_FILE", "--insecure"] {
        assert!(said.contains(part), "the refusal lacks {part}: {said}");
    }
    assert!(!said.contains("sk-very-secret") && !said.contains(&rig.db.url), "{said}");
    let insecure =
        [&["serve", "--grpc-addr", "0.0.0.0:0", "--http-addr", "127.0.0.1:0"][..], &["--insecure"]];
    let server = Program::start(&insecure.concat(), &variables).await;
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn all_mistakes_of_a_configuration_are_named_at_once_and_no_secret_shown() {
    let said = refused(
        &SERVE,
        &[
            ("LONGHAUL_PUBLIC_URL", "example.com"),
            ("LONGHAUL_SLOTS", "many"),
            ("LONGHAUL_LEASE_SECONDS", "0"),
            ("LONGHAUL_NOTIFY", "Alice"),
            ("LONGHAUL_WHATSAPP_TOKEN", "EAA-very-secret"),
            ("LONGHAUL_MODEL_API_KEY_FILE", "/no/such/file"),
            ("LONGHAUL_LOG_FORMAT", "xml"),
        ],
    )
    .await;
    for part in [
        "LONGHAUL_PUBLIC_URL",
        "LONGHAUL_SLOTS must be a number from 1",
        "LONGHAUL_LEASE_SECONDS",
        "LONGHAUL_NOTIFY",
        "LONGHAUL_WHATSAPP_PHONE_NUMBER_ID",
        "LONGHAUL_MODEL_API_KEY_FILE names /no/such/file",
        "LONGHAUL_LOG_FORMAT",
        "DATABASE_URL must name a Postgres",
    ] {
        assert!(said.contains(part), "the refusal lacks {part}: {said}");
    }
    assert!(!said.contains("very-secret"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_or_wrong_database_is_told_without_its_password() {
    for wrong in [&[][..], &[("DATABASE_URL", "host=127.0.0.1 password=s3cret")]] {
        let said = refused(&SERVE, wrong).await;
        assert!(said.contains("DATABASE_URL must name a Postgres"), "{said}");
        assert!(!said.contains("s3cret"), "{said}");
    }
    let rig = Rig::without_server(&[]).await;
    let nobody = rig.db.url.replace("postgres@", "postgres:s3cret@").replace("/test_", "/none_");
    let variables = BTreeMap::from([("DATABASE_URL".to_owned(), nobody)]);
    let output = Program::run(&SERVE, &variables, PATIENCE).await;
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("could not open the database") && !said.contains("s3cret"), "{said}");
    assert_eq!(said.matches("does not exist").count(), 1, "{said}");
}
