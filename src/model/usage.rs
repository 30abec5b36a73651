//! What the provider says a call used, merged over the events of one stream.
//!
//! In come the `usage` objects of `message_start` and `message_delta`; out come token counts by class.
//! The counts are cumulative: the last value of each field wins, and nothing is ever summed within one call.
//! A field that an event leaves out keeps the value it had.

use serde::Deserialize;

use crate::domain::money::{ServiceTier, Usage};

/// `UsageReport` is the provider's `usage` object; every field can be missing.
#[derive(Clone, Debug, Default, Deserialize)]
pub(super) struct UsageReport {
    input_tokens: Option<i64>,
    output_tokens: Option<i64>,
    cache_creation_input_tokens: Option<i64>,
    cache_read_input_tokens: Option<i64>,
    cache_creation: Option<CacheCreation>,
    server_tool_use: Option<ServerToolUse>,
    service_tier: Option<String>,
    inference_geo: Option<String>,
    speed: Option<String>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
struct CacheCreation {
    ephemeral_5m_input_tokens: Option<i64>,
    ephemeral_1h_input_tokens: Option<i64>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
struct ServerToolUse {
    web_search_requests: Option<i32>,
}

impl UsageReport {
    /// Takes over what a later report says.
    pub fn merge(&mut self, later: Self) {
        replace(&mut self.input_tokens, later.input_tokens);
        replace(&mut self.output_tokens, later.output_tokens);
        replace(&mut self.cache_creation_input_tokens, later.cache_creation_input_tokens);
        replace(&mut self.cache_read_input_tokens, later.cache_read_input_tokens);
        replace(&mut self.cache_creation, later.cache_creation);
        replace(&mut self.server_tool_use, later.server_tool_use);
        replace(&mut self.service_tier, later.service_tier);
        replace(&mut self.inference_geo, later.inference_geo);
        replace(&mut self.speed, later.speed);
    }

    /// The counts by class.
    pub fn usage(&self) -> Usage {
        let (short, long) = self.cache_writes();
        let searches = self.server_tool_use.unwrap_or_default().web_search_requests;
        Usage {
            input_tokens: count(self.input_tokens),
            output_tokens: count(self.output_tokens),
            cache_write_5m_tokens: short,
            cache_write_1h_tokens: long,
            cache_read_tokens: count(self.cache_read_input_tokens),
            web_searches: searches.unwrap_or_default().max(0),
        }
    }

    /// How the call was served.
    pub fn tier(&self) -> ServiceTier {
        ServiceTier {
            batch: self.service_tier.as_deref() == Some("batch"),
            fast: self.speed.as_deref() == Some("fast"),
            us_geo: self.inference_geo.as_deref() == Some("us"),
        }
    }

    /// Only `message_start` splits the writes by lifetime, and a later total is right where they differ.
    fn cache_writes(&self) -> (i64, i64) {
        let split = self.cache_creation.unwrap_or_default();
        let short = count(split.ephemeral_5m_input_tokens);
        let long = count(split.ephemeral_1h_input_tokens);
        let total = match self.cache_creation_input_tokens {
            Some(total) => total.max(0),
            None => short.saturating_add(long),
        };
        if short == 0 && long > 0 {
            return (0, total);
        }
        let long = long.min(total);
        (total - long, long)
    }
}

fn replace<T>(value: &mut Option<T>, later: Option<T>) {
    if later.is_some() {
        *value = later;
    }
}

fn count(tokens: Option<i64>) -> i64 {
    tokens.unwrap_or_default().max(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn merged(reports: &[&str]) -> UsageReport {
        let mut all = UsageReport::default();
        for report in reports {
            all.merge(serde_json::from_str(report).expect("a usage object"));
        }
        all
    }

    #[test]
    fn the_last_value_wins_and_a_missing_one_changes_nothing() {
        let start = r#"{"input_tokens":10,"output_tokens":1,"cache_read_input_tokens":7,
            "cache_creation":{"ephemeral_5m_input_tokens":3,"ephemeral_1h_input_tokens":2},
            "cache_creation_input_tokens":5,"service_tier":"standard","speed":null}"#;
        let delta = r#"{"input_tokens":12,"output_tokens":40,"cache_read_input_tokens":null,
            "server_tool_use":{"web_search_requests":2},"new_field":{}}"#;
        let usage = merged(&[start, delta, r#"{"output_tokens":41}"#]).usage();
        assert_eq!(
            usage,
            Usage {
                input_tokens: 12,
                output_tokens: 41,
                cache_write_5m_tokens: 3,
                cache_write_1h_tokens: 2,
                cache_read_tokens: 7,
                web_searches: 2,
            }
        );
    }

    #[test]
    fn the_total_of_cache_writes_is_right_where_the_split_is_not() {
        let writes = |short: i64, long: i64, total: i64| {
            let start = format!(
                r#"{{"cache_creation":{{"ephemeral_5m_input_tokens":{short},"ephemeral_1h_input_tokens":{long}}}}}"#
            );
            let delta = format!(r#"{{"cache_creation_input_tokens":{total}}}"#);
            let usage = merged(&[&start, &delta]).usage();
            (usage.cache_write_5m_tokens, usage.cache_write_1h_tokens)
        };
        assert_eq!(writes(3, 2, 5), (3, 2));
        assert_eq!(writes(3, 2, 9), (7, 2));
        assert_eq!(writes(0, 2, 9), (0, 9));
        assert_eq!(writes(3, 2, 1), (0, 1));
        assert_eq!(writes(0, 0, 4), (4, 0));
        let total_alone = merged(&[r#"{"cache_creation_input_tokens":6}"#]).usage();
        assert_eq!(total_alone.cache_write_5m_tokens, 6);
    }

    #[test]
    fn the_tier_is_what_the_provider_says_it_was() {
        let report = r#"{"service_tier":"batch","inference_geo":"us","speed":"fast"}"#;
        let all = ServiceTier { batch: true, fast: true, us_geo: true };
        assert_eq!(merged(&[report]).tier(), all);
        let report = r#"{"service_tier":"priority","inference_geo":"global","speed":"standard"}"#;
        assert_eq!(merged(&[report]).tier(), ServiceTier::default());
    }
}
