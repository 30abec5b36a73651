//! The payload of a notice to an endpoint, in the form that Standard Webhooks recommends: type, timestamp, data.
//!
//! In comes a notice, out goes JSON in which people are masked and long texts are cut;
//! for a body template the same by name, with a title and a text that a chat can show.

use std::borrow::Cow;

use chrono::{DateTime, SecondsFormat, Utc};
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;
use serde_with::skip_serializing_none;

use super::template::{Template, find_link};
use super::words;
use crate::domain::approval::{Door, Verdict, mask};
use crate::domain::event::{Decision, Detail, NoticeKind};
use crate::domain::id::ApprovalId;
use crate::domain::job::{Reason, Status};
use crate::domain::money::Usd;
use crate::domain::word::Word as _;
use crate::store::endpoint::EndpointNotice;

/// The longest text of a user or a model, in characters; the job itself has it whole.
const TEXT_CHARS_MAX: usize = 4000;

/// What is sent.
#[derive(Serialize)]
pub(super) struct Payload<'n> {
    #[serde(rename = "type")]
    type_name: &'static str,
    #[serde(serialize_with = "in_seconds")]
    timestamp: DateTime<Utc>,
    pub(super) data: Data<'n>,
    #[serde(skip)]
    pub(super) kind: NoticeKind,
    #[serde(skip)]
    pub(super) language: Option<&'n str>,
}

/// What happened to which job.
#[skip_serializing_none]
#[derive(Serialize)]
pub(super) struct Data<'n> {
    pub(super) job_id: &'n str,
    pub(super) task: Cow<'n, str>,
    status: Status,
    reason: Option<String>,
    pub(super) step: i32,
    pub(super) step_count: i32,
    sequence: i32,
    message: Cow<'n, str>,
    approval_id: Option<ApprovalId>,
    pub(super) note: Option<Cow<'n, str>>,
    quorum: Option<i32>,
    deadline_at: Option<Time>,
    pub(super) draft: Option<Cow<'n, str>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) approvers: Vec<Invited>,
    pub(super) decision: Option<Vote<'n>>,
    pub(super) output: Option<Cow<'n, str>>,
    pub(super) error: Option<Cow<'n, str>>,
    #[serde(serialize_with = "as_number")]
    cost_usd: Usd,
}

/// Who may decide, and their links.
#[derive(Serialize)]
pub(super) struct Invited {
    pub(super) approver: String,
    pub(super) approve_url: String,
    pub(super) reject_url: String,
}

/// A decision that was made.
#[derive(Serialize)]
pub(super) struct Vote<'n> {
    pub(super) verdict: Verdict,
    pub(super) by: String,
    door: Door,
    pub(super) comment: &'n str,
    edited: bool,
    decided_at: Time,
}

/// A moment as RFC 3339 has it.
struct Time(DateTime<Utc>);

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        in_seconds(&self.0, to)
    }
}

impl<'n> Payload<'n> {
    /// The payload of a notice; `None` for an approval request whose links are gone.
    pub(super) fn of(notice: &'n EndpointNotice, public_url: &str) -> Option<Self> {
        let kind = notice.kind;
        let is_asked = kind.asks();
        let approvers = match (&notice.links, is_asked) {
            (None, true) => return None,
            (None, false) => Vec::new(),
            (Some(links), _) => {
                let link = |token: &str| format!("{public_url}/approvals/{token}");
                let approver = links.iter().map(|one| Invited {
                    approver: mask(&one.approver),
                    approve_url: link(&one.approve),
                    reject_url: link(&one.reject),
                });
                approver.collect()
            }
        };
        let (asked, decision, error) = match &notice.detail {
            Some(Detail::ApprovalRequested(asked)) => (Some(asked), None, None),
            Some(Detail::Decision(decision)) => (None, Some(decision), None),
            Some(Detail::Failure(failure)) => (None, None, Some(&failure.message)),
            Some(Detail::Notice(lost)) => (None, None, Some(&lost.error)),
            None => (None, None, None),
        };
        let output = notice.output.as_deref().map(cut);
        let data = Data {
            job_id: notice.key.job_id(),
            task: cut(&notice.task),
            status: notice.status,
            reason: notice.reason.map(capitals),
            step: notice.step,
            step_count: notice.step_count,
            sequence: notice.sequence,
            message: cut(&notice.message),
            approval_id: notice.approval_id,
            note: notice.note.as_deref().filter(|_| is_asked).map(cut),
            quorum: asked.map(|asked| asked.quorum),
            deadline_at: notice.deadline_at.filter(|_| is_asked).map(Time),
            draft: output.clone().filter(|_| is_asked),
            approvers,
            decision: decision.map(decided),
            output: output.filter(|_| kind == NoticeKind::Completed),
            error: error.map(|error| cut(error)),
            cost_usd: notice.cost_usd,
        };
        let (timestamp, language) = (notice.occurred_at, notice.language.as_deref());
        Some(Self { type_name: type_of(kind), timestamp, data, kind, language })
    }

