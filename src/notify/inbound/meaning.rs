//! What a message means: which approval it decides and how, or what its sender has to be told.
//!
//! A tap names its approval, and a reply names the message that asked. A text alone decides only where exactly one
//! approval is pending for its sender, whose request was the last that had reached them before they wrote, and where
//! nothing that they were asked was closed since: else it may have been meant for something else.
//! What quotes a request decides what that asks, whenever it was written.
//! Nobody decides who is not asked by that approval, and nobody is told anything whom we never had to do with.

use chrono::{DateTime, Utc};
use uuid::Uuid;

use super::Listener;
use super::author::Author;
use super::typed::{self, Typed};
use crate::domain::approval::Verdict;
use crate::domain::id::ApprovalId;
use crate::notify::text::answer::Answer;
use crate::store::StoreError;
use crate::store::inbound::pending::PendingApproval;
use crate::store::inbound::{Inbound, InboundKind, Meant};

/// How many of the approvals that wait for a person are named to them.
const NAMED_MAX: usize = 5;
/// How many are looked through for the one that a tap names.
const TAPPED_MAX: i64 = 200;

/// What a message means.
pub(super) enum Meaning {
    /// It decides.
    Decides(Meant),
    /// Its sender is to be told this, in the language of a job.
    Asks { answer: Answer, language: Option<String> },
    /// It says nothing here.
    Nothing,
}

impl Listener {
    /// Finds out what a message means.
    pub(super) async fn find_meaning(
        &self,
        message: &Inbound,
        author: &Author,
    ) -> Result<Meaning, StoreError> {
        let content = message.content.as_deref().unwrap_or_default();
        let meaning = match message.kind {
            InboundKind::Other => Meaning::Nothing,
            InboundKind::Button => match find_tap(content) {
                Some(tap) => self.find_tapped(message, author, tap).await?,
                // The button of a template that stands for its own text.
                None => self.find_typed(message, author, typed::read(content)).await?,
            },
            InboundKind::Text => self.find_typed(message, author, typed::read(content)).await?,
        };
        Ok(meaning)
    }

    /// A tap means the approval that it names, if its message was sent to this person, or that asks them.
    async fn find_tapped(
        &self,
        message: &Inbound,
        author: &Author,
        (verdict, approval_id): (Verdict, ApprovalId),
    ) -> Result<Meaning, StoreError> {
        if let Some(context_id) = &message.context_id {
            let answered = self.store().find_answered(context_id).await?;
            let answered = answered.filter(|one| one.approval_id == Some(approval_id));
            if let Some(answered) = answered {
                if !author.names.contains(&answered.recipient) {
                    return Ok(ask(author, Answer::NotTheirs));
                }
                let (key, approver) = (answered.key, answered.recipient);
                return Ok(Meaning::Decides(Meant { key, approval_id, approver, verdict }));
            }
        }
        // An earlier try of the request, say: only the newest one's message is known.
        let pending = self.store().pending_approvals(&author.names, TAPPED_MAX).await?;
        let found = pending.into_iter().find(|one| one.approval_id == approval_id);
        Ok(match found {
            Some(found) => decide(found, verdict),
            None => ask(author, Answer::Gone),
        })
    }

    /// A text means the approval whose message it replies to, or the only one that waits for its sender.
    async fn find_typed(
        &self,
        message: &Inbound,
        author: &Author,
        typed: Option<Typed>,
    ) -> Result<Meaning, StoreError> {
        if let (Some(context_id), Some(typed)) = (&message.context_id, &typed) {
            let answered = self.store().find_answered(context_id).await?;
            let asked = answered.and_then(|one| Some((one.approval_id?, one.key, one.recipient)));
            if let Some((approval_id, key, approver)) = asked {
                if !author.names.contains(&approver) {
                    return Ok(ask(author, Answer::NotTheirs));
                }
                let verdict = typed.verdict;
                return Ok(Meaning::Decides(Meant { key, approval_id, approver, verdict }));
            }
        }
        let most = i64::try_from(NAMED_MAX).unwrap_or(i64::MAX).saturating_add(1);
        let mut pending = self.store().pending_approvals(&author.names, most).await?;
        if pending.len() > 1 {
            return Ok(name_all(pending));
        }
        let Some(only) = pending.pop() else { return Ok(ask(author, Answer::Nothing)) };
        // What replies to a message that asked nothing is not about this one.
        let is_reply = message.context_id.is_some();
        let Some(typed) = typed.filter(|_| !is_reply) else {
            let answer = Answer::One { task: only.task };
            return Ok(Meaning::Asks { answer, language: only.language });
        };
        let came_after = |sent_at: &DateTime<Utc>| only.arrived_at.is_some_and(|at| *sent_at > at);
        let Some(sent_at) = message.sent_at.filter(came_after) else {
            let answer = Answer::TooEarly { task: only.task };
            return Ok(Meaning::Asks { answer, language: only.language });
        };
        let seen = self.store().look_back(&author.names, sent_at).await?;
        if seen.last_asked != Some(only.approval_id) || seen.was_closed {
            let answer = Answer::One { task: only.task };
            return Ok(Meaning::Asks { answer, language: only.language });
        }
        Ok(decide(only, typed.verdict))
    }
}

/// The approval in the name under which it asks the sender, if that is one.
fn decide(found: PendingApproval, verdict: Verdict) -> Meaning {
    let PendingApproval { key, approval_id, mut approvers, task, language, .. } = found;
    match (approvers.pop(), approvers.is_empty()) {
        (Some(approver), true) => Meaning::Decides(Meant { key, approval_id, approver, verdict }),
        _ => Meaning::Asks { answer: Answer::Unclear { task }, language },
    }
}

fn name_all(pending: Vec<PendingApproval>) -> Meaning {
    let has_more = pending.len() > NAMED_MAX;
    let language = pending.first().and_then(|newest| newest.language.clone());
    let named = pending.into_iter().take(NAMED_MAX);
    let tasks = named.map(|one| (one.task, one.key.job_id().to_owned())).collect();
    Meaning::Asks { answer: Answer::Several { tasks, has_more }, language }
}

/// Says something to a person whom we know, and nothing to others.
fn ask(author: &Author, answer: Answer) -> Meaning {
    if author.is_known() { Meaning::Asks { answer, language: None } } else { Meaning::Nothing }
}

/// What a button stands for, if it is one of ours: `a:` or `r:`, and the approval's id in hexadecimal.
fn find_tap(content: &str) -> Option<(Verdict, ApprovalId)> {
    let (letter, id) = content.split_once(':')?;
    let verdict = match letter {
        "a" => Verdict::Approve,
        "r" => Verdict::Reject,
        _ => return None,
    };
    let is_hexadecimal = id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit());
    let id = is_hexadecimal.then(|| Uuid::parse_str(id).ok())??;
    Some((verdict, ApprovalId(id)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tap_is_a_letter_and_the_id_of_an_approval() {
        let id = "0197f0a46b7e7cc39d0c2b1f6f0a1234";
        let approval_id = ApprovalId(Uuid::parse_str(id).expect("a uuid"));
        assert_eq!(find_tap(&format!("a:{id}")), Some((Verdict::Approve, approval_id)));
        assert_eq!(find_tap(&format!("r:{id}")), Some((Verdict::Reject, approval_id)));
        for other in
            ["", "a", "a:", &format!("x:{id}"), &format!("a:{}", &id[1..]), &format!("a:{{{id}}}")]
        {
            assert_eq!(find_tap(other), None, "{other}");
        }
        assert_eq!(find_tap("a:0197f0a4-6b7e-7cc3-9d0c-2b1f6f0a1234"), None);
    }
}
