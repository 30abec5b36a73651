//! gRPC-Web: a page of another origin watches a job in a real browser, and origins that are not named are refused.
//!
//! The page speaks the protocol by `fetch`, with no library; what it received is decoded here.

use axum::Router;
use axum::response::Html;
use axum::routing::get;
use base64::{
    Engine as _, engine::general_purpose::STANDARD, engine::general_purpose::STANDARD_NO_PAD,
};
use longhaul::rpc::proto::watch_job_response::Content;
use longhaul::rpc::proto::{
    EventKind, GetJobRequest, JobStatus, WatchJobRequest, WatchJobResponse,
};
use prost::Message as _;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_util::sync::{CancellationToken, DropGuard};
use tonic::Code;
use tonic_types::pb::{ErrorInfo, Status as Details};

use crate::harness::{Rig, cancel, framed, http_client, job, wait};
use crate::page::browser::Browser;

const PAGE: &str = r"<!doctype html><title>A page that speaks gRPC-Web</title><body><script>
const bytes = text => Uint8Array.from(atob(text), one => one.charCodeAt(0));
const text = bytes => btoa(String.fromCharCode(...bytes));
const mark = id => document.body.append(Object.assign(document.createElement('p'), {id}));
window.frames_of = {}; window.told = {};
async function call(name, url, message) {
  const frames = window.frames_of[name] = [];
  try {
    const answer = await fetch(url, {method: 'POST', body: bytes(message), headers: {
      'content-type': 'application/grpc-web+proto', 'x-grpc-web': '1', 'x-api-key': 'unknown'}});
    window.told[name] = {status: answer.headers.get('grpc-status'), details: answer.headers.get('grpc-status-details-bin')};
    const reader = answer.body.getReader();
    let held = new Uint8Array();
    for (;;) {
      const {done, value} = await reader.read();
      if (done) break;
      const both = new Uint8Array(held.length + value.length);
      both.set(held); both.set(value, held.length); held = both;
      while (held.length >= 5) {
        const length = new DataView(held.buffer, held.byteOffset).getUint32(1);
        if (held.length < 5 + length) break;
        frames.push([held[0], text(held.slice(5, 5 + length))]);
        if (frames.length == 1) mark(name + '-first');
        held = held.slice(5 + length);
      }
    }
  } catch (error) { window.told[name] = {error: String(error)}; }
  mark(name + '-end');
}
</script></body>";

/// A server of one page, which is an origin of its own.
struct Site {
    url: String,
    _stop: DropGuard,
}

impl Site {
    async fn open() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let stop = CancellationToken::new();
        let site = Router::new().route("/", get(async || Html(PAGE)));
        let serve =
            axum::serve(listener, site).with_graceful_shutdown(stop.clone().cancelled_owned());
        tokio::spawn(async move { serve.await });
        Self { url, _stop: stop.drop_guard() }
    }
}

/// Begins a call from the page.
async fn call(
    browser: &Browser,
    name: &str,
    rig: &Rig,
    method: &str,
    message: &impl prost::Message,
) {
    let url = format!("http://{}/longhaul.v1.JobService/{method}", rig.grpc_addr);
    let args = [name.to_owned(), url, STANDARD.encode(framed(message))];
    let args = args.map(Value::from).to_vec();
    browser.page.execute("call(...arguments)", args).await.unwrap();
}

async fn read(browser: &Browser, script: &str) -> Value {
    browser.measure(&format!("return {script}")).await
}

