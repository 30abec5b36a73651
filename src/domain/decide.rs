//! Decisions: one vote per approver, one outcome per approval, none after the deadline.
//!
//! A decision that arrives while the job is paused is kept, and carried out by the resume.
//! What was shown may be edited with an approval, or sent back to be done again, where the step lets it.

use super::approval::{ApprovalStatus, Door, Verdict, mask};
use super::enter::{ask, enter};
use super::event::{Decision, Detail, EventKind, NoticeKind};
use super::id::ApprovalId;
use super::job::{Failure, JobState, Reason, Status, StepResult};
use super::state::{Ballot, Checkpoint, Refusal};
use super::submission::TimeoutPolicy;
use super::turn::{Moved, Turn};

/// What a run step answered, and what an approver wanted changed of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Round {
    /// The answer.
    pub answer: String,
    /// What was wanted.
    pub feedback: String,
}

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
        // Whoever edited is asked nothing more, and their edit is what the others are asked about.
        let is_theirs = ballot.status == ApprovalStatus::Superseded && ballot.has_edited;
        let is_repeated = is_theirs && ballot.verdict == Verdict::Approve;
        let agrees = is_repeated || ballot.status == outcome(ballot.verdict);
        let status = ballot.status;
        return if agrees { Ok(false) } else { Err(Refusal::ApprovalClosed { status }) };
    }
    if let Some((_, verdict)) = before {
        return Err(Refusal::AlreadyVoted { verdict: *verdict });
    }
    if turn.state.is_past_deadline(turn.now) {
        return Err(Refusal::ApprovalClosed { status: ApprovalStatus::Expired });
    }
    let (quorum, max_revisions, allow_edit) =
        turn.approval_spec().map_or((1, 0, false), |approval| {
            (approval.quorum, approval.options.max_revisions, approval.options.allow_edit)
        });
    let verdict = ballot.verdict;
    if verdict == Verdict::RequestChanges && ballot.revisions >= max_revisions {
        return Err(Refusal::ChangesNotAllowed { most: max_revisions });
    }
    let mut approval_id = ballot.approval_id;
    let is_edited = ballot.edited_output.is_some();
    if let Some(output) = ballot.edited_output {
        let shown = ballot.shown.filter(|_| allow_edit).ok_or(Refusal::EditNotAllowed)?;
        let edited = shown.edited(output);
        approval_id = edit(turn, edited, &ballot.voter)?;
    }
    let decision = Decision {
        verdict,
        voter: ballot.voter,
        door: ballot.door,
        comment: ballot.comment,
        edited: is_edited,
        via: ballot.via,
        decided_at: turn.now,
    };
    record(turn, approval_id, decision);
    let decided = verdict != Verdict::Approve || turn.state.votes >= quorum;
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

/// Puts an edit in the place of what was shown. Where others have to agree they are asked anew, and earlier votes are
/// void; answers which approval the vote is for now.
fn edit(turn: &mut Turn<'_>, edited: StepResult, voter: &str) -> Result<ApprovalId, Refusal> {
    let Some(approval) = turn.approval_spec().cloned() else { return Err(turn.conflict()) };
    let before = turn.state.approval_id.ok_or_else(|| turn.conflict())?;
    if approval.quorum > 1 && turn.state.status == Status::Paused {
        // Nobody is asked while the job is held.
        return Err(turn.conflict());
    }
    turn.state.revision += 1;
    turn.out.checkpoints.push(Checkpoint {
        step: turn.spec.shown_at(turn.state.current_step),
        revision: turn.state.revision,
        attempt_id: None,
        result: Some(edited),
        started_at: turn.now,
        finished_at: turn.now,
    });
    if approval.quorum == 1 {
        return Ok(before);
    }
    turn.close_approval(ApprovalStatus::Superseded);
    let mut others = approval;
    others.approvers.retain(|approver| approver != voter);
    Ok(ask(turn, &others))
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
    turn.announce(NoticeKind::ApprovalExpired);
    let policy = turn.approval_spec().map_or(TimeoutPolicy::Fail, |approval| approval.on_timeout);
    match policy {
        TimeoutPolicy::Approve if delivered => {
            let decision = Decision {
                verdict: Verdict::Approve,
                voter: "timeout".to_owned(),
                door: Door::Timeout,
                comment: String::new(),
                edited: false,
                via: None,
                decided_at: turn.now,
            };
            record(turn, approval_id, decision);
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
        Verdict::RequestChanges => {
            let revise_step =
                turn.approval_spec().map_or(step, |approval| approval.options.revise_step);
            turn.state.revision += 1;
            enter(turn, revise_step);
        }
    }
}

fn record(turn: &mut Turn<'_>, approval_id: ApprovalId, decision: Decision) {
    let what = match decision.verdict {
        Verdict::Approve if decision.edited => "was edited and approved",
        Verdict::Approve => "was approved",
        Verdict::Reject => "was rejected",
        Verdict::RequestChanges => "was sent back",
    };
    turn.state.votes += i32::from(decision.verdict == Verdict::Approve);
    let by = mask(&decision.voter);
    let message = match decision.stand_in() {
        Some(caller) => format!("{what} by {by}, as {caller} says"),
        None => format!("{what} by {by}"),
    };
    turn.tell_step(EventKind::ApprovalDecided, &message);
    turn.add_detail(Detail::Decision(decision.clone()));
    turn.announce(NoticeKind::ApprovalDecided);
    turn.out.vote = Some((approval_id, decision));
}

fn outcome(verdict: Verdict) -> ApprovalStatus {
    match verdict {
        Verdict::Approve => ApprovalStatus::Approved,
        Verdict::Reject => ApprovalStatus::Rejected,
        Verdict::RequestChanges => ApprovalStatus::ChangesRequested,
    }
}
