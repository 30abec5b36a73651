//! Claim: an executor takes jobs from the queue, as many as it has free slots, and moves what it holds.
//!
//! Rows that another executor is claiming are skipped, so executors never wait for each other.
//! Only the holder of a lease can finish, delay, fail or release a running job; a stale one is told `LeaseLost`.

use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use serde_json::Value;
use sqlx::types::Json;
use sqlx::{Connection as _, PgConnection};

use super::executor::Held;
use super::ledger::{CallEnd, Line};
use super::sweep::set_aside;
use super::write::Written;
use super::writer::Work;
use super::{Store, StoreError, bounded, read_json, unless_it_panics};
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

/// What an executor asks for.
#[derive(Clone, Copy, Debug)]
pub struct ClaimRequest {
    /// Who asks; without a living lease it gets nothing.
    pub executor_id: ExecutorId,
    /// The most jobs it has room for.
    pub limit: usize,
    /// Whether it has a job on its last attempt in hand already.
    pub holds_last_attempt: bool,
}

/// What a look at the queue came to.
#[derive(Debug, Default)]
pub struct Claims {
    /// The jobs that are in the asker's hands now.
    pub claimed: Vec<Claimed>,
    /// Whether there was nothing else to claim.
    pub saw_all: bool,
}

impl Store {
    /// Takes jobs from the queue, the most urgent and oldest first.
    ///
    /// At most one of them is on its last attempt, so that a job which kills its executors takes no others with it.
    pub async fn claim(&self, request: ClaimRequest) -> Result<Claims, StoreError> {
        self.claim_soon(request).await
    }

    /// Stores a step's result; with a next attempt's id the same executor goes straight on, if the next step lets it.
    ///
    /// A try whose reply was lost has stored it: then the row is as that try, or whatever came after it, left it.
    pub async fn finish(
        &self,
        job: &Claimed,
        result: StepResult,
        next_attempt: Option<AttemptId>,
        call: CallEnd,
    ) -> Result<JobState, StoreError> {
        let result = Box::new(result);
        let action = Action::Finish { lease: job.lease, result, next_attempt };
        match self.move_held(job, action, Some(call)).await {
            Err(error) if error.is_lease_lost() => self.find_finished(job).await?.ok_or(error),
            finished => finished,
        }
    }

    /// Parks the job after an error that passes by itself.
    pub async fn delay(
        &self,
        job: &Claimed,
        failure: Failure,
        after: Option<Duration>,
        call: CallEnd,
    ) -> Result<JobState, StoreError> {
        let jitter = rand::random::<f64>();
        let action = Action::Delay { lease: job.lease, failure, after, jitter };
        self.move_held(job, action, Some(call)).await
    }

    /// Ends the job because of an error; its call may have been settled already.
    pub async fn fail(
        &self,
        job: &Claimed,
        failure: Failure,
        call: Option<CallEnd>,
    ) -> Result<JobState, StoreError> {
        self.move_held(job, Action::Fail { lease: job.lease, failure }, call).await
    }

    /// Pauses the job because its budget does not cover the next call.
    pub async fn starve(
        &self,
        job: &Claimed,
        failure: Failure,
        call: CallEnd,
    ) -> Result<JobState, StoreError> {
        self.move_held(job, Action::Starve { lease: job.lease, failure }, Some(call)).await
    }

    /// Parks the job until its question is answered in a batch.
    pub async fn park_for_batch(
        &self,
        job: &Claimed,
        call: CallEnd,
    ) -> Result<JobState, StoreError> {
        self.move_held(job, Action::Batch { lease: job.lease }, Some(call)).await
    }

    /// Gives the job back, uncounted.
    pub async fn release(&self, job: &Claimed, call: CallEnd) -> Result<JobState, StoreError> {
        self.move_held(job, Action::Release { lease: job.lease }, Some(call)).await
    }

    /// Gives back a job whose claim is not known to its executor, uncounted.
    pub async fn release_unheld(&self, held: &Held) -> Result<(), StoreError> {
        let action = Action::Release { lease: held.lease };
        self.act(&held.key, &action, "executor").await.map(|_| ())
    }

    /// Counts the attempt as lost, where nothing else can be stored of it.
    pub async fn lose(&self, job: &Claimed) -> Result<JobState, StoreError> {
        self.move_held(job, Action::Lose { lease: job.lease }, None).await
    }

