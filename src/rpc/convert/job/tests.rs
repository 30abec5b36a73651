//! What of a job is shown, how, and how much of it.

use std::collections::BTreeMap;
use std::sync::Arc;

use StepStatus::{Active, Done, Failed, Pending};
use chrono::DateTime;
use uuid::Uuid;

use super::*;
use crate::domain::approval::{Door, Verdict};
use crate::domain::event::{Delivery, NoticeKind};
use crate::domain::id::{ApprovalId, JobKey, NoticeId};
use crate::domain::job::{JobState, Status};
use crate::domain::spec::{ApprovalOptions, ApprovalSpec, RunOptions, RunSpec, Spec, Work};
use crate::domain::submission::{ContextMode, TimeoutPolicy};
use crate::store::job::DoneStep;

const NOW: DateTime<chrono::Utc> = DateTime::UNIX_EPOCH;
const PERSON: &str = "+15550100";

fn run_step() -> StepSpec {
    let run = RunSpec {
        prompt: "p".to_owned(),
        system: None,
        model: "m".to_owned(),
        max_tokens: 1,
        web_search: None,
        context: ContextMode::None,
        timeout_seconds: 1,
        idle_timeout_seconds: 1,
        options: RunOptions::default(),
    };
    StepSpec { name: Some("draft".to_owned()), work: Work::Run(run) }
}

fn approval_step() -> StepSpec {
    let approval = ApprovalSpec {
        note: "May it?".to_owned(),
        approvers: vec![PERSON.to_owned()],
        quorum: 1,
        timeout_seconds: 1,
        on_timeout: TimeoutPolicy::Fail,
        options: ApprovalOptions::default(),
    };
    StepSpec { name: None, work: Work::Approval(approval) }
}

fn view(steps: Vec<StepSpec>, status: Status, current_step: i32) -> JobView {
    let spec = Spec {
        task: "t".to_owned(),
        steps,
        system: None,
        max_attempts: 3,
        retry_window_seconds: 1,
        notify: vec![PERSON.to_owned()],
        language: None,
        labels: BTreeMap::new(),
        priority: 0,
        run_at: None,
        budget_usd: None,
        webhooks: Vec::new(),
        at_endpoints: BTreeMap::new(),
    };
    let state = JobState { status, current_step, ..JobState::new(spec.step_count(), NOW) };
    let view = JobView::as_if_stored(JobKey::new("job-1"), Arc::new(spec));
    JobView { state, lease_expires_at: Some(NOW), ..view }
}

fn done(output: &str) -> DoneStep {
    DoneStep {
        step: 1,
        revision: 1,
        output: Some(output.to_owned()),
        output_cut: false,
        citations: Vec::new(),
        model: Some("m".to_owned()),
        stop_reason: Some("end_turn".to_owned()),
        started_at: NOW,
        finished_at: NOW,
    }
}

fn vote() -> Decision {
    Decision {
        verdict: Verdict::Approve,
        voter: PERSON.to_owned(),
        door: Door::Link,
        comment: String::new(),
        edited: false,
        via: None,
        decided_at: NOW,
    }
}

fn statuses(view: &JobView) -> Vec<StepStatus> {
    job(view, REPLY_BYTES_MAX).steps.iter().map(proto::StepState::status).collect()
}

#[test]
fn steps_are_done_in_hand_or_to_come() {
    let steps = || vec![run_step(), run_step(), run_step()];
    let begun = |mut view: JobView| {
        view.state.step_started_at = Some(NOW);
        view
    };
    assert_eq!(statuses(&view(steps(), Status::Queued, 1)), [Pending, Pending, Pending]);
    assert_eq!(statuses(&begun(view(steps(), Status::Running, 2))), [Done, Active, Pending]);
    assert_eq!(statuses(&begun(view(steps(), Status::Paused, 2))), [Done, Active, Pending]);
    assert_eq!(statuses(&view(steps(), Status::Paused, 2)), [Done, Pending, Pending]);
    assert_eq!(statuses(&begun(view(steps(), Status::Failed, 2))), [Done, Failed, Pending]);
    assert_eq!(statuses(&view(steps(), Status::Cancelled, 1)), [Failed, Pending, Pending]);
    assert_eq!(statuses(&begun(view(steps(), Status::Completed, 3))), [Done, Done, Done]);
}

