//! The record of what the sandbox was sent, for people and tests to read.
//! In come entries as requests arrive, and what became of each; out go the entries a reader asks for.
//! A reader can wait until enough entries match, so no test needs to sleep.
//! A request whose client goes away marks its own entry, because its [`Open`] is dropped.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use tokio::{
    sync::watch,
    time::{Instant, timeout_at},
};

/// How many entries a journal keeps unless told otherwise; the oldest go first.
pub const ENTRIES_MAX: usize = 10_000;
/// The longest a reader may wait.
const LONGEST_WAIT: Duration = Duration::from_secs(30);

/// What became of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// It arrived and is being worked on.
    Pending,
    /// A fault keeps it waiting until the faults are replaced or cleared.
    Held,
    /// It was answered in full.
    Answered,
    /// It was refused, or its answer was broken on purpose.
    Failed,
    /// Its client went away before the answer was complete.
    Disconnected,
}

/// One entry: when it came, what became of it, and what it was.
#[derive(Clone, Serialize)]
pub struct Entry<T> {
    /// Its number, from 1, never used again, not even after the journal is emptied.
    pub seq: u64,
    /// When it arrived, by this machine's clock.
    pub received_at: DateTime<Utc>,
    /// What became of it so far.
    pub outcome: Outcome,
    /// What was received.
    #[serde(flatten)]
    pub what: T,
}

/// Which entries a reader wants, and how long it waits for them.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Look {
    /// Wait until this many entries match.
    #[serde(default)]
    pub at_least: usize,
    /// How long to wait for them, at most 30 seconds.
    pub timeout_ms: Option<u64>,
    /// Only entries with this outcome.
    pub outcome: Option<Outcome>,
    /// Only messages to this number.
    pub to: Option<String>,
    /// Only entries whose text has this in it.
    pub matching: Option<String>,
    /// Only requests with this path.
    pub path: Option<String>,
    /// Only entries that came after the one with this number.
    #[serde(default)]
    pub after_seq: u64,
    /// At most this many, the oldest first.
    pub limit: Option<usize>,
}

/// The newest entries, oldest first.
pub struct Journal<T> {
    entries_max: usize,
    kept: Mutex<Kept<T>>,
    changed: watch::Sender<()>,
}

struct Kept<T> {
    last_seq: u64,
    entries: VecDeque<Entry<T>>,
}

impl<T: Clone> Journal<T> {
    /// An empty journal that keeps the newest entries, so many of them.
    pub fn keeping(entries_max: usize) -> Self {
        let kept = Kept { last_seq: 0, entries: VecDeque::new() };
        Self { entries_max, kept: Mutex::new(kept), changed: watch::Sender::new(()) }
    }

    /// Writes a new entry down; dropping what it returns unsettled marks it disconnected.
    pub fn open(self: &Arc<Self>, what: T) -> Open<T> {
        let seq = {
            let mut kept = self.lock();
            kept.last_seq += 1;
            let seq = kept.last_seq;
            let outcome = Outcome::Pending;
            kept.entries.push_back(Entry { seq, received_at: now(), outcome, what });
            if kept.entries.len() > self.entries_max {
                kept.entries.pop_front();
            }
            seq
        };
        self.changed.send_replace(());
        Open { journal: Arc::clone(self), seq, settled: false }
    }

    /// The entries that `wanted` accepts, once there are enough of them or the time is up.
    pub async fn look(&self, look: &Look, fits: impl Fn(&Entry<T>) -> bool) -> Vec<Entry<T>> {
        let wanted = |entry: &Entry<T>| entry.seq > look.after_seq && fits(entry);
        let wait = look.timeout_ms.map_or(LONGEST_WAIT, Duration::from_millis).min(LONGEST_WAIT);
        let deadline = Instant::now() + wait;
        let mut changed = self.changed.subscribe();
        while self.lock().entries.iter().filter(|entry| wanted(entry)).count() < look.at_least {
            if !matches!(timeout_at(deadline, changed.changed()).await, Ok(Ok(()))) {
                break;
            }
        }
        let limit = look.limit.unwrap_or(usize::MAX);
        self.lock().entries.iter().filter(|entry| wanted(entry)).take(limit).cloned().collect()
    }

