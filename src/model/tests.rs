//! The client against a small HTTP server: what it sends, and what it makes of good and bad answers.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::ConnectInfo;
use axum::http::{HeaderMap, Uri};
use axum::response::Response;
use futures::stream::{self, StreamExt};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio_stream::wrappers::IntervalStream;

use crate::domain::job::Reason;
use crate::domain::submission::TruncationPolicy;

use super::*;

mod connection;
mod option;
mod provider;
mod setup;

const START: &str = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"model\":\"claude-x\",\"usage\":{\"input_tokens\":10,\"output_tokens\":1}}}\n\n";
const TEXT: &str = "event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\nevent: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"Hello\"}}\n\n";
const PING: &str = "event: ping\ndata: {\"type\":\"ping\"}\n\n";

fn last(stop_reason: &str) -> String {
    format!(
        "event: content_block_stop\ndata: {{\"type\":\"content_block_stop\",\"index\":0}}\n\nevent: message_delta\ndata: {{\"type\":\"message_delta\",\"delta\":{{\"stop_reason\":\"{stop_reason}\"}},\"usage\":{{\"output_tokens\":5}}}}\n\n"
    )
}

fn whole(stop_reason: &str) -> String {
    let end = "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n";
    format!("{START}{TEXT}{}{end}", last(stop_reason))
}

fn streamed(body: Body) -> Response {
    let response = Response::builder().header("content-type", "text/event-stream; charset=utf-8");
    response.header("request-id", "req_1").body(body).expect("a response")
}

/// What the server was sent.
struct Received {
    uri: Uri,
    headers: HeaderMap,
    body: Value,
    from: SocketAddr,
}

struct Server {
    address: SocketAddr,
    received: mpsc::UnboundedReceiver<Received>,
}

/// Serves the same answer to every request until the test's runtime ends.
async fn serve(respond: impl Fn() -> Response + Clone + Send + Sync + 'static) -> Server {
    let (sender, received) = mpsc::unbounded_channel();
    let handler = move |ConnectInfo(from), uri: Uri, headers: HeaderMap, body: Bytes| {
        let body = serde_json::from_slice(&body).expect("the body is JSON");
        sender.send(Received { uri, headers, body, from }).expect("the test listens");
        let response = respond();
        async move { response }
    };
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("an address");
    let router = Router::new().fallback(handler);
    let router = router.into_make_service_with_connect_info::<SocketAddr>();
    tokio::spawn(async move { axum::serve(listener, router).await });
    Server { address, received }
}

fn model(address: SocketAddr) -> Model {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let settings = ModelSettings {
        base_url: format!("http://{address}/prefix/"),
        api_key: Some("key".into()),
        ..ModelSettings::default()
    };
    Model::new(settings).expect("the settings are right")
}

fn call() -> Call {
    Call {
        model: "claude-x".to_owned(),
        max_tokens: 100,
        system: Some("Be brief.".to_owned()),
        turns: vec![Turn { role: Role::User, text: "Hi".to_owned() }],
        web_search: None,
        timeout: Duration::from_secs(20),
        idle_timeout: Duration::from_secs(20),
        effort: None,
        output_schema: None,
        stop_sequences: vec![],
        on_truncated: TruncationPolicy::Fail,
        extra: vec![],
        is_cached: false,
        begun: None,
        paused_contents: vec![],
        continuations: 0,
        is_batched: false,
    }
}

async fn failed(address: SocketAddr, call: &Call) -> (ModelError, Seen) {
    let partial = Partial::default();
    let error = model(address).ask(call, &partial).await.expect_err("the call fails");
    (error, partial.seen())
}

