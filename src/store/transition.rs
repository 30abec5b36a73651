//! Transitions: lock a job, let the state machine decide, write what it decided.
//!
//! What people do to a job, and what a sweep does to a single one, is one transaction here;
//! what executors do goes through the writer, which folds the moves of many jobs into one.

use chrono::{DateTime, Utc};
use sqlx::{PgConnection, PgTransaction};

use super::control::{Request, keep_answer};
use super::wake::Woken;
use super::write::{Written, write};
use super::{Store, StoreError, check_version, read_json, retried};
use crate::domain::id::JobKey;
use crate::domain::job::JobState;
use crate::domain::spec::Spec;
use crate::domain::state::{self, Action, Refusal, Transition};

/// A job whose row is locked by the transaction at hand.
pub(super) struct Locked {
    pub(super) state: JobState,
    pub(super) now: DateTime<Utc>,
}

/// What became of an action.
#[derive(Clone, Debug)]
pub struct Acted {
    /// The job after it.
    pub state: JobState,
    /// Whether it changed anything.
    pub changed: bool,
}

impl Store {
    /// Does an action to a job, or says why not; the specification is read where the caller has none at hand.
    pub(super) async fn act(
        &self,
        key: &JobKey,
        spec: Option<&Spec>,
        action: &Action,
        actor: &str,
    ) -> Result<Acted, StoreError> {
        retried(|| self.act_once(key, spec, action.clone(), actor)).await
    }

    async fn act_once(
        &self,
        key: &JobKey,
        spec: Option<&Spec>,
        action: Action,
        actor: &str,
    ) -> Result<Acted, StoreError> {
        let mut tx = self.pool.begin().await?;
        let locked = lock(&mut tx, key).await?;
        let read;
        let spec = if let Some(spec) = spec {
            spec
        } else {
            read = read_spec(&mut tx, key).await?;
            &read
        };
        let decided = state::next(&locked.state, spec, action, actor, locked.now);
        self.commit(tx, key, locked.state, decided, None).await
    }

    /// Writes what was decided about a locked job, and the answer if its request has an id; commits, wakes.
    pub(super) async fn commit(
        &self,
        mut tx: PgTransaction<'_>,
        key: &JobKey,
        from: JobState,
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
                return Ok(Acted { state: from, changed: false });
            }
            Err(refusal) => {
                tx.commit().await?;
                return Err(refusal.into());
            }
        };
        write(&mut tx, &[Written::new(key, &from, &transition)]).await?;
        tx.commit().await?;
        self.wake.job_changed(key, woken(&transition));
        Ok(Acted { state: transition.state, changed: true })
    }
}

/// What a transition gives others to do.
pub(super) fn woken(transition: &Transition) -> Woken {
    Woken { work: transition.state.is_claimable(), notices: !transition.notices.is_empty() }
}

/// Locks a job's row and reads it as it is after the wait.
pub(super) async fn lock(tx: &mut PgConnection, key: &JobKey) -> Result<Locked, StoreError> {
    let row = sqlx::query!(
        r#"-- lock_job
        select to_jsonb(j) as "state!", j.spec_version, longhaul.now() as "now!"
        from longhaul.job j
        where j.shard = $1 and j.job_id = $2
        for update"#,
        key.shard(),
        key.job_id(),
    )
    .fetch_optional(tx)
    .await?
    .ok_or_else(|| StoreError::JobNotFound { key: key.clone() })?;
    check_version(key, row.spec_version)?;
    Ok(Locked { state: read_json("job", row.state)?, now: row.now })
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
    .fetch_optional(tx)
    .await?
    .ok_or_else(|| StoreError::JobNotFound { key: key.clone() })?;
    check_version(key, row.spec_version)?;
    read_json("job_spec", row.spec)
}
