//! The ground everything is measured on: this machine, its disk, and a durable Postgres of the run's own.
//!
//! Everything lies in one folder, which is removed at the end, however the run ends.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Result, bail};
use longhaul::dev::postgres::{Postgres, PostgresSettings};
use serde::Serialize;
use sqlx::postgres::{PgConnection, PgPool, PgPoolOptions};
use sqlx::{AssertSqlSafe, Connection as _};

use crate::report::median;

/// The disk is asked so often how fast it is.
const SYNCS: u32 = 200;

/// What a reader has to know to compare figures with their own.
#[derive(Serialize)]
pub struct Machine {
    pub processor: String,
    pub cores: usize,
    pub memory_gib: u64,
    pub kernel: String,
    pub postgres: String,
    pub postgres_settings: String,
    pub fdatasync_us: f64,
}

impl std::fmt::Display for Machine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { processor, cores, memory_gib, kernel, .. } = self;
        writeln!(f, "{cores} cores of {processor}, {memory_gib} GiB, Linux {kernel}")?;
        writeln!(f, "{}\n{}", self.postgres, self.postgres_settings)?;
        write!(f, "fdatasync of 8 KiB: {:.0} us", self.fdatasync_us)
    }
}

/// Settings of a server that is meant for work; whatever makes a commit durable stays on.
const SETTINGS: [&str; 5] = [
    "shared_buffers=1GB",
    "max_wal_size=4GB",
    "shared_preload_libraries=pg_stat_statements",
    "pg_stat_statements.track_planning=off",
    "track_io_timing=off",
];

/// A Postgres in a folder that is thrown away.
pub struct Ground {
    postgres: Option<Postgres>,
    folder: PathBuf,
}

impl Ground {
    pub async fn prepare() -> Result<Self> {
        let folder = std::env::temp_dir().join(format!("longhaul-speed-{}", std::process::id()));
        std::fs::create_dir_all(&folder)?;
        let settings = PostgresSettings {
            data_dir: folder.join("postgres"),
            durable: true,
            max_connections: 300,
            options: SETTINGS.map(str::to_owned).to_vec(),
        };
        let mut ground = Self { postgres: None, folder };
        match Postgres::start(settings).await {
            Ok(postgres) => ground.postgres = Some(postgres),
            Err(error) => {
                ground.clear().await?;
                return Err(error.into());
            }
        }
        Ok(ground)
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Makes an empty database; answers its URL.
    pub async fn database(&self, name: &str) -> Result<String> {
        let mut admin = PgConnection::connect(&self.url("postgres")).await?;
        sqlx::raw_sql(AssertSqlSafe(format!("create database {name}"))).execute(&mut admin).await?;
        admin.close().await?;
        Ok(self.url(name))
    }

    /// Throws a database away, whoever still looks into it.
    pub async fn drop_database(&self, name: &str) -> Result<()> {
        let mut admin = PgConnection::connect(&self.url("postgres")).await?;
        let drop = format!("drop database if exists {name} with (force)");
        sqlx::raw_sql(AssertSqlSafe(drop)).execute(&mut admin).await?;
        Ok(admin.close().await?)
    }

    /// A few connections to look into a database.
    pub async fn pool(url: &str) -> Result<PgPool> {
        Ok(PgPoolOptions::new().max_connections(2).connect(url).await?)
    }

    pub fn url(&self, database: &str) -> String {
        let url = self.postgres.as_ref().map(Postgres::url).unwrap_or_default();
        url.replacen("/postgres?", &format!("/{database}?"), 1)
    }

    /// What this machine is.
    pub async fn describe(&self) -> Result<Machine> {
        let mut connection = PgConnection::connect(&self.url("postgres")).await?;
        let postgres = sqlx::query_scalar("select version()").fetch_one(&mut connection).await?;
        let durable: Vec<String> = sqlx::query_scalar(
            "select name || '=' || setting from pg_settings
             where name in ('fsync', 'synchronous_commit', 'full_page_writes', 'wal_sync_method') order by name",
        )
        .fetch_all(&mut connection)
        .await?;
        for needed in ["fsync=on", "synchronous_commit=on", "full_page_writes=on"] {
            if !durable.iter().any(|setting| setting == needed) {
                bail!("this Postgres must run with {needed}");
            }
        }
        let meminfo = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
        let kib: u64 = word_after(&meminfo, "MemTotal").parse().unwrap_or_default();
        let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        Ok(Machine {
            processor: line_after(&cpuinfo, "model name"),
            cores: std::thread::available_parallelism()?.get(),
            memory_gib: kib >> 20,
            kernel: kernel.trim().to_owned(),
            postgres,
            postgres_settings: [SETTINGS.join(" "), durable.join(" ")].join(" "),
            fdatasync_us: self.fdatasync_us()?,
        })
    }

    /// How long the disk under the database takes to write 8 KiB over others and make that durable.
    fn fdatasync_us(&self) -> Result<f64> {
        let path = self.folder.join("sync");
        let file = File::create(&path)?;
        let mut times = Vec::new();
        for at in 0..SYNCS {
            let begun_at = Instant::now();
            file.write_all_at(&[at as u8; 8192], 0)?;
            file.sync_data()?;
            times.push(begun_at.elapsed().as_secs_f64() * 1e6);
        }
        std::fs::remove_file(path)?;
        Ok(median(&times))
    }

    /// Stops everything and removes the folder.
    pub async fn clear(mut self) -> Result<()> {
        let stopped = match self.postgres.take() {
            Some(postgres) => postgres.stop().await,
            None => Ok(()),
        };
        std::fs::remove_dir_all(&self.folder)?;
        Ok(stopped?)
    }
}

fn line_after(text: &str, name: &str) -> String {
    let line = text.lines().find(|line| line.starts_with(name)).unwrap_or_default();
    line.split_once(':').map(|(_, value)| value.trim().to_owned()).unwrap_or_default()
}

fn word_after(text: &str, name: &str) -> String {
    line_after(text, name).split_whitespace().next().unwrap_or_default().to_owned()
}
