-- Tombstones: what stays of a job that was pruned, so that its id is never used twice and its usage is still counted.
-- A job is marked a while before its rows go: a submit that is under way then and does not see the mark still finds the row.

create table longhaul.tombstone (
  shard        smallint    not null check (shard between 0 and 63),
  job_id       text        not null,
  fingerprint  bytea       not null,
  status       text        not null check (status in ('completed', 'failed', 'cancelled')),
  reason       text,
  current_step integer     not null,
  step_count   integer     not null,
  labels       jsonb       not null default '{}',
  created_at   timestamptz not null,
  finished_at  timestamptz not null,
  marked_at    timestamptz not null,
  pruned_at    timestamptz,
  primary key (shard, job_id)
);
comment on table longhaul.tombstone is 'What stays of a pruned job. Until pruned_at is set it is only a mark, and the job is whole.';
comment on column longhaul.tombstone.shard is 'The shard of the job.';
comment on column longhaul.tombstone.job_id is 'The job.';
comment on column longhaul.tombstone.fingerprint is 'SHA-256 of the request as it was sent, to tell a repetition from another submission.';
comment on column longhaul.tombstone.status is 'How it ended.';
comment on column longhaul.tombstone.reason is 'Why, where the status alone does not say it.';
comment on column longhaul.tombstone.current_step is 'The step in which it ended, from 1.';
comment on column longhaul.tombstone.step_count is 'How many steps it had.';
comment on column longhaul.tombstone.labels is 'Its labels, by which the ledger is still added up.';
comment on column longhaul.tombstone.created_at is 'When it was submitted.';
comment on column longhaul.tombstone.finished_at is 'When it ended.';
comment on column longhaul.tombstone.marked_at is 'When it was marked to be pruned; later than now, if it could not be and is tried again then.';
comment on column longhaul.tombstone.pruned_at is 'When its rows were deleted. Null: they are there, and all that reads jobs finds them.';
-- What is marked and not pruned yet.
create index tombstone_marked on longhaul.tombstone (marked_at) where pruned_at is null;

-- What has ended, by how and when. A job comes into it when it ends, and costs nothing here before that.
create index job_finished on longhaul.job (status, finished_at) where finished_at is not null;

create function longhaul.is_at_rest(of_shard smallint, of_job_id text) returns boolean
  language sql stable parallel safe as $$
  select not exists (
      select from longhaul.outbox o
      where o.shard = of_shard and o.job_id = of_job_id and o.delivery in ('pending', 'sending'))
    and not exists (
      select from longhaul.model_call m
      where m.shard = of_shard and m.job_id = of_job_id and m.outcome in ('started', 'batched'))
    and not exists (
      select from longhaul.batch_request r where r.shard = of_shard and r.job_id = of_job_id)
$$;
comment on function longhaul.is_at_rest(smallint, text) is
  'Whether nothing of a job is under way any more: no notice to be sent, no call to be settled, no question in a batch.';
