//! The batches of one sandbox: what they hold, how far they are, and when they end.
//! In come batches and the time of each look at them; out goes what a client would see then.
//! Nothing runs in the background: a batch ends when someone looks at it and its time has come.
//! What its requests came to is settled when it is created, and hidden until it has ended.

use std::{
    collections::VecDeque,
    sync::{Mutex, MutexGuard, PoisonError},
};

use chrono::{DateTime, SecondsFormat, TimeDelta, Utc};
use serde_json::{Value, json};
use tokio::sync::watch;

/// How many batches are kept; the oldest go first.
const BATCHES_MAX: usize = 10_000;
/// A batch that has not ended by then expires.
const EXPIRY: TimeDelta = TimeDelta::hours(24);
/// From then on, counted from its creation, its results are gone.
const ARCHIVAL: TimeDelta = TimeDelta::days(29);

/// The batches, oldest first.
#[derive(Default)]
pub struct Shelf(Mutex<VecDeque<Batch>>);

/// A batch and what became, or will become, of its requests.
pub struct Batch {
    /// Its id.
    pub id: String,
    /// When it was created.
    pub created_at: DateTime<Utc>,
    /// When and how it ends.
    pub term: Term,
    /// Its requests in their order.
    pub items: Vec<Item>,
    /// So many of them are done before it ends.
    pub done: usize,
    /// So many more looks do not find it.
    pub unseen: u32,
    /// When it was told to stop.
    pub cancel_initiated_at: Option<DateTime<Utc>>,
    /// When it ended.
    pub ended_at: Option<DateTime<Utc>>,
}

/// One request of a batch.
pub struct Item {
    /// What its sender calls it.
    pub custom_id: String,
    /// What it came to, as the results show it.
    pub result: Value,
}

/// When a batch ends.
pub enum Term {
    /// At this time.
    At(DateTime<Utc>),
    /// Once this has changed.
    Held(watch::Receiver<()>),
}

impl Shelf {
    /// Puts a batch on the shelf.
    pub fn add(&self, batch: Batch) {
        let mut batches = self.lock();
        batches.push_back(batch);
        if batches.len() > BATCHES_MAX {
            batches.pop_front();
        }
    }

    /// Does something with a batch, brought to the present; none if there is no such batch.
    pub fn with<R>(
        &self,
        id: &str,
        now: DateTime<Utc>,
        work: impl FnOnce(&mut Batch) -> R,
    ) -> Option<R> {
        let mut batches = self.lock();
        let batch = batches.iter_mut().find(|batch| batch.id == id)?;
        batch.settle(now);
        Some(work(batch))
    }

    /// The same for a look, which may be too early to find the batch.
    pub fn look<R>(
        &self,
        id: &str,
        now: DateTime<Utc>,
        work: impl FnOnce(&Batch) -> R,
    ) -> Option<R> {
        let look = |batch: &mut Batch| {
            let seen = batch.unseen == 0;
            batch.unseen = batch.unseen.saturating_sub(1);
            seen.then(|| work(batch))
        };
        self.with(id, now, look).flatten()
    }

    /// Every batch as its owner sees it, newest first.
    pub fn shown(&self, origin: &str, now: DateTime<Utc>) -> Vec<Value> {
        let mut batches = self.lock();
        let show = |batch: &mut Batch| {
            batch.settle(now);
            batch.shown(origin, now)
        };
        batches.iter_mut().rev().map(show).collect()
    }

