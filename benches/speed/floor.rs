//! The floor: what this Postgres on this disk can do at the most, measured by pgbench in the same rounds.
//!
//! (f1) is the fewest statements and commits that record a two-step job one by one: insert it, and twice store a
//! step's result together with the move. (f2) is the same with 50 jobs in each transaction.

use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use sqlx::{Connection as _, PgConnection};
use tokio::process::Command;

use crate::machine::Ground;

const TABLES: &str = "
  create table floor_job (id bigint primary key, status text not null, step integer not null, spec jsonb not null)
    with (fillfactor = 70);
  create table floor_checkpoint (id bigint, step integer, output text not null, primary key (id, step));";

const ONE_BY_ONE: &str = r#"\set id random(1, 4611686018427387903)
insert into floor_job values (:id, 'running', 1, '{"task":"A job","steps":[{"wait":{"duration_seconds":0}},{"wait":{"duration_seconds":0}}]}');
with c as (insert into floor_checkpoint values (:id, 1, 'done')) update floor_job set step = 2 where id = :id;
with c as (insert into floor_checkpoint values (:id, 2, 'done')) update floor_job set status = 'completed' where id = :id;
"#;

const FOLDED: &str = r#"\set id random(1, 4611686018427387000)
begin;
insert into floor_job select :id::bigint + n, 'running', 1, '{"task":"A job","steps":[{"wait":{"duration_seconds":0}},{"wait":{"duration_seconds":0}}]}' from generate_series(1, 50) n;
with c as (insert into floor_checkpoint select :id::bigint + n, 1, 'done' from generate_series(1, 50) n) update floor_job set step = 2 where id between :id::bigint + 1 and :id::bigint + 50;
with c as (insert into floor_checkpoint select :id::bigint + n, 2, 'done' from generate_series(1, 50) n) update floor_job set status = 'completed' where id between :id::bigint + 1 and :id::bigint + 50;
commit;
"#;

/// How the floor is walked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// (f1)
    OneByOne,
    /// (f2)
    Folded,
}

/// The floor's own database.
pub struct Floor {
    database: String,
    url: String,
    scripts: PathBuf,
    host: String,
}

impl Floor {
    pub async fn make(ground: &Ground, database: &str) -> Result<Self> {
        let (url, folder) = (ground.database(database).await?, ground.folder());
        let mut connection = PgConnection::connect(&url).await?;
        sqlx::raw_sql(TABLES).execute(&mut connection).await?;
        connection.close().await?;
        std::fs::write(folder.join("f1.sql"), ONE_BY_ONE)?;
        std::fs::write(folder.join("f2.sql"), FOLDED)?;
        let host = url.split_once("host=").map(|(_, host)| host.replace("%2F", "/"));
        let host = host.context("the database is on a socket")?;
        Ok(Self { database: database.to_owned(), url, scripts: folder.to_owned(), host })
    }

    /// Throws it away.
    pub async fn drop(self, ground: &Ground) -> Result<()> {
        ground.drop_database(&self.database).await
    }

    /// Jobs a second with so many clients.
    pub async fn walk(&self, shape: Shape, clients: u32, seconds: u32) -> Result<f64> {
        let (script, jobs) = match shape {
            Shape::OneByOne => ("f1.sql", 1.0),
            Shape::Folded => ("f2.sql", 50.0),
        };
        let ran = Command::new("pgbench")
            .args(["-n", "-M", "prepared", "-U", "postgres", "-h", &self.host, "-p", "5432"])
            .args(["-c", &clients.to_string(), "-j", &clients.min(2).to_string()])
            .args(["-T", &seconds.to_string(), "-f"])
            .arg(self.scripts.join(script))
            .arg(&self.database)
            .stdin(Stdio::null())
            .output()
            .await
            .context("could not run pgbench; it comes with Postgres")?;
        let said = String::from_utf8_lossy(&ran.stdout).into_owned();
        if !ran.status.success() {
            bail!("pgbench failed: {}", String::from_utf8_lossy(&ran.stderr));
        }
        // `tps = 5612.021 (without initial connection time)`
        let tps = said.lines().find_map(|line| line.strip_prefix("tps = "));
        let tps = tps.and_then(|rest| rest.split_whitespace().next()?.parse::<f64>().ok());
        Ok(tps.context("pgbench tells its rate")? * jobs)
    }

    /// How long one commit of one row takes, in milliseconds: the median of so many, with a rest before each.
    pub async fn commit_ms(&self, count: u32, rest: Duration) -> Result<f64> {
        let mut connection = PgConnection::connect(&self.url).await?;
        let mut times = Vec::new();
        for _ in 0..count {
            tokio::time::sleep(rest).await;
            let id: i64 = rand::random_range(1..i64::MAX);
            let begun_at = std::time::Instant::now();
            sqlx::query("insert into floor_checkpoint values ($1, 1, 'done')")
                .bind(id)
                .execute(&mut connection)
                .await?;
            times.push(begun_at.elapsed().as_secs_f64() * 1e3);
        }
        connection.close().await?;
        Ok(crate::report::median(&times))
    }
}
