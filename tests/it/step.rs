//! Steps that go well: what a model is shown, what is stored before the next step begins, and waits.

use longhaul::rpc::proto::{
    ContextMode, EventKind, JobSettings, JobStatus, RunStep, Step, StepStatus, WaitStep, WebSearch,
    step::Kind, wait_step::Wait,
};
use prost_types::Timestamp;
use serde_json::json;

use crate::harness::{Rig, job, named, run, run_step, wait, with};

#[tokio::test(flavor = "multi_thread")]
async fn a_step_is_stored_with_its_tokens_and_cost_before_the_next_one_begins() {
    let rig = Rig::start().await;
    rig.sandbox.hold("second").await;
    rig.submit(job("order", [run("Write a first draft."), run("Make a second draft.")])).await;
    rig.sandbox.wait_for("second", "held", 1).await;

    let state = rig.db.state("order").await;
    assert!(!state["step_1_output"].as_str().unwrap().is_empty());
    for kind in ["input", "output"] {
        assert!(state["step_1_tokens"][kind].as_i64().unwrap() > 0, "{state}");
    }
    assert!(state["step_1_cost_usd"].as_f64().unwrap() > 0.0, "{state}");
    assert_eq!(state["step_1_model"], "claude-sonnet-5-5");
    assert!(state.get("step_2_output").is_none(), "{state}");
    let seen = rig.job("order").await;
    assert_eq!((seen.status(), seen.current_step), (JobStatus::Running, 2));
    assert_eq!(seen.steps[0].status(), StepStatus::Done);
    assert_eq!(seen.steps[1].status(), StepStatus::Active);
    assert_eq!(seen.output, state["step_1_output"].as_str().unwrap());

    rig.sandbox.mend().await;
    rig.settled_as("order", JobStatus::Completed).await;
    assert!(rig.db.state("order").await["step_2_output"].is_string());
}

