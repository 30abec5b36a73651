//! What can go wrong with a call, and what the caller can do about it.
//!
//! In comes what the provider said (status, headers, the error's type and code) or how the connection failed;
//! out comes a [`ModelError`] that carries the decision whether and when to try again.
//! Types and codes decide, never the words of a message. No message holds a prompt or an answer.

use std::error::Error;
use std::time::Duration;

use chrono::DateTime;
use reqwest::StatusCode;
use reqwest::header::{DATE, HeaderMap, RETRY_AFTER};
use serde_json::Value;

use super::reply::without_nul;
use crate::domain::job::Reason;
use crate::domain::money::Usage;

const LONGEST_MESSAGE_CHARS: usize = 500;

/// How long a job waits before it sees whether the provider takes money again.
const SPEND_LIMIT_PAUSE: Duration = Duration::from_mins(30);

/// A wait longer than this is nonsense, and times so far away could not even be stored.
const LONGEST_WAIT: Duration = Duration::from_hours(366 * 24);

/// `ModelError` says why a call gave no answer, and whether another try can help.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ModelError {
    /// The kind of failure.
    pub reason: Reason,
    /// Whether and when to try again.
    pub retry: Retry,
    /// What happened, with the provider's own words cut short.
    pub message: Box<str>,
    /// The provider's id of the request.
    pub request_id: Option<String>,
    /// What the provider will bill at least; `None` if it has not said.
    pub usage: Option<Usage>,
    /// Whether it is too much for the provider, so that other calls to the model have to wait too.
    pub is_overload: bool,
}

/// Retry says when another try can help.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retry {
    /// Not before this time has passed: the provider asked for it.
    After(Duration),
    /// After a while that the caller chooses.
    Backoff,
    /// Never: the same request would fail again.
    Never,
}

impl ModelError {
    /// There is no key.
    pub fn unconfigured() -> Self {
        let message = "no api key for the model provider is configured";
        Self::new(Reason::ProviderUnconfigured, Retry::Never, message)
    }

    /// The provider, or the way to it, failed in a way that passes by itself.
    pub(super) fn unavailable(message: &str) -> Self {
        Self::new(Reason::ProviderUnavailable, Retry::Backoff, message)
    }

    /// It cannot be held to a budget.
    pub fn unpriced(message: &str) -> Self {
        Self::new(Reason::ModelUnpriced, Retry::Never, message)
    }

    /// The model's answer is whole, but no success.
    pub(super) fn stopped(reason: Reason, message: &str) -> Self {
        Self::new(reason, Retry::Never, message)
    }

    /// The connection failed.
    pub(super) fn transport(doing: &str, error: reqwest::Error) -> Self {
        let error = error.without_url();
        let mut message = format!("{doing}: {error}");
        let mut source = error.source();
        while let Some(cause) = source {
            message = format!("{message}: {cause}");
            source = cause.source();
        }
        Self::unavailable(&message)
    }

    /// The provider answered with a status that is not success.
    pub(super) fn refused(status: StatusCode, headers: &HeaderMap, body: &[u8]) -> Self {
        let body: Value = serde_json::from_slice(body).unwrap_or_default();
        Self::from_body(Some(status), headers, &body, "")
    }

    /// The provider sent an error in the middle of an answer.
    pub(super) fn mid_stream(data: &str) -> Self {
        let body: Value = serde_json::from_str(data).unwrap_or_default();
        Self::from_body(None, &HeaderMap::new(), &body, "the model provider broke off its answer")
    }

    /// The provider could not answer one question of a batch.
    pub(super) fn in_a_batch(data: &str) -> Self {
        let body: Value = serde_json::from_str(data).unwrap_or_default();
        Self::from_body(None, &HeaderMap::new(), &body, "the model provider did not answer it")
    }

    /// `stopped` says what happened where there is no status.
    fn from_body(
        status: Option<StatusCode>,
        headers: &HeaderMap,
        body: &Value,
        stopped: &str,
    ) -> Self {
        let word = |pointer: &str| body.pointer(pointer).and_then(Value::as_str);
        let kind = word("/error/type");
        let (reason, retry) = classify(status, headers, kind, word("/error/details/error_code"));
        let mut message = match status {
            _ if retry == Retry::Never => "the model provider refused the request",
            Some(status) if status.is_success() => "the model provider sent no event stream",
            Some(_) => "the model provider is unavailable",
            None => stopped,
        }
        .to_owned();
        if let Some(status) = status {
            message = format!("{message}: status {}", status.as_u16());
        }
        for detail in [kind, word("/error/message")].into_iter().flatten() {
            message = format!("{message}: {detail}");
        }
        let mut error = Self::new(reason, retry, &message);
        error.is_overload = retry != Retry::Never && is_overload(status, kind);
        error.request_id =
            text_header(headers, "request-id").or_else(|| word("/request_id")).map(without_nul);
        error
    }

