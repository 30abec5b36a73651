//! The texts of notices, as a person reads them on a phone.
//!
//! In comes a notice with everything it tells, out comes one message of at most 4,096 characters.
//! What is ours (titles, deadline, links) always survives whole; what users and models wrote is cleaned and cut to fit.
//! An output is quoted line by line, so that no line of it can pass for one of our links.

mod en;

mod zh;

mod pt_br;

mod excerpt;

#[cfg(test)]
mod tests;

use std::borrow::Cow;

use chrono::{DateTime, TimeDelta, Utc};

use self::excerpt::{cut, lines, one_line, quote, units};
use crate::domain::event::NoticeKind;
use crate::domain::job::Reason;
use crate::domain::language::is_same;
use crate::domain::money::Usd;
use crate::store::outbox::Outgoing;

/// What `WhatsApp` takes, counted in UTF-16 units, which is the strictest way to read "characters".
const UNITS_MAX: usize = 4096;
const TASK_UNITS_MAX: usize = 200;
const NOTE_UNITS_MAX: usize = 1000;
const OUTPUT_UNITS_MAX: usize = 700;
const ERROR_UNITS_MAX: usize = 300;
/// Less of an output than this says nothing.
const OUTPUT_UNITS_MIN: usize = 60;

/// Every language, the one for everybody else first.
const ALL: [&Words; 3] = [&en::WORDS, &zh::WORDS, &pt_br::WORDS];

