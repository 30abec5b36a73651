//! The looks of a batch: the rows of its jobs, with or without their locks, and the time.

use std::collections::HashSet;

use chrono::{DateTime, Utc};
use sqlx::PgConnection;

use super::Work;
use super::batch::{Batch, Row, Seen};
use crate::domain::id::ExecutorId;
use crate::store::StoreError;
use crate::store::write::Encoded;

/// A row that was looked at, or only the time.
struct Found {
    now: DateTime<Utc>,
    job_id: Option<String>,
    state: Option<Encoded>,
    holder_lives: Option<bool>,
    lives_until: Option<DateTime<Utc>>,
}

/// The rows of a batch, with which of them are wanted and whether they are locked, and the time.
macro_rules! rows {
    ($name:tt, $which:tt, $keys:expr, $executor:expr) => {
        sqlx::query_as!(
            Found,
            $name
                + r#"
            -- rows_of_a_batch
            with found as materialized (
              select j.job_id, to_json(j) as state,
                exists (select from longhaul.executor e
                  where e.executor_id = j.executor_id and e.lease_expires_at > longhaul.now()) as holder_lives
              from longhaul.job j
              join unnest($1::smallint[], $2::text[]) as k(shard, job_id) using (shard, job_id)
              "#
                + $which
                + r#"
            -- one_row_at_least_which_tells_the_time
            )
            select longhaul.now() as "now!", l.job_id as "job_id?", l.state as "state: Encoded", l.holder_lives,
              (select e.lease_expires_at from longhaul.executor e
                where e.executor_id = $3 and e.lease_expires_at > longhaul.now()) as lives_until
            from (select) one left join found l on true"#,
            &$keys.0,
            &$keys.1,
            $executor.map(|executor_id: ExecutorId| executor_id.0),
        )
    };
}

/// Those of these jobs that are no more; one that somebody has locked is there.
async fn gone(
    tx: &mut PgConnection,
    keys: &(Vec<i16>, Vec<String>),
) -> Result<HashSet<String>, StoreError> {
    let gone = sqlx::query_scalar!(
        r#"-- gone_of_a_batch
        select k.job_id as "job_id!" from unnest($1::smallint[], $2::text[]) as k(shard, job_id)
        where not exists (select from longhaul.job j where j.shard = k.shard and j.job_id = k.job_id)"#,
        &keys.0,
        &keys.1,
    );
    Ok(gone.fetch_all(tx).await?.into_iter().collect())
}

impl Batch {
    /// Reads the rows of what others decided, and of moves by another executor than this process's present one;
    /// a row that somebody may have locked is left out.
    pub(super) async fn look(&self, connection: &mut PgConnection) -> Result<Seen, StoreError> {
        let executor = self.executor();
        let keys = self.keys(|work| match work {
            Work::Move { known, .. } => known.executor_id != executor,
            Work::Decided(_) => true,
            Work::Submit(_) | Work::Vote(_) | Work::Call { .. } | Work::Ledger => false,
        });
        let rows = rows!(
            "-- look_at_batch",
            r"-- Whoever may have it locked began no earlier than the oldest transaction under way.
              where j.xmax = '0'::xid
                or age(j.xmax) > age(xid(pg_snapshot_xmin(pg_current_snapshot())))",
            keys,
            executor
        );
        Self::seen(rows.fetch_all(connection).await?, executor, false)
    }

    /// Locks the rows that nobody else has locked, in the order everybody locks in.
    pub(super) async fn lock(&self, tx: &mut PgConnection) -> Result<Seen, StoreError> {
        let executor = self.executor();
        let keys =
            self.keys(|work| !matches!(work, Work::Submit(_) | Work::Vote(_) | Work::Ledger));
        let rows = rows!(
            "-- lock_batch",
            "order by j.shard, j.job_id for update of j skip locked",
            keys,
            executor
        );
        let mut seen = Self::seen(rows.fetch_all(&mut *tx).await?, executor, true)?;
        if keys.1.iter().any(|job_id| !seen.rows.contains_key(job_id)) {
            seen.gone = gone(tx, &keys).await?;
        }
        Ok(seen)
    }

    /// The keys of the jobs to look at.
    fn keys(&self, is_wanted: impl Fn(&Work) -> bool) -> (Vec<i16>, Vec<String>) {
        let wanted = self.ops.iter().filter(|op| is_wanted(&op.work));
        wanted.map(|op| (op.key.shard(), op.key.job_id().to_owned())).unzip()
    }

    fn seen(
        found: Vec<Found>,
        executor: Option<ExecutorId>,
        are_locked: bool,
    ) -> Result<Seen, StoreError> {
        let first = found.first().ok_or(StoreError::Unavailable(sqlx::Error::RowNotFound))?;
        let now = first.now;
        let alive = executor.zip(first.lives_until);
        let rows = found.into_iter().filter_map(|row| {
            let holder_lives = row.holder_lives.unwrap_or(false);
            Some((row.job_id?, Row { state: row.state?, holder_lives }))
        });
        Ok(Seen { now, rows: rows.collect(), are_locked, gone: HashSet::new(), alive })
    }

    /// The executor that takes the jobs which are submitted here and moves its own; a process has one at a time.
    pub(super) fn executor(&self) -> Option<ExecutorId> {
        self.ops.iter().find_map(|op| match &op.work {
            Work::Submit(birth) => birth.claimer,
            Work::Vote(vote) => vote.claimer,
            Work::Move { known, .. } => known.executor_id,
            Work::Call { .. } | Work::Decided(_) | Work::Ledger => None,
        })
    }
}
