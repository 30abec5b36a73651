//! Writing: any number of transitions in one statement, and in one more what concerns people.
//!
//! Each is written only if its row is still as it was read.
//! Whoever dies in the middle leaves nothing behind: row, events, checkpoints, calls, approvals and notices
//! commit together.

use std::collections::HashSet;
use std::fmt::Write as _;

use rand::rngs::ThreadRng;
use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;
use serde_with::skip_serializing_none;
use sqlx::PgConnection;
use sqlx::types::Json;

use super::StoreError;
use super::submit::BirthRow;
use crate::domain::approval::{Token, Verdict};
use crate::domain::event::NoticeKind;
use crate::domain::id::{JobKey, NoticeId};
use crate::domain::job::JobState;
use crate::domain::spec::{Spec, Work};
use crate::domain::state::Transition;

/// A transition in the form in which it is written.
#[skip_serializing_none]
#[derive(Serialize)]
pub(super) struct Written<'a> {
    shard: i16,
    job_id: &'a str,
    from_epoch: i32,
    from_sequence: i32,
    #[serde(flatten)]
    transition: &'a Transition,
    birth: Option<BirthRow<'a>>,
    begins: Option<&'a str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    links: Vec<Link>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
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
            birth: None,
            begins: None,
            links,
            outbox,
        }
    }

    /// The job is born with it.
    pub(super) fn born(self, birth: BirthRow<'a>) -> Self {
        Self { birth: Some(birth), ..self }
    }

    /// If it begins an attempt, the first call of that gets its row in the ledger with this.
    pub(super) fn beginning(self, from: &JobState, spec: &'a Spec) -> Self {
        let attempt_id = self.transition.state.attempt_id;
        if attempt_id.is_none() || attempt_id == from.attempt_id {
            return self;
        }
        let step = spec.find_step(self.transition.state.current_step).map(|step| &step.work);
        let begins = match step {
            Some(Work::Run(run)) => Some(run.model.as_str()),
            Some(Work::Approval(_) | Work::Wait(_)) | None => None,
        };
        Self { begins, ..self }
    }
}

fn mint_links(key: &JobKey, approver: &str, rng: &mut ThreadRng, links: &mut Vec<Link>) -> Value {
    let mut tokens = serde_json::Map::new();
    for (name, verdict) in [("approve", Verdict::Approve), ("reject", Verdict::Reject)] {
        let token = Token::mint(key, rng);
        let token_hash = bytea(&token.hash());
        links.push(Link { token_hash, approver: approver.to_owned(), verdict });
        tokens.insert(name.to_owned(), token.reveal().into());
    }
    tokens.into()
}

