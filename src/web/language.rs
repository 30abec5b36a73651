//! Languages of the approval page: one file each, all of the same shape.
//!
//! A language is a list of texts and a few functions that put numbers and times into sentences.
//! Another language is one more file, one more line in `ALL`, and one in the domain's list.

mod en;

mod zh;

mod pt_br;

use chrono::TimeDelta;

use crate::domain::language::is_same;

/// Every language, the one for everybody else first.
const ALL: [&Language; 3] = [&en::LANGUAGE, &zh::LANGUAGE, &pt_br::LANGUAGE];

/// The texts of the page.
#[derive(Debug)]
pub(super) struct Language {
    /// Its BCP 47 tag.
    pub(super) tag: &'static str,
    pub(super) page_title: &'static str,
    pub(super) note: &'static str,
    pub(super) draft: &'static str,
    pub(super) no_draft: &'static str,
    pub(super) draft_is_cut: &'static str,
    pub(super) draft_is_plain: &'static str,
    pub(super) sources: &'static str,
    pub(super) asked_by_job: &'static str,
    pub(super) you_decide_as: &'static str,
    pub(super) progress: &'static str,
    pub(super) step_of: fn(i32, i32) -> String,
    pub(super) deadline: &'static str,
    pub(super) time_left: fn(TimeDelta) -> String,
    pub(super) deadline_stands_still: &'static str,
    pub(super) cost: &'static str,
    pub(super) usd: fn(&str) -> String,
    pub(super) at_least: fn(&str) -> String,
    pub(super) votes: &'static str,
    pub(super) votes_of: fn(i32, i32) -> String,
    pub(super) approved: &'static str,
    pub(super) rejected: &'static str,
    pub(super) edited: &'static str,
    pub(super) sent_back: &'static str,
    pub(super) is_done_again: &'static str,
    pub(super) by: fn(&str) -> String,
    pub(super) by_deadline: &'static str,
    pub(super) comment: &'static str,
    pub(super) optional: &'static str,
    pub(super) approve: &'static str,
    pub(super) reject: &'static str,
    pub(super) rejecting_ends: &'static str,
    pub(super) edit: &'static str,
    pub(super) edit_hint: &'static str,
    pub(super) send_back: &'static str,
    pub(super) needed_to_send_back: &'static str,
    pub(super) paused_title: &'static str,
    pub(super) paused_open: &'static str,
    pub(super) paused_decided: &'static str,
    pub(super) contradicted: &'static str,
    pub(super) expired_title: &'static str,
    pub(super) expired: &'static str,
    pub(super) superseded_title: &'static str,
    pub(super) superseded: &'static str,
    pub(super) withdrawn_title: &'static str,
    pub(super) withdrawn: &'static str,
    pub(super) voted_title: &'static str,
    pub(super) waiting: fn(i32) -> String,
    pub(super) safe_to_close: &'static str,
    pub(super) unknown_title: &'static str,
    pub(super) unknown: &'static str,
    pub(super) foreign_title: &'static str,
    pub(super) foreign: &'static str,
    pub(super) malformed_title: &'static str,
    pub(super) malformed: &'static str,
    pub(super) too_long: &'static str,
    pub(super) busy_title: &'static str,
    pub(super) busy: &'static str,
    pub(super) broken_title: &'static str,
    pub(super) broken: &'static str,
}

/// The language for a page: the approver's or the job's if there is such, else the first that the browser asks for,
/// else English.
pub(super) fn choose<'t>(
    known: impl IntoIterator<Item = &'t str>,
    accept_language: Option<&str>,
) -> &'static Language {
    let by_tag = known.into_iter().find_map(find);
    by_tag.or_else(|| accepted(accept_language?)).unwrap_or(ALL[0])
}

fn find(tag: &str) -> Option<&'static Language> {
    ALL.into_iter().find(|language| is_same(language.tag, tag))
}

fn accepted(accept_language: &str) -> Option<&'static Language> {
    let mut best: Option<(f32, &'static Language)> = None;
    for range in accept_language.split(',').take(64) {
        let mut parts = range.split(';');
        let tag = parts.next().unwrap_or_default().trim();
        let weight = parts.find_map(|part| part.trim().strip_prefix("q="));
        let weight = weight.map_or(1.0, |weight| weight.trim().parse().unwrap_or(0.0));
        let found = if tag == "*" { Some(ALL[0]) } else { find(tag) };
        let Some(language) = found else { continue };
        if weight > best.map_or(0.0, |(best, _)| best) {
            best = Some((weight, language));
        }
    }
    best.map(|(_, language)| language)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::language::SPOKEN;

    #[test]
    fn every_language_that_is_spoken_has_its_page() {
        assert_eq!(ALL.map(|language| language.tag), SPOKEN);
    }

    #[test]
    fn a_language_that_is_known_comes_before_the_browsers() {
        for (of_job, accept, expected) in [
            (None, None, "en"),
            (Some("zh"), Some("en"), "zh"),
            (Some("zh-Hant-TW"), None, "zh"),
            (Some("pt"), Some("en"), "pt-BR"),
            (Some("pt-BR"), Some("zh"), "pt-BR"),
            (Some("fr"), Some("pt-PT, en;q=0.9"), "pt-BR"),
            (Some("fr"), Some("zh-CN,zh;q=0.9,en;q=0.8"), "zh"),
            (None, Some("fr-FR, zh-CN;q=0.5, en;q=0.7"), "en"),
            (None, Some("en;q=0, ZH"), "zh"),
            (None, Some("fr, *;q=0.5"), "en"),
            (None, Some(";;,q=,zh;q=nope"), "en"),
        ] {
            assert_eq!(choose(of_job, accept).tag, expected, "{of_job:?} {accept:?}");
        }
    }

    #[test]
    fn time_left_is_told_in_its_two_largest_units() {
        let left = |seconds| ALL.map(|language| (language.time_left)(TimeDelta::seconds(seconds)));
        assert_eq!(
            left(86_340),
            ["23 h 59 min left", "还剩 23 小时 59 分钟", "faltam 23 h 59 min"]
        );
        assert_eq!(
            left(2 * 86_400 + 3 * 3600 + 59),
            ["2 d 3 h left", "还剩 2 天 3 小时", "faltam 2 dias e 3 h"]
        );
        assert_eq!(left(3600), ["1 h left", "还剩 1 小时", "falta 1 h"]);
        assert_eq!(left(61), ["1 min left", "还剩 1 分钟", "falta 1 min"]);
        assert_eq!(
            left(59),
            ["less than a minute left", "还剩不到 1 分钟", "falta menos de um minuto"]
        );
    }
}
