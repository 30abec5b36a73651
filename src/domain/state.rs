//! The state machine: one pure function that says what any action makes of any job, or why it may not.
//!
//! In goes the hot row as the lock shows it, the frozen specification, an action, an actor and the time;
//! out comes a `Transition`: the new row and everything that has to be stored with it in the same transaction.
//! Every match over statuses is exhaustive, so that a new status cannot be forgotten anywhere.

use std::time::Duration;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use super::approval::{ApprovalStatus, Door, Verdict};
use super::enter::enter;
use super::event::{Asked, Decision, Event, EventKind, NoticeKind, Undelivered};
use super::id::{ApprovalId, AttemptId, ExecutorId};
pub use super::import::import;
use super::job::{Failure, JobState, Lease, Reason, Status, StepResult};
use super::money::Usd;
use super::spec::Spec;
use super::turn::{Turn, plural};
use super::{attempt, control, decide, remind};

/// Something that may happen to a job.
#[derive(Clone, Debug)]
pub enum Action {
    /// An executor takes the job from the queue.
    Claim { executor_id: ExecutorId, attempt_id: AttemptId },
    /// The attempt succeeded; with a next attempt's id the executor goes straight on.
    Finish { lease: Lease, result: Box<StepResult>, next_attempt: Option<AttemptId> },
    /// The attempt met an error that passes by itself: try again, not before `after` if that is known.
    Delay { lease: Lease, failure: Failure, after: Option<Duration>, jitter: f64 },
    /// The attempt met an error for good.
    Fail { lease: Lease, failure: Failure },
    /// The budget does not cover the attempt's next call.
    Starve { lease: Lease, failure: Failure },
    /// The attempt's question goes out in a batch, and the job waits for it in nobody's hands.
    Batch { lease: Lease },
    /// The day's budget of all servers does not cover it: wait for the next day's, and have these people told.
    PutOff { lease: Lease, failure: Failure, until: DateTime<Utc>, tell: Vec<String> },
    /// The executor gives the attempt back, uncounted.
    Release { lease: Lease },
    /// The sweeper finds that the executor which holds this lease is dead.
    Lose { lease: Lease },
    /// The sweeper finds that a parked job is due.
    Due,
    /// The sweeper finds that an approval's time is over; `delivered` if a request is known to have arrived.
    Expire { delivered: bool },
    /// The sweeper finds that people are to be reminded of an approval, or more are to be asked.
    Remind { asked: remind::Asked },
    /// The sweeper finds that a request for a decision could not be delivered; these have been asked, and whether
    /// somebody has missed it for that.
    Undelivered { lost: Undelivered, asked: Vec<String>, is_missed: bool },
    /// Hold the job; `now` aborts the attempt in hand.
    Pause { now: bool },
    /// Let it go on, and cost up to so much if that is said.
    Resume { budget_usd: Option<Usd> },
    /// End it.
    Cancel { comment: String },
    /// Begin again.
    Retry { from_step: Option<i32> },
    /// Decide an approval.
    Vote(Ballot),
}

/// A vote, and how the approval it is meant for stands, read after the job was locked.
#[derive(Clone, Debug)]
pub struct Ballot {
    /// The approval that is meant.
    pub approval_id: ApprovalId,
    /// How it stands.
    pub status: ApprovalStatus,
    /// Who has voted, and how.
    pub votes: Vec<(String, Verdict)>,
    /// What is decided now.
    pub verdict: Verdict,
    /// Who decides.
    pub voter: String,
    /// The way it comes in.
    pub door: Door,
    /// What they say.
    pub comment: String,
    /// Through which link, or from which number or id.
    pub via: Option<String>,
    /// What they make of what was shown to them, if they edited it.
    pub edited_output: Option<String>,
    /// What was shown to them, if that is to be edited.
    pub shown: Option<Box<StepResult>>,
    /// How often the step has been sent back.
    pub revisions: i32,
    /// Whether the pending approval is about what this voter has edited.
    pub has_edited: bool,
}

