//! Receipts: what a channel says of messages that it took, at least once each and in any order.
//!
//! In come the stages that messages have reached; each lifts its notice to that stage if it stood lower, and never lowers it:
//! sent, then failed, then delivered, then read. So duplicates and disorder change nothing.
//! A receipt also settles what its sender never learned, before or after that was judged.
//! Of a message that is unknown here nothing is kept: it belongs to somebody else, who uses the same number.

use chrono::{DateTime, Utc};
use serde::Serialize;
use uuid::Uuid;

use super::wake::Woken;
use super::{Store, StoreError, bounded};
use crate::domain::id::{JobKey, NoticeId};

/// What is told of one message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Receipt {
    /// The id the channel gave the message.
    pub message_id: String,
    /// The try that sent it, if the message named that.
    pub sent_by: Option<Try>,
    /// How far it has come.
    pub stage: Stage,
    /// When it came so far, by the channel's clock.
    pub at: Option<DateTime<Utc>>,
}

/// One try to send a notice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Try {
    /// The job.
    pub key: JobKey,
    /// The notice.
    pub notice_id: NoticeId,
    /// Which try, from 1.
    pub tries: i32,
}

/// How far a message has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The channel took it.
    Sent,
    /// The channel cannot deliver it.
    Failed { error: String },
    /// It is on the person's phone.
    Delivered,
    /// The person has seen it.
    Read,
}

/// A receipt as the statement reads it.
#[derive(Serialize)]
struct Row<'r> {
    shard: Option<i16>,
    job_id: Option<&'r str>,
    notice_id: Option<Uuid>,
    tries: Option<i32>,
    message_id: &'r str,
    /// 1 sent, 2 delivered, 3 read; 0 for a failure.
    rank: i32,
    error: Option<&'r str>,
    at: Option<DateTime<Utc>>,
}

impl<'r> From<&'r Receipt> for Row<'r> {
    fn from(receipt: &'r Receipt) -> Self {
        let (rank, error) = match &receipt.stage {
            Stage::Failed { error } => (0, Some(error.as_str())),
            Stage::Sent => (1, None),
            Stage::Delivered => (2, None),
            Stage::Read => (3, None),
        };
        let sent_by = receipt.sent_by.as_ref();
        Self {
            shard: sent_by.map(|one| one.key.shard()),
            job_id: sent_by.map(|one| one.key.job_id()),
            notice_id: sent_by.map(|one| one.notice_id.0),
            tries: sent_by.map(|one| one.tries),
            message_id: &receipt.message_id,
            rank,
            error,
            at: receipt.at,
        }
    }
}

impl Store {
    /// Records what a channel told; answers how many notices that changed.
    ///
    /// A failure counts only if it is that of the newest try: an earlier one says nothing of the message that followed it.
    /// The shape of the job does not matter here, so jobs of a newer release are told of as well.
    pub async fn record_receipts(&self, receipts: &[Receipt]) -> Result<usize, StoreError> {
        if receipts.is_empty() {
            return Ok(0);
        }
        let rows: Vec<Row<'_>> = receipts.iter().map(Row::from).collect();
        let changed = bounded(
            sqlx::query_scalar!(
                "-- record_receipts
                -- cross-shard: a body tells of messages of every shard
                with told as (
                  select t.* from jsonb_to_recordset($1) as t (shard smallint, job_id text, notice_id uuid,
                    tries integer, message_id text, rank integer, error text, at timestamptz)
                ), found as (
                  select o.shard, o.job_id, o.notice_id, t.tries, t.message_id, t.rank, t.error, t.at
                  from told t join longhaul.outbox o using (shard, job_id, notice_id)
                  union all
                  -- What does not name its notice is known by the id that the last try was given.
                  select o.shard, o.job_id, o.notice_id, o.tries, t.message_id, t.rank, t.error, t.at
                  from told t join longhaul.outbox o on o.provider_message_id = t.message_id
                  where t.notice_id is null
                ), heard as (
                  -- A body may tell of one notice several times.
                  select f.shard, f.job_id, f.notice_id, max(f.rank) as rank,
                    max(f.tries) filter (where f.rank = 0) as failed_try,
                    (array_agg(f.error order by f.tries desc) filter (where f.rank = 0))[1] as error,
                    min(coalesce(f.at, longhaul.now())) filter (where f.rank >= 2) as arrived_at,
                    (array_agg(f.message_id order by f.rank desc, f.tries desc))[1] as message_id
                  from found f group by f.shard, f.job_id, f.notice_id
                ), locked as (
                  -- In one order, so that two bodies never wait for each other.
                  select o.shard, o.job_id, o.notice_id
                  from longhaul.outbox o join heard h using (shard, job_id, notice_id)
                  order by o.shard, o.job_id, o.notice_id for update of o
                )
                update longhaul.outbox o set
                  delivery = case when h.rank < 2 and h.failed_try = o.tries then 'failed' else 'sent' end,
                  receipt = case h.rank when 2 then 'delivered' when 3 then 'read' end,
                  error = case when h.rank < 2 and h.failed_try = o.tries then h.error end,
                  provider_message_id = coalesce(o.provider_message_id, h.message_id),
                  arrived_at = least(o.arrived_at, h.arrived_at),
                  tokens = null, updated_at = longhaul.now()
                from heard h join locked l using (shard, job_id, notice_id)
                where o.shard = h.shard and o.job_id = h.job_id and o.notice_id = h.notice_id and (
                  h.rank > case when o.receipt = 'read' then 3 when o.receipt = 'delivered' then 2
                    when o.delivery in ('sent', 'failed') then 1 else 0 end
                  or (h.failed_try = o.tries and o.receipt is null
                    and o.delivery in ('pending', 'sending', 'sent', 'unconfirmed')))
                returning o.job_id",
                serde_json::json!(rows),
            )
            .fetch_all(&self.pool),
        )
        .await?;
        for job_id in &changed {
            // A notice that is settled lets the person's next one go.
            self.wake.job_changed(&JobKey::new(job_id), Woken { notices: true, work: false });
        }
        Ok(changed.len())
    }
}
