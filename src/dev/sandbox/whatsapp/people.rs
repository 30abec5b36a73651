//! The people on their phones: by which names they go, and when each wrote last.
//! In come numbers, user ids and the times of what people wrote; out goes who is meant, and whether a window is open.
//! A person's user id follows from the number, so that it is the same in every sandbox.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use chrono::{DateTime, TimeDelta, Utc};
use sha2::{Digest as _, Sha256};

/// How long after a message of theirs a person may be written to freely.
const WINDOW: TimeDelta = TimeDelta::hours(24);
/// Countries whose people the examples write to, by the beginning of their numbers.
const COUNTRIES: [(&str, &str); 6] =
    [("1", "US"), ("52", "MX"), ("54", "AR"), ("55", "BR"), ("86", "CN"), ("91", "IN")];

/// What is known of people.
#[derive(Default)]
pub struct People(Mutex<Known>);

#[derive(Default)]
struct Known {
    /// Numbers by user id.
    numbers: HashMap<String, String>,
    wrote_at: HashMap<String, DateTime<Utc>>,
}

impl People {
    /// The user id of a number, which can be written to from now on; of a user id, that itself.
    pub fn user_id(&self, person: &str) -> String {
        if is_user_id(person) {
            return person.to_owned();
        }
        let user_id = user_id(person);
        self.lock().numbers.insert(user_id.clone(), person.to_owned());
        user_id
    }

    /// The number behind a user id, if it was ever told; else the id itself.
    pub fn person(&self, user_id: &str) -> String {
        let number = self.lock().numbers.get(user_id).cloned();
        number.unwrap_or_else(|| user_id.to_owned())
    }

    /// Notes that a person wrote; what was written before it may come after it.
    pub fn wrote(&self, person: &str, at: DateTime<Utc>) {
        let mut known = self.lock();
        let last = known.wrote_at.entry(person.to_owned()).or_insert(at);
        *last = at.max(*last);
    }

    /// Whether a person wrote within the last 24 hours.
    pub fn is_window_open(&self, person: &str, now: DateTime<Utc>) -> bool {
        self.lock().wrote_at.get(person).is_some_and(|at| now - at < WINDOW)
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether this is a user id: a country, a dot, and up to 128 letters and digits.
pub fn is_user_id(name: &str) -> bool {
    let parts = name.split_once('.');
    parts.is_some_and(|(country, rest)| {
        country.len() == 2
            && country.bytes().all(|byte| byte.is_ascii_uppercase())
            && (1..=128).contains(&rest.len())
            && rest.bytes().all(|byte| byte.is_ascii_alphanumeric())
    })
}

/// A person as they are named in a query or a form: a number in any spelling, or a user id.
pub fn named(name: &str) -> String {
    let digits = super::digits(name);
    match name.trim() {
        name if is_user_id(name) => name.to_owned(),
        _ if digits.is_empty() => String::new(),
        _ => format!("+{digits}"),
    }
}

fn user_id(number: &str) -> String {
    let digits = super::digits(number);
    let country = COUNTRIES.iter().find(|(prefix, _)| digits.starts_with(prefix));
    let country = country.map_or("US", |(_, country)| *country);
    let mut first = [0; 8];
    first.copy_from_slice(&Sha256::digest(&digits)[..8]);
    format!("{country}.{:020}", u64::from_be_bytes(first))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_person_is_found_by_a_user_id_once_it_was_told() {
        let people = People::default();
        let id = user_id("+5511987654321");
        assert!(id.starts_with("BR.") && is_user_id(&id), "{id}");
        assert_eq!(people.person(&id), id);
        assert_eq!(people.user_id("+5511987654321"), id);
        assert_eq!(people.person(&id), "+5511987654321");
        assert_eq!(people.user_id("US.7"), "US.7");
    }

    #[test]
    fn only_a_country_and_a_word_are_a_user_id() {
        let ids = ["US.134912", "us.1", "US.", "US.1-2", "+1555", "USA.1"].map(is_user_id);
        assert_eq!(ids, [true, false, false, false, false, false]);
        assert_eq!(["US.1", " 1 (555) 01", "x"].map(named), ["US.1", "+155501", ""]);
    }

    #[test]
    fn a_window_is_open_for_a_day_after_a_message() {
        let (people, now) = (People::default(), DateTime::UNIX_EPOCH);
        assert!(!people.is_window_open("+1", now));
        people.wrote("+1", now);
        assert!(people.is_window_open("+1", now + TimeDelta::seconds(86_399)));
        assert!(!people.is_window_open("+1", now + TimeDelta::seconds(86_400)));
        people.wrote("+1", now - TimeDelta::hours(2));
        assert!(people.is_window_open("+1", now + TimeDelta::hours(23)));
        assert!(!people.is_window_open("+2", now));
    }
}
