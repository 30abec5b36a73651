//! Approvals: one outcome each, one vote per approver, none after the deadline, whichever door they come through.

use longhaul::rpc::proto::{
    ApprovalStep, ApproveAction, Door, EventKind, JobStatus, Step, TimeoutPolicy, Verdict,
    control_request::Action,
};
use serde_json::json;
use tonic::Code;

use crate::harness::{
    PERSON, Rig, Told, approval, approval_step, approve, approve_as, approve_that, events_of,
    events_until_end, job, links, pause, reject, resume, run,
};

fn timed(timeout_seconds: i32, on_timeout: TimeoutPolicy) -> Step {
    let on_timeout = on_timeout.into();
    approval_step(ApprovalStep { timeout_seconds, on_timeout, ..ApprovalStep::default() })
}

#[tokio::test(flavor = "multi_thread")]
async fn an_approval_lets_the_job_go_on_and_is_kept() {
    let rig = Rig::start().await;
    rig.submit(job("yes", [run("Write a line."), approval("Good?"), run("Shorten it.")])).await;
    let asked = rig.settled_as("yes", JobStatus::AwaitingApproval).await;
    let pending = asked.approval.unwrap();
    assert_eq!((pending.step, pending.note.as_str(), pending.quorum), (2, "Good?", 1));
    assert_eq!(pending.deadline_at.unwrap().seconds - pending.asked_at.unwrap().seconds, 86_400);
    let comment = "Looks good.".to_owned();
    let approve = ApproveAction { comment, ..ApproveAction::default() };
    assert!(rig.control("yes", Action::Approve(approve)).await);
    let done = rig.settled_as("yes", JobStatus::Completed).await;
    let decision = &done.steps[1].decisions[0];
    assert_eq!((decision.verdict(), decision.door()), (Verdict::Approve, Door::Grpc));
    assert_eq!((decision.by.as_str(), decision.comment.as_str()), ("client", "Looks good."));
    assert_eq!(rig.db.state("yes").await["step_2_decision"], "approved");
    assert!(done.approval.is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rejection_cancels_the_job() {
    let rig = Rig::start().await;
    rig.submit(job("no", [approval("Good?"), run("Never asked.")])).await;
    let (status, answer) = rig.post_action("no", "reject").await;
    assert_eq!((status, &answer["status"]), (200, &json!("cancelled")));
    assert_eq!(answer["job"]["reason"], "REJECTED");
    assert_eq!(rig.job("no").await.reason, "REJECTED");
    assert!(rig.sandbox.requests("").await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_approval_that_nobody_decides_ends_as_its_step_says() {
    let rig = Rig::start().await;
    for (job_id, policy, status) in [
        ("default", TimeoutPolicy::Unspecified, JobStatus::Failed),
        ("fail", TimeoutPolicy::Fail, JobStatus::Failed),
        ("reject", TimeoutPolicy::Reject, JobStatus::Cancelled),
        // The tests of deliveries have one that is confirmed.
        ("approve", TimeoutPolicy::Approve, JobStatus::Failed),
    ] {
        rig.submit(job(job_id, [timed(60, policy)])).await;
        rig.settled_as(job_id, JobStatus::AwaitingApproval).await;
        rig.db.shift_clock(61).await;
        let expired = rig.event(job_id, EventKind::ApprovalExpired).await;
        assert_eq!(expired.actor, "sweeper");
        let ended = rig.settled_as(job_id, status).await;
        assert_eq!(ended.reason, "APPROVAL_EXPIRED", "{job_id}");
        let told = Told::by(rig.try_control(job_id, approve()).await);
        assert_eq!(told.reason, "APPROVAL_CLOSED", "{job_id}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_decision_after_the_deadline_is_refused_even_before_the_sweeper_comes() {
    let mut rig = Rig::start_with(&[("LONGHAUL_SWEEP_MS", "60000")]).await;
    // The only round of a sweeper that is so slow comes at its start, and has come once this one has expired.
    rig.submit(job("early", [timed(60, TimeoutPolicy::Fail)])).await;
    rig.stop_server().await;
    let overdue = "update longhaul.job set deadline_at = longhaul.now()";
    sqlx::query(overdue).execute(&rig.db.pool).await.unwrap();
    let url = rig.db.url.clone();
    let rig = rig.start_at(&url).await;
    rig.event("early", EventKind::ApprovalExpired).await;
    rig.submit(job("late", [timed(60, TimeoutPolicy::Fail)])).await;
    rig.db.shift_clock(60).await;
    let told = Told::by(rig.try_control("late", approve()).await);
    assert_eq!((told.code, told.reason.as_str()), (Code::FailedPrecondition, "APPROVAL_CLOSED"));
    assert_eq!(told.metadata["approval_status"], "EXPIRED");
    let (status, answer) = rig.post_action("late", "reject").await;
    assert_eq!((status, &answer["reason"]), (409, &json!("APPROVAL_CLOSED")));
    assert_eq!(rig.job("late").await.status(), JobStatus::AwaitingApproval);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_quorum_of_two_needs_two_people() {
    let rig = Rig::start().await;
    let approvers = ["+15550101", "+15550102", "+15550103"].map(str::to_owned).to_vec();
    let both = ApprovalStep { quorum: 2, approvers, ..ApprovalStep::default() };
    rig.submit(job("quorum", [approval_step(both)])).await;
    assert!(rig.control("quorum", approve_as("+15550101")).await);
    assert!(!rig.control("quorum", approve_as("+15550101")).await, "one vote per person");
    let waiting = rig.job("quorum").await;
    assert_eq!(waiting.status(), JobStatus::AwaitingApproval);
    let decisions = waiting.approval.unwrap().decisions;
    assert_eq!((decisions.len(), decisions[0].by.as_str()), (1, "…0101"));
    let against = longhaul::rpc::proto::RejectAction {
        on_behalf_of: "+15550101".to_owned(),
        ..Default::default()
    };
    let told = Told::by(rig.try_control("quorum", Action::Reject(against)).await);
    assert_eq!(told.reason, "ALREADY_VOTED");
    assert!(rig.control("quorum", approve_as("+15550103")).await);
    rig.settled_as("quorum", JobStatus::Completed).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bare_approve_is_refused_once_two_approvals_were_asked() {
    let rig = Rig::start().await;
    rig.submit(job("two", [approval("First?"), approval("Second?")])).await;
    let first = rig.job("two").await.approval.unwrap().approval_id;
    assert!(rig.control("two", approve()).await);
    let second = rig.job("two").await.approval.unwrap();
    assert_eq!(second.step, 2);
    for action in [approve(), reject()] {
        let told = Told::by(rig.try_control("two", action).await);
        assert_eq!(told.code, Code::FailedPrecondition);
        assert_eq!(told.reason, "APPROVAL_ID_REQUIRED");
    }
    let (status, answer) = rig.post_action("two", "approve").await;
    assert_eq!((status, &answer["reason"]), (409, &json!("APPROVAL_ID_REQUIRED")));
    assert_eq!(rig.job("two").await.approval.unwrap().approval_id, second.approval_id);
    // A late copy of the first decision decides nothing more.
    assert!(!rig.control("two", approve_that(&first)).await);
    assert_eq!(rig.job("two").await.status(), JobStatus::AwaitingApproval);
    let told = Told::by(rig.try_control("two", approve_that(&uuid::Uuid::nil().to_string())).await);
    assert_eq!((told.code, told.reason.as_str()), (Code::NotFound, "APPROVAL_NOT_FOUND"));
    let body = json!({"job_id": "two", "action": "approve", "approval_id": second.approval_id});
    let (status, answer) = rig.post("/webhook/durable-job-control", &body).await;
    assert_eq!((status, &answer["status"]), (200, &json!("completed")));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_decision_while_the_job_is_paused_is_kept_until_the_resume() {
    let rig = Rig::start().await;
    for (job_id, action, status) in
        [("kept-yes", approve(), JobStatus::Completed), ("kept-no", reject(), JobStatus::Cancelled)]
    {
        rig.submit(job(job_id, [approval("Good?")])).await;
        assert!(rig.control(job_id, pause()).await);
        assert!(rig.control(job_id, action.clone()).await);
        assert!(!rig.control(job_id, action).await);
        assert_eq!(rig.job(job_id).await.status(), JobStatus::Paused);
        assert!(rig.control(job_id, resume()).await);
        rig.settled_as(job_id, status).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pause_stops_the_deadline_and_a_resume_gives_back_what_was_left() {
    let rig = Rig::start().await;
    rig.submit(job("clock", [timed(600, TimeoutPolicy::Fail)])).await;
    rig.db.shift_clock(100).await;
    assert!(rig.control("clock", pause()).await);
    let paused = rig.job("clock").await.approval.unwrap();
    assert_eq!(paused.deadline_at, None);
    rig.db.shift_clock(100_000).await;
    assert!(rig.control("clock", resume()).await);
    let resumed = rig.settled_as("clock", JobStatus::AwaitingApproval).await;
    let pending = resumed.approval.unwrap();
    let left = pending.deadline_at.unwrap().seconds - resumed.updated_at.unwrap().seconds;
    assert!((495..=500).contains(&left), "{left} s are left");
    assert_eq!(pending.approval_id, paused.approval_id);
    assert!(rig.control("clock", approve()).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn fifty_decisions_at_once_through_every_door_are_one() {
    let rig = Rig::start().await;
    let other = rig.serve().await;
    rig.submit(job("crowd", [approval("Good?")])).await;
    let approval_id = rig.job("crowd").await.approval.unwrap().approval_id;
    let link = links(&rig.sandbox.messages(PERSON, 1).await[0])[0].clone();
    let mut votes = tokio::task::JoinSet::new();
    for number in 0..50 {
        let client = if number % 2 == 0 { (*rig).clone() } else { other.client.clone() };
        let form = format!("verdict=approve&approval_id={approval_id}");
        let link = link.clone();
        votes.spawn(async move {
            match number % 3 {
                0 => client.control("crowd", approve()).await,
                1 => {
                    let (status, answer) = client.post_action("crowd", "approve").await;
                    assert_eq!(status, 200, "{answer}");
                    answer["changed"].as_bool().unwrap()
                }
                _ => {
                    let request = client.http.post(link).body(form);
                    let request =
                        request.header("content-type", "application/x-www-form-urlencoded");
                    assert_eq!(request.send().await.unwrap().status(), 303);
                    false
                }
            }
        });
    }
    let changed = votes.join_all().await.into_iter().filter(|changed| *changed).count();
    assert!(changed <= 1);
    rig.settled_as("crowd", JobStatus::Completed).await;
    let events = events_until_end(rig.try_watch("crowd", Some(0)).await.unwrap()).await;
    assert_eq!(events_of(&events, EventKind::ApprovalDecided), 1);
    assert_eq!(events_of(&events, EventKind::JobCompleted), 1);
    assert_eq!(rig.db.number("select count(*) from longhaul.decision").await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_decision_that_contradicts_the_outcome_is_refused() {
    let rig = Rig::start().await;
    rig.submit(job("done", [approval("Good?")])).await;
    assert!(rig.control("done", approve_as("+15550100")).await);
    assert!(!rig.control("done", approve()).await, "what is so already is no contradiction");
    let told = Told::by(rig.try_control("done", reject()).await);
    assert_eq!((told.code, told.reason.as_str()), (Code::FailedPrecondition, "APPROVAL_CLOSED"));
    assert_eq!(told.metadata["approval_status"], "APPROVED");
    let (status, answer) = rig.post_action("done", "reject").await;
    assert_eq!((status, &answer["reason"]), (409, &json!("APPROVAL_CLOSED")));
    rig.settled_as("done", JobStatus::Completed).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_retry_asks_anew_and_the_old_approval_stays_closed() {
    let rig = Rig::start().await;
    rig.submit(job("anew", [approval("Good?")])).await;
    let first = rig.job("anew").await.approval.unwrap().approval_id;
    assert!(rig.control("anew", reject()).await);
    assert!(rig.control("anew", crate::harness::retry(0)).await);
    let second = rig.settled_as("anew", JobStatus::AwaitingApproval).await.approval.unwrap();
    assert_ne!(second.approval_id, first);
    let told = Told::by(rig.try_control("anew", approve_that(&first)).await);
    assert_eq!(told.reason, "APPROVAL_CLOSED");
    let told = Told::by(rig.try_control("anew", approve()).await);
    assert_eq!(told.reason, "APPROVAL_ID_REQUIRED");
    assert!(rig.control("anew", approve_that(&second.approval_id)).await);
    rig.settled_as("anew", JobStatus::Completed).await;
    assert_eq!(rig.db.state("anew").await["step_1_decision"], "approved");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_another_server_did_meanwhile_counts_for_the_one_that_asked() {
    let rig = Rig::start().await;
    let other = rig.serve().await;
    let steps = || [run("Write a line."), approval("Good?"), run("Shorten it.")];
    for job_id in ["held", "ended", "moved"] {
        rig.submit(job(job_id, steps())).await;
        rig.settled_as(job_id, JobStatus::AwaitingApproval).await;
    }
    other.client.control("held", pause()).await;
    assert!(rig.control("held", approve()).await);
    assert_eq!(rig.job("held").await.status(), JobStatus::Paused, "it is kept until the resume");
    other.client.control("held", resume()).await;
    rig.settled_as("held", JobStatus::Completed).await;

    other.client.control("ended", reject()).await;
    let told = Told::by(rig.try_control("ended", approve()).await);
    assert_eq!((told.code, told.reason.as_str()), (Code::FailedPrecondition, "APPROVAL_CLOSED"));
    assert_eq!(rig.job("ended").await.status(), JobStatus::Cancelled);

    other.client.control("moved", approve()).await;
    assert!(!rig.control("moved", approve()).await, "it had happened already");
    rig.settled_as("moved", JobStatus::Completed).await;
}
