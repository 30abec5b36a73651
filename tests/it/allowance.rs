//! The day's budget: all servers together spend no more than it, jobs wait for the next day where it does not cover a
//! call, one message says so, and what calls did not cost is there for others.
//!
//! The calls of these tests may cost about two cents each, and cost far less.

use futures::future::join_all;
use longhaul::rpc::proto::{
    EventKind, Job, JobSettings, JobStatus, RunMode, RunStep, SubmitJobRequest,
};
use rust_decimal::Decimal;
use serde_json::json;

use crate::harness::{
    Client, NOBODY, Process, Rig, Told, cancel, job, pause, resume, retry, run_step, wait, with,
};

const BUDGET: &str = "LONGHAUL_DAILY_BUDGET_USD";
const OPERATOR: &str = "+15550190";
const DAY: i32 = 86_400;

/// A day's budget is gone, as if a server had drawn it and died.
const SPEND: &str = "insert into longhaul.allowance (day, drawn_usd)
  values ((longhaul.now() at time zone 'utc')::date + $1, 1000)";
/// What servers have drawn on the last day there is.
const DRAWN: &str = "select drawn_usd from longhaul.allowance order by day desc limit 1";
/// The most that calls have cost, or may.
const COMMITTED: &str =
    "select coalesce(sum(coalesce(cost_usd, reserved_usd)), 0) from longhaul.model_call";
/// The job waits for a new day: how many seconds after midnight it goes on, and how it stands.
const IS_PUT_OFF: &str = "select status = 'queued' and reason = 'DAILY_BUDGET' and executor_id is null
    and run_at - date_trunc('day', longhaul.now(), 'utc') between interval '1 day' and interval '1 day 1 minute'
  from longhaul.job where job_id = $1";

/// A job of one call that may cost about two cents; it has a budget of its own, so that the ledger tells how much.
fn dear(job_id: &str) -> SubmitJobRequest {
    let model = "claude-opus-5-5".to_owned();
    let prompt = format!("Write a line about {job_id}.");
    let step = run_step(RunStep { prompt, model, max_tokens: 1000, ..RunStep::default() });
    let settings = JobSettings { budget_usd: "1".to_owned(), ..JobSettings::default() };
    with(settings, job(job_id, [step]))
}

/// A rig with one server, at noon, so that no test crosses a midnight that it does not mean.
async fn rig(budget: &str) -> Rig {
    let variables =
        [(BUDGET, budget), ("LONGHAUL_OPERATORS", OPERATOR), ("LONGHAUL_NOTIFY", NOBODY)];
    let rig = at_noon(Rig::without_server(&variables).await).await;
    let url = rig.db.url.clone();
    rig.start_at(&url).await
}

async fn at_noon(rig: Rig) -> Rig {
    let until = "select extract(epoch from date_trunc('day', now(), 'utc') + interval '36 hours' - now())::bigint";
    rig.db.shift_clock(i32::try_from(rig.db.number(until).await).unwrap()).await;
    rig
}

async fn usd(rig: &Rig, statement: &'static str) -> Decimal {
    sqlx::query_scalar(statement).fetch_one(&rig.db.pool).await.unwrap()
}

/// Spends what the servers have for today, or for a day after it.
async fn spend(rig: &Rig, days: i32) {
    sqlx::query(SPEND).bind(days).execute(&rig.db.pool).await.unwrap();
}

async fn put_off(rig: &Rig, job_id: &str) -> Job {
    rig.db.wait_until(IS_PUT_OFF, job_id).await;
    rig.job(job_id).await
}

