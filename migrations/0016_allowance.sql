-- The day's budget: what all servers together may spend on model calls on one day.

create table longhaul.allowance (
  day        date        primary key,
  drawn_usd  numeric     not null default 0,
  lot_usd    numeric     not null default 0,
  refused_at timestamptz,
  let_go_at  timestamptz,
  told_at    timestamptz,
  budget_usd numeric
);
comment on table longhaul.allowance is
  'One row per day in UTC on which a server with a daily budget made calls: the servers draw from it in lots.';
comment on column longhaul.allowance.day is 'The day, in UTC, by the only clock.';
comment on column longhaul.allowance.drawn_usd is
  'What servers have drawn and not given back: spent, set aside for calls under way, or still in their hands.';
comment on column longhaul.allowance.lot_usd is 'What the last draw took.';
comment on column longhaul.allowance.refused_at is
  'When what was left last did not cover a call. Null: no job was put off. While it is set, servers give back what they need not.';
comment on column longhaul.allowance.let_go_at is 'When jobs that had been put off were last let go on.';
comment on column longhaul.allowance.told_at is 'When the operators were told that jobs wait. Null: they were not.';
comment on column longhaul.allowance.budget_usd is 'What the budget was of which they were told.';

-- beside the release before: the list only grows, and that release keeps no budget of a day.
alter table longhaul.outbox drop constraint outbox_kind_check;
-- beside the release before: it writes only kinds that are in the list.
alter table longhaul.outbox add constraint outbox_kind_check check (kind in
  ('approval_requested', 'completed', 'failed', 'cancelled', 'out_of_budget', 'daily_budget')) not valid;

-- beside the release before: the list only grows.
alter table longhaul.job drop constraint job_paused_from_check;
-- beside the release before: it writes only places that are in the list.
alter table longhaul.job add constraint job_paused_from_check check (paused_from in
  ('entering', 'queued', 'scheduled', 'waiting', 'provider_unavailable', 'attempt_lost', 'awaiting_approval',
   'daily_budget')) not valid;
