-- Test links: `longhaul doctor` leaves one here, opens it by the public URL, and so proves that links lead here.

create table longhaul.link_probe (
  token_hash bytea       primary key,
  proof      text        not null,
  expires_at timestamptz not null,
  arrived_at timestamptz
);
comment on table longhaul.link_probe is 'Test links of longhaul doctor, which decide nothing and live for minutes.';
comment on column longhaul.link_probe.token_hash is 'SHA-256 of the token in the link.';
comment on column longhaul.link_probe.proof is 'The word that the page shows, which only a server on this database knows.';
comment on column longhaul.link_probe.expires_at is 'Since when it opens nothing; the next doctor takes it away.';
comment on column longhaul.link_probe.arrived_at is 'When its form arrived. Null: it was at most looked at.';
