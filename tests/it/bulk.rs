//! Bulk control: one action on all jobs that a selector picks, page by page, without a bad one stopping the others.

use std::collections::HashMap;
use std::time::Duration;

use futures::future::join_all;
use futures::stream::{self, StreamExt as _};
use longhaul::rpc::proto::{
    CancelAction, ControlJobsRequest, ControlJobsResponse, EventKind, JobSelector, JobSettings,
    JobStatus, PauseAction, ResumeAction, RetryAction, SubmitJobRequest,
    control_jobs_request::Action,
};
use prost_types::Timestamp;
use serde_json::{Value, json};
use tonic::{Code, Request, Status};

use crate::harness::{PERSON, Rig, Told, approval, job, pause, run, wait, with};
use crate::receiver::{Book, Receiver, SECRET};

fn cancel() -> Action {
    Action::Cancel(CancelAction::default())
}

fn retry(from_step: i32) -> Action {
    Action::Retry(RetryAction { from_step })
}

/// Jobs with this label.
fn team(name: &str) -> JobSelector {
    let labels = HashMap::from([("team".to_owned(), name.to_owned())]);
    JobSelector { labels, ..JobSelector::default() }
}

fn in_status(status: JobStatus) -> JobSelector {
    JobSelector { statuses: vec![status.into()], ..JobSelector::default() }
}

fn of_team(name: &str, job: SubmitJobRequest) -> SubmitJobRequest {
    with(JobSettings { labels: team(name).labels, ..JobSettings::default() }, job)
}

fn asks(selector: JobSelector, action: Action) -> ControlJobsRequest {
    let (selector, action) = (Some(selector), Some(action));
    ControlJobsRequest { selector, action, ..ControlJobsRequest::default() }
}

async fn try_bulk(rig: &Rig, request: ControlJobsRequest) -> Result<ControlJobsResponse, Status> {
    Ok(rig.grpc.clone().control_jobs(request).await?.into_inner())
}

async fn bulk(rig: &Rig, request: ControlJobsRequest) -> ControlJobsResponse {
    try_bulk(rig, request).await.unwrap()
}

/// What one call did: how many matched, were changed and were refused.
async fn did(rig: &Rig, request: ControlJobsRequest) -> (i32, i32, i32) {
    let answer = bulk(rig, request).await;
    assert_eq!((answer.more, answer.next_page_token.as_str()), (false, ""));
    (answer.matched, answer.changed, answer.refused)
}

/// Call after call until there is no more; answers each.
async fn all_pages(rig: &Rig, mut request: ControlJobsRequest) -> Vec<ControlJobsResponse> {
    let mut answers = Vec::new();
    loop {
        let answer = bulk(rig, request.clone()).await;
        request.page_token.clone_from(&answer.next_page_token);
        assert_eq!(answer.more, !answer.next_page_token.is_empty());
        let more = answer.more;
        answers.push(answer);
        if !more {
            return answers;
        }
    }
}

