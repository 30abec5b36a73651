//! The errors of the provider and their headers, as a client sees them, and what the cache saves.

use serde_json::{Value, json};

use super::{Site, question};

#[tokio::test]
async fn an_error_says_when_to_come_back_in_every_way_there_is() {
    let site = Site::open().await;
    let headers = json!({"anthropic-ratelimit-tokens-remaining": "0"});
    site.break_with(json!({"model": [
        {"status": 429, "retry_after_ms": 1500, "headers": headers, "times": 1},
        {"status": 429, "retry_after_date_seconds": 60, "should_retry": false, "times": 1},
        {"status": 429, "error_code": "enforced_spend_limit_reached", "times": 1},
        {"status": 400, "error_message": "You have reached your specified API usage limits.",
            "times": 1},
    ]}))
    .await;
    let ask = async || site.ask(&question(&json!({}))).send().await.unwrap();
    let (first, second, third, fourth) = (ask().await, ask().await, ask().await, ask().await);
    assert_eq!(first.headers()["retry-after-ms"], "1500");
    assert_eq!(first.headers()["anthropic-ratelimit-tokens-remaining"], "0");
    assert!(second.headers()["retry-after"].to_str().unwrap().ends_with("GMT"));
    assert_eq!(second.headers()["x-should-retry"], "false");
    assert!(!third.headers().contains_key("retry-after"));
    let body: Value = third.json().await.unwrap();
    assert_eq!(body["error"]["details"]["error_code"], "enforced_spend_limit_reached");
    let body: Value = fourth.json().await.unwrap();
    assert!(body["error"]["message"].as_str().unwrap().starts_with("You have reached"));
    assert_eq!(ask().await.status(), 200);
}

#[tokio::test]
async fn a_limit_answers_what_is_beyond_it_with_429_and_tells_what_is_left() {
    let site = Site::open().await;
    let ask = async |per_second: u32| {
        site.break_with(json!({"model": {"per_second": per_second, "matching": "Friday"}})).await;
        site.ask(&question(&json!({}))).send().await.unwrap()
    };
    let (refused, admitted) = (ask(0).await, ask(1000).await);
    assert_eq!((refused.status().as_u16(), admitted.status().as_u16()), (429, 200));
    assert_eq!(refused.headers()["retry-after"], "1");
    assert!(!admitted.headers().contains_key("retry-after"));
    for (response, limit, left) in [(refused, "0", "0"), (admitted, "1000", "999")] {
        assert_eq!(response.headers()["anthropic-ratelimit-requests-limit"], limit);
        assert_eq!(response.headers()["anthropic-ratelimit-requests-remaining"], left);
    }
}

#[tokio::test]
async fn every_door_can_fail() {
    let site = Site::open().await;
    for (door, path) in [
        ("model", "/v1/models"),
        ("batch_list", "/v1/messages/batches"),
        ("batch_get", "/v1/messages/batches/x"),
        ("batch_results", "/v1/messages/batches/x/results"),
    ] {
        site.break_with(json!({"model": {"on": door, "status": 503}})).await;
        let request = site.client.get(format!("{}{path}", site.url)).bearer_auth("k");
        let response = request.header("anthropic-version", "2026-10-21").send().await.unwrap();
        assert_eq!(response.status(), 503, "{door}");
    }
    assert_eq!(site.ask(&question(&json!({}))).send().await.unwrap().status(), 200);
}

#[tokio::test]
async fn what_was_asked_before_is_read_from_the_cache_also_in_a_stream() {
    let site = Site::open().await;
    let system = json!([{"type": "text", "text": "Be brief. ".repeat(400),
        "cache_control": {"type": "ephemeral", "ttl": "1h"}}]);
    let asked = question(&json!({"system": system}));
    let usage = async |body: &Value| {
        let message: Value = site.ask(body).send().await.unwrap().json().await.unwrap();
        message["usage"].clone()
    };
    let (written, read) = (usage(&asked).await, usage(&asked).await);
    assert_eq!(written["cache_creation"]["ephemeral_1h_input_tokens"], 1000);
    assert_eq!(written["cache_creation_input_tokens"], 1000);
    assert_eq!(read["cache_read_input_tokens"], 1000);
    assert_eq!(read["input_tokens"], written["input_tokens"]);
    assert!(read["input_tokens"].as_u64() < Some(30));
    let mut streamed = asked.clone();
    streamed["stream"] = json!(true);
    let events = super::events(&site.ask(&streamed).send().await.unwrap().text().await.unwrap());
    assert_eq!(events[0]["message"]["usage"]["cache_read_input_tokens"], 1000);
}

#[tokio::test]
async fn thinking_is_streamed_and_comes_back_only_as_it_was() {
    let site = Site::open().await;
    let model = "claude-opus-5-5";
    let thinking = json!({"type": "adaptive", "display": "summarized"});
    let asked = question(&json!({"model": model, "thinking": thinking}));
    let message: Value = site.ask(&asked).send().await.unwrap().json().await.unwrap();
    assert_eq!(message["content"][0]["type"], "thinking");
    let turns = json!([asked["messages"][0], {"role": "assistant", "content": message["content"]},
        asked["messages"][0]]);
    let mut again = question(&json!({"model": model, "messages": turns}));
    assert_eq!(site.ask(&again).send().await.unwrap().status(), 200);
    again["messages"][1]["content"][0]["thinking"] = json!("something else");
    assert_eq!(site.ask(&again).send().await.unwrap().status(), 400);
}
