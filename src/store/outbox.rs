//! The outbox: notices are taken to be sent, and what became of them is recorded.
//!
//! Taking a notice commits `sending` before anything leaves; one recipient's notices go in order, one at a time.
//! If the dispatcher dies in between, the grace time passes and the notice is judged:
//! an approval request is sent again, a terminal notice is not, since a person must not be told the end twice.

use std::time::Duration;

use chrono::{DateTime, Utc};
use rust_decimal::Decimal;
use serde::Deserialize;
use serde_json::Value;
use uuid::Uuid;

use super::approval::word;
use super::transition::lock;
use super::wake::Woken;
use super::{Store, StoreError, bounded, read_json};
use crate::domain::event::{Delivery, NoticeKind};
use crate::domain::id::{JobKey, NoticeId};
use crate::domain::job::{JobState, Reason};
use crate::domain::money::Usd;
use crate::domain::spec::{self, Spec, Work};
use crate::domain::word::Word as _;

/// How long a try may take before it counts as lost.
const GRACE_SECONDS: f64 = 60.0;

/// A notice that is to be sent now, with everything its text needs.
#[derive(Debug)]
pub struct Outgoing {
    /// The job.
    pub key: JobKey,
    /// The notice.
    pub notice_id: NoticeId,
    /// What it tells.
    pub kind: NoticeKind,
    /// Whom.
    pub recipient: String,
    /// Which try this is, from 1.
    pub tries: i32,
    /// The tokens of its links, for an approval request.
    pub tokens: Option<LinkTokens>,
    /// The language that was chosen for the job.
    pub language: Option<String>,
    /// What the job is for.
    pub task: String,
    /// What is asked, for an approval request.
    pub note: Option<String>,
    /// The last output of a run step.
    pub output: Option<String>,
    /// The step in hand.
    pub step: i32,
    /// How many there are.
    pub step_count: i32,
    /// Why the job ended, if it did not complete.
    pub reason: Option<Reason>,
    /// The error that ended it.
    pub error: Option<String>,
    /// What it has cost.
    pub cost_usd: Usd,
    /// The day's budget that is used up, where the notice tells that.
    pub daily_budget_usd: Option<Usd>,
    /// When the approval expires.
    pub deadline_at: Option<DateTime<Utc>>,
    /// The time now.
    pub now: DateTime<Utc>,
}

/// The tokens of the two links of an approval request.
#[derive(Clone, Deserialize)]
pub struct LinkTokens {
    /// The one whose page puts approve first.
    pub approve: String,
    /// The one whose page puts reject first.
    pub reject: String,
}

impl std::fmt::Debug for LinkTokens {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("LinkTokens(…)")
    }
}

/// What became of a try.
#[derive(Clone, Debug)]
pub enum Sent {
    /// The channel took it and gave it this id.
    Accepted { provider_message_id: String },
    /// It was not taken; try again after a while.
    Again { after: Duration, error: String },
    /// It was not taken and never will be.
    Refused { error: String },
    /// Nobody knows whether it was taken.
    Ambiguous { error: String },
}

impl Store {
    /// Takes up to so many notices that are due, the first of each recipient after this one, and marks them as being sent.
    ///
    /// It walks from person to person, so that a long queue of one is no way to go for the others.
    pub async fn take_notices(&self, limit: i64, after: &str) -> Result<Vec<Outgoing>, StoreError> {
        let rows = bounded(sqlx::query_as!(
            Row,
            r#"-- take_notices
            -- cross-shard: notices of all shards are in one index
            with recursive person as (
              (select o.recipient from longhaul.outbox o
               where o.delivery in ('pending', 'sending') and o.recipient > $4 order by o.recipient limit 1)
              union all
              select (select o.recipient from longhaul.outbox o
                where o.delivery in ('pending', 'sending') and o.recipient > p.recipient
                order by o.recipient limit 1)
              from person p where p.recipient is not null
            ), first as (
              select n.* from person p cross join lateral (
                select o.shard, o.job_id, o.notice_id from longhaul.outbox o
                -- The notices of a newer release's job wait for a server that knows its shape.
                join longhaul.job j on j.shard = o.shard and j.job_id = o.job_id and j.spec_version <= $3
                -- One that waits to be tried again must not hold up what is new.
                where o.recipient = p.recipient and o.delivery = 'pending' and o.due_at <= longhaul.now()
                  and not starts_with(p.recipient, 'webhook:') and not exists (select from longhaul.outbox s
                    join longhaul.job k on k.shard = s.shard and k.job_id = s.job_id and k.spec_version <= $3
                    where s.recipient = p.recipient and s.delivery = 'sending')
                order by o.created_at, o.notice_id limit 1
              ) n
              limit $1
            ), picked as (
              select o.shard, o.job_id, o.notice_id from longhaul.outbox o join first f using (shard, job_id, notice_id)
              where o.delivery = 'pending'
              for update of o skip locked
            ), taken as (
              update longhaul.outbox o set delivery = 'sending', tries = o.tries + 1,
                due_at = longhaul.now() + make_interval(secs => $2), updated_at = longhaul.now()
              from picked p
              where o.shard = p.shard and o.job_id = p.job_id and o.notice_id = p.notice_id
              returning o.shard, o.job_id, o.notice_id, o.kind, o.recipient, o.tries, o.tokens, o.created_at
            )
            select t.job_id, t.notice_id, t.kind, t.recipient, t.tries, t.tokens, to_jsonb(j) as "state!", s.spec,
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
            join longhaul.job_spec s using (shard, job_id)"#,
            limit,
            GRACE_SECONDS,
            spec::VERSION,
            after,
        )
        .fetch_all(&self.pool))
        .await?;
        let mut notices = Vec::with_capacity(rows.len());
        for row in rows {
            let (job_id, notice_id) = (row.job_id.clone(), row.notice_id);
            match row.into_outgoing() {
                Ok(notice) => notices.push(notice),
                Err(error) => {
                    tracing::error!(%notice_id, %error, "could not read a notice; it is given up");
                    self.give_up_notice(&job_id, notice_id).await?;
                }
            }
        }
        Ok(notices)
    }

