//! An open job: how it stands, what it asks, what went wrong, and its steps with what they produced.
//!
//! In comes the state; out go the lines that the screen holds from where it is scrolled.
//! Very long outputs are cut here: `longhaul get --step` prints them whole.

use ratatui::text::{Line, Span};

use super::{Look, folded, page};
use crate::{
    cli::{
        clock::since,
        progress,
        render::{Paint, clip, local_time, money, one_line, pad, span, tokens},
        status,
        top::state::State,
        word,
    },
    rpc::proto::{Decision, Job, Step, StepState, StepStatus},
};

/// The most characters of one text, and of all outputs together, that are shown.
const TEXT: usize = 20_000;
const TEXTS: usize = 400_000;

/// How many lines there are beyond a screen.
pub fn overflow(state: &State) -> usize {
    lines(state, Look { has_colour: false }).len().saturating_sub(page(state))
}

/// What is on the screen.
pub fn shown(state: &State, look: Look) -> Vec<Line<'static>> {
    let lines = lines(state, look);
    let (count, page) = (lines.len(), page(state));
    let first = state.scroll.min(count.saturating_sub(page));
    let id = one_line(state.open_id.as_deref().unwrap_or_default());
    let wide = usize::from(state.size.0);
    let place = if count > page {
        format!("  {}–{} of {count}", first + 1, (first + page).min(count))
    } else {
        String::new()
    };
    let id = clip(&id, wide.saturating_sub(place.len() + 2));
    let title = Line::from(vec![
        Span::styled(format!(" {id}"), look.bold()),
        Span::styled(place, look.dim()),
    ]);
    std::iter::once(title).chain(lines.into_iter().skip(first).take(page)).collect()
}

fn lines(state: &State, look: Look) -> Vec<Line<'static>> {
    let wide = usize::from(state.size.0);
    let Some(job) = state.current() else {
        return vec![Line::styled(" looking …", look.dim())];
    };
    let now = state.time();
    let steps = state.opened(&job.job_id).and_then(|(opened, _)| opened.spec.as_ref());
    let steps = steps.map_or(&[][..], |spec| &spec.steps);
    let line = status::line(job, now, wide.saturating_sub(2), Paint::plain());
    let mut lines = vec![Line::styled(format!(" {line}"), look.status(job.status()))];
    if !job.status_message.is_empty() {
        lines.extend(folded(&one_line(&job.status_message), " ", wide, look.dim()));
    }
    // An id that the title has no room for.
    if job.job_id.len() + 20 > wide {
        lines.extend(folded(&one_line(&job.job_id), " ", wide, look.bold()));
    }
    lines.extend(folded(&cut(&job.task, 2_000), " ", wide, look.bold()));
    lines.extend(facts(job, state, look, wide));
    lines.extend(approval(job, state, look, wide));
    lines.extend(last_error(job, look, wide));
    let mut room = TEXTS;
    for step in &job.steps {
        let spec = usize::try_from(step.step - 1).ok().and_then(|index| steps.get(index));
        lines.push(Line::default());
        lines.extend(one_step(job, step, spec, &mut room, look, wide));
    }
    lines
}

fn facts(job: &Job, state: &State, look: Look, wide: usize) -> Vec<Line<'static>> {
    let mut facts: Vec<(&str, String)> = Vec::new();
    let mut labels: Vec<_> = job.labels.iter().collect();
    labels.sort();
    for (key, value) in labels {
        facts.push(("label", one_line(&format!("{key}={value}"))));
    }
    facts.push(("submitted", local_time(job.created_at.as_ref())));
    if job.run_at.is_some() {
        facts.push(("goes on", local_time(job.run_at.as_ref())));
    }
    if job.finished_at.is_some() {
        facts.push(("ended", local_time(job.finished_at.as_ref())));
    }
    if !job.budget_usd.is_empty() {
        facts.push(("budget", money(&job.budget_usd, 0)));
    }
    if job.pause_requested {
        facts.push(("pause", "requested".to_owned()));
    }
    if job.undelivered_notices > 0 {
        facts.push(("untold", format!("{} notices", job.undelivered_notices)));
    }
    if state.opened(&job.job_id).is_none() {
        facts.push(("steps", "looking …".to_owned()));
    }
    let told = facts.into_iter().map(|(name, value)| {
        Line::from(vec![
            Span::styled(format!(" {}", pad(name, 11)), look.dim()),
            Span::raw(clip(&value, wide.saturating_sub(13))),
        ])
    });
    told.collect()
}

