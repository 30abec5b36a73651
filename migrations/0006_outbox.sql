-- The outbox: messages to people, each inserted in the transaction that causes it.

create table longhaul.outbox (
  shard               smallint    not null,
  job_id              text        not null,
  notice_id           uuid        not null,
  sequence            integer     not null,
  kind                text        not null check (kind in
    ('approval_requested', 'completed', 'failed', 'cancelled')),
  recipient           text        not null,
  approval_id         uuid,
  delivery            text        not null default 'pending' check (delivery in
    ('pending', 'sending', 'sent', 'failed', 'superseded', 'unconfirmed')),
  tokens              jsonb,
  tries               integer     not null default 0,
  due_at              timestamptz not null,
  provider_message_id text,
  error               text,
  created_at          timestamptz not null,
  updated_at          timestamptz not null,
  primary key (shard, job_id, notice_id),
  constraint outbox_tokens_until_sent check (tokens is null or delivery in ('pending', 'sending'))
);
comment on table longhaul.outbox is 'One notice per event and recipient; it waits here until it is delivered.';
comment on column longhaul.outbox.shard is 'The shard of the job.';
comment on column longhaul.outbox.job_id is 'The job.';
comment on column longhaul.outbox.notice_id is 'The notice.';
comment on column longhaul.outbox.sequence is 'The event it tells.';
comment on column longhaul.outbox.kind is 'What it tells.';
comment on column longhaul.outbox.recipient is 'Whom.';
comment on column longhaul.outbox.approval_id is 'The approval it asks for.';
comment on column longhaul.outbox.delivery is 'How far it has come.';
comment on column longhaul.outbox.tokens is 'The tokens of its links in plain text, dropped once it is sent.';
comment on column longhaul.outbox.tries is 'How often it was tried.';
comment on column longhaul.outbox.due_at is 'When to try it, or when a try counts as lost.';
comment on column longhaul.outbox.provider_message_id is 'The id the channel gave the message.';
comment on column longhaul.outbox.error is 'How the last try failed.';
comment on column longhaul.outbox.created_at is 'When it was written.';
comment on column longhaul.outbox.updated_at is 'When it last changed.';
create unique index outbox_one_per_event on longhaul.outbox (shard, job_id, sequence, recipient);
-- What is to be sent, or was being sent when a dispatcher died.
create index outbox_due on longhaul.outbox (due_at) where delivery in ('pending', 'sending');
-- The order of one recipient's notices.
create index outbox_recipient on longhaul.outbox (recipient, created_at) where delivery in ('pending', 'sending');
