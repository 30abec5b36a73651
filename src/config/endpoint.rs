//! The endpoints of the address book: where they are, what proves that we are who calls, and what they are told.
//!
//! Every mistake is told by its place and without what stands there, which may be a secret.

use std::time::Duration;

use secrecy::{ExposeSecret as _, SecretString};
use serde::Deserialize;

use super::Reader;
use super::book::NAME;
use crate::domain::book::Listener;
use crate::domain::event::NoticeKind;
use crate::domain::word::Word as _;
use crate::notify::endpoint::{EndpointSettings, Header, Secret, Success, Template, find_url};

const TIMEOUT_SECONDS: u64 = 10;
/// Well under the time after which a try counts as lost.
const TIMEOUT_SECONDS_MAX: u64 = 30;

/// An endpoint as it is written.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct WrittenEndpoint {
    url: Option<SecretString>,
    url_file: Option<String>,
    secret: Option<SecretString>,
    secret_file: Option<String>,
    secret_old: Option<SecretString>,
    secret_old_file: Option<String>,
    header: Option<SecretString>,
    header_file: Option<String>,
    events: Option<Vec<String>>,
    always: bool,
    body: Option<String>,
    success: Option<String>,
    timeout_seconds: Option<u64>,
}

impl WrittenEndpoint {
    /// Whether its receiver can know that we call. A chat's address is its own secret; our own form needs a proof.
    fn is_proven(&self) -> bool {
        let has_secret = self.secret.is_some() || self.secret_file.is_some();
        let has_header = self.header.is_some() || self.header_file.is_some();
        has_secret || has_header || self.body.is_some()
    }
}

impl<F: Fn(&str) -> Option<String>> Reader<F> {
    /// What an endpoint is told, and how it is reached if that is known.
    pub(super) fn endpoint(
        &mut self,
        name: &str,
        written: WrittenEndpoint,
    ) -> (Listener, Option<EndpointSettings>) {
        let place = format!("{NAME}: endpoints.{name}");
        let is_proven = written.is_proven();
        let has_secret = written.secret.is_some() || written.secret_file.is_some();
        let listener =
            Listener { events: self.events(&place, written.events), always: written.always };
        let url = self.address(&place, (written.url, written.url_file));
        let secret = self.kept(&place, "secret", (written.secret, written.secret_file));
        let old = (written.secret_old, written.secret_old_file);
        let old = self.kept(&place, "secret_old", old);
        let header = self.kept(&place, "header", (written.header, written.header_file));
        if old.is_some() && !has_secret {
            self.mistake(&format!("{place}.secret_old says nothing without a secret"));
        }
        if !is_proven {
            self.mistake(&format!("{place} must have a secret, a header or a body"));
        }
        let secrets = [("secret", secret), ("secret_old", old)];
        let secrets = secrets.map(|(field, text)| self.signer(&place, field, text));
        let header = header.and_then(|text| {
            let header = Header::parse(text.expose_secret());
            if header.is_none() {
                self.mistake(&format!("{place}.header must be such as `Authorization: Bearer …`"));
            }
            header
        });
        let body = written.body.and_then(|text| match Template::parse(&text) {
            Ok(template) => Some(template),
            Err(fault) => {
                self.mistake(&format!("{place}.body {fault}"));
                None
            }
        });
        let success = written.success.and_then(|text| {
            let success = Success::parse(&text);
            if success.is_none() {
                self.mistake(&format!("{place}.success must be such as `/code=0`"));
            }
            success
        });
        let seconds = written.timeout_seconds.unwrap_or(TIMEOUT_SECONDS);
        if !(1..=TIMEOUT_SECONDS_MAX).contains(&seconds) {
            self.mistake(&format!(
                "{place}.timeout_seconds must be from 1 to {TIMEOUT_SECONDS_MAX}, is {seconds}"
            ));
        }
        let settings = url.map(|url| EndpointSettings {
            name: name.to_owned(),
            url,
            secrets: secrets.into_iter().flatten().collect(),
            header,
            body,
            success,
            timeout: Duration::from_secs(seconds),
        });
        (listener, settings)
    }

    fn events(&mut self, place: &str, words: Option<Vec<String>>) -> Vec<NoticeKind> {
        let Some(words) = words else { return NoticeKind::USUAL_FOR_ENDPOINTS.to_vec() };
        let mut events = Vec::new();
        for (at, word) in words.iter().enumerate() {
            let kind = NoticeKind::find_by_word(word);
            match kind.filter(|kind| NoticeKind::FOR_ENDPOINTS.contains(kind)) {
                Some(kind) if !events.contains(&kind) => events.push(kind),
                Some(_) => self.mistake(&format!("{place}.events[{at}] must not repeat {word:?}")),
                None => {
                    let known = NoticeKind::FOR_ENDPOINTS.map(|kind| kind.word()).join(", ");
                    self.mistake(&format!("{place}.events[{at}] must be one of {known}"));
                }
            }
        }
        if words.is_empty() {
            self.mistake(&format!("{place}.events must not be empty"));
        }
        events
    }

    /// A text that is written in the file itself, or in one of its own that it names.
    fn kept(
        &mut self,
        place: &str,
        field: &str,
        given: (Option<SecretString>, Option<String>),
    ) -> Option<SecretString> {
        match given {
            (Some(_), Some(_)) => {
                self.mistake(&format!("{place} must not have both {field} and {field}_file"));
                None
            }
            (Some(text), None) => Some(text),
            (None, Some(path)) => self.read_secret(&format!("{place}.{field}_file"), &path),
            (None, None) => None,
        }
    }

    fn signer(&mut self, place: &str, field: &str, text: Option<SecretString>) -> Option<Secret> {
        let secret = Secret::parse(text?.expose_secret());
        if secret.is_none() {
            self.mistake(&format!(
                "{place}.{field} must be `whsec_` and base64 of 24 to 64 random bytes"
            ));
        }
        secret
    }

    fn address(
        &mut self,
        place: &str,
        given: (Option<SecretString>, Option<String>),
    ) -> Option<SecretString> {
        let before = self.mistakes.len();
        let url = self.kept(place, "url", given);
        let url = url.filter(|url| find_url(url.expose_secret()).is_some());
        if url.is_none() && self.mistakes.len() == before {
            self.mistake(&format!(
                "{place}.url must be an http or https address without a user name, a password or `#`"
            ));
        }
        url
    }
}