    fn new(reason: Reason, retry: Retry, message: &str) -> Self {
        let message: String = without_nul(message).chars().take(LONGEST_MESSAGE_CHARS).collect();
        Self {
            reason,
            retry,
            message: message.into(),
            request_id: None,
            usage: None,
            is_overload: false,
        }
    }
}

/// The text of a header, if it has one.
pub(super) fn text_header<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    headers.get(name)?.to_str().ok()
}

/// By the status, and in the middle of an answer by the type.
fn is_overload(status: Option<StatusCode>, kind: Option<&str>) -> bool {
    match status.filter(|status| !status.is_success()) {
        Some(status) => matches!(status.as_u16(), 429 | 529),
        None => matches!(kind, Some("rate_limit_error" | "overloaded_error")),
    }
}

fn classify(
    status: Option<StatusCode>,
    headers: &HeaderMap,
    kind: Option<&str>,
    code: Option<&str>,
) -> (Reason, Retry) {
    let is_out_of_money =
        matches!(code, Some("enforced_spend_limit_reached" | "contract_spend_limit_reached"));
    if is_out_of_money {
        // It passes when somebody raises the limit or the month is over, and says nothing of when that is.
        return (Reason::SpendLimit, Retry::After(SPEND_LIMIT_PAUSE));
    }
    let passes = match text_header(headers, "x-should-retry") {
        Some("true") => true,
        Some("false") => false,
        Some(_) | None => match status {
            Some(status) => is_passing_status(status),
            None => is_passing_kind(kind),
        },
    };
    if !passes {
        return (Reason::ProviderRejected, Retry::Never);
    }
    let retry = find_wait(headers).map_or(Retry::Backoff, Retry::After);
    (Reason::ProviderUnavailable, retry)
}

fn is_passing_status(status: StatusCode) -> bool {
    // Success without an event stream comes from something between us and the provider.
    status.is_success() || status.is_server_error() || matches!(status.as_u16(), 408 | 409 | 429)
}

/// In the middle of an answer there is no status; a kind that is not known is taken for one that passes.
fn is_passing_kind(kind: Option<&str>) -> bool {
    !matches!(
        kind,
        Some(
            "invalid_request_error"
                | "authentication_error"
                | "billing_error"
                | "permission_error"
                | "not_found_error"
                | "request_too_large"
        )
    )
}

/// How long the provider asks to wait, in any of the three ways to say it.
fn find_wait(headers: &HeaderMap) -> Option<Duration> {
    let wait = find_wait_ms(headers).or_else(|| find_wait_seconds(headers));
    wait.or_else(|| find_wait_until(headers)).filter(|wait| *wait <= LONGEST_WAIT)
}

fn find_wait_ms(headers: &HeaderMap) -> Option<Duration> {
    let ms: f64 = text_header(headers, "retry-after-ms")?.trim().parse().ok()?;
    Duration::try_from_secs_f64(ms / 1000.0).ok()
}

fn find_wait_seconds(headers: &HeaderMap) -> Option<Duration> {
    let seconds: f64 = text_header(headers, RETRY_AFTER.as_str())?.trim().parse().ok()?;
    Duration::try_from_secs_f64(seconds).ok()
}

/// A date is read against the response's own date, for our clock and the provider's can differ.
fn find_wait_until(headers: &HeaderMap) -> Option<Duration> {
    let date = |name: &str| DateTime::parse_from_rfc2822(text_header(headers, name)?.trim()).ok();
    let wait = date(RETRY_AFTER.as_str())? - date(DATE.as_str())?;
    Some(wait.to_std().unwrap_or(Duration::ZERO))
}

