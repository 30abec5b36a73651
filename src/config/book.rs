//! The file of the address book, TOML: people and endpoints by name. Every mistake in it is told at once, by its place.

use std::collections::BTreeMap;
use std::sync::Arc;

use chrono_tz::Tz;
use serde::Deserialize;

use super::Reader;
use super::endpoint::WrittenEndpoint;
use crate::domain::book::{Book, Person};
use crate::domain::language::{SPOKEN, is_spoken};
use crate::notify::endpoint::EndpointSettings;

pub(super) const NAME: &str = "LONGHAUL_ADDRESS_BOOK";

/// The file as it is written.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Written {
    people: BTreeMap<String, WrittenPerson>,
    endpoints: BTreeMap<String, WrittenEndpoint>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct WrittenPerson {
    phone: Option<String>,
    user_id: Option<String>,
    language: Option<String>,
    time_zone: Option<String>,
    endpoint: Option<String>,
}

impl<F: Fn(&str) -> Option<String>> Reader<F> {
    /// The address book, if one is named, and how its endpoints are reached; a bad one is a mistake.
    pub(super) fn book(&mut self) -> (Arc<Book>, Vec<EndpointSettings>) {
        let Some(path) = self.text(NAME) else { return Default::default() };
        let found = self.read_book(&path);
        self.has_faulty_book = found.is_none();
        found.unwrap_or_default()
    }

    fn read_book(&mut self, path: &str) -> Option<(Arc<Book>, Vec<EndpointSettings>)> {
        let text = match std::fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) => {
                self.mistake(&format!("{NAME} names {path}, which cannot be read: {error}"));
                return None;
            }
        };
        let written: Written = match toml::from_str(&text) {
            Ok(written) => written,
            Err(error) => {
                let error = without_quotes(error.message(), line_of(&text, error.span()));
                self.mistake(&format!("{NAME} names {path}, which is no address book: {error}"));
                return None;
            }
        };
        let people = written.people.into_iter();
        let people = people.map(|(name, one)| self.person(name, one)).collect();
        let (mut listeners, mut endpoints) = (BTreeMap::new(), Vec::new());
        for (name, one) in written.endpoints {
            let (listener, settings) = self.endpoint(&name, one);
            endpoints.extend(settings);
            listeners.insert(name, listener);
        }
        match Book::new(people, listeners) {
            Ok(book) => Some((Arc::new(book), endpoints)),
            Err(faults) => {
                for (place, message) in faults {
                    self.mistake(&format!("{NAME}: {place} {message}"));
                }
                None
            }
        }
    }

    fn person(&mut self, name: String, written: WrittenPerson) -> (String, Person) {
        if written.language.as_deref().is_some_and(|language| !is_spoken(language)) {
            let spoken = SPOKEN.join(", ");
            self.mistake(&format!("{NAME}: people.{name}.language must be one of {spoken}"));
        }
        let time_zone: Option<Tz> = match written.time_zone.as_deref().map(str::parse) {
            Some(Ok(time_zone)) => Some(time_zone),
            Some(Err(_)) => {
                self.mistake(&format!(
                    "{NAME}: people.{name}.time_zone must be one such as `America/Sao_Paulo`"
                ));
                None
            }
            None => None,
        };
        let person = Person {
            phone: written.phone,
            user_id: written.user_id,
            language: written.language,
            time_zone,
            endpoint: written.endpoint,
        };
        (name, person)
    }
}

/// What the parser says without what it quotes of the file, which may be a secret, and the line it is about.
pub(super) fn without_quotes(message: &str, line: usize) -> String {
    let parts = message.split('"').enumerate();
    let told: String = parts.map(|(at, part)| if at % 2 == 0 { part } else { "…" }).collect();
    format!("line {line}: {told}")
}

/// The line at which something begins.
pub(super) fn line_of(text: &str, span: Option<std::ops::Range<usize>>) -> usize {
    let before = span.and_then(|span| text.get(..span.start)).unwrap_or_default();
    before.matches('\n').count() + 1
}
