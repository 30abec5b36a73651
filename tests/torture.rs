//! Torture: real servers on one database, attacked in every way at once, and then judged by the invariants.
//!
//! Without arguments it is the short form that belongs to all tests: a storm of less than a minute by a random seed,
//! and the scenario that shows that a build without fencing would be noticed.
//! `scripts/torture` gives it the time, the seed, or the name of a scenario.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on says so by ending")]
#![expect(clippy::print_stdout, reason = "it reports to whoever runs it")]

#[expect(dead_code, unused_imports, reason = "the other tests need more of it")]
#[path = "it/harness/mod.rs"]
mod harness;

#[path = "torture/mod.rs"]
mod torture;

use std::process::ExitCode;

use torture::plan::{Asked, Plan};

fn main() -> ExitCode {
    let plan = match Plan::read(std::env::args().skip(1)) {
        Asked::Run(plan) => plan,
        Asked::Skip => return ExitCode::SUCCESS,
        Asked::Wrong(why) => {
            println!("{why}");
            return ExitCode::from(64);
        }
    };
    rustls::crypto::ring::default_provider().install_default().unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let went_well = runtime.block_on(async {
        tokio::select! {
            went_well = torture::run(plan) => went_well,
            // Ending this way stops Postgres and kills every server.
            interrupted = tokio::signal::ctrl_c() => {
                interrupted.unwrap();
                println!("interrupted");
                false
            }
        }
    });
    if went_well { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
