//! Orders: the questions that leave together, from the moment that they are written to the end of their batch.

use std::time::Duration;

use chrono::{DateTime, Utc};
use uuid::Uuid;

use crate::domain::id::{CallId, ExecutorId};
use crate::store::{Store, StoreError, bounded, retried};

/// The most questions of one order, and the most bytes of them: well below what the provider takes.
const QUESTIONS_MAX: i64 = 10_000;
const BYTES_MAX: i64 = 32 * 1024 * 1024;
/// So many orders are looked at together.
const LOOKS_MAX: i64 = 16;
/// An order that was about to leave so long ago has left, or never will.
const SENDING_SECONDS: f64 = 300.0;

/// What there is to do.
#[derive(Clone, Copy, Debug)]
pub struct BatchWork {
    /// Questions are to leave.
    pub has_unsent: bool,
    /// Orders are to be looked at.
    pub has_due: bool,
    /// Jobs wait for answers that have come.
    pub has_answered: bool,
}

/// An order that is written and has not left.
#[derive(Debug)]
pub struct Order {
    /// Its id.
    pub batch_id: Uuid,
    /// The questions.
    pub questions: Vec<(CallId, String)>,
}

/// An order that is to be looked at.
#[derive(Debug)]
pub struct DueBatch {
    /// Its id.
    pub batch_id: Uuid,
    /// The provider's id; none if it is not known whether there is one.
    pub provider_batch_id: Option<String>,
    /// When it was about to leave.
    pub created_at: DateTime<Utc>,
    /// Whether it was told to stop.
    pub is_canceling: bool,
    /// Whether any job still waits for it.
    pub is_wanted: bool,
    /// The time now.
    pub now: DateTime<Utc>,
}

impl Store {
    /// What there is to do; asked often, so it is one look at two small indexes.
    pub async fn batch_work(&self) -> Result<BatchWork, StoreError> {
        bounded(
            sqlx::query_as!(
                BatchWork,
                r#"-- batch_work
                -- cross-shard: questions of all jobs leave together
                select
                  exists (select from longhaul.batch_request
                    where batch_id is null and due_at <= longhaul.now()
                      and (not_before is null or not_before <= longhaul.now())) as "has_unsent!",
                  exists (select from longhaul.batch_request r join longhaul.job j using (shard, job_id)
                    where r.answered_at is not null and j.current_step = r.step and j.revision = r.revision
                      and j.status = 'queued' and j.reason = 'BATCH' and j.run_at > longhaul.now()) as "has_answered!",
                  exists (select from longhaul.batch b where b.status <> 'ended' and (b.look_at <= longhaul.now()
                    or b.status = 'sending' and not exists (
                      select from longhaul.executor e where e.executor_id = b.executor_id))) as "has_due!""#
            )
            .fetch_one(&self.pool),
        )
        .await
    }

