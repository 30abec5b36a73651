//! The webhooks: submit and control in the JSON of the template, for clients that cannot speak gRPC.
//!
//! In comes one call, out goes `{"ok":true,…,"job":{…}}` with the job as it is after it, or a fault.
//! Both are safe to repeat as their gRPC twins are, and no GET acts.

use std::time::Duration;

use axum::extract::State;
use axum::response::Response;
use serde::Deserialize;
use tracing::Span;

use super::call::Call;
use super::fault::Fault;
use super::outline::Sight;
use super::{json, lenient};
use crate::domain::approval::{Door, Verdict};
use crate::domain::explain::explain;
use crate::domain::id::{ApprovalId, JobKey, find_job_id_fault};
use crate::domain::key::Scope;
use crate::domain::money::Usd;
use crate::domain::submission::known::fields_of;
use crate::domain::submission::{Submission, id_text, read};
use crate::domain::validate::Faults;
use crate::door::table::scope_of;
use crate::engine::Engine;
use crate::engine::control::Command;
use crate::engine::submit::Submitted;
use crate::telemetry;

/// What is asked of a job, as it was sent.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct ControlBody {
    #[serde(deserialize_with = "id_text")]
    job_id: Option<String>,
    #[serde(deserialize_with = "id_text")]
    request_id: Option<String>,
    action: Option<String>,
    comment: Option<String>,
    approval_id: Option<String>,
    on_behalf_of: Option<String>,
    now: Option<bool>,
    from_step: Option<i32>,
    #[serde(deserialize_with = "read::dollars")]
    budget_usd: Option<Usd>,
    edited_output: Option<String>,
    include_links: Option<bool>,
}

/// Stores a job.
pub(super) async fn submit(State(engine): State<Engine>, mut call: Call) -> Response {
    let answer = submit_it(&engine, &mut call).await;
    call.answer(answer)
}

async fn submit_it(engine: &Engine, call: &mut Call) -> Result<Response, Fault> {
    let mut sent = std::mem::take(&mut call.sent);
    if call.is_lenient {
        call.warnings.extend(lenient::mend_submission(&mut sent, &["validate_only"]));
    }
    let validate_only = match sent.remove("validate_only").filter(|given| !given.is_null()) {
        Some(given) => given
            .as_bool()
            .ok_or_else(|| Fault::violation("validate_only", "must be true or false"))?,
        None => false,
    };
    let submission = Submission::read(sent)?;
    let traceparent = telemetry::traceparent(&Span::current());
    let caller = call.authority.caller(Door::Webhook);
    let sight = Sight::of(&call.authority);
    let submitted =
        engine.submit(&submission, caller, traceparent.as_deref(), validate_only).await?;
    let Submitted { mut job, created, warnings } = submitted;
    call.warnings.extend(warnings);
    if validate_only {
        let message = "the job is valid; nothing was stored".to_owned();
        let reply =
            json::Reply { created, changed: created, message, warnings: &call.warnings, sight };
        return Ok(reply.with_job_to_be(&job));
    }
    if let Some(later) = call.wait(engine, &job.key).await? {
        job = later;
    }
    // The words are the template's own, for callers that compare them.
    let message = if created { "Workflow was started" } else { "the job was there already" };
    let message = message.to_owned();
    let reply = json::Reply { created, changed: created, message, warnings: &call.warnings, sight };
    Ok(reply.with_job(&job))
}

/// Moves a job, or shows it.
pub(super) async fn control(State(engine): State<Engine>, mut call: Call) -> Response {
    let answer = control_it(&engine, &mut call).await;
    call.answer(answer)
}

async fn control_it(engine: &Engine, call: &mut Call) -> Result<Response, Fault> {
    let mut sent = std::mem::take(&mut call.sent);
    if call.is_lenient {
        call.warnings.extend(lenient::mend_action(&mut sent, fields_of::<ControlBody>()));
    }
    let mut request: ControlBody = read::fit("", sent)?;
    let request_id = request.request_id.take();
    let include_links = request.include_links == Some(true);
    let (key, command) = request.into_command()?;
    call.authority.require(scope_of(&command))?;
    if include_links {
        call.authority.require(Scope::Approve)?;
    }
    let caller = call.authority.caller(Door::Webhook);
    let changed = engine.control(&key, command, caller, request_id).await?;
    let mut view = match call.wait(engine, &key).await? {
        Some(view) => view,
        None => engine.job(&key, None, Duration::ZERO).await?,
    };
    if include_links {
        engine.add_links(&key, &mut view).await?;
    }
    let message = explain(&view.state);
    let reply = json::Reply {
        created: false,
        changed,
        message,
        warnings: &call.warnings,
        sight: Sight::of(&call.authority),
    };
    Ok(reply.with_job(&view))
}

/// Reads an action as `control` does, for a fuzzer.
#[cfg(any(test, fuzzing))]
pub(super) fn try_action(sent: serde_json::Map<String, serde_json::Value>) -> Result<(), Fault> {
    let request: ControlBody = read::fit("", sent)?;
    request.into_command().map(drop)
}

