-- The ledger: one row per request to the model provider, written before the request leaves.
-- It is settled by its own id without a guard, so that the usage of a cancelled or superseded call still lands.

create table longhaul.model_call (
  shard               smallint    not null,
  job_id              text        not null,
  call_id             uuid        not null,
  step                integer     not null,
  revision            integer     not null,
  attempt_id          uuid        not null,
  executor_id         uuid        not null,
  epoch               integer     not null,
  model               text        not null,
  outcome             text        not null default 'started' check (outcome in
    ('started', 'answered', 'failed', 'aborted', 'lost')),
  started_at          timestamptz not null,
  settled_at          timestamptz,
  usage               jsonb,
  cost_usd            numeric,
  provider_request_id text,
  error               text,
  partial_output      text,
  primary key (shard, job_id, call_id)
);
comment on table longhaul.model_call is 'The ledger of requests to the model provider. It outlives pruned jobs.';
comment on column longhaul.model_call.shard is 'The shard of the job.';
comment on column longhaul.model_call.job_id is 'The job.';
comment on column longhaul.model_call.call_id is 'The request.';
comment on column longhaul.model_call.step is 'The step it was made for.';
comment on column longhaul.model_call.revision is 'In which revision.';
comment on column longhaul.model_call.attempt_id is 'By which attempt.';
comment on column longhaul.model_call.executor_id is 'By which executor.';
comment on column longhaul.model_call.epoch is 'Under which claim.';
comment on column longhaul.model_call.model is 'The model that was asked.';
comment on column longhaul.model_call.outcome is
  'started: not settled. answered, failed, aborted: as its caller saw it end. lost: its executor died; a late settlement overrides.';
comment on column longhaul.model_call.started_at is 'When the row was written, before the request left.';
comment on column longhaul.model_call.settled_at is 'When it was settled, or marked lost.';
comment on column longhaul.model_call.usage is 'What it used, as far as is known.';
comment on column longhaul.model_call.cost_usd is 'What it cost; null if not known.';
comment on column longhaul.model_call.provider_request_id is 'The id the provider gave the request.';
comment on column longhaul.model_call.error is 'How it failed.';
comment on column longhaul.model_call.partial_output is 'The text that had arrived when it failed or was aborted.';

-- The calls a dead executor left unsettled.
create index model_call_unsettled on longhaul.model_call (executor_id) where outcome = 'started';

-- What many calls used together, each kind of token by itself.
create function longhaul.add_usage(sum jsonb, usage jsonb) returns jsonb
  language sql immutable parallel safe
  return case when usage is null then sum else jsonb_build_object(
    'input_tokens', coalesce((sum ->> 'input_tokens')::bigint, 0) + coalesce((usage ->> 'input_tokens')::bigint, 0),
    'output_tokens', coalesce((sum ->> 'output_tokens')::bigint, 0) + coalesce((usage ->> 'output_tokens')::bigint, 0),
    'cache_write_5m_tokens',
      coalesce((sum ->> 'cache_write_5m_tokens')::bigint, 0) + coalesce((usage ->> 'cache_write_5m_tokens')::bigint, 0),
    'cache_write_1h_tokens',
      coalesce((sum ->> 'cache_write_1h_tokens')::bigint, 0) + coalesce((usage ->> 'cache_write_1h_tokens')::bigint, 0),
    'cache_read_tokens',
      coalesce((sum ->> 'cache_read_tokens')::bigint, 0) + coalesce((usage ->> 'cache_read_tokens')::bigint, 0),
    'web_searches', coalesce((sum ->> 'web_searches')::bigint, 0) + coalesce((usage ->> 'web_searches')::bigint, 0)) end;
comment on function longhaul.add_usage(jsonb, jsonb) is 'Adds what one call used to what others used.';

create aggregate longhaul.sum_usage(jsonb) (
  sfunc = longhaul.add_usage, stype = jsonb, parallel = safe,
  initcond = '{"input_tokens": 0, "output_tokens": 0, "cache_write_5m_tokens": 0, "cache_write_1h_tokens": 0, "cache_read_tokens": 0, "web_searches": 0}');
comment on aggregate longhaul.sum_usage(jsonb) is 'What many calls used together.';
