//! The allowance of this process: what it has drawn of the day's budget, and what it sets aside of that for each call.
//!
//! Where what is in hand covers a call, nothing is asked of Postgres; else a lot is drawn, by one call at a time.
//! What a call did not cost is there for the next; a call whose cost nobody knows counts as dear as it could be.
//! The loop gives back what is too much in one hand, and where money is short, all that is free; where there is room
//! again, it lets jobs go on that were put off. If the process dies, what it had drawn counts as spent that day.

use std::error::Error;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use chrono::{DateTime, NaiveDate, Utc};
use rust_decimal::Decimal;
use tokio_util::sync::CancellationToken;
use tracing::{Level, event};

use super::EngineSettings;
use crate::domain::money::Usd;
use crate::store::allowance::{Drawn, LOOK_MAX, LetGo, Operators, Refusal, Today};
use crate::store::ledger::{CallOutcome, Settlement};
use crate::store::{Store, StoreError, about};
use crate::telemetry::METRIC;

/// How often the loop looks, about.
const ROUND: Duration = Duration::from_secs(2);
/// And where there is no budget: only what servers with one have put off is looked for.
const ROUND_UNLIMITED: Duration = Duration::from_mins(1);
/// A lot is this part of the day's budget, or what a call needs if that is more.
const LOTS: Decimal = Decimal::ONE_HUNDRED;

/// What this process has drawn of the day's budget; its clones share it.
#[derive(Clone)]
pub struct Allowance {
    store: Store,
    limit: Option<Arc<Limit>>,
    purse: Arc<Mutex<Purse>>,
    /// One draws at a time, or each of many calls would draw a lot of its own.
    drawing: Arc<tokio::sync::Mutex<()>>,
}

struct Limit {
    budget: Usd,
    lot: Usd,
    operators: Vec<String>,
}

/// What is in hand and set aside for no call.
#[derive(Default)]
struct Purse {
    day: NaiveDate,
    left: Usd,
    /// The most that one call needed that day.
    most: Usd,
    /// The last day of which it was logged that the budget is used up.
    told_on: Option<NaiveDate>,
    /// Where the next look for jobs that were put off begins.
    after: Option<DateTime<Utc>>,
}

/// What is set aside for one call; dropped without a word it counts as spent.
#[must_use]
pub(super) struct Reserved(Option<(Arc<Mutex<Purse>>, NaiveDate, Usd)>);

/// The day's budget does not cover a call.
pub(super) struct PutOff {
    pub(super) refusal: Refusal,
    pub(super) needs: Usd,
    pub(super) message: String,
}

impl Allowance {
    /// One with nothing in hand.
    pub fn new(store: Store, settings: &EngineSettings) -> Self {
        let limit = settings.daily_budget_usd.map(|budget| {
            let lot = Usd::from(budget.as_decimal() / LOTS);
            Arc::new(Limit { budget, lot, operators: settings.operators.clone() })
        });
        Self { store, limit, purse: Arc::default(), drawing: Arc::default() }
    }

    /// Whether there is a budget of the day.
    pub(super) fn is_limited(&self) -> bool {
        self.limit.is_some()
    }

