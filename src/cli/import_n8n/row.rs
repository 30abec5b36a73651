//! A row of the template becomes a job that can be stored here, or it is said why it cannot.
//!
//! What was asked comes from its state or from a file beside; it is read, checked and frozen as a submit through the
//! webhook would be, so that a client which sends it again is answered that it is there.

use std::collections::HashMap;
use std::sync::Arc;

use chrono::{DateTime, NaiveDateTime, Utc};
use serde_json::{Map, Value};

use super::place::{Base, Clues, Doubt, Kind, Place};
use super::state::{COST, DECISION, OUTPUT, State, TOKENS};
use crate::domain::id::JobKey;
use crate::domain::import::{Past, Standing, result};
use crate::domain::job::{Reason, Status, StepResult};
use crate::domain::money::Usage;
use crate::domain::spec::{Defaults, Spec, Work};
use crate::domain::submission::Submission;
use crate::domain::validate::freeze;
use crate::store::import::OldJob;
use crate::store::import::source::OldRow;

/// How rows are read.
pub(super) struct Reading {
    /// What a submission gets where it says nothing.
    pub(super) defaults: Defaults,
    /// Which status each word of theirs stands for.
    pub(super) statuses: HashMap<String, Status>,
    /// What was asked of each job, by its id, and of all others under `default`.
    pub(super) requests: Map<String, Value>,
}

/// A row that can be stored, but for its place.
pub(super) struct Row {
    key: JobKey,
    content: Value,
    spec: Spec,
    status: Status,
    kinds: Vec<Kind>,
    results: Vec<Option<StepResult>>,
    /// What stands in its state and cannot be read, by step.
    unread: Vec<(usize, String)>,
    done: usize,
    current: Option<i64>,
    was_rejected: bool,
    error: Option<String>,
    created_at: Option<DateTime<Utc>>,
    updated_at: Option<DateTime<Utc>>,
}

impl Reading {
    /// Reads a row, or says why it is left out.
    pub(super) fn read(&self, old: &OldRow) -> Result<Row, String> {
        let status = self.status(old)?;
        let empty = Map::new();
        let parsed =
            old.row.get("state").and_then(Value::as_str).map(serde_json::from_str::<Value>);
        let parsed =
            parsed.transpose().map_err(|error| format!("its state is not JSON: {error}"))?;
        let state = parsed.as_ref().or_else(|| old.row.get("state")).and_then(Value::as_object);
        let state = State::new(state.unwrap_or(&empty));
        let submission = self.submission(&old.job_id, &state)?;
        let spec = freeze(&submission, &self.defaults).map_err(|violations| {
            let first = violations.first().map(|one| format!("{}: {}", one.field, one.message));
            format!("what was asked is not valid: {}", first.unwrap_or_default())
        })?;
        let kinds = spec.steps.iter().map(|step| match step.work {
            Work::Run(_) => Kind::Run,
            Work::Approval(_) => Kind::Approval,
            Work::Wait(_) => Kind::Wait,
        });
        let kinds: Vec<Kind> = kinds.collect();
        let results = (1..).zip(&kinds).map(|(step, kind)| match kind {
            Kind::Run => state.result(step),
            Kind::Approval | Kind::Wait => None,
        });
        let results: Vec<Option<StepResult>> = results.collect();
        let unread = (1..).zip(&results).filter(|(_, result)| result.is_some());
        let unread = unread.flat_map(|(step, _)| state.unread(step).map(move |what| (step, what)));
        let unread: Vec<(usize, String)> = unread.collect();
        let is_done = |step: &usize| {
            results[step - 1].is_some()
                || (kinds[step - 1] == Kind::Approval && state.is_approved(*step))
        };
        let done = (1..=kinds.len()).rev().find(is_done).unwrap_or(0);
        let error = (1..=kinds.len()).rev().find_map(|step| state.error(step));
        let was_rejected = old
            .row
            .get("status")
            .and_then(Value::as_str)
            .is_some_and(|word| word.to_lowercase().contains("reject"));
        Ok(Row {
            key: JobKey::new(&old.job_id),
            content: submission.content(),
            spec,
            status,
            done,
            current: number(old.row.get("current_step")),
            was_rejected,
            error,
            created_at: moment(old.row.get("created_at")),
            updated_at: moment(old.row.get("updated_at")),
            kinds,
            results,
            unread,
        })
    }

    fn status(&self, old: &OldRow) -> Result<Status, String> {
        let word = old.row.get("status").and_then(Value::as_str).unwrap_or_default();
        let status = self.statuses.get(&spelled(word)).copied().ok_or_else(|| {
            format!(
                "its status is {word:?}, which is not known: say what it stands for with --statuses"
            )
        })?;
        let lease = moment(old.row.get("lease_expires_at")).filter(|until| *until > old.now);
        match lease {
            Some(until) if status == Status::Running => Err(format!(
                "n8n holds it until {}: deactivate its workflow, and import again after that",
                until.format("%Y-%m-%d %H:%M:%S UTC")
            )),
            Some(_) | None => Ok(status),
        }
    }

