//! A line of a job's history becomes the proto's `Event`.
//!
//! The name and kind of a finished step come from an outline of the specification,
//! so that a watcher does not hold all prompts for as long as it watches.

use super::job::{citation, cost, decision, failure, usage};
use super::{timestamp, word};
use crate::domain::approval::mask;
use crate::domain::event::{Asked, Detail, Event, Undelivered};
use crate::domain::spec::Spec;
use crate::rpc::proto::{self, event::Detail as Shown};
use crate::store::event::{FinishedStep, StoredEvent};

/// The names and kinds of a job's steps.
#[derive(Clone, Debug, Default)]
pub struct Outline(Vec<(String, proto::StepKind)>);

impl Outline {
    /// The outline of a specification.
    pub fn of(spec: &Spec) -> Self {
        let steps = spec
            .steps
            .iter()
            .map(|step| (step.name.clone().unwrap_or_default(), word::step_kind(&step.work)));
        Self(steps.collect())
    }

    fn step(&self, step: i32) -> (String, proto::StepKind) {
        let at = usize::try_from(step).ok().and_then(|step| step.checked_sub(1));
        at.and_then(|at| self.0.get(at).cloned()).unwrap_or_default()
    }
}

/// The event as a watcher gets it.
pub fn event(stored: &StoredEvent, outline: &Outline) -> proto::Event {
    let event = &stored.event;
    let detail = match (&stored.finished, &event.detail) {
        (Some(finished), _) => Some(Shown::StepFinished(step_finished(event, finished, outline))),
        (None, Some(Detail::ApprovalRequested(asked))) => {
            Some(Shown::ApprovalRequested(approval_requested(event, asked)))
        }
        (None, Some(Detail::Decision(vote))) => Some(Shown::Decision(decision(vote))),
        (None, Some(Detail::Failure(error))) => Some(Shown::Failure(failure(error))),
        (None, Some(Detail::Notice(lost))) => Some(Shown::Notice(undelivered(event, lost))),
        (None, None) => None,
    };
    proto::Event {
        sequence: event.sequence,
        occurred_at: Some(timestamp(event.occurred_at)),
        kind: proto::EventKind::from(event.kind).into(),
        status: proto::JobStatus::from(event.status).into(),
        reason: word::reason(event.reason),
        step: event.step,
        attempt: event.attempt,
        actor: mask(&event.actor),
        message: event.message.clone(),
        detail,
    }
}

fn step_finished(event: &Event, finished: &FinishedStep, outline: &Outline) -> proto::StepState {
    let (name, kind) = outline.step(event.step);
    // A step without calls cost nothing; one with calls costs what is known.
    let cost_usd = match finished.usage {
        Some(_) => cost(finished.cost_usd),
        None => "0".to_owned(),
    };
    proto::StepState {
        step: event.step,
        name,
        kind: kind.into(),
        status: proto::StepStatus::Done.into(),
        output: finished.output.clone().unwrap_or_default(),
        output_cut: finished.output_cut,
        citations: finished.citations.iter().map(citation).collect(),
        model: finished.model.clone().unwrap_or_default(),
        stop_reason: finished.stop_reason.clone().unwrap_or_default(),
        // How many calls there were is in the ledger, which GetJob reads.
        usage: finished.usage.as_ref().map(|used| usage(used, 0)),
        cost_usd,
        revision: event.revision,
        decisions: Vec::new(),
        started_at: finished.started_at.map(timestamp),
        finished_at: Some(timestamp(event.occurred_at)),
        partial_output: String::new(),
    }
}

fn approval_requested(event: &Event, asked: &Asked) -> proto::Approval {
    proto::Approval {
        approval_id: asked.approval_id.to_string(),
        step: event.step,
        note: asked.note.clone(),
        quorum: asked.quorum,
        decisions: Vec::new(),
        asked_at: Some(timestamp(event.occurred_at)),
        deadline_at: Some(timestamp(asked.deadline_at)),
        links: Vec::new(),
    }
}

fn undelivered(event: &Event, lost: &Undelivered) -> proto::Notice {
    proto::Notice {
        recipient: mask(&lost.recipient),
        kind: proto::NoticeKind::from(lost.kind).into(),
        delivery: proto::Delivery::Failed.into(),
        error: lost.error.clone(),
        updated_at: Some(timestamp(event.occurred_at)),
        ..proto::Notice::default()
    }
}

#[cfg(test)]
mod tests {
    use chrono::DateTime;

    use super::*;
    use crate::domain::approval::{Door, Verdict};
    use crate::domain::event::{Decision, EventKind};
    use crate::domain::job::Status;
    use crate::domain::money::Usage;

    fn stored(kind: EventKind, detail: Option<Detail>) -> StoredEvent {
        let event = Event {
            sequence: 3,
            occurred_at: DateTime::UNIX_EPOCH,
            kind,
            status: Status::Queued,
            reason: None,
            step: 1,
            revision: 2,
            attempt: 1,
            actor: "+15550100".to_owned(),
            message: "step 1 of 1 finished".to_owned(),
            detail,
        };
        StoredEvent { event, finished: None }
    }

    fn outline() -> Outline {
        Outline(vec![("draft".to_owned(), proto::StepKind::Run)])
    }

    #[test]
    fn a_finished_step_has_its_name_kind_and_revision() {
        let finished = FinishedStep {
            output: Some("text".to_owned()),
            usage: Some(Usage::default()),
            ..FinishedStep::default()
        };
        let stored =
            StoredEvent { finished: Some(finished), ..stored(EventKind::StepFinished, None) };
        let Some(Shown::StepFinished(step)) = event(&stored, &outline()).detail else {
            panic!("a finished step is shown")
        };
        assert_eq!((step.name.as_str(), step.kind()), ("draft", proto::StepKind::Run));
        assert_eq!((step.status(), step.revision), (proto::StepStatus::Done, 2));
        assert_eq!((step.output.as_str(), step.cost_usd.as_str()), ("text", ""));
    }

    #[test]
    fn a_voter_is_masked() {
        let vote = Decision {
            verdict: Verdict::Reject,
            voter: "+15550100".to_owned(),
            door: Door::Link,
            comment: String::new(),
            edited: false,
            via: None,
            decided_at: DateTime::UNIX_EPOCH,
        };
        let shown =
            event(&stored(EventKind::ApprovalDecided, Some(Detail::Decision(vote))), &outline());
        assert!(!format!("{shown:?}").contains("+15550100"));
    }
}
