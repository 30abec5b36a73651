//! What can be wrong with every other call.

use std::collections::HashMap;

use longhaul::domain::reason::Reason;
use longhaul::rpc::proto::{
    ApproveAction, CancelAction, ControlJobsRequest, ControlRequest, GetJobRequest,
    GetUsageRequest, JobSelector, JobStatus, ListJobsRequest, ListNoticesRequest, RejectAction,
    RequestChangesAction, ResendNoticeRequest, ResumeAction, RetryAction, RevokeLinksRequest,
    StatusAction, UsageGrouping, WatchJobRequest, control_jobs_request::Action as Many,
    control_request::Action,
};
use prost_types::Timestamp;

use super::{ABSENT, ASKED, Call, DONE, Row, UUID, long};
use crate::harness::{approve, approve_that, cancel, job, pause, resume, retry, wait};

fn get(job_id: &str, step: i32, wait_seconds: i32) -> Call {
    let job_id = job_id.to_owned();
    Call::Get(GetJobRequest { job_id, step, wait_seconds, ..GetJobRequest::default() })
}

fn act(job_id: &str, action: Action) -> Call {
    act_once(job_id, "", action)
}

fn act_once(job_id: &str, request_id: &str, action: Action) -> Call {
    let (job_id, request_id) = (job_id.to_owned(), request_id.to_owned());
    Call::Control(ControlRequest { job_id, request_id, action: Some(action) })
}

fn watch(job_id: &str, after_sequence: Option<i32>) -> Call {
    let job_id = job_id.to_owned();
    Call::Watch(WatchJobRequest { job_id, after_sequence, ..WatchJobRequest::default() })
}

fn revoke(job_id: &str, approver: &str) -> Call {
    let (job_id, approver) = (job_id.to_owned(), approver.to_owned());
    Call::Revoke(RevokeLinksRequest { job_id, approver })
}

fn list(change: impl FnOnce(&mut ListJobsRequest)) -> Call {
    let mut request = ListJobsRequest::default();
    change(&mut request);
    Call::List(request)
}

fn picked(statuses: Vec<i32>, labels: &[(&str, &str)]) -> Option<JobSelector> {
    let labels = labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
    Some(JobSelector {
        statuses,
        labels: labels.collect::<HashMap<_, _>>(),
        ..JobSelector::default()
    })
}

/// A cancel of all that wait for a person, changed.
fn many(change: impl FnOnce(&mut ControlJobsRequest)) -> Call {
    let mut request = ControlJobsRequest {
        selector: picked(vec![JobStatus::AwaitingApproval.into()], &[]),
        action: Some(Many::Cancel(CancelAction::default())),
        ..ControlJobsRequest::default()
    };
    change(&mut request);
    Call::ControlJobs(request)
}

fn notices(change: impl FnOnce(&mut ListNoticesRequest)) -> Call {
    let mut request = ListNoticesRequest::default();
    change(&mut request);
    Call::Notices(request)
}

fn usage(change: impl FnOnce(&mut GetUsageRequest)) -> Call {
    let mut request = GetUsageRequest::default();
    change(&mut request);
    Call::Usage(request)
}

fn resume_with(budget: &str) -> Action {
    Action::Resume(ResumeAction { budget_usd: budget.to_owned() })
}

fn cancel_with(comment: String) -> Action {
    Action::Cancel(CancelAction { comment })
}

fn approving(change: impl FnOnce(&mut ApproveAction)) -> Call {
    let mut approve = ApproveAction::default();
    change(&mut approve);
    act(ASKED, Action::Approve(approve))
}

fn rejecting(change: impl FnOnce(&mut RejectAction)) -> Call {
    let mut reject = RejectAction::default();
    change(&mut reject);
    act(ASKED, Action::Reject(reject))
}

fn sending_back(change: impl FnOnce(&mut RequestChangesAction)) -> Call {
    let mut changes =
        RequestChangesAction { comment: "Shorter.".to_owned(), ..RequestChangesAction::default() };
    change(&mut changes);
    act(ASKED, Action::RequestChanges(changes))
}