#[cfg(test)]
mod tests {
    use reqwest::header::{HeaderName, HeaderValue};

    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let pair =
            |&(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value));
        pairs.iter().map(pair).collect()
    }

    fn body(kind: &str, code: Option<&str>) -> Vec<u8> {
        let error = serde_json::json!({
            "type": "error",
            "error": {"type": kind, "message": "words", "details": code.map(|code| serde_json::json!({"error_code": code}))},
            "request_id": "req_body",
        });
        error.to_string().into_bytes()
    }

    fn refused(status: u16, pairs: &[(&'static str, &'static str)], body: &[u8]) -> ModelError {
        ModelError::refused(StatusCode::from_u16(status).expect("a status"), &headers(pairs), body)
    }

    #[test]
    fn the_status_decides_whether_another_try_can_help() {
        for (status, kind, passes) in [
            (400, "invalid_request_error", false),
            (401, "authentication_error", false),
            (402, "billing_error", false),
            (403, "permission_error", false),
            (404, "not_found_error", false),
            (413, "request_too_large", false),
            (418, "a_new_error", false),
            (308, "", false),
            (408, "timeout_error", true),
            (409, "conflict_error", true),
            (429, "rate_limit_error", true),
            (500, "api_error", true),
            (502, "", true),
            (503, "api_error", true),
            (504, "timeout_error", true),
            (529, "overloaded_error", true),
            (599, "a_new_error", true),
        ] {
            let error = refused(status, &[], &body(kind, None));
            let expected = if passes {
                (Reason::ProviderUnavailable, Retry::Backoff)
            } else {
                (Reason::ProviderRejected, Retry::Never)
            };
            assert_eq!((error.reason, error.retry), expected, "{status} {kind}");
            assert!(error.message.contains(&status.to_string()), "{}", error.message);
            assert!(error.message.contains(kind), "{}", error.message);
        }
    }

    #[test]
    fn a_spend_limit_is_waited_out_and_a_ramp_limit_is_too() {
        for code in ["enforced_spend_limit_reached", "contract_spend_limit_reached"] {
            let error =
                refused(429, &[("x-should-retry", "true")], &body("rate_limit_error", Some(code)));
            assert_eq!(
                (error.reason, error.retry),
                (Reason::SpendLimit, Retry::After(SPEND_LIMIT_PAUSE))
            );
        }
        let ramp = body("rate_limit_error", Some("ramp_limit_exceeded"));
        let error = refused(429, &[("retry-after", "90")], &ramp);
        assert_eq!(error.retry, Retry::After(Duration::from_secs(90)));
    }

    #[test]
    fn the_providers_word_on_retries_is_obeyed() {
        let error = refused(529, &[("x-should-retry", "false"), ("retry-after", "1")], b"");
        assert_eq!((error.reason, error.retry), (Reason::ProviderRejected, Retry::Never));
        let error = refused(400, &[("x-should-retry", "true")], b"");
        assert_eq!((error.reason, error.retry), (Reason::ProviderUnavailable, Retry::Backoff));
    }

    #[test]
    fn the_wait_is_read_in_every_form_and_never_cut_short() {
        const NOW: (&str, &str) = ("date", "Sun, 29 Nov 2026 18:00:00 GMT");
        let after = |pairs: &[(&'static str, &'static str)]| refused(529, pairs, b"").retry;
        let seconds = |seconds: u64| Retry::After(Duration::from_secs(seconds));
        assert_eq!(after(&[("retry-after", "7200")]), seconds(7200));
        assert_eq!(after(&[("retry-after", " 0 ")]), seconds(0));
        let ms = after(&[("retry-after-ms", "1500.5"), ("retry-after", "9")]);
        assert_eq!(ms, Retry::After(Duration::from_micros(1_500_500)));
        assert_eq!(after(&[("retry-after-ms", "soon"), ("retry-after", "9")]), seconds(9));
        assert_eq!(after(&[NOW, ("retry-after", "Sun, 29 Nov 2026 20:00:30 GMT")]), seconds(7230));
        assert_eq!(after(&[NOW, ("retry-after", "Sun, 29 Nov 2026 17:00:00 GMT")]), seconds(0));
        assert_eq!(after(&[("retry-after", "Sun, 29 Nov 2026 20:00:00 GMT")]), Retry::Backoff);
        for nonsense in ["-1", "NaN", "inf", "1e300", "later", ""] {
            assert_eq!(after(&[("retry-after", nonsense)]), Retry::Backoff, "{nonsense}");
        }
    }

    #[test]
    fn an_error_in_mid_stream_is_judged_by_its_type() {
        for (kind, retry) in [
            ("overloaded_error", Retry::Backoff),
            ("api_error", Retry::Backoff),
            ("a_new_error", Retry::Backoff),
            ("invalid_request_error", Retry::Never),
            ("billing_error", Retry::Never),
        ] {
            let data = String::from_utf8(body(kind, None)).unwrap();
            let error = ModelError::mid_stream(&data);
            assert_eq!(error.retry, retry, "{kind}");
            assert!(error.message.ends_with(&format!("{kind}: words")), "{}", error.message);
            assert_eq!(error.request_id.as_deref(), Some("req_body"));
        }
        assert_eq!(ModelError::mid_stream("not json").retry, Retry::Backoff);
    }

    #[test]
    fn the_message_is_cut_and_the_request_id_kept() {
        let long =
            serde_json::json!({"error": {"type": "api_error", "message": "é\u{0}".repeat(900)}});
        let error = refused(500, &[("request-id", "req_header")], long.to_string().as_bytes());
        assert_eq!(error.message.chars().count(), 500);
        assert!(!error.message.contains('\0'));
        assert_eq!(error.request_id.as_deref(), Some("req_header"));
        assert_eq!(
            refused(502, &[], b"<html>").to_string(),
            "the model provider is unavailable: status 502"
        );
    }
}
