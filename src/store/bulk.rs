//! Bulk: which jobs an action on many has anything to do to.
//!
//! In comes what is to be done; out go the statuses in which it can do something, and the rest of the condition.
//! Where it has been done it has nothing to do any more, so that whoever calls again and again comes to an end.

use rust_decimal::Decimal;

use crate::domain::job::Status;
use crate::domain::money::Usd;

/// What is to be done to many jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aim {
    /// Hold them; `now` also those that are to be held after their step.
    Pause { now: bool },
    /// Let them go on; with a budget, let also those cost so much that are not held.
    Resume { budget_usd: Option<Usd> },
    /// End them.
    Cancel,
    /// Begin them again.
    Retry,
}

impl Aim {
    /// The statuses in which it can do something.
    pub fn statuses(self) -> &'static [Status] {
        use Status::{AwaitingApproval, Cancelled, Failed, Paused, Queued, Running};
        match self {
            Self::Pause { .. } => &[Queued, Running, AwaitingApproval],
            Self::Resume { budget_usd: None } => &[Running, Paused],
            Self::Resume { budget_usd: Some(_) } | Self::Cancel => {
                &[Queued, Running, AwaitingApproval, Paused]
            }
            Self::Retry => &[Failed, Cancelled],
        }
    }

    /// Those of these in which it can do something; none means any.
    pub(super) fn narrow(self, asked: &[Status]) -> Vec<Status> {
        let is_asked = |status: &&Status| asked.is_empty() || asked.contains(status);
        self.statuses().iter().filter(is_asked).copied().collect()
    }

    /// What else must hold, as the statement names it.
    pub(super) fn condition(self) -> &'static str {
        match self {
            Self::Pause { now: false } => "pause",
            Self::Pause { now: true } => "pause_now",
            Self::Resume { .. } => "resume",
            Self::Cancel => "cancel",
            Self::Retry => "retry",
        }
    }

    /// What a job may cost after it, if that is said.
    pub(super) fn budget(self) -> Option<Decimal> {
        match self {
            Self::Resume { budget_usd } => budget_usd.map(Usd::as_decimal),
            Self::Pause { .. } | Self::Cancel | Self::Retry => None,
        }
    }
}
