//! The webhooks under each of their prefixes, called in every way: none lets in who has not what it needs.

use longhaul::door::table::need_of_route;
use reqwest::Method;
use serde_json::{Value, json};

use super::{House, SEEN, assert_tells_nothing, enough, shown};

const PREFIXES: [&str; 4] = ["/webhook", "/flows/in", "/base/webhook", "/base/flows/in"];

#[tokio::test(flavor = "multi_thread")]
async fn under_no_prefix_and_by_no_method_is_anybody_let_in_who_has_not_what_it_needs() {
    let house = House::open_with(&[
        ("LONGHAUL_WEBHOOK_PREFIX", "flows/in"),
        ("LONGHAUL_PUBLIC_URL", "http://127.0.0.1:8080/base"),
    ])
    .await;
    let before = house.every_row().await;
    let paths = PREFIXES.map(|prefix| {
        ["durable-job", "durable-job-control"].map(|name| (format!("{prefix}/{name}"), name))
    });
    for (path, name) in paths.into_iter().flatten() {
        let need = need_of_route(&format!("/webhook/{name}"));
        let enough = enough(need).expect("a webhook needs something");
        let nobodies = house.nobodies.iter();
        let mut tries: Vec<_> =
            nobodies.map(|one| (one.headers.clone(), one.http, one.reason)).collect();
        for (_, key) in house.keys.iter().filter(|(scope, _)| !enough.contains(scope)) {
            tries.push((shown(key), 403, "SCOPE_REQUIRED"));
        }
        for (headers, status, reason) in tries {
            for method in [Method::POST, Method::GET, Method::HEAD, Method::PUT, Method::OPTIONS] {
                let what = format!("{method} {path} {reason}");
                let (got, text) = call(&house, &method, &path, &headers).await;
                assert_eq!(got, status, "{what}");
                assert_tells_nothing(&text, &house);
                if method != Method::HEAD {
                    let told: Value = serde_json::from_str(&text).unwrap();
                    assert_eq!(told["reason"], reason, "{what}");
                }
            }
        }
        for key in enough.iter().map(|scope| &house.keys[scope]) {
            // It is the webhook itself that refuses what it does not take.
            let (got, text) = house.post(&path, &json!({}), &shown(key)).await;
            assert_eq!(got, 400, "{path}: {text}");
            assert_eq!(call(&house, &Method::PUT, &path, &shown(key)).await.0, 405, "{path}");
        }
    }
    assert_eq!(house.every_row().await, before);
}

/// Calls a path, with a body where there can be one.
async fn call(
    house: &House,
    method: &Method,
    path: &str,
    headers: &[(&str, String)],
) -> (u16, String) {
    let url = format!("{}{path}", house.client.http_url);
    let mut request = house.client.http.request(method.clone(), url);
    if [Method::POST, Method::PUT].contains(method) {
        request = request.json(&json!({"job_id": SEEN, "action": "cancel"}));
    }
    for (name, value) in headers {
        request = request.header(*name, value);
    }
    let answer = request.send().await.unwrap();
    (answer.status().as_u16(), answer.text().await.unwrap())
}
