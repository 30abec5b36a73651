//! The outline of an approval: how it stands and who decided, for an answer of a few lines.

use super::{read_decisions, word};
use crate::domain::approval::ApprovalStatus;
use crate::domain::event::Decision;
use crate::domain::id::{ApprovalId, JobKey};
use crate::domain::job::Status;
use crate::store::{Store, StoreError, bounded};

/// How an approval stands.
#[derive(Clone, Debug)]
pub struct ApprovalOutline {
    /// What the job is for.
    pub task: String,
    /// The language that was chosen for the job.
    pub language: Option<String>,
    /// How the job stands.
    pub job_status: Status,
    /// How the approval stands.
    pub status: ApprovalStatus,
    /// How many must approve.
    pub quorum: i32,
    /// The votes so far, oldest first.
    pub decisions: Vec<Decision>,
}

impl Store {
    /// How an approval stands, if there is one of this id.
    pub async fn find_approval_outline(
        &self,
        key: &JobKey,
        approval_id: ApprovalId,
    ) -> Result<Option<ApprovalOutline>, StoreError> {
        bounded(async {
            let mut tx = self.snapshot().await?;
            let found = sqlx::query!(
                "-- find_approval_outline
                select left(s.spec ->> 'task', 1000) as task, s.spec ->> 'language' as language,
                  j.status as job_status, a.status, a.quorum
                from longhaul.approval a
                join longhaul.job j using (shard, job_id) join longhaul.job_spec s using (shard, job_id)
                where a.shard = $1 and a.job_id = $2 and a.approval_id = $3",
                key.shard(),
                key.job_id(),
                approval_id.0,
            )
            .fetch_optional(&mut *tx)
            .await?;
            let Some(row) = found else { return Ok::<_, StoreError>(None) };
            let decisions = read_decisions(&mut tx, key, approval_id).await?;
            Ok(Some(ApprovalOutline {
                task: row.task.unwrap_or_default(),
                language: row.language,
                job_status: word("job", &row.job_status)?,
                status: word("approval", &row.status)?,
                quorum: row.quorum,
                decisions,
            }))
        })
        .await
    }
}
