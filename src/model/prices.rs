//! What the models cost: the price list that ships with the program, what was imported, and the look-up in them.
//!
//! In come a model's exact id and a day; out comes the price that held then.
//! The list is data (`prices.json`, US dollars per million tokens, from the provider's price page of November 2026).
//! An id that is not in the list has no price: nothing is matched by prefix, and unknown is never zero.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use chrono::NaiveDate;
use serde::Deserialize;

use crate::domain::money::Price;

/// The prices of each model, oldest first.
type Histories = BTreeMap<String, Vec<Price>>;

/// Prices is a price list; its clones share what ships.
#[derive(Clone, Debug)]
pub struct Prices {
    shipped: Arc<Histories>,
    imported: Histories,
}

/// `PricesError` says that a price list could not be read.
#[derive(Debug, thiserror::Error)]
#[error("the price list is broken: {0}")]
pub struct PricesError(#[from] serde_json::Error);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    models: Vec<String>,
    price: Price,
}

impl Prices {
    /// The list that ships with the program.
    pub fn default_list() -> Result<Self, PricesError> {
        Self::parse(include_str!("prices.json"))
    }

    /// The same list with these prices before what ships, and none of those that were imported before.
    #[must_use]
    pub fn with_imported(&self, imported: impl IntoIterator<Item = (String, Price)>) -> Self {
        let shipped = Arc::clone(&self.shipped);
        Self { shipped, imported: histories(imported) }
    }

    /// The price of exactly this model on a day, in UTC: what was imported, and where none of that holds, what ships.
    pub fn find_price(&self, model: &str, on: NaiveDate) -> Option<&Price> {
        let imported = self.imported.get(model).and_then(|history| find_last(history, on));
        imported.or_else(|| {
            let shipped = self.shipped.get(model)?;
            // A day before the first price is a clock that runs behind, for the model was not sold then.
            find_last(shipped, on).or_else(|| shipped.first())
        })
    }

    /// The models that have a price, in the order of their ids.
    pub fn models(&self) -> BTreeSet<&str> {
        self.shipped.keys().chain(self.imported.keys()).map(String::as_str).collect()
    }

    fn parse(list: &str) -> Result<Self, PricesError> {
        let rows: Vec<Row> = serde_json::from_str(list)?;
        let priced = rows.into_iter().flat_map(|row| {
            let price = row.price;
            row.models.into_iter().map(move |model| (model, price))
        });
        Ok(Self { shipped: Arc::new(histories(priced)), imported: Histories::new() })
    }
}

fn histories(priced: impl IntoIterator<Item = (String, Price)>) -> Histories {
    let mut histories = Histories::new();
    for (model, price) in priced {
        histories.entry(model).or_default().push(price);
    }
    for history in histories.values_mut() {
        history.sort_by_key(|price| price.valid_from);
    }
    histories
}

fn find_last(history: &[Price], on: NaiveDate) -> Option<&Price> {
    history.iter().rfind(|price| price.valid_from <= Some(on))
}

