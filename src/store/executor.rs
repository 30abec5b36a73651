//! Executors: one row per living process, whose lease holds all the jobs in its hands.

use std::sync::Arc;
use std::time::Duration;

use sqlx::ConnectOptions as _;
use sqlx::postgres::{PgConnectOptions, PgConnection, PgPool};

use super::presence::Presence;
use super::{Store, StoreError, bounded};
use crate::domain::id::{AttemptId, ExecutorId, JobKey};
use crate::domain::job::Lease;

/// A running job as its executor's row names it.
#[derive(Clone, Debug)]
pub struct Held {
    /// Which job.
    pub key: JobKey,
    /// The lease that may move it.
    pub lease: Lease,
}

impl Store {
    /// Makes a fresh executor known, with a lease of so long, and with this process's sign of life.
    pub async fn register_executor(
        &self,
        executor_id: ExecutorId,
        host: &str,
        lease: Duration,
    ) -> Result<(), StoreError> {
        bounded(
            sqlx::query!(
                "-- register_executor
            insert into longhaul.executor
              (executor_id, host, pid, started_at, lease_expires_at, presence_key, postgres_started_at)
            select $1, $2, $3, longhaul.now(), longhaul.now() + make_interval(secs => $4), p.key,
              case when p.key is not null then longhaul.postgres_started_at() end
            from (select (select k from longhaul.present_keys() k where k = $5) as key) p
            on conflict (executor_id) do update set lease_expires_at = excluded.lease_expires_at,
              presence_key = excluded.presence_key, postgres_started_at = excluded.postgres_started_at",
                executor_id.0,
                host,
                i32::try_from(std::process::id()).unwrap_or(0),
                lease.as_secs_f64(),
                self.presence.key(),
            )
            .execute(&self.pool),
        )
        .await?;
        self.presence.note_executor(executor_id);
        Ok(())
    }

    /// A line of its own for renewals, so that they never wait for a free connection.
    pub fn lease_line(&self) -> LeaseLine {
        let presence = Arc::clone(&self.presence);
        let (options, pool) = (Arc::clone(&self.options), self.pool.clone());
        LeaseLine { options, pool, connection: None, presence, unseen: None }
    }

    /// The jobs that carry this executor's id, to compare with what it has in hand.
    pub async fn held_jobs(&self, executor_id: ExecutorId) -> Result<Vec<Held>, StoreError> {
        let rows = bounded(
            sqlx::query!(
                r#"-- held_jobs
            -- cross-shard: an executor holds jobs of every shard
            select job_id, epoch, attempt_id as "attempt_id!" from longhaul.job
            where executor_id = $1 and status = 'running'"#,
                executor_id.0,
            )
            .fetch_all(&self.pool),
        )
        .await?;
        let held = rows.into_iter().map(|row| {
            let attempt_id = AttemptId(row.attempt_id);
            let lease = Lease { executor_id, epoch: row.epoch, attempt_id };
            Held { key: JobKey::new(&row.job_id), lease }
        });
        Ok(held.collect())
    }

    /// Takes a stopping executor's row away; it holds nothing any more.
    pub async fn unregister_executor(&self, executor_id: ExecutorId) -> Result<(), StoreError> {
        bounded(
            sqlx::query!(
                "-- unregister_executor
            delete from longhaul.executor where executor_id = $1",
                executor_id.0,
            )
            .execute(&self.pool),
        )
        .await?;
        Ok(())
    }
}

/// A connection for renewals alone, made anew when it breaks; while it cannot be made, one of the pool has to do.
pub struct LeaseLine {
    options: Arc<PgConnectOptions>,
    pool: PgPool,
    connection: Option<PgConnection>,
    presence: Arc<Presence>,
    /// The key that Postgres did not see at the last renewal.
    unseen: Option<i32>,
}

impl LeaseLine {
    /// Renews a lease, also one that has expired and that nobody has taken; false if the executor was declared dead.
    ///
    /// The row names the lock of this process only if Postgres sees it there.
    /// Dropped in the middle, it leaves the connection unusable: make another line.
    pub async fn renew(
        &mut self,
        executor_id: ExecutorId,
        lease: Duration,
    ) -> Result<bool, StoreError> {
        let open = match self.connection.take() {
            Some(open) => Ok(open),
            None => self.options.connect().await,
        };
        let key = self.presence.key();
        let renewed = match open {
            Ok(mut connection) => {
                let renewed = renew_on(&mut connection, executor_id, lease, key).await?;
                self.connection = Some(connection);
                renewed
            }
            // There may be no room for another connection, where those of the pool still work.
            Err(error) => {
                let Ok(mut pooled) = self.pool.acquire().await else { return Err(error.into()) };
                renew_on(&mut pooled, executor_id, lease, key).await?
            }
        };
        // A session that ended a moment ago is known to Postgres sooner than here.
        let unseen = key.filter(|_| renewed == Some(None));
        if unseen.is_some() && unseen == self.unseen && key == self.presence.key() {
            self.presence.tell_unseen();
        }
        self.unseen = unseen;
        Ok(renewed.is_some())
    }
}

/// None if there is no such executor any more; else the key that its row now names.
async fn renew_on(
    connection: &mut PgConnection,
    executor_id: ExecutorId,
    lease: Duration,
    key: Option<i32>,
) -> Result<Option<Option<i32>>, sqlx::Error> {
    sqlx::query_scalar!(
        "-- renew_lease
        update longhaul.executor
        set lease_expires_at = longhaul.now() + make_interval(secs => $2), missing_since = null,
          presence_key = p.key,
          postgres_started_at = case when p.key is not null then longhaul.postgres_started_at() end
        from (select (select k from longhaul.present_keys() k where k = $3) as key) p
        where executor_id = $1
        returning presence_key",
        executor_id.0,
        lease.as_secs_f64(),
        key,
    )
    .fetch_optional(connection)
    .await
}
