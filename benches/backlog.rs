//! What a backlog costs: a sweep round, a submit and a claim beside 100,000 jobs that wait for a person, as many that wait
//! for time and twice as many that have ended, against the same on an empty database, taken in turns in one run.
//!
//! Out: a table of medians and their ratios; it fails if a sweep round beside the backlog takes 50 ms or more.
//! The Postgres is its own, durable, and thrown away. The backlog is made of real jobs, multiplied by SQL.
//! Run it with `cargo bench --bench backlog`; `-- --rounds N --jobs N` change how often and how many.

#![expect(clippy::print_stdout, reason = "a bench prints what it found")]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use longhaul::dev::postgres::{Postgres, PostgresSettings};
use longhaul::domain::id::{CallId, ExecutorId, JobKey, new_job_id};
use longhaul::domain::spec::Defaults;
use longhaul::domain::submission::{ContextMode, Submission};
use longhaul::domain::validate::freeze;
use longhaul::engine::sweeper::{Sweeper, Swept};
use longhaul::store::claim::ClaimRequest;
use longhaul::store::ledger::CallEnd;
use longhaul::store::submit::NewJob;
use longhaul::store::sweep::Judging;
use longhaul::store::{Store, StoreSettings};
use serde_json::{Value, json};
use sqlx::postgres::{PgPool, PgPoolOptions};
use tokio_util::sync::CancellationToken;

/// What a sweep round may take, at the most.
const SWEEP_MAX: Duration = Duration::from_millis(50);

/// The tables that a job has rows in, in the order in which they are multiplied.
const MULTIPLY: [&str; 5] = [
    // The ids are those of the seed with a number; the moments lie a second apart, the deadlines in the future.
    "insert into longhaul.job
     select r.* from longhaul.job j cross join generate_series(1, $2) n
     cross join lateral (select j.job_id || '-' || n as id) i
     cross join lateral jsonb_populate_record(j, jsonb_build_object(
       'shard', get_byte(sha256(convert_to(i.id, 'UTF8')), 0) % 64, 'job_id', i.id,
       'approval_id', case when j.approval_id is not null then md5(i.id)::uuid end,
       'run_at', j.run_at + make_interval(secs => n), 'deadline_at', j.deadline_at + make_interval(secs => n),
       'created_at', j.created_at - make_interval(secs => n), 'updated_at', j.updated_at - make_interval(secs => n)
     )) r where j.job_id = $1",
    "insert into longhaul.job_spec
     select r.* from longhaul.job_spec s cross join generate_series(1, $2) n
     cross join lateral (select s.job_id || '-' || n as id) i
     cross join lateral jsonb_populate_record(s, jsonb_build_object(
       'shard', get_byte(sha256(convert_to(i.id, 'UTF8')), 0) % 64, 'job_id', i.id)) r where s.job_id = $1",
    "insert into longhaul.event
     select r.* from longhaul.event e cross join generate_series(1, $2) n
     cross join lateral (select e.job_id || '-' || n as id) i
     cross join lateral jsonb_populate_record(e, jsonb_build_object(
       'shard', get_byte(sha256(convert_to(i.id, 'UTF8')), 0) % 64, 'job_id', i.id)) r where e.job_id = $1",
    "insert into longhaul.checkpoint
     select r.* from longhaul.checkpoint c cross join generate_series(1, $2) n
     cross join lateral (select c.job_id || '-' || n as id) i
     cross join lateral jsonb_populate_record(c, jsonb_build_object(
       'shard', get_byte(sha256(convert_to(i.id, 'UTF8')), 0) % 64, 'job_id', i.id)) r where c.job_id = $1",
    "insert into longhaul.approval
     select r.* from longhaul.approval a cross join generate_series(1, $2) n
     cross join lateral (select a.job_id || '-' || n as id) i
     cross join lateral jsonb_populate_record(a, jsonb_build_object(
       'shard', get_byte(sha256(convert_to(i.id, 'UTF8')), 0) % 64, 'job_id', i.id,
       'approval_id', md5(i.id)::uuid)) r where a.job_id = $1",
];

