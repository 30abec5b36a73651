//! Invoices, each computed by hand from the provider's price page, and exact to the last digit.
//!
//! The sum stands above each: tokens times US dollars for a million of them, in millionths of a dollar, and then fees.
//! Tokens are in the order input, output, writes to the five-minute cache, to the one-hour cache, reads; searches last.
//! A step costs what its calls cost, each priced by itself; if one of them has no price, neither has the step.

use super::Prices;
use crate::domain::money::{ServiceTier, Usage, Usd};

const STANDARD: ServiceTier = ServiceTier { batch: false, fast: false, us_geo: false };
const BATCH: ServiceTier = ServiceTier { batch: true, ..STANDARD };
const FAST: ServiceTier = ServiceTier { fast: true, ..STANDARD };
const US: ServiceTier = ServiceTier { us_geo: true, ..STANDARD };
const BATCH_US: ServiceTier = ServiceTier { batch: true, ..US };
const FAST_US: ServiceTier = ServiceTier { fast: true, ..US };

/// A request as the provider bills it.
struct Call {
    model: &'static str,
    on: &'static str,
    usage: Usage,
    tier: ServiceTier,
}

const fn call(model: &'static str, on: &'static str, counts: [i64; 6], tier: ServiceTier) -> Call {
    let [
        input_tokens,
        output_tokens,
        cache_write_5m_tokens,
        cache_write_1h_tokens,
        cache_read_tokens,
        searches,
    ] = counts;
    let usage = Usage {
        input_tokens,
        output_tokens,
        cache_write_5m_tokens,
        cache_write_1h_tokens,
        cache_read_tokens,
        web_searches: searches as i32,
    };
    Call { model, on, usage, tier }
}

