//! Batches that meet something else on their way: what is lost, late, put off or wrong in one place ends nothing else.

use longhaul::rpc::proto::{
    ApprovalStep, EventKind, InterruptPolicy, JobStatus, RequestChangesAction, RunMode, RunStep,
    Step, control_request::Action,
};
use serde_json::{Value, json};
use tonic::Code;

use crate::harness::{Process, Rig, approval_step, cancel, job, retry, run_step};

fn batched(prompt: &str) -> Step {
    let (prompt, mode) = (prompt.to_owned(), RunMode::Batch.into());
    run_step(RunStep { prompt, mode, ..RunStep::default() })
}

/// The questions of each batch that was ordered.
async fn orders(rig: &Rig) -> Vec<Vec<Value>> {
    let requests = rig.sandbox.requests("").await;
    let is_order =
        |request: &&Value| request["path"] == "/v1/messages/batches" && request["method"] == "POST";
    let orders = requests.iter().filter(is_order);
    orders.map(|order| order["body"]["requests"].as_array().unwrap().clone()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn who_was_parked_for_an_answer_that_had_come_already_is_woken() {
    let slow = [("LONGHAUL_SWEEP_MS", "60000")];
    let rig = Rig::start_with(&slow).await;
    rig.sandbox.break_model(json!({"on": "batch_create", "batch_ms": 0})).await;
    rig.submit(job("late", [batched("Write a line.")])).await;
    let answered = "select result is not null from longhaul.batch_request where job_id = $1";
    rig.db.wait_until(answered, "late").await;
    // As it is where an attempt saw no answer yet, and parked its job after that had come.
    let parked = "update longhaul.job set run_at = longhaul.now() + interval '1 day' where run_at is not null";
    sqlx::query(parked).execute(&rig.db.pool).await.unwrap();
    let quick = Process::serve(&rig, &[("LONGHAUL_SWEEP_MS", "50")]).await;
    quick.client.settled_as("late", JobStatus::Completed).await;
    assert_eq!(orders(&rig).await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn while_the_provider_has_no_room_for_an_order_nothing_else_leaves() {
    let rig = Rig::start().await;
    let full =
        json!({"on": "batch_create", "status": 429, "retry_after_seconds": 3600, "times": 1});
    rig.sandbox.break_model(json!([full, {"on": "batch_create", "batch_ms": 0}])).await;
    rig.submit(job("first", [batched("Write a line.")])).await;
    let put_off =
        "select not_before > longhaul.now() + interval '50 minutes' from longhaul.batch_request
      where job_id = $1 and batch_id is null";
    rig.db.wait_until(put_off, "first").await;
    rig.submit(job("second", [batched("Write a line.")])).await;
    rig.event("second", EventKind::StepBatched).await;
    rig.db.wait_until(put_off, "second").await;
    assert_eq!(orders(&rig).await.len(), 1);
    rig.db.shift_clock(3600).await;
    for name in ["first", "second"] {
        rig.settled_as(name, JobStatus::Completed).await;
    }
    assert_eq!(orders(&rig).await.last().unwrap().len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_question_that_the_provider_cannot_read_is_the_end_of_itself_alone() {
    let rig = Rig::start_with(&[("LONGHAUL_BATCH_LINGER_MS", "60000")]).await;
    let wrong = json!({"on": "batch_create", "matching": "wrong", "status": 400});
    rig.sandbox.break_model(json!([wrong, {"on": "batch_create", "batch_ms": 0}])).await;
    for name in ["a", "b", "wrong", "c", "d"] {
        rig.submit(job(name, [batched(&format!("Write a {name} line."))])).await;
        rig.event(name, EventKind::StepBatched).await;
    }
    rig.db.shift_clock(61).await;
    assert_eq!(rig.settled_as("wrong", JobStatus::Failed).await.reason, "PROVIDER_REJECTED");
    for name in ["a", "b", "c", "d"] {
        let done = rig.settled_as(name, JobStatus::Completed).await;
        assert_eq!((done.usage.unwrap().calls, done.unpriced_calls), (1, 0), "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_retry_beside_an_open_batch_asks_anew_and_both_are_booked() {
    let rig = Rig::start().await;
    rig.sandbox
        .break_model(json!({"on": "batch_create", "batch_hold": true, "batch_done": 1}))
        .await;
    rig.submit(job("twice", [batched("Write a line.")])).await;
    let ordered =
        "select count(*) = 1 from longhaul.batch_request r join longhaul.batch b using (batch_id)
      where b.status = 'ordered' and r.job_id = $1";
    rig.db.wait_until(ordered, "twice").await;
    rig.control("twice", cancel()).await;
    rig.control("twice", retry(0)).await;
    rig.sandbox.mend().await;
    let done = rig.settled_as("twice", JobStatus::Completed).await;
    assert_eq!(done.revision, 2);
    let both = "select count(*) = 2 and bool_and(outcome = 'answered' and cost_usd > 0)
      from longhaul.model_call where job_id = $1";
    rig.db.wait_until(both, "twice").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_step_that_is_sent_back_is_asked_in_a_batch_again_and_sees_what_was_wanted() {
    let rig = Rig::start().await;
    rig.sandbox.break_model(json!({"on": "batch_create", "batch_ms": 0})).await;
    let reviewed = approval_step(ApprovalStep { max_revisions: 1, ..ApprovalStep::default() });
    rig.submit(job("back", [batched("Write a line."), reviewed])).await;
    let asked = rig.settled_as("back", JobStatus::AwaitingApproval).await;
    let comment = "Name the price.".to_owned();
    let back = RequestChangesAction { comment, ..RequestChangesAction::default() };
    rig.control("back", Action::RequestChanges(back)).await;
    rig.event_after("back", EventKind::ApprovalRequested, asked.last_sequence).await;
    let orders = orders(&rig).await;
    let messages = orders[1][0]["params"]["messages"].as_array().unwrap();
    assert_eq!((orders.len(), messages.len()), (2, 3));
    assert_eq!(messages[1]["content"], json!(asked.output));
}

#[tokio::test(flavor = "multi_thread")]
async fn waiting_in_batches_does_not_use_up_the_time_for_trying() {
    let rig = Rig::start().await;
    let struck = |fate: Value, of_batch: Value| json!([fate, of_batch]);
    let busy = json!({"on": "batch_request", "matching": "busy", "status": 529, "times": 1});
    let late = json!({"on": "batch_request", "matching": "busy", "expire": true, "times": 1});
    let (quick, held) = ("batch_ms", "batch_hold");
    rig.sandbox.break_model(struck(busy, json!({"on": "batch_create", quick: 0}))).await;
    rig.submit(job("busy", [batched("Write a busy line.")])).await;
    let first = rig.event("busy", EventKind::StepDelayed).await;
    rig.sandbox.break_model(struck(late, json!({"on": "batch_create", held: true}))).await;
    rig.db.shift_clock(300).await;
    rig.event_after("busy", EventKind::StepBatched, first.sequence).await;
    let ordered =
        "select count(*) = 1 from longhaul.batch_request r join longhaul.batch b using (batch_id)
      where b.status = 'ordered' and r.result is null and r.job_id = $1";
    rig.db.wait_until(ordered, "busy").await;
    // The second question comes to nothing after most of a day.
    rig.db.shift_clock(20 * 3600).await;
    rig.sandbox.break_model(json!({"on": "batch_create", quick: 0})).await;
    let second = rig.event_after("busy", EventKind::StepDelayed, first.sequence).await;
    let shifted = "select first_error_at > longhaul.now() - interval '10 minutes' from longhaul.job where job_id = $1";
    rig.db.wait_until(shifted, "busy").await;
    rig.db.shift_clock(1200).await;
    rig.event_after("busy", EventKind::StepBatched, second.sequence).await;
    rig.settled_as("busy", JobStatus::Completed).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn both_doors_take_the_mode_and_refuse_what_no_batch_takes() {
    let rig = Rig::start().await;
    rig.sandbox.break_model(json!({"on": "batch_create", "batch_ms": 0})).await;
    let fast = RunStep {
        prompt: "Write a line.".to_owned(),
        mode: RunMode::Batch.into(),
        extra_json: r#"{"speed":"fast"}"#.to_owned(),
        ..RunStep::default()
    };
    let refused = rig.try_submit(job("fast", [run_step(fast)])).await.unwrap_err();
    assert_eq!(refused.code(), Code::InvalidArgument);
    assert!(format!("{refused:?}").contains("steps[0].run.extra_json"), "{refused:?}");
    let resumed = RunStep {
        prompt: "Write a line.".to_owned(),
        mode: RunMode::Batch.into(),
        on_interrupt: InterruptPolicy::Continue.into(),
        ..RunStep::default()
    };
    let refused = rig.try_submit(job("resumed", [run_step(resumed)])).await.unwrap_err();
    assert!(format!("{refused:?}").contains("steps[0].run.on_interrupt"), "{refused:?}");
    let body = |mode: &str| json!({"job_id": "posted", "task": "t", "steps": [{"type": "run", "prompt": "Write.", "mode": mode}]});
    assert_eq!(rig.post_job(&body("later")).await.0, 400);
    assert_eq!(rig.post_job(&body("batch")).await.0, 200);
    rig.settled_as("posted", JobStatus::Completed).await;
    assert_eq!(orders(&rig).await.len(), 1);
}
