//! Recovery: how soon a step that was cut off by kill -9 is asked again, elsewhere or by the same server started anew.
//!
//! Measured from the kill, or from the new server's readiness, to the second request as the provider sees it.

use std::sync::Arc;
use std::time::Duration;

use rand::SeedableRng as _;
use rand::rngs::StdRng;
use serde_json::json;
use tokio::time::{Instant, sleep};

use super::plan::Plan;
use super::world::{UNCOMPLETED, World};
use super::{evidence, shape::Shape, submitter};

const ROUNDS: usize = 20;
const LONE_ROUNDS: usize = 5;
/// What half of the recoveries have to stay within.
const MEDIAN_MAX: Duration = Duration::from_secs(2);
/// A server judges others only after it has known the database for a while.
const SETTLING: Duration = Duration::from_secs(6);

/// Plays all rounds; answers whether the medians are as they have to be.
pub async fn run(plan: &Plan) -> bool {
    let lease = plan.lease_seconds;
    println!("recovery: kill -9 in the middle of a step, lease {lease} s");
    let world = Arc::new(World::make(80).await);
    world.fleet.start(lease).await;
    evidence::keep_log(&world).await;
    world.fleet.start(lease).await;
    let mut elsewhere = Vec::new();
    for round in 1..=ROUNDS {
        sleep(SETTLING).await;
        let job_id = format!("elsewhere-{round}");
        let killed_at = kill_in_the_middle(&world, &job_id).await;
        elsewhere.push(asked_again(&world, &job_id, killed_at, lease).await);
        world.fleet.start(lease).await;
    }
    let is_soon = report("another server lives", &mut elsewhere);
    let mut random = plan.random();
    let other = world.fleet.take_out(&mut random).expect("there are two");
    world.fleet.terminate(other).await;
    let mut alone = Vec::new();
    for round in 1..=LONE_ROUNDS {
        sleep(SETTLING).await;
        let job_id = format!("alone-{round}");
        kill_in_the_middle(&world, &job_id).await;
        world.fleet.start(lease).await;
        alone.push(asked_again(&world, &job_id, Instant::now(), lease).await);
    }
    let is_soon_alone = report("the lone server is started again", &mut alone);
    assert!(world.wait_for_none(UNCOMPLETED, Duration::from_secs(30)).await, "every job completes");
    super::ending::end_the_rest(&world).await;
    world.end_and_judge().await == 0 && is_soon && is_soon_alone
}

/// Kills the server that is in the middle of a new job's step; answers when.
async fn kill_in_the_middle(world: &Arc<World>, job_id: &str) -> Instant {
    let fault = json!({"matching": format!("{job_id}/"), "hold_after_events": 3, "times": 1});
    world.script(&json!({"model": fault})).await;
    let random = StdRng::seed_from_u64(1);
    submitter::submit(Arc::clone(world), Shape::of_runs(job_id, 1), random).await;
    wait_for(world, job_id, "&outcome=held", 1, Duration::from_secs(30)).await;
    let holder = sqlx::query_scalar::<_, i32>(
        "select e.pid from longhaul.job j join longhaul.executor e using (executor_id)
         where j.job_id = $1",
    );
    let process = holder.bind(job_id).fetch_one(&world.db.pool).await.unwrap();
    let server = world.fleet.take_out_process(process.cast_unsigned()).expect("it is one of ours");
    let killed_at = Instant::now();
    server.kill9().await;
    killed_at
}

async fn asked_again(world: &World, job_id: &str, since: Instant, lease: u64) -> Duration {
    wait_for(world, job_id, "", 2, Duration::from_secs(lease + 30)).await;
    since.elapsed()
}

async fn wait_for(world: &World, job_id: &str, query: &str, count: usize, patience: Duration) {
    let query = format!("&matching={job_id}/{query}");
    let look = async {
        while world.journal("model/requests", &query, 0).await.len() < count {
            sleep(Duration::from_millis(10)).await;
        }
    };
    let found = tokio::time::timeout(patience, look).await;
    found.unwrap_or_else(|_| panic!("{job_id} was never asked {count} times"));
}

/// Prints median and worst; answers whether the median is soon enough.
fn report(what: &str, times: &mut [Duration]) -> bool {
    times.sort_unstable();
    let (median, worst) = (times[times.len() / 2], times[times.len() - 1]);
    let count = times.len();
    println!("  {what}: median {median:.2?}, worst {worst:.2?} of {count}");
    median <= MEDIAN_MAX
}
