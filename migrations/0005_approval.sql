-- Approvals: what was asked, who decided, and the links people were sent.

create table longhaul.approval (
  shard       smallint    not null,
  job_id      text        not null,
  approval_id uuid        not null,
  step        integer     not null,
  revision    integer     not null,
  status      text        not null check (status in
    ('pending', 'approved', 'rejected', 'expired', 'withdrawn')),
  quorum      integer     not null,
  asked_at    timestamptz not null,
  closed_at   timestamptz,
  primary key (shard, job_id, approval_id),
  constraint approval_closed_has_time check ((status = 'pending') = (closed_at is null))
);
comment on table longhaul.approval is 'One request for a decision. Its deadline is in the row of the job, where the lock protects it.';
comment on column longhaul.approval.shard is 'The shard of the job.';
comment on column longhaul.approval.job_id is 'The job.';
comment on column longhaul.approval.approval_id is 'The request.';
comment on column longhaul.approval.step is 'The approval step.';
comment on column longhaul.approval.revision is 'The revision of the job in which it was asked.';
comment on column longhaul.approval.status is 'How it stands.';
comment on column longhaul.approval.quorum is 'How many must approve.';
comment on column longhaul.approval.asked_at is 'When it was asked.';
comment on column longhaul.approval.closed_at is 'When it was decided, expired or was withdrawn.';

create table longhaul.decision (
  shard       smallint    not null,
  job_id      text        not null,
  approval_id uuid        not null,
  voter       text        not null,
  verdict     text        not null check (verdict in ('approve', 'reject')),
  door        text        not null check (door in ('link', 'grpc', 'webhook', 'timeout')),
  comment     text        not null,
  decided_at  timestamptz not null,
  primary key (shard, job_id, approval_id, voter)
);
comment on table longhaul.decision is 'One vote. The key allows one per approver.';
comment on column longhaul.decision.shard is 'The shard of the job.';
comment on column longhaul.decision.job_id is 'The job.';
comment on column longhaul.decision.approval_id is 'The approval.';
comment on column longhaul.decision.voter is 'Who voted: the number of an approver, or the name a caller gave.';
comment on column longhaul.decision.verdict is 'What they decided.';
comment on column longhaul.decision.door is 'The way it came in.';
comment on column longhaul.decision.comment is 'What they said.';
comment on column longhaul.decision.decided_at is 'When.';

create table longhaul.approval_link (
  shard       smallint    not null,
  job_id      text        not null,
  token_hash  bytea       not null,
  approval_id uuid        not null,
  approver    text        not null,
  verdict     text        not null check (verdict in ('approve', 'reject')),
  created_at  timestamptz not null,
  revoked_at  timestamptz,
  primary key (shard, job_id, token_hash)
);
comment on table longhaul.approval_link is 'One link per approval, approver, message and button. Only the hash of its token is kept.';
comment on column longhaul.approval_link.shard is 'The shard of the job; the token begins with it.';
comment on column longhaul.approval_link.job_id is 'The job.';
comment on column longhaul.approval_link.token_hash is 'SHA-256 of the token.';
comment on column longhaul.approval_link.approval_id is 'The approval.';
comment on column longhaul.approval_link.approver is 'Who was sent it, and so who decides through it.';
comment on column longhaul.approval_link.verdict is 'Which button its page puts first.';
comment on column longhaul.approval_link.created_at is 'When it was made.';
comment on column longhaul.approval_link.revoked_at is 'Since when it opens nothing.';
create unique index approval_link_token on longhaul.approval_link (shard, token_hash);
