-- The public read model: the table of the published template, as a view.

create view longhaul.durable_jobs as
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
    where a.shard = j.shard and a.job_id = j.job_id and a.step = c.step and a.revision = c.revision
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

comment on view longhaul.durable_jobs is
  'Jobs in the shape of the published template. Only lease_expires_at can be updated, which plays a lost or a longer lease.';

create function longhaul.set_lease() returns trigger
  language plpgsql as $$
begin
  if (new.job_id, new.status, new.current_step, new.state, new.attempts, new.created_at, new.updated_at)
     is distinct from
     (old.job_id, old.status, old.current_step, old.state, old.attempts, old.created_at, old.updated_at) then
    raise exception 'only lease_expires_at of durable_jobs can be updated'
      using hint = 'Use Control, or POST /webhook/durable-job-control, to move a job.';
  end if;
  update longhaul.job set lease_expires_at = new.lease_expires_at
  where shard = get_byte(sha256(convert_to(old.job_id, 'UTF8')), 0) % 64
    and job_id = old.job_id and status = 'running';
  return new;
end
$$;
comment on function longhaul.set_lease() is 'Lets an update of durable_jobs set the lease of a running job, and nothing else.';

create trigger set_lease instead of update on longhaul.durable_jobs
  for each row execute function longhaul.set_lease();

-- Also under the name the readers of the template know, unless something else has it.
do $$
begin
  if to_regclass('public.durable_jobs') is null then
    create view public.durable_jobs as select * from longhaul.durable_jobs;
    comment on view public.durable_jobs is 'The same as longhaul.durable_jobs.';
  end if;
exception when insufficient_privilege or invalid_schema_name then
  raise notice 'no view public.durable_jobs: the schema public is not ours to write';
end
$$;
