//! The dispatcher: takes notices that are due from the outbox, sends them, and records what became of each.
//!
//! Taking commits `sending` before anything leaves, and each try is recorded as soon as it is known,
//! so that a death in between leaves a notice which the store judges after its grace time.
//! At most one notice of each person is on its way; each has a task of its own, so that a slow one holds up no other.

use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::task::{JoinError, JoinSet};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::Notifier;
use super::channel::Gate;
use super::refusal::back_off;
use super::sender::Sender;
use super::text::{Letter, Reader};
use crate::domain::event::NoticeKind;
use crate::domain::word::Word as _;
use crate::store::outbox::{Outcome, Outgoing, Sent};
use crate::store::receipt::TRIES_MAX;
use crate::store::{StoreError, about};

/// How many notices are on their way at once.
const SENDS: usize = 64;
/// How often a request that may have arrived is repeated quickly.
const QUICK_REPEATS_MAX: i32 = 3;
/// How long a stopping dispatcher lets its sends finish.
const DRAIN: Duration = Duration::from_secs(10);
/// How often a result is offered to a database that is away: about 16 s, well within the store's grace time.
const RECORD_TRIES: u32 = 6;

impl Notifier {
    /// Sends notices until told to stop; sends that are on their way then are finished and recorded.
    ///
    /// Without a number to send from it only waits: notices stay pending.
    pub async fn run(self: Arc<Self>, stop: CancellationToken) {
        if self.sender.is_none() {
            tracing::info!("no whatsapp number is configured: notices stay pending");
            return stop.cancelled().await;
        }
        let mut sends = JoinSet::new();
        let mut is_failing = false;
        while !stop.is_cancelled() {
            let mut woken = std::pin::pin!(self.store.wake().notices.notified());
            woken.as_mut().enable();
            let room = SENDS - sends.len();
            let taken = self.run_once(room, &mut sends).await;
            match &taken {
                Ok(_) => is_failing = false,
                Err(error) => {
                    if !std::mem::replace(&mut is_failing, true) {
                        tracing::warn!(
                            error = error as &dyn std::error::Error,
                            "could not look for notices"
                        );
                    }
                }
            }
            let jittered = about(self.poll);
            tokio::select! {
                () = stop.cancelled() => {}
                // A database that is away is asked once a poll, however often it wakes us.
                () = woken, if !is_failing && sends.len() < SENDS => {}
                Some(ended) = sends.join_next() => note(ended),
                () = sleep(jittered) => {}
            }
        }
        let drained = async {
            while let Some(ended) = sends.join_next().await {
                note(ended);
            }
        };
        if timeout(DRAIN, drained).await.is_err() {
            tracing::warn!("stopped with notices on their way; they are judged later");
        }
    }

    /// Judges lost tries, takes due notices for as many as there is room, and begins to send each; answers how many.
    ///
    /// A second round right after finds nothing.
    pub async fn run_once(
        self: &Arc<Self>,
        room: usize,
        sends: &mut JoinSet<Result<Outcome, StoreError>>,
    ) -> Result<usize, StoreError> {
        let Some(sender) = &self.sender else { return Ok(0) };
        self.store.judge_lost_notices().await?;
        let notices = self.take(sender, room).await?;
        let taken = notices.len();
        for notice in notices {
            let notifier = Arc::clone(self);
            sends.spawn(async move { notifier.deliver(&notice).await });
        }
        Ok(taken)
    }

    /// A batch from where the last one ended, and from the beginning again, so that everybody has a turn.
    async fn take(&self, sender: &Sender, room: usize) -> Result<Vec<Outgoing>, StoreError> {
        let gate = if sender.channel.trouble().is_some() {
            sender.gate(self.store.now().await?).await
        } else {
            Gate::Open
        };
        let room = match gate {
            Gate::Open => room,
            Gate::Probe => room.min(1),
            Gate::Shut => 0,
        };
        if room == 0 {
            return Ok(Vec::new());
        }
        let after = self.lock_after().clone();
        let taken = self.take_from(sender, room, &after).await;
        // What probed nothing leaves the channel as it was.
        if gate == Gate::Probe && !taken.as_ref().is_ok_and(|notices| !notices.is_empty()) {
            sender.channel.was_not_probed();
        }
        taken
    }

    async fn take_from(
        &self,
        sender: &Sender,
        room: usize,
        after: &str,
    ) -> Result<Vec<Outgoing>, StoreError> {
        let take = |room: usize, after| self.store.take_notices(room as i64, after, sender.spacing);
        let mut notices = take(room, after).await?;
        let mut last = notices.iter().map(|notice| notice.recipient.clone()).max();
        if notices.len() < room && !after.is_empty() {
            let begun_again = take(room - notices.len(), "").await?;
            last = begun_again.iter().map(|notice| notice.recipient.clone()).max();
            notices.extend(begun_again);
        }
        let is_full = notices.len() == room;
        *self.lock_after() = last.filter(|_| is_full).unwrap_or_default();
        Ok(notices)
    }

