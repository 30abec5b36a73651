//! Sharing with pages of other origins: whose browser code may call the webhooks and read what they answer.
//!
//! Only origins that were named may, and never with cookies, of which there are none here: a key is what gives the right.
//! The approval page is shared with nobody. It stands before the gate, so that a refusal can be read as well.
//! The common layer of tower answers every OPTIONS with 200; here one that is no preflight is a method like any other,
//! and a preflight is answered with 204, as n8n does.

use std::sync::Arc;

use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};

/// How long a browser may remember what it was told, in seconds: as long as n8n says.
const MAX_AGE: HeaderValue = HeaderValue::from_static("300");
const METHODS: HeaderValue = HeaderValue::from_static("GET, POST");
const TOLD: HeaderValue = HeaderValue::from_static("Allow, Retry-After, WWW-Authenticate");

/// With whom is shared.
pub(super) struct Cors {
    origins: Arc<[HeaderValue]>,
    headers: HeaderValue,
}

impl Cors {
    /// With these origins; the header that may hold a key is allowed beside the usual ones.
    pub(super) fn new(origins: Arc<[HeaderValue]>, key_header: Option<&HeaderName>) -> Arc<Self> {
        let own = key_header.map(|name| format!(", {name}")).unwrap_or_default();
        let usual = "authorization, content-encoding, content-type, traceparent, x-api-key";
        let headers = HeaderValue::from_str(&format!("{usual}{own}"));
        let headers = headers.expect("names of headers are printable ASCII");
        Arc::new(Self { origins, headers })
    }

    fn share(&self, headers: &mut HeaderMap, origin: Option<HeaderValue>) {
        if self.origins.is_empty() {
            return;
        }
        headers.append(header::VARY, HeaderValue::from_static("Origin"));
        if let Some(origin) = origin {
            headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
            headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, TOLD);
        }
    }
}

/// Answers preflights, and says with whom an answer is shared.
pub(super) async fn share(State(cors): State<Arc<Cors>>, request: Request, next: Next) -> Response {
    let matched = request.extensions().get::<MatchedPath>();
    if matched.is_some_and(|matched| matched.as_str().contains("/approvals")) {
        return next.run(request).await;
    }
    let origin = request.headers().get(header::ORIGIN);
    let origin = origin.filter(|origin| cors.origins.contains(origin)).cloned();
    let is_preflight = request.method() == Method::OPTIONS
        && request.headers().contains_key(header::ACCESS_CONTROL_REQUEST_METHOD);
    let mut response = if is_preflight && origin.is_some() && matched.is_some() {
        let mut response = StatusCode::NO_CONTENT.into_response();
        let headers = response.headers_mut();
        headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, METHODS);
        headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, cors.headers.clone());
        headers.insert(header::ACCESS_CONTROL_MAX_AGE, MAX_AGE);
        response
    } else {
        next.run(request).await
    };
    cors.share(response.headers_mut(), origin);
    response
}
