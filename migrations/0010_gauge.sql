-- Gauges: operators are told how many jobs are where, from indexes that hold only what is not finished.

-- How many jobs are held; the other statuses that are not terminal have such an index already.
-- By a column that never changes: an update that touches no indexed column can stay on its page.
create index job_paused on longhaul.job (created_at) where status = 'paused';
