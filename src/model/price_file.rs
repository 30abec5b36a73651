//! Price lists of others, as files: `LiteLLM`'s and genai-prices', told apart by their form.
//!
//! In comes the text of a file and the day; out come the prices it tells exactly, and what was left out and why.
//! Numbers are read as they are written, never through a float. A model is left out whole if any of its prices has a
//! part that is missing or unknown here: nothing is guessed, and nothing is matched but exact ids.
//! A price without a day holds from the day of the import.

mod genai;

mod litellm;

use chrono::NaiveDate;
use rust_decimal::Decimal;
use serde_json::value::RawValue;

use super::prices::Prices;
use crate::domain::money::{LongPrompt, Price, Rates};
use crate::domain::validate::{Faults, check_model};

/// A list that was read.
#[derive(Debug, Default)]
pub struct PriceFile {
    /// Whose form it has: `litellm` or `genai-prices`.
    pub source: &'static str,
    /// What it tells, by model and day.
    pub prices: Vec<ListedPrice>,
    /// What it does not tell exactly.
    pub left_out: Vec<LeftOut>,
}

/// A price in a list.
#[derive(Clone, Debug, PartialEq)]
pub struct ListedPrice {
    /// The model.
    pub model: String,
    /// The first day it holds, in UTC.
    pub valid_from: NaiveDate,
    /// The price, with this day.
    pub price: Price,
}

/// A model that a list does not price exactly.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOut {
    /// The model.
    pub model: String,
    /// What is missing, or not known here.
    pub why: String,
}

/// What a listed price changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// The model had no price on that day.
    New,
    /// It had another.
    Changed,
    /// It had the same.
    Same,
}

/// `PriceFileError` says why a file is no price list.
#[derive(Debug, thiserror::Error)]
pub enum PriceFileError {
    /// It is not JSON, or not of the form it seems to have.
    #[error("the file cannot be read as a price list: {0}")]
    Json(#[from] serde_json::Error),
    /// It is JSON of another kind.
    #[error("the file is neither LiteLLM's price list nor genai-prices'")]
    Form,
}

impl PriceFile {
    /// Reads a list on a day.
    pub fn read(text: &str, today: NaiveDate) -> Result<Self, PriceFileError> {
        let whole: &RawValue = serde_json::from_str(text)?;
        let mut file = match genai::providers(whole.get())? {
            Some(providers) => genai::read(&providers, today),
            None => litellm::read(whole.get(), today)?,
        };
        if file.prices.is_empty() && file.left_out.is_empty() {
            return Err(PriceFileError::Form);
        }
        file.prices.sort_by(|a, b| (&a.model, a.valid_from).cmp(&(&b.model, b.valid_from)));
        file.prices.dedup_by(|later, earlier| {
            (&later.model, later.valid_from) == (&earlier.model, earlier.valid_from)
        });
        file.left_out.sort_by(|a, b| a.model.cmp(&b.model));
        Ok(file)
    }

    fn of(source: &'static str) -> Self {
        Self { source, ..Self::default() }
    }

    /// Takes up what was found out of a model: prices with their days, or why there are none.
    fn add(&mut self, model: &str, found: Result<Vec<(NaiveDate, Price)>, String>) {
        let mut faults = Faults::default();
        check_model("model", Some(model), &mut faults);
        let is_id = !model.is_empty() && !model.contains('/') && faults.into_result().is_ok();
        let found = if is_id { found } else { Err("it is not the id of a model".to_owned()) };
        match found {
            Ok(prices) => self.prices.extend(prices.into_iter().map(|(valid_from, price)| {
                let price = Price { valid_from: Some(valid_from), ..price };
                ListedPrice { model: model.to_owned(), valid_from, price }
            })),
            Err(why) => self.left_out.push(LeftOut { model: model.to_owned(), why }),
        }
    }
}

impl ListedPrice {
    /// What it changes in the prices in force; a fee or factor of which the list says nothing stays as it is there.
    pub fn settle(&mut self, prices: &Prices) -> Change {
        let Some(known) = prices.find_price(&self.model, self.valid_from) else {
            return Change::New;
        };
        self.price.us_factor = self.price.us_factor.or(known.us_factor);
        self.price.web_search = self.price.web_search.or(known.web_search);
        let same = Price { valid_from: self.price.valid_from, ..*known };
        if same == self.price { Change::Same } else { Change::Changed }
    }
}

/// What a list says of one class of tokens: a rate, and those for prompts beyond borders.
#[derive(Debug, Default)]
struct Tiered {
    rate: Decimal,
    beyond: Vec<(i64, Decimal)>,
}

/// The classes in the order of `Rates`.
type Classes = [Tiered; 5];

/// Normal rates and those of long prompts; there may be one border, at which classes without one keep their rate.
fn rates(classes: &Classes) -> Result<(Rates, Option<LongPrompt>), String> {
    let mut borders: Vec<i64> =
        classes.iter().flat_map(|class| class.beyond.iter().map(|(border, _)| *border)).collect();
    borders.sort_unstable();
    borders.dedup();
    let normal = of_classes(&classes.each_ref().map(|class| class.rate));
    let long = match borders.as_slice() {
        [] => None,
        [above_tokens] => {
            let beyond = classes
                .each_ref()
                .map(|class| class.beyond.first().map_or(class.rate, |(_, rate)| *rate));
            Some(LongPrompt { above_tokens: *above_tokens, rates: of_classes(&beyond) })
        }
        [_, _, ..] => return Err("it has more than one border for long prompts".to_owned()),
    };
    Ok((normal, long))
}

fn of_classes(rates: &[Decimal; 5]) -> Rates {
    let [input, cache_write_5m, cache_write_1h, cache_read, output] =
        rates.map(|rate| rate.normalize());
    Rates { input, cache_write_5m, cache_write_1h, cache_read, output }
}

/// A number that is not negative, exactly as it is written: `1.25e-06`, or a string that holds it.
fn exact(number: &RawValue) -> Option<Decimal> {
    let text = number.get().trim_matches('"');
    let (digits, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let digits =
        Decimal::from_str_exact(digits).ok().filter(|digits| !digits.is_sign_negative())?;
    let exponent: i64 = exponent.parse().ok()?;
    let scale = i64::from(digits.scale()).checked_sub(exponent)?;
    if let Ok(scale) = u32::try_from(scale) {
        return Decimal::try_from_i128_with_scale(digits.mantissa(), scale).ok();
    }
    let factor = 10_i128.checked_pow(u32::try_from(scale.checked_neg()?).ok()?)?;
    Decimal::try_from_i128_with_scale(digits.mantissa().checked_mul(factor)?, 0).ok()
}

#[cfg(test)]
mod tests;
