//! Bodies: every form in which a client may send a job means the same job, and none may be larger than the limit.

use std::io::Write as _;

use flate2::Compression;
use flate2::write::{DeflateEncoder, GzEncoder, ZlibEncoder};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::harness::{PATIENCE, Rig};

const SUBMIT: &str = "/webhook/durable-job";

fn the_job() -> Value {
    json!({
        "job_id": "same", "task": "From anywhere & more",
        "steps": [
            {"type": "wait", "duration_seconds": 3600},
            {"type": "approval", "note": "好吗?", "approvers": ["+15550100", "+15550101"], "quorum": 2},
        ],
        "settings": {"labels": {"from": "n8n"}, "priority": 5},
    })
}

const IN_PARTS: [(&str, &str); 11] = [
    ("job_id", "same"),
    ("task", "From anywhere & more"),
    ("steps[0][type]", "wait"),
    ("steps[0][duration_seconds]", "3600"),
    ("steps[1][type]", "approval"),
    ("steps[1][note]", "好吗?"),
    ("steps[1][approvers][]", "+15550100"),
    ("steps[1][approvers][]", "+15550101"),
    ("steps[1][quorum]", "2"),
    ("settings[labels][from]", "n8n"),
    ("settings[priority]", "5"),
];

fn multipart(fields: &[(&str, &str)]) -> String {
    let parts = fields.iter().map(|(name, text)| {
        format!("--b0\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{text}\r\n")
    });
    parts.collect::<String>() + "--b0--\r\n"
}

fn packed(coding: &str, text: &str) -> Vec<u8> {
    let (best, text) = (Compression::best(), text.as_bytes());
    match coding {
        "gzip" => {
            let mut to = GzEncoder::new(Vec::new(), best);
            to.write_all(text).and_then(|()| to.finish())
        }
        "deflate" => {
            let mut to = ZlibEncoder::new(Vec::new(), best);
            to.write_all(text).and_then(|()| to.finish())
        }
        _ => {
            let mut to = DeflateEncoder::new(Vec::new(), best);
            to.write_all(text).and_then(|()| to.finish())
        }
    }
    .unwrap()
}

