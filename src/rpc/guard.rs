//! What stands before every call of the service: a span, a limit of calls at once, a limit of time, a net for panics.
//!
//! In goes any HTTP/2 request, out comes the answer of the routes or a status of ours.
//! Health and reflection are never shed, so that a server under load can still be looked at.
//! Time runs from the first byte of the head, so that a message that trickles is cut as well; a client's deadline may shorten it.
//! Every refusal that tonic makes by itself is put into the form that the proto promises.

use std::convert::Infallible;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::{Request, Response};
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
use super::deadline::{Deadline, timeout_of};
use super::service::JobServer;
use crate::door::Leash;
use crate::door::table::RPCS;
use crate::telemetry;

const ACCEPT_ENCODING: &str = "grpc-accept-encoding";

/// The layer that puts a guard before the routes.
#[derive(Clone, Debug)]
pub struct GuardLayer {
    calls: Arc<Semaphore>,
    request_timeout: Duration,
    message_bytes_max: usize,
}

impl GuardLayer {
    /// A guard with the limits of these settings, shared by all connections.
    pub fn new(settings: &RpcSettings) -> Self {
        Self {
            calls: Arc::new(Semaphore::new(settings.requests_max.min(Semaphore::MAX_PERMITS))),
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

    /// How long the answer to this request may take to begin, with a deadline among its extensions if the client has one.
    fn time(&self, method: &str, request: &mut Request<Body>) -> Duration {
        let own = self.timeout(method);
        let Some(asked) = timeout_of(request.headers()) else { return own };
        // What is too far away is as good as none.
        if let Some(at) = Instant::now().checked_add(asked) {
            request.extensions_mut().insert(Deadline(at));
        }
        own.min(asked)
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
    S::Future: Send,
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
            if (service, method) == ("grpc.health.v1.Health", "Watch") {
                leash.iter().for_each(Leash::set_free);
            }
            let time = self.layer.time(method, &mut request);
            let answered = tokio::time::timeout(time, self.routes.call(request));
            let answer = answered.map(|answered| match answered {
                Ok(answer) => answer,
                Err(_late) => Ok(status::timed_out().into_http()),
            });
            return answer.boxed();
        }
        if service != JobServer::NAME {
            let refusal = status::unimplemented("there is no such service").into_http();
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
                Some(leash) => leash.keep(permit),
                None => drop(permit),
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
mod tests {
    use axum::Router;
    use axum::routing::post;
    use http::StatusCode;
    use tonic::service::Routes;
    use tonic_types::StatusExt as _;
    use tower::ServiceExt as _;

    use super::*;
    use crate::domain::reason::Reason;

    const SUBMIT: &str = "/longhaul.v1.JobService/SubmitJob";

    async fn call(routes: Router, settings: &RpcSettings, path: &str) -> Response<Body> {
        let guard = GuardLayer::new(settings).layer(Routes::from(routes));
        let request = Request::post(path).body(Body::empty()).unwrap();
        guard.oneshot(request).await.unwrap()
    }

    async fn refused(routes: Router, settings: &RpcSettings) -> (Code, String) {
        let response = call(routes, settings, SUBMIT).await;
        let status = Status::from_header_map(response.headers()).unwrap();
        (status.code(), status.get_error_details().error_info().unwrap().reason.clone())
    }

    fn answering(status: Status) -> Router {
        Router::new().route(SUBMIT, post(async move || status.into_http::<axum::body::Body>()))
    }

    #[tokio::test]
    async fn a_panic_is_a_fault_of_the_server() {
        async fn panicking() -> StatusCode {
            panic!("as the test wants it")
        }
        let routes = Router::new().route(SUBMIT, post(panicking));
        let expected = (Code::Internal, "INTERNAL".to_owned());
        assert_eq!(refused(routes, &RpcSettings::default()).await, expected);
    }

    #[tokio::test]
    async fn a_call_that_takes_too_long_is_ended() {
        let routes = Router::new().route(SUBMIT, post(std::future::pending::<StatusCode>));
        let request_timeout = Duration::from_millis(1);
        let settings = RpcSettings { request_timeout, ..RpcSettings::default() };
        assert_eq!(refused(routes, &settings).await.0, Code::DeadlineExceeded);
    }

    #[tokio::test]
    async fn calls_beyond_the_limit_are_shed_and_health_is_not() {
        let settings = RpcSettings { requests_max: 0, ..RpcSettings::default() };
        let expected = (Code::ResourceExhausted, "OVERLOADED".to_owned());
        assert_eq!(refused(Router::new(), &settings).await, expected);
        let health = "/grpc.health.v1.Health/Check";
        let routes = Router::new().route(health, post(async || StatusCode::OK));
        assert!(!call(routes, &settings, health).await.headers().contains_key("grpc-status"));
    }

    #[tokio::test]
    async fn what_is_not_there_is_told_as_such_and_named_nowhere() {
        let expected = (Code::Unimplemented, "UNIMPLEMENTED".to_owned());
        let compressed = answering(Status::unimplemented("no such compression"));
        assert_eq!(refused(compressed, &RpcSettings::default()).await, expected);
        for path in ["/longhaul.v1.JobService/Explode", "/longhaul.v2.JobService/SubmitJob", "/x"] {
            let routes = Router::new()
                .fallback(async || Status::unimplemented("").into_http::<axum::body::Body>());
            let response = call(routes, &RpcSettings::default(), path).await;
            let status = Status::from_header_map(response.headers()).unwrap();
            assert_eq!(status.code(), Code::Unimplemented, "{path}");
            let details = status.get_error_details();
            assert_eq!(details.error_info().unwrap().reason, "UNIMPLEMENTED", "{path}");
        }
    }

    #[test]
    fn every_method_of_the_service_is_known() {
        let proto = include_str!("../../proto/longhaul/v1/job_service.proto");
        let named = proto.lines().filter_map(|line| line.trim().strip_prefix("rpc "));
        let named = named.filter_map(|line| line.split_once('(')).map(|(name, _)| name);
        let (mut named, mut known) =
            (named.collect::<Vec<_>>(), RPCS.map(|(name, _)| name).to_vec());
        named.sort_unstable();
        known.sort_unstable();
        assert_eq!(named, known);
    }

    #[tokio::test]
    async fn what_tonic_cannot_read_is_an_invalid_request() {
        let invalid = (Code::InvalidArgument, "INVALID_REQUEST".to_owned());
        for status in [Status::out_of_range("too long"), Status::internal("not a message")] {
            assert_eq!(refused(answering(status), &RpcSettings::default()).await, invalid);
        }
        for code in 1..=16 {
            let status = Status::new(Code::from_i32(code), "of tonic's own");
            let response = call(answering(status), &RpcSettings::default(), SUBMIT).await;
            let status = Status::from_header_map(response.headers()).unwrap();
            let reason = status.get_error_details().error_info().unwrap().reason.clone();
            let reason = Reason::ALL.iter().find(|known| known.word() == reason);
            assert_eq!(
                reason.map(|reason| status::code_of(*reason)),
                Some(status.code()),
                "{code}"
            );
        }
        let ours = refused(answering(status::internal()), &RpcSettings::default()).await;
        assert_eq!(ours, (Code::Internal, "INTERNAL".to_owned()));
    }
}
