//! What the webhook hears: statuses in every order, texts, taps in both shapes, and again what it did not take.

use super::ear::Ear;
use super::*;

async fn write(site: &Site, writing: Value) -> Value {
    let (status, written) = site.post("whatsapp/inbound", &writing).await;
    assert_eq!(status, 200, "{written}");
    written
}

async fn open_chat(site: &Site) {
    let url = format!("{}/phone?to={PERSON}", site.url);
    assert_eq!(site.client.get(url).send().await.unwrap().status(), 200);
}

/// How far the newest message has come by the journal.
async fn reached(site: &Site) -> Value {
    let kept = site.get("/_sandbox/whatsapp/messages").await;
    kept["messages"].as_array().unwrap().last().unwrap()["status"].clone()
}

#[tokio::test]
async fn a_message_is_sent_and_delivered_and_read_when_its_chat_is_opened() {
    let site = Site::open().await;
    let mut ear = Ear::open(&site).await;
    let id = accepted(&site, &note("请批准 / ok")).await;
    let (_, value) = ear.next().await;
    let sent = &value["statuses"][0];
    assert_eq!((&sent["id"], &sent["status"]), (&json!(id), &json!("sent")));
    assert_eq!(sent["biz_opaque_callback_data"], "job:1");
    assert_eq!(sent["recipient_id"], "15550001111");
    assert_eq!(sent["pricing"]["category"], "utility");
    assert_eq!(value["contacts"][0]["wa_id"], "15550001111");
    assert_eq!(value["metadata"]["phone_number_id"], "106540352242922");
    assert_eq!(ear.status().await["status"], "delivered");
    assert_eq!(reached(&site).await, "delivered");
    open_chat(&site).await;
    assert_eq!(ear.status().await["status"], "read");
    assert_eq!(reached(&site).await, "read");
    open_chat(&site).await;
    assert!(ear.is_silent(), "it is read once");
}

#[tokio::test]
async fn statuses_come_twice_backwards_or_as_a_failure_when_told_to() {
    let site = Site::open().await;
    let mut ear = Ear::open(&site).await;
    for (fault, words) in [
        (json!({"statuses": "repeat"}), &["sent", "sent", "delivered", "delivered"][..]),
        (json!({"statuses": "reverse"}), &["read", "delivered", "sent"]),
        (json!({"fail_code": 131_026}), &["sent", "failed"]),
    ] {
        site.break_with(json!({"whatsapp": fault})).await;
        accepted(&site, &note("hi")).await;
        for word in words {
            let status = ear.status().await;
            assert_eq!(status["status"], *word);
            assert_eq!(status["errors"].is_array(), *word == "failed");
        }
    }
    assert_eq!(reached(&site).await, "failed");
}

#[tokio::test]
async fn a_closed_window_may_show_only_after_the_message_was_accepted() {
    let site = Site::open().await;
    let mut ear = Ear::open(&site).await;
    site.post("settings", &json!({"window": "fail"})).await;
    let id = accepted(&site, &note("hi")).await;
    let (_, value) = ear.next().await;
    let failed = &value["statuses"][0];
    assert_eq!((&failed["id"], &failed["status"]), (&json!(id), &json!("failed")));
    assert_eq!(failed["errors"][0]["code"], 131_047);
    assert_eq!(failed["errors"][0]["title"], "Re-engagement message");
    assert!(value.get("contacts").is_none(), "a failure names no contact");
    accepted(&site, &request_template()).await;
    assert_eq!(ear.status().await["status"], "sent");
}

#[tokio::test]
async fn what_is_not_taken_is_told_again_until_it_is() {
    let site = Site::open().await;
    let mut ear = Ear::open(&site).await;
    ear.answer_with(&[503, 401, 200]);
    let written = write(&site, json!({"from": PERSON, "text": "ok"})).await;
    assert_eq!(written["answered"], json!([503]));
    for _ in 0..3 {
        assert_eq!(ear.message().await.0["id"], written["id"]);
    }
    assert!(ear.is_silent());
    let twice = write(&site, json!({"from": PERSON, "text": "ok", "times": 2})).await;
    assert_eq!(twice["answered"], json!([200, 200]));
    for _ in 0..2 {
        assert_eq!(ear.message().await.0["id"], twice["id"]);
    }
}

