-- Executors: one row per living server process, which is one lease for all the jobs it holds.

create table longhaul.executor (
  executor_id      uuid        primary key,
  host             text        not null,
  pid              integer     not null,
  started_at       timestamptz not null,
  lease_expires_at timestamptz not null,
  missing_since    timestamptz
) with (fillfactor = 50);
comment on table longhaul.executor is
  'One row per living process. A job is held while the lease of its executor lives. No index on what a renewal changes.';
comment on column longhaul.executor.executor_id is 'A fresh id per boot.';
comment on column longhaul.executor.host is 'The host it runs on, for people.';
comment on column longhaul.executor.pid is 'Its process id there, for people.';
comment on column longhaul.executor.started_at is 'When it began.';
comment on column longhaul.executor.lease_expires_at is 'When its jobs may be taken, unless it renews.';
comment on column longhaul.executor.missing_since is 'When a sweeper first missed its sign of life.';
