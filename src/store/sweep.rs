//! Sweeping: the jobs that time or death has changed, in bounded batches that several servers divide by skipping locks.
//!
//! A batch commits as one; if a row spoils it, its rows go one by one, so that a bad row stops nobody but itself.
//! Every condition stands on the locked row itself, so that it is judged again if the row changed before the lock.

use std::error::Error;
use std::time::Duration;

use serde_json::Value;
use sqlx::PgConnection;

use super::transition::woken;
use super::write::{Written, write};
use super::{Store, StoreError, bounded, read_json};
use crate::domain::id::{AttemptId, ExecutorId, JobKey};
use crate::domain::job::{JobState, Lease};
use crate::domain::spec::{self, Spec};
use crate::domain::state::{self, Action};

/// The most rows of one batch; each brings its whole specification.
pub const BATCH_MAX: i64 = 50;

/// What a sweep looks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sweep {
    /// Parked jobs whose time has come.
    Due,
    /// Running jobs whose executor is dead.
    Lost,
    /// Approvals whose time is over.
    Overdue,
}

/// How long a sign of life has to be missing; the living give theirs again within 250 ms.
const MISSED: Duration = Duration::from_millis(800);

/// Whom a process may declare dead, by what it has seen of Postgres itself.
///
/// When Postgres was away, everybody's lock is gone and no lease was renewed, and nobody is dead for that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Judging {
    /// Nobody: there was trouble a moment ago.
    Nobody,
    /// Whose lock was taken on this very run of Postgres: then it is the executor that went away.
    OfThisRun,
    /// Everybody: whoever lives has had the time to say so.
    Everybody,
}

/// A row a sweep found, not yet read: a bad one must not spoil the batch.
struct Found {
    job_id: String,
    state: Value,
    spec: Value,
    now: chrono::DateTime<chrono::Utc>,
}

/// What is to be done to a row that was found.
struct Move {
    key: JobKey,
    from: JobState,
    action: Action,
    transition: state::Transition,
}

/// Moves that could not be stored together, and why.
type Spoilt = Option<(Vec<Move>, StoreError)>;

impl Store {
    /// Moves one batch of what the sweep looks for, of so many rows at the most; answers how many it found.
    pub async fn sweep(&self, sweep: Sweep, limit: i64) -> Result<usize, StoreError> {
        let (found, spoilt) = bounded(Box::pin(self.sweep_batch(sweep, limit))).await?;
        if let Some((moves, error)) = spoilt {
            self.sweep_one_by_one(moves, error).await;
        }
        Ok(found)
    }

    /// One transaction: how many rows it found, and the moves it could not store together, with the reason.
    async fn sweep_batch(&self, sweep: Sweep, limit: i64) -> Result<(usize, Spoilt), StoreError> {
        let mut tx = self.pool.begin().await?;
        let found = match sweep {
            Sweep::Due => find_due(&mut tx, limit).await?,
            Sweep::Lost => find_lost(&mut tx, limit).await?,
            Sweep::Overdue => find_overdue(&mut tx, limit).await?,
        };
        let count = found.len();
        let mut moves = Vec::with_capacity(count);
        for found in found {
            let key = JobKey::new(&found.job_id);
            match decide(found, sweep) {
                Ok(Some(decided)) => moves.push(decided),
                Ok(None) => {}
                Err(error) => {
                    tracing::error!(job_id = key.job_id(), %error, "could not sweep a job; it is set aside");
                    set_aside(&mut tx, &key).await?;
                }
            }
        }
        if moves.is_empty() {
            tx.commit().await?;
            return Ok((count, None));
        }
        let written: Vec<Written<'_>> =
            moves.iter().map(|one| Written::new(&one.key, &one.from, &one.transition)).collect();
        let spoilt = match write(&mut tx, &written).await {
            Ok(()) => None,
            // The database is away; what it holds is found again.
            Err(error @ StoreError::Unavailable(_)) => return Err(error),
            Err(error) => Some(error),
        };
        if let Some(error) = spoilt {
            tx.rollback().await?;
            return Ok((count, Some((moves, error))));
        }
        tx.commit().await?;
        for one in &moves {
            self.wake.job_changed(&one.key, woken(&one.transition));
        }
        Ok((count, None))
    }

