//! What stands before every handler: the span of the request, and limits on how many run and how long.
//!
//! Spans are named by route and never by path, since the path of an approval page holds a secret.
//! Whatever happens behind these, the client gets an answer in the shape of all other errors.

use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::extract::{MatchedPath, Request, State};
use axum::http::Method;
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use futures::FutureExt as _;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, SetOnce};
use tracing::{Instrument as _, field::Empty, info_span};

use super::WebSettings;
use super::asked::WAIT_SECONDS_MAX;
use super::fault::Fault;
use crate::door::{Authority, Leash};
use crate::telemetry;

/// How much is done at once, and for how long.
#[derive(Clone)]
pub(super) struct Limits {
    /// Of those who only look.
    room: Arc<Semaphore>,
    /// Of those who send something, which may take long to come.
    posts: Arc<Semaphore>,
    time: Duration,
    opened: Arc<SetOnce<()>>,
}

impl Limits {
    /// Room of its own, as large as the settings say, from when the store is open.
    pub(super) fn new(settings: &WebSettings, opened: Arc<SetOnce<()>>) -> Self {
        let most = settings.requests_max.clamp(1, Semaphore::MAX_PERMITS);
        let [room, posts] = [most, most].map(|most| Arc::new(Semaphore::new(most)));
        Self { room, posts, time: settings.request_timeout, opened }
    }
}

/// The room that a request takes, which it may leave while it waits for something that costs nothing.
#[derive(Clone)]
pub(super) struct Room(Arc<Mutex<Option<OwnedSemaphorePermit>>>);

impl Room {
    /// Leaves it to others; from then on the time that one may wait is added to the request's own.
    pub(super) fn leave(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
    }

    fn is_left(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).is_none()
    }

    /// Ends when the request has taken too long.
    async fn is_over(&self, time: Duration) {
        tokio::time::sleep(time).await;
        if self.is_left() {
            tokio::time::sleep(Duration::from_secs(WAIT_SECONDS_MAX)).await;
        }
    }
}

/// The methods that are named in a span.
const METHODS: [Method; 9] = [
    Method::GET,
    Method::HEAD,
    Method::POST,
    Method::PUT,
    Method::PATCH,
    Method::DELETE,
    Method::OPTIONS,
    Method::TRACE,
    Method::CONNECT,
];

/// Puts a request into a span, a child of the caller's if it names one.
pub(super) async fn trace(request: Request, next: Next) -> Response {
    let route = request.extensions().get::<MatchedPath>();
    let route = route.map_or("unknown", MatchedPath::as_str).to_owned();
    // Anybody can make up methods, and no store of traces is made for endlessly long ones.
    let known = METHODS.iter().find(|known| *known == request.method()).map(Method::as_str);
    let (method, name) = known.map_or(("_OTHER", "HTTP"), |known| (known, known));
    let span = info_span!(
        "http",
        otel.name = format!("{name} {route}"),
        otel.kind = "server",
        http.request.method = method,
        http.route = route,
        http.response.status_code = Empty,
    );
    telemetry::accept(&span, request.headers());
    let response = next.run(request).instrument(span.clone()).await;
    span.record("http.response.status_code", response.status().as_u16());
    response
}

/// Refuses a request that comes too early, sheds one for which there is no room, ends one that takes too long, and survives one that panics.
pub(super) async fn limit(
    State(limits): State<Limits>,
    mut request: Request,
    next: Next,
) -> Response {
    if !limits.opened.initialized() {
        return Fault::unavailable().into_response();
    }
    let leash = request.extensions().get::<Leash>().cloned();
    if request.extensions().get::<Authority>().is_none()
        && !leash.as_ref().is_none_or(Leash::take_strangers_place)
    {
        return Fault::overloaded().into_response();
    }
    let room = if request.method() == Method::POST { &limits.posts } else { &limits.room };
    let Ok(permit) = Arc::clone(room).try_acquire_owned() else {
        return Fault::overloaded().into_response();
    };
    let room = Room(Arc::new(Mutex::new(Some(permit))));
    request.extensions_mut().insert(room.clone());
    // An answer that is not taken still takes room.
    if let Some(leash) = leash {
        leash.keep(room.clone());
    }
    let handled = AssertUnwindSafe(next.run(request)).catch_unwind();
    tokio::select! {
        biased;
        handled = handled => handled.unwrap_or_else(|_panic| {
            tracing::error!("a handler panicked");
            Fault::internal().into_response()
        }),
        () = room.is_over(limits.time) => {
            tracing::warn!("a request took too long");
            Fault::unavailable().into_response()
        }
    }
}

#[cfg(test)]
mod tests {
    use axum::Router;
    use axum::body::Body;
    use axum::middleware::from_fn_with_state;
    use axum::routing::get;
    use tower::ServiceExt as _;

    use super::*;

    async fn panics() {
        panic!("on purpose");
    }

    fn router(time: Duration) -> Router {
        let opened = Arc::new(SetOnce::new_with(Some(())));
        let [room, posts] = [1, 1].map(|most| Arc::new(Semaphore::new(most)));
        let limits = Limits { room, posts, time, opened };
        Router::new()
            .route("/panics", get(panics))
            .route("/leaves", get(leaves))
            .route("/waits", get(std::future::pending::<()>).post(std::future::pending::<()>))
            .layer(from_fn_with_state(limits, limit))
    }

    async fn answer(router: Router, path: &str) -> Response {
        let request = Request::builder().uri(path).body(Body::empty()).unwrap();
        let Ok(response) = router.oneshot(request).await;
        response
    }

    #[tokio::test]
    async fn a_handler_that_panics_is_answered_for() {
        let response = answer(router(Duration::MAX), "/panics").await;
        assert_eq!(response.status(), 500);
        assert!(response.extensions().get::<Fault>().is_some());
    }

    #[tokio::test]
    async fn a_handler_that_never_ends_is_ended() {
        let response = answer(router(Duration::ZERO), "/waits").await;
        assert_eq!(response.status(), 503);
        assert!(response.headers().contains_key("retry-after"));
    }

    async fn leaves(request: Request) {
        request.extensions().get::<Room>().expect("the limit has put it there").leave();
        std::future::pending::<()>().await;
    }

    #[tokio::test]
    async fn whoever_leaves_the_room_makes_room_for_others() {
        let router = router(Duration::MAX);
        let mut waits = Box::pin(answer(router.clone(), "/leaves"));
        assert!(futures::poll!(&mut waits).is_pending());
        assert_eq!(answer(router, "/panics").await.status(), 500);
    }

    #[tokio::test]
    async fn what_finds_no_room_is_shed_and_room_is_given_back() {
        let router = router(Duration::MAX);
        let mut waits = Box::pin(answer(router.clone(), "/waits"));
        assert!(futures::poll!(&mut waits).is_pending());
        let shed = answer(router.clone(), "/panics").await;
        let post = Request::post("/waits").body(Body::empty()).unwrap();
        let mut sends = Box::pin(router.clone().oneshot(post));
        assert!(futures::poll!(&mut sends).is_pending(), "who sends has other room");
        assert_eq!(shed.status(), 429);
        assert!(shed.headers().contains_key("retry-after"));
        drop(waits);
        assert_eq!(answer(router, "/panics").await.status(), 500);
    }
}
