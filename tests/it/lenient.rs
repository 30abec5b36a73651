//! Leniency: where it is asked for, mistakes are told with 200 and nothing surplus is refused; strictness stays the default.

use serde_json::{Value, json};

use crate::harness::Rig;

const SUBMIT: &str = "/webhook/durable-job";
const CONTROL: &str = "/webhook/durable-job-control";

fn surplus() -> Value {
    json!({
        "jobId": 7, "executionId": "n8n-1", "settings": {"priority": 1, "retries": 3},
        "steps": [{"type": "wait", "duration_seconds": 3600, "notes": "x"}],
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lenient_submit_is_warned_of_what_nothing_reads() {
    let rig = Rig::start().await;
    let (status, answer) = rig.post(SUBMIT, &surplus()).await;
    assert_eq!((status, &answer["code"]), (400, &json!(400)), "strict is the default: {answer}");
    let (status, answer) = rig.post(&format!("{SUBMIT}?lenient=1&utm=x"), &surplus()).await;
    assert_eq!((status, &answer["ok"], &answer["job_id"]), (200, &json!(true), &json!("7")));
    let expected = [
        "the parameter `utm` was not read",
        "`jobId` was read as `job_id`",
        "the field `executionId` was not read",
        "the field `settings.retries` was not read",
        "the field `steps[0].notes` was not read",
    ];
    assert_eq!(answer["warnings"], json!(expected));
    // What was not read is no part of what was submitted.
    let strict = json!({"job_id": "7", "settings": {"priority": 1},
        "steps": [{"type": "wait", "duration_seconds": 3600}]});
    assert_eq!(rig.post(SUBMIT, &strict).await.1["created"], false);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_lenient_is_so_with_everybody_who_does_not_say_otherwise() {
    let rig = Rig::start_with(&[("LONGHAUL_LENIENT", "true")]).await;
    let (status, answer) = rig.post(CONTROL, &json!({"id": "none", "op": "pause"})).await;
    assert_eq!((status, &answer["ok"]), (200, &json!(false)), "{answer}");
    assert_eq!((&answer["code"], &answer["reason"]), (&json!(404), &json!("JOB_NOT_FOUND")));
    assert_eq!(answer["warnings"].as_array().unwrap().len(), 2, "{answer}");
    let strict = format!("{CONTROL}?lenient=false");
    let (status, _) = rig.post(&strict, &json!({"job_id": "none", "action": "pause"})).await;
    assert_eq!(status, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_mistake_is_told_with_200_and_nothing_is_stored() {
    let rig = Rig::start_with(&[("LONGHAUL_BODY_BYTES_MAX", "2000")]).await;
    let json = "application/json";
    let large = format!("{{\"task\":\"{}\"}}", "x".repeat(3000));
    for (path, kind, body, code) in [
        (SUBMIT, json, "{", 400),
        (SUBMIT, json, "{\"steps\":[]}", 400),
        (SUBMIT, json, &large, 413),
        (SUBMIT, "application/xml", "<job/>", 415),
        (CONTROL, json, "{\"job_id\":\"none\",\"action\":\"status\"}", 404),
        (CONTROL, json, "{\"job_id\":\"none\",\"action\":\"explode\"}", 400),
    ] {
        let path = format!("{path}?lenient=true");
        let (status, answer) = rig.post_as(&path, kind, body.to_owned()).await;
        assert_eq!((status, &answer["ok"]), (200, &json!(false)), "{body}: {answer}");
        assert_eq!(answer["code"], code, "{body}: {answer}");
        for key in ["message", "hint", "reason"] {
            assert!(answer[key].is_string(), "{key}: {answer}");
        }
    }
    let (status, answer) = rig.post(&format!("{SUBMIT}?lenient=true&wait=99"), &surplus()).await;
    assert_eq!((status, &answer["violations"][0]["field"]), (200, &json!("wait")));
    assert_eq!(rig.db.job_count().await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_contradicts_a_job_is_told_with_200() {
    let rig = Rig::start().await;
    let steps = json!([{"type": "wait", "duration_seconds": 3600}]);
    rig.post_job(&json!({"job_id": "a", "steps": steps})).await;
    let other = json!({"job_id": "a", "task": "another", "steps": steps});
    let (status, answer) = rig.post(&format!("{SUBMIT}?lenient=true"), &other).await;
    assert_eq!((status, &answer["code"], &answer["field"]), (200, &json!(409), &json!("task")));
    let resume = json!({"job_id": "a", "action": "approve"});
    let (status, answer) = rig.post(&format!("{CONTROL}?lenient=true"), &resume).await;
    assert_eq!((status, &answer["ok"], &answer["code"]), (200, &json!(false), &json!(409)));
    // A path that is not there is no job's mistake.
    assert_eq!(rig.post("/webhook/durable?lenient=true", &other).await.0, 404);
}
