//! What people and endpoints were told, listed, and told again where it did not arrive.
//!
//! A notice that failed, or of which nobody knows, stays as it is until somebody has it sent again; one that was
//! overtaken meanwhile is refused. An approval request gets fresh links then, since those it had are dropped.
//! Ids of notices begin with their time, so they are also the order of the list.

use chrono::{DateTime, Utc};
use sqlx::PgConnection;
use uuid::Uuid;

use super::approval::word;
use super::job::NoticeView;
use super::link::{keep_links, mint_links};
use super::transition::{Locked, lock};
use super::wake::Woken;
use super::{Store, StoreError, bounded, retried};
use crate::domain::book::find_endpoint;
use crate::domain::event::{Delivery, NoticeKind};
use crate::domain::id::{ApprovalId, JobKey, NoticeId};
use crate::domain::spec::Work;
use crate::domain::word::Word;

/// Which notices; everything that is set must match.
#[derive(Clone, Debug, Default)]
pub struct NoticeSelector {
    /// Of this job.
    pub job_id: Option<String>,
    /// Any of these; none means any.
    pub deliveries: Vec<Delivery>,
    /// Any of these; none means any.
    pub kinds: Vec<NoticeKind>,
    /// To this person or endpoint, as the outbox names them.
    pub recipient: Option<String>,
}

/// A notice and its job.
#[derive(Clone, Debug)]
pub struct ListedNotice {
    /// The job.
    pub key: JobKey,
    /// The notice.
    pub notice: NoticeView,
}

impl Store {
    /// Up to so many notices before one, the newest first.
    pub async fn list_notices(
        &self,
        selector: &NoticeSelector,
        before: Option<NoticeId>,
        limit: i64,
    ) -> Result<Vec<ListedNotice>, StoreError> {
        let words: Vec<String> = selector.deliveries.iter().map(Word::word).collect();
        let kinds: Vec<String> = selector.kinds.iter().map(Word::word).collect();
        let key = selector.job_id.as_deref().map(JobKey::new);
        let mut tx = self.pool.begin().await?;
        // Which index serves best depends on what is asked for.
        sqlx::query!("-- plan_for_these_notices\nset local plan_cache_mode = force_custom_plan")
            .execute(&mut *tx)
            .await?;
        let rows = sqlx::query_as!(
            Row,
            r#"-- list_notices
            -- cross-shard: without a job it shows notices of every shard
            with chosen as (
              (select o.* from longhaul.outbox o
               where o.delivery in ('pending', 'sending') and o.delivery = any($1) and coalesce(o.receipt, o.delivery) = any($2)
                 and ($3::text[] = '{}' or o.kind = any($3)) and ($4::text is null or o.recipient = $4)
                 and ($5::smallint is null or o.shard = $5) and ($6::text is null or o.job_id = $6)
                 and ($7::uuid is null or o.notice_id < $7)
               order by o.notice_id desc limit $8)
              union all
              (select o.* from longhaul.outbox o
               where o.delivery not in ('pending', 'sending') and o.delivery = any($1) and coalesce(o.receipt, o.delivery) = any($2)
                 and ($3::text[] = '{}' or o.kind = any($3)) and ($4::text is null or o.recipient = $4)
                 and ($5::smallint is null or o.shard = $5) and ($6::text is null or o.job_id = $6)
                 and ($7::uuid is null or o.notice_id < $7)
               order by o.notice_id desc limit $8)
            )
            select c.job_id as "job_id!", c.notice_id as "notice_id!", c.recipient as "recipient!", c.kind as "kind!",
              coalesce(c.receipt, c.delivery) as "delivery!", c.error, c.tries as "tries!",
              c.created_at as "created_at!", c.updated_at as "updated_at!"
            from chosen c order by c.notice_id desc limit $8"#,
            &stored_words(&selector.deliveries),
            &shown_words(words),
            &kinds,
            selector.recipient,
            key.as_ref().map(JobKey::shard),
            key.as_ref().map(JobKey::job_id),
            before.map(|notice_id| notice_id.0),
            limit,
        )
        .fetch_all(&mut *tx)
        .await?;
        tx.commit().await?;
        rows.into_iter().map(Row::into_listed).collect()
    }

