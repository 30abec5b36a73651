//! Short ways to write jobs and actions as a gRPC client sends them.

use longhaul::rpc::proto::{
    ApprovalStep, ApproveAction, CancelAction, JobSettings, PauseAction, RejectAction,
    ResumeAction, RetryAction, RunStep, Step, SubmitJobRequest, WaitStep, control_request::Action,
    step::Kind, wait_step::Wait,
};

/// A job of these steps, without settings.
pub fn job(job_id: &str, steps: impl IntoIterator<Item = Step>) -> SubmitJobRequest {
    SubmitJobRequest {
        job_id: job_id.to_owned(),
        task: "Launch copy".to_owned(),
        steps: steps.into_iter().collect(),
        ..SubmitJobRequest::default()
    }
}

/// The same job with settings.
pub fn with(settings: JobSettings, job: SubmitJobRequest) -> SubmitJobRequest {
    SubmitJobRequest { settings: Some(settings), ..job }
}

/// A run step.
pub fn run(prompt: &str) -> Step {
    run_step(RunStep { prompt: prompt.to_owned(), ..RunStep::default() })
}

/// A run step with more than a prompt.
pub fn run_step(run: RunStep) -> Step {
    Step { name: String::new(), kind: Some(Kind::Run(Box::new(run))) }
}

/// The same step with a name.
pub fn named(name: &str, step: Step) -> Step {
    Step { name: name.to_owned(), ..step }
}

/// An approval step that asks whoever is to be notified.
pub fn approval(note: &str) -> Step {
    approval_step(ApprovalStep { note: note.to_owned(), ..ApprovalStep::default() })
}

/// An approval step with more than a note.
pub fn approval_step(approval: ApprovalStep) -> Step {
    Step { name: String::new(), kind: Some(Kind::Approval(Box::new(approval))) }
}

/// A wait step.
pub fn wait(duration_seconds: i32) -> Step {
    let wait = Some(Wait::DurationSeconds(duration_seconds));
    Step { name: String::new(), kind: Some(Kind::Wait(WaitStep { wait })) }
}

pub fn pause() -> Action {
    Action::Pause(PauseAction { now: false })
}

pub fn pause_now() -> Action {
    Action::Pause(PauseAction { now: true })
}

pub fn resume() -> Action {
    Action::Resume(ResumeAction::default())
}

pub fn cancel() -> Action {
    Action::Cancel(CancelAction::default())
}

/// A retry at a step; 0 is the one where the job ended.
pub fn retry(from_step: i32) -> Action {
    Action::Retry(RetryAction { from_step })
}

pub fn approve() -> Action {
    Action::Approve(ApproveAction::default())
}

pub fn reject() -> Action {
    Action::Reject(RejectAction::default())
}

/// An approval in somebody's name.
pub fn approve_as(who: &str) -> Action {
    Action::Approve(ApproveAction { on_behalf_of: who.to_owned(), ..ApproveAction::default() })
}

/// A decision about a certain approval.
pub fn approve_that(approval_id: &str) -> Action {
    Action::Approve(ApproveAction { approval_id: approval_id.to_owned(), ..Default::default() })
}