    /// What is sent: the payload itself, or a template filled with it.
    pub(super) fn body(&self, template: Option<&Template>) -> Vec<u8> {
        match template {
            None => serde_json::to_vec(self).expect("a payload is plain data with text keys"),
            Some(template) => template.fill(|name| self.meaning(name)).to_string().into_bytes(),
        }
    }

    /// What a name in a template means.
    fn meaning(&self, name: &str) -> String {
        let data = &self.data;
        let text = |text: &Option<Cow<'_, str>>| text.as_deref().unwrap_or_default().to_owned();
        let decided = data.decision.as_ref();
        match name {
            "title" => words::title(self).to_owned(),
            "text" => words::text(self),
            "type" => self.type_name.to_owned(),
            "timestamp" => seconds(self.timestamp),
            "job_id" => data.job_id.to_owned(),
            "task" => data.task.clone().into_owned(),
            "status" => data.status.word(),
            "step" => data.step.to_string(),
            "step_count" => data.step_count.to_string(),
            "approval_id" => data.approval_id.map(|id| id.to_string()).unwrap_or_default(),
            "note" => text(&data.note),
            "draft" => text(&data.draft),
            "output" => text(&data.output),
            "deadline_at" => data.deadline_at.as_ref().map(|at| seconds(at.0)).unwrap_or_default(),
            "verdict" => decided.map(|decided| decided.verdict.word()).unwrap_or_default(),
            "by" => decided.map(|decided| decided.by.clone()).unwrap_or_default(),
            "comment" => decided.map(|decided| decided.comment.to_owned()).unwrap_or_default(),
            "reason" => data.reason.clone().unwrap_or_default(),
            "error" => text(&data.error),
            "cost_usd" => data.cost_usd.to_string(),
            name => self.of_link(name).unwrap_or_default(),
        }
    }

    fn of_link(&self, name: &str) -> Option<String> {
        let (number, of_it) = find_link(name)?;
        let one = self.data.approvers.get(number)?;
        let found = match of_it {
            "approver" => &one.approver,
            "approve_url" => &one.approve_url,
            _ => &one.reject_url,
        };
        Some(found.clone())
    }
}

fn decided(decision: &Decision) -> Vote<'_> {
    Vote {
        verdict: decision.verdict,
        by: mask(&decision.voter),
        door: decision.door,
        comment: &decision.comment,
        edited: decision.edited,
        decided_at: Time(decision.decided_at),
    }
}

fn type_of(kind: NoticeKind) -> &'static str {
    match kind {
        NoticeKind::ApprovalRequested => "approval.requested",
        NoticeKind::ApprovalReminder => "approval.reminder",
        NoticeKind::ApprovalEscalated => "approval.escalated",
        NoticeKind::ApprovalDecided => "approval.decided",
        NoticeKind::ApprovalExpired => "approval.expired",
        NoticeKind::Completed => "job.completed",
        NoticeKind::Failed => "job.failed",
        NoticeKind::Cancelled => "job.cancelled",
        NoticeKind::OutOfBudget => "job.out_of_budget",
        NoticeKind::Paused => "job.paused",
        NoticeKind::NoticeFailed => "notice.failed",
        NoticeKind::DailyBudget => "budget.used_up",
    }
}

fn capitals(reason: Reason) -> String {
    reason.word().to_ascii_uppercase()
}

fn cut(text: &str) -> Cow<'_, str> {
    match text.char_indices().nth(TEXT_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]).into(),
        None => text.into(),
    }
}

fn seconds(at: DateTime<Utc>) -> String {
    at.to_rfc3339_opts(SecondsFormat::Millis, true)
}

fn in_seconds<S: Serializer>(at: &DateTime<Utc>, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(&seconds(*at))
}

/// A number with exactly its digits; a float would round them.
fn as_number<S: Serializer>(cost_usd: &Usd, to: S) -> Result<S::Ok, S::Error> {
    RawValue::from_string(cost_usd.to_string()).map_err(serde::ser::Error::custom)?.serialize(to)
}
