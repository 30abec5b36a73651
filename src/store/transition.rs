//! Transitions: look at a job, let the state machine decide, write what it decided.
//!
//! What people do to a job is decided from a look and written by the writer, if the row is still as it was seen;
//! else, and for a request with an id, and what a sweep does to a single one, it is one transaction here, under a lock.

use std::sync::Arc;

use chrono::{DateTime, Utc};
use serde_json::Value;
use sqlx::types::Json;
use sqlx::{PgConnection, PgTransaction};
use uuid::Uuid;

use super::claim::Claimed;
use super::control::{Request, keep_answer};
use super::tombstone::not_found;
use super::wake::Woken;
use super::write::{Written, write_locked};
use super::writer::{Decided, Work};
use super::{Store, StoreError, check_version, read_json, retried};
use crate::domain::approval::Verdict;
use crate::domain::id::{ApprovalId, ExecutorId, JobKey};
use crate::domain::job::JobState;
use crate::domain::spec::Spec;
use crate::domain::state::{self, Action, Refusal, Transition};

/// A job whose row is locked by the transaction at hand.
pub(super) struct Locked {
    pub(super) state: JobState,
    pub(super) spec: Arc<Spec>,
    pub(super) now: DateTime<Utc>,
    traceparent: Option<String>,
    /// Who takes the job if it becomes claimable: the executor of this process, if it has room and its lease lives.
    claimer: Option<ExecutorId>,
}

/// What became of an action.
#[derive(Clone, Debug)]
pub struct Acted {
    /// The job after it.
    pub state: JobState,
    /// Whether it changed anything.
    pub changed: bool,
    /// The job in the hands of the executor that had room for it.
    pub claimed: Option<Box<Claimed>>,
}

impl Acted {
    /// Nothing changed.
    pub(super) fn before(state: JobState, changed: bool) -> Self {
        Self { state, changed, claimed: None }
    }

    /// It has changed; where nobody held it before and somebody does now, it was claimed.
    pub(super) fn after(
        key: &JobKey,
        was_held: bool,
        state: JobState,
        spec: Arc<Spec>,
        traceparent: Option<String>,
    ) -> Self {
        let lease = if was_held { None } else { state.lease() };
        let claimed = lease.map(|lease| {
            let (key, state) = (key.clone(), state.clone());
            Box::new(Claimed { key, lease, state, spec, traceparent })
        });
        Self { state, changed: true, claimed }
    }
}

impl Store {
    /// Does an action to a job, or says why not.
    pub(super) async fn act(
        &self,
        key: &JobKey,
        action: &Action,
        actor: &str,
    ) -> Result<Acted, StoreError> {
        retried(|| self.act_once(key, action.clone(), actor)).await
    }

    async fn act_once(
        &self,
        key: &JobKey,
        action: Action,
        actor: &str,
    ) -> Result<Acted, StoreError> {
        let mut tx = self.pool.begin().await?;
        let locked = lock(&mut tx, key, None).await?;
        let decided = state::next(&locked.state, &locked.spec, action, actor, locked.now);
        self.commit(tx, key, locked, decided, None).await
    }

    /// Has written what was decided about a job that was only read: without the lock, with the next batch.
    ///
    /// Answers nothing if the job has changed meanwhile: then it is to be locked.
    pub(super) async fn commit_unlocked(
        &self,
        key: &JobKey,
        seen: Locked,
        decided: Result<Option<Transition>, Refusal>,
    ) -> Result<Option<Acted>, StoreError> {
        let Some(transition) = decided? else {
            return Ok(Some(Acted::before(seen.state, false)));
        };
        let transition = seen.claimed(transition);
        let Locked { state: from, spec, traceparent, .. } = seen;
        let was_held = from.executor_id.is_some();
        let decided = Decided { from, transition, spec: Arc::clone(&spec) };
        let written = self.write_soon(key, Work::Decided(Box::new(decided)), Vec::new()).await?;
        Ok(written.map(|moved| {
            let state = moved.transition.state;
            self.asked.note(key, &state, &spec, traceparent.as_deref());
            Acted::after(key, was_held, state, spec, traceparent)
        }))
    }

    /// Writes what was decided about a locked job, and the answer if its request has an id; commits, wakes.
    ///
    /// Where that makes the job claimable and there is room for it here, it is claimed with the same commit.
    pub(super) async fn commit(
        &self,
        mut tx: PgTransaction<'_>,
        key: &JobKey,
        locked: Locked,
        decided: Result<Option<Transition>, Refusal>,
        request: Option<&Request>,
    ) -> Result<Acted, StoreError> {
        if let Some(request) = request {
            keep_answer(&mut tx, key, request, &decided).await?;
        }
        let transition = match decided {
            Ok(Some(transition)) => transition,
            Ok(None) => {
                tx.commit().await?;
                return Ok(Acted::before(locked.state, false));
            }
            Err(refusal) => {
                tx.commit().await?;
                return Err(refusal.into());
            }
        };
        let transition = locked.claimed(transition);
        let Locked { state: from, spec, traceparent, .. } = locked;
        let written = Written::new(key, &from, &transition).beginning(&from, &spec);
        write_locked(&mut tx, &[written]).await?;
        tx.commit().await?;
        self.wake.job_changed(key, woken(&transition));
        let was_held = from.executor_id.is_some();
        Ok(Acted::after(key, was_held, transition.state, spec, traceparent))
    }
}

impl Locked {
    /// The transition, and where it makes the job claimable and there is room for it here, the claim as well.
    fn claimed(&self, transition: Transition) -> Transition {
        match self.claimer {
            Some(executor_id) => transition.claimed_by(executor_id, &self.spec, self.now),
            None => transition,
        }
    }
}

