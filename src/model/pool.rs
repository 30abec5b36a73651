//! A few clients of the provider, so that no call waits for the end of another.
//!
//! A connection of HTTP/2 carries only so many calls at once, and further ones would wait in it unseen. So each client
//! has one connection and its number of calls; the first that has room takes a call, and when none has, there is one
//! more. A call keeps its place until its answer has been read.
//! Whether the provider speaks HTTP/2 at all is learned from its first answer. Until then one call goes ahead, since
//! each would open a connection of its own, and all but one of those would be thrown away.

use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http::Version;
use reqwest::{Client, Request, Response};
use serde::de::DeserializeOwned;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

use super::client::Maker;

/// The clients.
pub(super) struct Pool {
    maker: Maker,
    state: Mutex<State>,
    /// Told when there is more to know of the provider.
    told: Notify,
}

struct State {
    speaks: Speaks,
    /// Finds out what the provider speaks, and carries every call to one without HTTP/2.
    any: Arc<Lane>,
    /// One connection each.
    lanes: Vec<Arc<Lane>>,
    is_scouted: bool,
}

/// What the provider is known to speak.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Speaks {
    Unknown,
    /// A connection for each call.
    Http1,
    Http2,
}

/// A client and its calls.
struct Lane {
    client: Client,
    calls: AtomicUsize,
    /// How many calls were given up before anything was heard of them.
    given_up: AtomicUsize,
    /// Whether the last that was heard on it was an answer.
    answers: AtomicBool,
}

/// One call's place in a client; dropping it makes room.
pub(super) struct Place<'p> {
    pool: &'p Pool,
    lane: Arc<Lane>,
    is_scout: bool,
    is_heard_of: bool,
}

/// An answer, and the place that it keeps until it has been read.
pub(super) struct Answer<'p> {
    /// The answer.
    pub response: Response,
    _place: Place<'p>,
}

impl Pool {
    /// Makes the first client, which opens no connection yet; over TLS the provider chooses the HTTP.
    pub fn new(maker: Maker, is_over_tls: bool) -> reqwest::Result<Self> {
        let state = State {
            speaks: if is_over_tls { Speaks::Unknown } else { Speaks::Http1 },
            any: Lane::new(maker.any()?),
            lanes: Vec::new(),
            is_scouted: false,
        };
        Ok(Self { maker, state: Mutex::new(state), told: Notify::new() })
    }

