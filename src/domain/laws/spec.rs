//! Jobs of any shape, for the laws to hold of.

use std::collections::BTreeMap;

use chrono::{DateTime, TimeDelta, Utc};
use proptest::prelude::*;

use crate::domain::spec::{ApprovalSpec, RunOptions, RunSpec, Spec, StepSpec, WaitSpec, Work};
use crate::domain::submission::{ContextMode, TimeoutPolicy};

fn works() -> impl Strategy<Value = Work> {
    let policies = [TimeoutPolicy::Fail, TimeoutPolicy::Approve, TimeoutPolicy::Reject];
    let policy = proptest::sample::select(policies.to_vec());
    prop_oneof![
        3 => Just(Work::Run(RunSpec {
            prompt: "p".to_owned(), system: None, model: "m".to_owned(), max_tokens: 1, web_search: None,
            context: ContextMode::None, timeout_seconds: 1, idle_timeout_seconds: 1,
            options: RunOptions::default(),
        })),
        2 => (1_i32..3, 1_i64..300, policy).prop_map(|(quorum, timeout_seconds, on_timeout)| {
            let approvers = vec!["+15550100".to_owned(), "+15550101".to_owned()];
            Work::Approval(ApprovalSpec { note: String::new(), approvers, quorum, timeout_seconds, on_timeout })
        }),
        1 => (0_i64..60).prop_map(|seconds| Work::Wait(WaitSpec::DurationSeconds(seconds))),
        1 => Just(Work::Wait(WaitSpec::DurationSeconds(0))),
        1 => (-60_i64..60).prop_map(|seconds| {
            Work::Wait(WaitSpec::UntilAt(start() + TimeDelta::seconds(seconds)))
        }),
    ]
}

pub(super) fn specs() -> impl Strategy<Value = Spec> {
    let steps = proptest::collection::vec(works(), 1..6);
    (steps, 0_i32..3, 0_i64..600, proptest::option::of(-30_i64..60)).prop_map(
        |(works, max_attempts, retry_window_seconds, run_in)| Spec {
            task: String::new(),
            system: None,
            steps: works.into_iter().map(|work| StepSpec { name: None, work }).collect(),
            max_attempts,
            retry_window_seconds,
            notify: vec!["+15550100".to_owned(), "+15550102".to_owned()],
            language: None,
            labels: BTreeMap::default(),
            priority: 0,
            run_at: run_in.map(|seconds| start() + TimeDelta::seconds(seconds)),
            budget_usd: None,
        },
    )
}

pub(super) fn start() -> DateTime<Utc> {
    DateTime::from_timestamp(1_764_000_000, 0).expect("a time")
}