#[tokio::test]
async fn a_call_sends_one_streaming_request_and_returns_the_answer() {
    let mut server = serve(|| streamed(Body::from(whole("end_turn")))).await;
    let partial = Partial::default();
    let reply = model(server.address).ask(&call(), &partial).await.unwrap();
    assert_eq!(reply.text, "Hello");
    assert_eq!(reply.request_id.as_deref(), Some("req_1"));
    assert_eq!((reply.usage.input_tokens, reply.usage.output_tokens), (10, 5));
    assert_eq!(partial.seen().usage, Some(reply.usage));

    let received = server.received.recv().await.expect("a request");
    assert_eq!(received.uri.path(), "/prefix/v1/messages");
    assert_eq!(received.headers["x-api-key"], "key");
    assert_eq!(received.headers["anthropic-version"], "2026-10-21");
    assert_eq!(received.headers["content-type"], "application/json");
    assert!(!received.headers.contains_key("authorization"));
    assert_eq!(
        received.body,
        json!({
            "model": "claude-x", "max_tokens": 100, "stream": true, "system": "Be brief.",
            "messages": [{"role": "user", "content": "Hi"}],
        })
    );
    assert!(server.received.try_recv().is_err(), "one call is one request");
}

/// Sends a whole answer, and only later its end.
fn ending(end: impl Future<Output = ()> + Send + 'static) -> Response {
    let end = stream::once(end).map(|()| String::new());
    let chunks = stream::iter([whole("end_turn")]).chain(end);
    streamed(Body::from_stream(chunks.map(Ok::<_, Infallible>)))
}

#[tokio::test]
async fn a_connection_is_used_again_also_if_the_end_of_an_answer_comes_late() {
    let mut server = serve(|| ending(tokio::task::yield_now())).await;
    let (model, mut from) = (model(server.address), BTreeSet::new());
    for _ in 0..5 {
        model.ask(&call(), &Partial::default()).await.unwrap();
        from.insert(server.received.recv().await.expect("a request").from);
        // Lets the connection find its way back to the pool.
        for _ in 0..8 {
            tokio::task::yield_now().await;
        }
    }
    assert_eq!(from.len(), 1, "{from:?}");
}

#[tokio::test]
async fn a_stream_that_never_ends_does_not_keep_its_answer() {
    let server = serve(|| ending(std::future::pending())).await;
    let reply = model(server.address).ask(&call(), &Partial::default()).await.unwrap();
    assert_eq!((reply.text.as_str(), reply.ended_early), ("Hello", false));
}

#[tokio::test]
async fn web_search_is_a_tool_and_empty_parts_are_left_out() {
    let mut server = serve(|| streamed(Body::from(whole("end_turn")))).await;
    let allowed_domains = vec!["example.com".to_owned()];
    let search =
        WebSearch { max_uses: 3, allowed_domains, blocked_domains: vec![], user_location: None };
    let call = Call { system: Some(String::new()), web_search: Some(search), ..call() };
    model(server.address).ask(&call, &Partial::default()).await.unwrap();
    let body = server.received.recv().await.expect("a request").body;
    assert!(body.get("system").is_none());
    assert_eq!(
        body["tools"],
        json!([{
            "type": "web_search_20250305", "name": "web_search", "max_uses": 3,
            "allowed_domains": ["example.com"],
        }])
    );
}

#[tokio::test]
async fn a_paused_answer_is_handed_back_unchanged() {
    let mut server = serve(|| streamed(Body::from(whole("pause_turn")))).await;
    let model = model(server.address);
    let mut call = call();
    let mut first_body = None;
    for continuation in 0..=MAX_CONTINUATIONS {
        let reply = model.ask(&call, &Partial::default()).await.unwrap();
        let body = server.received.recv().await.expect("a request").body;
        let first = first_body.get_or_insert_with(|| body.clone());
        let mut expected = first.clone();
        let messages = expected["messages"].as_array_mut().expect("a list");
        let content = json!([{"type": "text", "text": "Hello"}]);
        let paused = json!({"role": "assistant", "content": content});
        messages.extend(std::iter::repeat_n(paused, continuation));
        assert_eq!(body, expected);
        match call.then("", &reply) {
            Then::GoOn(next) => call = *next,
            Then::Fail(error) => {
                assert_eq!((continuation, error.reason), (MAX_CONTINUATIONS, Reason::ModelStopped));
            }
            Then::Done => panic!("it was paused"),
        }
    }
}