fn approval(job: &Job, state: &State, look: Look, wide: usize) -> Vec<Line<'static>> {
    let Some(approval) = &job.approval else { return Vec::new() };
    let votes = approval.decisions.len();
    let waits = state.time().and_then(|now| since(approval.asked_at.as_ref(), now));
    let until = approval.deadline_at.as_ref();
    let told = [
        Some(format!(" step {} asks", approval.step)),
        Some(format!("{votes} of {} votes", approval.quorum)),
        waits.map(|waits| format!("waits {}", span(waits))),
        Some(
            until.map_or("no deadline".to_owned(), |at| format!("until {}", local_time(Some(at)))),
        ),
    ];
    let told = told.into_iter().flatten().collect::<Vec<_>>().join("; ");
    let mut lines = vec![Line::default(), Line::styled(told, look.waits().patch(look.bold()))];
    lines.extend(folded(&cut(&approval.note, TEXT), "   ", wide, look.waits()));
    lines.extend(approval.decisions.iter().flat_map(|vote| decision(vote, wide)));
    if !job.output.is_empty() {
        lines.push(Line::styled(" what is to be decided on", look.bold()));
        lines.extend(folded(&cut(&job.output, TEXT), "   ", wide, ratatui::style::Style::new()));
    }
    lines
}

fn last_error(job: &Job, look: Look, wide: usize) -> Vec<Line<'static>> {
    let Some(error) = &job.last_error else { return Vec::new() };
    let title = format!(" last error, {}", local_time(error.failed_at.as_ref()));
    let mut lines = vec![Line::default(), Line::styled(title, look.bad())];
    let message = format!("{} {}", error.reason, one_line(&error.message));
    lines.extend(folded(&message, "   ", wide, ratatui::style::Style::new()));
    if !error.provider_request_id.is_empty() {
        let request = format!("request {}", one_line(&error.provider_request_id));
        lines.extend(folded(&request, "   ", wide, look.dim()));
    }
    lines
}

fn decision(vote: &Decision, wide: usize) -> Vec<Line<'static>> {
    let verdict = word::verdict(vote.verdict).replace('_', " ");
    let by = one_line(&vote.by);
    let told = format!("{verdict} by {by} {}", one_line(&vote.comment));
    folded(told.trim_end(), "   ", wide, ratatui::style::Style::new())
}

fn one_step(
    job: &Job,
    state: &StepState,
    spec: Option<&Step>,
    room: &mut usize,
    look: Look,
    wide: usize,
) -> Vec<Line<'static>> {
    let symbol = progress::symbol(job, state, Paint::plain());
    let kind = word::step_kind(state.kind);
    let (used, name) = (tokens(state.usage.as_ref()), one_line(&state.name));
    let title = [
        Some(format!(" {symbol} {} {kind}", state.step)),
        Some(name).filter(|name| !name.is_empty()),
        Some(used)
            .filter(|used| !used.is_empty())
            .map(|used| format!("{used} tokens  {}", money(&state.cost_usd, 0))),
    ];
    let title = title.into_iter().flatten().collect::<Vec<_>>().join("  ");
    let style = match state.status() {
        StepStatus::Active => look.status(job.status()).patch(look.bold()),
        StepStatus::Failed => look.bad(),
        StepStatus::Done => look.bold(),
        StepStatus::Pending | StepStatus::Unspecified => look.dim(),
    };
    let mut lines = vec![Line::styled(title, style)];
    if let Some(spec) = spec {
        lines.extend(folded(&cut(&progress::excerpt(spec), 400), "   ", wide, look.dim()));
    }
    lines.extend(state.decisions.iter().flat_map(|vote| decision(vote, wide)));
    for (text, is_whole) in [(&state.output, true), (&state.partial_output, false)] {
        if text.is_empty() {
            continue;
        }
        if !is_whole {
            lines.push(Line::styled("   so far, not whole:", look.dim()));
        }
        let shown = cut(text, TEXT.min(*room));
        *room = room.saturating_sub(shown.len());
        lines.extend(folded(&shown, "   ", wide, ratatui::style::Style::new()));
        if shown.len() < text.len() || state.output_cut {
            let told = "   … cut here; `longhaul get --step` prints all of it";
            lines.push(Line::styled(told, look.dim()));
        }
    }
    lines
}

/// The beginning of a text.
fn cut(text: &str, bytes: usize) -> String {
    text[..text.floor_char_boundary(bytes)].to_owned()
}
