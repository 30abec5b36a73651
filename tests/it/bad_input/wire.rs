//! What is no request at all: bytes that are no message, methods and paths that are not there, bodies of another type.
//!
//! gRPC and HTTP answer much of it before any code of ours is asked; it has to have our form all the same.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use longhaul::domain::reason::Reason;
use longhaul::rpc::convert::status::code_of;
use prost::Message as _;
use reqwest::header::HeaderMap;
use tonic_types::pb;

use super::Bench;

/// Bytes as a gRPC message: a flag for compression, and the length.
fn framed(compressed: u8, message: &[u8]) -> Vec<u8> {
    let length = u32::try_from(message.len()).unwrap().to_be_bytes();
    [&[compressed][..], &length, message].concat()
}

/// The code of an answer that is nothing but headers, and the reason in its one `ErrorInfo`.
fn told(headers: &HeaderMap) -> Result<(i32, String), String> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let bare = || format!("{headers:?}");
    let code = text("grpc-status").and_then(|code| code.parse().ok()).ok_or_else(bare)?;
    let details = text("grpc-status-details-bin").ok_or_else(bare)?;
    let details = STANDARD_NO_PAD.decode(details.trim_end_matches('=')).unwrap();
    let status = pb::Status::decode(details.as_slice()).unwrap();
    let infos = status.details.iter().filter(|any| any.type_url.ends_with("ErrorInfo"));
    let infos = infos.map(|any| pb::ErrorInfo::decode(any.value.as_slice()).unwrap());
    match infos.collect::<Vec<_>>().as_slice() {
        [info] if info.domain == "longhaul.dev" => Ok((code, info.reason.clone())),
        infos => Err(format!("{infos:?}")),
    }
}

/// A path, headers, a body, and why it is refused.
type Row<'r> = (&'r str, &'r [(&'r str, &'r str)], Vec<u8>, Reason);

/// Sends what is no call to the gRPC face.
async fn try_grpc(bench: &mut Bench) {
    let client = reqwest::Client::builder().no_proxy().http2_prior_knowledge().build().unwrap();
    let submit = "longhaul.v1.JobService/SubmitJob";
    let deep = [0x1a, 0xff, 0xff, 0xff, 0xff, 0x0f].repeat(3);
    let rows: [Row; 13] = [
        (submit, &[], framed(0, &[0xff; 8]), Reason::InvalidRequest),
        (submit, &[], framed(0, &deep), Reason::InvalidRequest),
        (submit, &[], framed(0, &[0x0a, 0x02, 0xc3, 0x28]), Reason::InvalidRequest),
        (submit, &[], framed(7, b""), Reason::InvalidRequest),
        (submit, &[], framed(0, b"")[..3].to_vec(), Reason::InvalidRequest),
        (submit, &[], Vec::new(), Reason::InvalidRequest),
        (submit, &[], vec![0, 0xff, 0xff, 0xff, 0xff, 1], Reason::InvalidRequest),
        (submit, &[("grpc-encoding", "gzip")], framed(1, b"no gzip"), Reason::InvalidRequest),
        (submit, &[("grpc-encoding", "zstd")], framed(1, b"x"), Reason::Unimplemented),
        ("longhaul.v1.JobService/Explode", &[], framed(0, b""), Reason::Unimplemented),
        ("longhaul.v1.JobService/", &[], framed(0, b""), Reason::Unimplemented),
        ("longhaul.v9.JobService/SubmitJob", &[], framed(0, b""), Reason::Unimplemented),
        ("", &[], framed(0, b""), Reason::Unimplemented),
    ];
    for (path, headers, body, reason) in rows {
        let url = format!("http://{}/{path}", bench.rig.grpc_addr);
        let mut request = client.post(url).header("content-type", "application/grpc");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let what = format!("{path} {headers:?} {body:?}");
        let answer = request.header("te", "trailers").body(body).send().await.unwrap();
        match told(answer.headers()) {
            Ok(told) if told == (code_of(reason).into(), reason.word().to_owned()) => {}
            told => bench.blame(&what, &format!("{told:?}")),
        }
        bench.note(&what, reason).await;
    }
}

/// Sends what is no body of a webhook.
async fn try_webhooks(bench: &mut Bench) {
    let (json, form) = ("application/json", "application/x-www-form-urlencoded");
    let deep = format!("{{\"steps\":{}{}}}", "[".repeat(10_000), "]".repeat(10_000));
    let rows = [
        (json, "", 400),
        (json, "  \n", 400),
        (json, "{", 400),
        (json, "[]", 400),
        (json, "null", 400),
        (json, "7", 400),
        (json, "{\"job_id\":\"a\"} {}", 400),
        (json, "{\"job_id\":\"a\",\"job_id\":\"b\"}", 400),
        (json, "{\"steps\":[{\"type\":\"wait\",\"type\":\"run\"}]}", 400),
        (json, "{\"task\":\"\\ud800\"}", 400),
        (json, "{\"task\":\"\u{1}\"}", 400),
        (json, "{\"task\":1e999}", 400),
        (json, "{'task':1}", 400),
        (json, &deep, 400),
        (form, "steps=[", 400),
        (form, "job_id=a&job_id=b", 400),
        (form, "job_id=%ff", 400),
        (form, "", 400),
        ("text/plain", "hello", 400),
        ("multipart/form-data; boundary=x", "--x--", 400),
        ("application/xml", "<job/>", 415),
        ("image/png", "png", 415),
    ];
    for (content_type, body, expected) in rows {
        for path in ["/webhook/durable-job", "/webhook/durable-job-control"] {
            let what = format!("{path} {content_type} {:?}", &body[..body.len().min(60)]);
            let (code, answer) = bench.rig.post_as(path, content_type, body.to_owned()).await;
            let says = answer["message"].as_str().is_some_and(|message| !message.is_empty());
            let is_whole = says && answer["hint"].is_string() && answer["code"] == expected;
            let reason = Reason::InvalidRequest;
            if code != expected || answer["reason"] != reason.word() || !is_whole {
                bench.blame(&what, &answer.to_string());
            }
            bench.note(&what, reason).await;
        }
    }
}

/// Sends what is at no path, or by another method.
async fn try_paths(bench: &mut Bench) {
    let rows = [
        ("GET", "/webhook/durable-job", 405, Reason::MethodNotAllowed),
        ("PUT", "/webhook/durable-job-control", 405, Reason::MethodNotAllowed),
        ("DELETE", "/healthz", 405, Reason::MethodNotAllowed),
        ("POST", "/webhook-test/x", 404, Reason::NotFound),
        ("GET", "/", 404, Reason::NotFound),
        ("POST", "/webhook/durable-job/more", 404, Reason::NotFound),
        ("POST", "/webhook/whatsapp", 404, Reason::NotFound),
    ];
    for (method, path, expected, reason) in rows {
        let method = reqwest::Method::from_bytes(method.as_bytes()).unwrap();
        let url = format!("{}{path}", bench.rig.http_url);
        let answer = bench.rig.http.request(method, url).send().await.unwrap();
        let code = answer.status();
        let answer: serde_json::Value = answer.json().await.unwrap_or_default();
        if code != expected || answer["reason"] != reason.word() {
            bench.blame(path, &format!("{code} {answer}"));
        }
        bench.note(path, reason).await;
    }
}

/// Sends all of it.
pub(super) async fn try_all(bench: &mut Bench) {
    try_grpc(bench).await;
    try_webhooks(bench).await;
    try_paths(bench).await;
}
