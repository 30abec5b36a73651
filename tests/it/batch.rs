//! Steps that are asked in a batch: half the price, no slot held, nothing lost and nothing ordered twice.

use longhaul::rpc::proto::{
    EventKind, Job, JobSettings, JobStatus, RunMode, RunStep, Step, SubmitJobRequest,
    TruncationPolicy, WebSearch,
};
use rust_decimal::Decimal;
use serde_json::{Value, json};

use crate::harness::{
    Process, Rig, approval, approve, cancel, job, pause, resume, retry, run, run_step, with,
};

fn batched(prompt: &str) -> Step {
    let (prompt, mode) = (prompt.to_owned(), RunMode::Batch.into());
    run_step(RunStep { prompt, mode, ..RunStep::default() })
}

/// A rig whose batches are answered at once.
async fn quick(variables: &[(&str, &str)]) -> Rig {
    let rig = Rig::start_with(variables).await;
    rig.sandbox.break_model(quick_batches()).await;
    rig
}

fn quick_batches() -> Value {
    json!({"on": "batch_create", "batch_ms": 0})
}

fn held_batches() -> Value {
    json!({"on": "batch_create", "batch_hold": true})
}

/// The batches that were ordered, with the status of the provider's answer.
async fn orders(rig: &Rig) -> Vec<Value> {
    let requests = rig.sandbox.requests("").await;
    let is_order =
        |request: &Value| request["path"] == "/v1/messages/batches" && request["method"] == "POST";
    requests.into_iter().filter(is_order).collect()
}

fn questions(order: &Value) -> usize {
    order["body"]["requests"].as_array().map_or(0, Vec::len)
}

async fn parked(rig: &Rig, job_id: &str) -> Job {
    rig.event(job_id, EventKind::StepBatched).await;
    let parked = rig.job(job_id).await;
    assert_eq!((parked.status(), parked.reason.as_str()), (JobStatus::Queued, "BATCH"));
    parked
}

