//! Limits: how much each caller may ask for, and all of them together, on both faces.
//!
//! In goes a request that the gate has let in; it goes on, or is refused at once and told when to come again.
//! Callers are told apart by key or certificate; on an open server all of them are one.
//! What needs no key is not counted here: health can always be looked at, and approvers keep their room.

use std::collections::HashMap;
use std::convert::Infallible;
use std::future::Ready;
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use futures::future::Either;
use governor::clock::{Clock as _, DefaultClock};
use governor::{DefaultDirectRateLimiter, Quota, RateLimiter};
use http::{Request, Response};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;
use tower::{Layer, Service};

use super::Authority;
use super::gate::Face;
use super::line::Leash;

/// The most requests at once on a face, where nothing is said.
pub const REQUESTS_MAX: usize = 1024;
/// Of how many callers at most is remembered what nothing depends on any more.
const REMEMBERED_MAX: usize = 1024;
/// After so long without a request a rate has recovered, as all are of a second.
const RECOVERED: Duration = Duration::from_secs(2);

/// How much may be asked for; nothing means as much as comes.
#[derive(Clone, Copy, Debug, Default)]
pub struct LimitSettings {
    /// Requests a second of all callers together, on this server.
    pub per_second: Option<NonZeroU32>,
    /// Requests a second of one caller, unless its key says otherwise.
    pub key_per_second: Option<NonZeroU32>,
    /// Requests of one caller in hand at once, and beside them watches, unless its key says otherwise.
    pub key_max: Option<NonZeroU32>,
}

/// Why a request is refused that is otherwise good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shed {
    /// There were too many of late; after this time there is room for one.
    RateLimited(Duration),
    /// There are too many of this caller at once.
    Overloaded,
}

/// The limits of one server, shared by its faces.
#[derive(Clone)]
pub struct Limits(Arc<Kept>);

struct Kept {
    settings: LimitSettings,
    all: Option<DefaultDirectRateLimiter>,
    callers: Mutex<Callers>,
    clock: DefaultClock,
}

/// Their rooms, and when they were last asked for.
type Callers = HashMap<Arc<str>, (Arc<Room>, Instant)>;

/// Forgets those of whom nothing depends on being remembered.
fn forget(callers: &mut Callers, now: Instant) {
    callers.retain(|_, (room, asked_at)| {
        room.is_in_use() || now.saturating_duration_since(*asked_at) < RECOVERED
    });
}

/// The room of one caller.
struct Room {
    per_second: Option<NonZeroU32>,
    max: Option<NonZeroU32>,
    rate: Option<DefaultDirectRateLimiter>,
    calls: Arc<Semaphore>,
    watches: Arc<Semaphore>,
}

impl Limits {
    /// The limits that these settings say.
    pub fn new(settings: LimitSettings) -> Self {
        let all = settings.per_second.map(|most| RateLimiter::direct(Quota::per_second(most)));
        let (callers, clock) = (Mutex::default(), DefaultClock::default());
        Self(Arc::new(Kept { settings, all, callers, clock }))
    }

    /// Admits a request; what it gets is its place, where places are counted.
    pub fn admit(
        &self,
        authority: &Authority,
        is_watch: bool,
    ) -> Result<Option<OwnedSemaphorePermit>, Shed> {
        let room = self.room(authority);
        // Who has no room of its own takes nothing from all.
        let place = match &room {
            Some(room) if room.max.is_some() => {
                let places = if is_watch { &room.watches } else { &room.calls };
                let place = Arc::clone(places).try_acquire_owned();
                Some(place.map_err(|_full| Shed::Overloaded)?)
            }
            Some(_) | None => None,
        };
        let own = room.as_ref().and_then(|room| room.rate.as_ref());
        for rate in [own, self.0.all.as_ref()].into_iter().flatten() {
            rate.check()
                .map_err(|until| Shed::RateLimited(until.wait_time_from(self.0.clock.now())))?;
        }
        Ok(place)
    }

    /// The room of a caller, if it is bounded at all; it is made anew when its key was given another.
    fn room(&self, authority: &Authority) -> Option<Arc<Room>> {
        let settings = &self.0.settings;
        let key = authority.key.as_deref();
        let own = |most: Option<u32>| most.and_then(NonZeroU32::new);
        let per_second =
            key.and_then(|key| own(key.requests_per_second)).or(settings.key_per_second);
        let max = key.and_then(|key| own(key.requests_max)).or(settings.key_max);
        if per_second.is_none() && max.is_none() {
            return None;
        }
        let mut callers = self.0.callers.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        if let Some((room, asked_at)) = callers.get_mut(authority.actor())
            && room.per_second == per_second
            && room.max == max
        {
            *asked_at = now;
            return Some(Arc::clone(room));
        }
        if callers.len() >= REMEMBERED_MAX {
            forget(&mut callers, now);
        }
        let room = Arc::new(Room::new(per_second, max));
        callers.insert(authority.actor().into(), (Arc::clone(&room), now));
        Some(room)
    }
}

impl Room {
    fn new(per_second: Option<NonZeroU32>, max: Option<NonZeroU32>) -> Self {
        let places = max.map_or(0, |max| usize::try_from(max.get()).unwrap_or(usize::MAX));
        let places = || Arc::new(Semaphore::new(places.min(Semaphore::MAX_PERMITS)));
        let rate = per_second.map(|most| RateLimiter::direct(Quota::per_second(most)));
        Self { per_second, max, rate, calls: places(), watches: places() }
    }

