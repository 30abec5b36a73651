//! Answers on their way: what has arrived of the answers of running jobs, for whoever wants to see them arrive.
//!
//! In come the partial answers of the calls made here, and for jobs that run elsewhere what their servers keep in
//! Postgres, which is looked at for all who listen in one statement, and only while somebody does and the job runs.
//! Who asks the model never waits for who listens: it adds to a text that it shares, and says that there is news.
//! Nothing of this is true for longer than an attempt; what counts is stored with its end.

use std::collections::HashMap;
use std::error::Error;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

use crate::domain::id::JobKey;
use crate::domain::job::JobState;
use crate::model::Partial;
use crate::store::partial::{KeptPartial, KnownPartial};
use crate::store::{Store, StoreError, about};

/// How often Postgres is looked at for answers that come in elsewhere, on the average; there they are kept every 2 s.
const LOOK: Duration = Duration::from_secs(1);
/// The most jobs of one look: each can bring a long text.
const JOBS_MAX: usize = 100;

/// Which attempt at which step an answer belongs to, in the order in which they follow each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The revision of the job.
    pub revision: i32,
    /// The step.
    pub step: i32,
    /// The attempt.
    pub attempt: i32,
}

impl Place {
    /// Where a job stands.
    pub fn of(state: &JobState) -> Self {
        Self { revision: state.revision, step: state.current_step, attempt: state.attempt }
    }

    /// The attempt after it.
    #[must_use]
    pub fn next(self) -> Self {
        Self { attempt: self.attempt + 1, ..self }
    }
}

/// What there is of an answer.
#[derive(Clone, Debug)]
pub struct Answer {
    /// Whose it is.
    pub place: Place,
    /// What has arrived.
    pub partial: Partial,
}

/// The answers that arrive in this process or are listened to in it.
#[derive(Clone, Default)]
pub struct Answers {
    inner: Arc<Inner>,
}

#[derive(Default)]
struct Inner {
    jobs: Mutex<HashMap<JobKey, Heard>>,
    /// Somebody listens to a job that may run elsewhere.
    wanted: Notify,
}

/// A job whose model is asked here, or whose answers somebody listens to.
#[derive(Default)]
struct Heard {
    /// How many attempts at it are in this process: a job can be in hand twice for a moment.
    askers: usize,
    listeners: usize,
    answer: Option<Answer>,
    news: watch::Sender<()>,
    /// How often somebody said that it runs.
    runs: u64,
    /// Up to which of these it was seen not to run any more.
    rests: u64,
}

impl Heard {
    /// Whether only Postgres can tell how its answer goes on.
    fn is_elsewhere(&self) -> bool {
        self.listeners > 0 && self.askers == 0 && self.runs > self.rests
    }
}

impl Answers {
    /// Shows what arrives in an attempt until that is dropped.
    pub(super) fn begin(&self, key: &JobKey, place: Place) -> Asking {
        let mut jobs = self.lock();
        let heard = jobs.entry(key.clone()).or_default();
        heard.askers += 1;
        Asking { answers: self.clone(), key: key.clone(), place }
    }

    /// Listens to a job's answers from now on.
    pub(super) fn listen(&self, key: &JobKey) -> Listening {
        let mut jobs = self.lock();
        let heard = jobs.entry(key.clone()).or_default();
        heard.listeners += 1;
        let news = heard.news.subscribe();
        Listening { answers: self.clone(), key: key.clone(), news }
    }

    /// Looks at what other servers keep, while somebody here wants to know it, until told to stop.
    pub async fn run(&self, store: &Store, stop: CancellationToken) {
        while !stop.is_cancelled() {
            let wanted = self.inner.wanted.notified();
            let is_idle = !self.lock().values().any(Heard::is_elsewhere);
            let pause = about(LOOK);
            tokio::select! {
                () = stop.cancelled() => return,
                () = wanted, if is_idle => continue,
                () = tokio::time::sleep(pause), if !is_idle => {}
            }
            if let Err(error) = self.look_once(store).await {
                // It looks again soon.
                tracing::debug!(error = &error as &dyn Error, "could not look at partial answers");
            }
        }
    }

    /// Looks once; answers for how many jobs.
    async fn look_once(&self, store: &Store) -> Result<usize, StoreError> {
        let wanted = self.wanted();
        for part in wanted.chunks(JOBS_MAX) {
            let known: Vec<KnownPartial> = part.iter().map(|(known, _)| known.clone()).collect();
            let kept = store.partial_answers(&known).await?;
            for ((known, runs), kept) in part.iter().zip(kept) {
                self.take(known, *runs, kept);
            }
        }
        Ok(wanted.len())
    }

