//! Transitions: lock a job, let the state machine decide, write what it decided.
//!
//! `write` stores any number of transitions in one statement, each only if its row is still as it was read.
//! Whoever dies in the middle leaves nothing behind: row, events, checkpoints, approvals and notices commit together.

use chrono::{DateTime, Utc};
use rand::rngs::ThreadRng;
use serde::Serialize;
use serde_json::Value;
use sqlx::{PgConnection, PgTransaction};

use super::wake::Woken;
use super::{Store, StoreError, check_version, read_json, retried};
use crate::domain::approval::{Token, Verdict};
use crate::domain::event::NoticeKind;
use crate::domain::id::{JobKey, NoticeId};
use crate::domain::job::JobState;
use crate::domain::spec::Spec;
use crate::domain::state::{self, Action, Transition};

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
        self.decide_and_commit(tx, key, locked, spec, action, actor).await
    }

    /// Lets the state machine decide about a locked job, writes that, commits, wakes.
    pub(super) async fn decide_and_commit(
        &self,
        mut tx: PgTransaction<'_>,
        key: &JobKey,
        locked: Locked,
        spec: &Spec,
        action: Action,
        actor: &str,
    ) -> Result<Acted, StoreError> {
        let Some(transition) = state::next(&locked.state, spec, action, actor, locked.now)? else {
            return Ok(Acted { state: locked.state, changed: false });
        };
        write(&mut tx, &[Written::new(key, &locked.state, &transition)]).await?;
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

/// A transition in the form in which it is written.
#[derive(Serialize)]
pub(super) struct Written<'a> {
    shard: i16,
    job_id: &'a str,
    from_epoch: i32,
    from_sequence: i32,
    #[serde(flatten)]
    transition: &'a Transition,
    links: Vec<Link>,
    outbox: Vec<Message>,
}

#[derive(Serialize)]
struct Link {
    token_hash: String,
    approver: String,
    verdict: Verdict,
}

#[derive(Serialize)]
struct Message {
    notice_id: NoticeId,
    sequence: i32,
    kind: NoticeKind,
    recipient: String,
    tokens: Option<Value>,
}

impl<'a> Written<'a> {
    /// Mints the links its notices need: for each approver and message one per button.
    pub(super) fn new(key: &'a JobKey, from: &JobState, transition: &'a Transition) -> Self {
        let mut rng = rand::rng();
        let mut links = Vec::new();
        let outbox = transition.notices.iter().map(|(sequence, kind, recipient)| {
            let tokens = (*kind == NoticeKind::ApprovalRequested)
                .then(|| mint_links(key, recipient, &mut rng, &mut links));
            let (sequence, kind, recipient) = (*sequence, *kind, recipient.clone());
            Message { notice_id: NoticeId::new(), sequence, kind, recipient, tokens }
        });
        let outbox = outbox.collect();
        Self {
            shard: key.shard(),
            job_id: key.job_id(),
            from_epoch: from.epoch,
            from_sequence: from.last_sequence,
            transition,
            links,
            outbox,
        }
    }
}

fn mint_links(key: &JobKey, approver: &str, rng: &mut ThreadRng, links: &mut Vec<Link>) -> Value {
    let mut tokens = serde_json::Map::new();
    for (name, verdict) in [("approve", Verdict::Approve), ("reject", Verdict::Reject)] {
        let token = Token::mint(key, rng);
        let token_hash =
            token.hash().iter().fold("\\x".to_owned(), |hex, b| hex + &format!("{b:02x}"));
        links.push(Link { token_hash, approver: approver.to_owned(), verdict });
        tokens.insert(name.to_owned(), token.reveal().into());
    }
    tokens.into()
}

