//! Money and what it is spent on: exact amounts, token counts, and the price of a model.
//!
//! In come the token counts that the provider reports and the rates of a price list; out comes a cost.
//! Every amount is an exact decimal from end to end, never a float.
//! A cost that cannot be known is `None`, never zero.

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Sub, SubAssign};
use std::str::FromStr;

use chrono::NaiveDate;
use rust_decimal::Decimal;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

/// Usd is an exact amount of US dollars; its text form is a plain decimal such as `0.0123`.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(try_from = "String", into = "String")]
pub struct Usd(Decimal);

impl Usd {
    /// No money.
    pub const ZERO: Self = Self(Decimal::ZERO);

    /// The amount as a decimal.
    pub fn as_decimal(self) -> Decimal {
        self.0
    }
}

impl From<Decimal> for Usd {
    fn from(amount: Decimal) -> Self {
        Self(amount)
    }
}

impl From<Usd> for String {
    fn from(amount: Usd) -> Self {
        amount.to_string()
    }
}

impl TryFrom<String> for Usd {
    type Error = MoneyError;

    fn try_from(text: String) -> Result<Self, MoneyError> {
        text.parse()
    }
}

impl FromStr for Usd {
    type Err = MoneyError;

    /// Reads a plain decimal; anything else, and digits beyond what can be kept exactly, is refused.
    fn from_str(text: &str) -> Result<Self, MoneyError> {
        // The decimal crate also takes `1_000` and a leading `+`, which no other reader of ours would.
        let digits = text.strip_prefix('-').unwrap_or(text);
        let is_plain = digits.starts_with(|first: char| first.is_ascii_digit())
            && digits.ends_with(|last: char| last.is_ascii_digit())
            && digits.chars().all(|each| each.is_ascii_digit() || each == '.');
        if !is_plain {
            return Err(MoneyError);
        }
        Decimal::from_str_exact(text).map(Self).map_err(|_inexact| MoneyError)
    }
}

impl fmt::Display for Usd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.normalize())
    }
}

impl Add for Usd {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Usd {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sub for Usd {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl SubAssign for Usd {
    fn sub_assign(&mut self, other: Self) {
        *self = *self - other;
    }
}

impl Sum for Usd {
    fn sum<I: Iterator<Item = Self>>(amounts: I) -> Self {
        amounts.fold(Self::ZERO, Add::add)
    }
}

/// `MoneyError` says that a text is not an amount of money.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a plain decimal number")]
pub struct MoneyError;

/// Usage counts what model calls used, in the classes that are priced apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Prompt tokens that were neither written to nor read from a cache.
    pub input_tokens: i64,
    /// Tokens of the answer, thinking included.
    pub output_tokens: i64,
    /// Prompt tokens written to the five-minute cache.
    pub cache_write_5m_tokens: i64,
    /// Prompt tokens written to the one-hour cache.
    pub cache_write_1h_tokens: i64,
    /// Prompt tokens read from a cache.
    pub cache_read_tokens: i64,
    /// Web searches.
    pub web_searches: i32,
}

impl Usage {
    /// The length of the whole prompt, whichever way its tokens are priced.
    pub fn prompt_tokens(&self) -> i64 {
        self.input_tokens
            .saturating_add(self.cache_write_5m_tokens)
            .saturating_add(self.cache_write_1h_tokens)
            .saturating_add(self.cache_read_tokens)
    }
}

impl Add for Usage {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            input_tokens: self.input_tokens.saturating_add(other.input_tokens),
            output_tokens: self.output_tokens.saturating_add(other.output_tokens),
            cache_write_5m_tokens: self
                .cache_write_5m_tokens
                .saturating_add(other.cache_write_5m_tokens),
            cache_write_1h_tokens: self
                .cache_write_1h_tokens
                .saturating_add(other.cache_write_1h_tokens),
            cache_read_tokens: self.cache_read_tokens.saturating_add(other.cache_read_tokens),
            web_searches: self.web_searches.saturating_add(other.web_searches),
        }
    }
}

impl AddAssign for Usage {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

/// `ServiceTier` says how the provider served a call, where that changes its price.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServiceTier {
    /// Through the batch interface.
    pub batch: bool,
    /// At fast speed.
    pub fast: bool,
    /// With inference kept in the United States.
    pub us_geo: bool,
}

/// Rates are US dollars for a million tokens of each class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rates {
    /// Plain prompt tokens.
    pub input: Decimal,
    /// Writes to the five-minute cache.
    pub cache_write_5m: Decimal,
    /// Writes to the one-hour cache.
    pub cache_write_1h: Decimal,
    /// Reads from a cache; a rate of its own, for its ratio to the input rate differs by model.
    pub cache_read: Decimal,
    /// Tokens of the answer.
    pub output: Decimal,
}

/// `LongPrompt` is the price of a whole request, answer included, whose prompt is longer than a border.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LongPrompt {
    /// The longest prompt that is still priced normally, in tokens.
    pub above_tokens: i64,
    /// The rates beyond it.
    pub rates: Rates,
}

