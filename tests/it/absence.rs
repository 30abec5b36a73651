//! Absence: Postgres is not there yet, is restarted, or stays away; nobody is taken for dead because of that.

use std::time::Duration;

use longhaul::rpc::proto::{EventKind, JobStatus};
use tonic::Code;
use tonic::transport::Endpoint;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

use crate::harness::{Client, Ending, OwnPostgres, Process, Rig, Told, job, run, wait};

const LOST: &str = "select count(*) from longhaul.event where kind = 'attempt_lost'";

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_starts_before_postgres_waits_for_it() {
    let mut postgres = OwnPostgres::start().await;
    let rig = Rig::on(postgres.url.clone(), &[]).await;
    postgres.stop(Ending::Fast).await;
    let starting = Process::begin(&rig, &[]).await;
    let (grpc, http) = starting.waiting_at().await;
    let client = Client::new(&grpc, format!("http://{http}"));
    let early = Told::by(client.try_submit(job("early", [run("Come again.")])).await);
    assert_eq!((early.code, early.reason.as_str()), (Code::Unavailable, "UNAVAILABLE"));
    assert_eq!(client.post_action("early", "status").await.0, 503);
    let healthz = client.http.get(format!("http://{http}/healthz")).send().await.unwrap();
    assert_eq!(healthz.status(), 503);
    let channel = Endpoint::from_shared(format!("http://{grpc}")).unwrap().connect_lazy();
    let watched = HealthClient::new(channel).watch(HealthCheckRequest::default()).await;
    let mut health = watched.unwrap().into_inner();
    let now = health.message().await.unwrap().unwrap();
    assert_eq!(now.status(), ServingStatus::NotServing);

    postgres.start_again().await;
    let server = starting.ready().await;
    let now = health.message().await.unwrap().unwrap();
    assert_eq!(now.status(), ServingStatus::Serving);
    client.submit(job("late", [run("Write a line.")])).await;
    server.client.settled_as("late", JobStatus::Completed).await;
    server.terminate().await;
    let now = health.message().await.unwrap().unwrap();
    assert_eq!(now.status(), ServingStatus::NotServing);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_waits_for_postgres_can_be_stopped() {
    let rig = Rig::without_server(&[]).await;
    let nowhere = ("DATABASE_URL", "postgres://user:s3cret@127.0.0.1:1/nowhere");
    let starting = Process::begin(&rig, &[nowhere]).await;
    starting.waiting_at().await;
    starting.terminate().await;
}

/// Postgres is stopped and started again, or loses a process and begins anew by itself.
async fn assert_a_restart_loses_nothing(ending: Option<Ending>) {
    let mut postgres = OwnPostgres::start().await;
    let rig = Rig::on(postgres.url.clone(), &[("LONGHAUL_LEASE_SECONDS", "120")]).await;
    let one = Process::serve(&rig, &[]).await;
    rig.sandbox.hold("through").await;
    one.client.submit(job("through", [run("Live through it."), run("Go on.")])).await;
    rig.sandbox.wait_for("through", "held", 1).await;
    let two = Process::serve(&rig, &[]).await;
    let before = rig.db.executors().await;
    // This one is slow to come back, which others must not take for its death.
    one.freeze();
    if let Some(ending) = ending {
        postgres.stop(ending).await;
        postgres.start_again().await;
    } else {
        postgres.kill_a_backend().await;
    }
    // Somebody who has seen no trouble at all judges as well.
    let newcomer = Process::serve(&rig, &[]).await;
    newcomer.client.submit(job("moment", [wait(1)])).await;
    newcomer.client.settled_as("moment", JobStatus::Completed).await;
    one.thaw();
    rig.db
        .wait_until(
            "select count(*) = 3 and $1 <> '' from longhaul.executor e
             join longhaul.present_keys() k on k = e.presence_key and e.missing_since is null",
            "any",
        )
        .await;
    // Until everybody judges again.
    newcomer.client.submit(job("rounds", [wait(7)])).await;
    newcomer.client.settled_as("rounds", JobStatus::Completed).await;
    let after = rig.db.executors().await;
    assert_eq!((rig.db.number(LOST).await, &after[..2]), (0, &before[..]));
    rig.sandbox.mend().await;
    let done = two.client.settled_as("through", JobStatus::Completed).await;
    assert_eq!((done.attempts, rig.sandbox.requests("through").await.len()), (0, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_of_postgres_is_not_the_death_of_all() {
    assert_a_restart_loses_nothing(Some(Ending::Fast)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crash_of_postgres_is_not_the_death_of_all() {
    assert_a_restart_loses_nothing(Some(Ending::Immediate)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crash_of_a_process_of_postgres_is_not_the_death_of_all() {
    assert_a_restart_loses_nothing(None).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_postgres_that_stays_away_longer_than_a_lease_costs_no_attempt() {
    assert_an_absence_costs_no_attempt(Duration::ZERO).await;
}

/// Run by hand: `cargo test --test it a_minute -- --ignored`.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes more than a minute"]
async fn a_minute_without_postgres_costs_no_attempt() {
    assert_an_absence_costs_no_attempt(Duration::from_mins(1)).await;
}

async fn assert_an_absence_costs_no_attempt(and_then_for: Duration) {
    let mut postgres = OwnPostgres::start().await;
    let rig = Rig::on(postgres.url.clone(), &[("LONGHAUL_LEASE_SECONDS", "2")]).await;
    let (one, two) = (Process::serve(&rig, &[]).await, Process::serve(&rig, &[]).await);
    rig.sandbox.hold("through").await;
    for number in 0..8 {
        let job_id = format!("through-{number}");
        one.client.submit(job(&job_id, [run("Live through it."), run("Go on.")])).await;
    }
    rig.sandbox.wait_for("through", "held", 8).await;
    let before = rig.db.executors().await;
    postgres.stop(Ending::Fast).await;
    // Half of the answers come while nobody can store them.
    rig.sandbox.mend().await;
    for server in [&one, &two] {
        let refused = server.client.try_submit(job("early", [run("Come again.")])).await;
        assert_eq!(Told::by(refused).code, Code::Unavailable);
        assert_eq!(server.client.post_action("through-0", "status").await.0, 503);
        // That takes more than twice as long as a lease.
        server.wait_to_say("nothing was swept for too long").await;
    }
    tokio::time::sleep(and_then_for).await;
    postgres.start_again().await;
    for number in 0..8 {
        let done = two.client.settled_as(&format!("through-{number}"), JobStatus::Completed).await;
        assert_eq!(done.attempts, 0);
    }
    assert_eq!((rig.db.number(LOST).await, rig.db.executors().await), (0, before));
    assert_eq!(rig.sandbox.requests("through").await.len(), 8, "what was paid for is kept");
    two.client.submit(job("after", [run("All is well.")])).await;
    one.client.settled_as("after", JobStatus::Completed).await;
    for server in [&one, &two] {
        server.wait_to_say("sweeping goes on").await;
        let said = server.said();
        assert_eq!(said.matches("nothing was swept for too long").count(), 1, "{said}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_that_ends_while_postgres_is_away_goes_on_after_it() {
    let mut postgres = OwnPostgres::start().await;
    let rig = Rig::on(postgres.url.clone(), &[]).await;
    let server = Process::serve(&rig, &[]).await;
    rig.sandbox.hold("watched").await;
    server.client.submit(job("watched", [run("Be watched.")])).await;
    let started = server.client.event("watched", EventKind::StepStarted).await;
    let mut watch = server.client.try_watch("watched", Some(started.sequence)).await.unwrap();
    postgres.stop(Ending::Immediate).await;
    postgres.start_again().await;
    rig.sandbox.mend().await;
    // A short absence is not even noticed.
    let next = watch.message().await.unwrap();
    assert!(next.is_some());
    server.client.settled_as("watched", JobStatus::Completed).await;
}
