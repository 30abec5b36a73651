//! Submit: one id, one job, however often and from however many clients it is sent.
//!
//! An answer means that the job is committed.
//! Two submits of one id at once meet at the primary key: one makes the job, the other waits and then compares.

use serde_json::Value;
use sqlx::types::Json;

use super::transition::{Written, woken, write};
use super::{Store, StoreError, retried};
use crate::domain::id::JobKey;
use crate::domain::job::JobState;
use crate::domain::spec::{self, Spec};
use crate::domain::state;
use crate::domain::submission::{Submission, find_difference, fingerprint};

/// A job to be stored: what was sent, and what became of it.
#[derive(Debug)]
pub struct NewJob<'a> {
    /// Its key.
    pub key: &'a JobKey,
    /// As it was sent.
    pub submission: &'a Submission,
    /// With the defaults filled in.
    pub spec: &'a Spec,
    /// The trace of the submitter.
    pub traceparent: Option<&'a str>,
    /// Who submits.
    pub actor: &'a str,
}

/// The content as it was sent, made once however often the transaction is tried.
struct Sent {
    content: Value,
    fingerprint: Vec<u8>,
}

impl Store {
    /// Stores a job, or finds that it is stored already; answers whether it was made now.
    pub async fn submit(&self, job: &NewJob<'_>) -> Result<bool, StoreError> {
        let content = job.submission.content();
        let sent = Sent { fingerprint: fingerprint(&content), content };
        retried(|| self.submit_once(job, &sent)).await
    }

    async fn submit_once(&self, job: &NewJob<'_>, sent: &Sent) -> Result<bool, StoreError> {
        let mut tx = self.pool.begin().await?;
        let key = job.key;
        let now = sqlx::query_scalar!(
            r#"-- insert_job
            insert into longhaul.job
              (shard, job_id, status, current_step, step_count, priority, spec_version, created_at, updated_at)
            values ($1, $2, 'queued', 1, $3, $4, $5, longhaul.now(), longhaul.now())
            on conflict do nothing
            returning created_at"#,
            key.shard(),
            key.job_id(),
            job.spec.step_count(),
            job.spec.priority,
            spec::VERSION,
        )
        .fetch_optional(&mut *tx)
        .await?;
        let Some(now) = now else {
            tx.rollback().await?;
            return self.compare(job.key, sent).await.map(|()| false);
        };
        let labels = serde_json::to_value(&job.spec.labels).unwrap_or_default();
        sqlx::query!(
            "-- insert_job_spec
            insert into longhaul.job_spec (shard, job_id, sent, spec, fingerprint, labels, traceparent)
            values ($1, $2, $3, $4, $5, $6, $7)",
            key.shard(),
            key.job_id(),
            &sent.content,
            Json(job.spec) as _,
            &sent.fingerprint,
            labels,
            job.traceparent,
        )
        .execute(&mut *tx)
        .await?;
        let transition = state::submit(job.spec, job.actor, now);
        let from = JobState::new(job.spec.step_count(), now);
        write(&mut tx, &[Written::new(key, &from, &transition)]).await?;
        tx.commit().await?;
        self.wake.job_changed(key, woken(&transition));
        Ok(true)
    }

    /// The id is taken: by the same content, or by other content, which is a conflict.
    async fn compare(&self, key: &JobKey, sent: &Sent) -> Result<(), StoreError> {
        let found = sqlx::query!(
            r#"-- compare_submission
            select fingerprint, sent as "sent: Value" from longhaul.job_spec where shard = $1 and job_id = $2"#,
            key.shard(),
            key.job_id(),
        )
        .fetch_optional(&self.pool)
        .await?
        .ok_or_else(|| StoreError::JobNotFound { key: key.clone() })?;
        if found.fingerprint == sent.fingerprint {
            return Ok(());
        }
        // A release that writes the same content in another way must not make a conflict of it.
        match find_difference(&found.sent, &sent.content) {
            Some(field) => Err(StoreError::JobIdConflict { key: key.clone(), field }),
            None => Ok(()),
        }
    }
}
