//! Notices to endpoints: taken one at a time from each endpoint's queue, and what became of each is recorded.
//!
//! Taking commits `sending` before anything leaves. Whoever receives a notice knows it by its id, so unlike a person
//! it is told again where nobody knows whether it was told: after an answer that was lost, and after a death in between.
//! What was overtaken is not sent: a request that is closed, an end that was undone.

use std::time::Duration;

use chrono::{DateTime, Utc};
use rust_decimal::Decimal;
use serde_json::Value;
use sqlx::PgConnection;
use uuid::Uuid;

use super::approval::word;
use super::link::ApproverLinks;
use super::outbox::give_up_notice;
use super::transition::lock;
use super::wake::Woken;
use super::{Store, StoreError, bounded, read_json};
use crate::domain::book::endpoint_recipient;
use crate::domain::event::{Delivery, Detail, NoticeKind};
use crate::domain::id::{ApprovalId, JobKey, NoticeId};
use crate::domain::job::{JobState, Reason, Status};
use crate::domain::money::Usd;
use crate::domain::spec::{self, Spec, Work};
use crate::domain::word::Word as _;

/// How long a try may take before it counts as lost.
const GRACE_SECONDS: f64 = 60.0;
/// How long a notice waits for a server that knows its endpoint.
const ORPHAN_SECONDS: f64 = 36.0 * 3600.0;

/// A notice that is to be sent to an endpoint now, with everything it tells.
#[derive(Debug)]
pub struct EndpointNotice {
    /// The job.
    pub key: JobKey,
    /// The notice.
    pub notice_id: NoticeId,
    /// What it tells.
    pub kind: NoticeKind,
    /// The approval it asks for.
    pub approval_id: Option<ApprovalId>,
    /// Which try this is, from 1.
    pub tries: i32,
    /// The links of the approvers, for an approval request; none if they are gone.
    pub links: Option<Vec<ApproverLinks>>,
    /// The language that was chosen for the job.
    pub language: Option<String>,
    /// What the job is for.
    pub task: String,
    /// What was asked.
    pub note: Option<String>,
    /// The last output of a run step, cut.
    pub output: Option<String>,
    /// The step it concerns.
    pub step: i32,
    /// How many there are.
    pub step_count: i32,
    /// How the job stood after the event.
    pub status: Status,
    /// Why it stood so.
    pub reason: Option<Reason>,
    /// What the job has cost.
    pub cost_usd: Usd,
    /// When the approval expires.
    pub deadline_at: Option<DateTime<Utc>>,
    /// The number of the event.
    pub sequence: i32,
    /// When it happened.
    pub occurred_at: DateTime<Utc>,
    /// The line of the event.
    pub message: String,
    /// What the event carries beside it.
    pub detail: Option<Detail>,
}

/// What became of a try.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Posted {
    /// The endpoint took it.
    Taken,
    /// It did not, or nobody knows; try again after a while, and leave the endpoint alone for as long as it asked to be.
    Again { after: Duration, rest: Duration, error: String },
    /// It did not, and will not be asked again.
    GivenUp { error: String },
}

impl Store {
    /// Takes the first notice of an endpoint that is due, unless one of its own is on its way, and marks it as being sent.
    pub async fn take_endpoint_notice(
        &self,
        endpoint: &str,
    ) -> Result<Option<EndpointNotice>, StoreError> {
        let row = bounded(
            sqlx::query_as!(
                Row,
                r#"-- take_endpoint_notice
                -- cross-shard: an endpoint's notices are of jobs of every shard
                with first as (
                  select o.shard, o.job_id, o.notice_id from longhaul.outbox o
                  -- The notices of a newer release's job wait for a server that knows its shape.
                  join longhaul.job j on j.shard = o.shard and j.job_id = o.job_id and j.spec_version <= $2
                  -- One that waits to be tried again must not hold up what is new.
                  where o.recipient = $1 and o.delivery = 'pending' and o.due_at <= longhaul.now()
                    and not exists (select from longhaul.outbox s
                      where s.recipient = $1 and s.delivery = 'sending')
                    -- It asked to be left alone for a while.
                    and not exists (select from longhaul.recipient r
                      where r.recipient = $1 and r.next_at > longhaul.now())
                  order by o.created_at, o.notice_id limit 1
                ), picked as (
                  select o.shard, o.job_id, o.notice_id from longhaul.outbox o join first f using (shard, job_id, notice_id)
                  where o.delivery = 'pending'
                  for update of o skip locked
                ), taken as (
                  update longhaul.outbox o set delivery = 'sending', tries = o.tries + 1,
                    due_at = longhaul.now() + make_interval(secs => $3), updated_at = longhaul.now()
                  from picked p
                  where o.shard = p.shard and o.job_id = p.job_id and o.notice_id = p.notice_id
                  returning o.shard, o.job_id, o.notice_id, o.sequence, o.kind, o.approval_id, o.tries, o.tokens, o.created_at
                )
                select t.job_id, t.notice_id, t.sequence, t.kind, t.approval_id, t.tries, t.tokens, t.created_at,
                  to_jsonb(j) as "state!", s.spec,
                  e.occurred_at as "occurred_at?", e.status as "status?", e.reason as "reason?", e.step as "step?",
                  e.message as "message?", e.detail as "detail?",
                  (select left(c.output, 4001) from longhaul.checkpoint c
                   where c.shard = t.shard and c.job_id = t.job_id and c.output is not null
                     and (c.step < j.current_step or j.status = 'completed')
                   order by c.step desc, c.revision desc limit 1) as output,
                  (select coalesce(sum(m.cost_usd), 0) from longhaul.model_call m
                   where m.shard = t.shard and m.job_id = t.job_id) as "cost_usd!"
                from taken t
                join longhaul.job j using (shard, job_id)
                join longhaul.job_spec s using (shard, job_id)
                left join longhaul.event e on e.shard = t.shard and e.job_id = t.job_id and e.sequence = t.sequence"#,
                endpoint_recipient(endpoint),
                spec::VERSION,
                GRACE_SECONDS,
            )
            .fetch_optional(&self.pool),
        )
        .await?;
        let Some(row) = row else { return Ok(None) };
        let (job_id, notice_id) = (row.job_id.clone(), row.notice_id);
        match row.into_notice() {
            Ok(notice) => Ok(Some(notice)),
            Err(error) => {
                tracing::error!(%notice_id, %error, "could not read a notice; it is given up");
                let mut connection = bounded(self.pool.acquire()).await?;
                give_up_notice(&mut connection, &JobKey::new(&job_id), notice_id).await?;
                Ok(None)
            }
        }
    }

