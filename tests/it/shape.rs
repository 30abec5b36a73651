//! The shape of errors: whatever goes wrong at the webhooks, the answer is JSON with code, message, hint and reason.

use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

use crate::harness::{PATIENCE, Rig};

const SUBMIT: &str = "/webhook/durable-job";
const CONTROL: &str = "/webhook/durable-job-control";

/// A request, and what is expected of its answer.
struct Case {
    method: &'static str,
    path: &'static str,
    headers: &'static [(&'static str, &'static str)],
    body: &'static str,
    expected: (u16, &'static str),
}

const fn case(
    method: &'static str,
    path: &'static str,
    body: &'static str,
    expected: (u16, &'static str),
) -> Case {
    Case { method, path, headers: &[], body, expected }
}

const GOOD: &str = r#"{"job_id":"a","steps":[{"type":"wait","duration_seconds":3600}]}"#;
const OTHER: &str =
    r#"{"job_id":"a","task":"t","steps":[{"type":"wait","duration_seconds":3600}]}"#;

fn cases() -> Vec<Case> {
    let invalid = "INVALID_REQUEST";
    let mut cases = vec![
        case("POST", SUBMIT, "", (400, invalid)),
        case("POST", SUBMIT, "{", (400, invalid)),
        case("POST", SUBMIT, r#"{"steps":[]}"#, (400, invalid)),
        case("POST", "/webhook/durable-job?wait=x", GOOD, (400, invalid)),
        case("POST", "/webhook/durable-job?colour=red", GOOD, (400, invalid)),
        case("POST", "/webhook/durable-job?api_key=lh_x", GOOD, (401, "KEY_REQUIRED")),
        case("POST", SUBMIT, OTHER, (409, "JOB_ID_CONFLICT")),
        case("POST", CONTROL, r#"{"job_id":"a","action":"approve"}"#, (409, "JOB_STATE_CONFLICT")),
        case("POST", CONTROL, r#"{"job_id":"b","action":"pause"}"#, (404, "JOB_NOT_FOUND")),
        case("POST", "/webhook/unknown", "{}", (404, "NOT_FOUND")),
        case("POST", "/webhook", "{}", (404, "NOT_FOUND")),
        case("POST", "/webhook/durable-job/", GOOD, (404, "NOT_FOUND")),
        case("POST", "/webhook-test/durable-job", GOOD, (404, "NOT_FOUND")),
        case("POST", "/webhook-waiting/17", "", (404, "NOT_FOUND")),
        case("POST", "/%ff", "", (404, "NOT_FOUND")),
        case("POST", "/healthz", "", (405, "METHOD_NOT_ALLOWED")),
        case("PUT", "/webhook/whatsapp", "", (405, "METHOD_NOT_ALLOWED")),
        case("GET", "/webhook/whatsapp", "", (404, "NOT_FOUND")),
        case("POST", "/webhook/whatsapp", "{}", (404, "NOT_FOUND")),
    ];
    for path in [SUBMIT, CONTROL] {
        for method in ["GET", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "BREW"] {
            cases.push(case(method, path, "", (405, "METHOD_NOT_ALLOWED")));
        }
        for headers in [
            &[("content-type", "application/xml")],
            &[("content-encoding", "br")],
            &[("content-type", "text/plain; charset=latin1")],
        ] {
            let expected = (415, invalid);
            cases.push(Case { method: "POST", path, headers, body: "{}", expected });
        }
        let headers = &[("origin", "https://evil.example")];
        let expected = (403, "FORBIDDEN");
        cases.push(Case { method: "POST", path, headers, body: GOOD, expected });
    }
    cases
}

/// The shape that all errors have.
fn assert_shape(answer: &Value, status: u16) {
    assert_eq!(answer["code"], status, "{answer}");
    for key in ["message", "hint", "reason"] {
        assert!(answer[key].is_string(), "{key} of {answer}");
    }
    assert!(!answer["message"].as_str().unwrap().is_empty(), "{answer}");
    let known = ["code", "message", "hint", "reason", "field", "status", "violations", "job_id"];
    for key in answer.as_object().unwrap().keys() {
        assert!(known.contains(&key.as_str()), "{key} of {answer}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_error_has_the_same_shape() {
    let rig = Rig::start().await;
    assert_eq!(rig.post_as(SUBMIT, "", GOOD.to_owned()).await.0, 200);
    for Case { method, path, headers, body, expected: (status, reason) } in cases() {
        let said = format!("{method} {path} {headers:?} {body}");
        let method = method.parse().unwrap();
        let mut request = rig.http.request(method, format!("{}{path}", rig.http_url)).body(body);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let answer = request.send().await.unwrap();
        assert_eq!(answer.status(), status, "{said}");
        assert_eq!(answer.headers()["content-type"], "application/json", "{said}");
        if status == 405 {
            assert!(answer.headers().contains_key("allow"), "{said}");
        }
        let answer: Value = answer.json().await.unwrap();
        assert_shape(&answer, status);
        assert_eq!(answer["reason"], reason, "{said}: {answer}");
    }
    assert_eq!(rig.db.job_count().await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_takes_a_wrong_turn_is_shown_the_way() {
    let rig = Rig::start().await;
    for (method, path, message, hint) in [
        ("GET", SUBMIT, "does not take GET requests", "Did you mean to make a POST request?"),
        ("DELETE", SUBMIT, "does not take DELETE requests", "the Allow header"),
        ("BREW", SUBMIT, "does not take this method", "the Allow header"),
        ("POST", "/webhook-test/durable-job", "no test webhooks", "use /webhook in place of"),
        ("POST", "/webhook-waiting/231", "waiting executions", "/approvals/"),
        ("POST", "/durable-job", "nothing at this path", "POST /webhook/durable-job"),
    ] {
        let url = format!("{}{path}", rig.http_url);
        let request = rig.http.request(method.parse().unwrap(), url).send();
        let answer: Value = request.await.unwrap().json().await.unwrap();
        assert!(answer["message"].as_str().unwrap().contains(message), "{path}: {answer}");
        assert!(answer["hint"].as_str().unwrap().contains(hint), "{path}: {answer}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_finds_no_room_is_told_so_in_the_same_shape_also_where_mistakes_are_softened() {
    let rig = Rig::start_with(&[("LONGHAUL_REQUESTS_MAX", "1")]).await;
    let half = format!("POST {SUBMIT} HTTP/1.1\r\nhost: x\r\ncontent-length: 99\r\n\r\n{{");
    let look = json!({"job_id": "none", "action": "status"});
    let mut slow = Vec::new();
    let asking = async {
        loop {
            // The one before may itself have met a full room.
            let address = rig.http_url.strip_prefix("http://").unwrap();
            let mut one = TcpStream::connect(address).await.unwrap();
            one.write_all(half.as_bytes()).await.unwrap();
            slow.push(one);
            let url = format!("{}{CONTROL}?lenient=true", rig.http_url);
            let answer = rig.http.post(url).json(&look).send().await.unwrap();
            if answer.status() == 429 {
                return answer;
            }
        }
    };
    let answer = tokio::time::timeout(PATIENCE, asking).await.unwrap();
    assert!(answer.headers().contains_key("retry-after"));
    let answer: Value = answer.json().await.unwrap();
    assert_shape(&answer, 429);
    assert_eq!(answer["reason"], "OVERLOADED");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_webhooks_are_where_n8n_had_them_as_well() {
    let rig = Rig::start_with(&[
        ("LONGHAUL_WEBHOOK_PREFIX", "/flows/in/"),
        ("LONGHAUL_PUBLIC_URL", "https://jobs.example/base"),
    ])
    .await;
    for (at, prefix) in
        ["/flows/in", "/webhook", "/base/flows/in", "/base/webhook"].iter().enumerate()
    {
        let (status, answer) =
            rig.post_as(&format!("{prefix}/durable-job"), "", GOOD.to_owned()).await;
        assert_eq!((status, &answer["created"]), (200, &json!(at == 0)), "{prefix}: {answer}");
        let look = json!({"job_id": "a", "action": "status"});
        let (status, _) = rig.post(&format!("{prefix}/durable-job-control"), &look).await;
        assert_eq!(status, 200, "{prefix}");
    }
    assert_eq!(rig.post_as("/in/durable-job", "", GOOD.to_owned()).await.0, 404);
}
