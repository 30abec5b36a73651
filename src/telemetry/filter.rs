//! The filter of logs and spans: what is asked for, within what must not be told by chance.
//!
//! Libraries say at `debug` and `trace` what they send and receive: headers, frames, statements, and with them keys,
//! prompts and numbers. So a level that names nobody is about Longhaul itself where it is above `info`,
//! and a library says more than that only if it is asked for by its name.

use super::NEVER_TOLD;

/// Levels that say more than `info`, also as `RUST_LOG` may number them.
const ABOVE_INFO: [&str; 4] = ["debug", "trace", "4", "5"];

/// The filter for what is asked for.
pub(super) fn bounded(asked: &str) -> String {
    let directives = asked.split(',').filter(|one| !one.trim().is_empty()).map(|directive| {
        let level = directive.trim();
        let is_above = ABOVE_INFO.iter().any(|above| level.eq_ignore_ascii_case(above));
        if is_above { format!("info,longhaul={level}") } else { level.to_owned() }
    });
    // A later directive about the same goes before an earlier one.
    let (ours, others): (Vec<String>, Vec<String>) =
        directives.partition(|directive| directive.starts_with("info,longhaul="));
    [ours, others, vec![NEVER_TOLD.to_owned()]].concat().join(",")
}

#[cfg(test)]
mod tests {
    use tracing_subscriber::EnvFilter;

    use super::*;

    #[test]
    fn a_level_without_a_name_is_about_longhaul_and_libraries_stay_at_info() {
        for (asked, got) in [
            ("info,h2=off", "info,h2=off"),
            ("warn", "warn"),
            ("trace", "info,longhaul=trace"),
            ("DEBUG, sqlx=warn", "info,longhaul=DEBUG,sqlx=warn"),
            ("5", "info,longhaul=5"),
            ("trace,sqlx=trace,h2=debug", "info,longhaul=trace,sqlx=trace,h2=debug"),
            ("longhaul=warn,trace", "info,longhaul=trace,longhaul=warn"),
            ("[rpc{rpc.method=GetJob}]=trace", "[rpc{rpc.method=GetJob}]=trace"),
            ("", ""),
        ] {
            let got = [got, NEVER_TOLD].join(",");
            assert_eq!(
                bounded(asked).trim_start_matches(','),
                got.trim_start_matches(','),
                "{asked}"
            );
            assert!(EnvFilter::try_new(bounded(asked)).is_ok(), "{asked}");
        }
    }
}