#[rustfmt::skip]
const INVOICES: [(&str, &[Call], Option<&str>); 40] = [
    // 1,000,000·8 = 8,000,000 millionths.
    ("a million plain prompt tokens", &[call("claude-fable-5-2", "2026-11-29", [1_000_000, 0, 0, 0, 0, 0], STANDARD)], Some("8")),
    // 1·40 = 40 millionths.
    ("one token of an answer", &[call("claude-fable-5-2", "2026-11-29", [0, 1, 0, 0, 0, 0], STANDARD)], Some("0.00004")),
    // 7·0.2 = 1.4 millionths.
    ("reads at a fortieth of the prompt", &[call("claude-fable-5-2", "2026-11-29", [0, 0, 0, 0, 7, 0], STANDARD)], Some("0.0000014")),
    // 3·20 = 60 millionths.
    ("writes to the long cache", &[call("claude-fable-5-1", "2026-11-29", [0, 0, 0, 3, 0, 0], STANDARD)], Some("0.00006")),
    // 8·12.5 = 100 millionths.
    ("writes to the short cache", &[call("claude-mythos-5", "2026-11-29", [0, 0, 8, 0, 0, 0], STANDARD)], Some("0.0001")),
    // 0 millionths, and 7·0.01.
    ("searches alone", &[call("claude-sonnet-5", "2026-11-29", [0, 0, 0, 0, 0, 7], STANDARD)], Some("0.07")),
    // 0 millionths.
    ("nothing at all", &[call("claude-sonnet-5", "2026-11-29", [0, 0, 0, 0, 0, 0], STANDARD)], Some("0")),
    // 11·10 + 22·50 + 33·12.5 + 44·20 + 55·0.25 = 2,516.25 millionths, and 1·0.01.
    ("every class, and reads at their own ratio", &[call("claude-mythos-5-1", "2026-11-29", [11, 22, 33, 44, 55, 1], STANDARD)], Some("0.01251625")),
    // 11·10 + 22·50 + 33·12.5 + 44·20 + 55·1 = 2,557.5 millionths, and 1·0.01.
    ("the same of the model before, whose reads cost four times as much", &[call("claude-fable-5", "2026-11-29", [11, 22, 33, 44, 55, 1], STANDARD)], Some("0.0125575")),
    // 12·4 + 345·20 + 987,654·0.2 = 204,478.8 millionths.
    ("a large cache, read once", &[call("claude-opus-5-5", "2026-11-29", [12, 345, 0, 0, 987_654, 0], STANDARD)], Some("0.2044788")),
    // 101·16 + 202·80 + 303·20 + 404·32 + 505·0.4 = 36,966 millionths, and 2·0.01.
    ("fast, every class", &[call("claude-fable-5-2", "2026-11-29", [101, 202, 303, 404, 505, 2], FAST)], Some("0.056966")),
    // 3·1 = 3 millionths.
    ("fast reads of a model that is no longer the newest", &[call("claude-opus-5", "2026-11-29", [0, 0, 0, 0, 3, 0], FAST)], Some("0.000003")),
    // (7·10 + 9·50)·1.1 = 572 millionths.
    ("fast and in the US", &[call("claude-opus-4-8", "2026-11-29", [7, 9, 0, 0, 0, 0], FAST_US)], Some("0.000572")),
    // no price.
    ("fast where it is not sold", &[call("claude-opus-4-7", "2026-11-29", [7, 9, 0, 0, 0, 0], FAST)], None),
    // no price.
    ("fast where prompts have a border", &[call("claude-haiku-5-5", "2026-11-29", [7, 9, 0, 0, 0, 0], FAST)], None),
    // (1,001·5 + 203·25)·0.5 = 5,040 millionths.
    ("in a batch", &[call("claude-opus-4-7", "2026-11-29", [1_001, 203, 0, 0, 0, 0], BATCH)], Some("0.00504")),
    // (3·2 + 5·10)·0.5 = 28 millionths, and 4·0.01.
    ("in a batch, with searches at their whole fee", &[call("claude-sonnet-5", "2026-11-29", [3, 5, 0, 0, 0, 4], BATCH)], Some("0.040028")),
    // (1,234·5 + 56·25 + 78·0.5)·1.1 = 8,369.9 millionths.
    ("in the US", &[call("claude-opus-4-6", "2026-11-29", [1_234, 56, 0, 0, 78, 0], US)], Some("0.0083699")),
    // (1,234·5 + 56·25 + 78·0.5)·1 = 7,609 millionths.
    ("in the US, of a model from before that had a price", &[call("claude-opus-4-5", "2026-11-29", [1_234, 56, 0, 0, 78, 0], US)], Some("0.007609")),
    // 1·0.3·1.1·0.5 = 0.165 millionths.
    ("one read in the US and in a batch", &[call("claude-sonnet-4-6", "2026-11-29", [0, 0, 0, 0, 1, 0], BATCH_US)], Some("0.000000165")),
    // (1·3 + 1·15 + 1·3.75 + 1·6 + 1·0.3)·1.1 = 30.855 millionths, and 1·0.01.
    ("in the US, with a search at its whole fee", &[call("claude-sonnet-4-6", "2026-11-29", [1, 1, 1, 1, 1, 1], US)], Some("0.010030855")),
    // (333·3 + 111·15 + 77·3.75)·0.5 = 1,476.375 millionths.
    ("by a dated id, in a batch", &[call("claude-sonnet-4-5-20250929", "2026-11-29", [333, 111, 77, 0, 0, 0], BATCH)], Some("0.001476375")),
    // 333·1 + 111·5 + 77·1.25 + 5·2 + 3·0.1 = 994.55 millionths.
    ("by another dated id", &[call("claude-haiku-4-5-20251001", "2026-11-29", [333, 111, 77, 5, 3, 0], STANDARD)], Some("0.00099455")),
    // 100,000·0.1 + 4,000·0.5 = 12,000 millionths.
    ("a prompt at the border", &[call("claude-haiku-5-5", "2026-11-29", [100_000, 4_000, 0, 0, 0, 0], STANDARD)], Some("0.012")),
    // 100,001·0.5 + 4,000·2.5 = 60,000.5 millionths.
    ("a prompt one token beyond it", &[call("claude-haiku-5-5", "2026-11-29", [100_001, 4_000, 0, 0, 0, 0], STANDARD)], Some("0.0600005")),
    // 1·0.5 + 60,000·0.625 + 40,000·1 = 77,500.5 millionths.
    ("a prompt that only its writes bring beyond it", &[call("claude-haiku-5-5", "2026-11-29", [1, 0, 60_000, 40_000, 0, 0], STANDARD)], Some("0.0775005")),
    // 1·0.1 + 128,000·0.5 = 64,000.1 millionths.
    ("an answer beyond the border is no prompt", &[call("claude-haiku-5-5", "2026-11-29", [1, 128_000, 0, 0, 0, 0], STANDARD)], Some("0.0640001")),
    // (1·2.5 + 100,001·0.05)·1.1·0.5 = 2,751.4,025 millionths.
    ("a long prompt in a batch in the US", &[call("claude-haiku-5-5", "2026-11-29", [0, 1, 0, 0, 100_001, 0], BATCH_US)], Some("0.0027514025")),
    // 12,345·0.2 = 2,469 millionths.
    ("the last day of an old price", &[call("claude-sonnet-5-5", "2026-10-06", [0, 0, 0, 0, 12_345, 0], STANDARD)], Some("0.002469")),
    // 12,345·0.1 = 1,234.5 millionths.
    ("the first day of the new one", &[call("claude-sonnet-5-5", "2026-10-07", [0, 0, 0, 0, 12_345, 0], STANDARD)], Some("0.0012345")),
    // 1·8 = 8 millionths.
    ("a clock that runs behind the first day", &[call("claude-fable-5-2", "2026-11-08", [1, 0, 0, 0, 0, 0], STANDARD)], Some("0.000008")),
    // (10·2 + 20·10 + 30·0.2) + (10·2 + 20·10 + 30·0.1) = 449 millionths.
    ("a step of two calls on both sides of midnight", &[call("claude-sonnet-5-5", "2026-10-06", [10, 20, 0, 0, 30, 0], STANDARD), call("claude-sonnet-5-5", "2026-10-07", [10, 20, 0, 0, 30, 0], STANDARD)], Some("0.000449")),
    // (60,000·0.1 + 10·0.5) + (60,010·0.1 + 20·0.5) = 12,016 millionths.
    ("a step of two calls, neither beyond the border that their sum is beyond", &[call("claude-haiku-5-5", "2026-11-29", [60_000, 10, 0, 0, 0, 0], STANDARD), call("claude-haiku-5-5", "2026-11-29", [60_010, 20, 0, 0, 0, 0], STANDARD)], Some("0.012016")),
    // (90,000·0.1 + 10·0.5) + (10·0.5 + 95,000·0.01) + (5,000·0.5 + 10·2.5 + 95,001·0.05) = 17,235.05 millionths, and 3·0.01.
    ("a step of three calls, the last beyond the border", &[call("claude-haiku-5-5", "2026-11-29", [90_000, 10, 0, 0, 0, 1], STANDARD), call("claude-haiku-5-5", "2026-11-29", [0, 10, 0, 0, 95_000, 1], STANDARD), call("claude-haiku-5-5", "2026-11-29", [5_000, 10, 0, 0, 95_001, 1], STANDARD)], Some("0.04723505")),
    // (100·8 + 10·40) + (100·4 + 10·20) = 1,800 millionths.
    ("a step of two calls, one served fast and one not", &[call("claude-opus-5-5", "2026-11-29", [100, 10, 0, 0, 0, 0], FAST), call("claude-opus-5-5", "2026-11-29", [100, 10, 0, 0, 0, 0], STANDARD)], Some("0.0018")),
    // (100·4 + 10·20) + (100·1 + 10·5) = 750 millionths.
    ("a step of two models", &[call("claude-opus-5-5", "2026-11-29", [100, 10, 0, 0, 0, 0], STANDARD), call("claude-haiku-4-5", "2026-11-29", [100, 10, 0, 0, 0, 0], STANDARD)], Some("0.00075")),
    // no price.
    ("a step one of whose calls has no price", &[call("claude-opus-5-5", "2026-11-29", [100, 10, 0, 0, 0, 0], STANDARD), call("claude-opus-6", "2026-11-29", [100, 10, 0, 0, 0, 0], STANDARD)], None),
    // no price.
    ("a model that nobody knows, even for nothing", &[call("claude-opus-6", "2026-11-29", [0, 0, 0, 0, 0, 0], STANDARD)], None),
    // no price.
    ("a dated id that is not in the list", &[call("claude-sonnet-5-5-20261007", "2026-11-29", [1, 0, 0, 0, 0, 0], STANDARD)], None),
    // 9,000,000,000,000·10 + 1·50 = 90,000,000,000,050 millionths.
    ("more than anybody will ever ask", &[call("claude-fable-5", "2026-11-29", [9_000_000_000_000, 1, 0, 0, 0, 0], STANDARD)], Some("90000000.00005")),
];

#[test]
fn every_invoice_is_right_to_the_last_digit() {
    let prices = Prices::default_list().expect("the list that ships is right");
    for (what, calls, expected) in INVOICES {
        let costs = calls.iter().map(|call| {
            let on = call.on.parse().expect("a day");
            prices.find_price(call.model, on)?.cost(&call.usage, call.tier)
        });
        let cost: Option<Usd> = costs.sum::<Option<Usd>>();
        assert_eq!(cost.map(|cost| cost.to_string()).as_deref(), expected, "{what}");
    }
}
