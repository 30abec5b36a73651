//! Decisions: one vote per approver, one outcome per approval, none after the deadline.
//!
//! A decision that arrives while the job is paused is kept, and carried out by the resume.

use super::approval::{ApprovalStatus, Door, Verdict, mask};
use super::enter::enter;
use super::event::{Decision, Detail, EventKind};
use super::id::ApprovalId;
use super::job::{Failure, JobState, Reason, Status};
use super::spec::{ApprovalSpec, Work};
use super::state::{Ballot, Refusal};
use super::submission::TimeoutPolicy;
use super::turn::{Moved, Turn};

/// The approval that a vote without an id means: the only one the job has ever asked, pending or not.
///
/// `None` in the answer asks the caller to find that only one, because it is closed.
pub fn meant_approval(
    state: &JobState,
    given: Option<ApprovalId>,
) -> Result<Option<ApprovalId>, Refusal> {
    match (given, state.approvals_asked) {
        (Some(approval_id), _) => Ok(Some(approval_id)),
        (None, 0) => Err(Refusal::Conflict { status: state.status }),
        (None, 1) => Ok(state.approval_id),
        (None, _) => Err(Refusal::ApprovalIdRequired),
    }
}

/// Counts a vote, and carries out what it decides.
pub(super) fn vote(turn: &mut Turn<'_>, ballot: Ballot) -> Moved {
    let before = ballot.votes.iter().find(|(voter, _)| *voter == ballot.voter);
    if before.is_some_and(|(_, verdict)| *verdict == ballot.verdict) {
        return Ok(false);
    }
    if turn.state.approval_id != Some(ballot.approval_id) {
        let agrees = ballot.status == outcome(ballot.verdict);
        let status = ballot.status;
        return if agrees { Ok(false) } else { Err(Refusal::ApprovalClosed { status }) };
    }
    if let Some((_, verdict)) = before {
        return Err(Refusal::AlreadyVoted { verdict: *verdict });
    }
    if turn.state.is_past_deadline(turn.now) {
        return Err(Refusal::ApprovalClosed { status: ApprovalStatus::Expired });
    }
    let quorum = turn.approval_spec().map_or(1, |approval| approval.quorum);
    let verdict = ballot.verdict;
    record(turn, ballot.approval_id, verdict, ballot.voter, ballot.door, ballot.comment);
    let decided = verdict == Verdict::Reject || turn.state.votes >= quorum;
    if decided {
        let paused = turn.state.status == Status::Paused;
        turn.close_approval(outcome(verdict));
        if paused {
            turn.state.kept_verdict = Some(verdict);
        } else {
            carry_out(turn, verdict);
        }
    }
    Ok(true)
}

/// Does what the step's policy says when its time is over.
pub(super) fn expire(turn: &mut Turn<'_>, delivered: bool) -> bool {
    let over = turn.state.deadline_at.is_some_and(|deadline_at| deadline_at <= turn.now);
    let (Status::AwaitingApproval, true, Some(approval_id)) =
        (turn.state.status, over, turn.state.approval_id)
    else {
        return false;
    };
    turn.tell_step(EventKind::ApprovalExpired, "was not decided in time");
    let policy = turn.approval_spec().map_or(TimeoutPolicy::Fail, |approval| approval.on_timeout);
    match policy {
        TimeoutPolicy::Approve if delivered => {
            let voter = Door::Timeout;
            record(turn, approval_id, Verdict::Approve, "timeout".to_owned(), voter, String::new());
            turn.close_approval(ApprovalStatus::Approved);
            carry_out(turn, Verdict::Approve);
        }
        TimeoutPolicy::Reject => {
            turn.close_approval(ApprovalStatus::Expired);
            let message = "cancelled: nobody decided in time".to_owned();
            turn.end(Status::Cancelled, Some(Reason::ApprovalExpired), message);
        }
        TimeoutPolicy::Fail | TimeoutPolicy::Approve => {
            turn.close_approval(ApprovalStatus::Expired);
            let message = match policy {
                TimeoutPolicy::Approve => {
                    "nobody decided in time, and no request is known to have arrived"
                }
                TimeoutPolicy::Fail | TimeoutPolicy::Reject => "nobody decided in time",
            };
            turn.fail(Failure::new(Reason::ApprovalExpired, message, turn.now));
        }
    }
    true
}

/// Moves the job on, or ends it, after its approval was decided.
pub(super) fn carry_out(turn: &mut Turn<'_>, verdict: Verdict) {
    let step = turn.state.current_step;
    match verdict {
        Verdict::Approve => {
            turn.checkpoint(None, None);
            turn.tell_step(EventKind::StepFinished, "was approved");
            enter(turn, step + 1);
        }
        Verdict::Reject => {
            let message = format!("cancelled: step {step} was rejected");
            turn.end(Status::Cancelled, Some(Reason::Rejected), message);
        }
    }
}

fn record(
    turn: &mut Turn<'_>,
    approval_id: ApprovalId,
    verdict: Verdict,
    voter: String,
    door: Door,
    comment: String,
) {
    let what = match verdict {
        Verdict::Approve => "approved",
        Verdict::Reject => "rejected",
    };
    turn.state.votes += i32::from(verdict == Verdict::Approve);
    let message = format!("was {what} by {}", mask(&voter));
    turn.tell_step(EventKind::ApprovalDecided, &message);
    let decision = Decision { verdict, voter, door, comment, decided_at: turn.now };
    turn.add_detail(Detail::Decision(decision.clone()));
    turn.out.vote = Some((approval_id, decision));
}

fn outcome(verdict: Verdict) -> ApprovalStatus {
    match verdict {
        Verdict::Approve => ApprovalStatus::Approved,
        Verdict::Reject => ApprovalStatus::Rejected,
    }
}

impl Turn<'_> {
    /// The current step, if it is an approval step.
    fn approval_spec(&self) -> Option<&ApprovalSpec> {
        match self.spec.find_step(self.state.current_step).map(|step| &step.work) {
            Some(Work::Approval(approval)) => Some(approval),
            Some(Work::Run(_) | Work::Wait(_)) | None => None,
        }
    }
}
