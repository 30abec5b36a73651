//! WHERE a job is kept: Postgres, and the only SQL of the system.
//!
//! A public method of `Store` is one transaction, named for what happens to the job.
//! Every transition goes the same way: look at the row, let `domain::state` decide from what it shows, write everything
//! in one statement that writes a row only as it was seen, and only after the commit wake whoever waits.
//! No transaction is ever open during a call to the outside world.

mod open;
mod trouble;

pub mod presence;

pub mod wake;

pub mod submit;

mod writer;

mod write;

pub mod link;

pub mod transition;

pub mod claim;

pub mod ledger;

pub mod allowance;

pub mod partial;

pub mod control;

pub mod approval;

mod asked;

pub mod import;
pub mod prune;
pub mod tombstone;

pub mod event;

mod page;

pub mod feed;

mod poll;

pub use poll::about;

pub mod job;

pub mod list;

pub mod bulk;

pub mod count;

pub mod usage;

pub mod price;

pub mod batch;

pub mod recipient;

pub mod outbox;

pub mod probe;

pub mod receipt;

pub mod inbound;

pub mod endpoint;

pub mod dead;

pub mod sweep;

pub mod gauge;

pub mod executor;

pub mod checkup;

pub mod key;

use std::str::FromStr as _;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use serde::de::DeserializeOwned;
use serde_json::Value;
use sqlx::postgres::{PgConnectOptions, PgPool, PgPoolOptions};
use sqlx::{ConnectOptions as _, Executor as _};
use tokio::sync::SetOnce;

use crate::domain::event::Delivery;
use crate::domain::id::{ApprovalId, JobKey, NoticeId};
use crate::domain::job::Status;
use crate::domain::spec;
use crate::domain::state::Refusal;
use presence::Presence;
use wake::Wake;
use write::Encoded;

/// Where Postgres is, and how much of it this process may use.
#[derive(Clone, Debug)]
pub struct StoreSettings {
    /// The connection URL.
    pub database_url: secrecy::SecretString,
    /// A way to the same database that no pooler stands in, if the other may not be one.
    pub direct_url: Option<secrecy::SecretString>,
    /// The most connections of the pool.
    pub connections_max: u32,
}

impl StoreSettings {
    /// Whether a URL can name a Postgres at all.
    pub fn names_a_postgres(url: &secrecy::SecretString) -> bool {
        use secrecy::ExposeSecret as _;
        let url = url.expose_secret();
        let has_scheme = url.starts_with("postgres://") || url.starts_with("postgresql://");
        has_scheme && PgConnectOptions::from_str(url).is_ok()
    }
}

/// The store of jobs.
#[derive(Clone)]
pub struct Store {
    pool: PgPool,
    wake: Arc<Wake>,
    writer: Arc<writer::Writer>,
    asked: Arc<asked::Asked>,
    options: Arc<PgConnectOptions>,
    presence: Arc<Presence>,
    opened: Arc<SetOnce<()>>,
}

