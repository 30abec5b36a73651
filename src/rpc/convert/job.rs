//! A job as the store shows it becomes the proto's `Job`.
//!
//! Every number of a person is masked on the way out.
//! `fit` cuts what is long until the job fits a reply; an output that lost something carries its mark.

use prost::Message as _;

use super::{REPLY_BYTES_MAX, cut, timestamp, word};
use crate::domain::approval::mask;
use crate::domain::event::Decision;
use crate::domain::explain::explain;
use crate::domain::job::{Citation, Failure};
use crate::domain::money::{Usage, Usd};
use crate::domain::spec::StepSpec;
use crate::rpc::proto::{self, StepStatus};
use crate::store::job::{ApprovalLink, JobView, NoticeView, PendingApproval, Spent};

/// The job as it is now, in at most so many bytes as far as cutting outputs and comments can do that.
pub fn job(view: &JobView, bytes_max: usize) -> proto::Job {
    let state = &view.state;
    let spent = view.spent_in_all();
    let numbered = (1..).zip(&view.spec.steps);
    let mut job = proto::Job {
        job_id: view.key.job_id().to_owned(),
        task: view.spec.task.clone(),
        status: proto::JobStatus::from(state.status).into(),
        reason: word::reason(state.reason),
        status_message: explain(state),
        current_step: state.shown_step(),
        step_count: state.step_count,
        steps: numbered.map(|(number, step)| step_state(view, number, step)).collect(),
        approval: view.approval.as_ref().map(|approval| pending(view, approval)),
        output: view.last_output().to_owned(),
        usage: Some(usage(&spent.usage, spent.calls)),
        cost_usd: spent.cost_usd.to_string(),
        unpriced_calls: spent.unpriced_calls,
        attempts: state.attempts,
        pause_requested: state.pause_requested,
        run_at: view.parked_until().map(timestamp),
        lease_expires_at: view.held_until().map(timestamp),
        last_error: state.last_error.as_ref().map(failure),
        last_sequence: state.last_sequence,
        labels: view.spec.labels.clone().into_iter().collect(),
        notices: view.notices.iter().map(notice).collect(),
        created_at: Some(timestamp(view.created_at)),
        updated_at: Some(timestamp(state.updated_at)),
        finished_at: state.finished_at.map(timestamp),
        revision: state.revision,
        budget_usd: state.budget_usd.map(|budget| budget.to_string()).unwrap_or_default(),
        undelivered_notices: view.undelivered_notices,
    };
    fit(&mut job, bytes_max);
    job
}

/// The job that a submit would store, as if it had been: queued, with no times, since it has none.
pub fn as_if_stored(view: &JobView) -> proto::Job {
    proto::Job { created_at: None, updated_at: None, ..job(view, REPLY_BYTES_MAX) }
}

/// What is shown of a job to who may move it and not read it: how it stands, and nothing of what it says.
pub fn outline(job: proto::Job) -> proto::Job {
    let approval = job.approval.map(|approval| proto::Approval {
        approval_id: approval.approval_id,
        ..proto::Approval::default()
    });
    proto::Job {
        job_id: job.job_id,
        status: job.status,
        reason: job.reason,
        status_message: job.status_message,
        current_step: job.current_step,
        step_count: job.step_count,
        approval,
        run_at: job.run_at,
        last_sequence: job.last_sequence,
        created_at: job.created_at,
        updated_at: job.updated_at,
        finished_at: job.finished_at,
        ..proto::Job::default()
    }
}

fn step_state(view: &JobView, number: i32, step: &StepSpec) -> proto::StepState {
    let status = StepStatus::from(view.state.step_status(number));
    let spent = view.spent.get(&number).copied().unwrap_or_default();
    let mut shown = proto::StepState {
        step: number,
        name: step.name.clone().unwrap_or_default(),
        kind: word::step_kind(&step.work).into(),
        status: status.into(),
        output_cut: view.is_output_cut(number),
        started_at: view.step_started_at(number).map(timestamp),
        usage: (spent.calls > 0).then(|| usage(&spent.usage, spent.calls)),
        cost_usd: known_cost(&spent),
        decisions: view.step_decisions(number).iter().map(decision).collect(),
        partial_output: view.partial_output(number).to_owned(),
        ..proto::StepState::default()
    };
    if let Some(done) = view.find_done(number) {
        shown.output = done.output.clone().unwrap_or_default();
        shown.citations = done.citations.iter().map(citation).collect();
        shown.model = done.model.clone().unwrap_or_default();
        shown.stop_reason = done.stop_reason.clone().unwrap_or_default();
        shown.revision = done.revision;
        shown.finished_at = Some(timestamp(done.finished_at));
    }
    shown
}

