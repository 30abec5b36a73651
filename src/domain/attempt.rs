//! Attempts: what an executor does with a job it holds, and what the sweeper does with one that nobody holds.
//!
//! Everything a holder does demands its lease; a stale one is refused, whatever has become of the job meanwhile.

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};

use super::control;
use super::enter::enter;
use super::event::{Detail, EventKind, NoticeKind};
use super::id::{AttemptId, ExecutorId};
use super::job::{Failure, Lease, Reason, Stand, Status, StepResult};
use super::turn::{Moved, Turn, plural};

pub(super) fn claim(turn: &mut Turn<'_>, executor_id: ExecutorId, attempt_id: AttemptId) -> Moved {
    let state = &turn.state;
    if state.status != Status::Queued || state.run_at.is_some() {
        return Err(turn.conflict());
    }
    turn.state.epoch += 1;
    turn.start(executor_id, attempt_id);
    Ok(true)
}

pub(super) fn finish(
    turn: &mut Turn<'_>,
    lease: Lease,
    result: StepResult,
    next_attempt: Option<AttemptId>,
) -> Moved {
    turn.demand(&lease)?;
    let (tokens, step) = (result.usage.output_tokens, turn.state.current_step);
    turn.checkpoint(Some(lease.attempt_id), Some(result));
    turn.tell_step(EventKind::StepFinished, &format!("finished with {tokens} tokens of output"));
    if turn.state.pause_requested && step < turn.state.step_count {
        turn.let_go();
        turn.stand_before(step + 1);
        control::hold(turn, Stand::Entering);
        return Ok(true);
    }
    turn.state.status = Status::Queued;
    enter(turn, step + 1);
    match next_attempt {
        Some(attempt_id) if turn.state.is_claimable() => turn.start(lease.executor_id, attempt_id),
        Some(_) | None => turn.let_go(),
    }
    Ok(true)
}

pub(super) fn delay(
    turn: &mut Turn<'_>,
    lease: Lease,
    failure: Failure,
    after: Option<Duration>,
    jitter: f64,
) -> Moved {
    turn.demand(&lease)?;
    let failure = Failure { failed_at: turn.now, ..failure };
    let first_error_at = *turn.state.first_error_at.get_or_insert(turn.now);
    let elapsed = turn.now - first_error_at;
    if elapsed >= TimeDelta::seconds(turn.spec.retry_window_seconds) {
        let message = format!("tried for too long; the last error was: {}", failure.message);
        let failure = Failure { reason: Reason::RetryWindowExhausted, message, ..failure };
        return fail(turn, lease, failure);
    }
    // Waiting as long as the trouble has lasted doubles the pause each time, without counting.
    let backoff = elapsed.clamp(TimeDelta::seconds(1), TimeDelta::seconds(120));
    let shortest = after.and_then(|after| TimeDelta::from_std(after).ok()).unwrap_or(backoff);
    // Whoever has to come back in a moment is not to be spread over minutes.
    let spread =
        backoff.min(shortest.max(TimeDelta::seconds(1))).num_milliseconds() as f64 * jitter / 4.0;
    let spread = TimeDelta::milliseconds(spread as i64);
    let message = format!("held up: {}", failure.message);
    turn.state.last_error = Some(failure.clone());
    turn.let_go();
    turn.tell_step(EventKind::StepDelayed, &message);
    turn.add_detail(Detail::Failure(failure));
    let reason = match turn.state.last_error.as_ref().map(|failure| failure.reason) {
        Some(Reason::SpendLimit) => Reason::SpendLimit,
        Some(_) | None => Reason::ProviderUnavailable,
    };
    control::park(turn, reason, turn.now + shortest + spread);
    Ok(true)
}

pub(super) fn fail(turn: &mut Turn<'_>, lease: Lease, failure: Failure) -> Moved {
    turn.demand(&lease)?;
    let failure = Failure { failed_at: turn.now, ..failure };
    turn.state.last_error = Some(failure.clone());
    if turn.state.pause_requested {
        turn.let_go();
        turn.tell_step(EventKind::StepDelayed, &format!("failed: {}", failure.message));
        turn.add_detail(Detail::Failure(failure));
        control::hold(turn, Stand::Queued);
        return Ok(true);
    }
    turn.fail(failure);
    Ok(true)
}