#[tokio::test]
async fn an_answer_that_was_not_paused_is_not_continued() {
    let server = serve(|| streamed(Body::from(whole("end_turn")))).await;
    let reply = model(server.address).ask(&call(), &Partial::default()).await.unwrap();
    assert!(matches!(call().then("", &reply), Then::Done));
}

#[tokio::test]
async fn an_overloaded_provider_says_when_to_come_back() {
    let server = serve(|| {
        let body = json!({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}});
        let response = Response::builder().status(529).header("retry-after", "120");
        response.header("request-id", "req_9").body(Body::from(body.to_string())).unwrap()
    })
    .await;
    let (error, seen) = failed(server.address, &call()).await;
    assert_eq!(error.reason, Reason::ProviderUnavailable);
    assert_eq!(error.retry, Retry::After(Duration::from_mins(2)));
    assert_eq!(error.request_id.as_deref(), Some("req_9"));
    assert_eq!(seen.request_id.as_deref(), Some("req_9"));
    assert_eq!(error.usage, None);
    let message = "the model provider is unavailable: status 529: overloaded_error: Overloaded";
    assert_eq!(error.to_string(), message);
}

#[tokio::test]
async fn a_wrong_key_a_redirect_and_a_page_of_html_are_told_apart() {
    let plain = |status: u16| {
        move || {
            let response = Response::builder().status(status).header("location", "/elsewhere");
            response.header("content-type", "text/html").body(Body::from("<html>")).unwrap()
        }
    };
    for (status, reason) in [
        (401, Reason::ProviderRejected),
        (308, Reason::ProviderRejected),
        (200, Reason::ProviderUnavailable),
    ] {
        let mut server = serve(plain(status)).await;
        let (error, _) = failed(server.address, &call()).await;
        assert_eq!(error.reason, reason, "{status}");
        server.received.recv().await.expect("the request");
        assert!(server.received.try_recv().is_err(), "nothing is followed or retried");
    }
}

#[tokio::test]
async fn an_error_in_mid_stream_has_a_type_of_its_own() {
    let server = serve(|| {
        let error = "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"m\"}}\n\n";
        streamed(Body::from(format!("{START}{TEXT}{error}")))
    })
    .await;
    let (error, seen) = failed(server.address, &call()).await;
    assert_eq!((error.reason, error.retry), (Reason::ProviderUnavailable, Retry::Backoff));
    assert!(error.message.contains("overloaded_error"), "{}", error.message);
    assert_eq!(error.request_id.as_deref(), Some("req_1"));
    assert_eq!(seen.text, "Hello");
    assert_eq!(error.usage.expect("usage was told").input_tokens, 10);
}

/// The beginning of an answer, then pings without end.
fn pinging() -> Response {
    let pings = IntervalStream::new(tokio::time::interval(Duration::from_millis(5)));
    let pings = pings.map(|_| PING.to_owned());
    let chunks = stream::iter([format!("{START}{TEXT}")]).chain(pings);
    streamed(Body::from_stream(chunks.map(Ok::<_, Infallible>)))
}

#[tokio::test]
async fn pings_do_not_hide_that_an_answer_stands_still() {
    let server = serve(pinging).await;
    let call = Call { idle_timeout: Duration::from_millis(60), ..call() };
    let (error, seen) = failed(server.address, &call).await;
    assert_eq!((error.reason, error.retry), (Reason::ProviderUnavailable, Retry::Backoff));
    assert_eq!(error.to_string(), "the answer stood still for 60ms");
    assert_eq!(seen.text, "Hello");
}

#[tokio::test]
async fn the_whole_answer_has_a_time_of_its_own() {
    let server = serve(pinging).await;
    let call = Call { timeout: Duration::from_millis(60), ..call() };
    let (error, _) = failed(server.address, &call).await;
    assert_eq!(error.to_string(), "the answer was not whole after 60ms");
}

