//! Pruning, as a part of sweeping: what ended long enough ago goes, a little in each round.
//!
//! It walks through what has ended, oldest first, and begins again at the end: jobs that cannot go yet are passed by.
//! Two servers that do this at once divide the work; where nothing is to be pruned ever, it does nothing.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::domain::job::Status;
use crate::store::prune::{BATCH_MAX, Ended, Retention};
use crate::store::{Store, StoreError};

/// As many ended jobs are looked at in one step of the walk.
const LOOK_MAX: i64 = 500;
/// A round ends after so many batches, so that nothing else waits for it for long.
const BATCHES_MAX: usize = 5;
/// Every so many rounds it looks whether there is anything to do; while there is, in every round.
const ROUNDS: u32 = 5;

/// Marks and prunes.
#[derive(Clone)]
pub(super) struct Pruner {
    store: Store,
    kept: Retention,
    walk: Arc<Mutex<Walk>>,
}

/// How far it has come.
#[derive(Debug)]
struct Walk {
    /// The last job that was looked at, of each way to end.
    places: HashMap<Status, Ended>,
    /// The most jobs of a batch; less after a batch that failed.
    limit: i64,
    look_at: Instant,
}

/// What one round did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pruned {
    /// Jobs that were marked.
    pub marked: i64,
    /// Jobs that were pruned.
    pub pruned: i64,
}

impl Pruner {
    pub(super) fn new(store: Store, kept: Retention) -> Self {
        let walk = Walk { places: HashMap::new(), limit: BATCH_MAX, look_at: Instant::now() };
        Self { store, kept, walk: Arc::new(Mutex::new(walk)) }
    }

    /// A round if it is time for one, where a sweep comes that often.
    pub(super) async fn round(&self, interval: Duration) -> Result<Pruned, StoreError> {
        if self.lock().look_at > Instant::now() {
            return Ok(Pruned::default());
        }
        let pruned = self.run_once().await;
        let is_idle = pruned.as_ref().is_ok_and(|pruned| *pruned == Pruned::default());
        let pause = if is_idle { interval * ROUNDS } else { Duration::ZERO };
        self.lock().look_at = Instant::now() + pause;
        pruned
    }

    /// Prunes what was marked a while ago, and marks what is due.
    pub(super) async fn run_once(&self) -> Result<Pruned, StoreError> {
        let periods = self.kept.periods();
        if periods.is_empty() {
            return Ok(Pruned::default());
        }
        let pruned = self.bury().await?;
        let mut marked = 0;
        for (status, kept) in periods {
            marked += self.mark(status, kept).await?;
        }
        Ok(Pruned { marked, pruned })
    }

    async fn bury(&self) -> Result<i64, StoreError> {
        let mut pruned = 0;
        for _ in 0..BATCHES_MAX {
            let limit = self.lock().limit;
            let buried = match self.store.bury_marked(&self.kept, limit).await {
                Ok(buried) => buried,
                Err(error) => {
                    self.lock().limit = (limit / 2).max(1);
                    return Err(error);
                }
            };
            self.lock().limit = (limit * 2).min(BATCH_MAX);
            pruned += buried.pruned();
            if buried.found < limit || buried.pruned() + buried.unmarked == 0 {
                break;
            }
        }
        Ok(pruned)
    }

    /// One step of the walk through what ended in one way.
    async fn mark(&self, status: Status, kept: Duration) -> Result<i64, StoreError> {
        let after = self.lock().places.get(&status).cloned();
        let marked = self.store.mark_due(status, kept, after.as_ref(), LOOK_MAX).await?;
        let mut walk = self.lock();
        match marked.last.filter(|_| marked.looked == LOOK_MAX) {
            Some(last) => walk.places.insert(status, last),
            None => walk.places.remove(&status),
        };
        Ok(marked.marked)
    }

    fn lock(&self) -> MutexGuard<'_, Walk> {
        self.walk.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
