//! The ledger: a row before every request to the model provider, settled when its end is known.
//!
//! Beginning a call needs the lease, so that none is begun after a cancel or by a stale executor;
//! settling one needs only its id, so that what a lost or cancelled call used still lands.

use serde::{Deserialize, Serialize};
use sqlx::types::Json;

use super::claim::Claimed;
use super::{Store, StoreError, bounded};
use crate::domain::id::{CallId, JobKey};
use crate::domain::money::{Usage, Usd};
use crate::domain::state::Refusal;
use crate::domain::word::Word;

/// How a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallOutcome {
    /// Not settled yet.
    Started,
    /// The provider answered.
    Answered,
    /// It failed.
    Failed,
    /// We gave it up.
    Aborted,
    /// Its executor died.
    Lost,
}

impl Word for CallOutcome {}

/// What is known of a call at its end.
#[derive(Clone, Debug)]
pub struct Settlement {
    /// How it ended.
    pub outcome: CallOutcome,
    /// What it used, as far as is known.
    pub usage: Option<Usage>,
    /// What it cost, if that is known.
    pub cost_usd: Option<Usd>,
    /// The provider's id of the request.
    pub provider_request_id: Option<String>,
    /// How it failed.
    pub error: Option<String>,
    /// The text that had arrived, if it did not succeed.
    pub partial_output: Option<String>,
}

impl Store {
    /// Writes the row of a request that is about to leave, if the lease still holds.
    pub async fn start_call(&self, job: &Claimed, model: &str) -> Result<CallId, StoreError> {
        let call_id = CallId::new();
        let written = bounded(sqlx::query!(
            "-- start_call
            insert into longhaul.model_call (shard, job_id, call_id, step, revision, attempt_id,
              executor_id, epoch, model, started_at)
            select h.shard, h.job_id, $3, h.current_step, h.revision, h.attempt_id, h.executor_id, h.epoch,
              $7, longhaul.now()
            from (
              -- The lock makes a cancel wait for this row, or this row find the cancel.
              select j.shard, j.job_id, j.current_step, j.revision, j.attempt_id, j.executor_id, j.epoch
              from longhaul.job j
              where j.shard = $1 and j.job_id = $2 and j.status = 'running'
                and j.executor_id = $4 and j.epoch = $5 and j.attempt_id = $6
              for no key update
            ) h
            -- An executor whose lease is over begins nothing.
            where exists (select from longhaul.executor e
              where e.executor_id = h.executor_id and e.lease_expires_at > longhaul.now())",
            job.key.shard(),
            job.key.job_id(),
            call_id.0,
            job.lease.executor_id.0,
            job.lease.epoch,
            job.lease.attempt_id.0,
            model,
        )
        .execute(&self.pool))
        .await?;
        if written.rows_affected() == 0 {
            return Err(Refusal::LeaseLost.into());
        }
        Ok(call_id)
    }

    /// Writes how a call ended; one that the sweeper had given up for lost is corrected.
    pub async fn settle_call(
        &self,
        key: &JobKey,
        call_id: CallId,
        settlement: &Settlement,
    ) -> Result<(), StoreError> {
        bounded(
            sqlx::query!(
                "-- settle_call
            update longhaul.model_call set outcome = $4, settled_at = longhaul.now(), usage = $5,
              cost_usd = $6, provider_request_id = $7, error = $8, partial_output = $9
            where shard = $1 and job_id = $2 and call_id = $3 and outcome in ('started', 'lost')",
                key.shard(),
                key.job_id(),
                call_id.0,
                settlement.outcome.word(),
                settlement.usage.map(Json) as _,
                settlement.cost_usd.map(Usd::as_decimal),
                settlement.provider_request_id,
                settlement.error,
                settlement.partial_output,
            )
            .execute(&self.pool),
        )
        .await?;
        Ok(())
    }
}
