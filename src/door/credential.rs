//! Credentials: the key that a request shows, in whichever way its client can.
//!
//! Taken are `Authorization: Bearer`, the password of `Authorization: Basic`, `x-api-key`, and one header of the server's own choice;
//! where that is `authorization` itself, a key without a scheme is taken there too.
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
        let takes_raw = own == Some(&AUTHORIZATION);
        let names = [Some(&API_KEY), own.filter(|_| !takes_raw)];
        let bare = names.into_iter().flatten();
        let bare = bare.flat_map(|name| headers.get_all(name)).map(|value| {
            value.to_str().map_or(Self::Unreadable, |text| Self::Text(text.trim().to_owned()))
        });
        let authorized = headers.get_all(AUTHORIZATION).iter().map(|value| {
            let key = value.to_str().ok().and_then(|value| find_authorized(value, takes_raw));
            key.map_or(Self::Unreadable, Self::Text)
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

/// The key in an Authorization header, also one without a scheme where such are taken.
fn find_authorized(value: &str, takes_raw: bool) -> Option<String> {
    let value = value.trim();
    let Some((scheme, rest)) = value.split_once(' ') else {
        return Some(value.to_owned()).filter(|_| takes_raw);
    };
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
        shown_in("x-n8n-key", headers)
    }

    fn shown_in(own: &'static str, headers: &[(&str, &str)]) -> Option<String> {
        let own = HeaderName::from_static(own);
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
    fn where_authorization_itself_is_chosen_a_key_may_stand_there_alone() {
        let basic = format!("Basic {}", STANDARD.encode("anybody:lh_k"));
        for (value, expected) in [
            ("lh_k", "lh_k"),
            ("Bearer lh_k", "lh_k"),
            (&basic, "lh_k"),
            ("Digest lh_k", "unreadable"),
        ] {
            let told = shown_in("authorization", &[("authorization", value)]);
            assert_eq!(told.as_deref(), Some(expected), "{value}");
        }
        let two = [("authorization", "lh_a"), ("x-api-key", "lh_b")];
        assert_eq!(shown_in("authorization", &two).as_deref(), Some("unreadable"));
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
