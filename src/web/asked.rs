//! What a webhook is asked by the query of its address: to wait for the job, and to be lenient.
//!
//! In goes the query of any request, out comes what it asks, before the body is read; or a fault that names the parameter.
//! Where a client is lenient with, its own mistakes are answered with 200 and `"ok":false`, since it stops at anything else.
//! Who may not come in, and what has no room, is never softened: who is told 200 would neither mend the key nor come again.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::body::clip;
use super::fault::Fault;

/// The longest that a request may wait for its job.
pub(super) const WAIT_SECONDS_MAX: u64 = 60;

/// How the webhooks of a server behave.
pub(super) struct Manner {
    /// The largest body, in bytes.
    pub(super) body_bytes_max: usize,
    /// Whether every client is lenient with that does not say.
    pub(super) is_lenient: bool,
    /// Seats for those who wait, which take no room from those who do not.
    pub(super) seats: Arc<Semaphore>,
    /// Ends every wait.
    pub(super) stop: CancellationToken,
}

/// What a request asks beside its body.
#[derive(Clone, Debug, Default)]
pub(super) struct Asked {
    /// How long to wait until the job stands still.
    pub(super) wait: Option<Duration>,
    /// Whether what nothing reads is a warning.
    pub(super) is_lenient: bool,
    /// What of the query nothing reads.
    pub(super) warnings: Vec<String>,
}

/// Reads the query, and answers as leniently as it asks.
pub(super) async fn heed(
    State(manner): State<Arc<Manner>>,
    mut request: Request,
    next: Next,
) -> Response {
    let asked = read(request.uri().query().unwrap_or_default(), manner.is_lenient);
    let (asked, fault) = asked;
    let response = match fault {
        None => {
            request.extensions_mut().insert(asked.clone());
            next.run(request).await
        }
        Some(fault) => fault.into_response(),
    };
    let fault = response.extensions().get::<Fault>().filter(|_| asked.is_lenient);
    match fault {
        Some(fault) if may_be_softened(fault.code) => {
            let warnings = response.extensions().get::<Warnings>();
            fault.softened(warnings.map_or(&asked.warnings, |Warnings(all)| all))
        }
        Some(_) | None => response,
    }
}

/// What was not read of a request that was refused for something else.
#[derive(Clone)]
pub(super) struct Warnings(pub(super) Vec<String>);

/// Whether an answer is about a mistake in what was asked, and so can be told in its body alone.
fn may_be_softened(code: StatusCode) -> bool {
    matches!(
        code,
        StatusCode::BAD_REQUEST
            | StatusCode::NOT_FOUND
            | StatusCode::CONFLICT
            | StatusCode::PAYLOAD_TOO_LARGE
            | StatusCode::UNSUPPORTED_MEDIA_TYPE
    )
}

/// What a query asks, and what is wrong with it, if anything is.
fn read(query: &str, is_lenient: bool) -> (Asked, Option<Fault>) {
    let pairs: Vec<(String, String)> = serde_urlencoded::from_str(query).unwrap_or_default();
    let mut asked = Asked { is_lenient, ..Asked::default() };
    let mut fault = None;
    let mut seen: Vec<&str> = Vec::new();
    for (name, text) in &pairs {
        let wrong = match name.as_str() {
            known @ ("wait" | "lenient") if seen.contains(&known) => Some("must not be sent twice"),
            "wait" => match text.parse() {
                Ok(seconds @ 0..=WAIT_SECONDS_MAX) => {
                    asked.wait = Some(Duration::from_secs(seconds)).filter(|wait| !wait.is_zero());
                    None
                }
                Ok(_) | Err(_) => Some("must be a whole number of seconds from 0 to 60"),
            },
            "lenient" => match text.as_str() {
                "" | "1" | "true" => {
                    asked.is_lenient = true;
                    None
                }
                "0" | "false" => {
                    asked.is_lenient = false;
                    None
                }
                _ => Some("must be true or false"),
            },
            _ => {
                asked.warnings.push(format!("the parameter `{}` was not read", clip(name)));
                None
            }
        };
        seen.push(name);
        if let Some(wrong) = wrong {
            fault.get_or_insert_with(|| Fault::violation(name, wrong));
        }
    }
    let unknown = seen.iter().find(|name| !["wait", "lenient"].contains(name));
    if let Some(name) = unknown.filter(|_| !asked.is_lenient) {
        let wrong = "is not a parameter of this address; it takes wait and lenient";
        fault.get_or_insert_with(|| Fault::violation(clip(name), wrong));
    }
    (asked, fault)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_is_read() {
        let read = |query, is_lenient| {
            let (asked, fault) = read(query, is_lenient);
            assert!(fault.is_none(), "{query}: {fault:?}");
            asked
        };
        let asked = |query| read(query, false);
        assert_eq!(asked("").wait, None);
        assert_eq!(asked("wait=0").wait, None);
        assert_eq!(asked("wait=60").wait, Some(Duration::from_secs(60)));
        assert!(asked("lenient").is_lenient && asked("lenient=1&wait=5").is_lenient);
        assert!(!read("lenient=false", true).is_lenient);
        let lenient = asked("colour=red&lenient=true");
        assert_eq!(lenient.warnings, ["the parameter `colour` was not read"]);
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (query, expected) in [
            ("wait=61", "\"wait\", message: \"must be a whole number of seconds from 0 to 60"),
            ("wait=-1", "\"wait\""),
            ("wait=1.5", "\"wait\""),
            ("wait=", "\"wait\""),
            ("wait=1&wait=2", "\"wait\", message: \"must not be sent twice"),
            ("lenient=maybe", "\"lenient\", message: \"must be true or false"),
            ("colour=red", "\"colour\", message: \"is not a parameter"),
            ("wait=61&lenient=true", "\"wait\""),
        ] {
            let fault = format!("{:?}", read(query, false).1);
            assert!(fault.contains(expected), "{query}: {fault}");
        }
    }

    #[test]
    fn a_mistake_may_be_softened_and_a_refusal_never() {
        for code in [400, 404, 409, 413, 415] {
            assert!(may_be_softened(StatusCode::from_u16(code).expect("a code")), "{code}");
        }
        for code in [401, 403, 405, 429, 500, 503] {
            assert!(!may_be_softened(StatusCode::from_u16(code).expect("a code")), "{code}");
        }
    }
}
