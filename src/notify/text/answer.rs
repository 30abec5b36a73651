//! Answers to what people write: what became of their decision, or how to decide.
//!
//! In comes what there is to say, out comes a short text in the person's language.
//! Tasks are those of jobs, cleaned and cut; no text holds a link or a token.

mod en;

mod zh;

mod pt_br;

use chrono::{DateTime, Utc};
use chrono_tz::Tz;

use super::excerpt::{cut, one_line};
use crate::domain::approval::{Door, Verdict, mask};
use crate::domain::event::Decision;
use crate::domain::language::{is_same, local};

const TASK_UNITS_MAX: usize = 200;
const JOB_ID_UNITS_MAX: usize = 40;

/// Every language, the one for everybody else first.
pub(in crate::notify) const ALL: [&Say; 3] = [&en::SAY, &zh::SAY, &pt_br::SAY];

/// What there is to say.
#[derive(Clone, Debug)]
pub(in crate::notify) enum Answer {
    /// Their approval counts, and it takes so many more.
    Counted { task: String, missing: i32 },
    /// They approved, and that is enough.
    Approved { task: String, is_paused: bool },
    /// They rejected.
    Rejected { task: String, is_paused: bool },
    /// It had been decided before.
    Decided { task: String, by: Option<Decision> },
    /// They had said the other thing before.
    AlreadyVoted { task: String },
    /// The time was over.
    Expired { task: String },
    /// No decision is needed any more.
    Withdrawn { task: String },
    /// The draft was edited, and is asked about anew.
    Edited { task: String },
    /// Nothing is known of what they decide.
    Gone,
    /// It is somebody else's to decide.
    NotTheirs,
    /// The approval knows them under two names.
    Unclear { task: String },
    /// They answered before the request had reached them.
    TooEarly { task: String },
    /// Nothing waits for them.
    Nothing,
    /// This waits for them.
    One { task: String },
    /// Several wait for them: tasks with their jobs.
    Several { tasks: Vec<(String, String)>, has_more: bool },
}

/// The words of one language.
pub(in crate::notify) struct Say {
    /// Its BCP 47 tag.
    pub(in crate::notify) tag: &'static str,
    /// What decides when it is written alone, as it is compared: in small letters and without a stop.
    pub(in crate::notify) approve: &'static [&'static str],
    pub(in crate::notify) reject: &'static [&'static str],
    /// Which of these also decide with a comment behind them.
    pub(in crate::notify) approve_plainly: &'static [&'static str],
    pub(in crate::notify) reject_plainly: &'static [&'static str],
    approved: &'static str,
    goes_on: &'static str,
    missing: fn(i32) -> String,
    counted: &'static str,
    rejected: &'static str,
    ends: &'static str,
    approved_paused: &'static str,
    rejected_paused: &'static str,
    decided: &'static str,
    /// By whom it was decided, and when.
    was_approved: fn(&str, &str) -> String,
    was_rejected: fn(&str, &str) -> String,
    was_sent_back: fn(&str, &str) -> String,
    by_deadline: &'static str,
    not_counted: &'static str,
    already_voted: &'static str,
    expired: &'static str,
    expired_why: &'static str,
    withdrawn: &'static str,
    withdrawn_why: &'static str,
    edited: &'static str,
    edited_why: &'static str,
    gone: &'static str,
    not_theirs: &'static str,
    unclear: &'static str,
    too_early: &'static str,
    nothing: &'static str,
    one: &'static str,
    several: &'static str,
    how_one: &'static str,
    how_several: &'static str,
    more: &'static str,
}

/// The language of a tag, else of the script of what was written.
pub(in crate::notify) fn say(language: Option<&str>, written: &str) -> &'static Say {
    let Some(language) = language else {
        return if is_chinese(written) { &zh::SAY } else { &en::SAY };
    };
    ALL.into_iter().find(|say| is_same(say.tag, language)).unwrap_or(ALL[0])
}

/// Whether a text has Chinese in it.
pub(in crate::notify) fn is_chinese(text: &str) -> bool {
    text.contains(|letter: char| ('\u{4e00}'..='\u{9fff}').contains(&letter))
}

/// The text of an answer.
pub(in crate::notify) fn write(answer: &Answer, say: &Say, zone: Tz) -> String {
    match answer {
        Answer::Counted { task, missing } => page(say.counted, task, &[&(say.missing)(*missing)]),
        Answer::Approved { task, is_paused } => {
            let follows = if *is_paused { say.approved_paused } else { say.goes_on };
            page(say.approved, task, &[follows])
        }
        Answer::Rejected { task, is_paused } => {
            let follows = if *is_paused { say.rejected_paused } else { say.ends };
            page(say.rejected, task, &[follows])
        }
        Answer::Decided { task, by } => {
            let by = by.as_ref().map(|decision| decided_by(decision, say, zone));
            page(say.decided, task, &[&by.unwrap_or_default(), say.not_counted])
        }
        Answer::AlreadyVoted { task } => page(say.decided, task, &[say.already_voted]),
        Answer::Expired { task } => page(say.expired, task, &[say.expired_why]),
        Answer::Withdrawn { task } => page(say.withdrawn, task, &[say.withdrawn_why]),
        Answer::Edited { task } => page(say.edited, task, &[say.edited_why]),
        Answer::Gone => say.gone.to_owned(),
        Answer::NotTheirs => say.not_theirs.to_owned(),
        Answer::Unclear { task } => page(say.one, task, &[say.unclear]),
        Answer::TooEarly { task } => page(say.one, task, &[say.too_early]),
        Answer::Nothing => say.nothing.to_owned(),
        Answer::One { task } => page(say.one, task, &[say.how_one]),
        Answer::Several { tasks, has_more } => several(tasks, *has_more, say),
    }
}

