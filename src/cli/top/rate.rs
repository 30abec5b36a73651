//! How much happens in a minute, as far as this view has seen it.
//!
//! In come the counts and the jobs of each look, and when it was; out go rates over the last minute of looks.
//! Counts are of all jobs; events are only known of the jobs that are looked at, and a job that was only scrolled into
//! sight adds none of its past.

use std::{
    collections::{HashMap, VecDeque},
    time::Duration,
};

use crate::rpc::proto::{Job, JobStatus, StatusCount};

/// How far back rates go.
const WINDOW: Duration = Duration::from_mins(1);
/// What has been seen for less says nothing.
const LEAST: Duration = Duration::from_secs(3);

/// What was seen, look by look.
#[derive(Debug, Default)]
pub struct Rates {
    looks: VecDeque<Look>,
    known: HashMap<String, i32>,
    newest: (i64, i32),
    events: i64,
}

#[derive(Clone, Copy, Debug)]
struct Look {
    at: Duration,
    submitted: i64,
    ended: i64,
    events: i64,
}

/// What happens in a minute.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PerMinute {
    /// Jobs that come.
    pub submitted: f64,
    /// Jobs that end.
    pub ended: f64,
    /// Events of the jobs that are looked at.
    pub events: f64,
}

impl Rates {
    /// Takes in a look.
    pub fn look(&mut self, at: Duration, counts: &[StatusCount], jobs: &[Job]) {
        let is_first = self.looks.is_empty();
        let newest = jobs.iter().map(created).max().unwrap_or_default();
        for job in jobs {
            let before = match self.known.get(&job.job_id) {
                Some(sequence) => *sequence,
                None if !is_first && created(job) > self.newest => 0,
                None => job.last_sequence,
            };
            self.events += i64::from((job.last_sequence - before).max(0));
        }
        self.newest = self.newest.max(newest);
        self.known = jobs.iter().map(|job| (job.job_id.clone(), job.last_sequence)).collect();
        let of = |ended: bool| {
            let counted = counts.iter().filter(|one| !ended || has_ended(one.status()));
            counted.map(|one| one.count).sum()
        };
        self.looks.push_back(Look {
            at,
            submitted: of(false),
            ended: of(true),
            events: self.events,
        });
        while self.looks.get(1).is_some_and(|second| at.saturating_sub(second.at) >= WINDOW) {
            self.looks.pop_front();
        }
    }

    /// What the last minute was like; `None` before enough was seen.
    pub fn per_minute(&self) -> Option<PerMinute> {
        let (first, last) = (self.looks.front()?, self.looks.back()?);
        let span = last.at.saturating_sub(first.at);
        if span < LEAST {
            return None;
        }
        // Fewer than before: jobs were pruned, or retried.
        let rate = |from: i64, to: i64| (to - from).max(0) as f64 * 60.0 / span.as_secs_f64();
        Some(PerMinute {
            submitted: rate(first.submitted, last.submitted),
            ended: rate(first.ended, last.ended),
            events: rate(first.events, last.events),
        })
    }
}

fn created(job: &Job) -> (i64, i32) {
    job.created_at.as_ref().map_or((0, 0), |at| (at.seconds, at.nanos))
}

fn has_ended(status: JobStatus) -> bool {
    matches!(status, JobStatus::Completed | JobStatus::Failed | JobStatus::Cancelled)
}

#[cfg(test)]
mod tests {
    use prost_types::Timestamp;

    use super::*;

    fn counts(running: i64, completed: i64) -> [StatusCount; 2] {
        let count = |status: JobStatus, count| StatusCount { status: status.into(), count };
        [count(JobStatus::Running, running), count(JobStatus::Completed, completed)]
    }

    fn job(id: &str, at: i64, last_sequence: i32) -> Job {
        let created_at = Some(Timestamp { seconds: at, nanos: 0 });
        Job { job_id: id.to_owned(), created_at, last_sequence, ..Job::default() }
    }

    fn second(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn rates_are_of_what_was_seen_and_not_of_what_was_there() {
        let mut rates = Rates::default();
        rates.look(second(0), &counts(2, 10_000), &[job("a", 1, 50)]);
        assert_eq!(rates.per_minute(), None);
        // An older job comes into sight, a newer one comes.
        rates.look(
            second(30),
            &counts(2, 10_003),
            &[job("a", 1, 53), job("old", 0, 99), job("b", 5, 2)],
        );
        let told = rates.per_minute().expect("half a minute was seen");
        assert_eq!(told, PerMinute { submitted: 6.0, ended: 6.0, events: 10.0 });
    }

    #[test]
    fn what_is_pruned_makes_no_rate_negative_and_a_minute_is_all_that_counts() {
        let mut rates = Rates::default();
        rates.look(second(0), &counts(5, 10), &[]);
        rates.look(second(10), &counts(5, 2), &[]);
        assert!(rates.per_minute().expect("it was seen").ended.abs() < f64::EPSILON);
        for at in 11..200 {
            rates.look(second(at), &counts(5, 2), &[]);
        }
        assert_eq!(rates.looks.len(), 61);
        assert!(rates.per_minute().expect("it was seen").submitted.abs() < f64::EPSILON);
    }
}
