//! A backlog: jobs as the product makes them, through the Store in this process, and very many copies of them by SQL.
//!
//! A copy differs in its id, and in what follows from that; the moments lie a second apart, those to come in the future.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use longhaul::domain::id::{CallId, ExecutorId, JobKey, new_job_id};
use longhaul::domain::spec::Defaults;
use longhaul::domain::submission::{ContextMode, Submission};
use longhaul::domain::validate::freeze;
use longhaul::engine::sweeper::{Sweeper, Swept};
use longhaul::store::claim::ClaimRequest;
use longhaul::store::control::By;
use longhaul::store::ledger::CallEnd;
use longhaul::store::submit::NewJob;
use longhaul::store::sweep::Judging;
use longhaul::store::{Store, StoreSettings};
use serde_json::{Value, json};
use sqlx::AssertSqlSafe;
use sqlx::Connection as _;
use sqlx::postgres::PgConnection;
use tokio_util::sync::CancellationToken;

use crate::load::since;

/// The tables that a job of the backlog has rows in.
const TABLES: [&str; 5] = ["job", "job_spec", "event", "checkpoint", "approval"];

/// What is different in the copy of a row `o` with the number `n` and the id `i.id`; an approval has an id of its own.
const DIFFERENT: [(&str, &str); 8] = [
    ("shard", "get_byte(sha256(convert_to(i.id, 'UTF8')), 0) % 64"),
    ("job_id", "i.id"),
    ("approval_id", "case when o.approval_id is not null then md5(i.id)::uuid end"),
    ("run_at", "o.run_at + make_interval(secs => n)"),
    ("deadline_at", "o.deadline_at + make_interval(secs => n)"),
    ("created_at", "o.created_at - make_interval(secs => n)"),
    ("updated_at", "o.updated_at - make_interval(secs => n)"),
    ("finished_at", "o.finished_at - make_interval(secs => n)"),
];

/// A database that is worked on without a server.
pub struct Bare {
    url: String,
    store: Store,
    executor_id: ExecutorId,
    stop: CancellationToken,
}

/// How long each thing took in each round, in milliseconds.
#[derive(Default)]
pub struct Times {
    pub sweep: Vec<f64>,
    pub submit: Vec<f64>,
    pub claim: Vec<f64>,
    pub release: Vec<f64>,
    pub gauges: Vec<f64>,
}

impl Bare {
    pub async fn make(url: String) -> Result<Self> {
        let database_url = url.clone().into();
        let settings = StoreSettings { database_url, direct_url: None, connections_max: 4 };
        let store = Store::connect(&settings).await?;
        let (writer, stop) = (store.clone(), CancellationToken::new());
        let stopped = stop.clone();
        tokio::spawn(async move { writer.write_batches(stopped).await });
        let executor_id = ExecutorId::new();
        store.register_executor(executor_id, "bench", Duration::from_hours(10)).await?;
        Ok(Self { url, store, executor_id, stop })
    }

    /// Leaves the database to its servers.
    pub async fn leave(self) -> Result<()> {
        self.store.unregister_executor(self.executor_id).await?;
        self.stop.cancel();
        self.store.close().await;
        Ok(())
    }

    /// So many finished jobs, and so many each that wait for a person and for time.
    pub async fn pile_up(&self, finished: i32, waiting: i32) -> Result<()> {
        let begun_at = Instant::now();
        let day = 24 * 3600;
        let mut connection = PgConnection::connect(&self.url).await?;
        sqlx::raw_sql("set synchronous_commit = off").execute(&mut connection).await?;
        let zero = json!({"type": "wait", "duration_seconds": 0});
        let approval = json!({"type": "approval", "note": "Good?", "timeout_seconds": day});
        let wait = json!({"type": "wait", "duration_seconds": day});
        for (job_id, steps, copies) in [
            ("finished", vec![zero.clone(), zero], finished),
            ("awaiting", vec![approval], waiting),
            ("parked", vec![wait], waiting),
        ] {
            self.submit(job_id, steps).await?;
            for table in TABLES {
                let statement = copying(&mut connection, table).await?;
                sqlx::query(AssertSqlSafe(statement))
                    .bind(job_id)
                    .bind(copies - 1)
                    .execute(&mut connection)
                    .await?;
            }
        }
        // What a database that has grown over days has done long ago; else every round would write out what was piled up.
        for tidy in ["vacuum analyze", "checkpoint"] {
            sqlx::raw_sql(tidy).execute(&mut connection).await?;
        }
        connection.close().await?;
        println!("   the backlog was made in {:.0?}", begun_at.elapsed());
        Ok(())
    }

