//! What must hold of each transition by itself.

use proptest::prelude::*;

use super::OPERATOR;
use super::spec::ESCALATED;
use crate::domain::approval::ApprovalStatus;
use crate::domain::book::find_endpoint;
use crate::domain::event::EventKind;
use crate::domain::job::{JobState, Reason, Status};
use crate::domain::spec::{Spec, Work};
use crate::domain::state::{Action, Transition};

/// A paused job moves only by people, a terminal one only by retry, a running one only under its lease or by force.
pub(super) fn may_move(before: &JobState, action: &Action) -> bool {
    let by_people =
        matches!(action, Action::Resume { .. } | Action::Cancel { .. } | Action::Vote(_));
    match before.status {
        Status::Paused => by_people,
        Status::Failed | Status::Cancelled => matches!(action, Action::Retry { .. }),
        Status::Completed => false,
        Status::Queued | Status::Running | Status::AwaitingApproval => {
            !matches!(action, Action::Retry { .. })
        }
    }
}

/// The same as the table's CHECKs, and what the engine relies on besides.
pub(super) fn check_row(state: &JobState, spec: &Spec) -> Result<(), TestCaseError> {
    let status = state.status;
    prop_assert!((1..=state.step_count).contains(&state.current_step));
    prop_assert_eq!(status == Status::Running, state.executor_id.is_some());
    prop_assert_eq!(status == Status::Running, state.attempt_id.is_some());
    let has_time = matches!(status, Status::Queued | Status::Paused | Status::AwaitingApproval);
    prop_assert!(state.run_at.is_none() || has_time);
    if status == Status::AwaitingApproval {
        prop_assert!(
            state.run_at.is_none_or(|at| Some(at) < state.deadline_at),
            "too late to remind"
        );
    }
    prop_assert!(!state.pause_requested || status == Status::Running);
    prop_assert_eq!(status == Status::Paused, state.paused_from.is_some());
    let awaits = status == Status::AwaitingApproval;
    prop_assert!(!awaits || (state.approval_id.is_some() && state.deadline_at.is_some()));
    prop_assert!(awaits || state.deadline_at.is_none());
    prop_assert!(state.kept_verdict.is_none() || status == Status::Paused);
    prop_assert_eq!(status.is_terminal(), state.finished_at.is_some());
    prop_assert!(status != Status::Completed || state.attempts == 0, "a checkpoint ends trouble");
    let work = spec.find_step(state.current_step).map(|step| &step.work);
    if state.is_claimable() || status == Status::Running {
        prop_assert!(matches!(work, Some(Work::Run(_))), "only run steps are claimed");
    }
    prop_assert!(!awaits || matches!(work, Some(Work::Approval(_))));
    Ok(())
}

pub(super) fn check_history(
    before: &JobState,
    transition: &Transition,
) -> Result<(), TestCaseError> {
    let after = &transition.state;
    let sequences: Vec<i32> = transition.events.iter().map(|event| event.sequence).collect();
    let expected: Vec<i32> = (before.last_sequence + 1..=after.last_sequence).collect();
    prop_assert_eq!(sequences, expected, "the history has no gap");
    let told = transition.events.last().map(|last| (last.status, last.reason));
    let told = told.unwrap_or((before.status, before.reason));
    prop_assert_eq!(told, (after.status, after.reason), "the last event tells how the job stands");
    Ok(())
}

fn is_for_endpoints(kind: EventKind) -> bool {
    use EventKind as Kind;
    let asked = [Kind::ApprovalRequested, Kind::ApprovalDecided, Kind::ApprovalExpired];
    let ends = [Kind::JobCompleted, Kind::JobFailed, Kind::JobCancelled, Kind::JobPaused];
    asked.contains(&kind) || ends.contains(&kind) || kind == Kind::NoticeFailed
}

pub(super) fn check_notices(transition: &Transition, spec: &Spec) -> Result<(), TestCaseError> {
    for event in &transition.events {
        let told = transition.notices.iter().filter(|told| told.sequence == event.sequence);
        let told = told.map(|told| told.recipient.as_str());
        let (endpoints, told): (Vec<&str>, Vec<&str>) =
            told.partition(|recipient| find_endpoint(recipient).is_some());
        let of_job = endpoints.iter().filter(|one| **one != "webhook:spare").count();
        prop_assert_eq!(of_job, usize::from(is_for_endpoints(event.kind)));
        let ends = [EventKind::JobCompleted, EventKind::JobFailed, EventKind::JobCancelled];
        let is_starved = event.kind == EventKind::JobPaused && event.reason == Some(Reason::Budget);
        let expected: Vec<&str> = if ends.contains(&event.kind) || is_starved {
            spec.notify.iter().map(String::as_str).collect()
        } else if event.kind == EventKind::StepDelayed && told.contains(&OPERATOR) {
            vec![OPERATOR]
        } else if event.kind == EventKind::ApprovalRequested {
            // Whoever edited what was shown is not asked about it.
            let is_anew = matches!(transition.closed, Some((_, ApprovalStatus::Superseded)));
            let editor = transition.vote.as_ref().filter(|_| is_anew);
            let editor = editor.map(|(_, decision)| decision.voter.as_str());
            let asked = ["+15550100", "+15550101"].into_iter();
            asked.filter(|approver| Some(*approver) != editor).collect()
        } else if event.kind == EventKind::ApprovalEscalated {
            // Or an endpoint is asked in the place of an approver.
            if endpoints.is_empty() { vec![ESCALATED] } else { Vec::new() }
        } else if matches!(event.kind, EventKind::ApprovalReminded | EventKind::NoticeFailed) {
            // Whom these concern depends on who has been asked before.
            continue;
        } else {
            Vec::new()
        };
        prop_assert_eq!(told, expected, "each is told once of {:?}", event.kind);
    }
    Ok(())
}

/// Silence leaves out what is told and nothing else: the row, the history and the requests for decisions are the same.
pub(super) fn check_silence(transition: &Transition) -> Result<(), TestCaseError> {
    let silent = transition.clone().silenced();
    let asks: Vec<_> = transition.notices.iter().filter(|told| told.kind.asks()).collect();
    prop_assert_eq!(silent.notices.iter().collect::<Vec<_>>(), asks);
    prop_assert_eq!(&silent.state, &transition.state);
    prop_assert_eq!(silent.supersedes_notices, transition.supersedes_notices);
    prop_assert_eq!(silent.events.len(), transition.events.len());
    for (silent, loud) in silent.events.iter().zip(&transition.events) {
        let is_told = transition
            .notices
            .iter()
            .any(|told| told.sequence == loud.sequence && !told.kind.asks());
        let said = silent.message.strip_suffix(" (nobody was told)");
        prop_assert_eq!(said.is_some(), is_told, "{}", silent.message);
        prop_assert_eq!(said.unwrap_or(&silent.message), loud.message.as_str());
    }
    Ok(())
}
