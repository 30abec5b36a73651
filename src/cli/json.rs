//! Replies as JSON for machines.
//!
//! In come the messages of the proto; out goes JSON with their field names, enums as short lower-case words,
//! times in RFC 3339 and UTC, money as decimal strings.
//! Every field is there in every object, `null` where a message or a time is not set, so that readers need no
//! guards; only an event's detail is left out where there is none.

use chrono::{DateTime, SecondsFormat};
use prost_types::Timestamp;
use serde_json::{Value, json};

use super::word;
use crate::rpc::proto::{
    Approval, ApprovalLink, Citation, Decision, Event, Failure, Job, JobSettings, JobSpec, Notice,
    RunStep, Step, StepState, Usage, WatchJobResponse, event, step, wait_step, watch_job_response,
};

/// A job.
pub fn job(job: &Job) -> Value {
    json!({
        "job_id": job.job_id,
        "task": job.task,
        "status": word::job_status(job.status),
        "reason": job.reason,
        "status_message": job.status_message,
        "current_step": job.current_step,
        "step_count": job.step_count,
        "steps": job.steps.iter().map(step_state).collect::<Vec<_>>(),
        "approval": job.approval.as_ref().map(approval),
        "output": job.output,
        "usage": job.usage.as_ref().map(usage),
        "cost_usd": job.cost_usd,
        "unpriced_calls": job.unpriced_calls,
        "attempts": job.attempts,
        "pause_requested": job.pause_requested,
        "run_at": time(job.run_at.as_ref()),
        "lease_expires_at": time(job.lease_expires_at.as_ref()),
        "last_error": job.last_error.as_ref().map(failure),
        "last_sequence": job.last_sequence,
        "labels": job.labels,
        "notices": job.notices.iter().map(notice).collect::<Vec<_>>(),
        "created_at": time(job.created_at.as_ref()),
        "updated_at": time(job.updated_at.as_ref()),
        "finished_at": time(job.finished_at.as_ref()),
        "revision": job.revision,
        "budget_usd": job.budget_usd,
        "undelivered_notices": job.undelivered_notices,
    })
}

/// One message of a watch: an object with the one key `snapshot`, `event`, `notice`, `output_delta` or `heartbeat`.
pub fn watch_message(message: &WatchJobResponse) -> Value {
    match &message.content {
        Some(watch_job_response::Content::Snapshot(snapshot)) => json!({"snapshot": job(snapshot)}),
        Some(watch_job_response::Content::Event(event)) => json!({"event": self::event(event)}),
        Some(watch_job_response::Content::Heartbeat(beat)) => {
            json!({"heartbeat": {"last_sequence": beat.last_sequence}})
        }
        Some(watch_job_response::Content::Notice(notice)) => {
            json!({"notice": self::notice(notice)})
        }
        Some(watch_job_response::Content::OutputDelta(delta)) => json!({"output_delta": {
            "step": delta.step,
            "attempt": delta.attempt,
            "offset": delta.offset,
            "text": delta.text,
        }}),
        None => json!({}),
    }
}

/// A submission with its frozen defaults.
pub fn spec(spec: &JobSpec) -> Value {
    json!({
        "task": spec.task,
        "steps": spec.steps.iter().map(submitted_step).collect::<Vec<_>>(),
        "settings": spec.settings.as_ref().map(settings),
    })
}

/// A moment, or null.
pub fn time(time: Option<&Timestamp>) -> Value {
    time.and_then(|at| DateTime::from_timestamp(at.seconds, u32::try_from(at.nanos).ok()?))
        .map_or(Value::Null, |at| at.to_rfc3339_opts(SecondsFormat::AutoSi, true).into())
}

