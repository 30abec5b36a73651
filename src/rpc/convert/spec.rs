//! The specification of a job as the proto's `JobSpec`: the request with every default visible.
//!
//! The model and the length that a run step took from the settings stand in the step itself; people are not masked, since it is what was sent.

use super::timestamp;
use crate::domain::spec::{ApprovalSpec, RunSpec, Spec, StepSpec, WaitSpec, WebSearchSpec, Work};
use crate::rpc::proto::{self, step::Kind, wait_step::Wait};

/// The submission with the defaults that were frozen.
pub fn job_spec(spec: &Spec) -> proto::JobSpec {
    let settings = proto::JobSettings {
        model: String::new(),
        max_tokens: 0,
        system: spec.system.clone().unwrap_or_default(),
        max_attempts: Some(spec.max_attempts),
        retry_window_seconds: Some(int32(spec.retry_window_seconds)),
        notify: spec.notify.clone(),
        webhooks: spec.webhooks.iter().map(|hook| hook.name.clone()).collect(),
        language: spec.language.clone().unwrap_or_default(),
        labels: spec.labels.clone().into_iter().collect(),
        priority: spec.priority,
        run_at: spec.run_at.map(timestamp),
        budget_usd: spec.budget_usd.map(|budget| budget.to_string()).unwrap_or_default(),
    };
    let steps = spec.steps.iter().map(step).collect();
    proto::JobSpec { task: spec.task.clone(), steps, settings: Some(settings) }
}

fn step(step: &StepSpec) -> proto::Step {
    let kind = match &step.work {
        Work::Run(run) => Kind::Run(Box::new(run_step(run))),
        Work::Approval(approval) => Kind::Approval(Box::new(approval_step(approval))),
        Work::Wait(wait) => Kind::Wait(proto::WaitStep {
            wait: Some(match wait {
                WaitSpec::DurationSeconds(duration) => Wait::DurationSeconds(int32(*duration)),
                WaitSpec::UntilAt(until_at) => Wait::UntilAt(timestamp(*until_at)),
            }),
        }),
    };
    proto::Step { name: step.name.clone().unwrap_or_default(), kind: Some(kind) }
}

fn run_step(run: &RunSpec) -> proto::RunStep {
    proto::RunStep {
        prompt: run.prompt.clone(),
        system: run.system.clone().unwrap_or_default(),
        model: run.model.clone(),
        max_tokens: int32(run.max_tokens.into()),
        web_search: run.web_search.as_ref().map(web_search),
        context: proto::ContextMode::from(run.context).into(),
        timeout_seconds: int32(run.timeout_seconds.into()),
        idle_timeout_seconds: int32(run.idle_timeout_seconds.into()),
        effort: run.options.effort.map_or(proto::Effort::Unspecified, Into::into).into(),
        output_schema_json: run.options.output_schema_json.clone().unwrap_or_default(),
        stop_sequences: run.options.stop_sequences.clone(),
        on_truncated: proto::TruncationPolicy::from(run.options.on_truncated).into(),
        extra_json: run.options.extra_json.clone().unwrap_or_default(),
        on_interrupt: proto::InterruptPolicy::from(run.options.on_interrupt).into(),
        mode: proto::RunMode::from(run.options.mode).into(),
    }
}

fn web_search(search: &WebSearchSpec) -> proto::WebSearch {
    proto::WebSearch {
        max_uses: int32(search.max_uses.into()),
        allowed_domains: search.allowed_domains.clone(),
        blocked_domains: search.blocked_domains.clone(),
        user_location: search.user_location.clone().map(|location| proto::UserLocation {
            city: location.city,
            region: location.region,
            country: location.country,
            timezone: location.timezone,
        }),
    }
}

