//! Entering a step: the one function behind submit, checkpoint, decision, resume and retry.
//!
//! A run step is queued, a wait step is parked until it is due, an approval step is asked;
//! a wait that is over already is passed at once, and after the last step the job is completed.

use chrono::{DateTime, TimeDelta, Utc};

use super::event::{Asked, Detail, EventKind, NoticeKind};
use super::id::ApprovalId;
use super::job::{Reason, Status};
use super::remind;
use super::spec::{ApprovalSpec, WaitSpec, Work};
use super::turn::{Turn, plural};

/// Puts the job into a step, and through every step that needs nothing.
pub(super) fn enter(turn: &mut Turn<'_>, first: i32) {
    let mut step = first;
    loop {
        let Some(found) = turn.spec.find_step(step) else { return complete(turn) };
        turn.stand_before(step);
        turn.state.status = Status::Queued;
        match &found.work {
            Work::Run(_) => return,
            Work::Approval(approval) => {
                ask(turn, approval);
                return;
            }
            Work::Wait(wait) => {
                turn.state.step_started_at = Some(turn.now);
                let due_at = due_at(*wait, turn.now);
                if due_at > turn.now {
                    turn.state.run_at = Some(due_at);
                    turn.state.reason = Some(Reason::Waiting);
                    let until = due_at.format("%Y-%m-%d %H:%M:%S UTC");
                    return turn.tell_step(EventKind::StepWaiting, &format!("waits until {until}"));
                }
                turn.checkpoint(None, None);
                turn.tell_step(EventKind::StepFinished, "has nothing to wait for");
                step += 1;
            }
        }
    }
}

fn due_at(wait: WaitSpec, now: DateTime<Utc>) -> DateTime<Utc> {
    match wait {
        WaitSpec::DurationSeconds(seconds) => now + TimeDelta::seconds(seconds),
        WaitSpec::UntilAt(until_at) => until_at,
    }
}

/// When people are first reminded, or more are asked.
fn due_at_first(approval: &ApprovalSpec, deadline_at: DateTime<Utc>) -> Option<DateTime<Utc>> {
    remind::due_at(approval, deadline_at, approval.timeout_seconds * 1000)
}

/// Asks for a decision; answers under which id.
pub(super) fn ask(turn: &mut Turn<'_>, approval: &ApprovalSpec) -> ApprovalId {
    let asked = Asked {
        approval_id: ApprovalId::new(),
        note: approval.note.clone(),
        quorum: approval.quorum,
        deadline_at: turn.now + TimeDelta::seconds(approval.timeout_seconds),
    };
    turn.let_go();
    turn.state.status = Status::AwaitingApproval;
    turn.state.step_started_at = Some(turn.now);
    turn.state.approval_id = Some(asked.approval_id);
    turn.state.approvals_asked += 1;
    turn.state.votes = 0;
    turn.state.deadline_at = Some(asked.deadline_at);
    turn.state.run_at = due_at_first(approval, asked.deadline_at);
    let people = i32::try_from(approval.approvers.len()).unwrap_or(i32::MAX);
    turn.tell_step(
        EventKind::ApprovalRequested,
        &format!("asks {people} {} to decide", plural(people, "approver")),
    );
    turn.add_detail(Detail::ApprovalRequested(asked.clone()));
    turn.ask_people(NoticeKind::ApprovalRequested, approval.approvers.clone());
    turn.announce(NoticeKind::ApprovalRequested);
    let approval_id = asked.approval_id;
    turn.out.asked = Some((turn.state.current_step, asked, approval.approvers.clone()));
    approval_id
}

fn complete(turn: &mut Turn<'_>) {
    turn.state.current_step = turn.state.step_count;
    // What went wrong on the way to the last checkpoint is over with it.
    turn.state.attempts = 0;
    turn.state.first_error_at = None;
    turn.state.last_error = None;
    let count = turn.state.step_count;
    turn.end(Status::Completed, None, format!("completed: {count} {} done", plural(count, "step")));
}
