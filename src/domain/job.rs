//! A job as it is: its status, its reason, and everything a transition may depend on.
//!
//! `JobState` is the hot row of the table `job`; `state` moves it, the store keeps it.
//! What stands here is what the row lock protects: no transition reads anything else that can change.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use super::approval::Verdict;
use super::id::{ApprovalId, AttemptId, ExecutorId};
use super::money::{Usage, Usd};
use super::word::Word;

/// Where a job stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// Waiting for an executor, or parked until `run_at`.
    Queued,
    /// An executor works on the current step.
    Running,
    /// People have been asked.
    AwaitingApproval,
    /// Held until a resume.
    Paused,
    /// Ended: every step is done.
    Completed,
    /// Ended: a step failed.
    Failed,
    /// Ended by a person.
    Cancelled,
}

impl Word for Status {}

impl Status {
    /// All of them, in the order of a job's life.
    pub const ALL: [Self; 7] = [
        Self::Queued,
        Self::Running,
        Self::AwaitingApproval,
        Self::Paused,
        Self::Completed,
        Self::Failed,
        Self::Cancelled,
    ];

    /// Whether the job has ended.
    pub fn is_terminal(self) -> bool {
        match self {
            Self::Queued | Self::Running | Self::AwaitingApproval | Self::Paused => false,
            Self::Completed | Self::Failed | Self::Cancelled => true,
        }
    }

    /// Whether the job moves only when a person or the end of time moves it.
    pub fn stands_still(self) -> bool {
        match self {
            Self::Queued | Self::Running => false,
            Self::AwaitingApproval
            | Self::Paused
            | Self::Completed
            | Self::Failed
            | Self::Cancelled => true,
        }
    }
}

/// Why a job stands where it does, where the status alone does not say it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Reason {
    /// Queued: its `run_at` has not come.
    Scheduled,
    /// Queued: in a wait step.
    Waiting,
    /// Queued: parked after an error of the provider that passes by itself.
    ProviderUnavailable,
    /// Queued: its executor died; parked for a short time.
    AttemptLost,
    /// Cancelled: an approver rejected.
    Rejected,
    /// Failed or cancelled: nobody decided in time.
    ApprovalExpired,
    /// Failed: one step lost more executors than `max_attempts` allows.
    RecoveriesExhausted,
    /// Failed: the provider's errors outlasted the retry window.
    RetryWindowExhausted,
    /// Failed: the provider refused the request for good.
    ProviderRejected,
    /// Failed: the server has no key for the provider.
    ProviderUnconfigured,
    /// Failed: the model declined to answer.
    ModelRefused,
    /// Failed: the answer hit a limit of length.
    ModelTruncated,
    /// The conversation or its answer was longer than the model's context window.
    ContextOverflow,
    /// Failed: the model stopped for a reason that is not success.
    ModelStopped,
    /// Failed: a fault of the server while it ran the step.
    StepPanicked,
    /// Failed: the job or the day has a budget, and the model has no known price.
    ModelUnpriced,
    /// Paused: the budget does not cover the next call.
    Budget,
    /// Queued: the day's budget of all servers does not cover the next call; parked until the next day.
    DailyBudget,
    /// Queued: parked until the provider takes money again.
    SpendLimit,
    /// Queued: the step's question waits to be answered in a batch.
    Batch,
}

impl Word for Reason {}

/// Where a paused job stood, which is where a resume lets it go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stand {
    /// Before the current step, which has not been entered.
    Entering,
    /// In the queue, or parked until `run_at` if there is one.
    Queued,
    /// Parked before the first step.
    Scheduled,
    /// In a wait step.
    Waiting,
    /// Parked after an error of the provider.
    ProviderUnavailable,
    /// Parked after its executor died.
    AttemptLost,
    /// Parked until there is a new day's budget.
    DailyBudget,
    /// In an approval step, asked.
    AwaitingApproval,
}

impl Word for Stand {}

/// The hot row of a job.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct JobState {
    /// Where it stands.
    pub status: Status,
    /// Why.
    pub reason: Option<Reason>,
    /// The step in hand, from 1.
    pub current_step: i32,
    /// How many steps there are.
    pub step_count: i32,
    /// Grows with each retry; part of a checkpoint's key.
    pub revision: i32,
    /// Where the last retry began.
    pub retried_from: Option<i32>,
    /// When a parked job goes on; absent if it is not parked.
    pub run_at: Option<DateTime<Utc>>,
    /// Who holds a running job.
    pub executor_id: Option<ExecutorId>,
    /// Grows with each claim; with the executor it fences off stale writers.
    pub epoch: i32,
    /// The attempt in hand of a running job.
    pub attempt_id: Option<AttemptId>,
    /// Attempts begun at the current step in this revision.
    pub attempt: i32,
    /// Attempts lost since the last checkpoint.
    pub attempts: i32,
    /// When the current run of passing errors began.
    pub first_error_at: Option<DateTime<Utc>>,
    /// The last error of the current step.
    pub last_error: Option<Failure>,
    /// The sequence of the last event.
    pub last_sequence: i32,
    /// A pause takes effect when the attempt in hand ends.
    pub pause_requested: bool,
    /// Where a paused job stood.
    pub paused_from: Option<Stand>,
    /// The pending approval, also while the job is paused in it.
    pub approval_id: Option<ApprovalId>,
    /// How many approvals the job has ever asked.
    pub approvals_asked: i32,
    /// Approvals so far of the pending approval.
    pub votes: i32,
    /// What was decided while the job was paused; a resume carries it out.
    pub kept_verdict: Option<Verdict>,
    /// When the pending approval expires; absent while paused.
    pub deadline_at: Option<DateTime<Utc>>,
    /// What is left until then, while paused.
    pub left_ms: Option<i64>,
    /// When the current step was begun; absent before.
    pub step_started_at: Option<DateTime<Utc>>,
    /// When the job last changed.
    pub updated_at: DateTime<Utc>,
    /// When it ended.
    pub finished_at: Option<DateTime<Utc>>,
    /// What it may cost at the most, if that is limited; a resume may raise it.
    pub budget_usd: Option<Usd>,
}

