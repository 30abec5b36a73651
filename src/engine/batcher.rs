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
use crate::store::{Store, StoreError, about};

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
/// A batch that the provider does not show after the longest that it works on one is gone.
const LOST: TimeDelta = TimeDelta::hours(26);
/// An order that did not leave at once does not leave.
const LATE: Duration = Duration::from_mins(1);
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
                () = tokio::time::sleep(about(pause)) => {}
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
        if work.has_answered {
            self.store.wake_answered().await?;
        }
        while work.has_unsent && !stop.is_cancelled() && self.lease.is_alive() {
            let taken_at = Instant::now();
            let Some(order) = self.store.take_order(self.lease.executor_id()).await? else {
                break;
            };
            // Who was frozen in between must not send what others may have given up by now.
            if taken_at.elapsed() > LATE {
                a_few_times(TRIES, || self.store.order_not_taken(order.batch_id, Duration::ZERO))
                    .await?;
                break;
            }
            self.send(order).await?;
        }
        Ok(())
    }

    async fn send(&self, order: Order) -> Result<(), StoreError> {
        let (batch_id, count) = (order.batch_id, order.questions.len());
        match self.model.order_batch(&order.questions).await {
            Ok(provider_id) => self.note_taken(batch_id, &provider_id, count).await,
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
            Err(NotOrdered::Refused { error, is_about_a_question }) => {
                tracing::warn!(%batch_id, count, error = &error as &dyn Error, "a batch was refused");
                let after = match error.retry {
                    Retry::After(after) => after,
                    Retry::Backoff => AGAIN,
                    // One question must not be the end of all.
                    Retry::Never if is_about_a_question && count > 1 => {
                        return self.send_in_halves(order).await;
                    }
                    Retry::Never => return self.refuse(order, &error).await,
                };
                a_few_times(TRIES, || self.store.order_not_taken(batch_id, after)).await
            }
        }
    }

    async fn note_taken(
        &self,
        batch_id: Uuid,
        provider_id: &str,
        count: usize,
    ) -> Result<(), StoreError> {
        tracing::info!(%batch_id, provider_id, count, "a batch was ordered");
        let taken = || self.store.order_taken(batch_id, provider_id, self.settings.poll);
        if a_few_times(TRIES, taken).await? {
            return Ok(());
        }
        // It was given up for lost, and its questions have left with another one.
        tracing::error!(provider_id, "a batch was ordered too late, and is canceled");
        if let Err(error) = self.model.cancel_batch(provider_id).await {
            tracing::error!(provider_id, error = &error as &dyn Error, "it could not be canceled");
        }
        Ok(())
    }

    async fn send_in_halves(&self, mut order: Order) -> Result<(), StoreError> {
        let questions = order.questions.split_off(order.questions.len() / 2);
        let batch_id = self.store.split_order(order.batch_id, &questions).await?;
        Box::pin(self.send(order)).await?;
        Box::pin(self.send(Order { batch_id, questions })).await
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
        let (settlement, _) = self.settle(result, "", NaiveDate::MAX);
        let answer = BatchAnswer { result: result.to_owned(), settlement };
        let answers: HashMap<CallId, BatchAnswer> =
            ids.into_iter().map(|call_id| (call_id, answer.clone())).collect();
        a_few_times(TRIES, || self.store.store_answers(batch_id, &answers)).await.map(|_| ())
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
            None => self.give_up_lost(batch, provider_id).await,
        }
    }

    /// It may not be shown everywhere yet, or not to who asks; once it is over in any case, nothing more will come of it.
    async fn give_up_lost(&self, batch: &DueBatch, provider_id: &str) -> Result<(), BatchError> {
        if batch.now - batch.created_at < LOST {
            tracing::warn!(provider_id, "the model provider does not find a batch");
            return Ok(());
        }
        self.end(batch, provider_id).await
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
                self.store.order_taken(batch.batch_id, &one.id, Duration::ZERO).await?;
                return Ok(());
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
        let Some(results) = self.model.batch_results(provider_id).await? else {
            return self.give_up_lost(batch, provider_id).await;
        };
        self.store_results(batch, provider_id, results).await?;
        self.end(batch, provider_id).await
    }

    async fn store_results(
        &self,
        batch: &DueBatch,
        provider_id: &str,
        mut results: Results<'_>,
    ) -> Result<(), BatchError> {
        let (mut answers, mut models, mut bytes) = (HashMap::new(), HashMap::new(), 0);
        let on = batch.created_at.date_naive();
        while let Some(one) = results.next().await? {
            let Ok(call_id) = one.custom_id.parse().map(CallId) else { continue };
            bytes += one.result.get().len();
            let (settlement, model) = self.settle(&one.result, provider_id, on);
            models.extend(model.map(|model| (call_id, model)));
            answers.insert(call_id, BatchAnswer { result: one.result, settlement });
            if answers.len() >= ANSWERS_MAX || bytes >= BYTES_MAX {
                self.keep(batch.batch_id, &answers, &models).await?;
                (answers, models, bytes) = (HashMap::new(), HashMap::new(), 0);
            }
        }
        Ok(self.keep(batch.batch_id, &answers, &models).await?)
    }

    /// Stores answers, and tells what those took that were not stored before.
    async fn keep(
        &self,
        batch_id: Uuid,
        answers: &HashMap<CallId, BatchAnswer>,
        models: &HashMap<CallId, String>,
    ) -> Result<(), StoreError> {
        for call_id in self.store.store_answers(batch_id, answers).await? {
            let settlement = answers.get(&call_id).map(|answer| &answer.settlement);
            if let Some((settlement, model)) = settlement.zip(models.get(&call_id))
                && let Some(usage) = settlement.usage
            {
                tell_spent(model, usage, settlement.cost_usd);
            }
        }
        Ok(())
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

    /// What a question used, and of which model; only answers are billed.
    fn settle(
        &self,
        result: &RawValue,
        provider_id: &str,
        on: NaiveDate,
    ) -> (Settlement, Option<String>) {
        match self.model.read_result(result, provider_id) {
            Ok(reply) => {
                let spent = self.model.find_cost(&reply.model, &reply.usage, reply.tier, on);
                let mut settled = answered(&reply, spent);
                // It may be all there will be.
                settled.partial_output = reply.is_truncated().then(|| reply.text.clone());
                (settled, Some(reply.model))
            }
            Err(error) => match error.usage.zip(self.model.served(result)) {
                // An answer that is no success.
                Some((usage, (model, tier))) => {
                    let cost_usd = self.model.find_cost(&model, &usage, tier, on);
                    let settled = Settlement { usage: Some(usage), cost_usd, ..unbilled(&error) };
                    (settled, Some(model))
                }
                // What became of it is not known, so neither is what it costs.
                None if BatchResult::is_missing(result) => {
                    (Settlement { cost_usd: None, ..unbilled(&error) }, None)
                }
                None => (unbilled(&error), None),
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
