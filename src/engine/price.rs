//! Prices: what was imported is read from the database, at the start and every half a minute, and put in force.
//!
//! The look-up stays in memory, and a call is priced by what is in force when it ends.
//! A row that this program cannot read is told once, and its model is priced without it.

use std::error::Error;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::domain::money::Price;
use crate::model::Model;
use crate::store::price::ImportedPrice;
use crate::store::{Store, StoreError, about};

/// How often, about; an import is to be in force within a minute.
const INTERVAL: Duration = Duration::from_secs(30);

/// Puts imported prices in force.
#[derive(Clone)]
pub struct PriceReader {
    store: Store,
    model: Model,
    /// What is in force, to tell what has changed.
    read: Arc<Mutex<Vec<ImportedPrice>>>,
}

impl PriceReader {
    /// One that reads from this store for this model.
    pub fn new(store: Store, model: Model) -> Self {
        Self { store, model, read: Arc::default() }
    }

    /// Reads until told to stop.
    pub async fn run(&self, stop: CancellationToken) {
        loop {
            let pause = about(INTERVAL);
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(pause) => {}
            }
            if let Err(error) = self.run_once().await {
                tracing::warn!(error = &error as &dyn Error, "could not read the imported prices");
            }
        }
    }

    /// Reads once, and answers how many prices are in force that were not before.
    pub async fn run_once(&self) -> Result<usize, StoreError> {
        let imported = self.store.imported_prices().await?;
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        if *read == imported {
            return Ok(0);
        }
        let is_new = |one: &&ImportedPrice| !read.contains(one);
        for one in imported.iter().filter(is_new).filter(|one| one.price.is_none()) {
            let (model, valid_from) = (&one.model, one.valid_from);
            tracing::error!(model, %valid_from, "an imported price cannot be read");
        }
        let count = imported.iter().filter(is_new).filter(|one| one.price.is_some()).count();
        let prices = self.model.prices().with_imported(priced(&imported));
        self.model.replace_prices(prices);
        tracing::info!(count, "imported prices are in force");
        *read = imported;
        Ok(count)
    }
}

/// The models with their prices, as far as they can be read.
pub fn priced(imported: &[ImportedPrice]) -> Vec<(String, Price)> {
    let prices = imported.iter().filter_map(|one| {
        let price = Price { valid_from: Some(one.valid_from), ..one.price? };
        Some((one.model.clone(), price))
    });
    prices.collect()
}
