//! A gate for each model, which all calls of this process to it go through.
//!
//! When the provider says that it is too much, the gate closes for as long as it asks, or longer each time if it does
//! not say; then it opens gently: one call, and twice as many with each that is answered. Who finds it closed is told
//! when to come back, and holds nothing meanwhile. Times are Postgres's, as everywhere.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use chrono::{DateTime, TimeDelta, Utc};

/// The first and the longest time for which it closes where the provider does not say.
const PAUSE_MIN: TimeDelta = TimeDelta::seconds(1);
const PAUSE_MAX: TimeDelta = TimeDelta::seconds(60);
/// Who finds it full comes back after this.
const FULL: TimeDelta = TimeDelta::seconds(1);
/// With so many calls at once it counts as wide open.
const WIDE_OPEN: usize = 64;

/// The gates of all models.
#[derive(Default)]
pub(super) struct Gates {
    by_model: Mutex<HashMap<String, Arc<Gate>>>,
    /// The most calls to one model at once; 0: any number.
    most: usize,
}

#[derive(Default)]
struct Gate(Mutex<State>);

#[derive(Clone, Copy, Debug, Default)]
struct State {
    closed_until: Option<DateTime<Utc>>,
    /// The most calls at once while it opens; none: wide open.
    allowed: Option<usize>,
    inside: usize,
    /// How often it has closed since the last answer.
    refusals: u32,
}

/// The right to make one call; dropping it makes room.
pub struct Pass {
    gate: Arc<Gate>,
}

impl Gates {
    pub fn new(most: usize) -> Self {
        Self { by_model: Mutex::default(), most }
    }

    /// Lets a call in, or says for how long it has to stay away.
    pub fn enter(&self, model: &str, now: DateTime<Utc>) -> Result<Pass, TimeDelta> {
        let gate = {
            let mut gates = self.by_model.lock().unwrap_or_else(PoisonError::into_inner);
            match gates.get(model) {
                Some(gate) => Arc::clone(gate),
                None => Arc::clone(gates.entry(model.to_owned()).or_default()),
            }
        };
        let mut state = gate.lock();
        if let Some(left) = state.closed_until.map(|until| until - now)
            && left > TimeDelta::zero()
        {
            return Err(left);
        }
        let most = Some(self.most).filter(|most| *most > 0);
        let allowed = [state.allowed, most].into_iter().flatten().min();
        if allowed.is_some_and(|allowed| state.inside >= allowed) {
            return Err(FULL);
        }
        state.inside += 1;
        drop(state);
        Ok(Pass { gate })
    }
}

impl Gate {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Pass {
    /// The call was answered.
    pub fn answered(&self) {
        let mut state = self.gate.lock();
        state.refusals = 0;
        state.allowed =
            state.allowed.map(|allowed| allowed * 2).filter(|allowed| *allowed < WIDE_OPEN);
    }

    /// It was too much for the provider, which may have said for how long.
    pub fn refused(&self, now: DateTime<Utc>, wait: Option<TimeDelta>) {
        let mut state = self.gate.lock();
        let is_closed = state.closed_until.is_some_and(|until| until > now);
        // Calls that were under way together are refused together.
        let until = match wait {
            None if is_closed => None,
            None => Some(now + (PAUSE_MIN * 2_i32.pow(state.refusals.min(6))).min(PAUSE_MAX)),
            Some(wait) => Some(now + wait),
        };
        state.refusals = state.refusals.saturating_add(u32::from(!is_closed));
        state.closed_until = state.closed_until.max(until);
        state.allowed = Some(1);
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        self.gate.lock().inside -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> DateTime<Utc> {
        DateTime::UNIX_EPOCH + TimeDelta::seconds(seconds)
    }

    fn left(gates: &Gates, seconds: i64) -> Option<i64> {
        gates.enter("m", at(seconds)).err().map(|left| left.num_seconds())
    }

    #[test]
    fn it_stays_closed_for_as_long_as_the_provider_asks_and_for_that_model_alone() {
        let gates = Gates::default();
        gates.enter("m", at(0)).unwrap().refused(at(0), Some(TimeDelta::hours(2)));
        assert_eq!(left(&gates, 0), Some(7200));
        assert_eq!(left(&gates, 7199), Some(1));
        assert!(gates.enter("other", at(0)).is_ok());
        assert!(left(&gates, 7200).is_none());
    }

    #[test]
    fn without_a_word_it_closes_for_longer_each_time() {
        let gates = Gates::default();
        let mut now = 0;
        for pause in [1, 2, 4, 8, 16, 32, 60, 60] {
            gates.enter("m", at(now)).unwrap().refused(at(now), None);
            assert_eq!(left(&gates, now), Some(pause));
            now += pause;
        }
        // An answer makes it forget.
        gates.enter("m", at(now)).unwrap().answered();
        gates.enter("m", at(now)).unwrap().refused(at(now), None);
        assert_eq!(left(&gates, now), Some(1));
    }

    #[test]
    fn it_opens_gently() {
        let gates = Gates::default();
        let many: Vec<Pass> = (0..100).map(|_| gates.enter("m", at(0)).unwrap()).collect();
        for pass in &many {
            pass.refused(at(0), None);
        }
        drop(many);
        assert_eq!(left(&gates, 0), Some(1), "refused together is refused once");
        let mut room = 1;
        while room < WIDE_OPEN {
            let inside: Vec<Pass> = (0..room).map(|_| gates.enter("m", at(9)).unwrap()).collect();
            assert_eq!(left(&gates, 9), Some(1), "no more than {room} at once");
            inside[0].answered();
            room *= 2;
        }
        let inside: Vec<_> = (0..1000).map(|_| gates.enter("m", at(9))).collect();
        assert!(inside.iter().all(Result::is_ok));
    }

    #[test]
    fn no_more_calls_are_made_at_once_than_is_configured() {
        let gates = Gates::new(2);
        let first = gates.enter("m", at(0)).unwrap();
        let _second = gates.enter("m", at(0)).unwrap();
        assert_eq!(left(&gates, 0), Some(1));
        drop(first);
        assert!(left(&gates, 0).is_none());
    }
}
