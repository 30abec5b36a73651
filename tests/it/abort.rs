//! Abort: how soon after a Cancel or a `pause now` the provider's stream is closed, on whichever server it runs.
//!
//! Measured from before the action is sent until the provider sees the connection close, so nothing is left out.
//! The promise is 500 ms while NOTIFY works, and 1.5 s while it does not; the median must keep it,
//! and the bound on the worst leaves room for a machine that does other things.

use std::time::{Duration, Instant};

use crate::harness::{Client, NOBODY, Node, Rig, cancel, job, pause_now, run};

const COUNT: usize = 20;
const WORST: Duration = Duration::from_secs(3);

/// A `pg_notify` that is found before Postgres's own: each wake-up is written down and told nobody.
const DEAFEN: &str = "
    create schema deaf;
    create table deaf.unheard (payload text);
    create function deaf.pg_notify(channel text, payload text) returns void
      language sql as 'insert into deaf.unheard values (payload)';
    do $$ begin execute format(
      'alter database %I set search_path = deaf, pg_catalog, public', current_database());
    end $$";

/// Jobs that are held at the provider by this server, and another one to move them from.
async fn held(rig: &Rig, runs: &Client) -> Node {
    rig.sandbox.hold("Hold").await;
    for number in 0..COUNT {
        runs.submit(job(&format!("held-{number}"), [run(&format!("Hold <{number}>."))])).await;
    }
    rig.sandbox.wait_for("Hold", "held", COUNT).await;
    rig.serve().await
}

async fn close(rig: &Rig, at: &Client, number: usize) -> Duration {
    let action = if number.is_multiple_of(2) { cancel() } else { pause_now() };
    let began_at = Instant::now();
    assert!(at.control(&format!("held-{number}"), action).await);
    rig.sandbox.wait_for(&format!("<{number}>"), "disconnected", 1).await;
    began_at.elapsed()
}

/// Holds what was measured against the promise, and says it.
fn judged(how: &str, mut taken: Vec<Duration>, promised: Duration) -> String {
    taken.sort_unstable();
    let (median, worst) = (taken[taken.len() / 2], taken[taken.len() - 1]);
    assert!(median < promised, "{how}: {taken:?}");
    assert!(worst < WORST, "{how}: {taken:?}");
    format!("{how}: median {median:.3?}, worst {worst:.3?} of {}", taken.len())
}

#[tokio::test(flavor = "multi_thread")]
async fn with_notify_a_stream_is_closed_at_once_wherever_it_runs() {
    let rig = Rig::start().await;
    let other = held(&rig, &rig).await;
    let mut taken = Vec::new();
    // Each right after the other, so after a comparison: without a wake-up the next is a whole second away.
    for number in 0..COUNT {
        taken.push(close(&rig, &other.client, number).await);
    }
    println!("{}", judged("with NOTIFY", taken, Duration::from_millis(500)));
}

#[tokio::test(flavor = "multi_thread")]
async fn without_notify_a_stream_is_closed_soon_wherever_it_runs() {
    // Telling somebody of a cancel would wake the server that tells.
    let rig = Rig::without_server(&[("LONGHAUL_NOTIFY", NOBODY)]).await;
    sqlx::raw_sql(DEAFEN).execute(&rig.db.pool).await.unwrap();
    let server = rig.serve().await;
    let other = held(&rig, &server.client).await;
    let closing = (0..COUNT).map(async |number| {
        // Spread over more than a second, so that they meet every phase of the comparison.
        tokio::time::sleep(Duration::from_millis(87) * u32::try_from(number).unwrap()).await;
        close(&rig, &other.client, number).await
    });
    let taken = futures::future::join_all(closing).await;
    let unheard = rig.db.number("select count(*) from deaf.unheard").await;
    assert!(unheard > 0, "every wake-up was to go nowhere");
    println!("{}", judged("without NOTIFY", taken, Duration::from_millis(1500)));
}
