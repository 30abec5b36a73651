//! A part of the terminal that is drawn again and again, below lines that stay.
//!
//! In come the lines that stay and those of the frame; out goes one write that puts them there.
//! Only what has changed is written, no line wraps, and the terminal is put in order when it is dropped, Ctrl-C included:
//! the cursor is back, lines wrap, and what is typed is shown.

use std::{
    fmt::Write as _,
    io::{self, IsTerminal as _, Stdout, Write},
};

use nix::sys::termios::{LocalFlags, SetArg, Termios, tcgetattr, tcsetattr};

use super::render::width;

/// A terminal that knows of it shows what is between these at once; others pass over them.
const AT_ONCE: (&str, &str) = ("\x1b[?2026h", "\x1b[?2026l");
/// While a frame is drawn no line wraps, whatever a terminal makes of the width of a character.
const UNWRAPPED: (&str, &str) = ("\x1b[?7l", "\x1b[?7h");

/// The part of a terminal that is drawn in place.
#[derive(Debug)]
pub struct Screen<W: Write = Stdout> {
    out: W,
    drawn: Vec<String>,
    wide: usize,
    quiet: Option<Quiet>,
}

impl Screen {
    /// Begins below what is on the terminal that stdout is.
    pub fn open() -> io::Result<Self> {
        let mut screen = Self::on(io::stdout())?;
        screen.quiet = Quiet::keep();
        Ok(screen)
    }
}

impl<W: Write> Screen<W> {
    /// Begins where this writes.
    fn on(mut out: W) -> io::Result<Self> {
        out.write_all(b"\x1b[?25l")?;
        out.flush()?;
        Ok(Self { out, drawn: Vec::new(), wide: 0, quiet: None })
    }

    /// Adds lines that stay, and puts these lines below them, where the last ones were.
    pub fn draw(&mut self, above: &[String], lines: Vec<String>, wide: usize) -> io::Result<()> {
        if above.is_empty() && lines == self.drawn && wide == self.wide {
            return Ok(());
        }
        let mut text = format!("{}{}", AT_ONCE.0, UNWRAPPED.0);
        match self.height(wide) {
            0 => {}
            rows => write!(text, "\r\x1b[{rows}A").expect("a string takes it"),
        }
        // What stands where it stood is left alone, but not in a terminal that has moved it.
        let stands = above.is_empty() && wide == self.wide;
        for (index, line) in above.iter().chain(&lines).enumerate() {
            if !stands || self.drawn.get(index) != Some(line) {
                write!(text, "\r{line}\x1b[K").expect("a string takes it");
            }
            text.push_str("\r\n");
        }
        write!(text, "\x1b[J{}{}", UNWRAPPED.1, AT_ONCE.1).expect("a string takes it");
        self.out.write_all(text.as_bytes())?;
        self.out.flush()?;
        self.drawn = lines;
        self.wide = wide;
        Ok(())
    }

    /// How many rows the last frame takes; a terminal that was made narrower has wrapped it.
    fn height(&self, wide: usize) -> usize {
        self.drawn.iter().map(|line| visible_width(line).div_ceil(wide.max(1)).max(1)).sum()
    }
}

impl<W: Write> Drop for Screen<W> {
    fn drop(&mut self) {
        // A terminal that is gone needs no cursor.
        let _gone = self.out.write_all(b"\x1b[?25h").and_then(|()| self.out.flush());
    }
}

/// A terminal that does not show what is typed, which would move what is drawn; Ctrl-C works as ever.
#[derive(Debug)]
struct Quiet(Termios);

impl Quiet {
    /// Keeps the terminal that stdin is quiet, if it is one.
    fn keep() -> Option<Self> {
        let stdin = io::stdin();
        if !stdin.is_terminal() {
            return None;
        }
        let before = tcgetattr(&stdin).ok()?;
        let mut quiet = before.clone();
        quiet.local_flags.remove(LocalFlags::ECHO);
        tcsetattr(&stdin, SetArg::TCSANOW, &quiet).ok()?;
        Some(Self(before))
    }
}

