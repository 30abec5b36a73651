//! Recipients: one row per person who is written to, or who wrote.
//!
//! The row keeps the distance between two messages, and knows since when we may write freely.
//! It is made when it is first needed, and outlives the jobs it was made for.

use std::time::Duration;

use chrono::{DateTime, Utc};

use super::{Store, StoreError, bounded};

impl Store {
    /// Notes that a person wrote, which opens the window again; the newest time counts, in whatever order they come.
    ///
    /// `recipient` is as notices name the person: `Book::known_as` of what they wrote from.
    pub async fn note_inbound(
        &self,
        recipient: &str,
        at: DateTime<Utc>,
        user_id: Option<&str>,
    ) -> Result<(), StoreError> {
        bounded(
            sqlx::query!(
                "-- note_inbound
                insert into longhaul.recipient as r
                  (recipient, next_at, last_inbound_at, user_id, created_at, updated_at)
                -- A clock of the channel that is ahead must not keep the window open for longer.
                values ($1, longhaul.now(), least($2, longhaul.now()), $3, longhaul.now(), longhaul.now())
                on conflict (recipient) do update set
                  last_inbound_at = greatest(r.last_inbound_at, excluded.last_inbound_at),
                  user_id = coalesce(excluded.user_id, r.user_id), updated_at = longhaul.now()",
                recipient,
                at,
                user_id,
            )
            .execute(&self.pool),
        )
        .await?;
        Ok(())
    }

    /// Notes that an answer is being sent to a person of these names: what comes next keeps its distance from it.
    pub async fn note_answer(&self, names: &[String], spacing: Duration) -> Result<(), StoreError> {
        let noted = sqlx::query!(
            "-- note_answer
            update longhaul.recipient r set updated_at = longhaul.now(),
              next_at = greatest(r.next_at, longhaul.now()) + make_interval(secs => $2)
            from (
              -- In one order, so that two answers never wait for each other.
              select w.recipient from longhaul.recipient w where w.recipient = any($1)
              order by w.recipient for update
            ) w
            where r.recipient = w.recipient",
            names,
            spacing.as_secs_f64(),
        );
        bounded(noted.execute(&self.pool)).await?;
        Ok(())
    }

    /// The person whom the channel knows by this id, if they are known here.
    pub async fn find_recipient(&self, user_id: &str) -> Result<Option<String>, StoreError> {
        let found = sqlx::query_scalar!(
            "-- find_recipient
            select recipient from longhaul.recipient where user_id = $1
            order by last_inbound_at desc nulls last limit 1",
            user_id,
        );
        bounded(found.fetch_optional(&self.pool)).await
    }
}