    /// What was asked: of this very job in the file, else in its state, else of all jobs in the file.
    fn submission(&self, job_id: &str, state: &State<'_>) -> Result<Submission, String> {
        let own = self.requests.get(job_id).and_then(Value::as_object);
        let default = self.requests.get("default").and_then(Value::as_object);
        let find = |name: &str| {
            let own = own.and_then(|own| own.get(name));
            own.or_else(|| state.requested(name)).or_else(|| default.and_then(|all| all.get(name)))
        };
        let mut sent = Map::new();
        sent.insert("job_id".to_owned(), Value::String(job_id.to_owned()));
        for name in ["task", "steps", "settings"] {
            if let Some(found) = find(name) {
                sent.insert(name.to_owned(), found.clone());
            }
        }
        let Some(Value::Array(steps)) = sent.get_mut("steps") else {
            return Err("its state does not say what its steps are: say it with --steps".to_owned());
        };
        steps.iter_mut().for_each(without_results);
        Submission::read(sent).map_err(|misfit| {
            format!("what was asked does not fit: {}: {}", misfit.path, misfit.message)
        })
    }
}

/// What the template may have written beside what was asked.
fn without_results(step: &mut Value) {
    let Some(fields) = step.as_object_mut() else { return };
    let others = ["status", "error"];
    for name in [&OUTPUT[..], &TOKENS, &COST, &DECISION, &others].concat() {
        fields.remove(name);
    }
}

impl Row {
    /// What its place depends on; nothing for one of which it does not matter.
    pub(super) fn vote(&self) -> Option<Base> {
        if self.status.is_terminal() { None } else { self.clues().vote() }
    }

    fn clues(&self) -> Clues<'_> {
        let awaits = self.status == Status::AwaitingApproval;
        Clues { kinds: &self.kinds, done: self.done, current: self.current, awaits }
    }

    /// The job, and what is to be told of it.
    pub(super) fn into_job(self, base: Option<Base>) -> Result<(OldJob, Vec<String>), String> {
        let count = self.kinds.len();
        let mut notes = Vec::new();
        let Place { next, doubt } = if self.status == Status::Completed {
            Place { next: count + 1, doubt: None }
        } else {
            let nowhere = "it awaits an approval, and its state shows no approval step that it could stand in";
            self.clues().place(base).ok_or_else(|| nowhere.to_owned())?
        };
        let current = self.current.unwrap_or_default();
        match doubt.filter(|_| !self.status.is_terminal()) {
            Some(Doubt::Either) => notes.push(format!(
                "current_step {current} fits counting from 0 and from 1: it goes on at step {next}; --step-base decides otherwise"
            )),
            Some(Doubt::Neither) => notes.push(format!(
                "current_step {current} does not fit the results in its state: it goes on at step {next}"
            )),
            None => {}
        }
        let mut done = self.results;
        done.truncate(next - 1);
        for (step, what) in self.unread.iter().filter(|(step, _)| *step < next) {
            notes.push(format!("step {step}: {what}, and count as unknown"));
        }
        for ((step, kind), made) in (1..).zip(&self.kinds).zip(&mut done) {
            if *kind == Kind::Run && made.is_none() {
                notes.push(format!("step {step} is done, and its output is not in its state"));
                *made = Some(result(String::new(), Usage::default(), None, "imported".to_owned()));
            }
        }
        let message = |word: &str| match &self.error {
            Some(error) => format!("{word} before the import: {error}"),
            None => format!("{word} before the import"),
        };
        let standing = match self.status {
            Status::Queued | Status::Running => Standing::GoesOn,
            Status::AwaitingApproval => {
                notes.push(
                    "its people are asked anew; the links that n8n sent decide nothing here"
                        .to_owned(),
                );
                Standing::GoesOn
            }
            Status::Paused => Standing::Held,
            Status::Completed => {
                ended(self.status, None, "was completed before the import".to_owned())
            }
            Status::Failed => ended(self.status, None, message("failed")),
            Status::Cancelled => {
                let reason = self.was_rejected.then_some(Reason::Rejected);
                ended(self.status, reason, "was cancelled before the import".to_owned())
            }
        };
        let ended_at = self.updated_at.or(self.created_at).filter(|_| self.status.is_terminal());
        let job = OldJob {
            key: self.key,
            content: self.content,
            spec: Arc::new(self.spec),
            past: Past { done, standing },
            created_at: self.created_at,
            ended_at,
        };
        Ok((job, notes))
    }
}

fn ended(status: Status, reason: Option<Reason>, message: String) -> Standing {
    Standing::Ended { status, reason, message }
}

/// A word as it is looked for: `Awaiting-Approval` is `awaiting_approval`.
pub(super) fn spelled(word: &str) -> String {
    word.trim().to_lowercase().replace(['-', ' '], "_")
}

fn number(value: Option<&Value>) -> Option<i64> {
    let value = value?;
    value.as_i64().or_else(|| value.as_str()?.trim().parse().ok())
}

/// A time with its zone, or without one, which is in UTC then.
fn moment(value: Option<&Value>) -> Option<DateTime<Utc>> {
    let text = value?.as_str()?;
    let with_zone = DateTime::parse_from_rfc3339(text).map(|at| at.to_utc());
    with_zone.or_else(|_unzoned| text.parse().map(|at: NaiveDateTime| at.and_utc())).ok()
}
