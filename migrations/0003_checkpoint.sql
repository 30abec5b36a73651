-- Checkpoints and events: the results and the history of a job. Both are only ever added to.

create table longhaul.checkpoint (
  shard       smallint    not null,
  job_id      text        not null,
  step        integer     not null,
  revision    integer     not null,
  attempt_id  uuid,
  output      text,
  content     text,
  citations   jsonb,
  usage       jsonb,
  cost_usd    numeric,
  model       text,
  stop_reason text,
  started_at  timestamptz not null,
  finished_at timestamptz not null,
  primary key (shard, job_id, step, revision)
);
comment on table longhaul.checkpoint is
  'The result of a finished step. The live one of a step is that of the highest revision, for steps before the current one.';
comment on column longhaul.checkpoint.shard is 'The shard of the job.';
comment on column longhaul.checkpoint.job_id is 'The job.';
comment on column longhaul.checkpoint.step is 'The step, from 1.';
comment on column longhaul.checkpoint.revision is 'The revision of the job in which it was finished.';
comment on column longhaul.checkpoint.attempt_id is 'The attempt that finished it, for a run step; finds a commit whose reply was lost.';
comment on column longhaul.checkpoint.output is 'The text of the answer.';
comment on column longhaul.checkpoint.content is 'The blocks of the answer as the provider sent them: JSON text, byte for byte.';
comment on column longhaul.checkpoint.citations is 'What the answer cites.';
comment on column longhaul.checkpoint.usage is 'What the calls of the attempt used.';
comment on column longhaul.checkpoint.cost_usd is 'What they cost; null if a price is not known.';
comment on column longhaul.checkpoint.model is 'The model that answered.';
comment on column longhaul.checkpoint.stop_reason is 'Why it stopped, in the word of the provider.';
comment on column longhaul.checkpoint.started_at is 'When the step was begun.';
comment on column longhaul.checkpoint.finished_at is 'When it was finished.';

create table longhaul.event (
  shard       smallint    not null,
  job_id      text        not null,
  sequence    integer     not null,
  occurred_at timestamptz not null,
  kind        text        not null,
  status      text        not null,
  reason      text,
  step        integer     not null,
  revision    integer     not null,
  attempt     integer     not null,
  actor       text        not null,
  message     text        not null,
  detail      jsonb,
  primary key (shard, job_id, sequence)
);
comment on table longhaul.event is 'The history of a job, one line each.';
comment on column longhaul.event.shard is 'The shard of the job.';
comment on column longhaul.event.job_id is 'The job.';
comment on column longhaul.event.sequence is 'Its number in the job, from 1, without gaps.';
comment on column longhaul.event.occurred_at is 'When it happened.';
comment on column longhaul.event.kind is 'What happened; a closed list, in domain/event.rs.';
comment on column longhaul.event.status is 'The status of the job after it.';
comment on column longhaul.event.reason is 'The reason of the job after it.';
comment on column longhaul.event.step is 'The step it concerns; 0 if none.';
comment on column longhaul.event.revision is 'The revision of the job; finds the checkpoint of a finished step.';
comment on column longhaul.event.attempt is 'Which attempt at the step; 0 if none.';
comment on column longhaul.event.actor is 'Who did it.';
comment on column longhaul.event.message is 'One line to read.';
comment on column longhaul.event.detail is 'More of it.';
