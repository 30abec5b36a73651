//! What an answer that is not success means: whether the message may have gone out, and what can be done.
//!
//! In come the status, the headers and the body; out comes a class, how long to wait, and words for the operator.
//! Meta's code decides and never its words; the status decides only where there is no code that is known.
//! The words hold no token and no phone number, whatever the answer repeated of them.

#[cfg(test)]
mod tests;

use std::time::Duration;

use chrono::DateTime;
use reqwest::StatusCode;
use reqwest::header::{DATE, HeaderMap, RETRY_AFTER};
use serde_json::Value;

use self::Class::{
    Ambiguous, Configuration, Pair, Permanent, Rate, Template, Undeliverable, Window,
};

const WORDS_CHARS_MAX: usize = 300;
const BACK_OFF_MAX: Duration = Duration::from_hours(1);
/// Whoever asks for a longer wait is not believed.
const WAIT_MAX: Duration = Duration::from_hours(24);
/// A phone number has at least so many digits, and one of Meta's codes at most one fewer.
const NUMBER_DIGITS_MIN: usize = 7;
/// A shorter token is one for trying out, and may be a part of any word.
const SECRET_BYTES_MIN: usize = 8;

/// What can be done about an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    /// Not sent: too much at once, so nothing more from this account for a while.
    Rate,
    /// Not sent: too much for this one person, who is left alone for a while.
    Pair,
    /// Perhaps sent: a blind repetition may reach the person twice.
    Ambiguous,
    /// Not sent: the person may not be written to freely, only with a template.
    Window,
    /// Not sent: this template cannot be used, at present or at all; another one may.
    Template,
    /// Not sent, and nothing will reach this person here.
    Undeliverable,
    /// Not sent, and not in this form; another form may do.
    Permanent,
    /// Not sent, and no message will be until a person mends the account, the number or the token.
    Configuration,
}

/// Meta's codes by what they mean for a message; the ends of a range belong to it.
const CODES: &[(i64, i64, Class)] = &[
    (0, 0, Configuration),             // the token cannot be read
    (1, 2, Ambiguous),                 // unknown; service down
    (3, 3, Configuration),             // a permission is missing
    (4, 4, Rate),                      // the app's limit
    (10, 10, Configuration),           // permission denied
    (33, 33, Configuration),           // the sending number is gone
    (100, 100, Permanent),             // a parameter is wrong
    (190, 190, Configuration),         // the token has expired
    (200, 299, Configuration),         // permissions
    (368, 368, Configuration),         // the account is restricted
    (80_007, 80_007, Rate),            // the account's limit
    (130_403, 130_403, Undeliverable), // we blocked the person
    (130_429, 130_429, Rate),          // throughput
    (130_472, 130_472, Undeliverable), // the person is in an experiment
    (130_497, 130_497, Undeliverable), // not to this country
    (131_000, 131_000, Ambiguous),     // unknown
    (131_005, 131_005, Configuration), // access denied
    (131_008, 131_009, Permanent),     // a parameter is missing; has a bad value
    (131_016, 131_016, Ambiguous),     // service unavailable
    (131_021, 131_021, Undeliverable), // to oneself
    (131_026, 131_026, Undeliverable), // not on WhatsApp, or not with this app
    (131_030, 131_030, Undeliverable), // a test number, and the person is not on its list
    (131_031, 131_031, Configuration), // account locked
    (131_037, 131_037, Configuration), // display name not approved
    (131_042, 131_042, Configuration), // payment
    (131_045, 131_045, Configuration), // registration
    (131_047, 131_047, Window),        // the window is closed
    (131_048, 131_048, Configuration), // spam limit: to go on would make it worse
    (131_049, 131_050, Undeliverable), // limit of the person, for a day; opted out
    (131_051, 131_053, Permanent),     // unsupported; media
    (131_056, 131_056, Pair),          // too much for one person
    (131_057, 131_057, Rate),          // the number is in maintenance
    (131_062, 131_062, Undeliverable), // not to such an id
    (131_063, 131_063, Configuration), // marketing is off
    (131_064, 131_064, Rate),          // too much that had to be classified
    (132_000, 132_000, Permanent),     // the number of parameters
    (132_001, 132_001, Template),      // no such template in this language
    (132_005, 132_012, Permanent),     // too long; content; format of a parameter
    (132_015, 132_016, Template),      // the template is paused; is disabled
    (132_018, 132_018, Permanent),     // a parameter's text
    (132_068, 132_068, Configuration), // a flow is blocked
    (132_069, 132_069, Rate),          // a flow is slowed down
    (133_000, 133_000, Configuration), // registration
    (133_004, 133_004, Ambiguous),     // server unavailable
    (133_005, 133_016, Configuration), // registration
    (134_011, 134_011, Configuration), // terms of payments
    (135_000, 135_000, Permanent),     // a parameter is wrong
    (139_200, 139_200, Configuration), // this way of sending is blocked
];

/// What is not asked again before, whatever the answer says.
const WAITS: &[(i64, Duration)] = &[
    (131_048, Duration::from_hours(1)), // each further try counts against the number
    (131_064, Duration::from_hours(1)),
    (133_015, Duration::from_mins(5)), // a number that was just deleted
];

/// An unknown sending number comes as a wrong parameter with this subcode.
const UNKNOWN_OBJECT: (i64, i64) = (100, 33);

/// An answer that is not success, understood.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    /// What can be done.
    pub(super) class: Class,
    /// How long Meta asks to wait, if it says.
    pub(super) wait: Option<Duration>,
    /// What was wrong, for the operator.
    pub(super) words: String,
}

