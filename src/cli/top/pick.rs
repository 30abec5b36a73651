//! Which jobs are shown, and in which order.
//!
//! In comes what a person types after `/`; out go the selector that the server is asked with and what is left to this
//! side, which is the beginning of an id: a server picks by status and label alone.

use std::{cmp::Reverse, collections::BTreeMap};

use prost_types::Timestamp;
use rust_decimal::Decimal;

use crate::{
    cli::word,
    rpc::proto::{Job, JobSelector, JobStatus},
};

/// Which jobs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// As it was typed.
    pub text: String,
    /// How the ids begin.
    pub prefix: String,
    statuses: Vec<JobStatus>,
    labels: BTreeMap<String, String>,
}

impl Filter {
    /// Reads words with spaces between them: statuses, of which one must fit, labels as KEY=VALUE, which must all, and
    /// how an id begins.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut filter = Self { text: text.trim().to_owned(), ..Self::default() };
        for part in text.split_whitespace() {
            let status = if part == "awaiting" { "awaiting_approval" } else { part };
            if let Some(status) = word::find_job_status(status) {
                filter.statuses.push(status);
            } else if let Some((key, value)) =
                part.split_once('=').filter(|(key, _)| !key.is_empty())
            {
                filter.labels.insert(key.to_owned(), value.to_owned());
            } else if filter.prefix.is_empty() {
                part.clone_into(&mut filter.prefix);
            } else {
                let first = &filter.prefix;
                return Err(format!("`{first}` and `{part}` cannot both begin an id"));
            }
        }
        Ok(filter)
    }

    /// Whether it picks every job.
    pub fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// What the server is asked with.
    pub fn selector(&self) -> JobSelector {
        JobSelector {
            statuses: self.statuses.iter().map(|status| *status as i32).collect(),
            labels: self.labels.clone().into_iter().collect(),
            ..JobSelector::default()
        }
    }

    /// Whether it picks this job.
    pub fn admits(&self, job: &Job) -> bool {
        let has = |(key, value)| job.labels.get(key) == Some(value);
        (self.statuses.is_empty() || self.statuses.contains(&job.status()))
            && self.labels.iter().all(has)
            && job.job_id.starts_with(&self.prefix)
    }
}

/// In which order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sort {
    /// Those that need somebody first, and of these who has waited longest.
    #[default]
    NeedsSomebody,
    /// By time of submission, the last first.
    Newest,
    /// By time of submission, the first first.
    Oldest,
    /// What cost most first.
    Cost,
}

impl Sort {
    /// The one after it.
    #[must_use]
    pub fn next(self) -> Self {
        match self {
            Self::NeedsSomebody => Self::Newest,
            Self::Newest => Self::Oldest,
            Self::Oldest => Self::Cost,
            Self::Cost => Self::NeedsSomebody,
        }
    }

    /// In words.
    pub fn in_words(self) -> &'static str {
        match self {
            Self::NeedsSomebody => "needs somebody first",
            Self::Newest => "newest first",
            Self::Oldest => "oldest first",
            Self::Cost => "dearest first",
        }
    }

    /// Puts jobs in this order.
    pub fn sort(self, jobs: &mut [Job]) {
        jobs.sort_by_key(|job| Reverse((moment(job.created_at.as_ref()), job.job_id.clone())));
        match self {
            Self::NeedsSomebody => jobs.sort_by_key(|job| (need(job), asked(job))),
            Self::Newest => {}
            Self::Oldest => jobs.reverse(),
            Self::Cost => {
                jobs.sort_by_cached_key(|job| {
                    Reverse(job.cost_usd.parse::<Decimal>().unwrap_or_default())
                });
            }
        }
    }
}

/// How much a job needs somebody, the most first.
fn need(job: &Job) -> u8 {
    match job.status() {
        JobStatus::AwaitingApproval => 0,
        JobStatus::Paused => 1,
        JobStatus::Failed => 2,
        JobStatus::Running => 3,
        JobStatus::Queued => 4,
        JobStatus::Completed | JobStatus::Cancelled | JobStatus::Unspecified => 5,
    }
}

/// When somebody was asked, or else when it last changed.
fn asked(job: &Job) -> (i64, i32) {
    let asked = job.approval.as_ref().and_then(|approval| approval.asked_at.as_ref());
    moment(asked.or(job.updated_at.as_ref().filter(|_| need(job) == 0)))
}

fn moment(at: Option<&Timestamp>) -> (i64, i32) {
    at.map_or((0, 0), |at| (at.seconds, at.nanos))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rpc::proto::Approval;

    fn job(id: &str, status: JobStatus, at: i64) -> Job {
        Job {
            job_id: id.to_owned(),
            status: status.into(),
            created_at: Some(Timestamp { seconds: at, nanos: 0 }),
            ..Job::default()
        }
    }

    #[test]
    fn a_filter_is_statuses_labels_and_the_beginning_of_an_id() {
        let filter = Filter::parse(" failed awaiting team=growth=x demo- ").expect("it is one");
        assert_eq!(filter.text, "failed awaiting team=growth=x demo-");
        let selector = filter.selector();
        let statuses = [JobStatus::Failed, JobStatus::AwaitingApproval];
        assert_eq!(selector.statuses, statuses.map(i32::from));
        assert_eq!(selector.labels["team"], "growth=x");
        let mut found = job("demo-1", JobStatus::Failed, 1);
        assert!(!filter.admits(&found));
        found.labels.insert("team".to_owned(), "growth=x".to_owned());
        assert!(filter.admits(&found));
        found.job_id = "other".to_owned();
        assert!(!filter.admits(&found));
        assert!(Filter::parse("a b").expect_err("two ids").contains("`a` and `b`"));
        assert!(Filter::parse("").expect("all").admits(&found));
    }

    #[test]
    fn who_needs_somebody_comes_first_and_of_these_who_has_waited_longest() {
        let mut late = job("late", JobStatus::AwaitingApproval, 9);
        let asked = |seconds| Approval {
            asked_at: Some(Timestamp { seconds, nanos: 0 }),
            ..Approval::default()
        };
        late.approval = Some(asked(20));
        let mut early = job("early", JobStatus::AwaitingApproval, 1);
        early.approval = Some(asked(10));
        let mut jobs = vec![
            job("done", JobStatus::Completed, 11),
            job("old", JobStatus::Running, 2),
            job("new", JobStatus::Running, 3),
            late,
            early,
            job("failed", JobStatus::Failed, 0),
        ];
        let ids = |jobs: &[Job]| jobs.iter().map(|job| job.job_id.clone()).collect::<Vec<_>>();
        Sort::NeedsSomebody.sort(&mut jobs);
        assert_eq!(ids(&jobs), ["early", "late", "failed", "new", "old", "done"]);
        Sort::Newest.sort(&mut jobs);
        assert_eq!(ids(&jobs), ["done", "late", "new", "old", "early", "failed"]);
        Sort::Oldest.sort(&mut jobs);
        assert_eq!(ids(&jobs)[0], "failed");
        jobs[2].cost_usd = "0.5".to_owned();
        let dear = jobs[2].job_id.clone();
        Sort::Cost.sort(&mut jobs);
        assert_eq!(ids(&jobs)[0], dear);
    }
}