fn with_ids_of_jobs() -> Vec<(Call, &'static str)> {
    let look = || Action::Status(StatusAction {});
    let mut rows = Vec::new();
    for id in ["", " x", "x ", "nul\0", "a\u{7f}", &long(256)] {
        rows.extend([get(id, 0, 0), watch(id, None), revoke(id, ""), act(id, look())]);
    }
    let mut rows: Vec<_> = rows.into_iter().map(|call| (call, "job_id")).collect();
    let nothing = ControlRequest { job_id: ASKED.to_owned(), ..ControlRequest::default() };
    rows.extend([
        (get(ASKED, -1, 0), "step"),
        (get(ASKED, i32::MIN, 0), "step"),
        (get(ASKED, 0, -1), "wait_seconds"),
        (get(ASKED, 0, 61), "wait_seconds"),
        (get(ASKED, 0, i32::MAX), "wait_seconds"),
        (watch(ASKED, Some(-1)), "after_sequence"),
        (watch(ASKED, Some(i32::MIN)), "after_sequence"),
        (revoke(ASKED, &long(129)), "approver"),
        (revoke(ASKED, "a\nb"), "approver"),
        (Call::Control(nothing), "action"),
        (act_once(ASKED, " x", pause()), "request_id"),
        (act_once(ASKED, "x\n", pause()), "request_id"),
        (act_once(ASKED, &long(256), pause()), "request_id"),
    ]);
    rows
}

fn with_actions() -> Vec<(Call, &'static str)> {
    let retry_at = |from_step| Action::Retry(RetryAction { from_step });
    vec![
        (act(ASKED, cancel_with(long(4097))), "cancel.comment"),
        (act(ASKED, cancel_with("\0".to_owned())), "cancel.comment"),
        (act(ASKED, retry_at(-1)), "retry.from_step"),
        (act(ASKED, retry_at(i32::MIN)), "retry.from_step"),
        (act(ASKED, resume_with("2,5")), "resume.budget_usd"),
        (act(ASKED, resume_with("0")), "resume.budget_usd"),
        (act(ASKED, resume_with("-1")), "resume.budget_usd"),
        (act(ASKED, resume_with("NaN")), "resume.budget_usd"),
        (act(ASKED, resume_with("1000001")), "resume.budget_usd"),
        (act(ASKED, approve_that("not a uuid")), "approve.approval_id"),
        (act(ASKED, approve_that(&UUID[1..])), "approve.approval_id"),
        (approving(|all| all.comment = long(4097)), "approve.comment"),
        (approving(|all| all.comment.push('\0')), "approve.comment"),
        (approving(|all| all.on_behalf_of = long(256)), "approve.on_behalf_of"),
        (approving(|all| all.on_behalf_of.push_str("a\nb")), "approve.on_behalf_of"),
        (approving(|all| all.on_behalf_of.push(' ')), "approve.on_behalf_of"),
        (approving(|all| all.on_behalf_of.push_str("ana ")), "approve.on_behalf_of"),
        (approving(|all| all.edited_output = Some(String::new())), "approve.edited_output"),
        (approving(|all| all.edited_output = Some(" \n".to_owned())), "approve.edited_output"),
        (approving(|all| all.edited_output = Some("a\0".to_owned())), "approve.edited_output"),
        (approving(|all| all.edited_output = Some(long((1 << 20) + 1))), "approve.edited_output"),
        (rejecting(|all| all.approval_id.push('7')), "reject.approval_id"),
        (rejecting(|all| all.comment = long(4097)), "reject.comment"),
        (rejecting(|all| all.on_behalf_of.push('\0')), "reject.on_behalf_of"),
        (sending_back(|all| all.comment.clear()), "request_changes.comment"),
        (sending_back(|all| all.comment = " \n".to_owned()), "request_changes.comment"),
        (sending_back(|all| all.comment = long(4097)), "request_changes.comment"),
        (sending_back(|all| all.approval_id.push('x')), "request_changes.approval_id"),
        (sending_back(|all| all.on_behalf_of = long(256)), "request_changes.on_behalf_of"),
    ]
}

