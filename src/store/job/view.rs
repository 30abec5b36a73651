//! What a job's view tells: the same to whoever shows it, whichever door that is at.

use std::collections::BTreeMap;
use std::sync::Arc;

use chrono::{DateTime, Utc};

use super::{DoneStep, JobView, NoticeView, PendingApproval, Spent};
use crate::domain::event::{Decision, Delivery};
use crate::domain::id::JobKey;
use crate::domain::job::{JobState, Status, StepStatus};
use crate::domain::spec::{Spec, Work};
use crate::domain::state::{Checkpoint, Transition};

impl JobView {
    /// Who decided in a step that has ended.
    pub fn step_decisions(&self, step: i32) -> &[Decision] {
        self.decisions.get(&step).map_or(&[], Vec::as_slice)
    }

    /// The job that a submit would store, as if it had been; its times say nothing.
    pub fn as_if_stored(key: JobKey, spec: Arc<Spec>) -> Self {
        Self {
            key,
            state: JobState::new(spec.step_count(), DateTime::UNIX_EPOCH),
            spec,
            lease_expires_at: None,
            created_at: DateTime::UNIX_EPOCH,
            done: BTreeMap::new(),
            spent: BTreeMap::new(),
            decisions: BTreeMap::new(),
            approval: None,
            notices: Vec::new(),
            undelivered_notices: 0,
            partial_output: None,
        }
    }

    /// The job as its first transition left it: what a read in the same moment would find.
    pub(in crate::store) fn born(
        key: JobKey,
        spec: Arc<Spec>,
        born: &Transition,
        lease_expires_at: Option<DateTime<Utc>>,
    ) -> Self {
        let state = born.state.clone();
        let done = born.checkpoints.iter().map(|done| (done.step, DoneStep::of(done)));
        let approval = born.asked.as_ref().map(|(step, asked, _)| PendingApproval {
            approval_id: asked.approval_id,
            step: *step,
            quorum: asked.quorum,
            asked_at: state.updated_at,
            decisions: Vec::new(),
            links: Vec::new(),
        });
        let notices = born.notices.iter().map(|told| NoticeView {
            // It is made where the rows are written.
            notice_id: None,
            tries: 0,
            created_at: born.state.updated_at,
            recipient: told.recipient.clone(),
            kind: told.kind,
            delivery: Delivery::Pending,
            error: None,
            updated_at: state.updated_at,
        });
        let mut notices: Vec<NoticeView> = notices.collect();
        notices.sort_by(|a, b| a.recipient.cmp(&b.recipient));
        // Its first call is in the ledger from the moment that it is claimed.
        let begun = Spent { calls: 1, ..Spent::default() };
        let spent = state.attempt_id.map(|_| (state.current_step, begun));
        Self {
            done: done.collect(),
            spent: spent.into_iter().collect(),
            approval,
            notices,
            lease_expires_at,
            created_at: state.updated_at,
            state,
            ..Self::as_if_stored(key, spec)
        }
    }

    /// When a parked job goes on.
    pub fn parked_until(&self) -> Option<DateTime<Utc>> {
        self.state.run_at.filter(|_| self.state.status == Status::Queued)
    }

    /// When the lease of a running job runs out.
    pub fn held_until(&self) -> Option<DateTime<Utc>> {
        self.lease_expires_at.filter(|_| self.state.status == Status::Running)
    }

    /// What a step came to, if it is done.
    pub fn find_done(&self, step: i32) -> Option<&DoneStep> {
        self.done.get(&step).filter(|_| self.state.step_status(step) == StepStatus::Done)
    }

    /// When a step was begun, if it was.
    pub fn step_started_at(&self, step: i32) -> Option<DateTime<Utc>> {
        match self.state.step_status(step) {
            StepStatus::Done => self.find_done(step).map(|done| done.started_at),
            StepStatus::Active | StepStatus::Failed => self.state.step_started_at,
            StepStatus::Pending => None,
        }
    }

    /// Whether a step has more output than is here: it was cut, or left out altogether.
    pub fn is_output_cut(&self, step: i32) -> bool {
        self.find_done(step).is_some_and(|done| {
            done.output_cut || (done.output.is_none() && self.is_run_step(step))
        })
    }

    /// What there is of an answer that is not whole, if the step is the one it was for.
    pub fn partial_output(&self, step: i32) -> &str {
        let is_its = step == self.state.current_step && self.find_done(step).is_none();
        self.partial_output.as_deref().filter(|_| is_its).unwrap_or_default()
    }

    /// The output of the last run step that is done.
    pub fn last_output(&self) -> &str {
        let last = self.done.iter().rev().find(|(step, _)| self.is_run_step(**step));
        last.and_then(|(_, done)| done.output.as_deref()).unwrap_or_default()
    }

    /// What an approval step asks; nothing where the step is none.
    pub fn note(&self, step: i32) -> &str {
        match self.spec.find_step(step).map(|step| &step.work) {
            Some(Work::Approval(approval)) => &approval.note,
            Some(Work::Run(_) | Work::Wait(_)) | None => "",
        }
    }

    fn is_run_step(&self, step: i32) -> bool {
        let work = self.spec.find_step(step).map(|step| &step.work);
        work.is_some_and(|work| matches!(work, Work::Run(_)))
    }

    /// What all its model calls used.
    pub fn spent_in_all(&self) -> Spent {
        self.spent.values().fold(Spent::default(), |sum, step| Spent {
            usage: sum.usage + step.usage,
            calls: sum.calls + step.calls,
            cost_usd: sum.cost_usd + step.cost_usd,
            unpriced_calls: sum.unpriced_calls + step.unpriced_calls,
        })
    }
}

impl DoneStep {
    /// A step that passed in the moment of the job's birth, which has no output.
    fn of(done: &Checkpoint) -> Self {
        Self {
            step: done.step,
            revision: done.revision,
            output: None,
            output_cut: false,
            citations: Vec::new(),
            model: None,
            stop_reason: None,
            started_at: done.started_at,
            finished_at: done.finished_at,
        }
    }
}
