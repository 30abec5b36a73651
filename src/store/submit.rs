//! Submit: one id, one job, however often and from however many clients it is sent.
//!
//! An answer means that the job is committed.
//! Two submits of one id at once meet at the primary key: one makes the job, the other waits and then compares.

use std::sync::Arc;

use chrono::{DateTime, Utc};
use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;
use sqlx::PgConnection;

use super::claim::Claimed;
use super::write::encode;
use super::writer::Work;
use super::{Store, StoreError, bounded};
use crate::domain::id::{AttemptId, ExecutorId, JobKey};
use crate::domain::job::{JobState, Lease};
use crate::domain::spec::{self, Spec};
use crate::domain::state::{self, Action, Transition};
use crate::domain::submission::{find_difference, fingerprint};

/// A job to be stored: what was sent, and what became of it.
#[derive(Debug)]
pub struct NewJob {
    /// Its key.
    pub key: JobKey,
    /// As it was sent.
    pub content: Value,
    /// With the defaults filled in.
    pub spec: Arc<Spec>,
    /// The trace of the submitter.
    pub traceparent: Option<String>,
    /// Who submits.
    pub actor: &'static str,
    /// The executor of this process, if it has room for the job and nothing waits before it.
    pub claimer: Option<ExecutorId>,
}

/// What became of a submit.
#[derive(Debug)]
pub enum Stored {
    /// It is there now, and waits for an executor, a person or a time, or has ended.
    Waits,
    /// It is there now, and in the hands of the executor that had room.
    Claimed(Box<Claimed>),
    /// It was there already.
    Existed,
}

/// A job in the form in which the writer stores it.
pub(super) struct Birth {
    pub(super) key: JobKey,
    pub(super) spec: Arc<Spec>,
    pub(super) claimer: Option<ExecutorId>,
    actor: &'static str,
    sent: Box<RawValue>,
    frozen: Box<RawValue>,
    fingerprint: String,
    traceparent: Option<String>,
}

impl Store {
    /// Stores a job, or finds that it is stored already.
    pub async fn submit(&self, job: NewJob) -> Result<Stored, StoreError> {
        let hash = fingerprint(&job.content);
        let birth = Birth {
            key: job.key.clone(),
            spec: Arc::clone(&job.spec),
            claimer: job.claimer,
            actor: job.actor,
            sent: encode(&job.content)?.0,
            frozen: encode(&*job.spec)?.0,
            fingerprint: hash.iter().fold("\\x".to_owned(), |hex, b| hex + &format!("{b:02x}")),
            traceparent: job.traceparent.clone(),
        };
        let work = Work::Submit(Box::new(birth));
        match self.write_soon(&job.key, work, Vec::new()).await? {
            Some(state) => Ok(job.stored(state)),
            None => self.compare(&job.key, &job.content, &hash).await.map(|()| Stored::Existed),
        }
    }

    /// The id is taken: by the same content, or by other content, which is a conflict.
    async fn compare(
        &self,
        key: &JobKey,
        content: &Value,
        fingerprint: &[u8],
    ) -> Result<(), StoreError> {
        let found = bounded(
            sqlx::query!(
                r#"-- compare_submission
            select fingerprint, sent as "sent: Value" from longhaul.job_spec where shard = $1 and job_id = $2"#,
                key.shard(),
                key.job_id(),
            )
            .fetch_optional(&self.pool),
        )
        .await?
        .ok_or_else(|| StoreError::JobNotFound { key: key.clone() })?;
        if found.fingerprint == fingerprint {
            return Ok(());
        }
        // A release that writes the same content in another way must not make a conflict of it.
        match find_difference(&found.sent, content) {
            Some(field) => Err(StoreError::JobIdConflict { key: key.clone(), field }),
            None => Ok(()),
        }
    }
}

impl NewJob {
    fn stored(self, state: JobState) -> Stored {
        let (Some(executor_id), Some(attempt_id)) = (state.executor_id, state.attempt_id) else {
            return Stored::Waits;
        };
        let lease = Lease { executor_id, epoch: state.epoch, attempt_id };
        let Self { key, spec, traceparent, .. } = self;
        Stored::Claimed(Box::new(Claimed { key, lease, state, spec, traceparent }))
    }
}

