//! The one table from errors to gRPC statuses.
//!
//! In goes an error, out comes a `google.rpc.Status` with exactly one `ErrorInfo` and what helps a program beside it.
//! A fault of the server is logged here, once, with its sources; none of them is ever sent.
//! A whole status stays under 3.5 KB, since many clients and proxies lose longer trailers.

use std::collections::HashMap;
use std::time::Duration;

use chrono::SecondsFormat;
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, FieldViolation, PreconditionViolation, StatusExt as _};

use super::cut;
use crate::domain::id::JobKey;
use crate::domain::reason::Reason;
use crate::domain::state::Refusal;
use crate::domain::validate::Violation;
use crate::domain::word::Word;
use crate::door;
use crate::engine::EngineError;
use crate::rpc::proto;
use crate::store::StoreError;

const DOMAIN: &str = "longhaul.dev";
/// The most bytes that a status takes as trailers.
pub(in crate::rpc) const STATUS_BYTES_MAX: usize = 3500;
const MESSAGE_BYTES_MAX: usize = 400;
const TEXT_BYTES_MAX: usize = 256;
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// What a reason is in gRPC; those that this face never gives have what a client would make of their HTTP status.
pub fn code_of(reason: Reason) -> Code {
    match reason {
        Reason::InvalidRequest => Code::InvalidArgument,
        Reason::KeyRequired | Reason::KeyInvalid | Reason::Unauthenticated => Code::Unauthenticated,
        Reason::ScopeRequired | Reason::Forbidden => Code::PermissionDenied,
        Reason::JobNotFound
        | Reason::JobPruned
        | Reason::StepNotFound
        | Reason::ApprovalNotFound
        | Reason::NoticeNotFound
        | Reason::NotFound => Code::NotFound,
        Reason::JobIdConflict | Reason::RequestIdConflict => Code::AlreadyExists,
        Reason::JobStateConflict
        | Reason::NoticeKept
        | Reason::ApprovalIdRequired
        | Reason::ApprovalClosed
        | Reason::ChangesNotAllowed
        | Reason::EditNotAllowed
        | Reason::AlreadyVoted
        | Reason::SpecVersionUnknown => Code::FailedPrecondition,
        Reason::SequenceOutOfRange => Code::OutOfRange,
        Reason::Unavailable | Reason::WatchLagged => Code::Unavailable,
        Reason::Overloaded | Reason::RateLimited => Code::ResourceExhausted,
        Reason::DeadlineExceeded => Code::DeadlineExceeded,
        Reason::Unimplemented | Reason::MethodNotAllowed => Code::Unimplemented,
        Reason::Internal => Code::Internal,
    }
}

/// The status for an error about a job.
pub fn failed(error: EngineError, key: &JobKey) -> Status {
    match error {
        EngineError::Invalid(violations) => invalid(violations),
        EngineError::Store(error) => stored(error, key.job_id()),
    }
}

/// The status for an error of the store that is about no job in particular.
pub fn failed_list(error: StoreError) -> Status {
    stored(error, "")
}

/// The status for an error about many jobs at once.
pub fn failed_bulk(error: EngineError) -> Status {
    match error {
        EngineError::Invalid(violations) => invalid(violations),
        EngineError::Store(error) => failed_list(error),
    }
}

/// The status for a request with faults.
pub fn invalid(violations: Vec<Violation>) -> Status {
    Problem { violations, ..Problem::new(Reason::InvalidRequest, "") }.status()
}

/// The status for a message that could not be read at all.
pub fn unreadable(message: &str) -> Status {
    Problem::new(Reason::InvalidRequest, message).status()
}

/// The status for a caller that is not let in.
pub fn not_let_in(refusal: &door::Refusal) -> Status {
    match refusal {
        door::Refusal::KeyRequired => {
            let message = "an API key is needed: send it as `authorization: Bearer lh_…`";
            Problem::new(Reason::KeyRequired, message)
        }
        door::Refusal::KeyInvalid => {
            let message = "the API key is not valid; it may have been revoked, or have expired";
            Problem::new(Reason::KeyInvalid, message)
        }
        door::Refusal::ScopeRequired(scopes) => {
            let words: Vec<String> = scopes.iter().map(Word::word).collect();
            let message = format!("the API key lacks the scope {}", words.join(" or "));
            Problem::new(Reason::ScopeRequired, message).with("scopes", words.join(","))
        }
        door::Refusal::NotReady => unavailable("the server waits for its database"),
    }
    .status()
}

/// The status for a watch that is to begin beyond the last event.
pub fn beyond_the_end(key: &JobKey, after_sequence: i32, last_sequence: i32) -> Status {
    let message = format!(
        "after_sequence is {after_sequence}, and the last event of job {key} is {last_sequence}"
    );
    Problem::new(Reason::SequenceOutOfRange, message)
        .with("job_id", key.job_id())
        .with("last_sequence", last_sequence.to_string())
        .status()
}

