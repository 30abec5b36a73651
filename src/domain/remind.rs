//! Reminders, escalation, and requests that reach nobody: what becomes of an approval that stays open.
//!
//! A reminder and the escalation are due with so much time left until the deadline;
//! a pause keeps the time that is left, and so it keeps them as well.
//! The row's `run_at` is when the next of them is due; while paused it only says that one was.

use chrono::{DateTime, TimeDelta, Utc};

use super::approval::mask;
use super::book::find_endpoint;
use super::event::{Detail, EventKind, NoticeKind, Undelivered};
use super::job::Status;
use super::spec::ApprovalSpec;
use super::turn::{Turn, plural};

/// Who has been asked to decide an approval.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Asked {
    /// Everybody who was sent a link.
    pub people: Vec<String>,
    /// Those who are not reminded: they have voted, or what they were sent last has not even left.
    pub spared: Vec<String>,
}

/// What comes before the deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Coming {
    Reminder,
    Escalation,
}

/// What comes before the deadline, each with how much time is left then, in milliseconds.
fn coming(approval: &ApprovalSpec) -> impl Iterator<Item = (i64, Coming)> {
    let options = &approval.options;
    let reminders = options.remind_before_seconds.iter();
    let reminders = reminders.map(|before| (before * 1000, Coming::Reminder));
    let escalation = options.escalate_after_seconds.map(|after| {
        let before = approval.timeout_seconds.saturating_sub(after);
        (before * 1000, Coming::Escalation)
    });
    reminders.chain(escalation)
}

/// When the next is due of what comes with less than so much time left.
pub(super) fn due_at(
    approval: &ApprovalSpec,
    deadline_at: DateTime<Utc>,
    left_ms: i64,
) -> Option<DateTime<Utc>> {
    let next = coming(approval).map(|(before, _)| before).filter(|before| *before < left_ms).max();
    next.map(|before| deadline_at - TimeDelta::milliseconds(before))
}

/// The same after a pause; what was due when it began is due at once.
pub(super) fn due_again_at(
    approval: &ApprovalSpec,
    deadline_at: DateTime<Utc>,
    left_ms: i64,
    was_due: bool,
) -> Option<DateTime<Utc>> {
    let most = coming(approval).map(|(before, _)| before).max().filter(|_| was_due);
    match most {
        Some(before) => Some(deadline_at - TimeDelta::milliseconds(before)),
        None => due_at(approval, deadline_at, left_ms),
    }
}

/// Reminds those who have not decided, and asks those who come next, if that is due.
pub(super) fn remind(turn: &mut Turn<'_>, asked: &Asked) -> bool {
    let (Status::AwaitingApproval, Some(deadline_at), Some(run_at)) =
        (turn.state.status, turn.state.deadline_at, turn.state.run_at)
    else {
        return false;
    };
    let Some(approval) = turn.approval_spec() else { return false };
    if run_at > turn.now || deadline_at <= turn.now {
        return false;
    }
    let (from, left) = (deadline_at - run_at, deadline_at - turn.now);
    let (from_ms, left_ms) = (from.num_milliseconds(), left.num_milliseconds());
    let is_due = |kind: Coming| {
        coming(approval).any(|(before, one)| one == kind && (left_ms..=from_ms).contains(&before))
    };
    let (reminds, escalates) = (is_due(Coming::Reminder), is_due(Coming::Escalation));
    turn.state.run_at = due_at(approval, deadline_at, left_ms);
    if reminds {
        let waited_for = asked.people.iter().filter(|person| !asked.spared.contains(person));
        let people: Vec<String> = waited_for.cloned().collect();
        if !people.is_empty() {
            let what = format!("reminds {} to decide", counted(&people, "approver"));
            turn.tell_step(EventKind::ApprovalReminded, &what);
            turn.ask_people(NoticeKind::ApprovalReminder, people);
        }
    }
    if escalates {
        escalate(turn, &asked.people);
    }
    true
}

/// Tells that a request has not reached an approver, and asks whoever can be asked in their place:
/// their endpoint, else those to whom the approval would have been escalated later.
pub(super) fn undelivered(
    turn: &mut Turn<'_>,
    lost: &Undelivered,
    asked: &[String],
    is_missed: bool,
) -> bool {
    if turn.state.status != Status::AwaitingApproval {
        return false;
    }
    let what = format!("could not ask {}: {}", mask(&lost.recipient), lost.error);
    turn.tell_step(EventKind::NoticeFailed, &what);
    turn.add_detail(Detail::Notice(lost.clone()));
    if find_endpoint(&lost.recipient).is_none() {
        // An endpoint that is gone is told nothing of itself.
        turn.announce(NoticeKind::NoticeFailed);
    }
    match &lost.instead {
        Some(endpoint) => {
            let what = format!("asks {endpoint} in the place of {}", mask(&lost.recipient));
            turn.tell_step(EventKind::ApprovalEscalated, &what);
            let kind = NoticeKind::ApprovalRequested;
            turn.ask_at_endpoint(kind, endpoint, lost.recipient.clone());
        }
        None if is_missed => escalate(turn, asked),
        None => {}
    }
    true
}

/// Asks those to whom the approval escalates, if they have not been asked.
fn escalate(turn: &mut Turn<'_>, asked: &[String]) {
    let Some(approval) = turn.approval_spec() else { return };
    let next = approval.options.escalate_to.iter().filter(|person| !asked.contains(person));
    let people: Vec<String> = next.cloned().collect();
    if people.is_empty() {
        return;
    }
    let what = format!("asks {} more to decide", counted(&people, "approver"));
    turn.tell_step(EventKind::ApprovalEscalated, &what);
    turn.ask_people(NoticeKind::ApprovalEscalated, people);
}

fn counted(people: &[String], noun: &str) -> String {
    let count = i32::try_from(people.len()).unwrap_or(i32::MAX);
    format!("{count} {}", plural(count, noun))
}
