//! The evidence of a run: a log that the tool's own triggers write, the tables at the end, and the sandbox's journals.
//!
//! The log holds each version of a job's row and each row that is added to its history, with the transaction it came in.
//! All of it is written while the job's row is locked, so its order within one job is the order in which things happened,
//! whatever any clock says. The triggers are the tool's: the product has none on these tables.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use serde::Deserialize;
use serde_json::Value;
use sqlx::types::Json;
use uuid::Uuid;

use super::world::World;

const TRIGGERS: &str = "
    create schema torture;
    create table torture.log (
      seq bigserial primary key, xid bigint not null default pg_current_xact_id()::text::bigint,
      at timestamptz not null default clock_timestamp(),
      kind text not null, job_id text not null, old jsonb, new jsonb not null);
    create function torture.note() returns trigger language plpgsql as $$
    begin
      insert into torture.log (kind, job_id, old, new) values (tg_table_name, new.job_id,
        case when tg_op = 'UPDATE' then to_jsonb(old) end,
        to_jsonb(new) - array['output', 'content', 'citations', 'detail']);
      return null;
    end $$;
    create table torture.executor as select executor_id, pid from longhaul.executor;
    create function torture.note_executor() returns trigger language plpgsql as $$
    begin
      insert into torture.executor values (new.executor_id, new.pid);
      return null;
    end $$;
    create trigger note after insert on longhaul.executor for each row execute function torture.note_executor();
    create trigger note after insert or update on longhaul.job for each row execute function torture.note();
    create trigger note after insert or update on longhaul.approval for each row execute function torture.note();
    create trigger note after insert on longhaul.event for each row execute function torture.note();
    create trigger note after insert on longhaul.checkpoint for each row execute function torture.note();
    create trigger note after insert on longhaul.decision for each row execute function torture.note();
    create trigger note after insert on longhaul.model_call for each row execute function torture.note();";

/// A version of a job's row.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Row {
    pub status: String,
    pub reason: Option<String>,
    pub current_step: i32,
    pub step_count: i32,
    pub revision: i32,
    pub executor_id: Option<Uuid>,
    pub epoch: i32,
    pub attempt_id: Option<Uuid>,
    pub last_sequence: i32,
    pub votes: i32,
    pub deadline_at: Option<DateTime<Utc>>,
    pub left_ms: Option<i64>,
}

#[derive(Clone, Debug, Deserialize)]
pub struct Event {
    pub sequence: i32,
    pub kind: String,
    pub status: String,
    pub reason: Option<String>,
    pub step: i32,
    pub revision: i32,
    pub attempt: i32,
}

#[derive(Clone, Debug, Deserialize)]
pub struct Checkpoint {
    pub step: i32,
    pub revision: i32,
    pub attempt_id: Option<Uuid>,
    pub usage: Option<Value>,
}

#[derive(Clone, Debug, Deserialize)]
pub struct Call {
    pub step: i32,
    pub revision: i32,
    pub attempt_id: Uuid,
    pub executor_id: Uuid,
    pub epoch: i32,
}

#[derive(Clone, Debug, Deserialize)]
pub struct Approval {
    #[serde(rename = "approval_id")]
    pub id: Uuid,
    pub status: String,
    pub quorum: i32,
}

#[derive(Clone, Debug, Deserialize)]
pub struct Decision {
    pub approval_id: Uuid,
    pub voter: String,
    pub verdict: String,
    pub door: String,
    pub decided_at: DateTime<Utc>,
}

/// One thing that was written.
#[derive(Clone, Debug)]
pub enum Note {
    Job { old: Option<Box<Row>>, new: Box<Row> },
    Approval { is_new: bool, approval: Approval },
    Event(Event),
    Checkpoint(Checkpoint),
    Decision(Decision),
    Call(Call),
}

/// What one transaction wrote about one job.
#[derive(Clone, Debug)]
pub struct Transaction {
    pub xid: i64,
    /// By the clock of Postgres that nobody shifts.
    pub at: DateTime<Utc>,
    pub notes: Vec<Note>,
}

/// A row of the ledger at the end.
#[derive(Clone, Debug, Deserialize)]
pub struct Settled {
    pub call_id: Uuid,
    pub step: i32,
    pub outcome: String,
    pub provider_request_id: Option<String>,
}

/// A row of the outbox at the end.
#[derive(Clone, Debug, Deserialize)]
pub struct Notice {
    #[serde(rename = "notice_id")]
    pub id: Uuid,
    pub sequence: i32,
    pub kind: String,
    pub recipient: String,
    pub delivery: String,
}

/// A job: what happened to it, and how it is at the end.
#[derive(Debug)]
pub struct JobEvidence {
    pub job_id: String,
    pub row: Row,
    pub task: String,
    pub people: Vec<String>,
    pub events: Vec<Event>,
    pub calls: Vec<Settled>,
    pub notices: Vec<Notice>,
    pub transactions: Vec<Transaction>,
}

/// Everything that is judged, beside what the actors recorded.
pub struct Evidence {
    pub jobs: BTreeMap<String, JobEvidence>,
    /// The process of each executor.
    pub processes: BTreeMap<Uuid, u32>,
    /// Requests to the model provider, oldest first.
    pub requests: Vec<Value>,
    /// Messages to people, sent, lost and refused, oldest first.
    pub messages: Vec<Value>,
}

/// Has the log written from now on; the schema has to be there.
pub async fn keep_log(world: &World) {
    sqlx::raw_sql(TRIGGERS).execute(&world.db.pool).await.unwrap();
}

