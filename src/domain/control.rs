//! Control: what people ask of a job beside deciding, and how a job comes to rest.
//!
//! Repeating what has taken effect changes nothing; what contradicts the status is refused.

use chrono::{DateTime, TimeDelta, Utc};

use super::enter::enter;
use super::event::{EventKind, NoticeKind};
use super::job::{Reason, Stand, Status};
use super::money::Usd;
use super::state::Refusal;
use super::turn::{Moved, Turn};
use super::{decide, remind};

/// Holds the job where it is, at once or when the attempt in hand ends.
pub(super) fn pause(turn: &mut Turn<'_>, now: bool) -> Moved {
    match turn.state.status {
        Status::Queued => {
            let stand = queued_stand(turn.state.reason);
            hold(turn, stand);
        }
        Status::Running if now => {
            turn.let_go();
            turn.tell_step(EventKind::AttemptReleased, "was aborted by the pause");
            hold(turn, Stand::Queued);
        }
        Status::Running if turn.state.pause_requested => return Ok(false),
        Status::Running => {
            turn.state.pause_requested = true;
            turn.tell_step(EventKind::PauseRequested, "will be the last before a pause");
        }
        Status::AwaitingApproval => {
            let left = turn.state.deadline_at.map(|deadline_at| deadline_at - turn.now);
            turn.state.left_ms = left.map(|left| left.num_milliseconds().max(0));
            turn.state.deadline_at = None;
            // What is due already is still due after the pause.
            turn.state.run_at = turn.state.run_at.filter(|due_at| *due_at <= turn.now);
            hold(turn, Stand::AwaitingApproval);
        }
        Status::Paused => return Ok(false),
        Status::Completed | Status::Failed | Status::Cancelled => return Err(turn.conflict()),
    }
    Ok(true)
}

/// Lets a paused job go on from where it stood; with a budget, any job that has not ended may cost so much from now on.
pub(super) fn resume(turn: &mut Turn<'_>, budget_usd: Option<Usd>) -> Moved {
    if turn.state.status.is_terminal() {
        return Err(turn.conflict());
    }
    let changed = budget_usd.filter(|_| turn.state.budget_usd != budget_usd);
    turn.state.budget_usd = budget_usd.or(turn.state.budget_usd);
    // Who was told that it stands still need not be told any more.
    turn.out.supersedes_notices |= turn.state.reason == Some(Reason::Budget);
    match turn.state.status {
        Status::Paused => {}
        Status::Running if turn.state.pause_requested => {
            turn.state.pause_requested = false;
            turn.tell(EventKind::JobResumed, 0, "goes on; the pause is taken back".to_owned());
            return Ok(true);
        }
        Status::Queued | Status::Running | Status::AwaitingApproval => {
            let Some(budget_usd) = changed else { return Ok(false) };
            turn.tell(EventKind::JobResumed, 0, format!("may cost up to ${budget_usd}"));
            return Ok(true);
        }
        Status::Completed | Status::Failed | Status::Cancelled => return Err(turn.conflict()),
    }
    let stand = turn.state.paused_from.take().unwrap_or(Stand::Entering);
    turn.state.status = Status::Queued;
    // The window for passing errors is for trying, not for standing still.
    turn.state.first_error_at = None;
    turn.state.reason = match stand {
        Stand::Entering | Stand::Queued | Stand::AwaitingApproval => None,
        Stand::Scheduled => Some(Reason::Scheduled),
        Stand::Waiting => Some(Reason::Waiting),
        Stand::ProviderUnavailable => Some(Reason::ProviderUnavailable),
        Stand::AttemptLost => Some(Reason::AttemptLost),
        Stand::DailyBudget => Some(Reason::DailyBudget),
    };
    if stand == Stand::AwaitingApproval && turn.state.kept_verdict.is_none() {
        let left_ms = turn.state.left_ms.take().unwrap_or(0);
        let deadline_at = turn.now + TimeDelta::milliseconds(left_ms);
        turn.state.status = Status::AwaitingApproval;
        turn.state.deadline_at = Some(deadline_at);
        let was_due = turn.state.run_at.is_some();
        turn.state.run_at = turn
            .approval_spec()
            .and_then(|approval| remind::due_again_at(approval, deadline_at, left_ms, was_due));
    }
    let limit = changed.map(|budget| format!(" and may cost up to ${budget}")).unwrap_or_default();
    turn.tell(EventKind::JobResumed, 0, format!("goes on{limit}"));
    if let Some(verdict) = turn.state.kept_verdict.take() {
        decide::carry_out(turn, verdict);
    } else if stand == Stand::Entering {
        enter(turn, turn.state.current_step);
    }
    Ok(true)
}