/// The actions, and which of the other fields each takes.
pub(super) const ACTIONS: [(&str, &[&str]); 8] = [
    ("pause", &["now"]),
    ("resume", &["budget_usd"]),
    ("cancel", &["comment"]),
    ("retry", &["from_step"]),
    ("approve", &["comment", "approval_id", "on_behalf_of", "edited_output"]),
    ("reject", &["comment", "approval_id", "on_behalf_of"]),
    ("request_changes", &["comment", "approval_id", "on_behalf_of"]),
    ("status", &["include_links"]),
];

impl ControlBody {
    fn into_command(self) -> Result<(JobKey, Command), Fault> {
        let mut faults = Faults::default();
        let job_id = self.job_id.as_deref().unwrap_or_default();
        if let Some(fault) = find_job_id_fault(job_id) {
            faults.add("job_id", fault);
        }
        let action = self.action.as_deref().unwrap_or_default();
        match ACTIONS.iter().find(|(known, _)| *known == action) {
            None => {
                let known = ACTIONS.map(|(known, _)| known).join(", ");
                faults.add("action", format!("must be one of {known}"));
            }
            Some((_, takes)) => {
                for field in self.given().into_iter().filter(|field| !takes.contains(field)) {
                    faults.add(field, format!("means nothing to the action {action}"));
                }
            }
        }
        let approval_id =
            self.approval_id.as_deref().and_then(given).map(|text| text.trim().parse());
        if matches!(approval_id, Some(Err(_))) {
            faults.add("approval_id", "must be the id of an approval, a UUID");
        }
        faults.check_step("from_step", self.from_step.unwrap_or(0));
        faults.into_result().map_err(Fault::invalid)?;
        let key = JobKey::new(job_id);
        let comment = self.comment.unwrap_or_default();
        let decide = |verdict, comment| Command::Decide {
            approval_id: approval_id.and_then(Result::ok).map(ApprovalId),
            verdict,
            comment,
            on_behalf_of: self.on_behalf_of.filter(|voter| !voter.is_empty()),
            edited_output: self.edited_output.filter(|edited| !edited.is_empty()),
        };
        let command = match action {
            "pause" => Command::Pause { now: self.now.unwrap_or(false) },
            "resume" => Command::Resume { budget_usd: self.budget_usd },
            "cancel" => Command::Cancel { comment },
            "retry" => Command::Retry { from_step: self.from_step.filter(|step| *step != 0) },
            "approve" => decide(Verdict::Approve, comment),
            "reject" => decide(Verdict::Reject, comment),
            "request_changes" => decide(Verdict::RequestChanges, comment),
            _ => Command::Status,
        };
        Ok((key, command))
    }

    /// The fields that say something; empty, zero and false are the same as absent.
    fn given(&self) -> Vec<&'static str> {
        let text = |text: &Option<String>| text.as_deref().and_then(given).is_some();
        [
            ("comment", text(&self.comment)),
            ("approval_id", text(&self.approval_id)),
            ("on_behalf_of", text(&self.on_behalf_of)),
            ("edited_output", text(&self.edited_output)),
            ("now", self.now == Some(true)),
            ("from_step", self.from_step.is_some_and(|step| step != 0)),
            ("budget_usd", self.budget_usd.is_some()),
            ("include_links", self.include_links == Some(true)),
        ]
        .into_iter()
        .filter_map(|(field, is_given)| is_given.then_some(field))
        .collect()
    }
}

fn given(text: &str) -> Option<&str> {
    Some(text).filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn command(body: Value) -> Result<(JobKey, Command), String> {
        let body: ControlBody = serde_json::from_value(body).map_err(|error| error.to_string())?;
        body.into_command().map_err(|fault| format!("{fault:?}"))
    }

    #[test]
    fn the_templates_actions_are_read() {
        for (action, _) in ACTIONS {
            let (key, _) = command(json!({"job_id": 7, "action": action})).unwrap();
            assert_eq!(key.job_id(), "7");
        }
        let (_, pause) = command(json!({"job_id": "a", "action": "pause", "now": true})).unwrap();
        assert!(matches!(pause, Command::Pause { now: true }));
        let empty = json!({"job_id": "a", "action": "reject", "approval_id": "", "comment": null});
        let (_, reject) = command(empty).unwrap();
        assert!(matches!(
            reject,
            Command::Decide { verdict: Verdict::Reject, approval_id: None, .. }
        ));
    }

    #[test]
    fn nothing_is_ignored_in_silence() {
        for (body, expected) in [
            (json!({"job_id": "a"}), "approve, reject, request_changes, status"),
            (json!({"job_id": "a", "action": "stop"}), "must be one of pause"),
            (json!({"action": "pause"}), "job_id"),
            (json!({"job_id": "a\0", "action": "pause"}), "printable"),
            (json!({"job_id": "a", "action": "pause", "from_step": 2}), "means nothing"),
            (json!({"job_id": "a", "action": "retry", "from_step": -2}), "from_step"),
            (json!({"job_id": "a", "action": "approve", "approval_id": "x"}), "a UUID"),
            (json!({"job_id": "a", "action": "pause", "why": "x"}), "unknown field `why`"),
        ] {
            let fault = command(body).unwrap_err();
            assert!(fault.contains(expected), "{fault}");
        }
    }
}
