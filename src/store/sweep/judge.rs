//! Judging: who is dead, decided and carried out on one connection, within moments of an answer that Postgres gave there.
//!
//! What was seen of Postgres on one session says nothing about another: a connection that breaks ends the round,
//! and is never made anew within it. A session that is young may be the first after an absence of Postgres.

use std::time::Duration;

use chrono::{DateTime, Utc};
use sqlx::Postgres;
use sqlx::pool::PoolConnection;

use super::super::{Store, StoreError, bounded};
use crate::domain::id::ExecutorId;

/// How long a sign of life has to be missing; the living give theirs again within 250 ms.
const MISSED: Duration = Duration::from_millis(800);
/// How old a session has to be: if Postgres was away before it, the living have had the time to renew.
const SETTLED: Duration = Duration::from_secs(5);
/// How old the last answer may be.
const FRESH: Duration = Duration::from_secs(2);

/// Whom a process may declare dead, by what it has seen of Postgres itself.
///
/// When Postgres was away, everybody's lock is gone and no lease was renewed, and nobody is dead for that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Judging {
    /// Nobody: there was trouble a moment ago.
    Nobody,
    /// Whose lock was taken on this very run of Postgres and is gone: then it is the executor that went away.
    OfThisRun,
    /// Whose lease is over: one that has no lock of its own does not know how locks fare.
    ByLease,
    /// Everybody: whoever lives has had the time to say so.
    Everybody,
}

/// The one connection of a round.
pub struct Judge {
    connection: PoolConnection<Postgres>,
    answered_at: Option<DateTime<Utc>>,
    /// Whoever can ask lives, and renews soon; if it does not, others will judge it.
    own: Option<ExecutorId>,
}

impl Store {
    /// A connection for one round.
    pub async fn judge(&self) -> Result<Judge, StoreError> {
        let connection = bounded(self.pool.acquire()).await?;
        Ok(Judge { connection, answered_at: None, own: self.presence.executor_id() })
    }
}

impl Judge {
    /// Asks Postgres for its own time, which no setting shifts.
    pub async fn ask(&mut self) -> Result<DateTime<Utc>, StoreError> {
        let asked = sqlx::query_scalar!(
            r#"-- ask
            select statement_timestamp() as "now!""#
        );
        let answered_at = bounded(asked.fetch_one(&mut *self.connection)).await?;
        self.answered_at = Some(answered_at);
        Ok(answered_at)
    }

    /// Notes whose sign of life is missing, and whose is back; answers how many of either.
    pub async fn look_for_executors(&mut self) -> Result<u64, StoreError> {
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
            .execute(&mut *self.connection),
        )
        .await?;
        Ok(changed.rows_affected())
    }

    /// Declares executors dead, by taking their rows away: what they held is lost from then on; answers how many.
    ///
    /// A renewal that comes first wins; one that comes later finds no row, and takes a new id.
    pub async fn bury_executors(&mut self, judging: Judging) -> Result<u64, StoreError> {
        let (by_lock, by_lease) = match judging {
            Judging::Nobody => return Ok(0),
            Judging::OfThisRun => (true, false),
            Judging::ByLease => (false, true),
            Judging::Everybody => (true, true),
        };
        let buried = bounded(
            sqlx::query!(
                r#"-- bury_executors
            with session as materialized (
              -- This process, or the machine, may have slept since the answer.
              select statement_timestamp() between $1 and $1 + make_interval(secs => $2) as is_fresh,
                exists (select from pg_catalog.pg_stat_get_activity(pg_catalog.pg_backend_pid()) a
                  where a.backend_start <= statement_timestamp() - make_interval(secs => $3)) as is_settled),
            dead as (
              select e.executor_id from longhaul.executor e, session s
              where s.is_fresh and e.executor_id is distinct from $4 and (
                ($5 and s.is_settled and e.lease_expires_at <= longhaul.now())
                or ($6 and (($5 and s.is_settled) or e.postgres_started_at = longhaul.postgres_started_at())
                  and e.presence_key is not null
                  and e.missing_since <= longhaul.now() - make_interval(secs => $7)
                  and not exists (select from longhaul.present_keys() k where k = e.presence_key)))
              for update of e skip locked)
            delete from longhaul.executor e using dead d where e.executor_id = d.executor_id
            returning e.executor_id, e.host, e.pid, e.missing_since is not null as "is_missing!""#,
                self.answered_at,
                FRESH.as_secs_f64(),
                SETTLED.as_secs_f64(),
                self.own.map(|own| own.0),
                by_lease,
                by_lock,
                MISSED.as_secs_f64(),
            )
            .fetch_all(&mut *self.connection),
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
