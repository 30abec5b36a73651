//! Presence: a server that dies is noticed by the end of its connection, and one that lives is never taken for dead.
//!
//! The lease is two minutes here, longer than any test waits: whatever happens sooner happened by the lock.

use std::sync::Arc;
use std::time::{Duration, Instant};

use longhaul::engine::sweeper::{Sweeper, Swept};
use longhaul::rpc::proto::{EventKind, JobStatus};
use longhaul::store::sweep::Judging;
use longhaul::store::{Store, StoreSettings};

use crate::harness::{Gate, Process, Rig, job, run, wait};

const LONG_LEASE: (&str, &str) = ("LONGHAUL_LEASE_SECONDS", "120");
/// A connection to nowhere, so that the lease alone decides.
const NOWHERE: (&str, &str) = ("LONGHAUL_DATABASE_DIRECT_URL", "postgres://127.0.0.1:1/nowhere");
const PRESENT: &str = "select count(*) from longhaul.present_keys()";
const LOST: &str = "select count(*) from longhaul.event where kind = 'attempt_lost'";

/// A rig without a server of its own, and a process on it that is in the middle of step 2 of 3.
async fn in_the_middle(variables: &[(&str, &str)]) -> (Rig, Process) {
    let rig = Rig::without_server(&[&[LONG_LEASE], variables].concat()).await;
    let server = Process::serve(&rig, &[]).await;
    rig.sandbox.hold("second").await;
    let steps = ["Write a first line.", "Write a second line.", "Write a third line."];
    server.client.submit(job("long", steps.map(run))).await;
    rig.sandbox.wait_for("second", "held", 1).await;
    (rig, server)
}

/// Finishes the job of a dead server; answers how long after its death, or the survivor's start, the step ran again.
async fn assert_goes_on(rig: &Rig, survivor: &Process) -> Duration {
    let died_at = Instant::now();
    let lost = survivor.client.event("long", EventKind::AttemptLost).await;
    assert_eq!((lost.step, lost.actor.as_str()), (2, "sweeper"));
    let started = survivor.client.event_after("long", EventKind::StepStarted, lost.sequence).await;
    let after = died_at.elapsed();
    assert_eq!((started.step, started.attempt), (2, 2));
    rig.sandbox.mend().await;
    survivor.client.settled_as("long", JobStatus::Completed).await;
    assert_eq!(rig.sandbox.requests("first").await.len(), 1, "a checkpoint is never run again");
    assert_eq!(rig.db.executors().await.len(), 1, "the dead one has no row");
    after
}

