//! Bodies: whatever type a client sends, a JSON object comes out, or a fault that says where it is wrong.
//!
//! Taken are JSON, both kinds of forms, and text that holds JSON, each also as gzip or deflate; no type means JSON.
//! No field is lost: one that is sent twice is a fault.
//! Nothing is longer than the limit, neither as it comes nor as it is unpacked.

mod form;

mod unpack;

use std::time::Duration;

use axum::body::{Body, BodyDataStream};
use axum::extract::{FromRequest as _, Request};
use axum::http::{HeaderMap, StatusCode, header};
use bytes::{Bytes, BytesMut};
use futures::StreamExt as _;
use multer::{Constraints, Multipart, SizeLimit};
use serde_json::{Map, Value};

use super::fault::Fault;
use super::strict::Strict;
use crate::domain::submission::read::Misfit;

/// The longest part of a parser's complaint that is sent back: it may quote a whole prompt.
const COMPLAINT_CHARS_MAX: usize = 300;
/// How much of a body that is too large is still taken and thrown away, in bytes, and for how long:
/// a client that is hung up on while it sends would not read why.
const THROWN_AWAY_BYTES_MAX: usize = 64 << 20;
const THROWN_AWAY_FOR: Duration = Duration::from_secs(10);

/// How long the body may take of somebody who has shown nothing that is known to be good.
const STRANGER_FOR: Duration = Duration::from_secs(5);

/// Takes the body of somebody known, which may be as long as its route says.
pub(super) async fn receive_raw(request: Request) -> Result<Bytes, Fault> {
    Bytes::from_request(request, &()).await.map_err(|rejection| Fault::unread(&rejection))
}

/// Takes the body of a stranger, who has less time for it.
pub(super) async fn receive_soon(request: Request) -> Result<Bytes, Fault> {
    receive_within(STRANGER_FOR, request).await
}

async fn receive_within(time: Duration, request: Request) -> Result<Bytes, Fault> {
    let received = tokio::time::timeout(time, receive_raw(request)).await;
    received.unwrap_or_else(|_late| Err(Fault::unavailable()))
}

/// Takes a body as it comes.
pub(super) async fn receive(
    headers: &HeaderMap,
    body: Body,
    bytes_max: usize,
) -> Result<Bytes, Fault> {
    let declared = headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok());
    let declared: Option<usize> = declared.and_then(|value| value.parse().ok());
    let asks_first = headers.contains_key(header::EXPECT);
    if asks_first && declared.is_some_and(|declared| declared > bytes_max) {
        // It has sent nothing yet, and is told that it need not.
        return Err(too_large(bytes_max));
    }
    let mut stream = body.into_data_stream();
    let mut whole = BytesMut::new();
    while let Some(piece) = stream.next().await {
        let piece = piece.map_err(|_cut| Fault::malformed("the body broke off"))?;
        if whole.len() + piece.len() > bytes_max {
            // It gets its answer while it still sends.
            tokio::spawn(tokio::time::timeout(THROWN_AWAY_FOR, throw_away(stream)));
            return Err(too_large(bytes_max));
        }
        whole.extend_from_slice(&piece);
    }
    Ok(whole.freeze())
}

async fn throw_away(mut stream: BodyDataStream) {
    let mut left = THROWN_AWAY_BYTES_MAX;
    while let Some(Ok(piece)) = stream.next().await {
        let Some(less) = left.checked_sub(piece.len()) else { return };
        left = less;
    }
}

fn too_large(bytes_max: usize) -> Fault {
    Fault::malformed(format!("the body is too large: it may have {bytes_max} bytes"))
        .code(StatusCode::PAYLOAD_TOO_LARGE)
        .hint("LONGHAUL_BODY_BYTES_MAX of the server says how large a body may be, unpacked")
}

/// Reads a body that was received.
pub(super) async fn read(
    headers: &HeaderMap,
    body: Bytes,
    bytes_max: usize,
) -> Result<Map<String, Value>, Fault> {
    let body = unpack::unpack(headers, body, bytes_max)?;
    let content_type = headers.get(header::CONTENT_TYPE).map_or(Ok(""), |value| value.to_str());
    let content_type = content_type.unwrap_or("?");
    check_charset(content_type)?;
    let essence = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    match essence.as_str() {
        "" | "application/json" | "text/plain" => read_json(&body),
        json if json.starts_with("application/") && json.ends_with("+json") => read_json(&body),
        // curl sends JSON as a form unless it is told what it is; no field of a form begins with a brace.
        "application/x-www-form-urlencoded" if trim(&body).starts_with(b"{") => read_json(&body),
        "application/x-www-form-urlencoded" => {
            let fields = serde_urlencoded::from_bytes(&body)
                .map_err(|_unread| Fault::malformed("the body is not a form"))?;
            form::nest(fields)
        }
        "multipart/form-data" => form::nest(read_parts(content_type, body, bytes_max).await?),
        _ => Err(unsupported("the body is of a type that is not taken").hint(
            "send application/json, application/x-www-form-urlencoded, multipart/form-data or text/plain",
        )),
    }
}

