//! How many requests came in the last second.
//! In comes the time of each request; out goes whether it is too many, and when there is room again.

use std::collections::VecDeque;

use chrono::{DateTime, SecondsFormat, TimeDelta, Utc};

use super::model::Headers;

const SECOND: TimeDelta = TimeDelta::seconds(1);

/// The requests of the last second that count.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rate(VecDeque<DateTime<Utc>>);

/// How full a second is, after a request.
#[derive(Debug, PartialEq, Eq)]
pub struct Room {
    /// How many a second may have.
    pub limit: u32,
    /// How many more this one may have.
    pub left: u32,
    /// When all of the limit is free again, or, to who was refused, some of it.
    pub free_at: DateTime<Utc>,
}

impl Rate {
    /// Lets a request through, which counts, or refuses it, which does not.
    pub fn admit(&mut self, limit: u32, now: DateTime<Utc>) -> Result<Room, Room> {
        self.forget_before(now - SECOND);
        let left = usize::try_from(limit).unwrap_or(usize::MAX).saturating_sub(self.0.len());
        if left == 0 {
            let free_at = self.0.front().map_or(now + SECOND, |&oldest| oldest + SECOND);
            return Err(Room { limit, left: 0, free_at });
        }
        self.0.push_back(now);
        Ok(Room { limit, left: left as u32 - 1, free_at: now + SECOND })
    }

    /// Counts a request, and tells whether they are too many with it.
    pub fn exceeds(&mut self, limit: u32, now: DateTime<Utc>) -> bool {
        self.forget_before(now - SECOND);
        self.0.push_back(now);
        self.0.len() > limit as usize
    }

    fn forget_before(&mut self, start: DateTime<Utc>) {
        while self.0.front().is_some_and(|&oldest| oldest <= start) {
            self.0.pop_front();
        }
    }
}

impl Room {
    /// The room as the provider tells it.
    pub fn headers(&self) -> Headers {
        let reset = self.free_at.to_rfc3339_opts(SecondsFormat::Millis, true);
        [("limit", self.limit.to_string()), ("remaining", self.left.to_string()), ("reset", reset)]
            .map(|(what, value)| (format!("anthropic-ratelimit-requests-{what}"), value))
            .into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: i64) -> DateTime<Utc> {
        DateTime::UNIX_EPOCH + TimeDelta::milliseconds(ms)
    }

    #[test]
    fn a_second_has_room_for_so_many_and_refused_ones_do_not_count() {
        let mut rate = Rate::default();
        assert_eq!(rate.admit(2, at(0)).unwrap().left, 1);
        assert_eq!(rate.admit(2, at(400)).unwrap().left, 0);
        let full = rate.admit(2, at(999)).unwrap_err();
        assert_eq!((full.left, full.free_at), (0, at(1000)));
        assert!(rate.admit(2, at(1000)).is_ok());
        assert!(rate.admit(2, at(1399)).is_err());
        assert!(rate.admit(0, at(9000)).is_err());
    }

    #[test]
    fn who_keeps_hammering_is_never_let_in() {
        let mut rate = Rate::default();
        let times = (0..10).map(|n| rate.exceeds(2, at(n * 300))).collect::<Vec<_>>();
        assert_eq!(times[..2], [false, false]);
        assert!(times[2..].iter().all(|exceeds| *exceeds));
        assert!(!rate.exceeds(2, at(9 * 300 + 1000)));
    }

    #[test]
    fn the_room_is_told_as_the_provider_tells_it() {
        let room = Room { limit: 3, left: 1, free_at: at(1500) };
        let name = |what| format!("anthropic-ratelimit-requests-{what}");
        let expected = [("limit", "3"), ("remaining", "1"), ("reset", "1970-01-01T00:00:01.500Z")];
        assert_eq!(room.headers(), expected.map(|(what, value)| (name(what), value.to_owned())));
    }
}