/// Pauses the job and tells its people: only they can say that it may cost more.
pub(super) fn starve(turn: &mut Turn<'_>, lease: Lease, failure: Failure) -> Moved {
    turn.demand(&lease)?;
    let failure = Failure { failed_at: turn.now, ..failure };
    turn.state.last_error = Some(failure.clone());
    turn.let_go();
    control::stop(turn, Stand::Queued);
    turn.state.reason = Some(Reason::Budget);
    turn.add_detail(Detail::Failure(failure));
    turn.notify(NoticeKind::OutOfBudget);
    Ok(true)
}

/// The longest that the provider works on a batch, and a while to fetch what came of it.
const BATCH_MAX: TimeDelta = TimeDelta::hours(25);

/// Parks the job until its answer is here, which makes it due; should nobody say so, it looks by itself in the end.
pub(super) fn batch(turn: &mut Turn<'_>, lease: Lease) -> Moved {
    turn.demand(&lease)?;
    turn.let_go();
    turn.tell_step(EventKind::StepBatched, "waits to be answered in a batch");
    control::park(turn, Reason::Batch, turn.now + BATCH_MAX);
    Ok(true)
}

/// Parks the job until the day's budget is a new one, and has those told who are to be.
pub(super) fn put_off(
    turn: &mut Turn<'_>,
    lease: Lease,
    failure: Failure,
    until: DateTime<Utc>,
    tell: Vec<String>,
) -> Moved {
    turn.demand(&lease)?;
    let failure = Failure { failed_at: turn.now, ..failure };
    turn.state.last_error = Some(failure.clone());
    // The window for passing errors is for trying, not for standing still.
    turn.state.first_error_at = None;
    turn.let_go();
    turn.tell_step(EventKind::StepDelayed, &format!("put off: {}", failure.message));
    turn.add_detail(Detail::Failure(failure));
    turn.tell_people(NoticeKind::DailyBudget, tell);
    control::park(turn, Reason::DailyBudget, until);
    Ok(true)
}

pub(super) fn release(turn: &mut Turn<'_>, lease: Lease) -> Moved {
    turn.demand(&lease)?;
    turn.let_go();
    turn.tell_step(EventKind::AttemptReleased, "given back by its executor");
    control::queue(turn);
    Ok(true)
}

pub(super) fn lose(turn: &mut Turn<'_>, lease: Lease) -> Moved {
    turn.demand(&lease)?;
    turn.let_go();
    turn.state.attempts += 1;
    let losses = turn.state.attempts;
    turn.tell_step(EventKind::AttemptLost, &format!("lost its executor ({losses})"));
    // One too many is an end, also for a job that was asked to pause.
    if losses > turn.spec.max_attempts {
        let message = format!("lost its executor {losses} {}", plural(losses, "time"));
        turn.fail(Failure::new(Reason::RecoveriesExhausted, message, turn.now));
        return Ok(true);
    }
    // 200 ms, 800 ms, 3.2 s, …, half a minute: a step that kills its executor must not kill one a second.
    let pause_ms =
        200_i64.saturating_mul(4_i64.saturating_pow(losses.unsigned_abs() - 1)).min(30_000);
    control::park(turn, Reason::AttemptLost, turn.now + TimeDelta::milliseconds(pause_ms));
    Ok(true)
}

pub(super) fn due(turn: &mut Turn<'_>) -> bool {
    let is_due = turn.state.run_at.is_some_and(|run_at| run_at <= turn.now);
    if turn.state.status != Status::Queued || !is_due {
        return false;
    }
    let step = turn.state.current_step;
    turn.state.run_at = None;
    match turn.state.reason {
        Some(Reason::Scheduled) => enter(turn, step),
        Some(Reason::Waiting) => {
            turn.checkpoint(None, None);
            turn.tell_step(EventKind::StepFinished, "has waited");
            enter(turn, step + 1);
        }
        Some(Reason::Batch) => {
            // The window for passing errors is for trying, not for waiting in a batch.
            let waited = turn.now - turn.state.updated_at;
            turn.state.first_error_at = turn.state.first_error_at.map(|at| at + waited);
        }
        // Parked in a run step: now it can be claimed, and its reason stays until it is.
        Some(_) | None => {}
    }
    true
}