/// Ends a job that has not ended.
pub(super) fn cancel(turn: &mut Turn<'_>, comment: &str) -> Moved {
    match turn.state.status {
        Status::Queued | Status::Running | Status::AwaitingApproval | Status::Paused => {
            let why = if comment.is_empty() { String::new() } else { format!(": {comment}") };
            turn.end(Status::Cancelled, None, format!("cancelled{why}"));
            Ok(true)
        }
        Status::Cancelled => Ok(false),
        Status::Completed | Status::Failed => Err(turn.conflict()),
    }
}

/// Begins a job again that failed or was cancelled, at the step where it ended or an earlier one.
pub(super) fn retry(turn: &mut Turn<'_>, from_step: Option<i32>) -> Moved {
    match turn.state.status {
        Status::Failed | Status::Cancelled => {}
        Status::Queued | Status::Running | Status::AwaitingApproval | Status::Paused => {
            // The retry that a repeated request asks for has taken effect; another one contradicts.
            let began = turn.state.retried_from;
            let is_repeated = began.is_some() && (from_step.is_none() || from_step == began);
            return if is_repeated { Ok(false) } else { Err(turn.conflict()) };
        }
        Status::Completed => return Err(turn.conflict()),
    }
    let last = turn.state.current_step;
    let from = from_step.unwrap_or(last);
    if from < 1 || from > last {
        return Err(Refusal::StepOutOfRange { last });
    }
    turn.state.revision += 1;
    turn.state.retried_from = Some(from);
    turn.state.finished_at = None;
    turn.out.supersedes_notices = true;
    turn.stand_before(from);
    turn.state.status = Status::Queued;
    turn.tell(EventKind::JobRetried, from, format!("begins again at step {from}"));
    enter(turn, from);
    Ok(true)
}

/// Puts the job back into the queue at its current step, or holds it if a pause was asked for.
pub(super) fn queue(turn: &mut Turn<'_>) {
    turn.state.status = Status::Queued;
    turn.state.reason = None;
    turn.state.run_at = None;
    if turn.state.pause_requested {
        hold(turn, Stand::Queued);
    }
}

/// Parks the job until a time, or holds it if a pause was asked for.
pub(super) fn park(turn: &mut Turn<'_>, reason: Reason, run_at: DateTime<Utc>) {
    turn.state.status = Status::Queued;
    turn.state.reason = Some(reason);
    turn.state.run_at = Some(run_at);
    if turn.state.pause_requested {
        let stand = queued_stand(Some(reason));
        hold(turn, stand);
    }
}

/// Pauses the job, and has those told who want to know.
pub(super) fn hold(turn: &mut Turn<'_>, stand: Stand) {
    stop(turn, stand);
    turn.announce(NoticeKind::Paused);
}

/// Pauses the job.
pub(super) fn stop(turn: &mut Turn<'_>, stand: Stand) {
    turn.state.status = Status::Paused;
    if turn.state.reason == Some(Reason::Batch) {
        // The answer may come meanwhile: the attempt that a resume begins sees whether it has.
        turn.state.run_at = None;
    }
    turn.state.reason = None;
    turn.state.paused_from = Some(stand);
    turn.state.pause_requested = false;
    turn.tell(EventKind::JobPaused, 0, "paused".to_owned());
}

fn queued_stand(reason: Option<Reason>) -> Stand {
    match reason {
        Some(Reason::Scheduled) => Stand::Scheduled,
        Some(Reason::Waiting) => Stand::Waiting,
        Some(Reason::ProviderUnavailable | Reason::SpendLimit) => Stand::ProviderUnavailable,
        Some(Reason::AttemptLost) => Stand::AttemptLost,
        Some(Reason::DailyBudget) => Stand::DailyBudget,
        Some(_) | None => Stand::Queued,
    }
}
