//! What a fuzzer calls of the notices: an answer that a person has typed.
//!
//! There in tests and for the fuzzer alone, as `domain::fuzz` says.

use super::inbound::read_typed;

/// A text decides something or nothing; with a comment it decides the same as the word before it.
pub fn typed(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let Some((verdict, comment)) = read_typed(&text) else { return };
    assert!(comment.len() <= text.len());
    assert_eq!(comment.trim(), comment);
    let padded = read_typed(&format!("\n {text} \n"));
    assert_eq!(padded, Some((verdict, comment)), "space around a text says nothing");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_of_typed_answers_and_their_neighbours_break_no_law() {
        crate::domain::fuzz::sown::try_all("typed", typed);
    }
}
