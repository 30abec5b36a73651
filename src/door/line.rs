//! Lines: the connections of a face, as far as it is known what happens on each.
//!
//! In come the bytes that are heard and the calls that begin and end; out goes the word that a line is to end.
//! One sweep a tick looks at all lines, so that none needs a timer of its own.
//! A call on a line can be ended from outside, even if its peer reads nothing and its body is never asked again.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use futures::task::AtomicWaker;
use tokio::sync::Semaphore;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// How long a line that was asked to end, or a call that was ended, has for it.
pub(super) const GRACE: Duration = Duration::from_secs(2);
/// With which every HTTP/2 connection begins, and how much there is of it with the first frame.
const PREFACE: &[u8; 3] = b"PRI";
const PREFACE_BYTES: usize = 24 + 9;
/// The most calls of one line at once for which no key is asked; over HTTP/2, one peer could else hold all there is room for.
const STRANGERS_MAX: usize = 32;

/// How much is taken of connections, on each face.
#[derive(Clone, Debug)]
pub struct LineSettings {
    /// The most connections at once.
    pub connections_max: usize,
    /// How long agreeing on TLS may take.
    pub handshake_timeout: Duration,
    /// How long the head of a request may take, or the beginning of HTTP/2.
    pub head_timeout: Duration,
    /// How long a connection may go on without any request.
    pub idle_timeout: Duration,
    /// The most bytes of the headers of a request.
    pub header_bytes_max: u32,
    /// How long a call may take until its answer is taken; a watch may take for ever.
    pub call_timeout: Duration,
}

impl Default for LineSettings {
    fn default() -> Self {
        Self {
            connections_max: 8192,
            handshake_timeout: Duration::from_secs(10),
            head_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_mins(5),
            header_bytes_max: 16 << 10,
            call_timeout: Duration::from_mins(2),
        }
    }
}

/// One connection.
#[derive(Debug)]
pub(super) struct Line {
    /// Asks it to end in good order.
    pub end: CancellationToken,
    /// Ends it.
    pub cut: CancellationToken,
    strangers: Arc<Semaphore>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    phase: Phase,
    since: Instant,
    calls: HashMap<u64, Leash>,
    number: u64,
    /// Whether a call on it has ended that was let in.
    has_served: bool,
    asked_to_end_at: Option<Instant>,
}

/// How far a line has come.
#[derive(Debug)]
enum Phase {
    /// TLS is being agreed on.
    Handshake,
    /// So many bytes have come, and all of them might begin HTTP/2.
    Opening(usize),
    /// HTTP/1 is spoken, and the head of a request is on its way.
    Head,
    /// HTTP/1 is spoken.
    Http1,
    /// HTTP/2 is spoken.
    Http2,
}

impl Line {
    /// A line that begins now.
    pub fn new(end: CancellationToken, cut: CancellationToken) -> Self {
        let state = State {
            phase: Phase::Handshake,
            since: Instant::now(),
            calls: HashMap::new(),
            number: 0,
            has_served: false,
            asked_to_end_at: None,
        };
        let strangers = Arc::new(Semaphore::new(STRANGERS_MAX));
        Self { end, cut, strangers, state: Mutex::new(state) }
    }

    /// Notes that what comes now is HTTP.
    pub fn open(&self) {
        let mut state = self.state();
        (state.phase, state.since) = (Phase::Opening(0), Instant::now());
    }

    /// Notes what has come.
    pub fn hear(&self, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        let mut state = self.state();
        match state.phase {
            Phase::Opening(count) => {
                let next = PREFACE.iter().skip(count);
                let is_preface = next.zip(bytes).all(|(expected, byte)| expected == byte);
                let count = count + bytes.len();
                if !is_preface {
                    // The time for it began with the line.
                    state.phase = Phase::Head;
                } else if count < PREFACE_BYTES {
                    state.phase = Phase::Opening(count);
                } else {
                    (state.phase, state.since) = (Phase::Http2, Instant::now());
                }
            }
            Phase::Http1 if state.calls.is_empty() => {
                (state.phase, state.since) = (Phase::Head, Instant::now());
            }
            Phase::Handshake | Phase::Head | Phase::Http1 | Phase::Http2 => {}
        }
    }

