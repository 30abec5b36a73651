//! Who it was: the history names keys as actors, and whom notices are for is shown whole to an admin alone.

use longhaul::domain::key::Scope;
use longhaul::rpc::proto::{
    ControlRequest, EventKind, GetJobRequest, JobStatus, ListNoticesRequest, WatchJobRequest,
    watch_job_response::Content,
};
use serde_json::{Value, json};
use tonic::Code;

use crate::harness::{PERSON, Rig, approval, approve, approve_as, job, wait};
use crate::key::{by, make, wait_until};

#[tokio::test(flavor = "multi_thread")]
async fn history_names_the_key_and_beside_it_in_whose_name_it_decided() {
    let rig = Rig::without_server(&[]).await;
    let key = make(&rig, "robot", &[Scope::Submit, Scope::Approve, Scope::Read], None).await;
    let node = rig.serve().await;
    let grpc = &node.client.grpc;
    for (job_id, action, voter, words) in [
        ("own", approve(), "key:robot", "was approved by key:robot"),
        ("for-ann", approve_as("Ann"), "Ann", "was approved by Ann, as key:robot says"),
        ("for-person", approve_as(PERSON), "…0100", "was approved by …0100, as key:robot says"),
    ] {
        let asked = job(job_id, [approval("Well?")]);
        grpc.clone().submit_job(by(&key, asked)).await.unwrap();
        let action = Some(action);
        let control =
            ControlRequest { job_id: job_id.to_owned(), request_id: String::new(), action };
        let changed = grpc.clone().control(by(&key, control)).await.unwrap().into_inner();
        let job = changed.job.unwrap();
        assert_eq!(job.status(), JobStatus::Completed, "{job:?}");
        let decision = &job.steps[0].decisions[0];
        assert_eq!(decision.by, voter);
        let watch = WatchJobRequest {
            job_id: job_id.to_owned(),
            after_sequence: Some(0),
            ..WatchJobRequest::default()
        };
        let mut events = grpc.clone().watch_job(by(&key, watch)).await.unwrap().into_inner();
        let (mut submitted, mut decided) = (None, None);
        while let Some(told) = events.message().await.unwrap() {
            let Some(Content::Event(event)) = told.content else { continue };
            let kind = event.kind();
            if kind == EventKind::JobSubmitted {
                submitted = Some(event.actor);
            } else if kind == EventKind::ApprovalDecided {
                decided = Some((event.actor, event.message));
            }
        }
        assert_eq!(submitted.as_deref(), Some("key:robot"));
        let (actor, message) = decided.unwrap();
        assert_eq!(actor, voter);
        assert!(message.ends_with(words), "{message}");
    }
    let via = "select count(*) from longhaul.decision where via = 'key:robot' and voter <> via";
    assert_eq!(rig.db.number(via).await, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn whom_a_notice_is_for_is_shown_whole_to_an_admin_alone() {
    let rig = Rig::without_server(&[]).await;
    let open = rig.serve().await;
    open.client.submit(job("told", [wait(0)])).await;
    open.client.settled_as("told", JobStatus::Completed).await;
    rig.sandbox.messages(PERSON, 1).await;
    let job = open.client.job("told").await;
    assert_eq!(job.notices[0].recipient, "…0100", "as before on a server that is open");
    let reader = make(&rig, "reader", &[Scope::Read], None).await;
    let admin = make(&rig, "admin", &[Scope::Admin], None).await;
    wait_until(&open.client, None, Code::Unauthenticated).await;
    wait_until(&open.client, Some(&admin), Code::Ok).await;
    for (key, shown) in [(&reader, "…0100"), (&admin, PERSON)] {
        let grpc = &open.client.grpc;
        let get = GetJobRequest { job_id: "told".to_owned(), ..GetJobRequest::default() };
        let job = grpc.clone().get_job(by(key, get)).await.unwrap().into_inner().job.unwrap();
        let list = grpc.clone().list_notices(by(key, ListNoticesRequest::default())).await;
        let listed = list.unwrap().into_inner().notices.remove(0).notice.unwrap();
        let watch = WatchJobRequest {
            job_id: "told".to_owned(),
            include_notices: true,
            after_sequence: Some(job.last_sequence),
            ..WatchJobRequest::default()
        };
        let mut watched = grpc.clone().watch_job(by(key, watch)).await.unwrap().into_inner();
        let notice = loop {
            if let Some(Content::Notice(notice)) = watched.message().await.unwrap().unwrap().content
            {
                break notice;
            }
        };
        let url = format!("{}/webhook/durable-job-control", open.client.http_url);
        let body = json!({"job_id": "told", "action": "status"});
        let answer = open.client.http.post(url).header("x-api-key", key).json(&body).send().await;
        let answer: Value = answer.unwrap().json().await.unwrap();
        let webhook = answer["job"]["notices"][0]["recipient"].as_str().unwrap().to_owned();
        let told = [&job.notices[0].recipient, &listed.recipient, &notice.recipient, &webhook];
        assert!(told.iter().all(|told| *told == shown), "{told:?}");
    }
}
