//! What is shown to approvers, when they edit it or send it back, and what became of that.

use serde_json::json;
use sqlx::PgConnection;

use crate::domain::decide::Round;
use crate::domain::id::JobKey;
use crate::domain::job::StepResult;
use crate::domain::money::Usd;
use crate::domain::state::Ballot;
use crate::store::transition::Locked;
use crate::store::{Store, StoreError, bounded, read_json};

impl Store {
    /// What a run step answered and what approvers wanted changed of it, in order: the step, if it is asked again, sees
    /// both.
    pub async fn rounds(
        &self,
        key: &JobKey,
        step: i32,
        approval_steps: &[i32],
    ) -> Result<Vec<Round>, StoreError> {
        bounded(
            sqlx::query_as!(
                Round,
                r#"-- rounds
                select d.comment as feedback, (select c.output from longhaul.checkpoint c
                  where c.shard = a.shard and c.job_id = a.job_id and c.step = $3 and c.revision <= a.revision
                    and c.output is not null
                  order by c.revision desc limit 1) as "answer!"
                from longhaul.approval a join longhaul.decision d using (shard, job_id, approval_id)
                where a.shard = $1 and a.job_id = $2 and a.step = any($4) and a.status = 'changes_requested'
                  and d.verdict = 'request_changes'
                  -- What was wanted of an answer to something else is of no use.
                  and a.revision >= coalesce((select max(c.revision) from longhaul.checkpoint c
                    where c.shard = a.shard and c.job_id = a.job_id and c.step < $3), 0)
                order by d.decided_at"#,
                key.shard(),
                key.job_id(),
                step,
                approval_steps,
            )
            .fetch_all(&self.pool),
        )
        .await
    }
}

/// Reads what is edited or sent back with a vote.
pub(super) async fn read_shown(
    tx: &mut PgConnection,
    key: &JobKey,
    locked: &Locked,
    ballot: &mut Ballot,
) -> Result<(), StoreError> {
    let step = locked.state.current_step;
    ballot.revisions = sqlx::query_scalar!(
        r#"-- count_revisions
        select count(*)::integer as "count!" from longhaul.approval
        where shard = $1 and job_id = $2 and step = $3 and status = 'changes_requested'"#,
        key.shard(),
        key.job_id(),
        step,
    )
    .fetch_one(&mut *tx)
    .await?;
    ballot.has_edited = sqlx::query_scalar!(
        r#"-- has_edited
        select exists (select from longhaul.decision
          where shard = $1 and job_id = $2 and approval_id = $3 and voter = $4 and edited) as "has_edited!""#,
        key.shard(),
        key.job_id(),
        locked.state.approval_id.map(|approval_id| approval_id.0),
        ballot.voter,
    )
    .fetch_one(&mut *tx)
    .await?;
    let shown = sqlx::query!(
        r#"-- read_shown
        select output as "output!", content, citations, usage, cost_usd, model, stop_reason
        from longhaul.checkpoint
        where shard = $1 and job_id = $2 and step = $3 and output is not null
        order by revision desc limit 1"#,
        key.shard(),
        key.job_id(),
        locked.spec.shown_at(step),
    )
    .fetch_optional(tx)
    .await?;
    ballot.shown = match shown {
        None => None,
        Some(row) => Some(Box::new(StepResult {
            output: row.output,
            content: row.content.unwrap_or_default(),
            citations: read_json("checkpoint", row.citations.unwrap_or_else(|| json!([])))?,
            usage: read_json("checkpoint", row.usage.unwrap_or_else(|| json!({})))?,
            cost_usd: row.cost_usd.map(Usd::from),
            model: row.model.unwrap_or_default(),
            stop_reason: row.stop_reason.unwrap_or_default(),
        })),
    };
    Ok(())
}
