//! Typed answers: a text that is one of few words and nothing else, or such a word with a comment.
//!
//! In comes what a person wrote, out comes what it decides; whatever could be meant in another way decides nothing.
//! The words are those of all languages, with the texts of each.

use crate::domain::approval::Verdict;
use crate::notify::text::answer::{ALL, Say};

/// What a text decides.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Typed {
    /// Approve or reject.
    pub(super) verdict: Verdict,
    /// What is said with it.
    pub(super) comment: String,
    /// The language of the word.
    pub(super) language: &'static str,
}

/// Reads a text: a word alone, or a plain one, a colon or a new line, and a comment.
pub(super) fn read(text: &str) -> Option<Typed> {
    if let Some((verdict, say)) = find(text, |say| [say.approve, say.reject]) {
        return Some(Typed { verdict, comment: String::new(), language: say.tag });
    }
    let text = text.trim();
    let at = text.find([':', '：', '\n'])?;
    // With more behind it, a short word such as "ok" may lead to a "but".
    let (verdict, say) = find(&text[..at], |say| [say.approve_plainly, say.reject_plainly])?;
    let comment = text[at..].trim_start_matches([':', '：']).trim().replace("\r\n", "\n");
    Some(Typed { verdict, comment, language: say.tag })
}

fn find(
    text: &str,
    words: impl Fn(&'static Say) -> [&'static [&'static str]; 2],
) -> Option<(Verdict, &'static Say)> {
    let text = fold(text);
    ALL.into_iter().find_map(|say| {
        let [approve, reject] = words(say);
        if approve.contains(&text.as_str()) {
            return Some((Verdict::Approve, say));
        }
        reject.contains(&text.as_str()).then_some((Verdict::Reject, say))
    })
}

/// The text as the words are written: one width, no capitals, no colour of skin, and no stop or shout at its end.
///
/// A question mark stays: who asks has not decided.
fn fold(text: &str) -> String {
    let folded = text.chars().filter_map(|c| match c {
        '\u{3000}' | '\u{a0}' => Some(' '),
        '\u{ff01}'..='\u{ff5e}' => char::from_u32(u32::from(c) - 0xfee0),
        // What makes a sign colourful, and tones of skin.
        '\u{fe0e}' | '\u{fe0f}' | '\u{200b}' | '\u{1f3fb}'..='\u{1f3ff}' => None,
        c => Some(c),
    });
    let folded = folded.collect::<String>().to_lowercase().replace("a\u{303}", "ã");
    let is_end = |c: char| {
        c.is_whitespace() || matches!(c, '.' | '!' | ',' | ';' | '~' | '。' | '、' | '…' | '｡')
    };
    folded.trim_start().trim_end_matches(is_end).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(text: &str) -> Option<Verdict> {
        read(text).map(|typed| typed.verdict)
    }

    #[test]
    fn the_words_of_each_language_decide_however_they_are_written() {
        for text in [
            "approve",
            "Approve",
            " APPROVE! ",
            "ok",
            "OK.",
            "ｏｋ！",
            "okay",
            "yes",
            "Y",
            "批准",
            "同意。",
            "好",
            "可以",
            "通过！",
            "aprovar",
            "Aprovo",
            "Sim!",
            "✅",
            "👍",
            "👍🏽",
            "✅\u{fe0f}",
            "yes…",
        ] {
            assert_eq!(verdict(text), Some(Verdict::Approve), "{text}");
        }
        for text in [
            "reject",
            "Reject.",
            "no",
            "N",
            "拒绝",
            "不同意",
            "否",
            "rejeitar",
            "Rejeito",
            "não",
            "na\u{303}o",
            "NÃO!",
            "nao",
            "❌",
            "👎",
            "👎🏿",
        ] {
            assert_eq!(verdict(text), Some(Verdict::Reject), "{text}");
        }
    }

    #[test]
    fn whatever_could_mean_something_else_decides_nothing() {
        for text in [
            "",
            " ",
            ".",
            "ok?",
            "approve?",
            "可以吗",
            "可以吗？",
            "not ok",
            "ok but wait",
            "no problem",
            "approve it",
            "yes yes",
            "approved",
            "👍👎",
            "ok: but change the title",
            "no\nwait",
            "好的，但是",
            "reject because of it",
            "nope",
            "1",
            "approve/reject",
        ] {
            assert_eq!(verdict(text), None, "{text}");
        }
    }

    #[test]
    fn a_plain_word_may_be_followed_by_a_comment() {
        for (text, verdict, comment) in [
            ("Approve: well done", Verdict::Approve, "well done"),
            ("reject:\r\n too long\r\nand dull ", Verdict::Reject, "too long\nand dull"),
            ("拒绝：太长了", Verdict::Reject, "太长了"),
            ("批准\n写得好", Verdict::Approve, "写得好"),
            ("Rejeitar: longo", Verdict::Reject, "longo"),
            ("approve:", Verdict::Approve, ""),
        ] {
            let typed = read(text).expect(text);
            assert_eq!((typed.verdict, typed.comment.as_str()), (verdict, comment), "{text}");
        }
        assert_eq!(read("sim").map(|typed| typed.language), Some("pt-BR"));
    }

    #[test]
    fn no_word_means_two_things_and_each_is_written_as_it_is_compared() {
        let mut seen = std::collections::BTreeSet::new();
        for say in ALL {
            for word in say.approve.iter().chain(say.reject) {
                assert_eq!(fold(word), *word, "{word}");
                assert!(seen.insert(*word), "{word} is there twice");
            }
            for (plain, all) in
                [(say.approve_plainly, say.approve), (say.reject_plainly, say.reject)]
            {
                assert!(plain.iter().all(|word| all.contains(word)), "{}", say.tag);
            }
        }
    }
}
