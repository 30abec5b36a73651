//! Batches: the questions that wait to leave together, the orders they left with, and what became of each.
//!
//! A question is written before its job is parked, and an order before it leaves, so that a crash at any point leaves
//! enough to go on from. What comes back is stored with its settlement in the ledger, and makes its job due.

mod order;

use std::collections::HashMap;
use std::time::Duration;

use chrono::{DateTime, NaiveDate, Utc};
use rust_decimal::Decimal;
use serde_json::value::RawValue;
use sqlx::PgConnection;
use uuid::Uuid;

pub use self::order::{BatchWork, DueBatch, Order};
use super::claim::Claimed;
use super::ledger::{CallEnd, Line, Settlement};
use super::write::write;
use super::{Store, StoreError, bounded, retried};
use crate::domain::id::{CallId, JobKey};
use crate::domain::money::Usd;

/// A question that is to leave with the next batch.
#[derive(Clone, Copy, Debug)]
pub struct Question<'a> {
    /// Its row in the ledger.
    pub call_id: CallId,
    /// In the words of the provider.
    pub params: &'a str,
    /// Not before this time has passed.
    pub linger: Duration,
    /// From which day's budget how much was set aside for it, if anything.
    pub reserved: Option<(NaiveDate, Usd)>,
}

/// A question of a step, and what became of it.
#[derive(Debug)]
pub struct Batched {
    /// Its row in the ledger.
    pub call_id: CallId,
    /// What became of it, in the words of the provider; none while it is open.
    pub result: Option<Box<RawValue>>,
    /// The provider's id of the batch it is in, once that is known.
    pub provider_batch_id: Option<String>,
    /// When that was ordered, or the question asked: by that day it is priced.
    pub ordered_at: DateTime<Utc>,
}

/// What became of a question.
#[derive(Clone, Debug)]
pub struct BatchAnswer {
    /// In the words of the provider.
    pub result: Box<RawValue>,
    /// What it used.
    pub settlement: Settlement,
}

impl Store {
    /// The questions of the step in hand, in the order in which they were asked.
    pub async fn batched(&self, job: &Claimed) -> Result<Vec<Batched>, StoreError> {
        let rows = bounded(
            sqlx::query!(
                r#"-- batched
                select r.call_id, r.result::text as result, b.provider_batch_id, coalesce(b.created_at, r.created_at) as "ordered_at!"
                from longhaul.batch_request r left join longhaul.batch b using (batch_id)
                where r.shard = $1 and r.job_id = $2 and r.step = $3 and r.revision = $4
                order by r.created_at, r.call_id"#,
                job.key.shard(),
                job.key.job_id(),
                job.state.current_step,
                job.state.revision,
            )
            .fetch_all(&self.pool),
        )
        .await?;
        let rows = rows.into_iter().map(|row| {
            let result = row.result.map(raw).transpose()?;
            let (provider_batch_id, ordered_at) = (row.provider_batch_id, row.ordered_at);
            let call_id = CallId(row.call_id);
            Ok(Batched { call_id, result, provider_batch_id, ordered_at })
        });
        rows.collect()
    }