fn step_state(step: &StepState) -> Value {
    json!({
        "step": step.step,
        "name": step.name,
        "kind": word::step_kind(step.kind),
        "status": word::step_status(step.status),
        "output": step.output,
        "output_cut": step.output_cut,
        "citations": step.citations.iter().map(citation).collect::<Vec<_>>(),
        "model": step.model,
        "stop_reason": step.stop_reason,
        "usage": step.usage.as_ref().map(usage),
        "cost_usd": step.cost_usd,
        "revision": step.revision,
        "decisions": step.decisions.iter().map(decision).collect::<Vec<_>>(),
        "started_at": time(step.started_at.as_ref()),
        "finished_at": time(step.finished_at.as_ref()),
        "partial_output": step.partial_output,
    })
}

fn citation(citation: &Citation) -> Value {
    json!({"url": citation.url, "title": citation.title, "cited_text": citation.cited_text})
}

/// What calls used.
pub fn usage(usage: &Usage) -> Value {
    json!({
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "cache_write_5m_tokens": usage.cache_write_5m_tokens,
        "cache_write_1h_tokens": usage.cache_write_1h_tokens,
        "cache_read_tokens": usage.cache_read_tokens,
        "web_searches": usage.web_searches,
        "calls": usage.calls,
    })
}

fn approval(approval: &Approval) -> Value {
    json!({
        "approval_id": approval.approval_id,
        "step": approval.step,
        "note": approval.note,
        "quorum": approval.quorum,
        "decisions": approval.decisions.iter().map(decision).collect::<Vec<_>>(),
        "asked_at": time(approval.asked_at.as_ref()),
        "deadline_at": time(approval.deadline_at.as_ref()),
        "links": approval.links.iter().map(link).collect::<Vec<_>>(),
    })
}

fn link(link: &ApprovalLink) -> Value {
    json!({"approver": link.approver, "url": link.url})
}

fn decision(decision: &Decision) -> Value {
    json!({
        "verdict": word::verdict(decision.verdict),
        "edited": decision.edited,
        "by": decision.by,
        "door": word::door(decision.door),
        "comment": decision.comment,
        "decided_at": time(decision.decided_at.as_ref()),
    })
}

/// A notice.
pub fn notice(notice: &Notice) -> Value {
    json!({
        "notice_id": notice.notice_id,
        "recipient": notice.recipient,
        "kind": word::notice_kind(notice.kind),
        "delivery": word::delivery(notice.delivery),
        "error": notice.error,
        "tries": notice.tries,
        "created_at": time(notice.created_at.as_ref()),
        "updated_at": time(notice.updated_at.as_ref()),
    })
}

fn failure(failure: &Failure) -> Value {
    json!({
        "reason": failure.reason,
        "message": failure.message,
        "provider_request_id": failure.provider_request_id,
        "failed_at": time(failure.failed_at.as_ref()),
    })
}

fn event(event: &Event) -> Value {
    let mut line = json!({
        "sequence": event.sequence,
        "occurred_at": time(event.occurred_at.as_ref()),
        "kind": word::event_kind(event.kind),
        "status": word::job_status(event.status),
        "reason": event.reason,
        "step": event.step,
        "attempt": event.attempt,
        "actor": event.actor,
        "message": event.message,
    });
    match &event.detail {
        Some(event::Detail::StepFinished(detail)) => line["step_finished"] = step_state(detail),
        Some(event::Detail::ApprovalRequested(detail)) => {
            line["approval_requested"] = approval(detail);
        }
        Some(event::Detail::Decision(detail)) => line["decision"] = decision(detail),
        Some(event::Detail::Failure(detail)) => line["failure"] = failure(detail),
        Some(event::Detail::Notice(detail)) => line["notice"] = notice(detail),
        None => {}
    }
    line
}

