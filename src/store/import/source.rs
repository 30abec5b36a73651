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
    /// The type of its ids, as SQL wants it.
    id_type: String,
}

/// Rows that cannot be told from others, and are not read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Nameless {
    /// How many have no id.
    pub without_id: i64,
    /// How many have an id that another has too, beside the first of each.
    pub repeated: i64,
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
              -- With its own length nothing that it holds is cut.
              (select pg_catalog.format_type(a.atttypid, -1) from pg_catalog.pg_attribute a
                where a.attrelid = c.oid and a.attname = 'job_id' and a.attnum > 0 and not a.attisdropped) as id_type,
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
        let id_type = found.try_get("id_type").map_err(read)?;
        Ok(Self { pool, table, id_type })
    }

    /// The rows after an id, or the first ones, up to so many; they come by the index of the ids.
    pub async fn rows_after(
        &self,
        job_id: Option<&str>,
        limit: i64,
    ) -> Result<Vec<OldRow>, StoreError> {
        // Both names come from Postgres itself, which has quoted them.
        let (table, id_type) = (&self.table, &self.id_type);
        let after = match job_id {
            Some(_) => format!("t.job_id > $2::text::{id_type}"),
            None => "t.job_id is not null".to_owned(),
        };
        let statement = format!(
            "-- old_rows
            select p.job_id::text as job_id, to_jsonb(p) as row, now() as now
            from (select t.* from {table} t where {after} order by t.job_id limit $1) p
            order by p.job_id"
        );
        let rows = sqlx::query(AssertSqlSafe(statement)).bind(limit);
        let rows = if let Some(job_id) = job_id { rows.bind(job_id) } else { rows };
        let rows = bounded(rows.fetch_all(&self.pool)).await?;
        let read = |row: sqlx::postgres::PgRow| {
            let (job_id, now) = (row.try_get("job_id")?, row.try_get("now")?);
            Ok(OldRow { job_id, row: row.try_get("row")?, now })
        };
        rows.into_iter().map(read).collect::<Result<_, sqlx::Error>>().map_err(StoreError::from)
    }

    /// The rows that are passed over, which reads every id and may take a while.
    pub async fn nameless(&self) -> Result<Nameless, StoreError> {
        let mut tx = self.pool.begin().await?;
        sqlx::raw_sql("-- take_time_there\nset local statement_timeout = '10min'")
            .execute(&mut *tx)
            .await?;
        let statement = format!(
            "-- nameless_rows
            select count(*) filter (where t.job_id is null) as without_id,
              count(t.job_id) - count(distinct t.job_id) as repeated
            from {} t",
            self.table
        );
        let row = sqlx::query(AssertSqlSafe(statement)).fetch_one(&mut *tx).await?;
        tx.commit().await?;
        let (without_id, repeated) = (row.try_get("without_id")?, row.try_get("repeated")?);
        Ok(Nameless { without_id, repeated })
    }

    /// Closes its connection.
    pub async fn close(&self) {
        self.pool.close().await;
    }
}
