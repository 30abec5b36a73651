//! (g): one, two and four servers on one database, each number on a database of its own, in turns.
//!
//! They share the two cores with Postgres and the client, so more of them can at best cost nothing.

use anyhow::Result;

use crate::Scale;
use crate::load::{of_runs, of_waits, saturate, saturate_and_complete};
use crate::machine::Ground;
use crate::meter;
use crate::report::Part;
use crate::server::{Served, with_slots};
use crate::subject::Subject;

const COUNTS: [usize; 3] = [1, 2, 4];
/// Enough for each of four to be as busy as it can be: two lanes with a full batch each.
const SUBMITS: usize = 4 * 2 * 128;
/// So many submit jobs that ask the model, each a few ahead of their completion.
const RUNS: usize = 256;

/// Measures it.
pub async fn measure(ground: &Ground, scale: Scale) -> Result<Part> {
    let mut part = Part::new("g", "one, two and four servers, with the same load spread over them");
    let sandbox = Served::sandbox(ground.folder()).await?;
    let variables = with_slots(sandbox.url()?);
    let mut subjects = Vec::new();
    for count in COUNTS {
        let database = format!("servers_{count}");
        subjects.push(Subject::make(ground, &database, count, &variables).await?);
    }
    let mut jobs = [0; COUNTS.len()];
    for (subject, jobs) in subjects.iter().zip(&mut jobs) {
        *jobs += saturate(&subject.clients, SUBMITS, scale.span() / 2, of_waits).await?.jobs;
        *jobs +=
            saturate_and_complete(&subject.clients, RUNS, scale.span() / 2, of_runs).await?.jobs;
    }
    let mut waits: [Vec<f64>; COUNTS.len()] = Default::default();
    let mut runs: [Vec<f64>; COUNTS.len()] = Default::default();
    for round in 0..scale.rounds() {
        for turn in 0..COUNTS.len() {
            let at = (round + turn) % COUNTS.len();
            let clients = &subjects[at].clients;
            let load = saturate(clients, SUBMITS, scale.span(), of_waits).await?;
            jobs[at] += load.jobs;
            waits[at].push(load.rate());
            let load = saturate_and_complete(clients, RUNS, scale.span(), of_runs).await?;
            jobs[at] += load.jobs;
            runs[at].push(load.rate());
        }
    }
    for (name, rates) in [("a", &waits), ("b", &runs)] {
        for (count, rates) in COUNTS.iter().zip(rates) {
            part.figure(format!("g, {name}, servers: {count}"), "jobs/s", rates);
        }
        for (count, more) in COUNTS.iter().zip(rates).skip(1) {
            let ratios: Vec<f64> =
                more.iter().zip(&rates[0]).map(|(more, one)| more / one).collect();
            let ratio = part.figure(format!("g, {name}, {count} against one"), "", &ratios);
            if *count == 4 {
                part.at_least(format!("g, {name}, four servers against one"), ratio, 0.95);
            }
        }
    }
    for (subject, jobs) in subjects.into_iter().zip(jobs) {
        meter::wait_until_completed(&subject.pool, jobs).await?;
        subject.end(ground).await?;
    }
    sandbox.stop().await?;
    Ok(part)
}
