//! The calls of one attempt: asked one after the other for as long as the provider pauses its answer.
//!
//! Every request has its row in the ledger before it leaves: the first was written with the attempt, each further
//! one is written together with the end of the one before. The end of the last is stored with the attempt's own.
//! What has arrived is shown to whoever listens, and kept every few seconds, so that the ledger knows it if this process
//! dies. It is always the whole of the answer so far, also of one that is made by several calls.

use std::convert::Infallible;
use std::error::Error;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{Level, event};

use super::allowance::Reserved;
use super::answer::Place;
use super::step::{Ended, Steps, a_few_times};
use crate::domain::id::CallId;
use crate::domain::job::{Reason, StepResult};
use crate::domain::money::{Usage, Usd};
use crate::model::{Call, ModelError, Partial, Pass, Reply, Retry, Then};
use crate::store::StoreError;
use crate::store::claim::Claimed;
use crate::store::ledger::{CallEnd, CallOutcome, Settlement};
use crate::telemetry::METRIC;

/// A settlement is money that was spent, but nobody waits for it: the sweeper marks what stays open as lost.
const SETTLE_TRIES: u32 = 6;

/// How often the text that has arrived is kept, for the case that this process dies.
const NOTE: Duration = Duration::from_secs(2);

impl Steps {
    /// Asks the model, as often as the provider pauses its answer; every request has its row before it leaves.
    pub(super) async fn ask(
        &self,
        job: &Claimed,
        call: Call,
        abort: &CancellationToken,
    ) -> Result<(Ended, CallEnd), (StoreError, CallEnd)> {
        let since = Instant::now();
        let (mut call, mut cost) = (call, Some(Usd::ZERO));
        let mut answer = self.take_up(job, &mut call, abort).await?;
        let mut call_id = CallId::first_of(job.lease.attempt_id);
        let asking = self.answers.begin(&job.key, Place::of(&job.state));
        let now =
            || job.state.updated_at + TimeDelta::from_std(since.elapsed()).unwrap_or_default();
        Ok(loop {
            let (pass, reserved) = match self.let_out(job, &call, call_id, now(), abort).await? {
                Ok(let_out) => let_out,
                Err(ended) => break (*ended, CallEnd::Unsent(call_id)),
            };
            let begun = answer.as_ref().map_or("", |begun| &begun.text);
            let partial = asking.partial(begun);
            let asked = tokio::select! {
                asked = self.model.ask(&call, &partial) => Some(asked),
                () = abort.cancelled() => None,
                never = self.note(job, call_id, &partial) => match never {},
            };
            tell_gate(&pass, now(), asked.as_ref());
            drop(pass);
            let settle = |settlement| CallEnd::Settled(call_id, settlement);
            match asked {
                None => {
                    let cut_short = self.cut_short(job, &call, &partial, None, reserved);
                    break (Ended::Aborted, settle(cut_short));
                }
                // Without a key nothing is sent.
                Some(Err(error)) if error.reason == Reason::ProviderUnconfigured => {
                    reserved.unsent();
                    break (Ended::Erred(error), CallEnd::Unsent(call_id));
                }
                Some(Err(error)) => {
                    let end = settle(self.cut_short(job, &call, &partial, Some(&error), reserved));
                    break (Ended::Erred(error), end);
                }
                Some(Ok(reply)) => {
                    let mut settled = self.book(job, &reply, &mut cost, reserved);
                    let then = call.then(begun, &reply);
                    let whole = reply.after(answer.take());
                    match then {
                        Then::Done => {
                            break (Ended::Succeeded(result(whole, cost)), settle(settled));
                        }
                        Then::Fail(error) => {
                            // It was paid for, and no checkpoint will have it.
                            settled.partial_output = Some(whole.text);
                            break (Ended::Erred(error), settle(settled));
                        }
                        Then::GoOn(next) => {
                            // Whoever goes on with it may die before anything more of it is kept.
                            settled.partial_output = some_text(&whole.text);
                            (call, answer) = (*next, Some(whole));
                        }
                    }
                    call_id = self.begin_further(job, settle(settled), &call, abort).await?;
                }
            }
        })
    }

