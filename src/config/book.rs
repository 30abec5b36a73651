//! The file of the address book, TOML: people and endpoints by name. Every mistake in it is told at once, by its place.

use std::collections::BTreeMap;
use std::sync::Arc;

use chrono_tz::Tz;
use serde::Deserialize;

use super::Reader;
use crate::domain::book::{Book, Person};
use crate::domain::language::{SPOKEN, is_spoken};

const NAME: &str = "LONGHAUL_ADDRESS_BOOK";

/// The file as it is written.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Written {
    people: BTreeMap<String, WrittenPerson>,
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
    /// The address book, if one is named; a bad one is a mistake.
    pub(super) fn book(&mut self) -> Arc<Book> {
        let Some(path) = self.text(NAME) else { return Arc::default() };
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) => {
                self.mistake(&format!("{NAME} names {path}, which cannot be read: {error}"));
                return Arc::default();
            }
        };
        let written: Written = match toml::from_str(&text) {
            Ok(written) => written,
            Err(error) => {
                let error = error.to_string();
                self.mistake(&format!("{NAME} names {path}, which is no address book: {error}"));
                return Arc::default();
            }
        };
        let people = written.people.into_iter();
        let people = people.map(|(name, one)| self.person(name, one)).collect();
        match Book::new(people, std::iter::empty().collect()) {
            Ok(book) => Arc::new(book),
            Err(faults) => {
                for (place, message) in faults {
                    self.mistake(&format!("{NAME}: {place} {message}"));
                }
                Arc::default()
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
