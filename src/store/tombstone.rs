//! Tombstones: what is known of a job after it was pruned.
//!
//! In comes a key of which no job was found; out comes the error that says so, or that it was pruned, and how it ended.
//! A tombstone that is only a mark, whose job is whole, is not seen here.

use std::collections::BTreeMap;
use std::sync::Arc;

use chrono::{DateTime, Utc};
use serde_json::Value;
use sqlx::PgExecutor;

use super::approval::word;
use super::job::JobView;
use super::list::outline;
use super::{Store, StoreError, bounded};
use crate::domain::id::JobKey;
use crate::domain::job::{JobState, Reason, Status};
use crate::domain::word::Word as _;

/// What stays of a pruned job.
#[derive(Clone, Debug)]
pub struct Tombstone {
    key: JobKey,
    state: JobState,
    labels: BTreeMap<String, String>,
    created_at: DateTime<Utc>,
    pruned_at: DateTime<Utc>,
    fingerprint: Vec<u8>,
}

impl Tombstone {
    /// How it ended.
    pub fn status(&self) -> Status {
        self.state.status
    }

    /// The job as far as it is known: how and when it ended, without its task, its steps and what they made.
    pub fn view(&self) -> JobView {
        let spec = outline(String::new(), self.labels.clone());
        let born = JobView::as_if_stored(self.key.clone(), Arc::new(spec));
        JobView { state: self.state.clone(), created_at: self.created_at, ..born }
    }

    /// A sentence for whoever sends its request again.
    pub fn warning(&self) -> String {
        let (status, ended) = (self.state.status.word(), day(self.state.updated_at));
        let pruned = day(self.pruned_at);
        format!(
            "the job ended as {status} on {ended} and was pruned on {pruned}: what it made is no longer kept, and it does not run again"
        )
    }

    /// Whether a request is the one that made the job.
    pub(super) fn is_of(&self, fingerprint: &[u8]) -> bool {
        self.fingerprint == fingerprint
    }
}

fn day(at: DateTime<Utc>) -> String {
    at.format("%Y-%m-%d").to_string()
}

impl Store {
    /// What stays of a job, if it was pruned.
    pub async fn find_tombstone(&self, key: &JobKey) -> Result<Option<Tombstone>, StoreError> {
        bounded(find(&self.pool, key)).await
    }
}

/// Why no row of a job was found: it was pruned, or never stored.
pub(super) async fn not_found(connection: impl PgExecutor<'_>, key: &JobKey) -> StoreError {
    match find(connection, key).await {
        Ok(Some(found)) => {
            let Tombstone { key, state, .. } = found;
            StoreError::JobPruned { key, status: state.status, finished_at: state.updated_at }
        }
        Ok(None) => StoreError::JobNotFound { key: key.clone() },
        Err(error) => error,
    }
}

async fn find(
    connection: impl PgExecutor<'_>,
    key: &JobKey,
) -> Result<Option<Tombstone>, StoreError> {
    let row = sqlx::query!(
        r#"-- find_tombstone
        select t.status, t.reason, t.current_step, t.step_count, t.labels as "labels: Value", t.fingerprint,
          t.created_at, t.finished_at, t.pruned_at as "pruned_at!"
        from longhaul.tombstone t
        where t.shard = $1 and t.job_id = $2 and t.pruned_at is not null"#,
        key.shard(),
        key.job_id(),
    )
    .fetch_optional(connection)
    .await?;
    let Some(row) = row else { return Ok(None) };
    let state = JobState {
        status: word("tombstone", &row.status)?,
        // The list of reasons may be longer where it was pruned.
        reason: row.reason.as_deref().and_then(Reason::find_by_word),
        current_step: row.current_step,
        step_started_at: Some(row.finished_at),
        finished_at: Some(row.finished_at),
        ..JobState::new(row.step_count, row.finished_at)
    };
    Ok(Some(Tombstone {
        key: key.clone(),
        state,
        labels: serde_json::from_value(row.labels).unwrap_or_default(),
        created_at: row.created_at,
        pruned_at: row.pruned_at,
        fingerprint: row.fingerprint,
    }))
}
