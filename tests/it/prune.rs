//! Pruning: jobs go when their time is over and not before, whole or not at all, and what stays still answers for them.

use std::time::Duration;

use futures::future::join_all;
use longhaul::engine::sweeper::{Pruned, Sweeper};
use longhaul::rpc::proto::{
    GetJobRequest, GetUsageRequest, JobSettings, JobStatus, ListJobsRequest, UsageGrouping,
    UsageRow, watch_job_response::Content,
};
use longhaul::store::prune::Retention;
use longhaul::store::sweep::Judging;
use longhaul::store::{Store, StoreSettings};
use prost_types::Timestamp;
use serde_json::json;
use sqlx::{AssertSqlSafe, Row as _};
use tonic::{Code, Status};

use crate::harness::{
    Client, Database, PERSON, Process, Rig, Told, approval, approve, cancel, job, links, pause,
    retry, run, wait, with,
};

const DAY: i32 = 86_400;
const IS_MARKED: &str = "select exists (select from longhaul.tombstone where job_id = $1)";
const IS_PRUNED: &str = "select pruned_at is not null from longhaul.tombstone where job_id = $1";
/// Completed jobs a month, failed ones two, cancelled ones half a day.
const KEPT: [(&str, &str); 4] = [
    ("LONGHAUL_KEEP_COMPLETED_DAYS", "30"),
    ("LONGHAUL_KEEP_FAILED_DAYS", "60d"),
    ("LONGHAUL_KEEP_CANCELLED_DAYS", "0.5"),
    ("LONGHAUL_NOTIFY", ""),
];

/// Waits until these are marked, lets the time pass that a mark has to be there for, and waits until they are gone.
async fn see_pruned(db: &Database, job_ids: &[&str]) {
    for job_id in job_ids {
        db.wait_until(IS_MARKED, job_id).await;
    }
    db.shift_clock(11).await;
    for job_id in job_ids {
        db.wait_until(IS_PRUNED, job_id).await;
    }
}

/// The tables that have rows of a job.
async fn tables_of(db: &Database, job_id: &str) -> Vec<String> {
    let tables = sqlx::query_scalar::<_, String>(
        "select table_name::text from information_schema.columns join information_schema.tables using (table_schema, table_name)
         where table_schema = 'longhaul' and table_type = 'BASE TABLE' and column_name = 'job_id' order by 1",
    );
    let mut with_rows = Vec::new();
    for table in tables.fetch_all(&db.pool).await.unwrap() {
        let count = format!("select count(*) from longhaul.{table} where job_id = $1");
        let count = sqlx::query_scalar::<_, i64>(AssertSqlSafe(count)).bind(job_id);
        if count.fetch_one(&db.pool).await.unwrap() > 0 {
            with_rows.push(table);
        }
    }
    with_rows
}

async fn try_job(client: &Client, job_id: &str) -> Result<(), Status> {
    let request = GetJobRequest { job_id: job_id.to_owned(), ..GetJobRequest::default() };
    client.grpc.clone().get_job(request).await.map(|_job| ())
}

/// A sweeper beside those of servers, which keeps completed jobs for a second.
async fn sweeper(db: &Database) -> Sweeper {
    let settings =
        StoreSettings { database_url: db.url.clone().into(), direct_url: None, connections_max: 2 };
    let store = Store::connect(&settings).await.unwrap();
    let kept = Retention { completed: Some(Duration::from_secs(1)), ..Retention::default() };
    Sweeper::new(store, Duration::from_mins(1), std::sync::Arc::default()).pruning(kept)
}

