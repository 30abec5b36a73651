//! Checkups: what `longhaul doctor` asks of a database, without changing anything in it.
//!
//! The schema is compared with the migrations of this program, and never brought up to date here.

use chrono::{DateTime, Utc};

use super::{Store, StoreError, bounded};

/// The database as it stands.
#[derive(Clone, Debug)]
pub struct Checkup {
    /// Postgres's own version.
    pub postgres: String,
    /// The only clock.
    pub now: DateTime<Utc>,
    /// How many executors hold a lease that lives.
    pub executors: i64,
}

/// How the schema differs from what this program needs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SchemaDiffers {
    /// Migrations that have not been applied.
    pub missing: Vec<i64>,
    /// Migrations that are applied and not known here, as a newer release leaves them.
    pub newer: Vec<i64>,
    /// Migrations that broke off, or that were not the same when they were applied.
    pub broken: Vec<i64>,
}

impl Store {
    /// The version of Postgres, once it answers.
    pub async fn postgres_version(&self) -> Result<String, StoreError> {
        let version = sqlx::query_scalar!(
            r#"-- postgres_version
            select pg_catalog.current_setting('server_version') as "version!""#
        );
        bounded(version.fetch_one(&self.pool)).await
    }

    /// What the schema lacks, and what it has besides.
    pub async fn compare_schema(&self) -> Result<SchemaDiffers, StoreError> {
        let is_there = sqlx::query_scalar::<_, bool>(
            "-- find_migrations
            select pg_catalog.to_regclass('longhaul._sqlx_migrations') is not null",
        );
        let applied: Vec<(i64, bool, Vec<u8>)> = if bounded(is_there.fetch_one(&self.pool)).await? {
            let read = sqlx::query_as(
                    "-- applied_migrations
                    select version, success, checksum from longhaul._sqlx_migrations order by version",
                );
            bounded(read.fetch_all(&self.pool)).await?
        } else {
            Vec::new()
        };
        let migrator = sqlx::migrate!();
        let known = |version: i64| migrator.iter().find(move |one| one.version == version);
        let is_applied = |version: i64| applied.iter().any(|(applied, ..)| *applied == version);
        let is_broken = |(version, success, checksum): &(i64, bool, Vec<u8>)| {
            let differs = known(*version).is_some_and(|one| *one.checksum != checksum[..]);
            (!success || differs).then_some(*version)
        };
        let newer =
            |(version, ..): &(i64, bool, Vec<u8>)| known(*version).is_none().then_some(*version);
        Ok(SchemaDiffers {
            missing: migrator.iter().map(|one| one.version).filter(|v| !is_applied(*v)).collect(),
            newer: applied.iter().filter_map(newer).collect(),
            broken: applied.iter().filter_map(is_broken).collect(),
        })
    }

    /// The clock, and who is alive.
    pub async fn check_up(&self) -> Result<Checkup, StoreError> {
        let row = sqlx::query!(
            r#"-- check_up
            select pg_catalog.current_setting('server_version') as "postgres!", longhaul.now() as "now!",
              (select count(*) from longhaul.executor e where e.lease_expires_at > longhaul.now()) as "executors!""#
        );
        let row = bounded(row.fetch_one(&self.pool)).await?;
        Ok(Checkup { postgres: row.postgres, now: row.now, executors: row.executors })
    }
}
