//! The other requests: which job, which action, where a watch begins.
//!
//! What comes out has been checked as far as the proto's types allow what the domain's do not.

use uuid::Uuid;

use super::submission::{dollars, number, text};
use crate::domain::approval::Verdict;
use crate::domain::book::Book;
use crate::domain::id::{ApprovalId, JobKey, find_job_id_fault};
use crate::domain::validate::bound::RECIPIENT_BYTES_MAX;
use crate::domain::validate::{Faults, Violation};
use crate::engine::control::Command;
use crate::rpc::proto::{self, control_request::Action};

/// The longest wait of a `GetJob`.
pub const WAIT_SECONDS_MAX: i32 = 60;

/// What to show of which job.
#[derive(Debug)]
pub struct Look {
    /// The job.
    pub key: JobKey,
    /// The step whose whole output is wanted.
    pub step: Option<i32>,
    /// How long to wait for the job to stand still.
    pub wait_seconds: u64,
}

/// What a `GetJob` asks for.
pub fn look(request: &proto::GetJobRequest) -> Result<Look, Vec<Violation>> {
    let mut faults = Faults::default();
    let key = key(&request.job_id, &mut faults);
    faults.check_step("step", request.step);
    let wait = request.wait_seconds;
    faults.check_range("wait_seconds", Some(wait), (0, WAIT_SECONDS_MAX), 0);
    faults.into_result()?;
    let wait_seconds = u64::from(wait.unsigned_abs());
    Ok(Look { key, step: number(request.step), wait_seconds })
}

/// What a `Control` asks for.
pub fn command(request: proto::ControlRequest) -> Result<(JobKey, Command), Vec<Violation>> {
    let mut faults = Faults::default();
    let key = key(&request.job_id, &mut faults);
    let command = match request.action {
        Some(Action::Status(_)) => Command::Status,
        Some(Action::Pause(pause)) => Command::Pause { now: pause.now },
        Some(Action::Resume(sent)) => resume(&sent, &mut faults),
        Some(Action::Cancel(cancel)) => Command::Cancel { comment: cancel.comment },
        Some(Action::Retry(sent)) => retry(&sent, &mut faults),
        Some(Action::Approve(approve)) => Command::Decide {
            approval_id: approval_id("approve.approval_id", &approve.approval_id, &mut faults),
            verdict: Verdict::Approve,
            comment: approve.comment,
            on_behalf_of: text(approve.on_behalf_of),
            edited_output: approve.edited_output,
        },
        Some(Action::Reject(reject)) => Command::Decide {
            approval_id: approval_id("reject.approval_id", &reject.approval_id, &mut faults),
            verdict: Verdict::Reject,
            comment: reject.comment,
            on_behalf_of: text(reject.on_behalf_of),
            edited_output: None,
        },
        Some(Action::RequestChanges(changes)) => Command::Decide {
            approval_id: approval_id(
                "request_changes.approval_id",
                &changes.approval_id,
                &mut faults,
            ),
            verdict: Verdict::RequestChanges,
            comment: changes.comment,
            on_behalf_of: text(changes.on_behalf_of),
            edited_output: None,
        },
        None => {
            let actions = "status, pause, resume, cancel, retry, approve, reject, request_changes";
            faults.add("action", format!("must be one of {actions}"));
            Command::Status
        }
    };
    faults.into_result().map(|()| (key, command))
}

/// How a job is to go on.
pub(super) fn resume(sent: &proto::ResumeAction, faults: &mut Faults) -> Command {
    Command::Resume { budget_usd: dollars("resume.budget_usd", &sent.budget_usd, faults) }
}

/// Where a job is to begin again.
pub(super) fn retry(sent: &proto::RetryAction, faults: &mut Faults) -> Command {
    faults.check_step("retry.from_step", sent.from_step);
    Command::Retry { from_step: number(sent.from_step) }
}

/// Which links a `RevokeLinks` takes back.
#[derive(Debug)]
pub struct Revocation {
    /// The job.
    pub key: JobKey,
    /// Under these names; none means everybody's.
    pub approvers: Vec<String>,
}