    /// Whom to tell when it is used up, and what it is.
    pub(super) fn operators(&self) -> Operators<'_> {
        let limit = self.limit.as_deref();
        let people = limit.map_or(&[][..], |limit| &limit.operators);
        Operators { people, budget: limit.map_or(Usd::ZERO, |limit| limit.budget) }
    }

    /// Sets aside the most that a call can cost, as of now, or says why it has to wait for another day.
    pub(super) async fn reserve(
        &self,
        most: Usd,
        now: DateTime<Utc>,
    ) -> Result<Result<Reserved, Box<PutOff>>, StoreError> {
        let Some(limit) = self.limit.as_deref() else { return Ok(Ok(Reserved::nothing())) };
        if let Some(reserved) = self.take(most, Some(now.date_naive())) {
            return Ok(Ok(reserved));
        }
        let _drawing = self.drawing.lock().await;
        let mut today = Some(now.date_naive());
        loop {
            if let Some(reserved) = self.take(most, today) {
                return Ok(Ok(reserved));
            }
            let need = self.need(most, today);
            let lot = limit.lot.max(need);
            match self.store.draw_allowance(need, lot, limit.budget).await? {
                Drawn::Lot { day, usd } => {
                    self.lock_purse().put_in(day, usd);
                    // Postgres has just said which day it is.
                    today = None;
                }
                Drawn::Refused(refusal) => {
                    self.tell_refusal(refusal, limit.budget);
                    let message = limit.refuse(most);
                    return Ok(Err(Box::new(PutOff { refusal, needs: most, message })));
                }
            }
        }
    }

    /// Takes it from what is in hand, if that is enough, and of today where the day is known.
    fn take(&self, most: Usd, today: Option<NaiveDate>) -> Option<Reserved> {
        let mut purse = self.lock_purse();
        purse.most = purse.most.max(most);
        if today.is_some_and(|today| today > purse.day) || purse.left < most {
            return None;
        }
        purse.left -= most;
        Some(Reserved(Some((Arc::clone(&self.purse), purse.day, most))))
    }

    /// What has to be drawn for a call.
    fn need(&self, most: Usd, today: Option<NaiveDate>) -> Usd {
        let purse = self.lock_purse();
        if today.is_some_and(|today| today > purse.day) { most } else { most - purse.left }
    }

    fn tell_refusal(&self, refusal: Refusal, budget: Usd) {
        event!(target: METRIC, Level::TRACE, monotonic_counter.longhaul.budget.refusals = 1_u64);
        let before = self.lock_purse().told_on.replace(refusal.day);
        if before != Some(refusal.day) {
            let (day, budget_usd) = (refusal.day, budget);
            tracing::warn!(%day, %budget_usd, "the day's budget does not cover the next call: jobs wait");
        }
    }

    /// Gives back what is not needed and lets jobs go on that were put off, until told to stop.
    pub async fn run(&self, stop: CancellationToken) {
        let round = if self.is_limited() { ROUND } else { ROUND_UNLIMITED };
        while !stop.is_cancelled() {
            if let Err(error) = self.run_once().await {
                tracing::warn!(
                    error = &error as &dyn Error,
                    "could not look after the day's budget"
                );
            }
            let pause = about(round);
            tokio::select! {
                () = stop.cancelled() => {}
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    /// One round; answers how many jobs go on that had been put off.
    pub async fn run_once(&self) -> Result<i64, StoreError> {
        let today = self.store.allowance().await?;
        let Some(limit) = self.limit.as_deref() else { return self.let_all_go(today.day).await };
        tell_left(limit.budget - today.drawn_usd);
        let surplus = self.lock_purse().take_surplus(limit.lot, today);
        if surplus > Usd::ZERO {
            // Where this fails, it counts as spent: it may have been given back.
            self.store.give_back_allowance(today.day, surplus).await?;
        }
        if !today.is_short {
            return Ok(0);
        }
        let Some(room) = self.store.find_room(today.day, limit.budget).await? else { return Ok(0) };
        let after = self.lock_purse().after;
        let LetGo { found, gone, last_run_at } =
            self.store.let_go_on(today.day, after, Some(room)).await?;
        // The next look begins where this one ended, and at last from the beginning again.
        self.lock_purse().after = last_run_at.filter(|_| found == LOOK_MAX);
        Ok(gone)
    }

    /// Lets everything go on that servers with a budget have put off.
    async fn let_all_go(&self, day: NaiveDate) -> Result<i64, StoreError> {
        let mut all = 0;
        loop {
            let LetGo { found, gone, .. } = self.store.let_go_on(day, None, None).await?;
            all += gone;
            if found < LOOK_MAX {
                return Ok(all);
            }
        }
    }

    /// Gives back all that is in hand, at the end.
    pub(super) async fn give_back(&self) -> Result<(), StoreError> {
        let (day, left) = {
            let mut purse = self.lock_purse();
            (purse.day, std::mem::take(&mut purse.left))
        };
        if left > Usd::ZERO {
            self.store.give_back_allowance(day, left).await?;
        }
        Ok(())
    }

    fn lock_purse(&self) -> MutexGuard<'_, Purse> {
        self.purse.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Limit {
    fn refuse(&self, most: Usd) -> String {
        let budget = self.budget;
        if most > budget {
            return format!(
                "the next call may cost up to ${most}, more than the whole day's budget of ${budget}"
            );
        }
        format!(
            "what is left of the day's budget of ${budget} does not cover the next call, which may cost up to ${most}"
        )
    }
}

impl Purse {
    /// What was left of a day before is worth nothing any more.
    fn put_in(&mut self, day: NaiveDate, usd: Usd) {
        if day != self.day {
            (self.day, self.left, self.most) = (day, Usd::ZERO, Usd::ZERO);
        }
        self.left += usd;
    }

    /// Takes out what others may need: where money is short everything, else what is more than two draws come to.
    fn take_surplus(&mut self, lot: Usd, today: Today) -> Usd {
        if today.day != self.day {
            return Usd::ZERO;
        }
        let keep = lot.max(self.most);
        let keep = match today.is_short {
            true => Usd::ZERO,
            false if self.left > keep + keep => keep,
            false => return Usd::ZERO,
        };
        let surplus = self.left - keep;
        if surplus > Usd::ZERO {
            self.left = keep;
        }
        surplus
    }
}

impl Reserved {
    /// Nothing, where nothing is limited.
    pub(super) fn nothing() -> Self {
        Self(None)
    }

    /// The call has ended: what it did not cost is free again.
    pub(super) fn settle(self, settled: &Settlement) {
        let cost = match settled.outcome {
            CallOutcome::Failed => Some(settled.cost_usd.unwrap_or(Usd::ZERO)),
            CallOutcome::Answered
            | CallOutcome::Aborted
            | CallOutcome::Lost
            | CallOutcome::Batched
            | CallOutcome::Started => settled.cost_usd,
        };
        if let Some(cost) = cost {
            self.free(cost);
        }
    }

    /// From which day how much is set aside, if anything.
    pub(super) fn amount(&self) -> Option<(NaiveDate, Usd)> {
        self.0.as_ref().map(|(_, day, most)| (*day, *most))
    }

    /// Others settle the call.
    pub(super) fn hand_over(self) {
        // Here it counts as spent from now on.
        drop(self);
    }

    /// The call has not left.
    pub(super) fn unsent(self) {
        self.free(Usd::ZERO);
    }

    /// Of the day on which it was set aside; on the next it is worth nothing.
    fn free(self, cost: Usd) {
        let Some((purse, day, most)) = self.0 else { return };
        let mut purse = purse.lock().unwrap_or_else(PoisonError::into_inner);
        if purse.day == day {
            purse.left += most;
            purse.left -= cost;
        }
    }
}

/// For the metrics, where a float has to do.
fn tell_left(left: Usd) {
    if let Ok(left) = f64::try_from(left.as_decimal()) {
        event!(target: METRIC, Level::TRACE, gauge.longhaul.budget.left_usd = left);
    }
}