/// Writes transitions of locked jobs, and of jobs that are born; answers the ids that were taken already, whose job is not born.
pub(super) async fn write(
    tx: &mut PgConnection,
    transitions: &[Written<'_>],
) -> Result<HashSet<String>, StoreError> {
    let written = write_moves(tx, &encode(transitions)?).await?;
    let written: HashSet<&str> = written.iter().map(String::as_str).collect();
    let is_written = |one: &&Written<'_>| written.contains(one.job_id);
    let (done, left): (Vec<_>, Vec<_>) = transitions.iter().partition(is_written);
    if left.iter().any(|one| one.birth.is_none()) {
        let what = "a locked row is not as it was read".to_owned();
        return Err(StoreError::Corrupt { table: "job", what });
    }
    let of_people = done.into_iter().filter(|one| one.transition.concerns_people());
    let of_people: Vec<&Written<'_>> = of_people.collect();
    if !of_people.is_empty() {
        write_people(tx, &encode(&of_people)?).await?;
    }
    Ok(left.into_iter().map(|one| one.job_id.to_owned()).collect())
}

/// Bytes as Postgres reads them from text.
pub(super) fn bytea(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(2 + 2 * bytes.len());
    text.push_str("\\x");
    for byte in bytes {
        write!(text, "{byte:02x}").expect("a String takes every write");
    }
    text
}

/// Rows for a statement.
pub(super) type Encoded = Json<Box<RawValue>>;

/// As JSON text, made once: a tree of it would be thrown away at once.
pub(super) fn encode<T: Serialize + ?Sized>(what: &T) -> Result<Encoded, StoreError> {
    let encoded = serde_json::value::to_raw_value(what);
    encoded.map(Json).map_err(|error| StoreError::Corrupt { table: "job", what: error.to_string() })
}

/// Rows, history, results and first calls; answers which jobs were written: those that were as they were read,
/// and those that are born under an id that was free.
async fn write_moves(tx: &mut PgConnection, input: &Encoded) -> Result<Vec<String>, StoreError> {
    let written = sqlx::query_scalar!(
        r#"-- write_moves
        with input as materialized (
          select t.shard, t.job_id, t.from_epoch, t.from_sequence, t.events, t.checkpoints, t.birth, t.begins, s.*
          from jsonb_to_recordset($1) as t(shard smallint, job_id text, from_epoch integer, from_sequence integer,
            state jsonb, events jsonb, checkpoints jsonb, birth jsonb, begins text)
          cross join lateral jsonb_to_record(t.state) as s(
            status text, reason text, current_step integer, step_count integer, revision integer,
            retried_from integer, run_at timestamptz, executor_id uuid, epoch integer, attempt_id uuid,
            attempt integer, attempts integer, first_error_at timestamptz, last_error jsonb, last_sequence integer,
            pause_requested boolean, paused_from text, approval_id uuid, approvals_asked integer, votes integer,
            kept_verdict text, deadline_at timestamptz, left_ms bigint, step_started_at timestamptz,
            updated_at timestamptz, finished_at timestamptz)
        ),
        -- A job that is born; an id that is taken stays as it is. In order: who stores the same ids waits, and no circle closes.
        born as (
          insert into longhaul.job (shard, job_id, status, reason, current_step, step_count, priority, spec_version,
            run_at, executor_id, epoch, attempt_id, attempt, last_sequence, approval_id, approvals_asked,
            deadline_at, step_started_at, created_at, updated_at, finished_at)
          select t.shard, t.job_id, t.status, t.reason, t.current_step, t.step_count,
            (t.birth -> 'priority')::integer, (t.birth -> 'spec_version')::integer, t.run_at, t.executor_id,
            t.epoch, t.attempt_id, t.attempt, t.last_sequence, t.approval_id, t.approvals_asked, t.deadline_at,
            t.step_started_at, t.updated_at, t.updated_at, t.finished_at
          from input t where t.birth is not null order by t.shard, t.job_id
          on conflict do nothing
          returning shard, job_id
        ),
        specified as (
          insert into longhaul.job_spec (shard, job_id, sent, spec, fingerprint, labels, traceparent)
          select t.shard, t.job_id, s.sent, s.spec, s.fingerprint, s.spec -> 'labels', s.traceparent
          from born b join input t on t.shard = b.shard and t.job_id = b.job_id and t.birth is not null
          cross join lateral jsonb_to_record(t.birth) as s(sent jsonb, spec jsonb, fingerprint bytea, traceparent text)
        ),
        -- The row, only if it is as it was read. An override of the lease belongs to one attempt.
        moved as (
          update longhaul.job j set
            status = t.status, reason = t.reason, current_step = t.current_step, revision = t.revision,
            retried_from = t.retried_from, run_at = t.run_at, executor_id = t.executor_id, epoch = t.epoch,
            lease_expires_at = case when t.attempt_id = j.attempt_id then j.lease_expires_at end,
            attempt_id = t.attempt_id, attempt = t.attempt, attempts = t.attempts,
            first_error_at = t.first_error_at, last_error = t.last_error, last_sequence = t.last_sequence,
            pause_requested = t.pause_requested, paused_from = t.paused_from, approval_id = t.approval_id,
            approvals_asked = t.approvals_asked, votes = t.votes, kept_verdict = t.kept_verdict,
            deadline_at = t.deadline_at, left_ms = t.left_ms, step_started_at = t.step_started_at,
            updated_at = t.updated_at, finished_at = t.finished_at
          from input t
          where t.birth is null and j.shard = t.shard and j.job_id = t.job_id
            and j.epoch = t.from_epoch and j.last_sequence = t.from_sequence
          returning t.shard, t.job_id, t.attempt_id, t.current_step, t.revision, t.executor_id, t.epoch, t.updated_at,
            t.begins, t.events, t.checkpoints
        ),
        done as materialized (
          select * from moved
          union all
          select t.shard, t.job_id, t.attempt_id, t.current_step, t.revision, t.executor_id, t.epoch, t.updated_at,
            t.begins, t.events, t.checkpoints
          from born b join input t on t.shard = b.shard and t.job_id = b.job_id and t.birth is not null
        ),
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
          select t.shard, t.job_id, c.step, c.revision, c.attempt_id, c.result ->> 'output', c.result ->> 'content',
            c.result -> 'citations', c.result -> 'usage', (c.result ->> 'cost_usd')::numeric, c.result ->> 'model',
            c.result ->> 'stop_reason', c.started_at, c.finished_at
          from done t cross join lateral jsonb_to_recordset(t.checkpoints) as c(
            step integer, revision integer, attempt_id uuid, result jsonb, started_at timestamptz, finished_at timestamptz)
        ),
        -- The first call of an attempt that begins carries the attempt's id.
        begun as (
          insert into longhaul.model_call (shard, job_id, call_id, step, revision, attempt_id, executor_id, epoch,
            model, started_at)
          select t.shard, t.job_id, t.attempt_id, t.current_step, t.revision, t.attempt_id, t.executor_id, t.epoch,
            t.begins, t.updated_at
          from done t
          where t.begins is not null
        )
        select job_id as "job_id!" from done"#,
        input as _,
    )
    .fetch_all(tx)
    .await?;
    Ok(written)
}

/// What was asked, decided and is to be told, of transitions whose rows were just written.
async fn write_people(tx: &mut PgConnection, input: &Encoded) -> Result<(), StoreError> {
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
        input as _,
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
