//! What stands above the list: where, how many, how much, and who waits for a decision.
//!
//! In comes the state; out go as many lines as that takes at this width, and no more than the height can spare.

use ratatui::text::{Line, Span};

use super::{Look, flow};
use crate::{
    cli::{
        clock::{since, until},
        render::{clip, jobs, local_time, money, one_line, pad, span, thousands, width},
        status::short,
        top::state::State,
    },
    rpc::proto::{Job, JobStatus, UsageRow},
};

/// The lines.
pub fn lines(state: &State, look: Look) -> Vec<Line<'static>> {
    let wide = usize::from(state.size.0);
    let mut lines = vec![title(state, look, wide)];
    lines.extend(flow(counts(state, look), wide));
    lines.extend(flow(figures(state, look), wide));
    lines.extend(pending(state, look, wide));
    lines
}

/// Where this is, and what part of it.
fn title(state: &State, look: Look, wide: usize) -> Line<'static> {
    let count = thousands(state.jobs.len() as i64);
    let part = match (state.has_looked, state.has_more) {
        (false, _) => "looking …".to_owned(),
        (true, true) => format!("the newest {count}"),
        (true, false) => jobs(state.jobs.len() as i64),
    };
    let filter = if state.filter.is_empty() {
        String::new()
    } else {
        format!("/{}  ", one_line(&state.filter.text))
    };
    let right = format!("{filter}{part}, {}", state.sort.in_words());
    let right = clip(&right, (wide / 2).saturating_sub(1));
    let left = format!(" longhaul top  {}", one_line(&state.server));
    let left = clip(&left, wide.saturating_sub(width(&right) + 3));
    let gap = wide.saturating_sub(width(&left) + width(&right) + 1);
    Line::from(vec![
        Span::styled(left, look.bold()),
        Span::raw(" ".repeat(gap)),
        Span::styled(right, look.dim()),
    ])
}

/// How many jobs are in each status.
fn counts(state: &State, look: Look) -> Vec<Vec<Span<'static>>> {
    let counted = state.counts.iter().map(|one| {
        let style = if one.count > 0 { look.status(one.status()) } else { look.dim() };
        vec![
            Span::styled(short(one.status), look.dim()),
            Span::styled(format!(" {}", thousands(one.count)), style),
        ]
    });
    counted.collect()
}

/// Rates and costs.
fn figures(state: &State, look: Look) -> Vec<Vec<Span<'static>>> {
    let fact = |name: &str, value: String| {
        vec![Span::styled(format!("{name} "), look.dim()), Span::raw(value)]
    };
    let rates = state.rates.per_minute();
    let rate = |of: Option<f64>| of.map_or("…".to_owned(), per_minute);
    let cost = |row: Option<&UsageRow>| {
        row.map_or("…".to_owned(), |row| money(&row.cost_usd, row.unpriced_calls))
    };
    vec![
        fact("submitted", rate(rates.map(|rates| rates.submitted))),
        fact("ended", rate(rates.map(|rates| rates.ended))),
        fact("events", rate(rates.map(|rates| rates.events))),
        fact("today", cost(state.spent.as_ref().map(|spent| &spent.today))),
        fact("in all", cost(state.spent.as_ref().map(|spent| &spent.all))),
    ]
}

fn per_minute(rate: f64) -> String {
    if rate > 0.0 && rate < 10.0 {
        return format!("{rate:.1}/min");
    }
    format!("{}/min", thousands(rate.round() as i64))
}

/// Who waits for a decision, how long, and until when.
fn pending(state: &State, look: Look, wide: usize) -> Vec<Line<'static>> {
    let most = match state.size.1 {
        0..16 => 0,
        16..40 => 3,
        _ => 8,
    };
    if state.pending.is_empty() || most == 0 {
        return Vec::new();
    }
    let counted = state.counts.iter().find(|one| one.status() == JobStatus::AwaitingApproval);
    let all = counted.map_or(0, |one| one.count).max(state.pending.len() as i64);
    let shown = state.pending.iter().take(most);
    let ids = shown.clone().map(|job| width(&one_line(&job.job_id))).max().unwrap_or(0);
    let ids = ids.min(if wide < 100 { 20 } else { 40 });
    let here = if all > most as i64 { format!(", {most} of them here") } else { String::new() };
    let title = format!(" {} to decide{here}", thousands(all));
    let mut lines = vec![Line::styled(title, look.waits().patch(look.bold()))];
    lines.extend(shown.map(|job| {
        let id = pad(&clip(&one_line(&job.job_id), ids), ids);
        let line = clip(&format!("   {id}  {}", waiting(state, job)), wide);
        Line::styled(line, look.waits())
    }));
    lines
}

/// How long somebody has been asked, until when, and what.
fn waiting(state: &State, job: &Job) -> String {
    let Some(approval) = &job.approval else { return String::new() };
    let now = state.time();
    let asked = now.and_then(|now| since(approval.asked_at.as_ref(), now));
    let asked = asked.map_or_else(String::new, |asked| format!("waits {}", span(asked)));
    let left = now.and_then(|now| until(approval.deadline_at.as_ref(), now));
    let until = match (&approval.deadline_at, left) {
        (None, _) => "no deadline".to_owned(),
        (Some(at), None) => format!("until {}", local_time(Some(at))),
        (Some(at), Some(left)) => {
            let at = local_time(Some(at));
            // The seconds of a deadline are of no use, and of one that is near not the day.
            let at = at.get(..16).unwrap_or(&at);
            let at = if left.as_secs() < 12 * 3600 { at.get(11..).unwrap_or(at) } else { at };
            format!("{} left, until {at}", span(left))
        }
    };
    format!("{}  {}  {}", pad(&asked, 13), pad(&until, 20), one_line(&clip(&approval.note, 500)))
}