    /// Ends a notice that cannot be read, so that it holds up no other.
    pub(super) async fn give_up_notice(
        &self,
        job_id: &str,
        notice_id: Uuid,
    ) -> Result<(), StoreError> {
        let key = JobKey::new(job_id);
        bounded(
            sqlx::query!(
                "-- give_up_notice
                update longhaul.outbox set delivery = 'failed', tokens = null,
                  error = 'it could not be read', updated_at = longhaul.now()
                where shard = $1 and job_id = $2 and notice_id = $3 and delivery = 'sending'",
                key.shard(),
                key.job_id(),
                notice_id,
            )
            .execute(&self.pool),
        )
        .await?;
        Ok(())
    }

    /// Records what became of a try that was taken; one that has been judged meanwhile stays as judged.
    pub async fn record_notice(
        &self,
        notice: &Outgoing,
        sent: &Sent,
    ) -> Result<Delivery, StoreError> {
        let (delivery, after, message_id, error) = match sent {
            Sent::Accepted { provider_message_id } => {
                (Delivery::Sent, 0.0, Some(provider_message_id.as_str()), None)
            }
            Sent::Again { after, error } => {
                (Delivery::Pending, after.as_secs_f64(), None, Some(error.as_str()))
            }
            Sent::Refused { error } => (Delivery::Failed, 0.0, None, Some(error.as_str())),
            // An approval request is sent again after the grace time; an end is told at most once.
            Sent::Ambiguous { error } if notice.kind == NoticeKind::ApprovalRequested => {
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
              due_at = longhaul.now() + make_interval(secs => $5),
              provider_message_id = $6, error = $7, updated_at = longhaul.now()
            from (
              -- Was its approval decided, or the end it tells undone, while it was on its way?
              select case when n.kind = 'daily_budget' then false when n.approval_id is not null
                then not exists (select from longhaul.approval a where a.shard = n.shard
                  and a.job_id = n.job_id and a.approval_id = n.approval_id and a.status = 'pending')
                else exists (select from longhaul.event e where e.shard = n.shard
                  and e.job_id = n.job_id and e.sequence > n.sequence and e.kind = 'job_retried')
                end as is_overtaken
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
        )
        .fetch_optional(&mut *tx)
        .await?
        .map_or(Ok(delivery), |word_of_row| word("outbox", &word_of_row))?;
        tx.commit().await?;
        self.wake.job_changed(&notice.key, Woken { notices: true, work: false });
        Ok(delivery)
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

/// A notice as it is read: what is JSON may not fit.
struct Row {
    job_id: String,
    notice_id: Uuid,
    kind: String,
    recipient: String,
    tries: i32,
    tokens: Option<Value>,
    state: Value,
    spec: Value,
    output: Option<String>,
    cost_usd: Decimal,
    daily_budget_usd: Option<Decimal>,
    now: DateTime<Utc>,
}

impl Row {
    fn into_outgoing(self) -> Result<Outgoing, StoreError> {
        let state: JobState = read_json("job", self.state)?;
        let spec: Spec = read_json("job_spec", self.spec)?;
        let note = match spec.find_step(state.current_step).map(|step| &step.work) {
            Some(Work::Approval(approval)) => Some(approval.note.clone()),
            Some(Work::Run(_) | Work::Wait(_)) | None => None,
        };
        Ok(Outgoing {
            key: JobKey::new(&self.job_id),
            notice_id: NoticeId(self.notice_id),
            kind: word("outbox", &self.kind)?,
            recipient: self.recipient,
            tries: self.tries,
            tokens: self.tokens.map(|tokens| read_json("outbox", tokens)).transpose()?,
            language: spec.language,
            task: spec.task,
            note,
            output: self.output,
            step: state.current_step,
            step_count: state.step_count,
            reason: state.reason,
            error: state.last_error.map(|failure| failure.message),
            cost_usd: Usd::from(self.cost_usd),
            daily_budget_usd: self.daily_budget_usd.map(Usd::from),
            deadline_at: state.deadline_at,
            now: self.now,
        })
    }
}
