//! Crashes of real server processes: kill -9, a graceful stop, and one that freezes and comes back.

use longhaul::rpc::proto::{EventKind, JobStatus};
use serde_json::json;

use crate::harness::{Process, Rig, job, run};

const SHORT_LEASE: &[(&str, &str)] = &[("LONGHAUL_LEASE_SECONDS", "2")];

fn three_steps() -> [longhaul::rpc::proto::Step; 3] {
    [run("Write a first line."), run("Write a second line."), run("Write a third line.")]
}

/// A rig without a server of its own, and a process on it that is in the middle of step 2 of 3.
async fn in_the_middle(variables: &[(&str, &str)]) -> (Rig, Process) {
    let rig = Rig::without_server(variables).await;
    let server = Process::serve(&rig, &[]).await;
    rig.sandbox.hold("second").await;
    server.client.submit(job("long", three_steps())).await;
    rig.sandbox.wait_for("second", "held", 1).await;
    (rig, server)
}

async fn assert_finished_after_a_crash(rig: &Rig, survivor: &Process) {
    let lost = survivor.client.event("long", EventKind::AttemptLost).await;
    assert_eq!(lost.step, 2);
    rig.sandbox.mend().await;
    let done = survivor.client.settled_as("long", JobStatus::Completed).await;
    assert_eq!(done.steps.len(), 3);
    assert_eq!(rig.sandbox.requests("first").await.len(), 1, "a checkpoint is never run again");
    assert_eq!(rig.sandbox.requests("second").await.len(), 2);
    let outcomes = [(1, "answered"), (2, "lost"), (2, "answered"), (3, "answered")];
    let outcomes = outcomes.map(|(step, outcome)| (step, outcome.to_owned()));
    assert_eq!(rig.db.outcomes("long").await, outcomes);
}

#[tokio::test(flavor = "multi_thread")]
async fn after_kill_9_another_server_finishes_the_job() {
    let (rig, server) = in_the_middle(SHORT_LEASE).await;
    let survivor = Process::serve(&rig, &[]).await;
    server.kill9().await;
    assert_finished_after_a_crash(&rig, &survivor).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn after_kill_9_the_same_server_started_again_finishes_the_job() {
    let (rig, server) = in_the_middle(SHORT_LEASE).await;
    server.kill9().await;
    let restarted = Process::serve(&rig, &[]).await;
    assert_finished_after_a_crash(&rig, &restarted).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_had_arrived_of_an_answer_is_in_the_ledger_after_kill_9() {
    let rig = Rig::without_server(SHORT_LEASE).await;
    let server = Process::serve(&rig, &[]).await;
    rig.sandbox.break_model(json!({"matching": "long", "hold_after_events": 6})).await;
    server.client.submit(job("cut", [run("Write a long story.")])).await;
    let noted = "select length(partial_output) > 0 from longhaul.model_call where job_id = $1";
    rig.db.wait_until(noted, "cut").await;
    let seen = server.client.job("cut").await.steps[0].partial_output.clone();
    assert!(!seen.is_empty(), "whoever asks sees how far it is");
    server.kill9().await;
    let survivor = rig.serve().await;
    survivor.client.event("cut", EventKind::AttemptLost).await;
    let kept = "select outcome = 'lost' and length(partial_output) > 0
                from longhaul.model_call where job_id = $1 order by started_at limit 1";
    rig.db.wait_until(kept, "cut").await;
    let lost = survivor.client.job("cut").await;
    assert!(!lost.steps[0].partial_output.is_empty(), "also of an attempt that was lost");
    rig.sandbox.mend().await;
    let done = survivor.client.settled_as("cut", JobStatus::Completed).await;
    assert_eq!(done.steps[0].partial_output, "", "the answer has taken its place");
    let left = "select count(*) from longhaul.model_call
                where outcome = 'answered' and partial_output is not null";
    assert_eq!(rig.db.number(left).await, 0, "an answer needs no draft of itself");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_stopped_gives_its_job_back_uncounted() {
    let (rig, server) = in_the_middle(&[("LONGHAUL_DRAIN_SECONDS", "0")]).await;
    let other = rig.serve().await;
    server.terminate().await;
    let released = other.client.event("long", EventKind::AttemptReleased).await;
    assert_eq!(released.step, 2);
    rig.sandbox.mend().await;
    let started = other.client.event_after("long", EventKind::StepStarted, released.sequence).await;
    assert_eq!((started.step, started.attempt), (2, 2));
    let done = other.client.settled_as("long", JobStatus::Completed).await;
    assert_eq!(done.attempts, 0);
    assert!(rig.db.outcomes("long").await.contains(&(2, "aborted".to_owned())));
    let lost = "select count(*) from longhaul.event where kind = 'attempt_lost'";
    assert_eq!(rig.db.number(lost).await, 0);
    assert_eq!(rig.db.number("select count(*) from longhaul.executor").await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_stopped_lets_its_step_finish_in_time() {
    let (rig, server) = in_the_middle(&[("LONGHAUL_DRAIN_SECONDS", "15")]).await;
    let other = rig.serve().await;
    let mut watch = server.client.try_watch("long", None).await.unwrap();
    let stopping = tokio::spawn(server.terminate());
    // A server that stops ends its watches at once, and waits for the step in flight.
    while watch.message().await.is_ok() {}
    rig.sandbox.mend().await;
    other.client.settled_as("long", JobStatus::Completed).await;
    stopping.await.unwrap();
    assert_eq!(rig.sandbox.requests("second").await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_froze_and_comes_back_writes_nothing_but_its_ledger_row() {
    let (rig, server) = in_the_middle(SHORT_LEASE).await;
    server.freeze();
    let other = rig.serve().await;
    let lost = other.client.event("long", EventKind::AttemptLost).await;
    rig.sandbox.mend().await;
    let done = other.client.settled_as("long", JobStatus::Completed).await;
    assert!(done.last_sequence > lost.sequence);
    server.thaw();
    let settled = "select bool_and(outcome in ('answered', 'aborted'))
                   from longhaul.model_call where job_id = $1";
    rig.db.wait_until(settled, "long").await;
    server.terminate().await;
    let now = other.client.job("long").await;
    assert_eq!(now.last_sequence, done.last_sequence);
    assert_eq!(rig.db.number("select count(*) from longhaul.checkpoint").await, 3);
}
