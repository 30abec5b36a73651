//! The outbox: notices are taken to be sent, and what became of them is recorded.
//!
//! Taking a notice commits `sending` before anything leaves; one recipient's notices go in order, one at a time,
//! and at a distance, for which the recipient's own row is taken first.
//! A request whose tokens are gone, since the message that had them did not arrive, gets new ones.

mod outgoing;

mod record;

use std::time::Duration;

use chrono::{DateTime, Utc};
use sqlx::PgConnection;
use uuid::Uuid;

use self::outgoing::Row;
pub use self::outgoing::{LinkTokens, Needs, Outgoing, Window};
pub use self::record::{Outcome, Sent};
use super::link::{keep_links, mint_links};
use super::{Store, StoreError, bounded, read_json};
use crate::domain::id::{ApprovalId, JobKey};
use crate::domain::spec;

/// How long a try may take before it counts as lost.
const GRACE_SECONDS: f64 = 60.0;

impl Store {
    /// The time by the only clock.
    pub async fn now(&self) -> Result<DateTime<Utc>, StoreError> {
        let now = sqlx::query_scalar!(
            r#"-- read_clock
            select longhaul.now() as "now!""#
        );
        bounded(now.fetch_one(&self.pool)).await
    }

    /// Takes up to so many notices that are due, the first of each recipient after this one, and marks them as being sent.
    ///
    /// It walks from person to person, so that a long queue of one is no way to go for the others.
    /// Who was taken is left alone for as long as `rest` says.
    pub async fn take_notices(
        &self,
        limit: i64,
        after: &str,
        rest: Duration,
    ) -> Result<Vec<Outgoing>, StoreError> {
        bounded(async {
            let mut tx = self.pool.begin().await?;
            let picked = pick(&mut tx, limit, after, rest).await?;
            if picked.is_empty() {
                return Ok(Vec::new());
            }
            let rows = take(&mut tx, &picked).await?;
            let mut notices = Vec::with_capacity(rows.len());
            for row in rows {
                let (key, notice_id) = (JobKey::new(&row.job_id), row.notice_id);
                match row.into_outgoing() {
                    Ok(mut notice) => {
                        if let Some(approval_id) = notice.approval_id
                            && notice.tokens.is_none()
                        {
                            notice.tokens = Some(renew_links(&mut tx, &notice, approval_id).await?);
                        }
                        notices.push(notice);
                    }
                    Err(error) => {
                        tracing::error!(%notice_id, %error, "could not read a notice; it is given up");
                        give_up_notice(&mut tx, &key, notice_id).await?;
                    }
                }
            }
            tx.commit().await?;
            Ok::<_, StoreError>(notices)
        })
        .await
    }
}

/// Finds notices that can be sent now, and leaves their people alone from now on.
async fn pick(
    tx: &mut PgConnection,
    limit: i64,
    after: &str,
    rest: Duration,
) -> Result<Vec<(String, Uuid)>, StoreError> {
    let picked = sqlx::query!(
        r#"-- pick_notices
        -- cross-shard: notices of all shards are in one index
        with recursive person as (
          (select o.recipient from longhaul.outbox o
           where o.delivery in ('pending', 'sending') and o.recipient > $3 order by o.recipient limit 1)
          union all
          select (select o.recipient from longhaul.outbox o
            where o.delivery in ('pending', 'sending') and o.recipient > p.recipient
            order by o.recipient limit 1)
          from person p where p.recipient is not null
        ), first as (
          select n.job_id, n.notice_id, p.recipient, w.next_at is null as is_new, $4::float8 as rest
          from (select longhaul.now() as now) c cross join person p
          -- The limits keep each look to the one row it is for, however many there are.
          left join lateral (
            select w.next_at from longhaul.recipient w where w.recipient = p.recipient limit 1
          ) w on true
          cross join lateral (
            select o.job_id, o.notice_id from longhaul.outbox o
            -- The notices of a newer release's job wait for a server that knows its shape.
            join longhaul.job j on j.shard = o.shard and j.job_id = o.job_id and j.spec_version <= $2
            -- One that waits to be tried again must not hold up what is new.
            where o.recipient = p.recipient and o.delivery = 'pending' and o.due_at <= c.now
              and not exists (select from longhaul.outbox s
                join longhaul.job k on k.shard = s.shard and k.job_id = s.job_id and k.spec_version <= $2
                where s.recipient = p.recipient and s.delivery = 'sending')
            order by o.created_at, o.notice_id limit 1
          ) n
          where coalesce(w.next_at <= c.now, true)
            -- Endpoints have senders of their own.
            and not starts_with(p.recipient, 'webhook:')
          limit $1
        ), free as (
          -- Two servers never write to one person at once.
          select r.recipient from longhaul.recipient r join first f using (recipient)
          where r.next_at <= longhaul.now() for update of r skip locked
        ), met as (
          insert into longhaul.recipient (recipient, next_at, written_at, created_at, updated_at)
          select f.recipient, longhaul.now() + make_interval(secs => f.rest), longhaul.now(), longhaul.now(), longhaul.now()
          from first f where f.is_new order by f.recipient
          on conflict (recipient) do nothing
          returning recipient
        ), rested as (
          update longhaul.recipient r set
            next_at = longhaul.now() + make_interval(secs => f.rest),
            written_at = longhaul.now(), updated_at = longhaul.now()
          from first f join free using (recipient) where r.recipient = f.recipient
        )
        select f.job_id, f.notice_id from first f
        where f.recipient in (select free.recipient from free union all select met.recipient from met)"#,
        limit,
        spec::VERSION,
        after,
        rest.as_secs_f64(),
    );
    let picked = picked.fetch_all(tx).await?;
    Ok(picked.into_iter().map(|one| (one.job_id, one.notice_id)).collect())
}

