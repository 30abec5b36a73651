//! What the webhook hears: statuses in every order, texts, taps in both shapes, and again what it did not take.
//! Each test has a webhook of its own, which checks who signed what it is told, and answers as it is told to.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
};

use axum::{
    Router,
    body::Bytes,
    extract::{Path, State},
    http::{HeaderMap, Method, StatusCode},
    routing::{any, post},
};
use tokio::{net::TcpListener, sync::mpsc, time::timeout};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::{
    super::{
        super::tests::{Site, note},
        tests::{PERSON, accepted, quick_template, reply_buttons, request_template},
    },
    *,
};
use crate::notify::signature::is_signed;

const SECRET: &str = "the app's secret";

/// The webhook of one test, and a page that links lead to.
struct Ear {
    url: String,
    told: mpsc::UnboundedReceiver<Value>,
    answers: Arc<Mutex<VecDeque<u16>>>,
    looked: Arc<Mutex<Vec<String>>>,
    _stop: DropGuard,
}

#[derive(Clone)]
struct Shared {
    told: mpsc::UnboundedSender<Value>,
    answers: Arc<Mutex<VecDeque<u16>>>,
    looked: Arc<Mutex<Vec<String>>>,
}

impl Ear {
    /// Listens to this sandbox, whose statuses come at once from now on.
    async fn open(site: &Site) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (told, receiver) = mpsc::unbounded_channel();
        let (answers, looked) = (Arc::default(), Arc::default());
        let shared = Shared { told, answers: Arc::clone(&answers), looked: Arc::clone(&looked) };
        let router = Router::new()
            .route("/webhook/whatsapp", post(hear))
            .route("/approvals/{token}", any(look))
            .with_state(shared);
        let stop = CancellationToken::new();
        let stopped = stop.clone().cancelled_owned();
        tokio::spawn(axum::serve(listener, router).with_graceful_shutdown(stopped).into_future());
        let settings = json!({"webhook_url": format!("{url}/webhook/whatsapp"),
            "app_secret": SECRET, "status_ms": 0});
        assert_eq!(site.post("settings", &settings).await.0, 200);
        Self { url, told: receiver, answers, looked, _stop: stop.drop_guard() }
    }

    /// What the next posts are answered with; after them, 200.
    fn answer_with(&self, answers: &[u16]) {
        self.answers.lock().unwrap().extend(answers);
    }

    /// The value of the next change that is told, and its field.
    async fn next(&mut self) -> (String, Value) {
        let body = timeout(Duration::from_secs(20), self.told.recv()).await;
        let mut body = body.expect("something is told").unwrap();
        let change = body["entry"][0]["changes"][0].take();
        (change["field"].as_str().unwrap().to_owned(), change["value"].clone())
    }

    /// The next status.
    async fn status(&mut self) -> Value {
        let (field, value) = self.next().await;
        assert_eq!(field, "messages");
        value["statuses"][0].clone()
    }

    /// The next message of a person, and the block of contacts.
    async fn message(&mut self) -> (Value, Value) {
        let (field, value) = self.next().await;
        assert_eq!(field, "messages");
        (value["messages"][0].clone(), value["contacts"][0].clone())
    }

    /// Nothing is waiting that was told.
    fn is_silent(&mut self) -> bool {
        self.told.try_recv().is_err()
    }

    /// Who has looked at links so far: method, path and name.
    fn looks(&self) -> Vec<String> {
        self.looked.lock().unwrap().clone()
    }
}

async fn hear(State(shared): State<Shared>, headers: HeaderMap, body: Bytes) -> StatusCode {
    let signature = headers["x-hub-signature-256"].to_str().unwrap();
    assert!(is_signed(signature, &body, &[SECRET.into()]), "a body of somebody else");
    let text = std::str::from_utf8(&body).unwrap();
    assert!(text.is_ascii() && !text.replace("\\/", "").contains('/'), "{text}");
    let _ = shared.told.send(serde_json::from_slice(&body).unwrap());
    let answer = shared.answers.lock().unwrap().pop_front().unwrap_or(200);
    StatusCode::from_u16(answer).unwrap()
}

async fn look(
    State(shared): State<Shared>,
    method: Method,
    Path(token): Path<String>,
    headers: HeaderMap,
) -> &'static str {
    let agent = headers["user-agent"].to_str().unwrap();
    shared.looked.lock().unwrap().push(format!("{method} {token} {agent}"));
    "a page"
}

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
    let contact = json!({"wa_id": "15550001111", "user_id": sent["recipient_user_id"]});
    assert_eq!(value["contacts"], json!([contact]), "with no profile");
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
    assert_eq!(value["contacts"], json!([{"wa_id": "15550001111"}]));
    assert!(failed.get("recipient_user_id").is_none(), "nobody says who is behind the number");
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
    let answer = json!({"from": "+1 555 000 1111", "text": "批准", "message": "wamid.X", "seconds_ago": 60, "phone_number_id": "106540352242922"});
    let written = write(&site, answer).await;
    let (_, value) = ear.next().await;
    assert_eq!(value["metadata"]["phone_number_id"], "106540352242922");
    let (message, contact) = (&value["messages"][0], &value["contacts"][0]);
    assert_eq!((&message["from"], &message["type"]), (&json!("15550001111"), &json!("text")));
    assert_eq!(message["text"]["body"], "批准");
    assert_eq!(message["context"], json!({"from": "15550783881", "id": "wamid.X"}));
    assert_eq!((&message["id"], &contact["wa_id"]), (&written["id"], &json!("15550001111")));
    assert!(message["timestamp"].as_str().unwrap().parse::<i64>().is_ok());
    assert_eq!(message["from_user_id"], contact["user_id"]);
    assert_eq!(contact["profile"]["name"], "Phone 1111");
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
    assert_eq!(ear.status().await["status"], "delivered");
    write(&site, json!({"from": PERSON, "text": "ok", "user_id_only": false})).await;
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
    let tap = [("to", PERSON), ("message", &id), ("button", "apr:7:ok")];
    assert_eq!(submit("tap", &tap).await.0, 200);
    assert_eq!(ear.message().await.0["interactive"]["button_reply"]["id"], "apr:7:ok");
    let (_, page) = submit("say", &[("to", PERSON), ("text", "thanks & bye")]).await;
    assert_eq!(ear.message().await.0["text"]["body"], "thanks & bye");
    assert!(page.contains("thanks &#38; bye") && page.contains("name=\"button\""), "{page}");
    assert_eq!(submit("say", &[("to", PERSON), ("text", " ")]).await.0, 200);
    assert_eq!(submit("tap", &[("to", PERSON), ("message", &id), ("button", "x")]).await.0, 404);
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

#[test]
fn bodies_are_escaped_as_meta_does_and_mean_the_same() {
    let value = json!({"a/b": "ä 任 🎉", "c": "x\\/\n"});
    let escaped = escape(&value.to_string());
    assert!(escaped.is_ascii() && escaped.contains(r"\u00e4 \u4efb \ud83c\udf89"), "{escaped}");
    assert!(escaped.contains(r"a\/b"), "{escaped}");
    let read: Value = serde_json::from_str(&escaped).unwrap();
    assert_eq!(read, value);
}