    /// Writes an order of the questions that are to leave; nothing if there are none.
    ///
    /// Those that nobody waits for any more are taken back before, together with their rows in the ledger.
    pub async fn take_order(&self, executor_id: ExecutorId) -> Result<Option<Order>, StoreError> {
        let batch_id = Uuid::now_v7();
        retried(|| async {
            let mut tx = self.pool.begin().await?;
            sqlx::query!(
                "-- drop_unwanted
                -- cross-shard: questions of all jobs leave together
                with dropped as (
                  delete from longhaul.batch_request r
                  where r.batch_id is null and not exists (select from longhaul.job j
                    where j.shard = r.shard and j.job_id = r.job_id and j.current_step = r.step
                      and j.revision = r.revision and j.status not in ('completed', 'failed', 'cancelled'))
                  returning r.shard, r.job_id, r.call_id, r.reserved_on, r.reserved_usd
                ),
                freed as (
                  update longhaul.allowance d set drawn_usd = d.drawn_usd - f.usd
                  from (select reserved_on, sum(reserved_usd) as usd from dropped group by reserved_on) f
                  where d.day = f.reserved_on
                )
                delete from longhaul.model_call m using dropped d
                where m.shard = d.shard and m.job_id = d.job_id and m.call_id = d.call_id
                  and m.outcome in ('started', 'batched', 'lost')"
            )
            .execute(&mut *tx)
            .await?;
            let rows = sqlx::query!(
                r#"-- take_order
                -- cross-shard: questions of all jobs leave together
                with candidate as (
                  select shard, job_id, call_id, due_at, bytes from longhaul.batch_request
                  where batch_id is null and (not_before is null or not_before <= longhaul.now())
                  order by due_at, call_id limit $1 for update skip locked
                ),
                chosen as (
                  select shard, job_id, call_id from (
                    select c.*, sum(bytes) over (order by due_at, call_id) - bytes as before from candidate c
                  ) c
                  where c.before < $2 and exists (select from candidate where due_at <= longhaul.now())
                ),
                ordered as (
                  insert into longhaul.batch (batch_id, status, executor_id, created_at, look_at)
                  select $3, 'sending', $4, longhaul.now(), longhaul.now() + make_interval(secs => $5)
                  where exists (select from chosen)
                )
                update longhaul.batch_request r set batch_id = $3 from chosen c
                where r.shard = c.shard and r.job_id = c.job_id and r.call_id = c.call_id
                returning r.call_id, r.params::text as "params!""#,
                QUESTIONS_MAX,
                BYTES_MAX,
                batch_id,
                executor_id.0,
                SENDING_SECONDS,
            )
            .fetch_all(&mut *tx)
            .await?;
            tx.commit().await?;
            let questions = rows.into_iter().map(|row| (CallId(row.call_id), row.params));
            let order = Order { batch_id, questions: questions.collect() };
            Ok(Some(order).filter(|order| !order.questions.is_empty()))
        })
        .await
    }

    /// The provider has taken an order; answers whether it is still known here.
    pub async fn order_taken(
        &self,
        batch_id: Uuid,
        provider_batch_id: &str,
        look_after: Duration,
    ) -> Result<bool, StoreError> {
        let taken = bounded(
            sqlx::query!(
                "-- order_taken
                update longhaul.batch set status = 'ordered', provider_batch_id = $2,
                  look_at = longhaul.now() + make_interval(secs => $3)
                where batch_id = $1 and (provider_batch_id is null or provider_batch_id = $2)",
                batch_id,
                provider_batch_id,
                look_after.as_secs_f64(),
            )
            .execute(&self.pool),
        )
        .await?;
        Ok(taken.rows_affected() > 0)
    }

    /// Makes two orders of one that was refused as a whole; answers the id of the one that these questions are in now.
    pub async fn split_order(
        &self,
        batch_id: Uuid,
        questions: &[(CallId, String)],
    ) -> Result<Uuid, StoreError> {
        let second = Uuid::now_v7();
        let ids: Vec<Uuid> = questions.iter().map(|(call_id, _)| call_id.0).collect();
        bounded(
            sqlx::query!(
                "-- split_order
                -- cross-shard: questions of all jobs leave together
                with second as (
                  insert into longhaul.batch (batch_id, status, executor_id, created_at, look_at)
                  select $2, 'sending', executor_id, longhaul.now(), longhaul.now() + make_interval(secs => $4)
                  from longhaul.batch where batch_id = $1
                  returning batch_id
                )
                update longhaul.batch_request r set batch_id = s.batch_id from second s
                where r.batch_id = $1 and r.call_id = any($3)",
                batch_id,
                second,
                &ids,
                SENDING_SECONDS,
            )
            .execute(&self.pool),
        )
        .await
        .map(|_| second)
    }

    /// Nobody knows whether the provider has taken an order.
    pub async fn order_unsure(
        &self,
        batch_id: Uuid,
        look_after: Duration,
    ) -> Result<(), StoreError> {
        bounded(
            sqlx::query!(
                "-- order_unsure
                update longhaul.batch set status = 'unsure', look_at = longhaul.now() + make_interval(secs => $2)
                where batch_id = $1 and status = 'sending'",
                batch_id,
                look_after.as_secs_f64(),
            )
            .execute(&self.pool),
        )
        .await
        .map(|_| ())
    }

