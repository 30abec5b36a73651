//! Claim: an executor takes jobs from the queue, as many as it has free slots, and moves what it holds.
//!
//! Rows that another executor is claiming are skipped, so executors never wait for each other.
//! Only the holder of a lease can finish, delay, fail or release a running job; a stale one is told `LeaseLost`.

use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use serde_json::Value;
use sqlx::PgConnection;

use super::executor::Held;
use super::sweep::set_aside;
use super::transition::{Written, write};
use super::wake::Woken;
use super::{Store, StoreError, read_json};
use crate::domain::id::{AttemptId, ExecutorId, JobKey};
use crate::domain::job::{Failure, JobState, Lease, StepResult};
use crate::domain::spec::{self, Spec};
use crate::domain::state::{self, Action, Refusal, Transition};

/// A job in an executor's hands.
#[derive(Clone, Debug)]
pub struct Claimed {
    /// Which job.
    pub key: JobKey,
    /// The right to move it.
    pub lease: Lease,
    /// Its row.
    pub state: JobState,
    /// Its specification.
    pub spec: Arc<Spec>,
    /// The trace of its submitter.
    pub traceparent: Option<String>,
}

impl Store {
    /// Takes up to so many jobs from the queue, the most urgent and oldest first.
    ///
    /// At most one of them is on its last attempt, so that a job which kills its executors takes no others with it.
    pub async fn claim(
        &self,
        executor_id: ExecutorId,
        limit: usize,
        holds_last_attempt: bool,
    ) -> Result<Vec<Claimed>, StoreError> {
        match self.claim_once(executor_id, limit, holds_last_attempt).await {
            // The next look claims them.
            Err(error) if error.is_undone() => Ok(Vec::new()),
            result => result,
        }
    }

    async fn claim_once(
        &self,
        executor_id: ExecutorId,
        limit: usize,
        holds_last_attempt: bool,
    ) -> Result<Vec<Claimed>, StoreError> {
        let mut tx = self.pool.begin().await?;
        let rows = lock_claimable(&mut tx, executor_id, limit, holds_last_attempt).await?;
        let mut holds_last_attempt = holds_last_attempt;
        let mut claims = Vec::new();
        for row in rows {
            let key = JobKey::new(&row.job_id);
            let claim = match row.into_claim(executor_id) {
                Ok(claim) => claim,
                Err(error) => {
                    tracing::error!(job_id = key.job_id(), %error, "could not read a job; it is set aside");
                    set_aside(&mut tx, &key).await?;
                    continue;
                }
            };
            let is_last_attempt = claim.from.is_on_last_attempt(claim.spec.max_attempts);
            if is_last_attempt && std::mem::replace(&mut holds_last_attempt, true) {
                continue;
            }
            claims.push((key, claim));
        }
        let written: Vec<Written<'_>> = claims
            .iter()
            .map(|(key, claim)| Written::new(key, &claim.from, &claim.transition))
            .collect();
        if !written.is_empty() {
            write(&mut tx, &written).await?;
        }
        tx.commit().await?;
        let claimed = claims.into_iter().map(|(key, claim)| {
            self.wake.job_changed(&key, Woken::default());
            claim.into_claimed(key)
        });
        Ok(claimed.collect())
    }

    /// Stores a step's result; with a next attempt's id the same executor goes straight on, if the next step lets it.
    pub async fn finish(
        &self,
        job: &Claimed,
        result: StepResult,
        next_attempt: Option<AttemptId>,
    ) -> Result<JobState, StoreError> {
        let result = Box::new(result);
        self.move_held(job, Action::Finish { lease: job.lease, result, next_attempt }).await
    }

    /// Parks the job after an error that passes by itself.
    pub async fn delay(
        &self,
        job: &Claimed,
        failure: Failure,
        after: Option<Duration>,
    ) -> Result<JobState, StoreError> {
        let jitter = rand::random::<f64>();
        self.move_held(job, Action::Delay { lease: job.lease, failure, after, jitter }).await
    }