    async fn sweep_one_by_one(&self, moves: Vec<Move>, spoilt_by: StoreError) {
        let (error, rows) = (&spoilt_by as &(dyn Error + Sync), moves.len());
        tracing::warn!(
            error = error as &dyn Error,
            rows,
            "a batch was spoilt; its rows go one by one"
        );
        for one in moves {
            if let Err(error) = self.act(&one.key, None, &one.action, "sweeper").await {
                let error = &error as &dyn Error;
                tracing::error!(job_id = one.key.job_id(), error, "could not sweep a job");
            }
        }
    }

    /// Marks calls as lost that nobody will settle: of dead executors, and of attempts that ended without settling them.
    pub async fn sweep_lost_calls(&self) -> Result<u64, StoreError> {
        let lost = bounded(
            sqlx::query!(
                "-- sweep_lost_calls
            -- cross-shard: an executor makes calls for jobs of every shard
            update longhaul.model_call m set outcome = 'lost', settled_at = longhaul.now(),
              error = 'nobody was left to settle it'
            from (
              select c.shard, c.job_id, c.call_id from longhaul.model_call c
              where c.outcome = 'started' and (
                not exists (select from longhaul.executor e where e.executor_id = c.executor_id)
                -- Its attempt has ended a while ago; a settlement that still comes overrides this.
                or (c.started_at < longhaul.now() - interval '1 minute' and not exists (
                  select from longhaul.job j
                  where j.shard = c.shard and j.job_id = c.job_id and j.attempt_id = c.attempt_id)))
              limit 500 for update skip locked
            ) g
            where m.shard = g.shard and m.job_id = g.job_id and m.call_id = g.call_id",
            )
            .execute(&self.pool),
        )
        .await?;
        Ok(lost.rows_affected())
    }

    /// Notes whose sign of life is missing, and whose is back; answers how many of either.
    pub async fn look_for_executors(&self) -> Result<u64, StoreError> {
        let changed = bounded(
            sqlx::query!(
                "-- look_for_executors
            with present as materialized (select k as key from longhaul.present_keys() k),
            -- Whoever is not as the row says.
            changed as (
              select e.executor_id from longhaul.executor e
              where (e.presence_key is not null and not exists (
                  select from present p where p.key = e.presence_key))
                is distinct from (e.missing_since is not null)
              for update skip locked)
            update longhaul.executor e
            set missing_since = case when e.missing_since is null then longhaul.now() end
            from changed c where e.executor_id = c.executor_id",
            )
            .execute(&self.pool),
        )
        .await?;
        Ok(changed.rows_affected())
    }

    /// Declares executors dead, by taking their rows away: what they held is lost from then on; answers how many.
    ///
    /// A renewal that comes first wins; one that comes later finds no row, and takes a new id.
    pub async fn bury_executors(&self, judging: Judging) -> Result<u64, StoreError> {
        if judging == Judging::Nobody {
            return Ok(0);
        }
        let buried = bounded(
            sqlx::query!(
                r#"-- bury_executors
            with dead as (
              select e.executor_id from longhaul.executor e
              where ($1 or e.postgres_started_at = longhaul.postgres_started_at()) and (
                e.lease_expires_at <= longhaul.now()
                or (e.presence_key is not null
                  and e.missing_since <= longhaul.now() - make_interval(secs => $2)
                  and not exists (select from longhaul.present_keys() k where k = e.presence_key)))
              for update skip locked)
            delete from longhaul.executor e using dead d where e.executor_id = d.executor_id
            returning e.executor_id, e.host, e.pid, e.missing_since is not null as "is_missing!""#,
                judging == Judging::Everybody,
                MISSED.as_secs_f64(),
            )
            .fetch_all(&self.pool),
        )
        .await?;
        for dead in &buried {
            let (executor_id, host) = (ExecutorId(dead.executor_id), &dead.host);
            let (pid, by_lock) = (dead.pid, dead.is_missing);
            tracing::info!(%executor_id, host, pid, by_lock, "declared an executor dead");
        }
        Ok(buried.len() as u64)
    }
}