impl Birth {
    /// The job's first moment, and with a claimer that has room the first claim as well.
    pub(super) fn transition(
        &self,
        now: DateTime<Utc>,
        claimer: Option<ExecutorId>,
    ) -> (JobState, Transition) {
        let before = JobState::new(self.spec.step_count(), now);
        let born = state::submit(&self.spec, self.actor, now);
        let Some(executor_id) = claimer.filter(|_| self.claimer == claimer) else {
            return (before, born);
        };
        let action = Action::Claim { executor_id, attempt_id: AttemptId::new() };
        match state::next(&born.state, &self.spec, action, "executor", now) {
            Ok(Some(claimed)) => (before, born.followed_by(claimed)),
            // It waits for something else than an executor.
            Ok(None) | Err(_) => (before, born),
        }
    }

    /// About how many bytes it writes.
    pub(super) fn weight(&self) -> usize {
        self.sent.get().len() + self.frozen.get().len()
    }
}

/// A job as its rows are written.
#[derive(Serialize)]
struct Row<'a> {
    shard: i16,
    job_id: &'a str,
    state: &'a JobState,
    sent: &'a RawValue,
    spec: &'a RawValue,
    fingerprint: &'a str,
    traceparent: Option<&'a str>,
    priority: i32,
    spec_version: i32,
}

/// Stores jobs that are not there yet; answers which ids were not taken.
pub(super) async fn insert_jobs(
    tx: &mut PgConnection,
    born: &[(&Birth, &JobState)],
) -> Result<Vec<String>, StoreError> {
    let rows = born.iter().map(|(birth, state)| Row {
        shard: birth.key.shard(),
        job_id: birth.key.job_id(),
        state,
        sent: &birth.sent,
        spec: &birth.frozen,
        fingerprint: &birth.fingerprint,
        traceparent: birth.traceparent.as_deref(),
        priority: birth.spec.priority,
        spec_version: spec::VERSION,
    });
    let rows: Vec<Row<'_>> = rows.collect();
    let stored = sqlx::query_scalar!(
        r#"-- insert_jobs
        with input as materialized (
          select * from jsonb_to_recordset($1) as t(shard smallint, job_id text, state jsonb, sent jsonb, spec jsonb,
            fingerprint bytea, traceparent text, priority integer, spec_version integer)
        ),
        -- An id that is taken stays as it is.
        born as (
          insert into longhaul.job (shard, job_id, status, reason, current_step, step_count, priority, spec_version,
            run_at, executor_id, epoch, attempt_id, attempt, last_sequence, approval_id, approvals_asked,
            deadline_at, step_started_at, created_at, updated_at, finished_at)
          select t.shard, t.job_id, s.status, s.reason, s.current_step, s.step_count, t.priority, t.spec_version,
            s.run_at, s.executor_id, s.epoch, s.attempt_id, s.attempt, s.last_sequence, s.approval_id,
            s.approvals_asked, s.deadline_at, s.step_started_at, s.updated_at, s.updated_at, s.finished_at
          from input t cross join lateral jsonb_to_record(t.state) as s(
            status text, reason text, current_step integer, step_count integer, run_at timestamptz,
            executor_id uuid, epoch integer, attempt_id uuid, attempt integer, last_sequence integer,
            approval_id uuid, approvals_asked integer, deadline_at timestamptz, step_started_at timestamptz,
            updated_at timestamptz, finished_at timestamptz)
          on conflict do nothing
          returning shard, job_id
        ),
        specified as (
          insert into longhaul.job_spec (shard, job_id, sent, spec, fingerprint, labels, traceparent)
          select t.shard, t.job_id, t.sent, t.spec, t.fingerprint, t.spec -> 'labels', t.traceparent
          from input t join born using (shard, job_id)
        )
        select job_id from born"#,
        encode(&rows)? as _,
    )
    .fetch_all(tx)
    .await?;
    Ok(stored)
}
