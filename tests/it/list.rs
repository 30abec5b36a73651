//! Lists: pages that are stable while jobs are added, and selectors of which everything must match.

use std::collections::HashMap;

use longhaul::rpc::proto::{
    JobSelector, JobSettings, JobStatus, ListJobsRequest, ListJobsResponse,
};
use tonic::{Code, Status};

use crate::harness::{Rig, Told, cancel, job, run, wait, with};

async fn try_list(rig: &Rig, request: ListJobsRequest) -> Result<ListJobsResponse, Status> {
    Ok(rig.grpc.clone().list_jobs(request).await?.into_inner())
}

/// The ids of all jobs that a selector picks, newest first.
async fn ids(rig: &Rig, selector: JobSelector) -> Vec<String> {
    let request = ListJobsRequest { selector: Some(selector), ..ListJobsRequest::default() };
    let page = try_list(rig, request).await.unwrap();
    assert_eq!(page.next_page_token, "");
    page.jobs.into_iter().map(|job| job.job_id).collect()
}

fn labels(labels: &[(&str, &str)]) -> HashMap<String, String> {
    labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_are_stable_while_jobs_are_added() {
    let rig = Rig::start().await;
    let mut expected: Vec<String> = (0..120).map(|number| format!("job-{number:03}")).collect();
    for job_id in &expected {
        rig.submit(job(job_id, [wait(3600)])).await;
    }
    expected.reverse();
    let (mut listed, mut token) = (Vec::new(), String::new());
    loop {
        let request = ListJobsRequest { page_size: 50, page_token: token, ..Default::default() };
        let page = try_list(&rig, request).await.unwrap();
        assert!(page.jobs.iter().all(|job| job.steps.is_empty() && job.output.is_empty()));
        listed.extend(page.jobs.into_iter().map(|job| job.job_id));
        token = page.next_page_token;
        if token.is_empty() {
            break;
        }
        rig.submit(job(&format!("new-{}", listed.len()), [wait(3600)])).await;
    }
    assert_eq!(listed, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_has_a_default_and_a_largest_size() {
    let rig = Rig::start().await;
    for number in 0..202 {
        rig.submit(job(&number.to_string(), [wait(0)])).await;
    }
    for (page_size, expected) in [(0, 50), (1, 1), (200, 200), (1000, 200), (i32::MAX, 200)] {
        let request = ListJobsRequest { page_size, ..ListJobsRequest::default() };
        let page = try_list(&rig, request).await.unwrap();
        assert_eq!(page.jobs.len(), expected, "{page_size}");
        assert_ne!(page.next_page_token, "");
    }
    // A page that ends exactly with the last job is the last.
    let request = ListJobsRequest { page_size: 101, ..ListJobsRequest::default() };
    let first = try_list(&rig, request.clone()).await.unwrap();
    let rest = ListJobsRequest { page_token: first.next_page_token, ..request };
    let rest = try_list(&rig, rest).await.unwrap();
    assert_eq!((rest.jobs.len(), rest.next_page_token.as_str()), (101, ""));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_selector_picks_by_status_and_by_all_labels() {
    let rig = Rig::start().await;
    for (job_id, given, steps) in [
        ("waits", labels(&[("team", "a"), ("kind", "copy")]), wait(3600)),
        ("done", labels(&[("team", "a")]), wait(0)),
        ("gone", labels(&[("team", "b"), ("kind", "copy")]), wait(3600)),
        ("written", HashMap::new(), run("Write a line.")),
    ] {
        let settings = JobSettings { labels: given, ..JobSettings::default() };
        rig.submit(with(settings, job(job_id, [steps]))).await;
    }
    assert!(rig.control("gone", cancel()).await);
    rig.settled_as("written", JobStatus::Completed).await;
    let by = |statuses: &[JobStatus], wanted: &[(&str, &str)]| {
        let statuses = statuses.iter().map(|status| i32::from(*status)).collect();
        JobSelector { statuses, labels: labels(wanted), ..JobSelector::default() }
    };
    let (queued, completed) = (JobStatus::Queued, JobStatus::Completed);
    for (selector, expected) in [
        (by(&[], &[]), vec!["written", "gone", "done", "waits"]),
        (by(&[completed], &[]), vec!["written", "done"]),
        (by(&[queued, JobStatus::Cancelled], &[]), vec!["gone", "waits"]),
        (by(&[], &[("team", "a")]), vec!["done", "waits"]),
        (by(&[], &[("kind", "copy")]), vec!["gone", "waits"]),
        (by(&[], &[("team", "a"), ("kind", "copy")]), vec!["waits"]),
        (by(&[completed], &[("team", "a")]), vec!["done"]),
        (by(&[], &[("team", "c")]), vec![]),
        (by(&[JobStatus::Failed], &[]), vec![]),
    ] {
        assert_eq!(ids(&rig, selector.clone()).await, expected, "{selector:?}");
    }
    let written = try_list(&rig, ListJobsRequest::default()).await.unwrap().jobs.remove(0);
    let whole = rig.job("written").await;
    assert_eq!(written.cost_usd, whole.cost_usd);
    assert_eq!((written.usage, written.updated_at), (whole.usage, whole.updated_at));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bad_page_is_refused_and_says_why() {
    let rig = Rig::start().await;
    let plain = ListJobsRequest::default();
    let selector = JobSelector { statuses: vec![0, 99], ..JobSelector::default() };
    for (request, fields) in [
        (ListJobsRequest { page_size: -1, ..plain.clone() }, vec!["page_size"]),
        (
            ListJobsRequest { page_token: "not ours".to_owned(), ..plain.clone() },
            vec!["page_token"],
        ),
        (
            ListJobsRequest { selector: Some(selector), ..plain },
            vec!["selector.statuses[0]", "selector.statuses[1]"],
        ),
    ] {
        let told = Told::by(try_list(&rig, request).await);
        assert_eq!((told.code, told.reason.as_str()), (Code::InvalidArgument, "INVALID_REQUEST"));
        assert_eq!(told.fields, fields);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_goes_on_after_jobs_that_cannot_be_shown() {
    let rig = Rig::start().await;
    for job_id in ["old", "novel-1", "mid", "novel-2", "novel-3"] {
        rig.submit(job(job_id, [wait(3600)])).await;
    }
    // As a newer release might leave them, whose statuses this one does not know.
    let make = "do $$ declare check_name text; begin
          for check_name in select conname from pg_constraint where conrelid = 'longhaul.job'::regclass
            and contype = 'c' loop execute format('alter table longhaul.job drop constraint %I', check_name); end loop;
        end $$;
        update longhaul.job set spec_version = 1000, status = 'dreaming' where job_id like 'novel%'";
    sqlx::raw_sql(make).execute(&rig.db.pool).await.unwrap();
    for page_size in [1, 2, 5] {
        let (mut listed, mut token) = (Vec::new(), String::new());
        loop {
            let page_token = token.clone();
            let request = ListJobsRequest { page_size, page_token, ..ListJobsRequest::default() };
            let page = try_list(&rig, request).await.unwrap();
            listed.extend(page.jobs.into_iter().map(|job| job.job_id));
            token = page.next_page_token;
            if token.is_empty() {
                break;
            }
        }
        assert_eq!(listed, ["mid", "old"], "{page_size}");
    }
}
