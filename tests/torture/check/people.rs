//! Invariants 6 and 7: one outcome per approval, one vote per voter, one notice per end and person.

use std::collections::{BTreeMap, BTreeSet};

use super::Check;
use crate::torture::evidence::{Evidence, Transaction};
use crate::torture::world::Records;

pub fn an_approval_has_one_outcome(evidence: &Evidence) -> Check {
    let mut check = Check::of("6  an approval has one outcome, which its votes make");
    for job in evidence.jobs.values() {
        let job_id = &job.job_id;
        let (mut closed, mut votes) = (BTreeSet::new(), BTreeMap::<_, Vec<&str>>::new());
        let (mut asked, mut by_timeout) = (BTreeSet::new(), BTreeSet::new());
        for transaction in &job.transactions {
            for vote in transaction.decisions() {
                votes.entry(vote.approval_id).or_default().push(&vote.verdict);
                if vote.door == "timeout" {
                    by_timeout.insert(vote.approval_id);
                }
            }
            for (is_new, approval) in transaction.approvals() {
                let approval_id = approval.id;
                if is_new {
                    asked.insert(approval_id);
                    continue;
                }
                check.demand(closed.insert(approval_id), || {
                    format!("{job_id}: {approval_id} was closed again, as {}", approval.status)
                });
                let votes = votes.get(&approval_id).map_or(&[][..], Vec::as_slice);
                let count = |verdict| votes.iter().filter(|one| **one == verdict).count();
                let enough = count("approve") >= approval.quorum.unsigned_abs() as usize
                    || by_timeout.contains(&approval_id);
                let holds = match approval.status.as_str() {
                    "approved" => enough && count("reject") == 0,
                    "rejected" => count("reject") == 1,
                    "expired" | "withdrawn" => !enough && count("reject") == 0,
                    _ => false,
                };
                check.demand(holds, || {
                    let (status, quorum) = (&approval.status, approval.quorum);
                    format!("{job_id}: {approval_id} is {status} by {votes:?} of {quorum}")
                });
            }
        }
        check.demand(asked == closed, || format!("{job_id}: {asked:?} asked, {closed:?} closed"));
    }
    check
}

pub fn nobody_votes_after_the_end_or_the_deadline(evidence: &Evidence) -> Check {
    let mut check = Check::of("6  one vote per voter, none after the end or the deadline");
    for job in evidence.jobs.values() {
        let job_id = &job.job_id;
        let (mut closed, mut voters) = (BTreeSet::new(), BTreeSet::new());
        for transaction in &job.transactions {
            let old = transaction.moved().and_then(|(old, _)| old);
            for vote in transaction.decisions() {
                let (voter, id) = (&vote.voter, vote.approval_id);
                check.demand(voters.insert((id, voter)), || format!("{job_id}: {voter} twice"));
                check.demand(!closed.contains(&id), || format!("{job_id}: {voter} after the end"));
                let deadline_at = old.and_then(|old| old.deadline_at);
                let left_ms = old.and_then(|old| old.left_ms);
                let in_time = vote.door == "timeout"
                    || deadline_at.is_some_and(|at| vote.decided_at < at)
                    || left_ms.is_some_and(|left_ms| left_ms > 0);
                check.demand(in_time, || {
                    let at = vote.decided_at;
                    format!("{job_id}: {voter} at {at}, deadline {deadline_at:?}, left {left_ms:?}")
                });
            }
            closed.extend(
                transaction.approvals().filter(|(is_new, _)| !is_new).map(|(_, one)| one.id),
            );
        }
    }
    check
}

pub fn every_vote_by_link_was_a_button_that_was_pressed(
    records: &Records,
    evidence: &Evidence,
) -> Check {
    let mut check = Check::of("6  no vote comes from looking at a link");
    let presses = records.presses.lock().unwrap();
    let pressed: BTreeSet<(&str, &str, &str)> = presses
        .iter()
        .map(|press| (press.approval_id.as_str(), press.approver.as_str(), press.verdict))
        .collect();
    for job in evidence.jobs.values() {
        let votes = job.transactions.iter().flat_map(Transaction::decisions);
        for vote in votes.filter(|vote| vote.door == "link") {
            let approval_id = vote.approval_id.to_string();
            let press = (approval_id.as_str(), vote.voter.as_str(), vote.verdict.as_str());
            check.demand(pressed.contains(&press), || {
                format!("{}: a vote {} by link that nobody pressed", job.job_id, vote.verdict)
            });
        }
    }
    check
}

/// What the outbox calls the notice of an event that ends a job.
fn notice_of(kind: &str) -> Option<&str> {
    kind.strip_prefix("job_").filter(|end| ["completed", "failed", "cancelled"].contains(end))
}

pub fn each_end_is_told_once_to_each_person(evidence: &Evidence) -> Check {
    let mut check = Check::of("7  one notice per end and person");
    for job in evidence.jobs.values() {
        let mut due: Vec<(i32, &str, &str)> = Vec::new();
        for event in &job.events {
            if let Some(kind) = notice_of(&event.kind) {
                due.extend(job.people.iter().map(|who| (event.sequence, kind, who.as_str())));
            }
        }
        let ends = job.notices.iter().filter(|notice| notice.kind != "approval_requested");
        let mut kept: Vec<(i32, &str, &str)> =
            ends.map(|one| (one.sequence, one.kind.as_str(), one.recipient.as_str())).collect();
        due.sort_unstable();
        kept.sort_unstable();
        check
            .demand(due == kept, || format!("{}: {due:?} are due, {kept:?} are there", job.job_id));
        for notice in &job.notices {
            let is_over = !["pending", "sending"].contains(&notice.delivery.as_str());
            check.demand(is_over, || {
                format!("{}: a notice is still {}", job.job_id, notice.delivery)
            });
        }
    }
    check
}

pub fn no_end_is_sent_twice(evidence: &Evidence) -> Check {
    let mut check = Check::of("7  no end is sent again once it was taken");
    let mut sent = BTreeMap::<&str, Vec<&serde_json::Value>>::new();
    for message in &evidence.messages {
        let data = message["biz_opaque_callback_data"].as_str().unwrap_or_default();
        sent.entry(data.split(':').next().unwrap_or_default()).or_default().push(message);
    }
    for job in evidence.jobs.values() {
        for notice in &job.notices {
            let id = notice.id.to_string();
            let messages = sent.get(id.as_str()).map_or(&[][..], Vec::as_slice);
            let is_end = notice.kind != "approval_requested";
            let taken = messages.iter().position(|one| one["outcome"] == "answered");
            let again = taken.map_or(0, |at| messages.len() - at - 1);
            check.demand(!is_end || again == 0, || {
                let (job_id, kind) = (&job.job_id, &notice.kind);
                format!("{job_id}: {kind} was sent {again} times after it was taken")
            });
            // An end that may have arrived is not sent again either.
            let arrived = messages.iter().filter(|one| !one["id"].is_null()).count();
            check.demand(!is_end || arrived <= 1, || {
                format!("{}: {} arrived {arrived} times", job.job_id, notice.kind)
            });
            let is_known = notice.delivery != "sent" || taken.is_some();
            check.demand(is_known, || format!("{}: sent, and nobody took it", job.job_id));
        }
    }
    check
}
