//! What becomes of each operation of a batch, as its job is seen.

use chrono::{DateTime, Utc};

use super::batch::{Fate, Moved, Seen};
use super::{Op, Work};
use crate::domain::job::JobState;
use crate::domain::spec::Spec;
use crate::domain::state::{self, Action, Refusal, Transition};
use crate::store::read_text;

/// What becomes of an operation, as its job is seen; without a look only what needs none goes.
pub(super) fn decide(op: &Op, seen: Option<&Seen>) -> Fate {
    let seen = match (&op.work, seen) {
        (Work::Ledger, _) | (Work::Vote(_), None) => return Fate::Still(Ok(None)),
        (Work::Decided(_), None) if op.is_stale() => return Fate::Still(Ok(None)),
        (Work::Decided(decided), None) => return decided.fate(),
        (Work::Submit(_) | Work::Move { .. } | Work::Call { .. }, None) => return Fate::Locked,
        (_, Some(seen)) => seen,
    };
    match &op.work {
        Work::Ledger => Fate::Still(Ok(None)),
        // Its row is compared with what was read when it is written; the time is not, so it must not be long ago.
        Work::Decided(_) if op.is_stale() => Fate::Still(Ok(None)),
        Work::Decided(decided) if seen.rows.contains_key(op.key.job_id()) => decided.fate(),
        Work::Decided(_) if seen.gone.contains(op.key.job_id()) => Fate::Still(Ok(None)),
        Work::Decided(_) => Fate::Locked,
        // What is known may be out of date: its row is compared when it is written. Whatever else it comes to is judged
        // after a look.
        Work::Vote(_) if seen.are_locked => Fate::Still(Ok(None)),
        Work::Vote(vote) => match vote.decide(seen.now, seen.alive.map(|(id, _)| id)) {
            Some((from, transition)) => {
                Fate::Moves(Box::new(Moved { from, transition, lease_expires_at: None }))
            }
            None => Fate::Still(Ok(None)),
        },
        Work::Submit(birth) => {
            let (claimer, lives_until) = seen.alive.unzip();
            let (from, transition) = birth.transition(seen.now, claimer);
            let lease_expires_at = lives_until.filter(|_| transition.state.executor_id.is_some());
            Fate::Moves(Box::new(Moved { from, transition, lease_expires_at }))
        }
        // It is compared with its row when it is written; what would not be written has to look.
        Work::Move { spec, known, action } if op.is_known(seen) => {
            match move_held(JobState::clone(known), spec, action.clone(), seen.now) {
                moves @ Fate::Moves(_) => moves,
                Fate::Locked | Fate::Still(_) => Fate::Locked,
            }
        }
        Work::Move { spec, action, .. } => seen.decide_locked(op, |from, holder_lives| {
            move_held(from, spec, hold_back(action, holder_lives), seen.now)
        }),
        // An executor whose lease is over begins nothing.
        Work::Call { lease, .. } => seen.decide_locked(op, |from, holder_lives| {
            let holds = from.is_held_by(lease) && holder_lives;
            Fate::Still(if holds { Ok(None) } else { Err(Refusal::LeaseLost.into()) })
        }),
    }
}

impl Seen {
    fn decide_locked(&self, op: &Op, decide: impl FnOnce(JobState, bool) -> Fate) -> Fate {
        let Some(row) = self.rows.get(op.key.job_id()) else {
            // What is done to a job that was pruned comes too late, however long it waits.
            let is_gone = self.gone.contains(op.key.job_id());
            return if is_gone {
                Fate::Still(Err(Refusal::LeaseLost.into()))
            } else {
                Fate::Locked
            };
        };
        match read_text("job", &row.state) {
            Ok(from) => decide(from, row.holder_lives),
            Err(error) => Fate::Still(Err(error)),
        }
    }
}

fn move_held(from: JobState, spec: &Spec, action: Action, now: DateTime<Utc>) -> Fate {
    match state::next(&from, spec, action, "executor", now) {
        Ok(Some(transition)) => {
            Fate::Moves(Box::new(Moved { from, transition, lease_expires_at: None }))
        }
        Ok(None) => {
            let transition = Transition::still(from.clone());
            Fate::Still(Ok(Some(Box::new(Moved { from, transition, lease_expires_at: None }))))
        }
        Err(refusal) => Fate::Still(Err(refusal.into())),
    }
}

/// A result is always stored, but an executor whose lease is over does not go straight on.
fn hold_back(action: &Action, holder_lives: bool) -> Action {
    let mut action = action.clone();
    if let Action::Finish { next_attempt, .. } = &mut action
        && !holder_lives
    {
        *next_attempt = None;
    }
    action
}

impl Work {
    /// Whether a job may come into somebody's hands by it.
    pub(super) fn may_claim(&self) -> bool {
        match self {
            Self::Submit(_) | Self::Vote(_) | Self::Decided(_) => true,
            Self::Move { .. } | Self::Call { .. } | Self::Ledger => false,
        }
    }
}
