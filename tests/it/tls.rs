//! TLS on both faces, from files that change, and clients that are known by their certificates.
//!
//! Every authority, certificate and key is made in its test.

pub mod authority;

use std::collections::BTreeMap;
use std::error::Error as _;

use longhaul::rpc::proto::{EventKind, JobStatus};
use serde_json::json;
use tonic::Status;

use self::authority::{Authority, Files, Pair};
use crate::harness::{PATIENCE, Process, Rig, cancel, events_until_end, job, wait};
use crate::program::{Program, SERVE};

/// Whether a call ended with its connection, which is the client's own finding and no answer.
fn never_arrived(status: &Status) -> bool {
    status.source().is_some()
}

#[tokio::test(flavor = "multi_thread")]
async fn both_faces_speak_tls_and_nothing_else() {
    let authority = Authority::new("one");
    let files = Files::of(&authority.server());
    let rig = Rig::start_with(&files.variables(&[])).await;
    let client = authority.client(&rig, None);
    client.submit(job("secret", [wait(3600)])).await;
    assert_eq!(client.job("secret").await.status(), JobStatus::Queued);
    for http2 in [false, true] {
        let http = authority.http(None, http2);
        let answer = http.get(format!("{}/healthz", client.http_url)).send().await.unwrap();
        assert_eq!(answer.status(), 200);
        let spoken = if http2 { http::Version::HTTP_2 } else { http::Version::HTTP_11 };
        assert_eq!(answer.version(), spoken);
    }
    let plain = rig.try_submit(job("plain", [wait(0)])).await.unwrap_err();
    assert!(never_arrived(&plain), "{plain:?}");
    assert!(rig.http.get(format!("{}/healthz", rig.http_url)).send().await.is_err());
    let stranger = Authority::new("stranger").client(&rig, None);
    assert!(stranger.try_submit(job("strange", [wait(0)])).await.is_err(), "it trusts another");
    assert_eq!(rig.db.job_count().await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn certificates_are_read_again_when_they_change_and_broken_ones_are_not_taken() {
    let (one, two) = (Authority::new("one"), Authority::new("two"));
    let files = Files::of(&one.server());
    let rig = Rig::without_server(&[]).await;
    let server = Process::serve(&rig, &files.variables(&[])).await;
    let client = one.client(&server.client, None);
    client.submit(job("watched", [wait(3600)])).await;
    let mut watch = client.try_watch("watched", None).await.unwrap();
    assert!(watch.message().await.unwrap().is_some());

    files.write(&Pair { cert: two.server().cert, key: one.server().key });
    server.wait_to_say("new certificates are broken").await;
    assert_eq!(one.client(&server.client, None).job("watched").await.job_id, "watched");

    files.write(&two.server());
    server.wait_to_say("new certificates are in force").await;
    assert_eq!(two.client(&server.client, None).job("watched").await.job_id, "watched");
    let old = one.client(&server.client, None).try_submit(job("old", [wait(0)])).await;
    let old = old.unwrap_err();
    assert!(never_arrived(&old), "{old:?}");
    // What was open goes on.
    assert!(client.control("watched", cancel()).await);
    let events = events_until_end(watch).await;
    assert_eq!(events.last().unwrap().kind(), EventKind::JobCancelled);
    server.terminate().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clients_certificate_lets_it_in_and_names_it_and_its_authority_can_change() {
    let (ours, theirs, others) =
        (Authority::new("servers"), Authority::new("clients"), Authority::new("others"));
    let files = Files::of(&ours.server());
    files.write_client_ca(&theirs.pem);
    let rig = Rig::without_server(&[]).await;
    let server = Process::serve(&rig, &files.variables(&["client_ca"])).await;
    let known = theirs.member("ci-runner");
    let client = ours.client(&server.client, Some(&known));
    client.submit(job("theirs", [wait(3600)])).await;
    let event = client.event("theirs", EventKind::JobSubmitted).await;
    assert_eq!(event.actor, "cert:ci-runner");
    let nameless = theirs.nameless("spare.example");
    let spare = ours.client(&server.client, Some(&nameless));
    assert!(spare.control("theirs", cancel()).await);
    assert_eq!(spare.event("theirs", EventKind::JobCancelled).await.actor, "cert:spare.example");
    for stranger in [None, Some(others.member("ci-runner"))] {
        let stranger = ours.client(&server.client, stranger.as_ref());
        let refused = stranger.try_submit(job("strange", [wait(0)])).await.unwrap_err();
        assert!(never_arrived(&refused), "{refused:?}");
    }

    // The sidecar asks for a certificate and takes a key as well; without both nobody gets far.
    let submission = json!({"job_id": "by-http", "task": "t", "steps": [{"type": "wait", "duration_seconds": 60}]});
    let url = format!("{}/webhook/durable-job", client.http_url);
    let status = async |known: Option<&Pair>| {
        let request = ours.http(known, false).post(&url).json(&submission);
        request.send().await.map(|answer| answer.status().as_u16()).ok()
    };
    assert_eq!(status(None).await, Some(401), "health and pages are open, and this is not");
    assert_eq!(status(Some(&known)).await, Some(200));
    assert_eq!(status(Some(&others.member("ci-runner"))).await, None);
    assert_eq!(client.event("by-http", EventKind::JobSubmitted).await.actor, "cert:ci-runner");

    files.write_client_ca(&others.pem);
    server.wait_to_say("new certificates are in force").await;
    assert_eq!(status(Some(&known)).await, None, "its authority has gone");
    assert_eq!(status(Some(&others.member("new"))).await, Some(200));
    let refused =
        ours.client(&server.client, Some(&known)).try_submit(job("late", [wait(0)])).await;
    let refused = refused.unwrap_err();
    assert!(never_arrived(&refused), "{refused:?}");
    server.terminate().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_others_reach_needs_no_key_where_it_knows_clients_by_certificate() {
    let (ours, theirs) = (Authority::new("servers"), Authority::new("clients"));
    let files = Files::of(&ours.server());
    files.write_client_ca(&theirs.pem);
    let rig = Rig::without_server(&[]).await;
    let mut variables = rig.variables().clone();
    let given = files.variables(&["client_ca"]);
    variables.extend(given.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
    let everywhere = ["serve", "--grpc-addr", "0.0.0.0:0", "--http-addr", "0.0.0.0:0"];
    let server = Program::start(&everywhere, &variables).await;
    let port = server.ready["http"].as_str().unwrap().rsplit(':').next().unwrap().to_owned();
    let url = format!("https://127.0.0.1:{}/webhook/durable-job", port.trim_end_matches('/'));
    let answer = ours.http(None, false).post(&url).json(&json!({})).send().await.unwrap();
    assert_eq!(answer.status(), 401, "it is not open");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_fault_of_the_files_is_told_before_anything_is_served() {
    let (one, two) = (Authority::new("one"), Authority::new("two"));
    let refused = async |variables: &[(&str, &str)]| {
        let url = [("DATABASE_URL", "postgres://nobody@127.0.0.1:9/none")];
        let variables = url.iter().chain(variables);
        let variables: BTreeMap<String, String> =
            variables.map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let ended = Program::run(&SERVE, &variables, PATIENCE).await;
        assert_eq!(ended.status.code(), Some(78), "{ended:?}");
        String::from_utf8(ended.stderr).unwrap()
    };
    let said = refused(&[
        ("LONGHAUL_TLS_CERT_FILE", "/nowhere/cert.pem"),
        ("LONGHAUL_TLS_KEY_FILE", "/nowhere/key.pem"),
        ("LONGHAUL_TLS_CLIENT_CA_FILE", "/nowhere/ca.pem"),
    ])
    .await;
    for (name, file) in [("CERT", "cert"), ("KEY", "key"), ("CLIENT_CA", "ca")] {
        let part = format!("LONGHAUL_TLS_{name}_FILE: /nowhere/{file}.pem cannot be read");
        assert!(said.contains(&part), "no {part}: {said}");
    }
    let files = Files::of(&Pair { cert: "nonsense".to_owned(), key: "nonsense".to_owned() });
    let said = refused(&files.variables(&[])).await;
    assert!(
        said.contains("holds no certificate") && said.contains("holds no private key"),
        "{said}"
    );
    let files = Files::of(&Pair { cert: one.server().cert, key: two.server().key });
    let said = refused(&files.variables(&[])).await;
    assert!(said.contains("does not fit the certificate"), "{said}");
    let said = refused(&files.variables(&[])[..1]).await;
    assert!(said.contains("go together"), "{said}");
}
