//! The languages in which people can be addressed: one list for whoever has to say that there is no other.
//!
//! A language is known by its primary subtag alone: who reads `pt-PT` is better served in `pt-BR` than in English.
//! What pages and notices both write in one of them, and no library writes for us, is here as well.

use chrono::{DateTime, Datelike, Offset as _, Timelike as _, Utc};
use chrono_tz::Tz;

/// The languages that messages and pages are written in, the one for everybody else first.
pub const SPOKEN: [&str; 3] = ["en", "zh", "pt-BR"];

const WEEKDAYS_IN_PORTUGUESE: [&str; 7] = ["dom.", "seg.", "ter.", "qua.", "qui.", "sex.", "sáb."];

const MONTHS_IN_PORTUGUESE: [&str; 12] = [
    "jan.", "fev.", "mar.", "abr.", "maio", "jun.", "jul.", "ago.", "set.", "out.", "nov.", "dez.",
];

/// Whether people can be addressed in the language of this tag, such as `zh-Hant-TW`.
pub fn is_spoken(tag: &str) -> bool {
    SPOKEN.iter().any(|spoken| is_same(spoken, tag))
}

/// Whether two tags are of one language, whatever its script and region.
pub fn is_same(one: &str, other: &str) -> bool {
    let primary = |tag: &str| tag.split(['-', '_']).next().unwrap_or_default().to_ascii_lowercase();
    primary(one) == primary(other)
}

/// A moment as a person reads it where they are, always with what tells the zone: `Tue 1 Dec 2026, 18:00 (UTC-03:00)`.
pub fn local(at: DateTime<Utc>, zone: Tz, language: &str) -> String {
    let at = at.with_timezone(&zone);
    let is_utc = at.offset().fix().local_minus_utc() == 0;
    if is_same(language, "zh") {
        let zone = if is_utc { String::new() } else { at.format("%:z").to_string() };
        return format!("{}（UTC{zone}）", at.format("%Y年%-m月%-d日 %H:%M"));
    }
    let zone = if is_utc { "UTC".to_owned() } else { at.format("(UTC%:z)").to_string() };
    let day = if is_same(language, "pt") {
        day_in_portuguese(&at)
    } else {
        at.format("%a %-d %b %Y").to_string()
    };
    format!("{day}, {:02}:{:02} {zone}", at.hour(), at.minute())
}

/// A day as Brazilians write it: `seg., 30 de nov. de 2026`.
pub fn day_in_portuguese(at: &impl Datelike) -> String {
    let name = |names: &[&'static str], at: u32| names[usize::try_from(at).unwrap_or(0)];
    let weekday = name(&WEEKDAYS_IN_PORTUGUESE, at.weekday().num_days_from_sunday());
    let month = name(&MONTHS_IN_PORTUGUESE, at.month0());
    format!("{weekday}, {} de {month} de {}", at.day(), at.year())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_language_is_known_by_its_primary_subtag() {
        for (tag, expected) in [
            ("en", true),
            ("EN-gb", true),
            ("zh-Hant-TW", true),
            ("pt", true),
            ("pt-BR", true),
            ("PT-pt", true),
            ("fr-BR", false),
            ("zhx", false),
            ("", false),
        ] {
            assert_eq!(is_spoken(tag), expected, "{tag}");
        }
    }

    #[test]
    fn a_moment_is_told_where_the_person_is_with_its_offset() {
        // It is the day before in Brazil.
        let at = DateTime::from_timestamp(1_793_581_140, 0).expect("a moment");
        for (language, zone, expected) in [
            ("en", Tz::UTC, "Mon 2 Nov 2026, 00:59 UTC"),
            ("en-GB", Tz::Europe__Berlin, "Mon 2 Nov 2026, 01:59 (UTC+01:00)"),
            ("fr", Tz::Asia__Kolkata, "Mon 2 Nov 2026, 06:29 (UTC+05:30)"),
            ("zh-Hant", Tz::Asia__Shanghai, "2026年11月2日 08:59（UTC+08:00）"),
            ("zh", Tz::UTC, "2026年11月2日 00:59（UTC）"),
            ("pt", Tz::America__Sao_Paulo, "dom., 1 de nov. de 2026, 21:59 (UTC-03:00)"),
        ] {
            assert_eq!(local(at, zone, language), expected, "{language} {zone}");
        }
    }

    #[test]
    fn every_day_and_month_has_its_name_in_portuguese() {
        let first = DateTime::from_timestamp(1_798_761_600, 0).expect("the first of 2027");
        for (days, expected) in [
            (0, "sex., 1 de jan. de 2027"),
            (1, "sáb., 2 de jan. de 2027"),
            (2, "dom., 3 de jan. de 2027"),
            (31, "seg., 1 de fev. de 2027"),
            (60, "ter., 2 de mar. de 2027"),
            (126, "sex., 7 de maio de 2027"),
            (364, "sex., 31 de dez. de 2027"),
        ] {
            assert_eq!(day_in_portuguese(&(first + chrono::TimeDelta::days(days))), expected);
        }
    }
}