    /// The notices of one job, the oldest first, up to so many as a job shows.
    pub async fn notices_of(&self, key: &JobKey) -> Result<Vec<NoticeView>, StoreError> {
        let rows = bounded(
            sqlx::query_as!(
                Row,
                r#"-- notices_of
                select o.job_id, o.notice_id, o.recipient, o.kind, coalesce(o.receipt, o.delivery) as "delivery!",
                  o.error, o.tries, o.created_at, o.updated_at
                from longhaul.outbox o where o.shard = $1 and o.job_id = $2 order by o.notice_id limit 500"#,
                key.shard(),
                key.job_id(),
            )
            .fetch_all(&self.pool),
        )
        .await?;
        rows.into_iter().map(|row| row.into_listed().map(|listed| listed.notice)).collect()
    }

    /// Has a notice sent again that failed or is unconfirmed; answers it, and whether that changed anything.
    pub async fn resend_notice(
        &self,
        notice_id: NoticeId,
    ) -> Result<(ListedNotice, bool), StoreError> {
        let found = bounded(
            sqlx::query_scalar!(
                r#"-- find_notice
                -- cross-shard: an id says nothing of its shard
                select o.job_id as "job_id!" from longhaul.outbox o
                where o.notice_id = $1 and o.delivery not in ('pending', 'sending')
                union all
                select o.job_id from longhaul.outbox o
                where o.notice_id = $1 and o.delivery in ('pending', 'sending')"#,
                notice_id.0,
            )
            .fetch_optional(&self.pool),
        )
        .await?;
        let job_id = found.ok_or(StoreError::NoticeNotFound { notice_id })?;
        let key = JobKey::new(&job_id);
        let resent = retried(|| self.resend_once(&key, notice_id)).await?;
        if resent.1 {
            self.wake.job_changed(&key, Woken { notices: true, work: false });
        }
        Ok(resent)
    }

    async fn resend_once(
        &self,
        key: &JobKey,
        notice_id: NoticeId,
    ) -> Result<(ListedNotice, bool), StoreError> {
        let mut tx = self.pool.begin().await?;
        // What overtakes a notice holds this lock.
        let job = lock(&mut tx, key, None).await?;
        let dead = read_dead(&mut tx, key, notice_id).await?;
        let shown = dead.row.into_listed()?;
        let kept = |why| StoreError::NoticeKept { notice_id, delivery: shown.notice.delivery, why };
        match shown.notice.delivery {
            Delivery::Failed | Delivery::Unconfirmed => {}
            Delivery::Pending | Delivery::Sending => return Ok((shown, false)),
            Delivery::Sent | Delivery::Delivered | Delivery::Read => {
                return Err(kept("it was sent"));
            }
            Delivery::Superseded => return Err(kept("it was overtaken by events")),
        }
        if dead.is_overtaken {
            return Err(kept("it was overtaken by events"));
        }
        let mut links = Vec::new();
        let tokens = dead.approval.map(|(approval_id, step)| {
            let asked = approvers(&job, step);
            let approvers = dead.approvers.as_deref().unwrap_or(asked);
            mint_links(key, approval_id, &shown.notice.recipient, approvers, &mut links)
        });
        let is_endpoint = find_endpoint(&shown.notice.recipient).is_some();
        keep_links(&mut tx, key, &links).await?;
        let row = sqlx::query_as!(
            Row,
            r#"-- resend_notice
            update longhaul.outbox o set delivery = 'pending', error = null, receipt = null, is_told = false,
              provider_message_id = null, needs = null, failed_try = null, tokens = $4, due_at = longhaul.now(),
              updated_at = longhaul.now(),
              -- A channel may still tell of an earlier try, which must not be taken for a new one; an endpoint never does.
              tries = case when $5 then 0 else o.tries end, tries_before = case when $5 then 0 else o.tries end
            where o.shard = $1 and o.job_id = $2 and o.notice_id = $3
            returning o.job_id, o.notice_id, o.recipient, o.kind, o.delivery, o.error, o.tries, o.created_at, o.updated_at"#,
            key.shard(),
            key.job_id(),
            notice_id.0,
            tokens,
            is_endpoint,
        )
        .fetch_one(&mut *tx)
        .await?;
        let resent = row.into_listed()?;
        tx.commit().await?;
        Ok((resent, true))
    }
}

