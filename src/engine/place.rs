//! Places: room for a job that is being submitted or let go on, so that this is a claim as well.
//!
//! There is one only while a slot is free and nothing is known to wait for it: whoever came first goes first.
//! A place keeps the search for unheld jobs away, and a stop waiting, until its job is in hand or was not made.

use std::sync::Arc;

use tokio::sync::{OwnedRwLockReadGuard, OwnedSemaphorePermit};
use tokio_util::task::task_tracker::TaskTrackerToken;

use super::executor::Executor;
use crate::domain::id::ExecutorId;
use crate::store::claim::Claimed;

/// Room for one job that is about to need an executor.
pub struct Place {
    executor: Executor,
    executor_id: ExecutorId,
    slot: OwnedSemaphorePermit,
    /// Until the job is in hand, so that nobody takes it for unheld meanwhile.
    _claiming: OwnedRwLockReadGuard<()>,
    /// A stop waits for it.
    _draining: TaskTrackerToken,
}

impl Place {
    /// Who claims the job.
    pub fn executor_id(&self) -> ExecutorId {
        self.executor_id
    }

    /// Takes the job that was claimed for it in hand.
    fn take(self, job: Claimed) {
        self.executor.take(job, self.slot);
    }
}

/// Takes the job in hand that was claimed for the place, if there was one and it was.
pub(super) fn take(place: Option<Place>, claimed: Option<Box<Claimed>>) {
    if let Some((place, claimed)) = place.zip(claimed) {
        place.take(*claimed);
    }
}

impl Executor {
    /// A place for a job that is about to need an executor, if there is room and nothing is known to wait before it.
    pub fn find_place(&self) -> Option<Place> {
        // First, so that a stop that comes after the question waits for the place.
        let draining = self.inner.running.token();
        if self.stop.is_cancelled() || !self.lease.is_alive() || self.store.wake().may_have_work() {
            return None;
        }
        let slot = Arc::clone(&self.inner.slots).try_acquire_owned().ok()?;
        let claiming = self.lease.find_claiming()?;
        let executor_id = self.lease.executor_id();
        let executor = self.clone();
        Some(Place { executor, executor_id, slot, _claiming: claiming, _draining: draining })
    }
}