    /// Records what became of a try; one that has been judged meanwhile stays as judged.
    pub async fn record_endpoint_notice(
        &self,
        notice: &EndpointNotice,
        posted: &Posted,
    ) -> Result<(), StoreError> {
        let (delivery, after, error) = match posted {
            Posted::Taken => (Delivery::Sent, 0.0, None),
            Posted::Again { after, error, rest: _ } => {
                (Delivery::Pending, after.as_secs_f64(), Some(error.as_str()))
            }
            Posted::GivenUp { error } => (Delivery::Failed, 0.0, Some(error.as_str())),
        };
        let key = &notice.key;
        let mut tx = self.pool.begin().await?;
        // Whatever overtakes a notice holds this lock, so it is either seen below or sees what is written here.
        lock(&mut tx, key, None).await?;
        sqlx::query!(
            "-- record_endpoint_notice
            update longhaul.outbox o set
              delivery = case when $4 = 'pending' and g.is_overtaken then 'superseded' else $4 end,
              tokens = case when $4 = 'pending' and not g.is_overtaken then o.tokens end,
              due_at = longhaul.now() + make_interval(secs => $5), error = $6, updated_at = longhaul.now()
            from (
              -- Was its approval decided, or what it tells undone, while it was on its way?
              select longhaul.is_overtaken(n) as is_overtaken
              from longhaul.outbox n where n.shard = $1 and n.job_id = $2 and n.notice_id = $3
            ) g
            where o.shard = $1 and o.job_id = $2 and o.notice_id = $3
              and o.delivery = 'sending' and o.tries = $7",
            key.shard(),
            key.job_id(),
            notice.notice_id.0,
            delivery.word(),
            after,
            error,
            notice.tries,
        )
        .execute(&mut *tx)
        .await?;
        if let Posted::Again { rest, .. } = posted
            && !rest.is_zero()
        {
            leave_alone(&mut tx, key, notice.notice_id, *rest).await?;
        }
        tx.commit().await?;
        self.wake.job_changed(key, Woken { notices: true, work: false });
        Ok(())
    }

    /// Lets the tries of an endpoint whose sender died be made again; answers how many.
    pub async fn judge_lost_endpoint_notices(&self, endpoint: &str) -> Result<u64, StoreError> {
        let judged = bounded(
            sqlx::query!(
                "-- judge_lost_endpoint_notices
                -- cross-shard: an endpoint's notices are of jobs of every shard
                update longhaul.outbox o set
                  delivery = case when n.is_open then 'pending' else 'superseded' end,
                  tokens = case when n.is_open then o.tokens end,
                  error = 'the sender died before it knew', due_at = longhaul.now(), updated_at = longhaul.now()
                from (
                  -- The row of the job tells which approval is open, and its lock keeps a decision away meanwhile.
                  select n.shard, n.job_id, n.notice_id,
                    n.approval_id is null or coalesce(j.approval_id = n.approval_id, false) as is_open
                  from longhaul.outbox n join longhaul.job j using (shard, job_id)
                  where n.recipient = $1 and n.delivery = 'sending' and n.due_at <= longhaul.now()
                    and j.spec_version <= $2
                  for update of n, j skip locked
                ) n
                where o.shard = n.shard
                  and o.job_id = n.job_id and o.notice_id = n.notice_id and o.delivery = 'sending'",
                endpoint_recipient(endpoint),
                spec::VERSION,
            )
            .execute(&self.pool),
        )
        .await?;
        Ok(judged.rows_affected())
    }

