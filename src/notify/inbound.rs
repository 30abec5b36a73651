//! The listener: takes what people wrote, has it decide what it means, and answers.
//!
//! In come stored messages, out go decisions through the store and short answers through the channel.
//! What a message means is written down before it decides, and it is closed before it is answered, beside the next ones,
//! so that a death anywhere leaves one decision and at most one answer.
//! Neither texts nor numbers reach a log.

pub(crate) mod item;

mod author;

mod meaning;

mod typed;

use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use self::author::Author;
use self::meaning::Meaning;

use super::text::answer::{self, Answer, Say};
use super::whatsapp;
use super::{Notifier, NotifySettings};
use crate::domain::approval::{ApprovalStatus, Door, Verdict};
use crate::domain::event::Decision;
use crate::domain::job::Status;
use crate::domain::state::Refusal;
use crate::store::approval::Vote;
use crate::store::approval::outline::ApprovalOutline;
use crate::store::inbound::{AnswerSent, InboundKind, Meant, Taken};
use crate::store::{Store, StoreError, about};

/// Reads what somebody has typed, for a fuzzer.
#[cfg(any(test, fuzzing))]
pub(super) fn read_typed(text: &str) -> Option<(Verdict, String)> {
    typed::read(text).map(|typed| (typed.verdict, typed.comment))
}

/// How many messages one round takes, each of another sender.
const BATCH: i64 = 20;
/// How many answers are on their way at once.
const ANSWERS: usize = 64;
/// How often a message is tried that cannot be handled; with the waits between that is a quarter of an hour.
const TRIES_MAX: i32 = 20;
/// How long a stopping listener lets its round finish.
const DRAIN: Duration = Duration::from_secs(10);
/// What an answer is known by where its statuses come back: it is no notice.
const CORRELATION: &str = "answer";

/// Listener hears what people write.
pub struct Listener {
    /// What people are told through, and by which names they are known.
    notifier: Arc<Notifier>,
    /// Our number, as Meta names it: what is written to another one is not for us.
    number_id: Option<String>,
}

/// What there is to say, and in which words.
struct Reply {
    answer: Answer,
    say: &'static Say,
    /// Whether it helps somebody whose message was no answer.
    is_help: bool,
}

/// An answer that is to be sent, once: its message is closed.
struct Ready {
    message_id: String,
    author: Author,
    text: String,
}

impl Listener {
    /// Makes the listener beside the notifier, whose channel it answers through.
    pub fn new(notifier: Arc<Notifier>, settings: &NotifySettings) -> Self {
        let whatsapp = settings.whatsapp.as_ref();
        let number_id = whatsapp.map(|whatsapp| whatsapp.phone_number_id.trim().to_owned());
        Self { notifier, number_id }
    }

    fn store(&self) -> &Store {
        &self.notifier.store
    }

    /// Handles messages until told to stop; a round that is under way then is finished.
    ///
    /// Without a number to answer from it only waits: a server that has one handles them.
    pub async fn run(&self, stop: CancellationToken) {
        if self.notifier.sender.is_none() {
            return stop.cancelled().await;
        }
        let mut answers = JoinSet::new();
        let mut is_failing = false;
        while !stop.is_cancelled() {
            let mut woken = std::pin::pin!(self.store().wake().inbound.notified());
            woken.as_mut().enable();
            let mut round = std::pin::pin!(self.run_once(&mut answers));
            let handled = tokio::select! {
                handled = &mut round => handled,
                () = stop.cancelled() => match timeout(DRAIN, round).await {
                    Ok(handled) => handled,
                    Err(_elapsed) => return tracing::warn!("stopped with messages of people in hand"),
                },
            };
            match handled {
                // One sender's next message waits for the one before.
                Ok(count) if count > 0 => continue,
                Ok(_) => is_failing = false,
                Err(error) => {
                    if !std::mem::replace(&mut is_failing, true) {
                        let error = &error as &dyn std::error::Error;
                        tracing::warn!(error, "could not look for messages of people");
                    }
                }
            }
            let jittered = about(self.notifier.poll);
            tokio::select! {
                () = stop.cancelled() => {}
                () = woken, if !is_failing => {}
                () = sleep(jittered) => {}
            }
        }
        let sent = async { while answers.join_next().await.is_some() {} };
        if timeout(DRAIN, sent).await.is_err() {
            tracing::warn!("stopped with answers to people on their way");
        }
    }

