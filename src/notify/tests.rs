//! The sender against a small HTTP server: what it sends, and what it makes of good, bad and missing answers.

mod form;

mod schema;

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::{IntoResponse as _, Response};
use serde_json::{Value, json};
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpListener;
use tokio::sync::mpsc;

use super::channel::{Gate, Trouble};
use super::message::Address;
use super::text::tests::notice;
use super::text::{Letter, Reader};
use super::*;
use crate::domain::book::Person;
use crate::domain::event::NoticeKind;
use crate::store::outbox::{Needs, Outcome, Outgoing, Sent, Window};

const TO: &str = "+15550100";
const URL: &str = "https://longhaul.example/team";

/// What the server was sent.
struct Received {
    uri: Uri,
    headers: HeaderMap,
    body: Value,
}

/// An answer: its status, headers and body.
type Scripted = (u16, &'static [(&'static str, &'static str)], Value);

fn accepted() -> Scripted {
    let contacts = json!([{"input": TO, "wa_id": "15550100"}]);
    (
        200,
        &[],
        json!({"messaging_product": "whatsapp", "contacts": contacts, "messages": [{"id": "wamid.HBgL"}]}),
    )
}

fn error(code: i64) -> Scripted {
    (
        400,
        &[],
        json!({"error": {"message": format!("(#{code}) No"), "code": code,
        "error_data": {"messaging_product": "whatsapp", "details": "to +16505551234"}}}),
    )
}

/// Serves these answers one after the other, the last again and again, until the test's runtime ends.
async fn serve(answers: Vec<Scripted>) -> (SocketAddr, mpsc::UnboundedReceiver<Received>) {
    let (sender, received) = mpsc::unbounded_channel();
    let asked = AtomicUsize::new(0);
    let (asked, answers) = (Arc::new(asked), Arc::new(answers));
    let handler = move |uri: Uri, headers: HeaderMap, body: Bytes| {
        let body = serde_json::from_slice(&body).expect("the body is JSON");
        sender.send(Received { uri, headers, body }).expect("the test listens");
        let at = asked.fetch_add(1, Ordering::Relaxed).min(answers.len() - 1);
        let response = respond(&answers[at]);
        async move { response }
    };
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("an address");
    let router = Router::new().fallback(handler);
    tokio::spawn(async move { axum::serve(listener, router).await });
    (address, received)
}

fn respond((status, headers, body): &Scripted) -> Response {
    let status = StatusCode::from_u16(*status).expect("a status");
    let mut response = (status, body.to_string()).into_response();
    for (name, value) in *headers {
        response.headers_mut().insert(*name, value.parse().expect("a header"));
    }
    response
}

fn settings(address: SocketAddr) -> WhatsAppSettings {
    WhatsAppSettings {
        base_url: format!("http://{address}/prefix/"),
        ..WhatsAppSettings::new("106540352242922", "EAAtoken".into())
    }
}

fn sender(settings: &WhatsAppSettings) -> Sender {
    let _ = rustls::crypto::ring::default_provider().install_default();
    Sender::new(settings).expect("the settings are right")
}

fn ended(tries: i32) -> Outgoing {
    Outgoing { tries, ..notice(NoticeKind::Cancelled, "en") }
}

fn asked(window: Window) -> Outgoing {
    Outgoing { window, ..notice(NoticeKind::ApprovalRequested, "en") }
}

async fn send(sender: &Sender, notice: &Outgoing, person: Option<&Person>) -> Outcome {
    let letter = Letter::new(notice, URL, Reader::default());
    sender.send(notice, &letter, person).await
}

#[tokio::test]
async fn an_answer_stops_the_channel_and_respects_that_it_is_stopped() {
    for (scripted, stopped) in [
        (error(190), Some(Trouble::Fault)),
        (error(130_429), Some(Trouble::Rate)),
        (error(131_026), None),
        (accepted(), None),
    ] {
        let (address, mut received) = serve(vec![scripted]).await;
        let sender = sender(&settings(address));
        let now = chrono::DateTime::UNIX_EPOCH;
        for _ in 0..2 {
            sender.answer(Address::Phone(TO), "*Approved*", "answer", now).await;
        }
        assert_eq!(sender.channel.trouble(), stopped);
        let mut count = 0;
        while received.try_recv().is_ok() {
            count += 1;
        }
        assert_eq!(count, if stopped.is_some() { 1 } else { 2 }, "{stopped:?}");
    }
}

#[tokio::test]
async fn each_template_that_cannot_be_used_is_known_until_it_can() {
    let (address, _received) = serve(vec![error(132_015), accepted(), accepted()]).await;
    let sender = sender(&WhatsAppSettings { forms: form::templates(), ..settings(address) });
    send(&sender, &asked(Window::Unknown), None).await;
    assert_eq!(sender.faulty(), ["ask"], "that the other one is taken says nothing of it");
    send(&sender, &asked(Window::Unknown), None).await;
    assert_eq!(sender.faulty(), [""; 0]);
}

/// Sends an end, as the second try, to a server that answers so, and returns what became of it.
async fn answered(scripted: Scripted) -> Outcome {
    let (address, mut received) = serve(vec![scripted]).await;
    let outcome = send(&sender(&settings(address)), &ended(2), None).await;
    assert!(received.recv().await.is_some());
    assert!(received.try_recv().is_err(), "nothing is sent twice");
    outcome
}

#[tokio::test]
async fn a_text_is_sent_as_the_api_wants_it() {
    let (address, mut received) = serve(vec![accepted()]).await;
    let outcome = send(&sender(&settings(address)), &ended(1), None).await;
    assert!(
        matches!(&outcome.sent, Sent::Accepted { provider_message_id } if provider_message_id == "wamid.HBgL")
    );
    assert_eq!((outcome.rest, outcome.is_closed), (Duration::from_secs(6), false));
    let received = received.recv().await.expect("it was sent");
    assert_eq!(received.uri.path(), "/prefix/v26.0/106540352242922/messages");
    assert_eq!(received.headers["authorization"], "Bearer EAAtoken");
    assert_eq!(received.headers["content-type"], "application/json");
    let text = Letter::new(&ended(1), URL, Reader::default()).whole();
    let expected = json!({
        "messaging_product": "whatsapp", "recipient_type": "individual", "to": TO, "type": "text",
        "text": {"preview_url": false, "body": text},
        "biz_opaque_callback_data": "00000000-0000-0000-0000-000000000000:1:demo-job-0001"});
    assert_eq!(received.body, expected);
}

#[tokio::test]
async fn too_much_for_one_person_leaves_only_that_one_alone() {
    let outcome = answered(error(131_056)).await;
    assert!(matches!(outcome.sent, Sent::Again { after, .. } if after == Duration::from_secs(4)));
    assert_eq!(outcome.rest, Duration::from_secs(4));
}

#[tokio::test]
async fn too_much_for_the_account_stops_the_channel_for_the_longer_of_both_waits() {
    for (headers, seconds) in [(&[][..], 1), (&[("retry-after", "30")][..], 30)] {
        let (_, _, body) = error(130_429);
        let (address, _received) = serve(vec![(429, headers, body)]).await;
        let sender = sender(&settings(address));
        let notice = ended(7);
        let Sent::Held { after, .. } = send(&sender, &notice, None).await.sent else {
            panic!("it is held")
        };
        assert_eq!(after.as_secs(), seconds);
        let at = |seconds| notice.now + chrono::TimeDelta::seconds(seconds);
        let seconds = i64::try_from(seconds).expect("a wait");
        assert_eq!(sender.gate(at(seconds - 1)).await, Gate::Shut);
        assert_eq!(sender.gate(at(seconds)).await, Gate::Probe);
    }
}

#[tokio::test]
async fn an_expired_token_stops_the_channel_until_there_is_another_in_its_file() {
    let file = std::env::temp_dir().join(format!("longhaul-token-{}", uuid::Uuid::new_v4()));
    std::fs::write(&file, "EAAtoken\n").expect("a file");
    let (address, mut received) = serve(vec![error(190), accepted()]).await;
    let settings = WhatsAppSettings { token_file: Some(file.clone()), ..settings(address) };
    let sender = sender(&settings);
    let notice = ended(1);
    let outcome = send(&sender, &notice, None).await;
    let Sent::Held { after, error } = outcome.sent else { panic!("{outcome:?}") };
    assert_eq!(after, Duration::ZERO, "other servers may have a better token");
    assert_eq!(error, "whatsapp refused the message: error 190: No: to …");
    assert_eq!(sender.gate(notice.now).await, Gate::Shut);
    for bad in ["", "EAAtoken", "a\nb"] {
        std::fs::write(&file, bad).expect("a file");
        assert_eq!(sender.gate(notice.now).await, Gate::Shut, "{bad:?}");
    }
    std::fs::write(&file, "EAAnew\n").expect("a file");
    assert_eq!(sender.gate(notice.now).await, Gate::Probe);
    assert!(matches!(send(&sender, &notice, None).await.sent, Sent::Accepted { .. }));
    assert_eq!(sender.gate(notice.now).await, Gate::Open);
    for token in ["Bearer EAAtoken", "Bearer EAAnew"] {
        let received = received.recv().await.expect("it was sent");
        assert_eq!(received.headers["authorization"], token);
    }
    std::fs::remove_file(file).expect("it was there");
}

#[tokio::test]
async fn a_message_that_cannot_arrive_is_refused_for_good() {
    let outcome = answered(error(131_026)).await;
    assert!(matches!(outcome.sent, Sent::Refused { error } if error.contains("131026: No")));
}

#[tokio::test]
async fn an_answer_that_says_nothing_is_ambiguous() {
    for (status, body) in [
        (500, Value::Null),
        (503, json!("down")),
        (500, error(131_000).2),
        (200, json!({"messages": []})),
        (200, json!({"messages": [{"id": ""}]})),
        (200, Value::Null),
    ] {
        let outcome = answered((status, &[], body)).await;
        assert!(matches!(outcome.sent, Sent::Ambiguous { .. }), "{status} {outcome:?}");
        assert_eq!(outcome.rest, Duration::from_secs(6), "it may have arrived");
    }
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let outcome = answered((302, &[("location", "/elsewhere")], Value::Null)).await;
    assert!(matches!(outcome.sent, Sent::Held { .. }), "{outcome:?}");
}

#[tokio::test]
async fn a_connection_that_is_dropped_after_the_request_is_ambiguous() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("an address");
    let drop_it = async {
        let (mut stream, _) = listener.accept().await.expect("a connection");
        let mut request = [0; 64];
        stream.read(&mut request).await.expect("a request")
    };
    let (sender, notice) = (sender(&settings(address)), ended(1));
    let (outcome, read) = tokio::join!(send(&sender, &notice, None), drop_it);
    assert!(read > 0);
    assert!(matches!(outcome.sent, Sent::Ambiguous { .. }), "{outcome:?}");
}

