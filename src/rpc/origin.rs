//! Origins: from which pages browsers may call over gRPC-Web.
//!
//! In go the origins of the configuration, out comes the layer that tells browsers so.
//! It is the browser that keeps others from reading, and from calling with a type that is gRPC's; the guard refuses all other types.
//! Programs need no origin and are let in by the gate.

use std::time::Duration;

use http::{HeaderName, HeaderValue, Method};
use tower_http::cors::{AllowHeaders, AllowOrigin, CorsLayer};

/// How long a browser remembers what it may do.
const MAX_AGE: Duration = Duration::from_hours(2);
/// What an error is told in, which a page may not read unless that is said.
const EXPOSED: [HeaderName; 3] = [
    HeaderName::from_static("grpc-status"),
    HeaderName::from_static("grpc-message"),
    HeaderName::from_static("grpc-status-details-bin"),
];

/// From where browsers may come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origins {
    /// From anywhere.
    Any,
    /// From these pages, such as `https://jobs.example.com`.
    These(Vec<HeaderValue>),
}

impl Origins {
    /// What tells browsers so.
    pub(super) fn cors(&self) -> CorsLayer {
        let origins = match self {
            Self::Any => AllowOrigin::any(),
            Self::These(origins) => AllowOrigin::list(origins.iter().cloned()),
        };
        CorsLayer::new()
            .allow_origin(origins)
            .allow_methods([Method::POST])
            // Which metadata a client sends is its own affair.
            .allow_headers(AllowHeaders::mirror_request())
            .expose_headers(EXPOSED)
            .max_age(MAX_AGE)
    }
}