    /// Handles one batch, and begins to send its answers; tells how many messages that were.
    /// A round that finds none forgets what is old.
    async fn run_once(&self, answers: &mut JoinSet<()>) -> Result<usize, StoreError> {
        let taken = self.store().take_inbound(BATCH).await?;
        if taken.is_empty() {
            self.store().forget_inbound().await?;
        }
        let handled = join_all(taken.iter().map(|one| self.handle_or_put_off(one))).await;
        while answers.try_join_next().is_some() {}
        for ready in handled.into_iter().flatten() {
            if answers.len() >= ANSWERS {
                answers.join_next().await;
            }
            let notifier = Arc::clone(&self.notifier);
            answers.spawn(async move {
                if let Err(error) = send(&notifier, &ready).await {
                    let error = &error as &dyn std::error::Error;
                    tracing::debug!(error, "could not note what became of an answer");
                }
            });
        }
        Ok(taken.len())
    }

    #[tracing::instrument(name = "inbound", skip_all, fields(tries = taken.tries))]
    async fn handle_or_put_off(&self, taken: &Taken) -> Option<Ready> {
        let error = match Box::pin(self.handle(taken)).await {
            Ok(ready) => return ready,
            Err(error) => error,
        };
        let is_given_up = taken.tries >= TRIES_MAX;
        tracing::warn!(
            error = &error as &dyn std::error::Error,
            is_given_up,
            "could not handle a message of a person"
        );
        let message_id = &taken.message.message_id;
        let done = if is_given_up {
            self.store().close_inbound(message_id, false, false).await.map(|_is_to_be_answered| ())
        } else {
            let seconds = f64::from(taken.tries).exp2().min(60.0);
            self.store().put_off_inbound(message_id, seconds).await
        };
        if let Err(error) = done {
            // Its time passes by itself.
            tracing::debug!(error = &error as &dyn std::error::Error, "nor put it off");
        }
        None
    }

    /// Decides, and closes, in this order; what comes back is then sent.
    async fn handle(&self, taken: &Taken) -> Result<Option<Ready>, StoreError> {
        let message = &taken.message;
        let number_id = self.number_id.as_deref();
        if message.written_to.as_deref().is_some_and(|id| Some(id) != number_id) {
            self.store().close_inbound(&message.message_id, false, false).await?;
            return Ok(None);
        }
        let author = self.identify(message).await?;
        self.note_window(message, &author).await?;
        let meaning = match &taken.meant {
            Some(meant) => Meaning::Decides(meant.clone()),
            None => self.find_meaning(message, &author).await?,
        };
        let reply = match meaning {
            Meaning::Decides(meant) => {
                self.store().note_meant(&message.message_id, &meant).await?;
                Some(self.decide(taken, &meant, &author).await?)
            }
            Meaning::Asks { answer, language } => {
                let content = message.content.as_deref().unwrap_or_default();
                let say = author.words(language.as_deref(), "", content);
                Some(Reply { answer, say, is_help: true })
            }
            Meaning::Nothing => None,
        };
        let is_help = reply.as_ref().is_some_and(|reply| reply.is_help);
        let is_to_be_answered =
            self.store().close_inbound(&message.message_id, reply.is_some(), is_help).await?;
        Ok(reply.filter(|_| is_to_be_answered).map(|reply| {
            let zone = author.zone(self.notifier.time_zone);
            let text = answer::write(&reply.answer, reply.say, zone);
            Ready { message_id: message.message_id.clone(), author, text }
        }))
    }

