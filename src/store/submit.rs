//! Submit: one id, one job, however often and from however many clients it is sent.
//!
//! An answer means that the job is committed.
//! Two submits of one id at once meet at the primary key: one makes the job, the other waits and then compares.

use std::sync::Arc;

use chrono::{DateTime, Utc};
use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;
use serde_with::skip_serializing_none;

use super::claim::Claimed;
use super::job::JobView;
use super::tombstone::Tombstone;
use super::write::{bytea, encode};
use super::writer::{Moved, Work};
use super::{Store, StoreError, bounded};
use crate::domain::id::{ExecutorId, JobKey};
use crate::domain::job::JobState;
use crate::domain::spec::Spec;
use crate::domain::state::{self, Transition};
use crate::domain::submission::{find_difference, fingerprint};

/// What differs from a job of which only the fingerprint is kept.
const THE_WHOLE: &str = "the request as a whole";

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
    pub actor: Arc<str>,
    /// The executor of this process, if it has room for the job and nothing waits before it.
    pub claimer: Option<ExecutorId>,
}

/// What became of a submit.
#[derive(Debug)]
pub enum Stored {
    /// It is there now, as it is shown: it waits for an executor, a person or a time, or has ended;
    /// or it is in the hands of the executor that had room.
    Created(Box<JobView>, Option<Box<Claimed>>),
    /// It was there already.
    Existed,
    /// It was there, and was pruned.
    Pruned(Box<Tombstone>),
}

/// A job in the form in which the writer stores it.
pub(super) struct Birth {
    pub(super) spec: Arc<Spec>,
    pub(super) claimer: Option<ExecutorId>,
    actor: Arc<str>,
    sent: Box<RawValue>,
    frozen: Box<RawValue>,
    fingerprint: String,
    traceparent: Option<String>,
}

impl Store {
    /// Stores a job, or finds that it is stored already.
    pub async fn submit(&self, job: NewJob) -> Result<Stored, StoreError> {
        let hash = fingerprint(&job.content);
        let birth = Birth::of(&job, &hash)?;
        let work = Work::Submit(Box::new(birth));
        match self.write_soon(&job.key, work, Vec::new()).await? {
            Some(moved) => {
                let state = &moved.transition.state;
                self.asked.note(&job.key, state, &job.spec, job.traceparent.as_deref());
                Ok(job.stored(*moved))
            }
            None => self.compare(&job.key, &job.content, &hash).await,
        }
    }

    /// The id is taken: by the same content, or by other content, which is a conflict.
    pub(super) async fn compare(
        &self,
        key: &JobKey,
        content: &Value,
        fingerprint: &[u8],
    ) -> Result<Stored, StoreError> {
        let found = bounded(
            sqlx::query!(
                r#"-- compare_submission
            select fingerprint, sent as "sent: Value" from longhaul.job_spec where shard = $1 and job_id = $2"#,
                key.shard(),
                key.job_id(),
            )
            .fetch_optional(&self.pool),
        )
        .await?;
        let Some(found) = found else { return self.compare_pruned(key, fingerprint).await };
        if found.fingerprint == fingerprint {
            return Ok(Stored::Existed);
        }
        // A release that writes the same content in another way must not make a conflict of it.
        match find_difference(&found.sent, content) {
            Some(field) => Err(StoreError::JobIdConflict { key: key.clone(), field }),
            None => Ok(Stored::Existed),
        }
    }

    /// Of a pruned job only the fingerprint is known, so that a conflict is one of the request as a whole.
    async fn compare_pruned(&self, key: &JobKey, fingerprint: &[u8]) -> Result<Stored, StoreError> {
        let found = self.find_tombstone(key).await?;
        let found = found.ok_or_else(|| StoreError::JobNotFound { key: key.clone() })?;
        if found.is_of(fingerprint) {
            return Ok(Stored::Pruned(Box::new(found)));
        }
        Err(StoreError::JobIdConflict { key: key.clone(), field: THE_WHOLE.to_owned() })
    }
}

impl NewJob {
    fn stored(self, moved: Moved) -> Stored {
        let Self { key, spec, traceparent, .. } = self;
        let Moved { transition, lease_expires_at, .. } = moved;
        let view = JobView::born(key.clone(), Arc::clone(&spec), &transition, lease_expires_at);
        let state = transition.state;
        let claimed =
            state.lease().map(|lease| Box::new(Claimed { key, lease, state, spec, traceparent }));
        Stored::Created(Box::new(view), claimed)
    }
}

impl Birth {
    /// Encodes it, once.
    pub(super) fn of(job: &NewJob, fingerprint: &[u8]) -> Result<Self, StoreError> {
        Ok(Self {
            spec: Arc::clone(&job.spec),
            claimer: job.claimer,
            actor: Arc::clone(&job.actor),
            sent: encode(&job.content)?.0,
            frozen: encode(&*job.spec)?.0,
            fingerprint: bytea(fingerprint),
            traceparent: job.traceparent.clone(),
        })
    }

    /// The job's first moment, and with a claimer that has room the first claim as well.
    pub(super) fn transition(
        &self,
        now: DateTime<Utc>,
        claimer: Option<ExecutorId>,
    ) -> (JobState, Transition) {
        let before = JobState::new(self.spec.step_count(), now);
        let born = state::submit(&self.spec, &self.actor, now);
        match claimer.filter(|_| self.claimer == claimer) {
            Some(executor_id) => (before, born.claimed_by(executor_id, &self.spec, now)),
            None => (before, born),
        }
    }

    /// As it is written.
    pub(super) fn row(&self) -> BirthRow<'_> {
        BirthRow {
            sent: &self.sent,
            spec: &self.frozen,
            fingerprint: &self.fingerprint,
            traceparent: self.traceparent.as_deref(),
            priority: self.spec.priority,
            spec_version: self.spec.version(),
        }
    }

    /// About how many bytes it writes.
    pub(super) fn weight(&self) -> usize {
        self.sent.get().len() + self.frozen.get().len()
    }
}

/// What is written of a job at its birth, beside its first transition.
#[skip_serializing_none]
#[derive(Serialize)]
pub(super) struct BirthRow<'a> {
    sent: &'a RawValue,
    spec: &'a RawValue,
    fingerprint: &'a str,
    traceparent: Option<&'a str>,
    priority: i32,
    spec_version: i32,
}
