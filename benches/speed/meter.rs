//! What a load cost Postgres: write transactions, statements, WAL; and whether the jobs are what they should be.

use anyhow::{Result, bail};
use sqlx::postgres::PgPool;

/// A reading of the counters that do not depend on the machine.
#[derive(Clone, Copy)]
pub struct Reading {
    /// Transactions that wrote, of the whole server.
    commits: i64,
    /// Statements of this database.
    statements: i64,
    /// Bytes of write-ahead log, of the whole server.
    wal_bytes: i64,
}

/// The cost of one job.
#[derive(Clone, Copy, Debug)]
pub struct Cost {
    pub commits: f64,
    pub statements: f64,
    pub wal_bytes: f64,
}

impl Reading {
    pub async fn take(pool: &PgPool) -> Result<Self> {
        let (commits, statements, wal_bytes) = sqlx::query_as(
            "select pg_snapshot_xmax(pg_current_snapshot())::text::bigint,
               (select coalesce(sum(calls), 0)::bigint from pg_stat_statements
                where dbid = (select oid from pg_database where datname = current_database())),
               pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint",
        )
        .fetch_one(pool)
        .await?;
        Ok(Self { commits, statements, wal_bytes })
    }

    /// What each of so many jobs cost since then.
    pub async fn cost(self, pool: &PgPool, jobs: usize) -> Result<Cost> {
        let now = Self::take(pool).await?;
        let each = |before: i64, after: i64| (after - before) as f64 / jobs as f64;
        Ok(Cost {
            commits: each(self.commits, now.commits),
            statements: each(self.statements, now.statements),
            wal_bytes: each(self.wal_bytes, now.wal_bytes),
        })
    }
}

/// Readings need the counters of statements in the database.
pub async fn prepare(pool: &PgPool) -> Result<()> {
    let extend = "create extension if not exists pg_stat_statements";
    sqlx::raw_sql(extend).execute(pool).await?;
    Ok(())
}

/// Waits until nothing moves any more, and every job that was submitted has completed.
pub async fn wait_until_completed(pool: &PgPool, jobs: usize) -> Result<()> {
    loop {
        let moves: bool = sqlx::query_scalar(
            "select exists (select from longhaul.job where status = 'running')
               or exists (select from longhaul.job where status = 'queued' and run_at is null)",
        )
        .fetch_one(pool)
        .await?;
        if !moves {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(2)).await;
    }
    let completed = completed(pool).await?;
    if completed != jobs {
        bail!("{completed} of {jobs} jobs completed");
    }
    Ok(())
}

/// Has what the loads before have left behind written out, so that it is not counted with what comes next.
pub async fn rest(pool: &PgPool) -> Result<()> {
    sqlx::raw_sql("checkpoint").execute(pool).await?;
    Ok(())
}

/// How many jobs have completed.
pub async fn completed(pool: &PgPool) -> Result<usize> {
    let count: i64 =
        sqlx::query_scalar("select count(*) from longhaul.job where status = 'completed'")
            .fetch_one(pool)
            .await?;
    Ok(usize::try_from(count)?)
}
