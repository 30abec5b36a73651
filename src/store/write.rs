//! Writing: any number of transitions in one statement, with everything that belongs to them.
//!
//! Each is written only if its row is still as it was read: the epoch, the sequence of the last event and `run_at`,
//! one of which every transition changes. Whoever dies in the middle leaves nothing behind.

mod statement;

use std::collections::HashSet;
use std::fmt::Write as _;

use chrono::{DateTime, Utc};
use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;
use serde_with::skip_serializing_none;
use sqlx::PgConnection;
use sqlx::types::Json;

use super::StoreError;
use super::ledger::Line;
use super::link::{Link, mint_links};
use super::submit::BirthRow;
use crate::domain::approval::ApprovalStatus;
use crate::domain::event::{Asked, Decision, Event, NoticeKind};
use crate::domain::id::{ApprovalId, ExecutorId, JobKey, NoticeId};
use crate::domain::job::JobState;
use crate::domain::spec::{Spec, Work};
use crate::domain::state::{Checkpoint, Transition};

/// A transition in the form in which it is written.
#[skip_serializing_none]
#[derive(Serialize)]
pub(super) struct Written<'a> {
    shard: i16,
    job_id: &'a str,
    from_epoch: i32,
    from_sequence: i32,
    from_run_at: Option<DateTime<Utc>>,
    state: &'a JobState,
    events: &'a [Event],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    checkpoints: &'a [Checkpoint],
    is_born: Option<bool>,
    birth: Option<BirthRow<'a>>,
    begins: Option<&'a str>,
    people: Option<People<'a>>,
}

/// What was asked, decided and is to be told with it.
#[skip_serializing_none]
#[derive(Serialize)]
struct People<'a> {
    asked: Option<&'a (i32, Asked, Vec<String>)>,
    closed: Option<&'a (ApprovalId, ApprovalStatus)>,
    vote: Option<&'a (ApprovalId, Decision)>,
    links: Vec<Link>,
    outbox: Vec<Message>,
    supersedes_notices: bool,
}

#[skip_serializing_none]
#[derive(Serialize)]
struct Message {
    notice_id: NoticeId,
    sequence: i32,
    kind: NoticeKind,
    recipient: String,
    approval_id: Option<ApprovalId>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    approvers: Vec<String>,
    tokens: Option<Value>,
}

impl<'a> Written<'a> {
    /// Mints the links its notices need: for each approver and message one per button.
    pub(super) fn new(key: &'a JobKey, from: &JobState, transition: &'a Transition) -> Self {
        Self {
            shard: key.shard(),
            job_id: key.job_id(),
            from_epoch: from.epoch,
            from_sequence: from.last_sequence,
            from_run_at: from.run_at,
            state: &transition.state,
            events: &transition.events,
            checkpoints: &transition.checkpoints,
            is_born: None,
            birth: None,
            begins: None,
            people: People::find(key, transition),
        }
    }

    /// Those to whom its approval escalates are approvers from now on; nothing else adds any, and only under the lock.
    async fn add_approvers(&self, tx: &mut PgConnection) -> Result<(), StoreError> {
        let outbox = self.people.as_ref().map_or(&[][..], |people| &people.outbox);
        let added = outbox.iter().filter(|one| one.kind == NoticeKind::ApprovalEscalated);
        // Who is asked at an endpoint is the approver, and not the endpoint.
        let added: Vec<String> = added
            .flat_map(|one| match &one.approvers[..] {
                [] => std::slice::from_ref(&one.recipient),
                approvers => approvers,
            })
            .cloned()
            .collect();
        let Some(approval_id) = self.state.approval_id.filter(|_| !added.is_empty()) else {
            return Ok(());
        };
        sqlx::query!(
            "-- add_approvers
            update longhaul.approval a set approvers = coalesce(a.approvers, array(
              select distinct l.approver from longhaul.approval_link l
              where l.shard = a.shard and l.job_id = a.job_id and l.approval_id = a.approval_id)) || $4
            where shard = $1 and job_id = $2 and approval_id = $3",
            self.shard,
            self.job_id,
            approval_id.0,
            &added,
        )
        .execute(tx)
        .await?;
        Ok(())
    }

    /// Which job, in the order in which rows are written.
    pub(super) fn key(&self) -> (i16, &str) {
        (self.shard, self.job_id)
    }

    /// The job is born with it.
    pub(super) fn born(self, birth: BirthRow<'a>) -> Self {
        Self { is_born: Some(true), birth: Some(birth), ..self }
    }

    /// If it begins an attempt, the first call of that gets its row in the ledger with this.
    pub(super) fn beginning(self, from: &JobState, spec: &'a Spec) -> Self {
        let attempt_id = self.state.attempt_id;
        if attempt_id.is_none() || attempt_id == from.attempt_id {
            return self;
        }
        let step = spec.find_step(self.state.current_step).map(|step| &step.work);
        let begins = match step {
            Some(Work::Run(run)) => Some(run.model.as_str()),
            Some(Work::Approval(_) | Work::Wait(_)) | None => None,
        };
        Self { begins, ..self }
    }
}

