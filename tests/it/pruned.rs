//! Pruned jobs: what is told of them at every door, and what still counts them.

use longhaul::rpc::proto::{
    EventKind, GetJobRequest, GetUsageRequest, JobSelector, JobSettings, JobStatus,
    ListJobsRequest, RunStep, TruncationPolicy, UsageGrouping, UsageRow,
    watch_job_response::Content,
};
use prost_types::Timestamp;
use serde_json::json;
use tonic::{Code, Status};

use crate::harness::{
    Client, PERSON, Process, Rig, Told, approval, approve, cancel, job, links, pause, retry, run,
    run_step, wait, with,
};
use crate::prune::{DAY, KEPT, see_pruned};

async fn try_job(client: &Client, job_id: &str) -> Result<(), Status> {
    let request = GetJobRequest { job_id: job_id.to_owned(), ..GetJobRequest::default() };
    client.grpc.clone().get_job(request).await.map(|_job| ())
}

/// Every line of a report since a fixed day.
async fn usage(rig: &Rig, group_by: UsageGrouping, selector: &JobSelector) -> Vec<UsageRow> {
    let from_at = Some(Timestamp { seconds: 1_700_000_000, nanos: 0 });
    let request = GetUsageRequest {
        from_at,
        group_by: group_by.into(),
        selector: Some(selector.clone()),
        label_key: if group_by == UsageGrouping::Label { "team".to_owned() } else { String::new() },
        ..GetUsageRequest::default()
    };
    let report = rig.grpc.clone().get_usage(request).await.unwrap().into_inner();
    report.rows.into_iter().chain(report.total).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pruned_job_is_told_as_such_at_every_door() {
    let kept = [("LONGHAUL_KEEP_COMPLETED_DAYS", "30"), ("LONGHAUL_KEEP_CANCELLED_DAYS", "30")];
    let rig = Rig::start_with(&kept).await;
    let labels = [("team".to_owned(), "a".to_owned())].into();
    let settings = JobSettings { labels, ..JobSettings::default() };
    let request = with(settings, job("gone", [approval("Well?"), run("Write.")]));
    rig.submit(request.clone()).await;
    let message = rig.sandbox.messages(PERSON, 1).await.remove(0);
    rig.control("gone", approve()).await;
    let before = rig.settled_as("gone", JobStatus::Completed).await;
    rig.sandbox.messages(PERSON, 2).await;
    rig.db.shift_clock(31 * DAY).await;
    see_pruned(&rig.db, &["gone"]).await;

    let again = rig.submit(request.clone()).await;
    let found = again.job.unwrap();
    assert!(!again.created && again.warnings[0].contains("pruned"), "{:?}", again.warnings);
    assert_eq!((found.status(), found.finished_at), (JobStatus::Completed, before.finished_at));
    assert_eq!((found.created_at, &found.labels), (before.created_at, &before.labels));
    assert_eq!((found.task.as_str(), found.output.as_str(), found.steps.len()), ("", "", 0));
    let other = Told::by(rig.try_submit(job("gone", [run("Another.")])).await);
    assert_eq!((other.code, other.reason.as_str()), (Code::AlreadyExists, "JOB_ID_CONFLICT"));

    let told = Told::by(try_job(&rig, "gone").await);
    assert_eq!((told.code, told.reason.as_str()), (Code::NotFound, "JOB_PRUNED"));
    assert_eq!(told.metadata["status"], "JOB_STATUS_COMPLETED");
    assert!(told.metadata["finished_at"].starts_with("20"), "{told:?}");
    for action in [retry(0), cancel(), approve(), pause()] {
        let told = Told::by(rig.try_control("gone", action.clone()).await);
        assert_eq!((told.code, told.reason.as_str()), (Code::NotFound, "JOB_PRUNED"));
        let told = Told::by(rig.try_control_once("gone", "again", action).await);
        assert_eq!(told.reason, "JOB_PRUNED");
    }
    for (after, code) in
        [(None, Code::NotFound), (Some(0), Code::OutOfRange), (Some(99), Code::OutOfRange)]
    {
        let told = Told::by(rig.try_watch("gone", after).await);
        let reason = if after.is_some() { "SEQUENCE_OUT_OF_RANGE" } else { "JOB_PRUNED" };
        assert_eq!((told.code, told.reason.as_str()), (code, reason), "{after:?}");
    }
    let unknown = Told::by(try_job(&rig, "never").await);
    assert_eq!(unknown.reason, "JOB_NOT_FOUND");

    let (code, answer) = rig.post_action("gone", "status").await;
    assert_eq!(
        (code, &answer["reason"], &answer["status"]),
        (404, &json!("JOB_PRUNED"), &json!("completed"))
    );
    assert!(answer["hint"].as_str().unwrap().contains("another job_id"), "{answer}");
    let (code, answer) = rig
        .post_job(
            &json!({"job_id": "gone", "task": "x", "steps": [{"type": "run", "prompt": "y"}]}),
        )
        .await;
    assert_eq!((code, &answer["reason"]), (409, &json!("JOB_ID_CONFLICT")));
    // As one that never was: nothing tells a stranger that there was a job.
    for link in links(&message) {
        let page = rig.http.get(&link).send().await.unwrap();
        assert_eq!(page.status(), 404, "{}", page.text().await.unwrap());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_webhook_answers_a_repeated_submit_of_a_pruned_job_with_how_it_ended() {
    let rig = Rig::start_with(&KEPT).await;
    let body =
        json!({"job_id": "gone", "task": "T", "steps": [{"type": "run", "prompt": "Write."}]});
    assert_eq!(rig.post_job(&body).await.0, 200);
    rig.settled_as("gone", JobStatus::Completed).await;
    rig.db.shift_clock(31 * DAY).await;
    see_pruned(&rig.db, &["gone"]).await;
    let (code, answer) = rig.post_job(&body).await;
    assert_eq!(
        (code, &answer["created"], &answer["status"]),
        (200, &json!(false), &json!("completed")),
        "{answer}"
    );
    assert!(answer["warnings"][0].as_str().unwrap().contains("pruned"), "{answer}");
    assert_eq!(rig.db.job_count().await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_that_has_not_seen_the_end_is_told_that_its_job_was_pruned() {
    let rig = Rig::without_server(&KEPT).await;
    let (first, other) = (Process::serve(&rig, &[]).await, Process::serve(&rig, &[]).await);
    first.client.submit(job("watched", [wait(3600)])).await;
    let mut watch = first.client.try_watch("watched", None).await.unwrap();
    let message = watch.message().await.unwrap().unwrap();
    assert!(matches!(message.content, Some(Content::Snapshot(_))));
    first.freeze();
    other.client.control("watched", cancel()).await;
    rig.db.shift_clock(DAY).await;
    see_pruned(&rig.db, &["watched"]).await;
    first.thaw();
    let told = Told::from(&watch.message().await.unwrap_err());
    assert_eq!((told.code, told.reason.as_str()), (Code::NotFound, "JOB_PRUNED"));
    assert_eq!(told.metadata["status"], "JOB_STATUS_CANCELLED");
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_are_stable_while_jobs_are_pruned() {
    let rig = Rig::start_with(&KEPT).await;
    let mut expected = Vec::new();
    for number in (0..30).rev() {
        expected.push(format!("job-{number:02}"));
    }
    for job_id in expected.iter().rev() {
        // Every other one is cancelled, and goes first.
        let is_even = job_id.ends_with(['0', '2', '4', '6', '8']);
        rig.submit(job(job_id, [wait(if is_even { 3600 } else { 0 })])).await;
        if is_even {
            rig.control(job_id, cancel()).await;
        }
    }
    let page = async |token: &str| {
        let request =
            ListJobsRequest { page_size: 10, page_token: token.to_owned(), ..Default::default() };
        let page = rig.grpc.clone().list_jobs(request).await.unwrap().into_inner();
        let ids: Vec<String> = page.jobs.into_iter().map(|job| job.job_id).collect();
        (ids, page.next_page_token)
    };
    let (first, token) = page("").await;
    assert_eq!(first, expected[..10]);
    rig.db.shift_clock(DAY).await;
    see_pruned(&rig.db, &["job-00", "job-28"]).await;
    rig.db.wait_until("select count(*) = 15 and $1 <> '' from longhaul.job", "any").await;
    let (mut rest, token) = page(&token).await;
    assert_eq!(token, "");
    rest.insert(0, first.last().unwrap().clone());
    let left: Vec<&String> = expected[9..]
        .iter()
        .filter(|id| !id.ends_with(['0', '2', '4', '6', '8']) || *id == &expected[9])
        .collect();
    assert_eq!(rest.iter().collect::<Vec<_>>(), left);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_ledger_counts_pruned_jobs_as_before_and_keeps_no_text() {
    let rig = Rig::start_with(&KEPT).await;
    for (job_id, team) in [("one", "a"), ("two", "b"), ("three", "a"), ("cut", "b")] {
        let labels = [("team".to_owned(), team.to_owned())].into();
        let settings = JobSettings { labels, ..JobSettings::default() };
        let mut step = RunStep { prompt: "Write a line.".to_owned(), ..RunStep::default() };
        if job_id == "cut" {
            (step.max_tokens, step.on_truncated) = (3, TruncationPolicy::Fail.into());
        }
        let ended = if job_id == "cut" { JobStatus::Failed } else { JobStatus::Completed };
        rig.submit(with(settings, job(job_id, [run_step(step)]))).await;
        rig.settled_as(job_id, ended).await;
    }
    let submitted_at = rig.job("two").await.created_at;
    let whole = JobSelector::default();
    let labels = [("team".to_owned(), "a".to_owned())].into();
    let selectors = [
        JobSelector { statuses: vec![JobStatus::Failed.into()], ..whole.clone() },
        JobSelector { labels, ..whole.clone() },
        JobSelector { created_from: submitted_at, ..whole.clone() },
        JobSelector { created_before: submitted_at, ..whole.clone() },
    ];
    let mut questions: Vec<(UsageGrouping, JobSelector)> =
        [UsageGrouping::Label, UsageGrouping::Model, UsageGrouping::Day]
            .map(|grouping| (grouping, whole.clone()))
            .into();
    questions.extend(selectors.into_iter().map(|selector| (UsageGrouping::Job, selector)));
    let mut before = Vec::new();
    for (grouping, selector) in &questions {
        before.push(usage(&rig, *grouping, selector).await);
    }
    // Each report has its rows and their sum.
    let counts: Vec<usize> = before.iter().map(|rows| rows.len() - 1).collect();
    assert_eq!(counts[3..], [1, 2, 3, 1], "{before:?}");
    let texts = "select count(*) from longhaul.model_call where partial_output is not null";
    assert!(rig.db.number(texts).await > 0);
    rig.db.shift_clock(61 * DAY).await;
    see_pruned(&rig.db, &["one", "two", "three", "cut"]).await;
    for ((grouping, selector), before) in questions.iter().zip(before) {
        assert_eq!(usage(&rig, *grouping, selector).await, before, "{grouping:?} {selector:?}");
    }
    let texts = "select count(*) from longhaul.model_call
      where partial_output is not null or error is not null";
    assert_eq!(rig.db.number(texts).await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_call_that_is_settled_after_its_job_was_pruned_brings_no_text_back() {
    let rig = Rig::without_server(&[&KEPT[..], &[("LONGHAUL_LEASE_SECONDS", "2")]].concat()).await;
    let first = Process::serve(&rig, &[]).await;
    rig.sandbox.break_model(json!({"matching": "long", "hold_after_events": 6})).await;
    first.client.submit(job("cut", [run("Write a long story.")])).await;
    let noted = "select length(partial_output) > 0 from longhaul.model_call where job_id = $1";
    rig.db.wait_until(noted, "cut").await;
    first.freeze();
    let other = Process::serve(&rig, &[]).await;
    other.client.event("cut", EventKind::AttemptLost).await;
    other.client.control("cut", cancel()).await;
    let at_rest = "select bool_and(outcome not in ('started', 'batched'))
      from longhaul.model_call where job_id = $1";
    rig.db.wait_until(at_rest, "cut").await;
    rig.db.shift_clock(DAY).await;
    see_pruned(&rig.db, &["cut"]).await;
    assert_eq!(rig.db.outcomes("cut").await[0].1, "lost");
    first.thaw();
    rig.sandbox.mend().await;
    let settled = "select bool_and(outcome <> 'lost') from longhaul.model_call where job_id = $1";
    rig.db.wait_until(settled, "cut").await;
    let texts = "select count(*) from longhaul.model_call
      where partial_output is not null or error is not null";
    assert_eq!(rig.db.number(texts).await, 0);
}
