//! Answers that were broken off: with `on_interrupt` CONTINUE the next attempt goes on from what had arrived.
//!
//! What the model is asked is read from the journal of the sandbox; a call that goes on ends with a turn that says so.

use longhaul::rpc::proto::{
    EventKind, GetJobRequest, InterruptPolicy, JobStatus, RunStep, Step, step::Kind,
    watch_job_response::Content,
};
use serde_json::{Value, json};

use crate::harness::{
    Client, PATIENCE, PERSON, Process, Rig, Told, job, pause_now, resume, retry, run_step,
};

const PROMPT: &str = "Write a long story about a picnic.";
/// What the turn says that asks for the rest.
const GO_ON: &str = "Continue exactly where it ended";

fn step(on_interrupt: InterruptPolicy) -> Step {
    let prompt = PROMPT.to_owned();
    run_step(RunStep { prompt, on_interrupt: on_interrupt.into(), ..RunStep::default() })
}

fn going_on() -> Step {
    step(InterruptPolicy::Continue)
}

/// What a request goes on from, which must be the whole of its question otherwise.
fn begun(request: &Value) -> String {
    let turns = request["body"]["messages"].as_array().unwrap();
    let roles: Vec<&str> = turns.iter().map(|turn| turn["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["user", "assistant", "user"], "{turns:?}");
    assert_eq!(turns[0]["content"], PROMPT);
    assert!(turns[2]["content"].as_str().unwrap().contains(GO_ON), "{turns:?}");
    turns[1]["content"].as_str().unwrap().to_owned()
}

/// The requests that went on from something, once there are so many.
async fn goings_on(rig: &Rig, at_least: usize) -> Vec<Value> {
    rig.sandbox.wait_for(GO_ON, "answered", at_least).await
}

/// The text that is kept of the calls of a job, oldest first.
async fn kept(rig: &Rig, job_id: &str) -> Vec<(String, Option<String>)> {
    let read = sqlx::query_as(
        "select outcome, partial_output from longhaul.model_call where job_id = $1
         order by started_at, call_id",
    );
    read.bind(job_id).fetch_all(&rig.db.pool).await.unwrap()
}

/// Kills the server of a job with one step in the middle of its answer; another one goes on with the job, up to the same
/// place until the sandbox is mended.
async fn killed_within(on_interrupt: InterruptPolicy) -> (Rig, crate::harness::Node) {
    let rig = Rig::without_server(&[("LONGHAUL_LEASE_SECONDS", "2")]).await;
    let server = Process::serve(&rig, &[]).await;
    rig.sandbox.break_model(json!({"hold_after_events": 9})).await;
    server.client.submit(job("killed", [step(on_interrupt)])).await;
    let noted = "select length(partial_output) = 72 from longhaul.model_call where job_id = $1";
    rig.db.wait_until(noted, "killed").await;
    server.kill9().await;
    let survivor = rig.serve().await;
    (rig, survivor)
}

#[tokio::test(flavor = "multi_thread")]
async fn after_kill_9_the_next_attempt_goes_on_from_what_had_arrived() {
    let (rig, survivor) = killed_within(InterruptPolicy::Continue).await;
    let mut watch = survivor.client.watch_closely("killed", Some(0)).await;
    watch.until((1, 2), 2 * 72).await;
    rig.sandbox.mend().await;
    let watch = watch.until_end().await;
    let done = survivor.client.settled_as("killed", JobStatus::Completed).await;
    let calls = kept(&rig, "killed").await;
    let lost = calls[0].1.clone().unwrap();
    assert_eq!(calls, [("lost".to_owned(), Some(lost.clone())), ("answered".to_owned(), None)]);
    assert_eq!(begun(&goings_on(&rig, 1).await[0]), lost);
    assert!(done.output.starts_with(&lost) && done.output.len() > lost.len(), "{}", done.output);
    // What nobody knows the cost of is not forgotten.
    assert_eq!((done.usage.unwrap().calls, done.unpriced_calls), (2, 1));
    let content =
        "select content::jsonb -> 0 ->> 'text' = $2 and jsonb_array_length(content::jsonb) = 2
      from longhaul.checkpoint where job_id = $1";
    let content = sqlx::query_scalar(content).bind("killed").bind(&lost);
    assert!(
        content.fetch_one(&rig.db.pool).await.unwrap_or(false),
        "what it went on from is there"
    );
    assert_eq!(watch.texts[&(1, 2)], done.output, "the pieces make the whole of it too");
}

#[tokio::test(flavor = "multi_thread")]
async fn after_kill_9_a_step_that_does_not_say_so_asks_anew() {
    let (rig, survivor) = killed_within(InterruptPolicy::Unspecified).await;
    rig.sandbox.mend().await;
    survivor.client.settled_as("killed", JobStatus::Completed).await;
    let requests = rig.sandbox.requests("").await;
    assert_eq!(requests.len(), 2);
    assert_eq!(requests[0]["body"], requests[1]["body"]);
}

/// Lets a parked job come back, and waits until it is parked again or has ended.
async fn come_back(rig: &Rig, job_id: &str, after: i32) {
    rig.db.shift_clock(300).await;
    let started = rig.event_after(job_id, EventKind::StepStarted, after).await;
    let mut stream = rig.try_watch(job_id, Some(started.sequence)).await.unwrap();
    let ended = async {
        while let Some(message) = stream.message().await.unwrap() {
            if let Some(Content::Event(event)) = message.content
                && [EventKind::StepDelayed, EventKind::StepFinished].contains(&event.kind())
            {
                return;
            }
        }
    };
    tokio::time::timeout(PATIENCE, ended).await.expect("an attempt ends");
}

async fn last_sequence(rig: &Client, job_id: &str) -> i32 {
    rig.job(job_id).await.last_sequence
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_gone_on_with_is_gone_on_with_again() {
    let rig = Rig::start().await;
    let broken = |kind: &str, events: usize| json!({"times": 1, kind: events});
    let faults = [
        broken("error_after_events", 9),
        broken("status", 529),
        broken("cut_after_events", 5),
        // Nothing has come of this one.
        broken("end_after_events", 3),
    ];
    rig.sandbox.break_model(faults.into()).await;
    rig.submit(job("again", [going_on()])).await;
    rig.event("again", EventKind::StepDelayed).await;
    for _ in 0..4 {
        come_back(&rig, "again", last_sequence(&rig, "again").await).await;
    }
    let done = rig.settled_as("again", JobStatus::Completed).await;
    let requests = rig.sandbox.requests(GO_ON).await;
    let begun: Vec<String> = requests.iter().map(begun).collect();
    assert_eq!(begun.len(), 4);
    let first = &begun[0];
    assert_eq!((first.chars().count(), &begun[1]), (72, first), "what was refused brought nothing");
    assert!(begun[2].starts_with(first) && begun[2].chars().count() == 72 + 24, "{begun:?}");
    assert_eq!(begun[3], begun[2]);
    assert!(done.output.starts_with(&begun[2]) && done.output.len() > begun[2].len());
    let kept: Vec<Option<String>> =
        kept(&rig, "again").await.into_iter().map(|call| call.1).collect();
    let texts = [Some(first.clone()), None, Some(begun[2].clone()), None, None];
    assert_eq!(kept, texts, "each call keeps the whole answer, if it has brought something");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_a_pause_aborts_is_gone_on_with_after_the_resume_and_a_retry_begins_anew() {
    let rig = Rig::start().await;
    rig.sandbox.break_model(json!({"hold_after_events": 9})).await;
    rig.submit(job("paused", [going_on()])).await;
    rig.watch_closely("paused", Some(0)).await.until((1, 1), 72).await;
    assert!(rig.control("paused", pause_now()).await);
    let aborted = "select outcome = 'aborted' and length(partial_output) = 72
      from longhaul.model_call where job_id = $1";
    rig.db.wait_until(aborted, "paused").await;
    rig.sandbox.break_model(json!({"matching": GO_ON, "status": 400, "times": 1})).await;
    assert!(rig.control("paused", resume()).await);
    rig.settled_as("paused", JobStatus::Failed).await;
    assert_eq!(begun(&rig.sandbox.requests(GO_ON).await[0]).chars().count(), 72);
    assert!(rig.control("paused", retry(0)).await);
    rig.settled_as("paused", JobStatus::Completed).await;
    assert_eq!(rig.sandbox.requests(GO_ON).await.len(), 1);
    assert_eq!(rig.sandbox.requests(PROMPT).await.len(), 2, "a person wants another answer");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_brought_no_text_begins_anew() {
    let rig = Rig::start().await;
    rig.sandbox.break_model(json!({"cut_after_events": 3, "times": 1})).await;
    rig.submit(job("blank", [going_on()])).await;
    let delayed = rig.event("blank", EventKind::StepDelayed).await;
    come_back(&rig, "blank", delayed.sequence).await;
    rig.settled_as("blank", JobStatus::Completed).await;
    assert_eq!(rig.sandbox.requests(PROMPT).await.len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_broken_off_again_and_again_begins_anew_in_the_end() {
    let rig = Rig::start().await;
    rig.sandbox.break_model(json!({"cut_after_events": 4})).await;
    rig.submit(job("ill", [going_on()])).await;
    let delayed = rig.event("ill", EventKind::StepDelayed).await;
    come_back(&rig, "ill", delayed.sequence).await;
    for _ in 2..9 {
        come_back(&rig, "ill", last_sequence(&rig, "ill").await).await;
    }
    assert_eq!(rig.sandbox.requests(GO_ON).await.len(), 8);
    assert_eq!(rig.sandbox.requests(PROMPT).await.len(), 1);
    rig.sandbox.mend().await;
    come_back(&rig, "ill", last_sequence(&rig, "ill").await).await;
    rig.settled_as("ill", JobStatus::Completed).await;
    assert_eq!(rig.sandbox.requests(GO_ON).await.len(), 8);
    assert_eq!(rig.sandbox.requests(PROMPT).await.len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_policy_is_checked_at_both_doors_and_older_servers_leave_it_alone() {
    let rig = Rig::start_with(&[("LONGHAUL_NOTIFY", PERSON)]).await;
    let schema = RunStep {
        prompt: PROMPT.to_owned(),
        output_schema_json: r#"{"type":"object"}"#.to_owned(),
        on_interrupt: InterruptPolicy::Continue.into(),
        ..RunStep::default()
    };
    let unknown = RunStep { prompt: PROMPT.to_owned(), on_interrupt: 9, ..RunStep::default() };
    for bad in [schema, unknown] {
        let told = Told::by(rig.try_submit(job("bad", [run_step(bad)])).await);
        assert_eq!(told.fields, ["steps[0].run.on_interrupt"]);
    }
    let body = |job_id: &str, word: &str| {
        let step = json!({"type": "run", "prompt": PROMPT, "on_interrupt": word});
        json!({"job_id": job_id, "task": "Copy", "steps": [step]})
    };
    let (status, said) = rig.post_job(&body("bad", "go_on")).await;
    assert!((400..500).contains(&status) && said.to_string().contains("on_interrupt"), "{said}");
    let (status, said) = rig.post_job(&body("web", "continue")).await;
    assert_eq!(status, 200, "{said}");
    rig.submit(job("grpc", [going_on()])).await;
    rig.submit(job("plain", [step(InterruptPolicy::Restart)])).await;
    for job_id in ["web", "grpc"] {
        let request = GetJobRequest {
            job_id: job_id.to_owned(),
            include_spec: true,
            ..GetJobRequest::default()
        };
        let spec = rig.grpc.clone().get_job(request).await.unwrap().into_inner().spec.unwrap();
        let Some(Kind::Run(run)) = &spec.steps[0].kind else { panic!("a run step") };
        assert_eq!(run.on_interrupt(), InterruptPolicy::Continue);
    }
    let versions = "select count(*) from longhaul.job
      where spec_version = case job_id when 'plain' then 1 else 3 end";
    assert_eq!(rig.db.number(versions).await, 3);
}