    /// What is known of the answers that arrive elsewhere, each with how often its job was said to run.
    fn wanted(&self) -> Vec<(KnownPartial, u64)> {
        let jobs = self.lock();
        let elsewhere = jobs.iter().filter(|(_, heard)| heard.is_elsewhere());
        let known = elsewhere.map(|(key, heard)| {
            let place = heard.answer.as_ref().map(|answer| answer.place).unwrap_or_default();
            let chars = heard.answer.as_ref().map_or(0, |answer| answer.partial.char_count());
            let known = KnownPartial {
                key: key.clone(),
                place: (place.revision, place.step, place.attempt),
                chars: i32::try_from(chars).unwrap_or(i32::MAX),
            };
            (known, heard.runs)
        });
        known.collect()
    }

    /// Takes in what a look has found.
    fn take(&self, known: &KnownPartial, runs: u64, kept: Option<KeptPartial>) {
        let mut jobs = self.lock();
        let Some(heard) = jobs.get_mut(&known.key) else { return };
        let Some(KeptPartial { place: (revision, step, attempt), text }) = kept else {
            heard.rests = heard.rests.max(runs);
            return;
        };
        let place = Place { revision, step, attempt };
        // Meanwhile it may have come here, or have been looked at by whoever has left.
        let so_far = match &heard.answer {
            Some(answer) if answer.place == place => {
                let is_as_it_was = known.place == (revision, step, attempt)
                    && usize::try_from(known.chars) == Ok(answer.partial.char_count());
                is_as_it_was.then(|| answer.partial.text_after(0, usize::MAX))
            }
            Some(answer) if answer.place > place => None,
            Some(_) | None => Some(String::new()),
        };
        let Some(so_far) = so_far.filter(|_| heard.askers == 0 && !text.is_empty()) else { return };
        let partial = Partial::begun(so_far + &text, heard.news.clone());
        heard.answer = Some(Answer { place, partial });
        heard.news.send_replace(());
    }

    /// Lets go of what nobody asks for or listens to any more.
    fn leave(&self, key: &JobKey, change: impl FnOnce(&mut Heard)) {
        let mut jobs = self.lock();
        let Some(heard) = jobs.get_mut(key) else { return };
        change(heard);
        if heard.askers == 0 && heard.listeners == 0 {
            jobs.remove(key);
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<JobKey, Heard>> {
        self.inner.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An attempt whose answer is shown while it arrives.
pub(super) struct Asking {
    answers: Answers,
    key: JobKey,
    place: Place,
}

impl Asking {
    /// Where the next call puts what arrives, after what there is of the answer already.
    pub(super) fn partial(&self, begun: &str) -> Partial {
        let mut jobs = self.answers.lock();
        // It is there for as long as this.
        let heard = jobs.entry(self.key.clone()).or_default();
        let partial = Partial::begun(begun.to_owned(), heard.news.clone());
        // Not if the job is in hand once more, in a later attempt.
        if heard.answer.as_ref().is_none_or(|answer| answer.place <= self.place) {
            heard.answer = Some(Answer { place: self.place, partial: partial.clone() });
            heard.news.send_replace(());
        }
        partial
    }
}

impl Drop for Asking {
    fn drop(&mut self) {
        // Whoever listens reads the rest of it; its end is an event.
        self.answers.leave(&self.key, |heard| heard.askers -= 1);
    }
}

/// Somebody who listens to a job's answers, until it is dropped.
pub struct Listening {
    answers: Answers,
    key: JobKey,
    news: watch::Receiver<()>,
}

impl Listening {
    /// What there is of the last answer that is known of.
    pub fn answer(&self) -> Option<Answer> {
        self.answers.lock().get(&self.key).and_then(|heard| heard.answer.clone())
    }

    /// Says that the job runs, here or elsewhere.
    pub fn expect_news(&self) {
        let mut jobs = self.answers.lock();
        let Some(heard) = jobs.get_mut(&self.key) else { return };
        heard.runs += 1;
        if heard.is_elsewhere() {
            self.answers.inner.wanted.notify_one();
        }
    }

    /// Says that an attempt is over; who has not read all of its answer has it in hand.
    pub fn forget(&self, place: Place) {
        let mut jobs = self.answers.lock();
        let Some(heard) = jobs.get_mut(&self.key) else { return };
        if heard.askers == 0 {
            heard.answer.take_if(|answer| answer.place <= place);
        }
    }

    /// Waits for more of an answer than there was at the last wait; sometimes there is none.
    pub async fn news(&mut self) {
        // It lasts as long as somebody listens.
        let _ = self.news.changed().await;
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.answers.leave(&self.key, |heard| heard.listeners -= 1);
    }
}
