//! How long jobs are kept after they ended: a number of days for each way to end.
//!
//! Nothing, or 0, is for ever, which is also the default: what was paid for is not thrown away unasked.

use std::time::Duration;

use super::source::all_or_mistakes;
use super::{ConfigError, Reader, Source};
use crate::store::prune::Retention;

/// A hundred years; longer is for ever.
const DAYS_MAX: f64 = 36_500.0;
const SECONDS_A_DAY: f64 = 86_400.0;

/// What is configured about retention alone.
pub fn retention(source: &Source) -> Result<Retention, ConfigError> {
    let mut reader = Reader::new(|name: &str| source.find(name));
    let retention = reader.retention();
    all_or_mistakes(source, retention, reader.mistakes)
}

/// A number of days such as `90`, `90d` or `0.5`; 0 is for ever.
pub fn days(text: &str) -> Result<Option<Duration>, String> {
    let trimmed = text.trim();
    let number = trimmed.strip_suffix('d').unwrap_or(trimmed).trim_end();
    let is_plain = number.starts_with(|c: char| c.is_ascii_digit());
    let days =
        number.parse::<f64>().ok().filter(|days| is_plain && (0.0..=DAYS_MAX).contains(days));
    let days = days.ok_or_else(|| {
        format!("must be a number of days from 0 (for ever) to {DAYS_MAX}, such as `90` or `0.5`, is {text:?}")
    })?;
    Ok((days > 0.0).then(|| Duration::from_secs_f64(days * SECONDS_A_DAY)))
}

impl<F: Fn(&str) -> Option<String>> Reader<F> {
    /// How long jobs are kept.
    pub(super) fn retention(&mut self) -> Retention {
        Retention {
            completed: self.days("LONGHAUL_KEEP_COMPLETED_DAYS"),
            failed: self.days("LONGHAUL_KEEP_FAILED_DAYS"),
            cancelled: self.days("LONGHAUL_KEEP_CANCELLED_DAYS"),
        }
    }

    fn days(&mut self, name: &str) -> Option<Duration> {
        let text = self.text(name)?;
        days(&text).unwrap_or_else(|mistake| {
            self.mistake(&format!("{name} {mistake}"));
            None
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_may_be_parts_of_days_and_nothing_is_for_ever() {
        let read = |text| days(text).expect("it is a number of days");
        assert_eq!(read("90"), Some(Duration::from_hours(24 * 90)));
        assert_eq!(read("90d"), Some(Duration::from_hours(24 * 90)));
        assert_eq!(read(" 0.5 "), Some(Duration::from_hours(12)));
        assert_eq!(read("0"), None);
        for bad in ["", "d", "-1", "90h", "inf", "NaN", "1e9", "+1"] {
            assert!(days(bad).is_err(), "{bad:?}");
        }
    }
}