/// Reads everything.
pub async fn gather(world: &World) -> Evidence {
    type Logged = (String, i64, DateTime<Utc>, String, Option<Value>, Value);
    let mut jobs: BTreeMap<String, JobEvidence> = read_jobs(world).await;
    let log: Vec<Logged> = sqlx::query_as(
        "select job_id, xid, at, kind, old, new from torture.log order by job_id, seq",
    )
    .fetch_all(&world.db.pool)
    .await
    .unwrap();
    for (job_id, xid, at, kind, old, new) in log {
        let job = jobs.get_mut(&job_id).unwrap_or_else(|| panic!("{job_id} has a log and no row"));
        let note = note(&kind, old, new);
        match job.transactions.last_mut().filter(|last| last.xid == xid) {
            Some(last) => last.notes.push(note),
            None => job.transactions.push(Transaction { xid, at, notes: vec![note] }),
        }
    }
    let requests = world.journal("model/requests", "", 0).await;
    let mut messages = Vec::new();
    // What reached a phone is shown whatever became of it; what did not is shown to who asks for it.
    for query in ["", "&outcome=failed"] {
        messages.extend(world.journal("whatsapp/messages", query, 0).await);
    }
    messages.sort_by_key(|message| message["seq"].as_u64());
    messages.dedup_by_key(|message| message["seq"].as_u64());
    let processes: Vec<(Uuid, i32)> =
        sqlx::query_as("select executor_id, pid from torture.executor")
            .fetch_all(&world.db.pool)
            .await
            .unwrap();
    let processes =
        processes.into_iter().map(|(executor_id, pid)| (executor_id, pid.cast_unsigned()));
    Evidence { jobs, processes: processes.collect(), requests, messages }
}

async fn read_jobs(world: &World) -> BTreeMap<String, JobEvidence> {
    type Found = (
        String,
        Json<Row>,
        String,
        Json<Vec<String>>,
        Json<Vec<Event>>,
        Json<Vec<Settled>>,
        Json<Vec<Notice>>,
    );
    let found: Vec<Found> = sqlx::query_as(
        "select j.job_id, to_jsonb(j), s.spec ->> 'task', s.spec -> 'notify',
           (select coalesce(jsonb_agg(to_jsonb(e) - 'detail' order by e.sequence), '[]')
            from longhaul.event e where (e.shard, e.job_id) = (j.shard, j.job_id)),
           (select coalesce(jsonb_agg(to_jsonb(c) order by c.started_at, c.call_id), '[]')
            from longhaul.model_call c where (c.shard, c.job_id) = (j.shard, j.job_id)),
           (select coalesce(jsonb_agg(to_jsonb(o) order by o.sequence, o.recipient), '[]')
            from longhaul.outbox o where (o.shard, o.job_id) = (j.shard, j.job_id))
         from longhaul.job j join longhaul.job_spec s using (shard, job_id)",
    )
    .fetch_all(&world.db.pool)
    .await
    .unwrap();
    let evidence = found.into_iter().map(|(job_id, row, task, people, events, calls, notices)| {
        let job = JobEvidence {
            job_id: job_id.clone(),
            row: row.0,
            task,
            people: people.0,
            events: events.0,
            calls: calls.0,
            notices: notices.0,
            transactions: Vec::new(),
        };
        (job_id, job)
    });
    evidence.collect()
}

fn note(kind: &str, old: Option<Value>, new: Value) -> Note {
    fn read<T: serde::de::DeserializeOwned>(value: Value) -> T {
        serde_json::from_value(value).expect("the tables have these columns")
    }
    match kind {
        "job" => Note::Job { old: old.map(read), new: read(new) },
        "approval" => Note::Approval { is_new: old.is_none(), approval: read(new) },
        "event" => Note::Event(read(new)),
        "checkpoint" => Note::Checkpoint(read(new)),
        "decision" => Note::Decision(read(new)),
        "model_call" => Note::Call(read(new)),
        other => panic!("nothing logs {other}"),
    }
}

impl Transaction {
    /// The row before and after.
    pub fn moved(&self) -> Option<(Option<&Row>, &Row)> {
        let mut versions = self.notes.iter().filter_map(|note| {
            if let Note::Job { old, new } = note { Some((old.as_deref(), &**new)) } else { None }
        });
        let (before, after) = versions.next()?;
        Some((before, versions.next_back().map_or(after, |(_, last)| last)))
    }

    pub fn events(&self) -> impl Iterator<Item = &Event> {
        self.notes
            .iter()
            .filter_map(|note| if let Note::Event(event) = note { Some(event) } else { None })
    }

    pub fn checkpoints(&self) -> impl Iterator<Item = &Checkpoint> {
        self.notes
            .iter()
            .filter_map(|note| if let Note::Checkpoint(one) = note { Some(one) } else { None })
    }

    pub fn calls(&self) -> impl Iterator<Item = &Call> {
        self.notes
            .iter()
            .filter_map(|note| if let Note::Call(call) = note { Some(call) } else { None })
    }

    pub fn decisions(&self) -> impl Iterator<Item = &Decision> {
        self.notes
            .iter()
            .filter_map(|note| if let Note::Decision(one) = note { Some(one) } else { None })
    }

    pub fn approvals(&self) -> impl Iterator<Item = (bool, &Approval)> {
        self.notes.iter().filter_map(|note| {
            if let Note::Approval { is_new, approval } = note {
                Some((*is_new, approval))
            } else {
                None
            }
        })
    }

    /// Whether it told an event of this kind.
    pub fn tells(&self, kind: &str) -> bool {
        self.events().any(|event| event.kind == kind)
    }
}

/// Whether a job ends with this status.
pub fn is_terminal(status: &str) -> bool {
    ["completed", "failed", "cancelled"].contains(&status)
}
