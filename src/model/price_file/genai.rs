//! genai-prices' list, `prices/new_data/v2/data.json`: US dollars per million tokens, with days, tiers and variants.
//!
//! In come its providers; out come the prices of the one we ask, under each id that a model names exactly.
//! Where several prices follow each other, each holds from its day, and one without a day held before them.

use std::collections::BTreeMap;

use chrono::NaiveDate;
use rust_decimal::Decimal;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{Classes, PriceFile, PriceFileError, Tiered, exact, rates};
use crate::domain::money::{LongPrompt, Price, Rates, Usd};

/// What is said of one use of a model, by unit.
type Prices<'a> = BTreeMap<String, &'a RawValue>;

/// The keys of the classes, in the order of `Rates`.
const CLASSES: [&str; 5] =
    ["input_mtok", "cache_write_5m_mtok", "cache_write_1h_mtok", "cache_read_mtok", "output_mtok"];
/// Writes to a cache of any lifetime that has no price of its own.
const CACHE_WRITE: &str = "cache_write_mtok";
const SEARCHES: &str = "web_searches_kcount";

#[derive(Deserialize)]
pub(super) struct Provider<'a> {
    id: String,
    #[serde(borrow, default)]
    models: Vec<Model<'a>>,
}

#[derive(Deserialize)]
struct Model<'a> {
    id: String,
    #[serde(rename = "match")]
    matches: Option<Clause>,
    #[serde(borrow)]
    prices: &'a RawValue,
    #[serde(borrow, default)]
    price_variants: Vec<Variant<'a>>,
}

#[derive(Deserialize)]
struct Clause {
    equals: Option<String>,
    #[serde(default)]
    or: Vec<Self>,
}

#[derive(Deserialize)]
struct Conditional<'a> {
    constraint: Option<Constraint>,
    #[serde(borrow)]
    prices: Prices<'a>,
}

#[derive(Deserialize)]
struct Variant<'a> {
    when: BTreeMap<String, String>,
    constraint: Option<Constraint>,
    #[serde(borrow)]
    prices: Prices<'a>,
}

#[derive(Clone, Copy, Deserialize)]
struct Constraint {
    start_date: Option<NaiveDate>,
}

#[derive(Deserialize)]
struct Tiers<'a> {
    #[serde(borrow)]
    base: &'a RawValue,
    #[serde(borrow)]
    tiers: Vec<Tier<'a>>,
}

#[derive(Deserialize)]
struct Tier<'a> {
    start: i64,
    #[serde(borrow)]
    price: &'a RawValue,
}

/// The providers, if the file has the form of this list: they are a list, or named so.
pub(super) fn providers(whole: &str) -> Result<Option<Vec<Provider<'_>>>, PriceFileError> {
    #[derive(Deserialize)]
    struct Named<'a> {
        #[serde(borrow)]
        providers: Option<&'a RawValue>,
    }
    if whole.starts_with('[') {
        return Ok(Some(serde_json::from_str(whole)?));
    }
    if !whole.starts_with('{') {
        return Err(PriceFileError::Form);
    }
    let named: Named<'_> = serde_json::from_str(whole)?;
    let Some(providers) = named.providers.filter(|providers| providers.get().starts_with('['))
    else {
        return Ok(None);
    };
    Ok(Some(serde_json::from_str(providers.get())?))
}

