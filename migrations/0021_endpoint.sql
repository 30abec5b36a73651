-- Endpoints: notices that go to configured addresses rather than to phones, and the list of what was told.
-- Only jobs that the release before leaves alone have such notices; to it the list of kinds only grows.

-- beside the release before: the list only grows.
alter table longhaul.outbox drop constraint outbox_kind_check;
-- beside the release before: it writes only words that are in the list.
alter table longhaul.outbox add constraint outbox_kind_check check (kind in
  ('approval_requested', 'approval_reminder', 'approval_escalated', 'completed', 'failed', 'cancelled', 'out_of_budget', 'daily_budget',
   'approval_decided', 'approval_expired', 'paused', 'notice_failed')) not valid;
comment on column longhaul.outbox.recipient is
  'Whom: the number or the name of a person, or `webhook:` and the name of an endpoint.';
comment on column longhaul.recipient.next_at is
  'Nothing is sent to them before: messages to one person keep a distance, and an endpoint may ask to be left alone.';
comment on column longhaul.outbox.tokens is
  'The tokens of its links in plain text, dropped once it is sent; to an endpoint a list, one entry for each approver.';
-- What could not be told, newest first; an id begins with its time.
create index outbox_dead on longhaul.outbox (notice_id) where delivery in ('failed', 'unconfirmed');
-- The same of everything that has come to an end; what has not is little, and in outbox_due.
create index outbox_settled on longhaul.outbox (notice_id) where delivery not in ('pending', 'sending');
-- The same of one recipient.
create index outbox_told on longhaul.outbox (recipient, notice_id) where delivery not in ('pending', 'sending');
