//! Credentials: the key that a request shows, in whichever way its client can.
//!
//! Taken are `Authorization: Bearer`, the password of `Authorization: Basic`, `x-api-key`, and one header of the server's own choice.
//! A request that shows two different keys shows none that can be judged.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use http::HeaderMap;
use http::header::{AUTHORIZATION, HeaderName};

/// The standard one of the headers that hold nothing but a key.
const API_KEY: HeaderName = HeaderName::from_static("x-api-key");

/// What a request shows.
#[derive(Clone, PartialEq, Eq)]
pub enum Shown {
    /// Nothing.
    Nothing,
    /// What should be a key.
    Text(String),
    /// Something that cannot be one.
    Unreadable,
}

impl Shown {
    /// What these headers show; `own` is the header of the server's own choice.
    pub fn by(headers: &HeaderMap, own: Option<&HeaderName>) -> Self {
        let names = [Some(&API_KEY), own];
        let bare = names.into_iter().flatten();
        let bare = bare.flat_map(|name| headers.get_all(name)).map(|value| {
            value.to_str().map_or(Self::Unreadable, |text| Self::Text(text.trim().to_owned()))
        });
        let authorizations =
            headers.get_all(AUTHORIZATION).iter().filter(|_| own != Some(&AUTHORIZATION));
        let authorized = authorizations.map(|value| {
            value.to_str().ok().and_then(find_authorized).map_or(Self::Unreadable, Self::Text)
        });
        let mut shown = Self::Nothing;
        for one in bare.chain(authorized) {
            shown = match shown {
                Self::Nothing => one,
                same if same == one => same,
                Self::Text(_) | Self::Unreadable => return Self::Unreadable,
            };
        }
        shown
    }
}

/// The key in an Authorization header.
fn find_authorized(value: &str) -> Option<String> {
    let (scheme, rest) = value.trim().split_once(' ')?;
    let rest = rest.trim();
    if scheme.eq_ignore_ascii_case("bearer") {
        return Some(rest.to_owned());
    }
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let pair = String::from_utf8(STANDARD.decode(rest).ok()?).ok()?;
    // The name of the user may be anything, and holds no colon.
    pair.split_once(':').map(|(_user, password)| password.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(headers: &[(&str, &str)]) -> Option<String> {
        let own = HeaderName::from_static("x-n8n-key");
        let headers = headers.iter().map(|(name, value)| {
            (name.parse::<HeaderName>().expect("a name"), value.parse().expect("a value"))
        });
        match Shown::by(&headers.collect(), Some(&own)) {
            Shown::Nothing => None,
            Shown::Text(text) => Some(text),
            Shown::Unreadable => Some("unreadable".to_owned()),
        }
    }

    #[test]
    fn every_way_of_showing_a_key_is_read() {
        let basic = format!("Basic {}", STANDARD.encode("anybody:lh_k:y"));
        for headers in [
            &[("authorization", "Bearer lh_k:y")][..],
            &[("authorization", "bearer  lh_k:y ")],
            &[("authorization", &basic)],
            &[("x-api-key", "lh_k:y")],
            &[("x-n8n-key", " lh_k:y")],
            &[("x-api-key", "lh_k:y"), ("authorization", &basic)],
        ] {
            assert_eq!(shown(headers).as_deref(), Some("lh_k:y"), "{headers:?}");
        }
        assert_eq!(shown(&[("accept", "*/*")]), None);
    }

    #[test]
    fn what_cannot_be_judged_is_no_key() {
        for headers in [
            &[("authorization", "lh_key")][..],
            &[("authorization", "Digest lh_key")],
            &[("authorization", "Basic lh_key")],
            &[("authorization", "Basic bm9wYXNzd29yZA==")],
            &[("x-api-key", "lh_a"), ("x-api-key", "lh_b")],
            &[("x-api-key", "lh_a"), ("authorization", "Bearer lh_b")],
        ] {
            assert_eq!(shown(headers).as_deref(), Some("unreadable"), "{headers:?}");
        }
    }
}
