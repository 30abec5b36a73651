//! What a job costs: statements, commits, bytes of write-ahead log, and allocations, which do not depend on the machine.
//!
//! A change that makes a job dearer fails here, and says by how much; `scripts/bench` tells what that means in time.
//! The Postgres is the test's own, since others would be counted with it, and nothing runs in it but these jobs.

use futures::future::join_all;
use longhaul::rpc::proto::JobStatus;
use sqlx::Row as _;

use crate::harness::{OwnPostgres, Rig, approval, approve, job, run, wait};

/// What so many jobs took in all.
#[derive(Clone, Copy, Debug)]
struct Reading {
    /// Transactions that wrote; a NOTIFY counts as one to Postgres, and writes nothing.
    commits: i64,
    /// Statements, with `begin` and `commit`.
    statements: i64,
    /// Bytes of write-ahead log.
    wal_bytes: i64,
}

/// A server on a Postgres that counts.
struct Scales {
    _postgres: OwnPostgres,
    rig: Rig,
}

impl Scales {
    async fn set_up() -> Self {
        // Whole pages go into the log by chance of time; rows do not.
        let options = ["shared_preload_libraries=pg_stat_statements", "full_page_writes=off"];
        let postgres = OwnPostgres::start_with(&options).await;
        // Nobody's rounds are to be counted, and nobody is told anything.
        let quiet = [
            ("LONGHAUL_SWEEP_MS", "60000"),
            ("LONGHAUL_BATCH_POLL_MS", "60000"),
            ("LONGHAUL_LEASE_SECONDS", "3600"),
            ("LONGHAUL_NOTIFY", ""),
        ];
        let rig = Rig::on(postgres.url.clone(), &quiet).await;
        sqlx::raw_sql("create extension pg_stat_statements").execute(&rig.db.pool).await.unwrap();
        let url = postgres.url.clone();
        let rig = rig.start_at(&url).await;
        // What happens once, such as the first plan of each statement, is no cost of a job.
        for (name, step) in [("waits", wait(0)), ("runs", run("Write."))] {
            rig.submit(job(name, [step.clone(), step])).await;
            rig.settled_as(name, JobStatus::Completed).await;
        }
        Self { _postgres: postgres, rig }
    }

    /// Twenty jobs, one after the other, each of which asks the model twice.
    async fn run_twenty(&self) {
        for number in 0..20 {
            let job_id = format!("runs-{number}");
            self.rig.submit(job(&job_id, [run("Write."), run("Write.")])).await;
            self.rig.settled_as(&job_id, JobStatus::Completed).await;
        }
    }

    async fn read(&self) -> Reading {
        let (commits, statements, wal_bytes) = sqlx::query_as(
            "select pg_snapshot_xmax(pg_current_snapshot())::text::bigint
                 - coalesce((select sum(calls)::bigint from pg_stat_statements
                     where query like '-- notify_others%'), 0),
               (select sum(calls)::bigint from pg_stat_statements
                where query like '-- %' or lower(query) in ('begin', 'commit')),
               pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint",
        )
        .fetch_one(&self.rig.db.pool)
        .await
        .unwrap();
        Reading { commits, statements, wal_bytes }
    }

