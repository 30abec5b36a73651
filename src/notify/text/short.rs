//! The short texts of a notice: those beside buttons, and those that fill a template.
//!
//! What fills a template is one line each, never empty, and all of it together leaves room for the template's own words.

use super::excerpt::{cut, lines, one_line, units};
use super::page::Page;
use super::{Letter, NOTE_UNITS_MAX, cost, head, name};
use crate::domain::event::NoticeKind;
use crate::notify::message::BODY_UNITS_MAX;

/// What fills a template, in the order of its places; together they stay under 700.
const NAME_UNITS_MAX: usize = 120;
const NOTE_LINE_UNITS_MAX: usize = 400;
const DEADLINE_UNITS_MAX: usize = 120;
const TITLE_LINE_UNITS_MAX: usize = 200;
const DETAIL_UNITS_MAX: usize = 450;
/// A link longer than this leaves too little of a short text for what it says.
const END_UNITS_MAX: usize = 600;
/// A place of a template must not be empty.
const NOTHING: &str = "–";

/// The button that opens the page: its title and where it leads.
pub(in crate::notify) struct Opener {
    pub(in crate::notify) title: &'static str,
    pub(in crate::notify) url: String,
}

impl Letter<'_> {
    /// The text beside a button that opens the page, and the button.
    pub(in crate::notify) fn beside_link(&self) -> Option<(String, Opener)> {
        let [url, _] = self.links()?;
        let opener = Opener { title: self.words.open_title, url };
        Some((self.short(self.words.how_link)?, opener))
    }

    /// The text beside buttons that decide, and their titles: approve, then reject.
    pub(in crate::notify) fn beside_buttons(&self) -> Option<(String, [&'static str; 2])> {
        let [url, _] = self.links()?;
        let titles = [self.words.approve_title, self.words.reject_title];
        Some((self.short(&format!("{}\n{url}", self.words.how_buttons))?, titles))
    }

    fn short(&self, how: &str) -> Option<String> {
        let (notice, words) = (self.notice, self.words);
        let deadline = self.deadline().map(|(at, left)| (words.deadline)(&at, &left) + "\n");
        let end = deadline.unwrap_or_default() + how;
        if units(&end) > END_UNITS_MAX {
            return None;
        }
        let mut page = Page::new(end, BODY_UNITS_MAX);
        page.add(&head(words.asked, notice, Some(words)));
        page.add(&cut(&lines(notice.note.as_deref().unwrap_or_default()), NOTE_UNITS_MAX));
        page.add_output(notice.output.as_deref(), words.draft, words.draft_begins);
        Some(page.finish())
    }

    /// What fills the template: of a request what it is about, what is asked and until when;
    /// of everything else what has happened to what, and the rest.
    pub(in crate::notify) fn parameters(&self) -> Vec<String> {
        let (notice, words) = (self.notice, self.words);
        let step = (words.step)(notice.step, notice.step_count);
        if notice.kind.asks() {
            let note = one_line(notice.note.as_deref().unwrap_or_default());
            let deadline = self.deadline().map(|(at, left)| at + &left);
            let deadline = deadline.unwrap_or_else(|| words.no_deadline.to_owned());
            return vec![
                parameter(&name(notice), NAME_UNITS_MAX),
                parameter(if note.is_empty() { &step } else { &note }, NOTE_LINE_UNITS_MAX),
                parameter(&deadline, DEADLINE_UNITS_MAX),
            ];
        }
        let of_job = |title| format!("{title}: {}", cut(&name(notice), NAME_UNITS_MAX));
        let (title, detail) = match notice.kind {
            NoticeKind::ApprovalRequested
            | NoticeKind::ApprovalReminder
            | NoticeKind::ApprovalEscalated
            // Only endpoints are told of these, by texts of their own.
            | NoticeKind::ApprovalDecided
            | NoticeKind::ApprovalExpired
            | NoticeKind::Paused
            | NoticeKind::NoticeFailed => (of_job(self.asking_title()), step),
            NoticeKind::Completed => {
                (of_job(words.completed), notice.output.clone().unwrap_or_default())
            }
            NoticeKind::Failed => (of_job(words.failed), self.why_failed()),
            NoticeKind::Cancelled => {
                (of_job(words.cancelled), (words.why_cancelled)(notice.reason).to_owned())
            }
            NoticeKind::OutOfBudget => (of_job(words.out_of_budget), words.why_paused.to_owned()),
            NoticeKind::DailyBudget => (words.day_used_up.to_owned(), self.why_put_off()),
        };
        let cost = cost(words, notice.cost_usd);
        let detail = if one_line(&detail).is_empty() { cost } else { detail };
        vec![parameter(&title, TITLE_LINE_UNITS_MAX), parameter(&detail, DETAIL_UNITS_MAX)]
    }
}

/// A text as a template takes it: one line without what cannot be seen, never empty.
fn parameter(text: &str, units_max: usize) -> String {
    let line = one_line(text);
    let shown = cut(&line, units_max);
    if shown.is_empty() { NOTHING.to_owned() } else { shown.into_owned() }
}
