//! Invariants 1, 2, 4 and 5: nothing answered is lost, nothing done is done again, and the history tells it all.

use std::collections::{BTreeMap, BTreeSet};

use super::Check;
use crate::torture::evidence::{Evidence, JobEvidence, Transaction, is_terminal};
use crate::torture::world::Records;

pub fn an_answered_submit_is_never_lost(records: &Records, evidence: &Evidence) -> Check {
    let mut check = Check::of("1  an answered submit is stored, one job per id");
    let mut creations = BTreeMap::<String, usize>::new();
    for submitted in &*records.submitted.lock().unwrap() {
        let (job_id, task) = (&submitted.job_id, &submitted.task);
        let stored = evidence.jobs.get(job_id).map(|job| &job.task);
        check.demand(stored == Some(task), || {
            format!("{job_id} was answered for {task:?}, and {stored:?} is stored")
        });
        *creations.entry(job_id.clone()).or_default() += usize::from(submitted.created);
    }
    for (job_id, count) in creations {
        check.demand(count <= 1, || format!("{job_id} was said to be created {count} times"));
    }
    for (job_id, task) in &*records.conflicts.lock().unwrap() {
        let stored = evidence.jobs.get(job_id).map(|job| &job.task);
        check.demand(stored.is_some_and(|stored| stored != task), || {
            format!("{job_id} was refused as another content, and {stored:?} is stored")
        });
    }
    for job in evidence.jobs.values() {
        let submits = job.events.iter().filter(|event| event.kind == "job_submitted").count();
        check.demand(submits == 1, || format!("{} was submitted {submits} times", job.job_id));
    }
    check
}

pub fn an_answered_action_is_in_the_history(records: &Records, evidence: &Evidence) -> Check {
    let mut check = Check::of("1  an answered action is in the history");
    for acted in &*records.acted.lock().unwrap() {
        let job = evidence.jobs.get(&acted.job_id);
        let told = job.and_then(|job| find_event(job, acted.last_sequence));
        check.demand(told.is_some_and(|status| status == acted.status), || {
            let (job_id, at, status) = (&acted.job_id, acted.last_sequence, &acted.status);
            format!("{job_id} was said to be {status} at {at}, and the history says {told:?}")
        });
    }
    check
}

fn find_event(job: &JobEvidence, sequence: i32) -> Option<&str> {
    let found = job.events.iter().find(|event| event.sequence == sequence);
    found.map(|event| event.status.as_str())
}

pub fn a_checkpointed_step_is_never_asked_again(evidence: &Evidence) -> Check {
    let mut check = Check::of("2  a checkpointed step is not asked again in its revision");
    for job in evidence.jobs.values() {
        let mut done = BTreeSet::new();
        for transaction in &job.transactions {
            for call in transaction.calls() {
                check.demand(!done.contains(&(call.step, call.revision)), || {
                    let (step, revision, job_id) = (call.step, call.revision, &job.job_id);
                    format!("{job_id}: step {step} of revision {revision} was asked when done")
                });
            }
            for one in transaction.checkpoints() {
                check.demand(done.insert((one.step, one.revision)), || {
                    let (step, revision, job_id) = (one.step, one.revision, &job.job_id);
                    format!("{job_id}: step {step} of revision {revision} was stored twice")
                });
            }
        }
        let steps = if job.row.status == "completed" {
            job.row.step_count
        } else {
            job.row.current_step - 1
        };
        for step in 1..=steps {
            let has_result = done.iter().any(|(done, _)| *done == step);
            check.demand(has_result, || format!("{}: step {step} has no result", job.job_id));
        }
    }
    check
}

pub fn a_result_is_stored_before_the_next_step_begins(evidence: &Evidence) -> Check {
    let mut check = Check::of("2  output and usage are stored before the next step begins");
    for job in evidence.jobs.values() {
        let mut done = BTreeMap::new();
        for transaction in &job.transactions {
            for one in transaction.checkpoints() {
                // Of a run step; others have neither attempt nor usage.
                let has_usage = one.attempt_id.is_none() || one.usage.is_some();
                let (step, job_id) = (one.step, &job.job_id);
                check.demand(has_usage, || format!("{job_id}: step {step} has no usage"));
                done.insert(one.step, one.revision);
            }
            for call in transaction.calls().filter(|call| call.step > 1) {
                let before = done.get(&(call.step - 1));
                check.demand(before.is_some_and(|revision| *revision <= call.revision), || {
                    let (step, job_id) = (call.step, &job.job_id);
                    format!("{job_id}: step {step} was asked before the one before it was stored")
                });
            }
        }
    }
    check
}