fn budget(text: &str) -> Decimal {
    text.parse().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn fifty_jobs_on_two_servers_never_spend_more_than_the_day_allows() {
    let limit = "0.41";
    let rig = rig(limit).await;
    let other = rig.serve().await;
    rig.sandbox.hold("line").await;
    let names: Vec<String> = (10..60).map(|number| format!("job-{number}")).collect();
    let at = |nth: usize| -> &Client { if nth.is_multiple_of(2) { &rig } else { &other.client } };
    join_all(names.iter().enumerate().map(|(nth, name)| at(nth).submit(dear(name)))).await;
    // What twenty calls may cost fits.
    let twenty = "select count(*) filter (where status = 'running') = 20
        and count(*) filter (where reason = 'DAILY_BUDGET') = 30 and $1 <> '' from longhaul.job";
    rig.db.wait_until(twenty, "any").await;
    rig.sandbox.wait_for("line", "held", 20).await;
    let reserved = usd(&rig, COMMITTED).await;
    assert!(reserved > budget("0.38") && reserved <= budget(limit), "{reserved}");
    assert_eq!(usd(&rig, DRAWN).await, reserved, "nothing lies in a hand that needs it not");
    assert_eq!(rig.db.number("select count(*) from longhaul.model_call").await, 20);

    rig.sandbox.mend().await;
    for name in &names {
        // What was not spent lets the others go on, on the same day.
        let done = rig.settled_as(name, JobStatus::Completed).await;
        assert_eq!(done.attempts, 0);
        assert!(usd(&rig, COMMITTED).await <= budget(limit));
        assert!(usd(&rig, DRAWN).await <= budget(limit));
    }
    let most = "select max(reserved_usd) * 20 from longhaul.model_call";
    assert!(usd(&rig, most).await > usd(&rig, COMMITTED).await, "they cost far less");
    other.stop().await;
    let (mut rig, spent) = (rig, "select sum(cost_usd) from longhaul.model_call");
    rig.stop_server().await;
    assert_eq!(usd(&rig, DRAWN).await, usd(&rig, spent).await, "a stop gives back what is left");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_day_that_is_spent_parks_every_job_until_midnight_and_tells_the_operators_once() {
    let rig = rig("10").await;
    let other = rig.serve().await;
    spend(&rig, 0).await;
    let names: Vec<String> = (0..20).map(|number| format!("job-{number}")).collect();
    let at = |nth: usize| -> &Client { if nth.is_multiple_of(2) { &rig } else { &other.client } };
    join_all(names.iter().enumerate().map(|(nth, name)| at(nth).submit(dear(name)))).await;
    for name in &names {
        let waits = put_off(&rig, name).await;
        let said = waits.status_message;
        assert!(said.contains("of the day's budget of $10 does not cover the next call"), "{said}");
        assert!(said.starts_with("Step 1 of 1 goes on at "), "{said}");
        assert_eq!(waits.usage.unwrap().calls, 0, "what never left is in no ledger");
    }
    let moments = "select count(distinct run_at) from longhaul.job";
    assert!(rig.db.number(moments).await > 15, "they do not wake at once");
    let messages = rig.sandbox.messages(OPERATOR, 1).await;
    let text = messages[0]["text"].as_str().unwrap();
    assert!(text.contains("The day's budget is used up") && text.contains("$10"), "{text}");
    assert!(text.contains("wait until 00:00 UTC") && !text.contains("Launch copy"), "{text}");

    rig.db.shift_clock(DAY).await;
    for name in &names {
        rig.settled_as(name, JobStatus::Completed).await;
    }
    let told = "select count(*) from longhaul.outbox where kind = 'daily_budget'";
    assert_eq!(rig.db.number(told).await, 1, "whichever server noticed first, and only that");
    assert_eq!(rig.sandbox.messages(OPERATOR, 1).await.len(), 1);

    spend(&rig, 1).await;
    rig.db.shift_clock(DAY).await;
    rig.submit(dear("tomorrow")).await;
    put_off(&rig, "tomorrow").await;
    rig.sandbox.messages(OPERATOR, 2).await;
    assert_eq!(rig.db.number(told).await, 2, "each day is told");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_operators_are_told_is_not_taken_back_with_the_job_it_came_with() {
    let rig = rig("10").await;
    spend(&rig, 0).await;
    rig.sandbox.break_whatsapp(json!({"code": 130_429, "recipient": &OPERATOR[1..]})).await;
    rig.submit(dear("first")).await;
    put_off(&rig, "first").await;
    // A try that the whole channel turned down does not count.
    let tried = "select delivery = 'pending' and error like '%130429%' from longhaul.outbox where job_id = $1";
    rig.db.wait_until(tried, "first").await;
    assert!(rig.control("first", cancel()).await);
    rig.settled_as("first", JobStatus::Cancelled).await;
    assert!(rig.control("first", retry(0)).await);
    put_off(&rig, "first").await;
    rig.sandbox.mend().await;
    rig.db.shift_clock(60).await;
    assert_eq!(rig.sandbox.messages(OPERATOR, 1).await.len(), 1);
    let sent = "select delivery = 'sent' from longhaul.outbox where job_id = $1";
    rig.db.wait_until(sent, "first").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_was_cancelled_before_it_could_wait_tells_nobody_and_leaves_that_to_the_next() {
    let rig = rig("10").await;
    spend(&rig, 0).await;
    let counts = json!({"on": "count_tokens", "hold": true, "matching": "gone"});
    rig.sandbox.break_model(counts).await;
    rig.submit(dear("gone")).await;
    rig.sandbox.wait_for("gone", "held", 1).await;
    assert!(rig.control("gone", cancel()).await);
    rig.sandbox.mend().await;
    let refused = "select refused_at is not null and told_at is null and $1 <> '' and not exists (
        select from longhaul.model_call) from longhaul.allowance";
    rig.db.wait_until(refused, "any").await;
    assert_eq!(rig.db.notices("gone").await, []);
    rig.submit(dear("next")).await;
    put_off(&rig, "next").await;
    rig.sandbox.messages(OPERATOR, 1).await;
    assert_eq!(rig.db.notices("next").await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_waits_for_a_new_day_obeys_as_any_parked_one() {
    let rig = rig("10").await;
    spend(&rig, 0).await;
    rig.submit(dear("obeys")).await;
    let waits = put_off(&rig, "obeys").await;
    assert!(!rig.control("obeys", resume()).await, "it is not paused");
    assert!(rig.control("obeys", pause()).await);
    rig.settled_as("obeys", JobStatus::Paused).await;
    assert!(rig.control("obeys", resume()).await);
    let again = put_off(&rig, "obeys").await;
    assert_eq!((again.run_at, again.reason.as_str()), (waits.run_at, "DAILY_BUDGET"));
    assert!(rig.control("obeys", cancel()).await);
    assert!(rig.control("obeys", retry(0)).await);
    put_off(&rig, "obeys").await;
    rig.control("obeys", pause()).await;
    rig.db.shift_clock(2 * DAY).await;
    rig.control("obeys", resume()).await;
    rig.settled_as("obeys", JobStatus::Completed).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_day_of_waiting_is_no_time_of_the_retry_window() {
    let rig = rig("10").await;
    rig.sandbox.break_model(json!({"status": 529, "retry_after_seconds": 600, "times": 1})).await;
    let mut patient = dear("patient");
    patient.settings.as_mut().unwrap().retry_window_seconds = Some(3600);
    rig.submit(patient).await;
    let delayed = rig.event("patient", EventKind::StepDelayed).await;
    spend(&rig, 1).await;
    rig.db.shift_clock(DAY).await;
    let parked = rig.event_after("patient", EventKind::StepDelayed, delayed.sequence).await;
    assert!(parked.message.contains("put off: what is left of the day's budget"), "{parked:?}");
    rig.sandbox.break_model(json!({"status": 529, "retry_after_seconds": 600, "times": 1})).await;
    rig.db.shift_clock(DAY).await;
    let again = rig.event_after("patient", EventKind::StepDelayed, parked.sequence).await;
    assert!(again.message.starts_with("step 1 of 1 held up"), "{again:?}");
    rig.db.shift_clock(700).await;
    rig.settled_as("patient", JobStatus::Completed).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_without_a_price_cannot_be_held_to_the_budget_of_a_day() {
    let mut rig = rig("").await;
    let unpriced = |job_id: &str| {
        let (model, prompt) = ("claude-of-tomorrow".to_owned(), "Write a line.".to_owned());
        job(job_id, [wait(60), run_step(RunStep { prompt, model, ..RunStep::default() })])
    };
    rig.submit(unpriced("earlier")).await;
    rig.stop_server().await;
    let limited = Process::serve(&rig, &[(BUDGET, "10")]).await;
    let told = Told::by(limited.client.try_submit(unpriced("refused")).await);
    assert_eq!(told.fields, ["steps[1].run.model"]);
    rig.db.shift_clock(61).await;
    let failed = limited.client.settled_as("earlier", JobStatus::Failed).await;
    assert_eq!(failed.reason, "MODEL_UNPRICED");
    assert_eq!(failed.usage.unwrap().calls, 0, "nothing has left");
}

#[tokio::test(flavor = "multi_thread")]
async fn where_a_lot_has_room_no_call_asks_the_database_for_money() {
    let mut rig = rig("100").await;
    for number in 0..20 {
        let job_id = format!("job-{number}");
        rig.submit(dear(&job_id)).await;
        rig.settled_as(&job_id, JobStatus::Completed).await;
        // One lot, a hundredth of the budget, is drawn once.
        assert_eq!(usd(&rig, DRAWN).await, Decimal::ONE);
    }
    rig.stop_server().await;
    assert_eq!(usd(&rig, DRAWN).await, usd(&rig, COMMITTED).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cost_that_nobody_knows_counts_as_dear_as_it_could_be() {
    let mut rig = rig("100").await;
    rig.sandbox.hold("unknown").await;
    rig.submit(dear("unknown")).await;
    rig.sandbox.wait_for("unknown", "held", 1).await;
    rig.control("unknown", cancel()).await;
    rig.sandbox.wait_for("unknown", "disconnected", 1).await;
    rig.sandbox.break_model(json!({"status": 400, "matching": "failed"})).await;
    rig.submit(dear("failed")).await;
    rig.settled_as("failed", JobStatus::Failed).await;
    // A job whose own budget does not cover its call takes nothing of the day's.
    let mut poor = dear("poor");
    poor.settings.as_mut().unwrap().budget_usd = "0.001".to_owned();
    rig.submit(poor).await;
    let paused = rig.settled_as("poor", JobStatus::Paused).await;
    assert_eq!(paused.reason, "BUDGET");
    rig.stop_server().await;
    let unknown = "select reserved_usd from longhaul.model_call where job_id = 'unknown' and cost_usd is null";
    assert_eq!(usd(&rig, DRAWN).await, usd(&rig, unknown).await, "that one, and it once");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_dead_server_had_drawn_stays_drawn_and_no_more() {
    let rig = at_noon(Rig::without_server(&[(BUDGET, "100")]).await).await;
    let dies = Process::serve(&rig, &[]).await;
    rig.sandbox.hold("line").await;
    dies.client.submit(dear("held")).await;
    rig.sandbox.wait_for("line", "held", 1).await;
    dies.kill9().await;
    assert_eq!(usd(&rig, DRAWN).await, Decimal::ONE);
    rig.sandbox.mend().await;
    let goes_on = Process::serve(&rig, &[]).await;
    goes_on.client.settled_as("held", JobStatus::Completed).await;
    goes_on.terminate().await;
    let spent = "select 1 + sum(cost_usd) from longhaul.model_call where outcome = 'answered'";
    assert_eq!(usd(&rig, DRAWN).await, usd(&rig, spent).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_with_a_higher_budget_or_none_lets_jobs_go_on_that_were_put_off() {
    for budget in ["2000", ""] {
        let mut rig = rig("10").await;
        spend(&rig, 0).await;
        for job_id in ["first", "second", "third"] {
            rig.submit(dear(job_id)).await;
            put_off(&rig, job_id).await;
        }
        rig.stop_server().await;
        let other = Process::serve(&rig, &[(BUDGET, budget)]).await;
        for job_id in ["first", "second", "third"] {
            let done = other.client.settled_as(job_id, JobStatus::Completed).await;
            assert_eq!(done.reason, "");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_is_dearer_than_a_whole_day_says_so_and_does_not_stand_in_the_way() {
    let rig = rig("0.03").await;
    let mut dearest = dear("dearest");
    dearest.settings.as_mut().unwrap().max_tokens = 2000;
    let Some(longhaul::rpc::proto::step::Kind::Run(run)) = &mut dearest.steps[0].kind else {
        panic!("it has one step, which runs")
    };
    run.max_tokens = 2000;
    rig.submit(dearest).await;
    let waits = put_off(&rig, "dearest").await;
    let said = waits.status_message;
    assert!(said.contains("more than the whole day's budget of $0.03"), "{said}");
    for job_id in ["one", "two"] {
        rig.submit(dear(job_id)).await;
        rig.settled_as(job_id, JobStatus::Completed).await;
    }
    let still = put_off(&rig, "dearest").await;
    assert_eq!(still.last_sequence, waits.last_sequence, "it is not tried in vain");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_batch_did_not_cost_goes_back_to_its_day() {
    let rig = Rig::start_with(&[("LONGHAUL_DAILY_BUDGET_USD", "10")]).await;
    rig.sandbox.break_model(json!({"on": "batch_create", "batch_hold": true})).await;
    let batched = || {
        let (prompt, mode) = ("Write a line.".to_owned(), RunMode::Batch.into());
        run_step(RunStep { prompt, mode, ..RunStep::default() })
    };
    for name in ["kept", "dropped"] {
        rig.submit(job(name, [batched()])).await;
        rig.event(name, EventKind::StepBatched).await;
    }
    let ordered = "select count(*) = 2 and $1 <> '' from longhaul.batch_request r
      join longhaul.batch b using (batch_id) where b.status = 'ordered' and r.reserved_usd > 0.005";
    rig.db.wait_until(ordered, "any").await;
    rig.control("dropped", cancel()).await;
    rig.sandbox.mend().await;
    rig.settled_as("kept", JobStatus::Completed).await;
    let both =
        "select count(*) = 2 and $1 <> '' from longhaul.model_call where settled_at is not null";
    rig.db.wait_until(both, "any").await;
    let mut rig = rig;
    rig.stop_server().await;
    let exact = "select count(*) from longhaul.allowance where drawn_usd =
      (select sum(cost_usd) from longhaul.model_call)";
    assert_eq!(rig.db.number(exact).await, 1, "what is drawn is what was spent");
}
