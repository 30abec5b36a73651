//! What came of a call: an answer, a refusal, or nothing that can be relied on.
//!
//! A call that hangs, is cut, or is answered with UNAVAILABLE or 503 may or may not have taken effect.
//! Every other answer has to be one that the API documents; an internal error is written down as strange.

use std::time::Duration;

use serde_json::Value;
use tonic::{Code, Status};
use tonic_types::StatusExt as _;

use super::tally::Tally;

/// The longest a call waits: a frozen server does not answer.
const CALL_TIMEOUT: Duration = Duration::from_secs(8);

/// What came of a call.
#[derive(Debug)]
pub enum Came<T> {
    /// It was answered.
    Answered(T),
    /// It was refused, for this reason.
    Refused(String),
    /// Nobody knows.
    Cut,
}

/// Waits for a gRPC call.
pub async fn grpc<T>(
    tally: &Tally,
    what: &str,
    call: impl Future<Output = Result<T, Status>>,
) -> Came<T> {
    let status = match tokio::time::timeout(CALL_TIMEOUT, call).await {
        Ok(Ok(answer)) => return Came::Answered(answer),
        Ok(Err(status)) => status,
        Err(_elapsed) => {
            tally.add("answers: none in time");
            return Came::Cut;
        }
    };
    judge(tally, what, &status)
}

/// What a status tells: a refusal, or nothing to rely on.
pub fn judge<T>(tally: &Tally, what: &str, status: &Status) -> Came<T> {
    // Whatever comes from a server carries its reason; the rest is the connection's.
    let Some(info) = status.get_error_details().error_info().cloned() else {
        tally.add("answers: connection cut");
        return Came::Cut;
    };
    match status.code() {
        Code::Unavailable | Code::ResourceExhausted | Code::DeadlineExceeded => {
            tally.add(&format!("answers: {}", info.reason));
            Came::Cut
        }
        Code::FailedPrecondition
        | Code::InvalidArgument
        | Code::AlreadyExists
        | Code::NotFound
        | Code::OutOfRange => Came::Refused(info.reason),
        code @ (Code::Ok
        | Code::Cancelled
        | Code::Unknown
        | Code::PermissionDenied
        | Code::Aborted
        | Code::Unimplemented
        | Code::Internal
        | Code::DataLoss
        | Code::Unauthenticated) => {
            let reason = &info.reason;
            tally.note_strange(format!("{what} was answered with {code:?} {reason}"));
            Came::Refused(info.reason)
        }
    }
}

/// Sends an HTTP request that is answered with JSON.
pub async fn http(tally: &Tally, what: &str, request: reqwest::RequestBuilder) -> Came<Value> {
    let sent = async {
        let answer = request.send().await?;
        let status = answer.status().as_u16();
        Ok::<_, reqwest::Error>((status, answer.text().await?))
    };
    let (status, text) = match tokio::time::timeout(CALL_TIMEOUT, sent).await {
        Ok(Ok(answered)) => answered,
        Ok(Err(_cut)) => {
            tally.add("answers: connection cut");
            return Came::Cut;
        }
        Err(_elapsed) => {
            tally.add("answers: none in time");
            return Came::Cut;
        }
    };
    let body: Value = serde_json::from_str(&text).unwrap_or(Value::Null);
    match status {
        200..=399 => Came::Answered(body),
        429 | 503 | 504 => {
            tally.add(&format!("answers: {status}"));
            Came::Cut
        }
        400 | 404 | 409 | 422 => {
            Came::Refused(body["reason"].as_str().unwrap_or_default().to_owned())
        }
        other => {
            tally.note_strange(format!("{what} was answered with {other}: {body}"));
            Came::Refused(other.to_string())
        }
    }
}
