//! (c): how soon something happens when nothing else does, with the settings a server has by itself.
//!
//! One thing after the other, with a rest between, and the commits they are compared with between them.

use std::time::{Duration, Instant};

use anyhow::Result;
use longhaul::rpc::proto::{EventKind, JobStatus};

use crate::Scale;
use crate::floor::Floor;
use crate::load::{self, job, since, wait_until_completed};
use crate::machine::Ground;
use crate::report::{Part, median, quantile};
use crate::server::{Client, Served, with_sandbox};
use crate::subject::Subject;
use crate::watch::{self, age_ms};

/// Long enough for the processor to fall asleep.
const REST: Duration = Duration::from_millis(20);

/// Measures it.
pub async fn measure(ground: &Ground, scale: Scale) -> Result<Part> {
    let mut part = Part::new("c", "one at a time, when nothing else happens");
    let floor = Floor::make(ground, "floor_of_idle").await?;
    let sandbox = Served::sandbox(ground.folder()).await?;
    let subject = Subject::make(ground, "idle", 1, &with_sandbox(sandbox.url()?)).await?;
    let mut client = subject.clients[0].clone();
    let mut commits = Vec::new();
    let mut found = [
        ("submit to first step", Times::default()),
        ("approve to next step", Times::default()),
        ("event to watcher, with its commit", Times::default()),
    ];
    // The first of each pays for connections and plans.
    first_step(&mut client).await?;
    next_step(&mut client).await?;
    for _ in 0..scale.rounds() {
        let mut times: [Vec<f64>; 3] = Default::default();
        let commit = floor.commit_ms(scale.singles() as u32, REST).await?;
        for _ in 0..scale.singles() {
            times[0].push(first_step(&mut client).await?);
            times[1].push(next_step(&mut client).await?);
            times[2].extend(pause_and_resume(&mut client).await?);
        }
        commits.push(commit);
        for ((_, found), times) in found.iter_mut().zip(times) {
            found.add(times, commit);
        }
    }
    part.figure("one commit of one row, p50", "ms", &commits);
    for (what, times) in &found {
        part.figure(format!("c, {what}, p50"), "ms", &times.p50);
        part.figure(format!("c, {what}, p99"), "ms", &times.p99);
    }
    for (what, times) in found.iter().take(2) {
        part.at_most(format!("c, {what}, p50 in ms over a commit"), median(&times.over), 2.0);
    }
    subject.end(ground).await?;
    sandbox.stop().await?;
    floor.drop(ground).await?;
    Ok(part)
}

#[derive(Default)]
struct Times {
    p50: Vec<f64>,
    p99: Vec<f64>,
    over: Vec<f64>,
}

impl Times {
    fn add(&mut self, mut times: Vec<f64>, commit: f64) {
        times.sort_by(f64::total_cmp);
        self.p50.push(quantile(&times, 0.5));
        self.p99.push(quantile(&times, 0.99));
        self.over.push(quantile(&times, 0.5) - commit);
    }
}

/// From a submit until it is known that the first step was started, in milliseconds.
///
/// Where the job was claimed by its submit, the answer shows that.
pub async fn first_step(client: &mut Client) -> Result<f64> {
    tokio::time::sleep(REST).await;
    let request = job(vec![load::run()]);
    let job_id = request.job_id.clone();
    let begun_at = Instant::now();
    let submitted = load::submit(client, request).await?;
    if submitted.status() == JobStatus::Queued {
        let mut watch = watch::open(client, &job_id, 0).await?;
        watch::until(&mut watch, EventKind::StepStarted).await?;
    }
    let time = since(begun_at);
    wait_until_completed(client, &job_id).await?;
    Ok(time)
}

/// From an approval until an open watch tells that the step after it was started, in milliseconds.
async fn next_step(client: &mut Client) -> Result<f64> {
    let request = job(vec![load::approval(), load::run()]);
    let job_id = request.job_id.clone();
    load::submit(client, request).await?;
    let mut watch = watch::open(client, &job_id, 0).await?;
    watch::until(&mut watch, EventKind::ApprovalRequested).await?;
    tokio::time::sleep(REST).await;
    let begun_at = Instant::now();
    let started = async {
        watch::until(&mut watch, EventKind::StepStarted).await?;
        anyhow::Ok(since(begun_at))
    };
    let (started, approved) = tokio::join!(started, watch::approve(client, &job_id));
    approved?;
    wait_until_completed(&mut client.clone(), &job_id).await?;
    started
}

/// How old the events of a pause and of a resume are when an open watch gets them.
async fn pause_and_resume(client: &mut Client) -> Result<[f64; 2]> {
    let request = job(vec![load::approval()]);
    let job_id = request.job_id.clone();
    load::submit(client, request).await?;
    let mut stream = watch::open(client, &job_id, 0).await?;
    watch::until(&mut stream, EventKind::ApprovalRequested).await?;
    let mut ages = [0.0; 2];
    for (age, kind) in ages.iter_mut().zip([EventKind::JobPaused, EventKind::JobResumed]) {
        tokio::time::sleep(REST).await;
        let pauses = kind == EventKind::JobPaused;
        let arrived = async { age_ms(&watch::until(&mut stream, kind).await?) };
        let (arrived, turned) = tokio::join!(arrived, watch::turn(client, &job_id, pauses));
        turned?;
        *age = arrived?;
    }
    Ok(ages)
}
