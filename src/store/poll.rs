//! Polling: what stands behind the wake-ups of those who follow jobs.
//!
//! Once a second this process asks which of the jobs that are followed here have moved on, in one statement for a thousand.
//! So a lost wake-up costs whoever waits a second, and somebody who waits for nothing costs Postgres next to nothing.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::feed::Feed;
use super::{Store, StoreError, bounded};

/// How often it looks, on the average; not all processes at once.
const POLL: Duration = Duration::from_secs(1);
/// The most jobs of one statement.
const JOBS_MAX: usize = 1000;

/// Roughly so long, and each time a little more or less, so that what many processes do is not done by all at once.
pub fn about(pause: Duration) -> Duration {
    pause.mul_f64(0.75 + rand::random::<f64>() / 2.0)
}

impl Store {
    /// Wakes who follows a job here that has moved on, whoever moved it, until told to stop.
    pub(super) async fn poll_followed(&self, stop: &CancellationToken) {
        loop {
            let pause = about(POLL);
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(pause) => {}
            }
            for feeds in self.wake.feeds().all().chunks(JOBS_MAX) {
                if let Err(error) = bounded(self.poll_once(feeds)).await {
                    // It looks again soon.
                    tracing::debug!(error = &error as &dyn Error, "could not look for changes");
                    break;
                }
            }
        }
    }

    /// Looks once at these jobs; answers how many have moved on.
    async fn poll_once(&self, feeds: &[Arc<Feed>]) -> Result<usize, StoreError> {
        let shards: Vec<i16> = feeds.iter().map(|feed| feed.key.shard()).collect();
        let job_ids: Vec<String> = feeds.iter().map(|feed| feed.key.job_id().to_owned()).collect();
        let known: Vec<i32> = feeds.iter().map(|feed| feed.last_sequence()).collect();
        let moved = sqlx::query!(
            r#"-- moved_jobs
            select f.place as "place!", j.last_sequence as "last_sequence?"
            from unnest($1::smallint[], $2::text[], $3::integer[])
              with ordinality as f (shard, job_id, last_sequence, place)
            left join longhaul.job j on j.shard = f.shard and j.job_id = f.job_id
            -- One that is gone was pruned.
            where j.last_sequence > f.last_sequence or j.job_id is null"#,
            &shards,
            &job_ids,
            &known,
        )
        .fetch_all(&self.pool)
        .await?;
        for row in &moved {
            let place = usize::try_from(row.place).ok().and_then(|place| place.checked_sub(1));
            if let Some(feed) = place.and_then(|place| feeds.get(place)) {
                match row.last_sequence {
                    Some(last_sequence) => feed.reaches(last_sequence),
                    None => feed.is_gone(),
                }
            }
        }
        Ok(moved.len())
    }
}
