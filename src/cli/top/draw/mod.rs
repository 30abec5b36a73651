//! What the state looks like: a frame of cells.
//!
//! In come the state and whether colours are wanted; out go the cells of the terminal, whatever its size.
//! Text of jobs is foreign: it passes through `one_line` or `harmless`, so that nothing in it commands a terminal.
//! Only the sixteen colours of the terminal are used and no background, so that light and dark ones are legible.

pub mod events;

pub mod head;

pub mod job;

pub mod list;

pub mod over;

#[cfg(test)]
mod tests;

use ratatui::{
    Frame,
    layout::Rect,
    style::{Color, Modifier, Style},
    text::{Line, Span},
};

use super::state::{News, Over, State, View};
use crate::{
    cli::render::{fold, harmless, one_line, span},
    rpc::proto::JobStatus,
};

/// How things are told apart.
#[derive(Clone, Copy, Debug)]
pub struct Look {
    /// With colours too.
    pub has_colour: bool,
}

impl Look {
    fn in_colour(self, colour: Color) -> Style {
        if self.has_colour { Style::new().fg(colour) } else { Style::new() }
    }

    /// Something to look at last.
    pub fn dim(self) -> Style {
        Style::new().add_modifier(Modifier::DIM)
    }

    /// Something to look at first.
    pub fn bold(self) -> Style {
        Style::new().add_modifier(Modifier::BOLD)
    }

    /// Something that failed.
    pub fn bad(self) -> Style {
        self.in_colour(Color::Red).add_modifier(Modifier::BOLD)
    }

    /// Something that went well.
    pub fn good(self) -> Style {
        self.in_colour(Color::Green)
    }

    /// Something that waits for a person.
    pub fn waits(self) -> Style {
        self.in_colour(Color::Yellow)
    }

    /// The colour of a status.
    pub fn status(self, status: JobStatus) -> Style {
        match status {
            JobStatus::Running => self.in_colour(Color::Cyan),
            JobStatus::AwaitingApproval | JobStatus::Paused => self.waits(),
            JobStatus::Completed => self.good(),
            JobStatus::Failed | JobStatus::Cancelled => self.in_colour(Color::Red),
            JobStatus::Unspecified | JobStatus::Queued => Style::new(),
        }
    }
}

/// Draws everything.
pub fn draw(frame: &mut Frame<'_>, state: &State, look: Look) {
    let area = frame.area();
    let foot = foot(state, look);
    let body = match state.view {
        View::List => list::lines(state, look),
        View::Job => job::shown(state, look),
        View::Events => events::shown(state, look),
    };
    let below = area.height.saturating_sub(foot.len() as u16);
    put(frame, Rect { height: below, ..area }, &body);
    put(frame, Rect { y: area.y + below, height: area.height - below, ..area }, &foot);
    over::draw(frame, state, look);
}

/// How many jobs the list has room for.
pub fn rows(state: &State) -> usize {
    let look = Look { has_colour: false };
    let taken = head::lines(state, look).len() + 1 + foot(state, look).len();
    usize::from(state.size.1).saturating_sub(taken)
}

/// How many lines an open job or its events have room for, below the title.
pub fn page(state: &State) -> usize {
    usize::from(state.size.1).saturating_sub(1 + foot(state, Look { has_colour: false }).len())
}

/// Lines below each other, as many as there is room for.
fn put(frame: &mut Frame<'_>, area: Rect, lines: &[Line<'_>]) {
    for (y, line) in (area.y..area.y + area.height).zip(lines) {
        frame.buffer_mut().set_line(area.x, y, line, area.width);
        // A line that is all of one kind is so to its end.
        if line.style.add_modifier.contains(Modifier::REVERSED) {
            frame.buffer_mut().set_style(Rect { y, height: 1, ..area }, line.style);
        }
    }
}

/// What is to be said, and what can be done.
fn foot(state: &State, look: Look) -> Vec<Line<'static>> {
    let mut lines = Vec::new();
    if let Some((since, why)) = &state.away {
        let gone = span(state.now.saturating_sub(*since));
        let told =
            format!(" the server has been away for {gone} ({}); trying again", one_line(why));
        lines.push(Line::styled(told, look.bad()));
    }
    match &state.news {
        Some(News::Good(told)) => {
            lines.push(Line::styled(format!(" {}", one_line(told)), look.good()));
        }
        Some(News::Bad(told)) => {
            lines.push(Line::styled(format!(" {}", one_line(told)), look.bad()));
        }
        // It stands there empty, so that the list does not move when there is something to say.
        None if lines.is_empty() => lines.push(Line::default()),
        None => {}
    }
    if let Over::Typing(text) = &state.over {
        lines.push(Line::from(vec![
            Span::styled(" /", look.bold()),
            Span::raw(one_line_as_typed(text)),
            Span::styled(" ", Style::new().add_modifier(Modifier::REVERSED)),
            Span::styled("  Enter filters, Esc does not", look.dim()),
        ]));
        return lines;
    }
    lines.push(hints(state, look));
    lines
}

/// The keys that are used most, as many as there is room for.
fn hints(state: &State, look: Look) -> Line<'static> {
    let hints: &[(&str, &str)] = match state.view {
        View::List => &[
            ("?", "keys"),
            ("q", "quit"),
            ("Enter", "open"),
            ("a", "approve"),
            ("x", "reject"),
            ("p", "pause"),
            ("r", "resume"),
            ("/", "filter"),
            ("c", "cancel"),
            ("t", "retry"),
            ("w", "events"),
            ("s", "sort"),
        ],
        View::Job => &[
            ("?", "keys"),
            ("q", "quit"),
            ("Esc", "back"),
            ("↑↓", "scroll"),
            ("w", "events"),
            ("a", "approve"),
            ("x", "reject"),
        ],
        View::Events => {
            &[("?", "keys"), ("q", "quit"), ("Esc", "back"), ("↑↓", "scroll"), ("o", "open")]
        }
    };
    let mut line = Line::default();
    for (key, does) in hints {
        let hint = [
            Span::styled(format!(" {key} "), look.bold()),
            Span::styled(format!("{does} "), look.dim()),
        ];
        if line.width() + hint.iter().map(Span::width).sum::<usize>() > usize::from(state.size.0) {
            break;
        }
        line.extend(hint);
    }
    line
}

/// What is typed keeps its spaces.
fn one_line_as_typed(text: &str) -> String {
    harmless(text).replace(['\n', '\t'], " ")
}

/// Items beside each other, and below each other where they do not fit.
pub fn flow(items: Vec<Vec<Span<'static>>>, wide: usize) -> Vec<Line<'static>> {
    let mut lines: Vec<Line<'static>> = Vec::new();
    for item in items {
        let item = Line::from(item);
        match lines.last_mut() {
            Some(line) if line.width() + 2 + item.width() <= wide => {
                line.push_span(Span::raw("  "));
                line.extend(item);
            }
            _ => lines.push(std::iter::once(Span::raw(" ")).chain(item).collect()),
        }
    }
    lines
}

/// Foreign text in rows that fit, behind an indent.
pub fn folded(text: &str, indent: &str, wide: usize, style: Style) -> Vec<Line<'static>> {
    let room = wide.saturating_sub(indent.len() + 1).max(8);
    let harmless = harmless(text);
    let rows = harmless.trim_end().split('\n').flat_map(|line| fold(line, room));
    rows.map(|row| Line::styled(format!("{indent}{row}"), style)).collect()
}
