//! Counting: how many jobs are in each status, without a walk through all that ever were.
//!
//! What has not completed is counted from indexes that hold nothing else. The rest is what is left of all jobs, and those
//! are counted in the background, by spans of their time of submission, which never changes.
//! A span is counted again once in a while, since jobs are deleted; nothing here is written when a job is or moves.

use chrono::{DateTime, Utc};

use super::{Store, StoreError, bounded};
use crate::domain::job::Status;

/// About how many jobs one span has when it is made.
const SPAN_JOBS: i64 = 20_000;
/// So many spans are counted again at once at the most, each being as much work as it has jobs.
const AGAIN_MAX: i64 = 5;

/// How many jobs are in each status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counts {
    /// Each status and its number.
    pub by_status: Vec<(Status, i64)>,
    /// Deletions since then may not be in the number of completed jobs.
    pub as_of: DateTime<Utc>,
}

impl Store {
    /// How many jobs are in each status, now.
    pub async fn counts(&self) -> Result<Counts, StoreError> {
        let row = bounded(
            sqlx::query!(
                r#"-- count_by_status
                -- cross-shard: it counts the jobs of every shard
                select
                  (select count(*) from longhaul.job where status = 'queued' and run_at is null)
                    + (select count(*) from longhaul.job where status = 'queued' and run_at is not null) as "queued!",
                  (select count(*) from longhaul.job where status = 'running') as "running!",
                  (select count(*) from longhaul.job where status = 'awaiting_approval') as "awaiting_approval!",
                  (select count(*) from longhaul.job where status = 'paused') as "paused!",
                  (select count(*) from longhaul.job where status = 'failed') as "failed!",
                  (select count(*) from longhaul.job where status = 'cancelled') as "cancelled!",
                  -- Those that are counted in spans, and those after the last span.
                  (select coalesce(sum(jobs), 0)::bigint from longhaul.job_count)
                    + (select count(*) from longhaul.job where created_at >=
                      (select coalesce(max(created_before), '-infinity') from longhaul.job_count)) as "all!",
                  coalesce((select min(counted_at) from longhaul.job_count), longhaul.now()) as "as_of!""#,
            )
            .fetch_one(&self.pool),
        )
        .await?;
        let others = row.queued
            + row.running
            + row.awaiting_approval
            + row.paused
            + row.failed
            + row.cancelled;
        let by_status = vec![
            (Status::Queued, row.queued),
            (Status::Running, row.running),
            (Status::AwaitingApproval, row.awaiting_approval),
            (Status::Paused, row.paused),
            // What was brought in with an earlier time may be missing from all for a while.
            (Status::Completed, (row.all - others).max(0)),
            (Status::Failed, row.failed),
            (Status::Cancelled, row.cancelled),
        ];
        Ok(Counts { by_status, as_of: row.as_of })
    }

    /// Makes the next span of what has been submitted, if there is enough for one; answers whether it did.
    ///
    /// Whoever does that at the same time makes the same one, and only one of them is kept.
    pub async fn add_span(&self) -> Result<bool, StoreError> {
        let added = bounded(
            sqlx::query!(
                "-- add_span
                -- cross-shard: it counts the jobs of every shard
                with last as (
                  select coalesce(max(created_before), '-infinity') as created_before from longhaul.job_count
                ),
                next as (
                  -- Jobs of one moment are in one span. Nothing is added any more to what is a minute old.
                  select l.created_before as begins_at, j.created_at + interval '1 microsecond' as ends_at
                  from last l cross join lateral (
                    select created_at from longhaul.job where created_at >= l.created_before
                    order by created_at offset $1 limit 1
                  ) j
                  where j.created_at < longhaul.now() - interval '1 minute'
                )
                insert into longhaul.job_count (created_from, created_before, jobs, counted_at)
                select n.begins_at, n.ends_at,
                  (select count(*) from longhaul.job where created_at >= n.begins_at and created_at < n.ends_at),
                  longhaul.now()
                from next n
                on conflict (created_from) do nothing",
                SPAN_JOBS - 1,
            )
            .execute(&self.pool),
        )
        .await?;
        Ok(added.rows_affected() > 0)
    }

    /// Counts those spans again that were counted longest ago, if that is minutes ago; answers how many.
    pub async fn count_again(&self) -> Result<u64, StoreError> {
        let counted = bounded(
            sqlx::query!(
                "-- count_again
                -- cross-shard: it counts the jobs of every shard
                with old as (
                  select created_from, created_before from longhaul.job_count
                  where counted_at < longhaul.now() - interval '5 minutes'
                  order by counted_at limit $1 for update skip locked
                )
                update longhaul.job_count c set counted_at = longhaul.now(),
                  jobs = (select count(*) from longhaul.job j
                    where j.created_at >= o.created_from and j.created_at < o.created_before)
                from old o where c.created_from = o.created_from",
                AGAIN_MAX,
            )
            .execute(&self.pool),
        )
        .await?;
        Ok(counted.rows_affected())
    }

    /// Makes one span of two that follow each other and have little left; answers whether it did.
    pub async fn join_spans(&self) -> Result<bool, StoreError> {
        let joined = bounded(
            sqlx::query!(
                "-- join_spans
                with pair as (
                  select a.created_from, b.created_from as gone, b.created_before,
                    a.jobs + b.jobs as jobs, least(a.counted_at, b.counted_at) as counted_at
                  from longhaul.job_count a join longhaul.job_count b on b.created_from = a.created_before
                  where a.jobs + b.jobs <= $1
                  order by a.created_from limit 1 for update of a, b skip locked
                ),
                gone as (
                  delete from longhaul.job_count c using pair p where c.created_from = p.gone
                )
                update longhaul.job_count c set created_before = p.created_before, jobs = p.jobs,
                  counted_at = p.counted_at
                from pair p where c.created_from = p.created_from",
                SPAN_JOBS / 2,
            )
            .execute(&self.pool),
        )
        .await?;
        Ok(joined.rows_affected() > 0)
    }
}
