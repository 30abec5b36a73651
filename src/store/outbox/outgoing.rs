//! A notice on its way out, with everything that its text and its form depend on.

use chrono::{DateTime, Utc};
use rust_decimal::Decimal;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use uuid::Uuid;

use crate::domain::event::NoticeKind;
use crate::domain::id::{ApprovalId, JobKey, NoticeId};
use crate::domain::job::{JobState, Reason};
use crate::domain::money::Usd;
use crate::domain::spec::{Spec, Work};
use crate::domain::word::Word;
use crate::store::approval::word;
use crate::store::{StoreError, read_json};

/// A notice that is to be sent now, with everything its text needs.
#[derive(Debug)]
pub struct Outgoing {
    /// The job.
    pub key: JobKey,
    /// The notice.
    pub notice_id: NoticeId,
    /// What it tells.
    pub kind: NoticeKind,
    /// Whom.
    pub recipient: String,
    /// Which try this is, from 1.
    pub tries: i32,
    /// How many of them were before somebody last had it sent again.
    pub tries_before: i32,
    /// The approval it asks for.
    pub approval_id: Option<ApprovalId>,
    /// What it must be sent as, if what went before was refused.
    pub needs: Option<Needs>,
    /// Why the try before failed.
    pub last_error: Option<String>,
    /// Whether the person may be written to freely.
    pub window: Window,
    /// The channel's id of the person, if they have shown it.
    pub user_id: Option<String>,
    /// The tokens of its links, for an approval request.
    pub tokens: Option<LinkTokens>,
    /// The language that was chosen for the job.
    pub language: Option<String>,
    /// What the job is for.
    pub task: String,
    /// What is asked, for an approval request.
    pub note: Option<String>,
    /// The last output of a run step.
    pub output: Option<String>,
    /// The step in hand.
    pub step: i32,
    /// How many there are.
    pub step_count: i32,
    /// Why the job ended, if it did not complete.
    pub reason: Option<Reason>,
    /// The error that ended it.
    pub error: Option<String>,
    /// What it has cost.
    pub cost_usd: Usd,
    /// The day's budget that is used up, where the notice tells that.
    pub daily_budget_usd: Option<Usd>,
    /// When the approval expires.
    pub deadline_at: Option<DateTime<Utc>>,
    /// The time now.
    pub now: DateTime<Utc>,
}

impl Outgoing {
    /// Which try this is since it was first to be sent, or since somebody last had it sent again, from 1.
    pub fn tries_now(&self) -> i32 {
        self.tries.saturating_sub(self.tries_before)
    }
}

/// The tokens of the two links of an approval request.
#[derive(Clone, Deserialize)]
pub struct LinkTokens {
    /// The one whose page puts approve first.
    pub approve: String,
    /// The one whose page puts reject first.
    pub reject: String,
}

impl std::fmt::Debug for LinkTokens {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("LinkTokens(…)")
    }
}

/// Whether we may write to a person freely, or only what the channel has approved before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Window {
    /// They wrote within the last day, with an hour to spare.
    Open,
    /// As far as is known they did not.
    Unknown,
    /// The channel has said so since the notice was written, and they have not written since.
    Closed,
}

/// What a try must be sent as, since what went before it was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Needs {
    /// What the channel has approved before.
    Template,
    /// The other one of that kind.
    Backup,
}

impl Word for Needs {}

/// A notice as it is read: what is JSON may not fit.
pub(super) struct Row {
    pub(super) job_id: String,
    pub(super) notice_id: Uuid,
    pub(super) kind: String,
    pub(super) recipient: String,
    pub(super) tries: i32,
    pub(super) tries_before: i32,
    pub(super) tokens: Option<Value>,
    pub(super) approval_id: Option<Uuid>,
    pub(super) needs: Option<String>,
    pub(super) error: Option<String>,
    pub(super) state: Value,
    pub(super) spec: Value,
    pub(super) user_id: Option<String>,
    pub(super) is_free: bool,
    pub(super) is_recent: bool,
    pub(super) was_closed: bool,
    pub(super) output: Option<String>,
    pub(super) cost_usd: Decimal,
    pub(super) daily_budget_usd: Option<Decimal>,
    pub(super) now: DateTime<Utc>,
}

impl Row {
    pub(super) fn into_outgoing(self) -> Result<Outgoing, StoreError> {
        let state: JobState = read_json("job", self.state)?;
        let spec: Spec = read_json("job_spec", self.spec)?;
        let note = match spec.find_step(state.current_step).map(|step| &step.work) {
            Some(Work::Approval(approval)) => Some(approval.note.clone()),
            Some(Work::Run(_) | Work::Wait(_)) | None => None,
        };
        Ok(Outgoing {
            key: JobKey::new(&self.job_id),
            notice_id: NoticeId(self.notice_id),
            kind: word("outbox", &self.kind)?,
            recipient: self.recipient,
            tries: self.tries,
            tries_before: self.tries_before,
            approval_id: self.approval_id.map(ApprovalId),
            needs: self.needs.map(|needs| word("outbox", &needs)).transpose()?,
            last_error: self.error,
            window: match (self.is_free, self.is_recent) {
                (true, true) => Window::Open,
                (false, _) if self.was_closed => Window::Closed,
                (true | false, _) => Window::Unknown,
            },
            user_id: self.user_id,
            tokens: self.tokens.map(|tokens| read_json("outbox", tokens)).transpose()?,
            language: spec.language,
            task: spec.task,
            note,
            output: self.output,
            step: state.current_step,
            step_count: state.step_count,
            reason: state.reason,
            error: state.last_error.map(|failure| failure.message),
            cost_usd: Usd::from(self.cost_usd),
            daily_budget_usd: self.daily_budget_usd.map(Usd::from),
            deadline_at: state.deadline_at,
            now: self.now,
        })
    }
}
