//! API keys: made and revoked by an operator's command, read by every server.
//!
//! Each change moves a version in the same transaction, so that a server looks at one small row to know that nothing has changed.
//! A key is never deleted: a server that has ever had one stays closed.

use std::time::Duration;

use chrono::{DateTime, Utc};

use super::{Store, StoreError, bounded, retried};
use crate::domain::key::{Key, KeyHash, Scope, Scopes};
use crate::domain::word::Word as _;

/// A key that is to be kept.
#[derive(Clone, Debug)]
pub struct NewKey {
    /// What it is called, what it is good for, and its limits.
    pub key: Key,
    /// What is kept of it.
    pub hash: KeyHash,
    /// How long it is good for; none means for ever.
    pub lifetime: Option<Duration>,
}

/// A key as it is listed.
#[derive(Clone, Debug)]
pub struct StoredKey {
    /// The key.
    pub key: Key,
    /// What is kept of it.
    pub hash: KeyHash,
    /// When it was made.
    pub created_at: DateTime<Utc>,
    /// Since when it opens nothing.
    pub expires_at: Option<DateTime<Utc>>,
    /// When it was taken back.
    pub revoked_at: Option<DateTime<Utc>>,
    /// When it was last shown, give or take some minutes.
    pub last_used_at: Option<DateTime<Utc>>,
}

impl StoredKey {
    /// Whether it opens anything at this moment.
    pub fn is_good(&self, now: DateTime<Utc>) -> bool {
        self.revoked_at.is_none() && self.expires_at.is_none_or(|at| now < at)
    }
}

/// Every key there ever was, as of one moment.
#[derive(Clone, Debug)]
pub struct KeyList {
    /// Grows with every change.
    pub version: i64,
    /// When it was read, by the only clock.
    pub now: DateTime<Utc>,
    /// The keys, oldest first.
    pub keys: Vec<StoredKey>,
}

impl Store {
    /// Keeps a new key; answers false if a living one has the name.
    pub async fn create_key(&self, new: &NewKey) -> Result<bool, StoreError> {
        retried(|| self.create_key_once(new)).await
    }

    async fn create_key_once(&self, new: &NewKey) -> Result<bool, StoreError> {
        let scopes: Vec<String> = new.key.scopes.iter().map(|scope| scope.word()).collect();
        let mut tx = self.pool.begin().await?;
        // The row lock puts changes in an order that readers see, too.
        sqlx::query!(
            "-- move_key_version
            insert into longhaul.setting (name, value) values ('api_key_version', '1')
            on conflict (name) do update set value = (setting.value::bigint + 1)::text"
        )
        .execute(&mut *tx)
        .await?;
        sqlx::query!(
            "-- free_key_name
            update longhaul.api_key set revoked_at = longhaul.now()
            where name = $1 and revoked_at is null and expires_at <= longhaul.now()",
            new.key.name
        )
        .execute(&mut *tx)
        .await?;
        let created = sqlx::query_scalar!(
            r#"-- create_key
            insert into longhaul.api_key
              (key_id, name, key_hash, scopes, requests_per_second, requests_max, created_at, expires_at)
            values ($1, $2, $3, $4, $5, $6, longhaul.now(), longhaul.now() + make_interval(secs => $7))
            on conflict (name) where revoked_at is null do nothing
            returning true as "created!""#,
            new.key.key_id,
            new.key.name,
            new.hash.as_slice(),
            &scopes,
            new.key.requests_per_second.map(u32::cast_signed),
            new.key.requests_max.map(u32::cast_signed),
            new.lifetime.map(|lifetime| lifetime.as_secs_f64()),
        )
        .fetch_optional(&mut *tx)
        .await?;
        tx.commit().await?;
        Ok(created.is_some())
    }

    /// Takes back the living keys with this id or name; answers with their ids.
    pub async fn revoke_key(&self, id_or_name: &str) -> Result<Vec<String>, StoreError> {
        let revoked = sqlx::query_scalar!(
            r#"-- revoke_key
            with moved as (
              insert into longhaul.setting (name, value) values ('api_key_version', '1')
              on conflict (name) do update set value = (setting.value::bigint + 1)::text
              returning true
            )
            update longhaul.api_key set revoked_at = longhaul.now()
            from moved
            where (key_id = $1 or name = $1) and revoked_at is null
            returning key_id"#,
            id_or_name
        );
        bounded(revoked.fetch_all(&self.pool)).await
    }

    /// All keys, unless they are those of this version.
    pub async fn keys(&self, known: Option<i64>) -> Result<Option<KeyList>, StoreError> {
        let head = sqlx::query!(
            r#"-- key_version
            select coalesce((select value::bigint from longhaul.setting where name = 'api_key_version'), 0) as "version!",
              longhaul.now() as "now!""#
        );
        let head = bounded(head.fetch_one(&self.pool)).await?;
        if known == Some(head.version) {
            return Ok(None);
        }
        let rows = sqlx::query!(
            "-- keys
            select key_id, name, key_hash, scopes, requests_per_second, requests_max, created_at, expires_at, revoked_at,
              last_used_at
            from longhaul.api_key order by created_at, key_id"
        );
        let rows = bounded(rows.fetch_all(&self.pool)).await?;
        let keys = rows.into_iter().map(|row| {
            let hash = row.key_hash.try_into().map_err(|_bytes| StoreError::Corrupt {
                table: "api_key",
                what: format!("the hash of key {}", row.key_id),
            })?;
            // A scope that a newer release knows opens nothing here.
            let scopes = row.scopes.iter().filter_map(|word| Scope::find_by_word(word));
            let scopes: Scopes = scopes.collect();
            Ok(StoredKey {
                key: Key {
                    scopes,
                    name: row.name,
                    requests_per_second: row.requests_per_second.map(i32::cast_unsigned),
                    requests_max: row.requests_max.map(i32::cast_unsigned),
                    key_id: row.key_id,
                },
                hash,
                created_at: row.created_at,
                expires_at: row.expires_at,
                revoked_at: row.revoked_at,
                last_used_at: row.last_used_at,
            })
        });
        let keys = keys.collect::<Result<_, StoreError>>()?;
        Ok(Some(KeyList { version: head.version, now: head.now, keys }))
    }

    /// Notes that keys were shown just now, unless another server has done so within the last minute.
    pub async fn note_key_use(&self, key_ids: &[String]) -> Result<(), StoreError> {
        let noted = sqlx::query!(
            "-- note_key_use
            update longhaul.api_key set last_used_at = longhaul.now()
            where key_id = any($1)
              and (last_used_at is null or last_used_at <= longhaul.now() - interval '1 minute')",
            key_ids
        );
        bounded(noted.execute(&self.pool)).await.map(|_done| ())
    }
}