fn submitted_step(step: &Step) -> Value {
    let (kind, body) = match &step.kind {
        Some(step::Kind::Run(run)) => ("run", run_step(run)),
        Some(step::Kind::Approval(approval)) => (
            "approval",
            json!({
                    "note": approval.note,
                    "approvers": approval.approvers,
                    "quorum": approval.quorum,
                    "timeout_seconds": approval.timeout_seconds,
                    "on_timeout": word::timeout_policy(approval.on_timeout),
            "remind_before_seconds": approval.remind_before_seconds,
            "escalate_after_seconds": approval.escalate_after_seconds,
            "escalate_to": approval.escalate_to,
            "allow_edit": approval.allow_edit,
            "max_revisions": approval.max_revisions,
            "revise_step": approval.revise_step,
                }),
        ),
        Some(step::Kind::Wait(wait)) => (
            "wait",
            match &wait.wait {
                Some(wait_step::Wait::DurationSeconds(seconds)) => {
                    json!({"duration_seconds": seconds})
                }
                Some(wait_step::Wait::UntilAt(at)) => json!({"until_at": time(Some(at))}),
                None => json!({}),
            },
        ),
        None => return json!({"name": step.name}),
    };
    let mut line = json!({"name": step.name});
    line[kind] = body;
    line
}

fn run_step(run: &RunStep) -> Value {
    json!({
        "prompt": run.prompt,
        "system": run.system,
        "model": run.model,
        "max_tokens": run.max_tokens,
        "web_search": run.web_search.as_ref().map(|search| json!({
            "max_uses": search.max_uses,
            "allowed_domains": search.allowed_domains,
            "blocked_domains": search.blocked_domains,
            "user_location": search.user_location.as_ref().map(|location| json!({
                "city": location.city,
                "region": location.region,
                "country": location.country,
                "timezone": location.timezone,
            })),
        })),
        "context": word::context_mode(run.context),
        "timeout_seconds": run.timeout_seconds,
        "idle_timeout_seconds": run.idle_timeout_seconds,
        "effort": word::effort(run.effort),
        "output_schema_json": run.output_schema_json,
        "stop_sequences": run.stop_sequences,
        "on_truncated": word::truncation_policy(run.on_truncated),
        "extra_json": run.extra_json,
        "on_interrupt": word::interrupt_policy(run.on_interrupt),
        "mode": word::run_mode(run.mode),
    })
}

fn settings(settings: &JobSettings) -> Value {
    json!({
        "model": settings.model,
        "max_tokens": settings.max_tokens,
        "system": settings.system,
        "max_attempts": settings.max_attempts,
        "retry_window_seconds": settings.retry_window_seconds,
        "notify": settings.notify,
        "webhooks": settings.webhooks,
        "language": settings.language,
        "labels": settings.labels,
        "priority": settings.priority,
        "run_at": time(settings.run_at.as_ref()),
        "budget_usd": settings.budget_usd,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rpc::proto::{EventKind, Heartbeat, JobStatus};

    #[test]
    fn a_job_has_every_field_in_words_and_utc() {
        let value = job(&Job {
            job_id: "一".to_owned(),
            status: JobStatus::AwaitingApproval as i32,
            cost_usd: "0.000420".to_owned(),
            created_at: Some(Timestamp { seconds: 1_700_000_000, nanos: 250_000_000 }),
            ..Job::default()
        });
        assert_eq!(value["status"], "awaiting_approval");
        assert_eq!(value["cost_usd"], "0.000420");
        assert_eq!(value["created_at"], "2023-11-14T22:13:20.250Z");
        assert_eq!(value["finished_at"], Value::Null);
        assert_eq!(value["steps"], json!([]));
    }

    #[test]
    fn a_watch_message_has_one_key() {
        let event = Event {
            sequence: 3,
            kind: EventKind::JobFailed as i32,
            detail: Some(event::Detail::Failure(Failure::default())),
            ..Event::default()
        };
        let value = watch_message(&WatchJobResponse {
            content: Some(watch_job_response::Content::Event(event)),
        });
        assert_eq!(value["event"]["kind"], "job_failed");
        assert!(value["event"]["failure"].is_object());
        assert!(value["event"].get("decision").is_none());
        let beat = WatchJobResponse {
            content: Some(watch_job_response::Content::Heartbeat(Heartbeat { last_sequence: 9 })),
        };
        assert_eq!(watch_message(&beat), json!({"heartbeat": {"last_sequence": 9}}));
    }
}
