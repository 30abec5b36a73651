//! Origins: from which pages browsers may call over gRPC-Web.
//!
//! In go the origins of the configuration, out comes the layer that tells browsers so.
//! It is the browser that keeps others from reading, and from calling with a type that is gRPC's; the guard refuses all other types.
//! Programs need no origin and are let in by the gate.

use std::time::Duration;

use http::{HeaderName, HeaderValue, Method, Uri};
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
    /// Reads `*`, or origins with commas between; nothing, if one of them is none.
    pub fn find(text: &str) -> Option<Self> {
        let mut named = text.split(',').map(str::trim).filter(|one| !one.is_empty()).peekable();
        named.peek()?;
        let named: Vec<&str> = named.collect();
        if named == ["*"] {
            return Some(Self::Any);
        }
        named.into_iter().map(find_origin).collect::<Option<Vec<_>>>().map(Self::These)
    }

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

/// An origin as browsers write it: scheme, host and port, and nothing behind.
fn find_origin(text: &str) -> Option<HeaderValue> {
    let uri: Uri = text.parse().ok()?;
    let is_web = matches!(uri.scheme_str(), Some("http" | "https"));
    let plain = format!("{}://{}", uri.scheme_str()?, uri.authority()?).to_ascii_lowercase();
    let is_bare = text == plain && !text.contains('@');
    (is_web && is_bare).then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origins_are_read_as_browsers_write_them() {
        assert_eq!(Origins::find("*"), Some(Origins::Any));
        let two = Origins::find("https://a.example, http://127.0.0.1:5173");
        let expected = ["https://a.example", "http://127.0.0.1:5173"].map(HeaderValue::from_static);
        assert_eq!(two, Some(Origins::These(expected.to_vec())));
        for bad in [
            "",
            ",",
            "a.example",
            "https://a.example/",
            "https://A.example",
            "ftp://a",
            "*,https://a",
        ] {
            assert_eq!(Origins::find(bad), None, "{bad:?}");
        }
    }
}
