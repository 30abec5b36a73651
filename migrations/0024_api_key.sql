-- Keys: who may call, and what for. Only hashes are kept; a key is shown once, when it is made.

create table longhaul.api_key (
  key_id              text        primary key check (key_id ~ '^[0-9a-f]{12}$'),
  name                text        not null check (name ~ '^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$'),
  key_hash            bytea       not null unique check (octet_length(key_hash) = 32),
  scopes              text[]      not null check (cardinality(scopes) > 0),
  requests_per_second integer     check (requests_per_second > 0),
  requests_max        integer     check (requests_max > 0),
  created_at          timestamptz not null,
  expires_at          timestamptz,
  revoked_at          timestamptz,
  last_used_at        timestamptz
);
comment on table longhaul.api_key is 'Keys that callers show at the doors. A revoked one stays, so that a server that had keys never opens again.';
comment on column longhaul.api_key.key_id is 'The first twelve hex digits of the hash: names the key without telling anything of it.';
comment on column longhaul.api_key.name is 'What people call it; the history of a job names it as key:NAME. One living key has it at a time.';
comment on column longhaul.api_key.key_hash is 'SHA-256 of the key. A key is random, so that a slow hash would add nothing.';
comment on column longhaul.api_key.scopes is 'What it is good for: submit, control, approve, read, admin. A server ignores those it does not know.';
comment on column longhaul.api_key.requests_per_second is 'How many requests a second it may make of one server. Null: as the server says.';
comment on column longhaul.api_key.requests_max is 'How many of its requests one server has in hand at once. Null: as the server says.';
comment on column longhaul.api_key.created_at is 'When it was made.';
comment on column longhaul.api_key.expires_at is 'Since when it opens nothing. Null: never.';
comment on column longhaul.api_key.revoked_at is 'When it was taken back. Null: it was not.';
comment on column longhaul.api_key.last_used_at is 'When it was last shown, give or take some minutes. Null: never.';

-- The living key of a name; one that has expired is revoked before its name is given again.
create unique index api_key_name on longhaul.api_key (name) where revoked_at is null;

-- A caller with a key may decide in the name of somebody else.
comment on column longhaul.decision.via is
  'Through which link (the SHA-256 of its token, in hex, as in approval_link), from which number or id, or by which caller (key:NAME) in the name of the voter; for whoever examines a decision.';
