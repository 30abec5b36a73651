//! Pruning: jobs that ended long enough ago go, and leave a tombstone and their lines of the ledger.
//!
//! It takes two moves, which any server makes: `mark_due` writes the tombstone while the job is whole, and
//! `bury_marked` deletes the rows of what was marked a while ago, in one transaction a batch.
//! A submit that began before the mark is over by then, so that no id is born again. Whoever dies in the middle
//! leaves whole jobs or whole tombstones. A retry in between takes the mark away.

use std::error::Error;
use std::time::Duration;

use chrono::{DateTime, Utc};
use sqlx::PgConnection;

use super::{Store, StoreError, bounded};
use crate::domain::id::JobKey;
use crate::domain::job::Status;
use crate::domain::spec;
use crate::domain::word::Word as _;

/// The most jobs of one batch.
pub const BATCH_MAX: i64 = 50;
/// The most events of the jobs of one batch together, which tells how many rows go; the first may have more.
const EVENTS_MAX: i64 = 20_000;
/// Longer than any statement may take: what does not see the mark has ended by then.
const MARKED: Duration = Duration::from_secs(10);
/// So long a job is left alone that could not be pruned.
const PUT_OFF: Duration = Duration::from_hours(1);

/// How long jobs are kept after they ended, by how they ended; nothing means for ever.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Retention {
    /// Those that were completed.
    pub completed: Option<Duration>,
    /// Those that failed.
    pub failed: Option<Duration>,
    /// Those that were cancelled.
    pub cancelled: Option<Duration>,
}

/// A look at what has ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Marked {
    /// How many jobs were looked at.
    pub looked: i64,
    /// How many of them were marked.
    pub marked: i64,
    /// The last of them, after which the next look begins.
    pub last: Option<Ended>,
}

/// The place of a job among those that ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    finished_at: DateTime<Utc>,
    job_id: String,
}

/// What became of a batch of marked jobs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Buried {
    /// How many marks were looked at.
    pub found: i64,
    /// How many jobs were pruned that were completed.
    pub completed: i64,
    /// How many that failed.
    pub failed: i64,
    /// How many that were cancelled.
    pub cancelled: i64,
    /// How many marks were taken away, since their jobs are not to go yet.
    pub unmarked: i64,
}

/// What is due of the jobs that ended in one way.
#[derive(Clone, Debug)]
pub struct DueJobs {
    /// How they ended.
    pub status: Status,
    /// How many are to go.
    pub jobs: i64,
    /// How many more would be, were nothing of them under way.
    pub under_way: i64,
    /// When the first of them ended.
    pub oldest_at: Option<DateTime<Utc>>,
}

impl Buried {
    /// How many jobs were pruned.
    pub fn pruned(&self) -> i64 {
        self.completed + self.failed + self.cancelled
    }

    /// Both together.
    #[must_use]
    pub fn and(self, more: Self) -> Self {
        Self {
            found: self.found + more.found,
            completed: self.completed + more.completed,
            failed: self.failed + more.failed,
            cancelled: self.cancelled + more.cancelled,
            unmarked: self.unmarked + more.unmarked,
        }
    }
}

impl Retention {
    /// The ways to end that are not kept for ever, and for how long they are.
    pub fn periods(&self) -> Vec<(Status, Duration)> {
        let all = [
            (Status::Completed, self.completed),
            (Status::Failed, self.failed),
            (Status::Cancelled, self.cancelled),
        ];
        all.into_iter().filter_map(|(status, kept)| Some((status, kept?))).collect()
    }

    /// Seconds, of which nothing is for ever.
    fn seconds(&self) -> [Option<f64>; 3] {
        [self.completed, self.failed, self.cancelled]
            .map(|kept| kept.map(|kept| kept.as_secs_f64()))
    }
}

