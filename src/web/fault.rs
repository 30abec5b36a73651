//! Faults: every error of the sidecar, in the shape that all its clients get.
//!
//! `{"code":404,"message":"…","hint":"…","reason":"JOB_NOT_FOUND"}`, with `field`, `status` or `violations` where they help.
//! The first three keys are those of the template's own errors; the reasons are those of the proto.
//! The response also carries the fault itself, from which the approval page makes a page.

use std::time::Duration;

use axum::Json;
use axum::extract::rejection::BytesRejection;
use axum::http::{HeaderName, HeaderValue, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use crate::domain::job::Status;
use crate::domain::reason::Reason;
use crate::domain::validate::Violation;
use crate::domain::word::Word as _;

/// The most fields that one fault lists.
const VIOLATIONS_MAX: usize = 100;

/// When a client that was turned away for want of room may come again.
const RETRY_AFTER_SECONDS: u32 = 1;

/// What a reason is in HTTP; those that this face never gives have what a proxy would make of them.
pub fn code_of(reason: Reason) -> StatusCode {
    match reason {
        Reason::InvalidRequest | Reason::SequenceOutOfRange => StatusCode::BAD_REQUEST,
        Reason::KeyRequired | Reason::Unauthenticated => StatusCode::UNAUTHORIZED,
        // As n8n's webhooks answer a credential that is wrong.
        Reason::KeyInvalid | Reason::ScopeRequired | Reason::Forbidden => StatusCode::FORBIDDEN,
        Reason::JobNotFound
        | Reason::JobPruned
        | Reason::StepNotFound
        | Reason::ApprovalNotFound
        | Reason::NoticeNotFound
        | Reason::NotFound => StatusCode::NOT_FOUND,
        Reason::MethodNotAllowed => StatusCode::METHOD_NOT_ALLOWED,
        Reason::JobIdConflict
        | Reason::RequestIdConflict
        | Reason::JobStateConflict
        | Reason::NoticeKept
        | Reason::ApprovalIdRequired
        | Reason::ApprovalClosed
        | Reason::ChangesNotAllowed
        | Reason::EditNotAllowed
        | Reason::AlreadyVoted
        | Reason::SpecVersionUnknown => StatusCode::CONFLICT,
        Reason::Overloaded | Reason::RateLimited => StatusCode::TOO_MANY_REQUESTS,
        Reason::Unavailable | Reason::WatchLagged => StatusCode::SERVICE_UNAVAILABLE,
        Reason::DeadlineExceeded => StatusCode::GATEWAY_TIMEOUT,
        Reason::Unimplemented => StatusCode::NOT_IMPLEMENTED,
        Reason::Internal => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

/// An error as it is sent.
#[derive(Clone, Debug)]
pub(super) struct Fault {
    /// The HTTP status.
    pub(super) code: StatusCode,
    reason: Reason,
    message: String,
    hint: &'static str,
    field: Option<String>,
    status: Option<Status>,
    violations: Vec<Violation>,
    job_id: Option<String>,
    headers: Vec<(HeaderName, HeaderValue)>,
}

impl Fault {
    /// A fault that says what is wrong and nothing else yet.
    pub(super) fn new(reason: Reason, message: impl Into<String>) -> Self {
        Self {
            code: code_of(reason),
            reason,
            message: message.into(),
            hint: "",
            field: None,
            status: None,
            violations: Vec::new(),
            job_id: None,
            headers: Vec::new(),
        }
    }

    /// Another HTTP status than its reason has, where a request is wrong in a way that HTTP has one for.
    pub(super) fn code(self, code: StatusCode) -> Self {
        Self { code, ..self }
    }

    /// What the client can do about it.
    pub(super) fn hint(self, hint: &'static str) -> Self {
        Self { hint, ..self }
    }

    /// The field it is about.
    pub(super) fn field(self, field: String) -> Self {
        Self { field: Some(field), ..self }
    }

    /// The job that is stored although this went wrong.
    pub(super) fn job_id(self, job_id: &str) -> Self {
        Self { job_id: Some(job_id.to_owned()), ..self }
    }

    /// The status the job has.
    pub(super) fn status(self, status: Status) -> Self {
        Self { status: Some(status), ..self }
    }

    /// A header that goes with it.
    pub(super) fn header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.push((name, value));
        self
    }

    /// A request that is wrong as a whole.
    pub(super) fn malformed(message: impl Into<String>) -> Self {
        Self::new(Reason::InvalidRequest, message)
    }

    /// One field that is wrong.
    pub(super) fn violation(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self::invalid(vec![Violation { field: field.into(), message: message.into() }])
    }

    /// Fields that are wrong; the message names the first and counts all, of which a hundred are listed.
    pub(super) fn invalid(mut violations: Vec<Violation>) -> Self {
        for violation in &mut violations {
            violation.field = flat(&violation.field);
        }
        let first = violations.first().map(|first| match first.field.as_str() {
            "" => first.message.clone(),
            field => format!("{field} {}", first.message),
        });
        let message = match (first, violations.len()) {
            (Some(first), 2..) => format!("{first} (and {} more)", violations.len() - 1),
            (Some(first), _) => first,
            (None, _) => "the request is not valid".to_owned(),
        };
        violations.truncate(VIOLATIONS_MAX);
        Self { violations, ..Self::malformed(message) }
    }

    /// Nothing is known to have happened.
    pub(super) fn unavailable() -> Self {
        let fault = Self::new(Reason::Unavailable, "the server cannot do this at the moment");
        let hint = "try again: a submit with a job_id and every control action are safe to repeat";
        fault.hint(hint).header(header::RETRY_AFTER, RETRY_AFTER_SECONDS.into())
    }

    /// There is no room.
    pub(super) fn overloaded() -> Self {
        let fault = Self::new(Reason::Overloaded, "too many requests at once").hint("try again");
        fault.header(header::RETRY_AFTER, RETRY_AFTER_SECONDS.into())
    }

    /// There were too many of late; after this time there is room for one.
    pub(super) fn rate_limited(wait: Duration) -> Self {
        let fault = Self::new(Reason::RateLimited, "too many requests a second");
        // Whole seconds, and never none: a client that comes at once comes in vain.
        let seconds = u32::try_from(wait.as_secs()).unwrap_or(u32::MAX).saturating_add(1);
        fault
            .hint("send fewer, or give the key a higher rate")
            .header(header::RETRY_AFTER, seconds.into())
    }

    /// A fault of the server, described in its log.
    pub(super) fn internal() -> Self {
        Self::new(Reason::Internal, "a fault of the server").hint("the server's log says more")
    }

    /// The server stops while somebody waits for a job, which goes on elsewhere.
    pub(super) fn stopping(job_id: &str) -> Self {
        let fault = Self::new(Reason::Unavailable, "the server is stopping; the job is stored");
        let hint = "ask again, by this job_id, how it goes on";
        let fault = fault.hint(hint).job_id(job_id);
        fault.header(header::RETRY_AFTER, RETRY_AFTER_SECONDS.into())
    }

    /// A body that could not be read.
    pub(super) fn unread(rejection: &BytesRejection) -> Self {
        if rejection.status() == StatusCode::PAYLOAD_TOO_LARGE {
            return Self::malformed("the body is too large").code(StatusCode::PAYLOAD_TOO_LARGE);
        }
        Self::malformed("the body broke off")
    }

    /// The same answer for a client that takes nothing but 200, and what of its request was not read.
    pub(super) fn softened(&self, warnings: &[String]) -> Response {
        let mut body = self.body();
        body["ok"] = false.into();
        body["warnings"] = warnings.into();
        Json(body).into_response()
    }

    /// The body, for a fuzzer.
    #[cfg(any(test, fuzzing))]
    pub(super) fn told(&self) -> Value {
        self.body()
    }

    fn body(&self) -> Value {
        let mut body = json!({
            "code": self.code.as_u16(), "message": self.message, "hint": self.hint, "reason": self.reason.word(),
        });
        if let Some(job_id) = &self.job_id {
            body["job_id"] = job_id.as_str().into();
        }
        if let Some(field) = &self.field {
            body["field"] = field.as_str().into();
        }
        if let Some(status) = self.status {
            body["status"] = status.word().into();
        }
        if !self.violations.is_empty() {
            let violations = self.violations.iter();
            body["violations"] =
                violations.map(|one| json!({"field": one.field, "message": one.message})).collect();
        }
        body
    }
}

impl IntoResponse for Fault {
    fn into_response(self) -> Response {
        let mut response = (self.code, Json(self.body())).into_response();
        response.headers_mut().extend(self.headers.iter().cloned());
        response.extensions_mut().insert(self);
        response
    }
}

/// Answers for a path that is not there, without repeating it.
pub(super) async fn unknown_path(uri: Uri) -> Fault {
    let mut parts = uri.path().split('/').filter(|part| !part.is_empty());
    // n8n has both beside its webhooks, under whatever prefix.
    let asks_test = parts.clone().any(|part| part.ends_with("-test"));
    let (message, hint) = if asks_test {
        (
            "there are no test webhooks here",
            "use /webhook in place of /webhook-test: `\"validate_only\": true` checks a job and stores nothing",
        )
    } else if parts.any(|part| part.ends_with("-waiting")) {
        (
            "links of n8n's waiting executions cannot be honoured here",
            "ask for the approval again: the links of this server begin with /approvals/",
        )
    } else {
        (
            "there is nothing at this path",
            "jobs are sent to POST /webhook/durable-job and POST /webhook/durable-job-control",
        )
    };
    Fault::new(Reason::NotFound, message).hint(hint)
}

/// Answers for a method that the path does not take; the router adds which it does.
pub(super) async fn wrong_method(method: Method) -> Fault {
    // The words are those of n8n's own webhooks.
    let hint = if method == Method::GET || method == Method::HEAD {
        "Did you mean to make a POST request?"
    } else {
        "the Allow header names the methods that work"
    };
    // A method may be any word, of any length; only a known one is repeated.
    let known = [
        Method::GET,
        Method::HEAD,
        Method::POST,
        Method::PUT,
        Method::PATCH,
        Method::DELETE,
        Method::OPTIONS,
    ];
    let message = if known.contains(&method) {
        format!("this path does not take {method} requests")
    } else {
        "this path does not take this method".to_owned()
    };
    Fault::new(Reason::MethodNotAllowed, message).hint(hint)
}

/// A field as this door writes it: steps have their fields without the kind between, and actions have no parts.
fn flat(field: &str) -> String {
    let actions =
        ["pause.", "resume.", "cancel.", "retry.", "approve.", "reject.", "request_changes."];
    if let Some(rest) = actions.iter().find_map(|action| field.strip_prefix(action)) {
        return rest.to_owned();
    }
    let inside = field.strip_prefix("steps[").and_then(|rest| rest.split_once(']'));
    let Some((number, rest)) = inside else { return field.to_owned() };
    let kinds = [".run", ".approval", ".wait"];
    let rest = kinds
        .iter()
        .find_map(|kind| {
            rest.strip_prefix(kind).filter(|rest| rest.is_empty() || rest.starts_with('.'))
        })
        .unwrap_or(rest);
    format!("steps[{number}]{rest}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_written_as_this_door_has_them() {
        for (field, expected) in [
            ("steps[1].run.prompt", "steps[1].prompt"),
            ("steps[12].approval.approvers[0]", "steps[12].approvers[0]"),
            ("steps[0].wait", "steps[0]"),
            ("steps[0].name", "steps[0].name"),
            ("steps[0].running", "steps[0].running"),
            ("steps", "steps"),
            ("settings.labels[\"steps[1].run\"]", "settings.labels[\"steps[1].run\"]"),
            ("retry.from_step", "from_step"),
            ("reject.on_behalf_of", "on_behalf_of"),
            ("resume.budget_usd", "budget_usd"),
            ("job_id", "job_id"),
        ] {
            assert_eq!(flat(field), expected);
        }
    }

    #[test]
    fn the_message_names_the_first_of_several_violations() {
        let violation = |field: &str| Violation { field: field.into(), message: "is bad".into() };
        let fault = Fault::invalid(vec![violation("steps[0].run.prompt"), violation("task")]);
        let body = fault.body();
        assert_eq!(body["code"], 400);
        assert_eq!(body["message"], "steps[0].prompt is bad (and 1 more)");
        assert_eq!(body["violations"][1]["field"], "task");
    }
}
