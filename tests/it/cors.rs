//! Pages of other origins: those that were named may call the webhooks and read the answers, and nobody else.

use reqwest::{Method, Response};
use serde_json::json;

use crate::harness::Rig;

const SUBMIT: &str = "/webhook/durable-job";
const APP: &str = "https://app.example";

async fn ask(rig: &Rig, method: Method, path: &str, headers: &[(&str, &str)]) -> Response {
    let mut request = rig.http.request(method, format!("{}{path}", rig.http_url));
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let body = json!({"job_id": "a", "steps": [{"type": "wait", "duration_seconds": 3600}]});
    request.body(body.to_string()).send().await.unwrap()
}

fn shared_with(answer: &Response) -> Option<&str> {
    answer.headers().get("access-control-allow-origin").map(|value| value.to_str().unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_that_was_named_may_call_and_read_also_what_went_wrong() {
    let rig = Rig::start_with(&[
        ("LONGHAUL_CORS_ORIGINS", "http://localhost:3000, https://App.example:443"),
        ("LONGHAUL_KEY_HEADER", "X-Own-Key"),
    ])
    .await;
    let asks = [
        ("origin", APP),
        ("access-control-request-method", "POST"),
        ("access-control-request-headers", "authorization,content-type"),
    ];
    let preflight = ask(&rig, Method::OPTIONS, SUBMIT, &asks).await;
    assert_eq!((preflight.status().as_u16(), shared_with(&preflight)), (204, Some(APP)));
    let headers = preflight.headers();
    assert_eq!(headers["access-control-max-age"], "300");
    assert_eq!(headers["access-control-allow-methods"], "GET, POST");
    let allowed = headers["access-control-allow-headers"].to_str().unwrap();
    for name in ["authorization", "content-type", "x-api-key", "x-own-key"] {
        assert!(allowed.contains(name), "{allowed}");
    }
    assert!(!headers.contains_key("access-control-allow-credentials"));
    let cross = [("origin", APP), ("sec-fetch-site", "cross-site")];
    for (method, path, expected) in [
        (Method::POST, SUBMIT, 200),
        (Method::POST, "/webhook/durable-job-control", 400),
        (Method::POST, "/webhook/durable-job?wait=x", 400),
        (Method::POST, "/webhook/durable-job?token=x", 401),
        (Method::DELETE, SUBMIT, 405),
        (Method::POST, "/webhook/unknown", 404),
    ] {
        let answer = ask(&rig, method, path, &cross).await;
        let told = (answer.status().as_u16(), shared_with(&answer));
        assert_eq!(told, (expected, Some(APP)), "{path}");
        assert_eq!(answer.headers()["vary"], "Origin", "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_that_was_not_named_may_neither() {
    let rig = Rig::start_with(&[("LONGHAUL_CORS_ORIGINS", APP)]).await;
    for origin in ["https://evil.example", "http://app.example", "https://app.example.evil", "null"]
    {
        let asks = [("origin", origin), ("access-control-request-method", "POST")];
        let preflight = ask(&rig, Method::OPTIONS, SUBMIT, &asks).await;
        assert_eq!((preflight.status().as_u16(), shared_with(&preflight)), (405, None), "{origin}");
        let answer = ask(&rig, Method::POST, SUBMIT, &[("origin", origin)]).await;
        assert_eq!((answer.status().as_u16(), shared_with(&answer)), (403, None), "{origin}");
    }
    assert_eq!(rig.db.job_count().await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_approval_page_is_shared_with_nobody() {
    let rig = Rig::start_with(&[("LONGHAUL_CORS_ORIGINS", APP)]).await;
    let asks = [("origin", APP), ("access-control-request-method", "POST")];
    let preflight = ask(&rig, Method::OPTIONS, "/approvals/x", &asks).await;
    assert_eq!((preflight.status().as_u16(), shared_with(&preflight)), (405, None));
    let pressed = ask(&rig, Method::POST, "/approvals/x", &[("origin", APP)]).await;
    assert_eq!((pressed.status().as_u16(), shared_with(&pressed)), (403, None));
}

#[tokio::test(flavor = "multi_thread")]
async fn where_nobody_was_named_nothing_is_said_of_sharing() {
    let rig = Rig::start().await;
    let asks = [("origin", APP), ("access-control-request-method", "POST")];
    let preflight = ask(&rig, Method::OPTIONS, SUBMIT, &asks).await;
    assert_eq!((preflight.status().as_u16(), shared_with(&preflight)), (405, None));
    assert!(!preflight.headers().contains_key("vary"));
    assert_eq!(ask(&rig, Method::POST, SUBMIT, &[]).await.status(), 200);
}
