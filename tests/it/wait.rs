//! Waiting: a webhook that is asked to answers when its job stands still, and keeps nobody else out meanwhile.

use std::time::{Duration, Instant};

use longhaul::rpc::proto::JobStatus;
use serde_json::{Value, json};

use crate::harness::{Client, PATIENCE, Rig, cancel};

const SUBMIT: &str = "/webhook/durable-job";
const CONTROL: &str = "/webhook/durable-job-control";

fn says(job_id: &str, prompt: &str) -> Value {
    json!({"job_id": job_id, "steps": [{"type": "run", "prompt": prompt}]})
}

#[tokio::test(flavor = "multi_thread")]
async fn a_submit_that_waits_answers_with_the_output() {
    let rig = Rig::start().await;
    let body = says("waited", "Say something short.");
    let (status, answer) = rig.post(&format!("{SUBMIT}?wait=20"), &body).await;
    assert_eq!((status, &answer["status"]), (200, &json!("completed")), "{answer}");
    assert_eq!(answer["created"], true);
    assert!(!answer["job"]["output"].as_str().unwrap().is_empty());
    let (_, again) = rig.post(&format!("{SUBMIT}?wait=20"), &body).await;
    assert_eq!((&again["created"], &again["status"]), (&json!(false), &json!("completed")));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_approval_that_waits_answers_with_what_came_of_it() {
    let rig = Rig::start().await;
    let steps = json!([{"type": "approval", "note": "?"}, {"type": "run", "prompt": "Go on."}]);
    let submit = json!({"job_id": "asked", "steps": steps});
    let (_, answer) = rig.post(&format!("{SUBMIT}?wait=20"), &submit).await;
    assert_eq!(answer["status"], "awaiting_approval", "it stands still: {answer}");
    let approve = json!({"job_id": "asked", "action": "approve"});
    let (status, answer) = rig.post(&format!("{CONTROL}?wait=20"), &approve).await;
    assert_eq!((status, &answer["status"]), (200, &json!("completed")), "{answer}");
    assert_eq!(answer["changed"], true);
}

#[tokio::test(flavor = "multi_thread")]
async fn when_the_time_is_over_the_job_is_shown_as_it_is() {
    let rig = Rig::start().await;
    rig.sandbox.hold("Take your time").await;
    let started = Instant::now();
    let body = says("slow", "Take your time.");
    let (status, answer) = rig.post(&format!("{SUBMIT}?wait=1"), &body).await;
    assert!(started.elapsed() >= Duration::from_secs(1), "{:?}", started.elapsed());
    assert_eq!((status, &answer["status"]), (200, &json!("running")), "{answer}");
    let look = json!({"job_id": "slow", "action": "status"});
    let (_, answer) = rig.post(&format!("{CONTROL}?wait=0"), &look).await;
    assert_eq!(answer["status"], "running");
    rig.sandbox.mend().await;
    let (_, answer) = rig.post(&format!("{CONTROL}?wait=20"), &look).await;
    assert_eq!(answer["status"], "completed", "{answer}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wait_that_cannot_be_is_refused_before_anything_is_stored() {
    let rig = Rig::start().await;
    for query in
        ["wait=61", "wait=-1", "wait=1.5", "wait=", "wait=soon", "wait=1&wait=2", "await=1"]
    {
        let (status, answer) = rig.post(&format!("{SUBMIT}?{query}"), &says("x", "x")).await;
        let field = if query.starts_with('a') { "await" } else { "wait" };
        assert_eq!(status, 400, "{query}: {answer}");
        assert_eq!(answer["violations"][0]["field"], field, "{query}: {answer}");
    }
    assert_eq!(rig.db.job_count().await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_of_the_server_ends_the_wait_and_says_which_job_goes_on() {
    let mut rig = Rig::start().await;
    rig.sandbox.hold("for ever").await;
    let url = format!("{}{SUBMIT}?wait=60", rig.http_url);
    let body = json!({"steps": [{"type": "run", "prompt": "Think for ever."}]});
    let waiting = tokio::spawn(rig.http.post(url).json(&body).send());
    rig.sandbox.wait_for("for ever", "held", 1).await;
    rig.stop_server().await;
    let answer = waiting.await.unwrap().unwrap();
    assert_eq!(answer.status(), 503);
    assert!(answer.headers().contains_key("retry-after"));
    let answer: Value = answer.json().await.unwrap();
    assert_eq!(answer["reason"], "UNAVAILABLE", "{answer}");
    rig.start_server_again().await;
    // The client gave no id, and finds its job all the same.
    let job_id = answer["job_id"].as_str().unwrap();
    rig.control(job_id, cancel()).await;
    rig.settled_as(job_id, JobStatus::Cancelled).await;
}

/// Asks until the answer is as it should be: whoever waits takes a moment to sit down.
async fn until(client: &Client, path: &str, body: &Value, is_so: impl Fn(u16, &Value) -> bool) {
    let asking = async {
        loop {
            let (status, answer) = client.post(path, body).await;
            if is_so(status, &answer) {
                return;
            }
        }
    };
    tokio::time::timeout(PATIENCE, asking).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn those_who_wait_keep_nobody_out_and_are_no_more_than_have_a_seat() {
    let rig = Rig::start_with(&[("LONGHAUL_REQUESTS_MAX", "2")]).await;
    rig.sandbox.hold("for ever").await;
    let mut waiting = Vec::new();
    for job_id in ["one", "two"] {
        let url = format!("{}{SUBMIT}?wait=60", rig.http_url);
        waiting.push(tokio::spawn(
            rig.http.post(url).json(&says(job_id, "For ever, for ever.")).send(),
        ));
        let look = json!({"job_id": job_id, "action": "status"});
        until(&rig, CONTROL, &look, |status, _| status == 200).await;
    }
    // Both places are free again, and both seats are taken.
    let third = says("three", "For ever, for ever.");
    until(&rig, &format!("{SUBMIT}?wait=60"), &third, |status, answer| {
        let warned = answer["warnings"][0].as_str().unwrap_or_default();
        status == 200
            && answer["status"] != "completed"
            && warned.contains("too many requests wait")
    })
    .await;
    rig.sandbox.mend().await;
    for one in waiting {
        let answer: Value = one.await.unwrap().unwrap().json().await.unwrap();
        assert_eq!(answer["status"], "completed", "{answer}");
    }
}
