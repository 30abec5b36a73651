//! Pages: no job twice and none left out whatever happens meanwhile, small enough for every client, quick beside many.
//!
//! What is many is made by copying a job in the tables, since a hundred thousand submits would take too long.

use std::collections::{HashMap, HashSet};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use longhaul::engine::count::{Counted, Counter};
use longhaul::rpc::proto::{
    JobSelector, JobSettings, JobStatus, ListJobsRequest, ListJobsResponse,
};
use longhaul::store::{Store, StoreSettings};
use prost::Message as _;
use prost_types::Timestamp;
use serde_json::{Value, json};
use sqlx::Row as _;
use tonic::{Code, Status};

use crate::harness::{Rig, Told, cancel, job, retry, run, wait, with};

async fn try_list(rig: &Rig, request: ListJobsRequest) -> Result<ListJobsResponse, Status> {
    Ok(rig.grpc.clone().list_jobs(request).await?.into_inner())
}

fn by(selector: JobSelector) -> ListJobsRequest {
    ListJobsRequest { selector: Some(selector), ..ListJobsRequest::default() }
}

fn in_status(status: JobStatus) -> JobSelector {
    JobSelector { statuses: vec![status.into()], ..JobSelector::default() }
}

/// Copies a job in the tables so often; each copy is older than the one before by a second.
async fn copy(rig: &Rig, job_id: &str, prefix: &str, count: i32, labels: Value) {
    let insert = "with made as (
          insert into longhaul.job
          select (jsonb_populate_record(j, jsonb_build_object(
            'shard', get_byte(sha256(convert_to($2 || n, 'UTF8')), 0) % 64, 'job_id', $2 || n,
            'created_at', j.created_at - n * interval '1 second'))).*
          from longhaul.job j, generate_series(1, $3) n where j.job_id = $1
          returning shard, job_id
        )
        insert into longhaul.job_spec (shard, job_id, sent, spec, fingerprint, labels)
        select m.shard, m.job_id, s.sent, s.spec, s.fingerprint, $4
        from made m, longhaul.job_spec s where s.job_id = $1";
    let insert = sqlx::query(insert).bind(job_id).bind(prefix).bind(count).bind(labels);
    insert.execute(&rig.db.pool).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn no_job_comes_twice_and_none_is_left_out_while_jobs_come_move_and_go() {
    let rig = Rig::start_with(&[("LONGHAUL_NOTIFY", "")]).await;
    for number in 0..150 {
        rig.submit(job(&format!("stays-{number:03}"), [wait(3600)])).await;
        rig.submit(job(&format!("goes-{number:03}"), [wait(3600)])).await;
    }
    // Others come, move and go all the time.
    let (mut listed, mut token, mut round) = (Vec::new(), String::new(), 0);
    loop {
        let request = ListJobsRequest {
            page_size: 17,
            page_token: token,
            ..by(in_status(JobStatus::Queued))
        };
        let meanwhile = async {
            for number in 0..5 {
                let number = round * 5 + number;
                rig.submit(job(&format!("new-{number}"), [wait(3600)])).await;
                rig.control(&format!("goes-{:03}", 149 - number), cancel()).await;
                let gone = format!("delete from longhaul.job where job_id = 'goes-{number:03}'");
                sqlx::query(sqlx::AssertSqlSafe(gone)).execute(&rig.db.pool).await.unwrap();
            }
        };
        let (page, ()) = tokio::join!(try_list(&rig, request), meanwhile);
        let page = page.unwrap();
        listed.extend(page.jobs.into_iter().map(|job| job.job_id));
        token = page.next_page_token;
        round += 1;
        if token.is_empty() {
            break;
        }
    }
    let ids: HashSet<&String> = listed.iter().collect();
    assert_eq!(ids.len(), listed.len(), "no job is on two pages");
    let stayed: Vec<&String> = listed.iter().filter(|id| id.starts_with("stays-")).collect();
    let expected: Vec<String> = (0..150).rev().map(|n| format!("stays-{n:03}")).collect();
    assert_eq!(stayed, expected.iter().collect::<Vec<_>>());
    assert!(round > 9, "{round} pages");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_of_large_jobs_ends_early_and_stays_under_three_mebibytes() {
    let rig = Rig::start().await;
    let labels: HashMap<String, String> =
        (0..64).map(|number| (format!("key-{number}"), "v".repeat(255))).collect();
    for number in 0..80 {
        let settings = JobSettings { labels: labels.clone(), ..JobSettings::default() };
        let mut large = with(settings, job(&format!("large-{number}"), [wait(3600)]));
        large.task = "t".repeat(64 << 10);
        rig.submit(large).await;
    }
    let (mut listed, mut token, mut pages) = (HashSet::new(), String::new(), 0);
    loop {
        let request = ListJobsRequest { page_size: 200, page_token: token, ..Default::default() };
        let page = try_list(&rig, request).await.unwrap();
        assert!(page.encoded_len() <= 3 << 20, "{} bytes", page.encoded_len());
        assert!(!page.jobs.is_empty());
        listed.extend(page.jobs.into_iter().map(|job| job.job_id));
        (token, pages) = (page.next_page_token, pages + 1);
        if token.is_empty() {
            break;
        }
    }
    assert_eq!((listed.len(), pages), (80, 3));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_is_good_for_its_own_list_and_one_of_the_release_before_for_any() {
    let rig = Rig::start().await;
    for number in 0..3 {
        rig.submit(job(&format!("job {number}"), [wait(3600)])).await;
    }
    let first = ListJobsRequest { page_size: 1, ..by(in_status(JobStatus::Queued)) };
    let first = try_list(&rig, first).await.unwrap();
    let page_token = first.next_page_token;
    let rest =
        ListJobsRequest { page_token: page_token.clone(), ..by(in_status(JobStatus::Queued)) };
    let rest = try_list(&rig, rest).await.unwrap();
    assert_eq!(rest.jobs.len(), 2);
    for selector in [JobSelector::default(), in_status(JobStatus::Paused)] {
        let other = ListJobsRequest { page_token: page_token.clone(), ..by(selector) };
        let told = Told::by(try_list(&rig, other).await);
        assert_eq!(
            (told.code, told.fields),
            (Code::InvalidArgument, vec!["page_token".to_owned()])
        );
    }
    let at = first.jobs[0].created_at.unwrap();
    let micros = at.seconds * 1_000_000 + i64::from(at.nanos / 1000);
    let page_token = URL_SAFE_NO_PAD.encode(format!("{micros} job 2"));
    for selector in [JobSelector::default(), in_status(JobStatus::Queued)] {
        let old = ListJobsRequest { page_token: page_token.clone(), ..by(selector) };
        let ids: Vec<String> =
            try_list(&rig, old).await.unwrap().jobs.into_iter().map(|job| job.job_id).collect();
        assert_eq!(ids, ["job 1", "job 0"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_span_of_time_has_its_beginning_and_not_its_end() {
    let rig = Rig::start().await;
    let mut born: Vec<Timestamp> = Vec::new();
    for number in 0..4 {
        let submitted = rig.submit(job(&format!("job-{number}"), [wait(3600)])).await;
        born.push(submitted.job.unwrap().created_at.unwrap());
    }
    for (created_from, created_before, expected) in [
        (Some(born[1]), Some(born[3]), vec!["job-2", "job-1"]),
        (Some(born[2]), None, vec!["job-3", "job-2"]),
        (None, Some(born[1]), vec!["job-0"]),
    ] {
        let selector = JobSelector { created_from, created_before, ..JobSelector::default() };
        let jobs = try_list(&rig, by(selector)).await.unwrap().jobs;
        let ids: Vec<&str> = jobs.iter().map(|job| job.job_id.as_str()).collect();
        assert_eq!(ids, expected);
    }
    let (created_from, created_before) = (Some(born[1]), Some(born[1]));
    let empty = JobSelector { created_from, created_before, ..JobSelector::default() };
    assert_eq!(Told::by(try_list(&rig, by(empty)).await).fields, ["selector.created_before"]);
}

/// How many jobs are in each status, as a list tells it.
async fn counts(rig: &Rig) -> Vec<(JobStatus, i64)> {
    let request = ListJobsRequest { include_counts: true, page_size: 1, ..Default::default() };
    let page = try_list(rig, request).await.unwrap();
    assert!(page.counts_as_of.is_some());
    page.counts.iter().map(|one| (one.status(), one.count)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_are_counted_by_status_wherever_they_go() {
    let rig = Rig::start().await;
    rig.sandbox.break_model(json!({"status": 400, "times": 1, "matching": "fails"})).await;
    rig.submit(job("fails", [run("This fails.")])).await;
    rig.settled_as("fails", JobStatus::Failed).await;
    rig.submit(job("done", [wait(0)])).await;
    rig.submit(job("waits", [wait(3600)])).await;
    let of = |counts: [i64; 7]| {
        let statuses = [
            JobStatus::Queued,
            JobStatus::Running,
            JobStatus::AwaitingApproval,
            JobStatus::Paused,
            JobStatus::Completed,
            JobStatus::Failed,
            JobStatus::Cancelled,
        ];
        statuses.into_iter().zip(counts).collect::<Vec<_>>()
    };
    assert_eq!(counts(&rig).await, of([1, 0, 0, 0, 1, 1, 0]));
    // A job that failed, runs again and completes is counted where it is.
    assert!(rig.control("fails", retry(0)).await);
    rig.settled_as("fails", JobStatus::Completed).await;
    assert!(rig.control("waits", cancel()).await);
    assert_eq!(counts(&rig).await, of([0, 0, 0, 0, 2, 0, 1]));
    // Only those that are asked for, and only where statuses alone are.
    let statuses = vec![JobStatus::Cancelled.into(), JobStatus::Completed.into()];
    let some = JobSelector { statuses, ..JobSelector::default() };
    let asked = ListJobsRequest { include_counts: true, ..by(some) };
    let page = try_list(&rig, asked).await.unwrap();
    let told: Vec<_> = page.counts.iter().map(|one| (one.status(), one.count)).collect();
    assert_eq!(told, [(JobStatus::Completed, 2), (JobStatus::Cancelled, 1)]);
    let labels = HashMap::from([("team".to_owned(), "a".to_owned())]);
    let narrow = by(JobSelector { labels, ..JobSelector::default() });
    let told = Told::by(try_list(&rig, ListJobsRequest { include_counts: true, ..narrow }).await);
    assert_eq!(told.fields, ["include_counts"]);
    let plain = try_list(&rig, ListJobsRequest::default()).await.unwrap();
    assert!(plain.counts.is_empty() && plain.counts_as_of.is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_counted_before_is_not_walked_through_again_and_heals() {
    let mut rig = Rig::start().await;
    rig.submit(job("done", [wait(0)])).await;
    rig.stop_server().await;
    copy(&rig, "done", "copy-", 50_000, json!({})).await;
    let settings = StoreSettings {
        database_url: rig.db.url.clone().into(),
        direct_url: None,
        connections_max: 3,
    };
    let store = Store::connect(&settings).await.unwrap();
    let completed = async || {
        let counts = store.counts().await.unwrap().by_status;
        let [.., (_, completed), _failed, _cancelled] = counts[..] else { unreachable!("seven") };
        completed
    };
    assert_eq!(completed().await, 50_001);
    let counter = Counter::new(store.clone());
    assert_eq!(counter.run_once().await.unwrap(), Counted { added: 2, again: 0, joined: 0 });
    assert_eq!(counter.run_once().await.unwrap(), Counted::default());
    assert_eq!(rig.db.number("select sum(jobs)::bigint from longhaul.job_count").await, 40_000);
    assert_eq!(completed().await, 50_001);
    // What is deleted is missed for a while at the most, and what is said of it is since when.
    let before = store.counts().await.unwrap().as_of;
    rig.db
        .number(
            "with gone as (delete from longhaul.job where job_id like 'copy-4%' returning 1)
        select count(*) from gone",
        )
        .await;
    let left = rig.db.job_count().await;
    assert_eq!(left, 50_001 - 11_111);
    rig.db.shift_clock(301).await;
    let again = counter.run_once().await.unwrap();
    assert_eq!((again.added, again.again), (0, 2));
    assert!(store.counts().await.unwrap().as_of > before);
    assert_eq!(completed().await, left);
    // Spans that have become small become one.
    rig.db
        .number(
            "with gone as (delete from longhaul.job where job_id like 'copy-%' returning 1)
        select count(*) from gone",
        )
        .await;
    rig.db.shift_clock(301).await;
    assert_eq!(counter.run_once().await.unwrap(), Counted { added: 0, again: 2, joined: 1 });
    assert_eq!(counter.run_once().await.unwrap(), Counted::default());
    assert_eq!(completed().await, 1);
}

/// The text of the statement that begins with this line, from its source.
fn statement(source: &str, name: &str) -> String {
    let (_, statement) = source.split_once(&format!("-- {name}\n")).unwrap();
    statement.split_once('"').unwrap().0.trim_end_matches('\\').to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_usual_lists_read_little_beside_a_hundred_thousand_jobs() {
    let mut rig = Rig::start().await;
    rig.sandbox.break_model(json!({"status": 400, "matching": "fails"})).await;
    for (job_id, step) in [("done", wait(0)), ("fails", run("This fails.")), ("queued", wait(3600))]
    {
        rig.submit(job(job_id, [step])).await;
    }
    rig.settled_as("fails", JobStatus::Failed).await;
    rig.submit(job("gone", [wait(3600)])).await;
    assert!(rig.control("gone", cancel()).await);
    rig.stop_server().await;
    // What is rare is older than all the rest, so that a walk from the newest would meet everything first.
    let age = "update longhaul.job set created_at = created_at - interval '10 days' where job_id <> 'done'";
    sqlx::query(age).execute(&rig.db.pool).await.unwrap();
    copy(&rig, "done", "mass-", 100_000, json!({"team": "common"})).await;
    copy(&rig, "done", "some-", 300, json!({"team": "rare"})).await;
    for (job_id, prefix) in [("fails", "fails-"), ("queued", "queued-"), ("gone", "gone-")] {
        copy(&rig, job_id, prefix, 30, json!({"team": "old"})).await;
    }
    for tidy in ["vacuum analyze longhaul.job", "vacuum analyze longhaul.job_spec"] {
        sqlx::raw_sql(tidy).execute(&rig.db.pool).await.unwrap();
    }
    let source = include_str!("../../src/store/list.rs");
    let settings = statement(source, "plan_a_list");
    let find = statement(source, "find_matching").replace("\"#", "");
    let find = format!(
        "prepare find (text[], jsonb, timestamptz, timestamptz, timestamptz, text, text, numeric, bigint) as {find}"
    );
    let none = "null";
    for (what, statuses, labels, from, before, aim, pages_max) in [
        ("everything", "", "{}", none, none, none, 300),
        ("a status that is rare", "failed", "{}", none, none, none, 300),
        ("two of them", "failed,cancelled", "{}", none, none, none, 600),
        ("what is queued", "queued", "{}", none, none, none, 600),
        ("what is nowhere", "running,paused", "{}", none, none, none, 300),
        ("a status that is common", "completed", "{}", none, none, none, 300),
        ("a label that is rare", "", r#"{"team":"rare"}"#, none, none, none, 3000),
        ("a label that is common", "", r#"{"team":"common"}"#, none, none, none, 600),
        (
            "a status and a time",
            "failed",
            "{}",
            "now() - interval '11 days'",
            "now() - interval '9 days'",
            none,
            300,
        ),
        ("a time of which all is old", "", "{}", none, "now() - interval '9 days'", none, 300),
        ("what is to be retried", "failed,cancelled", "{}", none, none, "'retry'", 600),
        (
            "what is to be cancelled",
            "queued,running,awaiting_approval,paused",
            "{}",
            none,
            none,
            "'cancel'",
            900,
        ),
    ] {
        let mut tx = rig.db.pool.begin().await.unwrap();
        let explain = format!(
            "{settings}; {find}; explain (analyze, buffers, format json) execute find
             ('{{{statuses}}}', '{labels}', {from}, {before}, null, null, {aim}, null, 51)"
        );
        let rows = sqlx::raw_sql(sqlx::AssertSqlSafe(explain)).fetch_all(&mut *tx).await.unwrap();
        let plan: Value = rows[0].try_get(0).unwrap();
        let node = &plan[0]["Plan"];
        let read =
            ["Shared Hit Blocks", "Shared Read Blocks"].map(|name| node[name].as_i64().unwrap());
        let pages = read[0] + read[1];
        assert!(pages <= pages_max, "{what} reads {pages} pages: {plan:#}");
        sqlx::raw_sql("deallocate find").execute(&mut *tx).await.unwrap();
    }
}
