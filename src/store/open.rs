//! Opening: Postgres is asked for, and the schema brought up to date, before anything else is done.
//!
//! Whatever starts a server and its Postgres may start the server first, so the server waits.
//! Only what time can mend is waited for: a wrong password, a database that is not there, or a migration that fails
//! ends the wait at once.

use std::error::Error;
use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use sqlx::error::DatabaseError;
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

/// A migration that waits for a lock holds up everybody who comes after it, so it gives up soon and comes again.
const MIGRATING: [(&str, &str); 3] = [
    ("statement_timeout", "10min"),
    ("lock_timeout", "2s"),
    ("idle_in_transaction_session_timeout", "10min"),
];

impl Store {
    /// Brings the schema up to date under Postgres's migration lock; before that nothing else may be done.
    pub async fn open(&self) -> Result<(), StoreError> {
        let mut connection = self.connect_to_migrate().await?;
        migrate(&mut connection).await?;
        connection.close().await?;
        // That it was opened before is no fault.
        let _ = self.opened.set(());
        Ok(())
    }

    /// Opens it as soon as Postgres answers, however long that takes.
    pub async fn open_when_it_answers(&self) -> Result<(), StoreError> {
        self.when_it_answers(|| self.open()).await
    }

    /// Does what a start needs from Postgres, again until it answers; only what time cannot mend is an error.
    pub async fn when_it_answers<F>(&self, mut work: impl FnMut() -> F) -> Result<(), StoreError>
    where
        F: Future<Output = Result<(), StoreError>>,
    {
        let mut told_at = None::<Instant>;
        loop {
            match work().await {
                Ok(()) => break,
                Err(error) if can_pass(&error) => {
                    // Whoever starts while Postgres is away does not know who else lives.
                    self.presence.note_trouble();
                    if told_at.is_none_or(|at| at.elapsed() >= TELL) {
                        tell_wait(&error);
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

    /// A session of its own, around a pooler if there is a way: what migrations set and lock belongs to the session.
    async fn connect_to_migrate(&self) -> Result<PgConnection, StoreError> {
        let connect = async |options: &PgConnectOptions| {
            let options = options.clone().options(MIGRATING);
            bounded(options.connect()).await
        };
        let Some(declared) = self.presence.declared() else { return connect(&self.options).await };
        let mut pooled = connect(&self.options).await?;
        if let Ok(mut direct) = connect(declared).await {
            // One that leads elsewhere would change what is not ours.
            if identity(&mut direct).await? == identity(&mut pooled).await? {
                return Ok(direct);
            }
        }
        Ok(pooled)
    }

    /// Set once it is open.
    pub fn opened(&self) -> Arc<SetOnce<()>> {
        Arc::clone(&self.opened)
    }
}

/// Whether a failure to open may be over in a while, without anybody changing the configuration.
fn can_pass(error: &StoreError) -> bool {
    let Some(cause) = cause_of(error) else { return false };
    let is_refused = cause.as_database_error().is_some_and(|error| {
        error.code().is_some_and(|code| code == "08P01") && is_refusal(error.message())
    });
    let is_for_good = if let sqlx::Error::Io(error) = cause {
        [ErrorKind::PermissionDenied, ErrorKind::InvalidInput].contains(&error.kind())
    } else {
        matches!(cause, sqlx::Error::Tls(_) | sqlx::Error::Protocol(_))
    };
    !is_refused && !is_for_good && is_passing(cause)
}

/// What Postgres, or the way to it, had against an opening.
fn cause_of(error: &StoreError) -> Option<&sqlx::Error> {
    let (StoreError::Unavailable(cause)
    | StoreError::Migrate(
        MigrateError::Execute(cause) | MigrateError::ExecuteMigration(cause, _),
    )) = error
    else {
        return None;
    };
    Some(cause)
}

/// Whether a pooler says that it does not know a database, a login or an option; it says much else under the same code.
fn is_refusal(message: &str) -> bool {
    let message = message.to_lowercase();
    let refusals =
        ["unsupported startup parameter", "no such database", "no such user", "authentication"];
    // What it remembers of Postgres's answers to itself may be over.
    !message.starts_with("server login has been failing")
        && refusals.iter().any(|refusal| message.contains(refusal))
}

fn tell_wait(error: &StoreError) {
    let code =
        cause_of(error).and_then(sqlx::Error::as_database_error).and_then(DatabaseError::code);
    let is_locked = code.is_some_and(|code| code == "55P03");
    let error = error as &dyn Error;
    if is_locked {
        tracing::warn!(
            error,
            "a migration needs a lock that another transaction holds; waiting for it"
        );
    } else {
        tracing::warn!(error, "the database does not answer; waiting for it");
    }
}

/// What tells one database of one Postgres from another.
async fn identity(connection: &mut PgConnection) -> Result<(String, DateTime<Utc>), StoreError> {
    let read = sqlx::query!(
        r#"-- identify_database
        select pg_catalog.current_database()::text as "name!",
          pg_catalog.pg_postmaster_start_time() as "started_at!""#
    );
    let read = bounded(read.fetch_one(connection)).await?;
    Ok((read.name, read.started_at))
}

/// Migrations may take longer than any other statement, and their own table lives in our schema too.
async fn migrate(connection: &mut PgConnection) -> Result<(), StoreError> {
    create_schema(connection).await?;
    connection.execute("-- migrate_here\nset search_path to longhaul").await?;
    let mut migrator = sqlx::migrate!();
    // A newer release may have been here: its migrations work with this one, so that both can run side by side.
    migrator.set_ignore_missing(true);
    migrator.run_direct(None, connection, false).await?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pooler_that_has_no_room_or_no_postgres_is_waited_for() {
        for passing in [
            "server login has been failing, try again later (server_login_retry)",
            "server login has been failing, cached error: password authentication failed",
            "query_wait_timeout",
            "no more connections allowed (max_client_conn)",
        ] {
            assert!(!is_refusal(passing), "{passing}");
        }
        for final_one in [
            "unsupported startup parameter: options",
            "no such database: longhaul",
            "no such user: longhaul",
            "SASL authentication failed",
        ] {
            assert!(is_refusal(final_one), "{final_one}");
        }
    }
}
