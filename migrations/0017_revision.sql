-- Approvals that are sent back or edited.
-- Only jobs that the release before leaves alone have any of these words; to it the lists only grow.

-- beside the release before: the list only grows.
alter table longhaul.job drop constraint job_kept_verdict_check;
-- beside the release before: it writes only words that are in the list.
alter table longhaul.job add constraint job_kept_verdict_check
  check (kept_verdict in ('approve', 'reject', 'request_changes')) not valid;

-- beside the release before: the list only grows.
alter table longhaul.approval drop constraint approval_status_check;
-- beside the release before: it writes only words that are in the list.
alter table longhaul.approval add constraint approval_status_check check (status in
  ('pending', 'approved', 'rejected', 'expired', 'withdrawn', 'changes_requested', 'superseded')) not valid;

-- beside the release before: the list only grows.
alter table longhaul.decision drop constraint decision_verdict_check;
-- beside the release before: it writes only words that are in the list.
alter table longhaul.decision add constraint decision_verdict_check
  check (verdict in ('approve', 'reject', 'request_changes')) not valid;
alter table longhaul.decision add column edited boolean not null default false;
comment on column longhaul.decision.edited is 'Whether what was shown was edited with it; the edit is a checkpoint of its own.';

-- An edit makes a new revision after its approval was asked.
-- beside the release before: its columns stay, and that release makes no such revision.
create or replace view longhaul.durable_jobs as
select
  j.job_id,
  j.status,
  case when j.current_step = 1 and j.step_started_at is null then 0 else j.current_step end as current_step,
  coalesce(s.state, '{}'::jsonb) as state,
  coalesce(j.lease_expires_at, e.lease_expires_at) as lease_expires_at,
  j.attempts,
  j.created_at,
  j.updated_at
from longhaul.job j
left join longhaul.executor e on e.executor_id = j.executor_id
left join lateral (
  select jsonb_object_agg(entry.key, entry.value) as state
  from (
    -- The live checkpoint of each step that is done.
    select distinct on (c.step) c.step, c.revision, c.output, c.usage, c.cost_usd, c.model
    from longhaul.checkpoint c
    where c.shard = j.shard and c.job_id = j.job_id
      and (c.step < j.current_step or j.status = 'completed')
    order by c.step, c.revision desc
  ) c
  -- The verdict of an approval step.
  left join lateral (
    select a.status from longhaul.approval a
    where a.shard = j.shard and a.job_id = j.job_id and a.step = c.step and a.revision <= c.revision
      and a.status in ('approved', 'rejected')
    order by a.asked_at desc limit 1
  ) a on true
  cross join lateral (
    values
      ('step_' || c.step || '_output', to_jsonb(c.output)),
      ('step_' || c.step || '_tokens', case when c.usage is not null then
        jsonb_build_object('input', c.usage -> 'input_tokens', 'output', c.usage -> 'output_tokens') end),
      ('step_' || c.step || '_cost_usd', to_jsonb(c.cost_usd)),
      ('step_' || c.step || '_model', to_jsonb(c.model)),
      ('step_' || c.step || '_decision', to_jsonb(a.status))
  ) as entry (key, value)
  where entry.value is not null
) s on true;
