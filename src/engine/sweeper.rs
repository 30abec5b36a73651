//! The sweeper: every server looks for what time or death has changed, several times a second.
//!
//! It finds executors that are dead and the jobs they held, calls that nobody will settle, parked jobs that are due,
//! approvals whose time is over or of which people are to be reminded, and requests that could not be delivered.
//! A round moves bounded batches until one is not full; a second round right after finds nothing.
//! One kind that fails does not stop the others.

mod trust;

use std::error::Error;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{Level, event};

use crate::domain::book::Book;
use crate::store::sweep::{BATCH_MAX, Judge, Judging, Sweep};
use crate::store::{Store, StoreError, about};
use crate::telemetry::METRIC;
use trust::{Answer, CALM, Trust};

/// A round ends after so many batches of one kind, so that no kind starves another.
const BATCHES_MAX: usize = 20;
/// How often it is told how old the last good round is.
const WATCH: Duration = Duration::from_secs(1);
/// A round is not too old before that, however often it should come.
const OLD: Duration = Duration::from_secs(5);
/// So long nobody could be judged: that is told.
const UNJUDGED: Duration = Duration::from_secs(30);
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
    /// Approvals of which people were reminded, or more were asked.
    pub reminded: usize,
    /// Requests of which it was told that they could not be delivered.
    pub undelivered: usize,
    /// Kinds that could not be swept.
    pub failures: usize,
}

/// Looks for what time or death has changed.
#[derive(Clone)]
pub struct Sweeper {
    store: Store,
    interval: Duration,
    book: Arc<Book>,
    /// How many rows a batch may have; less after a batch that failed.
    limit: Arc<AtomicI64>,
    /// When the last round ended in which nothing failed.
    swept_at: Arc<Mutex<Instant>>,
    /// When anybody could last be judged.
    judged_at: Arc<Mutex<Instant>>,
}

impl Sweeper {
    /// A sweeper that looks this often.
    ///
    /// The book says who can be asked instead where a request could not be delivered.
    pub fn new(store: Store, interval: Duration, book: Arc<Book>) -> Self {
        let limit = Arc::new(AtomicI64::new(BATCH_MAX));
        let now = || Arc::new(Mutex::new(Instant::now()));
        Self { store, interval, book, limit, swept_at: now(), judged_at: now() }
    }

