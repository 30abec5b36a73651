-- Requests: what an action was answered that came with an id of its own, so that the same id gets the same answer.

create table longhaul.control_request (
  shard       smallint    not null,
  job_id      text        not null,
  request_id  text        not null,
  action      text        not null,
  fingerprint bytea       not null,
  changed     boolean,
  refusal     jsonb,
  created_at  timestamptz not null,
  primary key (shard, job_id, request_id),
  constraint control_request_has_one_answer check ((changed is null) <> (refusal is null))
);
comment on table longhaul.control_request is 'One action of a client under an id of its own, and its answer; written in the transaction of the action.';
comment on column longhaul.control_request.shard is 'The shard of the job.';
comment on column longhaul.control_request.job_id is 'The job.';
comment on column longhaul.control_request.request_id is 'The id the client chose; it lives as long as the job.';
comment on column longhaul.control_request.action is 'Which action: pause, resume, cancel, retry, approve or reject.';
comment on column longhaul.control_request.fingerprint is 'SHA-256 of the action with all it says, to tell a repetition from another action.';
comment on column longhaul.control_request.changed is 'Whether it changed the job; null if it was refused.';
comment on column longhaul.control_request.refusal is 'Why it was refused; null if it was done.';
comment on column longhaul.control_request.created_at is 'When it was answered first.';
