//! The executor: claims jobs while it has free slots, and drives each until it leaves its hands.
//!
//! One lease holds all its jobs; `lease` renews it on a connection of its own, and without a living lease nothing new
//! is begun here. What this process has in hand is compared with what Postgres says it holds, at every wake-up and once
//! a second: a job that was cancelled, paused or taken is let go at once, and its call to the model is dropped.

use std::collections::{HashMap, HashSet};
use std::error::Error;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::FutureExt as _;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, broadcast::error::RecvError};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{Instrument as _, Level, event};

use super::EngineSettings;
use super::allowance::Allowance;
use super::answer::Answers;
use super::lease::LeaseKeeper;
use super::step::{After, Steps};
use crate::domain::id::{CallId, JobKey};
use crate::model::Model;
use crate::store::claim::{ClaimRequest, Claimed, Claims};
use crate::store::executor::Held;
use crate::store::ledger::CallEnd;
use crate::store::{Store, StoreError, about};
use crate::telemetry::METRIC;

/// How often what is in hand is compared with what Postgres says, without a wake-up.
const COMPARE: Duration = Duration::from_secs(1);
/// And how often at most, however many wake-ups come.
const COMPARE_PAUSE: Duration = Duration::from_millis(50);
/// How often jobs are looked for that carry this executor's id and are not in its hands, at the least.
const TIDY: Duration = Duration::from_secs(5);
/// How long a stop tries to give back what it has, first what is in hand and then what is left.
const GIVE_BACK: Duration = Duration::from_secs(7);
/// A claim that takes longer hangs on a connection that is gone.
const CLAIM_TIMEOUT: Duration = Duration::from_secs(15);
/// The most jobs of one claim: each brings its whole specification.
const CLAIM_MAX: usize = 32;

/// The part of a server that runs steps.
#[derive(Clone)]
pub struct Executor {
    pub(super) store: Store,
    steps: Steps,
    settings: EngineSettings,
    pub(super) lease: LeaseKeeper,
    pub(super) stop: CancellationToken,
    pub(super) inner: Arc<Inner>,
}

pub(super) struct Inner {
    pub(super) slots: Arc<Semaphore>,
    claim_limit: AtomicUsize,
    in_hand: Mutex<InHand>,
    /// What left the hands without a word in the tables, because the database was away.
    left: Mutex<HashSet<(JobKey, i32)>>,
    pub(super) running: TaskTracker,
}

/// What is in hand, by job and epoch: a job that was taken back and claimed again is in hand twice for a moment.
type InHand = HashMap<(JobKey, i32), Hand>;

struct Hand {
    abort: CancellationToken,
    wake_number: u64,
    is_last_attempt: bool,
}

impl Executor {
    /// An executor that has not claimed anything yet, and begins nothing after the stop.
    pub fn new(
        store: Store,
        model: Model,
        settings: EngineSettings,
        lease: LeaseKeeper,
        stop: CancellationToken,
    ) -> Self {
        let inner = Inner {
            slots: Arc::new(Semaphore::new(settings.slots)),
            claim_limit: AtomicUsize::new(CLAIM_MAX),
            in_hand: Mutex::default(),
            left: Mutex::default(),
            running: TaskTracker::new(),
        };
        let allowance = Allowance::new(store.clone(), &settings);
        let linger = settings.batch.linger;
        let answers = Answers::default();
        let lease_kept = lease.clone();
        let steps =
            Steps { store: store.clone(), model, lease: lease_kept, linger, allowance, answers };
        Self { store, steps, settings, lease, stop, inner: Arc::new(inner) }
    }

    /// What its calls are paid from.
    pub fn allowance(&self) -> &Allowance {
        &self.steps.allowance
    }

    /// The answers that arrive in its calls.
    pub fn answers(&self) -> &Answers {
        &self.steps.answers
    }

    /// Claims and runs until told to stop, then lets steps finish, gives back what did not, and signs off.
    pub async fn run(&self) {
        while !self.stop.is_cancelled() {
            // Register for the wake-up, then look, then sleep: one between look and sleep is not lost.
            let woken = self.store.wake().work.notified();
            if self.claim_once().await > 0 {
                continue;
            }
            let poll = about(self.settings.poll);
            tokio::select! {
                () = self.stop.cancelled() => {}
                () = woken => {}
                () = self.a_slot(), if self.inner.slots.available_permits() == 0 => {}
                () = tokio::time::sleep(poll) => {}
            }
        }
        self.drain().await;
    }