/// Everything that is stored of jobs and what people are told, as one hash.
async fn everything(rig: &Rig) -> String {
    let read = "select md5(
        (select string_agg(j::text, '|' order by j.job_id) from longhaul.job j)
        || (select string_agg(e::text, '|' order by e.job_id, e.sequence) from longhaul.event e)
        || (select coalesce(string_agg(o::text, '|' order by o.notice_id), '') from longhaul.outbox o)
        || (select count(*)::text from longhaul.control_request))";
    sqlx::query_scalar(read).fetch_one(&rig.db.pool).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn two_thousand_jobs_in_mixed_states_end_page_by_page_while_executors_run_them() {
    let rig = Rig::start_with(&[("LONGHAUL_NOTIFY", "")]).await;
    let submit = |number: usize| {
        let steps = match number % 5 {
            0 => vec![wait(3600)],
            1 => vec![approval("Well?")],
            2 => vec![wait(0)],
            3 => vec![run("Write a line."), run("Write another line."), wait(3600)],
            _ => vec![run("Write a line."), approval("Well?"), run("Write more.")],
        };
        let request = of_team("mixed", job(&format!("mixed-{number:04}"), steps));
        let rig = &rig;
        async move { rig.submit(request).await }
    };
    stream::iter((0..2000).map(submit)).buffer_unordered(64).for_each(|_| async {}).await;
    let others = (0..5)
        .map(|number| rig.submit(of_team("others", job(&format!("other-{number}"), [wait(3600)]))));
    join_all(others).await;
    for number in (0..200).step_by(5) {
        rig.control(&format!("mixed-{number:04}"), pause()).await;
    }
    // The third that ended by themselves are none of its business; the rest runs, waits and asks meanwhile.
    let answers =
        all_pages(&rig, ControlJobsRequest { page_size: 300, ..asks(team("mixed"), cancel()) });
    let answers = answers.await;
    let sum = |of: fn(&ControlJobsResponse) -> i32| answers.iter().map(of).sum::<i32>();
    assert_eq!(
        (sum(|one| one.matched), sum(|one| one.changed), sum(|one| one.refused)),
        (1600, 1600, 0)
    );
    assert!(answers.len() >= 6 && answers.iter().all(|one| one.matched <= 300), "{answers:?}");
    let by_status = "select string_agg(status || ' ' || count, ', ' order by status) from (
        select status, count(*) from longhaul.job where job_id like 'mixed-%' group by status) s";
    let by_status: String = sqlx::query_scalar(by_status).fetch_one(&rig.db.pool).await.unwrap();
    assert_eq!(by_status, "cancelled 1600, completed 400");
    // Each of them was cancelled once, and none of the others was touched.
    let twice =
        "select count(*) from (select job_id from longhaul.event where kind = 'job_cancelled'
        group by job_id having count(*) > 1) t";
    assert_eq!(rig.db.number(twice).await, 0);
    let others =
        "select count(*) from longhaul.job where job_id like 'other-%' and status = 'queued'";
    assert_eq!(rig.db.number(others).await, 5);
    // It has come to an end: what is as it should be does not match again.
    assert_eq!(did(&rig, asks(team("mixed"), cancel())).await, (0, 0, 0));
    // Calls in flight were aborted, and nothing is asked of the model any more.
    let open = "select bool_and(outcome <> 'started') and $1 <> '' from longhaul.model_call";
    rig.db.wait_until(open, "any").await;
    let after =
        "select count(*) from longhaul.model_call c join longhaul.job j using (shard, job_id)
        where c.started_at > j.finished_at";
    assert_eq!(rig.db.number(after).await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn each_action_takes_the_jobs_it_has_something_to_do_to() {
    let rig = Rig::start().await;
    rig.sandbox.hold("first").await;
    rig.submit(of_team("a", job("runs", [run("Write the first line."), wait(3600)]))).await;
    rig.sandbox.wait_for("first", "held", 1).await;
    rig.submit(of_team("a", job("waits", [wait(3600)]))).await;
    rig.submit(of_team("a", job("asks", [approval("Well?")]))).await;
    rig.submit(of_team("a", job("done", [wait(0)]))).await;
    let soft = || asks(team("a"), Action::Pause(PauseAction { now: false }));
    assert_eq!(did(&rig, soft()).await, (3, 3, 0));
    // What is paused, or is to be, does not match again.
    assert_eq!(did(&rig, soft()).await, (0, 0, 0));
    assert!(rig.job("runs").await.pause_requested);
    // But it can be paused at once.
    let hard = || asks(team("a"), Action::Pause(PauseAction { now: true }));
    assert_eq!(did(&rig, hard()).await, (1, 1, 0));
    rig.sandbox.mend().await;
    let resume = |budget_usd: &str| {
        let budget_usd = budget_usd.to_owned();
        asks(team("a"), Action::Resume(ResumeAction { budget_usd }))
    };
    assert_eq!(did(&rig, resume("")).await, (3, 3, 0));
    assert_eq!(did(&rig, resume("")).await, (0, 0, 0));
    // A budget is for all that have not ended, and once.
    assert_eq!(did(&rig, resume("1.50")).await, (3, 3, 0));
    assert_eq!(did(&rig, resume("1.5")).await, (0, 0, 0));
    assert_eq!(rig.job("asks").await.budget_usd, "1.5");
    assert_eq!(did(&rig, asks(team("a"), retry(0))).await, (0, 0, 0));
    assert_eq!(did(&rig, asks(team("a"), cancel())).await, (3, 3, 0));
    assert_eq!(did(&rig, asks(team("a"), retry(0))).await, (3, 3, 0));
    assert_eq!(rig.job("asks").await.status(), JobStatus::AwaitingApproval);
    assert_eq!(rig.job("done").await.revision, 1);
    // The history says who it was.
    assert_eq!(rig.event("asks", EventKind::JobCancelled).await.actor, "client");
}

#[tokio::test(flavor = "multi_thread")]
async fn statuses_labels_and_the_time_of_submission_pick_together() {
    let rig = Rig::start().await;
    let mut born = Vec::new();
    for (number, name) in ["a", "a", "b", "a"].iter().enumerate() {
        let request = of_team(name, job(&format!("job-{number}"), [wait(3600)]));
        born.push(rig.submit(request).await.job.unwrap().created_at.unwrap());
    }
    assert!(rig.control("job-3", pause()).await);
    let span = |from: Timestamp, before: Timestamp| JobSelector {
        created_from: Some(from),
        created_before: Some(before),
        ..in_status(JobStatus::Queued)
    };
    let both = JobSelector { labels: team("a").labels, ..span(born[1], born[3]) };
    assert_eq!(did(&rig, asks(both, cancel())).await, (1, 1, 0));
    assert_eq!(rig.job("job-1").await.status(), JobStatus::Cancelled);
    // From belongs to the span, before does not.
    assert_eq!(did(&rig, asks(span(born[0], born[2]), cancel())).await, (1, 1, 0));
    assert_eq!(rig.job("job-0").await.status(), JobStatus::Cancelled);
    assert_eq!(did(&rig, asks(in_status(JobStatus::Paused), cancel())).await, (1, 1, 0));
    assert_eq!(rig.job("job-2").await.status(), JobStatus::Queued);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dry_run_counts_and_changes_nothing() {
    let rig = Rig::start_with(&[("LONGHAUL_SWEEP_MS", "60000")]).await;
    for number in 0..7 {
        rig.submit(of_team("a", job(&format!("job-{number}"), [wait(3600)]))).await;
    }
    rig.submit(of_team("a", job("done", [wait(0)]))).await;
    rig.db
        .wait_until("select bool_and(delivery = 'sent') and $1 <> '' from longhaul.outbox", "any")
        .await;
    let before = everything(&rig).await;
    for action in [cancel(), Action::Pause(PauseAction { now: true })] {
        let request = ControlJobsRequest {
            dry_run: true,
            silent: true,
            request_id: "once".to_owned(),
            page_size: 3,
            ..asks(team("a"), action)
        };
        // All there are, however many a call would try.
        assert_eq!(did(&rig, request).await, (7, 0, 0));
    }
    assert_eq!(everything(&rig).await, before);
    assert_eq!(did(&rig, asks(team("a"), cancel())).await, (7, 7, 0));
    assert_ne!(everything(&rig).await, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_silent_cancel_tells_nobody_and_says_so_in_the_history() {
    let receiver = Receiver::start().await;
    let every = "always = true\nevents = ['cancelled', 'paused', 'completed']";
    let book =
        format!("[endpoints.ops]\nurl = '{}/ops'\nsecret = '{SECRET}'\n{every}\n", receiver.url);
    let rig = Rig::start_with(&[Book::new(&book).variable()]).await;
    for name in ["silent", "loud"] {
        for number in 0..3 {
            rig.submit(of_team(name, job(&format!("{name}-{number}"), [wait(3600)]))).await;
        }
    }
    let why = || Action::Cancel(CancelAction { comment: "The launch is off.".to_owned() });
    let silent =
        |name: &str, action| ControlJobsRequest { silent: true, ..asks(team(name), action) };
    let quiet_pause = silent("silent", Action::Pause(PauseAction::default()));
    assert_eq!(did(&rig, quiet_pause).await, (3, 3, 0));
    assert_eq!(did(&rig, silent("silent", why())).await, (3, 3, 0));
    assert_eq!(did(&rig, asks(team("loud"), why())).await, (3, 3, 0));
    let messages = rig.sandbox.messages(PERSON, 3).await;
    let about = |one: &Value| one["biz_opaque_callback_data"].as_str().unwrap().contains(":loud-");
    assert!(messages.iter().all(about), "{messages:?}");
    let heard: Vec<String> = receiver.heard(3).await.iter().map(|one| one.about().1).collect();
    assert!(heard.iter().all(|job_id| job_id.starts_with("loud-")), "{heard:?}");
    // Nothing waits to be told either.
    let told = "select count(*) from longhaul.outbox where job_id like 'silent-%'";
    assert_eq!(rig.db.number(told).await, 0);
    let quiet = rig.event("silent-0", EventKind::JobCancelled).await.message;
    assert_eq!(quiet, "cancelled: The launch is off. (nobody was told)");
    let loud = rig.event("loud-0", EventKind::JobCancelled).await.message;
    assert_eq!(loud, "cancelled: The launch is off.");
    // Whoever is to decide is asked, however silently a job begins again.
    rig.submit(of_team("asks", job("asks", [approval("Well?")]))).await;
    rig.sandbox.messages(PERSON, 4).await;
    assert_eq!(did(&rig, silent("asks", cancel())).await, (1, 1, 0));
    assert_eq!(did(&rig, silent("asks", retry(0))).await, (1, 1, 0));
    rig.sandbox.messages(PERSON, 5).await;
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
    let all_failed = |events: i32| {
        format!(
            "select count(*) = {events} and $1 <> '' from longhaul.event where kind = 'job_failed'"
        )
    };
    let all_failed = [5, 10].map(|events| &*all_failed(events).leak());
    rig.db.wait_until(all_failed[0], "any").await;
    let request =
        ControlJobsRequest { request_id: "again".to_owned(), ..asks(team("a"), retry(0)) };
    assert_eq!(did(&rig, request.clone()).await, (5, 5, 0));
    rig.db.wait_until(all_failed[1], "any").await;
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
        (ControlJobsRequest { request_id, ..asks(team("a"), cancel()) }, vec!["request_id"]),
    ] {
        let told = Told::by(try_bulk(&rig, request.clone()).await);
        assert_eq!((told.code, told.reason.as_str()), (Code::InvalidArgument, "INVALID_REQUEST"));
        assert_eq!(told.fields, fields, "{request:?}");
    }
    assert_eq!(rig.job("stays").await.status(), JobStatus::Queued);
}
