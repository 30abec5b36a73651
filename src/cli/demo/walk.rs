//! `longhaul demo --auto`: the five exercises, one after the other, by itself.
//!
//! In comes a running site; out goes the exit code: 0 only if every expectation held.
//! An exercise that breaks off does not keep the others from running.

use anyhow::Result;

use super::{Site, check::Checks, crash, decide, pause, repeat};
use crate::cli::exit::Exit;

/// Walks through all exercises.
pub async fn run(site: &Site) -> Result<Exit> {
    let doors = &site.doors().await?;
    let mut checks = Checks::begin();
    let checks = &mut checks;
    let walked = decide::approve(doors, checks).await;
    settle(walked, checks)?;
    let walked = decide::reject(doors, checks).await;
    settle(walked, checks)?;
    let walked = repeat::duplicate(doors, checks).await;
    settle(walked, checks)?;
    let walked = pause::pause_and_resume(doors, checks).await;
    settle(walked, checks)?;
    let walked = Box::pin(crash::crash(site, checks)).await;
    settle(walked, checks)?;
    let walked = decide::nothing_came_later(doors, checks).await;
    settle(walked, checks)?;
    Ok(if checks.end()? { Exit::Ok } else { Exit::Unexpected })
}

fn settle(walked: Result<()>, checks: &mut Checks) -> Result<()> {
    walked.or_else(|error| checks.broke_off(&error))
}
