//! The parts of the torture tool, in the order in which they build on each other.

pub mod plan;

pub mod tally;

pub mod postgres;

pub mod fleet;

pub mod world;

pub mod door;

pub mod shape;

pub mod submitter;

pub mod watcher;

pub mod person;

pub mod killer;

pub mod trouble;

pub mod ending;

pub mod evidence;

pub mod check;

mod storm;

mod fencing;

mod recovery;

mod chaos;

mod sweepers;

use plan::Plan;

/// Runs what was asked for; answers whether all was well.
pub async fn run(plan: Plan) -> bool {
    match plan.scenario.as_deref() {
        Some("fencing") => fencing::run().await,
        Some("recovery") => recovery::run(&plan).await,
        Some("chaos") => chaos::run(&plan).await,
        Some("sweepers") => sweepers::run().await,
        Some(other) => {
            println!("there is no scenario {other}; there are fencing, recovery, chaos, sweepers");
            false
        }
        None => {
            let stormed = storm::run(&plan).await;
            let fenced = !plan.is_short || fencing::run().await;
            stormed && fenced
        }
    }
}
