-- Gauges: operators are told how many jobs are where, from indexes that hold only what is not finished.

-- How many jobs are held; the other statuses that are not terminal have such an index already.
create index job_paused on longhaul.job (updated_at) where status = 'paused';
