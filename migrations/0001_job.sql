-- Jobs: the hot row that every transition locks, and beside it what never changes.
--
-- Everything of Longhaul lives in this schema.
-- Every table of a job's rows has a primary key that begins with (shard, job_id), so that one job's rows can live
-- together on one node of a distributed engine. For the same reason, and because rows of a job are only ever written
-- by the statement that holds its row lock, there are no foreign keys and no triggers on these tables.

create schema if not exists longhaul;

create table longhaul.setting (
  name  text primary key,
  value text not null
);
comment on table longhaul.setting is 'Settings of the installation as a whole.';
comment on column longhaul.setting.name is 'Which setting.';
comment on column longhaul.setting.value is 'Its value, as text.';

create function longhaul.now() returns timestamptz
  language sql stable parallel safe
  return statement_timestamp()
    + coalesce((select value::interval from longhaul.setting where name = 'clock_shift'), interval '0');
comment on function longhaul.now() is
  'The only clock: the time of Postgres, plus the setting clock_shift, which tests use to move time.';

create table longhaul.job (
  shard             smallint    not null check (shard between 0 and 63),
  job_id            text        not null check (length(job_id) > 0),
  status            text        not null check (status in
    ('queued', 'running', 'awaiting_approval', 'paused', 'completed', 'failed', 'cancelled')),
  reason            text,
  current_step      integer     not null check (current_step between 1 and step_count),
  step_count        integer     not null,
  revision          integer     not null default 1,
  retried_from      integer,
  priority          integer     not null default 0,
  spec_version      integer     not null,
  run_at            timestamptz,
  executor_id       uuid,
  epoch             integer     not null default 0,
  attempt_id        uuid,
  lease_expires_at  timestamptz,
  attempt           integer     not null default 0,
  attempts          integer     not null default 0,
  first_error_at    timestamptz,
  last_error        jsonb,
  last_sequence     integer     not null default 0,
  pause_requested   boolean     not null default false,
  paused_from       text check (paused_from in
    ('entering', 'queued', 'scheduled', 'waiting', 'provider_unavailable', 'attempt_lost', 'awaiting_approval')),
  approval_id       uuid,
  approvals_asked   integer     not null default 0,
  votes             integer     not null default 0,
  kept_verdict      text check (kept_verdict in ('approve', 'reject')),
  deadline_at       timestamptz,
  left_ms           bigint,
  step_started_at   timestamptz,
  created_at        timestamptz not null,
  updated_at        timestamptz not null,
  finished_at       timestamptz,
  primary key (shard, job_id),
  constraint job_running_is_held check
    ((status = 'running') = (executor_id is not null) and (status = 'running') = (attempt_id is not null)),
  constraint job_only_queued_is_parked check (run_at is null or status in ('queued', 'paused')),
  constraint job_only_running_is_asked_to_pause check (not pause_requested or status = 'running'),
  constraint job_paused_stood_somewhere check ((status = 'paused') = (paused_from is not null)),
  constraint job_awaiting_has_approval check
    (status <> 'awaiting_approval' or (approval_id is not null and deadline_at is not null)),
  constraint job_deadline_runs_while_awaiting check (deadline_at is null or status = 'awaiting_approval'),
  constraint job_verdict_is_kept_while_paused check (kept_verdict is null or status = 'paused'),
  constraint job_terminal_has_finished check
    ((status in ('completed', 'failed', 'cancelled')) = (finished_at is not null)),
  constraint job_override_while_running check (lease_expires_at is null or status = 'running')
) with (fillfactor = 70);

