//! Sweeping: the jobs that time or death has changed, in bounded batches that several servers divide by skipping locks.
//!
//! A batch commits as one; if a row spoils it, its rows go one by one, so that a bad row stops nobody but itself.
//! Every condition stands on the locked row itself, so that it is judged again if the row changed before the lock.

mod find;

mod judge;

mod undelivered;

use std::error::Error;

use sqlx::PgConnection;

use self::find::Found;
use super::transition::woken;
use super::write::{Written, write_locked};
use super::{Store, StoreError, bounded, read_json};
use crate::domain::id::{AttemptId, ExecutorId, JobKey};
use crate::domain::job::{JobState, Lease};
use crate::domain::remind::Asked;
use crate::domain::spec::Spec;
use crate::domain::state::{self, Action};
pub use judge::{Judge, Judging};

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
    /// Approvals of which people are to be reminded, or more are to be asked.
    Reminders,
}

/// What became of a batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Batch {
    /// How many rows were found.
    pub found: usize,
    /// How many of them moved on.
    pub moved: usize,
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
    /// Moves one batch of what the sweep looks for, of so many rows at the most.
    pub async fn sweep(&self, sweep: Sweep, limit: i64) -> Result<Batch, StoreError> {
        let (mut batch, spoilt) = bounded(Box::pin(self.sweep_batch(sweep, limit))).await?;
        if let Some((moves, error)) = spoilt {
            batch.moved = self.sweep_one_by_one(moves, error).await;
        }
        Ok(batch)
    }

    /// One transaction: what became of it, and the moves it could not store together, with the reason.
    async fn sweep_batch(&self, sweep: Sweep, limit: i64) -> Result<(Batch, Spoilt), StoreError> {
        let mut tx = self.pool.begin().await?;
        let found = match sweep {
            Sweep::Due => find::due(&mut tx, limit).await?,
            Sweep::Lost => find::lost(&mut tx, limit).await?,
            Sweep::Overdue => find::overdue(&mut tx, limit).await?,
            Sweep::Reminders => find::reminders(&mut tx, limit).await?,
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
            return Ok((Batch { found: count, moved: 0 }, None));
        }
        let written: Vec<Written<'_>> =
            moves.iter().map(|one| Written::new(&one.key, &one.from, &one.transition)).collect();
        let spoilt = match write_locked(&mut tx, &written).await {
            Ok(()) => None,
            // The database is away; what it holds is found again.
            Err(error @ StoreError::Unavailable(_)) => return Err(error),
            Err(error) => Some(error),
        };
        if let Some(error) = spoilt {
            tx.rollback().await?;
            return Ok((Batch { found: count, moved: 0 }, Some((moves, error))));
        }
        tx.commit().await?;
        for one in &moves {
            self.wake.job_changed(&one.key, woken(&one.transition));
        }
        Ok((Batch { found: count, moved: moves.len() }, None))
    }

    /// Answers how many moved.
    async fn sweep_one_by_one(&self, moves: Vec<Move>, spoilt_by: StoreError) -> usize {
        let (error, rows) = (&spoilt_by as &(dyn Error + Sync), moves.len());
        tracing::warn!(
            error = error as &dyn Error,
            rows,
            "a batch was spoilt; its rows go one by one"
        );
        let mut moved = 0;
        for one in moves {
            match self.act(&one.key, &one.action, "sweeper").await {
                Ok(acted) => moved += usize::from(acted.changed),
                Err(error) => self.give_up(&one, &error).await,
            }
        }
        moved
    }

    /// Puts a row off that cannot be written, unless it has changed meanwhile or only Postgres is at fault.
    async fn give_up(&self, one: &Move, error: &StoreError) {
        let job_id = one.key.job_id();
        if matches!(error, StoreError::Unavailable(_) | StoreError::Refused(_)) {
            tracing::debug!(job_id, error = error as &dyn Error, "could not sweep a job");
            return;
        }
        tracing::error!(
            job_id,
            error = error as &dyn Error,
            "could not sweep a job; it is set aside"
        );
        if let Err(error) = bounded(self.set_aside_unchanged(one)).await {
            tracing::error!(job_id, error = &error as &dyn Error, "could not set a job aside");
        }
    }

    async fn set_aside_unchanged(&self, one: &Move) -> Result<(), StoreError> {
        let mut tx = self.pool.begin().await?;
        let unchanged = sqlx::query_scalar!(
            r#"-- lock_unchanged
            select true as "is_there!" from longhaul.job
            where shard = $1 and job_id = $2 and last_sequence = $3 and epoch = $4 for update"#,
            one.key.shard(),
            one.key.job_id(),
            one.from.last_sequence,
            one.from.epoch,
        );
        if unchanged.fetch_optional(&mut *tx).await?.is_some() {
            set_aside(&mut tx, &one.key).await?;
        }
        Ok(tx.commit().await?)
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
}

fn decide(found: Found, sweep: Sweep) -> Result<Option<Move>, StoreError> {
    let from: JobState = read_json("job", found.state)?;
    let spec: Spec = read_json("job_spec", found.spec)?;
    let action = match sweep {
        Sweep::Due => Action::Due,
        Sweep::Lost => Action::Lose { lease: held_lease(&from)? },
        Sweep::Overdue => Action::Expire { delivered: found.delivered },
        Sweep::Reminders => {
            Action::Remind { asked: Asked { people: found.asked, spared: found.spared } }
        }
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

/// Puts off a row that does not fit, so that it is not in everybody's way; it is looked at again later.
pub(super) async fn set_aside(tx: &mut PgConnection, key: &JobKey) -> Result<(), StoreError> {
    sqlx::query!(
        "-- set_aside
        update longhaul.job set
          run_at = case when status = 'queued' or (run_at is not null and status = 'awaiting_approval')
            then longhaul.now() + interval '5 minutes' end,
          -- Whatever is wrong with it, nobody's time to decide is cut.
          deadline_at = case when status = 'awaiting_approval'
            then greatest(deadline_at, longhaul.now() + interval '5 minutes') end,
          lease_expires_at = case when status = 'running' then longhaul.now() + interval '5 minutes' end
        where shard = $1 and job_id = $2 and status in ('queued', 'awaiting_approval', 'running')",
        key.shard(),
        key.job_id(),
    )
    .execute(tx)
    .await?;
    Ok(())
}