/// The status for a watch that is to begin after a sequence of a job that was pruned: its history ends before it.
pub fn nothing_after(error: &StoreError, key: &JobKey, after_sequence: i32) -> Status {
    let message = format!("{error}; nothing can be told after sequence {after_sequence}");
    Problem::new(Reason::SequenceOutOfRange, message).with("job_id", key.job_id()).status()
}

/// The status for a call that comes before the database has answered for the first time.
pub fn waiting() -> Status {
    unavailable("the server waits for its database").status()
}

/// The status for a call that the stop of the server ends.
pub fn stopping() -> Status {
    unavailable("the server is stopping").status()
}

/// The status for a call that came in while there were too many.
pub fn overloaded() -> Status {
    Problem::new(Reason::Overloaded, "the server has too many calls at once").status()
}

/// The status for a caller that asks for more than it may.
pub fn shed(shed: door::Shed) -> Status {
    match shed {
        door::Shed::Overloaded => {
            Problem::new(Reason::Overloaded, "the caller has too many calls at once")
        }
        door::Shed::RateLimited(wait) => {
            let message = "the caller makes too many calls a second";
            Problem { retry_after: wait, ..Problem::new(Reason::RateLimited, message) }
        }
    }
    .status()
}

/// The status for a watcher that has taken nothing for too long.
pub fn lagged() -> Status {
    let message = "the client has not read for too long: watch again after the last sequence";
    Problem::new(Reason::WatchLagged, message).status()
}

/// The status for a method that is not there, or a compression that is not spoken.
pub fn unimplemented(message: &str) -> Status {
    let message = if message.is_empty() { "there is no such method" } else { message };
    Problem::new(Reason::Unimplemented, message).status()
}

/// The status for a call that took too long.
pub fn timed_out() -> Status {
    let message = "the call took too long; whether it had an effect is not known";
    Problem::new(Reason::DeadlineExceeded, message).status()
}

/// The status for a fault of the server.
pub fn internal() -> Status {
    Problem::new(Reason::Internal, "a fault of the server; its log says more").status()
}

fn stored(error: StoreError, job_id: &str) -> Status {
    let message = error.to_string();
    match error {
        StoreError::JobNotFound { key } => Problem::new(Reason::JobNotFound, message)
            .with("job_id", key.job_id())
            .missing("longhaul.v1.Job", key.job_id()),
        StoreError::JobPruned { key, status, finished_at } => {
            Problem::new(Reason::JobPruned, message)
                .with("job_id", key.job_id())
                .with("status", proto::JobStatus::from(status).as_str_name())
                .with("finished_at", finished_at.to_rfc3339_opts(SecondsFormat::Micros, true))
                .missing("longhaul.v1.Job", key.job_id())
        }
        StoreError::StepNotFound { key, step } => Problem::new(Reason::StepNotFound, message)
            .with("job_id", key.job_id())
            .with("step", step.to_string())
            .missing("longhaul.v1.StepState", step.to_string()),
        StoreError::ApprovalNotFound { key, approval_id } => {
            Problem::new(Reason::ApprovalNotFound, message)
                .with("job_id", key.job_id())
                .with("approval_id", approval_id.to_string())
                .missing("longhaul.v1.Approval", approval_id.to_string())
        }
        StoreError::JobIdConflict { key, field } => Problem::new(Reason::JobIdConflict, message)
            .with("job_id", key.job_id())
            .with("field", field),
        StoreError::SpecVersionUnknown { key } => {
            Problem::new(Reason::SpecVersionUnknown, message).with("job_id", key.job_id())
        }
        StoreError::RequestIdConflict { key, action } => {
            Problem::new(Reason::RequestIdConflict, message)
                .with("job_id", key.job_id())
                .with("action", action)
        }
        StoreError::NoticeNotFound { notice_id } => Problem::new(Reason::NoticeNotFound, message)
            .with("notice_id", notice_id.to_string())
            .missing("longhaul.v1.Notice", notice_id.to_string()),
        StoreError::NoticeKept { notice_id, delivery, .. } => {
            Problem::new(Reason::NoticeKept, message)
                .with("notice_id", notice_id.to_string())
                .with("delivery", proto::Delivery::from(delivery).as_str_name())
        }
        StoreError::Refused(refusal) => refused(&refusal, message).with("job_id", job_id),
        StoreError::Unavailable(source) => {
            tracing::warn!(error = &source as &dyn std::error::Error, job_id, "{message}");
            unavailable("the database does not answer")
        }
        error @ (StoreError::Corrupt { .. } | StoreError::Database(_) | StoreError::Migrate(_)) => {
            tracing::error!(error = &error as &dyn std::error::Error, job_id, "a call failed");
            return internal();
        }
    }
    .status()
}

