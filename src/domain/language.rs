//! The languages in which people can be addressed: one list for whoever has to say that there is no other.

/// The languages that messages and pages are written in, by their primary subtag.
pub const SPOKEN: [&str; 2] = ["en", "zh"];

/// Whether people can be addressed in the language of this tag, such as `zh-Hant-TW`.
pub fn is_spoken(tag: &str) -> bool {
    let primary = tag.split('-').next().unwrap_or_default();
    SPOKEN.iter().any(|spoken| spoken.eq_ignore_ascii_case(primary))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_language_is_known_by_its_primary_subtag() {
        for (tag, expected) in
            [("en", true), ("EN-gb", true), ("zh-Hant-TW", true), ("pt-BR", false), ("zhx", false)]
        {
            assert_eq!(is_spoken(tag), expected, "{tag}");
        }
    }
}
