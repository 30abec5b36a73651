//! Deadlines: how long a client is willing to wait, as the header `grpc-timeout` says it.
//!
//! In goes the header, out comes a time; what is no timeout is as good as none.
//! A client's deadline may be shorter than the server's own, and never longer.

use std::time::Duration;

use http::HeaderMap;
use tokio::time::Instant;

/// The most digits that the protocol allows.
const DIGITS_MAX: usize = 8;
/// What is left of a deadline for the way of an answer.
const WAY_MIN: Duration = Duration::from_millis(50);
const WAY_MAX: Duration = Duration::from_secs(1);

/// When the client stops waiting, among the extensions of its request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Deadline(pub Instant);

/// When the answer must have begun, whether by the client's deadline or the server's own, among the extensions of its request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cutoff(pub Instant);

impl Deadline {
    /// How long something may wait so that there is time left to answer.
    pub fn shorten(self, wait: Duration) -> Duration {
        let left = self.0.saturating_duration_since(Instant::now());
        wait.min(left.saturating_sub((left / 10).clamp(WAY_MIN, WAY_MAX)))
    }
}

/// The timeout that a client names.
pub(super) fn timeout_of(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get("grpc-timeout")?.to_str().ok()?;
    let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    if digits.len() > DIGITS_MAX || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let count: u64 = digits.parse().ok()?;
    Some(match unit {
        "H" => Duration::from_secs(count * 3600),
        "M" => Duration::from_secs(count * 60),
        "S" => Duration::from_secs(count),
        "m" => Duration::from_millis(count),
        "u" => Duration::from_micros(count),
        "n" => Duration::from_nanos(count),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timeout(text: &str) -> Option<Duration> {
        let mut headers = HeaderMap::new();
        headers.insert("grpc-timeout", text.parse().unwrap());
        timeout_of(&headers)
    }

    #[test]
    fn every_unit_is_read_and_nothing_else() {
        let read = ["2H", "3M", "1S", "82m", "5u", "99999999n"].map(timeout);
        let seconds = |seconds| Some(Duration::from_secs_f64(seconds));
        let expected = [7200.0, 180.0, 1.0, 0.082, 0.000_005, 0.099_999_999].map(seconds);
        assert_eq!(read, expected);
        for bad in ["", "S", "1", "1x", "-1S", "+1S", "1 S", "123456789S", "1.5S", "ä"] {
            let mut headers = HeaderMap::new();
            headers.insert("grpc-timeout", http::HeaderValue::from_bytes(bad.as_bytes()).unwrap());
            assert_eq!(timeout_of(&headers), None, "{bad:?}");
        }
        assert_eq!(timeout_of(&HeaderMap::new()), None);
    }

    #[test]
    fn a_wait_leaves_time_for_the_answer() {
        let wait = Duration::from_mins(1);
        for (left, expected) in [(5.0, 4.5), (100.0, 60.0), (50.0, 49.0), (0.01, 0.0)] {
            let deadline = Deadline(Instant::now() + Duration::from_secs_f64(left));
            let shortened = deadline.shorten(wait).as_secs_f64();
            assert!((expected - 0.2..=expected).contains(&shortened), "{left}: {shortened}");
        }
    }
}
