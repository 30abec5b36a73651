//! Pages: parts of a job's history that those who watch the job share.
//!
//! In go reads and what was written here, out come the parts of them that somebody lacks, or nothing if they are too old for whoever asks.
//! A page knows how much had been heard of the job when its read began, so it never passes for newer than it is;
//! what is kept of a job is bounded, and whoever needs older events reads them alone.

use std::collections::VecDeque;
use std::sync::Arc;

use super::event::{History, StoredEvent};
use super::feed::News;

/// How much of a job's history is kept for those who come a little later.
const EVENTS_MAX: usize = 16;
const BYTES_MAX: usize = 16 << 10;

/// A part of a job's history, as it was read.
#[derive(Debug)]
pub(super) struct Page {
    /// The sequence it begins after.
    pub(super) after: i32,
    /// How many wake-ups it has seen what they are about: those before its read began, or up to its own commit's.
    pub(super) as_of: u64,
    /// What was read.
    pub(super) history: History,
}

/// The last events of a job, as they were at its last read.
#[derive(Debug)]
pub(super) struct Recent {
    after: i32,
    as_of: u64,
    events: VecDeque<Arc<StoredEvent>>,
    bytes: usize,
    last_sequence: i32,
    has_ended: bool,
}

impl Page {
    /// The part after a sequence, if it is here and no older than what was heard.
    pub(super) fn find_page(&self, after: i32, heard: News) -> Option<Page> {
        let History { events, last_sequence, has_ended } = &self.history;
        let end = end_of(events.last(), self.after);
        let has_it = covers((self.after, end, *last_sequence), after);
        if !has_it || is_older((self.as_of, *last_sequence), heard) {
            return None;
        }
        let events = events.iter().filter(|stored| stored.event.sequence > after);
        let events = events.cloned().collect();
        let (last_sequence, has_ended) = (*last_sequence, *has_ended);
        let history = History { events, last_sequence, has_ended };
        Some(Page { after, as_of: self.as_of, history })
    }
}

impl Recent {
    /// What is worth keeping of a first page.
    pub(super) fn of(page: &Page) -> Self {
        let mut recent = Self {
            after: page.after,
            as_of: page.as_of,
            events: VecDeque::new(),
            bytes: 0,
            last_sequence: page.after,
            has_ended: false,
        };
        recent.add(page);
        recent
    }

    /// The sequence before the first event that is kept.
    pub(super) fn after(&self) -> i32 {
        self.after
    }

    /// The sequence of the last event that is kept or was.
    pub(super) fn end(&self) -> i32 {
        end_of(self.events.back(), self.after)
    }

    /// Goes on with a page that was read after the end.
    pub(super) fn add(&mut self, page: &Page) {
        let end = self.end();
        // One that is told by its own commit may come after a read that has seen more.
        let is_older = page.history.last_sequence < self.last_sequence;
        if page.after > end || page.as_of < self.as_of || is_older {
            return;
        }
        self.as_of = page.as_of;
        self.last_sequence = page.history.last_sequence;
        self.has_ended = page.history.has_ended;
        for stored in page.history.events.iter().filter(|stored| stored.event.sequence > end) {
            self.bytes += bytes_of(stored);
            self.events.push_back(Arc::clone(stored));
        }
        while self.events.len() > EVENTS_MAX || self.bytes > BYTES_MAX {
            let Some(stored) = self.events.pop_front() else { break };
            self.after = stored.event.sequence;
            self.bytes -= bytes_of(&stored);
        }
    }

    /// The part after a sequence, if it is here and no older than what was heard.
    pub(super) fn find_page(&self, after: i32, heard: News) -> Option<Page> {
        let has_it = covers((self.after, self.end(), self.last_sequence), after);
        if !has_it || is_older((self.as_of, self.last_sequence), heard) {
            return None;
        }
        let events = self.events.iter().filter(|stored| stored.event.sequence > after);
        let events = events.cloned().collect();
        let (last_sequence, has_ended) = (self.last_sequence, self.has_ended);
        let history = History { events, last_sequence, has_ended };
        Some(Page { after, as_of: self.as_of, history })
    }
}

fn end_of(last: Option<&Arc<StoredEvent>>, after: i32) -> i32 {
    last.map_or(after, |stored| stored.event.sequence)
}

/// Whether what was read from one sequence to another, of so many, says what follows after a third.
fn covers((from, end, last_sequence): (i32, i32, i32), after: i32) -> bool {
    let is_whole = end >= last_sequence;
    from <= after && (after < end || after == end && is_whole)
}

fn is_older((as_of, last_sequence): (u64, i32), heard: News) -> bool {
    as_of < heard.wakes || last_sequence < heard.last_sequence
}