    /// What each of so many jobs cost since then, at the most.
    async fn assert_cost(&self, before: Reading, jobs: usize, most: (f64, f64, f64)) {
        let after = self.read().await;
        let each = |before: i64, after: i64| (after - before) as f64 / jobs as f64;
        let commits = each(before.commits, after.commits);
        let statements = each(before.statements, after.statements);
        let wal_bytes = each(before.wal_bytes, after.wal_bytes);
        let (commits_max, statements_max, bytes_max) = most;
        assert!(commits <= commits_max, "{commits:.2} commits a job");
        assert!(statements <= statements_max, "{statements:.2} statements a job");
        assert!(wal_bytes <= bytes_max, "{wal_bytes:.0} bytes of WAL a job");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_of_two_steps_costs_few_commits_statements_and_bytes() {
    let scales = Scales::set_up().await;
    // Alone, each is one statement, which is its own transaction.
    let before = scales.read().await;
    for number in 0..40 {
        let done = scales.rig.submit(job(&format!("alone-{number}"), [wait(0), wait(0)])).await;
        assert_eq!(done.job.unwrap().status(), JobStatus::Completed);
    }
    scales.assert_cost(before, 40, (1.1, 1.3, 3200.0)).await;
    // In a crowd, many share one.
    let before = scales.read().await;
    let crowd = (0..200).map(|number| {
        let request = job(&format!("crowd-{number}"), [wait(0), wait(0)]);
        scales.rig.submit(request)
    });
    join_all(crowd).await;
    scales.assert_cost(before, 200, (0.2, 0.5, 3200.0)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_asks_the_model_twice_is_three_commits() {
    let scales = Scales::set_up().await;
    let before = scales.read().await;
    scales.run_twenty().await;
    // A look at the job takes statements too, and how many looks it takes depends on the machine.
    scales.assert_cost(before, 20, (3.2, 50.0, 10_000.0)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_decision_where_it_was_asked_needs_no_look() {
    let scales = Scales::set_up().await;
    for number in 0..5 {
        let job_id = format!("asks-{number}");
        scales.rig.submit(job(&job_id, [wait(0), approval("Good?"), wait(0)])).await;
        assert!(scales.rig.control(&job_id, approve()).await);
        scales.rig.settled_as(&job_id, JobStatus::Completed).await;
    }
    let looks = "select coalesce(sum(calls), 0)::bigint from pg_stat_statements
      where query like '-- look_at_vote%' or query like '-- look_at_batch%'";
    let looks = scales.rig.db.number(looks).await;
    // The time is asked for once in a while.
    assert!(looks <= 2, "{looks} looks for five decisions");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_finds_its_calls_by_their_key() {
    let scales = Scales::set_up().await;
    let db = &scales.rig.db;
    scales.run_twenty().await;
    // A session tells what it has read when it ends.
    db.number(
        "select count(pg_terminate_backend(pid)) from pg_stat_activity
         where datname = current_database() and pid <> pg_backend_pid()",
    )
    .await;
    let told = "select n_tup_ins >= 40 and $1 <> '' from pg_stat_user_tables
      where relname = 'model_call'";
    db.wait_until(told, "any").await;
    // Only sweeps look for what is not settled: under an old snapshot that index holds all that ever was.
    let scans = "select idx_scan from pg_stat_user_indexes
      where indexrelname = 'model_call_unsettled'";
    let scans = db.number(scans).await;
    assert!(scans < 10, "{scans} looks at all that are not settled");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_pending_for_a_person_is_found_without_a_walk_through_what_they_decided() {
    let rig = Rig::without_server(&[]).await;
    // As a server plans it, which is once and on tables that are nearly empty.
    let of_a_server = [
        "plan_cache_mode = force_generic_plan",
        "jit = off",
        "enable_seqscan = off",
        "enable_hashjoin = off",
        "enable_mergejoin = off",
        "seq_page_cost = 0",
        "random_page_cost = 0",
        "cpu_index_tuple_cost = 0",
        "cpu_operator_cost = 0.0001",
    ];
    let settings = of_a_server.map(|one| format!("set {one};")).concat();
    let source = include_str!("../../src/store/inbound/pending.rs");
    let (_, statement) = source.split_once("r#\"-- pending_approvals").unwrap();
    let (statement, _) = statement.split_once("\"#").unwrap();
    let mut connection = rig.db.pool.acquire().await.unwrap();
    let prepare = format!("{settings} prepare pending as -- {statement}");
    sqlx::raw_sql(sqlx::AssertSqlSafe(prepare)).execute(&mut *connection).await.unwrap();
    let explain = "explain execute pending (array['+15550100'], 5)";
    let rows = sqlx::raw_sql(explain).fetch_all(&mut *connection).await.unwrap();
    let plan: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
    let plan = plan.join("\n");
    for (index, is_used) in [
        // Only what is pending for the person is in this one.
        ("approval_pending", true),
        ("job_spec_pkey", true),
        ("Seq Scan", false),
        ("approval_pkey", false),
        ("job_deadline", false),
        ("job_paused", false),
    ] {
        assert_eq!(plan.contains(index), is_used, "{index}: {plan}");
    }
}

#[test]
fn a_submit_allocates_little() {
    // One thread runs the client, the server and its writer, so that a thread's count is theirs.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    // Nobody's rounds are to be counted: they are as many as the time the submits take.
    // Nor what it takes to tell people how the jobs ended.
    let quiet = [
        ("LONGHAUL_SWEEP_MS", "60000"),
        ("LONGHAUL_LEASE_SECONDS", "3600"),
        ("LONGHAUL_NOTIFY", ""),
    ];
    let rig = runtime.block_on(Rig::start_with(&quiet));
    let submit = |number: usize| {
        let request = job(&format!("job-{number}"), [wait(0), wait(0)]);
        runtime.block_on(rig.submit(request))
    };
    // Connections, plans and tables of its own come first.
    for number in 0..50 {
        submit(number);
    }
    let spent = allocation_counter::measure(|| {
        for number in 50..250 {
            submit(number);
        }
    });
    let (count, bytes) = (spent.count_total / 200, spent.bytes_total / 200);
    assert!(count <= 330, "{count} allocations a submit");
    assert!(bytes <= 145_000, "{bytes} bytes a submit");
}
