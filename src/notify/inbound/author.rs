//! Authors: under which names an approval may know who wrote.
//!
//! In come a number, Meta's id of the person, or both; out come the names and numbers that stand for the same person:
//! those of the address book, and every way to write the number. They recognise a person and change nothing.

use std::sync::Arc;

use chrono_tz::Tz;

use super::Listener;
use super::typed;
use crate::domain::book::{Book, Person, is_phone};
use crate::domain::phone::variants;
use crate::notify::message::Address;
use crate::notify::text::answer::{self, Say};
use crate::store::StoreError;
use crate::store::inbound::Inbound;

/// Who wrote.
pub(super) struct Author {
    /// As the message names them.
    given: String,
    /// Under which names approvals may know them.
    pub(super) names: Vec<String>,
    /// Those of the names we have written to.
    written_to: Vec<String>,
    /// Their entry in the address book.
    person: Option<(String, Person)>,
}

impl Listener {
    /// Finds out who wrote.
    pub(super) async fn identify(&self, message: &Inbound) -> Result<Author, StoreError> {
        let given = message.sender.clone();
        let learned = match message.user_id.as_deref() {
            // A number says more than what was learned before.
            Some(user_id) if !is_phone(&given) => self.store().find_recipient(user_id).await?,
            _ => None,
        };
        let (names, person) =
            find_names(&self.notifier.book, &given, message.user_id.as_deref(), learned);
        let written_to = self.store().names_written_to(&names).await?;
        Ok(Author { given, names, written_to, person })
    }

    /// Whoever writes may be written to freely for a day.
    pub(super) async fn note_window(
        &self,
        message: &Inbound,
        author: &Author,
    ) -> Result<(), StoreError> {
        let Some(at) = message.sent_at else { return Ok(()) };
        for name in author.rows() {
            self.store().note_inbound(name, at, message.user_id.as_deref()).await?;
        }
        Ok(())
    }
}

impl Author {
    /// Whether we have ever had to do with them.
    pub(super) fn is_known(&self) -> bool {
        self.person.is_some() || !self.written_to.is_empty()
    }

    /// Under which names they are kept: those we have written to, or who was never written to may yet be,
    /// under any way to write their number.
    pub(super) fn rows(&self) -> &[String] {
        if self.written_to.is_empty() { &self.names } else { &self.written_to }
    }

    /// Where they are.
    pub(super) fn zone(&self, usual: Tz) -> Tz {
        self.person.as_ref().and_then(|(_, person)| person.time_zone).unwrap_or(usual)
    }

    /// Their language, else that of the job or the script of its task, else that of what they wrote.
    pub(super) fn words(&self, of_job: Option<&str>, task: &str, written: &str) -> &'static Say {
        let own = self.person.as_ref().and_then(|(_, person)| person.language.as_deref());
        let said = own.or(of_job).or_else(|| {
            let typed = typed::read(written).map(|typed| typed.language);
            typed.filter(|_| !answer::is_chinese(task))
        });
        let text = if task.is_empty() { written } else { task };
        answer::say(said, text)
    }

    /// Where to answer: the number that we wrote to, since the one that `WhatsApp` tells is not always one to write to.
    pub(super) fn address<'s>(&'s self, book: &'s Book) -> Address<'s> {
        let known = self.written_to.iter().find_map(|name| book.phone(name));
        let person = self.person.as_ref().and_then(|(_, person)| person.phone.as_deref());
        let given = is_phone(&self.given).then_some(self.given.as_str());
        // Who shows no number is written to by the id that they showed.
        known.or(person).or(given).map_or(Address::UserId(&self.given), Address::Phone)
    }
}

/// Every name and number that may stand for a sender, and their entry in the address book.
fn find_names(
    book: &Arc<Book>,
    given: &str,
    user_id: Option<&str>,
    learned: Option<String>,
) -> (Vec<String>, Option<(String, Person)>) {
    let mut numbers = Vec::new();
    let mut names = Vec::new();
    for one in [Some(given.to_owned()), learned].into_iter().flatten() {
        if is_phone(&one) {
            numbers.extend(variants(&one));
        } else if book.find(&one).is_some() {
            names.push(one);
        }
    }
    let mut of_book = Vec::new();
    for (name, person) in book.people() {
        let by_number = person.phone.as_ref().is_some_and(|phone| numbers.contains(phone));
        let by_id = user_id.is_some() && person.user_id.as_deref() == user_id;
        if by_number || by_id || names.iter().any(|known| known == name) {
            of_book.push((name, person));
        }
    }
    for (name, person) in &of_book {
        names.push((*name).to_owned());
        numbers.extend(person.phone.as_deref().map(variants).unwrap_or_default());
    }
    names.extend(numbers);
    let mut seen = std::collections::BTreeSet::new();
    names.retain(|name| seen.insert(name.clone()));
    let person = of_book.first().map(|(name, person)| ((*name).to_owned(), (*person).clone()));
    (names, person)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn book() -> Arc<Book> {
        let ana = Person {
            phone: Some("+5511987654321".to_owned()),
            user_id: Some("BR.1".to_owned()),
            ..Person::default()
        };
        let bo = Person { phone: Some("+15550101".to_owned()), ..Person::default() };
        let people = BTreeMap::from([("ana".to_owned(), ana), ("bo".to_owned(), bo)]);
        Arc::new(Book::new(people, BTreeMap::new()).expect("a book without faults"))
    }

    fn names(given: &str, user_id: Option<&str>, learned: Option<&str>) -> Vec<String> {
        find_names(&book(), given, user_id, learned.map(str::to_owned)).0
    }

    #[test]
    fn a_sender_is_known_by_name_by_number_and_by_id() {
        let ana = ["ana", "+551187654321", "+5511987654321"];
        assert_eq!(names("+551187654321", None, None), ana);
        assert_eq!(names("BR.1", Some("BR.1"), None), ["ana", "+5511987654321", "+551187654321"]);
        assert_eq!(
            names("BR.2", Some("BR.2"), Some("ana")).first().map(String::as_str),
            Some("ana")
        );
        assert_eq!(names("BR.2", Some("BR.2"), Some("+15550109")), ["+15550109"]);
        assert_eq!(names("+15550109", None, None), ["+15550109"]);
        assert_eq!(names("BR.2", Some("BR.2"), None), [""; 0]);
        // A name that the book does not have any more stands for nobody.
        assert_eq!(names("BR.2", Some("BR.2"), Some("eve")), [""; 0]);
    }

    #[test]
    fn a_number_of_one_and_an_id_of_another_are_both() {
        let both = names("+15550101", Some("BR.1"), None);
        assert!(
            ["ana", "bo"].iter().all(|name| both.iter().any(|known| known == name)),
            "{both:?}"
        );
    }
}