comment on table longhaul.job is 'One row per job: where it stands, and all that a transition may depend on.';
comment on column longhaul.job.shard is 'The first byte of the SHA-256 of job_id, modulo 64.';
comment on column longhaul.job.job_id is 'The id the client chose.';
comment on column longhaul.job.status is 'Where the job stands.';
comment on column longhaul.job.reason is 'Why, where the status alone does not say it; a closed list, in domain/job.rs.';
comment on column longhaul.job.current_step is 'The step in hand, from 1.';
comment on column longhaul.job.step_count is 'How many steps there are.';
comment on column longhaul.job.revision is 'Grows with each retry; part of the key of a checkpoint.';
comment on column longhaul.job.retried_from is 'The step at which the last retry began.';
comment on column longhaul.job.priority is 'Higher is claimed first.';
comment on column longhaul.job.spec_version is 'The shape of its specification; a server claims only what it understands.';
comment on column longhaul.job.run_at is 'When a parked job goes on; null if it is not parked.';
comment on column longhaul.job.executor_id is 'Who holds a running job.';
comment on column longhaul.job.epoch is 'Grows with each claim; with executor_id it fences off stale writers.';
comment on column longhaul.job.attempt_id is 'The attempt in hand of a running job.';
comment on column longhaul.job.lease_expires_at is 'Overrides the lease of the executor for this job; normally null.';
comment on column longhaul.job.attempt is 'Attempts begun at the current step in this revision.';
comment on column longhaul.job.attempts is 'Attempts lost since the last checkpoint.';
comment on column longhaul.job.first_error_at is 'When the current run of passing errors began.';
comment on column longhaul.job.last_error is 'The last error of the current step.';
comment on column longhaul.job.last_sequence is 'The sequence of the last event.';
comment on column longhaul.job.pause_requested is 'A pause takes effect when the attempt in hand ends.';
comment on column longhaul.job.paused_from is 'Where a paused job stood.';
comment on column longhaul.job.approval_id is 'The pending approval, also while the job is paused in it.';
comment on column longhaul.job.approvals_asked is 'How many approvals the job has ever asked.';
comment on column longhaul.job.votes is 'Approvals so far of the pending approval.';
comment on column longhaul.job.kept_verdict is 'What was decided while the job was paused; a resume carries it out.';
comment on column longhaul.job.deadline_at is 'When the pending approval expires; null while paused.';
comment on column longhaul.job.left_ms is 'What is left until then, while paused.';
comment on column longhaul.job.step_started_at is 'When the current step was begun.';
comment on column longhaul.job.created_at is 'When the job was submitted.';
comment on column longhaul.job.updated_at is 'When it last changed.';
comment on column longhaul.job.finished_at is 'When it ended.';

-- Exactly the order in which jobs are claimed, so that a claim never walks past what it cannot take.
create index job_claimable on longhaul.job (priority desc, created_at, shard, job_id)
  where status = 'queued' and run_at is null;
-- Parked jobs by when they are due.
create index job_parked on longhaul.job (run_at) where status = 'queued' and run_at is not null;
-- Approvals by when they expire.
create index job_deadline on longhaul.job (deadline_at) where status = 'awaiting_approval';
-- The jobs of a dead executor.
create index job_held on longhaul.job (executor_id) where status = 'running';
-- Running jobs with a lease of their own.
create index job_override on longhaul.job (lease_expires_at) where lease_expires_at is not null;
-- The view durable_jobs is asked for one job by its id alone.
create index job_by_id on longhaul.job (job_id);
-- Pages of the list, newest first.
create index job_created on longhaul.job (created_at desc, job_id desc);

create table longhaul.job_spec (
  shard       smallint not null,
  job_id      text     not null,
  sent        jsonb    not null,
  spec        jsonb    not null,
  fingerprint bytea    not null,
  labels      jsonb    not null default '{}',
  traceparent text,
  primary key (shard, job_id)
);
comment on table longhaul.job_spec is 'What was submitted; written once with the job.';
comment on column longhaul.job_spec.shard is 'The shard of the job.';
comment on column longhaul.job_spec.job_id is 'The job.';
comment on column longhaul.job_spec.sent is 'The request as it was sent, without its id.';
comment on column longhaul.job_spec.spec is 'The same with every default filled in, frozen for the life of the job.';
comment on column longhaul.job_spec.fingerprint is 'SHA-256 of the request as it was sent.';
comment on column longhaul.job_spec.labels is 'Its labels, to select by.';
comment on column longhaul.job_spec.traceparent is 'The trace of the submitter, in W3C form; attempts link to it.';
create index job_spec_labels on longhaul.job_spec using gin (labels jsonb_path_ops);
