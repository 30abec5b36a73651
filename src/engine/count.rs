//! The counter: each server sees to it once in a while that jobs are counted, so that nobody has to who asks.
//!
//! A round makes spans of what is new, counts again what was counted long ago, and joins what has become small.
//! Several servers divide that by skipping locks; a second round right after finds nothing.

use std::error::Error;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::store::{Store, StoreError, about};

/// How often, about.
const INTERVAL: Duration = Duration::from_secs(30);
/// A round ends after so many batches of a kind.
const BATCHES_MAX: usize = 20;

/// What one round did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// Spans that were made.
    pub added: usize,
    /// Spans that were counted again.
    pub again: u64,
    /// Spans that were joined to those before.
    pub joined: usize,
}

/// Counts jobs.
#[derive(Clone)]
pub struct Counter {
    store: Store,
}

impl Counter {
    /// One that counts in this store.
    pub fn new(store: Store) -> Self {
        Self { store }
    }

    /// Counts until told to stop.
    pub async fn run(&self, stop: CancellationToken) {
        loop {
            let pause = about(INTERVAL);
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(pause) => {}
            }
            if let Err(error) = self.run_once().await {
                tracing::warn!(error = &error as &dyn Error, "could not count the jobs");
            }
        }
    }

    /// One round.
    pub async fn run_once(&self) -> Result<Counted, StoreError> {
        let mut counted = Counted::default();
        while counted.added < BATCHES_MAX && self.store.add_span().await? {
            counted.added += 1;
        }
        for _ in 0..BATCHES_MAX {
            let again = self.store.count_again().await?;
            counted.again += again;
            if again == 0 {
                break;
            }
        }
        while counted.joined < BATCHES_MAX && self.store.join_spans().await? {
            counted.joined += 1;
        }
        Ok(counted)
    }
}