/// Which links are meant: an approver's may be kept under their name, or under their number of before they had one.
pub fn revocation(
    request: &proto::RevokeLinksRequest,
    book: &Book,
) -> Result<Revocation, Vec<Violation>> {
    let mut faults = Faults::default();
    let key = key(&request.job_id, &mut faults);
    faults.check_line("approver", &request.approver, RECIPIENT_BYTES_MAX);
    faults.into_result()?;
    let mut approvers = Vec::new();
    if !request.approver.is_empty() {
        let given = request.approver.as_str();
        approvers.extend([Some(given), Some(book.known_as(given)), book.phone(given)]);
    }
    let approvers = approvers.into_iter().flatten().map(str::to_owned).collect();
    Ok(Revocation { key, approvers })
}

/// What a `WatchJob` asks for.
#[derive(Debug)]
pub struct Watch {
    /// The job.
    pub key: JobKey,
    /// The last sequence that its client has seen.
    pub after_sequence: Option<i32>,
    /// Whether it wants the text of answers as it arrives.
    pub has_deltas: bool,
    /// Whether it wants to know what becomes of notices.
    pub has_notices: bool,
}

/// Which job a `WatchJob` watches, from where on, and how closely.
pub fn watch(request: &proto::WatchJobRequest) -> Result<Watch, Vec<Violation>> {
    let mut faults = Faults::default();
    let key = key(&request.job_id, &mut faults);
    if let Some(after) = request.after_sequence.filter(|after| *after < 0) {
        faults.add("after_sequence", format!("must not be negative, is {after}"));
    }
    faults.into_result()?;
    let (after_sequence, has_deltas) = (request.after_sequence, request.include_output_deltas);
    let has_notices = request.include_notices;
    Ok(Watch { key, after_sequence, has_deltas, has_notices })
}

fn key(job_id: &str, faults: &mut Faults) -> JobKey {
    if let Some(fault) = find_job_id_fault(job_id) {
        faults.add("job_id", fault);
    }
    JobKey::new(job_id)
}

fn approval_id(field: &str, sent: &str, faults: &mut Faults) -> Option<ApprovalId> {
    if sent.is_empty() {
        return None;
    }
    let parsed = Uuid::try_parse(sent).ok();
    if parsed.is_none() {
        faults.add(field, "must be a UUID");
    }
    parsed.map(ApprovalId)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn control(action: Option<Action>) -> Result<(JobKey, Command), Vec<Violation>> {
        let job_id = "job-1".to_owned();
        command(proto::ControlRequest { job_id, action, ..proto::ControlRequest::default() })
    }

    fn fields<T: std::fmt::Debug>(result: Result<T, Vec<Violation>>) -> Vec<String> {
        result.unwrap_err().into_iter().map(|fault| fault.field).collect()
    }

    #[test]
    fn exactly_one_action_is_required() {
        assert_eq!(fields(control(None)), ["action"]);
        assert_eq!(fields(command(proto::ControlRequest::default())), ["job_id", "action"]);
        let look = control(Some(Action::Status(proto::StatusAction {})));
        assert!(matches!(look, Ok((_, Command::Status))));
    }

    #[test]
    fn an_approval_id_is_a_uuid_or_absent() {
        let approve = |approval_id: &str| {
            let approval_id = approval_id.to_owned();
            let approve = proto::ApproveAction { approval_id, ..proto::ApproveAction::default() };
            control(Some(Action::Approve(approve)))
        };
        let absent = approve("");
        assert!(matches!(
            absent,
            Ok((_, Command::Decide { approval_id: None, on_behalf_of: None, .. }))
        ));
        assert_eq!(fields(approve("7")), ["approve.approval_id"]);
        let reject = proto::RejectAction { approval_id: "x".to_owned(), ..Default::default() };
        assert_eq!(fields(control(Some(Action::Reject(reject)))), ["reject.approval_id"]);
    }

    #[test]
    fn negative_numbers_are_faults() {
        let retry = proto::RetryAction { from_step: -1 };
        assert_eq!(fields(control(Some(Action::Retry(retry)))), ["retry.from_step"]);
        let job_id = || "job-1".to_owned();
        let get = proto::GetJobRequest {
            job_id: job_id(),
            step: -1,
            wait_seconds: 61,
            ..proto::GetJobRequest::default()
        };
        assert_eq!(fields(look(&get)), ["step", "wait_seconds"]);
        let after = proto::WatchJobRequest {
            job_id: job_id(),
            after_sequence: Some(-1),
            ..proto::WatchJobRequest::default()
        };
        assert_eq!(fields(watch(&after)), ["after_sequence"]);
    }
}
