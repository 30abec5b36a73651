//! The table of the published template, read in place: rows come out in the order of their ids, a batch at a time.
//!
//! Every session is read only, so that nothing there can change. Each row is read as JSON, so that a column of another
//! type, or one more, spoils nothing. Our own view of that shape is refused: it would import us into ourselves.

use chrono::{DateTime, Utc};
use secrecy::SecretString;
use serde_json::Value;
use sqlx::postgres::{PgPool, PgPoolOptions};
use sqlx::{AssertSqlSafe, Row as _};

use super::super::{StoreError, bounded, connect_options};

/// The columns that are needed; the others are taken where they are.
const NEEDED: [&str; 3] = ["job_id", "status", "state"];

/// A table that is read.
pub struct Source {
    pool: PgPool,
    /// Its name as SQL wants it.
    table: String,
}

/// A row as it stands there.
#[derive(Clone, Debug)]
pub struct OldRow {
    /// The id of the job.
    pub job_id: String,
    /// The whole row.
    pub row: Value,
    /// What time it is there.
    pub now: DateTime<Utc>,
}

/// Why a table cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// There is no such table.
    #[error("there is no table {table} there; name another with --table")]
    NoTable { table: String },
    /// It is not of the template's shape.
    #[error("the table {table} has no column {column}, so it is not the template's")]
    NoColumn { table: String, column: &'static str },
    /// It is what others read of us.
    #[error(
        "{table} is Longhaul's own view of its jobs, which are here already; name the template's table with --table"
    )]
    IsOurs { table: String },
    /// The database refused, or did not answer.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Source {
    /// Finds the table, by a name that may say its schema.
    pub async fn open(url: &SecretString, table: &str) -> Result<Self, SourceError> {
        let options = connect_options(url)?.options([("default_transaction_read_only", "on")]);
        let pool = PgPoolOptions::new().max_connections(1).connect_lazy_with(options);
        let found = sqlx::query(
            "-- find_source
            select c.oid::regclass::text as name, c.relkind = 'v' and (n.nspname = 'longhaul'
                or pg_catalog.pg_get_viewdef(c.oid) ~ '\\mlonghaul\\.') as is_ours,
              array(select a.attname::text from pg_catalog.pg_attribute a
                where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped) as columns
            from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace
            where c.oid = to_regclass($1) and c.relkind in ('r', 'p', 'v', 'm', 'f')",
        );
        let found = bounded(found.bind(table).fetch_optional(&pool)).await?;
        let table = table.to_owned();
        let Some(found) = found else { return Err(SourceError::NoTable { table }) };
        let read = |error: sqlx::Error| SourceError::Store(error.into());
        if found.try_get::<Option<bool>, _>("is_ours").map_err(read)? == Some(true) {
            return Err(SourceError::IsOurs { table });
        }
        let columns: Vec<String> = found.try_get("columns").map_err(read)?;
        if let Some(column) = NEEDED.into_iter().find(|one| !columns.iter().any(|has| has == one)) {
            return Err(SourceError::NoColumn { table, column });
        }
        let table = found.try_get("name").map_err(read)?;
        Ok(Self { pool, table })
    }

    /// The rows after an id, up to so many.
    pub async fn rows_after(&self, job_id: &str, limit: i64) -> Result<Vec<OldRow>, StoreError> {
        // The name comes from Postgres itself, which has quoted it.
        let statement = format!(
            "-- old_rows
            select t.job_id::text as job_id, to_jsonb(t) as row, now() as now from {} t
            where t.job_id is not null and t.job_id::text collate \"C\" > $1
            order by t.job_id::text collate \"C\" limit $2",
            self.table
        );
        let rows = sqlx::query(AssertSqlSafe(statement)).bind(job_id).bind(limit);
        let rows = bounded(rows.fetch_all(&self.pool)).await?;
        let read = |row: sqlx::postgres::PgRow| {
            let (job_id, now) = (row.try_get("job_id")?, row.try_get("now")?);
            Ok(OldRow { job_id, row: row.try_get("row")?, now })
        };
        rows.into_iter().map(read).collect::<Result<_, sqlx::Error>>().map_err(StoreError::from)
    }

    /// Closes its connection.
    pub async fn close(&self) {
        self.pool.close().await;
    }
}
