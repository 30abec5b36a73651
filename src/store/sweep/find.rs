//! Finding: the rows that a sweep is for, locked, with what their transition depends on besides.
//!
//! Every condition stands on the locked row itself, so that it is judged again if the row changed before the lock.

use chrono::{DateTime, Utc};
use serde_json::Value;
use sqlx::PgConnection;

use super::super::StoreError;
use crate::domain::spec;

/// A row a sweep found, not yet read: a bad one must not spoil the batch.
pub(super) struct Found {
    pub(super) job_id: String,
    pub(super) state: Value,
    pub(super) spec: Value,
    pub(super) now: DateTime<Utc>,
    /// Whether a message that asks its approval is known to have reached somebody.
    pub(super) delivered: bool,
    /// Who has been asked to decide its approval.
    pub(super) asked: Vec<String>,
    /// Those of them who are not reminded.
    pub(super) spared: Vec<String>,
}

pub(super) async fn due(tx: &mut PgConnection, limit: i64) -> Result<Vec<Found>, StoreError> {
    let found = sqlx::query_as!(
        Found,
        r#"-- find_due
        -- cross-shard: due times of all shards are in one index
        select j.job_id, to_jsonb(j) as "state!", s.spec, longhaul.now() as "now!", false as "delivered!",
          '{}'::text[] as "asked!", '{}'::text[] as "spared!"
        from longhaul.job j join longhaul.job_spec s using (shard, job_id)
        where j.status = 'queued' and j.run_at <= longhaul.now() and j.spec_version <= $2
        order by j.run_at limit $1
        for update of j skip locked"#,
        limit,
        spec::VERSION,
    );
    Ok(found.fetch_all(tx).await?)
}

pub(super) async fn lost(tx: &mut PgConnection, limit: i64) -> Result<Vec<Found>, StoreError> {
    let found = sqlx::query_as!(
        Found,
        r#"-- find_lost
        -- cross-shard: an executor holds jobs of every shard
        select j.job_id, to_jsonb(j) as "state!", s.spec, longhaul.now() as "now!", false as "delivered!",
          '{}'::text[] as "asked!", '{}'::text[] as "spared!"
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

pub(super) async fn overdue(tx: &mut PgConnection, limit: i64) -> Result<Vec<Found>, StoreError> {
    let found = sqlx::query_as!(
        Found,
        r#"-- find_overdue
        -- cross-shard: deadlines of all shards are in one index
        select j.job_id, to_jsonb(j) as "state!", s.spec, longhaul.now() as "now!",
          exists (select from longhaul.outbox o
            where o.shard = j.shard and o.job_id = j.job_id and o.approval_id = j.approval_id
              and (o.receipt is not null or (o.delivery = 'sent' and starts_with(o.recipient, 'webhook:')))) as "delivered!",
          '{}'::text[] as "asked!", '{}'::text[] as "spared!"
        from longhaul.job j join longhaul.job_spec s using (shard, job_id)
        where j.status = 'awaiting_approval' and j.deadline_at <= longhaul.now() and j.spec_version <= $2
        order by j.deadline_at limit $1
        for update of j skip locked"#,
        limit,
        spec::VERSION,
    );
    Ok(found.fetch_all(tx).await?)
}

pub(super) async fn reminders(tx: &mut PgConnection, limit: i64) -> Result<Vec<Found>, StoreError> {
    let found = sqlx::query_as!(
        Found,
        r#"-- find_reminders
        -- cross-shard: due times of all shards are in one index
        select j.job_id, to_jsonb(j) as "state!", s.spec, longhaul.now() as "now!", false as "delivered!",
          (select coalesce(a.approvers, array(select distinct l.approver from longhaul.approval_link l
              where l.shard = a.shard and l.job_id = a.job_id and l.approval_id = a.approval_id))
            from longhaul.approval a
            where a.shard = j.shard and a.job_id = j.job_id and a.approval_id = j.approval_id) as "asked!",
          array(
            select d.voter from longhaul.decision d
            where d.shard = j.shard and d.job_id = j.job_id and d.approval_id = j.approval_id
            union
            select o.recipient from longhaul.outbox o
            where o.shard = j.shard and o.job_id = j.job_id and o.approval_id = j.approval_id
              and o.delivery in ('pending', 'sending')) as "spared!"
        from longhaul.job j join longhaul.job_spec s using (shard, job_id)
        where j.status = 'awaiting_approval' and j.run_at <= longhaul.now() and j.deadline_at > longhaul.now()
          and j.spec_version <= $2
        order by j.run_at limit $1
        for update of j skip locked"#,
        limit,
        spec::VERSION,
    );
    Ok(found.fetch_all(tx).await?)
}