    async fn submit(&self, job_id: &str, steps: Vec<Value>) -> Result<JobKey> {
        let sent = json!({"job_id": job_id, "task": "A backlog", "steps": steps});
        let Value::Object(sent) = sent else { bail!("a submission is an object") };
        let submission = Submission::read(sent).ok().context("the submission is well formed")?;
        let defaults = Defaults {
            model: "claude-sonnet-5-5".to_owned(),
            max_tokens: 1024,
            notify: Vec::new(),
            language: None,
            context: ContextMode::Conversation,
            book: Arc::default(),
        };
        let spec = freeze(&submission, &defaults).ok().context("the submission is valid")?;
        let key = JobKey::new(job_id);
        let job = NewJob {
            key: key.clone(),
            content: submission.content(),
            spec: Arc::new(spec),
            traceparent: None,
            actor: "client".into(),
            claimer: None,
        };
        self.store.submit(job).await?;
        Ok(key)
    }

    /// A sweep, and the life of a job from its submit until it is given back.
    pub async fn round(&self, times: &mut Times) -> Result<()> {
        let sweeper = Sweeper::new(self.store.clone(), Duration::from_secs(1), Arc::default());
        let begun_at = Instant::now();
        let swept = Box::pin(sweeper.run_once(Judging::Everybody)).await;
        times.sweep.push(since(begun_at));
        if swept != Swept::default() {
            bail!("a sweep found something to do: {swept:?}");
        }
        let job_id = new_job_id();
        let step = json!({"type": "run", "prompt": "Write one line."});
        let begun_at = Instant::now();
        let key = Box::pin(self.submit(&job_id, vec![step])).await?;
        times.submit.push(since(begun_at));
        let executor_id = self.executor_id;
        let request = ClaimRequest { executor_id, limit: 1, holds_last_attempt: false };
        let begun_at = Instant::now();
        let claimed = Box::pin(self.store.claim(request)).await?;
        times.claim.push(since(begun_at));
        let [job] = claimed.claimed.as_slice() else {
            bail!("the job that was submitted is not claimed")
        };
        let unsent = CallEnd::Unsent(CallId::first_of(job.lease.attempt_id));
        let begun_at = Instant::now();
        Box::pin(self.store.release(job, unsent)).await?;
        times.release.push(since(begun_at));
        Box::pin(self.store.cancel(&key, "", By::actor("client"))).await?;
        Ok(())
    }

    /// Reads what is read every 15 s, and touches every job that has not ended.
    pub async fn gauge(&self, times: &mut Times) -> Result<()> {
        let begun_at = Instant::now();
        self.store.gauges().await?;
        times.gauges.push(since(begun_at));
        Ok(())
    }
}

/// The statement that copies the rows of a job in a table, whatever columns it has.
async fn copying(connection: &mut PgConnection, table: &str) -> Result<String> {
    let columns: Vec<String> = sqlx::query_scalar(
        "select attname::text from pg_attribute
         where attrelid = ('longhaul.' || $1)::regclass and attnum > 0 and not attisdropped order by attnum",
    )
    .bind(table)
    .fetch_all(connection)
    .await?;
    let mut values = String::new();
    for column in &columns {
        let different = DIFFERENT.iter().find(|(name, _)| name == column);
        let separator = if values.is_empty() { "" } else { ", " };
        match different {
            Some((_, value)) => write!(values, "{separator}{value}")?,
            None => write!(values, "{separator}o.{column}")?,
        }
    }
    Ok(format!(
        "insert into longhaul.{table} ({}) select {values} from longhaul.{table} o
         cross join generate_series(1, $2) n cross join lateral (select o.job_id || '-' || n as id) i
         where o.job_id = $1",
        columns.join(", ")
    ))
}
