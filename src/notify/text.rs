//! The texts of notices, as a person reads them on a phone.
//!
//! In comes a notice with everything it tells, out comes its text for each form of message, no longer than that takes.
//! It is in the language of its reader, and its times are those of where they are.
//! What is ours (titles, deadline, links) always survives whole; what users and models wrote is cleaned and cut to fit.
//! An output is quoted line by line, so that no line of it can pass for one of our links.

mod en;

mod zh;

mod pt_br;

mod excerpt;

pub(super) mod answer;

mod page;

mod short;

#[cfg(test)]
pub(super) mod tests;

use chrono::{DateTime, TimeDelta, Utc};
use chrono_tz::Tz;

use self::excerpt::{cut, lines, one_line};
use self::page::Page;
use super::message::TEXT_UNITS_MAX;
use crate::domain::event::NoticeKind;
use crate::domain::job::Reason;
use crate::domain::language::{is_same, local};
use crate::domain::money::Usd;
use crate::store::outbox::Outgoing;

const TASK_UNITS_MAX: usize = 200;
const NOTE_UNITS_MAX: usize = 1000;
const ERROR_UNITS_MAX: usize = 300;

/// Every language, the one for everybody else first.
const ALL: [&Words; 3] = [&en::WORDS, &zh::WORDS, &pt_br::WORDS];

/// The words of one language.
struct Words {
    /// Its BCP 47 tag.
    tag: &'static str,
    /// The titles.
    asked: &'static str,
    reminded: &'static str,
    escalated: &'static str,
    completed: &'static str,
    failed: &'static str,
    cancelled: &'static str,
    out_of_budget: &'static str,
    /// What stands before an output, whole or cut.
    draft: &'static str,
    draft_begins: &'static str,
    result: &'static str,
    result_begins: &'static str,
    /// What the links do, and the button that opens the page, and the buttons that decide.
    how: &'static str,
    how_link: &'static str,
    how_buttons: &'static str,
    /// The titles of buttons, of at most twenty letters.
    open_title: &'static str,
    approve_title: &'static str,
    reject_title: &'static str,
    /// What stands before the links and the rest, with what follows it.
    approve: &'static str,
    reject: &'static str,
    error: &'static str,
    step: fn(i32, i32) -> String,
    /// When it is, and how long that is.
    deadline: fn(&str, &str) -> String,
    /// What follows a moment that is still to come.
    left: fn(Left) -> String,
    no_deadline: &'static str,
    why_failed: fn(Option<Reason>) -> &'static str,
    why_cancelled: fn(Option<Reason>) -> &'static str,
    /// What the budget does not cover, and what to do.
    why_paused: &'static str,
    /// The title and the text for operators, with the day's budget if it is known.
    day_used_up: &'static str,
    why_put_off: fn(Option<&str>) -> String,
    cost: fn(&str) -> String,
    cost_is_tiny: &'static str,
}

/// How much time is left, in the largest unit that says it well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Left {
    Days(i64),
    Hours(i64),
    Minutes(i64),
    Moments,
}

/// A notice as its reader gets it.
pub(super) struct Letter<'a> {
    notice: &'a Outgoing,
    public_url: &'a str,
    words: &'static Words,
    time_zone: Tz,
}

/// Who reads.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Reader<'a> {
    /// Their own language, which goes before that of the job.
    pub(super) language: Option<&'a str>,
    /// The language of operators, who are told what is of no job.
    pub(super) operators_language: Option<&'a str>,
    /// Where they are.
    pub(super) time_zone: Tz,
}

impl<'a> Letter<'a> {
    pub(super) fn new(notice: &'a Outgoing, public_url: &'a str, reader: Reader<'_>) -> Self {
        let words = match notice.kind {
            NoticeKind::DailyBudget => {
                words(reader.language.or(reader.operators_language).or(Some("en")), "")
            }
            NoticeKind::ApprovalRequested
            | NoticeKind::ApprovalReminder
            | NoticeKind::ApprovalEscalated
            | NoticeKind::Completed
            | NoticeKind::Failed
            | NoticeKind::Cancelled
            | NoticeKind::OutOfBudget
            | NoticeKind::ApprovalDecided
            | NoticeKind::ApprovalExpired
            | NoticeKind::Paused
            | NoticeKind::NoticeFailed => {
                words(reader.language.or(notice.language.as_deref()), &notice.task)
            }
        };
        Self { notice, public_url, words, time_zone: reader.time_zone }
    }