    /// Lets a call leave, or says how the attempt ends without it.
    async fn let_out(
        &self,
        job: &Claimed,
        call: &Call,
        call_id: CallId,
        now: DateTime<Utc>,
        abort: &CancellationToken,
    ) -> Result<Result<(Pass, Reserved), Box<Ended>>, (StoreError, CallEnd)> {
        // Taken from here, or without a lease that is known to live: nothing leaves any more.
        if abort.is_cancelled() || !self.lease.is_alive() {
            return Ok(Err(Box::new(Ended::Aborted)));
        }
        let pass = match self.model.enter(&call.model, now) {
            Ok(pass) => pass,
            Err(error) => return Ok(Err(Box::new(Ended::Erred(error)))),
        };
        match self.reserve(job, call, call_id, now, abort).await {
            Ok(reserved) => Ok(reserved.map(|reserved| (pass, reserved)).map_err(Box::new)),
            Err(error) => Err((error, CallEnd::Unsent(call_id))),
        }
    }

    /// Sets aside the most that the call can cost, where the job or the day has a budget; answers why it may not leave.
    pub(super) async fn reserve(
        &self,
        job: &Claimed,
        call: &Call,
        call_id: CallId,
        now: DateTime<Utc>,
        abort: &CancellationToken,
    ) -> Result<Result<Reserved, Ended>, StoreError> {
        let budget = job.state.budget_usd;
        if budget.is_none() && !self.allowance.is_limited() {
            return Ok(Ok(Reserved::nothing()));
        }
        let on = job.state.updated_at.date_naive();
        let Some(most) = self.model.worst_case(call, on).await else {
            let whose = if budget.is_some() { "the job" } else { "the day" };
            let message =
                format!("the price of {} is not known, and {whose} has a budget", call.model);
            return Ok(Err(Ended::Erred(ModelError::unpriced(&message))));
        };
        if let Some(budget) = budget {
            let reserve = || self.store.reserve(&job.key, call_id, most, budget);
            if let Some(spent) = self.patiently(abort, reserve).await? {
                return Ok(Err(Ended::Starved(format!(
                    "the budget of ${budget} does not cover the next call: ${spent} is spent, and it may cost up to ${most}"
                ))));
            }
        }
        let reserve = || self.allowance.reserve(most, now);
        Ok(self.patiently(abort, reserve).await?.map_err(Ended::PutOff))
    }

    /// Settles a call and begins the next one of the same attempt.
    async fn begin_further(
        &self,
        job: &Claimed,
        end: CallEnd,
        call: &Call,
        abort: &CancellationToken,
    ) -> Result<CallId, (StoreError, CallEnd)> {
        let call_id = CallId::new();
        let begin = || self.store.continue_call(job, end.clone(), call_id, &call.model);
        match self.patiently(abort, begin).await {
            Ok(()) => Ok(call_id),
            Err(error) => {
                // Of a lease that is lost it was written.
                if !error.is_lease_lost() {
                    self.end_call(job, end).await;
                }
                Err((error, CallEnd::Unsent(call_id)))
            }
        }
    }

    /// Keeps what has arrived of an answer, so that it is not lost with this process.
    ///
    /// What was there before the call is kept with the calls that brought it.
    async fn note(&self, job: &Claimed, call_id: CallId, partial: &Partial) -> Infallible {
        let mut noted = partial.begun_len();
        loop {
            tokio::time::sleep(NOTE).await;
            if partial.text_len() == noted {
                continue;
            }
            let text = partial.seen().text;
            match self.store.note_partial(&job.key, call_id, &text).await {
                Ok(()) => noted = text.len(),
                Err(error) => {
                    tracing::debug!(
                        error = &error as &dyn Error,
                        "could not keep a partial answer"
                    );
                }
            }
        }
    }

