//! The line of one lane of the writer: a connection to Postgres of its own, with settings for what the writer does.
//!
//! Who uses it takes the connection out and puts it back while it is good; a broken one is never used again.

use std::time::Duration;

use sqlx::postgres::{PgConnectOptions, PgConnection};
use sqlx::{ConnectOptions as _, Connection as _};
use tokio::time::Instant;

use super::known::Known;
use crate::store::{StoreError, bounded, by_key};

/// A connection that was not used for so long is tried before it is trusted.
const IDLE: Duration = Duration::from_millis(500);

/// The writer's own connection, made anew when it breaks.
pub(super) struct WriterLine {
    options: PgConnectOptions,
    /// Since when it has not been used.
    pub(super) connection: Option<(PgConnection, Instant)>,
    pub(super) known: Option<Known>,
}

impl WriterLine {
    /// The writer waits for no lock for long, since everybody waits for the writer.
    pub(super) fn new(options: &PgConnectOptions) -> Self {
        let options = by_key(options.clone().options([("lock_timeout", "250ms")]));
        Self { options, connection: None, known: None }
    }

    /// An open connection: one that broke while nothing was under way is replaced without anybody noticing.
    pub(super) async fn take(&mut self) -> Result<PgConnection, StoreError> {
        if let Some((mut open, used_at)) = self.connection.take() {
            let is_good = used_at.elapsed() < IDLE || bounded(open.ping()).await.is_ok();
            if is_good {
                return Ok(open);
            }
        }
        bounded(self.options.connect()).await.map_err(StoreError::of_the_environment)
    }
}
