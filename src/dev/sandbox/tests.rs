//! The sandbox as a client sees it: served on a free port and driven over HTTP.
//! Each test has a sandbox of its own; nothing sleeps, what must be waited for is looked for in a
//! journal.

use std::io;

use reqwest::{Client, RequestBuilder, Response, StatusCode};
use serde_json::{Value, json};
use tokio::{net::TcpListener, task::JoinHandle};
use tokio_util::sync::{CancellationToken, DropGuard};

/// A sandbox and who talks to it.
pub(super) struct Site {
    pub(super) url: String,
    pub(super) client: Client,
    serving: JoinHandle<io::Result<()>>,
    stop: DropGuard,
}

impl Site {
    pub(super) async fn open() -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let stop = CancellationToken::new();
        let serving = tokio::spawn(super::serve(listener, stop.clone()));
        let client = Client::builder().no_proxy().build().unwrap();
        Self { url, client, serving, stop: stop.drop_guard() }
    }

    pub(super) fn ask(&self, body: &Value) -> RequestBuilder {
        self.client
            .post(format!("{}/v1/messages", self.url))
            .header("x-api-key", "sk-secret")
            .header("anthropic-version", "2026-10-21")
            .json(body)
    }

    pub(super) fn write(&self, body: &Value) -> RequestBuilder {
        let url = format!("{}/v26.0/106540352242922/messages", self.url);
        self.client.post(url).bearer_auth("token").json(body)
    }

    /// Posts to a door of scripts; answers the status and the JSON.
    pub(super) async fn post(&self, door: &str, body: &Value) -> (u16, Value) {
        let url = format!("{}/_sandbox/{door}", self.url);
        let response = self.client.post(url).json(body).send().await.unwrap();
        (response.status().as_u16(), response.json().await.unwrap())
    }

    pub(super) async fn break_with(&self, script: Value) -> StatusCode {
        let url = format!("{}/_sandbox/faults", self.url);
        self.client.post(url).json(&script).send().await.unwrap().status()
    }

    pub(super) async fn get(&self, path: &str) -> Value {
        let url = format!("{}{path}", self.url);
        self.client.get(url).send().await.unwrap().json().await.unwrap()
    }
}

pub(super) fn question(more: &Value) -> Value {
    let text = "Name three risks of a Friday deployment.";
    let mut body = json!({"model": "claude-haiku-5-5", "max_tokens": 500,
        "messages": [{"role": "user", "content": text}]});
    for (name, value) in more.as_object().unwrap() {
        body[name] = value.clone();
    }
    body
}

pub(super) fn note(body: &str) -> Value {
    json!({"messaging_product": "whatsapp", "recipient_type": "individual", "to": "+15550001111",
        "type": "text", "text": {"body": body}, "biz_opaque_callback_data": "job:1"})
}

pub(super) async fn refusal(response: Response) -> (u16, String, String) {
    let status = response.status().as_u16();
    let id = response.headers()["request-id"].to_str().unwrap().to_owned();
    let body: Value = response.json().await.unwrap();
    assert_eq!((&body["type"], &body["request_id"]), (&json!("error"), &json!(id)));
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    (status, text(&body["error"]["type"]), text(&body["error"]["message"]))
}

fn events(stream: &str) -> Vec<Value> {
    let event = |block: &str| {
        let (name, data) = block.split_once("\ndata: ").unwrap();
        let data: Value = serde_json::from_str(data).unwrap();
        assert_eq!(name.strip_prefix("event: "), data["type"].as_str());
        data
    };
    stream.split_terminator("\n\n").map(event).collect()
}

