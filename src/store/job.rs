//! The job as people and programs see it: its row, its steps, its usage and its notices, read in one snapshot.

mod view;

use std::collections::BTreeMap;
use std::sync::Arc;

use chrono::{DateTime, Utc};
use sqlx::types::Json;
use sqlx::{PgConnection, PgTransaction};

use super::approval::{read_decisions, word};
use super::{Store, StoreError, bounded, check_version, read_json};
use crate::domain::approval::ApprovalStatus;
use crate::domain::event::{Decision, Delivery, NoticeKind};
use crate::domain::id::{ApprovalId, JobKey};
use crate::domain::job::{Citation, JobState, Status, StepStatus};
use crate::domain::money::{Usage, Usd};
use crate::domain::spec::Spec;

/// The characters of all outputs together that one answer may carry; three bytes each stay under 3 MiB.
const OUTPUT_CHARS_MAX: i32 = 750_000;

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
}

/// A step that is done.
#[derive(Clone, Debug)]
pub struct DoneStep {
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
#[derive(Clone, Copy, Debug, Default)]
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
#[derive(Clone, Debug)]
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
}

/// What somebody was told.
#[derive(Clone, Debug)]
pub struct NoticeView {
    /// Whom.
    pub recipient: String,
    /// What.
    pub kind: NoticeKind,
    /// How far it has come.
    pub delivery: Delivery,
    /// How it failed.
    pub error: Option<String>,
    /// When that was last so.
    pub updated_at: DateTime<Utc>,
}

