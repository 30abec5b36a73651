//! Control: pause, resume, cancel and retry, where each may happen and what a repetition answers.

use longhaul::rpc::proto::{
    ApprovalStep, CancelAction, EventKind, JobStatus, control_request::Action,
};
use serde_json::json;
use tonic::Code;

use crate::ask::{Links, NOTE, ask, form, links};
use crate::harness::{
    PERSON, Rig, Told, approval, approval_step, approve, cancel, events_of, events_until_end, job,
    pause, pause_now, resume, retry, run, wait,
};

#[tokio::test(flavor = "multi_thread")]
async fn a_paused_job_is_not_swept_into_running_and_resumes() {
    let rig = Rig::start().await;
    rig.submit(job("held", [wait(3600), run("Write a line.")])).await;
    assert!(rig.control("held", pause()).await);
    rig.db.shift_clock(4000).await;
    // What was due at the same time and is not paused goes by.
    rig.submit(job("free", [wait(60), run("Write another line.")])).await;
    rig.db.shift_clock(61).await;
    rig.settled_as("free", JobStatus::Completed).await;
    let paused = rig.job("held").await;
    assert_eq!((paused.status(), paused.current_step), (JobStatus::Paused, 1));
    assert!(rig.control("held", resume()).await);
    rig.settled_as("held", JobStatus::Completed).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pause_takes_effect_after_the_step_and_the_finished_step_is_not_asked_again() {
    let rig = Rig::start().await;
    rig.sandbox.hold("first").await;
    rig.submit(job("soft", [run("Write the first line."), run("Write the next line.")])).await;
    rig.sandbox.wait_for("first", "held", 1).await;
    assert!(rig.control("soft", pause()).await);
    assert!(!rig.control("soft", pause()).await);
    let pausing = rig.job("soft").await;
    assert_eq!((pausing.status(), pausing.pause_requested), (JobStatus::Running, true));
    rig.sandbox.mend().await;
    let paused = rig.settled_as("soft", JobStatus::Paused).await;
    assert_eq!((paused.current_step, paused.pause_requested), (2, false));
    assert!(rig.db.state("soft").await["step_1_output"].is_string());
    assert!(rig.control("soft", resume()).await);
    rig.settled_as("soft", JobStatus::Completed).await;
    assert_eq!(rig.sandbox.requests("first").await.len(), 1);
    assert_eq!(rig.sandbox.requests("").await.len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pause_that_is_taken_back_in_time_pauses_nothing() {
    let rig = Rig::start().await;
    rig.sandbox.hold("first").await;
    rig.submit(job("back", [run("Write the first line."), run("Write the next line.")])).await;
    rig.sandbox.wait_for("first", "held", 1).await;
    assert!(rig.control("back", pause()).await);
    assert!(rig.control("back", resume()).await);
    rig.sandbox.mend().await;
    rig.settled_as("back", JobStatus::Completed).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pause_in_the_last_step_completes_the_job() {
    let rig = Rig::start().await;
    rig.sandbox.hold("only").await;
    rig.submit(job("last", [run("Write the only line.")])).await;
    rig.sandbox.wait_for("only", "held", 1).await;
    assert!(rig.control("last", pause()).await);
    rig.sandbox.mend().await;
    rig.settled_as("last", JobStatus::Completed).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pause_now_aborts_the_call_and_the_step_runs_again_after_the_resume() {
    let rig = Rig::start().await;
    rig.sandbox.hold("first").await;
    rig.submit(job("hard", [run("Write the first line.")])).await;
    rig.sandbox.wait_for("first", "held", 1).await;
    assert!(rig.control("hard", pause_now()).await);
    assert_eq!(rig.job("hard").await.status(), JobStatus::Paused);
    rig.sandbox.wait_for("first", "disconnected", 1).await;
    rig.sandbox.mend().await;
    assert!(rig.control("hard", resume()).await);
    let done = rig.settled_as("hard", JobStatus::Completed).await;
    assert_eq!(done.attempts, 0, "an aborted attempt is not a lost one");
    let ledger: Vec<String> = rig.db.calls("hard").await.into_iter().map(|c| c.outcome).collect();
    assert_eq!(ledger, ["aborted", "answered"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_aborts_the_call_in_flight_and_no_other_is_begun() {
    let rig = Rig::start().await;
    rig.sandbox.hold("first").await;
    rig.submit(job("gone", [run("Write the first line."), run("Write the next line.")])).await;
    rig.sandbox.wait_for("first", "held", 1).await;
    let why = CancelAction { comment: "too late".to_owned() };
    assert!(rig.control("gone", Action::Cancel(why)).await);
    rig.sandbox.wait_for("first", "disconnected", 1).await;
    rig.sandbox.mend().await;
    rig.db
        .wait_until(
            "select bool_and(outcome = 'aborted') from longhaul.model_call where job_id = $1",
            "gone",
        )
        .await;
    let cancelled = rig.job("gone").await;
    assert_eq!((cancelled.status(), cancelled.current_step), (JobStatus::Cancelled, 1));
    let told = rig.event("gone", EventKind::JobCancelled).await;
    assert!(told.message.contains("too late"), "{}", told.message);
    assert_eq!(rig.db.calls("gone").await.len(), 1);
    let after = "select count(*) from longhaul.model_call c join longhaul.job j using (job_id)
                 where c.started_at > j.finished_at";
    assert_eq!(rig.db.number(after).await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_retry_begins_at_the_step_that_failed() {
    let rig = Rig::start().await;
    rig.sandbox.break_model(json!({"status": 400, "times": 1, "matching": "second"})).await;
    rig.submit(job("again", [run("Write the first line."), run("Write the second line.")])).await;
    let failed = rig.settled_as("again", JobStatus::Failed).await;
    assert_eq!((failed.current_step, failed.revision), (2, 1));
    assert!(rig.control("again", retry(0)).await);
    let done = rig.settled_as("again", JobStatus::Completed).await;
    assert_eq!(done.revision, 2);
    assert_eq!(rig.sandbox.requests("first").await.len(), 1);
    assert_eq!(rig.sandbox.requests("second").await.len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_retry_may_begin_at_an_earlier_step_and_at_no_other() {
    let rig = Rig::start().await;
    rig.sandbox.break_model(json!({"status": 400, "times": 1, "matching": "second"})).await;
    let steps = [run("Write the first line."), run("Write the second line."), run("End.")];
    rig.submit(job("earlier", steps)).await;
    rig.settled_as("earlier", JobStatus::Failed).await;
    for from_step in [3, 99, -1] {
        let told = Told::by(rig.try_control("earlier", retry(from_step)).await);
        assert_eq!(told.fields, ["retry.from_step"], "{from_step}");
        assert_eq!((told.code, told.reason.as_str()), (Code::InvalidArgument, "INVALID_REQUEST"));
        let body = json!({"job_id": "earlier", "action": "retry", "from_step": from_step});
        let (status, answer) = rig.post("/webhook/durable-job-control", &body).await;
        assert_eq!((status, &answer["violations"][0]["field"]), (400, &json!("from_step")));
    }
    assert!(rig.control("earlier", retry(1)).await);
    let done = rig.settled_as("earlier", JobStatus::Completed).await;
    assert!(done.steps.iter().all(|step| step.revision == 2));
    assert_eq!(rig.sandbox.requests("first").await.len(), 2);
    assert_eq!(rig.db.state("earlier").await["step_1_output"], done.steps[0].output);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_retried_job_may_be_watched_again_and_its_history_goes_on() {
    let rig = Rig::start().await;
    rig.submit(job("twice", [wait(3600)])).await;
    assert!(rig.control("twice", cancel()).await);
    assert!(rig.control("twice", retry(0)).await);
    assert!(rig.control("twice", cancel()).await);
    let events = events_until_end(rig.try_watch("twice", Some(0)).await.unwrap()).await;
    assert_eq!(events_of(&events, EventKind::JobCancelled), 2);
    assert_eq!(events_of(&events, EventKind::JobRetried), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_webhook_knows_the_same_actions() {
    let rig = Rig::start().await;
    rig.submit(job("door", [approval("May this go out?")])).await;
    for (action, status, code, changed) in [
        ("status", "awaiting_approval", 200, json!(false)),
        ("pause", "paused", 200, json!(true)),
        ("pause", "paused", 200, json!(false)),
        ("resume", "awaiting_approval", 200, json!(true)),
        ("cancel", "cancelled", 200, json!(true)),
        ("pause", "cancelled", 409, json!(null)),
        ("retry", "awaiting_approval", 200, json!(true)),
    ] {
        let (answered, answer) = rig.post_action("door", action).await;
        assert_eq!((answered, &answer["status"]), (code, &json!(status)), "{action}: {answer}");
        assert_eq!(answer["changed"], changed, "{action}");
    }
    let (answered, answer) = rig.post_action("nowhere", "pause").await;
    assert_eq!((answered, &answer["reason"]), (404, &json!("JOB_NOT_FOUND")));
    let told = Told::by(rig.try_control("nowhere", approve()).await);
    assert_eq!((told.code, told.reason.as_str()), (Code::NotFound, "JOB_NOT_FOUND"));
}

async fn page(rig: &Rig, link: &str) -> String {
    rig.http.get(link).send().await.unwrap().text().await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pause_stops_the_clock_of_an_approval_on_its_page_too_and_as_often_as_it_is_asked() {
    let rig = Rig::start().await;
    let half_an_hour = ApprovalStep { timeout_seconds: 1800, ..ApprovalStep::default() };
    let Links { approve: link, .. } = ask(&rig, job("clock", [approval_step(half_an_hour)])).await;
    // Some seconds pass by themselves, and the page shows whole minutes.
    for (spent_seconds, left_seconds, shown) in
        [(600, 1200, ["20 min left", "19 min left"]), (300, 900, ["15 min left", "14 min left"])]
    {
        rig.db.shift_clock(spent_seconds).await;
        assert!(rig.control("clock", pause()).await);
        assert!(page(&rig, &link).await.contains("Stands still while the job is paused"));
        rig.db.shift_clock(86_400).await;
        assert!(!rig.control("clock", pause()).await);
        assert!(rig.control("clock", resume()).await);
        let page = page(&rig, &link).await;
        assert!(shown.iter().any(|left| page.contains(left)), "{shown:?}: {page}");
        let left = "select extract(epoch from deadline_at - updated_at)::bigint from longhaul.job";
        let left = rig.db.number(left).await;
        assert!((left_seconds - 30..=left_seconds).contains(&left), "{left} s are left");
    }
    rig.db.shift_clock(901).await;
    rig.event("clock", EventKind::ApprovalExpired).await;
    let failed = rig.settled_as("clock", JobStatus::Failed).await;
    assert_eq!(failed.reason, "APPROVAL_EXPIRED");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_retry_from_a_step_uses_its_own_outputs_and_its_own_links() {
    let rig = Rig::start().await;
    let polish = run("Polish this: {{ step_1_output }}");
    let old = ask(&rig, job("anew", [run("Write one line."), approval(NOTE), polish])).await;
    let press_old = form(&rig, "anew", "approve", "").await;
    assert!(rig.control("anew", cancel()).await);
    // A retry overtakes what has not been told yet.
    rig.sandbox.messages(PERSON, 2).await;
    // The sandbox would answer the same again.
    let mark = "update longhaul.checkpoint set output = 'The old line.'";
    sqlx::query(mark).execute(&rig.db.pool).await.unwrap();
    assert!(rig.control("anew", retry(1)).await);
    let asks = rig.settled_as("anew", JobStatus::AwaitingApproval).await;
    assert_eq!((asks.current_step, asks.revision), (2, 2));
    // The first message asked, the second told of the cancel.
    let new = links(&rig.sandbox, PERSON, 3).await;
    for link in [&old.approve, &old.reject] {
        let page = page(&rig, link).await;
        assert!(page.contains("No decision is needed any more"), "{page}");
        let press = rig.http.post(link).body(press_old.clone());
        let press = press.header("content-type", "application/x-www-form-urlencoded");
        assert_eq!(press.send().await.unwrap().status(), 409);
    }
    assert_eq!(rig.job("anew").await.status(), JobStatus::AwaitingApproval, "nobody has decided");
    let draft = page(&rig, &new.approve).await;
    assert!(draft.contains(NOTE) && !draft.contains("The old line."), "{draft}");
    let press = form(&rig, "anew", "approve", "").await;
    let press = rig.http.post(&new.approve).body(press);
    let press = press.header("content-type", "application/x-www-form-urlencoded");
    assert_eq!(press.send().await.unwrap().status(), 303);
    let done = rig.settled_as("anew", JobStatus::Completed).await;
    assert!(done.steps.iter().all(|step| step.revision == 2));
    assert_eq!(rig.sandbox.requests("Polish this: The old line.").await.len(), 0);
    let polished = format!("Polish this: {}", done.steps[0].output);
    assert_eq!(rig.sandbox.requests(&polished).await.len(), 1, "{polished}");
    let kept = "select count(*) from longhaul.checkpoint where revision = 1 and step = 1";
    assert_eq!(rig.db.number(kept).await, 1, "what was once stored stays");
}
