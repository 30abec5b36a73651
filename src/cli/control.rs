//! `longhaul pause, resume, cancel, retry, approve, reject`: one action on one job, or on those that are picked.
//!
//! In come a job's id and what the action needs; out goes how the job stands after it.
//! An action that had already taken effect is no error: it says that nothing changed.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use clap::Args;
use serde_json::json;

use super::bulk::{self, PickArgs};
use super::{
    client::{ClientArgs, call_error},
    exit::Exit,
    json,
    render::one_line,
    word,
};
use crate::rpc::proto::{
    ApproveAction, CancelAction, ControlRequest, PauseAction, RejectAction, RequestChangesAction,
    ResumeAction, RetryAction, control_jobs_request::Action as Bulk, control_request::Action,
};

/// The job an action is for.
#[derive(Args, Debug)]
struct Target {
    /// The job's id
    job: String,
    /// An id of your own for this action: asked again with it, the answer is the same as the first time
    #[arg(long, value_name = "ID", default_value = "", hide_default_value = true)]
    request_id: String,
    #[command(flatten)]
    client: ClientArgs,
}

/// The job an action is for, or which jobs.
#[derive(Args, Debug)]
struct Targets {
    /// The job's id; or pick jobs with --where, --created-from and --created-before
    #[arg(
        required_unless_present_any = ["where", "created_from", "created_before"],
        conflicts_with_all = ["where", "created_from", "created_before"]
    )]
    job: Option<String>,
    /// An id of your own for this action: asked again with it, the answer is the same as the first time
    #[arg(long, value_name = "ID", default_value = "", hide_default_value = true)]
    request_id: String,
    #[command(flatten)]
    pick: PickArgs,
    #[command(flatten)]
    client: ClientArgs,
}

/// Hold a job where it is, or many
#[derive(Args, Debug)]
pub struct PauseArgs {
    #[command(flatten)]
    targets: Targets,
    /// Abort the model call in hand instead of letting it finish
    #[arg(long)]
    now: bool,
}

/// Let a paused job go on, or many
#[derive(Args, Debug)]
pub struct ResumeArgs {
    #[command(flatten)]
    targets: Targets,
    /// What the job may cost at the most from now on, in US dollars
    #[arg(long, value_name = "USD", default_value = "", hide_default_value = true)]
    budget: String,
}

/// End a job, or many
#[derive(Args, Debug)]
pub struct CancelArgs {
    #[command(flatten)]
    targets: Targets,
    /// Why; shown in the job's history
    #[arg(long, default_value = "", hide_default_value = true)]
    comment: String,
}

/// Begin again a job that failed or was cancelled, or many
#[derive(Args, Debug)]
pub struct RetryArgs {
    #[command(flatten)]
    targets: Targets,
    /// The step to begin at, instead of the one that failed
    #[arg(long, value_name = "STEP", default_value_t = 0, hide_default_value = true)]
    from_step: i32,
}

/// What a decision takes.
#[derive(Args, Debug)]
pub struct DecideArgs {
    #[command(flatten)]
    target: Target,
    /// The approval that is meant; needed once a job has asked more than one
    #[arg(long, value_name = "ID", default_value = "", hide_default_value = true)]
    approval_id: String,
    /// What you say about it; shown in the job's history
    #[arg(long, default_value = "", hide_default_value = true)]
    comment: String,
    /// Who decides, if you speak for somebody
    #[arg(long = "as", value_name = "NAME", default_value = "", hide_default_value = true)]
    on_behalf_of: String,
}

/// Approve what a job asks
#[derive(Args, Debug)]
pub struct ApproveArgs {
    #[command(flatten)]
    decide: DecideArgs,
    /// A file with what takes the place of the output that is shown, where the step lets it be edited; `-` is standard input
    #[arg(long, value_name = "FILE")]
    edited_output: Option<PathBuf>,
}

impl PauseArgs {
    /// Runs the command.
    pub async fn run(self) -> Result<Exit> {
        let pause = PauseAction { now: self.now };
        self.targets.act(Action::Pause(pause), Bulk::Pause(pause)).await
    }
}

impl ResumeArgs {
    /// Runs the command.
    pub async fn run(self) -> Result<Exit> {
        let resume = ResumeAction { budget_usd: self.budget };
        self.targets.act(Action::Resume(resume.clone()), Bulk::Resume(resume)).await
    }
}

impl CancelArgs {
    /// Runs the command.
    pub async fn run(self) -> Result<Exit> {
        let cancel = CancelAction { comment: self.comment };
        self.targets.act(Action::Cancel(cancel.clone()), Bulk::Cancel(cancel)).await
    }
}

impl RetryArgs {
    /// Runs the command.
    pub async fn run(self) -> Result<Exit> {
        let retry = RetryAction { from_step: self.from_step };
        self.targets.act(Action::Retry(retry), Bulk::Retry(retry)).await
    }
}

impl ApproveArgs {
    /// Votes for going on.
    pub async fn run(self) -> Result<Exit> {
        let edited_output = self.edited_output.as_deref().map(read_text).transpose()?;
        let DecideArgs { target, approval_id, comment, on_behalf_of } = self.decide;
        let vote = ApproveAction { approval_id, comment, on_behalf_of, edited_output };
        act(target, Action::Approve(vote)).await
    }
}

impl DecideArgs {
    /// Has the step that is shown done again.
    pub async fn request_changes(self) -> Result<Exit> {
        let Self { target, approval_id, comment, on_behalf_of } = self;
        let vote = RequestChangesAction { approval_id, comment, on_behalf_of };
        act(target, Action::RequestChanges(vote)).await
    }

    /// Votes for ending the job.
    pub async fn reject(self) -> Result<Exit> {
        let Self { target, approval_id, comment, on_behalf_of } = self;
        let vote = RejectAction { approval_id, comment, on_behalf_of };
        act(target, Action::Reject(vote)).await
    }
}

impl Targets {
    /// The action on the one job, or the same on all that are picked.
    async fn act(self, action: Action, bulk: Bulk) -> Result<Exit> {
        let Self { job, request_id, pick, client } = self;
        match job {
            Some(job) => act(Target { job, request_id, client }, action).await,
            None => bulk::run(pick, request_id, &client, bulk).await,
        }
    }
}

fn read_text(file: &Path) -> Result<String> {
    if file == Path::new("-") {
        return io::read_to_string(io::stdin()).context("reading the output from stdin");
    }
    fs::read_to_string(file).with_context(|| format!("reading {}", file.display()))
}

async fn act(target: Target, action: Action) -> Result<Exit> {
    let mut client = target.client.connect().await?;
    let format = target.client.format;
    let Target { job: job_id, request_id, .. } = target;
    let request = ControlRequest { job_id, request_id, action: Some(action) };
    let reply = client.control(request).await.map_err(call_error)?.into_inner();
    let job = reply.job.context("the server answered without a job")?;
    let for_machines = || json!({"job": json::job(&job), "changed": reply.changed});
    if format.told(&mut io::stdout(), for_machines)? {
        return Ok(Exit::Ok);
    }
    let mut stands = word::job_status(job.status).replace('_', " ");
    if job.pause_requested {
        stands.push_str(", and pauses when its step is done");
    }
    let unchanged = if reply.changed { "" } else { "nothing changed: " };
    writeln!(io::stdout(), "{unchanged}job {} is {stands}", one_line(&job.job_id))?;
    Ok(Exit::Ok)
}
