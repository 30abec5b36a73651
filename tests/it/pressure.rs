//! A provider that has no room: every job waits for it, none of them holds a slot, and none fails for it.

use longhaul::rpc::proto::{EventKind, JobStatus, RunStep};
use serde_json::json;

use crate::harness::{Rig, job, run, run_step};

/// How many messages were asked of the model.
async fn asked(rig: &Rig) -> usize {
    rig.sandbox.requests("").await.len()
}

#[tokio::test(flavor = "multi_thread")]
async fn when_a_model_is_too_much_for_the_provider_every_job_that_wants_it_waits() {
    let rig = Rig::start().await;
    let full = json!({"status": 529, "retry_after_seconds": 3600, "times": 1});
    rig.sandbox.break_model(full).await;
    rig.submit(job("first", [run("Write a line.")])).await;
    rig.event("first", EventKind::StepDelayed).await;
    rig.submit(job("second", [run("Write a line.")])).await;
    let delayed = rig.event("second", EventKind::StepDelayed).await;
    assert!(delayed.message.contains("wait for the model provider to have room"));
    assert_eq!(asked(&rig).await, 1, "the second did not ask");
    let waiting = rig.job("second").await;
    assert_eq!((waiting.status(), waiting.usage.unwrap().calls), (JobStatus::Queued, 0));
    let at = waiting.run_at.unwrap().seconds - waiting.updated_at.unwrap().seconds;
    assert!((3500..=4600).contains(&at), "as long as the provider has asked for: {at}");

    let model = "claude-haiku-5-5".to_owned();
    let other = RunStep { prompt: "Write a line.".to_owned(), model, ..RunStep::default() };
    rig.submit(job("other", [run_step(other)])).await;
    rig.settled_as("other", JobStatus::Completed).await;

    rig.db.shift_clock(5000).await;
    for job_id in ["first", "second"] {
        rig.settled_as(job_id, JobStatus::Completed).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_outage_of_ninety_minutes_fails_no_job_and_holds_no_slot() {
    let rig = Rig::start_with(&[("LONGHAUL_SLOTS", "4")]).await;
    rig.sandbox.break_model(json!({"status": 529})).await;
    let names: Vec<String> = (0..20).map(|number| format!("job-{number}")).collect();
    for name in &names {
        rig.submit(job(name, [run("Write a line."), run("Shorten it.")])).await;
    }
    let parked = "select count(*) = 20 and $1 <> '' from longhaul.job
      where status = 'queued' and run_at is not null and reason = 'PROVIDER_UNAVAILABLE'";
    for _ in 0..9 {
        rig.db.wait_until(parked, "any").await;
        rig.db.shift_clock(600).await;
    }
    rig.db.wait_until(parked, "any").await;
    rig.sandbox.mend().await;
    rig.db.shift_clock(600).await;
    for name in &names {
        let done = rig.settled_as(name, JobStatus::Completed).await;
        assert_eq!(done.attempts, 0, "nothing was lost");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_spend_limit_parks_the_job_and_says_so() {
    let rig = Rig::start().await;
    let limit = json!({"status": 429, "error_code": "enforced_spend_limit_reached", "times": 1});
    rig.sandbox.break_model(limit).await;
    rig.submit(job("broke", [run("Write a line.")])).await;
    rig.event("broke", EventKind::StepDelayed).await;
    let parked = rig.job("broke").await;
    assert_eq!((parked.status(), parked.reason.as_str()), (JobStatus::Queued, "SPEND_LIMIT"));
    assert!(parked.status_message.contains("spend limit"), "{}", parked.status_message);
    rig.db.shift_clock(3600).await;
    rig.settled_as("broke", JobStatus::Completed).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_more_calls_to_a_model_are_made_at_once_than_is_configured() {
    let rig = Rig::start_with(&[("LONGHAUL_MODEL_CONCURRENCY", "2")]).await;
    rig.sandbox.hold("Write").await;
    let names: Vec<String> = (0..5).map(|number| format!("job-{number}")).collect();
    for name in &names {
        rig.submit(job(name, [run("Write a line.")])).await;
    }
    rig.sandbox.wait_for("Write", "held", 2).await;
    let delayed = "select count(distinct job_id) = 3 and $1 <> '' from longhaul.event where kind = 'step_delayed'";
    rig.db.wait_until(delayed, "any").await;
    assert_eq!(asked(&rig).await, 2);
    rig.sandbox.mend().await;
    for name in &names {
        rig.settled_as(name, JobStatus::Completed).await;
    }
}