    /// Moves a job under its lease; how its call ended is written whether the lease still holds or not.
    pub(super) async fn move_held(
        &self,
        job: &Claimed,
        action: Action,
        call: Option<CallEnd>,
    ) -> Result<JobState, StoreError> {
        let known = Box::new(job.state.clone());
        let work = Work::Move { spec: Arc::clone(&job.spec), known, action };
        let lines = call.and_then(|call| Line::ended(&job.key, call)).into_iter().collect();
        let moved = self.write_soon(&job.key, work, lines).await?;
        if let Some(moved) = &moved {
            let state = &moved.transition.state;
            self.asked.note(&job.key, state, &job.spec, job.traceparent.as_deref());
        }
        moved.map(|moved| moved.transition.state).ok_or_else(|| Refusal::LeaseLost.into())
    }

    /// The job as it is now, if the attempt at hand has stored its result.
    async fn find_finished(&self, job: &Claimed) -> Result<Option<JobState>, StoreError> {
        let state = bounded(
            sqlx::query_scalar!(
                r#"-- find_finished
            select to_jsonb(j) as "state!: Json<JobState>" from longhaul.job j
            where j.shard = $1 and j.job_id = $2 and exists (
              select from longhaul.checkpoint c
              where c.shard = j.shard and c.job_id = j.job_id and c.attempt_id = $3)"#,
                job.key.shard(),
                job.key.job_id(),
                job.lease.attempt_id.0,
            )
            .fetch_optional(&self.pool),
        )
        .await?;
        Ok(state.map(|state| state.0))
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

/// A job that is claimed with the transaction at hand.
pub(super) struct Claimable {
    key: JobKey,
    from: JobState,
    transition: Transition,
    lease: Lease,
    spec: Spec,
    traceparent: Option<String>,
}

/// Locks jobs of the queue and decides about them; one that cannot be read is set aside.
/// Answers also whether there was nothing else to lock.
pub(super) async fn claim_rows(
    tx: &mut PgConnection,
    request: &ClaimRequest,
) -> Result<(Vec<Claimable>, bool), StoreError> {
    let mut holds_last_attempt = request.holds_last_attempt;
    let mut claims = Vec::new();
    let rows = lock_claimable(tx, request).await?;
    let saw_all = rows.len() < request.limit;
    for row in rows {
        let key = JobKey::new(&row.job_id);
        let claim = unless_it_panics(|| row.into_claim(key.clone(), request.executor_id));
        let claim = match claim {
            Ok(claim) => claim,
            Err(error) => {
                tracing::error!(job_id = key.job_id(), %error, "could not read a job; it is set aside");
                set_aside(tx, &key).await?;
                continue;
            }
        };
        let is_last_attempt = claim.from.is_on_last_attempt(claim.spec.max_attempts);
        if is_last_attempt && std::mem::replace(&mut holds_last_attempt, true) {
            continue;
        }
        claims.push(claim);
    }
    Ok((claims, saw_all))
}

/// Puts off the job at the head of the queue, whose claim cannot be written, so that it is in nobody's way.
pub(super) async fn set_aside_first(
    connection: &mut PgConnection,
    request: &ClaimRequest,
) -> Result<(), StoreError> {
    let mut tx = connection.begin().await?;
    for row in lock_claimable(&mut tx, request).await? {
        let key = JobKey::new(&row.job_id);
        tracing::error!(job_id = key.job_id(), "could not claim a job; it is set aside");
        set_aside(&mut tx, &key).await?;
    }
    Ok(tx.commit().await?)
}

impl Row {
    fn into_claim(self, key: JobKey, executor_id: ExecutorId) -> Result<Claimable, StoreError> {
        let from: JobState = read_json("job", self.state)?;
        let spec: Spec = read_json("job_spec", self.spec)?;
        let attempt_id = AttemptId::new();
        let action = Action::Claim { executor_id, attempt_id };
        let transition = state::next(&from, &spec, action, "executor", self.now)?;
        let transition = transition.ok_or(Refusal::Conflict { status: from.status })?;
        let lease = Lease { executor_id, epoch: transition.state.epoch, attempt_id };
        Ok(Claimable { key, from, transition, lease, spec, traceparent: self.traceparent })
    }
}

impl Claimable {
    pub(super) fn job_id(&self) -> &str {
        self.key.job_id()
    }

    pub(super) fn written(&self) -> Written<'_> {
        Written::new(&self.key, &self.from, &self.transition).beginning(&self.from, &self.spec)
    }

    pub(super) fn into_claimed(self) -> Claimed {
        Claimed {
            key: self.key,
            lease: self.lease,
            state: self.transition.state,
            spec: Arc::new(self.spec),
            traceparent: self.traceparent,
        }
    }
}

async fn lock_claimable(
    tx: &mut PgConnection,
    request: &ClaimRequest,
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
        i64::try_from(request.limit).unwrap_or(i64::MAX),
        request.holds_last_attempt,
        request.executor_id.0,
    );
    Ok(rows.fetch_all(tx).await?)
}
