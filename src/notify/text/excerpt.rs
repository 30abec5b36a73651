//! Text of users and models, made fit to be part of a message.
//!
//! In comes any text; out comes text without control characters, in lines, and no longer than it may be.
//! A cut falls between characters as a reader sees them: no half emoji, no lost accent, rarely half a word.

use std::borrow::Cow;

use unicode_segmentation::UnicodeSegmentation as _;

/// So much is given up to end a cut between words.
const WORD_BYTES_MAX: usize = 24;
const ELLIPSIS: char = '…';

/// The length of a text in UTF-16 units.
pub(super) fn units(text: &str) -> usize {
    text.encode_utf16().count()
}

/// The text in clean lines, without blank lines at its ends and never two in a row.
pub(super) fn lines(text: &str) -> String {
    let text = text.replace("\r\n", "\n");
    let broken = text.split(['\n', '\r', '\u{b}', '\u{c}', '\u{85}', '\u{2028}', '\u{2029}']);
    let mut kept: Vec<String> = Vec::new();
    for line in broken {
        let line = clean(line);
        let line = line.trim_end();
        if !(line.is_empty() && kept.last().is_none_or(String::is_empty)) {
            kept.push(line.to_owned());
        }
    }
    kept.join("\n").trim_end().to_owned()
}

/// The text as one clean line.
pub(super) fn one_line(text: &str) -> String {
    let clean = lines(text);
    clean.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Marks each line as somebody else's.
pub(super) fn quote(text: &str) -> String {
    text.lines()
        .map(|line| format!("> {line}").trim_end().to_owned())
        .collect::<Vec<_>>()
        .join("\n")
}

/// The text itself if it has at most so many UTF-16 units, else its beginning and an ellipsis.
pub(super) fn cut(text: &str, units_max: usize) -> Cow<'_, str> {
    if units(text) <= units_max {
        return Cow::Borrowed(text);
    }
    let Some(room) = units_max.checked_sub(ELLIPSIS.len_utf16()) else {
        return Cow::Owned(String::new());
    };
    let mut used = 0;
    let mut end = 0;
    for (at, character) in text.grapheme_indices(true) {
        used += units(character);
        if used > room {
            break;
        }
        end = at + character.len();
    }
    let end = word_start(text, end);
    let kept = text[..end].trim_end_matches(|c: char| c.is_whitespace() || c == '>');
    Cow::Owned(format!("{kept}{ELLIPSIS}"))
}

/// Nothing that cannot be seen, and no fence: only a code block could swallow the lines after it, links included.
fn clean(line: &str) -> String {
    let visible = line.chars().filter_map(|c| match c {
        '\t' => Some(' '),
        // Controls of direction could make a text read as what it is not; blanks without width hide in words.
        '\u{200b}'
        | '\u{200e}'
        | '\u{200f}'
        | '\u{61c}'
        | '\u{180e}'
        | '\u{2060}'..='\u{2069}'
        | '\u{202a}'..='\u{202e}'
        | '\u{feff}' => None,
        c if c.is_control() => None,
        c => Some(c),
    });
    visible.collect::<String>().replace("```", "'''")
}

/// Moves a cut back to the blank before a word it would split, if that is near.
fn word_start(text: &str, end: usize) -> usize {
    let is_of_word = |c: char| c.is_alphanumeric() && u32::from(c) < 0x2e80;
    let splits = text[end..].starts_with(is_of_word) && text[..end].ends_with(is_of_word);
    let blank = text[..end].rfind(char::is_whitespace);
    blank.filter(|at| splits && *at > 0 && end - at <= WORD_BYTES_MAX).unwrap_or(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_that_fits_is_left_alone() {
        assert_eq!(cut("记账 👍", 5), "记账 👍");
        assert!(matches!(cut("", 0), Cow::Borrowed("")));
    }

    #[test]
    fn a_cut_falls_between_characters() {
        for (text, units_max, expected) in [
            ("记账应用", 3, "记账…"),
            ("a👍👍", 4, "a👍…"),
            ("a👍👍", 3, "a…"),
            ("👨‍👩‍👧‍👦 and more", 8, "…"),
            ("x👍🏽 yes", 4, "x…"),
            ("x👍🏽 yes", 7, "x👍🏽…"),
            ("🇧🇷🇨🇳 go", 7, "🇧🇷…"),
            ("cafe\u{301} au lait", 5, "caf…"),
            ("ab\u{9a8}\u{9bf}\u{9aa}", 4, "ab…"),
            ("각각\u{1100}\u{1161}\u{11a8}각", 5, "각각…"),
            ("one two three", 10, "one two…"),
            ("one", 2, "o…"),
            ("一句话 完", 4, "一句话…"),
            ("> one\n> two", 8, "> one…"),
            ("ab", 1, "…"),
            ("ab", 0, ""),
        ] {
            let shown = cut(text, units_max);
            assert_eq!(shown, expected, "{text} at {units_max}");
            assert!(units(&shown) <= units_max);
        }
    }

    #[test]
    fn what_cannot_be_seen_is_taken_out() {
        assert_eq!(lines("a\0b\u{1b}[1m\u{202e}c\u{feff}\td"), "ab[1mc d");
        assert_eq!(lines("\u{200f}a\u{61c}b\u{200e}c\u{2066}d\u{2069}"), "abcd");
        assert_eq!(lines("👨‍👩‍👧"), "👨‍👩‍👧");
        assert_eq!(lines("`\u{200b}``rust\nx\n```"), "'''rust\nx\n'''");
    }

    #[test]
    fn lines_are_kept_and_blank_ones_are_few() {
        assert_eq!(lines("\n\n a\r\nb\rc\u{2028}d \n\n\n \ne\n\n"), " a\nb\nc\nd\n\ne");
        assert_eq!(one_line(" a\n\n b\tc  "), "a b c");
        assert_eq!(lines(" \n\t\n"), "");
    }

    #[test]
    fn every_line_of_a_quote_is_marked() {
        assert_eq!(quote("a\n\nb"), "> a\n>\n> b");
        assert_eq!(quote(""), "");
    }
}