#[tokio::test]
async fn a_question_is_answered_and_journaled_without_its_key() {
    let site = Site::open().await;
    let response = site.ask(&question(&json!({}))).send().await.unwrap();
    let id = response.headers()["request-id"].to_str().unwrap().to_owned();
    let message: Value = response.json().await.unwrap();
    assert_eq!(message["stop_reason"], "end_turn");
    assert!(message["usage"]["output_tokens"].as_u64() > Some(10));
    let journal = site.get("/_sandbox/model/requests?outcome=answered&at_least=1").await;
    let entry = &journal["requests"][0];
    assert_eq!((&entry["request_id"], &entry["status"]), (&json!(id), &json!(200)));
    assert_eq!(entry["body"], question(&json!({})));
    assert!(!journal.to_string().contains("sk-secret"));
}

#[tokio::test]
async fn a_stream_has_the_events_in_the_documented_order() {
    let site = Site::open().await;
    let response = site.ask(&question(&json!({"stream": true}))).send().await.unwrap();
    let events = events(&response.text().await.unwrap());
    let mut names: Vec<&str> = events.iter().map(|event| event["type"].as_str().unwrap()).collect();
    assert!(names.iter().filter(|name| **name == "content_block_delta").count() > 3);
    names.dedup();
    assert_eq!(
        names,
        [
            "message_start",
            "content_block_start",
            "ping",
            "content_block_delta",
            "content_block_stop",
            "message_delta",
            "message_stop",
        ]
    );
}

