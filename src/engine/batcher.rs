//! The batcher: every server sends what waits to leave in a batch, and fetches what came of the batches that left.
//!
//! An order is written before it leaves, and each is in one server's hands at a time; whoever dies leaves it to the others.
//! The provider cannot be asked whether it took an order, so one whose answer was lost is searched for among the batches
//! that were made about then: only when none of these can be it does it leave again.

use std::collections::{HashMap, HashSet};
use std::error::Error;
use std::time::Duration;

use chrono::{NaiveDate, TimeDelta};
use futures::StreamExt as _;
use serde_json::value::RawValue;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::BatchSettings;
use super::call::{answered, tell_spent};
use super::lease::LeaseKeeper;
use super::step::a_few_times;
use crate::domain::id::CallId;
use crate::domain::money::Usd;
use crate::model::batch::{BatchResult, NotOrdered, Results};
use crate::model::{Model, ModelError, Retry};
use crate::store::batch::{BatchAnswer, DueBatch, Order};
use crate::store::ledger::{CallOutcome, Settlement};
use crate::store::{Store, StoreError};

/// How often it is asked whether there is anything to do, at the most.
const LOOK: Duration = Duration::from_secs(1);
/// So many batches are looked at at once.
const AT_ONCE: usize = 4;
/// So many answers, or bytes of them, are stored together.
const ANSWERS_MAX: usize = 200;
const BYTES_MAX: usize = 8 * 1024 * 1024;
/// How often what became of an order is written while the database is away; after that others have to find out.
const TRIES: u32 = 6;
/// How far the provider's clock may be from Postgres's.
const SKEW: TimeDelta = TimeDelta::minutes(2);
/// An order has come to the provider after this time, or never will.
const ARRIVAL: TimeDelta = TimeDelta::minutes(3);
/// A batch that the provider does not show for so long after its order is gone.
const APPEARANCE: TimeDelta = TimeDelta::minutes(10);
/// How often what nobody needs any more is forgotten.
const TIDY: Duration = Duration::from_mins(1);
/// When the provider does not say for how long an order is too much for it.
const AGAIN: Duration = Duration::from_secs(15);

/// Sends questions in batches, and fetches their answers.
#[derive(Clone)]
pub struct Batcher {
    store: Store,
    model: Model,
    lease: LeaseKeeper,
    settings: BatchSettings,
}

/// Why a batch could not be brought further.
#[derive(Debug, thiserror::Error)]
enum BatchError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Model(#[from] ModelError),
}

impl Batcher {
    /// One that sends what this store holds to this model.
    pub fn new(store: Store, model: Model, lease: LeaseKeeper, settings: BatchSettings) -> Self {
        Self { store, model, lease, settings }
    }