#[cfg(test)]
mod invoices;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::money::{ServiceTier, Usage};

    const STANDARD: ServiceTier = ServiceTier { batch: false, fast: false, us_geo: false };

    fn day(text: &str) -> NaiveDate {
        text.parse().expect("a date")
    }

    fn invoice_on(on: &str, model: &str, usage: &Usage, tier: ServiceTier) -> Option<String> {
        let prices = Prices::default_list().expect("the list that ships is right");
        Some(prices.find_price(model, day(on))?.cost(usage, tier)?.to_string())
    }

    fn invoice(model: &str, usage: &Usage, tier: ServiceTier) -> Option<String> {
        invoice_on("2026-11-29", model, usage, tier)
    }

    /// Every class, with counts that no two rates turn into the same amount.
    const MIXED: Usage = Usage {
        input_tokens: 1_234,
        output_tokens: 567,
        cache_write_5m_tokens: 1_001,
        cache_write_1h_tokens: 203,
        cache_read_tokens: 40_007,
        web_searches: 3,
    };

    #[test]
    fn each_class_of_tokens_has_its_rate() {
        let of = |usage: Usage| invoice("claude-opus-5-5", &usage, STANDARD);
        let none = Usage::default();
        assert_eq!(of(none).as_deref(), Some("0"));
        assert_eq!(of(Usage { input_tokens: 1, ..none }).as_deref(), Some("0.000004"));
        assert_eq!(of(Usage { output_tokens: 1, ..none }).as_deref(), Some("0.00002"));
        assert_eq!(of(Usage { cache_write_5m_tokens: 1, ..none }).as_deref(), Some("0.000005"));
        assert_eq!(of(Usage { cache_write_1h_tokens: 1, ..none }).as_deref(), Some("0.000008"));
        assert_eq!(of(Usage { cache_read_tokens: 1, ..none }).as_deref(), Some("0.0000002"));
        assert_eq!(of(Usage { web_searches: 1, ..none }).as_deref(), Some("0.01"));
    }

    #[test]
    fn an_invoice_is_right_to_the_last_digit() {
        // 4936 + 5005 + 1624 + 8001.4 + 11340 = 30906.4 millionths, and three searches.
        assert_eq!(invoice("claude-opus-5-5", &MIXED, STANDARD).as_deref(), Some("0.0609064"));
        // 3702 + 3753.75 + 1218 + 12002.1 + 8505 = 29180.85 millionths, and three searches.
        assert_eq!(invoice("claude-sonnet-4-6", &MIXED, STANDARD).as_deref(), Some("0.05918085"));
    }

    #[test]
    fn batch_geography_and_speed_multiply_tokens_and_not_searches() {
        let of = |tier| invoice("claude-opus-5-5", &MIXED, tier);
        let batch = ServiceTier { batch: true, ..STANDARD };
        let us_geo = ServiceTier { us_geo: true, ..STANDARD };
        let fast = ServiceTier { fast: true, ..STANDARD };
        assert_eq!(of(batch).as_deref(), Some("0.0454532"));
        assert_eq!(of(us_geo).as_deref(), Some("0.06399704"));
        assert_eq!(of(fast).as_deref(), Some("0.0918128"));
        let both = ServiceTier { batch: true, us_geo: true, fast: false };
        assert_eq!(of(both).as_deref(), Some("0.04699852"));
        let fast_in_us = ServiceTier { fast: true, us_geo: true, batch: false };
        assert_eq!(of(fast_in_us).as_deref(), Some("0.09799408"));
    }

    #[test]
    fn a_long_prompt_changes_the_price_of_the_whole_request() {
        let at_border = Usage {
            input_tokens: 50_000,
            cache_write_5m_tokens: 20_000,
            cache_write_1h_tokens: 10_000,
            cache_read_tokens: 20_000,
            output_tokens: 1_000,
            web_searches: 1,
        };
        // 5000 + 2500 + 2000 + 200 + 500 = 10200 millionths.
        assert_eq!(invoice("claude-haiku-5-5", &at_border, STANDARD).as_deref(), Some("0.0202"));
        let beyond = Usage { cache_read_tokens: 20_001, ..at_border };
        // 25000 + 12500 + 10000 + 1000.05 + 2500 = 51000.05 millionths.
        assert_eq!(invoice("claude-haiku-5-5", &beyond, STANDARD).as_deref(), Some("0.06100005"));
        let batch = ServiceTier { batch: true, ..STANDARD };
        assert_eq!(invoice("claude-haiku-5-5", &beyond, batch).as_deref(), Some("0.035500025"));
    }

    #[test]
    fn a_price_change_holds_from_its_day_on() {
        let read = Usage { cache_read_tokens: 1_000_000, ..Usage::default() };
        let of = |on: &str| invoice_on(on, "claude-sonnet-5-5", &read, STANDARD);
        assert_eq!(of("2026-10-06").as_deref(), Some("0.2"));
        assert_eq!(of("2026-10-07").as_deref(), Some("0.1"));
        assert_eq!(of("2020-01-01").as_deref(), Some("0.2"));
    }

    #[test]
    fn what_has_no_price_has_no_cost() {
        for model in ["", "claude", "claude-opus", "claude-opus-5-5-20260901", "Claude-Opus-5-5"] {
            assert_eq!(invoice(model, &MIXED, STANDARD), None, "{model}");
        }
        let fast = ServiceTier { fast: true, ..STANDARD };
        assert_eq!(invoice("claude-sonnet-5-5", &MIXED, fast), None);
    }

    #[test]
    fn dated_aliases_are_ids_of_their_own() {
        for model in
            ["claude-opus-4-5-20251101", "claude-sonnet-4-5-20250929", "claude-haiku-4-5-20251001"]
        {
            let alias = model.rsplit_once('-').expect("a dated id").0;
            let cost = invoice(model, &MIXED, STANDARD);
            assert!(cost.is_some());
            assert_eq!(cost, invoice(alias, &MIXED, STANDARD));
        }
    }

    #[test]
    fn no_model_has_two_prices_of_one_day() {
        let prices = Prices::default_list().unwrap();
        for (model, history) in prices.shipped.iter() {
            assert!(history.is_sorted_by(|a, b| a.valid_from < b.valid_from), "{model}");
        }
    }
}
