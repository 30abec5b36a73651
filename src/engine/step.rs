//! One attempt at a run step: make the prompt, ask the model, store the result.
//!
//! How the attempt ended is stored together with how its last call did, in one transaction.
//! The provider's error says whether the job is parked or failed; the step is the only owner of retries.
//! If the process dies in the middle, the row tells that a call was begun, and the sweeper brings the job back.

use std::error::Error;
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{Level, event};

use super::allowance::{Allowance, PutOff};
use super::answer::Answers;
use super::lease::LeaseKeeper;
use crate::domain::decide::Round;
use crate::domain::id::{AttemptId, CallId};
use crate::domain::job::{Failure, JobState, Lease, Reason, Status, StepResult};
use crate::domain::spec::Work;
use crate::domain::word::Word as _;
use crate::model::{Model, ModelError, Retry, prompt};
use crate::store::claim::Claimed;
use crate::store::ledger::CallEnd;
use crate::store::{Store, StoreError};
use crate::telemetry::METRIC;

/// The longest pause between two tries to store something while the database is away.
const PAUSE_MAX: Duration = Duration::from_secs(2);
/// How often a job is given back, if the database is away: some three seconds.
const RELEASE_TRIES: u32 = 5;

/// Runs steps.
#[derive(Clone)]
pub(super) struct Steps {
    pub(super) store: Store,
    pub(super) model: Model,
    pub(super) lease: LeaseKeeper,
    /// How long a question waits for others to leave with it.
    pub(super) linger: Duration,
    pub(super) allowance: Allowance,
    pub(super) answers: Answers,
}

/// What comes after an attempt.
pub(super) enum After {
    /// The next step, under the same lease.
    GoOn(Box<Claimed>),
    /// The job has left this executor's hands.
    Left,
    /// It has left them, and the database is away, so that nobody else knows yet.
    Unstored,
}

/// How an attempt ended.
pub(super) enum Ended {
    Succeeded(StepResult),
    Erred(ModelError),
    /// The budget does not cover its next call.
    Starved(String),
    /// Its question waits to be answered in a batch.
    Batched,
    /// The day's budget does not cover its next call.
    PutOff(Box<PutOff>),
    Aborted,
}

impl Ended {
    /// How a metric calls it.
    fn word(&self) -> &'static str {
        match self {
            Self::Succeeded(_) => "finished",
            Self::Aborted => "aborted",
            Self::Starved(_) => "starved",
            Self::Batched => "batched",
            Self::PutOff(_) => "put_off",
            Self::Erred(ModelError { retry: Retry::Never, .. }) => "failed",
            Self::Erred(ModelError { retry: Retry::After(_) | Retry::Backoff, .. }) => "delayed",
        }
    }
}

impl Steps {
    /// A span for an attempt, linked to the trace of whoever submitted the job.
    pub(super) fn span(job: &Claimed) -> tracing::Span {
        let span = tracing::info_span!(
            parent: None,
            "attempt",
            job_id = job.key.job_id(),
            step = job.state.current_step,
            attempt = job.state.attempt,
            attempt_id = %job.lease.attempt_id,
        );
        if let Some(traceparent) = &job.traceparent {
            crate::telemetry::link(&span, traceparent);
        }
        span
    }

    /// Runs one attempt and stores what came of it.
    ///
    /// `may_go_on` is asked when the step is done: whether the next may follow under the same lease.
    pub(super) async fn run(
        &self,
        job: Claimed,
        abort: CancellationToken,
        may_go_on: impl Fn() -> bool,
    ) -> After {
        let began_at = Instant::now();
        let (ended, call) = match self.attempt(&job, &abort).await {
            Ok(ended) => ended,
            Err((error, call)) => return self.unstored(&job, error, call).await,
        };
        let (seconds, outcome) = (began_at.elapsed().as_secs_f64(), ended.word());
        event!(target: METRIC, Level::TRACE, histogram.longhaul.step.seconds = seconds, outcome);
        match self.store_end(&job, ended, call.clone(), &abort, may_go_on).await {
            Ok(after) => after,
            Err(error) => self.unstored(&job, error, call).await,
        }
    }

    /// What became of an attempt could not be stored with the job; what its last call used must be kept all the same.
    async fn unstored(&self, job: &Claimed, error: StoreError, call: CallEnd) -> After {
        if error.is_lease_lost() {
            tracing::info!("the job was taken, cancelled or paused meanwhile");
            return After::Left;
        }
        if !matches!(error, StoreError::Unavailable(_)) {
            tracing::error!(
                error = &error as &dyn Error,
                "could not store what became of an attempt"
            );
            // Trying the same again would pay the model again and fail again.
            let message = "the server could not store what became of the step";
            self.give_up(job, message, Some(call)).await;
            return After::Left;
        }
        // The job is found unheld, or its executor is declared dead.
        tracing::warn!(
            error = &error as &dyn Error,
            "the database is away; an attempt is left as it is"
        );
        self.end_call(job, call).await;
        After::Unstored
    }