/// The cost of a step is known only if that of each of its calls is.
fn known_cost(spent: &Spent) -> String {
    if spent.unpriced_calls == 0 { spent.cost_usd.to_string() } else { String::new() }
}

fn pending(view: &JobView, approval: &PendingApproval) -> proto::Approval {
    proto::Approval {
        approval_id: approval.approval_id.to_string(),
        step: approval.step,
        note: view.note(approval.step).to_owned(),
        quorum: approval.quorum,
        decisions: approval.decisions.iter().map(decision).collect(),
        asked_at: Some(timestamp(approval.asked_at)),
        deadline_at: view.state.deadline_at.map(timestamp),
        links: approval.links.iter().map(link).collect(),
    }
}

fn link(link: &ApprovalLink) -> proto::ApprovalLink {
    proto::ApprovalLink { approver: link.approver.clone(), url: link.url.clone() }
}

pub(in crate::rpc) fn notice(notice: &NoticeView) -> proto::Notice {
    proto::Notice {
        recipient: mask(&notice.recipient),
        kind: proto::NoticeKind::from(notice.kind).into(),
        delivery: proto::Delivery::from(notice.delivery).into(),
        error: notice.error.clone().unwrap_or_default(),
        updated_at: Some(timestamp(notice.updated_at)),
        notice_id: notice.notice_id.map(|id| id.to_string()).unwrap_or_default(),
        tries: notice.tries,
        created_at: Some(timestamp(notice.created_at)),
    }
}

/// Shows whole for whom notices are, to a caller who may see that.
pub fn reveal(notices: &mut [proto::Notice], views: &[NoticeView]) {
    for (notice, view) in notices.iter_mut().zip(views) {
        notice.recipient.clone_from(&view.recipient);
    }
}

pub(super) fn decision(decision: &Decision) -> proto::Decision {
    proto::Decision {
        verdict: proto::Verdict::from(decision.verdict).into(),
        by: mask(&decision.voter),
        door: proto::Door::from(decision.door).into(),
        comment: decision.comment.clone(),
        edited: decision.edited,
        decided_at: Some(timestamp(decision.decided_at)),
    }
}

pub(super) fn failure(failure: &Failure) -> proto::Failure {
    proto::Failure {
        reason: word::reason(Some(failure.reason)),
        message: failure.message.clone(),
        provider_request_id: failure.provider_request_id.clone().unwrap_or_default(),
        failed_at: Some(timestamp(failure.failed_at)),
    }
}

pub(super) fn citation(citation: &Citation) -> proto::Citation {
    proto::Citation {
        url: citation.url.clone(),
        title: citation.title.clone(),
        cited_text: citation.cited_text.clone(),
    }
}

pub(super) fn usage(usage: &Usage, calls: i32) -> proto::Usage {
    proto::Usage {
        input_tokens: usage.input_tokens,
        output_tokens: usage.output_tokens,
        cache_write_5m_tokens: usage.cache_write_5m_tokens,
        cache_write_1h_tokens: usage.cache_write_1h_tokens,
        cache_read_tokens: usage.cache_read_tokens,
        web_searches: usage.web_searches,
        calls,
    }
}

/// A known cost, or nothing where it is not known.
pub(super) fn cost(cost: Option<Usd>) -> String {
    cost.map(|cost| cost.to_string()).unwrap_or_default()
}

/// Cuts outputs, passages and comments to half and half again, down to nothing, until the job fits.
fn fit(job: &mut proto::Job, bytes_max: usize) {
    let mut most = bytes_max / 2;
    while job.encoded_len() > bytes_max {
        cut_texts(job, most);
        if most == 0 {
            if job.encoded_len() > bytes_max {
                job.steps.iter_mut().for_each(|step| step.citations.clear());
            }
            return;
        }
        most /= 2;
    }
}

fn cut_texts(job: &mut proto::Job, bytes_max: usize) {
    shorten(&mut job.output, bytes_max);
    for step in &mut job.steps {
        step.output_cut |= shorten(&mut step.output, bytes_max);
        for citation in &mut step.citations {
            shorten(&mut citation.cited_text, bytes_max);
        }
        for decision in &mut step.decisions {
            shorten(&mut decision.comment, bytes_max);
        }
    }
}

fn shorten(text: &mut String, bytes_max: usize) -> bool {
    let kept = cut(text, bytes_max).len();
    let shortened = kept < text.len();
    text.truncate(kept);
    shortened
}

#[cfg(test)]
mod tests;
