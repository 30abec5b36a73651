//! Jobs of a newer release, whose specifications this one cannot read: they are left alone, and stand in nobody's way.

use std::sync::Arc;
use std::time::Duration;

use longhaul::engine::sweeper::{Sweeper, Swept};
use longhaul::rpc::proto::{
    ApprovalStep, EventKind, JobStatus, ListJobsRequest, SubmitJobRequest, TimeoutPolicy,
    control_request::Action,
};
use longhaul::store::sweep::Judging;
use longhaul::store::{Store, StoreSettings};
use serde_json::{Value, json};
use tonic::Code;

use crate::ask::{Links, ask, asking, links};
use crate::harness::{
    PERSON, Rig, Told, approval, approval_step, approve, cancel, job, pause, pause_now, reject,
    resume, retry, run, wait,
};

/// Each as a newer release might have left it, and what it was made from.
const NEWER: [(&str, &str); 8] = [
    ("claimable", "run_at = null, reason = null"),
    ("due", "run_at = longhaul.now() - interval '1 hour'"),
    (
        "lost",
        "status = 'running', run_at = null, executor_id = gen_random_uuid(), attempt_id = gen_random_uuid()",
    ),
    (
        "ended-lease",
        "status = 'running', run_at = null, executor_id = gen_random_uuid(),
        attempt_id = gen_random_uuid(), lease_expires_at = longhaul.now() - interval '1 hour'",
    ),
    ("overdue", "deadline_at = longhaul.now() - interval '1 hour'"),
    ("unsent", "deadline_at = deadline_at"),
    ("novel", r#"run_at = null, reason = 'NOVEL', last_error = '{"novel": 1}'"#),
    ("paused", "epoch = epoch"),
];

/// Everything that is stored of them.
const ALL: &str = "select jsonb_build_array(
    (select jsonb_agg(to_jsonb(j) order by j.job_id) from longhaul.job j where j.spec_version > 1),
    (select jsonb_agg(to_jsonb(e) order by e.job_id, e.sequence) from longhaul.event e
     join longhaul.job j using (shard, job_id) where j.spec_version > 1),
    (select jsonb_agg(to_jsonb(a) order by a.approval_id) from longhaul.approval a
     join longhaul.job j using (shard, job_id) where j.spec_version > 1),
    (select jsonb_agg(to_jsonb(d) order by d.job_id) from longhaul.decision d
     join longhaul.job j using (shard, job_id) where j.spec_version > 1),
    (select jsonb_agg(to_jsonb(o) order by o.notice_id) from longhaul.outbox o
     join longhaul.job j using (shard, job_id) where j.spec_version > 1))";

async fn everything(rig: &Rig) -> Value {
    sqlx::query_scalar(ALL).fetch_one(&rig.db.pool).await.unwrap()
}

fn made_from(job_id: &str) -> SubmitJobRequest {
    match job_id {
        "overdue" | "unsent" => asking(job_id),
        _ => job(job_id, [wait(3600)]),
    }
}

