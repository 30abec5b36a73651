//! What a fuzzer calls of the sidecar: a body of any type, as a submit or as an action.
//!
//! In come bytes: the first says which type is claimed and which webhook is meant, the rest is the body.
//! There in tests and for the fuzzer alone, as `domain::fuzz` says.

use axum::http::{HeaderMap, HeaderValue, header};
use bytes::Bytes;
use futures::FutureExt as _;

use super::fault::Fault;
use super::{body, jobs};
use crate::domain::fuzz::frozen;
use crate::domain::submission::Submission;

const BYTES_MAX: usize = 4 << 20;
const TYPES: [&str; 6] = [
    "application/json",
    "application/x-www-form-urlencoded",
    "text/plain; charset=utf-8",
    "",
    "multipart/form-data; boundary=x",
    "\u{e9}",
];

/// A body is read, and what comes of it is a submission, an action or a fault that says what is wrong.
pub fn webhook_body(bytes: &[u8]) {
    let Some((choice, rest)) = bytes.split_first() else { return };
    let mut headers = HeaderMap::new();
    let content_type = TYPES[usize::from(choice >> 1) % TYPES.len()];
    if let Ok(value) = HeaderValue::from_bytes(content_type.as_bytes()) {
        headers.insert(header::CONTENT_TYPE, value);
    }
    let rest = Bytes::copy_from_slice(rest);
    let read = body::read(&headers, rest, BYTES_MAX).now_or_never();
    let read = read.expect("a body that has come waits for nothing");
    let done = if choice & 1 == 0 {
        read.and_then(|mut sent| {
            // The webhook takes it out before it reads the rest.
            sent.remove("validate_only");
            frozen(&Submission::read(sent)?);
            Ok(())
        })
    } else {
        read.and_then(jobs::try_action)
    };
    if let Err(fault) = done {
        check(&fault);
    }
}

fn check(fault: &Fault) {
    let body = fault.told();
    let text = |name: &str| body[name].as_str().is_some_and(|text| !text.is_empty());
    assert!(text("message") && text("reason"), "{body}");
    let length = body.to_string().len();
    assert!(length <= 256 << 10, "a fault of {length} bytes");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_of_bodies_and_their_neighbours_break_no_law() {
        crate::domain::fuzz::sown::try_all("webhook_body", webhook_body);
    }
}
