-- Budgets: what a job may cost at the most, and what is set aside for a call before it leaves.

alter table longhaul.job add column budget_usd text;
comment on column longhaul.job.budget_usd is
  'What it may cost at the most in US dollars, as text: the row is read as JSON, whose numbers lose digits. Null: not limited.';

alter table longhaul.model_call add column reserved_usd numeric;
comment on column longhaul.model_call.reserved_usd is
  'The most the call could cost, set aside before it left; it counts as spent until its cost is known. Null: the job has no budget.';

-- beside the release before: the list only grows, and jobs with a budget are not its own.
alter table longhaul.outbox drop constraint outbox_kind_check;
-- beside the release before: it writes only kinds that are in the list.
alter table longhaul.outbox add constraint outbox_kind_check check (kind in
  ('approval_requested', 'completed', 'failed', 'cancelled', 'out_of_budget')) not valid;
