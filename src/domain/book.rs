//! The address book: people who have a name on this server, and the endpoints that are told besides people.
//!
//! A job may name a person by name or by number; both are the same person, who is kept under the name,
//! so that nobody votes twice and a number can change while an approval is open.

use std::collections::{BTreeMap, BTreeSet};

use chrono_tz::Tz;

/// What stands before the name of an endpoint where a notice names its recipient.
const ENDPOINT: &str = "webhook:";

/// Everybody who has a name, and every endpoint.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Book {
    people: BTreeMap<String, Person>,
    endpoints: BTreeSet<String>,
}

/// How one person is reached.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Person {
    /// The number in E.164.
    pub phone: Option<String>,
    /// Meta's id of the person for this business, such as `US.13491208655302741918`.
    pub user_id: Option<String>,
    /// The language of messages and pages, before that of the job.
    pub language: Option<String>,
    /// Where they are, for the times they read.
    pub time_zone: Option<Tz>,
    /// The endpoint that is asked in their place where `WhatsApp` cannot deliver.
    pub endpoint: Option<String>,
}

impl Book {
    /// A book of these people and endpoints, or every fault it has: its place, and what is wrong there.
    pub fn new(
        people: BTreeMap<String, Person>,
        endpoints: BTreeSet<String>,
    ) -> Result<Self, Vec<(String, String)>> {
        let mut faults = Vec::new();
        let mut seen = BTreeMap::new();
        for (name, person) in &people {
            let mut add = |message: String| faults.push((format!("people.{name}"), message));
            if !is_name(name) {
                add("must have a name of letters, digits, `-`, `_` and `.`, at most 64".to_owned());
            }
            if person.phone.is_none() && person.user_id.is_none() && person.endpoint.is_none() {
                add("must have a phone, a user_id or an endpoint".to_owned());
            }
            if person.phone.as_deref().is_some_and(|phone| !is_phone(phone)) {
                add("must have a phone such as `+15550100`".to_owned());
            }
            for address in [&person.phone, &person.user_id].into_iter().flatten() {
                if let Some(other) = seen.insert(address.clone(), name.clone()) {
                    add(format!("must not share a phone or user_id with {other}"));
                }
            }
            if let Some(endpoint) = person.endpoint.as_ref().filter(|one| !endpoints.contains(*one))
            {
                add(format!("names the endpoint {endpoint:?}, which is not there"));
            }
        }
        for name in endpoints.iter().filter(|name| !is_name(name)) {
            let message = "must have a name of letters, digits, `-`, `_` and `.`, at most 64";
            faults.push((format!("endpoints.{name}"), message.to_owned()));
        }
        if faults.is_empty() { Ok(Self { people, endpoints }) } else { Err(faults) }
    }

    /// The person of a name, or of a number.
    pub fn find(&self, recipient: &str) -> Option<(&str, &Person)> {
        let found = self.people.get_key_value(recipient).or_else(|| {
            self.people.iter().find(|(_, person)| person.phone.as_deref() == Some(recipient))
        });
        found.map(|(name, person)| (name.as_str(), person))
    }

    /// Everybody, by name.
    pub fn people(&self) -> impl Iterator<Item = (&str, &Person)> {
        self.people.iter().map(|(name, person)| (name.as_str(), person))
    }

    /// Under which name or number a person is kept.
    pub fn known_as<'n>(&'n self, given: &'n str) -> &'n str {
        self.find(given).map_or(given, |(name, _)| name)
    }

    /// The number of a recipient, if they have one.
    pub fn phone<'n>(&'n self, recipient: &'n str) -> Option<&'n str> {
        match self.find(recipient) {
            Some((_, person)) => person.phone.as_deref(),
            None => is_phone(recipient).then_some(recipient),
        }
    }

    /// Whether an endpoint of this name is configured.
    pub fn has_endpoint(&self, name: &str) -> bool {
        self.endpoints.contains(name)
    }
}

/// How a notice to an endpoint names its recipient.
pub fn endpoint_recipient(name: &str) -> String {
    format!("{ENDPOINT}{name}")
}

/// The endpoint that a recipient is, if it is one.
pub fn find_endpoint(recipient: &str) -> Option<&str> {
    recipient.strip_prefix(ENDPOINT)
}

/// Whether a text is a phone number in E.164.
pub fn is_phone(text: &str) -> bool {
    let digits = text.strip_prefix('+').unwrap_or_default();
    let fits = (7..=15).contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_digit());
    fits && !digits.starts_with('0')
}

/// Whether a text can be the name of a person or an endpoint.
fn is_name(text: &str) -> bool {
    let rest = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let starts_well = text.starts_with(|c: char| c.is_ascii_alphabetic());
    starts_well && text.len() <= 64 && text.chars().all(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn person(phone: &str) -> Person {
        Person { phone: Some(phone.to_owned()), ..Person::default() }
    }

    fn book(people: &[(&str, Person)], endpoints: &[&str]) -> Result<Book, Vec<(String, String)>> {
        let people = people.iter().map(|(name, one)| ((*name).to_owned(), one.clone())).collect();
        Book::new(people, endpoints.iter().map(|&name| name.to_owned()).collect())
    }

    #[test]
    fn a_person_is_found_by_name_and_by_number() {
        let book = book(&[("ana", person("+5511987654321"))], &[]).unwrap();
        for given in ["ana", "+5511987654321"] {
            assert_eq!(book.known_as(given), "ana");
            assert_eq!(book.phone(given), Some("+5511987654321"));
        }
        assert_eq!(book.known_as("+15550100"), "+15550100");
        assert_eq!(book.phone("+15550100"), Some("+15550100"));
        assert_eq!(book.phone("webhook:ops"), None);
    }

    #[test]
    fn a_book_tells_all_its_faults() {
        let lost = Person { endpoint: Some("ops".to_owned()), ..person("+15550100") };
        let people =
            [("ana", person("+15550100")), ("b n", Person::default()), ("bo", lost.clone())];
        let faults = book(&people, &[]).unwrap_err();
        let places: Vec<&str> = faults.iter().map(|(place, _)| place.as_str()).collect();
        assert_eq!(places, ["people.b n", "people.b n", "people.bo", "people.bo"]);
        assert!(book(&[("bo", lost)], &["ops"]).is_ok());
        assert_eq!(book(&[], &["7 up"]).unwrap_err()[0].0, "endpoints.7 up");
    }

    #[test]
    fn an_endpoint_is_a_recipient_that_is_no_person() {
        assert_eq!(find_endpoint(&endpoint_recipient("ops")), Some("ops"));
        assert_eq!(find_endpoint("ops"), None);
        assert!(!is_name(&endpoint_recipient("ops")));
    }
}