    /// Has a question leave with the next batch, if the lease still holds; answers whether it does.
    ///
    /// While an order is put off, so is what comes after it. A try whose reply was lost has written it.
    pub async fn ask_in_batch(
        &self,
        job: &Claimed,
        question: Question<'_>,
    ) -> Result<bool, StoreError> {
        let Question { call_id, params, linger, reserved } = question;
        let held = bounded(
            sqlx::query_scalar!(
                r#"-- ask_in_batch
                with held as (
                  select j.shard, j.job_id, j.current_step, j.revision from longhaul.job j
                  where j.shard = $1 and j.job_id = $2 and j.status = 'running'
                    and j.executor_id = $6 and j.epoch = $7 and j.attempt_id = $8
                  for share
                ),
                asked as (
                  insert into longhaul.batch_request (shard, job_id, call_id, step, revision, params, bytes, due_at,
                    not_before, created_at, reserved_on, reserved_usd)
                  select h.shard, h.job_id, $3, h.current_step, h.revision, $4::text::json, octet_length($4::text),
                    longhaul.now() + make_interval(secs => $5),
                    -- cross-shard: the provider has no room for any
                    (select max(r.not_before) from longhaul.batch_request r where r.batch_id is null),
                    longhaul.now(), $9, $10
                  from held h
                  on conflict do nothing
                ),
                batched as (
                  update longhaul.model_call m set outcome = 'batched' from held h
                  where m.shard = h.shard and m.job_id = h.job_id and m.call_id = $3 and m.outcome = 'started'
                )
                select exists (select from held) or exists (select from longhaul.batch_request
                  where shard = $1 and job_id = $2 and call_id = $3) as "is_asked!""#,
                job.key.shard(),
                job.key.job_id(),
                call_id.0,
                params,
                linger.as_secs_f64(),
                job.lease.executor_id.0,
                job.lease.epoch,
                job.lease.attempt_id.0,
                reserved.map(|(day, _)| day),
                reserved.map(|(_, usd)| usd.as_decimal()),
            )
            .fetch_one(&self.pool),
        );
        held.await
    }

    /// Forgets how a question ended, so that it is asked again, if the lease still holds.
    pub async fn forget_batched(&self, job: &Claimed, call_id: CallId) -> Result<(), StoreError> {
        bounded(
            sqlx::query!(
                "-- forget_batched
                delete from longhaul.batch_request r using longhaul.job j
                where r.shard = $1 and r.job_id = $2 and r.call_id = $3 and r.result is not null
                  and j.shard = r.shard and j.job_id = r.job_id and j.status = 'running'
                  and j.executor_id = $4 and j.epoch = $5 and j.attempt_id = $6",
                job.key.shard(),
                job.key.job_id(),
                call_id.0,
                job.lease.executor_id.0,
                job.lease.epoch,
                job.lease.attempt_id.0,
            )
            .execute(&self.pool),
        )
        .await
        .map(|_| ())
    }
}

impl Store {
    /// Stores what became of questions of an order, settles them in the ledger, and makes due whoever waits for them.
    ///
    /// What has a result already keeps it; answers which had none.
    pub async fn store_answers(
        &self,
        batch_id: Uuid,
        answers: &HashMap<CallId, BatchAnswer>,
    ) -> Result<Vec<CallId>, StoreError> {
        retried(|| async {
            let mut tx = self.pool.begin().await?;
            let ids: Vec<Uuid> = answers.keys().map(|call_id| call_id.0).collect();
            let open = sqlx::query!(
                "-- lock_unanswered
                -- cross-shard: questions of all jobs leave together
                select job_id, call_id from longhaul.batch_request
                where batch_id = $1 and call_id = any($2) and result is null
                order by shard, job_id, call_id for update",
                batch_id,
                &ids,
            )
            .fetch_all(&mut *tx)
            .await?;
            let (mut lines, mut ids, mut results) = (Vec::new(), Vec::new(), Vec::new());
            let mut costs: Vec<Option<Decimal>> = Vec::new();
            for row in open {
                let Some(answer) = answers.get(&CallId(row.call_id)) else { continue };
                let end = CallEnd::Settled(CallId(row.call_id), answer.settlement.clone());
                lines.extend(Line::ended(&JobKey::new(&row.job_id), end));
                ids.push(row.call_id);
                results.push(answer.result.get().to_owned());
                costs.push(answer.settlement.cost_usd.map(Usd::as_decimal));
            }
            let lines: Vec<&Line> = lines.iter().collect();
            write(&mut tx, &[], &lines, None).await?;
            make_due(&mut tx, batch_id, &ids, &results, &costs).await?;
            tx.commit().await?;
            Ok(ids.into_iter().map(CallId).collect())
        })
        .await
    }