#[tokio::test]
async fn a_text_says_who_wrote_it_and_what_it_answers() {
    let site = Site::open().await;
    let mut ear = Ear::open(&site).await;
    let answer =
        json!({"from": "+1 555 000 1111", "text": "批准", "message": "wamid.X", "seconds_ago": 60});
    let written = write(&site, answer).await;
    let (message, contact) = ear.message().await;
    assert_eq!((&message["from"], &message["type"]), (&json!("15550001111"), &json!("text")));
    assert_eq!(message["text"]["body"], "批准");
    assert_eq!(message["context"], json!({"from": "15550783881", "id": "wamid.X"}));
    assert_eq!((&message["id"], &contact["wa_id"]), (&written["id"], &json!("15550001111")));
    assert!(message["timestamp"].as_str().unwrap().parse::<i64>().is_ok());
    assert_eq!(message["from_user_id"], contact["user_id"]);
}

#[tokio::test]
async fn a_tap_has_one_shape_for_a_message_and_another_for_a_template() {
    let site = Site::open().await;
    let mut ear = Ear::open(&site).await;
    site.break_with(json!({"whatsapp": {"statuses": "never"}})).await;
    let id = accepted(&site, &reply_buttons()).await;
    write(&site, json!({"from": PERSON, "tap": "Reject"})).await;
    let (tapped, _) = ear.message().await;
    assert_eq!((&tapped["type"], &tapped["context"]["id"]), (&json!("interactive"), &json!(id)));
    let reply =
        json!({"type": "button_reply", "button_reply": {"id": "apr:7:no", "title": "Reject"}});
    assert_eq!(tapped["interactive"], reply);
    let (template, quick) = quick_template();
    assert_eq!(site.post("whatsapp/templates", &template).await.0, 200);
    let quick = accepted(&site, &quick).await;
    write(&site, json!({"from": PERSON, "tap": "apr:7:ok"})).await;
    let (tapped, _) = ear.message().await;
    assert_eq!((&tapped["type"], &tapped["context"]["id"]), (&json!("button"), &json!(quick)));
    assert_eq!(tapped["button"], json!({"payload": "apr:7:ok", "text": "Approve"}));
    write(&site, json!({"from": PERSON, "tap": "Approve", "message": id})).await;
    assert_eq!(ear.message().await.0["type"], "interactive", "the older message was named");
    accepted(&site, &request_template()).await;
    for (tap, status) in [("Postpone", 404), ("http://none", 404)] {
        let tap = json!({"from": PERSON, "tap": tap});
        assert_eq!(site.post("whatsapp/inbound", &tap).await.0, status);
    }
    for wrong in [
        json!({"from": "me", "text": "hi"}),
        json!({"from": PERSON}),
        json!({"from": PERSON, "text": "hi", "tap": "Approve"}),
        json!({"from": PERSON, "txt": "hi"}),
    ] {
        assert_eq!(site.post("whatsapp/inbound", &wrong).await.0, 400, "{wrong}");
    }
    assert!(ear.is_silent());
}

#[tokio::test]
async fn a_person_who_hides_the_number_is_known_by_a_user_id() {
    let site = Site::open().await;
    let mut ear = Ear::open(&site).await;
    site.post("settings", &json!({"user_id_only": true})).await;
    write(&site, json!({"from": PERSON, "text": "ok"})).await;
    let (message, contact) = ear.message().await;
    assert!(message.get("from").is_none() && contact.get("wa_id").is_none(), "{message}");
    let user_id = message["from_user_id"].as_str().unwrap();
    assert!(user_id.starts_with("US."), "{user_id}");
    let mut by_id = note("hi");
    by_id.as_object_mut().unwrap().remove("to");
    by_id["recipient"] = json!(user_id);
    accepted(&site, &by_id).await;
    let status = ear.status().await;
    assert_eq!(status["recipient_user_id"], user_id);
    assert!(status.get("recipient_id").is_none());
    let kept = site.get(&format!("/_sandbox/whatsapp/messages?to={PERSON}")).await;
    assert_eq!(kept["messages"].as_array().unwrap().len(), 1, "it is the same person's phone");
    write(&site, json!({"from": PERSON, "text": "ok", "user_id_only": false})).await;
    assert_eq!(ear.status().await["status"], "delivered");
    assert_eq!(ear.message().await.0["from"], "15550001111");
}

