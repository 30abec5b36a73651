//! Every action in every status: what changes, what has been so already, and what contradicts.

use longhaul::rpc::proto::{JobStatus, control_request::Action};
use serde_json::json;
use tonic::Code;

use crate::harness::{
    Rig, Told, approval, approve, cancel, job, pause, reject, resume, retry, run, wait,
};

/// What an action answers.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Answer {
    /// It changes something, and repeating it does not.
    Done,
    /// It has been so already.
    Same,
    /// It contradicts the status.
    Conflict,
}

use Answer::{Conflict, Done, Same};

const ACTIONS: [fn() -> Action; 6] = [pause, resume, cancel, || retry(0), approve, reject];

/// In the order of the actions.
const TABLE: [(JobStatus, [Answer; 6]); 7] = [
    (JobStatus::Queued, [Done, Same, Done, Conflict, Conflict, Conflict]),
    (JobStatus::Running, [Done, Same, Done, Conflict, Conflict, Conflict]),
    (JobStatus::AwaitingApproval, [Done, Same, Done, Conflict, Done, Done]),
    (JobStatus::Paused, [Same, Done, Done, Conflict, Conflict, Conflict]),
    (JobStatus::Completed, [Conflict, Conflict, Conflict, Conflict, Conflict, Conflict]),
    (JobStatus::Failed, [Conflict, Conflict, Conflict, Done, Conflict, Conflict]),
    (JobStatus::Cancelled, [Conflict, Conflict, Same, Done, Conflict, Conflict]),
];

/// Brings a job into a status.
async fn bring(rig: &Rig, job_id: &str, status: JobStatus) {
    match status {
        JobStatus::Queued => drop(rig.submit(job(job_id, [wait(3600)])).await),
        JobStatus::Running => {
            rig.submit(job(job_id, [run(&format!("Hold {job_id}")), run("Go on.")])).await;
            rig.sandbox.wait_for(&format!("Hold {job_id}"), "held", 1).await;
        }
        JobStatus::AwaitingApproval => drop(rig.submit(job(job_id, [approval("Well?")])).await),
        JobStatus::Paused => {
            rig.submit(job(job_id, [wait(3600)])).await;
            rig.control(job_id, pause()).await;
        }
        JobStatus::Completed => drop(rig.submit(job(job_id, [wait(0)])).await),
        JobStatus::Failed => {
            rig.submit(job(job_id, [run(&format!("Fail {job_id}"))])).await;
            rig.settled_as(job_id, JobStatus::Failed).await;
        }
        JobStatus::Cancelled => {
            rig.submit(job(job_id, [wait(3600)])).await;
            rig.control(job_id, cancel()).await;
        }
        JobStatus::Unspecified => unreachable!("no job has it"),
    }
    assert_eq!(rig.job(job_id).await.status(), status);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_action_in_every_status_answers_as_the_table_says() {
    let rig = Rig::start().await;
    let holds = |matching| json!({"matching": matching, "hold": true});
    // A job that fails in its first life is held in the second.
    let mut faults = vec![holds("Hold")];
    for at in 0..ACTIONS.len() {
        let matching = format!("Fail JOB_STATUS_FAILED-{at}");
        faults.push(json!({"matching": matching, "status": 400, "times": 1}));
    }
    faults.push(holds("Fail"));
    rig.sandbox.break_model(faults.into()).await;
    for (status, answers) in TABLE {
        for (at, (action, expected)) in ACTIONS.into_iter().zip(answers).enumerate() {
            let job_id = format!("{}-{at}", status.as_str_name());
            bring(&rig, &job_id, status).await;
            let named = format!("{:?} of {status:?}", action());
            let answer = rig.try_control(&job_id, action()).await;
            match expected {
                Done => {
                    assert!(answer.unwrap().changed, "{named}");
                    assert!(!rig.control(&job_id, action()).await, "{named}, again");
                }
                Same => assert!(!answer.unwrap().changed, "{named}"),
                Conflict => {
                    let told = Told::by(answer);
                    assert_eq!(told.code, Code::FailedPrecondition, "{named}");
                    assert_eq!(told.reason, "JOB_STATE_CONFLICT", "{named}");
                    assert_eq!(told.metadata["status"], status.as_str_name(), "{named}");
                    assert_eq!(rig.job(&job_id).await.status(), status, "{named}");
                }
            }
        }
    }
}
