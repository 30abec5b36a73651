//! Trust: whether what a process sees of Postgres, and of the time, lets it judge others.
//!
//! In: when Postgres was asked, when it answered and what time it told. Out: whom this process may judge.
//! Where two clocks disagree, or nobody looked for long, a machine slept or a clock was set: the living could not renew.
//! Trouble that never ends must not keep the dead undead for ever, so after a while of answers leases count all the same.

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use tokio::time::Instant;

use crate::store::sweep::Judging;

/// After the database was away nobody is judged dead for so long: the living need time to renew.
pub(super) const CALM: Duration = Duration::from_secs(5);
/// A database that answers later than this is in trouble, and clocks that differ by more.
pub(super) const SLOW: Duration = Duration::from_secs(1);
/// Postgres has answered for so long while there was trouble: leases count.
const LONG: Duration = Duration::from_mins(1);
/// Whoever was away for longer than any statement takes begins to count anew.
const AWAY: Duration = Duration::from_secs(10);

/// An answer of Postgres.
#[derive(Clone, Copy, Debug)]
pub(super) struct Answer {
    /// When it was asked.
    pub asked_at: Instant,
    /// When the answer was here.
    pub came_at: Instant,
    /// What time it told.
    pub postgres_now: DateTime<Utc>,
}

/// What a process has seen since it began to look.
pub(super) struct Trust {
    began_at: Instant,
    /// Between two answers no more time than this may pass.
    gap_max: Duration,
    last: Option<Answer>,
    /// How long Postgres has been answering although there was trouble.
    answering: Duration,
}

impl Trust {
    /// Of a process that begins to look, this often.
    pub(super) fn new(interval: Duration) -> Self {
        let (began_at, gap_max) = (Instant::now(), interval * 2 + SLOW);
        Self { began_at, gap_max, last: None, answering: Duration::ZERO }
    }

    /// Notes that there was no answer.
    pub(super) fn note_silence(&mut self) {
        self.answering = Duration::ZERO;
    }

    /// Notes an answer; whether it tells of trouble.
    pub(super) fn note(&mut self, answer: Answer) -> bool {
        let is_slow = answer.came_at - answer.asked_at > SLOW;
        let Some(last) = self.last.replace(answer) else { return is_slow };
        let least = answer.asked_at.saturating_duration_since(last.came_at);
        let most = answer.came_at - last.asked_at;
        let moved = answer.postgres_now - last.postgres_now;
        let is_off = moved < signed(least) - signed(SLOW) || moved > signed(most + SLOW);
        if is_off || most > self.gap_max.max(AWAY) {
            self.answering = Duration::ZERO;
        } else {
            self.answering += most;
        }
        is_slow || is_off || most > self.gap_max
    }

    /// Whom it may judge, if it is calm, and if its own sign of life is held.
    pub(super) fn judging(&mut self, is_calm: bool, has_presence: bool) -> Judging {
        if !is_calm {
            return if self.answering < LONG { Judging::Nobody } else { Judging::ByLease };
        }
        self.answering = Duration::ZERO;
        match (self.began_at.elapsed() < CALM, has_presence) {
            (true, true) => Judging::OfThisRun,
            (true, false) => Judging::Nobody,
            (false, true) => Judging::Everybody,
            (false, false) => Judging::ByLease,
        }
    }
}

fn signed(time: Duration) -> TimeDelta {
    TimeDelta::from_std(time).unwrap_or(TimeDelta::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTERVAL: Duration = Duration::from_millis(400);

    /// A trust, and what makes its answers: so long after the first, by this process's clock and by Postgres's.
    fn looking() -> (Trust, impl Fn(u64, i64) -> Answer) {
        let (begun, first) = (Instant::now(), DateTime::UNIX_EPOCH);
        let answer = move |ours_ms, postgres_ms| {
            let asked_at = begun + Duration::from_millis(ours_ms);
            let came_at = asked_at + Duration::from_millis(2);
            Answer { asked_at, came_at, postgres_now: first + TimeDelta::milliseconds(postgres_ms) }
        };
        let mut trust = Trust::new(INTERVAL);
        assert!(!trust.note(answer(0, 0)));
        (trust, answer)
    }

    #[test]
    fn a_clock_that_goes_like_ours_is_no_trouble() {
        let (mut trust, answer) = looking();
        assert!(!trust.note(answer(400, 401)));
        assert!(!trust.note(answer(2000, 2100)));
    }

    #[test]
    fn a_suspended_machine_or_a_clock_that_was_set_is_trouble_once() {
        for (ours_ms, postgres_ms) in [(400, 60_400), (400, 1500), (400, -5000), (60_400, 60_400)] {
            let (mut trust, answer) = looking();
            assert!(trust.note(answer(ours_ms, postgres_ms)), "{ours_ms} {postgres_ms}");
            assert!(!trust.note(answer(ours_ms + 400, postgres_ms + 400)));
        }
    }

    #[test]
    fn trouble_without_an_end_makes_leases_count_while_postgres_answers() {
        let (mut trust, answer) = looking();
        for second in 1..60 {
            trust.note(answer(second * 1000, second.cast_signed() * 1000));
            assert_eq!(trust.judging(false, true), Judging::Nobody);
        }
        trust.note(answer(61_000, 61_000));
        assert_eq!(trust.judging(false, true), Judging::ByLease);
        // Whoever was away, or whose Postgres was, waits again.
        trust.note(answer(80_000, 80_000));
        assert_eq!(trust.judging(false, true), Judging::Nobody);
    }

    #[test]
    fn a_newcomer_and_one_without_a_sign_of_life_judge_fewer() {
        let (mut trust, _) = looking();
        assert_eq!(trust.judging(true, true), Judging::OfThisRun);
        assert_eq!(trust.judging(true, false), Judging::Nobody);
        trust.began_at = Instant::now().checked_sub(CALM).unwrap();
        assert_eq!(trust.judging(true, true), Judging::Everybody);
        assert_eq!(trust.judging(true, false), Judging::ByLease);
    }
}
