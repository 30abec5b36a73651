//! Sight: whether the keys can be read, and who has been told of it.
//!
//! In go looks that went well and looks that failed, out comes when that is worth a word in the log.
//! A short absence of Postgres is none, and a long one is told once at its beginning and once at its end.

use std::time::Duration;

use tokio::time::Instant;

/// For how long nothing is said: what is made or revoked is in force within this time.
const STALE: Duration = Duration::from_secs(10);

/// How fresh the known keys are.
pub(super) struct Sight {
    seen_at: Instant,
    is_lost: bool,
}

impl Sight {
    /// The keys were seen now.
    pub(super) fn new(now: Instant) -> Self {
        Self { seen_at: now, is_lost: false }
    }

    /// They were seen; answers whether that was long not so, and is to be told.
    pub(super) fn is_good_again(&mut self, now: Instant) -> bool {
        self.seen_at = now;
        std::mem::take(&mut self.is_lost)
    }

    /// They could not be seen; answers whether that has just become long, and is to be told.
    pub(super) fn is_newly_lost(&mut self, now: Instant) -> bool {
        let is_new = !self.is_lost && now.duration_since(self.seen_at) >= STALE;
        self.is_lost |= is_new;
        is_new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_absence_is_told_once_and_so_is_its_end() {
        let begin = Instant::now();
        let at = |seconds| begin + Duration::from_secs(seconds);
        let mut sight = Sight::new(begin);
        assert!(!sight.is_newly_lost(at(9)) && !sight.is_good_again(at(9)));
        assert!(!sight.is_newly_lost(at(18)));
        let told: Vec<u64> = (19..60).filter(|&second| sight.is_newly_lost(at(second))).collect();
        assert_eq!(told, [19]);
        assert!(sight.is_good_again(at(60)) && !sight.is_good_again(at(61)));
        assert!(!sight.is_newly_lost(at(70)) && sight.is_newly_lost(at(71)));
    }
}