    /// Notes that a call begins; it is in hand until what is answered is dropped.
    pub fn begin(self: &Arc<Self>) -> InHand {
        let leash = Leash::new(Arc::clone(&self.strangers));
        let mut state = self.state();
        state.number += 1;
        let number = state.number;
        state.calls.insert(number, leash.clone());
        if matches!(state.phase, Phase::Head | Phase::Opening(_)) {
            state.phase = Phase::Http1;
        }
        InHand { line: Arc::clone(self), number, leash }
    }

    /// Whether anybody was ever let in on it, and since when it is quiet; nothing, if a call is in hand that was let in.
    ///
    /// What anybody may ask keeps no line: a watch of health costs its peer nothing and never ends.
    fn quiet_since(&self) -> Option<(bool, Instant)> {
        let state = self.state();
        let is_serving = state.calls.values().any(Leash::is_let_in);
        (!is_serving).then_some((state.has_served, state.since))
    }

    /// Ends it, or calls on it, if it takes longer than it may.
    pub fn judge(&self, settings: &LineSettings, now: Instant) {
        let mut state = self.state();
        let over = |since: Instant, most: Duration| now.saturating_duration_since(since) > most;
        for leash in state.calls.values() {
            if leash.ended_at().is_some_and(|at| over(at, GRACE)) {
                // HTTP/1 has no other way to end a call.
                self.cut.cancel();
            } else if !leash.is_free() && over(leash.0.began, settings.call_timeout) {
                leash.end();
            }
        }
        if !state.calls.is_empty() {
            return;
        }
        if let Some(asked_at) = state.asked_to_end_at {
            if over(asked_at, GRACE) {
                self.cut.cancel();
            }
            return;
        }
        let most = match state.phase {
            Phase::Handshake => settings.handshake_timeout,
            Phase::Opening(_) | Phase::Head => settings.head_timeout,
            Phase::Http1 | Phase::Http2 => settings.idle_timeout,
        };
        if over(state.since, most) {
            match state.phase {
                Phase::Http1 | Phase::Http2 => {
                    state.asked_to_end_at = Some(now);
                    self.end.cancel();
                }
                Phase::Handshake | Phase::Opening(_) | Phase::Head => self.cut.cancel(),
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A call that is in hand.
#[derive(Debug)]
pub(super) struct InHand {
    line: Arc<Line>,
    number: u64,
    /// What it hangs on.
    pub leash: Leash,
}

impl Drop for InHand {
    fn drop(&mut self) {
        let mut state = self.line.state();
        state.calls.remove(&self.number);
        state.has_served |= self.leash.is_let_in();
        if state.calls.is_empty() {
            state.since = Instant::now();
        }
        drop(state);
        self.leash.let_go();
    }
}

/// What one call hangs on: it can be ended from outside, and what it was given room by is given back with it.
#[derive(Clone, Debug)]
pub struct Leash(Arc<Hold>);

#[derive(Debug)]
struct Hold {
    began: Instant,
    is_free: AtomicBool,
    is_let_in: AtomicBool,
    strangers: Arc<Semaphore>,
    waker: AtomicWaker,
    rest: Mutex<Rest>,
}

#[derive(Default)]
struct Rest {
    ended_at: Option<Instant>,
    is_over: bool,
    kept: Vec<Box<dyn Send>>,
}

impl std::fmt::Debug for Rest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Rest").field("ended_at", &self.ended_at).finish_non_exhaustive()
    }
}

impl Leash {
    fn new(strangers: Arc<Semaphore>) -> Self {
        Self(Arc::new(Hold {
            began: Instant::now(),
            is_free: AtomicBool::new(false),
            is_let_in: AtomicBool::new(false),
            strangers,
            waker: AtomicWaker::new(),
            rest: Mutex::default(),
        }))
    }

    /// Lets the call take for ever.
    pub fn set_free(&self) {
        self.0.is_free.store(true, Ordering::Relaxed);
    }

    /// Notes that the gate has let the call in.
    pub(super) fn set_let_in(&self) {
        self.0.is_let_in.store(true, Ordering::Relaxed);
    }

    /// Takes one of the few places that its line has for calls without a key; answers whether there was one.
    pub fn take_strangers_place(&self) -> bool {
        let place = Arc::clone(&self.0.strangers).try_acquire_owned();
        place.map(|place| self.keep(place)).is_ok()
    }

    /// Ends the call, whatever its peer does.
    pub fn end(&self) {
        self.rest().ended_at.get_or_insert_with(Instant::now);
        self.0.waker.wake();
    }

    /// Keeps something for as long as the call is in hand.
    pub fn keep(&self, thing: impl Send + 'static) {
        let mut rest = self.rest();
        if !rest.is_over {
            rest.kept.push(Box::new(thing));
        }
    }

    /// Ready once the call has been ended.
    pub(super) fn poll_ended(&self, context: &mut Context<'_>) -> Poll<()> {
        self.0.waker.register(context.waker());
        if self.ended_at().is_some() { Poll::Ready(()) } else { Poll::Pending }
    }

    fn is_free(&self) -> bool {
        self.0.is_free.load(Ordering::Relaxed)
    }

    fn is_let_in(&self) -> bool {
        self.0.is_let_in.load(Ordering::Relaxed)
    }

    fn ended_at(&self) -> Option<Instant> {
        self.rest().ended_at
    }

    fn let_go(&self) {
        let mut rest = self.rest();
        rest.is_over = true;
        let kept = std::mem::take(&mut rest.kept);
        drop(rest);
        drop(kept);
    }

    fn rest(&self) -> MutexGuard<'_, Rest> {
        self.0.rest.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// All lines of a face.
#[derive(Clone, Debug, Default)]
pub(super) struct Lines(Arc<Mutex<Known>>);

#[derive(Debug, Default)]
struct Known {
    lines: HashMap<u64, Arc<Line>>,
    number: u64,
    turned_away: usize,
}

/// A line that is among the others until this is dropped.
#[derive(Debug)]
pub(super) struct Entry {
    lines: Lines,
    number: u64,
    /// The line.
    pub line: Arc<Line>,
}

impl Lines {
    /// Takes in a line.
    ///
    /// Where there is no room, one goes on which nobody was ever let in, else one that has been quiet for the longest;
    /// where all are in calls that were let in, it is not taken.
    pub fn admit(&self, most: usize, line: Line) -> Option<Entry> {
        let mut known = self.known();
        if known.lines.len() >= most {
            known.turned_away += 1;
            let quiet = known.lines.iter();
            let quiet = quiet.filter_map(|(number, line)| Some((line.quiet_since()?, *number)));
            let (_, quietest) = quiet.min()?;
            if let Some(line) = known.lines.remove(&quietest) {
                line.cut.cancel();
            }
        }
        known.number += 1;
        let (number, line) = (known.number, Arc::new(line));
        known.lines.insert(number, Arc::clone(&line));
        Some(Entry { lines: self.clone(), number, line })
    }

    /// Looks at each of them once.
    pub fn judge(&self, settings: &LineSettings) {
        let (lines, turned_away) = {
            let mut known = self.known();
            let turned_away = std::mem::take(&mut known.turned_away);
            (known.lines.values().cloned().collect::<Vec<_>>(), turned_away)
        };
        if turned_away > 0 {
            tracing::warn!(turned_away, most = settings.connections_max, "too many connections");
        }
        let now = Instant::now();
        for line in lines {
            line.judge(settings, now);
        }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.lines.known().lines.remove(&self.number);
    }
}

#[cfg(test)]
mod tests;