    /// Gives up some of what waits for an endpoint that no server has tried for a day and a half; answers how many.
    ///
    /// A server that knows no endpoint at all is no judge of that.
    pub async fn give_up_orphaned_notices(&self, known: &[String]) -> Result<u64, StoreError> {
        if known.is_empty() {
            return Ok(0);
        }
        let known: Vec<String> = known.iter().map(|name| endpoint_recipient(name)).collect();
        let given_up = bounded(
            sqlx::query!(
                "-- give_up_orphaned_notices
                -- cross-shard: what is to be sent is in one index for all shards
                update longhaul.outbox o set delivery = 'failed', tokens = null,
                  error = 'no server knows this endpoint', updated_at = longhaul.now()
                from (
                  -- What somebody else has in hand is left to the next round, so nobody waits for anybody.
                  select n.shard, n.job_id, n.notice_id from longhaul.outbox n
                  where n.delivery = 'pending' and n.due_at <= longhaul.now()
                    and starts_with(n.recipient, 'webhook:') and n.recipient <> all($1)
                    and greatest(n.created_at, n.updated_at) < longhaul.now() - make_interval(secs => $2)
                  order by n.due_at limit 100 for update of n skip locked
                ) n
                where o.shard = n.shard and o.job_id = n.job_id and o.notice_id = n.notice_id",
                &known,
                ORPHAN_SECONDS,
            )
            .execute(&self.pool),
        )
        .await?;
        Ok(given_up.rows_affected())
    }
}

/// Nothing is sent to the endpoint of a notice for this long.
async fn leave_alone(
    tx: &mut PgConnection,
    key: &JobKey,
    notice_id: NoticeId,
    rest: Duration,
) -> Result<(), StoreError> {
    sqlx::query!(
        "-- leave_endpoint_alone
        insert into longhaul.recipient as r (recipient, next_at, created_at, updated_at)
        select o.recipient, longhaul.now() + make_interval(secs => $4), longhaul.now(), longhaul.now()
        from longhaul.outbox o where o.shard = $1 and o.job_id = $2 and o.notice_id = $3
        on conflict (recipient) do update set
          next_at = greatest(r.next_at, excluded.next_at), updated_at = longhaul.now()",
        key.shard(),
        key.job_id(),
        notice_id.0,
        rest.as_secs_f64(),
    )
    .execute(tx)
    .await?;
    Ok(())
}

/// A notice as it is read: what is JSON may not fit.
struct Row {
    job_id: String,
    notice_id: Uuid,
    sequence: i32,
    kind: String,
    approval_id: Option<Uuid>,
    tries: i32,
    tokens: Option<Value>,
    created_at: DateTime<Utc>,
    state: Value,
    spec: Value,
    occurred_at: Option<DateTime<Utc>>,
    status: Option<String>,
    reason: Option<String>,
    step: Option<i32>,
    message: Option<String>,
    detail: Option<Value>,
    output: Option<String>,
    cost_usd: Decimal,
}

impl Row {
    fn into_notice(self) -> Result<EndpointNotice, StoreError> {
        let state: JobState = read_json("job", self.state)?;
        let spec: Spec = read_json("job_spec", self.spec)?;
        let of_event = |word_of_row: Option<String>| {
            word_of_row.map(|of_row| word::<Reason>("event", &of_row)).transpose()
        };
        // Where the event is kept no longer, the job as it is now has to do.
        let status = match &self.status {
            Some(status) => word("event", status)?,
            None => state.status,
        };
        let step = self.step.filter(|step| *step > 0).unwrap_or(state.current_step);
        let note = match spec.find_step(step).map(|step| &step.work) {
            Some(Work::Approval(approval)) => Some(approval.note.clone()),
            Some(Work::Run(_) | Work::Wait(_)) | None => None,
        };
        Ok(EndpointNotice {
            key: JobKey::new(&self.job_id),
            notice_id: NoticeId(self.notice_id),
            kind: word("outbox", &self.kind)?,
            approval_id: self.approval_id.map(ApprovalId),
            tries: self.tries,
            links: self.tokens.map(|tokens| read_json("outbox", tokens)).transpose()?,
            language: spec.language,
            task: spec.task,
            note,
            output: self.output,
            step,
            step_count: state.step_count,
            status,
            reason: of_event(self.reason)?,
            cost_usd: Usd::from(self.cost_usd),
            deadline_at: state.deadline_at,
            sequence: self.sequence,
            occurred_at: self.occurred_at.unwrap_or(self.created_at),
            message: self.message.unwrap_or_default(),
            detail: self.detail.map(|detail| read_json("event", detail)).transpose()?,
        })
    }
}