    /// Whether anybody has a place in it; each place holds on to where it was taken.
    fn is_in_use(&self) -> bool {
        [&self.calls, &self.watches].into_iter().any(|places| Arc::strong_count(places) > 1)
    }
}

/// Puts limits before a face, behind its gate.
#[derive(Clone)]
pub struct LimitLayer<F> {
    limits: Limits,
    face: F,
}

impl<F: Face> LimitLayer<F> {
    /// These limits, in the words of this face.
    pub fn new(limits: Limits, face: F) -> Self {
        Self { limits, face }
    }
}

impl<S, F: Face> Layer<S> for LimitLayer<F> {
    type Service = Limited<S, F>;

    fn layer(&self, inner: S) -> Limited<S, F> {
        Limited { layer: self.clone(), inner }
    }
}

/// A face behind its limits.
#[derive(Clone)]
pub struct Limited<S, F> {
    layer: LimitLayer<F>,
    inner: S,
}

impl<S, F, B> Service<Request<B>> for Limited<S, F>
where
    F: Face,
    S: Service<Request<B>, Response = Response<F::Body>, Error = Infallible>,
{
    type Response = Response<F::Body>;
    type Error = Infallible;
    type Future = Either<S::Future, Ready<Result<Response<F::Body>, Infallible>>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let Some(authority) = request.extensions().get::<Authority>() else {
            return Either::Left(self.inner.call(request));
        };
        let is_watch = self.layer.face.is_watch(&request);
        match self.layer.limits.admit(authority, is_watch) {
            Ok(place) => {
                if let Some((leash, place)) = request.extensions().get::<Leash>().zip(place) {
                    leash.keep(place);
                }
                Either::Left(self.inner.call(request))
            }
            Err(shed) => Either::Right(std::future::ready(Ok(self.layer.face.shed(shed)))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::key::{Key, Scope, Scopes};

    fn of_key(
        name: &str,
        requests_per_second: Option<u32>,
        requests_max: Option<u32>,
    ) -> Authority {
        let scopes = Scopes::from_iter([Scope::Submit]);
        let (key_id, name) = (name.to_owned(), name.to_owned());
        Authority::of_key(Arc::new(Key { key_id, name, scopes, requests_per_second, requests_max }))
    }

    fn settings(per_second: u32, key_per_second: u32, key_max: u32) -> Limits {
        let [per_second, key_per_second, key_max] =
            [per_second, key_per_second, key_max].map(NonZeroU32::new);
        Limits::new(LimitSettings { per_second, key_per_second, key_max })
    }

    #[test]
    fn without_limits_everything_is_admitted() {
        let limits = settings(0, 0, 0);
        for _ in 0..10_000 {
            assert!(limits.admit(&Authority::open(), false).unwrap().is_none());
        }
    }

    #[test]
    fn each_key_has_places_of_its_own_and_watches_others() {
        let limits = settings(0, 0, 2);
        let (one, other, wide) =
            (of_key("a", None, None), of_key("b", None, None), of_key("c", None, Some(3)));
        let mut held: Vec<_> = (0..2).map(|_| limits.admit(&one, false).unwrap()).collect();
        assert_eq!(limits.admit(&one, false).unwrap_err(), Shed::Overloaded);
        assert!(limits.admit(&one, true).unwrap().is_some(), "a watch has another place");
        assert!(limits.admit(&other, false).unwrap().is_some());
        held.pop();
        assert!(limits.admit(&one, false).is_ok(), "a place was given back");
        let held: Vec<_> = (0..3).map(|_| limits.admit(&wide, false).unwrap()).collect();
        assert!(limits.admit(&wide, false).is_err());
        assert_eq!(held.len(), 3);
    }

    #[test]
    fn callers_who_are_gone_are_forgotten_and_who_is_there_is_not() {
        let limits = settings(0, 0, 1);
        let held = limits.admit(&of_key("there", None, None), false).unwrap();
        for at in 0..REMEMBERED_MAX {
            drop(limits.admit(&of_key(&format!("gone-{at}"), None, None), false).unwrap());
        }
        let mut callers = limits.0.callers.lock().unwrap();
        forget(&mut callers, Instant::now() + RECOVERED);
        assert_eq!(callers.len(), 1);
        drop(callers);
        assert_eq!(
            limits.admit(&of_key("there", None, None), false).unwrap_err(),
            Shed::Overloaded
        );
        drop(held);
    }

    #[test]
    fn a_rate_is_refused_with_the_time_to_come_again() {
        let limits = settings(0, 2, 0);
        let (one, fast) = (of_key("a", None, None), of_key("b", Some(1000), None));
        assert!((0..2).all(|_| limits.admit(&one, false).is_ok()));
        let Err(Shed::RateLimited(wait)) = limits.admit(&one, false) else { panic!("not refused") };
        assert!(wait <= Duration::from_millis(500), "{wait:?}");
        assert!((0..100).all(|_| limits.admit(&fast, false).is_ok()), "its key says more");
        let all = settings(3, 0, 0);
        assert!((0..3).all(|_| all.admit(&fast, false).is_ok()));
        assert!(all.admit(&one, false).is_err(), "all together have had theirs");
    }
}
