-- Presence: a lock that a server's own session holds, so that its death is noticed by Postgres at once.

alter table longhaul.executor
  add column presence_key        integer,
  add column postgres_started_at timestamptz;
comment on column longhaul.executor.presence_key is
  'The key of the advisory lock whose absence means death, while it is known to be held; null: the lease alone decides.';
comment on column longhaul.executor.postgres_started_at is
  'When the Postgres started on which that lock was last known to be held: was it this one, then it is the executor that went away.';
comment on column longhaul.executor.missing_since is
  'When a sweeper first missed its lock; null while it is there.';

create function longhaul.present_keys() returns setof integer
  language sql stable rows 10 as $$
  -- A session that is made anew may hold it beside one that is half dead.
  select distinct l.objid::integer from pg_catalog.pg_locks l
  where l.locktype = 'advisory' and l.classid = 1819242087::oid and l.objsubid = 2 and l.granted
    and l.database = (select d.oid from pg_catalog.pg_database d where d.datname = pg_catalog.current_database())
$$;
comment on function longhaul.present_keys() is
  'The keys of all executors whose lock is held now, in the namespace 1819242087 of two-key advisory locks.';

create function longhaul.postgres_started_at() returns timestamptz
  language sql stable as $$
  -- After the crash of one of its processes Postgres begins anew without a new postmaster; then its statistics do.
  select greatest(pg_catalog.pg_postmaster_start_time(), pg_catalog.pg_stat_get_bgwriter_stat_reset_time())
$$;
comment on function longhaul.postgres_started_at() is
  'When this run of Postgres began: no session, and so no lock, is older. A reset of its statistics counts as one, which does no harm.';