impl Store {
    /// Marks jobs that ended in one way and are due, of the first so many after a place.
    pub async fn mark_due(
        &self,
        status: Status,
        kept: Duration,
        after: Option<&Ended>,
        limit: i64,
    ) -> Result<Marked, StoreError> {
        let marked = sqlx::query!(
            r#"-- mark_due
            -- cross-shard: what has ended is in one index for all shards
            with looked as materialized (
              select j.shard, j.job_id, j.status, j.reason, j.current_step, j.step_count, j.created_at, j.finished_at
              from longhaul.job j
              where j.status = $1 and j.finished_at >= coalesce($3, '-infinity'::timestamptz)
                and j.finished_at <= longhaul.now() - make_interval(secs => $2) and j.spec_version <= $5
                and (j.finished_at > coalesce($3, '-infinity'::timestamptz) or j.job_id > $6)
              order by j.finished_at, j.job_id limit $4
            ),
            -- One that is pruned already was born again by a release that does not know tombstones.
            marked as (
              insert into longhaul.tombstone as t (shard, job_id, fingerprint, status, reason, current_step, step_count, labels,
                created_at, finished_at, marked_at)
              select l.shard, l.job_id, s.fingerprint, l.status, l.reason, l.current_step, l.step_count, s.labels,
                l.created_at, l.finished_at, longhaul.now()
              from looked l join longhaul.job_spec s using (shard, job_id)
              -- Whether there is a mark is asked first: it is the cheaper question, in words that suit the index by key alone.
              where case when exists (
                  select from longhaul.tombstone m
                  where m.shard = l.shard and m.job_id = l.job_id and coalesce(m.pruned_at, 'infinity') = 'infinity')
                then false else longhaul.is_at_rest(l.shard, l.job_id) end
              on conflict (shard, job_id) do update set fingerprint = excluded.fingerprint, labels = excluded.labels,
                status = excluded.status, created_at = excluded.created_at, finished_at = excluded.finished_at,
                marked_at = excluded.marked_at, pruned_at = null
              where t.pruned_at is not null
              returning 1
            )
            select (select count(*) from looked) as "looked!", (select count(*) from marked) as "marked!",
              l.finished_at as "finished_at?", l.job_id as "job_id?"
            from (select) one
            left join (select * from looked order by finished_at desc, job_id desc limit 1) l on true"#,
            status.word(),
            kept.as_secs_f64(),
            after.map(|place| place.finished_at),
            limit,
            spec::VERSION,
            after.map_or("", |place| place.job_id.as_str()),
        );
        let row = bounded(marked.fetch_one(&self.pool)).await?;
        let last = row.finished_at.zip(row.job_id);
        let last = last.map(|(finished_at, job_id)| Ended { finished_at, job_id });
        Ok(Marked { looked: row.looked, marked: row.marked, last })
    }

    /// Prunes up to so many jobs that were marked a while ago; one that cannot be pruned stops nobody but itself.
    ///
    /// A batch that took too long is an error, after which fewer are to be tried; a single job may be put off.
    pub async fn bury_marked(&self, kept: &Retention, limit: i64) -> Result<Buried, StoreError> {
        // All on one connection: on another one, the rows of a batch that failed may still be locked by it.
        let mut connection = bounded(self.pool.acquire()).await?;
        let error = match bury(&mut connection, kept, limit, None).await {
            Err(error) if !error.is_of_the_connection() => error,
            buried => return buried,
        };
        if limit > 1 && error.may_pass() {
            return Err(error);
        }
        tracing::warn!(
            error = &error as &dyn Error,
            "a batch could not be pruned; it goes one by one"
        );
        let (mut buried, mut was_put_off) = (Buried::default(), false);
        for _ in 0..limit {
            let Some(mark) = find_mark(&mut connection, kept).await? else { break };
            let error = match bury(&mut connection, kept, 1, Some(&mark)).await {
                Ok(one) if one.pruned() + one.unmarked == 0 => break,
                Ok(one) => {
                    buried = buried.and(one);
                    continue;
                }
                Err(error) => error,
            };
            // What ails more than one job is no fault of theirs.
            let is_its_own =
                !error.is_of_the_connection() && (!error.may_pass() || error.is_too_slow());
            if was_put_off || !is_its_own {
                return Err(error);
            }
            put_off_pruning(&mut connection, &mark).await?;
            let (job_id, error) = (mark.job_id(), &error as &dyn Error);
            tracing::error!(job_id, error, "could not prune a job; it is put off");
            was_put_off = true;
            buried.found += 1;
        }
        Ok(buried)
    }