    /// Ends the job because of an error.
    pub async fn fail(&self, job: &Claimed, failure: Failure) -> Result<JobState, StoreError> {
        self.move_held(job, Action::Fail { lease: job.lease, failure }).await
    }

    /// Gives the job back, uncounted.
    pub async fn release(&self, job: &Claimed) -> Result<JobState, StoreError> {
        self.move_held(job, Action::Release { lease: job.lease }).await
    }

    /// Gives back a job whose claim is not known to its executor, uncounted.
    pub async fn release_unheld(&self, held: &Held) -> Result<(), StoreError> {
        let action = Action::Release { lease: held.lease };
        self.act(&held.key, None, &action, "executor").await.map(|_| ())
    }

    /// Counts the attempt as lost, where nothing else can be stored of it.
    pub async fn lose(&self, job: &Claimed) -> Result<JobState, StoreError> {
        self.move_held(job, Action::Lose { lease: job.lease }).await
    }

    async fn move_held(&self, job: &Claimed, action: Action) -> Result<JobState, StoreError> {
        let acted = self.act(&job.key, Some(&job.spec), &action, "executor").await?;
        Ok(acted.state)
    }
}

/// A row of the queue, not yet read: a bad one must not stop the others.
struct Row {
    job_id: String,
    state: Value,
    spec: Value,
    traceparent: Option<String>,
    now: DateTime<Utc>,
}

/// A claim in the making.
struct Claim {
    from: JobState,
    transition: Transition,
    lease: Lease,
    spec: Spec,
    traceparent: Option<String>,
}

impl Row {
    fn into_claim(self, executor_id: ExecutorId) -> Result<Claim, StoreError> {
        let from: JobState = read_json("job", self.state)?;
        let spec: Spec = read_json("job_spec", self.spec)?;
        let attempt_id = AttemptId::new();
        let action = Action::Claim { executor_id, attempt_id };
        let transition = state::next(&from, &spec, action, "executor", self.now)?;
        let transition = transition.ok_or(Refusal::Conflict { status: from.status })?;
        let lease = Lease { executor_id, epoch: transition.state.epoch, attempt_id };
        Ok(Claim { from, transition, lease, spec, traceparent: self.traceparent })
    }
}

impl Claim {
    fn into_claimed(self, key: JobKey) -> Claimed {
        Claimed {
            key,
            lease: self.lease,
            state: self.transition.state,
            spec: Arc::new(self.spec),
            traceparent: self.traceparent,
        }
    }
}

async fn lock_claimable(
    tx: &mut PgConnection,
    executor_id: ExecutorId,
    limit: usize,
    holds_last_attempt: bool,
) -> Result<Vec<Row>, StoreError> {
    let rows = sqlx::query_as!(
        Row,
        r#"-- lock_claimable
        -- cross-shard: on one Postgres the index is in the order of the claim
        select j.job_id, to_jsonb(j) as "state!", s.spec, s.traceparent, longhaul.now() as "now!"
        from longhaul.job j join longhaul.job_spec s using (shard, job_id)
        where j.status = 'queued' and j.run_at is null and j.spec_version <= $1
          -- Whoever holds a job on its last attempt looks past the others.
          and not ($3 and j.attempts > 0 and j.attempts >= (s.spec ->> 'max_attempts')::integer)
          -- An executor whose lease is over begins nothing.
          and exists (select from longhaul.executor e
            where e.executor_id = $4 and e.lease_expires_at > longhaul.now())
        order by j.priority desc, j.created_at, j.shard, j.job_id
        limit $2
        for update of j skip locked"#,
        spec::VERSION,
        i64::try_from(limit).unwrap_or(i64::MAX),
        holds_last_attempt,
        executor_id.0,
    );
    Ok(rows.fetch_all(tx).await?)
}
