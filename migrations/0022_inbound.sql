-- What people write to the number that sends: taps and typed answers decide approvals.

create table longhaul.inbound (
  message_id  text        primary key,
  sender      text        not null,
  user_id     text,
  written_to  text,
  kind        text        not null check (kind in ('text', 'button', 'other')),
  content     text,
  context_id  text,
  sent_at     timestamptz,
  received_at timestamptz not null,
  due_at      timestamptz not null,
  tries       integer     not null default 0,
  job_id      text,
  approval_id uuid,
  approver    text,
  verdict     text        check (verdict in ('approve', 'reject')),
  handled_at  timestamptz,
  is_help     boolean     not null default false,
  answer      text        check (answer in ('none', 'sending', 'sent', 'failed', 'unconfirmed')),
  constraint inbound_means_one_thing check ((approval_id is null) = (job_id is null)
    and (approval_id is null) = (approver is null) and (approval_id is null) = (verdict is null)),
  constraint inbound_handled_has_answer check ((handled_at is null) = (answer is null)),
  constraint inbound_content_until_handled check (content is null or handled_at is null)
);
comment on table longhaul.inbound is
  'One message that a person wrote. It is stored before Meta is told that it arrived, and known by its id when it comes again.';
comment on column longhaul.inbound.message_id is 'Meta''s id of the message.';
comment on column longhaul.inbound.sender is 'Who wrote, as the channel tells it: a number in E.164, or else Meta''s id of the person.';
comment on column longhaul.inbound.user_id is 'Meta''s id of the person, where it was told.';
comment on column longhaul.inbound.written_to is 'Meta''s id of the number that they wrote to, which may be another than ours.';
comment on column longhaul.inbound.kind is 'What came: a text, a tap on a button, or what says nothing here, such as a picture.';
comment on column longhaul.inbound.content is 'The beginning of the text, or what the button stands for; dropped once it is handled.';
comment on column longhaul.inbound.context_id is 'The message that it answers, where it names one.';
comment on column longhaul.inbound.sent_at is 'When the person sent it, by Meta''s clock, in whole seconds.';
comment on column longhaul.inbound.received_at is 'When it was stored.';
comment on column longhaul.inbound.due_at is 'When to handle it, or when a try to handle it counts as lost.';
comment on column longhaul.inbound.tries is 'How often it was taken to be handled.';
comment on column longhaul.inbound.job_id is 'The job of the approval that it decides; written before the decision, so that a second try decides the same.';
comment on column longhaul.inbound.approval_id is 'The approval that it decides.';
comment on column longhaul.inbound.approver is 'As whom: the sender as the approval names them.';
comment on column longhaul.inbound.verdict is 'What it decides.';
comment on column longhaul.inbound.handled_at is 'When it was handled.';
comment on column longhaul.inbound.is_help is 'Whether it was answered with help; one sender gets that once a minute at the most.';
comment on column longhaul.inbound.answer is 'What became of the answer to it; written as sending before that is sent, so that nobody is answered twice.';
-- What is to be handled: from sender to sender, each one's messages in order.
create index inbound_open on longhaul.inbound (sender, received_at, sent_at, message_id)
  where handled_at is null;
-- Whom was helped lately.
create index inbound_help on longhaul.inbound (sender, handled_at) where is_help;
-- What can be forgotten.
create index inbound_handled on longhaul.inbound (handled_at) where handled_at is not null;

-- Whom an approval asks, so that what is pending for a person is found without a walk through what they decided before.
alter table longhaul.approval add column approvers text[];
comment on column longhaul.approval.approvers is
  'Whom it asks. Null: it was asked by a release that does not write this; typed answers do not find it.';
-- beside the release before: it does not know the column, and leaves what is written here as it is.
update longhaul.approval a set approvers = (
    select array_agg(distinct l.approver) from longhaul.approval_link l
    where l.shard = a.shard and l.job_id = a.job_id and l.approval_id = a.approval_id)
  where a.status = 'pending';
-- One entry per approver, made when it is asked. What is closed leaves it with the next vacuum, which therefore comes sooner.
create index approval_pending on longhaul.approval using gin (approvers) with (fastupdate = off) where status = 'pending';
alter table longhaul.approval set (autovacuum_vacuum_scale_factor = 0.02);

-- By which message a decision came.
-- A column of its own, since the release before cannot read a door that it does not know: to it, this is a link of the same person.
alter table longhaul.decision add column came_by text;
comment on column longhaul.decision.came_by is
  'The door, where it is a tap on a button or a typed reply; `door` says link then. Null: it is the one in `door`.';
-- beside the release before: it does not write the column.
alter table longhaul.decision add constraint decision_came_by_check
  check (came_by in ('button', 'reply')) not valid;

-- beside the release before: it does not write the column.
alter table longhaul.decision add column via text;
comment on column longhaul.decision.via is
  'Through which link (the SHA-256 of its token, in hex, as in approval_link), or from which number or id; for whoever examines a decision.';

-- A typed answer counts only for what had arrived before it was written.
alter table longhaul.outbox add column arrived_at timestamptz;
comment on column longhaul.outbox.arrived_at is
  'Since when the message is known to have been on the person''s phone, by the channel''s clock. Null: it has not said.';
