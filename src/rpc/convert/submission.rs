//! A submit request becomes a submission: what is empty or zero is absent, unless the proto says `optional`.
//!
//! Only what a submission cannot express is a fault here; everything else is judged by `domain::validate`.

use super::{moment, word};
use crate::domain::money::Usd;
use crate::domain::submission as domain;
use crate::domain::validate::{Faults, STEPS_MAX, Violation};
use crate::rpc::proto::{self, step::Kind, wait_step::Wait};

/// The submission that was sent.
pub fn submission(request: proto::SubmitJobRequest) -> Result<domain::Submission, Vec<Violation>> {
    let mut faults = Faults::default();
    let count = request.steps.len();
    if count > STEPS_MAX {
        // There may be millions, which are not worth a look.
        faults.add("steps", format!("must have 1 to {STEPS_MAX} steps, has {count}"));
    }
    faults.into_result()?;
    let mut faults = Faults::default();
    let steps = request.steps.into_iter().enumerate();
    let steps = steps.filter_map(|(at, sent)| step(at, sent, &mut faults)).collect();
    let settings = settings(request.settings.unwrap_or_default(), &mut faults);
    faults.into_result()?;
    Ok(domain::Submission { job_id: text(request.job_id), task: request.task, steps, settings })
}

/// Where two submissions differ, with the kind of the step in the path, as all other fields are named.
pub fn differing_field(field: &str, submission: &domain::Submission) -> String {
    let inside = || {
        let (at, name) = field.strip_prefix("steps[")?.split_once("].")?;
        let kind = match submission.steps.get(at.parse::<usize>().ok()?)? {
            domain::Step::Run(_) => "run",
            domain::Step::Approval(_) => "approval",
            domain::Step::Wait(_) => "wait",
        };
        Some(match name {
            "type" => format!("steps[{at}]"),
            "name" => format!("steps[{at}].name"),
            name => format!("steps[{at}].{kind}.{name}"),
        })
    };
    inside().unwrap_or_else(|| field.to_owned())
}

fn step(at: usize, sent: proto::Step, faults: &mut Faults) -> Option<domain::Step> {
    let name = text(sent.name);
    let Some(kind) = sent.kind else {
        faults.add(format!("steps[{at}]"), "must have one of run, approval, wait");
        return None;
    };
    Some(match kind {
        Kind::Run(run) => domain::Step::Run(run_step(at, name, *run, faults)),
        Kind::Approval(approval) => {
            let field = format!("steps[{at}].approval.on_timeout");
            domain::Step::Approval(domain::ApprovalStep {
                name,
                note: approval.note,
                approvers: approval.approvers,
                quorum: number(approval.quorum),
                timeout_seconds: number(approval.timeout_seconds),
                on_timeout: word::read::<proto::TimeoutPolicy>(&field, approval.on_timeout, faults),
                remind_before_seconds: approval.remind_before_seconds,
                escalate_after_seconds: number(approval.escalate_after_seconds),
                escalate_to: approval.escalate_to,
                allow_edit: approval.allow_edit,
                max_revisions: number(approval.max_revisions),
                revise_step: number(approval.revise_step),
            })
        }
        Kind::Wait(wait) => {
            let field = format!("steps[{at}].wait.until_at");
            let (duration_seconds, until_at) = match wait.wait {
                Some(Wait::DurationSeconds(seconds)) => (Some(seconds), None),
                Some(Wait::UntilAt(until_at)) => (None, moment(&field, Some(until_at), faults)),
                None => (None, None),
            };
            domain::Step::Wait(domain::WaitStep { name, duration_seconds, until_at })
        }
    })
}

fn run_step(
    at: usize,
    name: Option<String>,
    run: proto::RunStep,
    faults: &mut Faults,
) -> domain::RunStep {
    let field = |name: &str| format!("steps[{at}].run.{name}");
    domain::RunStep {
        name,
        prompt: run.prompt,
        system: text(run.system),
        model: text(run.model),
        max_tokens: number(run.max_tokens),
        web_search: run.web_search.map(|search| domain::WebSearch {
            max_uses: number(search.max_uses),
            allowed_domains: search.allowed_domains,
            blocked_domains: search.blocked_domains,
            user_location: search.user_location.map(|location| domain::UserLocation {
                city: location.city,
                region: location.region,
                country: location.country,
                timezone: location.timezone,
            }),
        }),
        context: word::read::<proto::ContextMode>(&field("context"), run.context, faults),
        timeout_seconds: number(run.timeout_seconds),
        idle_timeout_seconds: number(run.idle_timeout_seconds),
        effort: word::read::<proto::Effort>(&field("effort"), run.effort, faults),
        output_schema_json: text(run.output_schema_json),
        stop_sequences: run.stop_sequences,
        on_truncated: word::read::<proto::TruncationPolicy>(
            &field("on_truncated"),
            run.on_truncated,
            faults,
        ),
        extra_json: text(run.extra_json),
        on_interrupt: word::read::<proto::InterruptPolicy>(
            &field("on_interrupt"),
            run.on_interrupt,
            faults,
        ),
        mode: word::read::<proto::RunMode>(&field("mode"), run.mode, faults),
    }
}

