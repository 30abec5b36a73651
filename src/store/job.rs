//! The job as people and programs see it: its row, its steps, its usage and its notices, read in one snapshot.

mod view;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use chrono::{DateTime, Utc};
use serde::Deserialize;
use serde_json::Value;
use sqlx::types::Json;
use sqlx::{PgPool, PgTransaction};

use super::tombstone::not_found;
use super::{Store, StoreError, bounded, check_version, read_json};
use crate::domain::approval::ApprovalStatus;
use crate::domain::event::{Decision, Delivery, NoticeKind};
use crate::domain::id::{ApprovalId, JobKey, NoticeId};
use crate::domain::job::{Citation, JobState, StepStatus};
use crate::domain::money::{Usage, Usd};
use crate::domain::spec::Spec;

/// The characters of all outputs together that one answer may carry; three bytes each stay under 3 MiB.
const OUTPUT_CHARS_MAX: i32 = 750_000;
/// The most of an answer that is not whole, in characters: whoever looks wants to see that it moves.
const PARTIAL_CHARS_MAX: i32 = 16_000;

/// A job as it is now.
#[derive(Clone, Debug)]
pub struct JobView {
    /// Its key.
    pub key: JobKey,
    /// Its row.
    pub state: JobState,
    /// Its specification; without the steps in a list.
    pub spec: Arc<Spec>,
    /// When the lease of a running job runs out.
    pub lease_expires_at: Option<DateTime<Utc>>,
    /// When it was submitted.
    pub created_at: DateTime<Utc>,
    /// The steps that are done, by number.
    pub done: BTreeMap<i32, DoneStep>,
    /// What each step's calls used, by number.
    pub spent: BTreeMap<i32, Spent>,
    /// Who decided, by approval step.
    pub decisions: BTreeMap<i32, Vec<Decision>>,
    /// The approval that is pending.
    pub approval: Option<PendingApproval>,
    /// What people were told.
    pub notices: Vec<NoticeView>,
    /// How many of all notices failed or are unconfirmed.
    pub undelivered_notices: i32,
    /// What there is of an answer to the current step that is not whole.
    pub partial_output: Option<String>,
}

/// A step that is done.
#[derive(Clone, Debug, Deserialize)]
pub struct DoneStep {
    /// Which.
    pub step: i32,
    /// The revision in which it was done.
    pub revision: i32,
    /// The output of a run step, cut.
    pub output: Option<String>,
    /// Whether there is more of it.
    pub output_cut: bool,
    /// What it cites.
    pub citations: Vec<Citation>,
    /// The model.
    pub model: Option<String>,
    /// Why it stopped.
    pub stop_reason: Option<String>,
    /// When it was begun.
    pub started_at: DateTime<Utc>,
    /// When it was done.
    pub finished_at: DateTime<Utc>,
}

/// What model calls used.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
pub struct Spent {
    /// Their tokens and searches.
    pub usage: Usage,
    /// How many there were.
    pub calls: i32,
    /// What they cost, as far as is known.
    pub cost_usd: Usd,
    /// How many of them have no known cost.
    pub unpriced_calls: i32,
}

/// An approval that waits for votes.
#[derive(Clone, Debug, Deserialize)]
pub struct PendingApproval {
    /// Its id.
    pub approval_id: ApprovalId,
    /// The approval step.
    pub step: i32,
    /// How many must approve.
    pub quorum: i32,
    /// When it was asked.
    pub asked_at: DateTime<Utc>,
    /// The votes so far.
    pub decisions: Vec<Decision>,
    /// Links to its page, where they were asked for.
    #[serde(skip)]
    pub links: Vec<ApprovalLink>,
}

/// A link with which one approver decides.
#[derive(Clone, PartialEq, Eq)]
pub struct ApprovalLink {
    /// Whose it is, as the job names them.
    pub approver: String,
    /// The page.
    pub url: String,
}

impl fmt::Debug for ApprovalLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ApprovalLink(…)")
    }
}

/// What somebody was told.
#[derive(Clone, Debug, Deserialize)]
pub struct NoticeView {
    /// Its id; none in the answer to the submit that caused it.
    pub notice_id: Option<NoticeId>,
    /// Whom.
    pub recipient: String,
    /// What.
    pub kind: NoticeKind,
    /// How far it has come.
    pub delivery: Delivery,
    /// How it failed.
    pub error: Option<String>,
    /// How often it was tried.
    pub tries: i32,
    /// When it was written.
    pub created_at: DateTime<Utc>,
    /// When it last changed.
    pub updated_at: DateTime<Utc>,
}