    /// Takes the decision, and says what became of it.
    async fn decide(
        &self,
        taken: &Taken,
        meant: &Meant,
        author: &Author,
    ) -> Result<Reply, StoreError> {
        let content = taken.message.content.as_deref().unwrap_or_default();
        let comment = typed::read(content).map(|typed| typed.comment).unwrap_or_default();
        let door = match taken.message.kind {
            InboundKind::Button => Door::Button,
            InboundKind::Text | InboundKind::Other => Door::Reply,
        };
        let vote = Vote {
            approval_id: Some(meant.approval_id),
            verdict: meant.verdict,
            voter: meant.approver.clone(),
            door,
            comment,
            via: Some(taken.message.sender.clone()),
            edited_output: None,
        };
        let refusal = match Box::pin(self.store().decide(&meant.key, &vote, None, None)).await {
            Ok(_) => None,
            Err(StoreError::Refused(refusal)) => Some(refusal),
            Err(
                StoreError::JobNotFound { .. }
                | StoreError::JobPruned { .. }
                | StoreError::ApprovalNotFound { .. },
            ) => {
                let say = author.words(None, "", content);
                return Ok(Reply { answer: Answer::Gone, say, is_help: false });
            }
            Err(error) => return Err(error),
        };
        let is_taken = refusal.is_none();
        tracing::info!(job_id = %meant.key, is_taken, "a message decided");
        let outline = self.store().find_approval_outline(&meant.key, meant.approval_id).await?;
        let language = outline.as_ref().and_then(|outline| outline.language.clone());
        let task = outline.as_ref().map(|outline| outline.task.clone()).unwrap_or_default();
        let say = author.words(language.as_deref(), &task, content);
        let answer = outline.map_or(Answer::Gone, |outline| tell(outline, meant, refusal.as_ref()));
        Ok(Reply { answer, say, is_help: false })
    }
}

/// Sends an answer, once: it was marked before, and what becomes of it is only noted.
async fn send(notifier: &Notifier, ready: &Ready) -> Result<(), StoreError> {
    let Ready { message_id, author, text } = ready;
    let store = &notifier.store;
    let Some(sender) = &notifier.sender else {
        return store.record_answer(message_id, AnswerSent::Failed).await;
    };
    // It is one more message to them, so their next notice keeps its distance from it.
    store.note_answer(author.rows(), sender.spacing).await?;
    let to = author.address(&notifier.book);
    let now = store.now().await?;
    let became = match sender.answer(to, text, CORRELATION, now).await {
        whatsapp::Answer::Accepted { .. } => AnswerSent::Sent,
        whatsapp::Answer::Unclear { error } => {
            tracing::debug!(error, "an answer may have gone out");
            AnswerSent::Unconfirmed
        }
        whatsapp::Answer::Unreached { error } => {
            tracing::debug!(error, "an answer was not sent");
            AnswerSent::Failed
        }
        whatsapp::Answer::Refused(refusal) => {
            tracing::debug!(error = refusal.words, "an answer was refused");
            AnswerSent::Failed
        }
    };
    store.record_answer(message_id, became).await
}

/// What is to be said of an approval after a decision about it.
fn tell(outline: ApprovalOutline, meant: &Meant, refusal: Option<&Refusal>) -> Answer {
    let ApprovalOutline { task, job_status, status, quorum, decisions, .. } = outline;
    let is_paused = job_status == Status::Paused;
    let is_theirs =
        |decision: &Decision| decision.voter == meant.approver && decision.verdict == meant.verdict;
    let has_their_say = refusal.is_none() && decisions.iter().any(is_theirs);
    match status {
        ApprovalStatus::Pending => match refusal {
            Some(Refusal::AlreadyVoted { .. }) => Answer::AlreadyVoted { task },
            // The deadline is over, and nobody has drawn the consequence yet.
            Some(_) => Answer::Expired { task },
            None => {
                let is_approval = |decision: &&Decision| decision.verdict == Verdict::Approve;
                let votes = decisions.iter().filter(is_approval).count();
                let votes = i32::try_from(votes).unwrap_or(i32::MAX);
                Answer::Counted { task, missing: quorum.saturating_sub(votes).max(1) }
            }
        },
        ApprovalStatus::Approved if has_their_say => Answer::Approved { task, is_paused },
        ApprovalStatus::Rejected if has_their_say => Answer::Rejected { task, is_paused },
        ApprovalStatus::Approved => decided(task, Verdict::Approve, decisions),
        ApprovalStatus::Rejected => decided(task, Verdict::Reject, decisions),
        ApprovalStatus::ChangesRequested => decided(task, Verdict::RequestChanges, decisions),
        ApprovalStatus::Expired => Answer::Expired { task },
        ApprovalStatus::Withdrawn => Answer::Withdrawn { task },
        ApprovalStatus::Superseded => Answer::Edited { task },
    }
}

/// The last vote of this kind is the one that decided.
fn decided(task: String, verdict: Verdict, decisions: Vec<Decision>) -> Answer {
    let by = decisions.into_iter().rfind(|decision| decision.verdict == verdict);
    Answer::Decided { task, by }
}