fn refused(refusal: &Refusal, message: String) -> Problem {
    let precondition = |reason| Problem::new(reason, message.clone());
    match refusal {
        Refusal::Conflict { status } => precondition(Reason::JobStateConflict)
            .with("status", proto::JobStatus::from(*status).as_str_name()),
        Refusal::ApprovalIdRequired => precondition(Reason::ApprovalIdRequired),
        Refusal::ApprovalClosed { status } => precondition(Reason::ApprovalClosed)
            .with("approval_status", status.word().to_ascii_uppercase()),
        Refusal::AlreadyVoted { verdict } => precondition(Reason::AlreadyVoted)
            .with("verdict", proto::Verdict::from(*verdict).as_str_name()),
        Refusal::ChangesNotAllowed { most } => {
            precondition(Reason::ChangesNotAllowed).with("max_revisions", most.to_string())
        }
        Refusal::EditNotAllowed => precondition(Reason::EditNotAllowed),
        Refusal::StepOutOfRange { .. } => {
            let violations = vec![Violation { field: "retry.from_step".to_owned(), message }];
            Problem { violations, ..Problem::new(Reason::InvalidRequest, "") }
        }
        Refusal::LeaseLost => {
            tracing::error!("a client's action was judged by a lease, which it has not");
            Problem::new(Reason::Internal, "a fault of the server; its log says more")
        }
    }
}

fn unavailable(message: &str) -> Problem {
    Problem::new(Reason::Unavailable, message)
}

/// A status in the making.
struct Problem {
    reason: Reason,
    message: String,
    metadata: HashMap<String, String>,
    violations: Vec<Violation>,
    missing: Option<(&'static str, String)>,
    retry_after: Duration,
}

impl Problem {
    fn new(reason: Reason, message: impl Into<String>) -> Self {
        Self {
            reason,
            message: message.into(),
            metadata: HashMap::new(),
            violations: Vec::new(),
            missing: None,
            retry_after: RETRY_AFTER,
        }
    }

    fn with(mut self, name: &str, value: impl AsRef<str>) -> Self {
        let value = value.as_ref();
        if !value.is_empty() {
            self.metadata.insert(name.to_owned(), cut(value, TEXT_BYTES_MAX).to_owned());
        }
        self
    }

    fn missing(self, what: &'static str, name: impl Into<String>) -> Self {
        Self { missing: Some((what, name.into())), ..self }
    }

    /// The status with as many violations as fit, and of texts as much.
    fn status(self) -> Status {
        let (mut listed, mut bytes_max) = (self.violations.len().min(40), TEXT_BYTES_MAX);
        loop {
            let status = self.build(listed, bytes_max);
            if size(&status) <= STATUS_BYTES_MAX || bytes_max == 0 {
                return status;
            }
            match listed.checked_sub(1) {
                Some(fewer @ 1..) => listed = fewer,
                Some(0) | None => bytes_max /= 2,
            }
        }
    }

    fn build(&self, listed: usize, bytes_max: usize) -> Status {
        let code = code_of(self.reason);
        let word = self.reason.word();
        let metadata = self.metadata.iter();
        let metadata: HashMap<String, String> = metadata
            .map(|(name, value)| (name.clone(), cut(value, bytes_max).to_owned()))
            .collect();
        let job_id = metadata.get("job_id").or_else(|| metadata.get("notice_id"));
        let subject = job_id.cloned().unwrap_or_default();
        let mut details = ErrorDetails::with_error_info(word, DOMAIN, metadata);
        if listed > 0 {
            let violations = self.violations[..listed].iter().map(|violation| {
                let (field, message) = (&violation.field, &violation.message);
                FieldViolation::new(cut(field, bytes_max), cut(message, bytes_max))
            });
            details.set_bad_request(violations.collect::<Vec<_>>());
        }
        if let Some((what, name)) = &self.missing {
            details.set_resource_info(*what, cut(name, bytes_max), "", "");
        }
        if code == Code::FailedPrecondition {
            let description = cut(&self.message, bytes_max);
            details.set_precondition_failure(vec![PreconditionViolation::new(
                word,
                subject,
                description,
            )]);
        }
        if matches!(code, Code::Unavailable | Code::ResourceExhausted) {
            details.set_retry_info(Some(self.retry_after));
        }
        Status::with_error_details(code, self.summary(listed), details)
    }

    /// The message; that of a request with faults names the first, and says how many are not listed.
    fn summary(&self, listed: usize) -> String {
        let Some(first) = self.violations.first() else {
            return cut(&self.message, MESSAGE_BYTES_MAX).to_owned();
        };
        let fault = format!("{}: {}", first.field, first.message);
        let fault = cut(&fault, MESSAGE_BYTES_MAX / 2);
        match self.violations.len() {
            1 => fault.to_owned(),
            2 if listed == 2 => format!("{fault} (and one more fault)"),
            all if all == listed => format!("{fault} (and {} more faults)", all - 1),
            all => format!(
                "{fault} (and {} more faults, of which the first {} are listed)",
                all - 1,
                listed.saturating_sub(1)
            ),
        }
    }
}

/// The bytes that a status takes as trailers: the message percent-encoded, the details in base64.
pub(in crate::rpc) fn size(status: &Status) -> usize {
    let is_plain = |byte: &u8| (b' '..=b'~').contains(byte) && *byte != b'%';
    let plain = status.message().bytes().filter(is_plain).count();
    plain + 3 * (status.message().len() - plain) + status.details().len().div_ceil(3) * 4
}

#[cfg(test)]
mod tests;
