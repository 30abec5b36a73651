//! What stands before every call of the service: a span, a limit of calls at once, a limit of time, a net for panics.
//!
//! In goes any HTTP/2 request, out comes the answer of the routes or a status of ours.
//! A look at health is never shed, so that a server under load can still be looked at; what anybody may hold for longer is bounded.
//! Time runs from the first byte of the head, so that a message that trickles is cut as well; a client's deadline may shorten it.
//! Every refusal that tonic makes by itself is put into the form that the proto promises.

use std::convert::Infallible;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::{HeaderMap, Request, Response, StatusCode, header};
use tokio::sync::Semaphore;
use tokio::time::Instant;
use tonic::body::Body;
use tonic::server::NamedService as _;
use tonic::{Code, Status};
use tower::{Layer, Service};
use tracing::{Instrument as _, Span};

use super::RpcSettings;
use super::convert::request::WAIT_SECONDS_MAX;
use super::convert::status;
use super::deadline::{Cutoff, Deadline, timeout_of};
use super::place::Place;
use super::service::JobServer;
use crate::door::Leash;
use crate::door::table::RPCS;
use crate::telemetry;

const ACCEPT_ENCODING: &str = "grpc-accept-encoding";

/// The most watches of health and talks with reflection at once, which need no key and keep nobody else out.
const TALKS_MAX: usize = 16_384;

/// The layer that puts a guard before the routes.
#[derive(Clone, Debug)]
pub struct GuardLayer {
    calls: Arc<Semaphore>,
    talks: Arc<Semaphore>,
    request_timeout: Duration,
    message_bytes_max: usize,
}

impl GuardLayer {
    /// A guard with the limits of these settings, shared by all connections.
    pub fn new(settings: &RpcSettings) -> Self {
        Self {
            calls: Arc::new(Semaphore::new(settings.requests_max.min(Semaphore::MAX_PERMITS))),
            talks: Arc::new(Semaphore::new(TALKS_MAX)),
            request_timeout: settings.request_timeout,
            message_bytes_max: settings.message_bytes_max,
        }
    }

    /// How long the answer to a method may take to begin.
    fn timeout(&self, method: &str) -> Duration {
        match method {
            // What it waits for is in its message, which the service reads.
            "GetJob" => {
                let wait = Duration::from_secs(WAIT_SECONDS_MAX.unsigned_abs().into());
                self.request_timeout + wait
            }
            _ => self.request_timeout,
        }
    }

    /// How long the answer to this request may take to begin; when that is, and when the client's deadline is if it has one, is then among its extensions.
    fn time(&self, method: &str, request: &mut Request<Body>) -> Duration {
        let (own, asked) = (self.timeout(method), timeout_of(request.headers()));
        let (now, time) = (Instant::now(), asked.map_or(own, |asked| own.min(asked)));
        // What is too far away is as good as none.
        if let Some(at) = asked.and_then(|asked| now.checked_add(asked)) {
            request.extensions_mut().insert(Deadline(at));
        }
        if let Some(at) = now.checked_add(time) {
            request.extensions_mut().insert(Cutoff(at));
        }
        time
    }
}

impl<S> Layer<S> for GuardLayer {
    type Service = Guard<S>;

    fn layer(&self, routes: S) -> Guard<S> {
        Guard { layer: self.clone(), routes }
    }
}

/// The routes behind their guard.
#[derive(Clone, Debug)]
pub struct Guard<S> {
    layer: GuardLayer,
    routes: S,
}

impl<S> Service<Request<Body>> for Guard<S>
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible>,
    S: Clone + Send + 'static,
    S::Future: Send + 'static,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Response<Body>, Infallible>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.routes.poll_ready(context)
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        let leash = request.extensions().get::<Leash>().cloned();
        let path = request.uri().path().to_owned();
        let named = path.strip_prefix('/').and_then(|path| path.split_once('/'));
        let (service, method) = named.unwrap_or_default();
        // Health and reflection.
        if service.starts_with("grpc.") {
            return self.answer_anybody(request, leash, (service, method));
        }
        if service != JobServer::NAME {
            let refusal = status::unimplemented("there is no such service").into_http();
            return futures::future::ready(Ok(refusal)).boxed();
        }
        if !is_grpc(request.headers()) {
            let mut refusal = Response::new(Body::empty());
            *refusal.status_mut() = StatusCode::UNSUPPORTED_MEDIA_TYPE;
            return futures::future::ready(Ok(refusal)).boxed();
        }
        // Anybody can make up names, and no store of traces is made for endlessly many.
        let known = RPCS.iter().map(|(known, _)| *known).find(|known| *known == method);
        let method = known.unwrap_or("unknown");
        let span = tracing::info_span!(
            "rpc",
            otel.name = format!("{service}/{method}"),
            otel.kind = "server",
            otel.status_code = tracing::field::Empty,
            rpc.system = "grpc",
            rpc.service = service,
            rpc.method = method,
            rpc.grpc.status_code = tracing::field::Empty,
        );
        telemetry::accept(&span, request.headers());
        let Ok(permit) = self.layer.calls.clone().try_acquire_owned() else {
            return futures::future::ready(Ok(refuse(&span, &status::overloaded()))).boxed();
        };
        let place = Place::new(permit);
        request.extensions_mut().insert(place.clone());
        let (time, bytes_max) =
            (self.layer.time(method, &mut request), self.layer.message_bytes_max);
        let mut routes = self.routes.clone();
        let answer = async move {
            let answer = AssertUnwindSafe(async move { routes.call(request).await }).catch_unwind();
            let answered = tokio::time::timeout(time, answer).await;
            match leash {
                // Watches are counted apart, by the service, and may take for ever.
                Some(leash) if method == "WatchJob" => leash.set_free(),
                // An answer that is not taken still takes room.
                Some(leash) => leash.keep(place),
                None => drop(place),
            }
            let span = Span::current();
            Ok(match answered {
                Ok(Ok(Ok(response))) => complete(&span, response, bytes_max),
                Ok(Err(_)) => {
                    tracing::error!("a call panicked");
                    refuse(&span, &status::internal())
                }
                Err(_) => refuse(&span, &status::timed_out()),
            })
        };
        answer.instrument(span).boxed()
    }
}