    fn lock_after(&self) -> MutexGuard<'_, String> {
        self.after.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[tracing::instrument(
        name = "notice",
        skip_all,
        fields(job_id = %notice.key, notice_id = %notice.notice_id, kind = notice.kind.word(), tries = notice.tries)
    )]
    async fn deliver(&self, notice: &Outgoing) -> Result<Outcome, StoreError> {
        let outcome = match &self.sender {
            Some(sender) => Box::pin(self.send(sender, notice)).await,
            None => Outcome {
                sent: Sent::Held { after: Duration::ZERO, error: "no channel".to_owned() },
                rest: Duration::ZERO,
                is_closed: false,
            },
        };
        let outcome =
            Outcome { sent: bounded(outcome.sent, notice.kind, notice.tries_now()), ..outcome };
        match &outcome.sent {
            // The provider's id of the message is not logged: it holds the number it went to.
            Sent::Accepted { .. } => tracing::debug!("sent a notice"),
            Sent::Again { after, error } | Sent::Held { after, error } => {
                tracing::debug!(error, after_seconds = after.as_secs(), "will try a notice again");
            }
            Sent::Refused { error } => tracing::warn!(error, "gave a notice up"),
            Sent::Ambiguous { error } => tracing::warn!(error, "a notice may have gone out"),
        }
        self.record(notice, &outcome).await?;
        if let Sent::Held { error, .. } = &outcome.sent
            && let Err(error) = self.store.explain_waiting(error).await
        {
            tracing::warn!(
                error = &error as &dyn std::error::Error,
                "could not say of the other notices why they wait"
            );
        }
        Ok(outcome)
    }

    async fn send(&self, sender: &Sender, notice: &Outgoing) -> Outcome {
        let person = self.book.find(&notice.recipient).map(|(_, person)| person);
        let reader = Reader {
            language: person.and_then(|person| person.language.as_deref()),
            operators_language: self.language.as_deref(),
            time_zone: person.and_then(|person| person.time_zone).unwrap_or(self.time_zone),
        };
        let letter = Letter::new(notice, &self.public_url, reader);
        sender.send(notice, &letter, person).await
    }

    /// What was sent must be known, or it would be sent again: a database that is away gets some time to come back.
    async fn record(&self, notice: &Outgoing, outcome: &Outcome) -> Result<(), StoreError> {
        let mut pause = Duration::from_millis(500);
        for _ in 1..RECORD_TRIES {
            match self.store.record_notice(notice, outcome).await {
                Err(StoreError::Unavailable(_)) => sleep(pause).await,
                recorded => return recorded.map(|_delivery| ()),
            }
            pause *= 2;
        }
        self.store.record_notice(notice, outcome).await.map(|_delivery| ())
    }
}

/// A send that ended without its result being recorded leaves a notice that is judged later.
fn note(ended: Result<Result<Outcome, StoreError>, JoinError>) {
    match ended {
        Ok(Ok(_)) => {}
        Ok(Err(error)) => {
            tracing::warn!(
                error = &error as &dyn std::error::Error,
                "could not record what became of a notice"
            );
        }
        Err(error) => {
            tracing::error!(error = &error as &dyn std::error::Error, "a send broke off");
        }
    }
}

/// What is tried too often is given up, and a person is not asked the same thing every minute for hours.
fn bounded(sent: Sent, kind: NoticeKind, tries: i32) -> Sent {
    let is_asked = kind.asks();
    let give_up = |error| Sent::Refused { error: format!("given up after {tries} tries: {error}") };
    match sent {
        Sent::Again { error, .. } if tries >= TRIES_MAX => give_up(error),
        Sent::Ambiguous { error } if is_asked && tries >= TRIES_MAX => give_up(error),
        // The store repeats an ambiguous request after its grace time; in a long trouble the copies come further apart.
        Sent::Ambiguous { error } if is_asked && tries > QUICK_REPEATS_MAX => {
            Sent::Again { after: back_off(tries), error }
        }
        Sent::Accepted { .. }
        | Sent::Again { .. }
        | Sent::Held { .. }
        | Sent::Refused { .. }
        | Sent::Ambiguous { .. } => sent,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ASKED: NoticeKind = NoticeKind::ApprovalRequested;
    const ENDED: NoticeKind = NoticeKind::Completed;

    fn again() -> Sent {
        Sent::Again { after: Duration::from_secs(7), error: "away".to_owned() }
    }

    fn ambiguous() -> Sent {
        Sent::Ambiguous { error: "silence".to_owned() }
    }

    #[test]
    fn a_notice_is_tried_fifty_times_and_then_given_up() {
        let seven = Duration::from_secs(7);
        for tries in [1, 49] {
            assert!(
                matches!(bounded(again(), ENDED, tries), Sent::Again { after, .. } if after == seven)
            );
        }
        for (sent, kind) in [(again(), ENDED), (again(), ASKED), (ambiguous(), ASKED)] {
            let Sent::Refused { error } = bounded(sent, kind, 50) else { panic!("{kind:?}") };
            assert!(error.starts_with("given up after 50 tries: "), "{error}");
        }
    }

    #[test]
    fn a_request_that_may_have_arrived_is_repeated_less_and_less_often() {
        assert!(matches!(bounded(ambiguous(), ASKED, 3), Sent::Ambiguous { .. }));
        for (tries, seconds) in [(4, 64), (5, 256), (6, 1024), (7, 3600), (49, 3600)] {
            let Sent::Again { after, .. } = bounded(ambiguous(), ASKED, tries) else {
                panic!("{tries}")
            };
            assert_eq!(after.as_secs(), seconds);
        }
    }

    #[test]
    fn an_end_that_may_have_been_told_stays_ambiguous() {
        assert!(matches!(bounded(ambiguous(), ENDED, 50), Sent::Ambiguous { .. }));
    }
}
