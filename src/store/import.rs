//! Import: jobs from another system are stored as if they had been submitted here and had come so far.
//!
//! One transaction per job: its birth, what its steps came to, how it stands, and its lines of the ledger.
//! An id that is taken stays as it is, so that an import can be repeated. A trial does all of it and takes it back.

pub mod source;

use std::sync::Arc;

use chrono::{DateTime, Utc};
use serde::Serialize;
use serde_json::Value;
use sqlx::PgConnection;
use uuid::Uuid;

use super::submit::{Birth, NewJob, Stored};
use super::write::{Written, encode, write, write_locked};
use super::{Store, StoreError, retried};
use crate::domain::id::{CallId, JobKey};
use crate::domain::import::Past;
use crate::domain::job::JobState;
use crate::domain::money::{Usage, Usd};
use crate::domain::spec::Spec;
use crate::domain::state;
use crate::domain::submission::fingerprint;

/// Who imports, as the history of a job has it.
const ACTOR: &str = "import";

/// A job from another system.
#[derive(Clone, Debug)]
pub struct OldJob {
    /// Its key.
    pub key: JobKey,
    /// As its client would send it here.
    pub content: Value,
    /// With the defaults filled in.
    pub spec: Arc<Spec>,
    /// How far it has come.
    pub past: Past,
    /// When it was submitted there.
    pub created_at: Option<DateTime<Utc>>,
    /// When it ended there, if it did.
    pub ended_at: Option<DateTime<Utc>>,
}

/// What became of an import.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Imported {
    /// It is there now, in this status; or would be, were it no trial.
    Created(crate::domain::job::Status),
    /// It was there already, from the same content.
    Existed,
    /// It was there, from the same content, and was pruned.
    Pruned,
}

/// A request to a model that another system has made.
#[derive(Serialize)]
struct OldCall<'a> {
    call_id: CallId,
    step: i32,
    model: &'a str,
    usage: Usage,
    cost_usd: Option<Usd>,
}

impl Store {
    /// Stores a job from another system, unless its id is taken; as a trial it stores nothing.
    pub async fn import_job(&self, job: &OldJob, is_trial: bool) -> Result<Imported, StoreError> {
        let hash = fingerprint(&job.content);
        let stored = retried(|| Box::pin(self.import_once(job, &hash, is_trial))).await?;
        if let Some(status) = stored {
            return Ok(Imported::Created(status));
        }
        match self.compare(&job.key, &job.content, &hash).await? {
            Stored::Created(..) | Stored::Existed => Ok(Imported::Existed),
            Stored::Pruned(_) => Ok(Imported::Pruned),
        }
    }

    /// Answers how it stands, or nothing if its id is taken.
    async fn import_once(
        &self,
        job: &OldJob,
        hash: &[u8],
        is_trial: bool,
    ) -> Result<Option<crate::domain::job::Status>, StoreError> {
        let mut tx = self.pool.begin().await?;
        let now = sqlx::query_scalar!(
            r#"-- import_moment
            select longhaul.now() as "now!""#
        );
        let now = now.fetch_one(&mut *tx).await?;
        let at = job.ended_at.map_or(now, |ended_at| ended_at.min(now));
        let (born, moved) = state::import(&job.spec, job.past.clone(), ACTOR, at);
        let new = NewJob {
            key: job.key.clone(),
            content: job.content.clone(),
            spec: Arc::clone(&job.spec),
            traceparent: None,
            actor: ACTOR.into(),
            claimer: None,
        };
        let birth = Birth::of(&new, hash)?;
        let nothing = JobState::new(job.spec.step_count(), at);
        let written = Written::new(&job.key, &nothing, &born).born(birth.row());
        let wrote = write(&mut tx, &[written], &[], None).await?;
        if !wrote.job_ids().contains(job.key.job_id()) {
            tx.rollback().await?;
            return Ok(None);
        }
        write_locked(&mut tx, &[Written::new(&job.key, &born.state, &moved)]).await?;
        keep_times(&mut tx, job, at).await?;
        keep_calls(&mut tx, job, at).await?;
        if is_trial {
            tx.rollback().await?;
        } else {
            tx.commit().await?;
        }
        Ok(Some(moved.state.status))
    }
}

/// It is as old as it was there: who has waited longer is claimed first, and lists keep their order.
async fn keep_times(
    tx: &mut PgConnection,
    job: &OldJob,
    at: DateTime<Utc>,
) -> Result<(), StoreError> {
    let Some(created_at) = job.created_at.filter(|created_at| *created_at < at) else {
        return Ok(());
    };
    sqlx::query!(
        "-- keep_created_at
        update longhaul.job set created_at = $3 where shard = $1 and job_id = $2",
        job.key.shard(),
        job.key.job_id(),
        created_at,
    )
    .execute(tx)
    .await?;
    Ok(())
}

/// What its steps used and cost stays in its sums, as calls that nobody here has made.
async fn keep_calls(
    tx: &mut PgConnection,
    job: &OldJob,
    at: DateTime<Utc>,
) -> Result<(), StoreError> {
    let results = (1..).zip(&job.past.done);
    let calls = results.filter_map(|(step, result)| {
        let result = result.as_ref()?;
        let (model, usage, cost_usd) = (result.model.as_str(), result.usage, result.cost_usd);
        let call_id = CallId(Uuid::now_v7());
        let is_known = usage != Usage::default() || cost_usd.is_some();
        is_known.then_some(OldCall { call_id, step, model, usage, cost_usd })
    });
    let calls: Vec<OldCall<'_>> = calls.collect();
    if calls.is_empty() {
        return Ok(());
    }
    sqlx::query!(
        "-- keep_calls
        insert into longhaul.model_call (shard, job_id, call_id, step, revision, attempt_id, executor_id, epoch, model,
          outcome, started_at, settled_at, usage, cost_usd)
        select $1, $2, c.call_id, c.step, 1, c.call_id, $4, 0, c.model, 'answered', $5, $5, c.usage, c.cost_usd
        from jsonb_to_recordset($3) as c(call_id uuid, step integer, model text, usage jsonb, cost_usd numeric)",
        job.key.shard(),
        job.key.job_id(),
        encode(&calls)? as _,
        Uuid::nil(),
        at,
    )
    .execute(tx)
    .await?;
    Ok(())
}
