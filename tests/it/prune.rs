//! Pruning: jobs go when their time is over and not before, whole or not at all, and what stays still answers for them.

use std::time::Duration;

use futures::future::join_all;
use longhaul::engine::prune::{Pruned, Pruner};
use longhaul::rpc::proto::{JobSettings, JobStatus};
use longhaul::store::prune::Retention;
use longhaul::store::{Store, StoreSettings};
use serde_json::json;
use sqlx::{AssertSqlSafe, Row as _};

use crate::harness::{
    Database, Process, Rig, approval, cancel, job, pause, retry, run, wait, with,
};

pub const DAY: i32 = 86_400;
const IS_MARKED: &str = "select exists (select from longhaul.tombstone where job_id = $1)";
const IS_PRUNED: &str = "select pruned_at is not null from longhaul.tombstone where job_id = $1";
/// Completed jobs a month, failed ones two, cancelled ones half a day.
pub const KEPT: [(&str, &str); 4] = [
    ("LONGHAUL_KEEP_COMPLETED_DAYS", "30"),
    ("LONGHAUL_KEEP_FAILED_DAYS", "60d"),
    ("LONGHAUL_KEEP_CANCELLED_DAYS", "0.5"),
    ("LONGHAUL_NOTIFY", ""),
];

/// Waits until these are marked, lets the time pass that a mark has to be there for, and waits until they are gone.
pub async fn see_pruned(db: &Database, job_ids: &[&str]) {
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

/// A pruner beside those of servers, which keeps completed and cancelled jobs for a second.
pub async fn pruner(db: &Database) -> Pruner {
    let second = Some(Duration::from_secs(1));
    pruner_of(db, Retention { completed: second, cancelled: second, failed: None }).await
}

pub async fn pruner_of(db: &Database, kept: Retention) -> Pruner {
    let settings =
        StoreSettings { database_url: db.url.clone().into(), direct_url: None, connections_max: 2 };
    let store = Store::connect(&settings).await.unwrap();
    Pruner::new(store, kept, Duration::from_mins(1))
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
    let marks = pruner(&rig.db).await;
    rig.db.shift_clock(2 * DAY).await;
    for _ in 0..3 {
        assert_eq!(marks.run_once().await.unwrap(), Pruned::default());
    }
    rig.sandbox.mend().await;
    rig.db.shift_clock(600).await;
    see_pruned(&rig.db, &["told", "later"]).await;
}

/// Jobs that are due to be pruned by `pruner`, and no more than that.
pub async fn due(rig: &Rig, count: usize) {
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
    let (one, two) = (pruner(&rig.db).await, pruner(&rig.db).await);
    let both = async || {
        let (a, b) = tokio::join!(Box::pin(one.run_once()), Box::pin(two.run_once()));
        let (a, b) = (a.unwrap(), b.unwrap());
        (a.marked + b.marked, a.pruned + b.pruned)
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
async fn long_jobs_go_a_few_at_a_time_and_each_batch_is_well_within_the_time_of_a_statement() {
    let rig = Rig::start_with(&[("LONGHAUL_NOTIFY", "")]).await;
    for number in 0..30 {
        rig.submit(job(&format!("long-{number}"), (0..1000).map(|_| wait(0)))).await;
    }
    rig.db.shift_clock(5).await;
    let pruner = pruner(&rig.db).await;
    assert_eq!(pruner.run_once().await.unwrap().marked, 30);
    rig.db.shift_clock(11).await;
    // Each has 1,002 events, and a batch begins no further job beyond 20,000.
    for expected in [20, 10] {
        let begun_at = std::time::Instant::now();
        let swept = pruner.run_once().await.unwrap();
        assert_eq!((swept.pruned, swept.marked), (expected, 0));
        println!("{expected} jobs of a thousand steps in {:?}", begun_at.elapsed());
    }
    assert_eq!(rig.db.job_count().await, 0);
    assert_eq!(rig.db.number("select count(*) from longhaul.checkpoint").await, 0);
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
    let pruner = pruner(&rig.db).await;
    pruner.run_once().await.unwrap();
    rig.db.shift_clock(11).await;
    assert_eq!(pruner.run_once().await.unwrap(), Pruned { marked: 0, pruned: 19 });
    assert_eq!(rig.job("due-7").await.steps.len(), 2, "it is whole");
    assert_eq!(pruner.run_once().await.unwrap(), Pruned::default());
    sqlx::raw_sql("drop trigger strike on longhaul.event").execute(&rig.db.pool).await.unwrap();
    rig.db.shift_clock(3700).await;
    assert_eq!(pruner.run_once().await.unwrap(), Pruned { marked: 0, pruned: 1 });
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
    // Postgres does not look after a client that is gone until it has done what that asked; a machine that dies takes it along.
    rig.db
        .number(
            "select count(pg_terminate_backend(pid)) from pg_stat_activity
             where datname = current_database() and query like '-- bury%'",
        )
        .await;
    held.rollback().await.unwrap();
    let gone = "select not exists (select from pg_stat_activity
      where datname = current_database() and query like '-- bury%' and pid <> pg_backend_pid()) and $1 <> ''";
    rig.db.wait_until(gone, "any").await;
    let whole = "select count(*) from longhaul.job j
      where j.last_sequence = (select count(*) from longhaul.event e where e.job_id = j.job_id)
        and 2 = (select count(*) from longhaul.checkpoint c where c.job_id = j.job_id)
        and exists (select from longhaul.job_spec s where s.job_id = j.job_id)";
    let pruned = "select count(*) from longhaul.tombstone where pruned_at is not null";
    let halves = "select count(*) from longhaul.tombstone t where t.pruned_at is not null and (
        exists (select from longhaul.job j where j.job_id = t.job_id)
        or exists (select from longhaul.event e where e.job_id = t.job_id))";
    assert_eq!((rig.db.number(whole).await, rig.db.number(pruned).await), (40, 0));
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
