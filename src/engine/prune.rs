//! Pruning: what ended long enough ago goes, a little in each round.
//!
//! It walks through what has ended, oldest first, and begins again at the end: jobs that cannot go yet are passed by.
//! Two servers that do this at once divide the work; where nothing is to be pruned ever, it does nothing.
//! It has a loop of its own: however long it takes, nothing else waits for it.

use std::collections::HashMap;
use std::error::Error;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::domain::job::Status;
use crate::store::prune::{BATCH_MAX, Ended, Retention};
use crate::store::{Store, StoreError};

/// As many ended jobs are looked at in one step of the walk.
const LOOK_MAX: i64 = 500;
/// A round ends after so many batches, so that marking goes on as well.
const BATCHES_MAX: usize = 5;
/// Where nothing is left to do, it looks again after so many pauses.
const IDLE: u32 = 5;

/// Marks and prunes.
#[derive(Clone)]
pub struct Pruner {
    store: Store,
    kept: Retention,
    interval: Duration,
    walk: Arc<Mutex<Walk>>,
}

/// How far it has come.
#[derive(Debug)]
struct Walk {
    /// The last job that was looked at, of each way to end; none where it begins anew.
    places: HashMap<Status, Ended>,
    /// The most jobs of a batch; less after a batch that failed.
    limit: i64,
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
    /// Prunes what is not to be kept; this is the pause between two rounds, while there is something to do.
    pub fn new(store: Store, kept: Retention, interval: Duration) -> Self {
        let walk = Walk { places: HashMap::new(), limit: BATCH_MAX };
        Self { store, kept, interval, walk: Arc::new(Mutex::new(walk)) }
    }

    /// Prunes until told to stop.
    pub async fn run(&self, stop: CancellationToken) {
        if self.kept.periods().is_empty() {
            return stop.cancelled().await;
        }
        loop {
            // What is cut off in the middle is taken back by Postgres.
            let round = tokio::select! {
                () = stop.cancelled() => return,
                round = self.run_once() => round,
            };
            let pause = match round {
                Ok(pruned) if pruned == Pruned::default() && self.is_at_the_end() => {
                    self.interval * IDLE
                }
                Ok(pruned) => {
                    tracing::debug!(?pruned, "pruned");
                    self.interval
                }
                Err(error) => {
                    tracing::warn!(error = &error as &dyn Error, "could not prune");
                    self.interval
                }
            };
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    /// Whether everything has been looked at that has ended.
    fn is_at_the_end(&self) -> bool {
        self.lock().places.is_empty()
    }

    /// Prunes what was marked a while ago, and marks what is due.
    pub async fn run_once(&self) -> Result<Pruned, StoreError> {
        let pruned = self.bury().await?;
        let mut marked = 0;
        for (status, kept) in self.kept.periods() {
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
