//! Gauges: every few seconds each server tells its operators how much is where, and how old the oldest of it is.
//!
//! What is told is read from Postgres, so that every server tells the same; nothing is read while nobody listens.

use std::error::Error;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tracing::Level;

use crate::store::gauge::Gauges;
use crate::store::{Store, StoreError, about};
use crate::telemetry::METRIC;

/// How often, about.
const INTERVAL: Duration = Duration::from_secs(15);

/// Tells how much is where.
#[derive(Clone)]
pub struct Gauger {
    store: Store,
}

impl Gauger {
    /// One that reads from this store.
    pub fn new(store: Store) -> Self {
        Self { store }
    }

    /// Tells until told to stop.
    pub async fn run(&self, stop: CancellationToken) {
        while !stop.is_cancelled() {
            if tracing::event_enabled!(target: METRIC, Level::TRACE, gauge.longhaul.jobs)
                && let Err(error) = self.run_once().await
            {
                tracing::warn!(error = &error as &dyn Error, "could not read the gauges");
            }
            let pause = about(INTERVAL);
            tokio::select! {
                () = stop.cancelled() => {}
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    /// Tells once, and answers what.
    pub async fn run_once(&self) -> Result<Gauges, StoreError> {
        let gauges = self.store.gauges().await?;
        for (status, count) in [
            ("queued", gauges.queued.count),
            ("parked", gauges.parked),
            ("running", gauges.running),
            ("awaiting_approval", gauges.awaiting_approval.count),
            ("paused", gauges.paused),
        ] {
            let count = count.cast_unsigned();
            tracing::event!(target: METRIC, Level::TRACE, gauge.longhaul.jobs = count, status);
        }
        tracing::event!(
            target: METRIC,
            Level::TRACE,
            gauge.longhaul.queue.age_seconds = gauges.queued.age_seconds,
            gauge.longhaul.approval.pending = gauges.awaiting_approval.count.cast_unsigned(),
            gauge.longhaul.approval.age_seconds = gauges.awaiting_approval.age_seconds,
            gauge.longhaul.outbox.pending = gauges.outbox.count.cast_unsigned(),
            gauge.longhaul.outbox.age_seconds = gauges.outbox.age_seconds,
            gauge.longhaul.transaction.age_seconds = gauges.transaction_age_seconds,
        );
        Ok(gauges)
    }
}