/// Makes jobs of a newer release out of jobs of this one; the link is of the job `overdue`.
async fn make_newer(rig: &Rig) -> Links {
    let links = ask(rig, made_from("overdue")).await;
    for (job_id, _) in NEWER.iter().filter(|(job_id, _)| *job_id != "overdue") {
        rig.submit(made_from(job_id)).await;
    }
    rig.settled_as("unsent", JobStatus::AwaitingApproval).await;
    rig.control("paused", pause()).await;
    let sent = "select bool_and(delivery = 'sent') from longhaul.outbox where job_id = $1";
    rig.db.wait_until(sent, "unsent").await;
    let mut tx = rig.db.pool.begin().await.unwrap();
    for (job_id, assignments) in NEWER {
        let make = format!(
            "update longhaul.job set spec_version = 1000, {assignments} where job_id = '{job_id}'"
        );
        sqlx::query(sqlx::AssertSqlSafe(make)).execute(&mut *tx).await.unwrap();
    }
    for make in [
        "update longhaul.job_spec s set spec = '\"in another shape\"' from longhaul.job j
         where j.shard = s.shard and j.job_id = s.job_id and j.spec_version = 1000",
        // Older than whatever follows to the same person; one waits, and the sender of the other died.
        "update longhaul.outbox set delivery = case job_id when 'unsent' then 'pending' else 'sending' end,
           due_at = longhaul.now() - interval '1 hour' where job_id in ('unsent', 'overdue')",
    ] {
        sqlx::query(make).execute(&mut *tx).await.unwrap();
    }
    tx.commit().await.unwrap();
    links
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_of_a_newer_release_is_left_alone_and_stops_no_other() {
    let rig = Rig::start().await;
    make_newer(&rig).await;
    let before = everything(&rig).await;

    // Whatever moves jobs moves one of this release, too, and so has looked at those of the newer one.
    let (timeout_seconds, on_timeout) = (60, TimeoutPolicy::Fail.into());
    let expiring = ApprovalStep { timeout_seconds, on_timeout, ..ApprovalStep::default() };
    rig.submit(job("own-overdue", [approval_step(expiring)])).await;
    rig.submit(job("own-due", [wait(60), run("Write a due line.")])).await;
    rig.sandbox.hold("lost").await;
    rig.submit(job("own-lost", [run("Write a lost line.")])).await;
    rig.sandbox.wait_for("lost", "held", 1).await;
    rig.db.end_lease("own-lost").await;
    rig.event("own-lost", EventKind::AttemptLost).await;
    rig.sandbox.mend().await;
    rig.db.shift_clock(61).await;
    rig.event("own-overdue", EventKind::JobFailed).await;
    for job_id in ["own-due", "own-lost"] {
        rig.settled_as(job_id, JobStatus::Completed).await;
    }
    // Two requests before the change, then a request and three ends of this release's own.
    assert_eq!(rig.sandbox.messages(PERSON, 6).await.len(), 6);

    let database_url = rig.db.url.clone().into();
    let store =
        Store::connect(&StoreSettings { database_url, direct_url: None, connections_max: 2 })
            .await
            .unwrap();
    let sweeper = Sweeper::new(store.clone(), Duration::from_secs(1), Arc::default());
    assert_eq!(sweeper.run_once(Judging::Everybody).await, Swept::default());
    assert_eq!(store.take_notices(10, "", Duration::ZERO).await.unwrap().len(), 0);
    assert_eq!(store.judge_lost_notices().await.unwrap(), 0);
    assert_eq!(everything(&rig).await, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_of_a_newer_release_is_listed_and_else_clearly_refused() {
    let rig = Rig::start().await;
    let before_links = make_newer(&rig).await;
    rig.submit(job("own", [approval("Good?")])).await;
    let before = everything(&rig).await;
    // None of them was asked through this one, which therefore knows nothing of them.
    let other = rig.serve().await;
    let client = &other.client;

    let listed = rig.grpc.clone().list_jobs(ListJobsRequest::default()).await.unwrap();
    let mut listed = listed.into_inner().jobs;
    listed.sort_by(|a, b| a.job_id.cmp(&b.job_id));
    let names: Vec<&str> = listed.iter().map(|job| job.job_id.as_str()).collect();
    let mut expected: Vec<&str> = NEWER.iter().map(|(job_id, _)| *job_id).collect();
    expected.push("own");
    expected.sort_unstable();
    assert_eq!(names, expected);
    for (job_id, status, reason) in [
        ("novel", JobStatus::Queued, ""),
        ("lost", JobStatus::Running, "WAITING"),
        ("overdue", JobStatus::AwaitingApproval, ""),
        ("paused", JobStatus::Paused, ""),
    ] {
        let job = listed.iter().find(|job| job.job_id == job_id).unwrap();
        assert_eq!((job.status(), job.reason.as_str()), (status, reason), "{job_id}");
        assert!(job.created_at.is_some() && job.current_step > 0, "{job:?}");
    }

    let refused = |told: Told| {
        assert_eq!(
            (told.code, told.reason.as_str()),
            (Code::FailedPrecondition, "SPEC_VERSION_UNKNOWN")
        );
    };
    for (job_id, _) in NEWER {
        for action in
            [pause(), pause_now(), resume(), cancel(), retry(1), approve(), reject(), status()]
        {
            refused(Told::by(client.try_control(job_id, action).await));
        }
        refused(Told::by(client.try_submit(made_from(job_id)).await));
        for after in [None, Some(0)] {
            refused(Told::by(client.try_watch(job_id, after).await.map(|_| ())));
        }
        for action in ["status", "approve", "pause"] {
            let (code, answer) = client.post_action(job_id, action).await;
            assert_eq!(
                (code, &answer["reason"]),
                (409, &json!("SPEC_VERSION_UNKNOWN")),
                "{answer}"
            );
        }
    }
    let told = Told::by(rig.try_submit(job("due", [run("Something else.")])).await);
    assert_eq!(told.reason, "JOB_ID_CONFLICT");
    for link in [&before_links.approve, &before_links.reject] {
        let answer = rig.http.get(link).send().await.unwrap();
        assert_eq!(answer.status(), 503, "the next try may meet a newer server");
        assert!(answer.headers().contains_key("retry-after"));
        let form = "approval_id=x&verdict=approve";
        let kind = "application/x-www-form-urlencoded";
        let press = rig.http.post(link).header("content-type", kind).body(form);
        assert_eq!(press.send().await.unwrap().status(), 503);
    }
    assert_eq!(everything(&rig).await, before);
    assert!(rig.control("own", approve()).await);
    let _ = links(&rig.sandbox, PERSON, 1).await;
}

fn status() -> Action {
    Action::Status(longhaul::rpc::proto::StatusAction {})
}