fn several(tasks: &[(String, String)], has_more: bool, say: &Say) -> String {
    let mut lines: Vec<String> = tasks
        .iter()
        .map(|(task, job_id)| {
            let job_id = one_line(job_id);
            format!("• {} ({})", shown(task), cut(&job_id, JOB_ID_UNITS_MAX))
        })
        .collect();
    lines.extend(has_more.then(|| say.more.to_owned()));
    format!("*{}*\n{}\n\n{}", say.several, lines.join("\n"), say.how_several)
}

/// A title, what it is about, and what there is to say of it.
fn page(title: &str, task: &str, sentences: &[&str]) -> String {
    let task = shown(task);
    let head = if task.is_empty() { format!("*{title}*") } else { format!("*{title}*\n{task}") };
    let sentences: Vec<&str> =
        sentences.iter().copied().filter(|sentence| !sentence.is_empty()).collect();
    format!("{head}\n\n{}", sentences.join("\n"))
}

fn shown(task: &str) -> String {
    cut(&one_line(task), TASK_UNITS_MAX).into_owned()
}

fn decided_by(decision: &Decision, say: &Say, zone: Tz) -> String {
    let by = match decision.door {
        Door::Timeout => say.by_deadline.to_owned(),
        Door::Link | Door::Button | Door::Reply | Door::Grpc | Door::Webhook => {
            one_line(&mask(&decision.voter))
        }
    };
    let at = moment(decision.decided_at, zone, say);
    match decision.verdict {
        Verdict::Approve => (say.was_approved)(&by, &at),
        Verdict::Reject => (say.was_rejected)(&by, &at),
        Verdict::RequestChanges => (say.was_sent_back)(&by, &at),
    }
}

fn moment(at: DateTime<Utc>, zone: Tz, say: &Say) -> String {
    local(at, zone, say.tag)
}

#[cfg(test)]
pub(in crate::notify) mod tests {
    use super::*;

    pub(in crate::notify) fn every() -> Vec<Answer> {
        let task = || "为记账App写文案".to_owned();
        let decision = |verdict, voter: &str, door| Decision {
            verdict,
            voter: voter.to_owned(),
            door,
            comment: String::new(),
            edited: false,
            via: None,
            decided_at: DateTime::from_timestamp(1_793_581_140, 0).expect("a moment"),
        };
        let approved = decision(Verdict::Approve, "+5511987654321", Door::Reply);
        let back = decision(Verdict::RequestChanges, "ana", Door::Link);
        let by_itself = decision(Verdict::Approve, "timeout", Door::Timeout);
        let rejected = decision(Verdict::Reject, "+15550100", Door::Button);
        let decided = |by| Answer::Decided { task: task(), by: Some(by) };
        vec![
            Answer::Counted { task: task(), missing: 1 },
            Answer::Counted { task: task(), missing: 2 },
            Answer::Approved { task: task(), is_paused: false },
            Answer::Approved { task: task(), is_paused: true },
            Answer::Rejected { task: task(), is_paused: false },
            Answer::Rejected { task: task(), is_paused: true },
            decided(approved),
            decided(back),
            decided(by_itself),
            decided(rejected),
            Answer::Decided { task: task(), by: None },
            Answer::AlreadyVoted { task: task() },
            Answer::Expired { task: task() },
            Answer::Withdrawn { task: task() },
            Answer::Edited { task: task() },
            Answer::Gone,
            Answer::NotTheirs,
            Answer::Unclear { task: task() },
            Answer::TooEarly { task: task() },
            Answer::Nothing,
            Answer::One { task: task() },
            Answer::Several {
                tasks: vec![(task(), "job-1".to_owned()), (String::new(), "job-2".to_owned())],
                has_more: true,
            },
        ]
    }

    #[test]
    fn every_answer_is_said_in_every_language_and_shows_no_number() {
        for say in ALL {
            let mut seen = std::collections::BTreeSet::new();
            for answer in every() {
                let text = write(&answer, say, Tz::America__Sao_Paulo);
                assert!(!text.contains("5550100") && !text.contains("98765"), "{text}");
                assert!(!text.contains("\n\n\n") && !text.ends_with('\n'), "{text:?}");
                assert!(super::super::excerpt::units(&text) < 1024, "{text}");
                assert!(seen.insert(text.clone()), "{} says it twice: {text}", say.tag);
            }
        }
    }

    #[test]
    fn who_decided_and_when_is_told_where_the_person_is() {
        let answer = &every()[6];
        let text = write(answer, say(Some("en"), ""), Tz::Europe__Berlin);
        assert_eq!(
            text,
            "*This was decided before*\n为记账App写文案\n\n\
             It was approved by …4321 on Mon 2 Nov 2026, 01:59 (UTC+01:00).\nYour answer was not counted."
        );
        let text = write(answer, say(None, "为记账"), Tz::UTC);
        assert!(text.contains("…4321"), "{text}");
    }
}
