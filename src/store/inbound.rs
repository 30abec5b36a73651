//! What people wrote: kept before Meta is told that it arrived, taken to be handled, and closed before it is answered.
//!
//! A message is known by Meta's id, so one that comes again changes nothing.
//! What a message was found to decide is written before the decision, which is the same however often it is made;
//! so whoever dies in the middle leaves a message that the next try handles to the same end, and nobody is answered twice.

pub mod pending;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use super::approval::word;
use super::{Store, StoreError, bounded};
use crate::domain::approval::Verdict;
use crate::domain::id::{ApprovalId, JobKey};
use crate::domain::word::Word;

/// How long a try to handle a message may take before it counts as lost.
const GRACE_SECONDS: f64 = 30.0;
/// How long a handled message is kept: much longer than Meta repeats one.
const KEPT_DAYS: i32 = 30;

/// A message of a person, as it arrived.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Inbound {
    /// Meta's id of it.
    pub message_id: String,
    /// Who wrote: a number in E.164, or else Meta's id of the person.
    pub sender: String,
    /// Meta's id of the person, if it was told.
    pub user_id: Option<String>,
    /// Meta's id of the number that they wrote to.
    pub written_to: Option<String>,
    /// What came.
    pub kind: InboundKind,
    /// The beginning of the text, or what the button stands for.
    pub content: Option<String>,
    /// The message that it answers, if it names one.
    pub context_id: Option<String>,
    /// When the person sent it.
    pub sent_at: Option<DateTime<Utc>>,
}

/// What came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InboundKind {
    /// A text.
    Text,
    /// A tap on a button.
    Button,
    /// What says nothing here, such as a picture.
    Other,
}

impl Word for InboundKind {}

/// A message that is to be handled now.
#[derive(Clone, Debug)]
pub struct Taken {
    /// The message.
    pub message: Inbound,
    /// Which try this is, from 1.
    pub tries: i32,
    /// What an earlier try found it to decide.
    pub meant: Option<Meant>,
}

/// What a message decides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Meant {
    /// The job.
    pub key: JobKey,
    /// The approval.
    pub approval_id: ApprovalId,
    /// The sender as the approval names them.
    pub approver: String,
    /// What is decided.
    pub verdict: Verdict,
}

/// What became of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AnswerSent {
    /// The channel took it.
    Sent,
    /// The channel did not take it.
    Failed,
    /// Nobody knows.
    Unconfirmed,
}

impl Word for AnswerSent {}

impl Store {
    /// Keeps messages, each once; answers how many are new. Whoever handles them is woken.
    pub async fn keep_inbound(&self, messages: &[Inbound]) -> Result<u64, StoreError> {
        if messages.is_empty() {
            return Ok(0);
        }
        let kept = bounded(
            sqlx::query!(
                "-- keep_inbound
                insert into longhaul.inbound (message_id, sender, user_id, written_to, kind, content, context_id,
                  sent_at, received_at, due_at)
                select t.message_id, t.sender, t.user_id, t.written_to, t.kind, t.content, t.context_id,
                  t.sent_at, longhaul.now(), longhaul.now()
                from jsonb_to_recordset($1) as t (message_id text, sender text, user_id text, written_to text, kind text,
                  content text, context_id text, sent_at timestamptz)
                on conflict (message_id) do nothing",
                serde_json::json!(messages),
            )
            .execute(&self.pool),
        )
        .await?
        .rows_affected();
        if kept > 0 {
            self.wake.inbound.notify_one();
        }
        Ok(kept)
    }

    /// Takes up to so many messages that are due, the oldest of each sender: the next one waits until it is handled.
    pub async fn take_inbound(&self, limit: i64) -> Result<Vec<Taken>, StoreError> {
        let rows = bounded(
            sqlx::query_as!(
                Row,
                "-- take_inbound
                with recursive writer as (
                  (select i.sender from longhaul.inbound i where i.handled_at is null order by i.sender limit 1)
                  union all
                  select (select i.sender from longhaul.inbound i
                    where i.handled_at is null and i.sender > w.sender order by i.sender limit 1)
                  from writer w where w.sender is not null
                ), first as (
                  select n.message_id from writer w cross join lateral (
                    select i.message_id, i.due_at from longhaul.inbound i
                    where i.handled_at is null and i.sender = w.sender
                    order by i.received_at, i.sent_at, i.message_id limit 1
                  ) n
                  where n.due_at <= longhaul.now() limit $1
                ), picked as (
                  select i.message_id from longhaul.inbound i join first f using (message_id)
                  where i.handled_at is null and i.due_at <= longhaul.now()
                  for update of i skip locked
                )
                update longhaul.inbound i set tries = i.tries + 1,
                  due_at = longhaul.now() + make_interval(secs => $2)
                from picked p where i.message_id = p.message_id
                returning i.message_id, i.sender, i.user_id, i.written_to, i.kind, i.content, i.context_id, i.sent_at,
                  i.tries, i.job_id, i.approval_id, i.approver, i.verdict",
                limit,
                GRACE_SECONDS,
            )
            .fetch_all(&self.pool),
        )
        .await?;
        rows.into_iter().map(Row::into_taken).collect()
    }

