//! (d): the same beside a million finished jobs and two hundred thousand that wait, and on an empty database.
//!
//! First what the engine does, through the Store in this process, then what a client sees of a server on each.
//! Both databases are on one Postgres and are measured in turns.

use anyhow::Result;
use sqlx::postgres::PgPool;

use super::idle::first_step;
use super::pile::{Bare, Times};
use crate::Scale;
use crate::load::of_waits;
use crate::machine::Ground;
use crate::report::{Part, median};
use crate::server::{Served, with_sandbox};
use crate::subject::{Subject, in_turn};

/// What two measure, of which the second has the backlog.
type Pair = [Vec<f64>; 2];

/// Measures it.
pub async fn measure(ground: &Ground, scale: Scale) -> Result<Part> {
    let (finished, waiting) = scale.backlog();
    let about = format!(
        "{finished} finished, {waiting} awaiting approval and {waiting} parked jobs, against none"
    );
    let mut part = Part::new("d", about);
    let bare = [
        Bare::make(ground.database("empty").await?).await?,
        Bare::make(ground.database("backlog").await?).await?,
    ];
    bare[1].pile_up(finished, waiting).await?;
    Box::pin(work(&mut part, &bare, scale)).await?;
    for bare in bare {
        bare.leave().await?;
    }
    let sandbox = Served::sandbox(ground.folder()).await?;
    let variables = with_sandbox(sandbox.url()?);
    let subjects = [
        Subject::serve(ground, "empty", 1, &variables).await?,
        Subject::serve(ground, "backlog", 1, &variables).await?,
    ];
    let bytes = bytes(&subjects[1].pool).await?;
    let jobs = f64::from(finished + 2 * waiting);
    part.figure("d, tables and indexes, a job", "bytes", &[bytes / jobs]);
    look(&mut part, &subjects, scale).await?;
    for subject in subjects {
        subject.end(ground).await?;
    }
    sandbox.stop().await?;
    Ok(part)
}

/// What the loops of a server do.
async fn work(part: &mut Part, bare: &[Bare; 2], scale: Scale) -> Result<()> {
    let mut times = [Times::default(), Times::default()];
    // The first rounds fill the caches and are not counted.
    for bare in bare {
        for _ in 0..5 {
            Box::pin(bare.round(&mut Times::default())).await?;
        }
    }
    for round in 0..scale.singles() {
        for at in in_turn(round, 0, 1) {
            Box::pin(bare[at].round(&mut times[at])).await?;
        }
    }
    // Not between the others, since they read so much.
    for round in 0..scale.rounds() {
        for at in in_turn(round, 0, 1) {
            bare[at].gauge(&mut times[at]).await?;
        }
    }
    let [empty, beside] = &times;
    for (what, empty, beside) in [
        ("a sweep round", &empty.sweep, &beside.sweep),
        ("a submit", &empty.submit, &beside.submit),
        ("a claim", &empty.claim, &beside.claim),
        ("a release", &empty.release, &beside.release),
        ("the gauges", &empty.gauges, &beside.gauges),
    ] {
        part.figure(format!("d, {what}, empty"), "ms", empty);
        part.figure(format!("d, {what}, backlog"), "ms", beside);
    }
    part.at_most("d, a sweep round beside the backlog, ms", median(&beside.sweep), 50.0);
    Ok(())
}

/// What a client sees.
async fn look(part: &mut Part, subjects: &[Subject; 2], scale: Scale) -> Result<()> {
    let (mut rates, mut starts) = (Pair::default(), Pair::default());
    for subject in subjects {
        subject.saturate(scale.span() / 2, of_waits).await?;
        first_step(&mut subject.clients[0].clone()).await?;
    }
    for round in 0..scale.rounds() {
        for at in in_turn(round, 0, 1) {
            let load = subjects[at].saturate(scale.span(), of_waits).await?;
            rates[at].push(load.rate());
        }
        // One by one in turns: what the load left behind must not fall upon one of them.
        let mut times = Pair::default();
        for single in 0..scale.singles() {
            for at in in_turn(single, 0, 1) {
                times[at].push(first_step(&mut subjects[at].clients[0].clone()).await?);
            }
        }
        for (starts, times) in starts.iter_mut().zip(&times) {
            starts.push(median(times));
        }
    }
    let rate = pair(part, "a, 64 in flight", "jobs/s", &rates);
    let start = pair(part, "submit to first step, p50", "ms", &starts);
    part.at_least("d, a, throughput beside the backlog", rate, 0.9);
    part.at_most("d, submit to first step beside the backlog", start, 1.1);
    Ok(())
}

/// Tells both, and the median of their ratios.
fn pair(part: &mut Part, what: &str, unit: &'static str, [empty, beside]: &Pair) -> f64 {
    part.figure(format!("d, {what}, empty"), unit, empty);
    part.figure(format!("d, {what}, backlog"), unit, beside);
    let ratios: Vec<f64> = beside.iter().zip(empty).map(|(beside, empty)| beside / empty).collect();
    part.figure(format!("d, {what}, ratio"), "", &ratios)
}

/// What all tables of the schema and their indexes take.
async fn bytes(pool: &PgPool) -> Result<f64> {
    let bytes: i64 = sqlx::query_scalar(
        "select sum(pg_total_relation_size(oid))::bigint from pg_class
         where relnamespace = 'longhaul'::regnamespace and relkind = 'r'",
    )
    .fetch_one(pool)
    .await?;
    Ok(bytes as f64)
}