/// The messages of a call, and the trailers at its end.
fn decode(frames: &Value) -> (Vec<WatchJobResponse>, String) {
    let (mut messages, mut trailers) = (Vec::new(), String::new());
    for frame in frames.as_array().unwrap() {
        let bytes = STANDARD.decode(frame[1].as_str().unwrap()).unwrap();
        match frame[0].as_u64().unwrap() {
            0 => messages.push(WatchJobResponse::decode(&bytes[..]).unwrap()),
            _ => trailers = String::from_utf8(bytes).unwrap(),
        }
    }
    (messages, trailers)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_of_a_named_origin_watches_a_job_and_reads_what_an_error_says() {
    let (site, stranger) = (Site::open().await, Site::open().await);
    let origins = format!("https://elsewhere.example,{}", site.url);
    let rig = Rig::start_with(&[("LONGHAUL_GRPC_WEB_ORIGINS", &origins)]).await;
    rig.submit(job("in-a-page", [wait(3600)])).await;
    let browser = Browser::start().await;
    browser.open(&site.url).await;
    let watch = WatchJobRequest { job_id: "in-a-page".to_owned(), ..WatchJobRequest::default() };
    call(&browser, "watch", &rig, "WatchJob", &watch).await;
    browser.appears("#watch-first").await;
    let (messages, _) = decode(&read(&browser, "window.frames_of.watch").await);
    let Some(Content::Snapshot(snapshot)) = &messages[0].content else { panic!("{messages:?}") };
    assert_eq!((snapshot.job_id.as_str(), snapshot.status()), ("in-a-page", JobStatus::Queued));
    assert_eq!(read(&browser, "document.querySelector('#watch-end')").await, Value::Null);

    assert!(rig.control("in-a-page", cancel()).await);
    browser.appears("#watch-end").await;
    let (messages, trailers) = decode(&read(&browser, "window.frames_of.watch").await);
    let Some(Content::Event(last)) = &messages.last().unwrap().content else { panic!("no event") };
    assert_eq!(last.kind(), EventKind::JobCancelled);
    assert!(trailers.contains("grpc-status:0"), "{trailers:?}");

    let missing = GetJobRequest { job_id: "nowhere".to_owned(), ..GetJobRequest::default() };
    call(&browser, "missing", &rig, "GetJob", &missing).await;
    browser.appears("#missing-end").await;
    let told = read(&browser, "window.told.missing").await;
    assert_eq!(told["status"], i32::from(Code::NotFound).to_string(), "{told}");
    let details = told["details"].as_str().unwrap().trim_end_matches('=');
    let details = Details::decode(&STANDARD_NO_PAD.decode(details).unwrap()[..]).unwrap();
    let info = details.details.iter().find(|one| one.type_url.ends_with("ErrorInfo")).unwrap();
    assert_eq!(ErrorInfo::decode(&info.value[..]).unwrap().reason, "JOB_NOT_FOUND");

    browser.open(&stranger.url).await;
    call(&browser, "strange", &rig, "GetJob", &missing).await;
    browser.appears("#strange-end").await;
    let told = read(&browser, "window.told.strange").await;
    assert!(
        told["error"].as_str().is_some_and(|error| error.contains("Failed to fetch")),
        "{told}"
    );
    assert_eq!(told, json!({"error": told["error"]}));
    browser.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_origins_the_face_speaks_http2_alone_and_with_them_programs_still_do() {
    let ask = async |rig: &Rig, origin: &str| {
        let url = format!("http://{}/longhaul.v1.JobService/GetJob", rig.grpc_addr);
        let request = http_client().request(reqwest::Method::OPTIONS, url);
        let request =
            request.header("origin", origin).header("access-control-request-method", "POST");
        let request = request.header("access-control-request-headers", "content-type,x-grpc-web");
        request.send().await
    };
    let rig = Rig::start().await;
    assert!(ask(&rig, "https://a.example").await.is_err(), "HTTP/1 is not spoken");
    let rig = Rig::start_with(&[("LONGHAUL_GRPC_WEB_ORIGINS", "https://a.example")]).await;
    rig.submit(job("by-program", [wait(3600)])).await;
    let allowed = ask(&rig, "https://a.example").await.unwrap();
    let header = |name: &str| allowed.headers().get(name).map(|value| value.to_str().unwrap());
    assert_eq!(header("access-control-allow-origin"), Some("https://a.example"));
    assert_eq!(header("access-control-allow-headers"), Some("content-type,x-grpc-web"));
    let refused = ask(&rig, "https://b.example").await.unwrap();
    assert!(!refused.headers().contains_key("access-control-allow-origin"), "{refused:?}");
    let anywhere = Rig::start_with(&[("LONGHAUL_GRPC_WEB_ORIGINS", "*")]).await;
    let allowed = ask(&anywhere, "https://b.example").await.unwrap();
    assert_eq!(allowed.headers()["access-control-allow-origin"], "*");
}
