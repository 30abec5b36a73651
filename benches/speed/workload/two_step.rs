//! (a) and (b): jobs of two steps that need nobody, and of two that ask the sandbox, beside the floor in the same rounds.

use std::time::Duration;

use anyhow::Result;
use longhaul::rpc::proto::SubmitJobRequest;

use crate::floor::{Floor, Shape};
use crate::load::{self, job, pace, saturate};
use crate::machine::Ground;
use crate::meter::{self, Reading};
use crate::report::{Part, median};
use crate::server::{Served, with_sandbox};
use crate::{Scale, connect};

pub fn of_waits() -> SubmitJobRequest {
    job(vec![load::wait(), load::wait()])
}

pub fn of_runs() -> SubmitJobRequest {
    job(vec![load::run(), load::run()])
}

/// Measures both.
pub async fn measure(ground: &Ground, scale: Scale) -> Result<Part> {
    let mut part = Part::new("a, b", "jobs of two steps, beside the floor");
    let floor = Floor::make(ground.database("floor").await?, ground.folder()).await?;
    let url = ground.database("two_step").await?;
    let sandbox = Served::sandbox(ground.folder()).await?;
    let server = Served::server(ground.folder(), &url, &with_sandbox(sandbox.url()?)).await?;
    let pool = Ground::pool(&url).await?;
    meter::prepare(&pool).await?;
    let clients = connect(&server, 4).await?;
    let (span, walk) = (scale.span(), scale.walk_seconds());
    let walks = [
        (Shape::OneByOne, 1),
        (Shape::OneByOne, 8),
        (Shape::OneByOne, 32),
        (Shape::OneByOne, 64),
        (Shape::Folded, 1),
        (Shape::Folded, 8),
    ];
    let mut floors = vec![Vec::new(); walks.len()];
    let mut rounds = Rounds::default();
    let mut jobs = 0;
    saturate(&clients, 64, span / 2, of_waits).await.map(|load| jobs += load.jobs)?;
    saturate(&clients, 64, span / 2, of_runs).await.map(|load| jobs += load.jobs)?;
    meter::wait_until_completed(&pool, jobs).await?;
    for _ in 0..scale.rounds() {
        for ((shape, clients), rates) in walks.iter().zip(&mut floors) {
            rates.push(floor.walk(*shape, *clients, walk).await?);
        }
        for in_flight in [64, 256] {
            let reading = Reading::take(&pool).await?;
            let load = saturate(&clients, in_flight, span, of_waits).await?;
            let cost = reading.cost(&pool, load.jobs).await?;
            jobs += load.jobs;
            let waits = if in_flight == 64 { &mut rounds.few } else { &mut rounds.many };
            waits.rate.push(load.rate());
            waits.p50.push(load.quantile_ms(0.5));
            waits.p99.push(load.quantile_ms(0.99));
            waits.commits.push(cost.commits);
            waits.statements.push(cost.statements);
            waits.wal_bytes.push(cost.wal_bytes);
        }
        let reading = Reading::take(&pool).await?;
        let begun_at = std::time::Instant::now();
        let load = saturate(&clients, 64, span, of_runs).await?;
        jobs += load.jobs;
        meter::wait_until_completed(&pool, jobs).await?;
        rounds.runs.rate.push(load.jobs as f64 / begun_at.elapsed().as_secs_f64());
        let cost = reading.cost(&pool, load.jobs).await?;
        rounds.runs.commits.push(cost.commits);
        rounds.runs.statements.push(cost.statements);
        rounds.runs.wal_bytes.push(cost.wal_bytes);
        let paced = pace(&clients[0], Duration::from_millis(50), scale.paced(), of_waits).await?;
        jobs += paced.jobs;
        rounds.paced_p50.push(paced.quantile_ms(0.5));
        rounds.paced_p99.push(paced.quantile_ms(0.99));
        rounds.commit.push(floor.commit_ms(200).await?);
    }
    // One after the other: nothing shares a commit.
    let reading = Reading::take(&pool).await?;
    let rest = saturate(&clients, 1, span, of_waits).await?;
    let at_rest = reading.cost(&pool, rest.jobs).await?;
    meter::wait_until_completed(&pool, jobs + rest.jobs).await?;
    for ((shape, clients), rates) in walks.iter().zip(&floors) {
        let name = if *shape == Shape::OneByOne { "f1, one by one" } else { "f2, 50 folded" };
        part.figure(format!("{name}, {clients} clients"), "jobs/s", rates);
    }
    rounds.tell(&mut part, &floors, at_rest.commits);
    server.stop().await?;
    sandbox.stop().await?;
    Ok(part)
}

#[derive(Default)]
struct Rounds {
    few: Waits,
    many: Waits,
    runs: Waits,
    paced_p50: Vec<f64>,
    paced_p99: Vec<f64>,
    commit: Vec<f64>,
}

#[derive(Default)]
struct Waits {
    rate: Vec<f64>,
    p50: Vec<f64>,
    p99: Vec<f64>,
    commits: Vec<f64>,
    statements: Vec<f64>,
    wal_bytes: Vec<f64>,
}

impl Rounds {
    fn tell(&self, part: &mut Part, floors: &[Vec<f64>], commits_at_rest: f64) {
        let best_floor = floors.iter().take(4).map(|rates| median(rates)).fold(0.0, f64::max);
        part.figure("one commit of one row", "ms", &self.commit);
        let mut best = 0.0_f64;
        for (name, waits) in [("64 in flight", &self.few), ("256 in flight", &self.many)] {
            let rate = part.figure(format!("a, {name}"), "jobs/s", &waits.rate);
            part.figure(format!("a, {name}, p50"), "ms", &waits.p50);
            part.figure(format!("a, {name}, p99"), "ms", &waits.p99);
            part.figure(format!("a, {name}, commits a job"), "", &waits.commits);
            part.figure(format!("a, {name}, statements a job"), "", &waits.statements);
            part.figure(format!("a, {name}, WAL a job"), "bytes", &waits.wal_bytes);
            best = best.max(rate);
        }
        let p50 = part.figure("a, 20 a second, p50", "ms", &self.paced_p50);
        let p99 = part.figure("a, 20 a second, p99", "ms", &self.paced_p99);
        let runs = part.figure("b, 64 in flight", "jobs/s", &self.runs.rate);
        part.figure("b, commits a job", "", &self.runs.commits);
        part.figure("b, statements a job", "", &self.runs.statements);
        part.figure("b, WAL a job", "bytes", &self.runs.wal_bytes);
        part.at_least("a, against the best of f1", best / best_floor, 0.6);
        part.at_most("a, 20 a second, p50 in ms", p50, 3.0);
        part.at_most("a, 20 a second, p99 in ms", p99, 10.0);
        part.at_least("b, against a", runs / best, 1.0 / 3.0);
        part.at_most("a, commits a job at saturation", median(&self.few.commits), 0.2);
        part.at_most("a, commits a job at rest", commits_at_rest, 3.0);
    }
}