/// What a transition gives others to do.
pub(super) fn woken(transition: &Transition) -> Woken {
    Woken { work: transition.state.is_claimable(), notices: !transition.notices.is_empty() }
}

/// Locks a job's row and reads it as it is after the wait, with its specification, which never changes.
pub(super) async fn lock(
    tx: &mut PgConnection,
    key: &JobKey,
    claimer: Option<ExecutorId>,
) -> Result<Locked, StoreError> {
    let row = sqlx::query_as!(
        Row,
        r#"-- lock_job
        select to_jsonb(j) as "state!", j.spec_version, s.spec, s.traceparent, longhaul.now() as "now!",
          -- An executor whose lease is over begins nothing.
          exists (select from longhaul.executor e
            where e.executor_id = $3 and e.lease_expires_at > longhaul.now()) as "claimer_lives!"
        from longhaul.job j join longhaul.job_spec s using (shard, job_id)
        where j.shard = $1 and j.job_id = $2
        for update of j"#,
        key.shard(),
        key.job_id(),
        claimer.map(|executor_id| executor_id.0),
    )
    .fetch_optional(&mut *tx)
    .await?;
    match row {
        Some(row) => read(row, key, claimer),
        None => Err(not_found(tx, key).await),
    }
}

/// Reads the same without the lock: what is decided from it is written only if the row is still so.
pub(super) async fn look(
    connection: &mut PgConnection,
    key: &JobKey,
    claimer: Option<ExecutorId>,
) -> Result<Locked, StoreError> {
    let row = sqlx::query_as!(
        Row,
        r#"-- look_at_job
        select to_jsonb(j) as "state!", j.spec_version, s.spec, s.traceparent, longhaul.now() as "now!",
          exists (select from longhaul.executor e
            where e.executor_id = $3 and e.lease_expires_at > longhaul.now()) as "claimer_lives!"
        from longhaul.job j join longhaul.job_spec s using (shard, job_id)
        where j.shard = $1 and j.job_id = $2"#,
        key.shard(),
        key.job_id(),
        claimer.map(|executor_id| executor_id.0),
    )
    .fetch_optional(&mut *connection)
    .await?;
    match row {
        Some(row) => read(row, key, claimer),
        None => Err(not_found(connection, key).await),
    }
}

/// An approval as it was found: its id, how it stands, and the votes.
pub(super) type FoundApproval = (Uuid, String, Json<Vec<(String, Verdict)>>);

/// The same with the approval that a vote is meant for, so that a decision needs one look.
pub(super) async fn look_at_vote(
    connection: &mut PgConnection,
    key: &JobKey,
    approval_id: Option<ApprovalId>,
    claimer: Option<ExecutorId>,
) -> Result<(Locked, Option<FoundApproval>), StoreError> {
    let found = sqlx::query!(
        r#"-- look_at_vote
        select to_jsonb(j) as "state!", j.spec_version, s.spec, s.traceparent, longhaul.now() as "now!",
          exists (select from longhaul.executor e
            where e.executor_id = $3 and e.lease_expires_at > longhaul.now()) as "claimer_lives!",
          a.approval_id as "approval_id?", a.status as "status?", a.votes as "votes: Json<Vec<(String, Verdict)>>"
        from longhaul.job j join longhaul.job_spec s using (shard, job_id)
        left join lateral (
          select a.approval_id, a.status,
            (select coalesce(jsonb_agg(jsonb_build_array(d.voter, d.verdict)), '[]') from longhaul.decision d
             where d.shard = a.shard and d.job_id = a.job_id and d.approval_id = a.approval_id) as votes
          from longhaul.approval a
          where a.shard = j.shard and a.job_id = j.job_id
            and (coalesce($4, j.approval_id) is null or a.approval_id = coalesce($4, j.approval_id))
          limit 1
        ) a on true
        where j.shard = $1 and j.job_id = $2"#,
        key.shard(),
        key.job_id(),
        claimer.map(|executor_id| executor_id.0),
        approval_id.map(|approval_id| approval_id.0),
    )
    .fetch_optional(&mut *connection)
    .await?;
    let Some(row) = found else { return Err(not_found(connection, key).await) };
    let found = row.approval_id.zip(row.status).zip(row.votes);
    let found = found.map(|((approval_id, status), votes)| (approval_id, status, votes));
    let row = Row {
        state: row.state,
        spec_version: row.spec_version,
        spec: row.spec,
        traceparent: row.traceparent,
        now: row.now,
        claimer_lives: row.claimer_lives,
    };
    Ok((read(row, key, claimer)?, found))
}

struct Row {
    state: Value,
    spec_version: i32,
    spec: Value,
    traceparent: Option<String>,
    now: DateTime<Utc>,
    claimer_lives: bool,
}

fn read(row: Row, key: &JobKey, claimer: Option<ExecutorId>) -> Result<Locked, StoreError> {
    check_version(key, row.spec_version)?;
    Ok(Locked {
        state: read_json("job", row.state)?,
        spec: Arc::new(read_json("job_spec", row.spec)?),
        now: row.now,
        traceparent: row.traceparent,
        claimer: claimer.filter(|_| row.claimer_lives),
    })
}

/// Reads a job's specification, which never changes.
pub(super) async fn read_spec(tx: &mut PgConnection, key: &JobKey) -> Result<Spec, StoreError> {
    let row = sqlx::query!(
        "-- read_spec
        select s.spec, j.spec_version from longhaul.job_spec s join longhaul.job j using (shard, job_id)
        where s.shard = $1 and s.job_id = $2",
        key.shard(),
        key.job_id(),
    )
    .fetch_optional(&mut *tx)
    .await?;
    let Some(row) = row else { return Err(not_found(tx, key).await) };
    check_version(key, row.spec_version)?;
    read_json("job_spec", row.spec)
}
