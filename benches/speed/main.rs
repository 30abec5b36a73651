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
mod workload;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use clap::Parser;

use crate::machine::Ground;
use crate::report::Report;
use crate::server::{Client, Served};
use crate::workload::two_step;

/// What to measure.
#[derive(Debug, Parser)]
struct Arguments {
    /// Three minutes instead of an hour
    #[arg(long)]
    quick: bool,
    /// Only these workloads: a, c, d, e, f, g, h
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Write everything into this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Said by cargo
    #[arg(long, hide = true)]
    bench: bool,
}

/// How long everything takes.
#[derive(Clone, Copy, Debug)]
pub struct Scale {
    is_quick: bool,
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
        Duration::from_millis(self.pick(500, 4000))
    }

    /// How long pgbench runs in each round.
    pub fn walk_seconds(self) -> u32 {
        self.pick(1, 3)
    }

    /// How many jobs are submitted at a slow pace in each round.
    pub fn paced(self) -> usize {
        self.pick(20, 100)
    }
}

fn main() -> Result<()> {
    // `cargo test --all-targets` comes by as well, and has no hour to spare.
    if !std::env::args().any(|argument| argument == "--bench") {
        println!("this runs with `scripts/bench`");
        return Ok(());
    }
    let arguments = Arguments::parse();
    tokio::runtime::Runtime::new()?.block_on(run(arguments))
}

async fn run(arguments: Arguments) -> Result<()> {
    let begun_at = Instant::now();
    let ground = Ground::prepare().await?;
    let measured = measure(&ground, &arguments).await;
    ground.clear().await?;
    let report = measured?;
    println!("measured in {:.0?}", begun_at.elapsed());
    if let Some(file) = &arguments.json {
        std::fs::write(file, serde_json::to_vec_pretty(&report)?)?;
    }
    let demands = report.parts.iter().flat_map(|part| &part.demands);
    let failed: Vec<&str> =
        demands.filter(|demand| !demand.holds).map(|demand| demand.what.as_str()).collect();
    if !failed.is_empty() {
        bail!("these do not hold: {}", failed.join("; "));
    }
    Ok(())
}

async fn measure(ground: &Ground, arguments: &Arguments) -> Result<Report> {
    let scale = Scale { is_quick: arguments.quick };
    let machine = ground.describe().await?;
    println!(
        "{} cores of {}, {} GiB, Linux {}",
        machine.cores, machine.processor, machine.memory_gib, machine.kernel
    );
    println!("{}", machine.postgres);
    println!("{}", machine.postgres_settings);
    println!("fdatasync of 8 KiB: {:.0} us", machine.fdatasync_us);
    let mut report = Report { machine, quick: arguments.quick, parts: Vec::new() };
    let wanted = |name: &str| arguments.only.is_empty() || arguments.only.iter().any(|o| o == name);
    if wanted("a") {
        say("a, b: jobs of two steps");
        report.parts.push(two_step::measure(ground, scale).await?);
    }
    Ok(report)
}

fn say(what: &str) {
    println!("== {what}");
}

/// So many clients of a server, each with its own connection.
pub async fn connect(server: &Served, count: usize) -> Result<Vec<Client>> {
    let mut clients = Vec::new();
    for _ in 0..count {
        clients.push(server.client().await?);
    }
    Ok(clients)
}
