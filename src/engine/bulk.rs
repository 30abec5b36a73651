//! Bulk control: one action on all jobs that a selector picks, page by page.
//!
//! In come a selector, an action and how long there is; out goes what became of the jobs of one page.
//! Each job goes the way of a single control, to its end also where the client has gone, and one that cannot stops no other.
//! A page that takes too long ends early, after the last job that was tried; whoever goes on from there tries none twice.

use std::error::Error;
use std::panic::AssertUnwindSafe;

use futures::FutureExt as _;
use futures::future::ready;
use futures::stream::{self, StreamExt as _};
use tokio::time::Instant;

use super::control::{Command, How, find_faults};
use super::{Caller, Engine, EngineError, to_its_end};
use crate::domain::id::JobKey;
use crate::domain::job::Status;
use crate::domain::validate::Faults;
use crate::domain::word::Word as _;
use crate::store::StoreError;
use crate::store::bulk::Aim;
use crate::store::list::{Cursor, Selector};

/// So many jobs are tried before it is seen whether the database was away for all of them.
const BATCH: usize = 40;
/// So many of them at once; each needs a connection for a moment, and others need some too.
const CROWD: usize = 6;
/// So many are counted where nothing is to be changed.
pub const COUNT_MAX: usize = 100_000;
/// So many of those that could not be moved are named.
const REFUSED_MAX: usize = 100;

/// What is asked of many jobs.
#[derive(Clone, Debug)]
pub struct Bulk {
    /// Of which.
    pub selector: Selector,
    /// What: to pause, to resume, to cancel or to retry.
    pub command: Command,
    /// Whether to count them only.
    pub is_dry_run: bool,
    /// Whether nobody is to be told what it makes of them.
    pub is_silent: bool,
    /// After which place in the list of them.
    pub after: Option<Cursor>,
    /// How many at the most.
    pub size: usize,
    /// The id of the request at each of them.
    pub request_id: Option<String>,
}

/// What became of them.
#[derive(Clone, Debug, Default)]
pub struct Bulked {
    /// How many matched and were tried, or were counted.
    pub matched: usize,
    /// How many of them it changed.
    pub changed: usize,
    /// How many could not be moved.
    pub refused: usize,
    /// Which these are, as far as they are named.
    pub refused_jobs: Vec<JobKey>,
    /// Whether there are more.
    pub has_more: bool,
    /// Where to go on.
    pub next: Option<Cursor>,
}

impl Engine {
    /// Does it to one page of them, or to less of it where it would take longer than this.
    pub async fn control_jobs(
        &self,
        bulk: &Bulk,
        caller: &Caller,
        until: Instant,
    ) -> Result<Bulked, EngineError> {
        let aim = aim(bulk)?;
        let most = if bulk.is_dry_run { COUNT_MAX } else { bulk.size };
        // One more than a page tells whether there is a next one.
        let limit = i64::try_from(most + 1).unwrap_or(i64::MAX);
        let found = self.store.find_jobs(&bulk.selector, aim, bulk.after.as_ref(), limit).await?;
        let has_more = found.len() > most;
        let found = &found[..found.len().min(most)];
        if bulk.is_dry_run {
            return Ok(Bulked { matched: found.len(), has_more, ..Bulked::default() });
        }
        let mut bulked = Bulked::default();
        for batch in found.chunks(BATCH) {
            let goes_on =
                bulked.count(batch, self.control_batch(bulk, caller, batch, until).await)?;
            if !goes_on || Instant::now() >= until {
                break;
            }
        }
        bulked.has_more = has_more || bulked.matched < found.len();
        bulked.next = found[..bulked.matched].last().filter(|_| bulked.has_more).cloned();
        Ok(bulked)
    }

