//! What stands over everything else: the keys, and the question before something is done.
//!
//! In comes the state; out goes a box in the middle of the screen that holds it, as far as there is room.

use ratatui::{
    Frame,
    layout::Rect,
    text::{Line, Span},
    widgets::{Block, BorderType, Clear, Paragraph},
};

use super::{Look, folded};
use crate::cli::{
    render::{one_line, pad},
    top::{
        ask::{Act, Ask},
        key::KEYS,
        state::{Over, State},
    },
};

/// The widest a box gets, borders included.
const WIDEST: u16 = 100;

/// Draws what there is.
pub fn draw(frame: &mut Frame<'_>, state: &State, look: Look) {
    let area = frame.area();
    match &state.over {
        Over::Nothing | Over::Typing(_) => {}
        Over::Help => {
            let keys = KEYS.iter().map(|(key, does)| {
                Line::from(vec![
                    Span::styled(pad(key, 14), look.bold()),
                    Span::raw((*does).to_owned()),
                ])
            });
            boxed(frame, " keys ", keys.collect(), 72);
        }
        Over::Asking(ask) => {
            let wide = area.width.min(WIDEST);
            let lines = question(state, ask, look, usize::from(wide), usize::from(area.height));
            boxed(frame, "", lines, wide);
        }
    }
}

/// The question, what it is about, and how to answer.
fn question(state: &State, ask: &Ask, look: Look, wide: usize, high: usize) -> Vec<Line<'static>> {
    let inner = wide.saturating_sub(4);
    let (does, _) = ask.act.in_words();
    let asked = format!("{does} {}?", one_line(&ask.job_id));
    let mut lines = folded(&asked, "", inner, look.bold());
    if matches!(ask.act, Act::Cancel | Act::Reject) {
        lines.push(Line::styled("this ends the job", look.bad()));
    }
    let mut room = high.saturating_sub(lines.len() + 8);
    if !ask.note.is_empty() {
        let note = folded(&ask.note, "  ", inner, look.waits());
        lines.push(Line::styled("it asks", look.dim()));
        lines.extend(some_of(note, room.min(10), &mut room, look));
    }
    let opened = state.opened(&ask.job_id).filter(|_| ask.act.decides());
    if let Some((_, job)) = opened.filter(|(_, job)| !job.output.is_empty()) {
        let draft = folded(&job.output, "  ", inner, ratatui::style::Style::new());
        lines.push(Line::styled("it shows", look.dim()));
        lines.extend(some_of(draft, room, &mut room, look));
    }
    lines.push(Line::default());
    lines.push(Line::from(vec![
        Span::styled("y", look.bold()),
        Span::raw(" yes   "),
        Span::styled("n", look.bold()),
        Span::raw(" no"),
    ]));
    lines
}

/// The first of these lines, and a word about the others.
fn some_of(
    lines: Vec<Line<'static>>,
    most: usize,
    room: &mut usize,
    look: Look,
) -> Vec<Line<'static>> {
    let count = lines.len();
    let mut shown: Vec<Line<'static>> = lines.into_iter().take(most).collect();
    *room = room.saturating_sub(shown.len());
    if count > shown.len() {
        let told = format!("  … {} lines more; Enter in the list shows them", count - shown.len());
        shown.push(Line::styled(told, look.dim()));
    }
    shown
}

/// Lines in a box in the middle.
fn boxed(frame: &mut Frame<'_>, title: &'static str, lines: Vec<Line<'static>>, wide: u16) {
    let area = frame.area();
    let width = wide.min(area.width);
    let height = (lines.len() as u16 + 2).min(area.height);
    let place = Rect {
        x: area.x + (area.width - width) / 2,
        y: area.y + (area.height - height) / 2,
        width,
        height,
    };
    let border = Block::bordered().border_type(BorderType::Rounded).title(title);
    frame.render_widget(Clear, place);
    let inner = border.inner(place);
    frame.render_widget(border, place);
    let text = Rect { x: inner.x + 1, width: inner.width.saturating_sub(2), ..inner };
    frame.render_widget(Paragraph::new(lines), text);
}