async fn wait_until_ordered(rig: &Rig, job_id: &str) {
    let ordered =
        "select count(*) > 0 from longhaul.batch_request r join longhaul.batch b using (batch_id)
      where b.status = 'ordered' and r.job_id = $1";
    rig.db.wait_until(ordered, job_id).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_costs_half_and_holds_no_slot() {
    let rig = Rig::start_with(&[("LONGHAUL_SLOTS", "1")]).await;
    rig.sandbox.break_model(held_batches()).await;
    rig.submit(job("slow", [batched("Write a line."), run("Shorten it.")])).await;
    let waiting = parked(&rig, "slow").await;
    assert!(waiting.status_message.contains("answered in a batch"), "{}", waiting.status_message);
    assert_eq!(waiting.usage.unwrap().calls, 1, "its row is in the ledger before it leaves");
    rig.submit(job("quick", [run("Write a line.")])).await;
    let quick = rig.settled_as("quick", JobStatus::Completed).await;

    rig.sandbox.mend().await;
    let done = rig.settled_as("slow", JobStatus::Completed).await;
    assert_eq!(done.steps[0].output, quick.steps[0].output);
    let (half, whole) = (&done.steps[0], &quick.steps[0]);
    assert_eq!(half.usage, whole.usage);
    let usd = |text: &str| text.parse::<Decimal>().unwrap();
    assert_eq!(usd(&half.cost_usd) * Decimal::TWO, usd(&whole.cost_usd));
    assert_eq!((done.usage.unwrap().calls, done.unpriced_calls), (2, 0));
    let outcomes = [(1, "answered".to_owned()), (2, "answered".to_owned())];
    assert_eq!(rig.db.outcomes("slow").await, outcomes);
    let newer = "select count(*) from longhaul.job where job_id = 'slow' and spec_version = 3";
    assert_eq!(rig.db.number(newer).await, 1, "older servers leave it alone");
}

#[tokio::test(flavor = "multi_thread")]
async fn questions_leave_together() {
    let rig = quick(&[("LONGHAUL_BATCH_LINGER_MS", "60000")]).await;
    let names: Vec<String> = (0..30).map(|number| format!("job-{number}")).collect();
    for name in &names {
        rig.submit(job(name, [batched("Write a line."), batched("Shorten it.")])).await;
    }
    for name in &names {
        parked(&rig, name).await;
    }
    assert!(orders(&rig).await.is_empty());
    for step in 1..=2 {
        rig.db.shift_clock(61).await;
        let all = "select count(*) = 30 and $1 <> '' from longhaul.checkpoint";
        let rest =
            "select count(*) = 30 and $1 <> '' from longhaul.batch_request where batch_id is null";
        if step == 1 {
            rig.db.wait_until(all, "any").await;
            rig.db.wait_until(rest, "any").await;
        }
    }
    for name in &names {
        rig.settled_as(name, JobStatus::Completed).await;
    }
    let counts: Vec<usize> = orders(&rig).await.iter().map(questions).collect();
    assert_eq!(counts, [30, 30]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_order_whose_answer_was_lost_is_found_and_not_made_again() {
    let rig = Rig::start().await;
    let lost = json!({"on": "batch_create", "lose_reply": true, "batch_hold": true, "times": 1});
    rig.sandbox.break_model(lost).await;
    rig.submit(job("lost", [batched("Write a line.")])).await;
    let unsure = "select count(*) = 1 and $1 <> '' from longhaul.batch where status = 'unsure'";
    rig.db.wait_until(unsure, "any").await;
    // Long after it would have arrived there is still one that may be it.
    rig.db.shift_clock(600).await;
    rig.sandbox.wait_for("", "answered", 3).await;
    assert_eq!(orders(&rig).await.len(), 1);
    rig.sandbox.mend().await;
    rig.settled_as("lost", JobStatus::Completed).await;
    assert_eq!(orders(&rig).await.len(), 1);
    assert_eq!(rig.db.outcomes("lost").await, [(1, "answered".to_owned())]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_order_that_never_arrived_leaves_again_and_one_of_others_is_let_be() {
    let rig = Rig::start().await;
    // Somebody else's batch was made at the same time.
    let url = format!("{}/v1/messages/batches", rig.sandbox.url);
    let params = json!({"model": "claude-haiku-5-5", "max_tokens": 9, "messages": [{"role": "user", "content": "x"}]});
    let other = json!({"requests": [{"custom_id": "theirs", "params": params}]});
    let request = rig.http.post(url).header("x-api-key", "k");
    let made = request.header("anthropic-version", "2026-10-21").json(&other).send().await.unwrap();
    assert!(made.status().is_success());
    rig.sandbox
        .break_model(json!([{"on": "batch_create", "status": 500, "times": 1}, quick_batches()]))
        .await;
    rig.submit(job("astray", [batched("Write a line.")])).await;
    let unsure = "select count(*) = 1 and $1 <> '' from longhaul.batch where status = 'unsure'";
    rig.db.wait_until(unsure, "any").await;
    assert_eq!(orders(&rig).await.len(), 2);
    rig.db.shift_clock(200).await;
    rig.settled_as("astray", JobStatus::Completed).await;
    assert_eq!(orders(&rig).await.len(), 3);
    assert_eq!(rig.db.outcomes("astray").await, [(1, "answered".to_owned())]);
}

#[tokio::test(flavor = "multi_thread")]
async fn after_kill_9_in_the_middle_of_an_order_others_go_on_with_it() {
    let rig = Rig::without_server(&[("LONGHAUL_LEASE_SECONDS", "2")]).await;
    let server = Process::serve(&rig, &[]).await;
    rig.sandbox.break_model(json!({"on": "batch_create", "hold": true})).await;
    server.client.submit(job("cut", [batched("Write a line.")])).await;
    rig.sandbox.wait_for("Write", "held", 1).await;
    server.kill9().await;
    rig.sandbox.break_model(quick_batches()).await;
    let survivor = rig.serve().await;
    let unsure = "select count(*) = 1 and $1 <> '' from longhaul.batch where status = 'unsure'";
    rig.db.wait_until(unsure, "any").await;
    rig.db.shift_clock(200).await;
    survivor.client.settled_as("cut", JobStatus::Completed).await;
    assert_eq!(rig.db.outcomes("cut").await, [(1, "answered".to_owned())]);
}

#[tokio::test(flavor = "multi_thread")]
async fn after_kill_9_while_the_provider_works_others_fetch_the_answer() {
    let rig = Rig::without_server(&[("LONGHAUL_LEASE_SECONDS", "2")]).await;
    let server = Process::serve(&rig, &[]).await;
    rig.sandbox.break_model(held_batches()).await;
    server
        .client
        .submit(job("held", [batched("Write a line."), approval("?"), batched("Go on.")]))
        .await;
    wait_until_ordered(&rig, "held").await;
    server.kill9().await;
    let survivor = rig.serve().await;
    rig.sandbox.break_model(quick_batches()).await;
    survivor.client.settled_as("held", JobStatus::AwaitingApproval).await;
    survivor.client.control("held", approve()).await;
    survivor.client.settled_as("held", JobStatus::Completed).await;
    let orders = orders(&rig).await;
    assert_eq!(orders.len(), 2, "none was made again");
    let outcomes = [(1, "answered".to_owned()), (3, "answered".to_owned())];
    assert_eq!(rig.db.outcomes("held").await, outcomes);
}

#[tokio::test(flavor = "multi_thread")]
async fn each_question_of_a_batch_meets_its_own_end() {
    let rig = Rig::start_with(&[("LONGHAUL_BATCH_LINGER_MS", "60000")]).await;
    rig.sandbox
        .break_model(json!([
            {"on": "batch_request", "matching": "busy", "status": 529, "times": 1},
            {"on": "batch_request", "matching": "late", "expire": true, "times": 1},
            {"on": "batch_request", "matching": "bad", "status": 400},
            {"on": "batch_request", "matching": "odd", "stop_reason": "refusal"},
            quick_batches(),
        ]))
        .await;
    for name in ["busy", "late", "bad", "odd", "good"] {
        rig.submit(job(name, [batched(&format!("Write a {name} line."))])).await;
        parked(&rig, name).await;
    }
    rig.db.shift_clock(61).await;
    rig.settled_as("good", JobStatus::Completed).await;
    assert_eq!(rig.settled_as("bad", JobStatus::Failed).await.reason, "PROVIDER_REJECTED");
    let refused = rig.settled_as("odd", JobStatus::Failed).await;
    assert_eq!(refused.reason, "MODEL_REFUSED");
    for name in ["busy", "late"] {
        let delayed = rig.event(name, EventKind::StepDelayed).await;
        assert!(delayed.message.contains("held up"), "{}", delayed.message);
    }
    // After a pause each is asked again, and what came to nothing was not billed.
    rig.db.shift_clock(300).await;
    for name in ["busy", "late"] {
        rig.event_after(
            name,
            EventKind::StepBatched,
            rig.event(name, EventKind::StepDelayed).await.sequence,
        )
        .await;
    }
    rig.db.shift_clock(61).await;
    for name in ["busy", "late"] {
        let done = rig.settled_as(name, JobStatus::Completed).await;
        assert_eq!((done.usage.unwrap().calls, done.unpriced_calls), (2, 0), "{name}");
        let outcomes = [(1, "failed".to_owned()), (1, "answered".to_owned())];
        assert_eq!(rig.db.outcomes(name).await, outcomes, "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_order_that_is_refused_waits_or_fails_as_the_provider_says() {
    let rig = Rig::start().await;
    let full =
        json!({"on": "batch_create", "status": 429, "retry_after_seconds": 3600, "times": 1});
    let wrong = json!({"on": "batch_create", "status": 401, "times": 1});
    rig.sandbox.break_model(json!([full, quick_batches()])).await;
    rig.submit(job("full", [batched("Write a line.")])).await;
    let put_off = "select count(*) = 1 from longhaul.batch_request
      where batch_id is null and not_before > longhaul.now() + interval '50 minutes' and job_id = $1";
    rig.db.wait_until(put_off, "full").await;
    assert_eq!(orders(&rig).await.len(), 1);
    rig.db.shift_clock(3600).await;
    rig.settled_as("full", JobStatus::Completed).await;
    rig.sandbox.break_model(json!([wrong, quick_batches()])).await;
    rig.submit(job("wrong", [batched("Write a line.")])).await;
    let failed = rig.settled_as("wrong", JobStatus::Failed).await;
    assert_eq!((failed.reason.as_str(), failed.unpriced_calls), ("PROVIDER_REJECTED", 0));
    assert!(failed.last_error.unwrap().message.contains("401"));
    rig.control("wrong", retry(0)).await;
    rig.settled_as("wrong", JobStatus::Completed).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_nobody_waits_for_any_more_does_not_leave_or_is_canceled() {
    let rig = Rig::start_with(&[("LONGHAUL_BATCH_LINGER_MS", "60000")]).await;
    rig.sandbox.break_model(held_batches()).await;
    rig.submit(job("early", [batched("Write a line.")])).await;
    parked(&rig, "early").await;
    rig.control("early", cancel()).await;
    rig.submit(job("late", [batched("Write a line.")])).await;
    parked(&rig, "late").await;
    rig.db.shift_clock(61).await;
    wait_until_ordered(&rig, "late").await;
    let orders = orders(&rig).await;
    assert_eq!((orders.len(), questions(&orders[0])), (1, 1));
    assert!(rig.db.outcomes("early").await.is_empty(), "what never left is in no ledger");
    rig.control("late", cancel()).await;
    let settled =
        "select outcome = 'failed' and cost_usd = 0 from longhaul.model_call where job_id = $1";
    rig.db.wait_until(settled, "late").await;
    let requests = rig.sandbox.requests("").await;
    let canceled = |request: &&Value| request["path"].as_str().unwrap().ends_with("/cancel");
    assert_eq!(requests.iter().filter(canceled).count(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_can_be_paused_while_it_waits_and_finds_its_answer_later() {
    let rig = Rig::start().await;
    rig.sandbox.break_model(held_batches()).await;
    rig.submit(job("held", [batched("Write a line.")])).await;
    wait_until_ordered(&rig, "held").await;
    rig.control("held", pause()).await;
    rig.settled_as("held", JobStatus::Paused).await;
    rig.control("held", resume()).await;
    // It looks, finds nothing yet, and waits on.
    rig.event_after("held", EventKind::StepBatched, rig.job("held").await.last_sequence - 1).await;
    rig.control("held", pause()).await;
    rig.sandbox.mend().await;
    let answered = "select result is not null from longhaul.batch_request where job_id = $1";
    rig.db.wait_until(answered, "held").await;
    assert_eq!(rig.job("held").await.status(), JobStatus::Paused);
    rig.control("held", resume()).await;
    let done = rig.settled_as("held", JobStatus::Completed).await;
    assert_eq!((done.usage.unwrap().calls, orders(&rig).await.len()), (1, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_was_cut_off_or_paused_is_gone_on_with_in_another_batch() {
    let rig = Rig::start().await;
    for (name, stop_reason) in [("cut", "max_tokens"), ("rest", "pause_turn")] {
        let fault = json!({"on": "batch_request", "matching": name, "stop_reason": stop_reason, "times": 1});
        rig.sandbox.break_model(json!([fault, quick_batches()])).await;
        let step = RunStep {
            prompt: format!("Write a line about the {name}."),
            mode: RunMode::Batch.into(),
            on_truncated: TruncationPolicy::Continue.into(),
            web_search: (stop_reason == "pause_turn").then(WebSearch::default),
            ..RunStep::default()
        };
        rig.submit(job(name, [run_step(step)])).await;
        let done = rig.settled_as(name, JobStatus::Completed).await;
        assert_eq!((done.usage.unwrap().calls, done.unpriced_calls), (2, 0));
        assert_eq!(done.cost_usd, done.steps[0].cost_usd);
    }
    assert_eq!(orders(&rig).await.len(), 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn results_that_break_off_or_are_not_there_yet_are_fetched_again() {
    let rig = Rig::start().await;
    rig.sandbox
        .break_model(json!([
            {"on": "batch_results", "lose_reply": true, "times": 1},
            {"on": "batch_create", "batch_ms": 0, "batch_unseen": 3},
        ]))
        .await;
    rig.submit(job("late", [batched("Write a line.")])).await;
    let done = rig.settled_as("late", JobStatus::Completed).await;
    assert_eq!((done.usage.unwrap().calls, orders(&rig).await.len()), (1, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_that_the_provider_has_lost_is_asked_again() {
    let rig = Rig::start().await;
    rig.sandbox.break_model(json!([
        {"on": "batch_create", "batch_hold": true, "batch_unseen": 1_000_000, "times": 1}, quick_batches(),
    ])).await;
    rig.submit(job("gone", [batched("Write a line.")])).await;
    wait_until_ordered(&rig, "gone").await;
    // A day later nothing of it is to be seen, nor what it cost.
    rig.db.shift_clock(27 * 3600).await;
    rig.event("gone", EventKind::StepDelayed).await;
    rig.db.shift_clock(300).await;
    let done = rig.settled_as("gone", JobStatus::Completed).await;
    assert_eq!((orders(&rig).await.len(), done.unpriced_calls), (2, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_budget_has_room_for_twice_as_much_in_a_batch() {
    let rig = quick(&[]).await;
    let asked = |mode: RunMode| {
        let (prompt, mode) = ("Write a line.".to_owned(), mode.into());
        run_step(RunStep { prompt, mode, max_tokens: 1000, ..RunStep::default() })
    };
    let limited = |job: SubmitJobRequest| {
        let budget_usd = "0.008".to_owned();
        with(JobSettings { budget_usd, ..JobSettings::default() }, job)
    };
    rig.submit(limited(job("stream", [asked(RunMode::Stream)]))).await;
    assert_eq!(rig.settled_as("stream", JobStatus::Paused).await.reason, "BUDGET");
    rig.submit(limited(job("batch", [asked(RunMode::Batch)]))).await;
    rig.settled_as("batch", JobStatus::Completed).await;
    let reserved =
        "select count(*) from longhaul.model_call where reserved_usd > cost_usd and cost_usd > 0";
    assert_eq!(rig.db.number(reserved).await, 1);
}