    /// Forgets every entry; numbers go on.
    pub fn forget(&self) {
        self.lock().entries.clear();
        self.changed.send_replace(());
    }

    /// Changes the entry with this number, if it is still kept.
    pub fn change(&self, seq: u64, change: impl FnOnce(&mut Entry<T>)) {
        let mut kept = self.lock();
        // The numbers of the kept entries have no gap.
        let first = kept.entries.front().map(|entry| entry.seq);
        let at = first.and_then(|first| usize::try_from(seq.checked_sub(first)?).ok());
        if let Some(entry) = at.and_then(|at| kept.entries.get_mut(at)) {
            change(entry);
        }
        drop(kept);
        self.changed.send_replace(());
    }

    fn lock(&self) -> MutexGuard<'_, Kept<T>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The entry of a request that is still being worked on.
pub struct Open<T: Clone> {
    journal: Arc<Journal<T>>,
    seq: u64,
    settled: bool,
}

impl<T: Clone> Open<T> {
    /// The number of the entry.
    pub fn seq(&self) -> u64 {
        self.seq
    }

    /// Notes where the request stands while it is not settled.
    pub fn note(&self, outcome: Outcome) {
        self.journal.change(self.seq, |entry| entry.outcome = outcome);
    }

    /// Writes down what became of the request; what happens to its client later does not matter.
    pub fn settle(&mut self, outcome: Outcome, change: impl FnOnce(&mut T)) {
        self.settled = true;
        self.journal.change(self.seq, |entry| {
            entry.outcome = outcome;
            change(&mut entry.what);
        });
    }
}

impl<T: Clone> Drop for Open<T> {
    fn drop(&mut self) {
        if !self.settled {
            self.note(Outcome::Disconnected);
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "the sandbox plays other machines, with own clocks")]
fn now() -> DateTime<Utc> {
    Utc::now()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_reader_wakes_when_enough_entries_match() {
        let journal = Arc::new(Journal::keeping(ENTRIES_MAX));
        let look = Look { at_least: 2, ..Look::default() };
        let writing = async {
            for n in [1, 2, 4] {
                tokio::task::yield_now().await;
                journal.open(n).settle(Outcome::Answered, |_| ());
            }
        };
        let even = |entry: &Entry<i32>| entry.what % 2 == 0;
        let (found, ()) = tokio::join!(journal.look(&look, even), writing);
        assert_eq!(found.iter().map(|entry| entry.what).collect::<Vec<_>>(), [2, 4]);
    }

    #[tokio::test]
    async fn only_the_newest_entries_are_kept_and_a_dropped_one_is_disconnected() {
        let journal = Arc::new(Journal::keeping(20));
        for n in 0..=20 {
            drop(journal.open(n));
        }
        let all = journal.look(&Look::default(), |_| true).await;
        assert_eq!((all.len(), all[0].seq), (20, 2));
        assert_eq!(all[0].outcome, Outcome::Disconnected);
    }

    #[tokio::test]
    async fn a_long_journal_can_be_read_in_pages() {
        let journal = Arc::new(Journal::keeping(ENTRIES_MAX));
        for n in 1..=5 {
            drop(journal.open(n));
        }
        let mut pages = Vec::new();
        let mut look = Look { limit: Some(2), ..Look::default() };
        loop {
            let page = journal.look(&look, |_| true).await;
            let Some(last) = page.last() else { break };
            look.after_seq = last.seq;
            pages.push(page.iter().map(|entry| entry.what).collect::<Vec<_>>());
        }
        assert_eq!(pages, [vec![1, 2], vec![3, 4], vec![5]]);
    }
}