    /// The provider has not taken an order: its questions leave with another one after a while, and no other before.
    pub async fn order_not_taken(&self, batch_id: Uuid, after: Duration) -> Result<(), StoreError> {
        bounded(
            sqlx::query!(
                "-- order_not_taken
                -- cross-shard: questions of all jobs leave together
                with gone as (
                  delete from longhaul.batch where batch_id = $1 and provider_batch_id is null returning batch_id
                )
                update longhaul.batch_request r set batch_id = null,
                  not_before = longhaul.now() + make_interval(secs => $2)
                from gone g where (r.batch_id = g.batch_id or r.batch_id is null) and r.result is null",
                batch_id,
                after.as_secs_f64(),
            )
            .execute(&self.pool),
        )
        .await
        .map(|_| ())
    }

    /// Takes the orders that are to be looked at; nobody else looks at them for this time.
    pub async fn take_due_batches(
        &self,
        look_after: Duration,
    ) -> Result<Vec<DueBatch>, StoreError> {
        bounded(
            sqlx::query_as!(
                DueBatch,
                r#"-- take_due_batches
                -- cross-shard: questions of all jobs leave together
                with due as (
                  select b.batch_id from longhaul.batch b
                  where b.status <> 'ended' and (b.look_at <= longhaul.now()
                    or b.status = 'sending' and not exists (
                      select from longhaul.executor e where e.executor_id = b.executor_id))
                  order by b.look_at limit $1 for update skip locked
                )
                update longhaul.batch b set look_at = longhaul.now() + make_interval(secs => $2),
                  -- Whoever was about to send it is dead or has been silent for too long.
                  status = case when b.status = 'sending' then 'unsure' else b.status end
                from due d where b.batch_id = d.batch_id
                returning b.batch_id, b.provider_batch_id, b.created_at, b.status = 'canceling' as "is_canceling!",
                  exists (select from longhaul.batch_request r
                    join longhaul.job j on j.shard = r.shard and j.job_id = r.job_id
                    where r.batch_id = b.batch_id and r.result is null and j.current_step = r.step
                      and j.revision = r.revision and j.status not in ('completed', 'failed', 'cancelled'))
                    as "is_wanted!",
                  longhaul.now() as "now!""#,
                LOOKS_MAX,
                look_after.as_secs_f64(),
            )
            .fetch_all(&self.pool),
        )
        .await
    }

    /// The provider was told to stop working on a batch.
    pub async fn batch_canceling(&self, batch_id: Uuid) -> Result<(), StoreError> {
        bounded(
            sqlx::query!(
                "-- batch_canceling
                update longhaul.batch set status = 'canceling' where batch_id = $1 and status = 'ordered'",
                batch_id,
            )
            .execute(&self.pool),
        )
        .await
        .map(|_| ())
    }

    /// The ids that the provider gave to orders that are known.
    pub async fn known_batches(&self) -> Result<Vec<String>, StoreError> {
        bounded(
            sqlx::query_scalar!(
                r#"-- known_batches
                select provider_batch_id as "id!" from longhaul.batch where provider_batch_id is not null"#
            )
            .fetch_all(&self.pool),
        )
        .await
    }

    /// The questions of an order that have no result yet.
    pub async fn unanswered(&self, batch_id: Uuid) -> Result<Vec<CallId>, StoreError> {
        let ids = bounded(
            sqlx::query_scalar!(
                "-- unanswered
                -- cross-shard: questions of all jobs leave together
                select call_id from longhaul.batch_request where batch_id = $1 and result is null",
                batch_id,
            )
            .fetch_all(&self.pool),
        )
        .await?;
        Ok(ids.into_iter().map(CallId).collect())
    }

    /// All results of an order are here.
    pub async fn end_batch(&self, batch_id: Uuid) -> Result<(), StoreError> {
        bounded(
            sqlx::query!(
                "-- end_batch
                update longhaul.batch set status = 'ended' where batch_id = $1",
                batch_id,
            )
            .execute(&self.pool),
        )
        .await
        .map(|_| ())
    }
}