pub(super) fn read(providers: &[Provider<'_>], today: NaiveDate) -> PriceFile {
    let mut file = PriceFile::of("genai-prices");
    let ours = providers.iter().filter(|provider| provider.id == "anthropic");
    for model in ours.flat_map(|provider| &provider.models) {
        let found = history(model, today);
        let mut ids = vec![model.id.clone()];
        model.matches.iter().for_each(|clause| clause.find_ids(&mut ids));
        ids.sort_unstable();
        ids.dedup();
        for id in ids {
            file.add(&id, found.clone());
        }
    }
    file
}

impl Clause {
    /// The ids that are named exactly.
    fn find_ids(&self, ids: &mut Vec<String>) {
        ids.extend(self.equals.clone());
        self.or.iter().for_each(|clause| clause.find_ids(ids));
    }
}

/// The prices of a model with the days from which they hold.
fn history(model: &Model<'_>, today: NaiveDate) -> Result<Vec<(NaiveDate, Price)>, String> {
    let unreadable = |_error: serde_json::Error| "its prices cannot be read".to_owned();
    let listed: Vec<Conditional<'_>> = if model.prices.get().starts_with('[') {
        serde_json::from_str(model.prices.get()).map_err(unreadable)?
    } else {
        let prices = serde_json::from_str(model.prices.get()).map_err(unreadable)?;
        vec![Conditional { constraint: None, prices }]
    };
    let days = listed.iter().map(|one| one.constraint.map(start).transpose());
    let days: Vec<Option<NaiveDate>> = days.collect::<Result<_, _>>()?;
    // What has no day is over where another has begun; its own begin is not known, and nobody needs it any more.
    let is_over = days.iter().flatten().any(|day| *day <= today);
    let known = listed.iter().zip(days).filter(|(_, day)| day.is_some() || !is_over);
    let history = known.map(|(one, day)| {
        let valid_from = day.unwrap_or(today);
        Ok((valid_from, price(model, &one.prices, valid_from)?))
    });
    history.collect()
}

fn start(constraint: Constraint) -> Result<NaiveDate, String> {
    constraint.start_date.ok_or_else(|| "its price depends on more than the day".to_owned())
}

fn price(model: &Model<'_>, prices: &Prices<'_>, valid_from: NaiveDate) -> Result<Price, String> {
    let (rates, long_prompt) = all_rates(prices)?;
    let mut fast = None;
    for variant in &model.price_variants {
        // What a variant leaves out costs what it costs without it.
        let mut merged = prices.clone();
        merged.extend(variant.prices.iter().map(|(key, price)| (key.clone(), *price)));
        let of_variant = all_rates(&merged)?;
        let when = variant.when.iter().map(|(key, value)| (key.as_str(), value.as_str()));
        match when.collect::<Vec<_>>().as_slice() {
            [("processing", "batch")] => check_batch((rates, long_prompt), of_variant)?,
            [("speed", "fast")] => {
                let begins = variant.constraint.map(start).transpose()?;
                if begins.is_some_and(|day| day > valid_from) || of_variant.1.is_some() {
                    return Err("its fast price depends on more than the speed".to_owned());
                }
                fast = Some(of_variant.0);
            }
            other => return Err(format!("it has a price for {other:?}, which is not known here")),
        }
    }
    let fee = prices.get(SEARCHES).map(|fee| {
        let fee = exact(fee).and_then(|fee| fee.checked_div(Decimal::from(1000)));
        fee.map(|fee| Usd::from(fee.normalize()))
            .ok_or_else(|| format!("{SEARCHES} cannot be read"))
    });
    let (web_search, us_factor) = (fee.transpose()?, None);
    Ok(Price { valid_from: None, rates, long_prompt, fast, us_factor, web_search })
}

/// A batch costs half, of every class; a list that says otherwise says what cannot be kept.
fn check_batch(
    (rates, long): (Rates, Option<LongPrompt>),
    batch: (Rates, Option<LongPrompt>),
) -> Result<(), String> {
    let half = |whole: Rates, part: Rates| {
        let pairs = [
            (whole.input, part.input),
            (whole.cache_write_5m, part.cache_write_5m),
            (whole.cache_write_1h, part.cache_write_1h),
            (whole.cache_read, part.cache_read),
            (whole.output, part.output),
        ];
        pairs.iter().all(|(whole, part)| part.checked_mul(Decimal::TWO) == Some(*whole))
    };
    let is_half = half(rates, batch.0)
        && match (long, batch.1) {
            (None, None) => true,
            (Some(whole), Some(part)) => {
                whole.above_tokens == part.above_tokens && half(whole.rates, part.rates)
            }
            (Some(_), None) | (None, Some(_)) => false,
        };
    if is_half { Ok(()) } else { Err("its price in batches is not half of the price".to_owned()) }
}

fn all_rates(prices: &Prices<'_>) -> Result<(Rates, Option<LongPrompt>), String> {
    let known = |key: &str| CLASSES.contains(&key) || [CACHE_WRITE, SEARCHES].contains(&key);
    if let Some(key) = prices.keys().find(|key| !known(key)) {
        return Err(format!("{key} is not known here"));
    }
    let mut classes = Classes::default();
    for (class, key) in classes.iter_mut().zip(CLASSES) {
        let of_any_lifetime = if key == CLASSES[1] { prices.get(CACHE_WRITE) } else { None };
        let said =
            prices.get(key).or(of_any_lifetime).ok_or_else(|| format!("{key} is missing"))?;
        *class = tiered(said).ok_or_else(|| format!("{key} cannot be read exactly"))?;
    }
    rates(&classes)
}

fn tiered(said: &RawValue) -> Option<Tiered> {
    if !said.get().starts_with('{') {
        return Some(Tiered { rate: exact(said)?, beyond: Vec::new() });
    }
    let said: Tiers<'_> = serde_json::from_str(said.get()).ok()?;
    let beyond = said.tiers.iter().map(|tier| Some((tier.start, exact(tier.price)?)));
    Some(Tiered { rate: exact(said.base)?, beyond: beyond.collect::<Option<_>>()? })
}
