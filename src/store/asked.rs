//! Asked: jobs as this process wrote them when they asked for a decision, so that the decision need not look first.
//!
//! A few are kept, the last ones. What is decided from one is written only if its row is still as it was written then,
//! so an entry that is out of date costs a try and no more. Any vote and any action changes the row.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use chrono::{DateTime, Utc};

use super::approval::Vote;
use crate::domain::approval::ApprovalStatus;
use crate::domain::id::{ApprovalId, ExecutorId, JobKey};
use crate::domain::job::{JobState, Status};
use crate::domain::spec::Spec;
use crate::domain::state::{self, Action, Ballot, Transition};

/// So many jobs, and of each at the most so many bytes of text.
const JOBS_MAX: usize = 128;
const TEXT_BYTES_MAX: usize = 32 << 10;

/// The jobs that asked last.
#[derive(Debug, Default)]
pub(super) struct Asked(Mutex<VecDeque<(JobKey, Arc<AskedJob>)>>);

/// A job that asked.
#[derive(Debug)]
pub(super) struct AskedJob {
    pub(super) state: JobState,
    pub(super) spec: Arc<Spec>,
    pub(super) traceparent: Option<String>,
}

/// A vote on an approval that nobody has voted on as far as is known.
pub(super) struct KnownVote {
    pub(super) job: Arc<AskedJob>,
    pub(super) ballot: Ballot,
    /// Who takes the job if it becomes claimable.
    pub(super) claimer: Option<ExecutorId>,
}

impl Asked {
    /// Keeps a job that has just been written, if it asks and nobody has voted yet.
    pub(super) fn note(
        &self,
        key: &JobKey,
        state: &JobState,
        spec: &Arc<Spec>,
        traceparent: Option<&str>,
    ) {
        let asks = state.status == Status::AwaitingApproval && state.votes == 0;
        if !asks || spec.text_bytes() > TEXT_BYTES_MAX {
            return;
        }
        let traceparent = traceparent.map(str::to_owned);
        let job = AskedJob { state: state.clone(), spec: Arc::clone(spec), traceparent };
        let mut jobs = self.lock();
        jobs.retain(|(known, _)| known != key);
        if jobs.len() == JOBS_MAX {
            jobs.pop_front();
        }
        jobs.push_back((key.clone(), Arc::new(job)));
    }

    /// Takes out the job that a vote is meant for, if this process has just had it ask that.
    pub(super) fn take(&self, key: &JobKey, vote: &Vote) -> Option<(Arc<AskedJob>, Ballot)> {
        let job = {
            let mut jobs = self.lock();
            let at = jobs.iter().position(|(known, _)| known == key)?;
            jobs.remove(at).map(|(_, job)| job)
        }?;
        let approval_id = job.state.approval_id?;
        // Without an id the only one is meant.
        let is_meant = match vote.approval_id {
            Some(meant) => meant == approval_id,
            None => job.state.approvals_asked == 1,
        };
        let ballot = is_meant.then(|| ballot(approval_id, vote))?;
        Some((job, ballot))
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<(JobKey, Arc<AskedJob>)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The first vote: any before it would have changed the row.
fn ballot(approval_id: ApprovalId, vote: &Vote) -> Ballot {
    Ballot {
        approval_id,
        status: ApprovalStatus::Pending,
        votes: Vec::new(),
        verdict: vote.verdict,
        voter: vote.voter.clone(),
        door: vote.door,
        comment: vote.comment.clone(),
        via: vote.via.clone(),
        edited_output: None,
        shown: None,
        revisions: 0,
        has_edited: false,
    }
}

impl KnownVote {
    /// What the vote makes of the job, and of it in the hands of an executor that lives; nothing if it may not be.
    pub(super) fn decide(
        &self,
        now: DateTime<Utc>,
        alive: Option<ExecutorId>,
    ) -> Option<(JobState, Transition)> {
        let AskedJob { state, spec, .. } = &*self.job;
        let action = Action::Vote(self.ballot.clone());
        let transition = state::next(state, spec, action, &self.ballot.voter, now).ok()??;
        let claimer = self.claimer.filter(|claimer| alive == Some(*claimer));
        let transition = match claimer {
            Some(executor_id) => transition.claimed_by(executor_id, spec, now),
            None => transition,
        };
        Some((state.clone(), transition))
    }
}
