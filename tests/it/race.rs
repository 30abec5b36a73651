//! Races: people act at the very moment in which a checkpoint is written.
//!
//! All answers come at once, and within that moment each job gets an action through one of two servers.
//! Whichever came first, the job can be led to an end, and the tables obey the laws.

use std::time::{Duration, Instant};

use longhaul::rpc::proto::control_request::Action;
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use tonic::Code;

use crate::harness::{Client, Rig, cancel, job, pause, pause_now, resume, retry, run};
use crate::storm::{assert_laws, end};

const JOBS: usize = 120;
/// About as long as it takes to store the answers of all.
const MOMENT_MS: u64 = 500;

/// Waits for its moment, and then does one or two things that belong together.
async fn act(clients: [&Client; 2], number: usize, mut random: StdRng) {
    tokio::time::sleep(Duration::from_millis(random.random_range(0..MOMENT_MS))).await;
    let actions: &[fn() -> Action] = match random.random_range(0..5) {
        0 => &[pause_now],
        1 => &[cancel],
        2 => &[cancel, || retry(1)],
        3 => &[pause_now, resume],
        _ => &[pause, || retry(0)],
    };
    for action in actions {
        // The two things may reach different servers.
        let client = clients[random.random_range(0..2)];
        if let Err(status) = client.try_control(&format!("race-{number}"), action()).await {
            assert_eq!(status.code(), Code::FailedPrecondition, "race-{number}: {status:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_action_at_the_moment_of_a_checkpoint_breaks_no_law() {
    let rig = Rig::start_with(&[("LONGHAUL_SLOTS", "200")]).await;
    let other = rig.serve().await;
    rig.sandbox.hold("Race").await;
    for number in 0..JOBS {
        rig.submit(job(&format!("race-{number}"), [run("Race."), run("Again.")])).await;
    }
    rig.sandbox.wait_for("Race", "held", JOBS).await;
    let seed = rand::random::<u32>();
    println!("the seed is {seed}");
    let began_at = Instant::now();
    rig.sandbox.mend().await;
    let clients = [&*rig, &other.client];
    let acting = (0..JOBS).map(|number| {
        let at = u64::from(seed) + u64::try_from(number).unwrap();
        act(clients, number, StdRng::seed_from_u64(at))
    });
    futures::future::join_all(acting).await;
    println!("{JOBS} races in {:.1?}", began_at.elapsed());
    let count = |of| rig.db.number(of);
    let aborted = count("select count(*) from longhaul.model_call where outcome = 'aborted'").await;
    let kept = count("select count(*) from longhaul.checkpoint").await;
    println!("{aborted} calls were aborted, {kept} checkpoints were written");
    futures::future::join_all((0..JOBS).map(|number| {
        let rig = &rig;
        async move { end(rig, &format!("race-{number}")).await }
    }))
    .await;
    let open =
        "select count(*) = 0 and $1 <> '' from longhaul.model_call where outcome = 'started'";
    rig.db.wait_until(open, "any").await;
    assert_laws(&rig).await;
    let seen = i64::try_from(rig.sandbox.requests("").await.len()).unwrap();
    assert!(seen <= count("select count(*) from longhaul.model_call").await, "{seen} were seen");
}
