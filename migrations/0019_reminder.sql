-- Reminders and escalation of approvals, and requests that could not be delivered.
-- Only jobs that the release before leaves alone have a reminder or an escalation; to it the lists only grow.

-- The time of the next reminder stands in run_at, which is part of every guard.
-- beside the release before: it gives an open approval no such time, and takes none for a parked job.
alter table longhaul.job drop constraint job_only_queued_is_parked;
-- beside the release before: it writes it for queued and paused jobs only.
alter table longhaul.job add constraint job_run_at_has_a_use
  check (run_at is null or status in ('queued', 'paused', 'awaiting_approval')) not valid;
comment on column longhaul.job.run_at is
  'When a parked job goes on, or when people are next reminded of an open approval or more are asked; null if nothing is due by itself.';
-- Open approvals by when people are next reminded.
create index job_remind on longhaul.job (run_at) where status = 'awaiting_approval' and run_at is not null;

-- beside the release before: the list only grows.
alter table longhaul.outbox drop constraint outbox_kind_check;
-- beside the release before: it writes only words that are in the list.
alter table longhaul.outbox add constraint outbox_kind_check check (kind in
  ('approval_requested', 'approval_reminder', 'approval_escalated', 'completed', 'failed', 'cancelled',
   'out_of_budget', 'daily_budget')) not valid;
-- beside the release before: it leaves the column as it is.
alter table longhaul.outbox add column is_told boolean not null default false;
comment on column longhaul.outbox.is_told is
  'Whether it is in the history of the job that this request for a decision could not be delivered.';
-- beside the release before: it leaves the column as it is.
alter table longhaul.outbox add column approvers text[];
comment on column longhaul.outbox.approvers is
  'In whose names alone an endpoint is asked, where these people are asked there. Null: its links are for the recipient, or to an endpoint for every approver.';
-- Requests that failed and of which that is still to be told.
create index outbox_undelivered on longhaul.outbox (updated_at)
  where delivery = 'failed' and approval_id is not null and not is_told;
