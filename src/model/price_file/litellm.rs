//! `LiteLLM`'s list, `model_prices_and_context_window.json`: US dollars per token, by id, without days.
//!
//! In comes the object of all models; out come the prices of those that the provider itself serves.
//! Every key that speaks of a cost has to be one that is known here, or the model is left out.

use std::collections::BTreeMap;

use chrono::NaiveDate;
use rust_decimal::Decimal;
use serde_json::value::RawValue;

use super::{Classes, PriceFile, PriceFileError, exact, rates};
use crate::domain::money::{Price, Rates, Usd};

/// What is said of a model.
type Entry<'a> = BTreeMap<String, &'a RawValue>;

/// The keys of the classes, in the order of `Rates`.
const CLASSES: [&str; 5] = [
    "input_cost_per_token",
    "cache_creation_input_token_cost",
    "cache_creation_input_token_cost_above_1hr",
    "cache_read_input_token_cost",
    "output_cost_per_token",
];
const SEARCH: &str = "search_context_cost_per_query";
const FACTORS: &str = "provider_specific_entry";

pub(super) fn read(whole: &str, today: NaiveDate) -> Result<PriceFile, PriceFileError> {
    let models: BTreeMap<String, &RawValue> = match serde_json::from_str(whole) {
        Ok(models) => models,
        Err(_other) => return Err(PriceFileError::Form),
    };
    let mut file = PriceFile::of("litellm");
    for (model, entry) in models {
        let Ok(entry) = serde_json::from_str::<Entry<'_>>(entry.get()) else { continue };
        if entry.get("litellm_provider").is_some_and(|name| name.get() == "\"anthropic\"") {
            file.add(&model, price(&entry).map(|price| vec![(today, price)]));
        }
    }
    Ok(file)
}

fn price(entry: &Entry<'_>) -> Result<Price, String> {
    let mut classes = Classes::default();
    for (class, key) in classes.iter_mut().zip(CLASSES) {
        class.rate = per_million(entry, key)?.ok_or_else(|| format!("{key} is missing"))?;
    }
    for border in borders(entry)? {
        for (class, key) in classes.iter_mut().zip(CLASSES) {
            let key = format!("{key}{}", border.1);
            let rate = per_million(entry, &key)?.ok_or_else(|| format!("{key} is missing"))?;
            class.beyond.push((border.0, rate));
        }
    }
    check_batches(entry)?;
    let (rates, long_prompt) = rates(&classes)?;
    let mut price = Price {
        valid_from: None,
        rates,
        long_prompt,
        fast: None,
        us_factor: None,
        web_search: search_fee(entry)?,
    };
    for (name, factor) in factors(entry)? {
        match name.as_str() {
            "us" => price.us_factor = Some(factor.normalize()),
            "fast" => price.fast = Some(times(&rates, factor)?),
            _ => return Err(format!("{FACTORS}.{name} is not known here")),
        }
    }
    Ok(price)
}

/// The borders for long prompts, with what they add to a key; a key of a cost that is not known is an error.
fn borders(entry: &Entry<'_>) -> Result<Vec<(i64, String)>, String> {
    let mut borders = Vec::new();
    for key in entry.keys().filter(|key| key.contains("cost") && *key != SEARCH) {
        let plain = key.strip_suffix("_batches").unwrap_or(key);
        // The longest first: one of them begins as another does.
        let class = CLASSES.iter().filter(|class| plain.starts_with(**class));
        let class = class.max_by_key(|class| class.len());
        let rest = class.and_then(|class| plain.strip_prefix(class));
        match rest {
            Some("") => {}
            Some(rest) => {
                let thousands =
                    rest.strip_prefix("_above_").and_then(|rest| rest.strip_suffix("k_tokens"));
                let thousands: i64 = thousands
                    .and_then(|thousands| thousands.parse().ok())
                    .ok_or_else(|| format!("{key} is not known here"))?;
                borders.push((thousands * 1000, rest.to_owned()));
            }
            None => return Err(format!("{key} is not known here")),
        }
    }
    borders.sort();
    borders.dedup();
    Ok(borders)
}

/// A batch costs half, of every class; a list that says otherwise says what cannot be kept.
fn check_batches(entry: &Entry<'_>) -> Result<(), String> {
    for (key, batch) in entry {
        let Some(plain) = key.strip_suffix("_batches") else { continue };
        let (batch, plain) = (exact(batch), entry.get(plain).and_then(|plain| exact(plain)));
        if batch.is_none() || batch.and_then(|batch| batch.checked_mul(Decimal::TWO)) != plain {
            return Err(format!("{key} is not half of the price"));
        }
    }
    Ok(())
}

/// The fee of a search, if it is one whatever the size of what was found.
fn search_fee(entry: &Entry<'_>) -> Result<Option<Usd>, String> {
    let Some(fees) = entry.get(SEARCH) else { return Ok(None) };
    let fees: BTreeMap<String, &RawValue> =
        serde_json::from_str(fees.get()).map_err(|_other| format!("{SEARCH} cannot be read"))?;
    let mut fees = fees.values().map(|fee| exact(fee));
    let first = fees.next().flatten().ok_or_else(|| format!("{SEARCH} cannot be read"))?;
    if fees.any(|fee| fee != Some(first)) {
        return Err(format!("{SEARCH} tells more than one fee"));
    }
    Ok(Some(Usd::from(first.normalize())))
}

fn factors(entry: &Entry<'_>) -> Result<Vec<(String, Decimal)>, String> {
    let Some(factors) = entry.get(FACTORS) else { return Ok(Vec::new()) };
    let factors: BTreeMap<String, &RawValue> = serde_json::from_str(factors.get())
        .map_err(|_other| format!("{FACTORS} cannot be read"))?;
    let factors = factors.into_iter().map(|(name, factor)| match exact(factor) {
        Some(factor) => Ok((name, factor)),
        None => Err(format!("{FACTORS}.{name} cannot be read")),
    });
    factors.collect()
}

/// A rate for a million tokens; the list has it for one.
fn per_million(entry: &Entry<'_>, key: &str) -> Result<Option<Decimal>, String> {
    let Some(rate) = entry.get(key) else { return Ok(None) };
    let rate = exact(rate).and_then(|rate| rate.checked_mul(Decimal::from(1_000_000)));
    rate.map(Some).ok_or_else(|| format!("{key} cannot be read exactly"))
}

fn times(rates: &Rates, factor: Decimal) -> Result<Rates, String> {
    let times = |rate: Decimal| {
        let product = rate.checked_mul(factor).map(|product| product.normalize());
        product.ok_or_else(|| format!("{FACTORS}.fast cannot be read exactly"))
    };
    Ok(Rates {
        input: times(rates.input)?,
        cache_write_5m: times(rates.cache_write_5m)?,
        cache_write_1h: times(rates.cache_write_1h)?,
        cache_read: times(rates.cache_read)?,
        output: times(rates.output)?,
    })
}
