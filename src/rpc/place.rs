//! Places: the room that a call takes among those in hand, and may change for another.
//!
//! In comes what the guard has found room by; the call changes it for a seat while it waits for a job.
//! Whatever it holds is given back once its answer was taken.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::OwnedSemaphorePermit;

/// The place of one call, among the extensions of its request.
#[derive(Clone, Debug)]
pub(super) struct Place(Arc<Mutex<OwnedSemaphorePermit>>);

impl Place {
    /// The place that it has first.
    pub fn new(permit: OwnedSemaphorePermit) -> Self {
        Self(Arc::new(Mutex::new(permit)))
    }

    /// Leaves it to others, for this one.
    pub fn change(&self, permit: OwnedSemaphorePermit) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = permit;
    }
}