/// Sends bytes under a coding.
async fn send(rig: &Rig, coding: &str, kind: &str, body: Vec<u8>) -> (u16, Value) {
    let request = rig.http.post(format!("{}{SUBMIT}", rig.http_url)).header("content-type", kind);
    let request = request.header("content-encoding", coding).body(body);
    let answer = request.send().await.unwrap();
    (answer.status().as_u16(), answer.json().await.unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn however_it_is_sent_it_is_the_same_job() {
    let rig = Rig::start().await;
    let (status, answer) = rig.post_job(&the_job()).await;
    assert_eq!((status, &answer["created"]), (200, &json!(true)), "{answer}");
    let whole = the_job();
    let (steps, settings) = (whole["steps"].to_string(), whole["settings"].to_string());
    let in_json = [
        ("job_id", "same"),
        ("task", "From anywhere & more"),
        ("steps", &*steps),
        ("settings", &*settings),
    ];
    let file = multipart(&in_json).replace(
        "name=\"steps\"\r\n",
        "name=\"steps\"; filename=\"steps.json\"\r\nContent-Type: application/json\r\n",
    );
    let form = "application/x-www-form-urlencoded";
    for (kind, body) in [
        (form, serde_urlencoded::to_string(IN_PARTS).unwrap()),
        (form, serde_urlencoded::to_string(in_json).unwrap()),
        ("multipart/form-data; boundary=b0", multipart(&IN_PARTS)),
        ("multipart/form-data; boundary=\"b0\"", multipart(&in_json)),
        ("multipart/form-data; boundary=b0", file),
        ("text/plain", whole.to_string()),
        ("application/ld+json", whole.to_string()),
        ("", whole.to_string()),
    ] {
        for coding in ["identity", "gzip", "deflate", "bare"] {
            let bytes =
                if coding == "identity" { body.clone().into() } else { packed(coding, &body) };
            let coding = coding.replace("bare", "deflate");
            let (status, answer) = send(&rig, &coding, kind, bytes).await;
            let same = (status, &answer["created"]);
            assert_eq!(same, (200, &json!(false)), "{coding} {kind} {body}: {answer}");
        }
    }
    assert_eq!(rig.db.job_count().await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_part_that_is_wrong_is_named_and_nothing_is_stored() {
    let rig = Rig::start().await;
    let form = "application/x-www-form-urlencoded";
    for (kind, body, expected, field) in [
        (
            form,
            "steps[0][type]=wait&steps[0][duration_seconds]=long",
            400,
            "steps[0].duration_seconds",
        ),
        (form, "steps[1][type]=wait", 400, "steps[1]"),
        (form, "steps=[]&steps[0][type]=wait", 400, "steps[0][type]"),
        (form, "steps[0][type]=dance", 400, "steps[0].type"),
        (form, "steps[0]typo=wait", 400, "steps[0]typo"),
        ("application/json; charset=utf-16", "{}", 415, ""),
        ("multipart/form-data", "--b0--", 400, ""),
        ("multipart/form-data; boundary=b0", "--b0\r\n", 400, ""),
    ] {
        let (status, answer) = rig.post_as(SUBMIT, kind, body.to_owned()).await;
        assert_eq!(status, expected, "{body}: {answer}");
        let named = answer["violations"][0]["field"].as_str().unwrap_or_default();
        assert_eq!(named, field, "{body}: {answer}");
    }
    let (status, answer) = send(&rig, "br", "application/json", b"{}".to_vec()).await;
    assert_eq!(status, 415, "{answer}");
    let (status, answer) = send(&rig, "gzip", "application/json", b"{}".to_vec()).await;
    assert_eq!((status, &answer["reason"]), (400, &json!("INVALID_REQUEST")));
    assert_eq!(rig.db.job_count().await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bomb_is_refused_at_the_limit_of_what_it_unpacks_to() {
    let rig = Rig::start().await;
    let bomb = format!("{{\"task\":\"{}\"}}", "x".repeat(256 << 20));
    for coding in ["gzip", "deflate"] {
        let bytes = packed(coding, &bomb);
        assert!(bytes.len() < 1 << 20, "small as it comes");
        let (status, answer) = send(&rig, coding, "application/json", bytes).await;
        assert_eq!((status, &answer["code"]), (413, &json!(413)), "{answer}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_limit_is_a_setting_and_a_body_as_large_as_it_is_taken() {
    let rig = Rig::start_with(&[("LONGHAUL_BODY_BYTES_MAX", "6000000")]).await;
    let body = |bytes: usize| {
        let steps = r#""steps":[{"type":"wait","duration_seconds":3600}]"#;
        let around = format!("{{\"validate_only\":true,\"task\":\"\",{steps}}}").len();
        let spaces = " ".repeat(bytes - around);
        format!("{{\"validate_only\":true,\"task\":\"\",{steps}{spaces}}}")
    };
    let json = "application/json";
    assert_eq!(rig.post_as(SUBMIT, json, body(6_000_000)).await.0, 200);
    let (status, answer) = rig.post_as(SUBMIT, json, body(6_000_001)).await;
    assert_eq!((status, &answer["reason"]), (413, &json!("INVALID_REQUEST")), "{answer}");
}

/// What comes back on a connection, up to the end of the JSON in it.
async fn heard(connection: &mut TcpStream) -> String {
    let mut heard = String::new();
    while !heard.ends_with('}') {
        let mut piece = [0; 4096];
        let read = tokio::time::timeout(PATIENCE, connection.read(&mut piece)).await;
        let count = read.unwrap().unwrap();
        assert!(count > 0, "it hung up after {heard:?}");
        heard.push_str(&String::from_utf8_lossy(&piece[..count]));
    }
    heard
}

#[tokio::test(flavor = "multi_thread")]
async fn who_sends_too_much_is_told_while_still_sending() {
    let rig = Rig::start_with(&[("LONGHAUL_BODY_BYTES_MAX", "2000")]).await;
    let address = rig.http_url.strip_prefix("http://").unwrap();
    let head = format!("POST {SUBMIT} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n");
    let mut endless = TcpStream::connect(address).await.unwrap();
    let chunked = format!("{head}transfer-encoding: chunked\r\n\r\n");
    endless.write_all(chunked.as_bytes()).await.unwrap();
    for _ in 0..100 {
        let chunk = format!("800\r\n{}\r\n", "x".repeat(0x800));
        endless.write_all(chunk.as_bytes()).await.unwrap();
    }
    // Its end has not come, and the answer is there.
    let told = heard(&mut endless).await;
    assert!(told.starts_with("HTTP/1.1 413 ") && told.contains("\"code\":413"), "{told}");

    let mut asking = TcpStream::connect(address).await.unwrap();
    let asks = format!("{head}content-length: 900000000\r\nexpect: 100-continue\r\n\r\n");
    asking.write_all(asks.as_bytes()).await.unwrap();
    let told = heard(&mut asking).await;
    assert!(told.starts_with("HTTP/1.1 413 "), "it need not send at all: {told}");
}