    /// Fails a job whose step panicked here.
    pub(super) async fn panicked(&self, job: &Claimed) {
        tracing::error!(job_id = job.key.job_id(), "a step panicked");
        self.give_up(job, "the server failed while it ran the step", None).await;
    }

    /// Gives back a job whose next step this executor does not begin.
    pub(super) async fn give_back(&self, job: &Claimed) {
        let unsent = CallEnd::Unsent(CallId::first_of(job.lease.attempt_id));
        match self.release(job, unsent).await {
            Ok(()) => {}
            Err(error) if error.is_lease_lost() => {}
            // It is found unheld, also by the end of a stop.
            Err(error) => {
                tracing::warn!(
                    job_id = job.key.job_id(),
                    error = &error as &dyn Error,
                    "could not give back a job"
                );
            }
        }
    }

    /// Gives a job back, also when a few tries are needed: a stop must not count for a loss.
    async fn release(&self, job: &Claimed, call: CallEnd) -> Result<(), StoreError> {
        a_few_times(RELEASE_TRIES, || self.store.release(job, call.clone())).await.map(|_| ())
    }

    /// Fails a job because of a fault of ours; if not even that can be stored, its attempt counts as lost.
    async fn give_up(&self, job: &Claimed, message: &str, call: Option<CallEnd>) {
        let failure = failure(job, Reason::StepPanicked, message.to_owned(), None);
        let Err(error) = self.store.fail(job, failure, call.clone()).await else { return };
        if let Some(call) = call {
            self.end_call(job, call).await;
        }
        tracing::error!(
            job_id = job.key.job_id(),
            error = &error as &dyn Error,
            "could not fail a job"
        );
        if let Err(error) = self.store.lose(job).await {
            let error = &error as &dyn Error;
            tracing::error!(job_id = job.key.job_id(), error, "could not give up an attempt");
        }
    }

    /// Comes to an end of the attempt, and of its last call, neither of which is stored yet.
    async fn attempt(
        &self,
        job: &Claimed,
        abort: &CancellationToken,
    ) -> Result<(Ended, CallEnd), (StoreError, CallEnd)> {
        let unsent = CallEnd::Unsent(CallId::first_of(job.lease.attempt_id));
        let step = job.state.current_step;
        let Some(Work::Run(run)) = job.spec.find_step(step).map(|found| &found.work) else {
            let what = format!("job {} was claimed at step {step}, which does not run", job.key);
            return Err((StoreError::Corrupt { table: "job", what }, unsent));
        };
        let needed = prompt::needed_steps(&job.spec, step, run);
        let outputs = match self.patiently(abort, || self.store.outputs(&job.key, &needed)).await {
            Ok(outputs) => outputs,
            Err(error) => return Err((error, unsent)),
        };
        let rounds = match self.patiently(abort, || self.rounds(job)).await {
            Ok(rounds) => rounds,
            Err(error) => return Err((error, unsent)),
        };
        match prompt::call(&job.spec, step, run, &outputs, &rounds) {
            Ok(call) if call.is_batched => self.ask_in_batch(job, call, abort).await,
            Ok(call) => self.ask(job, call, abort).await,
            Err(error) => Ok((Ended::Erred(error), unsent)),
        }
    }

    /// What approvers wanted changed of the step's answers.
    async fn rounds(&self, job: &Claimed) -> Result<Vec<Round>, StoreError> {
        let step = job.state.current_step;
        let approval_steps = job.spec.revised_by(step);
        // Whoever was never sent back is in its first revision.
        if job.state.revision == 1 || approval_steps.is_empty() {
            return Ok(Vec::new());
        }
        self.store.rounds(&job.key, step, &approval_steps).await
    }

