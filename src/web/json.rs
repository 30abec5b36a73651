//! The job as JSON: the Job of the proto, field by field, in its names.
//!
//! Enums are short lower-case words, times RFC 3339 in UTC, tokens and costs numbers, and costs exact to the last digit.
//! Every field is there in every object, `null` where a message, a time or a cost is not there.

use std::collections::BTreeMap;

use axum::http::header;
use axum::response::{IntoResponse as _, Response};
use chrono::{DateTime, SecondsFormat, Utc};
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;

use super::fault::Fault;
use super::outline::{Shown, Sight};
use crate::domain::approval::{Door, Verdict, mask};
use crate::domain::event::{Decision, Delivery, NoticeKind};
use crate::domain::explain::explain;
use crate::domain::id::{ApprovalId, NoticeId};
use crate::domain::job::{Citation, Failure, Reason, Status, StepStatus};
use crate::domain::money::{Usage, Usd};
use crate::domain::spec::{StepSpec, Work};
use crate::domain::word::Word as _;
use crate::store::job::{JobView, PendingApproval, Spent};

/// What a webhook answers beside the job.
pub(super) struct Reply<'a> {
    pub(super) created: bool,
    pub(super) changed: bool,
    pub(super) message: String,
    pub(super) warnings: &'a [String],
    /// How much of the job the caller may see.
    pub(super) sight: Sight,
}

impl Reply<'_> {
    /// The whole answer, with the job as it is.
    pub(super) fn with_job(&self, view: &JobView) -> Response {
        self.with(view, Job::new(view, matches!(self.sight, Sight::Whole)))
    }

    /// The whole answer, with the job as it would be stored; such a job has no times yet.
    pub(super) fn with_job_to_be(&self, view: &JobView) -> Response {
        let job = Job::new(view, matches!(self.sight, Sight::Whole));
        self.with(view, Job { created_at: None, updated_at: None, ..job })
    }

    fn with(&self, view: &JobView, job: Job<'_>) -> Response {
        #[derive(Serialize)]
        struct Body<'a> {
            ok: bool,
            job_id: &'a str,
            status: Status,
            current_step: i32,
            created: bool,
            changed: bool,
            message: &'a str,
            warnings: &'a [String],
            job: Shown<'a>,
        }
        let body = Body {
            ok: true,
            job_id: view.key.job_id(),
            status: view.state.status,
            current_step: view.state.shown_step(),
            created: self.created,
            changed: self.changed,
            message: &self.message,
            warnings: self.warnings,
            job: Shown::new(job, self.sight),
        };
        match serde_json::to_vec(&body) {
            Ok(bytes) => ([(header::CONTENT_TYPE, "application/json")], bytes).into_response(),
            Err(error) => {
                tracing::error!(%error, "a job could not be written as JSON");
                Fault::internal().into_response()
            }
        }
    }
}

#[derive(Serialize)]
#[expect(clippy::struct_field_names, reason = "the names are the proto's")]
pub(super) struct Job<'a> {
    pub(super) job_id: &'a str,
    task: &'a str,
    pub(super) status: Status,
    pub(super) reason: String,
    pub(super) status_message: String,
    pub(super) current_step: i32,
    pub(super) step_count: i32,
    steps: Vec<Step<'a>>,
    pub(super) approval: Option<Approval<'a>>,
    output: &'a str,
    usage: UsedUp,
    cost_usd: Cost,
    unpriced_calls: i32,
    attempts: i32,
    pause_requested: bool,
    pub(super) run_at: Option<Time>,
    lease_expires_at: Option<Time>,
    last_error: Option<Error<'a>>,
    pub(super) last_sequence: i32,
    labels: &'a BTreeMap<String, String>,
    notices: Vec<Told<'a>>,
    pub(super) created_at: Option<Time>,
    pub(super) updated_at: Option<Time>,
    pub(super) finished_at: Option<Time>,
    revision: i32,
    budget_usd: Option<Cost>,
    undelivered_notices: i32,
}

impl<'a> Job<'a> {
    fn new(view: &'a JobView, is_whole: bool) -> Self {
        let (state, spec) = (&view.state, &view.spec);
        let spent = view.spent_in_all();
        let steps = (1..).zip(&spec.steps).map(|(step, what)| Step::new(view, step, what));
        let notices = view.notices.iter().map(|notice| Told {
            notice_id: notice.notice_id,
            recipient: if is_whole { notice.recipient.clone() } else { mask(&notice.recipient) },
            kind: notice.kind,
            delivery: notice.delivery,
            error: notice.error.as_deref().unwrap_or_default(),
            tries: notice.tries,
            created_at: Time(notice.created_at),
            updated_at: Time(notice.updated_at),
        });
        Self {
            job_id: view.key.job_id(),
            task: &spec.task,
            status: state.status,
            reason: state.reason.map(|reason| reason.word()).unwrap_or_default(),
            status_message: explain(state),
            current_step: state.shown_step(),
            step_count: state.step_count,
            steps: steps.collect(),
            approval: view.approval.as_ref().map(|approval| Approval::new(view, approval)),
            output: view.last_output(),
            usage: UsedUp::new(spent),
            cost_usd: Cost(spent.cost_usd),
            unpriced_calls: spent.unpriced_calls,
            attempts: state.attempts,
            pause_requested: state.pause_requested,
            run_at: view.parked_until().map(Time),
            lease_expires_at: view.held_until().map(Time),
            last_error: state.last_error.as_ref().map(Error::new),
            last_sequence: state.last_sequence,
            labels: &spec.labels,
            notices: notices.collect(),
            created_at: Some(Time(view.created_at)),
            updated_at: Some(Time(state.updated_at)),
            finished_at: state.finished_at.map(Time),
            revision: state.revision,
            budget_usd: state.budget_usd.map(Cost),
            undelivered_notices: view.undelivered_notices,
        }
    }
}

