//! The statement that writes transitions, and lines of the ledger, in one go.
//!
//! In come transitions and lines as JSON, out come the ids of the jobs that were written: those whose row is as it
//! was read, and those born under an id that was free. Every part of it reads what was before, so that none depends
//! on the order of the others. A statement costs by its parts, also by those that do nothing, so it is put together
//! from those that a batch may need, in four ways.
//!
//! Who decided from the time and the lease as they were known, without asking, has them compared at the gate:
//! where they are otherwise, nothing is written.

use sqlx::PgConnection;

use super::{Encoded, Foreseen, Parts, Wrote};
use crate::store::StoreError;

/// The statement with the parts that are named, one arm each; `$text` is what came before.
macro_rules! statement {
    // The gate, and the transitions by their place in the input. What is long stays in the input, and is taken from
    // there where it is needed.
    ($name:tt, $arguments:tt, $($part:ident)+) => {
        statement!(@ [
            $name
                + r#"
                -- written_if_the_gate_is_open
                with gate as materialized (
                  select t.now, t.lives_until,
                    $2::timestamptz is null or (t.now >= $2 and t.now < $2 + interval '1 second'
                      and ($3::uuid is null or t.lives_until is not null)) as is_open
                  from (
                    select n.now, (select e.lease_expires_at from longhaul.executor e
                      where e.executor_id = $3 and e.lease_expires_at > n.now) as lives_until
                    from (select longhaul.now() as now) n
                  ) t
                ),
                input as materialized (
                  select t.shard, t.job_id, t.from_epoch, t.from_sequence, t.from_run_at, t.is_born, (t.nth - 1)::text as place, s.*
                  from rows from (jsonb_to_recordset($1) as (shard smallint, job_id text, from_epoch integer,
                    from_sequence integer, from_run_at timestamptz, is_born boolean, state jsonb)) with ordinality
                    as t(shard, job_id, from_epoch, from_sequence, from_run_at, is_born, state, nth)
                  cross join lateral jsonb_to_record(t.state) as s(
                    status text, reason text, current_step integer, step_count integer, revision integer,
                    retried_from integer, run_at timestamptz, executor_id uuid, epoch integer, attempt_id uuid,
                    attempt integer, attempts integer, first_error_at timestamptz, last_error jsonb, last_sequence integer,
                    pause_requested boolean, paused_from text, approval_id uuid, approvals_asked integer, votes integer,
                    kept_verdict text, deadline_at timestamptz, left_ms bigint, step_started_at timestamptz,
                    updated_at timestamptz, finished_at timestamptz, budget_usd text)
                  where (select is_open from gate)
                )"#
        ] $arguments $($part)+)
    };
    // Jobs that are born.
    (@ [$($text:tt)+] $arguments:tt births $($part:ident)*) => {
        statement!(@ [$($text)+
            + r#",
                -- A job that is born; an id that is taken stays as it is, also where its job was pruned.
                -- In order: who stores the same ids waits, and no circle closes.
                born as (
                  insert into longhaul.job (shard, job_id, status, reason, current_step, step_count, priority, spec_version,
                    run_at, executor_id, epoch, attempt_id, attempt, last_sequence, approval_id, approvals_asked,
                    deadline_at, step_started_at, created_at, updated_at, finished_at, budget_usd)
                  select t.shard, t.job_id, t.status, t.reason, t.current_step, t.step_count, b.priority, b.spec_version,
                    t.run_at, t.executor_id, t.epoch, t.attempt_id, t.attempt, t.last_sequence, t.approval_id,
                    t.approvals_asked, t.deadline_at, t.step_started_at, t.updated_at, t.updated_at, t.finished_at,
                    t.budget_usd
                  from input t
                  cross join lateral jsonb_to_record($1 #> array[t.place, 'birth']) as b(priority integer, spec_version integer)
                  where t.is_born and not exists (
                    select from longhaul.tombstone x where x.shard = t.shard and x.job_id = t.job_id)
                  order by t.shard, t.job_id
                  on conflict do nothing
                  returning shard, job_id, attempt_id, current_step, revision, executor_id, epoch, updated_at
                ),
                -- Where each of them stands in the input: joined with it they would be looked for one by one.
                places as materialized (
                  select jsonb_object_agg(t.job_id, t.place) as of_born from input t where t.is_born
                ),
                specified as (
                  insert into longhaul.job_spec (shard, job_id, sent, spec, fingerprint, labels, traceparent)
                  select t.shard, t.job_id, s.sent, s.spec, s.fingerprint, s.spec -> 'labels', s.traceparent
                  from born t
                  cross join lateral jsonb_to_record($1 #> array[(select of_born from places) ->> t.job_id, 'birth'])
                    as s(sent jsonb, spec jsonb, fingerprint bytea, traceparent text)
                )"#
        ] $arguments $($part)*)
    };
    // Rows that move.
    (@ [$($text:tt)+] $arguments:tt moves $($part:ident)*) => {
        statement!(@ [$($text)+
            + r#",
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
                    updated_at = t.updated_at, finished_at = t.finished_at, budget_usd = t.budget_usd
                  from input t
                  where t.is_born is null and j.shard = t.shard and j.job_id = t.job_id
                    and j.epoch = t.from_epoch and j.last_sequence = t.from_sequence
                    and j.run_at is not distinct from t.from_run_at
                  returning t.shard, t.job_id, t.attempt_id, t.current_step, t.revision, t.executor_id, t.epoch, t.updated_at,
                    t.place
                )"#
        ] $arguments $($part)*)
    };
    // What was written, of births alone, of moves alone, and of both.
    (@ [$($text:tt)+] $arguments:tt births_done $($part:ident)*) => {
        statement!(@ [$($text)+
            + r#",
                done as materialized (
                  select t.*, (select of_born from places) ->> t.job_id as place from born t
                )"#
        ] $arguments $($part)*)
    };
    (@ [$($text:tt)+] $arguments:tt moves_done $($part:ident)*) => {
        statement!(@ [$($text)+
            + r#",
                done as materialized (select * from moved)"#
        ] $arguments $($part)*)
    };
    (@ [$($text:tt)+] $arguments:tt all_done $($part:ident)*) => {
        statement!(@ [$($text)+
            + r#",
                done as materialized (
                  select * from moved
                  union all
                  select t.*, (select of_born from places) ->> t.job_id from born t
                )"#
        ] $arguments $($part)*)
    };
    // What belongs to every transition.
    (@ [$($text:tt)+] $arguments:tt history $($part:ident)*) => {
        statement!(@ [$($text)+
            + r#",
                -- Its history.
                told as (
                  insert into longhaul.event (shard, job_id, sequence, occurred_at, kind, status, reason, step,
                    revision, attempt, actor, message, detail)
                  select t.shard, t.job_id, e.* from done t cross join lateral jsonb_to_recordset($1 #> array[t.place, 'events']) as e(
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
                  from done t cross join lateral jsonb_to_recordset($1 #> array[t.place, 'checkpoints']) as c(
                    step integer, revision integer, attempt_id uuid, result jsonb, started_at timestamptz, finished_at timestamptz)
                ),
                -- The first call of an attempt that begins carries the attempt's id.
                begun as (
                  insert into longhaul.model_call (shard, job_id, call_id, step, revision, attempt_id, executor_id, epoch,
                    model, started_at)
                  select t.shard, t.job_id, t.attempt_id, t.current_step, t.revision, t.attempt_id, t.executor_id, t.epoch,
                    m.model, t.updated_at
                  from done t cross join lateral (select $1 #>> array[t.place, 'begins'] as model) m
                  where m.model is not null
                )"#
        ] $arguments $($part)*)
    };
    // Lines of the ledger.
    (@ [$($text:tt)+] $arguments:tt lines $($part:ident)*) => {
        statement!(@ [$($text)+
            + r#",
                lines as materialized (
                  select * from jsonb_to_recordset($4) as t(shard smallint, job_id text, call_id uuid, kind text,
                    outcome text, usage jsonb, cost_usd numeric, provider_request_id text, error text, partial_output text,
                    step integer, revision integer, attempt_id uuid, executor_id uuid, epoch integer, model text)
                  where (select is_open from gate)
                ),
                settled as (
                  update longhaul.model_call m set outcome = t.outcome, settled_at = (select now from gate), usage = t.usage,
                    cost_usd = t.cost_usd, provider_request_id = t.provider_request_id,
                    -- Of a pruned job only a lost call is left to be settled, and no text is kept of it.
                    (error, partial_output) = (
                      select case when not p.is_pruned then t.error end, case when not p.is_pruned then t.partial_output end
                      from (select case when m.outcome = 'lost' then exists (
                        select from longhaul.tombstone x where x.shard = m.shard and x.job_id = m.job_id
                          and x.pruned_at is not null) else false end as is_pruned) p)
                  from lines t
                  where t.kind = 'settled' and m.shard = t.shard and m.job_id = t.job_id and m.call_id = t.call_id
                    and m.outcome in ('started', 'batched', 'lost')
                ),
                -- That it is not settled is said in a way that suits no index but the one by key: that of the unsettled
                -- is short, and long where an old snapshot keeps what left it.
                noted as (
                  update longhaul.model_call m set partial_output = t.partial_output
                  from lines t
                  where t.kind = 'noted' and m.shard = t.shard and m.job_id = t.job_id and m.call_id = t.call_id
                    and m.settled_at is null
                ),
                -- It turned out that nothing had to be sent.
                unsent as (
                  delete from longhaul.model_call m using lines t
                  where t.kind = 'unsent' and m.shard = t.shard and m.job_id = t.job_id and m.call_id = t.call_id
                    and m.settled_at is null
                ),
                -- A further call of an attempt whose lease was found to hold; a try whose reply was lost has written it.
                continued as (
                  insert into longhaul.model_call (shard, job_id, call_id, step, revision, attempt_id, executor_id, epoch,
                    model, started_at)
                  select t.shard, t.job_id, t.call_id, t.step, t.revision, t.attempt_id, t.executor_id, t.epoch, t.model,
                    (select now from gate)
                  from lines t where t.kind = 'started'
                  on conflict do nothing
                )"#
        ] $arguments $($part)*)
    };
    // What people decided, and what that closes.
    (@ [$($text:tt)+] $arguments:tt people $($part:ident)*) => {
        statement!(@ [$($text)+
            + r#",
                told_people as materialized (
                  select t.shard, t.job_id, t.revision, t.updated_at, p.*
                  from done t cross join lateral jsonb_to_record($1 #> array[t.place, 'people']) as p(
                    asked jsonb, closed jsonb, vote jsonb, links jsonb, outbox jsonb, supersedes_notices boolean)
                ),
                -- The approval that is closed.
                closed as (
                  update longhaul.approval a set status = t.closed ->> 1, closed_at = t.updated_at
                  from told_people t
                  where t.closed is not null and a.shard = t.shard and a.job_id = t.job_id and a.status = 'pending'
                    and a.approval_id = (t.closed ->> 0)::uuid
                ),
                voted as (
                  insert into longhaul.decision (shard, job_id, approval_id, voter, verdict, door, came_by, via, comment, edited,
                    decided_at)
                  select t.shard, t.job_id, (t.vote ->> 0)::uuid, v.voter, v.verdict, v.door, v.came_by, v.via, v.comment,
                    coalesce(v.edited, false), v.decided_at
                  from told_people t cross join lateral jsonb_to_record(t.vote -> 1) as v(
                    voter text, verdict text, door text, came_by text, via text, comment text, edited boolean, decided_at timestamptz)
                  where t.vote is not null
                ),
                -- Who no longer needs to be told; that the day's budget is used up is no news of the job, and what
                -- only endpoints are told stays true.
                superseded as (
                  update longhaul.outbox o set delivery = 'superseded', tokens = null, updated_at = t.updated_at
                  from told_people t
                  where t.supersedes_notices and o.shard = t.shard and o.job_id = t.job_id and o.delivery = 'pending'
                    and o.kind not in
                      ('daily_budget', 'approval_decided', 'approval_expired', 'paused', 'notice_failed')
                )"#
        ] $arguments $($part)*)
    };
    // What people are asked and told.
    (@ [$($text:tt)+] $arguments:tt notices $($part:ident)*) => {
        statement!(@ [$($text)+
            + r#",
                -- The approval that is asked, and its links.
                asked as (
                  insert into longhaul.approval (shard, job_id, approval_id, step, revision, status, quorum, asked_at, approvers)
                  select t.shard, t.job_id, (t.asked -> 1 ->> 'approval_id')::uuid, (t.asked ->> 0)::integer, t.revision,
                    'pending', (t.asked -> 1 ->> 'quorum')::integer, t.updated_at,
                    array(select jsonb_array_elements_text(t.asked -> 2))
                  from told_people t where t.asked is not null
                ),
                linked as (
                  insert into longhaul.approval_link (shard, job_id, token_hash, approval_id, approver, verdict, created_at)
                  select t.shard, t.job_id, l.token_hash, l.approval_id, l.approver, l.verdict, t.updated_at
                  from told_people t cross join lateral jsonb_to_recordset(t.links) as l(
                    approval_id uuid, token_hash bytea, approver text, verdict text)
                ),
                announced as (
                  insert into longhaul.outbox (shard, job_id, notice_id, sequence, kind, recipient, approval_id, approvers,
                    tokens, due_at, created_at, updated_at)
                  select t.shard, t.job_id, n.notice_id, n.sequence, n.kind, n.recipient, n.approval_id, n.approvers, n.tokens, t.updated_at, t.updated_at, t.updated_at
                  from told_people t cross join lateral jsonb_to_recordset(t.outbox) as n(
                    notice_id uuid, sequence integer, kind text, recipient text, approval_id uuid, approvers text[], tokens jsonb)
                )"#
        ] $arguments $($part)*)
    };
    (@ [$($text:tt)+] [$transitions:expr, $foreseen:expr $(, $lines:expr)?]) => {
        sqlx::query_as!(
            Wrote,
            $($text)+
                + r#"
                -- what_was_written
                select now as "now!", lives_until, is_open as "is_open!",
                  array(select job_id from done) as "job_ids!"
                from gate"#,
            $transitions as _,
            $foreseen.map(|known: Foreseen| known.now),
            $foreseen.and_then(|known: Foreseen| known.executor_id).map(|executor_id| executor_id.0),
            $($lines as _,)?
        )
    };
}

/// Writes what is needed, with as few parts as there is a statement for.
pub(super) async fn write(
    connection: &mut PgConnection,
    parts: Parts,
    transitions: Encoded,
    lines: Encoded,
    foreseen: Option<Foreseen>,
) -> Result<Wrote, StoreError> {
    let wrote = match parts {
        Parts::Births => {
            statement!("-- write_births", [transitions, foreseen], births births_done history)
                .fetch_one(connection)
                .await?
        }
        Parts::Moves => {
            statement!("-- write_moves", [transitions, foreseen, lines],
                births moves all_done history lines)
            .fetch_one(connection)
            .await?
        }
        Parts::Decisions => {
            statement!("-- write_decisions", [transitions, foreseen], moves moves_done history people)
                .fetch_one(connection)
                .await?
        }
        Parts::All => {
            statement!("-- write_all", [transitions, foreseen, lines],
                births moves all_done history lines people notices)
            .fetch_one(connection)
            .await?
        }
    };
    Ok(wrote)
}
