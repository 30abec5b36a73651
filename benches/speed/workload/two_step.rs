//! (a) and (b): jobs of two steps that need nobody, and of two that ask the sandbox, beside the floor in the same rounds.

use std::time::{Duration, Instant};

use anyhow::Result;

use crate::Scale;
use crate::floor::{Floor, Shape};
use crate::load::{of_runs, of_waits, pace, saturate};
use crate::machine::Ground;
use crate::meter::{self, Cost, Reading};
use crate::report::{Part, median};
use crate::server::{Served, with_slots};
use crate::subject::Subject;

const WALKS: [(Shape, u32); 6] = [
    (Shape::OneByOne, 1),
    (Shape::OneByOne, 8),
    (Shape::OneByOne, 32),
    (Shape::OneByOne, 64),
    (Shape::Folded, 1),
    (Shape::Folded, 8),
];

/// So short that what is submitted hardly outruns the slots, or claims would be measured.
const BURST: Duration = Duration::from_millis(400);

/// Measures both.
pub async fn measure(ground: &Ground, scale: Scale) -> Result<Part> {
    let mut part = Part::new("a, b", "jobs of two steps, beside the floor");
    let floor = Floor::make(ground, "floor").await?;
    let sandbox = Served::sandbox(ground.folder()).await?;
    let subject = Subject::make(ground, "two_step", 1, &with_slots(sandbox.url()?)).await?;
    meter::prepare(&subject.pool).await?;
    let (clients, pool, span) = (&subject.clients, &subject.pool, scale.span());
    let mut floors = Floors::default();
    let mut rounds = Rounds::default();
    let mut jobs = subject.saturate(span / 2, of_waits).await?.jobs;
    jobs += subject.saturate(span / 2, of_runs).await?.jobs;
    meter::wait_until_completed(pool, jobs).await?;
    for _ in 0..scale.rounds() {
        floors.walk(&floor, scale).await?;
        for in_flight in [64, 256] {
            let reading = Reading::take(pool).await?;
            let load = saturate(clients, in_flight, span, of_waits).await?;
            jobs += load.jobs;
            let waits = if in_flight == 64 { &mut rounds.few } else { &mut rounds.many };
            waits.rate.push(load.rate());
            waits.p50.push(load.quantile_ms(0.5));
            waits.p99.push(load.quantile_ms(0.99));
            waits.add(reading.cost(pool, load.jobs).await?);
        }
        let reading = Reading::take(pool).await?;
        let mut runs = Burst::default();
        for _ in 0..scale.bursts() {
            runs.add(&burst(&subject, BURST, &mut jobs).await?);
        }
        rounds.runs.rate.push(runs.rate());
        rounds.runs.add(reading.cost(pool, runs.jobs).await?);
        rounds.piled.push(burst(&subject, span, &mut jobs).await?.rate());
        meter::rest(pool).await?;
        let paced = pace(&clients[0], Duration::from_millis(50), scale.paced(), of_waits).await?;
        jobs += paced.jobs;
        rounds.paced_p50.push(paced.quantile_ms(0.5));
        rounds.paced_p99.push(paced.quantile_ms(0.99));
        rounds.commit.push(floor.commit_ms(200, Duration::ZERO).await?);
    }
    // One after the other: nothing shares a commit.
    let reading = Reading::take(pool).await?;
    let rest = saturate(clients, 1, span, of_waits).await?;
    let at_rest = reading.cost(pool, rest.jobs).await?;
    meter::wait_until_completed(pool, jobs + rest.jobs).await?;
    let best_floor = floors.tell(&mut part);
    rounds.tell(&mut part, best_floor, at_rest.commits);
    subject.end(ground).await?;
    sandbox.stop().await?;
    floor.drop(ground).await?;
    Ok(part)
}

/// Jobs, and how long it took until all of them had completed.
#[derive(Default)]
struct Burst {
    jobs: usize,
    time: Duration,
}

impl Burst {
    fn add(&mut self, other: &Self) {
        self.jobs += other.jobs;
        self.time += other.time;
    }

    fn rate(&self) -> f64 {
        self.jobs as f64 / self.time.as_secs_f64()
    }
}

/// Submits jobs that ask the model for so long, and waits until they have completed; adds them to those there are.
async fn burst(subject: &Subject, span: Duration, jobs: &mut usize) -> Result<Burst> {
    let begun_at = Instant::now();
    let load = subject.saturate(span, of_runs).await?;
    *jobs += load.jobs;
    meter::wait_until_completed(&subject.pool, *jobs).await?;
    Ok(Burst { jobs: load.jobs, time: begun_at.elapsed() })
}

/// The rates of each walk.
#[derive(Default)]
struct Floors([Vec<f64>; WALKS.len()]);

impl Floors {
    /// A round of walks; in a hurry, after the first round only of the one whose figure is asked for.
    async fn walk(&mut self, floor: &Floor, scale: Scale) -> Result<()> {
        let (best, _) = self.best();
        let is_first = self.0[0].is_empty();
        for (at, ((shape, clients), rates)) in WALKS.iter().zip(&mut self.0).enumerate() {
            if is_first || at == best || scale.walks_all() {
                rates.push(floor.walk(*shape, *clients, scale.walk_seconds()).await?);
            }
        }
        Ok(())
    }

    /// The best walk one by one, and what it reached.
    fn best(&self) -> (usize, f64) {
        let singles = WALKS.iter().zip(&self.0).filter(|((shape, _), _)| *shape == Shape::OneByOne);
        let rates = singles.enumerate().map(|(at, (_, rates))| (at, median(rates)));
        rates.max_by(|(_, a), (_, b)| a.total_cmp(b)).unwrap_or_default()
    }

    /// Tells all; answers the best of one by one.
    fn tell(&self, part: &mut Part) -> f64 {
        for ((shape, clients), rates) in WALKS.iter().zip(&self.0) {
            let name = if *shape == Shape::OneByOne { "f1, one by one" } else { "f2, 50 folded" };
            part.figure(format!("{name}, {clients} clients"), "jobs/s", rates);
        }
        self.best().1
    }
}

#[derive(Default)]
struct Rounds {
    few: Waits,
    many: Waits,
    runs: Waits,
    piled: Vec<f64>,
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

impl Waits {
    fn add(&mut self, cost: Cost) {
        self.commits.push(cost.commits);
        self.statements.push(cost.statements);
        self.wal_bytes.push(cost.wal_bytes);
    }
}

impl Rounds {
    fn tell(&self, part: &mut Part, best_floor: f64, commits_at_rest: f64) {
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
        part.figure("b, with a pile beyond the slots", "jobs/s", &self.piled);
        part.figure("b, commits a job", "", &self.runs.commits);
        part.figure("b, statements a job", "", &self.runs.statements);
        part.figure("b, WAL a job", "bytes", &self.runs.wal_bytes);
        part.at_least("a, against the best of f1", best / best_floor, 0.6);
        part.at_most("a, 20 a second, p50 in ms", p50, 3.0);
        part.at_most("a, 20 a second, p99 in ms", p99, 10.0);
        part.at_least("b, against a, 64 in flight each", runs / median(&self.few.rate), 1.0 / 3.0);
        part.at_most("a, commits a job at saturation", median(&self.few.commits), 0.2);
        part.at_most("a, commits a job at rest", commits_at_rest, 3.0);
    }
}