#[derive(Serialize)]
#[expect(clippy::struct_field_names, reason = "the names are the proto's")]
struct Step<'a> {
    step: i32,
    name: &'a str,
    kind: &'static str,
    status: StepStatus,
    output: &'a str,
    output_cut: bool,
    citations: &'a [Citation],
    model: &'a str,
    stop_reason: &'a str,
    usage: UsedUp,
    cost_usd: Option<Cost>,
    revision: i32,
    decisions: Vec<Vote<'a>>,
    started_at: Option<Time>,
    finished_at: Option<Time>,
    partial_output: &'a str,
}

impl<'a> Step<'a> {
    fn new(view: &'a JobView, step: i32, spec: &'a StepSpec) -> Self {
        let done = view.find_done(step);
        let spent = view.spent.get(&step).copied().unwrap_or_default();
        let text = |text: Option<&'a String>| text.map_or("", String::as_str);
        Self {
            step,
            name: spec.name.as_deref().unwrap_or_default(),
            kind: match &spec.work {
                Work::Run(_) => "run",
                Work::Approval(_) => "approval",
                Work::Wait(_) => "wait",
            },
            status: view.state.step_status(step),
            output: text(done.and_then(|done| done.output.as_ref())),
            output_cut: view.is_output_cut(step),
            citations: done.map_or(&[], |done| done.citations.as_slice()),
            model: text(done.and_then(|done| done.model.as_ref())),
            stop_reason: text(done.and_then(|done| done.stop_reason.as_ref())),
            usage: UsedUp::new(spent),
            cost_usd: (spent.unpriced_calls == 0).then_some(Cost(spent.cost_usd)),
            revision: done.map_or(0, |done| done.revision),
            decisions: votes(view.step_decisions(step)),
            started_at: view.step_started_at(step).map(Time),
            finished_at: done.map(|done| Time(done.finished_at)),
            partial_output: view.partial_output(step),
        }
    }
}

#[derive(Serialize)]
#[expect(clippy::struct_field_names, reason = "the names are the proto's")]
pub(super) struct Approval<'a> {
    pub(super) approval_id: ApprovalId,
    step: i32,
    note: &'a str,
    quorum: i32,
    decisions: Vec<Vote<'a>>,
    asked_at: Time,
    deadline_at: Option<Time>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    links: Vec<Link<'a>>,
}

#[derive(Serialize)]
struct Link<'a> {
    approver: &'a str,
    url: &'a str,
}

impl<'a> Approval<'a> {
    fn new(view: &'a JobView, approval: &'a PendingApproval) -> Self {
        Self {
            approval_id: approval.approval_id,
            step: approval.step,
            note: view.note(approval.step),
            quorum: approval.quorum,
            decisions: votes(&approval.decisions),
            asked_at: Time(approval.asked_at),
            deadline_at: view.state.deadline_at.map(Time),
            links: approval
                .links
                .iter()
                .map(|one| Link { approver: &one.approver, url: &one.url })
                .collect(),
        }
    }
}

#[derive(Serialize)]
struct Vote<'a> {
    verdict: Verdict,
    by: String,
    door: Door,
    comment: &'a str,
    edited: bool,
    decided_at: Time,
}

fn votes(decisions: &[Decision]) -> Vec<Vote<'_>> {
    let votes = decisions.iter().map(|decision| Vote {
        verdict: decision.verdict,
        by: mask(&decision.voter),
        door: decision.door,
        comment: &decision.comment,
        edited: decision.edited,
        decided_at: Time(decision.decided_at),
    });
    votes.collect()
}

#[derive(Serialize)]
struct UsedUp {
    #[serde(flatten)]
    usage: Usage,
    calls: i32,
}

impl UsedUp {
    fn new(spent: Spent) -> Self {
        Self { usage: spent.usage, calls: spent.calls }
    }
}

#[derive(Serialize)]
struct Error<'a> {
    reason: Reason,
    message: &'a str,
    provider_request_id: &'a str,
    failed_at: Time,
}

impl<'a> Error<'a> {
    fn new(failure: &'a Failure) -> Self {
        Self {
            reason: failure.reason,
            message: &failure.message,
            provider_request_id: failure.provider_request_id.as_deref().unwrap_or_default(),
            failed_at: Time(failure.failed_at),
        }
    }
}

#[derive(Serialize)]
struct Told<'a> {
    notice_id: Option<NoticeId>,
    recipient: String,
    kind: NoticeKind,
    delivery: Delivery,
    error: &'a str,
    tries: i32,
    created_at: Time,
    updated_at: Time,
}

/// A moment, in as many digits as it has.
pub(super) struct Time(DateTime<Utc>);

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&self.0.to_rfc3339_opts(SecondsFormat::AutoSi, true))
    }
}

/// An amount as a JSON number with exactly its digits; a float would round them.
struct Cost(Usd);

impl Serialize for Cost {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        RawValue::from_string(self.0.to_string()).map_err(serde::ser::Error::custom)?.serialize(to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cost_is_printed_with_exactly_its_digits() {
        for (amount, printed) in [
            ("0", "0"),
            ("0.10", "0.1"),
            ("12", "12"),
            ("0.000000000000000000123456789", "0.000000000000000000123456789"),
            ("90071992547409931.000001", "90071992547409931.000001"),
        ] {
            let cost = Cost(amount.parse().unwrap());
            assert_eq!(serde_json::to_string(&cost).unwrap(), printed);
        }
    }
}