fn check_charset(content_type: &str) -> Result<(), Fault> {
    let parameters = content_type.split(';').skip(1).filter_map(|one| one.split_once('='));
    for (name, value) in parameters {
        let value = value.trim().trim_matches('"');
        let is_known =
            ["utf-8", "utf8", "us-ascii"].iter().any(|it| it.eq_ignore_ascii_case(value));
        if name.trim().eq_ignore_ascii_case("charset") && !is_known {
            return Err(
                unsupported("the body is in a charset that is not taken").hint("send it in UTF-8")
            );
        }
    }
    Ok(())
}

/// The parts of a multipart form; a part that is a file is the text in it.
async fn read_parts(
    content_type: &str,
    body: Bytes,
    bytes_max: usize,
) -> Result<Vec<(String, String)>, Fault> {
    let broken = |error: multer::Error| {
        let complaint = clip(&error.to_string());
        Fault::malformed(format!("the body is not a multipart form: {complaint}"))
    };
    let boundary = multer::parse_boundary(content_type).map_err(broken)?;
    let limit = SizeLimit::new().whole_stream(u64::try_from(bytes_max).unwrap_or(u64::MAX));
    let body = futures::stream::iter([Ok::<_, std::io::Error>(body)]);
    let constraints = Constraints::new().size_limit(limit);
    let mut parts = Multipart::with_constraints(body, boundary, constraints);
    let mut fields = Vec::new();
    while let Some(part) = parts.next_field().await.map_err(broken)? {
        let Some(name) = part.name().map(str::to_owned) else {
            return Err(Fault::malformed("a part of the form has no name"));
        };
        let bytes = part.bytes().await.map_err(broken)?;
        let text = String::from_utf8(bytes.into())
            .map_err(|_binary| Fault::violation(clip(&name), "must be text in UTF-8"))?;
        fields.push((name, text));
    }
    Ok(fields)
}

fn unsupported(message: &str) -> Fault {
    Fault::malformed(message).code(StatusCode::UNSUPPORTED_MEDIA_TYPE)
}

fn read_json(body: &[u8]) -> Result<Map<String, Value>, Fault> {
    let text = trim(body);
    if text.is_empty() {
        return Err(Fault::malformed("the body is empty, and must be a JSON object"));
    }
    match parse("the body", text)? {
        Value::Object(object) => Ok(object),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            Err(Fault::malformed("the body must be a JSON object"))
        }
    }
}

fn parse(what: &str, text: &[u8]) -> Result<Value, Fault> {
    let mut from = serde_json::Deserializer::from_slice(text);
    let parsed: Result<Strict, _> = serde_path_to_error::deserialize(&mut from);
    let Strict(value) = parsed.map_err(|error| {
        let path = error.path().to_string();
        let error = error.into_inner();
        if error.is_data() {
            // The parser writes `.` for the whole.
            let path = if path == "." { String::new() } else { path };
            Misfit { path, message: error.to_string() }.into()
        } else {
            not_json(what, &error)
        }
    })?;
    from.end().map_err(|error| not_json(what, &error))?;
    Ok(value)
}

/// The body without the mark that some Windows programs put before it, and without the space around it.
fn trim(body: &[u8]) -> &[u8] {
    body.strip_prefix(b"\xef\xbb\xbf").unwrap_or(body).trim_ascii()
}

fn not_json(what: &str, error: &serde_json::Error) -> Fault {
    Fault::malformed(format!("{what} is not JSON: {}", clip(&error.to_string())))
}

impl From<Misfit> for Fault {
    fn from(misfit: Misfit) -> Self {
        let complaint = clip(&misfit.message);
        match misfit.path.as_str() {
            "" => Self::malformed(complaint),
            path => Self::violation(clip(path), format!("does not fit: {complaint}")),
        }
    }
}