pub fn a_paused_job_does_not_move(evidence: &Evidence) -> Check {
    let mut check = Check::of("4  a paused job does not move");
    for (job, transaction) in all(evidence) {
        let Some((Some(old), new)) = transaction.moved() else { continue };
        if old.status != "paused" {
            continue;
        }
        let kinds: Vec<&str> = transaction.events().map(|event| event.kind.as_str()).collect();
        let first = kinds.first().copied();
        let holds = if new.status == "paused" && first != Some("job_resumed") {
            // Only votes are taken meanwhile.
            kinds.iter().all(|kind| *kind == "approval_decided")
                && new.current_step == old.current_step
        } else {
            first == Some("job_resumed") || (first == Some("job_cancelled") && kinds.len() == 1)
        };
        check.demand(holds, || {
            format!("{}: {kinds:?} while paused, then {}", job.job_id, new.status)
        });
        let calls = transaction.calls().count();
        let goes_on = new.status == "running";
        check.demand(calls == 0 || goes_on, || format!("{}: a call while paused", job.job_id));
    }
    check
}

pub fn no_call_is_begun_after_a_cancellation(evidence: &Evidence) -> Check {
    let mut check = Check::of("4  no call is begun after a cancellation");
    for job in evidence.jobs.values() {
        let mut cancelled = None;
        for transaction in &job.transactions {
            if transaction.tells("job_retried") {
                cancelled = None;
            }
            for call in transaction.calls() {
                check.demand(cancelled.is_none(), || {
                    let (step, job_id) = (call.step, &job.job_id);
                    format!("{job_id}: step {step} was asked after the cancellation {cancelled:?}")
                });
            }
            let ended = transaction.events().find(|event| event.kind == "job_cancelled");
            cancelled = ended.map(|event| event.sequence).or(cancelled);
        }
    }
    check
}

pub fn a_terminal_status_changes_only_by_retry(evidence: &Evidence) -> Check {
    let mut check = Check::of("4  a terminal status changes only by retry");
    for (job, transaction) in all(evidence) {
        let Some((Some(old), new)) = transaction.moved() else { continue };
        if !is_terminal(&old.status) || old == new {
            continue;
        }
        let first = transaction.events().next().map(|event| event.kind.as_str());
        let holds = old.status != "completed" && first == Some("job_retried");
        check.demand(holds, || {
            let (job_id, before, after) = (&job.job_id, &old.status, &new.status);
            format!("{job_id}: from {before} to {after} by {first:?}")
        });
    }
    check
}

pub fn sequences_are_gapless_and_agree_with_the_job(evidence: &Evidence) -> Check {
    let mut check = Check::of("5  sequences are gapless and agree with the job");
    for job in evidence.jobs.values() {
        let job_id = &job.job_id;
        for (expected, event) in (1..).zip(&job.events) {
            check.demand(event.sequence == expected, || {
                format!("{job_id}: event {} where {expected} was due", event.sequence)
            });
        }
        let last = job.events.last();
        let agrees = last.is_some_and(|last| {
            last.sequence == job.row.last_sequence
                && last.status == job.row.status
                && last.reason == job.row.reason
        });
        check.demand(agrees, || format!("{job_id} is {:?}, its last event is {last:?}", job.row));
        let mut next = 1;
        for transaction in &job.transactions {
            let mut told: Vec<i32> = transaction.events().map(|event| event.sequence).collect();
            told.sort_unstable();
            let expected: Vec<i32> = (next..).take(told.len()).collect();
            next += told.len().cast_signed() as i32;
            check.demand(told == expected, || format!("{job_id}: {told:?}, {expected:?} was due"));
            let moved = transaction.moved().map(|(_, new)| new.last_sequence);
            check.demand(told.is_empty() || moved == Some(next - 1), || {
                format!("{job_id}: events up to {} with the row at {moved:?}", next - 1)
            });
        }
    }
    check
}

/// Every fault of the storm passes by itself, so that only people and their silence end a job before its time.
pub fn a_job_ends_early_only_by_people(evidence: &Evidence) -> Check {
    let mut check = Check::of("1  a job fails only because nobody decided in time");
    for job in evidence.jobs.values() {
        for event in &job.events {
            let expired = event.reason.as_deref() == Some("APPROVAL_EXPIRED");
            check.demand(event.kind != "job_failed" || expired, || {
                format!("{}: failed because of {:?}", job.job_id, event.reason)
            });
        }
    }
    check
}

fn all(evidence: &Evidence) -> impl Iterator<Item = (&JobEvidence, &Transaction)> {
    let jobs = evidence.jobs.values();
    jobs.flat_map(|job| job.transactions.iter().map(move |transaction| (job, transaction)))
}
