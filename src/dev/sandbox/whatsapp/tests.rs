//! The service as a client sees it: tokens, templates, windows, limits and errors.
//! Each test has a sandbox of its own; nothing sleeps. What its webhook sees is tested beside the webhook.

use serde_json::{Value, json};

use super::super::tests::{Site, note};

pub(super) const PERSON: &str = "+15550001111";

/// Sends; answers the status and the JSON.
async fn send(site: &Site, body: &Value) -> (u16, Value) {
    let response = site.write(body).send().await.unwrap();
    (response.status().as_u16(), response.json().await.unwrap())
}

/// Sends, which has to be accepted; answers the id.
pub(super) async fn accepted(site: &Site, body: &Value) -> String {
    let (status, answer) = send(site, body).await;
    assert_eq!(status, 200, "{answer}");
    answer["messages"][0]["id"].as_str().unwrap().to_owned()
}

/// The status and the code of a refusal.
async fn refused(site: &Site, body: &Value) -> (u16, u64) {
    let (status, answer) = send(site, body).await;
    let error = &answer["error"];
    assert_eq!(error["type"], "OAuthException", "{answer}");
    assert!(error["fbtrace_id"].is_string());
    (status, error["code"].as_u64().unwrap())
}

fn message(kind: &str, part: Value) -> Value {
    let mut body = json!({"messaging_product": "whatsapp", "to": PERSON, "type": kind});
    body[kind] = part;
    body
}

pub(super) fn reply_buttons() -> Value {
    let button =
        |id: &str, title: &str| json!({"type": "reply", "reply": {"id": id, "title": title}});
    message(
        "interactive",
        json!({"type": "button", "body": {"text": "Ship it?"}, "action": {"buttons": [
            button("apr:7:ok", "Approve"), button("apr:7:no", "Reject")]}}),
    )
}

pub(super) fn request_template() -> Value {
    let text = |text: &str| json!({"type": "text", "text": text});
    let link = |index: &str, token: &str| json!({"type": "button", "sub_type": "url", "index": index, "parameters": [text(token)]});
    message(
        "template",
        json!({"name": "approval_request", "language": {"code": "en_US"}, "components": [
            {"type": "body", "parameters": [text("nightly"), text("Ship it?"), text("17:30 UTC")]},
            link("0", "t0ken-a"), link("1", "t0ken-b")]}),
    )
}

/// A template whose buttons answer.
pub(super) fn quick_template() -> (Value, Value) {
    let template = json!({"name": "quick", "language": "en_US", "components": [
        {"type": "BODY", "text": "Ship it?"},
        {"type": "BUTTONS", "buttons": [
            {"type": "QUICK_REPLY", "text": "Approve"}, {"type": "QUICK_REPLY", "text": "Reject"}]}]});
    let payload = |index: &str, payload: &str| {
        json!({"type": "button", "sub_type": "quick_reply", "index": index,
            "parameters": [{"type": "payload", "payload": payload}]})
    };
    let sent = message(
        "template",
        json!({"name": "quick", "language": {"code": "en_US"},
            "components": [payload("0", "apr:7:ok"), payload("1", "apr:7:no")]}),
    );
    (template, sent)
}

#[tokio::test]
async fn any_version_of_the_graph_takes_messages_and_nothing_else_does() {
    let site = Site::open().await;
    for (version, status) in [("v19.0", 200), ("v26.0", 200), ("v31.2", 200), ("v26", 400)] {
        let url = format!("{}/{version}/106540352242922/messages", site.url);
        let response =
            site.client.post(url).bearer_auth("t").json(&note("hi")).send().await.unwrap();
        assert_eq!(response.status(), status, "{version}");
        if status == 200 {
            assert_eq!(response.headers()["facebook-api-version"], version);
        }
    }
    let unknown = format!("{}/v26.0/me/messages", site.url);
    let unknown = site.client.post(unknown).bearer_auth("t").json(&note("hi")).send().await;
    let unknown: Value = unknown.unwrap().json().await.unwrap();
    assert_eq!(
        (&unknown["error"]["code"], &unknown["error"]["error_subcode"]),
        (&json!(100), &json!(33))
    );
}

