//! What a fuzzer calls of the domain: bytes come in, nothing goes out, and whatever breaks a law panics.
//!
//! Every room has such a file. It is there in tests and for the fuzzer (`--cfg fuzzing`) alone, so that nothing that is
//! private has to be made public for it, and no release holds it.
//! The tests below it replay the seeds, and bytes that are near to them: see `sown`.

#[cfg(test)]
pub(crate) mod sown;

use std::sync::Arc;

use chrono::DateTime;

use super::approval::Token;
use super::book::is_phone;
use super::key::KeyText;
use super::money::Usd;
use super::phone::{find_number, variants};
use super::spec::{Defaults, Spec};
use super::submission::{ContextMode, Submission};
use super::template::{Name, Template};
use super::validate::{Violation, freeze};

/// The most bytes that any text of a fault may have, in all.
const FAULT_BYTES_MAX: usize = 2 << 20;

/// A prompt is parsed and rendered: what is rendered is bounded, and a name is read as it is written.
pub fn template(bytes: &[u8]) {
    let source = String::from_utf8_lossy(bytes);
    let template = match Template::parse(&source) {
        Ok(template) => template,
        Err(error) => {
            assert!(error.to_string().len() < 400, "{error}");
            return;
        }
    };
    for name in template.names() {
        let written = format!("{{{{ {name} }}}}");
        let read = Template::parse(&written).expect("a name that was read can be written");
        assert!(read.names().eq([name]), "{written}");
    }
    let names = template.names().count();
    let filled = template.render(source.len() + 2 * names, |_| Some("ab"));
    assert!(filled.is_ok_and(|text| text.len() <= source.len() + 2 * names));
    let short = template.render(4, |name| (*name != Name::Feedback).then_some("{{ task }}"));
    assert!(short.is_err() || short.is_ok_and(|text| text.len() <= 4));
}

/// Texts that open something or stand for someone: what is taken is taken again as it is written.
pub fn text(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    if let Some(token) = Token::parse(&text) {
        assert_eq!(token.reveal(), text);
        assert!((0..64).contains(&token.shard()));
        assert_eq!(token.fingerprint().len(), 64);
    }
    if let Some(hash) = KeyText::find_hash(&text) {
        assert_eq!(KeyText::find_hash(&text), Some(hash));
    }
    if let Some(number) = find_number(&text) {
        assert!(is_phone(&number));
        assert_eq!(variants(&number)[0], number);
    }
    if let Ok(amount) = text.parse::<Usd>() {
        let written = amount.to_string();
        assert_eq!(written.parse(), Ok(amount), "{written}");
    }
}

/// Checks a submission, whichever door it came through; the specification if it is good.
pub fn frozen(submission: &Submission) -> Option<Spec> {
    let defaults = Defaults {
        model: "model-1".to_owned(),
        max_tokens: 4096,
        notify: vec!["+15550100".to_owned()],
        language: None,
        context: ContextMode::None,
        book: Arc::default(),
    };
    match freeze(submission, &defaults) {
        Ok(spec) => {
            let content = submission.content();
            let serde_json::Value::Object(fields) = content.clone() else { return None };
            let again = Submission::read(fields).expect("what was taken is written as it is read");
            assert_eq!(again.content(), content);
            Some(spec)
        }
        Err(violations) => {
            check_violations(&violations);
            None
        }
    }
}

/// Faults name something, and are no longer than what anybody wants to read.
pub fn check_violations(violations: &[Violation]) {
    assert!(!violations.is_empty(), "refused for no reason");
    let bytes: usize = violations.iter().map(|one| one.field.len() + one.message.len()).sum();
    assert!(bytes <= FAULT_BYTES_MAX, "{bytes} bytes of faults");
    assert!(violations.iter().all(|one| !one.field.is_empty() && !one.message.is_empty()));
}

/// The day on which a fuzzer reads what depends on one.
pub fn today() -> chrono::NaiveDate {
    DateTime::UNIX_EPOCH.date_naive()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_of_templates_and_their_neighbours_break_no_law() {
        sown::try_all("template", template);
    }

    #[test]
    fn seeds_of_texts_and_their_neighbours_break_no_law() {
        sown::try_all("text", text);
    }
}