fn with_pages() -> Vec<(Call, &'static str)> {
    let moment = |seconds| Some(Timestamp { seconds, nanos: 0 });
    let by = |grouping: UsageGrouping| i32::from(grouping);
    vec![
        (list(|all| all.page_size = -1), "page_size"),
        (list(|all| all.page_size = i32::MIN), "page_size"),
        (list(|all| all.page_token.push('?')), "page_token"),
        (list(|all| all.page_token.push_str("bm90IG91cnM")), "page_token"),
        (list(|all| all.page_token = long(100_000)), "page_token"),
        (list(|all| all.selector = picked(vec![0], &[])), "selector.statuses[0]"),
        (list(|all| all.selector = picked(vec![1, 99], &[])), "selector.statuses[1]"),
        (list(|all| all.selector = picked(vec![-1; 65], &[])), "selector.statuses"),
        (list(|all| all.selector = picked(vec![0; 1_000_000], &[])), "selector.statuses"),
        (list(|all| all.selector = picked(vec![], &[("k", "\0")])), "selector.labels[\"k\"]"),
        (list(|all| all.selector = picked(vec![], &[("", "v")])), "selector.labels[\"\"]"),
        (list(|all| all.selector = picked(vec![], &[("k\n", "")])), "selector.labels[\"k\\n\"]"),
        (notices(|all| all.job_id.push_str(" x")), "job_id"),
        (notices(|all| all.deliveries = vec![0]), "deliveries[0]"),
        (notices(|all| all.deliveries = vec![1, 99]), "deliveries[1]"),
        (notices(|all| all.deliveries = vec![0; 65]), "deliveries"),
        (notices(|all| all.kinds = vec![1]), "kinds"),
        (
            notices(|all| {
                all.job_id.push_str(ASKED);
                all.kinds = vec![0];
            }),
            "kinds[0]",
        ),
        (
            notices(|all| {
                all.job_id.push_str(ASKED);
                all.kinds = vec![99; 100];
            }),
            "kinds",
        ),
        (notices(|all| all.recipient = long(129)), "recipient"),
        (notices(|all| all.recipient.push('\0')), "recipient"),
        (notices(|all| all.page_size = -1), "page_size"),
        (notices(|all| all.page_token.push_str("not ours")), "page_token"),
        (Call::Resend(ResendNoticeRequest::default()), "notice_id"),
        (Call::Resend(ResendNoticeRequest { notice_id: "7".to_owned() }), "notice_id"),
        (usage(|all| all.from_at = moment(i64::MAX)), "from_at"),
        (usage(|all| all.before_at = moment(253_402_300_800)), "before_at"),
        (
            usage(|all| {
                all.from_at = moment(20);
                all.before_at = moment(20);
            }),
            "before_at",
        ),
        (usage(|all| all.group_by = 99), "group_by"),
        (usage(|all| all.group_by = by(UsageGrouping::Label)), "label_key"),
        (usage(|all| all.label_key.push_str("team")), "label_key"),
        (
            usage(|all| {
                all.group_by = by(UsageGrouping::Label);
                all.label_key = long(64);
            }),
            "label_key",
        ),
        (usage(|all| all.page_size = -1), "page_size"),
        (usage(|all| all.page_token.push_str("not ours")), "page_token"),
        (usage(|all| all.selector = picked(vec![99], &[])), "selector.statuses[0]"),
    ]
}