#[tokio::test]
async fn only_the_right_token_may_send_and_an_old_one_is_told_so() {
    let site = Site::open().await;
    let tokens = json!({"token": "EAAnew", "expired_token": "EAAold"});
    assert_eq!(site.post("settings", &tokens).await.0, 200);
    let url = format!("{}/v26.0/1/messages", site.url);
    for (authorization, status, subcode) in [
        ("Bearer EAAnew", 200, Value::Null),
        ("Bearer EAAold", 401, json!(463)),
        ("Bearer EAAnewer", 401, Value::Null),
        ("EAAnew", 401, Value::Null),
        ("Bearer ", 401, Value::Null),
    ] {
        let request = site.client.post(&url).header("authorization", authorization);
        let response = request.json(&note("hi")).send().await.unwrap();
        assert_eq!(response.status(), status, "{authorization}");
        assert_eq!(response.headers().contains_key("www-authenticate"), status == 401);
        let answer: Value = response.json().await.unwrap();
        assert_eq!(answer["error"]["error_subcode"], subcode, "{authorization}");
        assert!(status == 200 || answer["error"]["code"] == 190);
    }
}

#[tokio::test]
async fn a_person_is_written_to_by_a_user_id() {
    let site = Site::open().await;
    let mut by_id = note("hi");
    by_id.as_object_mut().unwrap().remove("to");
    by_id["recipient"] = json!("US.13491208655302741918");
    let (status, answer) = send(&site, &by_id).await;
    assert_eq!(status, 200);
    assert_eq!(answer["contacts"][0]["user_id"], "US.13491208655302741918");
    assert!(answer["contacts"][0].get("wa_id").is_none());
    let kept = site.get("/_sandbox/whatsapp/messages?to=US.13491208655302741918").await;
    assert_eq!(kept["messages"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn a_template_is_shown_with_its_values_and_leads_to_this_product() {
    let site = Site::open().await;
    site.post("settings", &json!({"public_url": "https://x.example/lh"})).await;
    let (status, answer) = send(&site, &request_template()).await;
    assert_eq!((status, &answer["messages"][0]["message_status"]), (200, &json!("accepted")));
    let kept = site.get("/_sandbox/whatsapp/messages").await;
    let text = kept["messages"][0]["text"].as_str().unwrap();
    assert!(text.contains("*nightly*") && text.contains("Open until 17:30 UTC."), "{text}");
    let expected = json!([
        {"label": "Approve", "url": "https://x.example/lh/approvals/t0ken-a"},
        {"label": "Reject", "url": "https://x.example/lh/approvals/t0ken-b"},
    ]);
    assert_eq!(kept["messages"][0]["buttons"], expected);
    let paused = json!({"name": "approval_request", "status": "PAUSED"});
    assert_eq!(site.post("whatsapp/templates", &paused).await.0, 200);
    assert_eq!(refused(&site, &request_template()).await, (400, 132_015));
    assert_eq!(site.post("whatsapp/templates", &json!({"name": "x"})).await.0, 400);
    let url = format!("{}/_sandbox/whatsapp/templates", site.url);
    site.client.delete(url).send().await.unwrap();
    site.break_with(json!({"whatsapp": {"message_status": "held_for_quality_assessment"}})).await;
    let (_, answer) = send(&site, &request_template()).await;
    assert_eq!(answer["messages"][0]["message_status"], "held_for_quality_assessment");
}

#[tokio::test]
async fn templates_are_listed_as_the_graph_lists_them() {
    let site = Site::open().await;
    site.post("settings", &json!({"token": "EAA"})).await;
    let list = async |query: &str, token: &str| {
        let url = format!("{}/v26.0/102290129340398/message_templates{query}", site.url);
        site.client.get(url).bearer_auth(token).send().await.unwrap().json::<Value>().await.unwrap()
    };
    assert_eq!(list("", "no").await["error"]["code"], 190);
    let all = list("", "EAA").await;
    assert_eq!(all["data"].as_array().unwrap().len(), 6);
    let some = list("?name=approval_request&language=pt_BR&status=APPROVED", "EAA").await;
    let [one] = &some["data"].as_array().unwrap()[..] else { panic!("{some}") };
    assert_eq!((&one["status"], &one["category"]), (&json!("APPROVED"), &json!("UTILITY")));
    let url = &one["components"][1]["buttons"][0]["url"];
    assert_eq!(url, "http://127.0.0.1:8080/approvals/{{1}}");
}

#[tokio::test]
async fn a_closed_window_refuses_what_is_no_template_until_the_person_writes() {
    let site = Site::open().await;
    accepted(&site, &note("while nobody closes the window")).await;
    site.post("settings", &json!({"window": "refuse"})).await;
    assert_eq!(refused(&site, &note("hi")).await, (400, 131_047));
    assert_eq!(refused(&site, &reply_buttons()).await, (400, 131_047));
    accepted(&site, &request_template()).await;
    let (status, _) =
        site.post("whatsapp/inbound", &json!({"from": PERSON, "text": "Hello"})).await;
    assert_eq!(status, 200);
    let tap = accepted(&site, &reply_buttons()).await;
    site.post("clock", &json!({"advance_seconds": 86_400})).await;
    assert_eq!(refused(&site, &note("hi")).await, (400, 131_047));
    let tap = json!({"from": PERSON, "tap": "Approve", "message": tap});
    assert_eq!(site.post("whatsapp/inbound", &tap).await.0, 200);
    accepted(&site, &note("a tap opens it too")).await;
    let mut other = note("another person's window");
    other["to"] = json!("+15550002222");
    assert_eq!(refused(&site, &other).await, (400, 131_047));
}

#[tokio::test]
async fn a_burst_to_one_person_is_refused_until_it_is_paid_back() {
    let site = Site::open().await;
    site.post("settings", &json!({"pair_limit": true})).await;
    for n in 0..45 {
        accepted(&site, &note(&format!("{n}"))).await;
    }
    assert_eq!(refused(&site, &note("one too many")).await, (400, 131_056));
    let mut other = note("another person");
    other["to"] = json!("+15550002222");
    accepted(&site, &other).await;
    site.post("clock", &json!({"advance_seconds": 270})).await;
    accepted(&site, &note("paid back")).await;
}

#[tokio::test]
async fn every_error_can_be_scripted_with_what_belongs_to_it() {
    let site = Site::open().await;
    site.break_with(json!({"whatsapp": [
        {"code": 190, "subcode": 463, "times": 1},
        {"code": 80007, "retry_after_seconds": 7, "regain_access_minutes": 3, "times": 1},
        {"code": 131_026, "details": "Not on WhatsApp.", "times": 1},
        {"status": 502, "times": 1},
    ]}))
    .await;
    let ask = async || site.write(&note("hi")).send().await.unwrap();
    let expired: Value = ask().await.json().await.unwrap();
    assert_eq!(expired["error"]["error_subcode"], 463);
    let limited = ask().await;
    assert_eq!(limited.headers()["retry-after"], "7");
    let usage = limited.headers()["x-business-use-case-usage"].to_str().unwrap();
    assert!(usage.contains(r#""estimated_time_to_regain_access":3"#), "{usage}");
    let undeliverable: Value = ask().await.json().await.unwrap();
    assert_eq!(undeliverable["error"]["error_data"]["details"], "Not on WhatsApp.");
    assert_eq!(ask().await.status(), 502);
    assert_eq!(ask().await.status(), 200);
    assert_eq!(site.break_with(json!({"whatsapp": {"message_status": "lost"}})).await, 400);
}