/// Long enough for everybody to be judged several times over.
async fn let_some_rounds_pass(server: &Process, job_id: &str) {
    server.client.submit(job(job_id, [wait(2)])).await;
    server.client.settled_as(job_id, JobStatus::Completed).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn after_kill_9_another_server_goes_on_long_before_the_lease_is_over() {
    let (rig, server) = in_the_middle(&[]).await;
    let survivor = Process::serve(&rig, &[]).await;
    assert_eq!(rig.db.number(PRESENT).await, 2);
    server.kill9().await;
    println!("the step runs again after {:?}", assert_goes_on(&rig, &survivor).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lone_server_that_is_started_again_goes_on_long_before_the_lease_is_over() {
    let (rig, server) = in_the_middle(&[]).await;
    server.kill9().await;
    let restarted = Process::serve(&rig, &[]).await;
    println!("the step runs again after {:?}", assert_goes_on(&rig, &restarted).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_frozen_server_is_not_dead_before_its_lease_is_over_and_then_takes_a_new_id() {
    let (rig, server) = in_the_middle(&[]).await;
    let other = Process::serve(&rig, &[]).await;
    server.freeze();
    let before = rig.db.executors().await;
    let_some_rounds_pass(&other, "rounds").await;
    assert_eq!((rig.db.number(LOST).await, rig.db.executors().await), (0, before.clone()));

    rig.db.end_lease_of(server.pid()).await;
    other.client.event("long", EventKind::AttemptLost).await;
    rig.sandbox.mend().await;
    other.client.settled_as("long", JobStatus::Completed).await;
    other.terminate().await;
    server.thaw();
    server.client.submit(job("after", [run("Go on under a new name.")])).await;
    server.client.settled_as("after", JobStatus::Completed).await;
    let after = rig.db.executors().await;
    assert_eq!((after.len(), after[0].pid), (1, server.pid()));
    assert_eq!(after[0].presence_key, before[0].presence_key, "it carries its sign of life on");
    assert_ne!(after[0].executor_id, before[0].executor_id);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_whose_direct_connection_is_killed_makes_it_anew_and_loses_nothing() {
    let (rig, server) = in_the_middle(&[]).await;
    let other = Process::serve(&rig, &[]).await;
    let before = rig.db.executors().await;
    for _ in 0..3 {
        let backend = rig
            .db
            .number(
                "select l.pid::bigint from pg_locks l
                 join longhaul.executor e on e.presence_key = l.objid::integer
                 where l.locktype = 'advisory' and l.classid = 1819242087
                 order by l.pid limit 1",
            )
            .await;
        let kill = sqlx::query("select pg_terminate_backend($1::integer)").bind(backend);
        kill.execute(&rig.db.pool).await.unwrap();
        let back = "select count(*) = 2 and bool_and(l.pid <> $1::integer) from pg_locks l
          join longhaul.executor e on e.presence_key = l.objid::integer
          where locktype = 'advisory' and classid = 1819242087 and e.missing_since is null";
        rig.db.wait_until(back, &backend.to_string()).await;
    }
    let_some_rounds_pass(&other, "rounds").await;
    assert_eq!(rig.db.executors().await, before);
    rig.sandbox.mend().await;
    let done = server.client.settled_as("long", JobStatus::Completed).await;
    assert_eq!((done.attempts, rig.db.number(LOST).await), (0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_half_dead_session_of_a_server_does_not_stand_in_its_way() {
    let rig = Rig::start_with(&[("LONGHAUL_LEASE_SECONDS", "2")]).await;
    let key = rig.db.executors().await[0].presence_key.unwrap();
    let mut half_dead = rig.db.pool.acquire().await.unwrap();
    let hold = sqlx::query("select pg_advisory_lock_shared(1819242087, $1)").bind(key);
    hold.execute(&mut *half_dead).await.unwrap();
    let kill = "select count(pg_terminate_backend(l.pid)) from pg_locks l
      join pg_stat_activity a on a.pid = l.pid and a.application_name = 'longhaul'
      join longhaul.executor e on e.presence_key = l.objid::integer
      where l.locktype = 'advisory' and l.classid = 1819242087";
    assert_eq!(rig.db.number(kill).await, 1);
    let both = "select count(*) = 2 and $1 <> '' from pg_locks l
      join longhaul.executor e on e.presence_key = l.objid::integer
      where l.locktype = 'advisory' and l.classid = 1819242087";
    rig.db.wait_until(both, "any").await;
    // Renewals go on, and name the lock.
    let read = sqlx::query_scalar("select longhaul.now()::text");
    let now: String = read.fetch_one(&rig.db.pool).await.unwrap();
    let renewed = "select lease_expires_at > $1::timestamptz + interval '3 seconds'
      and presence_key is not null from longhaul.executor";
    rig.db.wait_until(renewed, &now).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_direct_connection_to_another_database_is_no_sign_of_life() {
    let rig = Rig::without_server(&[LONG_LEASE]).await;
    let other = Rig::without_server(&[]).await;
    let elsewhere = [("LONGHAUL_DATABASE_DIRECT_URL", other.db.url.as_str())];
    let server = Process::serve(&rig, &elsewhere).await;
    server.wait_to_say("as if it led to another database").await;
    let_some_rounds_pass(&server, "rounds").await;
    assert_eq!(rig.db.executors().await[0].presence_key, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_direct_connection_the_lease_alone_decides() {
    let short = ("LONGHAUL_LEASE_SECONDS", "3");
    let (rig, server) = in_the_middle(&[NOWHERE, short]).await;
    let other = Process::serve(&rig, &[]).await;
    server.wait_to_say("the direct connection cannot be made").await;
    let_some_rounds_pass(&other, "rounds").await;
    let before = rig.db.executors().await;
    assert_eq!(before.iter().map(|one| one.presence_key).collect::<Vec<_>>(), [None, None]);
    assert_eq!(rig.db.number(LOST).await, 0, "the living are not judged by a lock");
    server.kill9().await;
    assert_goes_on(&rig, &other).await;
    assert_eq!(rig.db.executors().await, before[1..]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_lives_and_cannot_make_its_direct_connection_anew_takes_its_sign_back() {
    let (rig, server) = in_the_middle(&[]).await;
    let gate = Gate::open(&rig.db.url).await;
    let cut_off = [("LONGHAUL_DATABASE_DIRECT_URL", gate.url.as_str())];
    let cut_off = Process::serve(&rig, &cut_off).await;
    assert_eq!(rig.db.number(PRESENT).await, 2);
    let before = rig.db.executors().await;
    drop(gate);
    let_some_rounds_pass(&server, "rounds").await;
    let after = rig.db.executors().await;
    assert_eq!((after.len(), &after[1].executor_id), (2, &before[1].executor_id));
    assert_eq!((after[0].presence_key, after[1].presence_key), (before[0].presence_key, None));
    // Its lease decides from now on.
    cut_off.kill9().await;
    rig.db.shift_clock(1).await;
    rig.db.end_lease_of(after[1].pid).await;
    rig.db.wait_until("select count(*) = 1 and $1 <> '' from longhaul.executor", "any").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_gets_no_further_connection_renews_on_those_it_has() {
    let rig = Rig::without_server(&[("LONGHAUL_LEASE_SECONDS", "2")]).await;
    let gate = Gate::open(&rig.db.url).await;
    let server = Process::serve(&rig, &[("DATABASE_URL", &gate.url)]).await;
    let before = rig.db.executors().await;
    let is_there = "select count(*) = 1 and $1 <> '' from pg_stat_activity
      where datname = current_database() and query like '-- renew_lease%'";
    rig.db.wait_until(is_there, "any").await;
    gate.admit_nobody();
    let kill = "select count(pg_terminate_backend(pid)) from pg_stat_activity
      where datname = current_database() and query like '-- renew_lease%'";
    assert_eq!(rig.db.number(kill).await, 1);
    let read = sqlx::query_scalar("select longhaul.now()::text");
    let now: String = read.fetch_one(&rig.db.pool).await.unwrap();
    let renewed = "select lease_expires_at > $1::timestamptz + interval '5 seconds'
      from longhaul.executor";
    rig.db.wait_until(renewed, &now).await;
    assert_eq!(rig.db.executors().await, before);
    drop(server);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_a_pooler_hands_around_is_no_sign_of_life() {
    let rig = Rig::without_server(&[LONG_LEASE]).await;
    let gate = Gate::pool(&rig.db.url).await;
    let pooled = gate.url.clone();
    let server = Process::serve(&rig, &[("DATABASE_URL", &pooled)]).await;
    let declared = Process::serve(&rig, &[("LONGHAUL_DATABASE_DIRECT_URL", &pooled)]).await;
    for one in [&server, &declared] {
        assert!(one.said().contains("reached through a pooler"), "{}", one.said());
    }
    let_some_rounds_pass(&server, "rounds").await;
    let executors = rig.db.executors().await;
    assert_eq!(executors.iter().map(|one| one.presence_key).collect::<Vec<_>>(), [None, None]);
    assert_eq!(rig.db.number(PRESENT).await, 0);

    // A way around it, and the sign of life is given.
    let direct = [("DATABASE_URL", pooled.as_str()), ("LONGHAUL_DATABASE_DIRECT_URL", &rig.db.url)];
    let around = Process::serve(&rig, &direct).await;
    assert_eq!(rig.db.number(PRESENT).await, 1);
    assert!(rig.db.executors().await[2].presence_key.is_some());
    around.terminate().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_dead_are_judged_once_and_by_whom_may_judge() {
    let (rig, server) = in_the_middle(&[("LONGHAUL_SWEEP_MS", "60000")]).await;
    let database_url = rig.db.url.clone().into();
    let settings = StoreSettings { database_url, direct_url: None, connections_max: 1 };
    let store = Store::connect(&settings).await.unwrap();
    let sweeper = Sweeper::new(store, Duration::from_mins(1), Arc::default());
    assert_eq!(sweeper.run_once(Judging::Everybody).await, Swept::default());
    server.kill9().await;
    rig.db.wait_until("select count(*) = 0 and $1 <> '' from longhaul.present_keys()", "any").await;
    let first = sweeper.run_once(Judging::Everybody).await;
    assert_eq!(first, Swept { missing: 1, ..Swept::default() }, "missed, and not for long enough");
    rig.db.shift_clock(1).await;
    assert_eq!(sweeper.run_once(Judging::Nobody).await, Swept::default());
    // Its lock was taken before this Postgres was started.
    let earlier = "with one as (update longhaul.executor
      set postgres_started_at = postgres_started_at - interval '1 day' returning 1)
      select count(*) from one";
    rig.db.number(earlier).await;
    // A young session may be the first after an absence of Postgres.
    assert_eq!(sweeper.run_once(Judging::Everybody).await, Swept::default());
    rig.db.wait_for_old_sessions().await;
    assert_eq!(sweeper.run_once(Judging::OfThisRun).await, Swept::default());
    // Its lease is not over.
    assert_eq!(sweeper.run_once(Judging::ByLease).await, Swept::default());
    let expected = Swept { buried: 1, lost: 1, lost_calls: 1, ..Swept::default() };
    assert_eq!(sweeper.run_once(Judging::Everybody).await, expected);
    assert_eq!(sweeper.run_once(Judging::Everybody).await, Swept::default());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fleet_that_sleeps_longer_than_its_leases_wakes_up_without_a_loss() {
    let (rig, one) = in_the_middle(&[("LONGHAUL_LEASE_SECONDS", "2")]).await;
    let servers = [one, Process::serve(&rig, &[]).await, Process::serve(&rig, &[]).await];
    // Until all of them judge everybody.
    servers[1].client.submit(job("calm", [wait(6)])).await;
    servers[1].client.settled_as("calm", JobStatus::Completed).await;
    let before = rig.db.executors().await;
    for round in 0..3 {
        for server in &servers {
            server.freeze();
        }
        let over = "select bool_and(lease_expires_at < longhaul.now()) and $1 <> '' from longhaul.executor";
        rig.db.wait_until(over, "any").await;
        for server in &servers {
            server.thaw();
        }
        let_some_rounds_pass(&servers[2], &format!("rounds-{round}")).await;
    }
    assert_eq!((rig.db.number(LOST).await, rig.db.executors().await), (0, before));
    rig.sandbox.mend().await;
    let done = servers[1].client.settled_as("long", JobStatus::Completed).await;
    assert_eq!(done.attempts, 0);
}

/// Kills twenty servers in the middle of a step; the next one is there already, or is started then.
async fn measure(is_lone: bool) -> [Duration; 20] {
    let usual = ("LONGHAUL_SWEEP_MS", "400");
    let rig = Rig::without_server(&[LONG_LEASE, usual]).await;
    let mut server = Process::serve(&rig, &[]).await;
    rig.sandbox.hold("held").await;
    let mut times = [Duration::ZERO; 20];
    for (number, time) in times.iter_mut().enumerate() {
        let (job_id, prompt) = (format!("killed-{number}"), format!("Be held, {number}."));
        server.client.submit(job(&job_id, [run(&prompt)])).await;
        rig.sandbox.wait_for(&prompt, "held", 1).await;
        let (next, since) = if is_lone {
            server.kill9().await;
            (Process::serve(&rig, &[]).await, Instant::now())
        } else {
            let next = Process::serve(&rig, &[]).await;
            let since = Instant::now();
            server.kill9().await;
            (next, since)
        };
        let lost = next.client.event(&job_id, EventKind::AttemptLost).await;
        next.client.event_after(&job_id, EventKind::StepStarted, lost.sequence).await;
        *time = since.elapsed();
        next.client.control(&job_id, crate::harness::cancel()).await;
        server = next;
    }
    times.sort();
    times
}

/// Run by hand: `cargo test --test it measured -- --ignored --nocapture`.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "a measurement of two minutes"]
async fn the_time_from_death_to_the_next_attempt_is_measured() {
    let elsewhere = measure(false).await;
    println!("from kill -9: median {:?}, worst {:?}", elsewhere[10], elsewhere[19]);
    let again = measure(true).await;
    println!("from serving again: median {:?}, worst {:?}", again[10], again[19]);
}