/// Why the store could not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// There is no such job.
    #[error("there is no job {key}")]
    JobNotFound { key: JobKey },
    /// The job ended a while ago, and nothing of it is kept but how.
    #[error("the job {key} was pruned: it ended as {status} at {at}", status = crate::domain::word::Word::word(.status), at = .finished_at.format("%Y-%m-%d %H:%M:%S UTC"))]
    JobPruned { key: JobKey, status: Status, finished_at: DateTime<Utc> },
    /// The job never asked such an approval.
    #[error("the job {key} has no approval {approval_id}")]
    ApprovalNotFound { key: JobKey, approval_id: ApprovalId },
    /// The job has no such step.
    #[error("the job {key} has no step {step}")]
    StepNotFound { key: JobKey, step: i32 },
    /// The id is taken by another submission.
    #[error("job {key} exists with other content: {field} differs")]
    JobIdConflict { key: JobKey, field: String },
    /// A newer release stored the job, in a shape that this one does not know; servers of that release move it.
    #[error("the job {key} belongs to a newer release than this server's")]
    SpecVersionUnknown { key: JobKey },
    /// The id of the request was used for another action.
    #[error("this request_id was used for another request to {action} job {key}")]
    RequestIdConflict { key: JobKey, action: String },
    /// There is no such notice.
    #[error("there is no notice {notice_id}")]
    NoticeNotFound { notice_id: NoticeId },
    /// The notice need not be sent again, or must not.
    #[error("the notice {notice_id} is not sent again: {why}")]
    NoticeKept { notice_id: NoticeId, delivery: Delivery, why: &'static str },
    /// The state machine says no.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// A row does not fit what the code knows.
    #[error("a row of {table} does not fit: {what}")]
    Corrupt { table: &'static str, what: String },
    /// Postgres is away, or busy beyond the timeouts: nothing is known to have happened.
    #[error("the database does not answer")]
    Unavailable(#[source] sqlx::Error),
    /// Postgres refused a statement, which is a fault of ours, or a login.
    #[error("the database refused")]
    Database(#[source] sqlx::Error),
    /// The schema could not be brought up to date.
    #[error("the schema could not be brought up to date")]
    Migrate(#[from] sqlx::migrate::MigrateError),
}

impl From<sqlx::Error> for StoreError {
    fn from(error: sqlx::Error) -> Self {
        if let sqlx::Error::ColumnDecode { index, .. } = &error {
            return Self::Corrupt { table: "a result", what: format!("at column {index}") };
        }
        if is_passing(&error) { Self::Unavailable(error) } else { Self::Database(error) }
    }
}

/// Whether an error is that of a Postgres which is away or busy.
fn is_passing(error: &sqlx::Error) -> bool {
    match error.as_database_error().and_then(sqlx::error::DatabaseError::code) {
        // Connection trouble, too many connections, shutdown or a timeout, a lock that was not to be had,
        // a session ended in its transaction, a standby that is not the primary yet, and what the retries of deadlocks and conflicts did not outlast.
        Some(code) => {
            let classes = ["08", "53", "57"];
            let codes = ["55P03", "25P03", "25006", "40001", "40P01"];
            classes.iter().any(|class| code.starts_with(class)) || codes.contains(&&*code)
        }
        None => matches!(
            error,
            sqlx::Error::Io(_)
                | sqlx::Error::BeginFailed
                | sqlx::Error::Tls(_)
                | sqlx::Error::PoolTimedOut
                | sqlx::Error::PoolClosed
                | sqlx::Error::WorkerCrashed
                | sqlx::Error::Protocol(_)
        ),
    }
}

impl Store {
    /// Knows where Postgres is, and does not ask for it before it is opened.
    pub fn new(settings: &StoreSettings) -> Result<Self, StoreError> {
        let options = connect_options(&settings.database_url)?;
        let direct = settings.direct_url.as_ref().map(connect_options).transpose()?;
        let is_declared = direct.is_some();
        let presence = Presence::new(direct.unwrap_or_else(|| options.clone()), is_declared);
        let pool = PgPoolOptions::new()
            .max_connections(settings.connections_max)
            .acquire_timeout(Duration::from_secs(5))
            .test_before_acquire(false)
            .connect_lazy_with(by_key(options.clone()));
        let (wake, writer, asked, opened) =
            (Arc::default(), Arc::default(), Arc::default(), Arc::default());
        let (options, presence) = (Arc::new(options), Arc::new(presence));
        Ok(Self { pool, wake, writer, asked, options, presence, opened })
    }

    /// The store, opened.
    pub async fn connect(settings: &StoreSettings) -> Result<Self, StoreError> {
        let store = Self::new(settings)?;
        store.open().await?;
        Ok(store)
    }

    /// The sign of life of this process.
    pub fn presence(&self) -> &Presence {
        &self.presence
    }

    /// What wakes the loops of this process.
    pub fn wake(&self) -> &Arc<Wake> {
        &self.wake
    }

    /// Whether Postgres answers.
    pub async fn ping(&self) -> Result<(), StoreError> {
        bounded(self.pool.execute("-- ping")).await.map(|_| ())
    }

    /// Closes every connection, waiting for those in use.
    pub async fn close(&self) {
        self.pool.close().await;
    }
}

/// Every session frees its locks soon, even if its process freezes.
fn connect_options(url: &secrecy::SecretString) -> Result<PgConnectOptions, StoreError> {
    use secrecy::ExposeSecret as _;
    let options = PgConnectOptions::from_str(url.expose_secret())?;
    Ok(options
        .application_name("longhaul")
        .options([
            ("statement_timeout", "5s"),
            ("lock_timeout", "3s"),
            ("idle_in_transaction_session_timeout", "5s"),
            ("timezone", "UTC"),
        ])
        .log_statements(tracing::log::LevelFilter::Trace)
        .log_slow_statements(tracing::log::LevelFilter::Warn, Duration::from_secs(1)))
}

/// Plans each statement once: ours are few and their plans depend on no value, but beside many jobs Postgres would plan
/// them anew each time. Since a plan may be made on nearly empty tables and used on large ones, nothing may seem
/// cheaper than a look by key.
fn by_key(options: PgConnectOptions) -> PgConnectOptions {
    options.options([
        ("plan_cache_mode", "force_generic_plan"),
        // What has to scan a table after all is thought to be dear, and no statement is worth compiling.
        ("jit", "off"),
        ("enable_seqscan", "off"),
        ("enable_hashjoin", "off"),
        ("enable_mergejoin", "off"),
        ("seq_page_cost", "0"),
        ("random_page_cost", "0"),
        ("cpu_index_tuple_cost", "0"),
        ("cpu_operator_cost", "0.0001"),
    ])
}

/// Refuses to touch a job whose specification has a shape that only a newer release knows.
fn check_version(key: &JobKey, spec_version: i32) -> Result<(), StoreError> {
    if spec_version <= spec::VERSION {
        return Ok(());
    }
    Err(StoreError::SpecVersionUnknown { key: key.clone() })
}

/// Reads a value that was stored as JSON; one that does not fit is the row's fault, and no other's.
///
/// The error says where it does not fit and not what stands there: that may be a prompt or a phone number.
fn read_json<T: DeserializeOwned>(table: &'static str, value: Value) -> Result<T, StoreError> {
    serde_path_to_error::deserialize(value)
        .map_err(|error| StoreError::Corrupt { table, what: format!("at {}", error.path()) })
}

/// The same, of JSON that is still text: cheaper, where there is much of it.
fn read_text<T: DeserializeOwned>(table: &'static str, text: &Encoded) -> Result<T, StoreError> {
    let mut text = serde_json::Deserializer::from_str(text.0.get());
    serde_path_to_error::deserialize(&mut text)
        .map_err(|error| StoreError::Corrupt { table, what: format!("at {}", error.path()) })
}

/// A decision that panics is a fault of its row, and stops nobody else.
fn unless_it_panics<T>(decide: impl FnOnce() -> Result<T, StoreError>) -> Result<T, StoreError> {
    let decided = std::panic::catch_unwind(std::panic::AssertUnwindSafe(decide));
    decided.unwrap_or_else(|_panic| {
        Err(StoreError::Corrupt { table: "job", what: "deciding about it panicked".to_owned() })
    })
}

/// Longer than every timeout of Postgres's own: who has not answered by then is gone, and the connection with it.
const DEADLINE: Duration = Duration::from_secs(10);

/// Does something with the database, or finds after a while that it does not answer.
async fn bounded<T, E>(work: impl Future<Output = Result<T, E>>) -> Result<T, StoreError>
where
    StoreError: From<E>,
{
    match tokio::time::timeout(DEADLINE, work).await {
        Ok(done) => Ok(done?),
        Err(_elapsed) => Err(StoreError::Unavailable(sqlx::Error::PoolTimedOut)),
    }
}

/// How often a transaction is tried that Postgres undid for the sake of another.
const TRIES: u32 = 4;

/// Runs a transaction again that Postgres undid for the sake of another.
async fn retried<T, F>(mut transaction: impl FnMut() -> F) -> Result<T, StoreError>
where
    F: Future<Output = Result<T, StoreError>>,
{
    for _ in 1..TRIES {
        match bounded(transaction()).await {
            Err(error) if error.is_undone() => {}
            result => return result,
        }
    }
    bounded(transaction()).await
}