    /// Takes a batch off the shelf.
    pub fn remove(&self, id: &str) {
        self.lock().retain(|batch| batch.id != id);
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Batch>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Batch {
    /// Tells it to stop; it ends at its new term, with what is done by then.
    pub fn cancel(&mut self, now: DateTime<Utc>, term: Term) {
        if self.cancel_initiated_at.is_none() {
            self.cancel_initiated_at = Some(now);
            self.term = term;
        }
    }

    /// Ends it if its time has come.
    fn settle(&mut self, now: DateTime<Utc>) {
        if self.ended_at.is_some() {
            return;
        }
        let expires_at = self.created_at + EXPIRY;
        let ends_at = match &self.term {
            Term::At(time) => *time,
            // An error means that the faults are gone, which releases as well.
            Term::Held(changes) if changes.has_changed().unwrap_or(true) => now,
            Term::Held(_) => DateTime::<Utc>::MAX_UTC,
        };
        if ends_at.min(expires_at) > now {
            return;
        }
        self.ended_at = Some(ends_at.min(expires_at));
        let unfinished = match self.cancel_initiated_at {
            Some(_) => "canceled",
            None if ends_at > expires_at => "expired",
            None => return,
        };
        for item in self.items.iter_mut().skip(self.done) {
            item.result = json!({"type": unfinished});
        }
    }

    /// The batch as its owner sees it.
    pub fn shown(&self, origin: &str, now: DateTime<Utc>) -> Value {
        let time = |time: DateTime<Utc>| time.to_rfc3339_opts(SecondsFormat::Micros, true);
        let status = match (self.ended_at, self.cancel_initiated_at) {
            (Some(_), _) => "ended",
            (None, Some(_)) => "canceling",
            (None, None) => "in_progress",
        };
        let mut counts = json!(
            {"processing": 0, "succeeded": 0, "errored": 0, "canceled": 0, "expired": 0}
        );
        for item in &self.items {
            let ended = self.ended_at.and(item.result["type"].as_str());
            let count = &mut counts[ended.unwrap_or("processing")];
            *count = json!(count.as_u64().unwrap_or(0) + 1);
        }
        let is_archived = self.is_archived(now);
        let results = format!("{origin}/v1/messages/batches/{}/results", self.id);
        json!({
            "id": self.id,
            "type": "message_batch",
            "processing_status": status,
            "request_counts": counts,
            "created_at": time(self.created_at),
            "expires_at": time(self.created_at + EXPIRY),
            "ended_at": self.ended_at.map(time),
            "archived_at": is_archived.then(|| time(self.created_at + ARCHIVAL)),
            "cancel_initiated_at": self.cancel_initiated_at.map(time),
            "results_url": (self.ended_at.is_some() && !is_archived).then_some(results),
        })
    }

    /// One line for each request, those with odd places first; none while there are no results.
    pub fn results(&self, now: DateTime<Utc>) -> Option<String> {
        if self.ended_at.is_none() || self.is_archived(now) {
            return None;
        }
        let places = (1..self.items.len()).step_by(2).chain((0..self.items.len()).step_by(2));
        let line = |place: usize| {
            let Item { custom_id, result } = &self.items[place];
            format!("{}\n", json!({"custom_id": custom_id, "result": result}))
        };
        Some(places.map(line).collect())
    }

    fn is_archived(&self, now: DateTime<Utc>) -> bool {
        now >= self.created_at + ARCHIVAL
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: i64) -> DateTime<Utc> {
        DateTime::UNIX_EPOCH + TimeDelta::milliseconds(ms)
    }

    fn shelf(term: Term, done: usize) -> Shelf {
        let item = |n: usize| Item {
            custom_id: n.to_string(),
            result: json!({"type": if n == 1 { "errored" } else { "succeeded" }}),
        };
        let shelf = Shelf::default();
        shelf.add(Batch {
            id: "b".to_owned(),
            created_at: at(0),
            term,
            items: (0..3).map(item).collect(),
            done,
            unseen: 0,
            cancel_initiated_at: None,
            ended_at: None,
        });
        shelf
    }

    fn seen(shelf: &Shelf, now: DateTime<Utc>) -> Value {
        shelf.look("b", now, |batch| batch.shown("http://x", now)).unwrap()
    }

    #[test]
    fn nothing_is_counted_or_given_out_before_the_batch_has_ended() {
        let shelf = shelf(Term::At(at(100)), 2);
        let early = seen(&shelf, at(99));
        assert_eq!(early["processing_status"], "in_progress");
        assert_eq!(early["request_counts"]["processing"], 3);
        assert_eq!((&early["results_url"], &early["ended_at"]), (&Value::Null, &Value::Null));
        assert_eq!(shelf.look("b", at(99), |batch| batch.results(at(99))), Some(None));
        let ended = seen(&shelf, at(500));
        assert_eq!(ended["ended_at"], "1970-01-01T00:00:00.100000Z");
        assert_eq!(ended["expires_at"], "1970-01-02T00:00:00.000000Z");
        let counts = json!(
            {"processing": 0, "succeeded": 2, "errored": 1, "canceled": 0, "expired": 0}
        );
        assert_eq!(ended["request_counts"], counts);
        assert_eq!(ended["results_url"], "http://x/v1/messages/batches/b/results");
        let results = shelf.look("b", at(500), |batch| batch.results(at(500))).unwrap().unwrap();
        let ids = results.lines().map(|line| line.chars().nth(14).unwrap()).collect::<String>();
        assert_eq!(ids, "102");
    }

    #[test]
    fn cancelling_spares_what_is_done_and_ends_when_it_is_let() {
        let shelf = shelf(Term::At(at(100)), 1);
        let (release, held) = watch::channel(());
        shelf.with("b", at(10), |batch| batch.cancel(at(10), Term::Held(held)));
        let canceling = seen(&shelf, at(200));
        assert_eq!(canceling["processing_status"], "canceling");
        assert_eq!(canceling["request_counts"]["canceled"], 0);
        release.send_replace(());
        let ended = seen(&shelf, at(300));
        assert_eq!(
            (&ended["processing_status"], &ended["request_counts"]["canceled"]),
            (&json!("ended"), &json!(2))
        );
        assert_eq!(ended["request_counts"]["succeeded"], 1);
        assert_eq!(ended["cancel_initiated_at"], "1970-01-01T00:00:00.010000Z");
    }

    #[test]
    fn a_batch_that_hangs_expires_after_a_day_and_is_archived_after_29() {
        let (_release, held) = watch::channel(());
        let shelf = shelf(Term::Held(held), 2);
        let ended = seen(&shelf, at(0) + TimeDelta::hours(25));
        assert_eq!(ended["ended_at"], ended["expires_at"]);
        assert_eq!(ended["request_counts"]["expired"], 1);
        let old = seen(&shelf, at(0) + TimeDelta::days(29));
        assert_eq!(
            (&old["results_url"], &old["archived_at"]),
            (&Value::Null, &json!("1970-01-30T00:00:00.000000Z"))
        );
    }

    #[test]
    fn the_first_looks_may_be_too_early_to_find_it() {
        let shelf = shelf(Term::At(at(0)), 0);
        shelf.with("b", at(0), |batch| batch.unseen = 2);
        let found = || shelf.look("b", at(1), |_| ()).is_some();
        assert_eq!([found(), found(), found()], [false, false, true]);
        shelf.remove("b");
        assert!(!found());
    }
}
