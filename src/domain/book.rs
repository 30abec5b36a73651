//! The address book: people who have a name on this server, and the endpoints that are told besides people.
//!
//! A job may name a person by name or by number; both are the same person, who is kept under the name,
//! so that nobody votes twice and a number can change while an approval is open.

use std::collections::BTreeMap;

use chrono_tz::Tz;

use super::event::NoticeKind;
use super::spec::Hook;

/// What stands before the name of an endpoint where a notice names its recipient.
const ENDPOINT: &str = "webhook:";

/// Everybody who has a name, and every endpoint.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Book {
    people: BTreeMap<String, Person>,
    endpoints: BTreeMap<String, Listener>,
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

/// What an endpoint is told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listener {
    /// Of which events.
    pub events: Vec<NoticeKind>,
    /// Of every job, also of one that does not name it.
    pub always: bool,
}

impl Person {
    /// Whether `WhatsApp` can reach them at all.
    pub fn has_phone(&self) -> bool {
        self.phone.is_some() || self.user_id.is_some()
    }
}

impl Book {
    /// A book of these people and endpoints, or every fault it has: its place, and what is wrong there.
    pub fn new(
        people: BTreeMap<String, Person>,
        endpoints: BTreeMap<String, Listener>,
    ) -> Result<Self, Vec<(String, String)>> {
        let mut faults = Vec::new();
        let mut seen = BTreeMap::new();
        for (name, person) in &people {
            let mut add = |message: String| faults.push((format!("people.{name}"), message));
            if !is_name(name) {
                add("must have a name of letters, digits, `-`, `_` and `.`, at most 64".to_owned());
            }
            if !person.has_phone() && person.endpoint.is_none() {
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
            if let Some(endpoint) =
                person.endpoint.as_ref().filter(|one| !endpoints.contains_key(*one))
            {
                add(format!("names the endpoint {endpoint:?}, which is not there"));
            }
        }
        for name in endpoints.keys().filter(|name| !is_name(name)) {
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

    /// Which of these people are reached at an endpoint alone, and at which.
    pub fn at_endpoints<'n>(
        &self,
        people: impl Iterator<Item = &'n str>,
    ) -> BTreeMap<String, String> {
        let found = people.filter_map(|name| {
            let person = self.people.get(name)?;
            let is_written_to = person.phone.is_some() || person.user_id.is_some();
            let endpoint = person.endpoint.as_ref().filter(|_| !is_written_to)?;
            Some((name.to_owned(), endpoint.clone()))
        });
        found.collect()
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
        self.endpoints.contains_key(name)
    }

    /// The endpoints that are told of a job: those it names, and after them those that are told of every one.
    pub fn hooks(&self, named: &[String]) -> Vec<Hook> {
        let always =
            self.endpoints.iter().filter(|(name, one)| one.always && !named.contains(name));
        let named = named.iter().filter_map(|name| self.endpoints.get_key_value(name));
        let hook = |(name, one): (&String, &Listener)| Hook {
            name: name.clone(),
            events: one.events.clone(),
        };
        named.chain(always).map(hook).collect()
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
        let listener = Listener::default();
        let endpoints = endpoints.iter().map(|&name| (name.to_owned(), listener.clone()));
        Book::new(people, endpoints.collect())
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
    fn a_job_tells_the_endpoints_it_names_and_those_that_are_always_told() {
        let listener = |always| Listener { events: vec![NoticeKind::Failed], always };
        let endpoints =
            [("all", listener(true)), ("ops", listener(false)), ("quiet", listener(false))];
        let endpoints = endpoints.map(|(name, one)| (name.to_owned(), one)).into();
        let book = Book::new(BTreeMap::new(), endpoints).unwrap();
        let told = |named: &[&str]| {
            let named: Vec<String> = named.iter().map(|&name| name.to_owned()).collect();
            book.hooks(&named).into_iter().map(|hook| hook.name).collect::<Vec<_>>()
        };
        assert_eq!(told(&[]), ["all"]);
        assert_eq!(told(&["ops"]), ["ops", "all"]);
        assert_eq!(told(&["all", "ops"]), ["all", "ops"]);
        assert_eq!(book.hooks(&[])[0].events, [NoticeKind::Failed]);
    }

    #[test]
    fn an_endpoint_is_a_recipient_that_is_no_person() {
        assert_eq!(find_endpoint(&endpoint_recipient("ops")), Some("ops"));
        assert_eq!(find_endpoint("ops"), None);
        assert!(!is_name(&endpoint_recipient("ops")));
    }
}
