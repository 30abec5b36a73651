//! The sweeper: every server looks for what time or death has changed, several times a second.
//!
//! It finds executors that are dead and the jobs they held, calls that nobody will settle, parked jobs that are due,
//! and approvals whose time is over.
//! A round moves bounded batches until one is not full; a second round right after finds nothing.
//! One kind that fails does not stop the others.

use std::error::Error;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{Level, event};

use crate::store::sweep::{BATCH_MAX, Judging, Sweep};
use crate::store::{Store, StoreError};
use crate::telemetry::METRIC;

/// A round ends after so many batches of one kind, so that no kind starves another.
const BATCHES_MAX: usize = 20;
/// After the database was away nobody is judged dead for so long: the living need time to renew.
const CALM: Duration = Duration::from_secs(5);
/// A database that answers later than this is in trouble.
const SLOW: Duration = Duration::from_secs(1);
/// How often it is told how old the last good round is.
const WATCH: Duration = Duration::from_secs(1);
/// A round is not too old before that, however often it should come.
const OLD: Duration = Duration::from_secs(5);
/// Somebody is missing, or a job was lost a moment ago: for so long it looks four times as often.
const HURRY: Duration = Duration::from_millis(1500);

/// What one round did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Swept {
    /// Executors whose sign of life went missing, or came back.
    pub missing: u64,
    /// Executors that were declared dead.
    pub buried: u64,
    /// Jobs taken back from dead executors.
    pub lost: usize,
    /// Calls that were marked as lost.
    pub lost_calls: u64,
    /// Parked jobs that went on.
    pub due: usize,
    /// Approvals that expired.
    pub overdue: usize,
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
    /// When the last round ended in which nothing failed.
    swept_at: Arc<Mutex<Instant>>,
}

impl Sweeper {
    /// A sweeper that looks this often.
    pub fn new(store: Store, interval: Duration) -> Self {
        let (limit, swept_at) = (AtomicI64::new(BATCH_MAX), Mutex::new(Instant::now()));
        Self { store, interval, limit: Arc::new(limit), swept_at: Arc::new(swept_at) }
    }

    /// Sweeps until told to stop.
    pub async fn run(&self, stop: CancellationToken) {
        let began_at = Instant::now();
        let (mut ended_at, mut hurried_at) = (began_at, None::<Instant>);
        while !stop.is_cancelled() {
            let swept = self.round(began_at, ended_at).await;
            ended_at = Instant::now();
            if swept.failures == 0 {
                *self.swept_at.lock().unwrap_or_else(PoisonError::into_inner) = ended_at;
            }
            if swept.missing > 0 || swept.lost > 0 {
                hurried_at = Some(ended_at);
            }
            let is_urgent = hurried_at.is_some_and(|at| at.elapsed() < HURRY);
            let interval = if is_urgent { self.interval / 4 } else { self.interval };
            let pause = interval.mul_f64(0.75 + rand::random::<f64>() / 2.0);
            tokio::select! {
                () = stop.cancelled() => {}
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    /// Tells how old the last good round is, until told to stop; beside the loop, since that may hang.
    pub async fn watch(&self, stop: CancellationToken) {
        let limit = (self.interval * 10).max(OLD);
        let mut is_old = false;
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(WATCH) => {}
            }
            let age = self.swept_at.lock().unwrap_or_else(PoisonError::into_inner).elapsed();
            let age_seconds = age.as_secs_f64();
            event!(
                target: METRIC,
                Level::TRACE,
                gauge.longhaul.sweep.age_seconds = age_seconds
            );
            if is_old != (age > limit) {
                is_old = !is_old;
                if is_old {
                    tracing::warn!(
                        age_seconds,
                        "nothing was swept for too long: what is due or lost waits"
                    );
                } else {
                    tracing::info!(age_seconds, "sweeping goes on");
                }
            }
        }
    }

    /// Whom this process may judge, since so long as it has been looking.
    fn judging(&self, began_at: Instant) -> Judging {
        if !self.store.presence().is_calm_for(CALM) {
            Judging::Nobody
        } else if began_at.elapsed() < CALM {
            Judging::OfThisRun
        } else {
            Judging::Everybody
        }
    }

    /// A round, unless the database does not even answer.
    async fn round(&self, began_at: Instant, last_round_ended_at: Instant) -> Swept {
        let asked_at = Instant::now();
        let answer = self.store.ping().await;
        // Or this process was away: then it has not renewed either, and may have been taken for dead itself.
        let slept = asked_at.duration_since(last_round_ended_at) > self.interval * 2 + SLOW;
        if slept || answer.is_err() || asked_at.elapsed() > SLOW {
            self.store.presence().note_trouble();
        }
        if let Err(error) = answer {
            tracing::debug!(error = &error as &dyn Error, "could not sweep");
            return Swept { failures: 1, ..Swept::default() };
        }
        let swept = self.run_once(self.judging(began_at)).await;
        if swept != Swept::default() {
            tracing::debug!(?swept, "swept");
        }
        if let Ok(lost @ 1..) = u64::try_from(swept.lost) {
            event!(target: METRIC, Level::TRACE, monotonic_counter.longhaul.recoveries = lost);
        }
        swept
    }

    /// One round, which judges whom it may.
    pub async fn run_once(&self, judging: Judging) -> Swept {
        let mut swept = Swept::default();
        swept.missing = swept.count(self.store.look_for_executors().await);
        swept.buried = swept.count(self.store.bury_executors(judging).await);
        swept.lost = swept.count(self.sweep(Sweep::Lost).await);
        swept.lost_calls = swept.count(self.store.sweep_lost_calls().await);
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
