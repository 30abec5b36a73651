//! Text for people: columns, money, times, colour.
//!
//! In come values and the width there is; out go strings that fit it.
//! Text from jobs is foreign: it is shown on one line and cannot carry escape codes into the terminal.
//! A column counts cells, not characters: Chinese takes two a character.

use std::{
    env,
    io::{self, IsTerminal as _},
    str::FromStr as _,
    time::Duration,
};

use chrono::{DateTime, Local};
use prost_types::Timestamp;
use rust_decimal::Decimal;
use unicode_segmentation::UnicodeSegmentation as _;
use unicode_width::UnicodeWidthStr;

use crate::rpc::proto::{JobStatus, Usage};

/// Whether and how text is coloured.
#[derive(Clone, Copy, Debug)]
pub struct Paint {
    on: bool,
}

impl Paint {
    /// Colour on a terminal, unless `NO_COLOR` is set to anything.
    pub fn for_stdout() -> Self {
        let refused = env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        Self { on: io::stdout().is_terminal() && !refused }
    }

    /// No colour.
    pub const fn plain() -> Self {
        Self { on: false }
    }

    /// Whether there is colour.
    pub const fn is_on(self) -> bool {
        self.on
    }

    /// Something to look at first.
    pub fn bold(self, text: &str) -> String {
        self.with("1", text)
    }

    /// Something to look at last.
    pub fn dim(self, text: &str) -> String {
        self.with("2", text)
    }

    /// Something that went well.
    pub fn green(self, text: &str) -> String {
        self.with("32", text)
    }

    /// Something that waits for a person.
    pub fn yellow(self, text: &str) -> String {
        self.with("33", text)
    }

    /// Something that failed.
    pub fn red(self, text: &str) -> String {
        self.with("31", text)
    }

    /// Something at work.
    pub fn cyan(self, text: &str) -> String {
        self.with("36", text)
    }

    /// Text in the colour of a status.
    pub fn status(self, status: JobStatus, text: &str) -> String {
        match status {
            JobStatus::Running => self.cyan(text),
            JobStatus::AwaitingApproval | JobStatus::Paused => self.yellow(text),
            JobStatus::Completed => self.green(text),
            JobStatus::Failed | JobStatus::Cancelled => self.red(text),
            JobStatus::Unspecified | JobStatus::Queued => self.bold(text),
        }
    }

    fn with(self, code: &str, text: &str) -> String {
        if self.on && !text.is_empty() {
            format!("\x1b[{code}m{text}\x1b[0m")
        } else {
            text.to_owned()
        }
    }
}

/// How many cells of a terminal a text takes; what a reader sees as one character counts as one.
pub fn width(text: &str) -> usize {
    text.graphemes(true).map(UnicodeWidthStr::width).sum()
}

/// Cuts a text to so many cells, with `…` where something was cut.
pub fn clip(text: &str, cells: usize) -> String {
    if width(text) <= cells {
        return text.to_owned();
    }
    let mut left = cells.saturating_sub(1);
    let mut clipped = String::new();
    for character in text.graphemes(true) {
        let Some(rest) = left.checked_sub(character.width()) else { break };
        left = rest;
        clipped.push_str(character);
    }
    if cells > 0 {
        clipped.push('…');
    }
    clipped
}

/// A line cut into rows of so many cells, between words where there are any.
pub fn fold(line: &str, cells: usize) -> Vec<String> {
    let (mut rows, mut row, mut wide) = (Vec::new(), String::new(), 0);
    for character in line.graphemes(true).map(|c| if c == "\t" { " " } else { c }) {
        let cells_of_it = character.width();
        if wide + cells_of_it > cells {
            let between = row.rfind(' ').filter(|_| character != " ");
            let rest = row.split_off(between.map_or(row.len(), |space| space + 1));
            rows.push(std::mem::replace(&mut row, rest).trim_end().to_owned());
            wide = width(&row);
            if character == " " && row.is_empty() {
                continue;
            }
        }
        row.push_str(character);
        wide += cells_of_it;
    }
    rows.push(row.trim_end().to_owned());
    rows
}

/// Fills a text up with spaces on the right.
pub fn pad(text: &str, cells: usize) -> String {
    format!("{text}{}", " ".repeat(cells.saturating_sub(width(text))))
}