/// The words of one language.
struct Words {
    /// Its BCP 47 tag.
    tag: &'static str,
    /// The titles.
    asked: &'static str,
    completed: &'static str,
    failed: &'static str,
    cancelled: &'static str,
    out_of_budget: &'static str,
    /// What stands before an output, whole or cut.
    draft: &'static str,
    draft_begins: &'static str,
    result: &'static str,
    result_begins: &'static str,
    /// What the links do.
    how: &'static str,
    /// What stands before the links and the rest, with what follows it.
    approve: &'static str,
    reject: &'static str,
    error: &'static str,
    step: fn(i32, i32) -> String,
    deadline: fn(DateTime<Utc>, Option<Left>) -> String,
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

/// The message of a notice; `None` for an approval request whose links are gone, and for what no person is told.
///
/// What operators are told is in their language, which need not be that of the job.
pub(super) fn write(
    notice: &Outgoing,
    public_url: &str,
    operators_language: Option<&str>,
) -> Option<String> {
    let words = words(notice.language.as_deref(), &notice.task);
    Some(match notice.kind {
        NoticeKind::ApprovalRequested => asked(words, notice, public_url)?,
        NoticeKind::Completed => completed(words, notice),
        NoticeKind::Failed => failed(words, notice),
        NoticeKind::Cancelled => cancelled(words, notice),
        NoticeKind::OutOfBudget => out_of_budget(words, notice),
        // Only endpoints are told, by texts of their own.
        NoticeKind::ApprovalDecided
        | NoticeKind::ApprovalExpired
        | NoticeKind::Paused
        | NoticeKind::NoticeFailed => return None,
        NoticeKind::DailyBudget => {
            daily_budget(self::words(operators_language.or(Some("en")), ""), notice)
        }
    })
}

fn asked(words: &Words, notice: &Outgoing, public_url: &str) -> Option<String> {
    let tokens = notice.tokens.as_ref()?;
    let deadline = notice.deadline_at.map(|deadline_at| {
        let left = Left::until(deadline_at, notice.now);
        (words.deadline)(deadline_at, left) + "\n"
    });
    let end = format!(
        "{}{}\n\n{}{public_url}/approvals/{}\n{}{public_url}/approvals/{}",
        deadline.unwrap_or_default(),
        words.how,
        words.approve,
        tokens.approve,
        words.reject,
        tokens.reject,
    );
    let mut page = Page::new(end);
    page.add(&head(words.asked, notice, Some(words)));
    page.add(&cut(&lines(notice.note.as_deref().unwrap_or_default()), NOTE_UNITS_MAX));
    page.add_output(notice.output.as_deref(), words.draft, words.draft_begins);
    Some(page.finish())
}

fn completed(words: &Words, notice: &Outgoing) -> String {
    let mut page = Page::new(cost(words, notice.cost_usd));
    page.add(&head(words.completed, notice, None));
    page.add_output(notice.output.as_deref(), words.result, words.result_begins);
    page.finish()
}

fn failed(words: &Words, notice: &Outgoing) -> String {
    let mut page = Page::new(cost(words, notice.cost_usd));
    page.add(&head(words.failed, notice, Some(words)));
    let mut why = (words.why_failed)(notice.reason).to_owned();
    // Of these two the reason says everything that the error does.
    let says_all =
        matches!(notice.reason, Some(Reason::ApprovalExpired | Reason::RecoveriesExhausted));
    let error = one_line(notice.error.as_deref().unwrap_or_default());
    if !says_all && !error.is_empty() {
        why = format!("{why}\n{}{}", words.error, cut(&error, ERROR_UNITS_MAX));
    }
    page.add(&why);
    page.finish()
}

fn cancelled(words: &Words, notice: &Outgoing) -> String {
    let mut page = Page::new(cost(words, notice.cost_usd));
    page.add(&head(words.cancelled, notice, Some(words)));
    page.add((words.why_cancelled)(notice.reason));
    page.finish()
}

fn out_of_budget(words: &Words, notice: &Outgoing) -> String {
    let mut page = Page::new(cost(words, notice.cost_usd));
    page.add(&head(words.out_of_budget, notice, Some(words)));
    page.add(words.why_paused);
    page.finish()
}

/// It is about every job, so it names none.
fn daily_budget(words: &Words, notice: &Outgoing) -> String {
    let budget_usd = notice.daily_budget_usd.map(|usd| usd.to_string());
    format!("*{}*\n\n{}", words.day_used_up, (words.why_put_off)(budget_usd.as_deref()))
}

/// The title, what the job is for, and where it stands.
fn head(title: &str, notice: &Outgoing, step_words: Option<&Words>) -> String {
    let task = one_line(&notice.task);
    // A job without a task still has to be told from others.
    let name = if task.is_empty() { one_line(notice.key.job_id()) } else { task };
    let mut head = format!("*{title}*\n{}", cut(&name, TASK_UNITS_MAX));
    if let Some(words) = step_words {
        head = format!("{head}\n{}", (words.step)(notice.step, notice.step_count));
    }
    head
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

/// A message in the making; its end is written first, so that nothing takes its room.
struct Page {
    paragraphs: Vec<String>,
    end: String,
    room: usize,
}

const BETWEEN: &str = "\n\n";

impl Page {
    fn new(end: String) -> Self {
        Self { paragraphs: Vec::new(), room: UNITS_MAX.saturating_sub(units(&end)), end }
    }

    fn add(&mut self, paragraph: &str) {
        let room = self.room.saturating_sub(BETWEEN.len());
        let fits = cut(paragraph, room);
        if !fits.is_empty() {
            self.room = room - units(&fits);
            self.paragraphs.push(fits.into_owned());
        }
    }

    fn add_output(&mut self, output: Option<&str>, label: &str, label_if_cut: &str) {
        let output = quote(&lines(output.unwrap_or_default()));
        let room = self.room.saturating_sub(BETWEEN.len() + units(label_if_cut) + 1);
        if output.is_empty() || room < OUTPUT_UNITS_MIN {
            return;
        }
        let shown = cut(&output, OUTPUT_UNITS_MAX.min(room));
        let label = match shown {
            Cow::Borrowed(_) => label,
            Cow::Owned(_) => label_if_cut,
        };
        self.add(&format!("{label}\n{shown}"));
    }

    fn finish(mut self) -> String {
        if !self.end.is_empty() {
            self.paragraphs.push(self.end);
        }
        self.paragraphs.join(BETWEEN)
    }
}