/// A notice that is to be sent again.
struct Dead {
    row: Row,
    /// The approval it asks for, and its step.
    approval: Option<(ApprovalId, i32)>,
    /// In whose names alone an endpoint is asked.
    approvers: Option<Vec<String>>,
    is_overtaken: bool,
}

async fn read_dead(
    tx: &mut PgConnection,
    key: &JobKey,
    notice_id: NoticeId,
) -> Result<Dead, StoreError> {
    let row = sqlx::query!(
        r#"-- read_dead_notice
        select o.recipient, o.kind, coalesce(o.receipt, o.delivery) as "delivery!", o.error, o.tries, o.created_at,
          o.updated_at, o.approval_id, o.approvers, a.step as "step?",
          longhaul.is_overtaken(o) as "is_overtaken!"
        from longhaul.outbox o
        left join longhaul.approval a on a.shard = o.shard and a.job_id = o.job_id and a.approval_id = o.approval_id
        where o.shard = $1 and o.job_id = $2 and o.notice_id = $3
        for update of o"#,
        key.shard(),
        key.job_id(),
        notice_id.0,
    )
    .fetch_optional(tx)
    .await?
    .ok_or(StoreError::NoticeNotFound { notice_id })?;
    let approval = row.approval_id.map(ApprovalId).zip(row.step);
    let (is_overtaken, approvers) = (row.is_overtaken, row.approvers);
    let row = Row {
        job_id: key.job_id().to_owned(),
        notice_id: notice_id.0,
        recipient: row.recipient,
        kind: row.kind,
        delivery: row.delivery,
        error: row.error,
        tries: row.tries,
        created_at: row.created_at,
        updated_at: row.updated_at,
    };
    Ok(Dead { row, approval, approvers, is_overtaken })
}

fn approvers(job: &Locked, step: i32) -> &[String] {
    match job.spec.find_step(step).map(|step| &step.work) {
        Some(Work::Approval(approval)) => &approval.approvers,
        Some(Work::Run(_) | Work::Wait(_)) | None => &[],
    }
}

const DELIVERIES: [Delivery; 8] = [
    Delivery::Pending,
    Delivery::Sending,
    Delivery::Sent,
    Delivery::Failed,
    Delivery::Superseded,
    Delivery::Unconfirmed,
    Delivery::Delivered,
    Delivery::Read,
];

/// What stands in the column for these; that of a receipt is another one. None means any.
fn stored_words(deliveries: &[Delivery]) -> Vec<String> {
    let deliveries = if deliveries.is_empty() { &DELIVERIES[..] } else { deliveries };
    let stored = deliveries.iter().map(|delivery| match delivery {
        Delivery::Delivered | Delivery::Read => Delivery::Sent,
        Delivery::Pending
        | Delivery::Sending
        | Delivery::Sent
        | Delivery::Failed
        | Delivery::Superseded
        | Delivery::Unconfirmed => *delivery,
    });
    stored.map(|delivery| delivery.word()).collect()
}

fn shown_words(words: Vec<String>) -> Vec<String> {
    if words.is_empty() { DELIVERIES.iter().map(Word::word).collect() } else { words }
}

/// A notice as it is listed.
struct Row {
    job_id: String,
    notice_id: Uuid,
    recipient: String,
    kind: String,
    delivery: String,
    error: Option<String>,
    tries: i32,
    created_at: DateTime<Utc>,
    updated_at: DateTime<Utc>,
}

impl Row {
    fn into_listed(self) -> Result<ListedNotice, StoreError> {
        let notice = NoticeView {
            notice_id: Some(NoticeId(self.notice_id)),
            recipient: self.recipient,
            kind: word("outbox", &self.kind)?,
            delivery: word("outbox", &self.delivery)?,
            error: self.error,
            tries: self.tries,
            created_at: self.created_at,
            updated_at: self.updated_at,
        };
        Ok(ListedNotice { key: JobKey::new(&self.job_id), notice })
    }
}
