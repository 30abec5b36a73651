//! The events of one job as they come, the newest at the bottom.
//!
//! In comes the state; out go the lines that the screen holds: the last ones, unless it is scrolled back.

use ratatui::text::{Line, Span};

use super::{Look, page};
use crate::{
    cli::{
        render::{clip, fold, local_time, one_line, pad},
        status,
        top::state::{State, View},
    },
    rpc::proto::Event,
};

/// How many lines there are beyond a screen; nothing where no events are shown.
pub fn overflow(state: &State) -> usize {
    if state.view != View::Events {
        return 0;
    }
    lines(state, Look { has_colour: false }).len().saturating_sub(page(state).saturating_sub(1))
}

/// What is on the screen.
pub fn shown(state: &State, look: Look) -> Vec<Line<'static>> {
    let wide = usize::from(state.size.0);
    let id = one_line(state.open_id.as_deref().unwrap_or_default());
    let title = format!(" events of {}", clip(&id, wide.saturating_sub(12)));
    let now = state.current().map(|job| {
        let paint = crate::cli::render::Paint::plain();
        let line = status::line(job, state.time(), wide.saturating_sub(2), paint);
        Line::styled(format!(" {line}"), look.status(job.status()))
    });
    let lines = lines(state, look);
    let room = page(state).saturating_sub(1);
    let last = lines.len().saturating_sub(state.back);
    let first = last.saturating_sub(room);
    let body = lines.into_iter().take(last).skip(first);
    let head = [Line::styled(title, look.bold()), now.unwrap_or_default()];
    head.into_iter().chain(body).collect()
}

fn lines(state: &State, look: Look) -> Vec<Line<'static>> {
    let wide = usize::from(state.size.0);
    if state.events.is_empty() {
        return vec![Line::styled(" looking …", look.dim())];
    }
    state.events.iter().flat_map(|event| one_event(event, wide, look)).collect()
}

fn one_event(event: &Event, wide: usize, look: Look) -> Vec<Line<'static>> {
    let time = local_time(event.occurred_at.as_ref());
    let time = if wide < 100 { time.rsplit(' ').next().unwrap_or_default() } else { &time };
    let begin = format!(" {time}  {}  ", pad(&format!("#{}", event.sequence), 5));
    let indent = begin.chars().count();
    let rows = fold(&one_line(&event.message), wide.saturating_sub(indent + 1).max(20));
    let rows = rows.into_iter().enumerate().map(|(index, row)| {
        let before = if index == 0 { begin.clone() } else { " ".repeat(indent) };
        Line::from(vec![
            Span::styled(before, look.dim()),
            Span::styled(row, look.status(event.status())),
        ])
    });
    rows.collect()
}