fn settings(sent: proto::JobSettings, faults: &mut Faults) -> domain::Settings {
    domain::Settings {
        model: text(sent.model),
        max_tokens: number(sent.max_tokens),
        system: text(sent.system),
        max_attempts: sent.max_attempts,
        retry_window_seconds: sent.retry_window_seconds,
        notify: sent.notify,
        webhooks: sent.webhooks,
        language: text(sent.language),
        labels: sent.labels.into_iter().collect(),
        priority: number(sent.priority),
        run_at: moment("settings.run_at", sent.run_at, faults),
        budget_usd: dollars("settings.budget_usd", &sent.budget_usd, faults),
    }
}

/// An amount; empty is absent.
pub(super) fn dollars(field: &str, sent: &str, faults: &mut Faults) -> Option<Usd> {
    if sent.is_empty() {
        return None;
    }
    let amount = sent.parse().ok();
    if amount.is_none() {
        faults.add(field, format!("must be a decimal such as `2.50`, is {sent:?}"));
    }
    amount
}

pub(super) fn text(sent: String) -> Option<String> {
    Some(sent).filter(|text| !text.is_empty())
}

pub(super) fn number(sent: i32) -> Option<i32> {
    Some(sent).filter(|number| *number != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(kind: Option<Kind>) -> proto::SubmitJobRequest {
        let steps = vec![proto::Step { name: String::new(), kind }];
        proto::SubmitJobRequest { steps, ..proto::SubmitJobRequest::default() }
    }

    fn run(run: proto::RunStep) -> proto::SubmitJobRequest {
        request(Some(Kind::Run(Box::new(run))))
    }

    fn fields(request: proto::SubmitJobRequest) -> Vec<String> {
        let faults = submission(request).unwrap_err();
        faults.into_iter().map(|fault| fault.field).collect()
    }

    #[test]
    fn zero_and_empty_are_absent() {
        let empty = submission(run(proto::RunStep::default())).unwrap();
        let expected = domain::Submission {
            steps: vec![domain::Step::Run(domain::RunStep::default())],
            ..domain::Submission::default()
        };
        assert_eq!(empty, expected);
        let approval = submission(request(Some(Kind::Approval(Box::default()))));
        let expected = domain::Step::Approval(domain::ApprovalStep::default());
        assert_eq!(approval.unwrap().steps[0], expected);
    }

    #[test]
    fn an_optional_zero_is_not_absent() {
        let settings = proto::JobSettings {
            max_attempts: Some(0),
            retry_window_seconds: Some(0),
            ..proto::JobSettings::default()
        };
        let request =
            proto::SubmitJobRequest { settings: Some(settings), ..run(proto::RunStep::default()) };
        let settings = submission(request).unwrap().settings;
        assert_eq!((settings.max_attempts, settings.retry_window_seconds), (Some(0), Some(0)));
    }

    #[test]
    fn a_wait_of_zero_is_a_wait_and_none_is_left_to_validation() {
        let wait = |wait| submission(request(Some(Kind::Wait(proto::WaitStep { wait })))).unwrap();
        let zero = domain::WaitStep { duration_seconds: Some(0), ..domain::WaitStep::default() };
        assert_eq!(wait(Some(Wait::DurationSeconds(0))).steps[0], domain::Step::Wait(zero));
        assert_eq!(wait(None).steps[0], domain::Step::Wait(domain::WaitStep::default()));
    }

    #[test]
    fn what_a_submission_cannot_express_is_a_fault_with_its_field() {
        assert_eq!(fields(request(None)), ["steps[0]"]);
        let unknown = proto::RunStep { context: 77, ..proto::RunStep::default() };
        assert_eq!(fields(run(unknown)), ["steps[0].run.context"]);
        let unknown = proto::ApprovalStep { on_timeout: -1, ..proto::ApprovalStep::default() };
        assert_eq!(
            fields(request(Some(Kind::Approval(Box::new(unknown))))),
            ["steps[0].approval.on_timeout"]
        );
        let never = prost_types::Timestamp { seconds: i64::MAX, nanos: 0 };
        let wait = proto::WaitStep { wait: Some(Wait::UntilAt(never)) };
        assert_eq!(fields(request(Some(Kind::Wait(wait)))), ["steps[0].wait.until_at"]);
    }

    #[test]
    fn a_step_of_two_bytes_becomes_little_before_steps_are_counted() {
        // Two million of them fit into a request.
        assert!(size_of::<proto::Step>() <= 48, "{}", size_of::<proto::Step>());
    }

    #[test]
    fn a_difference_is_named_as_the_request_names_it() {
        let submission = submission(run(proto::RunStep::default())).unwrap();
        for (field, expected) in [
            ("steps[0].prompt", "steps[0].run.prompt"),
            ("steps[0].web_search.max_uses", "steps[0].run.web_search.max_uses"),
            ("steps[0].type", "steps[0]"),
            ("steps[0].name", "steps[0].name"),
            ("steps[7]", "steps[7]"),
            ("settings.labels.a", "settings.labels.a"),
        ] {
            assert_eq!(differing_field(field, &submission), expected);
        }
    }
}
