//! The guard before routes that answer as a test wants it.

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
    let request = Request::post(path).header(header::CONTENT_TYPE, "application/grpc+proto");
    let request = request.body(Body::empty()).unwrap();
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
    let proto = include_str!("../../../proto/longhaul/v1/job_service.proto");
    let named = proto.lines().filter_map(|line| line.trim().strip_prefix("rpc "));
    let named = named.filter_map(|line| line.split_once('(')).map(|(name, _)| name);
    let (mut named, mut known) = (named.collect::<Vec<_>>(), RPCS.map(|(name, _)| name).to_vec());
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
        assert_eq!(reason.map(|reason| status::code_of(*reason)), Some(status.code()), "{code}");
    }
    let ours = refused(answering(status::internal()), &RpcSettings::default()).await;
    assert_eq!(ours, (Code::Internal, "INTERNAL".to_owned()));
}

#[tokio::test]
async fn what_a_page_may_send_without_asking_is_no_call() {
    let routes = || Router::new().route(SUBMIT, post(async || StatusCode::OK));
    let forms =
        ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", ""];
    for kind in forms.map(Some).into_iter().chain([None]) {
        let guard = GuardLayer::new(&RpcSettings::default()).layer(Routes::from(routes()));
        let mut request = Request::post(SUBMIT).body(Body::empty()).unwrap();
        if let Some(kind) = kind {
            request.headers_mut().insert(header::CONTENT_TYPE, kind.parse().unwrap());
        }
        let refused = guard.oneshot(request).await.unwrap();
        assert_eq!(refused.status(), StatusCode::UNSUPPORTED_MEDIA_TYPE, "{kind:?}");
    }
    let taken = call(routes(), &RpcSettings::default(), SUBMIT).await;
    assert_eq!(taken.status(), StatusCode::OK);
}

#[test]
fn when_an_answer_must_have_begun_is_the_earlier_of_two_deadlines() {
    let guard = GuardLayer::new(&RpcSettings::default());
    for (asked, most) in [("7S", 7), ("1H", 30), ("99999999H", 30)] {
        let request = Request::post(SUBMIT).header("grpc-timeout", asked);
        let mut request = request.body(Body::empty()).unwrap();
        let most = Duration::from_secs(most);
        assert_eq!(guard.time("SubmitJob", &mut request), most, "{asked}");
        let Cutoff(at) = *request.extensions().get::<Cutoff>().unwrap();
        let left = at.saturating_duration_since(Instant::now());
        assert!(most < left + Duration::from_secs(1) && left <= most, "{asked}: {left:?}");
    }
}
