//! Import: the life of a job that began in another system, taken up where it stands.
//!
//! In come what its first steps came to and how it stands; out come its birth and the one transition that follows at once,
//! through the same entries as any other: a job that goes on is entered, and one that has ended is only told.
//! What was told to people before is not told again; only an approval that is open is asked anew.

use chrono::{DateTime, Utc};

use super::control::stop;
use super::enter::enter;
use super::event::EventKind;
use super::job::{JobState, Reason, Stand, Status, StepResult};
use super::money::{Usage, Usd};
use super::spec::Spec;
use super::state::Transition;
use super::turn::{Turn, plural};

/// What is known of a job from before.
#[derive(Clone, Debug, PartialEq)]
pub struct Past {
    /// What its first steps came to, in order; nothing for a step that makes nothing.
    pub done: Vec<Option<StepResult>>,
    /// How it stands.
    pub standing: Standing,
}

/// How a job from before stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It goes on after the steps that are done.
    GoesOn,
    /// It is held before the next step.
    Held,
    /// It ended in that step, or after the last.
    Ended { status: Status, reason: Option<Reason>, message: String },
}

/// What a step came to, as far as another system has kept it.
pub fn result(output: String, usage: Usage, cost_usd: Option<Usd>, model: String) -> StepResult {
    StepResult {
        output: String::new(),
        content: String::new(),
        citations: Vec::new(),
        usage,
        cost_usd,
        model,
        stop_reason: "end_turn".to_owned(),
    }
    .edited(output)
}

/// The birth of a job from before, and what follows at once.
pub fn import(
    spec: &Spec,
    past: Past,
    actor: &str,
    now: DateTime<Utc>,
) -> (Transition, Transition) {
    let nothing = JobState { budget_usd: spec.budget_usd, ..JobState::new(spec.step_count(), now) };
    let (count, done) = (spec.step_count(), past.done.len());
    let mut birth = Turn::new(nothing.clone(), spec, actor, now);
    let message =
        format!("imported with {count} {}, of which {done} are done", plural(count, "step"));
    birth.tell(EventKind::JobSubmitted, 0, message);
    let birth = birth.close(&nothing);
    let mut turn = Turn::new(birth.state.clone(), spec, actor, now);
    take_up(&mut turn, past);
    let moved = turn.close(&birth.state);
    (birth, moved)
}

fn take_up(turn: &mut Turn<'_>, past: Past) {
    let mut next = 1;
    for result in past.done {
        turn.stand_before(next);
        turn.state.step_started_at = Some(turn.now);
        turn.checkpoint(None, result);
        turn.tell_step(EventKind::StepFinished, "was done before the import");
        next += 1;
    }
    match past.standing {
        Standing::GoesOn => enter(turn, next),
        // After the last step there is nothing to be held before.
        Standing::Held if next > turn.state.step_count => enter(turn, next),
        Standing::Held => {
            turn.stand_before(next);
            stop(turn, Stand::Entering);
        }
        Standing::Ended { status, reason, message } => {
            turn.stand_before(next.min(turn.state.step_count));
            turn.state.step_started_at = Some(turn.now);
            turn.end(status, reason, message);
            turn.out.notices.clear();
            turn.out.supersedes_notices = false;
        }
    }
}
