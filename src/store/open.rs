//! Opening: Postgres is asked for, and the schema brought up to date, before anything else is done.
//!
//! Whatever starts a server and its Postgres may start the server first, so the server waits.
//! Only what time can mend is waited for: a wrong password, a database that is not there, or a migration that fails
//! ends the wait at once.

use std::error::Error;
use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Duration;

use sqlx::migrate::MigrateError;
use sqlx::postgres::{PgConnectOptions, PgConnection};
use sqlx::{ConnectOptions as _, Connection as _, Executor as _};
use tokio::sync::SetOnce;
use tokio::time::Instant;

use super::{Store, StoreError, bounded, is_passing};

/// How often a Postgres that does not answer is asked again.
const ASK: Duration = Duration::from_millis(250);
/// And how often that is told.
const TELL: Duration = Duration::from_secs(30);

impl Store {
    /// Brings the schema up to date under Postgres's migration lock; before that nothing else may be done.
    pub async fn open(&self) -> Result<(), StoreError> {
        migrate(&self.options).await?;
        // That it was opened before is no fault.
        let _ = self.opened.set(());
        Ok(())
    }

    /// Opens it as soon as Postgres answers, however long that takes.
    pub async fn open_when_it_answers(&self) -> Result<(), StoreError> {
        let mut told_at = None::<Instant>;
        loop {
            match self.open().await {
                Ok(()) => break,
                Err(error) if can_pass(&error) => {
                    // Whoever starts while Postgres is away does not know who else lives.
                    self.presence.note_trouble();
                    if told_at.is_none_or(|at| at.elapsed() >= TELL) {
                        let error = &error as &dyn Error;
                        tracing::warn!(error, "the database does not answer; waiting for it");
                        told_at = Some(Instant::now());
                    }
                }
                Err(error) => return Err(error),
            }
            tokio::time::sleep(ASK).await;
        }
        if told_at.is_some() {
            tracing::info!("the database answers");
        }
        Ok(())
    }

    /// Set once it is open.
    pub fn opened(&self) -> Arc<SetOnce<()>> {
        Arc::clone(&self.opened)
    }
}

/// Whether a failure to open may be over in a while, without anybody changing the configuration.
fn can_pass(error: &StoreError) -> bool {
    let (StoreError::Unavailable(cause)
    | StoreError::Migrate(
        MigrateError::Execute(cause) | MigrateError::ExecuteMigration(cause, _),
    )) = error
    else {
        return false;
    };
    // What a pooler says of a database, a login or an option that it does not know.
    let code = cause.as_database_error().and_then(sqlx::error::DatabaseError::code);
    let is_refused = code.is_some_and(|code| code == "08P01");
    let is_for_good = if let sqlx::Error::Io(error) = cause {
        [ErrorKind::PermissionDenied, ErrorKind::InvalidInput].contains(&error.kind())
    } else {
        matches!(cause, sqlx::Error::Tls(_) | sqlx::Error::Protocol(_))
    };
    !is_refused && !is_for_good && is_passing(cause)
}

/// Migrations may take longer than any other statement, and their own table lives in our schema too.
async fn migrate(options: &PgConnectOptions) -> Result<(), StoreError> {
    let options = options.clone().options([
        ("statement_timeout", "10min"),
        ("lock_timeout", "10min"),
        ("idle_in_transaction_session_timeout", "10min"),
    ]);
    let mut connection: PgConnection = bounded(options.connect()).await?;
    create_schema(&mut connection).await?;
    connection.execute("-- migrate_here\nset search_path to longhaul").await?;
    let mut migrator = sqlx::migrate!();
    // A newer release may have been here: its migrations work with this one, so that both can run side by side.
    migrator.set_ignore_missing(true);
    migrator.run_direct(None, &mut connection, false).await?;
    connection.close().await?;
    Ok(())
}

/// Two servers that start on an empty database at once may both try; the loser sees the winner's schema.
async fn create_schema(connection: &mut PgConnection) -> Result<(), StoreError> {
    let made = connection.execute("-- create_schema\ncreate schema if not exists longhaul").await;
    match made {
        Ok(_) => Ok(()),
        Err(sqlx::Error::Database(error)) if error.is_unique_violation() => Ok(()),
        Err(error) => Err(error.into()),
    }
}
