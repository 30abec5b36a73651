//! The line of one lane of the writer: a connection to Postgres of its own, with settings for what the writer does.
//!
//! Who uses it takes the connection out and puts it back while it is good; a broken one is never used again.

use std::time::Duration;

use sqlx::postgres::{PgConnectOptions, PgConnection};
use sqlx::{ConnectOptions as _, Connection as _};
use tokio::time::Instant;

use crate::store::{StoreError, bounded};

/// A connection that was not used for so long is tried before it is trusted.
const IDLE: Duration = Duration::from_millis(500);

/// The writer's own connection, made anew when it breaks.
pub(super) struct WriterLine {
    options: PgConnectOptions,
    /// Since when it has not been used.
    pub(super) connection: Option<(PgConnection, Instant)>,
}

impl WriterLine {
    /// The writer waits for no lock for long, since everybody waits for the writer, and plans each statement once:
    /// its statements are few and their plans depend on no value, but beside many jobs Postgres would plan them anew each time.
    /// Since the plan may be made on nearly empty tables and used on large ones, nothing may seem cheaper than a look by key.
    pub(super) fn new(options: &PgConnectOptions) -> Self {
        let options = options.clone().options([
            ("lock_timeout", "250ms"),
            ("plan_cache_mode", "force_generic_plan"),
            ("enable_seqscan", "off"),
            ("enable_hashjoin", "off"),
            ("enable_mergejoin", "off"),
            ("seq_page_cost", "0"),
            ("random_page_cost", "0"),
            ("cpu_index_tuple_cost", "0"),
            ("cpu_operator_cost", "0.0001"),
        ]);
        Self { options, connection: None }
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