fn approval_step(approval: &ApprovalSpec) -> proto::ApprovalStep {
    let options = &approval.options;
    proto::ApprovalStep {
        note: approval.note.clone(),
        approvers: approval.approvers.clone(),
        quorum: approval.quorum,
        timeout_seconds: int32(approval.timeout_seconds),
        on_timeout: proto::TimeoutPolicy::from(approval.on_timeout).into(),
        remind_before_seconds: options
            .remind_before_seconds
            .iter()
            .map(|one| int32(*one))
            .collect(),
        escalate_after_seconds: int32(options.escalate_after_seconds.unwrap_or(0)),
        escalate_to: options.escalate_to.clone(),
        allow_edit: options.allow_edit,
        max_revisions: options.max_revisions,
        revise_step: options.revise_step,
    }
}

/// Every number was checked at submit to be far smaller than this border.
fn int32(number: i64) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::domain::spec::Defaults;
    use crate::domain::submission::ContextMode;
    use crate::domain::validate::freeze;
    use crate::rpc::convert::submission::submission;

    fn frozen(request: proto::SubmitJobRequest) -> Spec {
        let defaults = Defaults {
            model: "model-1".to_owned(),
            max_tokens: 4096,
            notify: vec!["+15550100".to_owned()],
            language: None,
            context: ContextMode::Conversation,
            book: Arc::default(),
        };
        freeze(&submission(request).unwrap(), &defaults).unwrap()
    }

    #[test]
    fn every_default_is_visible() {
        let kinds = [
            Kind::Run(Box::new(proto::RunStep {
                prompt: "p".to_owned(),
                ..proto::RunStep::default()
            })),
            Kind::Approval(Box::default()),
            Kind::Wait(proto::WaitStep { wait: Some(Wait::DurationSeconds(0)) }),
        ];
        let steps = kinds.map(|kind| proto::Step { name: String::new(), kind: Some(kind) }).into();
        let request = proto::SubmitJobRequest { steps, ..proto::SubmitJobRequest::default() };
        let shown = job_spec(&frozen(request));
        let run = proto::RunStep {
            prompt: "p".to_owned(),
            model: "model-1".to_owned(),
            max_tokens: 4096,
            context: proto::ContextMode::Conversation.into(),
            timeout_seconds: 3600,
            idle_timeout_seconds: 300,
            on_truncated: proto::TruncationPolicy::Fail.into(),
            on_interrupt: proto::InterruptPolicy::Restart.into(),
            mode: proto::RunMode::Stream.into(),
            ..proto::RunStep::default()
        };
        assert_eq!(shown.steps[0].kind, Some(Kind::Run(Box::new(run))));
        let approval = proto::ApprovalStep {
            approvers: vec!["+15550100".to_owned()],
            quorum: 1,
            timeout_seconds: 86_400,
            on_timeout: proto::TimeoutPolicy::Fail.into(),
            ..proto::ApprovalStep::default()
        };
        assert_eq!(shown.steps[1].kind, Some(Kind::Approval(Box::new(approval))));
        let settings = shown.settings.unwrap();
        assert_eq!((settings.max_attempts, settings.retry_window_seconds), (Some(3), Some(86_400)));
    }

    #[test]
    fn what_is_shown_freezes_to_itself_when_it_is_sent_again() {
        let run = proto::RunStep {
            prompt: "p".to_owned(),
            system: "s".to_owned(),
            web_search: Some(proto::WebSearch { max_uses: 2, ..proto::WebSearch::default() }),
            ..proto::RunStep::default()
        };
        let wait = proto::WaitStep {
            wait: Some(Wait::UntilAt(prost_types::Timestamp { seconds: 1, nanos: 2 })),
        };
        let steps = [Kind::Run(Box::new(run)), Kind::Wait(wait)];
        let steps = steps.map(|kind| proto::Step { name: String::new(), kind: Some(kind) }).into();
        let spec = frozen(proto::SubmitJobRequest { steps, ..proto::SubmitJobRequest::default() });
        let proto::JobSpec { task, steps, settings } = job_spec(&spec);
        let again =
            proto::SubmitJobRequest { task, steps, settings, ..proto::SubmitJobRequest::default() };
        assert_eq!(frozen(again), spec);
    }
}
