//! Jobs of any shape, for the laws to hold of.

use std::collections::BTreeMap;

use chrono::{DateTime, TimeDelta, Utc};
use proptest::prelude::*;

use crate::domain::event::NoticeKind;
use crate::domain::spec::{
    ApprovalOptions, ApprovalSpec, Hook, RunOptions, RunSpec, Spec, StepSpec, WaitSpec, Work,
};
use crate::domain::submission::{ContextMode, TimeoutPolicy};

/// Whom an approval escalates to.
pub(super) const ESCALATED: &str = "+15550108";

/// When people are reminded, and when more are asked, before it is known how much time there is.
fn coming() -> impl Strategy<Value = (Vec<i64>, Option<i64>)> {
    (proptest::collection::vec(0_i64..300, 0..3), proptest::option::of(0_i64..300))
}

fn works() -> impl Strategy<Value = Work> {
    let policies = [TimeoutPolicy::Fail, TimeoutPolicy::Approve, TimeoutPolicy::Reject];
    let policy = proptest::sample::select(policies.to_vec());
    prop_oneof![
        3 => Just(Work::Run(RunSpec {
            prompt: "p".to_owned(), system: None, model: "m".to_owned(), max_tokens: 1, web_search: None,
            context: ContextMode::None, timeout_seconds: 1, idle_timeout_seconds: 1,
            options: RunOptions::default(),
        })),
        2 => (1_i32..3, 2_i64..300, policy, any::<bool>(), 0_i32..3, coming()).prop_map(|(quorum, timeout_seconds, on_timeout, allow_edit, max_revisions, (reminders, escalation))| {
            let within = |seconds: i64| 1 + seconds % (timeout_seconds - 1);
            let mut remind_before_seconds: Vec<i64> = reminders.into_iter().map(within).collect();
            remind_before_seconds.sort_unstable_by(|one, other| other.cmp(one));
            remind_before_seconds.dedup();
            let escalate_after_seconds = escalation.map(within);
            let escalate_to = escalation.iter().map(|_| ESCALATED.to_owned()).collect();
            let options = ApprovalOptions {
                allow_edit, max_revisions, revise_step: 0,
                remind_before_seconds, escalate_after_seconds, escalate_to,
            };
            let approvers = vec!["+15550100".to_owned(), "+15550101".to_owned()];
            Work::Approval(ApprovalSpec { note: String::new(), approvers, quorum, timeout_seconds, on_timeout, options })
        }),
        1 => (0_i64..60).prop_map(|seconds| Work::Wait(WaitSpec::DurationSeconds(seconds))),
        1 => Just(Work::Wait(WaitSpec::DurationSeconds(0))),
        1 => (-60_i64..60).prop_map(|seconds| {
            Work::Wait(WaitSpec::UntilAt(start() + TimeDelta::seconds(seconds)))
        }),
    ]
}

/// The steps, of which those that show nothing can neither be edited nor sent back.
fn fitting(works: Vec<Work>) -> Vec<StepSpec> {
    let mut shown = 0;
    let steps = (1..).zip(works).map(|(number, mut work)| {
        match &mut work {
            Work::Run(_) => shown = number,
            Work::Approval(approval) if shown == 0 => approval.options = ApprovalOptions::default(),
            Work::Approval(approval) => approval.options.revise_step = shown,
            Work::Wait(_) => {}
        }
        StepSpec { name: None, work }
    });
    steps.collect()
}

pub(super) fn specs() -> impl Strategy<Value = Spec> {
    let steps = proptest::collection::vec(works(), 1..6);
    (steps, 0_i32..3, 0_i64..600, proptest::option::of(-30_i64..60)).prop_map(
        |(works, max_attempts, retry_window_seconds, run_in)| Spec {
            task: String::new(),
            system: None,
            steps: fitting(works),
            max_attempts,
            retry_window_seconds,
            notify: vec!["+15550100".to_owned(), "+15550102".to_owned()],
            language: None,
            labels: BTreeMap::default(),
            priority: 0,
            run_at: run_in.map(|seconds| start() + TimeDelta::seconds(seconds)),
            budget_usd: None,
            webhooks: vec![hook()],
            at_endpoints: BTreeMap::default(),
        },
    )
}

/// An endpoint that is told of everything.
fn hook() -> Hook {
    let events = NoticeKind::FOR_ENDPOINTS.to_vec();
    Hook { name: "ops".to_owned(), events }
}

pub(super) fn start() -> DateTime<Utc> {
    DateTime::from_timestamp(1_764_000_000, 0).expect("a time")
}