    /// Sends a request and waits for the head of its answer.
    ///
    /// The call that opens a connection takes that along when it is given up. Those who waited for the connection have
    /// sent nothing yet, and it is no fault of the provider, so they begin again.
    pub async fn send(&self, mut request: Request) -> reqwest::Result<Answer<'_>> {
        loop {
            let mut place = self.enter().await?;
            let (given_up, again) = (place.lane.given_up(), request.try_clone());
            let error = match place.lane.client.execute(request).await {
                Ok(response) => {
                    place.take_note_of_answer(response.version());
                    return Ok(Answer { response, _place: place });
                }
                Err(error) => error,
            };
            let is_shared = place.take_note_of_failure();
            let is_unsent = error.is_connect() && is_shared && place.lane.given_up() != given_up;
            request = again.filter(|_| is_unsent).ok_or(error)?;
        }
    }

    /// Sends a request and reads the JSON of its answer, all of it within a time.
    pub async fn fetch<T: DeserializeOwned>(
        &self,
        mut request: Request,
        longest: Duration,
    ) -> reqwest::Result<T> {
        *request.timeout_mut() = Some(longest);
        let Answer { response, _place } = self.send(request).await?;
        response.error_for_status()?.json().await
    }

    /// A place for a call; while it is not known what the provider speaks, others wait for the one that finds out, but
    /// no longer than a connection may take to open.
    async fn enter(&self) -> reqwest::Result<Place<'_>> {
        let mut until = Instant::now() + self.maker.connect_timeout;
        loop {
            let mut told = pin!(self.told.notified());
            told.as_mut().enable();
            let is_out_of_patience = Instant::now() >= until;
            if let Some(place) = self.find_place(is_out_of_patience)? {
                return Ok(place);
            }
            if is_out_of_patience {
                // There is no room for it yet either.
                until = Instant::now() + self.maker.connect_timeout;
            }
            // Either way it is looked again.
            let _ = timeout_at(until, told).await;
        }
    }

    fn find_place(&self, is_out_of_patience: bool) -> reqwest::Result<Option<Place<'_>>> {
        let mut state = self.lock();
        let is_scout = state.speaks == Speaks::Unknown && !state.is_scouted;
        let lane = match state.speaks {
            Speaks::Http2 => state.roomy(&self.maker)?,
            Speaks::Unknown if state.is_scouted && !is_out_of_patience => return Ok(None),
            // It may turn out to be one connection.
            Speaks::Unknown if !self.maker.has_room(&state.any.calls) => return Ok(None),
            Speaks::Unknown | Speaks::Http1 => Arc::clone(&state.any),
        };
        state.is_scouted |= is_scout;
        lane.calls.fetch_add(1, Ordering::Relaxed);
        Ok(Some(Place { pool: self, lane, is_scout, is_heard_of: false }))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// The first that has room, or one more.
    fn roomy(&mut self, maker: &Maker) -> reqwest::Result<Arc<Lane>> {
        let has_room = |lane: &&Arc<Lane>| maker.has_room(&lane.calls);
        if let Some(lane) = self.lanes.iter().find(has_room) {
            return Ok(Arc::clone(lane));
        }
        let lane = Lane::new(maker.http2()?);
        self.lanes.push(Arc::clone(&lane));
        Ok(lane)
    }

    fn is_any(&self, lane: &Arc<Lane>) -> bool {
        Arc::ptr_eq(lane, &self.any)
    }
}

impl Lane {
    fn new(client: Client) -> Arc<Self> {
        let (calls, given_up, answers) = Default::default();
        Arc::new(Self { client, calls, given_up, answers })
    }

    fn given_up(&self) -> usize {
        self.given_up.load(Ordering::Relaxed)
    }
}

impl Place<'_> {
    fn take_note_of_answer(&mut self, version: Version) {
        self.is_heard_of = true;
        self.lane.answers.store(true, Ordering::Relaxed);
        let mut state = self.pool.lock();
        if state.is_any(&self.lane) {
            match version {
                Version::HTTP_2 => state.speaks = Speaks::Http2,
                // Whatever was found out meanwhile is newer.
                _ if state.speaks == Speaks::Http2 => {}
                _ => {
                    state.speaks = Speaks::Http1;
                    state.lanes.clear();
                }
            }
        }
        self.end_scouting(&mut state);
    }

    /// Whether the connection is one for all calls of the client. If it has not had an answer since its last failure,
    /// the provider may not speak HTTP/2 any more.
    fn take_note_of_failure(&mut self) -> bool {
        self.is_heard_of = true;
        let mut state = self.pool.lock();
        self.end_scouting(&mut state);
        if state.is_any(&self.lane) {
            return false;
        }
        if !self.lane.answers.swap(false, Ordering::Relaxed) {
            let before = state.lanes.len();
            state.lanes.retain(|lane| !Arc::ptr_eq(lane, &self.lane));
            // Its other calls fail with it, some of them when more is known again.
            if state.lanes.len() < before {
                state.speaks = Speaks::Unknown;
            }
        }
        true
    }

    fn end_scouting(&mut self, state: &mut State) {
        if std::mem::take(&mut self.is_scout) {
            state.is_scouted = false;
            self.pool.told.notify_waiters();
        }
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.lane.calls.fetch_sub(1, Ordering::Relaxed);
        if !self.is_heard_of {
            self.lane.given_up.fetch_add(1, Ordering::Relaxed);
            let mut state = self.pool.lock();
            self.end_scouting(&mut state);
        }
    }
}