    /// Claims once; answers how many jobs came into this process's hands.
    pub async fn claim_once(&self) -> usize {
        let limit = self.inner.claim_limit.load(Ordering::Relaxed);
        let free = self.inner.slots.available_permits().min(limit);
        if free == 0 || !self.lease.is_alive() {
            return 0;
        }
        let slots = u32::try_from(free).unwrap_or(u32::MAX);
        // Somebody who submits may have taken one meanwhile.
        let Ok(slots) = Arc::clone(&self.inner.slots).try_acquire_many_owned(slots) else {
            return 0;
        };
        let claimed = tokio::time::timeout(CLAIM_TIMEOUT, self.claim(slots)).await;
        // What cannot be claimed at once, because it is too large, can be claimed in smaller parts.
        let is_good = matches!(claimed, Ok(Ok(_)));
        let limit = if is_good { (limit * 2).min(CLAIM_MAX) } else { (free / 2).max(1) };
        self.inner.claim_limit.store(limit, Ordering::Relaxed);
        match claimed {
            Ok(Ok(count)) => count,
            Ok(Err(error)) => {
                tracing::warn!(error = &error as &dyn Error, "could not claim");
                0
            }
            Err(_elapsed) => {
                tracing::warn!("could not claim: the database does not answer");
                0
            }
        }
    }

    async fn claim(&self, mut slots: OwnedSemaphorePermit) -> Result<usize, StoreError> {
        let limit = slots.num_permits();
        // Until the jobs are in hand, so that nobody takes them for unheld meanwhile.
        let _claiming = self.lease.while_claiming().await;
        let executor_id = self.lease.executor_id();
        let holds_last_attempt = self.holds_last_attempt();
        let request = ClaimRequest { executor_id, limit, holds_last_attempt };
        let came = self.store.wake().work_came();
        let began_at = Instant::now();
        let Claims { claimed, saw_all } = self.store.claim(request).await?;
        let count = claimed.len();
        if count > 0 {
            let seconds = began_at.elapsed().as_secs_f64();
            event!(target: METRIC, Level::TRACE, histogram.longhaul.claim.seconds = seconds);
        }
        if saw_all {
            self.store.wake().note_nothing_left(came);
        }
        for job in claimed {
            let Some(slot) = slots.split(1) else {
                unreachable!("no more jobs are claimed than there are slots for them")
            };
            self.take(job, slot);
        }
        Ok(count)
    }

    /// Lets go of what is no longer its own, and gives back what it does not know, until told to stop.
    pub async fn compare(&self, stop: CancellationToken) {
        // Apart, because the second waits for claims that are on their way, and a cancel must not.
        tokio::join!(self.compare_often(&stop), self.tidy_up(&stop));
    }

    async fn compare_often(&self, stop: &CancellationToken) {
        let mut changed = self.store.wake().watch_jobs();
        loop {
            let mine_changed = async {
                loop {
                    match changed.recv().await {
                        Ok(number) if !self.has_in_hand(number) => {}
                        Ok(_) | Err(RecvError::Lagged(_)) => return,
                        Err(RecvError::Closed) => std::future::pending().await,
                    }
                }
            };
            tokio::select! {
                () = stop.cancelled() => return,
                () = mine_changed => {}
                () = tokio::time::sleep(COMPARE) => {}
            }
            if let Err(error) = self.compare_once().await {
                tracing::debug!(error = &error as &dyn Error, "could not compare what is in hand");
            }
            tokio::time::sleep(COMPARE_PAUSE).await;
        }
    }