    /// Which of these names we have ever written to.
    ///
    /// Who only wrote to us has a row too.
    pub async fn names_written_to(&self, names: &[String]) -> Result<Vec<String>, StoreError> {
        let found = sqlx::query_scalar!(
            "-- names_written_to
            select r.recipient from longhaul.recipient r
            where r.recipient = any($1) and r.written_at is not null",
            names,
        );
        bounded(found.fetch_all(&self.pool)).await
    }

    /// Writes down what a message decides, before it does.
    pub async fn note_meant(&self, message_id: &str, meant: &Meant) -> Result<(), StoreError> {
        let noted = sqlx::query!(
            "-- note_meant
            update longhaul.inbound set job_id = $2, approval_id = $3, approver = $4, verdict = $5
            where message_id = $1 and handled_at is null",
            message_id,
            meant.key.job_id(),
            meant.approval_id.0,
            meant.approver,
            meant.verdict.word(),
        );
        bounded(noted.execute(&self.pool)).await?;
        Ok(())
    }

    /// Puts a message off that could not be handled yet.
    pub async fn put_off_inbound(&self, message_id: &str, seconds: f64) -> Result<(), StoreError> {
        let put_off = sqlx::query!(
            "-- put_off_inbound
            update longhaul.inbound set due_at = longhaul.now() + make_interval(secs => $2)
            where message_id = $1 and handled_at is null",
            message_id,
            seconds,
        );
        bounded(put_off.execute(&self.pool)).await?;
        Ok(())
    }

    /// Closes a message; answers whether it is to be answered now, which is said only once.
    ///
    /// Help that its sender got within a minute is not given again.
    pub async fn close_inbound(
        &self,
        message_id: &str,
        has_answer: bool,
        is_help: bool,
    ) -> Result<bool, StoreError> {
        let closed = sqlx::query_scalar!(
            r#"-- close_inbound
            update longhaul.inbound i set handled_at = longhaul.now(), content = null,
              is_help = $3 and not g.is_helped,
              answer = case when $2 and not ($3 and g.is_helped) then 'sending' else 'none' end
            from (
              select m.message_id, exists (select from longhaul.inbound h where h.sender = m.sender and h.is_help
                and h.handled_at > longhaul.now() - interval '1 minute') as is_helped
              from longhaul.inbound m where m.message_id = $1
            ) g
            where i.message_id = g.message_id and i.handled_at is null
            returning i.answer = 'sending' as "is_to_be_answered!""#,
            message_id,
            has_answer,
            is_help,
        );
        Ok(bounded(closed.fetch_optional(&self.pool)).await?.unwrap_or(false))
    }

    /// Records what became of the answer to a message.
    pub async fn record_answer(
        &self,
        message_id: &str,
        answer: AnswerSent,
    ) -> Result<(), StoreError> {
        let recorded = sqlx::query!(
            "-- record_answer
            update longhaul.inbound set answer = $2 where message_id = $1 and answer = 'sending'",
            message_id,
            answer.word(),
        );
        bounded(recorded.execute(&self.pool)).await?;
        Ok(())
    }

    /// Forgets some messages that were handled long ago; answers how many.
    pub async fn forget_inbound(&self) -> Result<u64, StoreError> {
        let forgotten = sqlx::query!(
            "-- forget_inbound
            delete from longhaul.inbound where message_id in (
              select i.message_id from longhaul.inbound i
              where i.handled_at < longhaul.now() - make_interval(days => $1)
              order by i.handled_at limit 100)",
            KEPT_DAYS,
        );
        Ok(bounded(forgotten.execute(&self.pool)).await?.rows_affected())
    }
}

/// A message as it is read.
struct Row {
    message_id: String,
    sender: String,
    user_id: Option<String>,
    written_to: Option<String>,
    kind: String,
    content: Option<String>,
    context_id: Option<String>,
    sent_at: Option<DateTime<Utc>>,
    tries: i32,
    job_id: Option<String>,
    approval_id: Option<uuid::Uuid>,
    approver: Option<String>,
    verdict: Option<String>,
}

impl Row {
    fn into_taken(self) -> Result<Taken, StoreError> {
        let meant = match (self.job_id, self.approval_id, self.approver, self.verdict) {
            (Some(job_id), Some(approval_id), Some(approver), Some(verdict)) => Some(Meant {
                key: JobKey::new(&job_id),
                approval_id: ApprovalId(approval_id),
                approver,
                verdict: word("inbound", &verdict)?,
            }),
            _ => None,
        };
        let message = Inbound {
            message_id: self.message_id,
            sender: self.sender,
            user_id: self.user_id,
            written_to: self.written_to,
            kind: word("inbound", &self.kind)?,
            content: self.content,
            context_id: self.context_id,
            sent_at: self.sent_at,
        };
        Ok(Taken { message, tries: self.tries, meant })
    }
}