#[tokio::test]
async fn silence_is_ambiguous() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("an address");
    let settings = WhatsAppSettings { timeout: Duration::from_millis(50), ..settings(address) };
    let (sender, notice) = (sender(&settings), ended(1));
    let (outcome, _stream) = tokio::join!(send(&sender, &notice, None), listener.accept());
    let Sent::Ambiguous { error } = outcome.sent else { panic!("{outcome:?}") };
    assert!(!error.contains("127.0.0.1") && !error.contains("EAAtoken"), "{error}");
}

#[tokio::test]
async fn nobody_at_the_address_holds_all_messages_for_a_while() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("an address");
    drop(listener);
    let (sender, notice) = (sender(&settings(address)), ended(3));
    let outcome = send(&sender, &notice, None).await;
    assert!(matches!(outcome.sent, Sent::Held { .. }), "{outcome:?}");
    assert_eq!(sender.gate(notice.now).await, Gate::Shut);
    assert_eq!(sender.gate(notice.now + chrono::TimeDelta::seconds(1)).await, Gate::Probe);
}

#[test]
fn settings_that_cannot_work_are_named() {
    let address = SocketAddr::from(([127, 0, 0, 1], 1));
    let _ = rustls::crypto::ring::default_provider().install_default();
    let fault = |change: fn(&mut WhatsAppSettings)| {
        let mut settings = settings(address);
        change(&mut settings);
        WhatsApp::new(&settings).expect_err("it cannot work").to_string()
    };
    assert!(fault(|s| s.base_url = "graph.facebook.com".to_owned()).contains("base url"));
    assert!(fault(|s| s.graph_version = "26".to_owned()).contains("graph version"));
    assert!(fault(|s| s.phone_number_id = "+1650/x".to_owned()).contains("phone number id"));
    assert!(fault(|s| s.token = " ".into()).contains("empty"));
    assert!(fault(|s| s.token = "a\nb".into()).contains("token"));
    let client = WhatsApp::new(&settings(address)).expect("the settings are right");
    assert!(!format!("{client:?} {:?}", settings(address)).contains("EAAtoken"));
}

#[test]
fn links_begin_with_the_public_url() {
    for (public_url, base) in [
        ("https://a.example", Some("https://a.example")),
        (" https://a.example/team/ ", Some("https://a.example/team")),
        ("http://127.0.0.1:8080/", Some("http://127.0.0.1:8080")),
        ("a.example", None),
        ("ftp://a.example", None),
        ("https://a.example/?x=1", None),
        ("https://a.example/#x", None),
    ] {
        assert_eq!(link_base(public_url).as_deref(), base);
    }
    assert_eq!(link_base(&format!("https://a.example/{}", "x".repeat(1000))), None);
}