/// About how much of memory an event takes.
fn bytes_of(stored: &StoredEvent) -> usize {
    let finished = stored.finished.as_ref();
    let output = finished.and_then(|finished| finished.output.as_ref());
    let citations = finished.map_or(0, |finished| finished.citations.len() << 10);
    let detail = stored.event.detail.as_ref().map_or(0, |_| 2 << 10);
    let text = stored.event.message.len() + output.map_or(0, String::len);
    size_of::<StoredEvent>() + text + citations + detail
}

#[cfg(test)]
mod tests {
    use chrono::DateTime;

    use super::*;
    use crate::domain::event::{Event, EventKind};
    use crate::domain::job::Status;

    fn stored(sequence: i32, message: &str) -> Arc<StoredEvent> {
        let event = Event {
            sequence,
            occurred_at: DateTime::UNIX_EPOCH,
            kind: EventKind::StepStarted,
            status: Status::Running,
            reason: None,
            step: 1,
            revision: 0,
            attempt: 1,
            actor: String::new(),
            message: message.to_owned(),
            detail: None,
        };
        Arc::new(StoredEvent { event, finished: None })
    }

    fn page(after: i32, as_of: u64, end: i32, last_sequence: i32) -> Page {
        let events = (after + 1..=end).map(|sequence| stored(sequence, "")).collect();
        Page { after, as_of, history: History { events, last_sequence, has_ended: false } }
    }

    fn heard(wakes: u64, last_sequence: i32) -> News {
        News { wakes, last_sequence }
    }

    fn sequences(page: Option<Page>) -> Option<Vec<i32>> {
        let events = page?.history.events;
        Some(events.iter().map(|stored| stored.event.sequence).collect())
    }

    #[test]
    fn a_page_is_never_older_than_what_was_heard() {
        let read = page(3, 7, 5, 5);
        let recent = Recent::of(&read);
        for (heard, expected) in [
            (heard(7, 5), Some(vec![4, 5])),
            (heard(0, 0), Some(vec![4, 5])),
            (heard(8, 5), None),
            (heard(7, 6), None),
        ] {
            assert_eq!(sequences(read.find_page(3, heard)), expected, "{heard:?}");
            assert_eq!(sequences(recent.find_page(3, heard)), expected, "{heard:?}");
        }
    }

    #[test]
    fn what_is_kept_answers_who_is_within_it_and_nobody_else() {
        let mut recent = Recent::of(&page(3, 1, 5, 5));
        recent.add(&page(5, 2, 6, 6));
        let found = [2, 3, 5, 6, 7].map(|after| sequences(recent.find_page(after, heard(2, 6))));
        let expected = [None, Some(vec![4, 5, 6]), Some(vec![6]), Some(vec![]), None];
        assert_eq!(found, expected);
    }

    #[test]
    fn at_the_end_of_a_part_nobody_is_told_that_it_is_all() {
        let part = page(0, 1, 200, 201);
        assert_eq!(sequences(part.find_page(199, heard(1, 0))), Some(vec![200]));
        assert_eq!(sequences(part.find_page(200, heard(1, 0))), None);
        assert_eq!(sequences(Recent::of(&part).find_page(200, heard(1, 0))), None);
    }

    #[test]
    fn a_read_that_comes_late_or_leaves_a_gap_is_not_kept() {
        let mut recent = Recent::of(&page(0, 5, 4, 4));
        recent.add(&page(0, 4, 3, 3));
        recent.add(&page(5, 6, 6, 6));
        assert_eq!(sequences(recent.find_page(2, heard(5, 4))), Some(vec![3, 4]));
        assert_eq!(sequences(recent.find_page(4, heard(6, 0))), None);
        // Read again from an earlier point, nothing is there twice.
        recent.add(&page(2, 6, 5, 5));
        assert_eq!(sequences(recent.find_page(2, heard(6, 5))), Some(vec![3, 4, 5]));
    }

    #[test]
    fn what_is_kept_is_bounded_and_its_end_is_known() {
        let mut recent = Recent::of(&page(0, 1, 200, 200));
        assert_eq!((recent.events.len(), recent.end()), (EVENTS_MAX, 200));
        assert_eq!(sequences(recent.find_page(199, heard(1, 200))), Some(vec![200]));
        assert_eq!(sequences(recent.find_page(100, heard(1, 200))), None);
        let events = vec![stored(201, &"x".repeat(BYTES_MAX))];
        let history = History { events, last_sequence: 201, has_ended: true };
        recent.add(&Page { after: 200, as_of: 2, history });
        assert_eq!((recent.events.len(), recent.bytes, recent.end()), (0, 0, 201));
        let page = recent.find_page(201, heard(2, 201)).expect("it knows that there is no more");
        assert!(page.history.events.is_empty() && page.history.has_ended);
    }
}
