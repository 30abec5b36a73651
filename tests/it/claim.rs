//! Claims: how many jobs a server takes, in crowds, and beside jobs that kill or cannot be read.

use longhaul::rpc::proto::{EventKind, JobSettings, JobStatus};

use crate::harness::{Rig, approval, approve, cancel, job, pause, resume, run, wait, with};

#[tokio::test(flavor = "multi_thread")]
async fn a_server_works_on_as_many_steps_as_it_has_slots() {
    let rig = Rig::start_with(&[("LONGHAUL_SLOTS", "2")]).await;
    rig.sandbox.hold("Hold").await;
    for number in 0..5 {
        rig.submit(job(&format!("slot-{number}"), [run("Hold a slot."), run("Go on.")])).await;
    }
    rig.sandbox.wait_for("Hold", "held", 2).await;
    // A slot that becomes free is taken by the next in line.
    assert!(rig.control("slot-0", cancel()).await);
    rig.sandbox.wait_for("Hold", "disconnected", 1).await;
    rig.event("slot-2", EventKind::StepStarted).await;
    rig.sandbox.wait_for("Hold", "held", 2).await;
    assert_eq!(rig.sandbox.requests("Hold").await.len(), 3);
    assert_eq!(rig.job("slot-4").await.status(), JobStatus::Queued);
    rig.sandbox.mend().await;
    for number in 1..5 {
        rig.settled_as(&format!("slot-{number}"), JobStatus::Completed).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crowd_that_is_due_at_once_is_moved_by_three_servers_and_each_step_runs_once() {
    let rig = Rig::start().await;
    let _others = [rig.serve().await, rig.serve().await];
    for number in 0..230 {
        rig.submit(job(&format!("crowd-{number}"), [wait(60), run("Be one of many.")])).await;
    }
    rig.db.shift_clock(61).await;
    for number in 0..230 {
        rig.settled_as(&format!("crowd-{number}"), JobStatus::Completed).await;
    }
    assert_eq!(rig.sandbox.requests("").await.len(), 230);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_holds_at_most_one_job_on_its_last_attempt() {
    let rig = Rig::start().await;
    rig.sandbox.hold("poison").await;
    let once = || JobSettings { max_attempts: Some(1), ..JobSettings::default() };
    for job_id in ["poison-a", "poison-b"] {
        rig.submit(with(once(), job(job_id, [run("Perhaps a poison.")]))).await;
    }
    rig.sandbox.wait_for("poison", "held", 2).await;
    for job_id in ["poison-a", "poison-b"] {
        rig.db.end_lease(job_id).await;
        rig.event(job_id, EventKind::AttemptLost).await;
    }
    rig.db.shift_clock(1).await;
    let lost = rig.event("poison-a", EventKind::AttemptLost).await.sequence;
    rig.event_after("poison-a", EventKind::StepStarted, lost).await;
    // What is no poison goes by meanwhile.
    rig.submit(job("healthy", [run("Be healthy.")])).await;
    rig.settled_as("healthy", JobStatus::Completed).await;
    assert_eq!(rig.job("poison-a").await.status(), JobStatus::Running);
    assert_eq!(rig.job("poison-b").await.status(), JobStatus::Queued);
    rig.sandbox.mend().await;
    for job_id in ["poison-a", "poison-b"] {
        rig.settled_as(job_id, JobStatus::Completed).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_cannot_be_read_stops_nobody_but_itself() {
    let rig = Rig::start_with(&[("LONGHAUL_SLOTS", "1")]).await;
    rig.sandbox.hold("the slot").await;
    rig.submit(job("first", [run("Keep the slot.")])).await;
    rig.sandbox.wait_for("the slot", "held", 1).await;
    rig.submit(job("bad-in-line", [run("Never asked.")])).await;
    rig.submit(job("bad-and-parked", [wait(60), run("Never asked.")])).await;
    let spoil = "update longhaul.job_spec set spec = '{}' where job_id like 'bad-%'";
    sqlx::query(spoil).execute(&rig.db.pool).await.unwrap();
    rig.submit(job("good", [wait(60), run("Be good.")])).await;
    rig.sandbox.mend().await;
    rig.db.shift_clock(61).await;
    rig.settled_as("good", JobStatus::Completed).await;
    rig.settled_as("first", JobStatus::Completed).await;
    assert!(rig.sandbox.requests("Never").await.is_empty());
}

/// Whether an event of the job was written by the same commit as the one after it.
async fn is_followed_at_once(rig: &Rig, job_id: &str, sequence: i32) -> bool {
    let commits = "select count(distinct e.xmin::text) from longhaul.event e
        where e.job_id = $1 and e.sequence in ($2, $2 + 1)";
    let commits: i64 = sqlx::query_scalar(commits)
        .bind(job_id)
        .bind(sequence)
        .fetch_one(&rig.db.pool)
        .await
        .unwrap();
    commits == 1
}

#[tokio::test(flavor = "multi_thread")]
async fn what_lets_a_job_go_on_is_a_claim_as_well_where_there_is_room() {
    let rig = Rig::start().await;
    let (mut decided, mut resumed) = (0, 0);
    // Not each time: whatever else is done at that moment may have woken the executor.
    for number in 0..10 {
        let job_id = format!("approved-{number}");
        rig.submit(job(&job_id, [approval("Good?"), run("Go on.")])).await;
        assert!(rig.control(&job_id, approve()).await);
        let started = rig.event(&job_id, EventKind::StepStarted).await.sequence;
        decided += i32::from(is_followed_at_once(&rig, &job_id, started - 1).await);
        let job_id = format!("resumed-{number}");
        rig.submit(job(&job_id, [approval("Good?"), run("Go on.")])).await;
        assert!(rig.control(&job_id, pause()).await);
        assert!(rig.control(&job_id, approve()).await);
        assert!(rig.control(&job_id, resume()).await);
        let started = rig.event(&job_id, EventKind::StepStarted).await.sequence;
        resumed += i32::from(is_followed_at_once(&rig, &job_id, started - 1).await);
        rig.settled_as(&job_id, JobStatus::Completed).await;
    }
    assert!(decided > 0 && resumed > 0, "{decided} decisions and {resumed} resumes were claims");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_room_what_is_let_go_on_waits_its_turn() {
    let rig = Rig::start_with(&[("LONGHAUL_SLOTS", "1")]).await;
    rig.sandbox.hold("Hold").await;
    rig.submit(job("holder", [run("Hold the slot.")])).await;
    rig.sandbox.wait_for("Hold", "held", 1).await;
    rig.submit(job("approved", [approval("Good?"), run("Go on.")])).await;
    assert!(rig.control("approved", approve()).await);
    assert_eq!(rig.job("approved").await.status(), JobStatus::Queued);
    rig.sandbox.mend().await;
    rig.settled_as("approved", JobStatus::Completed).await;
}
