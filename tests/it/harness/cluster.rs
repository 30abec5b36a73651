//! One embedded Postgres for the whole test process, and in it one migrated template.
//!
//! Each test gets a copy of the template, which is faster than migrating and keeps tests apart.
//! The cluster is thrown away: its guard stops it when the process ends, however that ends, and a small
//! shell removes the folder; what a machine that lost power left behind is removed at the next start.

use std::fs;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use longhaul::dev::postgres::{Postgres, PostgresSettings};
use longhaul::store::{Store, StoreSettings};
use nix::errno::Errno;
use nix::sys::signal::kill;
use nix::unistd::Pid;
use sqlx::{AssertSqlSafe, Connection as _, PgConnection};
use tokio::sync::OnceCell;

const PREFIX: &str = "longhaul-it-";
const TEMPLATE: &str = "template_migrated";

/// Waits for the end of this process and then for that of Postgres, and removes their folder.
const SWEEP: &str = r#"read -r _; while [ -e "$1/postgres/cluster/postmaster.pid" ]; do sleep 0.1; done; rm -rf "$1""#;

static CLUSTER: OnceCell<Cluster> = OnceCell::const_new();

/// The cluster that all tests of this process share.
pub struct Cluster {
    postgres: Postgres,
    folder: PathBuf,
    next: AtomicU32,
    /// Holds the pipe whose end tells the shell to sweep.
    _sweeper: Child,
}

impl Cluster {
    /// The cluster, started by the first test that asks.
    pub async fn get() -> &'static Self {
        CLUSTER.get_or_init(Self::start).await
    }

    async fn start() -> Self {
        // Only the first of a process counts; the others find theirs installed.
        let _ = rustls::crypto::ring::default_provider().install_default();
        remove_stale_folders();
        let folder = std::env::temp_dir().join(format!("{PREFIX}{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let data_dir = folder.join("postgres");
        let settings = PostgresSettings {
            data_dir,
            durable: false,
            max_connections: 400,
            options: Vec::new(),
        };
        let postgres = Postgres::start(settings).await.unwrap();
        let sweeper = start_sweeper(&folder).unwrap();
        let cluster = Self { postgres, folder, next: AtomicU32::new(0), _sweeper: sweeper };
        cluster.execute(format!("create database {TEMPLATE}")).await;
        let database_url = cluster.url_of(TEMPLATE).into();
        let store =
            Store::connect(&StoreSettings { database_url, direct_url: None, connections_max: 4 })
                .await
                .unwrap();
        store.close().await;
        cluster
    }

    /// A fresh copy of the migrated template.
    pub async fn make_database(&self) -> String {
        self.copy(TEMPLATE).await
    }

    /// A database in which nothing has been made yet.
    pub async fn make_empty_database(&self) -> String {
        self.copy("template1").await
    }

    async fn copy(&self, template: &str) -> String {
        let name = format!("test_{}", self.next.fetch_add(1, Ordering::Relaxed));
        self.execute(format!("create database {name} template {template}")).await;
        self.url_of(&name)
    }

    /// A path for a file of a test, which is removed with the cluster.
    pub fn file(&self, kind: &str) -> PathBuf {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        self.folder.join(format!("{number}.{kind}"))
    }

    fn url_of(&self, database: &str) -> String {
        self.postgres.url().replacen("/postgres?", &format!("/{database}?"), 1)
    }

    async fn execute(&self, statement: String) {
        let mut connection = PgConnection::connect(&self.postgres.url()).await.unwrap();
        sqlx::raw_sql(AssertSqlSafe(statement)).execute(&mut connection).await.unwrap();
        connection.close().await.unwrap();
    }
}

fn start_sweeper(folder: &Path) -> io::Result<Child> {
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", SWEEP, "sweeper"]).arg(folder).process_group(0);
    shell.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()
}

fn remove_stale_folders() {
    let Ok(entries) = fs::read_dir(std::env::temp_dir()) else { return };
    for entry in entries.filter_map(Result::ok) {
        let name = entry.file_name();
        let process = name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.parse().ok());
        let is_dead = |process| kill(Pid::from_raw(process), None) == Err(Errno::ESRCH);
        if process.is_some_and(is_dead) {
            // Another run may be removing it as well.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}