fn with_many() -> Vec<(Call, &'static str)> {
    let status = |status: JobStatus| picked(vec![status.into()], &[]);
    let resume = |budget: &str| Many::Resume(ResumeAction { budget_usd: budget.to_owned() });
    vec![
        (many(|all| all.action = None), "action"),
        (many(|all| all.selector = None), "selector"),
        (many(|all| all.selector = picked(vec![], &[])), "selector"),
        (
            many(|all| {
                all.selector = None;
                all.silent = true;
            }),
            "selector",
        ),
        (
            many(|all| {
                all.selector = None;
                all.dry_run = true;
            }),
            "selector",
        ),
        (many(|all| all.selector = picked(vec![0], &[])), "selector.statuses[0]"),
        (many(|all| all.selector = picked(vec![1, 99], &[])), "selector.statuses[1]"),
        (many(|all| all.selector = picked(vec![1; 65], &[])), "selector.statuses"),
        (many(|all| all.selector = picked(vec![], &[("", "v")])), "selector.labels[\"\"]"),
        // What has ended cannot be cancelled, and what has not cannot be tried again.
        (many(|all| all.selector = status(JobStatus::Completed)), "selector.statuses[0]"),
        (
            many(|all| all.action = Some(Many::Retry(RetryAction::default()))),
            "selector.statuses[0]",
        ),
        (many(|all| all.action = Some(resume(""))), "selector.statuses[0]"),
        (many(|all| all.action = Some(resume("NaN"))), "resume.budget_usd"),
        (
            many(|all| {
                all.selector = status(JobStatus::Failed);
                all.action = Some(Many::Retry(RetryAction { from_step: -1 }));
            }),
            "retry.from_step",
        ),
        (
            many(|all| all.action = Some(Many::Cancel(CancelAction { comment: long(4097) }))),
            "cancel.comment",
        ),
        (many(|all| all.page_size = -1), "page_size"),
        (many(|all| all.page_size = i32::MIN), "page_size"),
        (many(|all| all.page_token.push('?')), "page_token"),
        (many(|all| all.page_token.push_str("bm90IG91cnM")), "page_token"),
        (many(|all| all.request_id.push_str(" x")), "request_id"),
        (many(|all| all.request_id = long(256)), "request_id"),
    ]
}

/// What is well said and still cannot be.
fn against_the_state() -> Vec<Row> {
    let row = |call, reason| Row(call, reason, "");
    let resend = ResendNoticeRequest { notice_id: UUID.to_owned() };
    vec![
        row(get(ABSENT, 0, 0), Reason::JobNotFound),
        row(get(ABSENT, 0, 1), Reason::JobNotFound),
        row(watch(ABSENT, None), Reason::JobNotFound),
        row(watch(ABSENT, Some(0)), Reason::JobNotFound),
        row(revoke(ABSENT, ""), Reason::JobNotFound),
        row(act(ABSENT, pause()), Reason::JobNotFound),
        row(act(ABSENT, approve()), Reason::JobNotFound),
        row(get(ASKED, 3, 0), Reason::StepNotFound),
        row(get(ASKED, i32::MAX, 0), Reason::StepNotFound),
        row(act(ASKED, approve_that(UUID)), Reason::ApprovalNotFound),
        row(Call::Resend(resend), Reason::NoticeNotFound),
        row(Call::Submit(job(ASKED, [wait(1)])), Reason::JobIdConflict),
        row(act_once(ASKED, "once", cancel()), Reason::RequestIdConflict),
        row(act(ASKED, retry(0)), Reason::JobStateConflict),
        row(act(DONE, pause()), Reason::JobStateConflict),
        row(act(DONE, cancel()), Reason::JobStateConflict),
        row(sending_back(|_| {}), Reason::ChangesNotAllowed),
        row(approving(|all| all.edited_output = Some("Mine.".to_owned())), Reason::EditNotAllowed),
        row(watch(DONE, Some(999)), Reason::SequenceOutOfRange),
        row(watch(DONE, Some(i32::MAX)), Reason::SequenceOutOfRange),
        row(act(DONE, resume()), Reason::JobStateConflict),
    ]
}

/// Each is one call with one fault.
pub(super) fn rows() -> Vec<Row> {
    let wrong = with_ids_of_jobs().into_iter().chain(with_actions()).chain(with_pages());
    let wrong = wrong.chain(with_many());
    let wrong = wrong.map(|(call, field)| Row(call, Reason::InvalidRequest, field));
    wrong.chain(against_the_state()).collect()
}
