-- The people who are written to: one row each, which is taken before anything is sent to them.

create table longhaul.recipient (
  recipient       text        primary key,
  next_at         timestamptz not null,
  written_at      timestamptz,
  last_inbound_at timestamptz,
  closed_at       timestamptz,
  user_id         text,
  created_at      timestamptz not null,
  updated_at      timestamptz not null
);
comment on table longhaul.recipient is
  'One row per person, made when the first notice to them is taken or when they first write; an endpoint has one once it asks to be left alone.';
comment on column longhaul.recipient.recipient is
  'The person as notices name them: a name of the address book, or a number.';
comment on column longhaul.recipient.next_at is
  'Nothing is sent to them before: messages to one person keep a distance.';
comment on column longhaul.recipient.written_at is
  'When a notice to them was last taken to be sent. Null: nothing was ever written to them.';
comment on column longhaul.recipient.last_inbound_at is
  'When they last wrote, which lets us write freely for a day. Null: they never did, as far as is known.';
comment on column longhaul.recipient.closed_at is
  'When the channel last said that we may not write freely; it counts until they write again.';
comment on column longhaul.recipient.user_id is 'The channel''s id of the person, which can be told without a number.';
comment on column longhaul.recipient.created_at is 'When the row was made.';
comment on column longhaul.recipient.updated_at is 'When it last changed.';

-- beside the release before: it leaves the columns null, which is right for what it sends.
alter table longhaul.outbox add column needs text;
-- beside the release before: the same.
alter table longhaul.outbox add column failed_try integer;
comment on column longhaul.outbox.needs is
  'What the next try must be sent as, since what went before it was refused. Null: whatever suits the person.';
comment on column longhaul.outbox.failed_try is
  'The try of which the channel said, after it had taken it, that it could not be delivered. Null: it said that of none.';
-- beside the release before: it leaves the column as it is, and gives up after as many tries as ever.
alter table longhaul.outbox add column tries_before integer not null default 0;
comment on column longhaul.outbox.tries_before is
  'How many of its tries were made before somebody last had it sent again: those since then are bounded by themselves.';
-- beside the release before: it does not write the column.
alter table longhaul.outbox add constraint outbox_needs_check
  check (needs in ('template', 'backup')) not valid;
-- Whoever writes without showing a number is known by this.
create index recipient_user_id on longhaul.recipient (user_id) where user_id is not null;

-- The order of one recipient's notices to the last, so that the first of a long queue is found without sorting it.
create index outbox_queue on longhaul.outbox (recipient, created_at, notice_id)
  where delivery in ('pending', 'sending');
-- beside the release before: the other index does for it as well.
drop index longhaul.outbox_recipient;
-- Whether a message to a person is on its way.
create index outbox_sending on longhaul.outbox (recipient) where delivery = 'sending';

-- Asked where a notice would be sent again: was its approval decided, or what it tells undone, since it was written?
create function longhaul.is_overtaken(n longhaul.outbox) returns boolean
  language sql stable as $$
  select case
    when n.approval_id is not null then not exists (
      select from longhaul.approval a
      where a.shard = n.shard and a.job_id = n.job_id and a.approval_id = n.approval_id and a.status = 'pending')
    when n.kind in ('completed', 'failed', 'cancelled', 'out_of_budget') then exists (
      select from longhaul.event e
      where e.shard = n.shard and e.job_id = n.job_id and e.sequence > n.sequence
        and (e.kind = 'job_retried' or (e.kind = 'job_resumed' and n.kind = 'out_of_budget')))
    -- What operators are told, and what only endpoints are told, has happened whatever follows.
    else false
  end
$$;
comment on function longhaul.is_overtaken(longhaul.outbox) is 'Whether nobody needs to be told this any more.';
