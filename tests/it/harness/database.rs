//! The test's own look at the tables, the clock that tests may shift, and the lease that tests may end.
//!
//! Tests read everything and write only what the product lets an operator write, or what the clock is for.

use std::time::Duration;

use serde_json::Value;
use sqlx::PgPool;
use sqlx::postgres::PgPoolOptions;

use super::PATIENCE;

/// The database of one rig.
pub struct Database {
    /// Where it is, for servers.
    pub url: String,
    /// The test's own connections.
    pub pool: PgPool,
}

/// A row of the ledger.
#[derive(Debug, sqlx::FromRow)]
pub struct CallRow {
    pub step: i32,
    pub revision: i32,
    pub outcome: String,
    pub input_tokens: Option<i64>,
    pub output_tokens: Option<i64>,
    pub cost_usd: Option<String>,
    pub is_settled: bool,
}

/// A living server.
#[derive(Clone, Debug, PartialEq, Eq, sqlx::FromRow)]
pub struct ExecutorRow {
    pub executor_id: String,
    pub pid: i32,
    pub presence_key: Option<i32>,
}

/// A row of the outbox.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, sqlx::FromRow)]
pub struct NoticeRow {
    pub kind: String,
    pub recipient: String,
    pub delivery: String,
}

impl Database {
    /// Connects.
    pub async fn open(url: String) -> Self {
        let pool = PgPoolOptions::new().max_connections(4).connect(&url).await.unwrap();
        Self { url, pool }
    }

    /// How many jobs are stored.
    pub async fn job_count(&self) -> i64 {
        self.number("select count(*) from longhaul.job").await
    }

    /// A number that a statement tells.
    pub async fn number(&self, statement: &'static str) -> i64 {
        sqlx::query_scalar(statement).fetch_one(&self.pool).await.unwrap()
    }

    /// Waits until a statement tells true; a row wakes nobody, so this looks a hundred times a second.
    pub async fn wait_until(&self, statement: &'static str, job_id: &str) {
        let read = || sqlx::query_scalar::<_, Option<bool>>(statement).bind(job_id);
        let look = async {
            let mut pace = tokio::time::interval(Duration::from_millis(10));
            while read().fetch_optional(&self.pool).await.unwrap().flatten() != Some(true) {
                pace.tick().await;
            }
        };
        let found = tokio::time::timeout(PATIENCE, look).await;
        found.unwrap_or_else(|_| panic!("never true of {job_id}: {statement}"));
    }

    /// The state of a job as readers of the template see it.
    pub async fn state(&self, job_id: &str) -> Value {
        let read = sqlx::query_scalar("select state from durable_jobs where job_id = $1");
        read.bind(job_id).fetch_one(&self.pool).await.unwrap()
    }

    /// The ledger of a job, oldest first.
    pub async fn calls(&self, job_id: &str) -> Vec<CallRow> {
        let read = sqlx::query_as(
            "select step, revision, outcome, (usage ->> 'input_tokens')::bigint as input_tokens,
               (usage ->> 'output_tokens')::bigint as output_tokens, cost_usd::text as cost_usd,
               settled_at is not null as is_settled
             from longhaul.model_call where job_id = $1 order by started_at, call_id",
        );
        read.bind(job_id).fetch_all(&self.pool).await.unwrap()
    }

    /// Step and outcome of each row of a job's ledger, oldest first.
    pub async fn outcomes(&self, job_id: &str) -> Vec<(i32, String)> {
        self.calls(job_id).await.into_iter().map(|call| (call.step, call.outcome)).collect()
    }

    /// The notices of a job, in the order of their names.
    pub async fn notices(&self, job_id: &str) -> Vec<NoticeRow> {
        let read = sqlx::query_as(
            "select kind, recipient, delivery from longhaul.outbox where job_id = $1
             order by kind, recipient, created_at",
        );
        read.bind(job_id).fetch_all(&self.pool).await.unwrap()
    }

    /// Moves the clock of everybody forward.
    ///
    /// Leases move with it in the same statement, or every server would be dead at once.
    pub async fn shift_clock(&self, seconds: i32) {
        Self::shift_clock_of(&self.pool, f64::from(seconds)).await;
    }

    /// The same, of whichever database.
    pub async fn shift_clock_of(pool: &PgPool, seconds: f64) {
        let shift = sqlx::query(
            "with shifted as (
               insert into longhaul.setting (name, value)
               values ('clock_shift', make_interval(secs => $1)::text)
               on conflict (name) do update
               set value = (setting.value::interval + excluded.value::interval)::text
             )
             update longhaul.executor
             set lease_expires_at = lease_expires_at + make_interval(secs => $1)",
        );
        shift.bind(seconds).execute(pool).await.unwrap();
    }

    /// Moves the clock forward and lets every lease run out, as if all servers had slept.
    pub async fn sleep_all(&self, seconds: i32) {
        let shift = sqlx::query(
            "insert into longhaul.setting (name, value)
             values ('clock_shift', make_interval(secs => $1)::text)",
        );
        shift.bind(f64::from(seconds)).execute(&self.pool).await.unwrap();
    }

    /// Waits until every session of a server or store has lasted for longer than judging asks for.
    pub async fn wait_for_old_sessions(&self) {
        let old = "select bool_and(backend_start < now() - interval '5 seconds') and $1 <> ''
          from pg_stat_activity where datname = current_database() and application_name = 'longhaul'";
        self.wait_until(old, "any").await;
    }

    /// Ends the lease of the server with this process id, as if its time had passed.
    pub async fn end_lease_of(&self, pid: i32) {
        let end = sqlx::query(
            "update longhaul.executor set lease_expires_at = longhaul.now() where pid = $1",
        );
        assert_eq!(end.bind(pid).execute(&self.pool).await.unwrap().rows_affected(), 1);
    }

    /// The executors that there are, oldest first.
    pub async fn executors(&self) -> Vec<ExecutorRow> {
        let read = sqlx::query_as(
            "select executor_id::text as executor_id, pid, presence_key
             from longhaul.executor order by started_at",
        );
        read.fetch_all(&self.pool).await.unwrap()
    }

    /// Ends the lease of a running job, as readers of the template play a crash.
    pub async fn end_lease(&self, job_id: &str) {
        let end = sqlx::query(
            "update public.durable_jobs set lease_expires_at = now() - interval '1 minute'
             where job_id = $1",
        );
        end.bind(job_id).execute(&self.pool).await.unwrap();
    }
}
