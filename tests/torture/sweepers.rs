//! Sweepers: ten servers and ten thousand jobs that fall due at once; each is moved on once and claimed once.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use rand::SeedableRng as _;
use rand::rngs::StdRng;
use tokio::time::Instant;

use super::evidence::Evidence;
use super::world::{UNCOMPLETED, World};
use super::{check, ending, evidence, shape::Shape, submitter};

const SERVERS: usize = 10;
const JOBS: u64 = 10_000;
/// Long, so that no lease runs out while the clock is moved.
const LEASE_SECONDS: u64 = 120;
const WAIT_SECONDS: i32 = 7200;
/// Counts the jobs that are still parked.
const PARKED: &str = "select count(*) from longhaul.job where run_at is not null";
const PATIENCE: Duration = Duration::from_mins(10);

/// Plays it; answers whether each job was claimed once.
pub async fn run() -> bool {
    println!("sweepers: {SERVERS} servers, {JOBS} jobs that fall due at once");
    let mut world = World::make(220).await;
    world.fleet.tell_nobody();
    let world = Arc::new(world);
    world.fleet.start(LEASE_SECONDS).await;
    evidence::keep_log(&world).await;
    let began_at = Instant::now();
    let submits = (0..JOBS).map(|number| {
        let shape = Shape::waiting(&format!("due-{number}"), WAIT_SECONDS);
        submitter::submit(Arc::clone(&world), shape, StdRng::seed_from_u64(number))
    });
    futures::stream::iter(submits).buffer_unordered(16).collect::<Vec<()>>().await;
    println!("  submitted in {:.1?}", began_at.elapsed());
    for _ in 1..SERVERS {
        world.fleet.start(LEASE_SECONDS).await;
    }
    let due_at = Instant::now();
    world.shift_clock(f64::from(WAIT_SECONDS) + 1.0).await;
    let swept = world.wait_for_none(PARKED, PATIENCE).await;
    println!("  swept in {:.1?}", due_at.elapsed());
    let ended = world.wait_for_none(UNCOMPLETED, PATIENCE).await;
    println!("  completed in {:.1?}", due_at.elapsed());
    ending::end_the_rest(&world).await;
    for server in world.fleet.take_all() {
        world.fleet.terminate(server).await;
    }
    let evidence = evidence::gather(&world).await;
    let (violations, _) = check::judge(&world, &evidence).await;
    let twice = claimed_more_than_once(&evidence);
    println!("  {} jobs, {twice} of them not claimed just once", evidence.jobs.len());
    let went_well = swept && ended && violations == 0 && twice == 0;
    Arc::into_inner(world).expect("nobody else acts").end(!went_well).await;
    went_well
}

/// Jobs with a claim that no error of the provider explains.
fn claimed_more_than_once(evidence: &Evidence) -> usize {
    let is_once = |job: &&evidence::JobEvidence| {
        let of = |kind: &str| job.events.iter().filter(|event| event.kind == kind).count();
        let claims = 1 + of("step_delayed");
        job.row.epoch.unsigned_abs() as usize == claims
            && (of("step_waiting"), of("step_started"), of("step_finished")) == (1, claims, 2)
            && job.calls.len() == claims
    };
    evidence.jobs.len() - evidence.jobs.values().filter(is_once).count()
}