    /// Sends and fetches until told to stop; what is under way then is finished.
    pub async fn run(&self, stop: CancellationToken) {
        let pause = LOOK.min(self.settings.poll);
        let mut tidied_at = Instant::now();
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(pause.mul_f64(0.75 + rand::random::<f64>() / 2.0)) => {}
            }
            if let Err(error) = self.run_once(&stop).await {
                tracing::debug!(error = &error as &dyn Error, "could not look after the batches");
            }
            if tidied_at.elapsed() >= TIDY {
                tidied_at = Instant::now();
                if let Err(error) = self.store.tidy_batches().await {
                    tracing::debug!(error = &error as &dyn Error, "could not tidy up the batches");
                }
            }
        }
    }

    async fn run_once(&self, stop: &CancellationToken) -> Result<(), StoreError> {
        // Without a key nothing is sent, and nothing is known of what others have sent.
        if !self.model.is_configured() {
            return Ok(());
        }
        let work = self.store.batch_work().await?;
        if work.has_due {
            let due = self.store.take_due_batches(self.settings.poll).await?;
            let looks = futures::stream::iter(due).for_each_concurrent(AT_ONCE, async |batch| {
                if let Err(error) = self.look(&batch).await {
                    let (batch_id, error) = (batch.batch_id, &error as &dyn Error);
                    tracing::info!(%batch_id, error, "a batch is looked at again later");
                }
            });
            Box::pin(looks).await;
        }
        while work.has_unsent && !stop.is_cancelled() && self.lease.is_alive() {
            let Some(order) = self.store.take_order(self.lease.executor_id()).await? else {
                break;
            };
            self.send(order).await?;
        }
        Ok(())
    }

    async fn send(&self, order: Order) -> Result<(), StoreError> {
        let (batch_id, count) = (order.batch_id, order.questions.len());
        match self.model.order_batch(&order.questions).await {
            Ok(provider_id) => {
                tracing::info!(%batch_id, provider_id, count, "a batch was ordered");
                let taken = || self.store.order_taken(batch_id, &provider_id, self.settings.poll);
                a_few_times(TRIES, taken).await
            }
            Err(NotOrdered::Unsure(error)) => {
                tracing::warn!(
                    %batch_id,
                    count,
                    error = &error as &dyn Error,
                    "nobody knows whether a batch was ordered"
                );
                let unsure = || self.store.order_unsure(batch_id, self.settings.poll);
                a_few_times(TRIES, unsure).await
            }
            Err(NotOrdered::Refused(error)) => {
                tracing::warn!(%batch_id, count, error = &error as &dyn Error, "a batch was refused");
                let after = match error.retry {
                    Retry::After(after) => after,
                    Retry::Backoff => AGAIN,
                    Retry::Never => return self.refuse(order, &error).await,
                };
                a_few_times(TRIES, || self.store.order_not_taken(batch_id, after)).await
            }
        }
    }

    /// None of its questions will ever be answered.
    async fn refuse(&self, order: Order, error: &ModelError) -> Result<(), StoreError> {
        let ids = order.questions.into_iter().map(|(call_id, _)| call_id);
        self.give_up(order.batch_id, ids, &BatchResult::refused(error)).await?;
        self.store.end_batch(order.batch_id).await
    }

    async fn give_up(
        &self,
        batch_id: Uuid,
        ids: impl IntoIterator<Item = CallId>,
        result: &RawValue,
    ) -> Result<(), StoreError> {
        let settlement = self.settle(result, "", NaiveDate::MAX);
        let answer = BatchAnswer { result: result.to_owned(), settlement };
        let answers: HashMap<CallId, BatchAnswer> =
            ids.into_iter().map(|call_id| (call_id, answer.clone())).collect();
        a_few_times(TRIES, || self.store.store_answers(batch_id, &answers)).await
    }

    /// Brings an order further that left some time ago.
    async fn look(&self, batch: &DueBatch) -> Result<(), BatchError> {
        let Some(provider_id) = &batch.provider_batch_id else { return self.search(batch).await };
        match self.model.find_batch(provider_id).await? {
            Some(found) if found.has_ended() => self.fetch(batch, provider_id).await,
            Some(_) if batch.is_wanted || batch.is_canceling => Ok(()),
            Some(_) => {
                self.model.cancel_batch(provider_id).await?;
                Ok(self.store.batch_canceling(batch.batch_id).await?)
            }
            // It may not be shown everywhere yet.
            None if batch.now - batch.created_at < APPEARANCE => Ok(()),
            None => self.end(batch, provider_id).await,
        }
    }

    /// Looks for an order, whose answer was lost, among the batches that were made about then.
    async fn search(&self, batch: &DueBatch) -> Result<(), BatchError> {
        let (first, last) = (batch.created_at - SKEW, batch.created_at + ARRIVAL + SKEW);
        let made = self.model.list_batches(first).await?;
        let known: HashSet<String> = self.store.known_batches().await?.into_iter().collect();
        let ours: HashSet<String> =
            self.store.unanswered(batch.batch_id).await?.iter().map(CallId::to_string).collect();
        let mut may_be_one = false;
        for one in made.iter().filter(|one| one.created_at <= last && !known.contains(&one.id)) {
            if !one.has_ended() {
                may_be_one = true;
                continue;
            }
            // All questions of a batch have one sender, so the first tells whose they are.
            let first = match self.model.batch_results(&one.id).await? {
                Some(mut results) => results.next().await?,
                None => None,
            };
            if first.is_some_and(|result| ours.contains(&result.custom_id)) {
                tracing::info!(batch_id = %batch.batch_id, provider_id = one.id, "found an order");
                return Ok(self.store.order_taken(batch.batch_id, &one.id, Duration::ZERO).await?);
            }
        }
        if may_be_one || batch.now - batch.created_at < ARRIVAL {
            return Ok(());
        }
        tracing::info!(batch_id = %batch.batch_id, "an order never arrived, and leaves again");
        Ok(self.store.order_not_taken(batch.batch_id, Duration::ZERO).await?)
    }

    /// Fetches the results of a batch that has ended.
    async fn fetch(&self, batch: &DueBatch, provider_id: &str) -> Result<(), BatchError> {
        let Some(results) = self.model.batch_results(provider_id).await? else { return Ok(()) };
        self.store_results(batch, provider_id, results).await?;
        self.end(batch, provider_id).await
    }

    async fn store_results(
        &self,
        batch: &DueBatch,
        provider_id: &str,
        mut results: Results<'_>,
    ) -> Result<(), BatchError> {
        let (mut answers, mut bytes) = (HashMap::new(), 0);
        let on = batch.created_at.date_naive();
        while let Some(one) = results.next().await? {
            let Ok(call_id) = one.custom_id.parse().map(CallId) else { continue };
            bytes += one.result.get().len();
            let settlement = self.settle(&one.result, provider_id, on);
            answers.insert(call_id, BatchAnswer { result: one.result, settlement });
            if answers.len() >= ANSWERS_MAX || bytes >= BYTES_MAX {
                self.store.store_answers(batch.batch_id, &answers).await?;
                (answers, bytes) = (HashMap::new(), 0);
            }
        }
        Ok(self.store.store_answers(batch.batch_id, &answers).await?)
    }

    /// Ends a batch of which nothing more will come; its questions without a result are asked again.
    async fn end(&self, batch: &DueBatch, provider_id: &str) -> Result<(), BatchError> {
        let open = self.store.unanswered(batch.batch_id).await?;
        if !open.is_empty() {
            tracing::warn!(
                provider_id,
                count = open.len(),
                "a batch ended without all its results"
            );
            self.give_up(batch.batch_id, open, &BatchResult::missing()).await?;
        }
        tracing::info!(provider_id, "a batch is done");
        Ok(self.store.end_batch(batch.batch_id).await?)
    }

    /// What a question used; only answers are billed.
    fn settle(&self, result: &RawValue, provider_id: &str, on: NaiveDate) -> Settlement {
        match self.model.read_result(result, provider_id) {
            Ok(reply) => {
                let spent = self.model.find_cost(&reply.model, &reply.usage, reply.tier, on);
                tell_spent(&reply, spent);
                answered(&reply, spent)
            }
            Err(error) => match error.usage.zip(self.model.served(result)) {
                // An answer that is no success.
                Some((usage, (model, tier))) => Settlement {
                    usage: Some(usage),
                    cost_usd: self.model.find_cost(&model, &usage, tier, on),
                    ..unbilled(&error)
                },
                None => unbilled(&error),
            },
        }
    }
}

fn unbilled(error: &ModelError) -> Settlement {
    Settlement {
        outcome: CallOutcome::Failed,
        usage: None,
        cost_usd: Some(Usd::ZERO),
        provider_request_id: error.request_id.clone(),
        error: Some(error.message.to_string()),
        partial_output: None,
    }
}
