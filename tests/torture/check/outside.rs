//! Invariants 5, 8 and 9 as the outside sees them: watchers, the model provider, and what is left at the end.

use std::collections::{BTreeMap, BTreeSet};

use chrono::{DateTime, TimeDelta, Utc};
use serde_json::Value;

use super::Check;
use crate::torture::evidence::{Event, Evidence, JobEvidence, is_terminal};
use crate::torture::world::{Recording, Records, Seen};

/// What the provider's clock and that of Postgres may differ by: they are read on one machine.
const CLOCKS_APART: TimeDelta = TimeDelta::milliseconds(5);

pub fn every_watcher_saw_the_history(records: &Records, evidence: &Evidence) -> Check {
    let mut check = Check::of("5  every watcher saw the history, without gap or repeat");
    for recording in &*records.recordings.lock().unwrap() {
        let job_id = &recording.job_id;
        let Some(job) = evidence.jobs.get(job_id) else {
            check.demand(false, || format!("{job_id} was watched and is not stored"));
            continue;
        };
        for (expected, seen) in (recording.after + 1..).zip(&recording.events) {
            check.demand(seen.sequence == expected, || {
                format!("{job_id}: {} was seen where {expected} was due", seen.sequence)
            });
            let told = event(job, seen.sequence);
            check.demand(told.is_some_and(|told| is_same(told, seen)), || {
                format!("{job_id}: {seen:?} was seen, the table has {told:?}")
            });
        }
        judge_ends(&mut check, job, recording);
    }
    check
}

fn judge_ends(check: &mut Check, job: &JobEvidence, recording: &Recording) {
    let job_id = &job.job_id;
    if let Some(snapshot) = &recording.snapshot {
        let told = event(job, recording.after).map(|event| &event.status);
        check.demand(told == Some(snapshot), || {
            format!("{job_id}: a snapshot {snapshot} at {}, told {told:?}", recording.after)
        });
    }
    if recording.has_ended {
        let last = recording.events.last().map_or(recording.after, |seen| seen.sequence);
        let status = event(job, last).map(|event| event.status.as_str());
        check.demand(status.is_some_and(is_terminal), || {
            format!("{job_id}: a watch ended at {last}, where the job is {status:?}")
        });
    }
}

fn event(job: &JobEvidence, sequence: i32) -> Option<&Event> {
    job.events.get(usize::try_from(sequence - 1).ok()?)
}

fn is_same(told: &Event, seen: &Seen) -> bool {
    let reason = told.reason.as_deref().unwrap_or_default();
    (told.sequence, &told.kind, &told.status, reason, told.step, told.attempt)
        == (seen.sequence, &seen.kind, &seen.status, &seen.reason, seen.step, seen.attempt)
}

/// A request as the provider saw it.
struct Request {
    id: String,
    received_at: DateTime<Utc>,
}

pub fn the_ledger_holds_every_request(evidence: &Evidence) -> Check {
    let mut check = Check::of("8  the ledger holds every request the provider saw");
    let mut seen = BTreeMap::<(String, i32), Vec<Request>>::new();
    // A look at the list of models costs nothing.
    let asked = evidence.requests.iter().filter(|entry| entry["method"] != "GET");
    for entry in asked {
        let Some(step) = marked_step(entry) else {
            check.demand(false, || format!("a request without a marker: {}", entry["path"]));
            continue;
        };
        let received_at = entry["received_at"].as_str().and_then(|at| at.parse().ok());
        let received_at = received_at.expect("the sandbox writes RFC 3339");
        let id = entry["request_id"].as_str().unwrap_or_default().to_owned();
        seen.entry(step).or_default().push(Request { id, received_at });
    }
    for job in evidence.jobs.values() {
        let mut begun = BTreeMap::<i32, Vec<DateTime<Utc>>>::new();
        for transaction in &job.transactions {
            for call in transaction.calls() {
                begun.entry(call.step).or_default().push(transaction.at);
            }
        }
        for step in 1..=job.row.step_count {
            let requests = seen.remove(&(job.job_id.clone(), step)).unwrap_or_default();
            let begun = begun.remove(&step).unwrap_or_default();
            judge_step(&mut check, job, step, &requests, &begun);
        }
    }
    for (step, _) in seen {
        check.demand(false, || format!("requests of a step that no job has: {step:?}"));
    }
    check
}

fn judge_step(
    check: &mut Check,
    job: &JobEvidence,
    step: i32,
    requests: &[Request],
    begun: &[DateTime<Utc>],
) {
    let job_id = &job.job_id;
    for (at, request) in requests.iter().enumerate() {
        // The log is written just before the commit, and the request leaves just after.
        let rows = begun.iter().filter(|begun| **begun <= request.received_at + CLOCKS_APART);
        let rows = rows.count();
        check.demand(rows > at, || {
            format!("{job_id}: request {} for step {step} with {rows} rows before it", at + 1)
        });
    }
    let known: BTreeSet<&str> = requests.iter().map(|request| request.id.as_str()).collect();
    let calls = job.calls.iter().filter(|call| call.step == step);
    let ids: Vec<&str> = calls.filter_map(|call| call.provider_request_id.as_deref()).collect();
    let distinct: BTreeSet<&str> = ids.iter().copied().collect();
    check.demand(distinct.len() == ids.len(), || format!("{job_id}: step {step}: one id twice"));
    for id in ids {
        check.demand(known.contains(id), || {
            format!("{job_id}: a row for step {step} names a request the provider never saw")
        });
    }
}

/// Job and step of the marker in the last text of the user.
fn marked_step(entry: &Value) -> Option<(String, i32)> {
    let messages = entry["body"]["messages"].as_array()?;
    let user = messages.iter().rfind(|message| message["role"] == "user")?;
    let text = match &user["content"] {
        Value::String(text) => text.clone(),
        Value::Array(blocks) => {
            blocks.iter().filter_map(|block| block["text"].as_str()).collect::<Vec<_>>().join(" ")
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => return None,
    };
    let marker = text.split_whitespace().rfind(|word| word.ends_with(';') && word.contains('/'))?;
    let (job_id, step) = marker.trim_end_matches(';').rsplit_once('/')?;
    Some((job_id.to_owned(), step.parse().ok()?))
}

pub fn nothing_is_left_open(evidence: &Evidence) -> Check {
    let mut check = Check::of("9  every job has ended, and nothing is left in any hand");
    for job in evidence.jobs.values() {
        let (job_id, row) = (&job.job_id, &job.row);
        check.demand(is_terminal(&row.status), || format!("{job_id} is {}", row.status));
        check.demand(row.executor_id.is_none(), || format!("{job_id} is in a hand"));
        for call in &job.calls {
            check.demand(call.outcome != "started", || {
                format!("{job_id}: call {} was never settled", call.call_id)
            });
        }
    }
    check
}
