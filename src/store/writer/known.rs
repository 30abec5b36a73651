//! What a line of the writer knows without asking: the time, and that the executor of this process lives.
//!
//! Every write tells both. From then on the time goes on by this machine's clock, so that the next batch need not ask
//! before it decides; the write compares, and where Postgres knows better, nothing is written and the batch looks.

use std::collections::{HashMap, HashSet};

use chrono::{DateTime, TimeDelta, Utc};
use tokio::time::Instant;

use super::Work;
use super::batch::{Batch, Seen};
use crate::domain::id::ExecutorId;
use crate::store::write::{Foreseen, Wrote};

/// What was told longer ago than this, in seconds, is asked for again: clocks do not go alike for ever.
const KNOWN_SECONDS: i64 = 10;

/// What was told by the last write.
pub(super) struct Known {
    now: DateTime<Utc>,
    /// When that arrived, so that the time is never ahead of Postgres's.
    at: Instant,
    /// The executor of this process, and until when its lease lived when that was last seen.
    alive: Option<(ExecutorId, DateTime<Utc>)>,
}

impl Known {
    /// What a write told, and what was seen before it, now or earlier.
    pub(super) fn told_by(wrote: &Wrote, before: Option<&Self>, seen: Option<&Seen>) -> Self {
        let told = |(executor_id, until)| (executor_id, wrote.lives_until.unwrap_or(until));
        let seen = seen.and_then(|seen| seen.alive).map(told);
        let alive = seen.or_else(|| before.and_then(|before| before.alive));
        Self { now: wrote.now, at: Instant::now(), alive }
    }

    fn now(&self) -> Option<DateTime<Utc>> {
        // In microseconds, as Postgres keeps it: what is written is to be equal to what is known.
        let passed = TimeDelta::microseconds(i64::try_from(self.at.elapsed().as_micros()).ok()?);
        (passed < TimeDelta::seconds(KNOWN_SECONDS)).then(|| self.now + passed)
    }
}

impl Batch {
    /// What the batch would see if it looked, where it needs no row and all it needs is known.
    pub(super) fn foresee(&self, known: Option<&Known>) -> Option<(Seen, Foreseen)> {
        let executor_id = self.executor();
        let needs_no_row = |work: &Work| match work {
            Work::Submit(_) | Work::Vote(_) | Work::Ledger => true,
            Work::Move { known, .. } => executor_id.is_some() && known.executor_id == executor_id,
            Work::Decided(_) | Work::Call { .. } => false,
        };
        let is_enough = self.needs_a_look() && self.ops.iter().all(|op| needs_no_row(&op.work));
        let known = known.filter(|_| is_enough)?;
        let now = known.now()?;
        let alive = known.alive.filter(|(id, until)| Some(*id) == executor_id && *until > now);
        if alive.is_none() && executor_id.is_some() {
            return None;
        }
        let seen =
            Seen { now, rows: HashMap::new(), are_locked: false, gone: HashSet::new(), alive };
        Some((seen, Foreseen { now, executor_id }))
    }
}
