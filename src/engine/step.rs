//! One attempt at a run step: make the prompt, ask the model, store the result.
//!
//! Every request has its ledger row before it leaves, and is settled whatever becomes of it.
//! The provider's error says whether the job is parked or failed; the step is the only owner of retries.
//! If the process dies in the middle, the row tells that a call was begun, and the sweeper brings the job back.

use std::error::Error;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::domain::id::{AttemptId, CallId};
use crate::domain::job::{Failure, JobState, Lease, Reason, Status, StepResult};
use crate::domain::money::Usd;
use crate::domain::spec::Work;
use crate::model::{Call, Model, ModelError, Partial, Reply, Retry, prompt};
use crate::store::claim::Claimed;
use crate::store::ledger::{CallOutcome, Settlement};
use crate::store::{Store, StoreError};

/// The longest pause between two tries to store something while the database is away.
const PAUSE_MAX: Duration = Duration::from_secs(2);
/// A settlement is money that was spent, but nobody waits for it: the sweeper marks what stays open as lost.
const SETTLE_TRIES: u32 = 6;

/// Runs steps.
#[derive(Clone)]
pub(super) struct Steps {
    store: Store,
    model: Model,
}

/// What comes after an attempt.
pub(super) enum After {
    /// The next step, under the same lease.
    GoOn(Box<Claimed>),
    /// The job has left this executor's hands.
    Left,
}

/// How an attempt ended.
enum Ended {
    Succeeded(StepResult),
    Erred(ModelError),
    Aborted,
}

