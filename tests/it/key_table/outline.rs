//! What an action answers to who may not read: how the job stands, and nothing of what it says.

use std::collections::BTreeSet;

use longhaul::domain::key::Scope;
use longhaul::rpc::proto::{Approval, ControlRequest, Job, JobStatus, SubmitJobRequest};
use serde_json::{Value, json};

use super::{House, SECRET, SEEN, shown};
use crate::harness::{approval, job, resume, wait};
use crate::key::by;

const CONTROL: &str = "/webhook/durable-job-control";

/// What an answer over HTTP tells of a job.
const SHOWN: [&str; 12] = [
    "job_id",
    "status",
    "reason",
    "status_message",
    "current_step",
    "step_count",
    "approval",
    "run_at",
    "last_sequence",
    "created_at",
    "updated_at",
    "finished_at",
];

fn assert_outline(job: &Job) {
    let approval = job.approval.as_ref().map(|approval| Approval {
        approval_id: approval.approval_id.clone(),
        ..Approval::default()
    });
    let outline = Job {
        job_id: job.job_id.clone(),
        status: job.status,
        reason: job.reason.clone(),
        status_message: job.status_message.clone(),
        current_step: job.current_step,
        step_count: job.step_count,
        approval,
        run_at: job.run_at,
        last_sequence: job.last_sequence,
        created_at: job.created_at,
        updated_at: job.updated_at,
        finished_at: job.finished_at,
        ..Job::default()
    };
    assert_eq!(*job, outline);
    assert!(job.status != 0 && job.step_count == 1 && !job.status_message.is_empty(), "{job:?}");
    assert!(!format!("{job:?}").contains(SECRET), "{job:?}");
}

/// Posts to a webhook with the key of this scope alone, and answers with the job.
async fn posted(house: &House, scope: Scope, route: &str, body: &Value) -> Value {
    let (status, text) = house.post(route, body, &shown(&house.keys[&scope])).await;
    assert_eq!(status, 200, "{text}");
    assert!(scope == Scope::Admin || !text.contains(SECRET), "{text}");
    serde_json::from_str::<Value>(&text).unwrap()["job"].clone()
}

fn fields(job: &Value) -> BTreeSet<&str> {
    job.as_object().unwrap().keys().map(String::as_str).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn who_may_not_read_is_told_how_a_job_stands_and_nothing_of_what_it_says() {
    let house = House::open().await;
    let key = |scope: Scope| house.keys[&scope].as_str();
    let grpc = &house.client.grpc;
    let asked = SubmitJobRequest { task: SECRET.to_owned(), ..job(SEEN, [approval(SECRET)]) };
    let only = SubmitJobRequest { validate_only: true, job_id: "only".to_owned(), ..asked.clone() };
    let own = SubmitJobRequest { task: SECRET.to_owned(), ..job("own", [wait(3600)]) };
    for request in [asked.clone(), only, own] {
        let answer = grpc.clone().submit_job(by(key(Scope::Submit), request)).await;
        assert_outline(&answer.unwrap().into_inner().job.unwrap());
    }
    let request = ControlRequest {
        job_id: SEEN.to_owned(),
        action: Some(resume()),
        ..ControlRequest::default()
    };
    let told = grpc.clone().control(by(key(Scope::Control), request.clone())).await;
    let told = told.unwrap().into_inner().job.unwrap();
    assert_outline(&told);
    assert_eq!(told.status(), JobStatus::AwaitingApproval);
    assert!(told.approval.is_some_and(|approval| !approval.approval_id.is_empty()));
    let whole = grpc.clone().control(by(house.admin(), request)).await.unwrap().into_inner();
    assert_eq!(whole.job.unwrap().task, SECRET);

    let submitted = json!({"job_id": "posted", "task": SECRET,
        "steps": [{"type": "wait", "duration_seconds": 3600}]});
    let told = posted(&house, Scope::Submit, "/webhook/durable-job", &submitted).await;
    assert_eq!(fields(&told), SHOWN.into());
    let body = |action: &str| json!({"job_id": SEEN, "action": action});
    let told = posted(&house, Scope::Control, CONTROL, &body("resume")).await;
    assert_eq!(fields(&told), SHOWN.into());
    assert_eq!(fields(&told["approval"]), ["approval_id"].into());
    let whole = posted(&house, Scope::Admin, CONTROL, &body("status")).await;
    assert!(fields(&whole).is_superset(&SHOWN.into()) && whole["task"] == SECRET, "{whole}");
    let told = posted(&house, Scope::Approve, CONTROL, &body("approve")).await;
    assert_eq!((fields(&told), &told["job_id"]), (SHOWN.into(), &json!(SEEN)));
}
