-- Batches: questions that go to the model provider together and are answered within a day, at half the price of tokens.
-- The provider keeps no list of who sent what, so both rows are written before anything leaves: whoever finds an order
-- that nobody knows the end of can tell by them whether it was taken.

create table longhaul.batch (
  batch_id          uuid        primary key,
  status            text        not null check (status in ('sending', 'unsure', 'ordered', 'canceling', 'ended')),
  provider_batch_id text,
  executor_id       uuid        not null,
  created_at        timestamptz not null,
  look_at           timestamptz not null
);
comment on table longhaul.batch is 'Orders to the model provider, each of many questions; gone when nobody waits for them any more.';
comment on column longhaul.batch.batch_id is 'Our own id.';
comment on column longhaul.batch.status is
  'sending: about to leave. unsure: it left, and its answer was lost. ordered: the provider works on it. canceling: it was told to stop. ended: all results are here.';
comment on column longhaul.batch.provider_batch_id is 'The id the provider gave it, once that is known.';
comment on column longhaul.batch.executor_id is 'The executor that sends it.';
comment on column longhaul.batch.created_at is 'When it was written, right before it left.';
comment on column longhaul.batch.look_at is 'When to look at it next.';

create index batch_open on longhaul.batch (look_at) where status <> 'ended';

create table longhaul.batch_request (
  shard       smallint    not null,
  job_id      text        not null,
  call_id     uuid        not null,
  step        integer     not null,
  revision    integer     not null,
  params      json,
  bytes       integer     not null,
  due_at      timestamptz not null,
  not_before  timestamptz,
  created_at  timestamptz not null,
  batch_id    uuid,
  result      json,
  answered_at timestamptz,
  reserved_on date,
  reserved_usd numeric,
  primary key (shard, job_id, call_id)
);
comment on table longhaul.batch_request is 'Questions of run steps that are asked in a batch, until their answers are in a checkpoint.';
comment on column longhaul.batch_request.shard is 'The shard of the job.';
comment on column longhaul.batch_request.job_id is 'The job.';
comment on column longhaul.batch_request.call_id is 'Its row in the ledger, and the name of the question in the batch.';
comment on column longhaul.batch_request.step is 'The step that asks.';
comment on column longhaul.batch_request.revision is 'In which revision.';
comment on column longhaul.batch_request.params is 'The question in the words of the provider; null once it is answered.';
comment on column longhaul.batch_request.bytes is 'How long that is.';
comment on column longhaul.batch_request.due_at is 'From this time on it waits for no others to leave with it.';
comment on column longhaul.batch_request.not_before is 'Until this time it does not leave: the provider had no room for an order.';
comment on column longhaul.batch_request.created_at is 'When it was written.';
comment on column longhaul.batch_request.batch_id is 'The batch it is in; null until it leaves.';
comment on column longhaul.batch_request.result is 'What became of it, in the words of the provider.';
comment on column longhaul.batch_request.answered_at is 'When that came.';
comment on column longhaul.batch_request.reserved_on is 'The day from whose budget was taken what may be spent on it; null if there is none.';
comment on column longhaul.batch_request.reserved_usd is 'How much that was; what it did not cost goes back.';

create index batch_request_unsent on longhaul.batch_request (due_at) where batch_id is null;
create index batch_request_sent on longhaul.batch_request (batch_id) where batch_id is not null;
create index batch_request_answered on longhaul.batch_request (answered_at) where answered_at is not null;

-- A call that waits in a batch is none that a dead executor left unsettled.
-- beside the release before: the list only grows.
alter table longhaul.model_call drop constraint model_call_outcome_check;
-- beside the release before: it writes only words that are in the list.
alter table longhaul.model_call add constraint model_call_outcome_check check (outcome in
  ('started', 'batched', 'answered', 'failed', 'aborted', 'lost')) not valid;
comment on column longhaul.model_call.outcome is
  'started: not settled. batched: waits in a batch. answered, failed, aborted: as its caller saw it end. lost: its executor died; a late settlement overrides.';