/// Marks these notices as being sent, and reads everything that they tell.
async fn take(tx: &mut PgConnection, picked: &[(String, Uuid)]) -> Result<Vec<Row>, StoreError> {
    let shards: Vec<i16> = picked.iter().map(|(job_id, _)| JobKey::new(job_id).shard()).collect();
    let (job_ids, notice_ids): (Vec<String>, Vec<Uuid>) = picked.iter().cloned().unzip();
    let rows = sqlx::query_as!(
        Row,
        r#"-- take_notices
        with picked as (
          select o.shard, o.job_id, o.notice_id
          from unnest($1::smallint[], $2::text[], $3::uuid[]) as p (shard, job_id, notice_id)
          join longhaul.outbox o using (shard, job_id, notice_id)
          where o.delivery = 'pending'
          for update of o skip locked
        ), taken as (
          update longhaul.outbox o set delivery = 'sending', tries = o.tries + 1,
            due_at = longhaul.now() + make_interval(secs => $4), updated_at = longhaul.now()
          from picked p
          where o.shard = p.shard and o.job_id = p.job_id and o.notice_id = p.notice_id
          returning o.shard, o.job_id, o.notice_id, o.kind, o.recipient, o.tries, o.tries_before, o.tokens, o.approval_id,
            o.needs, o.error, o.created_at
        )
        select t.job_id, t.notice_id, t.kind, t.recipient, t.tries, t.tries_before, t.tokens, t.approval_id, t.needs, t.error,
          to_jsonb(j) as "state!", s.spec, r.user_id as "user_id?",
          coalesce(r.closed_at <= r.last_inbound_at, r.closed_at is null) as "is_free!",
          -- An hour is left for what is on its way.
          coalesce(r.last_inbound_at > longhaul.now() - interval '23 hours', false) as "is_recent!",
          coalesce(r.closed_at >= t.created_at, false) as "was_closed!",
          (select left(c.output, 4000) from longhaul.checkpoint c
           where c.shard = t.shard and c.job_id = t.job_id and c.output is not null
             and (c.step < j.current_step or j.status = 'completed')
           order by c.step desc, c.revision desc limit 1) as output,
          (select coalesce(sum(m.cost_usd), 0) from longhaul.model_call m
           where m.shard = t.shard and m.job_id = t.job_id) as "cost_usd!",
          (select a.budget_usd from longhaul.allowance a
           where t.kind = 'daily_budget' and a.day = (t.created_at at time zone 'utc')::date) as daily_budget_usd,
          longhaul.now() as "now!"
        from taken t
        join longhaul.job j using (shard, job_id)
        join longhaul.job_spec s using (shard, job_id)
        left join longhaul.recipient r using (recipient)"#,
        &shards,
        &job_ids,
        &notice_ids,
        GRACE_SECONDS,
    );
    Ok(rows.fetch_all(tx).await?)
}

/// Gives a request that is to be sent again the links of its next message; those of the last one still work.
async fn renew_links(
    tx: &mut PgConnection,
    notice: &Outgoing,
    approval_id: ApprovalId,
) -> Result<LinkTokens, StoreError> {
    let mut links = Vec::new();
    let tokens = mint_links(&notice.key, approval_id, &notice.recipient, &[], &mut links);
    keep_links(tx, &notice.key, &links).await?;
    sqlx::query!(
        "-- renew_tokens
        update longhaul.outbox set tokens = $4 where shard = $1 and job_id = $2 and notice_id = $3",
        notice.key.shard(),
        notice.key.job_id(),
        notice.notice_id.0,
        tokens,
    )
    .execute(tx)
    .await?;
    read_json("outbox", tokens)
}

/// Ends a notice that cannot be read, so that it holds up no other.
pub(super) async fn give_up_notice(
    tx: &mut PgConnection,
    key: &JobKey,
    notice_id: Uuid,
) -> Result<(), StoreError> {
    sqlx::query!(
        "-- give_up_notice
        update longhaul.outbox set delivery = 'failed', tokens = null,
          error = 'it could not be read', updated_at = longhaul.now()
        where shard = $1 and job_id = $2 and notice_id = $3 and delivery = 'sending'",
        key.shard(),
        key.job_id(),
        notice_id,
    )
    .execute(tx)
    .await?;
    Ok(())
}
