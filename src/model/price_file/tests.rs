//! Lists of others in both forms: what is taken, to the last digit, and what is left out, with the reason.

use super::*;
use crate::domain::money::{ServiceTier, Usage};

const LITELLM: &str = include_str!("../../../tests/it/fixture/litellm.json");
const GENAI: &str = include_str!("../../../tests/it/fixture/genai_prices.json");

fn day(text: &str) -> NaiveDate {
    text.parse().expect("a date")
}

fn read(text: &str) -> PriceFile {
    PriceFile::read(text, day("2026-11-30")).expect("a price list")
}

fn find<'a>(file: &'a PriceFile, model: &str) -> &'a Price {
    let mut of_model = file.prices.iter().filter(|one| one.model == model);
    &of_model.next().expect("the list has it").price
}

fn written(price: &Price) -> String {
    serde_json::to_string(price).expect("a price is JSON")
}

fn left_out(file: &PriceFile) -> Vec<(&str, &str)> {
    file.left_out.iter().map(|one| (one.model.as_str(), one.why.as_str())).collect()
}

#[test]
fn litellm_tells_prices_per_token_without_days() {
    let file = read(LITELLM);
    assert_eq!(file.source, "litellm");
    assert_eq!(
        written(find(&file, "claude-sonnet-5-5")),
        r#"{"valid_from":"2026-11-30","rates":{"input":"3","cache_write_5m":"3.75","cache_write_1h":"6","cache_read":"0.15","output":"15"},"fast":{"input":"6","cache_write_5m":"7.5","cache_write_1h":"12","cache_read":"0.3","output":"30"},"us_factor":"1.25","web_search":"0.02"}"#
    );
    assert_eq!(
        written(find(&file, "claude-haiku-6")),
        r#"{"valid_from":"2026-11-30","rates":{"input":"0.125","cache_write_5m":"0.15625","cache_write_1h":"0.25","cache_read":"0.0125","output":"0.625"},"long_prompt":{"above_tokens":200000,"rates":{"input":"0.5","cache_write_5m":"0.625","cache_write_1h":"1","cache_read":"0.05","output":"2.5"}}}"#
    );
    assert_eq!(
        left_out(&file),
        [
            ("claude-cheap-batches", "input_cost_per_token_batches is not half of the price"),
            ("claude-that-hears", "input_cost_per_audio_token is not known here"),
            ("claude-without-reads", "cache_read_input_token_cost is missing"),
            ("fast/us/claude-opus-5-5", "it is not the id of a model"),
        ]
    );
    assert_eq!(file.prices.len(), 3, "nothing of other providers");
}

#[test]
fn genai_prices_tells_prices_with_days_tiers_and_variants() {
    let file = read(GENAI);
    assert_eq!(file.source, "genai-prices");
    let days = |model: &str| {
        let of_model = file.prices.iter().filter(|one| one.model == model);
        of_model.map(|one| one.valid_from.to_string()).collect::<Vec<_>>()
    };
    // What it cost before the first day is over, and when that began is not told.
    assert_eq!(days("claude-sonnet-7"), ["2026-11-01", "2027-02-01"]);
    assert_eq!(days("claude-sonnet-7-20261101"), days("claude-sonnet-7"));
    assert_eq!(
        written(find(&file, "claude-sonnet-7")),
        r#"{"valid_from":"2026-11-01","rates":{"input":"2.2","cache_write_5m":"2.75","cache_write_1h":"4.4","cache_read":"0.11","output":"11"},"web_search":"0.0125"}"#
    );
    assert_eq!(
        written(find(&file, "claude-opus-5-5")),
        r#"{"valid_from":"2026-11-30","rates":{"input":"4","cache_write_5m":"5","cache_write_1h":"8","cache_read":"0.2","output":"20"},"fast":{"input":"8","cache_write_5m":"10","cache_write_1h":"16","cache_read":"0.4","output":"40"},"web_search":"0.01"}"#
    );
    let haiku = find(&file, "claude-haiku-5-5");
    let long = haiku.long_prompt.expect("it has a border");
    assert_eq!((long.above_tokens, long.rates.cache_read), (100_000, haiku.rates.cache_read));
    assert_eq!(
        left_out(&file),
        [
            ("claude-at-night", "its price depends on more than the day"),
            ("claude-in-two-steps", "it has more than one border for long prompts"),
            ("claude-old", "cache_write_5m_mtok is missing"),
        ]
    );
}

#[test]
fn a_list_before_its_first_day_holds_from_today() {
    let file = PriceFile::read(GENAI, day("2026-10-01")).expect("a price list");
    let days: Vec<NaiveDate> = file
        .prices
        .iter()
        .filter(|one| one.model == "claude-sonnet-7")
        .map(|one| one.valid_from)
        .collect();
    assert_eq!(days, [day("2026-10-01"), day("2026-11-01"), day("2027-02-01")]);
    assert!(find(&file, "claude-sonnet-7").long_prompt.is_some());
}

