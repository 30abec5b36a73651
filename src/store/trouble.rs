//! Kinds of trouble: what an error of the store means for whoever met it.
//!
//! In comes an error; out goes whether it is of the connection, of one row, of too much at once, or of another schema.
//! They are told apart by the codes of Postgres, never by its words.

use sqlx::postgres::{PgDatabaseError, PgSeverity};

use super::StoreError;
use crate::domain::state::Refusal;

impl StoreError {
    /// Whether the lease that was used may no longer move the job.
    pub fn is_lease_lost(&self) -> bool {
        matches!(self, Self::Refused(Refusal::LeaseLost))
    }

    /// Whether nothing more can be done on the connection it came over, or it never came to one.
    pub fn is_of_the_connection(&self) -> bool {
        let (Self::Unavailable(error) | Self::Database(error)) = self else { return false };
        let Some(error) = error.as_database_error() else {
            return matches!(self, Self::Unavailable(_));
        };
        let severity = error.try_downcast_ref::<PgDatabaseError>().map(PgDatabaseError::severity);
        let is_over = matches!(severity, Some(PgSeverity::Fatal | PgSeverity::Panic));
        // Connection trouble, no room, shutdown, a standby; a statement that took too long (57014) is no trouble of it.
        let code = error.code().unwrap_or_default();
        is_over || ["08", "53", "57P", "25006"].iter().any(|class| code.starts_with(class))
    }

    /// Whether a lock was not to be had in time.
    pub(super) fn is_lock_timeout(&self) -> bool {
        self.has_code(|code| code == "55P03")
    }

    /// Whether a statement took too long.
    pub(super) fn is_too_slow(&self) -> bool {
        self.has_code(|code| code == "57014")
    }

    /// Whether less at once, or the same a little later, may well go through.
    pub fn may_pass(&self) -> bool {
        self.is_too_slow() || self.is_lock_timeout() || self.is_undone()
    }

    /// Whether nothing at all will go through: the schema is another, or the user may not.
    pub fn is_of_the_schema(&self) -> bool {
        self.has_code(|code| code.starts_with("42") || code.starts_with("28"))
    }

    fn has_code(&self, is: impl FnOnce(&str) -> bool) -> bool {
        let (Self::Unavailable(error) | Self::Database(error)) = self else { return false };
        let code = error.as_database_error().and_then(sqlx::error::DatabaseError::code);
        code.is_some_and(|code| is(&code))
    }

    /// As a failure of the environment: a login that went well once is not refused for a fault of ours.
    pub(super) fn of_the_environment(self) -> Self {
        if let Self::Database(error) = self { Self::Unavailable(error) } else { self }
    }

    /// Whether Postgres undid a transaction for the sake of another, so that it may be tried again.
    pub(super) fn is_undone(&self) -> bool {
        self.has_code(|code| code == "40001" || code == "40P01")
    }
}