/// Why an action may not be done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "snake_case")]
pub enum Refusal {
    /// It contradicts the status.
    #[error("the job is {}", super::word::Word::word(.status).replace('_', " "))]
    Conflict { status: Status },
    /// The job has asked more than one approval.
    #[error("the job has asked more than one approval: say which is meant")]
    ApprovalIdRequired,
    /// The approval is closed, and not in the way that is asked for.
    #[error("the approval is {} already", super::word::Word::word(.status))]
    ApprovalClosed { status: ApprovalStatus },
    /// The voter has decided the other way.
    #[error("this approver has already decided to {}", super::word::Word::word(.verdict))]
    AlreadyVoted { verdict: Verdict },
    /// The approval step does not let it be sent back, or no more.
    #[error("what the step shows may be sent back {most} {}", plural(*.most, "time"))]
    ChangesNotAllowed { most: i32 },
    /// The approval step does not let what it shows be edited.
    #[error("what the step shows may not be edited")]
    EditNotAllowed,
    /// There is no such step to begin at.
    #[error("must be from 1 to {last}")]
    StepOutOfRange { last: i32 },
    /// The lease is no longer the one that may move the job.
    #[error("the lease is lost")]
    LeaseLost,
}

/// What has to be stored together.
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize)]
pub struct Transition {
    /// The row as it will be.
    pub state: JobState,
    /// What happened, in order.
    pub events: Vec<Event>,
    /// The steps that were finished.
    pub checkpoints: Vec<Checkpoint>,
    /// The approval that was asked, with its step and who is asked.
    pub asked: Option<(i32, Asked, Vec<String>)>,
    /// The approval that was closed, and how.
    pub closed: Option<(ApprovalId, ApprovalStatus)>,
    /// The vote that was cast, and for which approval.
    pub vote: Option<(ApprovalId, Decision)>,
    /// Who is to be told what, by which event.
    pub notices: Vec<Told>,
    /// Notices that wait in the outbox are overtaken.
    pub supersedes_notices: bool,
}

impl Transition {
    /// Nothing to store: the row stays as it is.
    pub fn still(state: JobState) -> Self {
        Self {
            state,
            events: Vec::new(),
            checkpoints: Vec::new(),
            asked: None,
            closed: None,
            vote: None,
            notices: Vec::new(),
            supersedes_notices: false,
        }
    }

    /// Both as one, where the second starts from what the first made.
    #[must_use]
    pub fn followed_by(mut self, next: Self) -> Self {
        self.events.extend(next.events);
        self.checkpoints.extend(next.checkpoints);
        self.notices.extend(next.notices);
        Self {
            events: self.events,
            checkpoints: self.checkpoints,
            notices: self.notices,
            asked: next.asked.or(self.asked),
            closed: next.closed.or(self.closed),
            vote: next.vote.or(self.vote),
            supersedes_notices: self.supersedes_notices || next.supersedes_notices,
            state: next.state,
        }
    }
}

impl Transition {
    /// The same, but nobody is told what became of the job; whoever is to decide is asked all the same.
    ///
    /// The history says so where somebody would have been told.
    #[must_use]
    pub fn silenced(mut self) -> Self {
        for event in &mut self.events {
            let tells = |told: &Told| told.sequence == event.sequence && !told.kind.asks();
            if self.notices.iter().any(tells) {
                event.message.push_str(" (nobody was told)");
            }
        }
        self.notices.retain(|told| told.kind.asks());
        self
    }

    /// The same, and at once an executor that has room takes the job, if it waits for nothing else.
    ///
    /// One on its last attempt is left to the queue, where an executor is given no two of these.
    #[must_use]
    pub fn claimed_by(self, executor_id: ExecutorId, spec: &Spec, now: DateTime<Utc>) -> Self {
        if !self.state.is_claimable() || self.state.is_on_last_attempt(spec.max_attempts) {
            return self;
        }
        let action = Action::Claim { executor_id, attempt_id: AttemptId::new() };
        match next(&self.state, spec, action, "executor", now) {
            Ok(Some(claimed)) => self.followed_by(claimed),
            Ok(None) | Err(_) => self,
        }
    }
}

