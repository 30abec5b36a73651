//! Interrupted answers: what an attempt goes on from, where an earlier one at its step was broken off.
//!
//! In come a job in hand and the call of its step; out comes what there is of the answer already, put into the call.
//! Only its text can be gone on from: what the model thought and found belongs to the call that was broken off.

use tokio_util::sync::CancellationToken;

use super::step::Steps;
use crate::domain::id::CallId;
use crate::domain::job::Reason;
use crate::domain::spec::Work;
use crate::domain::submission::InterruptPolicy;
use crate::model::{Call, MAX_CONTINUATIONS, Reply};
use crate::store::StoreError;
use crate::store::claim::Claimed;
use crate::store::ledger::CallEnd;

impl Steps {
    /// Has a call go on from what earlier attempts at the step left, if the step says so and they left anything.
    ///
    /// A step that is broken off again and again begins anew in the end: what it goes on from may be what breaks it.
    pub(super) async fn take_up(
        &self,
        job: &Claimed,
        call: &mut Call,
        abort: &CancellationToken,
    ) -> Result<Option<Reply>, (StoreError, CallEnd)> {
        if !may_go_on(job) {
            return Ok(None);
        }
        let (step, revision) = (job.state.current_step, job.state.revision);
        let call_id = CallId::first_of(job.lease.attempt_id);
        let find = || self.store.find_interrupted(&job.key, step, revision, call_id);
        let found = self.patiently(abort, find).await;
        let found = found.map_err(|error| (error, CallEnd::Unsent(call_id)))?;
        let most = i64::try_from(MAX_CONTINUATIONS).unwrap_or(i64::MAX);
        let found = found.filter(|found| found.times <= most && !found.text.trim().is_empty());
        Ok(found.map(|found| {
            tracing::info!(times = found.times, "goes on from what had arrived of the answer");
            call.begun = Some(found.text.clone());
            Reply::begun(found.text, &call.model)
        }))
    }
}

/// Whether there may be anything to go on from.
fn may_go_on(job: &Claimed) -> bool {
    let step = job.spec.find_step(job.state.current_step);
    let policy = match step.map(|step| &step.work) {
        Some(Work::Run(run)) => run.options.on_interrupt,
        Some(Work::Approval(_) | Work::Wait(_)) | None => InterruptPolicy::Restart,
    };
    // A person lets a job go on that failed under a pause: its answer was no success, and not broken off.
    let has_failed = job.state.last_error.as_ref().is_some_and(|error| {
        matches!(
            error.reason,
            Reason::ModelRefused
                | Reason::ModelTruncated
                | Reason::ModelStopped
                | Reason::ContextOverflow
                | Reason::ProviderRejected
        )
    });
    policy == InterruptPolicy::Continue && job.state.attempt > 1 && !has_failed
}
