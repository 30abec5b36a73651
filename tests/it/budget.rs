//! Budgets: nothing leaves that could cost more than a job may, and people are told where it stands still for that.

use longhaul::rpc::proto::{
    Job, JobSettings, JobStatus, ResumeAction, RunStep, SubmitJobRequest, control_request::Action,
};
use serde_json::json;

use crate::harness::{PERSON, Rig, approval, approve, job, run, run_step, with};

fn limited(budget_usd: &str, job: SubmitJobRequest) -> SubmitJobRequest {
    let settings = JobSettings { budget_usd: budget_usd.to_owned(), ..JobSettings::default() };
    with(settings, job)
}

fn raise(budget_usd: &str) -> Action {
    Action::Resume(ResumeAction { budget_usd: budget_usd.to_owned() })
}

/// The messages that were asked of the model, not the counts of their tokens.
async fn asked(rig: &Rig) -> usize {
    let requests = rig.sandbox.requests("").await;
    requests.iter().filter(|request| request["path"] == "/v1/messages").count()
}

fn cost(job: &Job) -> rust_decimal::Decimal {
    job.cost_usd.parse().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_budget_does_not_cover_does_not_leave_until_it_is_raised() {
    let rig = Rig::start().await;
    rig.submit(limited("0.000001", job("poor", [run("Write a line.")]))).await;
    let paused = rig.settled_as("poor", JobStatus::Paused).await;
    assert_eq!((paused.reason.as_str(), paused.cost_usd.as_str()), ("BUDGET", "0"));
    assert_eq!(paused.usage.unwrap().calls, 0, "what never left is in no ledger");
    let said = paused.status_message;
    assert!(said.contains("the budget of $0.000001 does not cover the next call"), "{said}");
    assert_eq!(asked(&rig).await, 0);
    let told = rig.sandbox.messages(PERSON, 1).await;
    assert!(told[0].to_string().contains("its budget is used up"), "{}", told[0]);

    rig.control("poor", raise("")).await;
    let again = rig.settled_as("poor", JobStatus::Paused).await;
    assert!(again.last_sequence > paused.last_sequence, "without more it stands still again");
    rig.control("poor", raise("2.50")).await;
    let done = rig.settled_as("poor", JobStatus::Completed).await;
    assert_eq!((done.budget_usd.as_str(), done.unpriced_calls), ("2.5", 0));
    assert_eq!(asked(&rig).await, 1);
    // The most it could cost was set aside, and it was less.
    let within =
        "select count(*) from longhaul.model_call where reserved_usd >= cost_usd and cost_usd > 0";
    assert_eq!(rig.db.number(within).await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_earlier_calls_cost_or_may_have_cost_counts() {
    let rig = Rig::start().await;
    let small = || {
        let prompt = "Write a line.".to_owned();
        run_step(RunStep { prompt, max_tokens: 200, ..RunStep::default() })
    };
    rig.submit(limited("1", job("spent", [small(), approval("?"), small()]))).await;
    let asks = rig.settled_as("spent", JobStatus::AwaitingApproval).await;
    let spent = cost(&asks);
    assert!(spent > rust_decimal::Decimal::ZERO);
    // A job that does not stand still takes a new budget too, and keeps its place.
    let tight = spent + rust_decimal::Decimal::new(1, 6);
    rig.control("spent", raise(&tight.to_string())).await;
    rig.control("spent", approve()).await;
    let paused = rig.settled_as("spent", JobStatus::Paused).await;
    assert_eq!((paused.reason.as_str(), cost(&paused)), ("BUDGET", spent));
    assert!(paused.status_message.contains(&format!("${} is spent", spent.normalize())));

    // Nobody knows what a lost call cost: what was set aside for it counts.
    let lose =
        "update longhaul.model_call set outcome = 'lost', cost_usd = null, reserved_usd = 0.4";
    sqlx::query(lose).execute(&rig.db.pool).await.unwrap();
    rig.control("spent", raise("0.4001")).await;
    let paused = rig.settled_as("spent", JobStatus::Paused).await;
    assert!(paused.status_message.contains("$0.4 is spent"), "{}", paused.status_message);
    rig.control("spent", raise("0.5")).await;
    rig.settled_as("spent", JobStatus::Completed).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_without_a_price_cannot_be_held_to_a_budget() {
    let rig = Rig::start().await;
    let unpriced = |prompt: &str| {
        let model = "claude-of-tomorrow".to_owned();
        run_step(RunStep { prompt: prompt.to_owned(), model, ..RunStep::default() })
    };
    let refused = rig.try_submit(limited("1", job("bad", [run("a"), unpriced("b")]))).await;
    let error = refused.unwrap_err();
    assert!(format!("{error:?}").contains("steps[1].run.model"), "{error:?}");
    assert_eq!(rig.db.job_count().await, 0);
    // Without a budget it is the provider's to say.
    rig.submit(job("free", [unpriced("b")])).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_webhook_takes_budgets_as_text_and_as_numbers() {
    let rig = Rig::start().await;
    let steps = json!([{"type": "run", "prompt": "Write a line."}]);
    for (job_id, budget) in [("text", json!("0.000001")), ("number", json!(0.000_001))] {
        let settings = json!({"budget_usd": budget});
        let body = json!({"job_id": job_id, "task": "t", "steps": steps, "settings": settings});
        rig.post_job(&body).await;
        rig.settled_as(job_id, JobStatus::Paused).await;
    }
    for (job_id, budget) in [("text", json!("2.5")), ("number", json!(2.5))] {
        rig.post(
            "/webhook/durable-job-control",
            &json!({"job_id": job_id, "action": "resume", "budget_usd": budget}),
        )
        .await;
        let done = rig.settled_as(job_id, JobStatus::Completed).await;
        assert_eq!(done.budget_usd, "2.5");
    }
}