/// Fills a text up with spaces on the left.
pub fn pad_left(text: &str, cells: usize) -> String {
    format!("{}{text}", " ".repeat(cells.saturating_sub(width(text))))
}

/// Foreign text on one line: white space becomes one space, control characters go.
pub fn one_line(text: &str) -> String {
    let words = text.split_whitespace();
    let words = words.map(|word| word.chars().filter(|c| !is_control(*c)).collect::<String>());
    words.filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ")
}

/// Foreign text as it is, but for control characters other than line breaks and tabs.
pub fn harmless(text: &str) -> String {
    text.chars().filter(|c| matches!(c, '\n' | '\t') || !is_control(*c)).collect()
}

/// Lines in columns two spaces apart; a header `>x` puts its column to the right.
pub fn table(header: &[&str], rows: &[Vec<String>], paint: Paint) -> Vec<String> {
    let mut widths: Vec<usize> =
        header.iter().map(|title| width(title.trim_start_matches('>'))).collect();
    for row in rows {
        for (cell, widest) in row.iter().zip(&mut widths) {
            *widest = (*widest).max(width(cell));
        }
    }
    let line = |cells: &[String]| {
        let columns = cells.iter().zip(header).zip(&widths).map(|((cell, title), widest)| {
            if title.starts_with('>') { pad_left(cell, *widest) } else { pad(cell, *widest) }
        });
        columns.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    let titles: Vec<String> =
        header.iter().map(|title| title.trim_start_matches('>').to_owned()).collect();
    let body = rows.iter().map(|row| line(row));
    std::iter::once(paint.dim(&line(&titles))).chain(body).collect()
}

/// Money in dollars, to a millionth; an amount that is not known is told as such.
pub fn money(cost_usd: &str, unpriced_calls: i32) -> String {
    let Ok(amount) = Decimal::from_str(cost_usd) else { return "unknown".to_owned() };
    let amount = amount.round_dp(6).normalize();
    // Two places at least, as money has.
    let places = amount.scale().max(2);
    let least = if unpriced_calls > 0 { "≥ " } else { "" };
    format!("{least}${amount:.*}", places as usize)
}

/// Tokens in and out of a step or job; empty where no call was made.
pub fn tokens(usage: Option<&Usage>) -> String {
    let Some(usage) = usage.filter(|usage| usage.calls > 0) else { return String::new() };
    let read = usage.input_tokens
        + usage.cache_read_tokens
        + usage.cache_write_5m_tokens
        + usage.cache_write_1h_tokens;
    format!("{} → {}", thousands(read), thousands(usage.output_tokens))
}

/// A span of time in the two units that matter.
pub fn span(span: Duration) -> String {
    let seconds = span.as_secs();
    match seconds {
        0..10 => format!("{:.1}s", span.as_millis().min(9_949) as f64 / 1000.0),
        10..60 => format!("{seconds}s"),
        60..3600 => format!("{}m {:02}s", seconds / 60, seconds % 60),
        3600..86400 => format!("{}h {:02}m", seconds / 3600, seconds / 60 % 60),
        _ => format!("{}d {:02}h", seconds / 86400, seconds / 3600 % 24),
    }
}

/// From one moment to another; `None` if either is not set or they are the wrong way round.
pub fn between(from: Option<&Timestamp>, to: Option<&Timestamp>) -> Option<Duration> {
    (moment(to)? - moment(from)?).to_std().ok()
}

/// A moment as local date and time; empty if not set.
pub fn local_time(at: Option<&Timestamp>) -> String {
    moment(at).map_or_else(String::new, |at| at.format("%Y-%m-%d %H:%M:%S").to_string())
}

/// The width and height of the terminal that stdout is, if it is one.
pub fn terminal_size() -> Option<(usize, usize)> {
    let (wide, high) = terminal_size::terminal_size_of(io::stdout())?;
    Some((wide.0.into(), high.0.into()))
}

fn moment(at: Option<&Timestamp>) -> Option<DateTime<Local>> {
    let at = at?;
    let utc = DateTime::from_timestamp(at.seconds, u32::try_from(at.nanos).ok()?)?;
    Some(utc.with_timezone(&Local))
}

/// So many jobs, in words.
pub fn jobs(count: impl Into<i64>) -> String {
    let count = count.into();
    format!("{} {}", thousands(count), if count == 1 { "job" } else { "jobs" })
}

/// A count with commas between its thousands.
pub fn thousands(count: i64) -> String {
    let digits = count.to_string();
    let mut grouped = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// Control characters, and those that reorder or hide text.
fn is_control(c: char) -> bool {
    c.is_control() || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chinese_takes_two_cells_and_a_combining_mark_none() {
        assert_eq!(width("记账App"), 7);
        assert_eq!(width("e\u{301}"), 1);
        assert_eq!(width("，。"), 4);
        assert_eq!(width("✓ →"), 3);
        assert_eq!(width("👍🏽"), 2, "with the colour of its skin");
        assert_eq!(width("👩‍👩‍👧"), 2, "three that are joined");
        assert_eq!(width("🇨🇳🇧🇷"), 4, "two flags");
    }

    #[test]
    fn a_clipped_text_fits_and_never_splits_a_wide_character() {
        assert_eq!(clip("记账App", 7), "记账App");
        assert_eq!(clip("记账App", 6), "记账A…");
        assert_eq!(clip("记账App", 4), "记…");
        assert_eq!(clip("记账", 1), "…");
        assert_eq!(clip("ab", 0), "");
        assert_eq!(clip("👩‍👩‍👧👩‍👩‍👧", 3), "👩‍👩‍👧…");
        for cells in 0..12 {
            assert!(width(&clip("写一段80字以内👍🏽🇨🇳", cells)) <= cells);
        }
    }

    #[test]
    fn foreign_text_cannot_command_the_terminal() {
        assert_eq!(one_line("a\n\n b\t\u{1b}[2Jc\u{202e}d"), "a b [2Jcd");
        assert_eq!(harmless("a\n\u{1b}]0;x\u{7}\tb\u{9b}1m"), "a\n]0;x\tb1m");
    }

    #[test]
    fn a_folded_line_keeps_its_words_and_fits() {
        assert_eq!(fold("the second is longer", 10), ["the second", "is longer"]);
        assert_eq!(fold("最后一行中文字👍🏽", 6), ["最后一", "行中文", "字👍🏽"]);
        assert_eq!(fold("a\u{1b}b", 1).len(), 3, "not even what takes no room is looked for");
        assert_eq!(fold("", 5), [""]);
    }

    #[test]
    fn columns_line_up_by_cells() {
        let rows =
            [vec!["记账".to_owned(), "1".to_owned()], vec!["abcdef".to_owned(), "10".to_owned()]];
        assert_eq!(
            table(&["NAME", ">N"], &rows, Paint::plain()),
            ["NAME     N", "记账     1", "abcdef  10"]
        );
    }

    #[test]
    fn money_is_exact_to_a_millionth_and_never_pretends() {
        assert_eq!(money("0.000465", 0), "$0.000465");
        assert_eq!(money("1.2000", 0), "$1.20");
        assert_eq!(money("0", 0), "$0.00");
        assert_eq!(money("12345.6", 1), "≥ $12345.60");
        assert_eq!(money("", 0), "unknown");
    }

    #[test]
    fn spans_keep_two_units() {
        let of = |ms| span(Duration::from_millis(ms));
        assert_eq!(of(0), "0.0s");
        assert_eq!(of(1_234), "1.2s");
        assert_eq!(of(9_999), "9.9s");
        assert_eq!(of(59_999), "59s");
        assert_eq!(of(61_000), "1m 01s");
        assert_eq!(of(3_661_000), "1h 01m");
        assert_eq!(of(90_000_000), "1d 01h");
    }

    #[test]
    fn tokens_count_what_the_caches_held() {
        let usage = Usage {
            input_tokens: 1_000,
            cache_read_tokens: 234,
            output_tokens: 86,
            calls: 1,
            ..Usage::default()
        };
        assert_eq!(tokens(Some(&usage)), "1,234 → 86");
        assert_eq!(tokens(Some(&Usage::default())), "");
        assert_eq!(tokens(None), "");
    }

    #[test]
    fn colour_is_only_where_it_is_on() {
        assert_eq!(Paint { on: true }.green("ok"), "\u{1b}[32mok\u{1b}[0m");
        assert_eq!(Paint::plain().green("ok"), "ok");
    }
}