    async fn tidy_up(&self, stop: &CancellationToken) {
        let pause = TIDY.min(self.settings.lease / 3);
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(pause) => {}
            }
            if let Err(error) = self.release_unheld().await {
                tracing::debug!(error = &error as &dyn Error, "could not look for unheld jobs");
            }
        }
    }

    /// Aborts the steps of jobs that left this executor's hands; answers how many.
    async fn compare_once(&self) -> Result<usize, StoreError> {
        let before: Vec<(JobKey, i32)> = self.lock_in_hand().keys().cloned().collect();
        if before.is_empty() {
            return Ok(0);
        }
        let held = self.store.held_jobs(self.lease.executor_id()).await?;
        let held: HashSet<(JobKey, i32)> =
            held.into_iter().map(|held| (held.key, held.lease.epoch)).collect();
        let in_hand = self.lock_in_hand();
        let gone = before.iter().filter(|job| !held.contains(*job));
        let mut let_go = 0;
        for hand in gone.filter_map(|job| in_hand.get(job)) {
            hand.abort.cancel();
            let_go += 1;
        }
        Ok(let_go)
    }

    /// Gives back, uncounted, jobs that carry this executor's id but are not in its hands:
    /// a claim whose reply was lost, or an attempt whose end could not be stored.
    async fn release_unheld(&self) -> Result<(), StoreError> {
        let unheld: Vec<Held> = {
            let _nobody_claims = self.lease.while_nobody_claims().await;
            let held = self.store.held_jobs(self.lease.executor_id()).await?;
            let in_hand = self.lock_in_hand();
            let known = |held: &Held| in_hand.contains_key(&(held.key.clone(), held.lease.epoch));
            held.into_iter().filter(|held| !known(held)).collect()
        };
        let mut result = Ok(());
        for held in unheld {
            match self.give_back_unheld(&held).await {
                Err(error) if !error.is_lease_lost() => result = Err(error),
                Ok(()) | Err(_) => {}
            }
        }
        result
    }

    async fn give_back_unheld(&self, held: &Held) -> Result<(), StoreError> {
        self.store.release_unheld(held).await?;
        tracing::warn!(job_id = held.key.job_id(), "gave back a job it did not know");
        let job = (held.key.clone(), held.lease.epoch);
        let was_in_hand = self.lock_left().remove(&job);
        if !was_in_hand {
            // Its claim was never known here, so its call never left.
            let unsent = CallEnd::Unsent(CallId::first_of(held.lease.attempt_id));
            self.store.end_call(&held.key, unsent).await?;
        }
        Ok(())
    }

    pub(super) fn take(&self, job: Claimed, slot: OwnedSemaphorePermit) {
        let hand = Hand {
            abort: CancellationToken::new(),
            wake_number: job.key.wake_number(),
            is_last_attempt: job.state.is_on_last_attempt(job.spec.max_attempts),
        };
        let abort = hand.abort.clone();
        let in_hand = (job.key.clone(), job.lease.epoch);
        self.lock_in_hand().insert(in_hand.clone(), hand);
        // Let go of however this ends.
        let guard = InHandGuard { inner: Arc::clone(&self.inner), in_hand };
        let executor = self.clone();
        // In a box: a task is moved several times, and this one is large.
        self.inner.running.spawn(Box::pin(async move {
            executor.drive(job, abort, &guard.in_hand).await;
            drop((guard, slot));
        }));
    }

    /// Runs a job's steps, one after the other under one lease, until it leaves this process's hands.
    async fn drive(&self, job: Claimed, abort: CancellationToken, in_hand: &(JobKey, i32)) {
        let mut job = job;
        loop {
            // It was claimed, or its checkpoint waited for the database, until after the stop.
            if self.stop.is_cancelled() {
                return self.steps.give_back(&job).await;
            }
            let may_go_on = || !self.stop.is_cancelled() && self.lease.is_alive();
            let step = self.steps.run(job.clone(), abort.clone(), may_go_on);
            let step = step.instrument(Steps::span(&job));
            // A panic fails this attempt alone.
            match std::panic::AssertUnwindSafe(step).catch_unwind().await {
                Ok(After::GoOn(next)) => job = *next,
                Ok(After::Left) => return,
                Ok(After::Unstored) => {
                    self.lock_left().insert(in_hand.clone());
                    return;
                }
                Err(_panic) => return self.steps.panicked(&job).await,
            }
            // A checkpoint starts the count of lost attempts again.
            if let Some(hand) = self.lock_in_hand().get_mut(in_hand) {
                hand.is_last_attempt = false;
            }
        }
    }

    /// Lets steps in flight finish for a while, then aborts them; everything goes back uncounted.
    async fn drain(&self) {
        self.inner.running.close();
        let finished = tokio::time::timeout(self.settings.drain, self.inner.running.wait()).await;
        if finished.is_err() {
            let left = self.lock_in_hand().len();
            tracing::info!(jobs = left, "gives back the steps that did not finish in time");
            for hand in self.lock_in_hand().values() {
                hand.abort.cancel();
            }
            let _ = tokio::time::timeout(GIVE_BACK, self.inner.running.wait()).await;
        }
        let _ = tokio::time::timeout(GIVE_BACK, self.give_back_the_rest()).await;
        if let Err(error) = self.steps.allowance.give_back().await {
            let error = &error as &dyn Error;
            tracing::warn!(error, "could not give back the allowance; it counts as spent today");
        }
        self.lease.sign_off().await;
    }

    /// What still carries this executor's id would count as lost once the executor is gone.
    async fn give_back_the_rest(&self) {
        while let Err(error) = self.release_unheld().await {
            tracing::debug!(error = &error as &dyn Error, "could not give back what is left");
            tokio::time::sleep(COMPARE_PAUSE * 4).await;
        }
    }

    async fn a_slot(&self) {
        // The permit is given back at once: this only waits until there is one.
        drop(self.inner.slots.acquire().await);
    }

    fn holds_last_attempt(&self) -> bool {
        self.lock_in_hand().values().any(|hand| hand.is_last_attempt)
    }

    fn has_in_hand(&self, wake_number: u64) -> bool {
        self.lock_in_hand().values().any(|hand| hand.wake_number == wake_number)
    }

    fn lock_left(&self) -> MutexGuard<'_, HashSet<(JobKey, i32)>> {
        self.inner.left.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_in_hand(&self) -> MutexGuard<'_, InHand> {
        self.inner.in_hand.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Takes a job out of hand when it is dropped.
struct InHandGuard {
    inner: Arc<Inner>,
    in_hand: (JobKey, i32),
}

impl Drop for InHandGuard {
    fn drop(&mut self) {
        let mut in_hand = self.inner.in_hand.lock().unwrap_or_else(PoisonError::into_inner);
        in_hand.remove(&self.in_hand);
    }
}
