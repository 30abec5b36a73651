//! The ledger: a row before every request to the model provider, settled when its end is known.
//!
//! Beginning a call needs the lease, so that none is begun after a cancel or by a stale executor:
//! the first call of an attempt is written with the claim or the checkpoint that begins the attempt.
//! Settling one needs only its id, so that what a lost or cancelled call used still lands.

use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use super::claim::Claimed;
use super::writer::Work;
use super::{Store, StoreError, bounded};
use crate::domain::id::{AttemptId, CallId, ExecutorId, JobKey};
use crate::domain::money::{Usage, Usd};
use crate::domain::word::Word;

/// How a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallOutcome {
    /// Not settled yet.
    Started,
    /// It waits in a batch.
    Batched,
    /// The provider answered.
    Answered,
    /// It failed.
    Failed,
    /// We gave it up.
    Aborted,
    /// Its executor died.
    Lost,
}

impl Word for CallOutcome {}

/// What is known of a call at its end.
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize)]
pub struct Settlement {
    /// How it ended.
    pub outcome: CallOutcome,
    /// What it used, as far as is known.
    pub usage: Option<Usage>,
    /// What it cost, if that is known.
    pub cost_usd: Option<Usd>,
    /// The provider's id of the request.
    pub provider_request_id: Option<String>,
    /// How it failed.
    pub error: Option<String>,
    /// The text that had arrived, if it did not succeed.
    pub partial_output: Option<String>,
}

/// What is written of one call.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Line {
    shard: i16,
    job_id: String,
    call_id: CallId,
    #[serde(flatten)]
    what: What,
}

#[derive(Clone, Debug, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum What {
    Started {
        step: i32,
        revision: i32,
        attempt_id: AttemptId,
        executor_id: ExecutorId,
        epoch: i32,
        model: String,
    },
    Noted {
        partial_output: String,
    },
    Unsent,
    Settled(Settlement),
}

/// What became of a call, to be written with the move that ends its attempt.
#[derive(Clone, Debug)]
pub enum CallEnd {
    /// It was answered, failed or given up.
    Settled(CallId, Settlement),
    /// It never left, so its row is taken back.
    Unsent(CallId),
    /// It waits in a batch, and is settled with that.
    Batched,
}

impl Store {
    /// Writes the row of a further request of the same attempt, if the lease still holds,
    /// together with the end of the request before.
    ///
    /// `call_id` is made by the caller, so that a try whose reply was lost can be repeated.
    pub async fn continue_call(
        &self,
        job: &Claimed,
        ended: CallEnd,
        call_id: CallId,
        model: &str,
    ) -> Result<(), StoreError> {
        let start = Line::started(job, call_id, model);
        let work = Work::Call { lease: job.lease, start };
        let lines = Line::ended(&job.key, ended).into_iter().collect();
        self.write_soon(&job.key, work, lines).await.map(|_| ())
    }

    /// Sets aside the most that a call can cost, if the budget covers it beside all other calls of the job; else nothing
    /// is set aside, and what those cost is answered.
    ///
    /// What was set aside for a call whose cost is not known counts as spent, but for one that failed.
    pub async fn reserve(
        &self,
        key: &JobKey,
        call_id: CallId,
        most: Usd,
        budget: Usd,
    ) -> Result<Option<Usd>, StoreError> {
        let row = bounded(
            sqlx::query!(
                r#"-- reserve
                with spent as (
                  select coalesce(sum(case when outcome = 'failed' then coalesce(cost_usd, 0)
                    else coalesce(cost_usd, reserved_usd, 0) end), 0) as usd
                  from longhaul.model_call where shard = $1 and job_id = $2 and call_id <> $3
                ),
                reserved as (
                  update longhaul.model_call m set reserved_usd = $4 from spent
                  where m.shard = $1 and m.job_id = $2 and m.call_id = $3 and spent.usd + $4 <= $5
                  returning m.call_id
                )
                select usd as "usd!", exists (select from reserved) as "fits!" from spent"#,
                key.shard(),
                key.job_id(),
                call_id.0,
                most.as_decimal(),
                budget.as_decimal(),
            )
            .fetch_one(&self.pool),
        )
        .await?;
        Ok((!row.fits).then(|| Usd::from(row.usd)))
    }

    /// Writes how a call ended; one that the sweeper had given up for lost is corrected.
    pub async fn end_call(&self, key: &JobKey, ended: CallEnd) -> Result<(), StoreError> {
        let Some(line) = Line::ended(key, ended) else { return Ok(()) };
        self.write_soon(key, Work::Ledger, vec![line]).await.map(|_| ())
    }

    /// Keeps the text that has arrived so far, for the case that nobody is left to settle the call.
    pub async fn note_partial(
        &self,
        key: &JobKey,
        call_id: CallId,
        text: &str,
    ) -> Result<(), StoreError> {
        let what = What::Noted { partial_output: storable(text) };
        let line = Line::new(key, call_id, what);
        self.write_soon(key, Work::Ledger, vec![line]).await.map(|_| ())
    }
}

impl Line {
    fn new(key: &JobKey, call_id: CallId, what: What) -> Self {
        Self { shard: key.shard(), job_id: key.job_id().to_owned(), call_id, what }
    }

    /// About how many bytes it writes.
    pub(super) fn weight(&self) -> usize {
        match &self.what {
            What::Noted { partial_output } => partial_output.len(),
            What::Settled(settlement) => settlement.partial_output.as_deref().map_or(0, str::len),
            What::Started { .. } | What::Unsent => 0,
        }
    }

    /// A call that is about to leave, in the attempt at hand.
    fn started(job: &Claimed, call_id: CallId, model: &str) -> Self {
        let what = What::Started {
            step: job.state.current_step,
            revision: job.state.revision,
            attempt_id: job.lease.attempt_id,
            executor_id: job.lease.executor_id,
            epoch: job.lease.epoch,
            model: model.to_owned(),
        };
        Self::new(&job.key, call_id, what)
    }

    /// A call that is over; nothing for one that is not.
    pub(super) fn ended(key: &JobKey, ended: CallEnd) -> Option<Self> {
        match ended {
            CallEnd::Batched => None,
            CallEnd::Unsent(call_id) => Some(Self::new(key, call_id, What::Unsent)),
            CallEnd::Settled(call_id, mut settlement) => {
                settlement.error = settlement.error.as_deref().map(storable);
                settlement.partial_output = settlement.partial_output.as_deref().map(storable);
                Some(Self::new(key, call_id, What::Settled(settlement)))
            }
        }
    }
}

/// The text without U+0000, which Postgres cannot hold.
fn storable(text: &str) -> String {
    text.replace('\0', "\u{fffd}")
}
