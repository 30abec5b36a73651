//! Output deltas of one watch: the text of answers as it arrives, in pieces that fit together.
//!
//! In come the answers that this server hears of and the events of the watch; out come pieces, a few a second, each with
//! the place in its answer. Between a text and a slow client stands nothing but how far that client has read.
//! A piece never comes after the event that ends its attempt, and what there is of the answer by then comes before it.

use std::time::Duration;

use tokio::time::Instant;

use super::proto::OutputDelta;
use crate::domain::event::EventKind;
use crate::domain::job::{JobState, Status};
use crate::engine::answer::{Answer, Listening, Place};
use crate::store::event::StoredEvent;

/// How long text is gathered, so that a piece is more than a token.
const GATHER: Duration = Duration::from_millis(75);
/// The most characters of one piece.
const CHARS_MAX: usize = 16 << 10;

/// What one watch has told of answers.
pub(super) struct Deltas {
    listening: Listening,
    /// Of events up to this one the state of the job told all that they could.
    known: i32,
    /// The attempt that was begun last, as far as the watch has told; none after it is told of.
    begun: Place,
    /// No answer from before this is told any more.
    floor: Place,
    /// What there is of that attempt's answer, as far as it was heard of.
    answer: Option<Answer>,
    /// How much was told of which answer.
    told: Told,
    /// There may be more than was told.
    is_behind: bool,
    not_before: Instant,
}

#[derive(Clone, Copy, Default)]
struct Told {
    place: Place,
    bytes: usize,
    chars: usize,
}

impl Deltas {
    /// The answers of a job from now on.
    pub fn new(listening: Listening) -> Self {
        Self {
            listening,
            known: 0,
            begun: Place::default(),
            floor: Place::default(),
            answer: None,
            told: Told::default(),
            is_behind: true,
            not_before: Instant::now(),
        }
    }

    /// Begins with the attempt that is at work in this state of the job, if one is.
    pub fn begin_at(&mut self, state: &JobState) {
        self.known = state.last_sequence;
        self.begun = Place::of(state);
        if state.status == Status::Running {
            self.floor = self.begun;
            self.listening.expect_news();
        } else {
            self.floor = self.begun.next();
        }
    }

    /// Waits for the next piece; nothing is lost if the wait is given up.
    pub async fn next(&mut self) -> OutputDelta {
        loop {
            if !self.is_behind {
                self.listening.news().await;
                self.is_behind = true;
            }
            tokio::time::sleep_until(self.not_before).await;
            match self.take(self.begun) {
                Some(piece) => {
                    // A long text is told in pieces that follow at once.
                    self.is_behind = piece.text.len() >= CHARS_MAX;
                    if !self.is_behind {
                        self.not_before = Instant::now() + GATHER;
                    }
                    return piece;
                }
                None => self.is_behind = false,
            }
        }
    }

    /// What is to be told before an event, which may end an attempt.
    pub fn before(&mut self, stored: &StoredEvent) -> Vec<OutputDelta> {
        let event = &stored.event;
        if event.sequence <= self.known {
            return Vec::new();
        }
        let place = Place { revision: event.revision, step: event.step, attempt: event.attempt };
        let ended = match event.kind {
            EventKind::StepStarted => {
                (self.begun, self.floor, self.is_behind) = (place, place, true);
                self.listening.expect_news();
                return Vec::new();
            }
            EventKind::StepFinished
            | EventKind::StepDelayed
            | EventKind::StepBatched
            | EventKind::AttemptLost
            | EventKind::AttemptReleased => place,
            // Whatever was at work does not work any more.
            EventKind::JobPaused
            | EventKind::JobCompleted
            | EventKind::JobFailed
            | EventKind::JobCancelled => self.begun,
            EventKind::JobSubmitted
            | EventKind::StepWaiting
            | EventKind::ApprovalRequested
            | EventKind::ApprovalDecided
            | EventKind::ApprovalExpired
            | EventKind::ApprovalReminded
            | EventKind::ApprovalEscalated
            | EventKind::NoticeFailed
            | EventKind::PauseRequested
            | EventKind::JobResumed
            | EventKind::JobRetried => return Vec::new(),
        };
        let mut pieces = Vec::new();
        while let Some(piece) = self.take(ended) {
            pieces.push(piece);
        }
        if event.kind == EventKind::StepFinished {
            let output = stored.finished.as_ref().and_then(|finished| finished.output.as_deref());
            pieces.extend(self.rest(ended, output.unwrap_or_default()));
        }
        self.floor = self.floor.max(ended.next());
        self.answer = None;
        self.listening.forget(ended);
        pieces
    }

    /// The next piece of the answer that is on its way, if that is not from after this attempt.
    fn take(&mut self, last: Place) -> Option<OutputDelta> {
        // What comes after it is heard of again once its event has come.
        let heard = self.listening.answer().filter(|heard| heard.place <= last);
        if heard.is_some() {
            self.answer = heard;
        }
        let answer = self.answer.as_ref().filter(|answer| answer.place >= self.floor)?;
        let told = self.told_of(answer.place);
        let text = answer.partial.text_after(told.bytes, CHARS_MAX);
        (!text.is_empty()).then(|| self.tell(told, text))
    }

    /// What nobody heard before the answer was whole: another server kept it to itself, or went on with the next step.
    fn rest(&mut self, place: Place, output: &str) -> Option<OutputDelta> {
        let told = self.told_of(place);
        let rest = output.get(told.bytes..).filter(|rest| !rest.is_empty())?;
        Some(self.tell(told, rest.to_owned()))
    }

    fn told_of(&self, place: Place) -> Told {
        if self.told.place == place { self.told } else { Told { place, bytes: 0, chars: 0 } }
    }

    fn tell(&mut self, told: Told, text: String) -> OutputDelta {
        let Told { place, bytes, chars } = told;
        let offset = i32::try_from(chars).unwrap_or(i32::MAX);
        let (bytes, chars) = (bytes + text.len(), chars + text.chars().count());
        self.told = Told { place, bytes, chars };
        OutputDelta { step: place.step, attempt: place.attempt, offset, text }
    }
}