    /// Stores how the attempt ended, together with its last call.
    async fn store_end(
        &self,
        job: &Claimed,
        ended: Ended,
        call: CallEnd,
        abort: &CancellationToken,
        may_go_on: impl Fn() -> bool,
    ) -> Result<After, StoreError> {
        match ended {
            Ended::Succeeded(result) => {
                let next_attempt = may_go_on().then(AttemptId::new);
                // The answer was paid for, so it waits for a database that is away.
                let finish = || self.store.finish(job, result.clone(), next_attempt, call.clone());
                let state = self.patiently(abort, finish).await?;
                Ok(after(job, state))
            }
            Ended::Erred(error) => self.erred(job, error, call, abort).await,
            Ended::Starved(message) => {
                let failure = failure(job, Reason::Budget, message, None);
                let starve = || self.store.starve(job, failure.clone(), call.clone());
                self.patiently(abort, starve).await.map(|_| After::Left)
            }
            Ended::Batched => {
                let park = || self.store.park_for_batch(job, call.clone());
                self.patiently(abort, park).await.map(|_| After::Left)
            }
            Ended::PutOff(put_off) => self.put_off(job, *put_off, call, abort).await,
            Ended::Aborted => {
                // Whoever took the job away has moved it already, or this process is stopping.
                self.release(job, call).await?;
                Ok(After::Left)
            }
        }
    }

    async fn erred(
        &self,
        job: &Claimed,
        error: ModelError,
        call: CallEnd,
        abort: &CancellationToken,
    ) -> Result<After, StoreError> {
        let message = String::from(error.message);
        let failure = failure(job, error.reason, message, error.request_id);
        // The provider's words may quote a prompt, so they go to the job and not to the log.
        tracing::info!(reason = ?failure.reason, retry = ?error.retry, "the attempt ended with an error");
        let reason = failure.reason.word();
        event!(target: METRIC, Level::TRACE, monotonic_counter.longhaul.provider.errors = 1_u64, reason);
        let after = match error.retry {
            Retry::After(after) => Some(after),
            Retry::Backoff => None,
            Retry::Never => {
                let fail = || self.store.fail(job, failure.clone(), Some(call.clone()));
                return self.patiently(abort, fail).await.map(|_| After::Left);
            }
        };
        let delay = || self.store.delay(job, failure.clone(), after, call.clone());
        self.patiently(abort, delay).await.map(|_| After::Left)
    }

    async fn put_off(
        &self,
        job: &Claimed,
        put_off: PutOff,
        call: CallEnd,
        abort: &CancellationToken,
    ) -> Result<After, StoreError> {
        let PutOff { refusal, needs, message } = put_off;
        let failure = failure(job, Reason::DailyBudget, message, None);
        let failure = Failure { needs_usd: Some(needs), ..failure };
        let operators = self.allowance.operators();
        let park = || self.store.put_off(job, failure.clone(), refusal, operators, call.clone());
        self.patiently(abort, park).await.map(|_| After::Left)
    }

    /// Tries again for as long as the database is away; its answer decides, or the end of this process.
    pub(super) async fn patiently<T, F>(
        &self,
        abort: &CancellationToken,
        mut write: impl FnMut() -> F,
    ) -> Result<T, StoreError>
    where
        F: Future<Output = Result<T, StoreError>>,
    {
        let (mut tried, mut is_last) = (0, false);
        loop {
            let error = match write().await {
                Err(error @ StoreError::Unavailable(_)) if !is_last => error,
                result => return result,
            };
            tried += 1;
            tracing::debug!(
                error = &error as &dyn Error,
                tried,
                "the database is away; trying again"
            );
            tokio::select! {
                // Once more: it may have come back during the pause.
                () = abort.cancelled() => is_last = true,
                () = tokio::time::sleep(pause(tried)) => {}
            }
        }
    }
}

/// Tries again for as often as it is allowed to while the database is away.
pub(super) async fn a_few_times<T, F>(
    tries: u32,
    mut write: impl FnMut() -> F,
) -> Result<T, StoreError>
where
    F: Future<Output = Result<T, StoreError>>,
{
    let mut tried = 1;
    loop {
        match write().await {
            Err(StoreError::Unavailable(_)) if tried < tries => {}
            result => return result,
        }
        tokio::time::sleep(pause(tried)).await;
        tried += 1;
    }
}

fn pause(tried: u32) -> Duration {
    (Duration::from_millis(100) * 2_u32.saturating_pow(tried.min(8))).min(PAUSE_MAX)
}

/// What follows a checkpoint: the next step if the row says that the same lease goes on with it.
fn after(job: &Claimed, state: JobState) -> After {
    match (state.status, state.executor_id, state.attempt_id) {
        (Status::Running, Some(executor_id), Some(attempt_id))
            if executor_id == job.lease.executor_id && state.epoch == job.lease.epoch =>
        {
            let lease = Lease { executor_id, epoch: state.epoch, attempt_id };
            After::GoOn(Box::new(Claimed { lease, state, ..job.clone() }))
        }
        _ => After::Left,
    }
}

/// The transition stamps it with the time at which it is stored.
fn failure(
    job: &Claimed,
    reason: Reason,
    message: String,
    provider_request_id: Option<String>,
) -> Failure {
    Failure { provider_request_id, ..Failure::new(reason, message, job.state.updated_at) }
}
