//! (e): what a step costs in a long job and in short ones, one job after the other, in turns.
//!
//! Run steps are driven one by one, and a chain of waits of zero is passed in the submit, so both are measured.

use std::time::{Duration, Instant};

use anyhow::Result;
use longhaul::rpc::proto::Step;
use sqlx::postgres::PgPool;

use crate::Scale;
use crate::load::{self, job, since};
use crate::machine::Ground;
use crate::report::{Part, median};
use crate::server::{Served, with_sandbox};
use crate::subject::{Subject, in_turn};

/// So many short jobs have as many steps as the long one.
const SHORT_JOBS: usize = 10;

/// Measures it.
pub async fn measure(ground: &Ground, scale: Scale) -> Result<Part> {
    let (steps, waits) = (scale.long_steps(), 1000);
    let about = format!("a job of {steps} steps against {SHORT_JOBS} of {}", steps / SHORT_JOBS);
    let mut part = Part::new("e", about);
    let sandbox = Served::sandbox(ground.folder()).await?;
    let subject = Subject::make(ground, "long", 1, &with_sandbox(sandbox.url()?)).await?;
    take(&subject, load::run, 20, 1).await?;
    take(&subject, load::wait, 20, 1).await?;
    for (what, make, steps, repeat) in [
        ("run step", load::run as fn() -> Step, steps, 1),
        ("wait of zero", load::wait as fn() -> Step, waits, 5),
    ] {
        let (mut long, mut short, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
        for round in 0..scale.rounds() {
            for jobs in in_turn(round, 1, SHORT_JOBS) {
                let mut times = Vec::new();
                for _ in 0..repeat {
                    let time = take(&subject, make, steps / jobs, jobs).await?;
                    times.push(time / steps as f64);
                }
                let found = if jobs == 1 { &mut long } else { &mut short };
                found.push(median(&times) * 1e3);
            }
            ratios.extend(long.last().zip(short.last()).map(|(long, short)| long / short));
        }
        part.figure(format!("e, a {what} in a long job"), "us", &long);
        part.figure(format!("e, a {what} in short jobs"), "us", &short);
        let ratio = part.figure(format!("e, a {what}, long against short"), "", &ratios);
        part.at_most(format!("e, a {what}, long against short"), ratio, 1.1);
    }
    subject.end(ground).await?;
    sandbox.stop().await?;
    Ok(part)
}

/// How long so many jobs take, one after the other, in milliseconds.
async fn take(subject: &Subject, step: fn() -> Step, steps: usize, jobs: usize) -> Result<f64> {
    let mut client = subject.clients[0].clone();
    let requests: Vec<_> =
        (0..jobs).map(|_| job(std::iter::repeat_with(step).take(steps).collect())).collect();
    let begun_at = Instant::now();
    for request in requests {
        let job_id = request.job_id.clone();
        load::submit(&mut client, request).await?;
        wait_until_ended(&subject.pool, &job_id).await?;
    }
    Ok(since(begun_at))
}

/// Asks the table, since a server that is asked for a job reads all its steps.
async fn wait_until_ended(pool: &PgPool, job_id: &str) -> Result<()> {
    loop {
        let status: String =
            sqlx::query_scalar("select status from longhaul.job where job_id = $1")
                .bind(job_id)
                .fetch_one(pool)
                .await?;
        match status.as_str() {
            "completed" => return Ok(()),
            "queued" | "running" => tokio::time::sleep(Duration::from_millis(2)).await,
            other => anyhow::bail!("a job is {other}"),
        }
    }
}
