//! Deadlines: the server ends a call when its client stops waiting, and says so in its own words.
//!
//! Whatever a peer sends too slowly is ended as well, on both faces.

use std::time::{Duration, Instant};

use longhaul::rpc::proto::{GetJobRequest, GetJobResponse, JobStatus, WatchJobRequest};
use prost::Message as _;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tonic::Code;
use tonic_health::pb::HealthCheckRequest;

use crate::harness::{PATIENCE, Raw, Rig, Told, framed, job, wait};

const WINDOW: u32 = 1 << 20;
const LATE: (Code, &str) = (Code::DeadlineExceeded, "DEADLINE_EXCEEDED");

fn watch(job_id: &str) -> WatchJobRequest {
    WatchJobRequest { job_id: job_id.to_owned(), ..WatchJobRequest::default() }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_ends_at_its_clients_deadline_with_our_details() {
    let rig = Rig::start().await;
    rig.submit(job("long", [wait(3600)])).await;
    let raw = Raw::connect(&rig.grpc_addr, WINDOW).await;
    let began = Instant::now();
    let (headers, body) = raw.call("WatchJob", &[("grpc-timeout", "700m")], &watch("long")).await;
    assert!(headers.get("grpc-status").is_none(), "it begins");
    let told = Told::from(&Raw::read_to_end(&headers, body).await);
    assert_eq!((told.code, told.reason.as_str()), LATE);
    let took = began.elapsed();
    assert!((Duration::from_millis(700)..Duration::from_secs(5)).contains(&took), "{took:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wait_for_a_job_is_answered_before_its_clients_deadline() {
    let rig = Rig::start().await;
    rig.submit(job("long", [wait(3600)])).await;
    rig.sandbox.hold("Write").await;
    rig.submit(job("moving", [crate::harness::run("Write a line.")])).await;
    rig.sandbox.wait_for("Write", "held", 1).await;
    let raw = Raw::connect(&rig.grpc_addr, WINDOW).await;
    let request =
        GetJobRequest { job_id: "moving".to_owned(), wait_seconds: 20, ..GetJobRequest::default() };
    let began = Instant::now();
    let (headers, mut body) = raw.call("GetJob", &[("grpc-timeout", "2S")], &request).await;
    assert!(headers.get("grpc-status").is_none(), "an answer and no error: {headers:?}");
    let data = body.data().await.unwrap().unwrap();
    let answer = GetJobResponse::decode(&data[5..]).unwrap();
    assert_eq!(answer.job.unwrap().status(), JobStatus::Running);
    let took = began.elapsed();
    assert!((Duration::from_secs(1)..Duration::from_secs(2)).contains(&took), "{took:?}");
    rig.sandbox.mend().await;
    rig.settled_as("moving", JobStatus::Completed).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_never_comes_ends_at_the_earlier_deadline_in_every_call() {
    let rig = Rig::start_with(&[("LONGHAUL_REQUEST_SECONDS", "1")]).await;
    let raw = Raw::connect(&rig.grpc_addr, WINDOW).await;
    let service = "/longhaul.v1.JobService";
    for (path, timeout, least) in [
        (format!("{service}/SubmitJob"), None, 1000),
        (format!("{service}/WatchJob"), None, 1000),
        (format!("{service}/WatchJob"), Some("200m"), 200),
        (format!("{service}/ListJobs"), Some("200m"), 200),
        // The server's own is the cap.
        (format!("{service}/SubmitJob"), Some("1H"), 1000),
        ("/grpc.health.v1.Health/Check".to_owned(), None, 1000),
    ] {
        let began = Instant::now();
        let headers: Vec<_> =
            timeout.map(|timeout| ("grpc-timeout", timeout)).into_iter().collect();
        let (answer, mut message) = raw.begin(&path, &headers).await;
        // The beginning of one, and nothing more.
        message.send_data(framed(&watch("trickle")).slice(..7), false).unwrap();
        let (headers, body) = Raw::answered(answer).await;
        let told = Told::from(&Raw::read_to_end(&headers, body).await);
        assert_eq!((told.code, told.reason.as_str()), LATE, "{path} {timeout:?}");
        let took = began.elapsed();
        let range = Duration::from_millis(least)..Duration::from_millis(least + 3000);
        assert!(range.contains(&took), "{path} {timeout:?} took {took:?}");
    }
}

/// Speaks to the sidecar by hand; answers with all it said until it hung up.
async fn say(rig: &Rig, text: &str) -> String {
    let addr = rig.http_url.strip_prefix("http://").unwrap();
    let mut socket = TcpStream::connect(addr).await.unwrap();
    socket.write_all(text.as_bytes()).await.unwrap();
    let mut heard = Vec::new();
    let read = tokio::time::timeout(PATIENCE, socket.read_to_end(&mut heard)).await;
    // A peer that is cut off may hear of it as a reset.
    let _ = read.expect("the server hangs up");
    String::from_utf8(heard).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_sidecar_ends_heads_and_bodies_that_trickle_and_heads_that_never_end() {
    let rig = Rig::start_with(&[
        ("LONGHAUL_REQUEST_SECONDS", "1"),
        ("LONGHAUL_HEAD_SECONDS", "1"),
        ("LONGHAUL_HEADER_BYTES_MAX", "8192"),
    ])
    .await;
    let head = "POST /webhook/durable-job HTTP/1.1\r\nhost: longhaul\r\n";
    assert_eq!(say(&rig, "").await, "", "nothing at all");
    assert_eq!(say(&rig, head).await, "", "half a head");
    let body = format!("{head}content-type: application/json\r\ncontent-length: 9\r\n\r\n{{");
    let late = say(&rig, &body).await;
    assert!(late.starts_with("HTTP/1.1 503"), "half a body: {late}");
    let stranger = "POST /approvals/AAAAAAAAAAAAAAAAAAAAAA HTTP/1.1\r\nhost: longhaul\r\n";
    let unread = say(&rig, &format!("{stranger}content-length: 9\r\n\r\na")).await;
    assert!(unread.starts_with("HTTP/1.1 404"), "what opens nothing is not read: {unread}");
    let long = format!("{head}x-long: {}\r\n\r\n", "x".repeat(20_000));
    let refused = say(&rig, &long).await;
    assert!(refused.starts_with("HTTP/1.1 431"), "a head that is too long: {refused}");
    let (status, _) = rig.post_job(&serde_json::json!({"job_id": "honest", "task": "t", "steps": [{"type": "wait", "duration_seconds": 3600}]})).await;
    assert_eq!(status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_grpc_face_hangs_up_on_who_never_begins_or_has_nothing_to_say() {
    let rig = Rig::start_with(&[
        ("LONGHAUL_HEAD_SECONDS", "1"),
        ("LONGHAUL_IDLE_SECONDS", "1"),
        ("LONGHAUL_CONNECTIONS_MAX", "3"),
    ])
    .await;
    rig.submit(job("long", [wait(3600)])).await;
    // Held by a watch, which is not idle.
    let mut held = rig.try_watch("long", None).await.unwrap();
    assert!(held.message().await.unwrap().is_some());
    for begins in
        [&b""[..], b"PRI * HTTP/2.0\r\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0"]
    {
        let mut socket = TcpStream::connect(&rig.grpc_addr).await.unwrap();
        socket.write_all(begins).await.unwrap();
        let mut heard = Vec::new();
        let read = tokio::time::timeout(PATIENCE, socket.read_to_end(&mut heard)).await;
        let _ = read.unwrap_or_else(|_| panic!("{begins:?} is held for ever"));
    }
    // More than fit: the quiet ones make room, and who is served stays.
    let mut quiet = Vec::new();
    for _ in 0..6 {
        quiet.push(TcpStream::connect(&rig.grpc_addr).await.unwrap());
    }
    let raw = Raw::connect(&rig.grpc_addr, WINDOW).await;
    let request = GetJobRequest { job_id: "long".to_owned(), ..GetJobRequest::default() };
    let (_, mut body) = raw.call("GetJob", &[], &request).await;
    assert!(body.data().await.unwrap().is_ok());
    assert!(rig.control("long", crate::harness::cancel()).await);
    while held.message().await.unwrap().is_some() {}
}

#[tokio::test(flavor = "multi_thread")]
async fn watches_of_health_keep_out_nobody_and_are_few_on_one_connection() {
    let rig = Rig::start_with(&[("LONGHAUL_CONNECTIONS_MAX", "3")]).await;
    rig.submit(job("long", [wait(3600)])).await;
    // Who is served stays.
    let mut served = rig.try_watch("long", None).await.unwrap();
    assert!(served.message().await.unwrap().is_some());
    let health = "/grpc.health.v1.Health/Watch";
    let look = framed(&HealthCheckRequest::default());
    let mut held = Vec::new();
    for _ in 0..3 {
        let raw = Raw::connect(&rig.grpc_addr, WINDOW).await;
        let (answer, mut message) = raw.begin(health, &[]).await;
        message.send_data(look.clone(), true).unwrap();
        let (_, mut body) = Raw::answered(answer).await;
        assert!(body.data().await.unwrap().is_ok());
        held.push((raw, body));
    }
    let raw = Raw::connect(&rig.grpc_addr, WINDOW).await;
    let request = GetJobRequest { job_id: "long".to_owned(), ..GetJobRequest::default() };
    let (_, mut body) = raw.call("GetJob", &[], &request).await;
    assert!(body.data().await.unwrap().is_ok());
    let (_, cut) = &mut held[0];
    let cut = tokio::time::timeout(PATIENCE, cut.data()).await.expect("it is cut");
    assert!(cut.is_none_or(|cut| cut.is_err()));

    let mut watches = Vec::new();
    let refused = loop {
        let (answer, mut message) = raw.begin(health, &[]).await;
        message.send_data(look.clone(), true).unwrap();
        let (headers, body) = Raw::answered(answer).await;
        if headers.contains_key("grpc-status") {
            break Told::from(&Raw::read_to_end(&headers, body).await);
        }
        watches.push(body);
        assert!(watches.len() <= 32, "more than one connection may have");
    };
    assert_eq!((refused.reason.as_str(), watches.len()), ("OVERLOADED", 32));
    let (_, mut body) = raw.call("GetJob", &[], &request).await;
    assert!(body.data().await.unwrap().is_ok(), "calls that are let in are not among them");
    assert!(rig.control("long", crate::harness::cancel()).await);
    while served.message().await.unwrap().is_some() {}
}