impl Drop for Quiet {
    fn drop(&mut self) {
        let _gone = tcsetattr(io::stdin(), SetArg::TCSANOW, &self.0);
    }
}

/// The width of a line without its colours.
fn visible_width(line: &str) -> usize {
    let mut parts = line.split("\x1b[");
    let first = parts.next().map_or(0, width);
    let coloured = parts.map(|part| width(part.split_once('m').map_or(part, |(_, text)| text)));
    first + coloured.sum::<usize>()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a terminal of this size shows of what was written.
    fn shown(screen: &mut Screen<Vec<u8>>, terminal: &mut vt100::Parser) -> Vec<String> {
        terminal.process(&std::mem::take(&mut screen.out));
        terminal.screen().contents().lines().map(str::to_owned).collect()
    }

    fn terminal(high: u16, wide: u16) -> vt100::Parser {
        let size = |cells: u16| cells.try_into().expect("not nothing");
        vt100::Parser::new(size(high), size(wide), 100)
    }

    fn lines<const N: usize>(lines: [&str; N]) -> Vec<String> {
        lines.map(str::to_owned).into()
    }

    #[test]
    fn a_frame_takes_the_place_of_the_last_and_what_stays_stands_above_it() {
        let (mut screen, mut terminal) =
            (Screen::on(Vec::new()).expect("it writes"), terminal(6, 20));
        screen.draw(&[], lines(["one", "two"]), 20).expect("it writes");
        assert_eq!(shown(&mut screen, &mut terminal), ["one", "two"]);
        screen.draw(&lines(["#1 记账"]), lines(["one", "2"]), 20).expect("it writes");
        assert_eq!(shown(&mut screen, &mut terminal), ["#1 记账", "one", "2"]);
        screen.draw(&[], lines(["1"]), 20).expect("it writes");
        assert_eq!(shown(&mut screen, &mut terminal), ["#1 记账", "1"]);
        assert!(terminal.screen().hide_cursor());
    }

    #[test]
    fn what_stands_is_not_written_again() {
        let mut screen = Screen::on(Vec::new()).expect("it writes");
        screen.draw(&[], lines(["stands", "moves"]), 20).expect("it writes");
        screen.out.clear();
        screen.draw(&[], lines(["stands", "moves"]), 20).expect("it writes");
        assert!(screen.out.is_empty());
        screen.draw(&[], lines(["stands", "moved"]), 20).expect("it writes");
        let written = String::from_utf8(screen.out.clone()).expect("it is text");
        assert!(written.contains("moved") && !written.contains("stands"), "{written:?}");
    }

    #[test]
    fn a_line_that_a_terminal_takes_for_wider_does_not_wrap() {
        let (mut screen, mut terminal) =
            (Screen::on(Vec::new()).expect("it writes"), terminal(4, 10));
        screen.draw(&[], lines(["0123456789abc", "below"]), 10).expect("it writes");
        let rows = shown(&mut screen, &mut terminal);
        assert!(rows.len() == 2 && rows[0].starts_with("012345678"), "{rows:?}");
        assert_eq!(rows[1], "below");
    }

    #[test]
    fn a_terminal_that_is_made_narrower_is_drawn_anew() {
        let mut screen = Screen::on(Vec::new()).expect("it writes");
        screen.draw(&[], lines(["0123456789", "x"]), 20).expect("it writes");
        assert_eq!((screen.height(20), screen.height(10), screen.height(5)), (2, 2, 3));
        screen.out.clear();
        screen.draw(&[], lines(["0123", "x"]), 5).expect("it writes");
        assert!(String::from_utf8_lossy(&screen.out).contains("\x1b[3A"));
    }

    #[test]
    fn colours_take_no_room() {
        assert_eq!(visible_width("\x1b[32m✓\x1b[0m 记 \x1b[2mx\x1b[0m"), 6);
    }
}
