//! The storm: everybody acts at once for the given time, everything is mended, every job ends, and then it is judged.

use std::sync::Arc;
use std::time::Duration;

use rand::rngs::StdRng;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use super::plan::{Plan, fork};
use super::world::World;
use super::{check, ending, evidence, killer, person, submitter, trouble};

/// Who controls jobs, and who opens links.
const CONTROLLERS: usize = 4;
const CLICKERS: usize = 2;
/// How often it is looked whether a server has ended by itself.
const LOOK: Duration = Duration::from_millis(500);

/// Runs one storm; answers whether all was well.
pub async fn run(plan: &Plan) -> bool {
    let (seed, seconds, servers) = (plan.seed, plan.duration.as_secs(), plan.servers);
    println!("torture: seed {seed}, {seconds} s, {servers} servers");
    let connections = u32::try_from(servers * 14 + 40).unwrap_or(u32::MAX);
    let world = Arc::new(World::make(connections).await);
    let mut random = plan.random();
    for _ in 0..servers {
        world.fleet.start(killer::any_lease_seconds(&mut random)).await;
    }
    evidence::keep_log(&world).await;

    let finish = CancellationToken::new();
    let submitting = attack(&world, plan, &mut random, &finish).await;
    println!("  the storm is over; every job is helped to its end");
    let ended_at = Instant::now();
    ending::end_every_job(&world, &mut random).await;
    ending::end_the_rest(&world).await;
    finish.cancel();
    submitting.await.unwrap();
    world.fleet.note_the_dead();
    for server in world.fleet.take_all() {
        world.fleet.terminate(server).await;
    }
    world.fleet.note_the_logs();
    println!("  all ended {:.1} s after the storm", ended_at.elapsed().as_secs_f64());

    let evidence = evidence::gather(&world).await;
    count(&world, &evidence);
    println!("what happened (seed {seed}, {:.1} minutes)", plan.duration.as_secs_f64() / 60.0);
    world.tally.print();
    let (violations, checked) = check::judge(&world, &evidence).await;
    let idle = too_little(&world, plan);
    for what in &idle {
        println!("too little happened: {what}");
    }
    println!("seed {seed}: {violations} violations in {checked} checks");
    let went_well = violations == 0 && idle.is_empty();
    let world = Arc::into_inner(world).expect("every actor has ended");
    world.end(!went_well).await;
    went_well
}

/// Lets everybody act for the given time; what is left of it is the submitters, whose watchers wait for the finish.
async fn attack(
    world: &Arc<World>,
    plan: &Plan,
    random: &mut StdRng,
    finish: &CancellationToken,
) -> tokio::task::JoinHandle<()> {
    let (stop, mut actors) = (CancellationToken::new(), JoinSet::new());
    let submitting = tokio::spawn(submitter::run(
        Arc::clone(world),
        plan.rate,
        fork(random),
        stop.clone(),
        finish.clone(),
    ));
    for _ in 0..CONTROLLERS {
        actors.spawn(person::control(Arc::clone(world), fork(random), stop.clone()));
    }
    for _ in 0..CLICKERS {
        actors.spawn(person::click(Arc::clone(world), fork(random), stop.clone()));
    }
    for _ in 0..(plan.servers / 2).max(1) {
        actors.spawn(killer::at_servers(Arc::clone(world), fork(random), stop.clone()));
    }
    actors.spawn(killer::at_postgres(Arc::clone(world), fork(random), stop.clone()));
    actors.spawn(trouble::run(Arc::clone(world), fork(random), stop.clone()));
    let until = Instant::now() + plan.duration;
    while Instant::now() < until {
        world.fleet.note_the_dead();
        sleep(LOOK).await;
    }
    stop.cancel();
    // Killers end with their servers back in the fleet.
    while let Some(ended) = actors.join_next().await {
        ended.unwrap();
    }
    let lost = plan.servers.saturating_sub(world.fleet.count());
    assert_eq!(lost, 0, "every server that was taken out is back or replaced");
    submitting
}

/// Counts what only the tables tell.
fn count(world: &World, evidence: &evidence::Evidence) {
    let tally = &world.tally;
    tally.add_many("jobs", evidence.jobs.len() as u64);
    tally.add_many("requests to the provider", evidence.requests.len() as u64);
    tally.add_many("messages to people", evidence.messages.len() as u64);
    for job in evidence.jobs.values() {
        let reason = job.row.reason.as_deref().unwrap_or_default();
        tally.add(&format!("jobs that ended {} {reason}", job.row.status));
        tally.add_many("ledger rows", job.calls.len() as u64);
        for event in &job.events {
            let name = match event.kind.as_str() {
                "attempt_lost" => "recoveries (attempt_lost)",
                "attempt_released" => "releases (attempt_released)",
                "approval_decided" => "decisions",
                "approval_expired" => "approvals expired",
                "job_retried" => "retries",
                "step_delayed" => "attempts delayed by the provider",
                _ => continue,
            };
            tally.add(name);
        }
    }
}

/// A run in which nothing happened shows nothing.
fn too_little(world: &World, plan: &Plan) -> Vec<String> {
    let seconds = plan.duration.as_secs();
    let least = [
        ("jobs", seconds),
        ("submits answered", seconds),
        ("attacks: kill -9", seconds / 20),
        ("attacks: freeze", seconds / 40),
        ("attacks: graceful stop", seconds / 60),
        ("attacks: Postgres restarted", seconds / 40),
        ("attacks: backends killed", seconds / 20),
        ("provider faults: ", seconds / 2),
        ("WhatsApp faults: ", seconds / 10),
        ("recoveries", seconds / 20),
        ("decisions", seconds / 10),
        ("watch events", seconds),
        ("actions answered: ", seconds / 2),
        ("links: pressed", 1),
    ];
    let short = least.into_iter().filter(|(name, least)| world.tally.count_all(name) < *least);
    short
        .map(|(name, least)| format!("{name}: {} of {least}", world.tally.count_all(name)))
        .collect()
}
