//! Chaos: what is done to queues on Postgres, one thing after the other, under a steady load.
//!
//! Throughput is read from the log afterwards: completed jobs a second before, during and after each attack,
//! and how long after its end it took until there were half as many again as before.

use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use rand::rngs::StdRng;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use super::evidence::Evidence;
use super::plan::{Plan, fork};
use super::postgres::Stop;
use super::shape::Shape;
use super::world::World;
use super::{check, ending, evidence, submitter};

const SERVERS: usize = 3;
const LEASE_SECONDS: u64 = 3;
/// Jobs of one step a second.
const RATE: f64 = 10.0;
const CALM: Duration = Duration::from_secs(10);
/// Longer than this and throughput did not return.
const RETURN_MAX: Duration = Duration::from_secs(20);
const WINDOW: TimeDelta = TimeDelta::seconds(2);

#[derive(Clone, Copy, Debug)]
enum Attack {
    Crash,
    RepeatedKills,
    RestartFast,
    RestartImmediate,
    BackendKill,
    PoolExhaustion,
}

const ATTACKS: [Attack; 6] = [
    Attack::Crash,
    Attack::RepeatedKills,
    Attack::RestartFast,
    Attack::RestartImmediate,
    Attack::BackendKill,
    Attack::PoolExhaustion,
];

struct Attacked {
    what: Attack,
    began_at: DateTime<Utc>,
    ended_at: DateTime<Utc>,
}

/// Plays all attacks; answers whether throughput returned after each and the checker found nothing.
pub async fn run(plan: &Plan) -> bool {
    println!("chaos: seed {}, {SERVERS} servers, {RATE} jobs a second", plan.seed);
    let world = Arc::new(World::make(90).await);
    let mut random = plan.random();
    for _ in 0..SERVERS {
        world.fleet.start(LEASE_SECONDS).await;
    }
    evidence::keep_log(&world).await;
    let stop = CancellationToken::new();
    let load = tokio::spawn(submit_steadily(Arc::clone(&world), fork(&mut random), stop.clone()));
    let mut attacked = Vec::new();
    for what in ATTACKS {
        sleep(CALM).await;
        let began_at = now();
        attack(&world, what, &mut random).await;
        attacked.push(Attacked { what, began_at, ended_at: now() });
        sleep(RETURN_MAX).await;
    }
    stop.cancel();
    load.await.unwrap();
    ending::end_every_job(&world, &mut random).await;
    ending::end_the_rest(&world).await;
    world.fleet.note_the_dead();
    for server in world.fleet.take_all() {
        world.fleet.terminate(server).await;
    }
    world.fleet.note_the_logs();
    let evidence = evidence::gather(&world).await;
    let returned = report(&attacked, &completions(&evidence));
    world.tally.print();
    let (violations, _) = check::judge(&world, &evidence).await;
    let went_well = returned && violations == 0;
    Arc::into_inner(world).expect("nobody else acts").end(!went_well).await;
    went_well
}

async fn submit_steadily(world: Arc<World>, mut random: StdRng, stop: CancellationToken) {
    let mut submits = JoinSet::new();
    let began_at = Instant::now();
    for number in 0_u32.. {
        tokio::time::sleep_until(began_at + Duration::from_secs_f64(f64::from(number) / RATE))
            .await;
        if stop.is_cancelled() {
            break;
        }
        let shape = Shape::of_runs(&format!("chaos-{number}"), 1);
        submits.spawn(submitter::submit(Arc::clone(&world), shape, fork(&mut random)));
    }
    submits.join_all().await;
}

async fn attack(world: &World, attack: Attack, random: &mut StdRng) {
    match attack {
        Attack::Crash => kill_one(world, random).await,
        Attack::RepeatedKills => {
            for _ in 0..5 {
                kill_one(world, random).await;
                sleep(Duration::from_secs(1)).await;
            }
        }
        Attack::RestartFast => world.db.restart(Stop::Fast, Duration::ZERO).await,
        Attack::RestartImmediate => world.db.restart(Stop::Immediate, Duration::ZERO).await,
        Attack::BackendKill => {
            for _ in 0..5 {
                world.tally.add_many("backends killed", world.db.kill_backends(100).await);
                sleep(Duration::from_millis(500)).await;
            }
        }
        Attack::PoolExhaustion => {
            let taken = world.db.exhaust(Duration::from_secs(6)).await;
            world.tally.add_many("connections taken", taken);
        }
    }
}

async fn kill_one(world: &World, random: &mut StdRng) {
    if let Some(server) = world.fleet.take_out(random) {
        server.kill9().await;
        world.fleet.start(LEASE_SECONDS).await;
    }
}

/// When jobs completed, in order.
fn completions(evidence: &Evidence) -> Vec<DateTime<Utc>> {
    let all = evidence.jobs.values().flat_map(|job| &job.transactions);
    let mut at: Vec<_> = all.filter(|one| one.tells("job_completed")).map(|one| one.at).collect();
    at.sort_unstable();
    at
}

fn report(attacked: &[Attacked], completions: &[DateTime<Utc>]) -> bool {
    let rate = |from: DateTime<Utc>, to: DateTime<Utc>| {
        let count = completions.iter().filter(|at| (from..to).contains(at)).count();
        count as f64 / (to - from).as_seconds_f64().max(0.001)
    };
    println!(
        "{:<18} {:>8} {:>8} {:>8} {:>8}  back after",
        "jobs a second", "before", "lasted", "during", "after"
    );
    let mut all_returned = true;
    for one in attacked {
        let before = rate(one.began_at - TimeDelta::seconds(8), one.began_at);
        let (during, lasted) = (rate(one.began_at, one.ended_at), one.ended_at - one.began_at);
        let last = one.ended_at + TimeDelta::from_std(RETURN_MAX).expect("it is short");
        let after = rate(one.ended_at, last);
        let steps = (0..).map(|step| one.ended_at + TimeDelta::milliseconds(100 * step));
        let mut starts = steps.take_while(|start| *start + WINDOW <= last);
        let back_at = starts.find(|start| rate(*start, *start + WINDOW) >= before / 2.0);
        let back = back_at.map(|at| (at - one.ended_at).as_seconds_f64());
        println!(
            "{:<18} {before:>8.1} {:>7.1}s {during:>8.1} {after:>8.1}  {}",
            format!("{:?}", one.what),
            lasted.as_seconds_f64(),
            back.map_or("never".to_owned(), |seconds| format!("{seconds:.1} s")),
        );
        all_returned &= back.is_some();
    }
    all_returned
}

#[expect(clippy::disallowed_methods, reason = "it is compared with the log, on the same machine")]
fn now() -> DateTime<Utc> {
    Utc::now()
}