impl Refusal {
    /// Reads an answer; `secret` is hidden wherever the answer repeats it.
    pub(super) fn read(status: StatusCode, headers: &HeaderMap, body: &[u8], secret: &str) -> Self {
        let body: Value = serde_json::from_slice(body).unwrap_or_default();
        let error = &body["error"];
        let code = error["code"].as_i64();
        let class = classify(status, code, error["error_subcode"].as_i64());
        let head = match code {
            Some(code) => format!("error {code}"),
            None => format!("status {}", status.as_u16()),
        };
        let said = [&error["message"], &error["error_data"]["details"]];
        let least = code.and_then(|code| WAITS.iter().find(|(of, _)| *of == code));
        let wait = find_wait(headers).max(least.map(|(_, wait)| *wait));
        Self { class, wait, words: say(head, code, said, secret) }
    }
}

/// What Meta said after what we say, tidied and cut.
pub(super) fn say(head: String, code: Option<i64>, said: [&Value; 2], secret: &str) -> String {
    let prefix = code.map(|code| format!("(#{code})")).unwrap_or_default();
    let mut words = head;
    for said in said.into_iter().filter_map(Value::as_str).filter(|said| !said.is_empty()) {
        let said = said.strip_prefix(&prefix).unwrap_or(said).trim();
        words = format!("{words}: {}", tidy(said, secret));
    }
    words.chars().take(WORDS_CHARS_MAX).collect()
}

/// How long to wait before the try after this one: 1 s, 4 s, 16 s, …, an hour.
pub(super) fn back_off(tries: i32) -> Duration {
    let power = tries.clamp(1, 7).unsigned_abs() - 1;
    Duration::from_secs(4_u64.pow(power)).min(BACK_OFF_MAX)
}

/// The class of a code, if it is known.
pub(super) fn find_class(code: i64) -> Option<Class> {
    let known = CODES.iter().find(|(first, last, _)| (*first..=*last).contains(&code));
    known.map(|(_, _, class)| *class)
}

fn classify(status: StatusCode, code: Option<i64>, subcode: Option<i64>) -> Class {
    if code.zip(subcode) == Some(UNKNOWN_OBJECT) {
        return Configuration;
    }
    if let Some(class) = code.and_then(find_class) {
        return class;
    }
    match status.as_u16() {
        429 => Rate,
        // Success without a message id, and a proxy that gave up waiting, may both hide a message that went out.
        200..=299 | 408 | 500.. => Ambiguous,
        // Something between us and Meta, or an address that is not Meta's.
        300..=399 | 401 | 403 | 404 | 405 | 407 => Configuration,
        _ => Permanent,
    }
}

pub(super) fn find_wait(headers: &HeaderMap) -> Option<Duration> {
    let waits = [find_retry_after(headers), find_retry_date(headers), find_regain(headers)];
    waits.into_iter().flatten().max().map(|wait| wait.min(WAIT_MAX))
}

fn text_header<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    headers.get(name)?.to_str().ok().map(str::trim)
}

fn find_retry_after(headers: &HeaderMap) -> Option<Duration> {
    let seconds: f64 = text_header(headers, RETRY_AFTER.as_str())?.parse().ok()?;
    Duration::try_from_secs_f64(seconds).ok()
}

/// A date is read against the response's own date, for our clock and theirs can differ.
fn find_retry_date(headers: &HeaderMap) -> Option<Duration> {
    let date = |name: &str| DateTime::parse_from_rfc2822(text_header(headers, name)?).ok();
    (date(RETRY_AFTER.as_str())? - date(DATE.as_str())?).to_std().ok()
}

/// Meta says per account and kind of use how many minutes it will be throttled.
fn find_regain(headers: &HeaderMap) -> Option<Duration> {
    let usage = text_header(headers, "x-business-use-case-usage")?;
    let usage: Value = serde_json::from_str(usage).ok()?;
    let uses = usage.as_object()?.values().filter_map(Value::as_array).flatten();
    let minutes = uses.filter_map(|one| one["estimated_time_to_regain_access"].as_u64()).max()?;
    (minutes > 0).then(|| Duration::from_secs(minutes.saturating_mul(60)))
}

/// Meta's words without what they may repeat of the request: the token, a phone number, a line break.
fn tidy(said: &str, secret: &str) -> String {
    let is_secret = secret.len() >= SECRET_BYTES_MIN;
    let said = if is_secret { said.replace(secret, "…") } else { said.to_owned() };
    let said: String = said.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    without_numbers(&said)
}

fn without_numbers(said: &str) -> String {
    let mut kept = String::new();
    let mut rest = said;
    while let Some(start) = rest.find(|c: char| c.is_ascii_digit()) {
        let from_digit = &rest[start..];
        let is_number = |c: char| c.is_ascii_digit() || matches!(c, ' ' | '-' | '(' | ')' | '.');
        let end = from_digit.find(|c: char| !is_number(c)).unwrap_or(from_digit.len());
        // What only separates belongs to what follows.
        let run = from_digit[..end].trim_end_matches(|c: char| !c.is_ascii_digit());
        let digits = run.bytes().filter(u8::is_ascii_digit).count();
        kept.push_str(rest[..start].trim_end_matches('+'));
        kept.push_str(if digits < NUMBER_DIGITS_MIN { run } else { "…" });
        rest = &from_digit[run.len()..];
    }
    kept + rest
}
