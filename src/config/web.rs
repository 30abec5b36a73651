//! How the webhooks behave: under which path, for whose pages, how large and how strict.

use std::sync::Arc;

use http::{HeaderValue, Uri};

use super::Reader;
use crate::rpc::Origins;

/// First parts of paths that mean something else here.
const TAKEN: [&str; 4] = ["approvals", "healthz", "openapi.json", "webhook"];

impl<F: Fn(&str) -> Option<String>> Reader<F> {
    /// True or false; false if nothing is said.
    pub(super) fn switch(&mut self, name: &str) -> bool {
        match self.text(name).as_deref() {
            None | Some("false" | "0") => false,
            Some("true" | "1") => true,
            Some(other) => {
                self.mistake(&format!("{name} must be `true` or `false`, is {other:?}"));
                false
            }
        }
    }

    /// The path under which n8n had its webhooks, without slashes at its ends.
    pub(super) fn webhook_prefix(&mut self, name: &str) -> String {
        let usual = "webhook".to_owned();
        let Some(text) = self.text(name) else { return usual };
        let prefix = text.trim_matches('/');
        let is_part = |part: &str| {
            let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.~".contains(c);
            !part.is_empty() && part.chars().all(is_plain) && part.chars().any(|c| c != '.')
        };
        let first = prefix.split('/').next().unwrap_or_default();
        let is_free = prefix == usual || !TAKEN.contains(&first);
        if !prefix.split('/').all(is_part) || !is_free {
            self.mistake(&format!(
                "{name} must be a path of letters, digits and `-_.~` that nothing else here has, is {text:?}"
            ));
            return usual;
        }
        prefix.to_owned()
    }

    /// Origins of pages, as browsers write them.
    pub(super) fn origins(&mut self, name: &str) -> Arc<[HeaderValue]> {
        let text = self.text(name).unwrap_or_default();
        self.read_origins(name, "", &text).into()
    }

    /// From where browsers may come over gRPC-Web: such origins, or anywhere.
    pub(super) fn web_origins(&mut self, name: &str) -> Option<Origins> {
        let text = self.text(name)?;
        if text.trim() == "*" {
            return Some(Origins::Any);
        }
        let origins = self.read_origins(name, "`*`, or ", &text);
        (!origins.is_empty()).then_some(Origins::These(origins))
    }

    fn read_origins(&mut self, name: &str, or: &str, text: &str) -> Vec<HeaderValue> {
        let mut origins = Vec::new();
        for one in text.split(',').map(str::trim).filter(|one| !one.is_empty()) {
            match read_origin(one) {
                Some(origin) => origins.push(origin),
                None => self.mistake(&format!(
                    "{name} must be {or}origins such as https://app.example.com, separated by commas; {one:?} is none"
                )),
            }
        }
        origins
    }
}

/// An origin in the one way in which browsers write it: lower-case, without the port that its scheme has anyway.
fn read_origin(text: &str) -> Option<HeaderValue> {
    let uri: Uri = text.parse().ok()?;
    let scheme = uri.scheme_str().filter(|scheme| ["http", "https"].contains(scheme))?;
    let authority = uri.authority().filter(|authority| !authority.as_str().contains('@'))?;
    if uri.path() != "/" || uri.query().is_some() {
        return None;
    }
    let own_port = if scheme == "https" { ":443" } else { ":80" };
    let host = authority.as_str().to_ascii_lowercase();
    let host = host.strip_suffix(own_port).unwrap_or(&host);
    HeaderValue::from_str(&format!("{scheme}://{host}")).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_faces_read_the_same_origins_and_one_takes_any() {
        for (text, expected) in [
            ("HTTPS://A.example:443/, http://127.0.0.1:5173", Some(2)),
            (" * ", None),
            (" , ", Some(0)),
            ("*,https://a.example", Some(1)),
        ] {
            let mut reader = Reader::new(|_: &str| Some(text.to_owned()));
            let named = reader.origins("A");
            match (reader.web_origins("A"), expected) {
                (Some(Origins::Any), None) | (None, Some(0)) => assert_eq!(named.len(), 0),
                (Some(Origins::These(origins)), Some(count)) => {
                    assert_eq!((&*origins, origins.len()), (&*named, count));
                }
                (other, _) => panic!("{text:?} is read as {other:?}"),
            }
        }
    }

    #[test]
    fn an_origin_is_written_as_browsers_write_it() {
        for (text, expected) in [
            ("https://app.example.com", Some("https://app.example.com")),
            ("HTTPS://App.example.com:443/", Some("https://app.example.com")),
            ("http://localhost:3000", Some("http://localhost:3000")),
            ("http://[::1]:80", Some("http://[::1]")),
            ("*", None),
            ("null", None),
            ("app.example.com", None),
            ("https://app.example.com/path", None),
            ("https://user@app.example.com", None),
            ("file:///x", None),
        ] {
            let read = read_origin(text);
            assert_eq!(read.as_ref().and_then(|origin| origin.to_str().ok()), expected, "{text}");
        }
    }
}