impl<'a> People<'a> {
    /// Whether somebody is asked or told.
    fn has_notices(&self) -> bool {
        self.asked.is_some() || !self.outbox.is_empty()
    }

    /// Nothing, for most transitions.
    fn find(key: &JobKey, transition: &'a Transition) -> Option<Self> {
        let Transition { asked, closed, vote, notices, supersedes_notices, .. } = transition;
        let is_none = asked.is_none() && closed.is_none() && vote.is_none() && notices.is_empty();
        if is_none && !supersedes_notices {
            return None;
        }
        let mut links = Vec::new();
        let outbox = notices.iter().map(|told| {
            let tokens = told.approval_id.map(|approval_id| {
                let asked = asked.as_ref().map_or(&[][..], |(_, _, approvers)| approvers);
                let approvers = if told.approvers.is_empty() { asked } else { &told.approvers };
                mint_links(key, approval_id, &told.recipient, approvers, &mut links)
            });
            Message {
                notice_id: NoticeId::new(),
                sequence: told.sequence,
                kind: told.kind,
                recipient: told.recipient.clone(),
                approval_id: told.approval_id,
                approvers: told.approvers.clone(),
                tokens,
            }
        });
        let outbox = outbox.collect();
        Some(Self {
            asked: asked.as_ref(),
            closed: closed.as_ref(),
            vote: vote.as_ref(),
            links,
            outbox,
            supersedes_notices: *supersedes_notices,
        })
    }
}

/// What was not asked for before deciding: nothing is written unless the time has gone on from it by less than a
/// second, and the executor lives.
#[derive(Clone, Copy, Debug)]
pub(super) struct Foreseen {
    pub(super) now: DateTime<Utc>,
    pub(super) executor_id: Option<ExecutorId>,
}

/// What a write answers.
pub(super) struct Wrote {
    pub(super) now: DateTime<Utc>,
    /// When the lease of the executor runs out that was foreseen to live, if it does.
    pub(super) lives_until: Option<DateTime<Utc>>,
    /// Whether all is as it was foreseen; else nothing was written.
    pub(super) is_open: bool,
    job_ids: Vec<String>,
}

impl Wrote {
    /// The jobs that were written: those whose row is as it was read, and those born under an id that was free.
    pub(super) fn job_ids(&self) -> HashSet<&str> {
        self.job_ids.iter().map(String::as_str).collect()
    }
}

/// Writes transitions, and lines of the ledger, with all that belongs to them, in one statement.
pub(super) async fn write(
    connection: &mut PgConnection,
    transitions: &[Written<'_>],
    lines: &[&Line],
    foreseen: Option<Foreseen>,
) -> Result<Wrote, StoreError> {
    let parts = Parts::of(transitions, lines);
    let (transitions, lines) = (encode(transitions)?, encode(lines)?);
    statement::write(connection, parts, transitions, lines, foreseen).await
}

/// Which parts of the statement are needed: the fewest that one of its forms has.
#[derive(Clone, Copy)]
enum Parts {
    /// Jobs that are born.
    Births,
    /// Births, moves and lines, which concern no people.
    Moves,
    /// Moves by which people decide, and nobody is told anything.
    Decisions,
    All,
}

impl Parts {
    fn of(transitions: &[Written<'_>], lines: &[&Line]) -> Self {
        let has_births = transitions.iter().any(|one| one.is_born.is_some());
        let has_moves = transitions.iter().any(|one| one.is_born.is_none());
        let mut people = transitions.iter().filter_map(|one| one.people.as_ref()).peekable();
        if people.peek().is_none() {
            let is_alone = !has_moves && lines.is_empty();
            return if is_alone { Self::Births } else { Self::Moves };
        }
        let is_alone = !has_births && lines.is_empty() && !people.any(People::has_notices);
        if is_alone { Self::Decisions } else { Self::All }
    }
}

/// Writes transitions of rows that are locked, so that each is as it was read.
pub(super) async fn write_locked(
    tx: &mut PgConnection,
    transitions: &[Written<'_>],
) -> Result<(), StoreError> {
    let wrote = write(tx, transitions, &[], None).await?;
    let written = wrote.job_ids();
    if transitions.iter().any(|one| !written.contains(one.job_id)) {
        return Err(not_as_read());
    }
    for one in transitions {
        one.add_approvers(tx).await?;
    }
    Ok(())
}

/// A fault of ours: nobody else can change what is locked.
pub(super) fn not_as_read() -> StoreError {
    StoreError::Corrupt { table: "job", what: "a locked row is not as it was read".to_owned() }
}

/// Bytes as Postgres reads them from text.
pub(super) fn bytea(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(2 + 2 * bytes.len());
    text.push_str("\\x");
    for byte in bytes {
        write!(text, "{byte:02x}").expect("a String takes every write");
    }
    text
}

/// Rows for a statement.
pub(super) type Encoded = Json<Box<RawValue>>;

/// As JSON text, made once: a tree of it would be thrown away at once.
pub(super) fn encode<T: Serialize + ?Sized>(what: &T) -> Result<Encoded, StoreError> {
    let encoded = serde_json::value::to_raw_value(what);
    encoded.map(Json).map_err(|error| StoreError::Corrupt { table: "job", what: error.to_string() })
}
