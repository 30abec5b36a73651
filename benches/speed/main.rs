//! How fast Longhaul is, against what the same Postgres on the same disk can do at the most.
//!
//! One client process drives real servers through their public door; Postgres is the run's own and durable.
//! What is compared is measured in turns in one run, in at least five rounds; a figure is their median.
//! `scripts/bench` runs it; `--quick` takes three minutes, `--only a` one workload, `--json FILE` writes everything down.

#![expect(clippy::print_stdout, reason = "a bench prints what it found")]

mod floor;
mod load;
mod machine;
mod meter;
mod report;
mod server;
mod subject;
mod watch;
mod workload;

use std::panic::AssertUnwindSafe;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, bail};
use clap::Parser;
use futures::future::{FutureExt as _, LocalBoxFuture};
use tokio::signal::unix::{SignalKind, signal};

use crate::machine::Ground;
use crate::report::{Part, Report};
use crate::server::{Client, Served};
use crate::workload::{backlog, idle, long, servers, snapshot, streams, two_step, watchers};

/// After so long `--quick` begins nothing more; what is left of three minutes is for ending.
const QUICK: Duration = Duration::from_secs(158);

/// What to measure.
#[derive(Debug, Parser)]
struct Arguments {
    /// Three minutes instead of most of an hour
    #[arg(long)]
    quick: bool,
    /// Only these workloads: a (with b), c, d, e, f, g, s, h
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Write everything into this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Said by cargo
    #[arg(long, hide = true)]
    bench: bool,
}

/// How much of everything.
#[derive(Clone, Copy, Debug)]
pub struct Scale {
    is_quick: bool,
    begun_at: Instant,
}

impl Scale {
    fn pick<T>(self, quick: T, whole: T) -> T {
        if self.is_quick { quick } else { whole }
    }

    /// How often each thing is measured.
    pub fn rounds(self) -> usize {
        self.pick(5, 7)
    }

    /// How long a load lasts in each round.
    pub fn span(self) -> Duration {
        Duration::from_millis(self.pick(400, 4000))
    }

    /// How many bursts of jobs that ask the model there are in each round.
    pub fn bursts(self) -> usize {
        self.pick(1, 10)
    }

    /// How long pgbench runs in each round.
    pub fn walk_seconds(self) -> u32 {
        self.pick(1, 3)
    }

    /// Whether all of its clients are tried in each round.
    pub fn walks_all(self) -> bool {
        !self.is_quick
    }

    /// How many jobs are submitted at a slow pace in each round.
    pub fn paced(self) -> usize {
        self.pick(20, 100)
    }

    /// How many things are done one after the other in each round.
    pub fn singles(self) -> usize {
        self.pick(8, 100)
    }

    /// How many jobs have finished, and how many wait for a person and as many for time.
    pub fn backlog(self) -> (i32, i32) {
        self.pick((30_000, 3_000), (1_000_000, 100_000))
    }

    /// How many steps a long job has.
    pub fn long_steps(self) -> usize {
        self.pick(100, 1000)
    }

    /// How many jobs are watched.
    pub fn watched_jobs(self) -> usize {
        self.pick(100, 1000)
    }

    /// How long they move in each round.
    pub fn event_seconds(self) -> u64 {
        self.pick(1, 4)
    }

    /// For how many seconds answers of the model are looked at, and how long those take that flow.
    pub fn stream_seconds(self) -> u64 {
        self.pick(8, 40)
    }

    /// How long a snapshot is held; in a hurry what is left of the time, up to two minutes.
    pub fn hold(self) -> Duration {
        let left = QUICK.saturating_sub(self.begun_at.elapsed());
        self.pick(
            left.clamp(Duration::from_secs(20), Duration::from_mins(2)),
            Duration::from_mins(20),
        )
    }

    /// How long a load lasts while it is.
    pub fn held_span(self) -> Duration {
        Duration::from_secs(self.pick(1, 10))
    }
}

fn main() -> ExitCode {
    // `cargo test --all-targets` comes by as well, and has no hour to spare.
    if !std::env::args().any(|argument| argument == "--bench") {
        println!("this runs with `scripts/bench`");
        return ExitCode::SUCCESS;
    }
    let arguments = Arguments::parse();
    let ran = tokio::runtime::Runtime::new()
        .context("there is no runtime")
        .and_then(|runtime| runtime.block_on(run(arguments)));
    match ran {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            println!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Measures and cleans up; answers whether everything holds.
async fn run(arguments: Arguments) -> Result<bool> {
    let begun_at = Instant::now();
    let (mut interrupt, mut terminate) =
        (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    let ground = Ground::prepare().await?;
    // Whatever happens, Postgres is stopped and its folder removed; servers end with the future that holds them.
    let measured = tokio::select! {
        measured = AssertUnwindSafe(measure(&ground, &arguments, begun_at)).catch_unwind() => {
            measured.unwrap_or_else(|_panic| Err(anyhow!("measuring panicked")))
        }
        _ = interrupt.recv() => Err(anyhow!("interrupted")),
        _ = terminate.recv() => Err(anyhow!("terminated")),
    };
    ground.clear().await?;
    let report = measured?;
    if let Some(file) = &arguments.json {
        std::fs::write(file, serde_json::to_vec_pretty(&report)?)?;
    }
    let holds = report.conclude();
    println!("measured in {:.0?}", begun_at.elapsed());
    Ok(holds)
}

async fn measure(ground: &Ground, arguments: &Arguments, begun_at: Instant) -> Result<Report> {
    type Measured<'a> = LocalBoxFuture<'a, Result<Part>>;
    let scale = Scale { is_quick: arguments.quick, begun_at };
    let workloads: [(&'static str, Measured<'_>); 8] = [
        ("a", two_step::measure(ground, scale).boxed_local()),
        ("c", idle::measure(ground, scale).boxed_local()),
        ("d", backlog::measure(ground, scale).boxed_local()),
        ("e", long::measure(ground, scale).boxed_local()),
        ("f", watchers::measure(ground, scale).boxed_local()),
        ("g", servers::measure(ground, scale).boxed_local()),
        ("s", streams::measure(ground, scale).boxed_local()),
        // The last, since it takes what is left of the time.
        ("h", snapshot::measure(ground, scale).boxed_local()),
    ];
    let known = |name: &String| workloads.iter().any(|(known, _)| known == name);
    if let Some(unknown) = arguments.only.iter().find(|name| !known(name)) {
        bail!("there is no workload {unknown}");
    }
    let machine = ground.describe().await?;
    println!("{machine}");
    let mut report = Report { machine, quick: arguments.quick, parts: Vec::new() };
    for (name, workload) in workloads {
        if arguments.only.is_empty() || arguments.only.iter().any(|only| only == name) {
            let part = workload.await.unwrap_or_else(|error| Part::failed(name, &error));
            report.parts.push(part);
        }
    }
    Ok(report)
}

/// So many clients of a server, each with its own connection.
pub async fn connect(server: &Served, count: usize) -> Result<Vec<Client>> {
    let mut clients = Vec::new();
    for _ in 0..count {
        clients.push(server.client().await?);
    }
    Ok(clients)
}