#[cfg(test)]
mod tests {
    use super::super::state::{Action, next};
    use super::*;
    use crate::domain::job::JobState;
    use crate::domain::spec::Spec;

    fn spec() -> Spec {
        let run = serde_json::json!({
            "name": null, "type": "run", "prompt": "p", "system": null, "model": "m", "max_tokens": 1,
            "web_search": null, "context": "none", "timeout_seconds": 1, "idle_timeout_seconds": 1,
        });
        let spec = serde_json::json!({
            "task": "", "steps": [run], "system": null, "max_attempts": 3, "retry_window_seconds": 3600,
            "notify": [], "language": null, "labels": {}, "priority": 0, "run_at": null,
        });
        serde_json::from_value(spec).expect("a specification")
    }

    fn lease() -> Lease {
        Lease { executor_id: ExecutorId::new(), epoch: 1, attempt_id: AttemptId::new() }
    }

    fn running(lease: &Lease, from: &JobState) -> JobState {
        JobState {
            status: Status::Running,
            run_at: None,
            executor_id: Some(lease.executor_id),
            epoch: lease.epoch,
            attempt_id: Some(lease.attempt_id),
            ..from.clone()
        }
    }

    fn failure(reason: Reason) -> Failure {
        Failure::new(reason, "trouble", DateTime::UNIX_EPOCH)
    }

    fn moved(from: &JobState, action: Action, now: DateTime<Utc>) -> JobState {
        let moved = next(from, &spec(), action, "executor", now).expect("it may");
        moved.expect("it moves").state
    }

    #[test]
    fn the_time_a_job_was_put_off_is_not_of_its_retry_window() {
        let (lease, start) = (lease(), DateTime::UNIX_EPOCH);
        let delay = |now, from: &JobState| {
            let failure = failure(Reason::ProviderUnavailable);
            moved(from, Action::Delay { lease, failure, after: None, jitter: 0.0 }, now)
        };
        let delayed = delay(start, &running(&lease, &JobState::new(1, start)));
        let (until, failure) = (start + TimeDelta::days(1), failure(Reason::DailyBudget));
        let put_off = Action::PutOff { lease, failure, until, tell: Vec::new() };
        let waits = moved(&running(&lease, &delayed), put_off, start);
        assert_eq!((waits.reason, waits.run_at), (Some(Reason::DailyBudget), Some(until)));
        let again = delay(until, &running(&lease, &waits));
        assert_eq!((again.status, again.first_error_at), (Status::Queued, Some(until)));
        // Without that day between, the window would be over.
        let over = delay(until, &running(&lease, &delayed));
        assert_eq!(over.reason, Some(Reason::RetryWindowExhausted));
    }

    #[test]
    fn a_pause_keeps_until_when_a_job_was_put_off() {
        let (lease, start) = (lease(), DateTime::UNIX_EPOCH);
        let (until, failure) = (start + TimeDelta::days(1), failure(Reason::DailyBudget));
        let put_off = Action::PutOff { lease, failure, until, tell: Vec::new() };
        let asked = JobState { pause_requested: true, ..running(&lease, &JobState::new(1, start)) };
        let paused = moved(&asked, put_off, start);
        assert_eq!((paused.status, paused.run_at), (Status::Paused, Some(until)));
        let waits = moved(&paused, Action::Resume { budget_usd: None }, start);
        assert_eq!((waits.status, waits.reason), (Status::Queued, Some(Reason::DailyBudget)));
        assert_eq!(waits.run_at, Some(until));
        let due = moved(&waits, Action::Due, until);
        assert!(due.is_claimable());
    }
}
