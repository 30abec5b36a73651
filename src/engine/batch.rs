//! Run steps that are asked in a batch: the job is parked with its question written down, and comes back for the answer.
//!
//! An attempt reads what its step was answered so far. If that is an answer, it is the step's; if there is none, or one
//! that is to be gone on with, the next question is written, to leave with the next batch. No slot is held meanwhile.

use tokio_util::sync::CancellationToken;

use super::call::result;
use super::step::{Ended, Steps};
use crate::domain::id::CallId;
use crate::domain::money::Usd;
use crate::domain::state::Refusal;
use crate::model::{Call, ModelError, Reply, Retry, Then};
use crate::store::StoreError;
use crate::store::batch::{Batched, Question};
use crate::store::claim::Claimed;
use crate::store::ledger::CallEnd;

/// What the answers so far make of a step.
enum Read {
    /// Its end.
    Ended(Ended),
    /// A question that came to nothing.
    Erred(ModelError, CallId),
    /// It waits.
    Open,
    /// This is to be asked next.
    Next(Box<Call>),
}

impl Steps {
    /// Finds the step's answer among what came back, or has its question leave with a batch.
    ///
    /// Every question that leaves has its row in the ledger, which is settled when its batch comes back.
    pub(super) async fn ask_in_batch(
        &self,
        job: &Claimed,
        call: Call,
        abort: &CancellationToken,
    ) -> Result<(Ended, CallEnd), (StoreError, CallEnd)> {
        let call_id = CallId::first_of(job.lease.attempt_id);
        let unsent = |error| (error, CallEnd::Unsent(call_id));
        let asked = self.patiently(abort, || self.store.batched(job)).await.map_err(unsent)?;
        let call = match self.read(call, &asked) {
            Read::Next(call) => call,
            Read::Open => return Ok((Ended::Batched, CallEnd::Unsent(call_id))),
            Read::Ended(ended) => return Ok((ended, CallEnd::Unsent(call_id))),
            Read::Erred(error, erred) => {
                // What is asked again is forgotten; what fails for good stays as it is until the job has gone on.
                if error.retry != Retry::Never {
                    let forget = || self.store.forget_batched(job, erred);
                    self.patiently(abort, forget).await.map_err(unsent)?;
                }
                return Ok((Ended::Erred(error), CallEnd::Unsent(call_id)));
            }
        };
        if !self.model.is_configured() {
            return Ok((Ended::Erred(ModelError::unconfigured()), CallEnd::Unsent(call_id)));
        }
        let now = job.state.updated_at;
        let reserved = match self.reserve(job, &call, call_id, now, abort).await.map_err(unsent)? {
            Ok(reserved) => reserved,
            Err(ended) => return Ok((ended, CallEnd::Unsent(call_id))),
        };
        if abort.is_cancelled() {
            reserved.unsent();
            return Ok((Ended::Aborted, CallEnd::Unsent(call_id)));
        }
        let (params, amount) = (self.model.batched(&call), reserved.amount());
        let question = Question { call_id, params: &params, linger: self.linger, reserved: amount };
        match self.patiently(abort, || self.store.ask_in_batch(job, question)).await {
            Ok(true) => {
                reserved.hand_over();
                Ok((Ended::Batched, CallEnd::Batched))
            }
            Ok(false) => {
                reserved.unsent();
                Err(unsent(Refusal::LeaseLost.into()))
            }
            // It may have been written, so its row in the ledger stays.
            Err(error) => Err((error, CallEnd::Batched)),
        }
    }

    /// Goes through what was asked and answered.
    fn read(&self, call: Call, asked: &[Batched]) -> Read {
        let (mut call, mut answer, mut cost) = (Box::new(call), None::<Reply>, Some(Usd::ZERO));
        for one in asked {
            let Some(answered) = &one.result else { return Read::Open };
            let batch_id = one.provider_batch_id.as_deref().unwrap_or_default();
            let reply = match self.model.read_result(answered, batch_id) {
                Ok(reply) => reply,
                Err(error) => return Read::Erred(error, one.call_id),
            };
            let on = one.ordered_at.date_naive();
            let spent = self.model.find_cost(&reply.model, &reply.usage, reply.tier, on);
            cost = cost.zip(spent).map(|(sum, spent)| sum + spent);
            let before = answer.as_ref().map_or("", |begun| &begun.text);
            let then = call.then(before, &reply);
            let whole = reply.after(answer.take());
            match then {
                Then::Done => return Read::Ended(Ended::Succeeded(result(whole, cost))),
                Then::Fail(error) => return Read::Erred(error, one.call_id),
                Then::GoOn(next) => (call, answer) = (next, Some(whole)),
            }
        }
        Read::Next(call)
    }
}
