//! An answer while it arrives: the pieces of a watch put together, for a terminal and for a stream of lines.
//!
//! In come the pieces in the order of the watch; out goes what is new of them, or the last lines of all there is.
//! A watch that broke off tells an answer again from its beginning, which is told to nobody twice here.

use std::io::{self, IsTerminal as _, Write as _};

use anyhow::Result;

use super::render::{fold, harmless};
use crate::rpc::proto::{Event, EventKind, OutputDelta};

/// The end of an answer that is kept for showing it again, in bytes.
const KEPT: usize = 16 << 10;

/// What has arrived of the answer that is on its way.
#[derive(Debug, Default)]
pub struct Arriving {
    step: i32,
    attempt: i32,
    chars: usize,
    /// The end of its text, without what could command a terminal.
    end: String,
}

impl Arriving {
    /// Takes in a piece; answers what is new in it.
    pub fn take<'d>(&mut self, piece: &'d OutputDelta) -> &'d str {
        if (piece.step, piece.attempt) != (self.step, self.attempt) {
            *self = Self { step: piece.step, attempt: piece.attempt, ..Self::default() };
        }
        let offset = usize::try_from(piece.offset).unwrap_or(0);
        let known = self.chars.saturating_sub(offset);
        let from = piece.text.char_indices().nth(known).map_or(piece.text.len(), |(from, _)| from);
        let new = &piece.text[from..];
        self.chars = self.chars.max(offset + piece.text.chars().count());
        self.end.push_str(&harmless(new));
        if self.end.len() > 2 * KEPT {
            self.end.drain(..self.end.ceil_char_boundary(self.end.len() - KEPT));
        }
        new
    }

    /// Takes in an event: with an attempt begins another answer, also where its number was there before.
    pub fn hear(&mut self, event: &Event) {
        if event.kind() == EventKind::StepStarted {
            *self = Self::default();
        }
    }

    /// The last lines of what there is for a step, each of so many cells at the most.
    pub fn tail(&self, step: i32, lines: usize, cells: usize) -> Vec<String> {
        if step != self.step {
            return Vec::new();
        }
        // More of its end than so many lines can hold need not be looked at.
        let mut rows: Vec<String> = Vec::new();
        for line in self.end.trim_end().rsplit('\n') {
            let mut folded = fold(line, cells);
            folded.append(&mut rows);
            rows = folded;
            if rows.len() >= lines {
                break;
            }
        }
        rows.split_off(rows.len().saturating_sub(lines))
    }
}

/// The text of answers between the lines of events.
#[derive(Default)]
pub struct Prose {
    arriving: Arriving,
    is_within_a_line: bool,
}

impl Prose {
    /// Tells what is new in a piece; to a terminal without what could command it.
    pub fn tell(&mut self, piece: &OutputDelta) -> Result<()> {
        let new = self.arriving.take(piece);
        let mut out = io::stdout().lock();
        if out.is_terminal() {
            out.write_all(harmless(new).as_bytes())?;
        } else {
            out.write_all(new.as_bytes())?;
        }
        out.flush()?;
        if let Some(last) = new.chars().last() {
            self.is_within_a_line = last != '\n';
        }
        Ok(())
    }

    /// Comes to the end of the line, so that an event begins one.
    pub fn end(&mut self, event: &Event) -> Result<()> {
        self.arriving.hear(event);
        self.end_line()
    }

    /// Comes to the end of the line.
    pub fn end_line(&mut self) -> Result<()> {
        if std::mem::take(&mut self.is_within_a_line) {
            writeln!(io::stdout())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(attempt: i32, offset: i32, text: &str) -> OutputDelta {
        OutputDelta { step: 1, attempt, offset, text: text.to_owned() }
    }

    #[test]
    fn what_a_new_watch_repeats_is_told_once_and_a_new_attempt_is_told_anew() {
        let mut arriving = Arriving::default();
        let pieces =
            [piece(1, 0, "写一"), piece(1, 2, "行"), piece(1, 0, "写一行。"), piece(2, 0, "写")];
        let told = pieces.map(|piece| arriving.take(&piece).to_owned());
        assert_eq!(told, ["写一", "行", "。", "写"]);
        arriving.hear(&Event { kind: EventKind::StepStarted as i32, ..Event::default() });
        assert_eq!(arriving.take(&piece(2, 0, "写")), "写", "a retried job counts from 1 again");
    }

    #[test]
    fn the_tail_is_the_last_rows_that_fit_and_only_of_its_own_step() {
        let mut arriving = Arriving::default();
        arriving.take(&piece(1, 0, "first line\nthe second is longer\n\n最后一行中文字"));
        assert_eq!(
            arriving.tail(1, 9, 10),
            ["first line", "the second", "is longer", "", "最后一行中", "文字",]
        );
        assert_eq!(arriving.tail(1, 2, 10), ["最后一行中", "文字"]);
        assert!(arriving.tail(2, 2, 10).is_empty());
    }

    #[test]
    fn a_long_answer_keeps_only_its_end() {
        let mut arriving = Arriving::default();
        for offset in 0..100 {
            arriving.take(&piece(1, offset * 1000, &"字".repeat(1000)));
        }
        assert!(arriving.end.len() <= 2 * KEPT);
        assert_eq!(arriving.take(&piece(1, 100_000, "完")), "完");
        assert_eq!(arriving.tail(1, 1, 80).len(), 1);
    }
}
