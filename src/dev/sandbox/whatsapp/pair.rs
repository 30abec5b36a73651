//! How fast one number may write to one person.
//! In comes the time of each message; out goes whether it is too soon.
//! One message in six seconds is the rule; a burst borrows from the time after it and pays it back in silence.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
};

use chrono::{DateTime, TimeDelta, Utc};

/// The time that one message takes up.
const PACE: TimeDelta = TimeDelta::seconds(6);
/// The most messages of one burst.
const BURST_MAX: i32 = 45;

/// The last burst of each pair of a number that writes and a person.
#[derive(Default)]
pub struct Pairs(Mutex<HashMap<(String, String), Burst>>);

#[derive(Clone, Copy)]
struct Burst {
    began_at: DateTime<Utc>,
    count: i32,
}

impl Pairs {
    /// Whether a message may go now; one that may not does not count.
    pub fn admit(&self, from: &str, to: &str, now: DateTime<Utc>) -> bool {
        let mut bursts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let pair = (from.to_owned(), to.to_owned());
        let fresh = Burst { began_at: now, count: 0 };
        let burst = bursts.entry(pair).or_insert(fresh);
        if now >= burst.began_at + PACE * burst.count {
            *burst = fresh;
        }
        let is_early = now < burst.began_at + PACE;
        if !is_early || burst.count >= BURST_MAX {
            return false;
        }
        burst.count += 1;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> DateTime<Utc> {
        DateTime::UNIX_EPOCH + TimeDelta::seconds(seconds)
    }

    #[test]
    fn a_message_in_six_seconds_always_goes() {
        let pairs = Pairs::default();
        assert!((0..100).all(|n| pairs.admit("1", "2", at(n * 6))));
    }

    #[test]
    fn a_burst_is_paid_back_in_silence_and_only_by_its_pair() {
        let pairs = Pairs::default();
        assert!((0..20).all(|_| pairs.admit("1", "2", at(1))));
        for seconds in [7, 60, 120] {
            assert!(!pairs.admit("1", "2", at(seconds)), "{seconds}");
            assert!(pairs.admit("1", "3", at(seconds)), "{seconds}");
        }
        assert!(pairs.admit("1", "2", at(121)));
    }

    #[test]
    fn no_burst_is_longer_than_forty_five() {
        let pairs = Pairs::default();
        assert!((0..45).all(|_| pairs.admit("1", "2", at(0))));
        assert!(!pairs.admit("1", "2", at(5)));
        assert!(!pairs.admit("1", "2", at(269)));
        assert!(pairs.admit("1", "2", at(270)));
    }
}