    /// The tag of its language.
    pub(super) fn language(&self) -> &'static str {
        self.words.tag
    }

    /// The whole text, with its links; `None` for a request whose links are gone.
    pub(super) fn whole(&self) -> Option<String> {
        let Self { notice, words, .. } = self;
        Some(match notice.kind {
            NoticeKind::ApprovalRequested
            | NoticeKind::ApprovalReminder
            | NoticeKind::ApprovalEscalated => self.asked()?,
            NoticeKind::Completed => {
                let mut page = Page::new(cost(words, notice.cost_usd), TEXT_UNITS_MAX);
                page.add(&head(words.completed, notice, None));
                page.add_output(notice.output.as_deref(), words.result, words.result_begins);
                page.finish()
            }
            NoticeKind::Failed => self.told(words.failed, &self.why_failed()),
            NoticeKind::Cancelled => {
                self.told(words.cancelled, (words.why_cancelled)(notice.reason))
            }
            NoticeKind::OutOfBudget => self.told(words.out_of_budget, words.why_paused),
            // Only endpoints are told, by texts of their own.
            NoticeKind::ApprovalDecided
            | NoticeKind::ApprovalExpired
            | NoticeKind::Paused
            | NoticeKind::NoticeFailed => return None,
            NoticeKind::DailyBudget => {
                format!("*{}*\n\n{}", words.day_used_up, self.why_put_off())
            }
        })
    }

    fn asked(&self) -> Option<String> {
        let Self { notice, words, .. } = self;
        let [approve, reject] = self.links()?;
        let deadline = self.deadline().map(|(at, left)| (words.deadline)(&at, &left) + "\n");
        let end = format!(
            "{}{}\n\n{}{approve}\n{}{reject}",
            deadline.unwrap_or_default(),
            words.how,
            words.approve,
            words.reject,
        );
        let mut page = Page::new(end, TEXT_UNITS_MAX);
        page.add(&head(self.asking_title(), notice, Some(words)));
        page.add(&cut(&lines(notice.note.as_deref().unwrap_or_default()), NOTE_UNITS_MAX));
        page.add_output(notice.output.as_deref(), words.draft, words.draft_begins);
        Some(page.finish())
    }

    fn asking_title(&self) -> &'static str {
        match self.notice.kind {
            NoticeKind::ApprovalReminder => self.words.reminded,
            NoticeKind::ApprovalEscalated => self.words.escalated,
            NoticeKind::ApprovalRequested
            | NoticeKind::Completed
            | NoticeKind::Failed
            | NoticeKind::Cancelled
            | NoticeKind::OutOfBudget
            | NoticeKind::DailyBudget
            | NoticeKind::ApprovalDecided
            | NoticeKind::ApprovalExpired
            | NoticeKind::Paused
            | NoticeKind::NoticeFailed => self.words.asked,
        }
    }

    fn told(&self, title: &str, why: &str) -> String {
        let Self { notice, words, .. } = self;
        let mut page = Page::new(cost(words, notice.cost_usd), TEXT_UNITS_MAX);
        page.add(&head(title, notice, Some(words)));
        page.add(why);
        page.finish()
    }

    fn why_failed(&self) -> String {
        let Self { notice, words, .. } = self;
        let why = (words.why_failed)(notice.reason).to_owned();
        // Of these two the reason says everything that the error does.
        let says_all =
            matches!(notice.reason, Some(Reason::ApprovalExpired | Reason::RecoveriesExhausted));
        let error = one_line(notice.error.as_deref().unwrap_or_default());
        if says_all || error.is_empty() {
            return why;
        }
        format!("{why}\n{}{}", words.error, cut(&error, ERROR_UNITS_MAX))
    }

    /// It is about every job, so it names none.
    fn why_put_off(&self) -> String {
        let budget_usd = self.notice.daily_budget_usd.map(|usd| usd.to_string());
        (self.words.why_put_off)(budget_usd.as_deref())
    }

    /// Where approve and reject lead.
    fn links(&self) -> Option<[String; 2]> {
        let tokens = self.notice.tokens.as_ref()?;
        let link = |token: &str| format!("{}/approvals/{token}", self.public_url);
        Some([link(&tokens.approve), link(&tokens.reject)])
    }

    /// Until when to decide, and how long that is.
    fn deadline(&self) -> Option<(String, String)> {
        let deadline_at = self.notice.deadline_at?;
        let left = Left::until(deadline_at, self.notice.now).map(self.words.left);
        let at = local(deadline_at, self.time_zone, self.words.tag);
        Some((at, left.unwrap_or_default()))
    }
}

/// The title, what the job is for, and where it stands.
fn head(title: &str, notice: &Outgoing, step_words: Option<&Words>) -> String {
    let mut head = format!("*{title}*\n{}", cut(&name(notice), TASK_UNITS_MAX));
    if let Some(words) = step_words {
        head = format!("{head}\n{}", (words.step)(notice.step, notice.step_count));
    }
    head
}

/// A job without a task still has to be told from others.
fn name(notice: &Outgoing) -> String {
    let task = one_line(&notice.task);
    if task.is_empty() { one_line(notice.key.job_id()) } else { task }
}

/// Nothing for zero: a cost that is not known looks the same.
fn cost(words: &Words, cost_usd: Usd) -> String {
    let exact = cost_usd.as_decimal();
    if exact.is_zero() {
        return String::new();
    }
    let mut shown = exact.round_dp(4).normalize();
    if shown.is_zero() {
        return words.cost_is_tiny.to_owned();
    }
    if shown.scale() < 2 {
        shown.rescale(2);
    }
    (words.cost)(&shown.to_string())
}

/// The words of the language that was chosen, else of the script the task is written in.
fn words(language: Option<&str>, task: &str) -> &'static Words {
    let Some(language) = language else {
        let is_han = |letter: char| ('\u{4e00}'..='\u{9fff}').contains(&letter);
        return if task.contains(is_han) { &zh::WORDS } else { &en::WORDS };
    };
    ALL.into_iter().find(|words| is_same(words.tag, language)).unwrap_or(ALL[0])
}

impl Left {
    /// Rounded to the minute, so that a message sent a second after the question says "24 hours".
    fn until(deadline_at: DateTime<Utc>, now: DateTime<Utc>) -> Option<Self> {
        let left = deadline_at - now;
        let minutes = (left + TimeDelta::seconds(30)).num_minutes();
        match minutes {
            _ if left <= TimeDelta::zero() => None,
            0 => Some(Self::Moments),
            1..120 => Some(Self::Minutes(minutes)),
            120..2880 => Some(Self::Hours(minutes / 60)),
            _ => Some(Self::Days(minutes / 1440)),
        }
    }
}