#[tokio::test]
async fn a_provider_that_never_answers_is_given_up() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let call = Call { idle_timeout: Duration::from_millis(40), ..call() };
    let (error, _) = failed(listener.local_addr().unwrap(), &call).await;
    assert_eq!((error.reason, error.retry), (Reason::ProviderUnavailable, Retry::Backoff));
}

#[tokio::test]
async fn a_provider_that_is_away_is_an_error_without_its_address() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let (error, seen) = failed(address, &call()).await;
    assert_eq!((error.reason, error.retry), (Reason::ProviderUnavailable, Retry::Backoff));
    assert!(error.message.starts_with("the model provider could not be reached"));
    assert!(!error.message.contains("/prefix"), "{}", error.message);
    assert_eq!(seen, Seen::default());
}

/// Sends the chunk, then breaks the connection.
fn cut(chunk: String) -> Response {
    let broken = stream::iter([Ok(chunk), Err(io::Error::other("cut"))]);
    // A body that fails before its first chunk is on its way takes the headers with it.
    let paced = IntervalStream::new(tokio::time::interval(Duration::from_millis(20)));
    streamed(Body::from_stream(broken.zip(paced).map(|(chunk, _)| chunk)))
}

#[tokio::test]
async fn a_cut_stream_is_an_error_that_passes() {
    let server = serve(|| cut(format!("{START}{TEXT}"))).await;
    let (error, seen) = failed(server.address, &call()).await;
    assert_eq!((error.reason, error.retry), (Reason::ProviderUnavailable, Retry::Backoff));
    assert!(error.message.contains("broke off"), "{}", error.message);
    assert_eq!(error.usage, seen.usage);
    let server = serve(|| streamed(Body::from(format!("{START}{TEXT}")))).await;
    let (error, _) = failed(server.address, &call()).await;
    assert_eq!(error.to_string(), "the stream ended before the answer did");
}

#[tokio::test]
async fn a_stream_cut_after_its_stop_reason_is_not_paid_for_again() {
    let server = serve(|| cut(format!("{START}{TEXT}{}", last("end_turn")))).await;
    let reply = model(server.address).ask(&call(), &Partial::default()).await.unwrap();
    assert_eq!(reply.text, "Hello");
    assert!(reply.ended_early);
}

/// Tells when the server begins to wait in the middle of an answer, and when it lets go of it.
struct Vigil(mpsc::UnboundedSender<&'static str>);

impl Vigil {
    async fn keep(self) -> String {
        self.0.send("begun").expect("the test listens");
        std::future::pending().await
    }
}

impl Drop for Vigil {
    fn drop(&mut self) {
        let _ = self.0.send("let go");
    }
}

#[tokio::test]
async fn a_dropped_call_closes_its_stream() {
    let (sender, mut told) = mpsc::unbounded_channel();
    let server = serve(move || {
        let silence = stream::once(Vigil(sender.clone()).keep());
        let chunks = stream::iter([format!("{START}{TEXT}")]).chain(silence);
        streamed(Body::from_stream(chunks.map(Ok::<_, Infallible>)))
    })
    .await;
    let model = model(server.address);
    let asked = tokio::spawn(async move { model.ask(&call(), &Partial::default()).await });
    assert_eq!(told.recv().await, Some("begun"));
    asked.abort();
    let closed = tokio::time::timeout(Duration::from_secs(5), told.recv()).await;
    assert_eq!(closed.expect("the server hears of it promptly"), Some("let go"));
}

#[tokio::test]
async fn without_a_key_nothing_is_sent() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    for api_key in [None, Some(" ".into())] {
        let model = Model::new(ModelSettings { api_key, ..ModelSettings::default() }).unwrap();
        assert!(!model.is_configured());
        let error = model.ask(&call(), &Partial::default()).await.expect_err("there is no key");
        assert_eq!(error.reason, Reason::ProviderUnconfigured);
        assert_eq!(error.retry, Retry::Never);
    }
}
