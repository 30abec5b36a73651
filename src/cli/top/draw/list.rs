//! The table of jobs.
//!
//! In comes the state; out go the lines above it, its header and the jobs that there is room for.
//! A narrow terminal has shorter words and ids, and goes without labels.

use std::fmt::Write as _;

use ratatui::{
    style::Modifier,
    text::{Line, Span},
};

use super::{Look, head, rows};
use crate::{
    cli::{
        clock::since,
        render::{clip, money, one_line, pad, pad_left, span, width},
        status::short,
        top::state::State,
        word,
    },
    rpc::proto::Job,
};

/// From this width on there is room for whole words and for labels.
const ROOMY: usize = 120;

/// A job in the words of its columns.
struct Row {
    id: String,
    status: String,
    step: String,
    age: String,
    cost: String,
    labels: String,
    task: String,
}

/// How wide the columns are.
#[derive(Default)]
struct Widths {
    id: usize,
    status: usize,
    step: usize,
    age: usize,
    cost: usize,
    labels: usize,
}

/// The lines.
pub fn lines(state: &State, look: Look) -> Vec<Line<'static>> {
    let wide = usize::from(state.size.0);
    let mut lines = head::lines(state, look);
    let titles = Row {
        id: "JOB".to_owned(),
        status: "STATUS".to_owned(),
        step: "STEP".to_owned(),
        age: "AGE".to_owned(),
        cost: "COST".to_owned(),
        labels: "LABELS".to_owned(),
        task: "TASK".to_owned(),
    };
    let all: Vec<Row> = state.jobs.iter().map(|job| row(state, job, wide)).collect();
    let widths = widths(&all, &titles, wide);
    let (before, status, after) = cells(&titles, &widths, wide);
    lines.push(Line::styled(format!("{before}{status}{after}"), look.dim()));
    if all.is_empty() {
        lines.push(Line::styled(nothing(state), look.dim()));
    }
    let shown = state.offset..(state.offset + rows(state)).min(all.len());
    for place in shown {
        let (before, status, after) = cells(&all[place], &widths, wide);
        let in_colour = look.status(state.jobs[place].status());
        let line =
            Line::from(vec![Span::raw(before), Span::styled(status, in_colour), Span::raw(after)]);
        let is_selected = place == state.selected.1;
        lines.push(if is_selected { line.style(Modifier::REVERSED) } else { line });
    }
    lines
}

fn nothing(state: &State) -> String {
    match (state.has_looked, state.filter.is_empty()) {
        (false, _) => " looking …".to_owned(),
        (true, true) => " no jobs".to_owned(),
        (true, false) => {
            format!(" no jobs fit `{}`; Esc shows all", one_line(&state.filter.text))
        }
    }
}

fn row(state: &State, job: &Job, wide: usize) -> Row {
    let has_cost = job.usage.as_ref().is_some_and(|usage| usage.calls > 0);
    let age = state.time().and_then(|now| since(job.created_at.as_ref(), now));
    let mut labels: Vec<_> = job.labels.iter().collect();
    labels.sort();
    let labels: Vec<String> = labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
    let mut task = one_line(&clip(&job.task, 500));
    // What holds a job up, or ended it, says more than what it is for.
    if !job.reason.is_empty() {
        task = format!("{} {task}", job.reason);
    }
    Row {
        id: one_line(&job.job_id),
        status: if wide < ROOMY {
            short(job.status)
        } else {
            word::job_status(job.status).replace('_', " ")
        },
        step: format!("{}/{}", job.current_step, job.step_count),
        age: age.map_or_else(String::new, span),
        cost: if has_cost { money(&job.cost_usd, job.unpriced_calls) } else { String::new() },
        labels: one_line(&labels.join(" ")),
        task,
    }
}

fn widths(rows: &[Row], titles: &Row, wide: usize) -> Widths {
    let widest = |of: fn(&Row) -> &str| {
        rows.iter().chain([titles]).map(|row| width(of(row))).max().unwrap_or(0)
    };
    let has_labels = wide >= ROOMY && rows.iter().any(|row| !row.labels.is_empty());
    Widths {
        id: widest(|row| &row.id).min(if wide < 100 { 22 } else { 40 }),
        status: widest(|row| &row.status),
        step: widest(|row| &row.step),
        age: widest(|row| &row.age).max(7),
        cost: widest(|row| &row.cost).max(7),
        labels: if has_labels { widest(|row| &row.labels).min(wide / 5) } else { 0 },
    }
}

/// A row before its status, its status, and what comes after.
fn cells(row: &Row, widths: &Widths, wide: usize) -> (String, String, String) {
    let before = format!(" {}  ", pad(&clip(&row.id, widths.id), widths.id));
    let status = pad(&row.status, widths.status);
    let mut after = format!(
        "  {}  {}  {}",
        pad_left(&row.step, widths.step),
        pad_left(&row.age, widths.age),
        pad_left(&row.cost, widths.cost),
    );
    if widths.labels > 0 {
        let labels = pad(&clip(&row.labels, widths.labels), widths.labels);
        write!(after, "  {labels}").expect("a string takes it");
    }
    let left = wide.saturating_sub(width(&before) + width(&status) + width(&after) + 3);
    if left > 0 {
        write!(after, "  {}", clip(&row.task, left)).expect("a string takes it");
    }
    (before, status, after)
}