impl<S> Guard<S>
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible>,
    S::Future: Send + 'static,
{
    /// Answers what needs no key: health and reflection.
    fn answer_anybody(
        &mut self,
        mut request: Request<Body>,
        leash: Option<Leash>,
        named: (&str, &str),
    ) -> BoxFuture<'static, Result<Response<Body>, Infallible>> {
        let place = Arc::clone(&self.layer.talks).try_acquire_owned();
        // Who only looks is gone at once, and finds room whoever else is there.
        let has_room = place.is_ok() || named == ("grpc.health.v1.Health", "Check");
        if !has_room || !leash.as_ref().is_none_or(Leash::take_strangers_place) {
            return futures::future::ready(Ok(status::overloaded().into_http())).boxed();
        }
        if let Some(leash) = leash {
            if named == ("grpc.health.v1.Health", "Watch") {
                leash.set_free();
            }
            leash.keep(place);
        }
        let time = self.layer.time(named.1, &mut request);
        let answered = tokio::time::timeout(time, self.routes.call(request));
        let answer = answered.map(|answered| match answered {
            Ok(answer) => answer,
            Err(_late) => Ok(status::timed_out().into_http()),
        });
        answer.boxed()
    }
}

/// Whether a request says of itself that it is gRPC.
///
/// A page of another origin may send forms and text without asking first, and with it the certificate of whoever looks at it.
fn is_grpc(headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE);
    kind.is_some_and(|kind| kind.as_bytes().starts_with(b"application/grpc"))
}

fn refuse(span: &Span, status: &Status) -> Response<Body> {
    record(span, status.code());
    status.clone().into_http()
}

/// The answer as it is, unless tonic refused the message before the service saw it.
fn complete(span: &Span, response: Response<Body>, bytes_max: usize) -> Response<Body> {
    let Some(found) = Status::from_header_map(response.headers()) else {
        record(span, Code::Ok);
        return response;
    };
    let is_ours = !found.details().is_empty();
    if is_ours {
        record(span, found.code());
        return response;
    }
    match found.code() {
        Code::OutOfRange | Code::ResourceExhausted => {
            let message = format!("the message must have at most {bytes_max} bytes");
            refuse(span, &status::unreadable(&message))
        }
        Code::Unimplemented => {
            let mut refusal = refuse(span, &status::unimplemented(found.message()));
            // Which compressions are spoken is told in a header.
            if let Some(spoken) = response.headers().get(ACCEPT_ENCODING) {
                refusal.headers_mut().insert(ACCEPT_ENCODING, spoken.clone());
            }
            refusal
        }
        Code::Ok => {
            record(span, Code::Ok);
            response
        }
        Code::DeadlineExceeded => refuse(span, &status::timed_out()),
        Code::Unavailable => refuse(span, &status::stopping()),
        // Before the service sees a message there is nothing else that can go wrong with it.
        Code::Internal
        | Code::Cancelled
        | Code::Unknown
        | Code::InvalidArgument
        | Code::NotFound
        | Code::AlreadyExists
        | Code::PermissionDenied
        | Code::FailedPrecondition
        | Code::Aborted
        | Code::DataLoss
        | Code::Unauthenticated => {
            refuse(span, &status::unreadable("the message could not be read"))
        }
    }
}

/// Notes how the call went; what the client did wrong is no error of this server.
fn record(span: &Span, code: Code) {
    span.record("rpc.grpc.status_code", i32::from(code));
    let is_ours = matches!(
        code,
        Code::Unknown
            | Code::DeadlineExceeded
            | Code::Unimplemented
            | Code::Internal
            | Code::Unavailable
            | Code::DataLoss
    );
    if is_ours {
        span.record("otel.status_code", "ERROR");
    }
}

#[cfg(test)]
mod tests;
