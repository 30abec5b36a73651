//! Writes that go wrong under a server: replies that are lost, commits that do not happen, rows that cannot be written.
//!
//! The wire between server and Postgres plays them; whatever happens on it, a job is run once and to its end.

use longhaul::rpc::proto::{ControlRequest, EventKind, JobStatus};

use crate::harness::{
    Rig, Told, Wire, approval, approve, cancel, events_of, events_until_end, job, run, wait,
};

#[tokio::test(flavor = "multi_thread")]
async fn a_server_whose_commits_lose_their_replies_asks_the_model_once_a_step() {
    let rig = Rig::without_server(&[]).await;
    let wire = Wire::to(&rig.db.url).await;
    let rig = rig.start_at(&wire.url).await;
    rig.sandbox.hold("first").await;
    rig.submit(job("unlucky", [run("Write a first line."), run("Write a second line.")])).await;
    rig.sandbox.wait_for("first", "held", 1).await;
    wire.lose_commits(3);
    rig.sandbox.mend().await;
    rig.settled_as("unlucky", JobStatus::Completed).await;
    assert_eq!(wire.left_to_lose(), 0);
    for prompt in ["first", "second"] {
        assert_eq!(rig.sandbox.requests(prompt).await.len(), 1, "{prompt}");
    }
    let outcomes = [(1, "answered".to_owned()), (2, "answered".to_owned())];
    assert_eq!(rig.db.outcomes("unlucky").await, outcomes);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_whose_claim_cannot_be_written_is_set_aside_and_stops_nobody() {
    let rig = Rig::start_with(&[("LONGHAUL_SLOTS", "1")]).await;
    rig.sandbox.hold("slot").await;
    rig.submit(job("busy", [run("Keep the slot.")])).await;
    rig.sandbox.wait_for("slot", "held", 1).await;
    rig.submit(job("broken", [run("Never asked.")])).await;
    rig.submit(job("whole", [run("Asked all the same.")])).await;
    // Its next event is there already.
    let spoil = "insert into longhaul.event (shard, job_id, sequence, occurred_at, kind, status, step, revision,
          attempt, actor, message)
        select shard, job_id, last_sequence + 1, now(), 'step_started', 'queued', 1, 1, 1, 'nobody', 'spoilt'
        from longhaul.job where job_id = 'broken'";
    sqlx::query(spoil).execute(&rig.db.pool).await.unwrap();
    rig.sandbox.mend().await;
    rig.settled_as("whole", JobStatus::Completed).await;
    let aside = "select run_at is not null from longhaul.job where job_id = $1";
    rig.db.wait_until(aside, "broken").await;
    assert!(rig.sandbox.requests("Never asked").await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_whose_reply_is_lost_is_given_back_uncounted_and_asked_once() {
    let rig = Rig::without_server(&[("LONGHAUL_LEASE_SECONDS", "3")]).await;
    let wire = Wire::to(&rig.db.url).await;
    let rig = rig.start_at(&wire.url).await;
    // Parked, so that it is claimed and not submitted into a slot.
    rig.submit(job("unlucky", [wait(60), run("Ask me once.")])).await;
    let entered = "select status = 'queued' from longhaul.job where job_id = $1";
    rig.db.wait_until(entered, "unlucky").await;
    wire.lose_commit_saying("\"begins\":\"");
    rig.db.shift_clock(61).await;
    let done = rig.settled_as("unlucky", JobStatus::Completed).await;
    assert_eq!((wire.left_to_lose(), done.attempts), (0, 0));
    let events = events_until_end(rig.try_watch("unlucky", Some(0)).await.unwrap()).await;
    assert_eq!(events_of(&events, EventKind::AttemptLost), 0);
    assert_eq!(events_of(&events, EventKind::AttemptReleased), 1);
    assert_eq!(rig.sandbox.requests("Ask me once").await.len(), 1);
    rig.db
        .wait_until("select count(*) = 1 from longhaul.model_call where job_id = $1", "unlucky")
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_submit_whose_reply_is_lost_leaves_one_job_that_is_asked_once() {
    let rig = Rig::without_server(&[("LONGHAUL_LEASE_SECONDS", "3")]).await;
    let wire = Wire::to(&rig.db.url).await;
    let rig = rig.start_at(&wire.url).await;
    rig.submit(job("first", [wait(0)])).await;
    let once = || job("unlucky", [run("Ask me once.")]);
    wire.lose_commit_saying("Ask me once");
    let lost = rig.try_submit(once()).await;
    assert_eq!(Told::by(lost).code, tonic::Code::Unavailable);
    // The client does not know, and asks again.
    assert!(!rig.submit(once()).await.created);
    let done = rig.settled_as("unlucky", JobStatus::Completed).await;
    assert_eq!(done.attempts, 0);
    assert_eq!(rig.sandbox.requests("Ask me once").await.len(), 1);
    rig.db
        .wait_until("select count(*) = 1 from longhaul.model_call where job_id = $1", "unlucky")
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_submits_while_others_wait_goes_behind_them() {
    let rig = Rig::start_with(&[("LONGHAUL_SLOTS", "2")]).await;
    rig.sandbox.hold("Hold").await;
    for job_id in ["held-1", "held-2"] {
        rig.submit(job(job_id, [run("Hold a slot.")])).await;
    }
    rig.sandbox.wait_for("Hold", "held", 2).await;
    for number in 0..3 {
        rig.submit(job(&format!("waiting-{number}"), [run("Hold on, I waited.")])).await;
    }
    assert!(rig.control("held-1", cancel()).await);
    rig.submit(job("late", [run("Hold, I came late.")])).await;
    rig.sandbox.wait_for("I waited", "held", 1).await;
    assert_eq!(rig.job("late").await.status(), JobStatus::Queued);
    rig.sandbox.mend().await;
    rig.settled_as("late", JobStatus::Completed).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_whose_first_tries_to_give_back_fail_counts_nothing() {
    let rig = Rig::without_server(&[("LONGHAUL_DRAIN_SECONDS", "0")]).await;
    let wire = Wire::to(&rig.db.url).await;
    let mut rig = rig.start_at(&wire.url).await;
    rig.sandbox.hold("Hold").await;
    for job_id in ["one", "two"] {
        rig.submit(job(job_id, [run("Hold on.")])).await;
    }
    rig.sandbox.wait_for("Hold", "held", 2).await;
    wire.undo_commits(3);
    rig.stop_server().await;
    let counted = "select count(*) from longhaul.job where attempts > 0 or status <> 'queued'";
    assert_eq!(rig.db.number(counted).await, 0);
    let open = "select count(*) from longhaul.model_call where outcome <> 'aborted'";
    assert_eq!(rig.db.number(open).await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_action_whose_reply_is_lost_is_answered_as_the_first_time_when_it_is_repeated() {
    let rig = Rig::without_server(&[]).await;
    let wire = Wire::to(&rig.db.url).await;
    let rig = rig.start_at(&wire.url).await;
    rig.submit(job("asked", [approval("Good?"), approval("Still good?")])).await;
    rig.settled_as("asked", JobStatus::AwaitingApproval).await;
    let request = || ControlRequest {
        job_id: "asked".to_owned(),
        request_id: "the-first".to_owned(),
        action: Some(approve()),
    };
    wire.lose_commit_saying("the-first");
    let lost = rig.grpc.clone().control(request()).await;
    assert_eq!(Told::by(lost.map(tonic::Response::into_inner)).code, tonic::Code::Unavailable);
    let again = rig.grpc.clone().control(request()).await.unwrap().into_inner();
    assert!(again.changed, "as the first time");
    let decided = "select count(*) from longhaul.decision";
    assert_eq!(rig.db.number(decided).await, 1, "the second approval is nobody's answer");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_result_that_postgres_refuses_fails_the_job_and_is_paid_once() {
    let rig = Rig::start().await;
    let refuse = "alter table longhaul.checkpoint add check (job_id <> 'refused')";
    sqlx::query(refuse).execute(&rig.db.pool).await.unwrap();
    rig.submit(job("refused", [run("Write a line that cannot be kept.")])).await;
    let failed = rig.settled_as("refused", JobStatus::Failed).await;
    assert_eq!(failed.reason, "STEP_PANICKED");
    assert_eq!(rig.sandbox.requests("cannot be kept").await.len(), 1);
    assert_eq!(rig.db.outcomes("refused").await, [(1, "answered".to_owned())]);
}