fn main() -> Result<()> {
    // `cargo test --all-targets` comes by as well, and has no hour to spare.
    if !std::env::args().any(|argument| argument == "--bench") {
        println!("this runs with `cargo bench --bench backlog`");
        return Ok(());
    }
    let (rounds, jobs) = (number("--rounds", 100)?, number("--jobs", 100_000)?);
    tokio::runtime::Runtime::new()?.block_on(run(rounds, i32::try_from(jobs)?))
}

/// The number after a flag.
fn number(flag: &str, usual: usize) -> Result<usize> {
    let mut arguments = std::env::args().skip_while(|argument| argument != flag).skip(1);
    arguments.next().map_or(Ok(usual), |value| value.parse().context("a number follows the flag"))
}

async fn run(rounds: usize, jobs: i32) -> Result<()> {
    let folder = std::env::temp_dir().join(format!("longhaul-backlog-{}", std::process::id()));
    let settings = PostgresSettings {
        data_dir: folder.join("postgres"),
        durable: true,
        max_connections: 50,
        options: Vec::new(),
    };
    let postgres = Postgres::start(settings).await?;
    let measured = measure(postgres.url(), rounds, jobs).await;
    drop(postgres);
    // What the server still writes while it stops may be in the way; the machine cleans up as well.
    let _ = std::fs::remove_dir_all(&folder);
    measured
}

async fn measure(url: String, rounds: usize, jobs: i32) -> Result<()> {
    let admin = PgPool::connect(&url).await?;
    let empty = Subject::make(&admin, &url, "empty").await?;
    let backlog = Subject::make(&admin, &url, "backlog").await?;
    backlog.pile_up(jobs).await?;
    // The first rounds fill the caches and are not counted.
    for _ in 0..5 {
        Box::pin(empty.round(&mut Times::default())).await?;
        Box::pin(backlog.round(&mut Times::default())).await?;
    }
    let (mut without, mut with) = (Times::default(), Times::default());
    for _ in 0..rounds {
        Box::pin(empty.round(&mut without)).await?;
        Box::pin(backlog.round(&mut with)).await?;
    }
    // Read every 15 s, and not between the others: they touch every job that has not ended.
    for _ in 0..rounds {
        without.take("gauges", empty.store.gauges()).await?;
        with.take("gauges", backlog.store.gauges()).await?;
    }
    println!(
        "{rounds} rounds in turns; beside {jobs} awaiting approval, {jobs} parked, {} finished",
        2 * jobs
    );
    println!("{:10} {:>12} {:>12} {:>7} {:>12}", "", "empty", "backlog", "ratio", "worst");
    for (what, with) in &mut with.0 {
        let without = without.0.get_mut(what).context("both are measured alike")?;
        let (low, high, worst) = (median(without), median(with), with.iter().max().copied());
        let ratio = high.as_secs_f64() / low.as_secs_f64();
        println!(
            "{what:10} {low:>12.2?} {high:>12.2?} {ratio:>7.2} {:>12.2?}",
            worst.unwrap_or_default()
        );
    }
    let sweep = with.0.get_mut("sweep").map(|times| median(times)).unwrap_or_default();
    if sweep >= SWEEP_MAX {
        bail!("a sweep round beside the backlog takes {sweep:.2?}, and may take {SWEEP_MAX:.0?}");
    }
    Ok(())
}

fn median(times: &mut [Duration]) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