#[tokio::test]
async fn what_the_provider_refuses_is_refused_in_its_words() {
    let site = Site::open().await;
    let bare = site.client.post(format!("{}/v1/messages", site.url)).json(&question(&json!({})));
    let (status, kind, _) = refusal(bare.send().await.unwrap()).await;
    assert_eq!((status, kind.as_str()), (401, "authentication_error"));
    let prefill = json!([{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]);
    for (more, status, message) in [
        (json!({"max_token": 5}), 400, "max_token: Extra inputs are not permitted"),
        (json!({"max_tokens": -1}), 400, "max_tokens: Input should be greater than or equal to 0"),
        (json!({"model": "claude-9"}), 404, "model: claude-9"),
        (json!({"temperature": 1.0}), 400, "temperature: "),
        (json!({"messages": []}), 400, "messages: at least one message is required"),
        (json!({"messages": prefill}), 400, "This model does not support assistant message"),
    ] {
        let found = refusal(site.ask(&question(&more)).send().await.unwrap()).await;
        assert_eq!(found.0, status);
        assert!(found.2.starts_with(message), "{}", found.2);
    }
}

#[tokio::test]
async fn a_web_search_is_shown_cited_and_counted_and_can_be_sent_back() {
    let site = Site::open().await;
    let tools = json!([{"type": "web_search_20260318", "name": "web_search",
        "allowed_callers": ["direct"]}]);
    let asked = question(&json!({"tools": tools}));
    let message: Value = site.ask(&asked).send().await.unwrap().json().await.unwrap();
    let content = message["content"].as_array().unwrap();
    assert_eq!(content[0]["type"], "server_tool_use");
    assert_eq!(content[1]["content"].as_array().unwrap().len(), 2);
    assert_eq!(content[2]["citations"][0]["type"], "web_search_result_location");
    assert_eq!(message["usage"]["server_tool_use"]["web_search_requests"], 1);
    let mut turns = json!([asked["messages"][0], {"role": "assistant", "content": content},
        asked["messages"][0]]);
    let again = question(&json!({"messages": turns, "stream": true, "tools": tools}));
    let streamed = events(&site.ask(&again).send().await.unwrap().text().await.unwrap());
    assert!(streamed.iter().any(|event| event["delta"]["type"] == "citations_delta"));
    turns[1]["content"][1]["content"][0]["encrypted_content"] = json!("changed");
    let changed = site.ask(&question(&json!({"messages": turns}))).send().await.unwrap();
    assert_eq!(refusal(changed).await.0, 400);
}

#[tokio::test]
async fn a_scripted_failure_strikes_as_often_as_it_says() {
    let site = Site::open().await;
    let script = json!({"model": {"status": 529, "retry_after_seconds": 2, "times": 2}});
    assert_eq!(site.break_with(script).await, 200);
    for status in [529, 529, 200] {
        let response = site.ask(&question(&json!({}))).send().await.unwrap();
        assert_eq!(response.status(), status);
        assert_eq!(response.headers().contains_key("retry-after"), status == 529);
    }
    assert_eq!(site.break_with(json!({"model": {"sttus": 529}})).await, 400);
}

#[tokio::test]
async fn a_held_request_waits_for_the_faults_to_be_replaced() {
    let site = Site::open().await;
    site.break_with(json!({"model": {"hold": true, "matching": "Friday"}})).await;
    let asking = tokio::spawn(site.ask(&question(&json!({}))).send());
    let gone = tokio::spawn(site.ask(&question(&json!({"stream": true}))).send());
    let held = site.get("/_sandbox/model/requests?outcome=held&at_least=2").await;
    assert_eq!(held["requests"].as_array().unwrap().len(), 2);
    gone.abort();
    let lost = site.get("/_sandbox/model/requests?outcome=disconnected&at_least=1").await;
    assert_eq!(lost["requests"][0]["body"]["stream"], true);
    site.break_with(json!({"model": null})).await;
    assert_eq!(asking.await.unwrap().unwrap().status(), 200);
}

#[tokio::test]
async fn it_stops_when_told_even_while_a_request_is_held() {
    let site = Site::open().await;
    site.break_with(json!({"model": {"hold": true}})).await;
    let asking = tokio::spawn(site.ask(&question(&json!({}))).send());
    site.get("/_sandbox/model/requests?outcome=held&at_least=1").await;
    drop(site.stop);
    site.serving.await.unwrap().unwrap();
    assert!(asking.await.unwrap().is_err());
}

#[tokio::test]
async fn a_stream_can_break_in_every_way_there_is() {
    let site = Site::open().await;
    let asked = question(&json!({"stream": true}));
    for (fault, complete) in [("cut_after_events", false), ("end_after_events", true)] {
        site.break_with(json!({"model": {fault: 4}})).await;
        let mut response = site.ask(&asked).send().await.unwrap();
        let mut read = Vec::new();
        let ended = loop {
            match response.chunk().await {
                Ok(Some(chunk)) => read.extend(chunk),
                Ok(None) => break true,
                Err(_) => break false,
            }
        };
        assert_eq!(ended, complete, "{fault}");
        assert_eq!(events(std::str::from_utf8(&read).unwrap()).len(), 4, "{fault}");
    }
    site.break_with(json!({"model": {"error_after_events": 3}})).await;
    let broken = events(&site.ask(&asked).send().await.unwrap().text().await.unwrap());
    assert_eq!(broken[3]["error"]["type"], "overloaded_error");
    site.break_with(json!({"model": {"silent_after_events": 2}})).await;
    let mut silent = site.ask(&asked).send().await.unwrap();
    assert!(silent.chunk().await.unwrap().is_some());
    drop(silent);
    let lost = site.get("/_sandbox/model/requests?outcome=disconnected&at_least=1").await;
    assert_eq!(lost["requests"][0]["seq"], 4);
    site.break_with(json!({"model": {"stop_reason": "refusal"}})).await;
    let refused: Value =
        site.ask(&question(&json!({}))).send().await.unwrap().json().await.unwrap();
    assert_eq!(refused["stop_details"]["type"], "refusal");
}

#[tokio::test]
async fn a_text_reaches_the_phone_and_a_wrong_one_does_not() {
    let site = Site::open().await;
    let text = "请批准：http://127.0.0.1:8080/approvals/abc";
    let sent: Value = site.write(&note(text)).send().await.unwrap().json().await.unwrap();
    let id = sent["messages"][0]["id"].as_str().unwrap();
    assert!(id.starts_with("wamid.HBgL"));
    assert_eq!(sent["contacts"][0]["wa_id"], "15550001111");
    let refused = site.write(&note(&"a".repeat(4097))).send().await.unwrap();
    let error: Value = refused.json().await.unwrap();
    assert_eq!(error["error"]["code"], 100);
    let bare = site.client.post(format!("{}/v26.0/1/messages", site.url)).json(&note("hi"));
    let bare = bare.send().await.unwrap();
    assert_eq!(bare.status(), 401);
    assert_eq!(bare.json::<Value>().await.unwrap()["error"]["code"], 190);
    let journal = site.get("/_sandbox/whatsapp/messages?to=+15550001111").await;
    assert_eq!(journal["messages"].as_array().unwrap().len(), 1);
    let entry = &journal["messages"][0];
    assert_eq!((&entry["id"], &entry["text"]), (&json!(id), &json!(text)));
    assert_eq!(entry["biz_opaque_callback_data"], "job:1");
    let page = site.client.get(format!("{}/?to=+15550001111", site.url)).send().await.unwrap();
    assert!(page.text().await.unwrap().contains("href=\"http://127.0.0.1:8080/approvals/abc\""));
}

#[tokio::test]
async fn an_answer_can_be_lost_before_and_after_the_message_was_accepted() {
    let site = Site::open().await;
    site.break_with(json!({"whatsapp": [
        {"drop": "before", "times": 1}, {"drop": "after", "times": 1},
        {"code": 131_056, "recipient": "+1 555 000 1111"},
    ]}))
    .await;
    assert!(site.write(&note("one")).send().await.is_err());
    assert!(site.write(&note("two")).send().await.is_err());
    let third = site.write(&note("three")).send().await.unwrap();
    assert_eq!(third.json::<Value>().await.unwrap()["error"]["code"], 131_056);
    let journal = site.get("/_sandbox/whatsapp/messages").await;
    assert_eq!(journal["messages"].as_array().unwrap().len(), 1);
    assert_eq!(journal["messages"][0]["text"], "two");
    let refused = site.get("/_sandbox/whatsapp/messages?outcome=failed").await;
    assert_eq!(refused["messages"][1]["error_code"], 131_056);
}

#[tokio::test]
async fn models_are_listed_in_pages_and_tokens_are_counted() {
    let site = Site::open().await;
    let get = |path: &str| {
        let request = site.client.get(format!("{}{path}", site.url));
        request.header("x-api-key", "k").header("anthropic-version", "2023-06-01").send()
    };
    let page: Value = get("/v1/models?limit=2").await.unwrap().json().await.unwrap();
    assert_eq!((page["data"].as_array().unwrap().len(), &page["has_more"]), (2, &json!(true)));
    let rest = format!("/v1/models?after_id={}", page["last_id"].as_str().unwrap());
    let rest: Value = get(&rest).await.unwrap().json().await.unwrap();
    assert_ne!(rest["first_id"], page["last_id"]);
    let model: Value = get("/v1/models/claude-haiku-4-5").await.unwrap().json().await.unwrap();
    assert_eq!(model["id"], "claude-haiku-4-5-20251001");
    let mut body = question(&json!({}));
    body.as_object_mut().unwrap().remove("max_tokens");
    let url = format!("{}/v1/messages/count_tokens", site.url);
    let request = site.client.post(url).bearer_auth("k").header("anthropic-version", "2026-10-21");
    let counted: Value = request.json(&body).send().await.unwrap().json().await.unwrap();
    assert!(counted["input_tokens"].as_u64() > Some(5));
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
    let mut warm = asked.clone();
    warm["max_tokens"] = json!(0);
    let (written, read) = (usage(&warm).await, usage(&asked).await);
    assert_eq!(written["output_tokens"], 0);
    assert_eq!(written["cache_creation"]["ephemeral_1h_input_tokens"], 1000);
    assert_eq!(written["cache_creation_input_tokens"], 1000);
    assert_eq!(read["cache_read_input_tokens"], 1000);
    assert_eq!(read["input_tokens"], written["input_tokens"]);
    assert!(read["input_tokens"].as_u64() < Some(30));
    let mut streamed = asked.clone();
    streamed["stream"] = json!(true);
    let events = events(&site.ask(&streamed).send().await.unwrap().text().await.unwrap());
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