#[test]
fn nobodys_number_leaves_unmasked() {
    let mut view = view(vec![approval_step(), approval_step()], Status::AwaitingApproval, 2);
    view.done.insert(1, DoneStep { output: None, ..done("") });
    view.approval = Some(PendingApproval {
        approval_id: ApprovalId(Uuid::nil()),
        step: 2,
        quorum: 2,
        asked_at: NOW,
        decisions: vec![vote()],
        links: Vec::new(),
    });
    view.decisions.insert(1, vec![vote()]);
    view.notices.push(NoticeView {
        notice_id: Some(NoticeId::new()),
        tries: 1,
        created_at: NOW,
        recipient: PERSON.to_owned(),
        kind: NoticeKind::ApprovalRequested,
        delivery: Delivery::Sent,
        error: None,
        updated_at: NOW,
    });
    let job = job(&view, REPLY_BYTES_MAX);
    assert!(!format!("{job:?}").contains(PERSON));
    assert_eq!(job.notices[0].recipient, "…0100");
    assert_eq!(job.steps[0].decisions[0].by, "…0100");
    let approval = job.approval.unwrap();
    assert_eq!((approval.note.as_str(), approval.decisions[0].by.as_str()), ("May it?", "…0100"));
}

#[test]
fn an_unknown_cost_is_empty_and_none_is_zero() {
    let mut view = view(vec![run_step(), run_step()], Status::Running, 2);
    let some = "0.10".parse().unwrap();
    let spent =
        |unpriced_calls| Spent { calls: 2, cost_usd: some, unpriced_calls, ..Spent::default() };
    view.spent.insert(1, spent(0));
    view.spent.insert(2, spent(1));
    let shown = job(&view, REPLY_BYTES_MAX);
    assert_eq!([&shown.steps[0].cost_usd, &shown.steps[1].cost_usd], ["0.1", ""]);
    assert_eq!((shown.cost_usd.as_str(), shown.unpriced_calls), ("0.2", 1));
    assert_eq!(shown.usage.unwrap().calls, 4);
    view.spent.clear();
    let shown = job(&view, REPLY_BYTES_MAX);
    assert_eq!([&shown.cost_usd, &shown.steps[0].cost_usd], ["0", "0"]);
}

#[test]
fn the_output_is_that_of_the_last_run_step() {
    let mut view = view(vec![run_step(), run_step(), approval_step()], Status::Running, 3);
    view.done.insert(1, done("first"));
    view.done.insert(2, done("second"));
    assert_eq!(job(&view, REPLY_BYTES_MAX).output, "second");
    // As the store shows a job of which one step was asked for.
    view.done.insert(2, DoneStep { output: None, ..done("") });
    let shown = job(&view, REPLY_BYTES_MAX);
    assert_eq!((shown.output.as_str(), shown.steps[0].output.as_str()), ("", "first"));
    assert_eq!([shown.steps[0].output_cut, shown.steps[1].output_cut], [false, true]);
}

#[test]
fn times_are_shown_only_while_they_hold() {
    let mut view = view(vec![run_step()], Status::Running, 1);
    view.state.run_at = Some(NOW);
    let shown = job(&view, REPLY_BYTES_MAX);
    assert_eq!((shown.run_at.is_some(), shown.lease_expires_at.is_some()), (false, true));
    view.state.status = Status::Queued;
    let shown = job(&view, REPLY_BYTES_MAX);
    assert_eq!((shown.run_at.is_some(), shown.lease_expires_at.is_some()), (true, false));
}

#[test]
fn a_job_fits_its_reply() {
    let steps = (0..40).map(|_| run_step()).collect();
    let mut view = view(steps, Status::Completed, 40);
    for step in 1..=40 {
        let citation = Citation {
            url: "u".to_owned(),
            title: "t".to_owned(),
            cited_text: "记".repeat(10_000),
        };
        let long = DoneStep { citations: vec![citation], ..done(&"账".repeat(100_000)) };
        view.done.insert(step, long);
    }
    let shown = job(&view, REPLY_BYTES_MAX);
    assert!(shown.encoded_len() <= REPLY_BYTES_MAX);
    assert!(shown.steps.iter().all(|step| step.output_cut && step.output.len() > 1_000));
}

#[test]
fn where_a_specification_leaves_no_room_nothing_long_is_shown() {
    let mut view = view(vec![run_step(), run_step()], Status::Completed, 2);
    let citation =
        Citation { url: "u".repeat(2_000), title: "t".to_owned(), cited_text: "c".repeat(9) };
    view.done.insert(1, DoneStep { citations: vec![citation; 3], ..done("long ago") });
    for bytes_max in [0, 1, 2, 100] {
        let shown = job(&view, bytes_max);
        assert!(shown.output.is_empty() && shown.steps[0].output.is_empty(), "{bytes_max}");
        assert!(shown.steps[0].citations.is_empty() && shown.steps[0].output_cut, "{bytes_max}");
    }
}

#[test]
fn a_job_that_is_only_checked_is_queued_and_has_no_times() {
    let shown = as_if_stored(&view(vec![run_step()], Status::Queued, 1));
    assert_eq!((shown.status(), shown.step_count), (proto::JobStatus::Queued, 1));
    assert_eq!((shown.created_at, shown.updated_at, shown.current_step), (None, None, 0));
}
