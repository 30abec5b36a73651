//! Prices that were imported: written by whoever imports a list, read by every server.
//!
//! In come models with their prices and the day from which each holds; out comes all that was ever imported.
//! There is one price for a model and a day; importing another replaces it.

use chrono::{DateTime, NaiveDate, Utc};
use sqlx::types::Json;

use super::{Store, StoreError, bounded, read_json};
use crate::domain::money::Price;

/// A price that was imported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImportedPrice {
    /// The model.
    pub model: String,
    /// The first day it holds, in UTC.
    pub valid_from: NaiveDate,
    /// Whose list it was taken from.
    pub source: String,
    /// When it was imported.
    pub imported_at: DateTime<Utc>,
    /// The price; none if this program cannot read it.
    pub price: Option<Price>,
}

/// A price to be kept.
#[derive(Clone, Debug)]
pub struct NewPrice {
    /// The model.
    pub model: String,
    /// The first day it holds, in UTC.
    pub valid_from: NaiveDate,
    /// The price.
    pub price: Price,
}

impl Store {
    /// Everything that was imported, by model and day.
    pub async fn imported_prices(&self) -> Result<Vec<ImportedPrice>, StoreError> {
        let rows = bounded(
            sqlx::query!(
                "-- imported_prices
                select model, valid_from, source, imported_at, price from longhaul.price
                order by model, valid_from"
            )
            .fetch_all(&self.pool),
        )
        .await?;
        let rows = rows.into_iter().map(|row| ImportedPrice {
            price: read_json::<Price>("price", row.price).ok(),
            model: row.model,
            valid_from: row.valid_from,
            source: row.source,
            imported_at: row.imported_at,
        });
        Ok(rows.collect())
    }

    /// Keeps prices, all or none of them; each replaces what was imported before for its model and day.
    pub async fn import_prices(&self, source: &str, new: &[NewPrice]) -> Result<(), StoreError> {
        let models: Vec<String> = new.iter().map(|one| one.model.clone()).collect();
        let days: Vec<NaiveDate> = new.iter().map(|one| one.valid_from).collect();
        let prices: Vec<Json<Price>> = new.iter().map(|one| Json(one.price)).collect();
        bounded(
            sqlx::query!(
                "-- import_prices
                insert into longhaul.price (model, valid_from, source, imported_at, price)
                select n.model, n.valid_from, $1, longhaul.now(), n.price
                from unnest($2::text[], $3::date[], $4::jsonb[]) as n (model, valid_from, price)
                on conflict (model, valid_from) do update
                set source = excluded.source, imported_at = excluded.imported_at, price = excluded.price",
                source,
                &models,
                &days,
                &prices as &[Json<Price>],
            )
            .execute(&self.pool),
        )
        .await?;
        Ok(())
    }

    /// The day it is, in UTC.
    pub async fn today(&self) -> Result<NaiveDate, StoreError> {
        let today = sqlx::query_scalar!(
            r#"-- today
            select (longhaul.now() at time zone 'UTC')::date as "today!""#
        );
        bounded(today.fetch_one(&self.pool)).await
    }
}