fn decide(found: Found, sweep: Sweep) -> Result<Option<Move>, StoreError> {
    let from: JobState = read_json("job", found.state)?;
    let spec: Spec = read_json("job_spec", found.spec)?;
    let action = match sweep {
        Sweep::Due => Action::Due,
        Sweep::Lost => Action::Lose { lease: held_lease(&from)? },
        // No channel confirms deliveries yet, so none is known.
        Sweep::Overdue => Action::Expire { delivered: false },
    };
    let next = state::next(&from, &spec, action.clone(), "sweeper", found.now)?;
    let key = JobKey::new(&found.job_id);
    Ok(next.map(|transition| Move { key, from, action, transition }))
}

/// The lease under which a job is running, whoever holds it.
fn held_lease(state: &JobState) -> Result<Lease, StoreError> {
    match (state.executor_id, state.attempt_id) {
        (Some(executor_id), Some(attempt_id)) => {
            Ok(Lease { executor_id, epoch: state.epoch, attempt_id })
        }
        (None::<ExecutorId>, _) | (_, None::<AttemptId>) => {
            Err(StoreError::Corrupt { table: "job", what: "running without a holder".to_owned() })
        }
    }
}

async fn find_due(tx: &mut PgConnection, limit: i64) -> Result<Vec<Found>, StoreError> {
    let found = sqlx::query_as!(
        Found,
        r#"-- find_due
        -- cross-shard: due times of all shards are in one index
        select j.job_id, to_jsonb(j) as "state!", s.spec, longhaul.now() as "now!"
        from longhaul.job j join longhaul.job_spec s using (shard, job_id)
        where j.status = 'queued' and j.run_at <= longhaul.now() and j.spec_version <= $2
        order by j.run_at limit $1
        for update of j skip locked"#,
        limit,
        spec::VERSION,
    );
    Ok(found.fetch_all(tx).await?)
}

async fn find_lost(tx: &mut PgConnection, limit: i64) -> Result<Vec<Found>, StoreError> {
    let found = sqlx::query_as!(
        Found,
        r#"-- find_lost
        -- cross-shard: an executor holds jobs of every shard
        select j.job_id, to_jsonb(j) as "state!", s.spec, longhaul.now() as "now!"
        from longhaul.job j join longhaul.job_spec s using (shard, job_id)
        where j.status = 'running' and j.spec_version <= $2 and case
          -- A lease of its own goes before that of its executor.
          when j.lease_expires_at is not null then j.lease_expires_at <= longhaul.now()
          -- Whoever was declared dead has no row.
          else not exists (select from longhaul.executor e where e.executor_id = j.executor_id)
          end
        limit $1
        for update of j skip locked"#,
        limit,
        spec::VERSION,
    );
    Ok(found.fetch_all(tx).await?)
}

async fn find_overdue(tx: &mut PgConnection, limit: i64) -> Result<Vec<Found>, StoreError> {
    let found = sqlx::query_as!(
        Found,
        r#"-- find_overdue
        -- cross-shard: deadlines of all shards are in one index
        select j.job_id, to_jsonb(j) as "state!", s.spec, longhaul.now() as "now!"
        from longhaul.job j join longhaul.job_spec s using (shard, job_id)
        where j.status = 'awaiting_approval' and j.deadline_at <= longhaul.now() and j.spec_version <= $2
        order by j.deadline_at limit $1
        for update of j skip locked"#,
        limit,
        spec::VERSION,
    );
    Ok(found.fetch_all(tx).await?)
}

/// Puts off a row that does not fit, so that it is not in everybody's way; it is looked at again later.
pub(super) async fn set_aside(tx: &mut PgConnection, key: &JobKey) -> Result<(), StoreError> {
    sqlx::query!(
        "-- set_aside
        update longhaul.job set
          run_at = case when status = 'queued' then longhaul.now() + interval '5 minutes' end,
          deadline_at = case when status = 'awaiting_approval' then longhaul.now() + interval '5 minutes' end,
          lease_expires_at = case when status = 'running' then longhaul.now() + interval '5 minutes' end
        where shard = $1 and job_id = $2 and status in ('queued', 'awaiting_approval', 'running')",
        key.shard(),
        key.job_id(),
    )
    .execute(tx)
    .await?;
    Ok(())
}
