//! Bulk control in trouble: bad jobs, locked jobs, lost answers, too little time, wrong requests and wrong keys.

use std::time::Duration;

use futures::stream::{self, StreamExt as _};
use longhaul::domain::key::{Key, KeyText, Scope};
use longhaul::rpc::proto::{
    CancelAction, ControlJobsRequest, ControlJobsResponse, JobSelector, JobStatus,
    control_jobs_request::Action,
};
use longhaul::store::key::NewKey;
use longhaul::store::{Store, StoreSettings};
use serde_json::json;
use tonic::{Code, Request};

use super::{all_pages, asks, cancel, did, in_status, of_team, retry, team, try_bulk};
use crate::harness::{Rig, Told, job, run, wait};

/// The request of somebody who shows a key.
fn with_key<T>(key: &str, message: T) -> Request<T> {
    let mut request = Request::new(message);
    request.metadata_mut().insert("authorization", format!("Bearer {key}").parse().unwrap());
    request
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_cannot_be_moved_is_named_and_stops_no_other() {
    let rig = Rig::start().await;
    rig.sandbox.break_model(json!({"status": 400, "matching": "fails"})).await;
    for number in 0..60 {
        let steps = if number % 3 == 0 {
            vec![run("This fails.")]
        } else {
            vec![wait(0), run("This fails.")]
        };
        rig.submit(of_team("a", job(&format!("job-{number:02}"), steps))).await;
    }
    let failed = "select count(*) = 60 and $1 <> '' from longhaul.job where status = 'failed'";
    rig.db.wait_until(failed, "any").await;
    // One is of a newer release.
    sqlx::query("update longhaul.job set spec_version = 99 where job_id = 'job-01'")
        .execute(&rig.db.pool)
        .await
        .unwrap();
    let request = ControlJobsRequest { page_size: 7, ..asks(team("a"), retry(2)) };
    let answers = all_pages(&rig, request).await;
    let refused: Vec<String> = answers.iter().flat_map(|one| one.refused_job_ids.clone()).collect();
    let mut expected: Vec<String> = (0..60).step_by(3).map(|n| format!("job-{n:02}")).collect();
    expected.insert(1, "job-01".to_owned());
    expected.reverse();
    assert_eq!(refused, expected, "newest first");
    let sum = |of: fn(&ControlJobsResponse) -> i32| answers.iter().map(of).sum::<i32>();
    // A job that failed again meanwhile was not tried again.
    assert_eq!(
        (sum(|one| one.matched), sum(|one| one.changed), sum(|one| one.refused)),
        (60, 39, 21)
    );
    let retried = "select count(*) from longhaul.event where kind = 'job_retried'";
    assert_eq!(rig.db.number(retried).await, 39);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_with_an_id_moves_no_job_twice() {
    let rig = Rig::start().await;
    rig.sandbox.break_model(json!({"status": 400, "matching": "fails"})).await;
    for number in 0..5 {
        rig.submit(of_team("a", job(&format!("job-{number}"), [run("This fails.")]))).await;
    }
    let all = [
        "select count(*) = 5 and $1 <> '' from longhaul.event where kind = 'job_failed'",
        "select count(*) = 10 and $1 <> '' from longhaul.event where kind = 'job_failed'",
    ];
    rig.db.wait_until(all[0], "any").await;
    let request =
        ControlJobsRequest { request_id: "again".to_owned(), ..asks(team("a"), retry(0)) };
    assert_eq!(did(&rig, request.clone()).await, (5, 5, 0));
    rig.db.wait_until(all[1], "any").await;
    // They failed again, and so they match again.
    assert_eq!(did(&rig, request.clone()).await, (5, 5, 0));
    assert_eq!(rig.db.number("select max(revision)::bigint from longhaul.job").await, 2);
    // For another action the id is taken.
    let other = ControlJobsRequest { silent: true, ..request };
    assert_eq!(did(&rig, other).await, (5, 0, 5));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_stops_in_time_and_the_next_goes_on() {
    let rig = Rig::start().await;
    let submit = |number: usize| {
        let request = of_team("a", job(&format!("job-{number:02}"), [wait(3600)]));
        let rig = &rig;
        async move { rig.submit(request).await }
    };
    stream::iter((0..90).map(submit)).buffered(1).for_each(|_| async {}).await;
    // Somebody holds the newest job for longer than half of the time that the client has.
    let mut tx = rig.db.pool.begin().await.unwrap();
    sqlx::query("select from longhaul.job where job_id = 'job-89' for update")
        .execute(&mut *tx)
        .await
        .unwrap();
    let hold = tokio::spawn(async move {
        sqlx::query("select pg_sleep(3)").execute(&mut *tx).await.unwrap();
        tx.rollback().await.unwrap();
    });
    let mut request = Request::new(asks(team("a"), cancel()));
    request.set_timeout(Duration::from_secs(5));
    let first = rig.grpc.clone().control_jobs(request).await.unwrap().into_inner();
    hold.await.unwrap();
    assert!(first.more && first.matched > 0 && first.matched < 90, "{first:?}");
    assert_eq!((first.changed, first.refused), (first.matched, 0));
    let page_token = first.next_page_token;
    let rest = ControlJobsRequest { page_token, ..asks(team("a"), cancel()) };
    let left = 90 - first.matched;
    assert_eq!(did(&rig, rest).await, (left, left, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lone_job_that_somebody_holds_is_refused_and_the_database_is_not_blamed() {
    let rig = Rig::start().await;
    rig.submit(of_team("a", job("held", [wait(3600)]))).await;
    let mut tx = rig.db.pool.begin().await.unwrap();
    sqlx::raw_sql("select from longhaul.job for update").execute(&mut *tx).await.unwrap();
    assert_eq!(did(&rig, asks(team("a"), cancel())).await, (1, 0, 1));
    tx.rollback().await.unwrap();
    assert_eq!(did(&rig, asks(team("a"), cancel())).await, (1, 1, 0));
}

fn ended_only() -> JobSelector {
    in_status(JobStatus::Completed)
}

#[tokio::test(flavor = "multi_thread")]
async fn what_would_mean_all_jobs_or_nothing_is_refused_by_field() {
    let rig = Rig::start().await;
    rig.submit(job("stays", [wait(3600)])).await;
    let statuses = vec![JobStatus::Queued.into(), JobStatus::Completed.into()];
    let ended = JobSelector { statuses, ..JobSelector::default() };
    let page = |page_size, page_token: &str| ControlJobsRequest {
        page_size,
        page_token: page_token.to_owned(),
        ..asks(team("a"), cancel())
    };
    let comment = "x".repeat(4097);
    let long = Action::Cancel(CancelAction { comment });
    let request_id = " spaced".to_owned();
    for (request, fields) in [
        (asks(JobSelector::default(), cancel()), vec!["selector"]),
        (ControlJobsRequest { selector: None, ..asks(team("a"), cancel()) }, vec!["selector"]),
        (ControlJobsRequest { action: None, ..asks(team("a"), cancel()) }, vec!["action"]),
        (asks(ended, cancel()), vec!["selector.statuses[1]"]),
        (asks(in_status(JobStatus::Queued), retry(0)), vec!["selector.statuses[0]"]),
        (asks(team("a"), retry(-1)), vec!["retry.from_step"]),
        (asks(team("a"), long), vec!["cancel.comment"]),
        (page(-1, "not ours"), vec!["page_size", "page_token"]),
        (
            ControlJobsRequest { request_id: request_id.clone(), ..asks(ended_only(), cancel()) },
            vec!["selector.statuses[0]", "request_id"],
        ),
        (ControlJobsRequest { request_id, ..asks(team("a"), cancel()) }, vec!["request_id"]),
    ] {
        let told = Told::by(try_bulk(&rig, request.clone()).await);
        assert_eq!((told.code, told.reason.as_str()), (Code::InvalidArgument, "INVALID_REQUEST"));
        assert_eq!(told.fields, fields, "{request:?}");
    }
    assert_eq!(rig.job("stays").await.status(), JobStatus::Queued);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_needs_the_scope_control_and_its_name_is_in_the_history() {
    let rig = Rig::without_server(&[]).await;
    let settings = StoreSettings {
        database_url: rig.db.url.clone().into(),
        direct_url: None,
        connections_max: 2,
    };
    let store = Store::connect(&settings).await.unwrap();
    let url = rig.db.url.clone();
    let mut shown = Vec::new();
    for (name, scope) in
        [("reader", Scope::Read), ("mover", Scope::Control), ("sender", Scope::Submit)]
    {
        let text = KeyText::mint(&mut rand::rng());
        let (scopes, name) = ([scope].into_iter().collect(), name.to_owned());
        let (requests_per_second, requests_max) = (None, None);
        let key = Key { key_id: text.key_id(), name, scopes, requests_per_second, requests_max };
        let new = NewKey { key, hash: text.hash(), lifetime: None };
        assert!(store.create_key(&new).await.unwrap());
        shown.push(text.reveal().to_owned());
    }
    let rig = rig.start_at(&url).await;
    let [reader, mover, sender] = &shown[..] else { unreachable!("three") };
    let submitted = of_team("a", job("moved", [wait(3600)]));
    rig.grpc.clone().submit_job(with_key(sender, submitted)).await.unwrap();
    let mut grpc = rig.grpc.clone();
    let refused = grpc.control_jobs(with_key(reader, asks(team("a"), cancel()))).await;
    let told = Told::by(refused);
    assert_eq!((told.code, told.reason.as_str()), (Code::PermissionDenied, "SCOPE_REQUIRED"));
    let moved = grpc.control_jobs(with_key(mover, asks(team("a"), cancel()))).await.unwrap();
    assert_eq!(moved.into_inner().changed, 1);
    let actor = "select actor = 'key:mover' from longhaul.event where job_id = $1 and kind = 'job_cancelled'";
    rig.db.wait_until(actor, "moved").await;
}
