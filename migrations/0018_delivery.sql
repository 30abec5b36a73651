-- What a channel says of a message after it took it.
-- A column of its own, since the release before cannot read a delivery that it does not know: to it, this is sent.

alter table longhaul.outbox add column receipt text;
comment on column longhaul.outbox.receipt is
  'How far the channel says that the message has come since it was sent: delivered or read. Null: it has not said.';
-- beside the release before: it does not write the column.
alter table longhaul.outbox add constraint outbox_receipt_check
  check (receipt in ('delivered', 'read')) not valid;
-- beside the release before: it leaves what was sent as it is.
alter table longhaul.outbox add constraint outbox_receipt_is_of_what_was_sent
  check (receipt is null or delivery = 'sent') not valid;
-- A status that does not name its notice is matched by the id of the message.
create index outbox_provider_message on longhaul.outbox (provider_message_id)
  where provider_message_id is not null;
