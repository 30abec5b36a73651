//! The sweeper: every server looks for what time or death has changed, several times a second.
//!
//! It finds jobs whose executor is dead, parked jobs that are due, approvals whose time is over,
//! calls that nobody will settle, and executors that are long gone.
//! A round moves bounded batches until one is not full; a second round right after finds nothing.
//! One kind that fails does not stop the others.

use std::error::Error;
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::store::sweep::{BATCH_MAX, Sweep};
use crate::store::{Store, StoreError};

/// A round ends after so many batches of one kind, so that no kind starves another.
const BATCHES_MAX: usize = 20;
/// After the database was away nobody is judged dead for so long: the living need time to renew.
const CALM: Duration = Duration::from_secs(5);

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
}

impl Sweeper {
    /// A sweeper that looks this often.
    pub fn new(store: Store, interval: Duration) -> Self {
        Self { store, interval }
    }

    /// Sweeps until told to stop.
    pub async fn run(&self, stop: CancellationToken) {
        let mut troubled_at = None::<Instant>;
        while !stop.is_cancelled() {
            let is_calm = troubled_at.is_none_or(|at| at.elapsed() >= CALM);
            let swept = self.run_once(is_calm).await;
            if swept.failures > 0 {
                troubled_at = Some(Instant::now());
            }
            if swept != Swept::default() {
                tracing::debug!(?swept, "swept");
            }
            let pause = self.interval.mul_f64(0.75 + rand::random::<f64>() / 2.0);
            tokio::select! {
                () = stop.cancelled() => {}
                () = tokio::time::sleep(pause) => {}
            }
        }
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
        let full = usize::try_from(BATCH_MAX).unwrap_or(usize::MAX);
        let mut swept = 0;
        for _ in 0..BATCHES_MAX {
            let found = self.store.sweep(sweep).await?;
            swept += found;
            if found < full {
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
