//! Bodies: whatever type a client sends, a JSON object comes out, or a fault that says where it is wrong.
//!
//! Taken are JSON, forms whose nested fields hold JSON text, and text that holds JSON; no type means JSON.
//! No field is lost: one that is sent twice is a fault.

use axum::http::{HeaderMap, StatusCode, header};
use bytes::Bytes;
use serde_json::{Map, Value};

use super::fault::Fault;
use super::strict::Strict;
use crate::domain::submission::read::Misfit;

/// The longest part of a parser's complaint that is sent back: it may quote a whole prompt.
const COMPLAINT_CHARS_MAX: usize = 300;

/// Reads a body; in a form, the fields of this list hold JSON text.
pub(super) fn read(
    headers: &HeaderMap,
    body: &Bytes,
    json_fields: &[&str],
) -> Result<Map<String, Value>, Fault> {
    let is_plain = |value: &str| value.trim().eq_ignore_ascii_case("identity");
    let encoding = headers.get(header::CONTENT_ENCODING);
    if encoding.is_some_and(|value| !value.to_str().is_ok_and(is_plain)) {
        return Err(unsupported("the body is compressed").hint("send it without Content-Encoding"));
    }
    let content_type = headers.get(header::CONTENT_TYPE).map_or(Ok(""), |value| value.to_str());
    let essence = content_type.map_or("?", |value| value.split(';').next().unwrap_or_default());
    match essence.trim().to_ascii_lowercase().as_str() {
        "" | "application/json" | "text/plain" => read_json(body),
        // curl sends JSON as a form unless it is told what it is; no field of a form begins with a brace.
        "application/x-www-form-urlencoded" if trim(body).starts_with(b"{") => read_json(body),
        "application/x-www-form-urlencoded" => read_form(body, json_fields),
        _ => Err(unsupported("the body is of a type that is not taken")
            .hint("send application/json, application/x-www-form-urlencoded or text/plain")),
    }
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

fn read_form(body: &[u8], json_fields: &[&str]) -> Result<Map<String, Value>, Fault> {
    let fields: Vec<(String, String)> = serde_urlencoded::from_bytes(body)
        .map_err(|_unread| Fault::malformed("the body is not a form"))?;
    let mut object = Map::new();
    for (name, text) in fields {
        let value = if !json_fields.contains(&name.as_str()) {
            Value::String(text)
        } else if text.trim().is_empty() {
            continue;
        } else {
            parse(&name, text.as_bytes()).map_err(|fault| fault.field(name.clone()))?
        };
        if object.insert(name.clone(), value).is_some() {
            return Err(Fault::violation(clip(&name), "must not be sent twice"));
        }
    }
    Ok(object)
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

fn clip(text: &str) -> String {
    match text.char_indices().nth(COMPLAINT_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::submission::{Step, Submission};

    const FIELDS: [&str; 2] = ["steps", "settings"];

    fn submission(content_type: &str, body: &str) -> Result<Submission, String> {
        let mut headers = HeaderMap::new();
        if !content_type.is_empty() {
            headers.insert(header::CONTENT_TYPE, content_type.parse().unwrap());
        }
        let body = Bytes::copy_from_slice(body.as_bytes());
        let read = read(&headers, &body, &FIELDS);
        let read = read.and_then(|sent| Ok(Submission::read(sent)?));
        read.map_err(|fault| format!("{fault:?}"))
    }

    #[test]
    fn every_type_that_is_taken_means_the_same() {
        let json = r#"{"job_id":42,"task":"t","steps":[{"type":"run","prompt":"p"}]}"#;
        let form = "job_id=42&task=t&steps=%5B%7B%22type%22%3A%22run%22%2C%22prompt%22%3A%22p%22%7D%5D&settings=";
        let expected = submission("application/json", json).unwrap();
        assert_eq!(expected.job_id.as_deref(), Some("42"));
        assert!(matches!(&expected.steps[0], Step::Run(run) if run.prompt == "p"));
        for (content_type, body) in [
            ("", json),
            ("Application/JSON; charset=utf-8", json),
            ("text/plain;charset=UTF-8", json),
            ("application/x-www-form-urlencoded", json),
            ("application/x-www-form-urlencoded", form),
            ("application/json", &format!("\u{feff} {json}\n")),
        ] {
            assert_eq!(submission(content_type, body).as_ref(), Ok(&expected), "{content_type}");
        }
    }

    #[test]
    fn what_is_wrong_is_named() {
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
            (form, "task=a&task=b", "twice"),
            ("application/xml", "<a/>", "code: 415"),
        ] {
            let fault = submission(content_type, body).unwrap_err();
            assert!(fault.contains(expected), "{body}: {fault}");
        }
    }

    #[test]
    fn a_complaint_does_not_repeat_a_whole_prompt() {
        let body = format!(r#"{{"steps":"{}"}}"#, "长".repeat(1 << 20));
        assert!(submission("", &body).unwrap_err().len() < 4000);
    }
}
