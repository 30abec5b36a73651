//! The dispatcher: takes notices that are due from the outbox, sends them, and records what became of each.
//!
//! Taking commits `sending` before anything leaves, and each try is recorded as soon as it is known,
//! so that a death in between leaves a notice which the store judges after its grace time.
//! One round takes at most one notice per person; its sends run side by side.

use std::sync::{MutexGuard, PoisonError};
use std::time::Duration;

use futures::future::join_all;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::receipt::word_of;
use super::refusal::back_off;
use super::{Notifier, WhatsApp, text};
use crate::domain::event::NoticeKind;
use crate::domain::word::Word as _;
use crate::store::StoreError;
use crate::store::outbox::{Outgoing, Sent};

/// How many notices one round takes.
const BATCH: usize = 20;
/// How often a notice is tried; with the back-off that is more than a day and a half.
const TRIES_MAX: i32 = 50;
/// How often a request that may have arrived is repeated quickly.
const QUICK_REPEATS_MAX: i32 = 3;
/// How long a stopping dispatcher lets its sends finish.
const DRAIN: Duration = Duration::from_secs(10);
/// How often a result is offered to a database that is away: about 16 s, well within the store's grace time.
const RECORD_TRIES: u32 = 6;

/// What one round did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Notices that were accepted.
    pub sent: usize,
    /// Notices that will be tried again.
    pub again: usize,
    /// Notices that were given up.
    pub refused: usize,
    /// Notices of which nobody knows whether they went out.
    pub ambiguous: usize,
    /// Tries whose dispatcher died, judged now.
    pub judged: u64,
}

impl Counts {
    fn taken(self) -> usize {
        self.sent + self.again + self.refused + self.ambiguous
    }

    fn count(&mut self, sent: &Sent) {
        let count = match sent {
            Sent::Accepted { .. } => &mut self.sent,
            Sent::Again { .. } => &mut self.again,
            Sent::Refused { .. } => &mut self.refused,
            Sent::Ambiguous { .. } => &mut self.ambiguous,
        };
        *count += 1;
    }
}

impl Notifier {
    /// Sends notices until told to stop; sends that are on their way then are finished and recorded.
    ///
    /// Without a number to send from it only waits: notices stay pending.
    pub async fn run(&self, stop: CancellationToken) {
        if self.whatsapp.is_none() {
            tracing::info!("no whatsapp number is configured: notices stay pending");
            return stop.cancelled().await;
        }
        let mut is_failing = false;
        while !stop.is_cancelled() {
            let mut woken = std::pin::pin!(self.store.wake().notices.notified());
            woken.as_mut().enable();
            let Some(round) = self.round(&stop).await else { break };
            match &round {
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
            if round.is_ok_and(|counts| counts.taken() == BATCH) {
                continue;
            }
            let jittered = self.poll.mul_f64(0.75 + rand::random::<f64>() / 2.0);
            tokio::select! {
                () = stop.cancelled() => {}
                // A database that is away is asked once a poll, however often it wakes us.
                () = woken, if !is_failing => {}
                () = sleep(jittered) => {}
            }
        }
    }

    /// One round, which a stop gives some time to finish; `None` if that was not enough.
    async fn round(&self, stop: &CancellationToken) -> Option<Result<Counts, StoreError>> {
        let mut round = std::pin::pin!(self.run_once());
        tokio::select! {
            counts = &mut round => return Some(counts),
            () = stop.cancelled() => {}
        }
        let finished = timeout(DRAIN, round).await.ok();
        if finished.is_none() {
            tracing::warn!("stopped with notices on their way; they are judged later");
        }
        finished
    }

    /// Judges lost tries, then takes one batch of due notices and sends it; a second round right after finds nothing.
    pub async fn run_once(&self) -> Result<Counts, StoreError> {
        let Some(whatsapp) = &self.whatsapp else { return Ok(Counts::default()) };
        let judged = self.store.judge_lost_notices().await?;
        let mut counts = Counts { judged, ..Counts::default() };
        let notices = self.take().await?;
        let deliveries = notices.iter().map(|notice| self.deliver(whatsapp, notice));
        for sent in join_all(deliveries).await {
            counts.count(&sent?);
        }
        Ok(counts)
    }

    /// A batch from where the last one ended, and from the beginning again, so that everybody has a turn.
    async fn take(&self) -> Result<Vec<Outgoing>, StoreError> {
        let after = self.lock_after().clone();
        let mut notices = self.store.take_notices(BATCH as i64, &after).await?;
        let mut last = notices.iter().map(|notice| notice.recipient.clone()).max();
        if notices.len() < BATCH && !after.is_empty() {
            let left = (BATCH - notices.len()) as i64;
            let begun_again = self.store.take_notices(left, "").await?;
            last = begun_again.iter().map(|notice| notice.recipient.clone()).max();
            notices.extend(begun_again);
        }
        let is_full = notices.len() == BATCH;
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
    async fn deliver(&self, whatsapp: &WhatsApp, notice: &Outgoing) -> Result<Sent, StoreError> {
        let sent = match text::write(notice, &self.public_url, self.language.as_deref()) {
            Some(body) => {
                let word = word_of(notice);
                whatsapp.send_text(&notice.recipient, &body, &word, notice.tries).await
            }
            None => Sent::Refused { error: "the links of this request are gone".to_owned() },
        };
        let sent = bounded(sent, notice.kind, notice.tries);
        match &sent {
            // The provider's id of the message is not logged: it holds the number it went to.
            Sent::Accepted { .. } => tracing::debug!("sent a notice"),
            Sent::Again { after, error } => {
                tracing::debug!(error, after_seconds = after.as_secs(), "will try a notice again");
            }
            Sent::Refused { error } => tracing::warn!(error, "gave a notice up"),
            Sent::Ambiguous { error } => tracing::warn!(error, "a notice may have gone out"),
        }
        self.record(notice, &sent).await.map(|()| sent)
    }

    /// What was sent must be known, or it would be sent again: a database that is away gets some time to come back.
    async fn record(&self, notice: &Outgoing, sent: &Sent) -> Result<(), StoreError> {
        let mut pause = Duration::from_millis(500);
        for _ in 1..RECORD_TRIES {
            match self.store.record_notice(notice, sent).await {
                Err(StoreError::Unavailable(_)) => sleep(pause).await,
                recorded => return recorded.map(|_delivery| ()),
            }
            pause *= 2;
        }
        self.store.record_notice(notice, sent).await.map(|_delivery| ())
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
