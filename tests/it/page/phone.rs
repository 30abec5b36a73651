//! The sandbox's phone in a real browser: a list of chats, a chat with its ticks, taps and typed answers.
//!
//! It is used as a person uses a phone; what that person did is read from the sandbox's journals.

use serde_json::{Value, json};

use super::browser::Browser;
use super::fits_a_thumb;
use crate::harness::{PERSON, Rig, Sandbox, http_client};

const OTHER: &str = "+5511987654321";

/// Sends as a server does.
async fn send(sandbox: &Sandbox, to: &str, kind: &str, part: Value) {
    let mut body = json!({"messaging_product": "whatsapp", "to": to, "type": kind});
    body[kind] = part;
    let url = format!("{}/v26.0/106540352242922/messages", sandbox.url);
    let answer = http_client().post(url).bearer_auth("token").json(&body).send().await.unwrap();
    assert_eq!(answer.status(), 200, "{body}");
}

async fn say(sandbox: &Sandbox, to: &str, text: &str) {
    send(sandbox, to, "text", json!({"body": text})).await;
}

async fn ask(sandbox: &Sandbox) {
    let button =
        |id: &str, title: &str| json!({"type": "reply", "reply": {"id": id, "title": title}});
    let buttons = [button("apr:7:ok", "Approve"), button("apr:7:no", "Reject")];
    let part = json!({"type": "button", "header": {"type": "text", "text": "Job 7"},
        "body": {"text": "Ship the *weekly* report?"}, "action": {"buttons": buttons}});
    send(sandbox, PERSON, "interactive", part).await;
}

/// A template with two links.
async fn request(sandbox: &Sandbox, to: &str, language: &str) {
    let text = |text: &str| json!({"type": "text", "text": text});
    let link = |index: &str| json!({"type": "button", "sub_type": "url", "index": index, "parameters": [text("t0ken")]});
    let values = [text("nightly"), text("Ship it?"), text("17:30 UTC")];
    let components = json!([{"type": "body", "parameters": values}, link("0"), link("1")]);
    let part = json!({"name": "approval_request", "language": {"code": language}, "components": components});
    send(sandbox, to, "template", part).await;
}

/// What the person wrote, as the sandbox has it.
async fn written(sandbox: &Sandbox) -> Vec<String> {
    let url = format!("{}/_sandbox/whatsapp/inbound", sandbox.url);
    let found: Value = http_client().get(url).send().await.unwrap().json().await.unwrap();
    let found = found["inbound"].as_array().unwrap();
    found.iter().map(|one| one["text"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_person_chooses_a_chat_taps_and_answers() {
    let rig = Rig::without_server(&[]).await;
    let sandbox = &rig.sandbox;
    sandbox.set(json!({"status_ms": 0})).await;
    request(sandbox, OTHER, "pt_BR").await;
    ask(sandbox).await;
    let browser = Browser::start().await;
    browser.open(&format!("{}/phone", sandbox.url)).await;
    browser.appears("nav em").await;
    assert!(browser.text().await.contains(OTHER), "a list of chats");
    browser.is_open_to_everybody("phone-list").await;

    browser.find("nav a[href*='15550100']").await.click().await.unwrap();
    // Opening the chat reads it, and the tick says so by itself.
    browser.appears("article [aria-label=read]").await;
    assert!(!browser.text().await.contains(OTHER), "a phone shows one thing at a time");
    fits_a_thumb(&browser).await;
    browser.find("article button").await.click().await.unwrap();
    browser.appears("article.own").await;
    assert_eq!(written(sandbox).await, ["Approve"]);
    browser.find("input[name=text]").await.send_keys("批准").await.unwrap();
    browser.find(".write button").await.click().await.unwrap();
    browser.appears("article.own:nth-of-type(3)").await;
    assert_eq!(written(sandbox).await, ["Approve", "批准"]);

    // What is being typed outlives the next message, which comes by itself.
    browser.find("input[name=text]").await.send_keys("half a sent").await.unwrap();
    request(sandbox, PERSON, "en_US").await;
    browser.appears("article:nth-of-type(4) a.button").await;
    let typed = browser.measure("return document.querySelector('input[name=text]').value").await;
    assert_eq!(typed, "half a sent");
    sandbox.break_whatsapp(json!({"fail_code": 131_026})).await;
    say(sandbox, PERSON, "This one *never* arrives: https://x.example/lost").await;
    browser.appears("article .failed").await;
    assert!(browser.text().await.contains("131026"), "it says why");
    for width in [320, 390, 1280] {
        browser.fits(width).await;
        browser.shoot(&format!("phone-chat-{width}")).await;
    }
    browser.resize(390).await;

    browser.find("a.back").await.click().await.unwrap();
    browser.appears("main:not(.open) nav a").await;
    assert_eq!(browser.complaints().await, Vec::<String>::new());
    browser.close().await;
}