/// Price is what one model costs from a day on; a part that is not known is `None`, and so is every cost it belongs to.
#[skip_serializing_none]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Price {
    /// The first day it holds, in UTC; `None` if it has held always.
    pub valid_from: Option<NaiveDate>,
    /// The normal rates.
    pub rates: Rates,
    /// The rates of long prompts, where they differ.
    pub long_prompt: Option<LongPrompt>,
    /// The rates at fast speed, where it is sold.
    pub fast: Option<Rates>,
    /// What all token costs are multiplied by for inference in the United States.
    pub us_factor: Option<Decimal>,
    /// The fee of one web search, which nothing multiplies.
    pub web_search: Option<Usd>,
}

impl Price {
    /// What the usage of one request costs; `None` if it was served in a way that has no price here.
    ///
    /// It must be asked request by request: a sum over several would misjudge the length of the prompt.
    pub fn cost(&self, usage: &Usage, tier: ServiceTier) -> Option<Usd> {
        let rates = self.find_rates(usage, tier)?;
        let classes = [
            (usage.input_tokens, rates.input),
            (usage.cache_write_5m_tokens, rates.cache_write_5m),
            (usage.cache_write_1h_tokens, rates.cache_write_1h),
            (usage.cache_read_tokens, rates.cache_read),
            (usage.output_tokens, rates.output),
        ];
        let mut cost = Decimal::ZERO;
        for (tokens, rate) in classes {
            cost = cost.checked_add(Decimal::from(tokens).checked_mul(rate)?)?;
        }
        if tier.us_geo {
            cost = cost.checked_mul(self.us_factor?)?;
        }
        if tier.batch {
            cost = cost.checked_mul(Decimal::new(5, 1))?;
        }
        let per_token = Decimal::new(1, 6);
        let tokens = cost.checked_mul(per_token)?;
        if usage.web_searches == 0 {
            return Some(Usd(tokens));
        }
        let searches = Decimal::from(usage.web_searches).checked_mul(self.web_search?.0)?;
        tokens.checked_add(searches).map(Usd)
    }

    /// The most that a request can cost whose prompt has so many tokens: all of them in the dearest class.
    pub fn worst_case(
        &self,
        prompt_tokens: i64,
        max_tokens: i64,
        web_searches: i32,
        tier: ServiceTier,
    ) -> Option<Usd> {
        let answer = Usage { output_tokens: max_tokens, web_searches, ..Usage::default() };
        let prompts = [
            Usage { input_tokens: prompt_tokens, ..answer },
            Usage { cache_write_5m_tokens: prompt_tokens, ..answer },
            Usage { cache_write_1h_tokens: prompt_tokens, ..answer },
        ];
        let costs: Option<Vec<Usd>> = prompts.iter().map(|usage| self.cost(usage, tier)).collect();
        costs?.into_iter().max()
    }

    fn find_rates(&self, usage: &Usage, tier: ServiceTier) -> Option<&Rates> {
        if tier.fast {
            return self.fast.as_ref();
        }
        match &self.long_prompt {
            Some(long) if usage.prompt_tokens() > long.above_tokens => Some(&long.rates),
            Some(_) | None => Some(&self.rates),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn money_is_written_without_trailing_zeros_or_exponents() {
        let written = |text: &str| text.parse::<Usd>().map(|amount| amount.to_string());
        assert_eq!(written("0.01230"), Ok("0.0123".to_owned()));
        assert_eq!(written("1200.00"), Ok("1200".to_owned()));
        assert_eq!(written("-0.0"), Ok("0".to_owned()));
        assert_eq!(written("0.000000000000125"), Ok("0.000000000000125".to_owned()));
    }

    #[test]
    fn what_is_not_a_plain_decimal_is_refused() {
        for text in ["", "-", ".", "1.", ".5", "+1", "1_000", "1e3", "1,5", " 1", "1.2.3", "NaN"] {
            assert_eq!(text.parse::<Usd>(), Err(MoneyError), "{text:?}");
        }
        let too_fine = format!("0.{}1", "0".repeat(30));
        assert_eq!(too_fine.parse::<Usd>(), Err(MoneyError));
    }

    #[test]
    fn money_is_a_string_in_json_and_a_float_is_refused() {
        let amount: Usd = serde_json::from_str(r#""0.10""#).unwrap();
        assert_eq!(serde_json::to_string(&amount).unwrap(), r#""0.1""#);
        assert!(serde_json::from_str::<Usd>("0.1").is_err());
    }

    #[test]
    fn usage_adds_up_class_by_class_and_never_wraps() {
        let one = Usage { input_tokens: 1, output_tokens: 2, ..Usage::default() };
        let two = Usage { input_tokens: i64::MAX, web_searches: i32::MAX, ..Usage::default() };
        let sum = one + two + Usage { web_searches: 1, ..Usage::default() };
        assert_eq!(sum.input_tokens, i64::MAX);
        assert_eq!(sum.output_tokens, 2);
        assert_eq!(sum.web_searches, i32::MAX);
    }

    proptest! {
        #[test]
        fn money_reads_what_it_writes(units in any::<i64>(), scale in 0_u32..=28) {
            let amount = Usd(Decimal::new(units, scale));
            prop_assert_eq!(amount.to_string().parse::<Usd>(), Ok(amount));
        }
    }
}
