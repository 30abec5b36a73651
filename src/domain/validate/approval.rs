//! Approval steps: who is asked, how long they have, and what they may do besides saying yes or no.

use super::bound::{APPROVAL_SECONDS, APPROVAL_SECONDS_DEFAULT, REMINDERS_MAX, REVISIONS};
use super::{Faults, Known, TEXT_BYTES_MAX, check_people, people_or_default};
use crate::domain::book::Book;
use crate::domain::spec::{ApprovalOptions, ApprovalSpec};
use crate::domain::submission::{ApprovalStep, Step, TimeoutPolicy};

pub(super) fn freeze_approval(
    at: usize,
    step: &ApprovalStep,
    known: &Known<'_>,
    faults: &mut Faults,
) -> ApprovalSpec {
    let field = |name: &str| format!("steps[{at}].approval.{name}");
    faults.check_text(&field("note"), &step.note, TEXT_BYTES_MAX);
    let book = &known.defaults.book;
    check_people(&field("approvers"), &step.approvers, book, faults);
    let notify = people_or_default(&known.settings.notify, &known.defaults.notify, book);
    let approvers = people_or_default(&step.approvers, &notify, book);
    let most = i32::try_from(approvers.len()).unwrap_or(i32::MAX).max(1);
    let quorum = faults.check_range(&field("quorum"), step.quorum, (1, most), 1);
    let timeout = faults.check_range(
        &field("timeout_seconds"),
        step.timeout_seconds,
        APPROVAL_SECONDS,
        APPROVAL_SECONDS_DEFAULT,
    );
    let (escalate_after_seconds, escalate_to) =
        freeze_escalation(&field, step, (timeout, &approvers), book, faults);
    let options = ApprovalOptions {
        remind_before_seconds: freeze_reminders(&field, step, timeout, faults),
        escalate_after_seconds,
        escalate_to,
        ..freeze_revisions(at, &field, step, known, faults)
    };
    ApprovalSpec {
        note: step.note.clone(),
        approvers,
        quorum,
        timeout_seconds: timeout.into(),
        on_timeout: step.on_timeout.unwrap_or(TimeoutPolicy::Fail),
        options,
    }
}

/// With how much time left people are reminded, the first reminder first.
fn freeze_reminders(
    field: &impl Fn(&str) -> String,
    step: &ApprovalStep,
    timeout: i32,
    faults: &mut Faults,
) -> Vec<i64> {
    let given = &step.remind_before_seconds;
    let field = field("remind_before_seconds");
    if !faults.check_count(&field, given.len(), REMINDERS_MAX) {
        return Vec::new();
    }
    for (at, before) in given.iter().enumerate() {
        faults.check_range(&format!("{field}[{at}]"), Some(*before), (1, timeout - 1), 0);
        if given[..at].contains(before) {
            faults.add(format!("{field}[{at}]"), "must not repeat a time");
        }
    }
    let mut reminders: Vec<i64> = given.iter().copied().map(i64::from).collect();
    reminders.sort_unstable_by(|one, other| other.cmp(one));
    reminders
}

/// After how long who else is asked.
fn freeze_escalation(
    field: &impl Fn(&str) -> String,
    step: &ApprovalStep,
    (timeout, approvers): (i32, &[String]),
    book: &Book,
    faults: &mut Faults,
) -> (Option<i64>, Vec<String>) {
    let (after, to) = (step.escalate_after_seconds, &step.escalate_to);
    check_people(&field("escalate_to"), to, book, faults);
    let escalate_to = people_or_default(to, &[], book);
    if after.is_some() && escalate_to.is_empty() {
        faults.add(field("escalate_to"), "must name who is asked after escalate_after_seconds");
    }
    if after.is_none() && !escalate_to.is_empty() {
        faults.add(field("escalate_after_seconds"), "must say when those of escalate_to are asked");
    }
    if after.is_some() {
        faults.check_range(&field("escalate_after_seconds"), after, (1, timeout - 1), 0);
    }
    for (at, person) in escalate_to.iter().enumerate() {
        if approvers.contains(person) {
            faults.add(format!("{}[{at}]", field("escalate_to")), "is an approver already");
        }
    }
    (after.map(i64::from), escalate_to)
}

/// What approvers may do besides saying yes or no.
fn freeze_revisions(
    at: usize,
    field: &impl Fn(&str) -> String,
    step: &ApprovalStep,
    known: &Known<'_>,
    faults: &mut Faults,
) -> ApprovalOptions {
    let max_revisions =
        faults.check_range(&field("max_revisions"), step.max_revisions, REVISIONS, 0);
    if max_revisions == 0 && step.revise_step.is_some() {
        faults.add(field("revise_step"), "needs a max_revisions above 0");
    }
    let is_run = |at: usize| matches!(known.steps.get(at), Some(Step::Run(_)));
    let number = |at: usize| i32::try_from(at + 1).unwrap_or(i32::MAX);
    let shown = (0..at).rev().find(|at| is_run(*at));
    let needed = [("allow_edit", step.allow_edit), ("max_revisions", max_revisions > 0)];
    for (name, is_needed) in needed {
        if is_needed && shown.is_none() {
            faults.add(field(name), "needs an earlier run step");
        }
    }
    let revise_step = match step.revise_step {
        Some(chosen) => {
            let found = (0..at).find(|at| number(*at) == chosen && is_run(*at));
            if found.is_none() {
                faults.add(field("revise_step"), "must be the number of an earlier run step");
            }
            found
        }
        None => shown.filter(|_| max_revisions > 0),
    };
    let revise_step = revise_step.map_or(0, number);
    ApprovalOptions {
        allow_edit: step.allow_edit,
        max_revisions,
        revise_step,
        ..ApprovalOptions::default()
    }
}