#[tokio::test(flavor = "multi_thread")]
async fn over_grpc_a_step_sees_the_task_and_the_earlier_turns() {
    let rig = Rig::start().await;
    let last = run_step(RunStep {
        prompt: "Translate it.".to_owned(),
        system: "Be brief.".to_owned(),
        ..RunStep::default()
    });
    rig.submit(job("talk", [run("Write a line."), wait(0), run("Shorten it."), last])).await;
    let done = rig.settled_as("talk", JobStatus::Completed).await;
    let requests = rig.sandbox.requests("").await;
    let first = &requests[0]["body"];
    assert_eq!(first["system"], "Launch copy");
    assert_eq!(first["messages"], json!([{"role": "user", "content": "Write a line."}]));
    let third = &requests[2]["body"];
    assert_eq!(third["system"], "Launch copy\n\nBe brief.");
    let expected = json!([
        {"role": "user", "content": "Write a line."},
        {"role": "assistant", "content": done.steps[0].output},
        {"role": "user", "content": "Shorten it."},
        {"role": "assistant", "content": done.steps[2].output},
        {"role": "user", "content": "Translate it."},
    ]);
    assert_eq!(third["messages"], expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn over_the_webhook_a_step_sees_its_prompt_alone() {
    let rig = Rig::start().await;
    let steps = json!([{"type": "run", "prompt": "Write a line."},
                       {"type": "run", "prompt": "Shorten it."},
                       {"type": "run", "prompt": "Translate it.", "context": "conversation"}]);
    rig.post_job(&json!({"job_id": "alone", "task": "Launch copy", "steps": steps})).await;
    rig.settled_as("alone", JobStatus::Completed).await;
    let requests = rig.sandbox.requests("").await;
    let second = &requests[1]["body"];
    assert_eq!(second.get("system"), None);
    assert_eq!(second["messages"], json!([{"role": "user", "content": "Shorten it."}]));
    let third = &requests[2]["body"];
    assert_eq!(third["messages"].as_array().unwrap().len(), 5, "{third}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_grpc_step_without_context_sees_its_prompt_alone() {
    let rig = Rig::start().await;
    let alone = RunStep { prompt: "Start afresh.".to_owned(), ..RunStep::default() };
    let alone = RunStep { context: ContextMode::None.into(), ..alone };
    rig.submit(job("fresh", [run("Write a line."), run_step(alone)])).await;
    rig.settled_as("fresh", JobStatus::Completed).await;
    let requests = rig.sandbox.requests("afresh").await;
    assert_eq!(requests[0]["body"]["messages"].as_array().unwrap().len(), 1);
    assert_eq!(requests[0]["body"].get("system"), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn templates_are_filled_with_task_and_outputs() {
    let rig = Rig::start().await;
    let draft = named("draft", run("Write about {{ task }}."));
    let again = run("A {{draft.output}} B {{ step_1_output }} C {{{{ task }} D");
    rig.submit(job("filled", [draft, again])).await;
    let done = rig.settled_as("filled", JobStatus::Completed).await;
    let output = &done.steps[0].output;
    let first = rig.sandbox.requests("Write about Launch copy.").await;
    assert_eq!(first.len(), 1);
    let expected = format!("A {output} B {output} C {{{{ task }}}} D");
    let requests = rig.sandbox.requests("").await;
    assert_eq!(requests[1]["body"]["messages"][2]["content"], expected);
    assert_eq!(done.steps[0].name, "draft");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_web_search_is_passed_on_and_its_citations_come_back() {
    let rig = Rig::start().await;
    rig.sandbox.break_model(json!({"stop_reason": "pause_turn", "times": 1})).await;
    let search = WebSearch {
        max_uses: 2,
        allowed_domains: vec!["example.com".to_owned()],
        ..WebSearch::default()
    };
    let prompt = "Research budgeting apps.".to_owned();
    let step = RunStep { prompt, web_search: Some(search), ..RunStep::default() };
    rig.submit(job("search", [run_step(step)])).await;
    let done = rig.settled_as("search", JobStatus::Completed).await;
    let requests = rig.sandbox.requests("").await;
    let tool = &requests[0]["body"]["tools"][0];
    assert_eq!((&tool["name"], &tool["max_uses"]), (&json!("web_search"), &json!(2)));
    assert_eq!(tool["allowed_domains"], json!(["example.com"]));
    let step = &done.steps[0];
    assert!(step.citations.iter().all(|one| one.url.starts_with("https://example.com/")));
    assert!(!step.citations.is_empty() && !step.citations[0].cited_text.is_empty());
    let usage = step.usage.unwrap();
    assert_eq!((usage.calls, usage.web_searches), (2, 1), "the pause was gone on with");
    let answered = |step| (step, "answered".to_owned());
    assert_eq!(rig.db.outcomes("search").await, [answered(1), answered(1)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wait_is_parked_until_its_time_has_come() {
    let rig = Rig::start().await;
    rig.submit(job("patient", [wait(3600), run("Write a line.")])).await;
    let parked = rig.job("patient").await;
    assert_eq!((parked.status(), parked.reason.as_str()), (JobStatus::Queued, "WAITING"));
    let left = parked.run_at.unwrap().seconds - parked.created_at.unwrap().seconds;
    assert_eq!(left, 3600);
    rig.db.shift_clock(3590).await;
    // A job that is due at once and submitted later is done first.
    rig.submit(job("other", [run("Write another line.")])).await;
    rig.settled_as("other", JobStatus::Completed).await;
    assert_eq!(rig.job("patient").await.reason, "WAITING");
    rig.db.shift_clock(20).await;
    let done = rig.settled_as("patient", JobStatus::Completed).await;
    assert_eq!(done.steps[0].status(), StepStatus::Done);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wait_of_nothing_and_one_until_the_past_are_passed_at_once() {
    let rig = Rig::start().await;
    let past = Wait::UntilAt(Timestamp { seconds: 1_000_000_000, nanos: 0 });
    let past = Kind::Wait(WaitStep { wait: Some(past) });
    let past = Step { name: String::new(), kind: Some(past) };
    let answer = rig.submit(job("passed", [wait(0), past])).await;
    assert_eq!(answer.job.unwrap().status(), JobStatus::Completed);
    let told = rig.event("passed", EventKind::JobCompleted).await;
    assert_eq!(told.sequence, 4, "submitted, two steps, completed");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_scheduled_job_begins_at_its_time() {
    let rig = Rig::start().await;
    let now = rig.submit(job("clock", [wait(3600)])).await.job.unwrap().created_at.unwrap();
    let run_at = Some(Timestamp { seconds: now.seconds + 600, nanos: 0 });
    let later = JobSettings { run_at, ..JobSettings::default() };
    let answer = rig.submit(with(later, job("later", [run("Write a line.")]))).await;
    let scheduled = answer.job.unwrap();
    assert_eq!((scheduled.status(), scheduled.reason.as_str()), (JobStatus::Queued, "SCHEDULED"));
    assert_eq!((scheduled.current_step, scheduled.run_at), (0, run_at));
    assert!(rig.sandbox.requests("").await.is_empty());
    rig.db.shift_clock(601).await;
    rig.settled_as("later", JobStatus::Completed).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_of_higher_priority_is_claimed_first() {
    let rig = Rig::start_with(&[("LONGHAUL_SLOTS", "1")]).await;
    rig.sandbox.hold("the slot").await;
    rig.submit(job("first", [run("Keep the slot.")])).await;
    rig.sandbox.wait_for("the slot", "held", 1).await;
    for (job_id, priority) in [("low", -1), ("plain", 0), ("high", 5)] {
        let settings = JobSettings { priority, ..JobSettings::default() };
        rig.submit(with(settings, job(job_id, [run(&format!("Be {job_id}."))]))).await;
    }
    rig.sandbox.mend().await;
    for job_id in ["high", "plain", "low"] {
        rig.settled_as(job_id, JobStatus::Completed).await;
    }
    let requests = rig.sandbox.requests("Be ").await;
    let said = |at: usize| requests[at]["body"]["messages"][0]["content"].as_str().unwrap();
    assert_eq!([said(0), said(1), said(2)], ["Be high.", "Be plain.", "Be low."]);
}

#[tokio::test(flavor = "multi_thread")]
async fn usage_and_cost_of_the_job_are_the_sum_of_its_steps() {
    let rig = Rig::start().await;
    rig.submit(job("sum", [run("Write a line."), run("Shorten it.")])).await;
    let done = rig.settled_as("sum", JobStatus::Completed).await;
    let usages = done.steps.iter().map(|step| step.usage.unwrap());
    let input: i64 = usages.clone().map(|usage| usage.input_tokens).sum();
    let output: i64 = usages.map(|usage| usage.output_tokens).sum();
    let total = done.usage.unwrap();
    assert_eq!((total.input_tokens, total.output_tokens, total.calls), (input, output, 2));
    let cost = |text: &str| text.parse::<rust_decimal::Decimal>().unwrap();
    let costs = done.steps.iter().map(|step| cost(&step.cost_usd));
    assert_eq!(costs.sum::<rust_decimal::Decimal>(), cost(&done.cost_usd));
    assert_eq!(done.unpriced_calls, 0);
    for call in rig.db.calls("sum").await {
        assert!(call.is_settled && call.outcome == "answered" && call.revision == 1);
        assert!(call.input_tokens.unwrap() > 0 && call.output_tokens.unwrap() > 0);
        assert!(cost(&call.cost_usd.unwrap()) > cost("0"));
    }
}