impl Steps {
    pub(super) fn new(store: Store, model: Model) -> Self {
        Self { store, model }
    }

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
        let error = match self.attempt(&job, &abort, may_go_on).await {
            Ok(after) => return after,
            Err(error) => error,
        };
        if error.is_lease_lost() {
            tracing::info!("the job was taken, cancelled or paused meanwhile");
            return After::Left;
        }
        tracing::error!(error = &error as &dyn Error, "could not store what became of an attempt");
        if !matches!(error, StoreError::Unavailable(_)) {
            // Trying the same again would pay the model again and fail again.
            self.give_up(&job, "the server could not store what became of the step").await;
        }
        After::Left
    }

    /// Fails a job whose step panicked here.
    pub(super) async fn panicked(&self, job: &Claimed) {
        tracing::error!(job_id = job.key.job_id(), "a step panicked");
        self.give_up(job, "the server failed while it ran the step").await;
    }

    /// Gives back a job whose next step this executor does not begin.
    pub(super) async fn give_back(&self, job: &Claimed) {
        match self.store.release(job).await {
            Ok(_) => {}
            Err(error) if error.is_lease_lost() => {}
            // It is found unheld, or its lease runs out.
            Err(error) => {
                tracing::warn!(
                    job_id = job.key.job_id(),
                    error = &error as &dyn Error,
                    "could not give back a job"
                );
            }
        }
    }

    /// Fails a job because of a fault of ours; if not even that can be stored, its attempt counts as lost.
    async fn give_up(&self, job: &Claimed, message: &str) {
        let failure = failure(job, Reason::StepPanicked, message.to_owned(), None);
        let Err(error) = self.store.fail(job, failure).await else { return };
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

    async fn attempt(
        &self,
        job: &Claimed,
        abort: &CancellationToken,
        may_go_on: impl Fn() -> bool,
    ) -> Result<After, StoreError> {
        let step = job.state.current_step;
        let Some(Work::Run(run)) = job.spec.find_step(step).map(|found| &found.work) else {
            let what = format!("job {} was claimed at step {step}, which does not run", job.key);
            return Err(StoreError::Corrupt { table: "job", what });
        };
        let needed = prompt::needed_steps(&job.spec, step, run);
        let outputs = self.patiently(abort, || self.store.outputs(&job.key, &needed)).await?;
        let ended = match prompt::call(&job.spec, step, run, &outputs) {
            Ok(call) => self.ask(job, call, abort).await?,
            Err(error) => Ended::Erred(error),
        };
        match ended {
            Ended::Succeeded(result) => {
                let next_attempt = may_go_on().then(AttemptId::new);
                let state = self.finish(job, result, next_attempt, abort).await?;
                Ok(after(job, state))
            }
            Ended::Erred(error) => self.erred(job, error, abort).await,
            Ended::Aborted => {
                // Whoever took the job away has moved it already, or this process is stopping.
                self.store.release(job).await?;
                Ok(After::Left)
            }
        }
    }

    /// Stores a result, waiting for a database that is away: the answer was paid for.
    async fn finish(
        &self,
        job: &Claimed,
        result: StepResult,
        next_attempt: Option<AttemptId>,
        abort: &CancellationToken,
    ) -> Result<JobState, StoreError> {
        let store = || self.store.finish(job, result.clone(), next_attempt);
        match self.patiently(abort, store).await {
            // Lost, or stored by a try whose reply was lost: then the row carries the next attempt already.
            Err(error) if error.is_lease_lost() && next_attempt.is_some() => {
                let view = self.store.job(&job.key, None).await?;
                if view.state.attempt_id == next_attempt { Ok(view.state) } else { Err(error) }
            }
            stored => stored,
        }
    }

    /// Asks the model, as often as the provider pauses its answer, and settles every request.
    async fn ask(
        &self,
        job: &Claimed,
        call: Call,
        abort: &CancellationToken,
    ) -> Result<Ended, StoreError> {
        let (mut call, mut answer, mut cost) = (call, None::<Reply>, Some(Usd::ZERO));
        loop {
            let call_id = self.patiently(abort, || self.store.start_call(job, &call.model)).await?;
            let partial = Partial::default();
            let asked = tokio::select! {
                asked = self.model.ask(&call, &partial) => Some(asked),
                () = abort.cancelled() => None,
            };
            match asked {
                None => {
                    self.settle(job, call_id, &self.cut_short(job, &call, &partial, None)).await;
                    return Ok(Ended::Aborted);
                }
                Some(Err(error)) => {
                    let settlement = self.cut_short(job, &call, &partial, Some(&error));
                    self.settle(job, call_id, &settlement).await;
                    return Ok(Ended::Erred(error));
                }
                Some(Ok(reply)) => {
                    let spent = self.price(job, &reply);
                    cost = cost.zip(spent).map(|(sum, spent)| sum + spent);
                    self.settle(job, call_id, &answered(&reply, spent)).await;
                    let next = call.continued(&reply);
                    let whole = match answer.take() {
                        Some(begun) => begun.followed_by(reply),
                        None => reply,
                    };
                    match next {
                        Some(next) => (call, answer) = (next, Some(whole)),
                        None if whole.is_paused() => return Ok(Ended::Erred(paused_too_often())),
                        None => return Ok(Ended::Succeeded(result(whole, cost))),
                    }
                }
            }
        }
    }

    async fn erred(
        &self,
        job: &Claimed,
        error: ModelError,
        abort: &CancellationToken,
    ) -> Result<After, StoreError> {
        let message = String::from(error.message);
        let failure = failure(job, error.reason, message, error.request_id);
        // The provider's words may quote a prompt, so they go to the job and not to the log.
        tracing::info!(reason = ?failure.reason, retry = ?error.retry, "the attempt ended with an error");
        let store = &self.store;
        let stored = match error.retry {
            Retry::After(after) => {
                self.patiently(abort, || store.delay(job, failure.clone(), Some(after))).await
            }
            Retry::Backoff => {
                self.patiently(abort, || store.delay(job, failure.clone(), None)).await
            }
            Retry::Never => self.patiently(abort, || store.fail(job, failure.clone())).await,
        };
        stored.map(|_| After::Left)
    }

    /// What is known of a call that was dropped or failed.
    fn cut_short(
        &self,
        job: &Claimed,
        call: &Call,
        partial: &Partial,
        error: Option<&ModelError>,
    ) -> Settlement {
        let seen = partial.seen();
        let usage = error.and_then(|error| error.usage).or(seen.usage);
        let model = seen.model.as_deref().unwrap_or(&call.model);
        let on = job.state.updated_at.date_naive();
        let cost_usd = usage.and_then(|usage| self.model.find_cost(model, &usage, seen.tier, on));
        Settlement {
            outcome: if error.is_some() { CallOutcome::Failed } else { CallOutcome::Aborted },
            usage,
            cost_usd,
            provider_request_id: error
                .and_then(|error| error.request_id.clone())
                .or(seen.request_id),
            error: error.map(|error| error.message.to_string()),
            partial_output: Some(seen.text).filter(|text| !text.is_empty()),
        }
    }

    fn price(&self, job: &Claimed, reply: &Reply) -> Option<Usd> {
        let on = job.state.updated_at.date_naive();
        self.model.find_cost(&reply.model, &reply.usage, reply.tier, on)
    }

    async fn settle(&self, job: &Claimed, call_id: CallId, settlement: &Settlement) {
        let mut tried = 1;
        while let Err(error) = self.store.settle_call(&job.key, call_id, settlement).await {
            if tried == SETTLE_TRIES || !matches!(error, StoreError::Unavailable(_)) {
                tracing::error!(%call_id, error = &error as &dyn Error, "could not settle a call");
                return;
            }
            tokio::time::sleep(pause(tried)).await;
            tried += 1;
        }
    }

    /// Tries again for as long as the database is away; its answer decides, or the end of this process.
    async fn patiently<T, F>(
        &self,
        abort: &CancellationToken,
        mut write: impl FnMut() -> F,
    ) -> Result<T, StoreError>
    where
        F: Future<Output = Result<T, StoreError>>,
    {
        let mut tried = 0;
        loop {
            let error = match write().await {
                Err(error @ StoreError::Unavailable(_)) => error,
                result => return result,
            };
            tried += 1;
            tracing::debug!(
                error = &error as &dyn Error,
                tried,
                "the database is away; trying again"
            );
            tokio::select! {
                () = abort.cancelled() => return Err(error),
                () = tokio::time::sleep(pause(tried)) => {}
            }
        }
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

fn paused_too_often() -> ModelError {
    ModelError {
        reason: Reason::ModelStopped,
        retry: Retry::Never,
        message: "the provider paused the answer too often".into(),
        request_id: None,
        usage: None,
    }
}

fn answered(reply: &Reply, cost_usd: Option<Usd>) -> Settlement {
    Settlement {
        outcome: CallOutcome::Answered,
        usage: Some(reply.usage),
        cost_usd,
        provider_request_id: reply.request_id.clone(),
        error: None,
        partial_output: None,
    }
}

fn result(reply: Reply, cost_usd: Option<Usd>) -> StepResult {
    StepResult {
        output: reply.text,
        content: reply.content.get().to_owned(),
        citations: reply.citations,
        usage: reply.usage,
        cost_usd,
        model: reply.model,
        stop_reason: reply.stop_reason,
    }
}

/// The transition stamps it with the time at which it is stored.
fn failure(
    job: &Claimed,
    reason: Reason,
    message: String,
    provider_request_id: Option<String>,
) -> Failure {
    Failure { reason, message, provider_request_id, failed_at: job.state.updated_at }
}
