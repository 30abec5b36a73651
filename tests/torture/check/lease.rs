//! Invariant 3: at any moment one writer can move a job, and a stale one changes nothing but its own ledger row.

use std::collections::{BTreeMap, BTreeSet};

use super::Check;
use crate::torture::evidence::{Evidence, Row};
use crate::torture::fleet::Struck;

pub fn only_the_holder_moves_a_running_job(evidence: &Evidence) -> Check {
    let mut check = Check::of("3  only the holder of the lease stores a result");
    for job in evidence.jobs.values() {
        let job_id = &job.job_id;
        let mut last: Option<&Row> = None;
        let mut seen = BTreeSet::new();
        for transaction in &job.transactions {
            // Transactions of one job that mix were not kept apart by its lock.
            check.demand(seen.insert(transaction.xid), || format!("{job_id}: writers mix"));
            let moved = transaction.moved();
            if let Some((Some(old), _)) = moved {
                check.demand(last == Some(old), || {
                    format!("{job_id}: a row became {old:?} which was left as {last:?}")
                });
            }
            for one in transaction.checkpoints().filter(|one| one.attempt_id.is_some()) {
                let old = moved.and_then(|(old, _)| old);
                let holds = old.is_some_and(|old| {
                    old.status == "running"
                        && old.attempt_id == one.attempt_id
                        && (old.current_step, old.revision) == (one.step, one.revision)
                });
                check.demand(holds, || {
                    let (step, attempt_id) = (one.step, one.attempt_id);
                    format!("{job_id}: step {step} stored by {attempt_id:?} over {old:?}")
                });
            }
            last = moved.map(|(_, new)| new).or(last);
        }
    }
    check
}

pub fn each_call_is_begun_by_the_attempt_in_hand(evidence: &Evidence) -> Check {
    let mut check = Check::of("3  each call is begun by the attempt in hand");
    for job in evidence.jobs.values() {
        let mut row: Option<&Row> = None;
        for transaction in &job.transactions {
            row = transaction.moved().map(|(_, new)| new).or(row);
            for call in transaction.calls() {
                let holds = row.is_some_and(|row| {
                    row.status == "running"
                        && row.executor_id == Some(call.executor_id)
                        && row.attempt_id == Some(call.attempt_id)
                        && (row.epoch, row.current_step, row.revision)
                            == (call.epoch, call.step, call.revision)
                });
                check.demand(holds, || format!("{}: {call:?} over {row:?}", job.job_id));
            }
        }
    }
    check
}

pub fn epochs_grow_and_belong_to_one_executor(evidence: &Evidence) -> Check {
    let mut check = Check::of("3  epochs grow, and each belongs to one executor");
    for job in evidence.jobs.values() {
        let job_id = &job.job_id;
        let (mut epoch, mut owners) = (0, BTreeMap::new());
        for (old, new) in job.transactions.iter().filter_map(|one| one.moved()) {
            let was_running = old.is_some_and(|old| old.status == "running");
            let is_claim = new.status == "running" && new.epoch > epoch && !was_running;
            let holds = new.epoch == epoch + i32::from(is_claim)
                && (new.status != "running" || is_claim || was_running);
            check.demand(holds, || format!("{job_id}: from epoch {epoch} to {new:?}"));
            epoch = new.epoch;
            if let Some(executor_id) = new.executor_id {
                let owner = *owners.entry(epoch).or_insert(executor_id);
                check.demand(owner == executor_id, || {
                    format!("{job_id}: epoch {epoch} of {owner} was also had by {executor_id}")
                });
            }
        }
    }
    check
}

pub fn each_attempt_is_told_once(evidence: &Evidence) -> Check {
    let mut check = Check::of("3  each attempt is told by one step_started");
    for job in evidence.jobs.values() {
        let job_id = &job.job_id;
        let (mut attempts, mut numbers) = (BTreeSet::new(), BTreeSet::new());
        for transaction in &job.transactions {
            let moved = transaction.moved();
            let now = moved.and_then(|(_, new)| new.attempt_id);
            let before = moved.and_then(|(old, _)| old).and_then(|old| old.attempt_id);
            let begun = now.filter(|now| Some(*now) != before);
            if let Some(attempt_id) = begun {
                let is_new = attempts.insert(attempt_id);
                check.demand(is_new, || format!("{job_id}: attempt {attempt_id} began twice"));
            }
            let started: Vec<_> =
                transaction.events().filter(|event| event.kind == "step_started").collect();
            check.demand(started.len() == usize::from(begun.is_some()), || {
                format!("{job_id}: {begun:?} began with {} step_started", started.len())
            });
            for event in started {
                let number = (event.revision, event.step, event.attempt);
                check.demand(numbers.insert(number), || format!("{job_id}: {number:?} twice"));
            }
        }
    }
    check
}

pub fn only_the_dead_and_the_frozen_lose_attempts(struck: &Struck, evidence: &Evidence) -> Check {
    let mut check = Check::of("9  only who was killed or frozen lost attempts");
    for job in evidence.jobs.values() {
        let lost = job
            .transactions
            .iter()
            .filter(|transaction| transaction.events().any(|event| event.kind == "attempt_lost"));
        for transaction in lost {
            let holder = transaction.moved().and_then(|(old, _)| old?.executor_id);
            let process = holder.and_then(|holder| evidence.processes.get(&holder).copied());
            let struck_at = process.and_then(|process| struck.find(process));
            check.demand(struck_at.is_some_and(|at| at < transaction.at), || {
                let (job_id, at) = (&job.job_id, transaction.at);
                format!("{job_id}: at {at} {holder:?} of {process:?} was struck at {struck_at:?}")
            });
        }
    }
    check
}
