//! `request_id`: the same id gets the same answer, whatever has become of the job and whichever server is asked.

use longhaul::rpc::proto::{
    CancelAction, ControlRequest, JobStatus, StatusAction, control_request::Action,
};
use serde_json::json;
use tonic::Code;

use crate::harness::{
    Rig, Told, approval, approve, cancel, job, pause, pause_now, reject, resume, retry, run,
};

const CONTROL: &str = "/webhook/durable-job-control";
const CONFLICT: &str = "REQUEST_ID_CONFLICT";

async fn awaiting(rig: &Rig, job_id: &str) {
    rig.submit(job(job_id, [approval("Good?"), approval("Really?")])).await;
    rig.settled_as(job_id, JobStatus::AwaitingApproval).await;
}

/// Whether an action under an id changed anything, by its answer.
async fn changed(rig: &Rig, job_id: &str, request_id: &str, action: Action) -> bool {
    rig.try_control_once(job_id, request_id, action).await.unwrap().changed
}

async fn events(rig: &Rig) -> i64 {
    rig.db.number("select count(*) from longhaul.event").await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repetition_is_answered_as_the_first_time_with_the_job_as_it_is_now() {
    let rig = Rig::start().await;
    awaiting(&rig, "again").await;
    assert!(changed(&rig, "again", "p", pause()).await);
    assert!(changed(&rig, "again", "p", pause()).await, "without an id it would be false");
    assert!(!changed(&rig, "again", "q", pause()).await, "another id is another request");
    assert!(changed(&rig, "again", "r", resume()).await);
    let before = events(&rig).await;
    for (request_id, action, expected) in [("p", pause(), true), ("q", pause(), false)] {
        let answer = rig.try_control_once("again", request_id, action).await.unwrap();
        assert_eq!(answer.changed, expected, "{request_id}");
        assert_eq!(answer.job.unwrap().status(), JobStatus::AwaitingApproval, "it stays resumed");
    }
    assert_eq!(events(&rig).await, before, "nothing happened again");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_decision_that_is_repeated_never_decides_the_next_approval() {
    let rig = Rig::start().await;
    awaiting(&rig, "votes").await;
    for _ in 0..2 {
        let answer = rig.try_control_once("votes", "yes", approve()).await.unwrap();
        let job = answer.job.unwrap();
        assert!(answer.changed);
        assert_eq!((job.status(), job.current_step), (JobStatus::AwaitingApproval, 2));
    }
    assert_eq!(rig.db.number("select count(*) from longhaul.decision").await, 1);
    // A refusal that is none of the job's status is kept too.
    for _ in 0..2 {
        let told = Told::by(rig.try_control_once("votes", "bare", approve()).await);
        assert_eq!(told.reason, "APPROVAL_ID_REQUIRED");
    }
    assert_eq!(Told::by(rig.try_control_once("votes", "yes", reject()).await).reason, CONFLICT);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_is_repeated_too() {
    let rig = Rig::start().await;
    awaiting(&rig, "refused").await;
    assert!(rig.control("refused", cancel()).await);
    let refusal = || async { Told::by(rig.try_control_once("refused", "p", pause()).await) };
    let first = refusal().await;
    assert_eq!(
        (first.code, first.reason.as_str()),
        (Code::FailedPrecondition, "JOB_STATE_CONFLICT")
    );
    assert!(rig.control("refused", retry(0)).await);
    let second = refusal().await;
    assert_eq!((second.reason, second.metadata), (first.reason, first.metadata));
    let (code, answer) = rig
        .post(CONTROL, &json!({"job_id": "refused", "action": "pause", "request_id": "p"}))
        .await;
    assert_eq!((code, &answer["status"]), (409, &json!("cancelled")));
    assert_eq!(rig.job("refused").await.status(), JobStatus::AwaitingApproval);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_id_that_was_used_for_another_action_is_refused() {
    let rig = Rig::start().await;
    awaiting(&rig, "used").await;
    assert!(changed(&rig, "used", "one", pause()).await);
    let why = CancelAction { comment: "no".to_owned() };
    for action in [pause_now(), resume(), cancel(), Action::Cancel(why), retry(1), approve()] {
        let told = Told::by(rig.try_control_once("used", "one", action).await);
        assert_eq!((told.code, told.reason.as_str()), (Code::AlreadyExists, CONFLICT));
        assert_eq!(told.metadata["action"], "pause");
        assert_eq!(told.metadata["job_id"], "used");
    }
    let body = json!({"job_id": "used", "action": "resume", "request_id": "one"});
    let (code, answer) = rig.post(CONTROL, &body).await;
    assert_eq!((code, &answer["reason"]), (409, &json!(CONFLICT)));
    assert_eq!(rig.job("used").await.status(), JobStatus::Paused);
    // To look is always allowed, and uses no id up.
    let status = Action::Status(StatusAction {});
    assert!(!changed(&rig, "used", "one", status.clone()).await);
    assert!(!changed(&rig, "used", "two", status).await);
    assert!(changed(&rig, "used", "two", resume()).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn both_doors_know_the_same_ids_and_each_job_has_its_own() {
    let rig = Rig::start().await;
    awaiting(&rig, "door").await;
    awaiting(&rig, "other").await;
    assert!(changed(&rig, "door", "7", pause()).await);
    assert!(changed(&rig, "other", "7", cancel()).await);
    for body in [
        json!({"job_id": "door", "action": "pause", "request_id": "7", "now": false}),
        json!({"job_id": "door", "action": "pause", "request_id": 7}),
    ] {
        let (code, answer) = rig.post(CONTROL, &body).await;
        assert_eq!((code, &answer["changed"]), (200, &json!(true)), "{answer}");
    }
    let form = "job_id=door&action=resume&request_id=8".to_owned();
    for _ in 0..2 {
        let kind = "application/x-www-form-urlencoded";
        let (code, answer) = rig.post_as(CONTROL, kind, form.clone()).await;
        assert_eq!((code, &answer["changed"]), (200, &json!(true)), "{answer}");
    }
    assert!(changed(&rig, "door", "8", resume()).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_wrong_with_a_request_is_not_kept() {
    let rig = Rig::start().await;
    let told = Told::by(rig.try_control_once("late", "p", pause()).await);
    assert_eq!(told.reason, "JOB_NOT_FOUND");
    awaiting(&rig, "late").await;
    assert!(changed(&rig, "late", "p", pause()).await);
    assert!(changed(&rig, "late", "c", cancel()).await);
    let told = Told::by(rig.try_control_once("late", "r", retry(2)).await);
    assert_eq!(told.fields, ["retry.from_step"]);
    assert!(changed(&rig, "late", "r", retry(1)).await);
    for request_id in ["x".repeat(256), " x".to_owned(), "a\nb".to_owned()] {
        let told = Told::by(rig.try_control_once("late", &request_id, pause()).await);
        assert_eq!(told.fields, ["request_id"], "{request_id:?}");
        let body = json!({"job_id": "late", "action": "pause", "request_id": request_id});
        let (code, answer) = rig.post(CONTROL, &body).await;
        assert_eq!((code, &answer["violations"][0]["field"]), (400, &json!("request_id")));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn many_at_once_with_one_id_are_one_action() {
    let rig = Rig::start().await;
    let other = rig.serve().await;
    rig.sandbox.hold("Hold").await;
    rig.submit(job("storm", [run("Hold it.")])).await;
    rig.sandbox.wait_for("Hold", "held", 1).await;
    let clients = [&*rig, &other.client];
    let asked = (0..40).map(|at| {
        let client = clients[at % 2];
        async move { client.try_control_once("storm", "once", pause_now()).await.unwrap().changed }
    });
    let answers = futures::future::join_all(asked).await;
    assert!(answers.iter().all(|changed| *changed), "{answers:?}");
    let paused = "select count(*) from longhaul.event where kind = 'job_paused'";
    assert_eq!(rig.db.number(paused).await, 1);
    assert_eq!(rig.db.number("select count(*) from longhaul.control_request").await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_outlives_the_server_that_gave_it() {
    let mut rig = Rig::start().await;
    awaiting(&rig, "lives").await;
    assert!(changed(&rig, "lives", "p", pause()).await);
    rig.stop_server().await;
    let other = rig.serve().await;
    assert!(other.client.control("lives", resume()).await);
    let request = ControlRequest {
        job_id: "lives".to_owned(),
        request_id: "p".to_owned(),
        action: Some(pause()),
    };
    let answer = other.client.grpc.clone().control(request).await.unwrap().into_inner();
    assert!(answer.changed);
    assert_eq!(answer.job.unwrap().status(), JobStatus::AwaitingApproval);
}
