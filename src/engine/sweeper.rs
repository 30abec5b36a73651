//! The sweeper: every server looks for what time or death has changed, several times a second.
//!
//! It finds jobs whose executor is dead, parked jobs that are due, approvals whose time is over,
//! calls that nobody will settle, and executors that are long gone.
//! A round moves bounded batches until one is not full; a second round right after finds nothing.
//! One kind that fails does not stop the others.

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::store::sweep::{BATCH_MAX, Sweep};
use crate::store::{Store, StoreError};

/// A round ends after so many batches of one kind, so that no kind starves another.
const BATCHES_MAX: usize = 20;
/// After the database was away nobody is judged dead for so long: the living need time to renew.
const CALM: Duration = Duration::from_secs(5);
/// A database that answers later than this is in trouble.
const SLOW: Duration = Duration::from_secs(1);

/// What one round did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Swept {
    /// Jobs taken back from dead executors.
    pub lost: usize,
    /// Parked jobs that went on.
    pub due: usize,
    /// Approvals that expired.
    pub overdue: usize,
    /// Calls that were marked as lost.
    pub lost_calls: u64,
    /// Executors that were forgotten.
    pub executors: u64,
    /// Kinds that could not be swept.
    pub failures: usize,
}

/// Looks for what time or death has changed.
#[derive(Clone)]
pub struct Sweeper {
    store: Store,
    interval: Duration,
    /// How many rows a batch may have; less after a batch that failed.
    limit: Arc<AtomicI64>,
}

impl Sweeper {
    /// A sweeper that looks this often.
    pub fn new(store: Store, interval: Duration) -> Self {
        Self { store, interval, limit: Arc::new(AtomicI64::new(BATCH_MAX)) }
    }

    /// Sweeps until told to stop.
    pub async fn run(&self, stop: CancellationToken) {
        let mut troubled_at = None::<Instant>;
        let mut ended_at = Instant::now();
        while !stop.is_cancelled() {
            if self.is_troubled(ended_at).await {
                troubled_at = Some(Instant::now());
            }
            let is_calm = troubled_at.is_none_or(|at| at.elapsed() >= CALM);
            let swept = self.run_once(is_calm).await;
            if swept != Swept::default() {
                tracing::debug!(?swept, "swept");
            }
            ended_at = Instant::now();
            let pause = self.interval.mul_f64(0.75 + rand::random::<f64>() / 2.0);
            tokio::select! {
                () = stop.cancelled() => {}
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    /// Whether the database, or this process, was away: then the living have not renewed either.
    async fn is_troubled(&self, last_round_ended_at: Instant) -> bool {
        let asked_at = Instant::now();
        let slept = asked_at.duration_since(last_round_ended_at) > self.interval * 2 + SLOW;
        slept || self.store.ping().await.is_err() || asked_at.elapsed() > SLOW
    }

    /// One round; the dead are judged only if `judge_dead`.
    pub async fn run_once(&self, judge_dead: bool) -> Swept {
        let mut swept = Swept::default();
        if judge_dead {
            swept.lost = swept.count(self.sweep(Sweep::Lost).await);
            swept.lost_calls = swept.count(self.store.sweep_lost_calls().await);
            swept.executors = swept.count(self.store.sweep_executors().await);
        }
        swept.due = swept.count(self.sweep(Sweep::Due).await);
        swept.overdue = swept.count(self.sweep(Sweep::Overdue).await);
        swept
    }

    async fn sweep(&self, sweep: Sweep) -> Result<usize, StoreError> {
        let mut swept = 0;
        for _ in 0..BATCHES_MAX {
            let limit = self.limit.load(Ordering::Relaxed);
            let found = match self.store.sweep(sweep, limit).await {
                Ok(found) => found,
                Err(error) => {
                    // What cannot be swept at once, because it is too large, can be swept in smaller parts.
                    self.limit.store((limit / 2).max(1), Ordering::Relaxed);
                    return Err(error);
                }
            };
            self.limit.store((limit * 2).min(BATCH_MAX), Ordering::Relaxed);
            swept += found;
            if i64::try_from(found).unwrap_or(i64::MAX) < limit {
                break;
            }
        }
        Ok(swept)
    }
}

impl Swept {
    fn count<N: Default>(&mut self, swept: Result<N, StoreError>) -> N {
        swept.unwrap_or_else(|error| {
            tracing::warn!(error = &error as &dyn Error, "could not sweep");
            self.failures += 1;
            N::default()
        })
    }
}
