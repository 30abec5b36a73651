//! The client against a small HTTP server: what it sends, and what it makes of good, bad and missing answers.

use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::{IntoResponse as _, Response};
use serde_json::{Value, json};
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpListener;
use tokio::sync::mpsc;

use super::*;
use crate::store::outbox::Sent;

const TO: &str = "+16505551234";

/// What the server was sent.
struct Received {
    uri: Uri,
    headers: HeaderMap,
    body: Value,
}

/// Serves the same answer to every request until the test's runtime ends.
async fn serve(
    respond: impl Fn() -> Response + Clone + Send + Sync + 'static,
) -> (SocketAddr, mpsc::UnboundedReceiver<Received>) {
    let (sender, received) = mpsc::unbounded_channel();
    let handler = move |uri: Uri, headers: HeaderMap, body: Bytes| {
        let body = serde_json::from_slice(&body).expect("the body is JSON");
        sender.send(Received { uri, headers, body }).expect("the test listens");
        let response = respond();
        async move { response }
    };
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("an address");
    let router = Router::new().fallback(handler);
    tokio::spawn(async move { axum::serve(listener, router).await });
    (address, received)
}

fn settings(address: SocketAddr) -> WhatsAppSettings {
    WhatsAppSettings {
        base_url: format!("http://{address}/prefix/"),
        ..WhatsAppSettings::new("106540352242922", "EAAtoken".into())
    }
}

fn client(settings: &WhatsAppSettings) -> WhatsApp {
    let _ = rustls::crypto::ring::default_provider().install_default();
    WhatsApp::new(settings).expect("the settings are right")
}

async fn send(address: SocketAddr, tries: i32) -> Sent {
    client(&settings(address)).send_text(TO, "the text", "id:1", tries).await
}

/// Sends once to a server that answers so, and returns what became of it.
async fn answered(
    status: u16,
    headers: &'static [(&'static str, &'static str)],
    body: Value,
) -> Sent {
    let respond = move || {
        let status = StatusCode::from_u16(status).expect("a status");
        let mut response = (status, body.to_string()).into_response();
        for (name, value) in headers {
            response.headers_mut().insert(*name, value.parse().expect("a header"));
        }
        response
    };
    let (address, mut received) = serve(respond).await;
    let sent = send(address, 2).await;
    assert!(received.recv().await.is_some());
    assert!(received.try_recv().is_err(), "nothing is sent twice");
    sent
}

fn error(code: i64) -> Value {
    json!({"error": {"message": format!("(#{code}) No"), "code": code,
        "error_data": {"messaging_product": "whatsapp", "details": "to +16505551234"}}})
}

#[tokio::test]
async fn a_text_is_sent_as_the_api_wants_it() {
    let accepted = || {
        let body = json!({"messaging_product": "whatsapp",
            "contacts": [{"input": TO, "wa_id": "16505551234"}], "messages": [{"id": "wamid.HBgL"}]});
        body.to_string().into_response()
    };
    let (address, mut received) = serve(accepted).await;
    let sent = send(address, 1).await;
    assert!(
        matches!(&sent, Sent::Accepted { provider_message_id } if provider_message_id == "wamid.HBgL")
    );
    let received = received.recv().await.expect("it was sent");
    assert_eq!(received.uri.path(), "/prefix/v26.0/106540352242922/messages");
    assert_eq!(received.headers["authorization"], "Bearer EAAtoken");
    assert_eq!(received.headers["content-type"], "application/json");
    let expected = json!({
        "messaging_product": "whatsapp", "recipient_type": "individual", "to": TO, "type": "text",
        "text": {"preview_url": false, "body": "the text"}, "biz_opaque_callback_data": "id:1"});
    assert_eq!(received.body, expected);
}

#[tokio::test]
async fn a_rate_limit_is_tried_again_after_the_longer_of_both_waits() {
    let sent = answered(400, &[], error(131_056)).await;
    assert!(matches!(sent, Sent::Again { after, .. } if after == Duration::from_secs(4)));
    let sent = answered(429, &[("retry-after", "30")], error(130_429)).await;
    assert!(matches!(sent, Sent::Again { after, .. } if after == Duration::from_secs(30)));
}

#[tokio::test]
async fn an_expired_token_is_a_fault_to_be_mended() {
    let sent = answered(401, &[], error(190)).await;
    let Sent::Again { after, error } = sent else { panic!("{sent:?}") };
    assert_eq!(after, Duration::from_mins(2));
    assert_eq!(error, "whatsapp refused the message: error 190: No: to …");
}

#[tokio::test]
async fn a_message_that_cannot_arrive_is_refused_for_good() {
    let sent = answered(400, &[], error(131_026)).await;
    assert!(matches!(sent, Sent::Refused { error } if error.contains("131026: No")));
}

#[tokio::test]
async fn an_answer_that_says_nothing_is_ambiguous() {
    for (status, body) in [
        (500, Value::Null),
        (503, json!("down")),
        (500, error(131_000)),
        (200, json!({"messages": []})),
        (200, json!({"messages": [{"id": ""}]})),
        (200, Value::Null),
    ] {
        let sent = answered(status, &[], body).await;
        assert!(matches!(sent, Sent::Ambiguous { .. }), "{status} {sent:?}");
    }
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let sent = answered(302, &[("location", "/elsewhere")], Value::Null).await;
    assert!(matches!(sent, Sent::Again { .. }), "{sent:?}");
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
    let (sent, read) = tokio::join!(send(address, 1), drop_it);
    assert!(read > 0);
    assert!(matches!(sent, Sent::Ambiguous { .. }), "{sent:?}");
}

#[tokio::test]
async fn silence_is_ambiguous() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("an address");
    let settings = WhatsAppSettings { timeout: Duration::from_millis(50), ..settings(address) };
    let client = client(&settings);
    let (sent, _stream) = tokio::join!(client.send_text(TO, "text", "id:1", 1), listener.accept());
    let Sent::Ambiguous { error } = sent else { panic!("{sent:?}") };
    assert!(!error.contains("127.0.0.1") && !error.contains("EAAtoken"), "{error}");
}

#[tokio::test]
async fn nobody_at_the_address_is_tried_again() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("an address");
    drop(listener);
    let sent = send(address, 3).await;
    assert!(matches!(sent, Sent::Again { after, .. } if after == Duration::from_secs(16)));
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
    let client = client(&settings(address));
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