    /// How many marked jobs are to be pruned soon by these settings.
    pub async fn marked_jobs(&self, kept: &Retention) -> Result<i64, StoreError> {
        let [completed, failed, cancelled] = kept.seconds();
        let marked = sqlx::query_scalar!(
            r#"-- marked_jobs
            -- cross-shard: marks of all shards are in one index
            select count(*) as "marked!" from longhaul.tombstone t
            where t.pruned_at is null and t.marked_at <= longhaul.now()
              and t.finished_at <= longhaul.now() - make_interval(secs =>
                case t.status when 'completed' then $1::float8 when 'failed' then $2::float8 else $3::float8 end)"#,
            completed,
            failed,
            cancelled,
        );
        bounded(marked.fetch_one(&self.pool)).await
    }

    /// What is due now of the jobs that ended in one way. It reads all of them, which may take a while.
    pub async fn due_jobs(&self, status: Status, kept: Duration) -> Result<DueJobs, StoreError> {
        let mut tx = self.pool.begin().await?;
        sqlx::raw_sql("-- take_time\nset local statement_timeout = '10min'")
            .execute(&mut *tx)
            .await?;
        let row = sqlx::query!(
            r#"-- due_jobs
            -- cross-shard: what has ended is in one index for all shards
            select count(*) filter (where d.is_at_rest) as "jobs!",
              count(*) filter (where not d.is_at_rest) as "under_way!", min(d.finished_at) as oldest_at
            from (
              select j.finished_at, longhaul.is_at_rest(j.shard, j.job_id) as is_at_rest from longhaul.job j
              where j.status = $1 and j.finished_at <= longhaul.now() - make_interval(secs => $2)
                and j.spec_version <= $3) d"#,
            status.word(),
            kept.as_secs_f64(),
            spec::VERSION,
        )
        .fetch_one(&mut *tx)
        .await?;
        tx.commit().await?;
        let (jobs, under_way, oldest_at) = (row.jobs, row.under_way, row.oldest_at);
        Ok(DueJobs { status, jobs, under_way, oldest_at })
    }

    /// About how many bytes a job takes, its indexes and all, by what Postgres counted last; the ledger, which stays, left out.
    pub async fn bytes_of_a_job(&self) -> Result<f64, StoreError> {
        let bytes = sqlx::query_scalar!(
            r#"-- bytes_of_a_job
            select coalesce(sum(pg_total_relation_size(c.oid))::float8
              / nullif(max(c.reltuples) filter (where c.relname = 'job'), 0), 0) as "bytes!"
            from pg_catalog.pg_class c
            where c.relnamespace = 'longhaul'::regnamespace and c.relkind = 'r' and c.relname in
              ('job', 'job_spec', 'checkpoint', 'event', 'approval', 'decision', 'approval_link', 'outbox', 'control_request')"#,
        );
        bounded(bytes.fetch_one(&self.pool)).await
    }
}