    /// Writes how a call ended, where that could not be stored with its job.
    pub(super) async fn end_call(&self, job: &Claimed, call: CallEnd) {
        let end = || self.store.end_call(&job.key, call.clone());
        if let Err(error) = a_few_times(SETTLE_TRIES, end).await {
            let error = &error as &dyn Error;
            tracing::error!(job_id = job.key.job_id(), error, "could not settle a call");
        }
    }

    /// What is known of a call that was dropped or failed; its text only if it brought any.
    fn cut_short(
        &self,
        job: &Claimed,
        call: &Call,
        partial: &Partial,
        error: Option<&ModelError>,
        reserved: Reserved,
    ) -> Settlement {
        let seen = partial.seen();
        let usage = error.and_then(|error| error.usage).or(seen.usage);
        let model = seen.model.as_deref().unwrap_or(&call.model);
        let on = job.state.updated_at.date_naive();
        let cost_usd = usage.and_then(|usage| self.model.find_cost(model, &usage, seen.tier, on));
        let settled = Settlement {
            outcome: if error.is_some() { CallOutcome::Failed } else { CallOutcome::Aborted },
            usage,
            cost_usd,
            provider_request_id: error
                .and_then(|error| error.request_id.clone())
                .or(seen.request_id),
            error: error.map(|error| error.message.to_string()),
            partial_output: Some(seen.text).filter(|text| text.len() > partial.begun_len()),
        };
        reserved.settle(&settled);
        settled
    }

    /// What an answer used, added to what the step has cost so far.
    fn book(
        &self,
        job: &Claimed,
        reply: &Reply,
        cost: &mut Option<Usd>,
        reserved: Reserved,
    ) -> Settlement {
        let on = job.state.updated_at.date_naive();
        let spent = self.model.find_cost(&reply.model, &reply.usage, reply.tier, on);
        tell_spent(&reply.model, reply.usage, spent);
        *cost = cost.zip(spent).map(|(sum, spent)| sum + spent);
        let settled = answered(reply, spent);
        reserved.settle(&settled);
        settled
    }
}

/// A text, if there is any.
fn some_text(text: &str) -> Option<String> {
    Some(text).filter(|text| !text.is_empty()).map(str::to_owned)
}

/// Lets other calls to the model know how this one went.
fn tell_gate(pass: &Pass, now: DateTime<Utc>, asked: Option<&Result<Reply, ModelError>>) {
    match asked {
        Some(Ok(_)) => pass.answered(),
        Some(Err(ModelError { is_overload: true, retry, .. })) => {
            let wait = match retry {
                Retry::After(wait) => TimeDelta::from_std(*wait).ok(),
                Retry::Backoff | Retry::Never => None,
            };
            pass.refused(now, wait);
        }
        Some(Err(_)) | None => {}
    }
}

/// What an answer took, for the metrics.
pub(super) fn tell_spent(model: &str, usage: Usage, cost_usd: Option<Usd>) {
    for (kind, tokens) in [
        ("input", usage.input_tokens),
        ("output", usage.output_tokens),
        ("cache_write_5m", usage.cache_write_5m_tokens),
        ("cache_write_1h", usage.cache_write_1h_tokens),
        ("cache_read", usage.cache_read_tokens),
    ] {
        let tokens = u64::try_from(tokens).unwrap_or(0);
        event!(target: METRIC, Level::TRACE, monotonic_counter.longhaul.tokens = tokens, model, kind);
    }
    if let Some(cost) = cost_usd.and_then(|cost| f64::try_from(cost.as_decimal()).ok()) {
        event!(target: METRIC, Level::TRACE, monotonic_counter.longhaul.cost_usd = cost, model);
    }
}

pub(super) fn answered(reply: &Reply, cost_usd: Option<Usd>) -> Settlement {
    Settlement {
        outcome: CallOutcome::Answered,
        usage: Some(reply.usage),
        cost_usd,
        provider_request_id: reply.request_id.clone(),
        error: None,
        partial_output: None,
    }
}

pub(super) fn result(reply: Reply, cost_usd: Option<Usd>) -> StepResult {
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
