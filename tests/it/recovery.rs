//! Recovery: what becomes of a job whose executor is lost, plays dead, or loses its database.

use longhaul::engine::sweeper::{Sweeper, Swept};
use longhaul::rpc::proto::{ApprovalStep, EventKind, JobSettings, JobStatus};
use longhaul::store::sweep::Judging;
use longhaul::store::{Store, StoreSettings};
use std::sync::Arc;
use std::time::Duration;

use crate::harness::{
    Process, Rig, approval_step, events_of, events_until_end, job, run, wait, with,
};

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_ended_through_the_view_loses_the_attempt_and_the_step_runs_again() {
    let rig = Rig::start().await;
    rig.sandbox.hold("second").await;
    rig.submit(job("lost", [run("Write a first line."), run("Write a second line.")])).await;
    rig.sandbox.wait_for("second", "held", 1).await;
    rig.db.end_lease("lost").await;
    let lost = rig.event("lost", EventKind::AttemptLost).await;
    assert_eq!((lost.step, lost.actor.as_str()), (2, "sweeper"));
    rig.sandbox.wait_for("second", "disconnected", 1).await;
    rig.event_after("lost", EventKind::StepStarted, lost.sequence).await;
    assert_eq!(rig.job("lost").await.attempts, 1);
    rig.sandbox.mend().await;
    let done = rig.settled_as("lost", JobStatus::Completed).await;
    assert_eq!(done.attempts, 0, "a checkpoint begins the count again");
    assert_eq!(rig.sandbox.requests("first").await.len(), 1);
    let events = events_until_end(rig.try_watch("lost", Some(0)).await.unwrap()).await;
    assert_eq!(events_of(&events, EventKind::StepFinished), 2, "a stale attempt writes nothing");
    let ledger = rig.db.calls("lost").await;
    assert_eq!(ledger.iter().map(|call| call.step).collect::<Vec<_>>(), [1, 2, 2]);
    assert!(["aborted", "lost"].contains(&ledger[1].outcome.as_str()), "{ledger:?}");
    assert_eq!(ledger[2].outcome, "answered");
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_but_the_lease_can_be_updated_through_the_view() {
    let rig = Rig::start().await;
    rig.submit(job("viewed", [wait(3600)])).await;
    for statement in [
        "update public.durable_jobs set status = 'completed'",
        "update public.durable_jobs set current_step = 7",
        "update public.durable_jobs set state = '{}' || '{\"step_1_output\": \"x\"}'",
        "update public.durable_jobs set attempts = 7",
        "update public.durable_jobs set job_id = 'other'",
        "update longhaul.durable_jobs set updated_at = now()",
        "update longhaul.durable_jobs set created_at = now(), lease_expires_at = now()",
        "delete from public.durable_jobs",
        "insert into public.durable_jobs (job_id) values ('x')",
    ] {
        assert!(sqlx::query(statement).execute(&rig.db.pool).await.is_err(), "{statement}");
    }
    // A job that nobody holds has no lease to end.
    rig.db.end_lease("viewed").await;
    let seen = rig.job("viewed").await;
    assert_eq!((seen.status(), seen.attempts), (JobStatus::Queued, 0));
    assert_eq!(seen.lease_expires_at, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_step_that_loses_too_many_executors_fails_the_job() {
    let rig = Rig::start().await;
    rig.sandbox.hold("deadly").await;
    let twice = JobSettings { max_attempts: Some(2), ..JobSettings::default() };
    rig.submit(with(twice, job("deadly", [run("A deadly line.")]))).await;
    let mut after = 0;
    for losses in 1..=3 {
        after = rig.event_after("deadly", EventKind::StepStarted, after).await.sequence;
        rig.db.end_lease("deadly").await;
        after = rig.event_after("deadly", EventKind::AttemptLost, after).await.sequence;
        // The pause before the next attempt grows.
        rig.db.shift_clock(losses).await;
    }
    let failed = rig.settled_as("deadly", JobStatus::Failed).await;
    assert_eq!((failed.reason.as_str(), failed.attempts), ("RECOVERIES_EXHAUSTED", 3));
    let told = rig.event("deadly", EventKind::JobFailed).await;
    assert!(told.message.contains("3 times"), "{}", told.message);
}

#[tokio::test(flavor = "multi_thread")]
async fn no_recoveries_means_that_the_first_loss_fails_the_job() {
    let rig = Rig::start().await;
    rig.sandbox.hold("once").await;
    let none = JobSettings { max_attempts: Some(0), ..JobSettings::default() };
    rig.submit(with(none, job("once", [run("Only once.")]))).await;
    rig.sandbox.wait_for("once", "held", 1).await;
    rig.db.end_lease("once").await;
    let failed = rig.settled_as("once", JobStatus::Failed).await;
    assert_eq!(failed.reason, "RECOVERIES_EXHAUSTED");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lone_server_whose_lease_is_over_does_not_bury_itself() {
    let rig = Rig::start_with(&[("LONGHAUL_LEASE_SECONDS", "1")]).await;
    rig.sandbox.hold("asleep").await;
    rig.submit(job("asleep", [run("Fall asleep.")])).await;
    rig.sandbox.wait_for("asleep", "held", 1).await;
    // Until it judges everybody.
    rig.submit(job("calm", [wait(6)])).await;
    rig.settled_as("calm", JobStatus::Completed).await;
    rig.db.sleep_all(3600).await;
    let renewed = "select lease_expires_at > longhaul.now() and $1 <> '' from longhaul.executor";
    rig.db.wait_until(renewed, "any").await;
    rig.sandbox.mend().await;
    let done = rig.settled_as("asleep", JobStatus::Completed).await;
    assert_eq!((done.attempts, rig.sandbox.requests("asleep").await.len()), (0, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn every_loop_survives_the_loss_of_its_connections() {
    let rig = Rig::start().await;
    let other = rig.serve().await;
    rig.sandbox.hold("through").await;
    rig.submit(job("through", [run("Live through it."), wait(60), run("Go on.")])).await;
    rig.sandbox.wait_for("through", "held", 1).await;
    let mut watch = other.client.try_watch("through", Some(0)).await.unwrap();
    assert!(watch.message().await.unwrap().is_some());
    for _ in 0..3 {
        rig.db
            .wait_until(
                "select count(*) > 0 and $1 <> '' from pg_stat_activity
                 where datname = current_database() and application_name = 'longhaul'",
                "through",
            )
            .await;
        rig.db
            .number(
                "select count(pg_terminate_backend(pid)) from pg_stat_activity
                 where datname = current_database() and application_name = 'longhaul'",
            )
            .await;
    }
    rig.sandbox.mend().await;
    rig.db
        .wait_until("select reason = 'WAITING' from longhaul.job where job_id = $1", "through")
        .await;
    rig.db.shift_clock(61).await;
    rig.db
        .wait_until("select status = 'completed' from longhaul.job where job_id = $1", "through")
        .await;
    rig.sandbox.messages(crate::harness::PERSON, 1).await;
    let events = events_until_end(watch).await;
    assert_eq!(events_of(&events, EventKind::JobCompleted), 1);
    rig.submit(job("after", [run("All is well.")])).await;
    other.client.settled_as("after", JobStatus::Completed).await;
    other.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_round_of_the_sweeper_finds_nothing() {
    let rig = Rig::without_server(&[("LONGHAUL_LEASE_SECONDS", "1")]).await;
    let server = Process::serve(&rig, &[("LONGHAUL_SWEEP_MS", "60000")]).await;
    rig.sandbox.hold("lost").await;
    server.client.submit(job("due", [wait(60), run("Never asked.")])).await;
    let minute = ApprovalStep { timeout_seconds: 60, ..ApprovalStep::default() };
    server.client.submit(job("overdue", [approval_step(minute)])).await;
    let none = JobSettings { max_attempts: Some(0), ..JobSettings::default() };
    server.client.submit(with(none, job("lost", [run("Be lost.")]))).await;
    rig.sandbox.wait_for("lost", "held", 1).await;
    server.kill9().await;
    rig.db.sleep_all(60).await;

    let settings = StoreSettings {
        database_url: rig.db.url.clone().into(),
        direct_url: None,
        connections_max: 1,
    };
    let store = Store::connect(&settings).await.unwrap();
    store.ping().await.unwrap();
    rig.db.wait_for_old_sessions().await;
    let sweeper = Sweeper::new(store, Duration::from_mins(1), Arc::default());
    let first = sweeper.run_once(Judging::Everybody).await;
    // Whether its lock was seen to go missing depends on how fast its connection ended.
    let expected = Swept {
        missing: first.missing,
        buried: 1,
        lost: 1,
        lost_calls: 1,
        due: 1,
        overdue: 1,
        ..Swept::default()
    };
    assert_eq!(first, expected);
    assert_eq!(sweeper.run_once(Judging::Everybody).await, Swept::default());
}