    /// Makes due whoever was parked for an answer that had come already.
    ///
    /// An attempt that was in hand meanwhile had seen none when it parked its job.
    pub async fn wake_answered(&self) -> Result<u64, StoreError> {
        let woken = bounded(
            sqlx::query!(
                "-- wake_answered
                -- cross-shard: questions of all jobs leave together
                with waiting as (
                  select j.shard, j.job_id from longhaul.batch_request r join longhaul.job j using (shard, job_id)
                  where r.answered_at is not null and j.current_step = r.step and j.revision = r.revision
                    and j.status = 'queued' and j.reason = 'BATCH' and j.run_at > longhaul.now()
                    and not exists (select from longhaul.batch_request o
                      where o.shard = r.shard and o.job_id = r.job_id and o.step = r.step and o.revision = r.revision
                        and o.result is null)
                  order by j.shard, j.job_id limit 500 for update of j skip locked
                )
                update longhaul.job j set run_at = longhaul.now() from waiting w
                where j.shard = w.shard and j.job_id = w.job_id"
            )
            .execute(&self.pool),
        )
        .await?;
        Ok(woken.rows_affected())
    }

    /// Forgets answers that are in a checkpoint, or that nobody waits for, and orders without questions.
    pub async fn tidy_batches(&self) -> Result<(), StoreError> {
        bounded(
            sqlx::query!(
                "-- tidy_batches
                -- cross-shard: questions of all jobs leave together
                with told as (
                  delete from longhaul.batch_request r
                  where r.answered_at is not null and not exists (select from longhaul.job j
                    where j.shard = r.shard and j.job_id = r.job_id and j.current_step = r.step
                      and j.revision = r.revision and j.status not in ('completed', 'failed', 'cancelled'))
                )
                delete from longhaul.batch b where b.status = 'ended' and not exists (
                  select from longhaul.batch_request r where r.batch_id = b.batch_id)"
            )
            .execute(&self.pool),
        )
        .await
        .map(|_| ())
    }
}

/// Keeps results, and makes due the jobs that wait for them.
async fn make_due(
    tx: &mut PgConnection,
    batch_id: Uuid,
    ids: &[Uuid],
    results: &[String],
    costs: &[Option<Decimal>],
) -> Result<(), StoreError> {
    sqlx::query!(
        "-- store_answers
        -- cross-shard: questions of all jobs leave together
        with answered as (
          update longhaul.batch_request r set result = a.result::json, params = null, answered_at = longhaul.now()
          from unnest($2::uuid[], $3::text[], $4::numeric[]) as a(call_id, result, cost_usd)
          where r.batch_id = $1 and r.call_id = a.call_id
          returning r.shard, r.job_id, r.step, r.revision, r.reserved_on, r.reserved_usd - a.cost_usd as left_usd
        ),
        -- What a question did not cost is there for others on its day; one whose cost is not known counts as reserved.
        freed as (
          update longhaul.allowance d set drawn_usd = d.drawn_usd - f.usd
          from (select reserved_on, sum(left_usd) as usd from answered where left_usd is not null group by reserved_on) f
          where d.day = f.reserved_on
        ),
        -- In the order in which all rows are locked.
        waiting as (
          select j.shard, j.job_id from longhaul.job j join answered a using (shard, job_id)
          where j.current_step = a.step and j.revision = a.revision and j.status = 'queued' and j.reason = 'BATCH'
            and j.run_at > longhaul.now()
          order by j.shard, j.job_id for update of j
        )
        update longhaul.job j set run_at = longhaul.now() from waiting w
        where j.shard = w.shard and j.job_id = w.job_id",
        batch_id,
        ids,
        results,
        costs as &[Option<Decimal>],
    )
    .execute(tx)
    .await?;
    Ok(())
}

fn raw(text: String) -> Result<Box<RawValue>, StoreError> {
    RawValue::from_string(text).map_err(|error| StoreError::Corrupt {
        table: "batch_request",
        what: format!("a result at column {}", error.column()),
    })
}
