//! Load through the public door: jobs submitted with so many in flight, or so many a second.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use longhaul::domain::id::new_job_id;
use longhaul::rpc::proto::{
    ApprovalStep, ContextMode, GetJobRequest, Job, JobStatus, RunStep, Step, SubmitJobRequest,
    WaitStep, step::Kind, wait_step::Wait,
};
use tokio::task::JoinSet;

use crate::report::quantile;
use crate::server::Client;

/// A step that passes at once.
pub fn wait() -> Step {
    let wait = WaitStep { wait: Some(Wait::DurationSeconds(0)) };
    Step { name: String::new(), kind: Some(Kind::Wait(wait)) }
}

/// A step that asks the model.
pub fn run() -> Step {
    let run = RunStep {
        prompt: "Write one line.".to_owned(),
        context: ContextMode::None.into(),
        ..RunStep::default()
    };
    Step { name: String::new(), kind: Some(Kind::Run(Box::new(run))) }
}

/// A step that asks a person whom nobody tells.
pub fn approval() -> Step {
    let approval = ApprovalStep { note: "Good?".to_owned(), ..ApprovalStep::default() };
    Step { name: String::new(), kind: Some(Kind::Approval(Box::new(approval))) }
}

/// A job of such steps.
pub fn job(steps: Vec<Step>) -> SubmitJobRequest {
    SubmitJobRequest {
        job_id: new_job_id(),
        task: "A job to measure".to_owned(),
        steps,
        settings: None,
        validate_only: false,
    }
}

/// Two steps that need nobody.
pub fn of_waits() -> SubmitJobRequest {
    job(vec![wait(), wait()])
}

/// Two steps that ask the model.
pub fn of_runs() -> SubmitJobRequest {
    job(vec![run(), run()])
}

/// Submits a job; answers it as it is then.
pub async fn submit(client: &mut Client, request: SubmitJobRequest) -> Result<Job> {
    let answer = client.submit_job(request).await?.into_inner();
    answer.job.context("a submit answers the job")
}

/// Waits until a job has completed.
pub async fn wait_until_completed(client: &mut Client, job_id: &str) -> Result<()> {
    loop {
        let job_id = job_id.to_owned();
        let request = GetJobRequest { job_id, wait_seconds: 60, ..GetJobRequest::default() };
        let job = client.get_job(request).await?.into_inner().job.context("there is the job")?;
        let status = job.status();
        if status == JobStatus::Completed {
            return Ok(());
        }
        if !matches!(status, JobStatus::Queued | JobStatus::Running) {
            bail!("a job is {}: {}", status.as_str_name(), job.status_message);
        }
    }
}

/// Milliseconds since then.
pub fn since(begun_at: Instant) -> f64 {
    begun_at.elapsed().as_secs_f64() * 1e3
}

/// What a load came to.
pub struct Load {
    /// How many submits were answered.
    pub jobs: usize,
    /// How long it took until the last was answered, or had ended.
    pub seconds: f64,
    /// How long each took, in milliseconds, sorted.
    pub times_ms: Vec<f64>,
}

impl Load {
    pub fn rate(&self) -> f64 {
        self.jobs as f64 / self.seconds
    }

    pub fn quantile_ms(&self, part: f64) -> f64 {
        quantile(&self.times_ms, part)
    }

    async fn gather(mut tasks: JoinSet<Result<Vec<f64>>>, begun_at: Instant) -> Result<Self> {
        let mut times_ms = Vec::new();
        while let Some(times) = tasks.join_next().await {
            times_ms.extend(times??);
        }
        let seconds = begun_at.elapsed().as_secs_f64();
        times_ms.sort_by(f64::total_cmp);
        Ok(Self { jobs: times_ms.len(), seconds, times_ms })
    }
}

/// Submits for so long, with so many in flight, over the connections in turn.
pub async fn saturate(
    clients: &[Client],
    in_flight: usize,
    for_so_long: Duration,
    make: fn() -> SubmitJobRequest,
) -> Result<Load> {
    drive(clients, in_flight, for_so_long, make, false).await
}

/// So many jobs may one submitter be ahead of their completion.
const AHEAD: usize = 8;

/// The same, and the time counts until the jobs have completed.
///
/// Whoever came first goes first, so a job that has completed tells the same of those before it, and asking for a few
/// costs the database the same however much has piled up in it. No submitter is far ahead, or the end would take long.
pub async fn saturate_and_complete(
    clients: &[Client],
    in_flight: usize,
    for_so_long: Duration,
    make: fn() -> SubmitJobRequest,
) -> Result<Load> {
    drive(clients, in_flight, for_so_long, make, true).await
}

async fn drive(
    clients: &[Client],
    in_flight: usize,
    for_so_long: Duration,
    make: fn() -> SubmitJobRequest,
    completes: bool,
) -> Result<Load> {
    let stop = Arc::new(AtomicBool::new(false));
    let mut tasks = JoinSet::new();
    let begun_at = Instant::now();
    for client in clients.iter().cycle().take(in_flight) {
        let (mut client, stop) = (client.clone(), Arc::clone(&stop));
        tasks.spawn(async move {
            let mut times = Vec::new();
            loop {
                let request = make();
                let job_id = request.job_id.clone();
                let submitted_at = Instant::now();
                submit(&mut client, request).await?;
                times.push(since(submitted_at));
                let is_last = stop.load(Ordering::Relaxed);
                if completes && (is_last || times.len().is_multiple_of(AHEAD)) {
                    wait_until_completed(&mut client, &job_id).await?;
                }
                if is_last {
                    return anyhow::Ok(times);
                }
            }
        });
    }
    tokio::time::sleep(for_so_long).await;
    stop.store(true, Ordering::Relaxed);
    Load::gather(tasks, begun_at).await
}

/// Submits one every so often, whether the one before was answered or not.
pub async fn pace(
    client: &Client,
    every: Duration,
    count: usize,
    make: fn() -> SubmitJobRequest,
) -> Result<Load> {
    let mut tasks = JoinSet::new();
    let mut ticks = tokio::time::interval(every);
    let begun_at = Instant::now();
    for _ in 0..count {
        ticks.tick().await;
        let mut client = client.clone();
        tasks.spawn(async move {
            let submitted_at = Instant::now();
            submit(&mut client, make()).await?;
            anyhow::Ok(vec![since(submitted_at)])
        });
    }
    Load::gather(tasks, begun_at).await
}