#[tokio::test]
async fn previews_open_every_link_before_the_message_arrives() {
    let site = Site::open().await;
    let mut ear = Ear::open(&site).await;
    site.post("settings", &json!({"link_previews": true})).await;
    let text = format!("Approve: {}/approvals/in-text", ear.url);
    accepted(&site, &note(&text)).await;
    assert_eq!(ear.status().await["status"], "sent");
    assert_eq!(
        ear.looks(),
        [
            "HEAD in-text WhatsApp/2.22.20.72 A",
            "GET in-text WhatsApp/2.22.20.72 A",
            "HEAD in-text facebookexternalhit/1.1",
            "GET in-text facebookexternalhit/1.1",
        ]
    );
    let kept = site.get("/_sandbox/whatsapp/messages").await;
    let previews = kept["messages"][0]["previews"].as_array().unwrap();
    assert!(previews.len() == 4 && previews.iter().all(|one| one["status"] == 200), "{kept}");
    assert_eq!(ear.status().await["status"], "delivered");
    accepted(&site, &request_template()).await;
    assert_eq!(ear.status().await["status"], "sent");
    assert_eq!(ear.looks().len(), 12, "the links behind two buttons as well");
}

#[tokio::test]
async fn a_template_that_is_stopped_is_told() {
    let site = Site::open().await;
    let mut ear = Ear::open(&site).await;
    let paused = json!({"name": "approval_request", "language": "zh_CN", "status": "PAUSED"});
    site.post("whatsapp/templates", &paused).await;
    let (field, value) = ear.next().await;
    assert_eq!(field, "message_template_status_update");
    assert_eq!(
        (&value["event"], &value["message_template_language"]),
        (&json!("PAUSED"), &json!("zh_CN"))
    );
}

#[tokio::test]
async fn the_page_writes_and_taps_and_goes_back_to_the_chat() {
    let site = Site::open().await;
    let mut ear = Ear::open(&site).await;
    site.break_with(json!({"whatsapp": {"statuses": "never"}})).await;
    let id = accepted(&site, &reply_buttons()).await;
    let submit = async |action: &str, form: &[(&str, &str)]| {
        let form = serde_urlencoded::to_string(form).unwrap();
        let request = site.client.post(format!("{}/phone/{action}", site.url));
        let request = request.header("content-type", "application/x-www-form-urlencoded");
        let response = request.body(form).send().await.unwrap();
        assert!(response.url().path() == "/phone" || !response.status().is_success());
        (response.status().as_u16(), response.text().await.unwrap())
    };
    let tap = [("to", PERSON), ("message", &id), ("tap", "apr:7:ok")];
    assert_eq!(submit("tap", &tap).await.0, 200);
    assert_eq!(ear.message().await.0["interactive"]["button_reply"]["id"], "apr:7:ok");
    let (_, page) = submit("say", &[("to", PERSON), ("text", "thanks & bye")]).await;
    assert_eq!(ear.message().await.0["text"]["body"], "thanks & bye");
    assert!(page.contains("thanks &#38; bye") && page.contains("name=\"tap\""), "{page}");
    assert_eq!(submit("say", &[("to", PERSON), ("text", " ")]).await.0, 200);
    assert_eq!(submit("tap", &[("to", PERSON), ("message", &id), ("tap", "x")]).await.0, 404);
    assert!(ear.is_silent());
    let written = site.get("/_sandbox/whatsapp/inbound?to=15550001111").await;
    assert_eq!(written["inbound"].as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn who_follows_the_page_hears_of_each_change() {
    let site = Site::open().await;
    let first = site.get("/_sandbox/whatsapp/changes").await["changes"].as_u64().unwrap();
    let path = format!("/_sandbox/whatsapp/changes?after={first}");
    let sent = note("hi");
    let (changed, _) = tokio::join!(site.get(&path), accepted(&site, &sent));
    assert!(changed["changes"].as_u64().unwrap() > first);
}