pub(super) fn clip(text: &str) -> String {
    match text.char_indices().nth(COMPLAINT_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::submission::{Step, Submission};

    async fn submission(content_type: &str, body: &str) -> Result<Submission, String> {
        let mut headers = HeaderMap::new();
        if !content_type.is_empty() {
            headers.insert(header::CONTENT_TYPE, content_type.parse().unwrap());
        }
        let body = Bytes::copy_from_slice(body.as_bytes());
        let read = read(&headers, body, 16 << 20).await;
        let read = read.and_then(|sent| Ok(Submission::read(sent)?));
        read.map_err(|fault| format!("{fault:?}"))
    }

    #[tokio::test]
    async fn every_type_that_is_taken_means_the_same() {
        let json = r#"{"job_id":42,"task":"t","steps":[{"type":"run","prompt":"p"}]}"#;
        let form = "job_id=42&task=t&steps=%5B%7B%22type%22%3A%22run%22%2C%22prompt%22%3A%22p%22%7D%5D&settings=";
        let by_parts =
            "job_id=42&task=t&steps%5B0%5D%5Btype%5D=run&steps[0].prompt=p&settings[priority]=0";
        let multipart = "--x\r\nContent-Disposition: form-data; name=\"job_id\"\r\n\r\n42\r\n\
            --x\r\nContent-Disposition: form-data; name=\"task\"\r\n\r\nt\r\n\
            --x\r\nContent-Disposition: form-data; name=\"steps\"; filename=\"steps.json\"\r\n\
            Content-Type: application/json\r\n\r\n[{\"type\":\"run\",\"prompt\":\"p\"}]\r\n--x--\r\n";
        let expected = submission("application/json", json).await.unwrap();
        assert_eq!(expected.job_id.as_deref(), Some("42"));
        assert!(matches!(&expected.steps[0], Step::Run(run) if run.prompt == "p"));
        for (content_type, body) in [
            ("", json),
            ("Application/JSON; charset=utf-8", json),
            ("text/plain;charset=UTF-8", json),
            ("application/x-www-form-urlencoded", json),
            ("application/x-www-form-urlencoded", form),
            ("application/x-www-form-urlencoded;charset=UTF-8", by_parts),
            ("multipart/form-data; boundary=x", multipart),
            ("application/vnd.api+json", json),
            ("application/json", &format!("\u{feff} {json}\n")),
        ] {
            let read = submission(content_type, body).await;
            assert_eq!(read.as_ref(), Ok(&expected), "{content_type} {body}");
        }
    }

    #[tokio::test]
    async fn what_is_wrong_is_named() {
        let json = "application/json";
        let form = "application/x-www-form-urlencoded";
        for (content_type, body, expected) in [
            (json, "{\"task\": nope}", "line 1 column 11"),
            (json, "{} {}", "trailing characters"),
            (json, "[1]", "must be a JSON object"),
            (json, "", "empty"),
            (json, r#"{"tusk":"t"}"#, "unknown field `tusk`"),
            (
                json,
                r#"{"steps":[{"type":"run"},{"type":"run","promt":"p"}]}"#,
                "\"steps[1].promt\"",
            ),
            (json, r#"{"task":"t","task":"u"}"#, "`task` is sent twice"),
            (json, r#"{"settings":{"labels":{"a":"b","a":"c"}}}"#, "\"settings.labels\""),
            (form, r#"settings={"system":"a","system":"b"}"#, "`system` is sent twice"),
            (json, r#"{"settings":{"priority":"high"}}"#, "\"settings.priority\""),
            (form, "steps=nope", "steps is not JSON"),
            (form, "steps[0][type]=run&steps[0][max_tokens]=many", "\"steps[0].max_tokens\""),
            ("application/json; charset=utf-16", "{}", "code: 415"),
            ("multipart/form-data", "", "not a multipart form"),
            ("multipart/form-data; boundary=x", "--x\r\n", "not a multipart form"),
            (
                "multipart/form-data; boundary=x",
                "--x\r\nContent-Disposition: form-data\r\n\r\n1\r\n--x--",
                "has no name",
            ),
            (form, "task=a&task=b", "twice"),
            ("application/xml", "<a/>", "code: 415"),
        ] {
            let fault = submission(content_type, body).await.unwrap_err();
            assert!(fault.contains(expected), "{body}: {fault}");
        }
    }

    #[tokio::test]
    async fn a_complaint_does_not_repeat_a_whole_prompt() {
        let body = format!(r#"{{"steps":"{}"}}"#, "长".repeat(1 << 20));
        assert!(submission("", &body).await.unwrap_err().len() < 4000);
    }

    #[tokio::test]
    async fn a_stranger_has_little_time_for_a_body() {
        let never = futures::stream::pending::<Result<Bytes, std::io::Error>>();
        let never = Request::new(Body::from_stream(never));
        let refused = receive_within(Duration::from_millis(1), never).await.unwrap_err();
        assert!(format!("{refused:?}").contains("code: 503"), "{refused:?}");
        let whole = receive_soon(Request::new(Body::from("whole"))).await.unwrap();
        assert_eq!(whole, "whole");
    }
}
