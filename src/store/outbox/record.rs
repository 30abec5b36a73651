//! What became of a try, recorded as soon as it is known, and judged where nobody is left to know it.
//!
//! If the dispatcher dies in between, the grace time passes and the notice is judged:
//! an approval request is sent again, a terminal notice is not, since a person must not be told the end twice.

use std::time::Duration;

use super::{GRACE_SECONDS, Outgoing};
use crate::domain::event::Delivery;
use crate::domain::spec;
use crate::domain::word::Word as _;
use crate::store::approval::word;
use crate::store::transition::lock;
use crate::store::wake::Woken;
use crate::store::{Store, StoreError, bounded};

/// What became of a try, and what it showed of the person.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// What became of it.
    pub sent: Sent,
    /// For how long the person is to be left alone.
    pub rest: Duration,
    /// The channel said that we may not write to them freely.
    pub is_closed: bool,
}

/// What became of a try.
#[derive(Clone, Debug)]
pub enum Sent {
    /// The channel took it and gave it this id.
    Accepted { provider_message_id: String },
    /// It was not taken; try again after a while.
    Again { after: Duration, error: String },
    /// The channel takes nothing at present; that is no fault of the notice, so the try does not count.
    /// It waits from when it was taken, from which the channel counts as well.
    Held { after: Duration, error: String },
    /// It was not taken and never will be.
    Refused { error: String },
    /// Nobody knows whether it was taken.
    Ambiguous { error: String },
}

impl Store {
    /// Records what became of a try that was taken; one that has been judged meanwhile stays as judged.
    pub async fn record_notice(
        &self,
        notice: &Outgoing,
        outcome: &Outcome,
    ) -> Result<Delivery, StoreError> {
        let Outcome { sent, rest, is_closed } = outcome;
        let (delivery, after, message_id, error) = match sent {
            Sent::Accepted { provider_message_id } => {
                (Delivery::Sent, 0.0, Some(provider_message_id.as_str()), None)
            }
            Sent::Again { after, error } | Sent::Held { after, error } => {
                (Delivery::Pending, after.as_secs_f64(), None, Some(error.as_str()))
            }
            Sent::Refused { error } => (Delivery::Failed, 0.0, None, Some(error.as_str())),
            // A request is sent again after the grace time; an end is told at most once.
            Sent::Ambiguous { error } if notice.kind.asks() => {
                (Delivery::Pending, GRACE_SECONDS, None, Some(error.as_str()))
            }
            Sent::Ambiguous { error } => (Delivery::Unconfirmed, 0.0, None, Some(error.as_str())),
        };
        let mut tx = self.pool.begin().await?;
        // Whatever overtakes a notice holds this lock, so it is either seen below or sees what is written here.
        lock(&mut tx, &notice.key, None).await?;
        let delivery = sqlx::query_scalar!(
            "-- record_notice
            update longhaul.outbox o set
              delivery = case when $4 = 'pending' and g.is_overtaken then 'superseded' else $4 end,
              tokens = case when $4 = 'pending' and not g.is_overtaken then o.tokens end,
              tries = case when $9::timestamptz is null then o.tries else o.tries - 1 end,
              due_at = coalesce($9, longhaul.now()) + make_interval(secs => $5),
              provider_message_id = $6, error = $7, updated_at = longhaul.now()
            from (
              -- Was its approval decided, or the end it tells undone, while it was on its way?
              select longhaul.is_overtaken(n) as is_overtaken
              from longhaul.outbox n where n.shard = $1 and n.job_id = $2 and n.notice_id = $3
            ) g
            where o.shard = $1 and o.job_id = $2 and o.notice_id = $3
              and o.delivery = 'sending' and o.tries = $8
            returning o.delivery",
            notice.key.shard(),
            notice.key.job_id(),
            notice.notice_id.0,
            delivery.word(),
            after,
            message_id,
            error,
            notice.tries,
            matches!(sent, Sent::Held { .. }).then_some(notice.now),
        )
        .fetch_optional(&mut *tx)
        .await?
        .map_or(Ok(delivery), |word_of_row| word("outbox", &word_of_row))?;
        if *is_closed || !rest.is_zero() {
            sqlx::query!(
                "-- note_recipient
                update longhaul.recipient set
                  next_at = greatest(next_at, longhaul.now() + make_interval(secs => $2)),
                  closed_at = case when $3 then longhaul.now() else closed_at end, updated_at = longhaul.now()
                where recipient = $1",
                notice.recipient,
                rest.as_secs_f64(),
                is_closed,
            )
            .execute(&mut *tx)
            .await?;
        }
        tx.commit().await?;
        self.wake.job_changed(&notice.key, Woken { notices: true, work: false });
        Ok(delivery)
    }

    /// Says of each notice that waits for a channel why it waits; answers of how many it did not say that before.
    pub async fn explain_waiting(&self, error: &str) -> Result<u64, StoreError> {
        let explained = bounded(
            sqlx::query!(
                "-- explain_waiting
                -- cross-shard: due times of all shards are in one index
                update longhaul.outbox o set error = $1, updated_at = longhaul.now()
                from (
                  select n.shard, n.job_id, n.notice_id from longhaul.outbox n
                  where n.delivery = 'pending' and n.due_at <= longhaul.now() and n.error is distinct from $1
                    and not starts_with(n.recipient, 'webhook:')
                  order by n.due_at limit 1000 for update of n skip locked
                ) n
                where o.shard = n.shard and o.job_id = n.job_id and o.notice_id = n.notice_id",
                error,
            )
            .execute(&self.pool),
        )
        .await?;
        Ok(explained.rows_affected())
    }

    /// Judges the tries whose dispatcher died before it could record them; answers how many.
    pub async fn judge_lost_notices(&self) -> Result<u64, StoreError> {
        let judged = bounded(sqlx::query!(
            "-- judge_lost_notices
            -- cross-shard: due times of all shards are in one index
            update longhaul.outbox o set
              delivery = case when o.approval_id is null then 'unconfirmed'
                when n.is_open then 'pending' else 'superseded' end,
              tokens = case when n.is_open then o.tokens end,
              error = 'the sender died before it knew', due_at = longhaul.now(), updated_at = longhaul.now()
            from (
              -- The row of the job tells which approval is open, and its lock keeps a decision away meanwhile.
              select n.shard, n.job_id, n.notice_id,
                coalesce(j.approval_id = n.approval_id, false) as is_open
              from longhaul.outbox n join longhaul.job j using (shard, job_id)
              where n.delivery = 'sending' and n.due_at <= longhaul.now() and j.spec_version <= $1
                -- Endpoints know a notice that comes again by its id.
                and not starts_with(n.recipient, 'webhook:')
              order by n.due_at limit 100 for update of n, j skip locked
            ) n
            where o.shard = n.shard
              and o.job_id = n.job_id and o.notice_id = n.notice_id and o.delivery = 'sending'",
            spec::VERSION,
        )
        .execute(&self.pool))
        .await?;
        Ok(judged.rows_affected())
    }
}