/// One transaction: every row of the jobs goes, and their tombstones are complete.
async fn bury(
    connection: &mut PgConnection,
    kept: &Retention,
    limit: i64,
    only: Option<&JobKey>,
) -> Result<Buried, StoreError> {
    let [completed, failed, cancelled] = kept.seconds();
    let buried = sqlx::query_as!(
        Buried,
        r#"-- bury
        -- cross-shard: marks of all shards are in one index
        with marks as materialized (
          -- Others may keep jobs for a shorter time: their marks are theirs.
          select t.shard, t.job_id, t.finished_at from longhaul.tombstone t
          where t.pruned_at is null and t.marked_at <= longhaul.now() - make_interval(secs => $2)
            and t.finished_at <= longhaul.now() - make_interval(secs =>
              case t.status when 'completed' then $3::float8 when 'failed' then $4::float8 else $5::float8 end)
            and ($8::text is null or t.job_id = $8)
          order by t.marked_at, t.shard, t.job_id limit $1 for update skip locked),
        -- Judged again on the locked row, should it have moved since it was marked.
        due as materialized (
          select j.shard, j.job_id, j.status, j.reason, j.current_step, j.step_count, j.finished_at, j.last_sequence
          from marks m join longhaul.job j on j.shard = m.shard and j.job_id = m.job_id
          where j.status in ('completed', 'failed', 'cancelled')
            and j.finished_at <= longhaul.now() - make_interval(secs =>
              case j.status when 'completed' then $3::float8 when 'failed' then $4::float8 else $5::float8 end)
            and j.spec_version <= $6 and longhaul.is_at_rest(j.shard, j.job_id) for update of j skip locked),
        -- It moved since it was marked, or something of it is under way again. One that somebody holds stays marked.
        unmarked as (
          delete from longhaul.tombstone t using marks m
          where t.shard = m.shard and t.job_id = m.job_id and not exists (
              select from due d where d.shard = m.shard and d.job_id = m.job_id)
            and (not longhaul.is_at_rest(m.shard, m.job_id) or not exists (
              select from longhaul.job j where j.shard = m.shard and j.job_id = m.job_id
                and j.status in ('completed', 'failed', 'cancelled') and j.finished_at <= m.finished_at)) returning 1),
        -- As many as fit; the others stay marked for the next batch.
        gone as materialized (select s.* from (
            select d.*, sum(d.last_sequence) over (order by d.shard, d.job_id) - d.last_sequence as before from due d) s
          where s.before < $7),
        events as (delete from longhaul.event x using gone g where x.shard = g.shard and x.job_id = g.job_id),
        checkpoints as (delete from longhaul.checkpoint x using gone g where x.shard = g.shard and x.job_id = g.job_id),
        decisions as (delete from longhaul.decision x using gone g where x.shard = g.shard and x.job_id = g.job_id),
        links as (delete from longhaul.approval_link x using gone g where x.shard = g.shard and x.job_id = g.job_id),
        approvals as (delete from longhaul.approval x using gone g where x.shard = g.shard and x.job_id = g.job_id),
        notices as (delete from longhaul.outbox x using gone g where x.shard = g.shard and x.job_id = g.job_id),
        requests as (delete from longhaul.control_request x using gone g where x.shard = g.shard and x.job_id = g.job_id),
        -- The ledger keeps what was used and paid, and no text.
        calls as (update longhaul.model_call x set partial_output = null, error = null from gone g
          where x.shard = g.shard and x.job_id = g.job_id and (x.partial_output is not null or x.error is not null)),
        specs as (delete from longhaul.job_spec x using gone g where x.shard = g.shard and x.job_id = g.job_id),
        jobs as (delete from longhaul.job x using gone g where x.shard = g.shard and x.job_id = g.job_id),
        buried as (
          update longhaul.tombstone t set pruned_at = longhaul.now(), status = g.status, reason = g.reason,
            current_step = g.current_step, step_count = g.step_count, finished_at = g.finished_at
          from gone g where t.shard = g.shard and t.job_id = g.job_id returning t.status)
        select (select count(*) from marks) as "found!", (select count(*) from unmarked) as "unmarked!",
          (select count(*) from buried b where b.status = 'completed') as "completed!",
          (select count(*) from buried b where b.status = 'failed') as "failed!",
          (select count(*) from buried b where b.status = 'cancelled') as "cancelled!""#,
        limit,
        MARKED.as_secs_f64(),
        completed,
        failed,
        cancelled,
        spec::VERSION,
        EVENTS_MAX,
        only.map(JobKey::job_id),
    );
    bounded(buried.fetch_one(connection)).await
}

/// The first mark that is due by these settings, in the order in which they are taken.
async fn find_mark(
    connection: &mut PgConnection,
    kept: &Retention,
) -> Result<Option<JobKey>, StoreError> {
    let [completed, failed, cancelled] = kept.seconds();
    let found = sqlx::query_scalar!(
        "-- find_mark
        -- cross-shard: marks of all shards are in one index
        select t.job_id from longhaul.tombstone t
        where t.pruned_at is null and t.marked_at <= longhaul.now() - make_interval(secs => $1)
          and t.finished_at <= longhaul.now() - make_interval(secs =>
            case t.status when 'completed' then $2::float8 when 'failed' then $3::float8 else $4::float8 end)
        order by t.marked_at, t.shard, t.job_id limit 1 for update skip locked",
        MARKED.as_secs_f64(),
        completed,
        failed,
        cancelled,
    );
    let found = bounded(found.fetch_optional(connection)).await?;
    Ok(found.map(|job_id| JobKey::new(&job_id)))
}

/// Leaves a marked job alone for a while.
async fn put_off_pruning(connection: &mut PgConnection, mark: &JobKey) -> Result<(), StoreError> {
    let put_off = sqlx::query!(
        "-- put_off_pruning
        update longhaul.tombstone set marked_at = longhaul.now() + make_interval(secs => $3)
        where shard = $1 and job_id = $2 and pruned_at is null",
        mark.shard(),
        mark.job_id(),
        PUT_OFF.as_secs_f64(),
    );
    bounded(put_off.execute(connection)).await.map(|_done| ())
}