impl Store {
    /// The job as it is now; with a step, only that step's output, whole.
    pub async fn job(&self, key: &JobKey, step: Option<i32>) -> Result<JobView, StoreError> {
        let mut tx = self.snapshot().await?;
        let mut view = read_row(&mut tx, key).await?;
        let count = view.state.step_count;
        if let Some(step) = step.filter(|step| *step < 1 || *step > count) {
            return Err(StoreError::StepNotFound { key: key.clone(), step });
        }
        // The output of the job is one more copy of a step's.
        let cut = if step.is_some() { i32::MAX } else { OUTPUT_CHARS_MAX / (count + 1) };
        view.done = read_done(&mut tx, &view, cut, step).await?;
        view.decisions = read_step_decisions(&mut tx, &view).await?;
        view.spent = read_spent(&mut tx, key).await?;
        view.approval = read_pending(&mut tx, &view).await?;
        view.notices = read_notices(&mut tx, key).await?;
        tx.rollback().await?;
        Ok(view)
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

async fn read_row(tx: &mut PgConnection, key: &JobKey) -> Result<JobView, StoreError> {
    let row = sqlx::query!(
        r#"-- read_job
        select to_jsonb(j) as "state!", s.spec, j.spec_version, j.created_at,
          coalesce(j.lease_expires_at, e.lease_expires_at) as lease_expires_at
        from longhaul.job j
        join longhaul.job_spec s using (shard, job_id)
        left join longhaul.executor e on e.executor_id = j.executor_id
        where j.shard = $1 and j.job_id = $2"#,
        key.shard(),
        key.job_id(),
    )
    .fetch_optional(tx)
    .await?
    .ok_or_else(|| StoreError::JobNotFound { key: key.clone() })?;
    check_version(key, row.spec_version)?;
    Ok(JobView {
        key: key.clone(),
        state: read_json("job", row.state)?,
        spec: Arc::new(read_json("job_spec", row.spec)?),
        lease_expires_at: row.lease_expires_at,
        created_at: row.created_at,
        done: BTreeMap::new(),
        spent: BTreeMap::new(),
        decisions: BTreeMap::new(),
        approval: None,
        notices: Vec::new(),
    })
}

async fn read_done(
    tx: &mut PgConnection,
    view: &JobView,
    cut: i32,
    step: Option<i32>,
) -> Result<BTreeMap<i32, DoneStep>, StoreError> {
    let state = &view.state;
    let last = if state.status == Status::Completed { i32::MAX } else { state.current_step - 1 };
    let rows = sqlx::query!(
        r#"-- read_done
        select distinct on (step) step, revision,
          case when $5::integer is null or step = $5 then left(output, $4) end as output,
          length(output) > $4 as output_cut, citations as "citations: Json<Vec<Citation>>", model,
          stop_reason, started_at, finished_at
        from longhaul.checkpoint
        where shard = $1 and job_id = $2 and step <= $3
        order by step, revision desc"#,
        view.key.shard(),
        view.key.job_id(),
        last,
        cut,
        step,
    )
    .fetch_all(&mut *tx)
    .await?;
    let done = rows.into_iter().map(|row| {
        let done = DoneStep {
            revision: row.revision,
            output: row.output,
            output_cut: row.output_cut.unwrap_or(false),
            citations: row.citations.map(|citations| citations.0).unwrap_or_default(),
            model: row.model,
            stop_reason: row.stop_reason,
            started_at: row.started_at,
            finished_at: row.finished_at,
        };
        (row.step, done)
    });
    Ok(done.collect())
}

/// The votes of the last approval of each step that is done, or in which the job ended.
async fn read_step_decisions(
    tx: &mut PgConnection,
    view: &JobView,
) -> Result<BTreeMap<i32, Vec<Decision>>, StoreError> {
    let rows = sqlx::query!(
        "-- read_step_decisions
        select a.step, d.voter, d.verdict, d.door, d.comment, d.decided_at
        from (
          select distinct on (step) step, approval_id from longhaul.approval
          where shard = $1 and job_id = $2 and status <> 'pending'
          order by step, asked_at desc
        ) a
        join longhaul.decision d on d.shard = $1 and d.job_id = $2 and d.approval_id = a.approval_id
        order by a.step, d.decided_at, d.voter",
        view.key.shard(),
        view.key.job_id(),
    )
    .fetch_all(&mut *tx)
    .await?;
    let mut decisions = BTreeMap::<i32, Vec<Decision>>::new();
    for row in rows {
        let status = view.state.step_status(row.step);
        if matches!(status, StepStatus::Done | StepStatus::Failed) {
            decisions.entry(row.step).or_default().push(Decision {
                verdict: word("decision", &row.verdict)?,
                voter: row.voter,
                door: word("decision", &row.door)?,
                comment: row.comment,
                decided_at: row.decided_at,
            });
        }
    }
    Ok(decisions)
}

async fn read_spent(
    tx: &mut PgConnection,
    key: &JobKey,
) -> Result<BTreeMap<i32, Spent>, StoreError> {
    let rows = sqlx::query!(
        r#"-- read_spent
        select step, count(*)::integer as "calls!", coalesce(sum(cost_usd), 0) as "cost_usd!",
          (count(*) filter (where cost_usd is null and outcome <> 'started'))::integer as "unpriced_calls!",
          longhaul.sum_usage(usage) as "usage!: Json<Usage>"
        from longhaul.model_call
        where shard = $1 and job_id = $2
        group by step"#,
        key.shard(),
        key.job_id(),
    )
    .fetch_all(tx)
    .await?;
    let spent = rows.into_iter().map(|row| {
        let spent = Spent {
            usage: row.usage.0,
            calls: row.calls,
            cost_usd: Usd::from(row.cost_usd),
            unpriced_calls: row.unpriced_calls,
        };
        (row.step, spent)
    });
    Ok(spent.collect())
}

async fn read_pending(
    tx: &mut PgConnection,
    view: &JobView,
) -> Result<Option<PendingApproval>, StoreError> {
    let Some(approval_id) = view.state.approval_id else { return Ok(None) };
    let row = sqlx::query!(
        "-- read_pending
        select step, quorum, asked_at, status from longhaul.approval
        where shard = $1 and job_id = $2 and approval_id = $3",
        view.key.shard(),
        view.key.job_id(),
        approval_id.0,
    )
    .fetch_optional(&mut *tx)
    .await?
    .ok_or_else(|| StoreError::ApprovalNotFound { key: view.key.clone(), approval_id })?;
    if word::<ApprovalStatus>("approval", &row.status)? != ApprovalStatus::Pending {
        let what =
            format!("approval {approval_id} is pending in its job and {} in its row", row.status);
        return Err(StoreError::Corrupt { table: "approval", what });
    }
    let decisions = read_decisions(tx, &view.key, approval_id).await?;
    Ok(Some(PendingApproval {
        approval_id,
        step: row.step,
        quorum: row.quorum,
        asked_at: row.asked_at,
        decisions,
    }))
}

async fn read_notices(tx: &mut PgConnection, key: &JobKey) -> Result<Vec<NoticeView>, StoreError> {
    let rows = sqlx::query!(
        "-- read_notices
        select recipient, kind, delivery, error, updated_at from longhaul.outbox
        where shard = $1 and job_id = $2
        order by sequence, recipient limit 500",
        key.shard(),
        key.job_id(),
    )
    .fetch_all(tx)
    .await?;
    let notices = rows.into_iter().map(|row| {
        Ok(NoticeView {
            recipient: row.recipient,
            kind: word("outbox", &row.kind)?,
            delivery: word("outbox", &row.delivery)?,
            error: row.error,
            updated_at: row.updated_at,
        })
    });
    notices.collect()
}