/// Where a step stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepStatus {
    /// Not reached, or not begun.
    Pending,
    /// In hand.
    Active,
    /// Finished.
    Done,
    /// The job ended in it.
    Failed,
}

impl Word for StepStatus {}

impl JobState {
    /// A job that has not been entered yet.
    pub fn new(step_count: i32, now: DateTime<Utc>) -> Self {
        Self {
            status: Status::Queued,
            reason: None,
            current_step: 1,
            step_count,
            revision: 1,
            retried_from: None,
            run_at: None,
            executor_id: None,
            epoch: 0,
            attempt_id: None,
            attempt: 0,
            attempts: 0,
            first_error_at: None,
            last_error: None,
            last_sequence: 0,
            pause_requested: false,
            paused_from: None,
            approval_id: None,
            approvals_asked: 0,
            votes: 0,
            kept_verdict: None,
            deadline_at: None,
            left_ms: None,
            step_started_at: None,
            updated_at: now,
            finished_at: None,
            budget_usd: None,
        }
    }

    /// The step to show: 0 before the first is begun.
    pub fn shown_step(&self) -> i32 {
        if self.current_step == 1 && self.step_started_at.is_none() { 0 } else { self.current_step }
    }

    /// Whether the time of the pending approval is over; while paused, whether none was left.
    pub fn is_past_deadline(&self, now: DateTime<Utc>) -> bool {
        let is_over = self.deadline_at.is_some_and(|deadline_at| deadline_at <= now);
        is_over || self.left_ms == Some(0)
    }

    /// Whether an executor may take the job now.
    pub fn is_claimable(&self) -> bool {
        self.status == Status::Queued && self.run_at.is_none()
    }

    /// Whether the next loss would be one too many; a job that was never lost is not suspect.
    pub fn is_on_last_attempt(&self, max_attempts: i32) -> bool {
        self.attempts > 0 && self.attempts >= max_attempts
    }

    /// Where a step stands.
    pub fn step_status(&self, step: i32) -> StepStatus {
        if self.status == Status::Completed || step < self.current_step {
            return StepStatus::Done;
        }
        let has_begun = step == self.current_step && self.step_started_at.is_some();
        match self.status {
            Status::Failed | Status::Cancelled if step == self.current_step => StepStatus::Failed,
            Status::Queued | Status::Running | Status::AwaitingApproval | Status::Paused
                if has_begun =>
            {
                StepStatus::Active
            }
            Status::Queued
            | Status::Running
            | Status::AwaitingApproval
            | Status::Paused
            | Status::Completed
            | Status::Failed
            | Status::Cancelled => StepStatus::Pending,
        }
    }

    /// The right to move it that its holder has, while it runs.
    pub fn lease(&self) -> Option<Lease> {
        let (executor_id, attempt_id) = self.executor_id.zip(self.attempt_id)?;
        Some(Lease { executor_id, epoch: self.epoch, attempt_id })
    }

    /// Whether this lease is the one that may move the job.
    pub fn is_held_by(&self, lease: &Lease) -> bool {
        // This is the fence. The torture tests build without it, to see that they notice.
        if cfg!(feature = "without_fencing") {
            return true;
        }
        self.status == Status::Running
            && self.executor_id == Some(lease.executor_id)
            && self.epoch == lease.epoch
            && self.attempt_id == Some(lease.attempt_id)
    }
}

/// The right to move a running job: only its holder can.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Lease {
    /// Who holds it.
    pub executor_id: ExecutorId,
    /// Since which claim.
    pub epoch: i32,
    /// For which go at the step.
    pub attempt_id: AttemptId,
}

/// An error that held a job up or ended it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Failure {
    /// Which.
    pub reason: Reason,
    /// In words, without secrets or prompts.
    pub message: String,
    /// The provider's id of the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider_request_id: Option<String>,
    /// When.
    pub failed_at: DateTime<Utc>,
    /// What the call may cost that the day's budget did not cover.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub needs_usd: Option<Usd>,
}

impl Failure {
    /// One without anything that not every failure has.
    pub fn new(reason: Reason, message: impl Into<String>, failed_at: DateTime<Utc>) -> Self {
        Self {
            reason,
            message: message.into(),
            provider_request_id: None,
            failed_at,
            needs_usd: None,
        }
    }
}

/// What a run step produced.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StepResult {
    /// The answer's text.
    pub output: String,
    /// The answer's blocks as the provider sent them, JSON text.
    pub content: String,
    /// What it cites.
    pub citations: Vec<Citation>,
    /// What the calls of the successful attempt used.
    pub usage: Usage,
    /// What they cost; absent if a price is not known.
    pub cost_usd: Option<Usd>,
    /// The model that answered.
    pub model: String,
    /// Why it stopped.
    pub stop_reason: String,
}

impl StepResult {
    /// The same as a person has edited it; what it used and cost stays what it did.
    #[must_use]
    pub fn edited(self, output: String) -> Self {
        let content = serde_json::json!([{"type": "text", "text": output}]).to_string();
        Self { output, content, ..self }
    }
}

/// A source that an answer cites.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Citation {
    /// Its address.
    pub url: String,
    /// Its title.
    pub title: String,
    /// The passage.
    pub cited_text: String,
}
