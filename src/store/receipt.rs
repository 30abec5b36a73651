//! Receipts: what a channel says of messages that it took, at least once each and in any order.
//!
//! In come the stages that messages have reached; each lifts its notice to that stage if it stood lower, and never lowers it:
//! sent, then failed, then delivered, then read. So duplicates and disorder change nothing.
//! A failure says that nothing has arrived, so where that passes, or another form may arrive, the notice is sent again.
//! A receipt also settles what its sender never learned, before or after that was judged.
//! Of a message that is unknown here nothing is kept: it belongs to somebody else, who uses the same number.

use chrono::{DateTime, Utc};
use serde::Serialize;
use sqlx::PgConnection;
use uuid::Uuid;

use super::link::{keep_links, mint_links};
use super::outbox::Needs;
use super::wake::Woken;
use super::{Store, StoreError, bounded, retried};
use crate::domain::event::Delivery;
use crate::domain::id::{ApprovalId, JobKey, NoticeId};
use crate::domain::word::Word as _;

/// How often a notice is tried; with the back-off that is more than a day and a half.
pub const TRIES_MAX: i32 = 50;

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
    Failed { error: String, next: Next },
    /// It is on the person's phone.
    Delivered,
    /// The person has seen it.
    Read,
}

/// What is to follow a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Nothing: it will never arrive.
    GiveUp,
    /// The same once more, later.
    Later,
    /// The same in a form that arrives where the person may not be written to freely, which the channel said of them.
    Closed,
    /// The same in another form.
    As(Needs),
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
            Stage::Failed { error, .. } => (0, Some(error.as_str())),
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
        let (failed, rest): (Vec<&Receipt>, Vec<&Receipt>) =
            receipts.iter().partition(|receipt| receipt.repeats().is_some());
        // What has arrived after all is not sent again.
        let mut changed = self.lift(&rest).await?;
        for receipt in failed {
            let again = retried(|| self.send_again(receipt)).await?;
            changed += usize::from(again);
        }
        Ok(changed)
    }

    async fn lift(&self, receipts: &[&Receipt]) -> Result<usize, StoreError> {
        if receipts.is_empty() {
            return Ok(0);
        }
        let rows: Vec<Row<'_>> = receipts.iter().map(|receipt| Row::from(*receipt)).collect();
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
                    max(f.tries) filter (where f.rank = 1) as sent_try,
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
                where o.shard = h.shard and o.job_id = h.job_id and o.notice_id = h.notice_id
                  -- That it was taken is no news of a try that failed after it.
                  and (h.rank <> 1 or h.sent_try > coalesce(o.failed_try, 0)) and (
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

    /// Lets a notice wait to be sent again whose newest try failed in a way that need not be the last; false if that is no news.
    async fn send_again(&self, receipt: &Receipt) -> Result<bool, StoreError> {
        let Some((error, next)) = receipt.repeats() else { return Ok(false) };
        let mut tx = self.pool.begin().await?;
        let Some((key, notice_id, tries)) = find_notice(&mut tx, receipt).await? else {
            return Ok(false);
        };
        // Whatever overtakes a notice holds this lock, so it is either seen below or sees what is written here.
        sqlx::query!(
            "-- lock_job_of_receipt
            select from longhaul.job where shard = $1 and job_id = $2 for update",
            key.shard(),
            key.job_id(),
        )
        .fetch_optional(&mut *tx)
        .await?;
        let Some(failed) = read_failed(&mut tx, &key, notice_id, tries).await? else {
            return Ok(false);
        };
        let delivery = failed.delivery();
        // The message that had its links did not arrive; those links still work, but nobody knows their tokens any more.
        let mut links = Vec::new();
        let asked = failed.approval_id.filter(|_| delivery == Delivery::Pending).map(ApprovalId);
        let approvers = failed.approvers.as_deref().unwrap_or_default();
        let tokens = asked.map(|id| mint_links(&key, id, &failed.recipient, approvers, &mut links));
        keep_links(&mut tx, &key, &links).await?;
        let needs = match next {
            Next::As(needs) => Some(needs.word()),
            Next::GiveUp | Next::Later | Next::Closed => None,
        };
        sqlx::query!(
            "-- send_notice_again
            update longhaul.outbox o set delivery = $4, tokens = $5,
              -- What failed in the form that it is to have next would fail the same way at once.
              due_at = longhaul.now() + make_interval(secs => case when $6 or o.needs = $7 then
                greatest(60, least(3600, power(4, least(o.tries - o.tries_before, 7) - 1))) else 0 end),
              failed_try = o.tries, needs = coalesce($7, o.needs), error = $8, provider_message_id = null,
              updated_at = longhaul.now()
            where o.shard = $1 and o.job_id = $2 and o.notice_id = $3",
            key.shard(),
            key.job_id(),
            notice_id,
            delivery.word(),
            tokens,
            next == Next::Later,
            needs,
            error,
        )
        .execute(&mut *tx)
        .await?;
        if delivery == Delivery::Pending {
            keep_from_release_before(&mut tx, &key, notice_id).await?;
        }
        if next == Next::Closed {
            sqlx::query!(
                "-- close_window
                update longhaul.recipient set closed_at = longhaul.now(), updated_at = longhaul.now()
                where recipient = $1",
                failed.recipient,
            )
            .execute(&mut *tx)
            .await?;
        }
        tx.commit().await?;
        self.wake.job_changed(&key, Woken { notices: true, work: false });
        Ok(true)
    }
}

impl Receipt {
    /// Why it failed and what follows, if something does.
    fn repeats(&self) -> Option<(&str, Next)> {
        match &self.stage {
            Stage::Failed { next: Next::GiveUp, .. }
            | Stage::Sent
            | Stage::Delivered
            | Stage::Read => None,
            Stage::Failed { error, next } => Some((error, *next)),
        }
    }
}

/// A notice whose newest try failed.
struct Failed {
    recipient: String,
    approval_id: Option<Uuid>,
    approvers: Option<Vec<String>>,
    is_last: bool,
    is_overtaken: bool,
}

impl Failed {
    /// How it stands from now on.
    fn delivery(&self) -> Delivery {
        match (self.is_overtaken, self.is_last) {
            (true, _) => Delivery::Superseded,
            (false, true) => Delivery::Failed,
            (false, false) => Delivery::Pending,
        }
    }
}

/// Reads and locks a notice whose newest try this is; `None` if its failure is no news.
async fn read_failed(
    tx: &mut PgConnection,
    key: &JobKey,
    notice_id: Uuid,
    tries: i32,
) -> Result<Option<Failed>, StoreError> {
    let failed = sqlx::query_as!(
        Failed,
        r#"-- read_failed_notice
        select o.recipient, o.approval_id, o.approvers, o.tries - o.tries_before >= $5 as "is_last!",
          longhaul.is_overtaken(o) as "is_overtaken!"
        from longhaul.outbox o
        where o.shard = $1 and o.job_id = $2 and o.notice_id = $3 and o.tries = $4
          and o.failed_try is distinct from o.tries and o.receipt is null
          and o.delivery in ('pending', 'sending', 'sent', 'unconfirmed')
        for update of o"#,
        key.shard(),
        key.job_id(),
        notice_id,
        tries,
        TRIES_MAX,
    );
    Ok(failed.fetch_optional(tx).await?)
}

/// Leaves a notice to servers of this release, which know the form that it must have.
///
/// One of the release before that is sending another of the job's notices must still be able to record that,
/// and one that has the job in hand, to go on.
async fn keep_from_release_before(
    tx: &mut PgConnection,
    key: &JobKey,
    notice_id: Uuid,
) -> Result<(), StoreError> {
    sqlx::query!(
        "-- raise_spec_version_of_notice
        update longhaul.job j set spec_version = 4
        where j.shard = $1 and j.job_id = $2 and j.spec_version < 4 and j.status <> 'running'
          and not exists (select from longhaul.outbox s where s.shard = $1 and s.job_id = $2
            and s.notice_id <> $3 and s.delivery = 'sending')",
        key.shard(),
        key.job_id(),
        notice_id,
    )
    .execute(tx)
    .await?;
    Ok(())
}

/// The notice that a receipt is about, and the try.
async fn find_notice(
    tx: &mut PgConnection,
    receipt: &Receipt,
) -> Result<Option<(JobKey, Uuid, i32)>, StoreError> {
    if let Some(sent_by) = &receipt.sent_by {
        return Ok(Some((sent_by.key.clone(), sent_by.notice_id.0, sent_by.tries)));
    }
    let found = sqlx::query!(
        "-- find_notice_of_message
        -- cross-shard: the id of a message does not tell the shard
        select job_id, notice_id, tries from longhaul.outbox where provider_message_id = $1 limit 1",
        receipt.message_id,
    )
    .fetch_optional(tx)
    .await?;
    Ok(found.map(|found| (JobKey::new(&found.job_id), found.notice_id, found.tries)))
}
