//! Fencing: a server freezes past its lease in the middle of a call, another finishes the job, and the first comes back.
//!
//! With the fence its writes change nothing; a build without it has to be caught by the same checker,
//! which shows that the checker would notice.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use rand::SeedableRng as _;
use rand::rngs::StdRng;
use serde_json::json;
use tokio::time::timeout;

use super::world::{UNCOMPLETED, World};
use super::{evidence, shape::Shape, submitter};

const PATIENCE: Duration = Duration::from_secs(30);
const LEASE_SECONDS: u64 = 2;
/// Counts the calls that their own server has not settled.
const OPEN: &str = "select count(*) from longhaul.model_call where outcome in ('started', 'lost')";

/// Plays it with the fence and without; answers whether only the latter is caught.
pub async fn run() -> bool {
    println!("fencing: with the fence");
    let fenced = play(None).await;
    println!("fencing: {fenced} violations with the fence, where none is due");
    let program = build_unfenced();
    println!("fencing: without the fence");
    let unfenced = play(Some(program)).await;
    println!("fencing: {unfenced} violations without the fence, where some are due");
    fenced == 0 && unfenced > 0
}

/// The number of violations after the scene, with the program under test or another one.
async fn play(program: Option<PathBuf>) -> usize {
    let mut world = World::make(60).await;
    if let Some(program) = program {
        world.fleet.run_program(program);
    }
    let world = Arc::new(world);
    let first = world.fleet.try_start(LEASE_SECONDS).await.expect("a server starts");
    evidence::keep_log(&world).await;
    // The first attempt is held in the middle of its answer; the second goes well.
    let fault = json!({"hold_after_events": 3, "times": 1});
    world.script(&json!({"model": fault})).await;
    world.fleet.take_in(first);
    let shape = Shape::of_runs("frozen", 3);
    submitter::submit(Arc::clone(&world), shape, StdRng::seed_from_u64(1)).await;
    wait_for(&world, "held").await;
    let frozen = world.fleet.take_all().remove(0);
    frozen.freeze();
    world.fleet.start(LEASE_SECONDS).await;
    assert!(world.wait_for_none(UNCOMPLETED, PATIENCE).await, "another server finishes the job");
    // The answer arrives in full before the frozen one can be told that the job is gone.
    world.script(&json!({"model": null})).await;
    wait_for(&world, "settled").await;
    frozen.thaw();
    world.fleet.take_in(frozen);
    // Once it has settled its call, it has also tried to store what came of it.
    let settled = world.wait_for_none(OPEN, PATIENCE).await;
    let mut violations = world.end_and_judge().await;
    if !settled {
        println!("the call of the frozen server was never settled");
        violations += 1;
    }
    violations
}

/// Waits until a request is held, or until none is any more.
async fn wait_for(world: &World, what: &str) {
    let look = async {
        loop {
            let held = world.journal("model/requests", "&outcome=held", 0).await.len();
            let pending = world.journal("model/requests", "&outcome=pending", 0).await.len();
            if (what == "held" && held > 0) || (what == "settled" && held + pending == 0) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(PATIENCE, look).await.expect("the sandbox gets there");
}

/// Builds the program without the fence beside the one under test: one more compilation of this crate.
fn build_unfenced() -> PathBuf {
    let folder = Path::new(env!("CARGO_BIN_EXE_longhaul")).parent().expect("it is in a folder");
    let target = folder.parent().expect("a profile's folder is in that of the target");
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "--locked", "--quiet", "--features", "without_fencing"]);
    cargo.args(["--bin", "longhaul-unfenced", "--target-dir"]).arg(target);
    cargo.current_dir(env!("CARGO_MANIFEST_DIR")).env("SQLX_OFFLINE", "true");
    let built = cargo.status().expect("cargo runs");
    assert!(built.success(), "the program without the fence is built");
    folder.join("longhaul-unfenced")
}
