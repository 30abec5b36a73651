//! Run steps that are asked in a batch: the job is parked with its question written down, and comes back for the answer.
//!
//! An attempt reads what its step was answered so far. If that is an answer, it is the step's; if there is none, or one
//! that is to be gone on with, the next question is written, to leave with the next batch. No slot is held meanwhile.

use tokio_util::sync::CancellationToken;

use super::call::result;
use super::step::{Ended, Steps};
use crate::domain::id::CallId;
use crate::domain::money::Usd;
use crate::model::{Call, ModelError, Reply, Then};
use crate::store::StoreError;
use crate::store::batch::{Batched, Question};
use crate::store::claim::Claimed;
use crate::store::ledger::CallEnd;

/// What the answers so far make of a step.
enum Read {
    /// Its end.
    Ended(Ended),
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
            Read::Ended(ended) => {
                if matches!(ended, Ended::Erred(_)) {
                    // Another attempt asks anew.
                    let forget = || self.store.forget_batched(job);
                    self.patiently(abort, forget).await.map_err(unsent)?;
                }
                return Ok((ended, CallEnd::Unsent(call_id)));
            }
        };
        if !self.model.is_configured() {
            return Ok((Ended::Erred(ModelError::unconfigured()), CallEnd::Unsent(call_id)));
        }
        let now = job.state.updated_at;
        let reserved = match self.reserve(job, &call, call_id, now, abort).await.map_err(unsent)? {
            Ok(reserved) => reserved.hand_over(),
            Err(ended) => return Ok((ended, CallEnd::Unsent(call_id))),
        };
        let params = self.model.batched(&call);
        let question = Question { call_id, params: &params, linger: self.linger, reserved };
        let ask = || self.store.ask_in_batch(job, question);
        // A try whose reply was lost may have written it, so its row in the ledger stays in any case.
        let asked = self.patiently(abort, ask).await;
        asked
            .map(|()| (Ended::Batched, CallEnd::Batched))
            .map_err(|error| (error, CallEnd::Batched))
    }

    /// Goes through what was asked and answered.
    fn read(&self, call: Call, asked: &[Batched]) -> Read {
        let (mut call, mut answer, mut cost) = (Box::new(call), None::<Reply>, Some(Usd::ZERO));
        for one in asked {
            let Some(answered) = &one.result else { return Read::Open };
            let batch_id = one.provider_batch_id.as_deref().unwrap_or_default();
            let reply = match self.model.read_result(answered, batch_id) {
                Ok(reply) => reply,
                Err(error) => return Read::Ended(Ended::Erred(error)),
            };
            let on = one.ordered_at.date_naive();
            let spent = self.model.find_cost(&reply.model, &reply.usage, reply.tier, on);
            cost = cost.zip(spent).map(|(sum, spent)| sum + spent);
            let before = answer.as_ref().map_or("", |begun| &begun.text);
            let then = call.then(before, &reply);
            let whole = match answer.take() {
                Some(begun) => begun.followed_by(reply),
                None => reply,
            };
            match then {
                Then::Done => return Read::Ended(Ended::Succeeded(result(whole, cost))),
                Then::Fail(error) => return Read::Ended(Ended::Erred(error)),
                Then::GoOn(next) => (call, answer) = (next, Some(whole)),
            }
        }
        Read::Next(call)
    }
}