    /// Tries the jobs of a batch until the time is over, at least the first; answers in their order.
    async fn control_batch(
        &self,
        bulk: &Bulk,
        caller: &Caller,
        batch: &[Cursor],
        until: Instant,
    ) -> Vec<Result<bool, StoreError>> {
        let tries: Vec<_> = batch
            .iter()
            .map(|place| {
                let (engine, key) = (self.clone(), place.key());
                let (command, caller) = (bulk.command.clone(), caller.clone());
                let how = How { request_id: bulk.request_id.clone(), is_silent: bulk.is_silent };
                // To its end also when the client has gone: whoever waits for the change is to be woken.
                let act = to_its_end(async move { engine.act(&key, command, caller, how).await });
                AssertUnwindSafe(act).catch_unwind().map(unless_it_panicked)
            })
            .collect();
        let begun = stream::iter(tries)
            .enumerate()
            .take_while(move |(at, _)| ready(*at == 0 || Instant::now() < until))
            .map(|(at, act)| act.map(move |tried| (at, tried)));
        // One that waits for somebody else's lock holds up none of the others.
        let mut tried: Vec<_> = begun.buffer_unordered(CROWD).collect().await;
        tried.sort_unstable_by_key(|(at, _)| *at);
        tried.into_iter().map(|(_, tried)| tried).collect()
    }
}

impl Bulked {
    /// Adds a batch, unless the database was away for all of it; answers whether to go on.
    fn count(
        &mut self,
        batch: &[Cursor],
        tried: Vec<Result<bool, StoreError>>,
    ) -> Result<bool, StoreError> {
        // A lock that one job did not get in time says nothing of the database.
        let is_away = |tried: &Result<bool, StoreError>| {
            tried.as_ref().is_err_and(StoreError::is_of_the_connection)
        };
        let all_away = tried.iter().all(is_away);
        for (place, tried) in batch.iter().zip(tried) {
            match tried {
                Ok(changed) => self.changed += usize::from(changed),
                // What was done before is told, and whoever goes on hears of it first.
                Err(_) if all_away && self.matched > 0 => return Ok(false),
                Err(error) if all_away => return Err(error),
                // It was deleted or pruned meanwhile.
                Err(StoreError::JobNotFound { .. } | StoreError::JobPruned { .. }) => {}
                Err(error) => self.refuse(place.key(), &error),
            }
            self.matched += 1;
        }
        Ok(true)
    }

    fn refuse(&mut self, key: JobKey, error: &StoreError) {
        let (job_id, error) = (key.job_id(), error as &dyn Error);
        tracing::info!(job_id, error, "a job could not be moved with the others");
        self.refused += 1;
        if self.refused_jobs.len() < REFUSED_MAX {
            self.refused_jobs.push(key);
        }
    }
}

/// What is to be done, if it may be done to many at once and to such as are asked for.
fn aim(bulk: &Bulk) -> Result<Aim, EngineError> {
    let mut faults = Faults::default();
    let (verb, aim) = match &bulk.command {
        Command::Pause { now } => ("pause", Aim::Pause { now: *now }),
        Command::Resume { budget_usd } => ("resume", Aim::Resume { budget_usd: *budget_usd }),
        Command::Cancel { .. } => ("cancel", Aim::Cancel),
        Command::Retry { .. } => ("retry", Aim::Retry),
        Command::Status | Command::Decide { .. } => {
            return Err(EngineError::invalid(
                "action",
                "must be one of pause, resume, cancel, retry",
            ));
        }
    };
    if bulk.selector.is_empty() {
        faults.add(
            "selector",
            "must name statuses, labels or a span of time: it would mean all jobs",
        );
    }
    let statuses = bulk.selector.statuses.iter().enumerate();
    for (at, status) in statuses.filter(|(_, status)| !aim.statuses().contains(status)) {
        let field = format!("selector.statuses[{at}]");
        faults.add(field, format!("has nothing to {verb}: a job that is {}", in_words(*status)));
    }
    find_faults(&bulk.command, bulk.request_id.as_deref(), &mut faults);
    faults.into_result().map_err(EngineError::Invalid)?;
    Ok(aim)
}

/// A job about which something panics is a bad job, and no other's fault.
fn unless_it_panicked(
    tried: std::thread::Result<Result<bool, StoreError>>,
) -> Result<bool, StoreError> {
    let bad = || StoreError::Corrupt { table: "job", what: "moving it panicked".to_owned() };
    tried.unwrap_or_else(|_panic| Err(bad()))
}

fn in_words(status: Status) -> String {
    status.word().replace('_', " ")
}
