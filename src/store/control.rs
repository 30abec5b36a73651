//! Control: the actions of people on one job, and the answers to those that came with an id of their own.
//!
//! An answer is written in the transaction of its action, and looked for after the job's row is locked:
//! of two requests with one id that come at once, the second finds the answer of the first.
//! A request that died before its commit left no answer, and is done as if it were the first.

use serde_json::Value;
use sqlx::PgConnection;

use super::transition::{Acted, Locked, lock, look};
use super::{Store, StoreError, bounded, read_json, retried};
use crate::domain::id::{ExecutorId, JobKey};
use crate::domain::money::Usd;
use crate::domain::state::{self, Action, Refusal, Transition};

/// An action as a client asked for it under an id of its own: the same id gets the same answer.
#[derive(Clone, Debug)]
pub struct Request {
    /// The id, unique within the job.
    pub request_id: String,
    /// Which action.
    pub action: &'static str,
    /// Equal for two requests that ask the same.
    pub fingerprint: Vec<u8>,
}

/// Who asks for an action, and how.
#[derive(Clone, Copy, Debug)]
pub struct By<'a> {
    /// The name of who asks, as the history has it.
    pub actor: &'a str,
    /// The request, if it has an id of its own.
    pub request: Option<&'a Request>,
    /// Whether nobody is to be told what it makes of the job.
    pub is_silent: bool,
}

impl<'a> By<'a> {
    /// Somebody, without an id and aloud.
    pub fn actor(actor: &'a str) -> Self {
        Self { actor, request: None, is_silent: false }
    }

    /// What the action makes of a job, as it is to be written.
    fn decide(&self, seen: &Locked, action: Action) -> Result<Option<Transition>, Refusal> {
        let decided = state::next(&seen.state, &seen.spec, action, self.actor, seen.now)?;
        Ok(if self.is_silent { decided.map(Transition::silenced) } else { decided })
    }
}

impl Store {
    /// Holds the job where it is; `now` aborts the attempt in hand.
    pub async fn pause(&self, key: &JobKey, now: bool, by: By<'_>) -> Result<Acted, StoreError> {
        self.control(key, &Action::Pause { now }, by, None).await
    }

    /// Lets a paused job go on, in the hands of the claimer if there is one; with a budget, at that cost at the most.
    pub async fn resume(
        &self,
        key: &JobKey,
        budget_usd: Option<Usd>,
        by: By<'_>,
        claimer: Option<ExecutorId>,
    ) -> Result<Acted, StoreError> {
        self.control(key, &Action::Resume { budget_usd }, by, claimer).await
    }

    /// Ends the job.
    pub async fn cancel(
        &self,
        key: &JobKey,
        comment: &str,
        by: By<'_>,
    ) -> Result<Acted, StoreError> {
        let comment = comment.to_owned();
        self.control(key, &Action::Cancel { comment }, by, None).await
    }

    /// Begins the job again, in the hands of the claimer if there is one.
    pub async fn retry(
        &self,
        key: &JobKey,
        from_step: Option<i32>,
        by: By<'_>,
        claimer: Option<ExecutorId>,
    ) -> Result<Acted, StoreError> {
        self.control(key, &Action::Retry { from_step }, by, claimer).await
    }

    async fn control(
        &self,
        key: &JobKey,
        action: &Action,
        by: By<'_>,
        claimer: Option<ExecutorId>,
    ) -> Result<Acted, StoreError> {
        if by.request.is_none()
            && let Some(acted) = self.control_unlocked(key, action.clone(), by, claimer).await?
        {
            return Ok(acted);
        }
        retried(|| self.control_once(key, action.clone(), by, claimer)).await
    }

    /// Without the lock, if nothing else happens to the job meanwhile.
    async fn control_unlocked(
        &self,
        key: &JobKey,
        action: Action,
        by: By<'_>,
        claimer: Option<ExecutorId>,
    ) -> Result<Option<Acted>, StoreError> {
        let seen = bounded(async {
            let mut connection = self.pool.acquire().await?;
            look(&mut connection, key, claimer).await
        })
        .await?;
        let decided = by.decide(&seen, action);
        self.commit_unlocked(key, seen, decided).await
    }

    async fn control_once(
        &self,
        key: &JobKey,
        action: Action,
        by: By<'_>,
        claimer: Option<ExecutorId>,
    ) -> Result<Acted, StoreError> {
        let mut tx = self.pool.begin().await?;
        let locked = lock(&mut tx, key, claimer).await?;
        if let Some(changed) = find_answer(&mut tx, key, by.request).await? {
            return Ok(Acted::before(locked.state, changed));
        }
        let decided = by.decide(&locked, action);
        self.commit(tx, key, locked, decided, by.request).await
    }
}

/// What a request was answered, if it was: whether it changed anything, or the error that refused it.
pub(super) async fn find_answer(
    tx: &mut PgConnection,
    key: &JobKey,
    request: Option<&Request>,
) -> Result<Option<bool>, StoreError> {
    let Some(request) = request else { return Ok(None) };
    let row = sqlx::query!(
        r#"-- find_answer
        select action, fingerprint, changed, refusal as "refusal: Value" from longhaul.control_request
        where shard = $1 and job_id = $2 and request_id = $3"#,
        key.shard(),
        key.job_id(),
        request.request_id,
    )
    .fetch_optional(tx)
    .await?;
    let Some(row) = row else { return Ok(None) };
    if row.fingerprint != request.fingerprint {
        return Err(StoreError::RequestIdConflict { key: key.clone(), action: row.action });
    }
    match (row.changed, row.refusal) {
        (Some(changed), _) => Ok(Some(changed)),
        (None, refusal) => {
            let refusal: Refusal = read_json("control_request", refusal.unwrap_or_default())?;
            Err(refusal.into())
        }
    }
}

/// Keeps what a request is answered, also a refusal by the state machine.
pub(super) async fn keep_answer(
    tx: &mut PgConnection,
    key: &JobKey,
    request: &Request,
    decided: &Result<Option<Transition>, Refusal>,
) -> Result<(), StoreError> {
    // A request that is wrong in itself may be mended and sent again under its id.
    if matches!(decided, Err(Refusal::StepOutOfRange { .. })) {
        return Ok(());
    }
    let changed = decided.as_ref().ok().map(Option::is_some);
    let refusal = decided.as_ref().err().map(serde_json::to_value).transpose();
    let refusal = refusal.map_err(|error| StoreError::Corrupt {
        table: "control_request",
        what: error.to_string(),
    })?;
    sqlx::query!(
        "-- keep_answer
        insert into longhaul.control_request
          (shard, job_id, request_id, action, fingerprint, changed, refusal, created_at)
        values ($1, $2, $3, $4, $5, $6, $7, longhaul.now())",
        key.shard(),
        key.job_id(),
        request.request_id,
        request.action,
        request.fingerprint,
        changed,
        refusal,
    )
    .execute(tx)
    .await?;
    Ok(())
}