/// How long each thing took, each time.
#[derive(Default)]
struct Times(BTreeMap<&'static str, Vec<Duration>>);

impl Times {
    async fn take<T>(&mut self, what: &'static str, work: impl Future<Output = T>) -> T {
        let begun_at = Instant::now();
        let done = work.await;
        self.0.entry(what).or_default().push(begun_at.elapsed());
        done
    }
}

/// A database that is measured.
struct Subject {
    store: Store,
    pool: PgPool,
    executor_id: ExecutorId,
}

impl Subject {
    async fn make(admin: &PgPool, url: &str, name: &str) -> Result<Self> {
        sqlx::raw_sql(sqlx::AssertSqlSafe(format!("create database {name}")))
            .execute(admin)
            .await?;
        let url = url.replacen("/postgres?", &format!("/{name}?"), 1);
        let settings = StoreSettings {
            database_url: url.clone().into(),
            direct_url: None,
            connections_max: 4,
        };
        let store = Store::connect(&settings).await?;
        let writer = store.clone();
        tokio::spawn(async move { writer.write_batches(CancellationToken::new()).await });
        let pool = PgPoolOptions::new().max_connections(1).connect(&url).await?;
        let executor_id = ExecutorId::new();
        store.register_executor(executor_id, "bench", Duration::from_hours(10)).await?;
        Ok(Self { store, pool, executor_id })
    }

    /// Submits a job of one step.
    async fn submit(&self, job_id: &str, step: Value) -> Result<JobKey> {
        let sent = json!({"job_id": job_id, "task": "A backlog", "steps": [step]});
        let Value::Object(sent) = sent else { bail!("a submission is an object") };
        let submission = Submission::read(sent).ok().context("the submission is well formed")?;
        let defaults = Defaults {
            model: "claude-sonnet-5-5".to_owned(),
            max_tokens: 1024,
            notify: Vec::new(),
            language: None,
            context: ContextMode::Conversation,
        };
        let spec = freeze(&submission, &defaults).ok().context("the submission is valid")?;
        let key = JobKey::new(job_id);
        let job = NewJob {
            key: key.clone(),
            content: submission.content(),
            spec: Arc::new(spec),
            traceparent: None,
            actor: "client",
            claimer: None,
        };
        self.store.submit(job).await?;
        Ok(key)
    }

    /// One job of each kind as the product makes it, and very many copies.
    async fn pile_up(&self, jobs: i32) -> Result<()> {
        let begun_at = Instant::now();
        let day = 24 * 3600;
        for (job_id, step, copies) in [
            (
                "awaiting",
                json!({"type": "approval", "note": "Good?", "timeout_seconds": day}),
                jobs,
            ),
            ("parked", json!({"type": "wait", "duration_seconds": day}), jobs),
            ("finished", json!({"type": "wait", "duration_seconds": 0}), 2 * jobs),
        ] {
            self.submit(job_id, step).await?;
            for table in MULTIPLY {
                sqlx::query(table).bind(job_id).bind(copies).execute(&self.pool).await?;
            }
        }
        // What a database that has grown over days has done long ago; else every round would write out what was piled up.
        for tidy in ["vacuum analyze", "checkpoint"] {
            sqlx::raw_sql(tidy).execute(&self.pool).await?;
        }
        println!("the backlog was made in {:.0?}", begun_at.elapsed());
        Ok(())
    }

    /// A sweep, and the life of a job from its submit until it is given back.
    async fn round(&self, times: &mut Times) -> Result<()> {
        let sweeper = Sweeper::new(self.store.clone(), Duration::from_secs(1));
        let swept = times.take("sweep", Box::pin(sweeper.run_once(Judging::Everybody))).await;
        if swept != Swept::default() {
            bail!("a sweep found something to do: {swept:?}");
        }
        let job_id = new_job_id();
        let step = json!({"type": "run", "prompt": "Write one line."});
        let key = times.take("submit", Box::pin(self.submit(&job_id, step))).await?;
        let executor_id = self.executor_id;
        let request = ClaimRequest { executor_id, limit: 1, holds_last_attempt: false };
        let claim = Box::pin(self.store.claim(request));
        let claimed = times.take("claim", claim).await?;
        let [job] = claimed.claimed.as_slice() else {
            bail!("the job that was submitted is not claimed")
        };
        let unsent = CallEnd::Unsent(CallId::first_of(job.lease.attempt_id));
        times.take("release", Box::pin(self.store.release(job, unsent))).await?;
        Box::pin(self.store.cancel(&key, "", "client", None)).await?;
        Ok(())
    }
}