/// Writes transitions of locked jobs.
pub(super) async fn write(
    tx: &mut PgConnection,
    written: &[Written<'_>],
) -> Result<(), StoreError> {
    let input = serde_json::to_value(written)
        .map_err(|error| StoreError::Corrupt { table: "job", what: error.to_string() })?;
    let moved = write_moves(tx, &input).await?;
    if usize::try_from(moved).ok() != Some(written.len()) {
        let what = "a locked row is not as it was read".to_owned();
        return Err(StoreError::Corrupt { table: "job", what });
    }
    if written.iter().any(|one| one.transition.concerns_people()) {
        write_people(tx, &input).await?;
    }
    Ok(())
}

/// Rows, history and results; answers how many rows were as they were read.
async fn write_moves(tx: &mut PgConnection, input: &Value) -> Result<i64, StoreError> {
    let moved = sqlx::query_scalar!(
        r#"-- write_moves
        with input as materialized (
          select * from jsonb_to_recordset($1) as t(shard smallint, job_id text, from_epoch integer,
            from_sequence integer, state jsonb, events jsonb, checkpoints jsonb)
        ),
        -- The row, only if it is as it was read. An override of the lease belongs to one attempt.
        moved as (
          update longhaul.job j set
            status = s.status, reason = s.reason, current_step = s.current_step, revision = s.revision,
            retried_from = s.retried_from,
            run_at = s.run_at, executor_id = s.executor_id, epoch = s.epoch, attempt_id = s.attempt_id,
            lease_expires_at = case when s.attempt_id = j.attempt_id then j.lease_expires_at end,
            attempt = s.attempt, attempts = s.attempts, first_error_at = s.first_error_at,
            last_error = s.last_error, last_sequence = s.last_sequence,
            pause_requested = s.pause_requested, paused_from = s.paused_from,
            approval_id = s.approval_id, approvals_asked = s.approvals_asked, votes = s.votes,
            kept_verdict = s.kept_verdict, deadline_at = s.deadline_at, left_ms = s.left_ms,
            step_started_at = s.step_started_at, updated_at = s.updated_at, finished_at = s.finished_at
          from input t cross join lateral jsonb_to_record(t.state) as s(
            status text, reason text, current_step integer, revision integer, retried_from integer, run_at timestamptz,
            executor_id uuid, epoch integer, attempt_id uuid, attempt integer, attempts integer,
            first_error_at timestamptz, last_error jsonb, last_sequence integer, pause_requested boolean,
            paused_from text, approval_id uuid, approvals_asked integer, votes integer, kept_verdict text,
            deadline_at timestamptz, left_ms bigint, step_started_at timestamptz, updated_at timestamptz,
            finished_at timestamptz)
          where j.shard = t.shard and j.job_id = t.job_id
            and j.epoch = t.from_epoch and j.last_sequence = t.from_sequence
          returning j.shard, j.job_id
        ),
        done as materialized (select t.* from input t join moved using (shard, job_id)),
        -- Its history.
        told as (
          insert into longhaul.event (shard, job_id, sequence, occurred_at, kind, status, reason, step,
            revision, attempt, actor, message, detail)
          select t.shard, t.job_id, e.* from done t cross join lateral jsonb_to_recordset(t.events) as e(
            sequence integer, occurred_at timestamptz, kind text, status text, reason text, step integer,
            revision integer, attempt integer, actor text, message text, detail jsonb)
        ),
        -- The results of its finished steps.
        kept as (
          insert into longhaul.checkpoint (shard, job_id, step, revision, attempt_id, output, content,
            citations, usage, cost_usd, model, stop_reason, started_at, finished_at)
          select t.shard, t.job_id, c.step, c.revision, c.attempt_id, c.result ->> 'output',
            c.result ->> 'content', c.result -> 'citations', c.result -> 'usage',
            (c.result ->> 'cost_usd')::numeric, c.result ->> 'model', c.result ->> 'stop_reason',
            c.started_at, c.finished_at
          from done t cross join lateral jsonb_to_recordset(t.checkpoints) as c(
            step integer, revision integer, attempt_id uuid, result jsonb, started_at timestamptz,
            finished_at timestamptz)
        )
        select count(*) as "count!" from moved"#,
        input,
    )
    .fetch_one(tx)
    .await?;
    Ok(moved)
}

/// What was asked, decided and is to be told, of transitions whose rows were just written.
async fn write_people(tx: &mut PgConnection, input: &Value) -> Result<(), StoreError> {
    sqlx::query!(
        r#"-- write_people
        with input as materialized (
          select t.*, (t.state ->> 'updated_at')::timestamptz as now from jsonb_to_recordset($1) as t(
            shard smallint, job_id text, state jsonb, asked jsonb, closed jsonb, vote jsonb,
            links jsonb, outbox jsonb, supersedes_notices boolean)
        ),
        -- The approval that is closed.
        closed as (
          update longhaul.approval a set status = t.closed ->> 1, closed_at = t.now
          from input t
          where a.shard = t.shard and a.job_id = t.job_id and a.status = 'pending'
            and a.approval_id = (t.closed ->> 0)::uuid
        ),
        -- The approval that is asked, and its links.
        asked as (
          insert into longhaul.approval (shard, job_id, approval_id, step, revision, status, quorum, asked_at)
          select t.shard, t.job_id, (t.asked -> 1 ->> 'approval_id')::uuid, (t.asked ->> 0)::integer,
            (t.state ->> 'revision')::integer, 'pending', (t.asked -> 1 ->> 'quorum')::integer, t.now
          from input t where t.asked is not null
        ),
        linked as (
          insert into longhaul.approval_link
            (shard, job_id, token_hash, approval_id, approver, verdict, created_at)
          select t.shard, t.job_id, l.token_hash, (t.asked -> 1 ->> 'approval_id')::uuid, l.approver,
            l.verdict, t.now
          from input t cross join lateral jsonb_to_recordset(t.links) as l(
            token_hash bytea, approver text, verdict text)
        ),
        voted as (
          insert into longhaul.decision (shard, job_id, approval_id, voter, verdict, door, comment, decided_at)
          select t.shard, t.job_id, (t.vote ->> 0)::uuid, v.*
          from input t cross join lateral jsonb_to_record(t.vote -> 1) as v(
            voter text, verdict text, door text, comment text, decided_at timestamptz)
          where t.vote is not null
        ),
        -- Who no longer needs to be told, and who does.
        superseded as (
          update longhaul.outbox o set delivery = 'superseded', tokens = null, updated_at = t.now
          from input t
          where o.shard = t.shard and o.job_id = t.job_id and o.delivery = 'pending' and t.supersedes_notices
        )
        insert into longhaul.outbox (shard, job_id, notice_id, sequence, kind, recipient, approval_id,
          tokens, due_at, created_at, updated_at)
        select t.shard, t.job_id, n.notice_id, n.sequence, n.kind, n.recipient,
          case when n.kind = 'approval_requested' then (t.asked -> 1 ->> 'approval_id')::uuid end,
          n.tokens, t.now, t.now, t.now
        from input t cross join lateral jsonb_to_recordset(t.outbox) as n(
          notice_id uuid, sequence integer, kind text, recipient text, tokens jsonb)"#,
        input,
    )
    .execute(tx)
    .await?;
    Ok(())
}

impl Transition {
    /// Whether an approval, a vote or a notice has to be written with it.
    fn concerns_people(&self) -> bool {
        self.asked.is_some()
            || self.closed.is_some()
            || self.vote.is_some()
            || self.supersedes_notices
            || !self.notices.is_empty()
    }
}
