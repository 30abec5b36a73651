//! Steps that go wrong: errors that pass park the job, errors for good end it, and the ledger knows each request.

use longhaul::rpc::proto::{EventKind, JobSettings, JobStatus, RunStep};
use serde_json::json;

use crate::harness::{PERSON, Rig, job, run, run_step, with};

fn outcomes(expected: &[(i32, &str)]) -> Vec<(i32, String)> {
    expected.iter().map(|(step, outcome)| (*step, (*outcome).to_owned())).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_overloaded_provider_parks_the_job_and_the_slot_is_free_meanwhile() {
    let rig = Rig::start_with(&[("LONGHAUL_SLOTS", "1")]).await;
    let fault = json!({"status": 529, "retry_after_seconds": 3600, "times": 1, "matching": "held"});
    rig.sandbox.break_model(fault).await;
    rig.submit(job("parked", [run("This one is held up.")])).await;
    let delayed = rig.event("parked", EventKind::StepDelayed).await;
    assert_eq!(delayed.status(), JobStatus::Queued);
    assert_eq!(delayed.reason, "PROVIDER_UNAVAILABLE");
    let parked = rig.job("parked").await;
    let asked_for = parked.run_at.unwrap().seconds - parked.updated_at.unwrap().seconds;
    assert!((3600..3640).contains(&asked_for), "parked for {asked_for} s");
    let failure = parked.last_error.unwrap();
    assert!(failure.provider_request_id.starts_with("req_"), "{failure:?}");

    // Of another model: those of the same one wait with it.
    let model = "claude-haiku-5-5".to_owned();
    let free = RunStep { prompt: "This one has the slot.".to_owned(), model, ..RunStep::default() };
    rig.submit(job("free", [run_step(free)])).await;
    rig.settled_as("free", JobStatus::Completed).await;
    assert_eq!(rig.sandbox.requests("held").await.len(), 1);

    rig.db.shift_clock(3700).await;
    let done = rig.settled_as("parked", JobStatus::Completed).await;
    assert_eq!((done.attempts, done.last_error), (0, None));
    let usage = done.steps[0].usage.unwrap();
    assert_eq!(usage.calls, 2, "the refused request counts as well");
    let ledger = outcomes(&[(1, "failed"), (1, "answered")]);
    assert_eq!(rig.db.outcomes("parked").await, ledger);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_breaks_is_tried_again_and_what_came_is_kept() {
    let rig = Rig::start().await;
    rig.sandbox.break_model(json!({"cut_after_events": 6, "times": 1})).await;
    rig.submit(job("broken", [run("Write a line.")])).await;
    rig.event("broken", EventKind::StepDelayed).await;
    rig.db.shift_clock(5).await;
    rig.settled_as("broken", JobStatus::Completed).await;
    let ledger = outcomes(&[(1, "failed"), (1, "answered")]);
    assert_eq!(rig.db.outcomes("broken").await, ledger);
    let kept = "select count(*) from longhaul.model_call
                where outcome = 'failed' and length(partial_output) > 0 and usage is not null";
    assert_eq!(rig.db.number(kept).await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_the_provider_refuses_fails_the_job_at_once() {
    for (status, job_id) in [(401, "unknown"), (400, "wrong"), (404, "missing")] {
        let rig = Rig::start().await;
        rig.sandbox.break_model(json!({"status": status, "times": 1})).await;
        rig.submit(job(job_id, [run("Write a line."), run("Shorten it.")])).await;
        let failed = rig.settled_as(job_id, JobStatus::Failed).await;
        assert_eq!((failed.reason.as_str(), failed.current_step), ("PROVIDER_REJECTED", 1));
        let failure = failed.last_error.unwrap();
        assert!(failure.message.contains(&status.to_string()), "{failure:?}");
        assert_eq!(rig.db.outcomes(job_id).await, outcomes(&[(1, "failed")]));
        let message = &rig.sandbox.messages(PERSON, 1).await[0];
        assert!(message["text"].as_str().unwrap().contains("failed"), "{message}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_is_no_success_fails_the_job_and_costs_what_it_costs() {
    let rig = Rig::start().await;
    for (stop_reason, reason, is_billed) in [
        // A refusal before any output is not.
        ("refusal", "MODEL_REFUSED", false),
        ("max_tokens", "MODEL_TRUNCATED", true),
        ("model_context_window_exceeded", "CONTEXT_OVERFLOW", true),
        ("something_new", "MODEL_STOPPED", true),
    ] {
        rig.sandbox.break_model(json!({"stop_reason": stop_reason, "times": 1})).await;
        rig.submit(job(stop_reason, [run("Write a line.")])).await;
        let failed = rig.settled_as(stop_reason, JobStatus::Failed).await;
        assert_eq!(failed.reason, reason, "{stop_reason}");
        let calls = rig.db.calls(stop_reason).await;
        assert_eq!((calls.len(), calls[0].is_settled), (1, true), "{stop_reason}");
        assert_eq!(calls[0].input_tokens.unwrap() > 0, is_billed, "{stop_reason}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_provider_that_stays_away_fails_the_job_after_its_window() {
    let rig = Rig::start().await;
    rig.sandbox.break_model(json!({"status": 529})).await;
    let window = JobSettings { retry_window_seconds: Some(60), ..JobSettings::default() };
    rig.submit(with(window, job("away", [run("Write a line.")]))).await;
    rig.event("away", EventKind::StepDelayed).await;
    rig.db.shift_clock(120).await;
    let failed = rig.settled_as("away", JobStatus::Failed).await;
    assert_eq!(failed.reason, "RETRY_WINDOW_EXHAUSTED");
    let ledger = rig.db.outcomes("away").await;
    assert!(ledger.len() >= 2 && ledger.iter().all(|(_, outcome)| outcome == "failed"));

    rig.sandbox.mend().await;
    assert!(rig.control("away", crate::harness::retry(0)).await);
    rig.settled_as("away", JobStatus::Completed).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_window_of_nothing_means_no_second_try() {
    let rig = Rig::start().await;
    rig.sandbox.break_model(json!({"status": 503, "times": 1})).await;
    let window = JobSettings { retry_window_seconds: Some(0), ..JobSettings::default() };
    rig.submit(with(window, job("once", [run("Write a line.")]))).await;
    let failed = rig.settled_as("once", JobStatus::Failed).await;
    assert_eq!(failed.reason, "RETRY_WINDOW_EXHAUSTED");
    assert_eq!(rig.sandbox.requests("").await.len(), 1);
}
