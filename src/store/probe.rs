//! Probes: test links, kept for the minutes in which they are opened.
//!
//! A look changes nothing; the form of the page burns the probe, as it decides an approval.

use super::{Store, StoreError, bounded};
use crate::domain::probe::ProbeToken;

/// How long a test link opens its page.
const LIFE_SECONDS: f64 = 600.0;

/// A test link as it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probe {
    /// The word that proves this database.
    pub proof: String,
    /// Whether its form has arrived.
    pub has_arrived: bool,
}

impl Store {
    /// Leaves a test link, and takes away those whose time is over.
    pub async fn leave_probe(&self, token: &ProbeToken, proof: &str) -> Result<(), StoreError> {
        bounded(
            sqlx::query!(
                "-- leave_probe
                with swept as (delete from longhaul.link_probe where expires_at <= longhaul.now())
                insert into longhaul.link_probe (token_hash, proof, expires_at)
                values ($1, $2, longhaul.now() + make_interval(secs => $3))",
                token.hash(),
                proof,
                LIFE_SECONDS,
            )
            .execute(&self.pool),
        )
        .await?;
        Ok(())
    }

    /// A test link, while it lives.
    pub async fn find_probe(&self, token: &ProbeToken) -> Result<Option<Probe>, StoreError> {
        let row = bounded(
            sqlx::query!(
                r#"-- find_probe
                select proof, arrived_at is not null as "has_arrived!" from longhaul.link_probe
                where token_hash = $1 and expires_at > longhaul.now()"#,
                token.hash(),
            )
            .fetch_optional(&self.pool),
        )
        .await?;
        Ok(row.map(|row| Probe { proof: row.proof, has_arrived: row.has_arrived }))
    }

    /// Burns a test link whose form brought its proof; answers whether that was so, also if it was burnt before.
    pub async fn burn_probe(&self, token: &ProbeToken, proof: &str) -> Result<bool, StoreError> {
        let burnt = bounded(
            sqlx::query!(
                "-- burn_probe
                update longhaul.link_probe set arrived_at = coalesce(arrived_at, longhaul.now())
                where token_hash = $1 and proof = $2 and expires_at > longhaul.now()",
                token.hash(),
                proof,
            )
            .execute(&self.pool),
        )
        .await?;
        Ok(burnt.rows_affected() == 1)
    }

    /// Takes a test link away.
    pub async fn remove_probe(&self, token: &ProbeToken) -> Result<(), StoreError> {
        bounded(
            sqlx::query!(
                "-- remove_probe
                delete from longhaul.link_probe where token_hash = $1",
                token.hash(),
            )
            .execute(&self.pool),
        )
        .await?;
        Ok(())
    }
}