#[test]
fn a_price_that_is_over_need_not_be_understood() {
    let flat = r#""input_mtok": 2, "cache_write_mtok": 2, "cache_write_1h_mtok": 2, "cache_read_mtok": 2, "output_mtok": 2"#;
    let list = |start: &str, batch: &str| {
        let half = flat.replace('2', batch);
        format!(
            r#"[{{"id": "anthropic", "models": [{{"id": "m", "prices": [
              {{"prices": {{"input_mtok": 1}}}},
              {{"constraint": {{"start_date": "{start}"}}, "prices": {{{flat}}}}}
            ], "price_variants": [{{"when": {{"processing": "batch"}}, "prices": {{{half}}}}}]}}]}}]"#
        )
    };
    assert_eq!(read(&list("2026-11-30", "1")).prices.len(), 1);
    assert_eq!(left_out(&read(&list("2026-12-01", "1")))[0].1, "cache_write_5m_mtok is missing");
    let third = "its price in batches is not half of the price";
    assert_eq!(left_out(&read(&list("2026-11-30", "0.7"))), [("m", third)]);
}

#[test]
fn the_list_of_providers_may_have_a_name() {
    let named = format!(r#"{{"version": 3, "providers": {GENAI}}}"#);
    assert_eq!(read(&named).prices, read(GENAI).prices);
}

#[test]
fn what_is_no_price_list_is_refused() {
    let read = |text: &str| PriceFile::read(text, day("2026-11-30"));
    for text in ["{}", "[]", "7", r#"{"a": 1}"#, r#"{"a": {"litellm_provider": "openai"}}"#] {
        assert!(matches!(read(text), Err(PriceFileError::Form)), "{text}: {:?}", read(text));
    }
    for text in ["", "{", r#"[{"models": []}]"#] {
        assert!(matches!(read(text), Err(PriceFileError::Json(_))), "{text}");
    }
}

#[test]
fn a_number_is_read_as_it_is_written() {
    let number = |text: &str| {
        let raw: &RawValue = serde_json::from_str(text).expect("a JSON value");
        exact(raw).map(|number| number.normalize().to_string())
    };
    for (text, read) in [
        ("1.25e-06", "0.00000125"),
        ("1.25E-6", "0.00000125"),
        ("0.00000125", "0.00000125"),
        ("2e3", "2000"),
        ("2.5e0", "2.5"),
        ("2.9999999999999997e-06", "0.0000029999999999999997"),
        (r#""3""#, "3"),
        ("0", "0"),
    ] {
        assert_eq!(number(text).as_deref(), Some(read), "{text}");
    }
    for text in ["-1e-06", "1e-40", "1e40", "null", "true", "{}", r#""much""#] {
        assert_eq!(number(text), None, "{text}");
    }
}

#[test]
fn what_a_list_does_not_say_stays_as_it_is_in_force() {
    let prices = Prices::default_list().expect("the list that ships is right");
    let settled = |text: &str, model: &str| {
        let file = read(text);
        let listed = file.prices.iter().find(|one| one.model == model);
        let mut listed = listed.expect("the list has it").clone();
        (listed.settle(&prices), listed.price)
    };
    let (change, price) = settled(GENAI, "claude-opus-5-5");
    assert_eq!((change, price.us_factor), (Change::Same, Some(Decimal::new(11, 1))));
    assert_eq!(settled(LITELLM, "claude-opus-5-5").0, Change::Same);
    let (change, price) = settled(GENAI, "claude-haiku-5-5");
    assert_eq!((change, price.us_factor), (Change::Changed, Some(Decimal::new(11, 1))));
    assert_eq!(price.web_search.map(|fee| fee.to_string()).as_deref(), Some("0.01"));
    // Of a model that nobody knew, it stays unknown, and so does every cost that it belongs to.
    let (change, price) = settled(LITELLM, "claude-haiku-6");
    assert_eq!((change, price.us_factor, price.web_search), (Change::New, None, None));
    let usage = Usage { input_tokens: 8, ..Usage::default() };
    let cost = |usage: Usage, us_geo| {
        let tier = ServiceTier { us_geo, ..ServiceTier::default() };
        price.cost(&usage, tier).map(|cost| cost.to_string())
    };
    assert_eq!(cost(usage, false).as_deref(), Some("0.000001"));
    assert_eq!(cost(usage, true), None);
    assert_eq!(cost(Usage { web_searches: 1, ..usage }, false), None);
}

#[test]
fn what_was_imported_goes_before_what_ships_from_its_day_on() {
    let shipped = Prices::default_list().expect("the list that ships is right");
    let file = read(LITELLM);
    let imported = file.prices.iter().map(|one| (one.model.clone(), one.price));
    let prices = shipped.with_imported(imported);
    let input = |prices: &Prices, model: &str, on: &str| {
        let price = prices.find_price(model, day(on));
        price.map(|price| price.rates.input.to_string())
    };
    assert_eq!(input(&prices, "claude-sonnet-5-5", "2026-11-29").as_deref(), Some("2"));
    assert_eq!(input(&prices, "claude-sonnet-5-5", "2026-11-30").as_deref(), Some("3"));
    assert_eq!(input(&prices, "claude-sonnet-5", "2026-11-30").as_deref(), Some("2"));
    assert_eq!(input(&prices, "claude-haiku-6", "2026-11-30").as_deref(), Some("0.125"));
    // Before the day it was imported, nobody knew it.
    assert_eq!(input(&prices, "claude-haiku-6", "2026-11-29"), None);
    assert_eq!(input(&prices.with_imported([]), "claude-haiku-6", "2026-11-30"), None);
    assert!(prices.models().contains("claude-haiku-6"));
}
