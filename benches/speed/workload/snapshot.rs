//! (h): throughput while a snapshot grows old, against the same on another database, in turns.
//!
//! For the tables of a database Postgres looks only at the snapshots of sessions in it, and a transaction that has
//! only read has no id, which snapshots elsewhere would have to wait for. So both can be measured on one Postgres;
//! the report shows that it is so: what a vacuum has to leave at the end is nothing on the one, and much on the other.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use sqlx::Connection as _;
use sqlx::postgres::{PgConnection, PgPool};

use crate::Scale;
use crate::load::{of_runs, of_waits};
use crate::machine::Ground;
use crate::meter;
use crate::report::{Part, median};
use crate::server::{Served, with_slots};
use crate::subject::{Subject, in_turn};

/// Fewer rounds would not tell anything, however little time is left.
const ROUNDS_MIN: usize = 5;

/// What was found on one of the two, turn by turn.
#[derive(Default)]
struct Found {
    jobs: usize,
    waits: Vec<f64>,
    runs: Vec<f64>,
    dead: Vec<f64>,
    bytes: Vec<f64>,
}

/// Measures it.
pub async fn measure(ground: &Ground, scale: Scale) -> Result<Part> {
    let for_so_long = scale.hold();
    let about = format!("a snapshot held open for {:.0} s", for_so_long.as_secs_f64());
    let mut part = Part::new("h", about);
    let sandbox = Served::sandbox(ground.folder()).await?;
    let variables = with_slots(sandbox.url()?);
    let subjects = [
        Subject::make(ground, "free", 1, &variables).await?,
        Subject::make(ground, "held", 1, &variables).await?,
    ];
    let mut found = [Found::default(), Found::default()];
    for (subject, found) in subjects.iter().zip(&mut found) {
        found.turn(subject, scale.held_span() / 2).await?;
        *found = Found { jobs: found.jobs, ..Found::default() };
    }
    let begun_at = Instant::now();
    let snapshot = hold(&ground.url("held")).await?;
    let mut round = 0;
    while round < ROUNDS_MIN || begun_at.elapsed() < for_so_long {
        for at in in_turn(round, 0, 1) {
            found[at].turn(&subjects[at], scale.held_span()).await?;
        }
        round += 1;
    }
    for (name, subject) in ["free", "held"].iter().zip(&subjects) {
        let dead = unremovable(&subject.pool).await?;
        part.figure(format!("h, {name}, dead rows that vacuum must leave"), "", &[dead]);
    }
    snapshot.close().await?;
    tell(&mut part, &found);
    for (subject, found) in subjects.into_iter().zip(&found) {
        meter::wait_until_completed(&subject.pool, found.jobs).await?;
        subject.end(ground).await?;
    }
    sandbox.stop().await?;
    Ok(part)
}

/// Opens a transaction that sees the jobs as they are now, and leaves it alone.
async fn hold(url: &str) -> Result<PgConnection> {
    let mut connection = PgConnection::connect(url).await?;
    sqlx::raw_sql(
        "set idle_in_transaction_session_timeout = 0;
         begin isolation level repeatable read;
         select count(*) from longhaul.job",
    )
    .execute(&mut connection)
    .await?;
    Ok(connection)
}

impl Found {
    /// A load of each kind on one of them, and what it left.
    async fn turn(&mut self, subject: &Subject, span: Duration) -> Result<()> {
        let load = subject.complete(span, of_runs).await?;
        self.jobs += load.jobs;
        self.runs.push(load.rate());
        let load = subject.saturate(span, of_waits).await?;
        self.jobs += load.jobs;
        self.waits.push(load.rate());
        let (dead, bytes): (i64, i64) = sqlx::query_as(
            "select n_dead_tup, pg_total_relation_size(relid) from pg_stat_user_tables
             where relid = 'longhaul.job'::regclass",
        )
        .fetch_one(&subject.pool)
        .await?;
        self.dead.push(dead as f64);
        self.bytes.push(bytes as f64 / self.jobs as f64);
        Ok(())
    }
}

fn tell(part: &mut Part, [free, held]: &[Found; 2]) {
    for (name, free, held) in [("b", &free.runs, &held.runs), ("a", &free.waits, &held.waits)] {
        part.figure(format!("h, {name}, free"), "jobs/s", free);
        part.figure(format!("h, {name}, held"), "jobs/s", held);
        let kept: Vec<f64> = held.iter().zip(free).map(|(held, free)| held / free).collect();
        part.figure(format!("h, {name}, kept"), "", &kept);
        // What is lost grows, so the end counts.
        let last = (kept.len() / 3).max(ROUNDS_MIN).min(kept.len());
        let kept = median(&kept[kept.len() - last..]);
        part.at_least(format!("h, {name}, throughput kept at the end"), kept, 0.7);
    }
    for (name, found) in [("free", free), ("held", held)] {
        part.figure(format!("h, {name}, dead rows of job"), "", &found.dead);
        part.figure(format!("h, {name}, table job, a job"), "bytes", &found.bytes);
    }
}

/// How many dead rows of the table a vacuum finds and may not remove yet.
async fn unremovable(pool: &PgPool) -> Result<f64> {
    sqlx::raw_sql("vacuum longhaul.job").execute(pool).await?;
    let dead: Option<i64> = sqlx::query_scalar(
        "select n_dead_tup from pg_stat_user_tables where relid = 'longhaul.job'::regclass",
    )
    .fetch_optional(pool)
    .await?;
    Ok(dead.context("there is the table of jobs")? as f64)
}