impl Store {
    /// The job as it is now; with a step, only that step's output, whole.
    pub async fn job(&self, key: &JobKey, step: Option<i32>) -> Result<JobView, StoreError> {
        let row = bounded(read_job(&self.pool, key, step)).await?;
        let view = row.into_view(key)?;
        match step.filter(|step| *step < 1 || *step > view.state.step_count) {
            Some(step) => Err(StoreError::StepNotFound { key: key.clone(), step }),
            None => Ok(view),
        }
    }

    /// The specification, which never changes.
    pub async fn spec(&self, key: &JobKey) -> Result<Spec, StoreError> {
        let mut connection = self.pool.acquire().await?;
        super::transition::read_spec(&mut connection, key).await
    }

    /// The outputs of those of the steps that have one, by number: what a later step builds on.
    pub async fn outputs(
        &self,
        key: &JobKey,
        steps: &[i32],
    ) -> Result<BTreeMap<i32, String>, StoreError> {
        if steps.is_empty() {
            return Ok(BTreeMap::new());
        }
        let rows = bounded(
            sqlx::query!(
                r#"-- outputs
            select distinct on (step) step, output as "output!" from longhaul.checkpoint
            where shard = $1 and job_id = $2 and step = any($3) and output is not null
            order by step, revision desc"#,
                key.shard(),
                key.job_id(),
                steps,
            )
            .fetch_all(&self.pool),
        )
        .await?;
        Ok(rows.into_iter().map(|row| (row.step, row.output)).collect())
    }

    /// A transaction that only reads, and sees one moment.
    pub(super) async fn snapshot(&self) -> Result<PgTransaction<'static>, StoreError> {
        let mut tx = self.pool.begin().await?;
        sqlx::query("-- read_snapshot\nset transaction isolation level repeatable read, read only")
            .execute(&mut *tx)
            .await?;
        Ok(tx)
    }
}

/// A job with everything that is shown of it, as JSON where there are several.
struct Row {
    state: Value,
    spec: Value,
    spec_version: i32,
    created_at: DateTime<Utc>,
    lease_expires_at: Option<DateTime<Utc>>,
    done: Json<Vec<DoneStep>>,
    decisions: Json<Vec<StepDecision>>,
    spent: Json<Vec<StepSpent>>,
    approval: Option<Json<Asked>>,
    notices: Json<Vec<NoticeView>>,
    partial_output: Option<String>,
}

#[derive(Deserialize)]
struct StepDecision {
    step: i32,
    #[serde(flatten)]
    decision: Decision,
}

#[derive(Deserialize)]
struct StepSpent {
    step: i32,
    #[serde(flatten)]
    spent: Spent,
}

#[derive(Deserialize)]
struct Asked {
    status: ApprovalStatus,
    #[serde(flatten)]
    approval: PendingApproval,
}