/// A notice in the making.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Told {
    /// The event it tells.
    pub sequence: i32,
    /// What it tells.
    pub kind: NoticeKind,
    /// Whom.
    pub recipient: String,
    /// The approval it asks for.
    pub approval_id: Option<ApprovalId>,
    /// Who decides through its links, where an endpoint is asked in the names of these people alone.
    pub approvers: Vec<String>,
}

/// The stored result of a finished step.
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize)]
pub struct Checkpoint {
    /// Which step.
    pub step: i32,
    /// In which revision.
    pub revision: i32,
    /// By which attempt, for a run step.
    pub attempt_id: Option<AttemptId>,
    /// What it produced, for a run step.
    pub result: Option<StepResult>,
    /// When it was begun.
    pub started_at: DateTime<Utc>,
    /// When it was finished.
    pub finished_at: DateTime<Utc>,
}

/// What an action makes of a job: `None` if it had taken effect already.
pub fn next(
    state: &JobState,
    spec: &Spec,
    action: Action,
    actor: &str,
    now: DateTime<Utc>,
) -> Result<Option<Transition>, Refusal> {
    let mut turn = Turn::new(state.clone(), spec, actor, now);
    let changed = match action {
        Action::Claim { executor_id, attempt_id } => {
            attempt::claim(&mut turn, executor_id, attempt_id)
        }
        Action::Finish { lease, result, next_attempt } => {
            attempt::finish(&mut turn, lease, *result, next_attempt)
        }
        Action::Delay { lease, failure, after, jitter } => {
            attempt::delay(&mut turn, lease, failure, after, jitter)
        }
        Action::Fail { lease, failure } => attempt::fail(&mut turn, lease, failure),
        Action::Starve { lease, failure } => attempt::starve(&mut turn, lease, failure),
        Action::Batch { lease } => attempt::batch(&mut turn, lease),
        Action::PutOff { lease, failure, until, tell } => {
            attempt::put_off(&mut turn, lease, failure, until, tell)
        }
        Action::Release { lease } => attempt::release(&mut turn, lease),
        Action::Lose { lease } => attempt::lose(&mut turn, lease),
        Action::Due => Ok(attempt::due(&mut turn)),
        Action::Expire { delivered } => Ok(decide::expire(&mut turn, delivered)),
        Action::Remind { asked } => Ok(remind::remind(&mut turn, &asked)),
        Action::Undelivered { lost, asked, is_missed } => {
            Ok(remind::undelivered(&mut turn, &lost, &asked, is_missed))
        }
        Action::Pause { now } => control::pause(&mut turn, now),
        Action::Resume { budget_usd } => control::resume(&mut turn, budget_usd),
        Action::Cancel { comment } => control::cancel(&mut turn, &comment),
        Action::Retry { from_step } => control::retry(&mut turn, from_step),
        Action::Vote(ballot) => decide::vote(&mut turn, ballot),
    }?;
    Ok(changed.then(|| turn.close(state)))
}

/// The birth of a job: stored, then entered, or parked until its `run_at`.
pub fn submit(spec: &Spec, actor: &str, now: DateTime<Utc>) -> Transition {
    let state = JobState { budget_usd: spec.budget_usd, ..JobState::new(spec.step_count(), now) };
    let mut turn = Turn::new(state.clone(), spec, actor, now);
    let count = spec.step_count();
    turn.tell(
        EventKind::JobSubmitted,
        0,
        format!("submitted with {count} {}", plural(count, "step")),
    );
    match spec.run_at {
        Some(run_at) if run_at > now => {
            turn.state.run_at = Some(run_at);
            turn.state.reason = Some(Reason::Scheduled);
        }
        Some(_) | None => enter(&mut turn, 1),
    }
    turn.close(&state)
}