    /// Sweeps until told to stop.
    pub async fn run(&self, stop: CancellationToken) {
        let (mut trust, mut hurried_at) = (Trust::new(self.interval), None::<Instant>);
        while !stop.is_cancelled() {
            let swept = self.round(&mut trust).await;
            if swept.failures == 0 {
                note_now(&self.swept_at);
            }
            if swept.missing > 0 || swept.lost > 0 {
                hurried_at = Some(Instant::now());
            }
            let is_urgent = hurried_at.is_some_and(|at| at.elapsed() < HURRY);
            let interval = if is_urgent { self.interval / 4 } else { self.interval };
            let pause = about(interval);
            tokio::select! {
                () = stop.cancelled() => {}
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    /// Tells how old the last good round and the last judgement are, until told to stop; beside the loop, since that may hang.
    pub async fn watch(&self, stop: CancellationToken) {
        let limit = (self.interval * 10).max(OLD);
        let (mut is_old, mut is_unjudged) = (false, false);
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(WATCH) => {}
            }
            let (age, unjudged) = (age_of(&self.swept_at), age_of(&self.judged_at));
            let (age_seconds, unjudged_seconds) = (age.as_secs_f64(), unjudged.as_secs_f64());
            event!(
                target: METRIC,
                Level::TRACE,
                gauge.longhaul.sweep.age_seconds = age_seconds,
                gauge.longhaul.sweep.unjudged_seconds = unjudged_seconds
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
            if is_unjudged != (unjudged > UNJUDGED) {
                is_unjudged = !is_unjudged;
                if is_unjudged {
                    tracing::warn!(unjudged_seconds, "trouble recurs: nobody could be judged dead");
                } else {
                    tracing::info!("the dead are judged again");
                }
            }
        }
    }

    /// A round, unless the database does not even answer.
    async fn round(&self, trust: &mut Trust) -> Swept {
        let presence = self.store.presence();
        let mut judge = match self.ask(trust).await {
            Ok(judge) => judge,
            Err(error) => {
                trust.note_silence();
                presence.note_trouble();
                tracing::debug!(error = &error as &dyn Error, "could not sweep");
                return Swept { failures: 1, ..Swept::default() };
            }
        };
        let judging = trust.judging(presence.is_calm_for(CALM), presence.is_held());
        if judging != Judging::Nobody {
            note_now(&self.judged_at);
        }
        let mut swept = Swept::default();
        swept.judge(&mut judge, judging).await;
        // The connection goes back before others are asked for.
        drop(judge);
        self.sweep_jobs(&mut swept).await;
        if swept != Swept::default() {
            tracing::debug!(?swept, "swept");
        }
        if let Ok(lost @ 1..) = u64::try_from(swept.lost) {
            event!(target: METRIC, Level::TRACE, monotonic_counter.longhaul.recoveries = lost);
        }
        swept
    }

    /// Asks Postgres on the connection of this round; how long a connection was waited for tells nothing about it.
    async fn ask(&self, trust: &mut Trust) -> Result<Judge, StoreError> {
        let mut judge = self.store.judge().await?;
        let asked_at = Instant::now();
        let postgres_now = judge.ask().await?;
        if trust.note(Answer { asked_at, came_at: Instant::now(), postgres_now }) {
            self.store.presence().note_trouble();
        }
        Ok(judge)
    }

    /// One round, which judges whom it may.
    pub async fn run_once(&self, judging: Judging) -> Swept {
        let mut swept = Swept::default();
        match self.ask(&mut Trust::new(self.interval)).await {
            Ok(mut judge) => swept.judge(&mut judge, judging).await,
            Err(error) => swept.count(Err(error)),
        }
        self.sweep_jobs(&mut swept).await;
        swept
    }

    async fn sweep_jobs(&self, swept: &mut Swept) {
        swept.lost = swept.count(self.sweep(Sweep::Lost).await);
        swept.lost_calls = swept.count(self.store.sweep_lost_calls().await);
        swept.due = swept.count(self.sweep(Sweep::Due).await);
        swept.overdue = swept.count(self.sweep(Sweep::Overdue).await);
        swept.reminded = swept.count(self.sweep(Sweep::Reminders).await);
        swept.undelivered = swept.count(self.store.sweep_undelivered(&self.book).await);
    }

    async fn sweep(&self, sweep: Sweep) -> Result<usize, StoreError> {
        let mut swept = 0;
        for _ in 0..BATCHES_MAX {
            let limit = self.limit.load(Ordering::Relaxed);
            let batch = match self.store.sweep(sweep, limit).await {
                Ok(batch) => batch,
                Err(error) => {
                    // What cannot be swept at once, because it is too large, can be swept in smaller parts.
                    self.limit.store((limit / 2).max(1), Ordering::Relaxed);
                    return Err(error);
                }
            };
            self.limit.store((limit * 2).min(BATCH_MAX), Ordering::Relaxed);
            swept += batch.moved;
            // Where nothing moves, the same is found again at once.
            if batch.moved == 0 || i64::try_from(batch.found).unwrap_or(i64::MAX) < limit {
                break;
            }
        }
        Ok(swept)
    }
}

impl Swept {
    async fn judge(&mut self, judge: &mut Judge, judging: Judging) {
        self.missing = self.count(judge.look_for_executors().await);
        self.buried = self.count(judge.bury_executors(judging).await);
    }

    fn count<N: Default>(&mut self, swept: Result<N, StoreError>) -> N {
        swept.unwrap_or_else(|error| {
            tracing::warn!(error = &error as &dyn Error, "could not sweep");
            self.failures += 1;
            N::default()
        })
    }
}

fn note_now(at: &Mutex<Instant>) {
    *at.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
}

fn age_of(at: &Mutex<Instant>) -> Duration {
    at.lock().unwrap_or_else(PoisonError::into_inner).elapsed()
}