#[tokio::test(flavor = "multi_thread")]
async fn each_job_goes_when_its_time_is_over_and_not_before() {
    let rig = Rig::start_with(&KEPT).await;
    rig.sandbox.break_model(json!({"status": 400, "matching": "refused"})).await;
    rig.submit(job("completed", [run("Write."), wait(0)])).await;
    rig.settled_as("completed", JobStatus::Completed).await;
    rig.submit(job("failed", [run("Be refused: refused")])).await;
    rig.settled_as("failed", JobStatus::Failed).await;
    rig.submit(job("cancelled", [approval("Well?")])).await;
    rig.control("cancelled", cancel()).await;
    rig.submit(job("paused", [wait(3600)])).await;
    rig.control("paused", pause()).await;
    let left = async |expected: &[&str]| {
        let all = "select job_id from longhaul.job order by job_id";
        let all: Vec<String> = sqlx::query_scalar(all).fetch_all(&rig.db.pool).await.unwrap();
        assert_eq!(all, expected);
    };
    rig.db.shift_clock(DAY / 2 - 60).await;
    left(&["cancelled", "completed", "failed", "paused"]).await;
    rig.db.shift_clock(120).await;
    see_pruned(&rig.db, &["cancelled"]).await;
    left(&["completed", "failed", "paused"]).await;
    rig.db.shift_clock(30 * DAY).await;
    see_pruned(&rig.db, &["completed"]).await;
    left(&["failed", "paused"]).await;
    rig.db.shift_clock(300 * DAY).await;
    see_pruned(&rig.db, &["failed"]).await;
    left(&["paused"]).await;
    for (job_id, rest) in [
        ("cancelled", &["tombstone"][..]),
        ("completed", &["model_call", "tombstone"]),
        ("failed", &["model_call", "tombstone"]),
    ] {
        assert_eq!(tables_of(&rig.db, job_id).await, rest, "{job_id}");
    }
    let shown = "select count(*) from durable_jobs";
    assert_eq!(rig.db.number(shown).await, 1);
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
async fn a_job_that_is_only_marked_is_whole_and_a_retry_takes_the_mark_away() {
    let rig = Rig::start_with(&KEPT).await;
    let request = job("back", [wait(3600)]);
    rig.submit(request.clone()).await;
    rig.control("back", cancel()).await;
    rig.db.shift_clock(DAY).await;
    rig.db.wait_until(IS_MARKED, "back").await;
    let again = rig.submit(request).await;
    assert!(!again.created && again.warnings.is_empty(), "{:?}", again.warnings);
    assert_eq!(again.job.unwrap().steps.len(), 1);
    assert!(rig.control("back", retry(0)).await);
    rig.db.shift_clock(11).await;
    rig.db
        .wait_until("select not exists (select from longhaul.tombstone where job_id = $1)", "back")
        .await;
    rig.db.shift_clock(3600).await;
    rig.settled_as("back", JobStatus::Completed).await;
    rig.db.shift_clock(31 * DAY).await;
    see_pruned(&rig.db, &["back"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_whose_notices_are_on_their_way_stays_until_they_are_sent() {
    let rig = Rig::start_with(&[("LONGHAUL_KEEP_COMPLETED_DAYS", "1")]).await;
    // The channel is shut, and everything waits.
    rig.sandbox.break_whatsapp(json!({"code": 131_031})).await;
    rig.submit(job("told", [wait(0)])).await;
    rig.db
        .wait_until("select error is not null from longhaul.outbox where job_id = $1", "told")
        .await;
    rig.submit(with(
        JobSettings { notify: vec!["+15550199".to_owned()], ..JobSettings::default() },
        job("later", [wait(0)]),
    ))
    .await;
    let mut marks = sweeper(&rig.db).await;
    marks = marks
        .pruning(Retention { completed: Some(Duration::from_secs(1)), ..Retention::default() });
    rig.db.shift_clock(2 * DAY).await;
    for _ in 0..3 {
        assert_eq!(marks.run_once(Judging::Nobody).await.pruned, Pruned::default());
    }
    rig.sandbox.mend().await;
    rig.db.shift_clock(600).await;
    see_pruned(&rig.db, &["told", "later"]).await;
}

/// Every line of a report since a fixed day.
async fn usage(rig: &Rig, group_by: UsageGrouping) -> Vec<UsageRow> {
    let from_at = Some(Timestamp { seconds: 1_700_000_000, nanos: 0 });
    let request = GetUsageRequest {
        from_at,
        group_by: group_by.into(),
        label_key: if group_by == UsageGrouping::Label { "team".to_owned() } else { String::new() },
        ..GetUsageRequest::default()
    };
    let report = rig.grpc.clone().get_usage(request).await.unwrap().into_inner();
    report.rows.into_iter().chain(report.total).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_ledger_counts_pruned_jobs_as_before_and_keeps_no_text() {
    let rig = Rig::start_with(&KEPT).await;
    for (job_id, team) in [("one", "a"), ("two", "b"), ("three", "a")] {
        let labels = [("team".to_owned(), team.to_owned())].into();
        let settings = JobSettings { labels, ..JobSettings::default() };
        rig.submit(with(settings, job(job_id, [run("Write a line.")]))).await;
        rig.settled_as(job_id, JobStatus::Completed).await;
    }
    let groupings =
        [UsageGrouping::Label, UsageGrouping::Job, UsageGrouping::Model, UsageGrouping::Day];
    let mut before = Vec::new();
    for grouping in groupings {
        before.push(usage(&rig, grouping).await);
    }
    rig.db.shift_clock(31 * DAY).await;
    see_pruned(&rig.db, &["one", "two", "three"]).await;
    for (grouping, before) in groupings.into_iter().zip(before) {
        assert_eq!(usage(&rig, grouping).await, before, "{grouping:?}");
    }
    let texts = "select count(*) from longhaul.model_call where partial_output is not null";
    assert_eq!(rig.db.number(texts).await, 0);
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

/// Jobs that are due to be pruned by `sweeper`, and no more than that.
async fn due(rig: &Rig, count: usize) {
    join_all(
        (0..count).map(|number| rig.submit(job(&format!("due-{number}"), [wait(0), wait(0)]))),
    )
    .await;
    rig.db.shift_clock(5).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_servers_that_prune_at_once_divide_the_work_and_a_second_round_finds_nothing() {
    let rig = Rig::start_with(&[("LONGHAUL_NOTIFY", "")]).await;
    due(&rig, 230).await;
    let (one, two) = (sweeper(&rig.db).await, sweeper(&rig.db).await);
    let both = async || {
        let (a, b) = tokio::join!(one.run_once(Judging::Nobody), two.run_once(Judging::Nobody));
        assert_eq!((a.failures, b.failures), (0, 0));
        (a.pruned.marked + b.pruned.marked, a.pruned.pruned + b.pruned.pruned)
    };
    assert_eq!(both().await, (230, 0));
    assert_eq!(both().await, (0, 0), "what is marked has to wait");
    rig.db.shift_clock(11).await;
    assert_eq!(both().await, (0, 230));
    assert_eq!(both().await, (0, 0));
    assert_eq!(rig.db.job_count().await, 0);
    let complete = "select count(*) from longhaul.tombstone where pruned_at is not null";
    assert_eq!(rig.db.number(complete).await, 230);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_cannot_be_pruned_stops_nobody_but_itself() {
    let rig = Rig::start_with(&[("LONGHAUL_NOTIFY", "")]).await;
    due(&rig, 20).await;
    let strike = "create function public.strike() returns trigger language plpgsql as
          $$ begin raise exception 'this row is broken'; end $$;
        create trigger strike before delete on longhaul.event for each row
          when (old.job_id = 'due-7') execute function public.strike()";
    sqlx::raw_sql(strike).execute(&rig.db.pool).await.unwrap();
    let sweeper = sweeper(&rig.db).await;
    sweeper.run_once(Judging::Nobody).await;
    rig.db.shift_clock(11).await;
    assert_eq!(sweeper.run_once(Judging::Nobody).await.pruned, Pruned { marked: 0, pruned: 19 });
    assert_eq!(rig.job("due-7").await.steps.len(), 2, "it is whole");
    assert_eq!(sweeper.run_once(Judging::Nobody).await.pruned, Pruned::default());
    sqlx::raw_sql("drop trigger strike on longhaul.event").execute(&rig.db.pool).await.unwrap();
    rig.db.shift_clock(3700).await;
    assert_eq!(sweeper.run_once(Judging::Nobody).await.pruned, Pruned { marked: 0, pruned: 1 });
}

#[tokio::test(flavor = "multi_thread")]
async fn kill_9_in_the_middle_of_pruning_leaves_whole_jobs_and_the_next_server_goes_on() {
    let rig = Rig::without_server(&KEPT).await;
    let server = Process::serve(&rig, &[]).await;
    join_all(
        (0..40)
            .map(|number| server.client.submit(job(&format!("due-{number}"), [wait(0), wait(0)]))),
    )
    .await;
    rig.db.shift_clock(31 * DAY).await;
    rig.db.wait_until("select count(*) = 40 and $1 <> '' from longhaul.tombstone", "any").await;
    // Somebody else has one row of the last of them, so that the batch stops half-way.
    let mut held = rig.db.pool.begin().await.unwrap();
    let hold = "select from longhaul.event where job_id = 'due-39' and sequence = 2 for update";
    sqlx::raw_sql(hold).execute(&mut *held).await.unwrap();
    rig.db.shift_clock(11).await;
    let is_stopped = "select count(*) > 0 and $1 <> '' from pg_stat_activity
      where datname = current_database() and wait_event_type = 'Lock' and query like '-- bury%'";
    rig.db.wait_until(is_stopped, "any").await;
    server.kill9().await;
    held.rollback().await.unwrap();
    let whole = "select count(*) from longhaul.job j
      where j.last_sequence = (select count(*) from longhaul.event e where e.job_id = j.job_id)
        and 2 = (select count(*) from longhaul.checkpoint c where c.job_id = j.job_id)
        and exists (select from longhaul.job_spec s where s.job_id = j.job_id)";
    let pruned = "select count(*) from longhaul.tombstone where pruned_at is not null";
    let halves = "select count(*) from longhaul.tombstone t where t.pruned_at is not null and (
        exists (select from longhaul.job j where j.job_id = t.job_id)
        or exists (select from longhaul.event e where e.job_id = t.job_id))";
    let counts = (rig.db.number(whole).await, rig.db.number(pruned).await);
    assert_eq!(counts.0 + counts.1, 40, "{counts:?}");
    assert_eq!(rig.db.number(halves).await, 0);
    let _other = Process::serve(&rig, &[]).await;
    rig.db.wait_until("select count(*) = 0 and $1 <> '' from longhaul.job", "any").await;
    assert_eq!((rig.db.number(pruned).await, rig.db.number(halves).await), (40, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_due_is_found_by_an_index_of_what_has_ended() {
    let rig = Rig::without_server(&[]).await;
    // As a server plans it.
    let settings = "set plan_cache_mode = force_generic_plan; set enable_seqscan = off; set enable_hashjoin = off;
      set enable_mergejoin = off; set seq_page_cost = 0; set random_page_cost = 0; set cpu_index_tuple_cost = 0;
      set cpu_operator_cost = 0.0001;";
    let source = include_str!("../../src/store/prune.rs");
    let (_, statement) = source.split_once("r#\"-- mark_due").unwrap();
    let (statement, _) = statement.split_once("\"#").unwrap();
    let mut connection = rig.db.pool.acquire().await.unwrap();
    let prepare = format!("{settings} prepare due as -- {statement}");
    sqlx::raw_sql(AssertSqlSafe(prepare)).execute(&mut *connection).await.unwrap();
    let explain = "explain execute due ('completed', 1, null, 10, 1, '')";
    let rows = sqlx::raw_sql(explain).fetch_all(&mut *connection).await.unwrap();
    let plan: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
    let plan = plan.join("\n");
    assert!(plan.contains("using job_finished") && plan.contains("finished_at >="), "{plan}");
    assert!(!plan.contains("Seq Scan"), "{plan}");
}
