//! Gauges: how much is where, read in one statement from indexes that hold only what is not finished.

use super::{Store, StoreError, bounded};

/// How much is where, and how long the oldest of it has been there, in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Gauges {
    /// Jobs that can be claimed.
    pub queued: Waiting,
    /// Jobs that wait for their time.
    pub parked: i64,
    /// Jobs that are worked on.
    pub running: i64,
    /// Jobs that wait for a person.
    pub awaiting_approval: Waiting,
    /// Jobs that are held.
    pub paused: i64,
    /// Notices that have not been delivered.
    pub outbox: Waiting,
    /// The oldest transaction in this database that we may see, which keeps Postgres from cleaning up behind it.
    pub transaction_age_seconds: f64,
}

/// How many wait, and how long the oldest has.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Waiting {
    /// How many.
    pub count: i64,
    /// How long the oldest of them has waited; zero if there is none.
    pub age_seconds: f64,
}

impl Store {
    /// How much is where, now.
    pub async fn gauges(&self) -> Result<Gauges, StoreError> {
        let row = bounded(
            sqlx::query!(
                r#"-- gauges
                -- cross-shard: it counts the jobs of every shard
                select q.count as "queued!", p.count as "parked!", r.count as "running!",
                  a.count as "awaiting_approval!", h.count as "paused!", o.count as "outbox!",
                  coalesce(extract(epoch from longhaul.now() - q.since), 0)::float8 as "queued_age!",
                  coalesce(extract(epoch from longhaul.now() - a.since), 0)::float8 as "approval_age!",
                  coalesce(extract(epoch from longhaul.now() - o.since), 0)::float8 as "outbox_age!",
                  coalesce(extract(epoch from statement_timestamp() - t.since), 0)::float8 as "transaction_age!"
                from
                  -- A job can be claimed from when it last changed.
                  (select count(*), min(updated_at) as since from longhaul.job
                   where status = 'queued' and run_at is null) q,
                  (select count(*) from longhaul.job where status = 'queued' and run_at is not null) p,
                  (select count(*) from longhaul.job where status = 'running') r,
                  -- An approval step is begun when it is asked.
                  (select count(*), min(step_started_at) as since from longhaul.job
                   where status = 'awaiting_approval') a,
                  (select count(*) from longhaul.job where status = 'paused') h,
                  (select count(*), min(created_at) as since from longhaul.outbox
                   where delivery in ('pending', 'sending')) o,
                  (select min(xact_start) as since from pg_stat_activity
                   where datname = current_database() and pid <> pg_backend_pid()) t"#,
            )
            .fetch_one(&self.pool),
        )
        .await?;
        let waiting = |count, age: f64| Waiting { count, age_seconds: age.max(0.0) };
        Ok(Gauges {
            queued: waiting(row.queued, row.queued_age),
            parked: row.parked,
            running: row.running,
            awaiting_approval: waiting(row.awaiting_approval, row.approval_age),
            paused: row.paused,
            outbox: waiting(row.outbox, row.outbox_age),
            transaction_age_seconds: row.transaction_age.max(0.0),
        })
    }
}
