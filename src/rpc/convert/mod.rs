//! The only place between the proto and the domain, in both directions.
//!
//! In come requests, out go submissions, commands and pages, or every fault of the request with its field;
//! in come jobs and events, out go messages. `status` is the one table from errors to gRPC statuses.
//! People are masked here, and replies are cut here to the size that every client takes.

pub mod status;

pub mod submission;

mod spec;

pub mod request;

pub mod list;

pub mod bulk;

pub mod job;

pub mod usage;

pub mod notice;

pub mod event;

mod word;

use chrono::{DateTime, Datelike as _, Utc};
use prost_types::Timestamp;

pub use spec::job_spec;

use crate::domain::validate::Faults;
use crate::domain::validate::bound::YEARS;

/// The most bytes of a reply: clients refuse more than 4 MiB.
pub const REPLY_BYTES_MAX: usize = 3 << 20;

fn timestamp(at: DateTime<Utc>) -> Timestamp {
    // A leap second is written as the second before it, as protobuf has none.
    let nanos = at.timestamp_subsec_nanos().min(999_999_999);
    Timestamp { seconds: at.timestamp(), nanos: nanos.cast_signed() }
}

/// The moment that was sent; one outside what protobuf allows is a fault.
fn moment(field: &str, sent: Option<Timestamp>, faults: &mut Faults) -> Option<DateTime<Utc>> {
    let sent = sent?;
    let nanos = u32::try_from(sent.nanos).ok().filter(|nanos| *nanos < 1_000_000_000);
    let at = nanos.and_then(|nanos| DateTime::from_timestamp(sent.seconds, nanos));
    let at = at.filter(|at| (YEARS.0..=YEARS.1).contains(&at.year()));
    if at.is_none() {
        faults.add(field, "must be a time from the year 1 to the year 9999");
    }
    at
}

/// The longest beginning of a text that has no more than so many bytes.
fn cut(text: &str, bytes_max: usize) -> &str {
    &text[..text.floor_char_boundary(bytes_max)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_goes_both_ways() {
        let mut faults = Faults::default();
        let at = DateTime::from_timestamp(1_764_439_000, 123_456_789).unwrap();
        assert_eq!(moment("at", Some(timestamp(at)), &mut faults), Some(at));
        assert_eq!(moment("at", None, &mut faults), None);
        assert!(faults.into_result().is_ok());
    }

    #[test]
    fn a_moment_out_of_range_is_a_fault() {
        let far = [(i64::MAX, 0), (i64::MIN, 0), (0, -1), (0, 1_000_000_000), (253_402_300_800, 0)];
        for (seconds, nanos) in far {
            let mut faults = Faults::default();
            assert_eq!(moment("at", Some(Timestamp { seconds, nanos }), &mut faults), None);
            assert!(faults.into_result().is_err(), "{seconds} {nanos}");
        }
    }

    #[test]
    fn a_text_is_cut_between_characters() {
        assert_eq!(cut("记账", 4), "记");
        assert_eq!(cut("ab", 4), "ab");
    }
}
