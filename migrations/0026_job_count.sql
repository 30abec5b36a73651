-- Lists and counts: what failed or was cancelled is found without a walk through everything that ever was, and how many
-- jobs there are is counted in the background.

-- Pages of what failed, newest first. A job that runs and completes never enters it: it costs that nothing.
create index job_failed on longhaul.job (created_at desc, job_id desc) where status = 'failed';
-- The same of what was cancelled.
create index job_cancelled on longhaul.job (created_at desc, job_id desc) where status = 'cancelled';

create table longhaul.job_count (
  created_from   timestamptz primary key,
  created_before timestamptz not null check (created_before > created_from),
  jobs           bigint      not null check (jobs >= 0),
  counted_at     timestamptz not null
);
comment on table longhaul.job_count is
  'How many jobs were submitted in each of these spans, which follow each other without a gap; later ones are counted when that is asked for.';
comment on column longhaul.job_count.created_from is 'Where the span begins; -infinity for the first.';
comment on column longhaul.job_count.created_before is 'Where it ends: a job submitted at this very time is in the next.';
comment on column longhaul.job_count.jobs is 'How many jobs there were, whatever had become of them.';
comment on column longhaul.job_count.counted_at is 'When they were counted; what was deleted since then is still in the number.';