/// One statement, and so one moment.
async fn read_job(pool: &PgPool, key: &JobKey, step: Option<i32>) -> Result<Row, StoreError> {
    let row = sqlx::query_as!(
        Row,
        r#"-- read_job
        select to_jsonb(j) as "state!", s.spec, j.spec_version, j.created_at,
          coalesce(j.lease_expires_at, e.lease_expires_at) as lease_expires_at,
          -- The live checkpoints; the output of the job is one more copy of a step's.
          (select coalesce(jsonb_agg(to_jsonb(d) order by d.step), '[]') from (
             select distinct on (c.step) c.step, c.revision,
               case when $3::integer is null then left(c.output, $4 / (j.step_count + 1))
                 when c.step = $3 then c.output end as output,
               $3::integer is null and coalesce(length(c.output) > $4 / (j.step_count + 1), false) as output_cut,
               coalesce(c.citations, '[]') as citations, c.model, c.stop_reason, c.started_at, c.finished_at
             from longhaul.checkpoint c
             where c.shard = j.shard and c.job_id = j.job_id
               and (j.status = 'completed' or c.step < j.current_step)
             order by c.step, c.revision desc) d) as "done!: Json<Vec<DoneStep>>",
          -- The votes of the last approval of each step that is not pending.
          (select coalesce(jsonb_agg(jsonb_build_object('step', a.step, 'voter', d.voter, 'verdict', d.verdict,
               'door', d.door, 'came_by', d.came_by, 'comment', d.comment, 'edited', d.edited, 'decided_at', d.decided_at)
               order by a.step, d.decided_at, d.voter), '[]')
           from (
             select distinct on (a.step) a.step, a.approval_id from longhaul.approval a
             where a.shard = j.shard and a.job_id = j.job_id and a.status <> 'pending'
             order by a.step, a.asked_at desc) a
           join longhaul.decision d on d.shard = j.shard and d.job_id = j.job_id
             and d.approval_id = a.approval_id) as "decisions!: Json<Vec<StepDecision>>",
          (select coalesce(jsonb_agg(to_jsonb(m)), '[]') from (
             select m.step, count(*) as calls, coalesce(sum(m.cost_usd), 0)::text as cost_usd,
               count(*) filter (where m.cost_usd is null and m.outcome not in ('started', 'batched')) as unpriced_calls,
               longhaul.sum_usage(m.usage) as usage
             from longhaul.model_call m where m.shard = j.shard and m.job_id = j.job_id
             group by m.step) m) as "spent!: Json<Vec<StepSpent>>",
          (select jsonb_build_object('status', a.status, 'approval_id', a.approval_id, 'step', a.step,
               'quorum', a.quorum, 'asked_at', a.asked_at, 'decisions', coalesce((
                 select jsonb_agg(to_jsonb(d) order by d.decided_at, d.voter) from longhaul.decision d
                 where d.shard = a.shard and d.job_id = a.job_id and d.approval_id = a.approval_id), '[]'))
           from longhaul.approval a
           where a.shard = j.shard and a.job_id = j.job_id and a.approval_id = j.approval_id) as "approval: Json<Asked>",
          (select coalesce(jsonb_agg(to_jsonb(n)), '[]') from (
             select o.notice_id, o.recipient, o.kind, coalesce(o.receipt, o.delivery) as delivery, o.error, o.tries,
               o.created_at, o.updated_at
             from longhaul.outbox o
             where o.shard = j.shard and o.job_id = j.job_id
             order by o.sequence, o.recipient limit 500) n) as "notices!: Json<Vec<NoticeView>>",
          (select left(m.partial_output, $5) from longhaul.model_call m
           where m.shard = j.shard and m.job_id = j.job_id and m.step = j.current_step and m.revision = j.revision
             and j.status <> 'completed' and m.partial_output is not null
           order by m.started_at desc limit 1) as partial_output
        from longhaul.job j
        join longhaul.job_spec s using (shard, job_id)
        left join longhaul.executor e on e.executor_id = j.executor_id
        where j.shard = $1 and j.job_id = $2"#,
        key.shard(),
        key.job_id(),
        step,
        OUTPUT_CHARS_MAX,
        PARTIAL_CHARS_MAX,
    )
    .fetch_optional(pool)
    .await?;
    match row {
        Some(row) => Ok(row),
        None => Err(not_found(pool, key).await),
    }
}

impl Row {
    fn into_view(self, key: &JobKey) -> Result<JobView, StoreError> {
        check_version(key, self.spec_version)?;
        let state: JobState = read_json("job", self.state)?;
        let mut decisions = BTreeMap::<i32, Vec<Decision>>::new();
        for StepDecision { step, decision } in self.decisions.0 {
            // Of steps that are done, or in which the job ended.
            if matches!(state.step_status(step), StepStatus::Done | StepStatus::Failed) {
                decisions.entry(step).or_default().push(decision);
            }
        }
        Ok(JobView {
            key: key.clone(),
            spec: Arc::new(read_json("job_spec", self.spec)?),
            lease_expires_at: self.lease_expires_at,
            created_at: self.created_at,
            done: self.done.0.into_iter().map(|done| (done.step, done)).collect(),
            spent: self.spent.0.into_iter().map(|of| (of.step, of.spent)).collect(),
            decisions,
            approval: pending(key, &state, self.approval)?,
            undelivered_notices: count_undelivered(&self.notices.0),
            notices: self.notices.0,
            partial_output: self.partial_output,
            state,
        })
    }
}

fn count_undelivered(notices: &[NoticeView]) -> i32 {
    let is_lost =
        |notice: &&NoticeView| matches!(notice.delivery, Delivery::Failed | Delivery::Unconfirmed);
    notices.iter().filter(is_lost).count().try_into().unwrap_or(i32::MAX)
}

/// The approval that the job waits in.
fn pending(
    key: &JobKey,
    state: &JobState,
    asked: Option<Json<Asked>>,
) -> Result<Option<PendingApproval>, StoreError> {
    let Some(approval_id) = state.approval_id else { return Ok(None) };
    let Json(Asked { status, approval }) =
        asked.ok_or_else(|| StoreError::ApprovalNotFound { key: key.clone(), approval_id })?;
    if status != ApprovalStatus::Pending {
        let what =
            format!("approval {approval_id} is pending in its job and {status:?} in its row");
        return Err(StoreError::Corrupt { table: "approval", what });
    }
    Ok(Some(approval))
}
