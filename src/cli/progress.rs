//! A job on a terminal: one line a step, drawn again in place.
//!
//! In come the job as it is now, its submission and the size of the terminal; out go lines that fit it.
//! No line wraps and no frame is higher than the screen, or drawing in place would smear;
//! a job of more steps than there are lines shows those around the current one.

use std::time::Duration;

use super::{
    answer::Arriving,
    render::{self, Paint, between, clip, local_time, money, one_line, pad, pad_left, span, width},
    word,
};
use crate::rpc::proto::{
    Job, JobStatus, Step, StepKind, StepState, StepStatus, Verdict, step, wait_step::Wait,
};

/// The fewest and the most rows that an answer on its way may take, and what stands before each.
const TAIL: (usize, usize) = (6, 16);
const INDENT: &str = "      ";

/// What a frame shows.
#[derive(Debug)]
pub struct View<'a> {
    /// The job as it is now.
    pub job: &'a Job,
    /// Its steps as they were submitted.
    pub steps: &'a [Step],
    /// How long the current step has been at work, where that is known.
    pub elapsed: Option<Duration>,
    /// What has arrived of the answer of the step at work.
    pub arriving: &'a Arriving,
    /// What else is to say, such as that the server is away.
    pub remark: &'a str,
}

/// The lines of a frame for a terminal of that width and height.
pub fn frame(view: &View<'_>, (wide, high): (usize, usize), paint: Paint) -> Vec<String> {
    // The last column stays free: some terminals wrap as soon as it is filled.
    let wide = wide.saturating_sub(1).max(20);
    let mut lines = heading(view.job, wide, paint);
    let foot = if view.remark.is_empty() { &view.job.status_message } else { view.remark };
    let tail = tail(view, wide, high, paint);
    let room = high.saturating_sub(lines.len() + tail.len() + 4).max(1);
    let shown = window(view.job.steps.len(), view.job.current_step, room);
    if shown.start > 0 {
        lines.push(paint.dim(&format!("  … {} before", shown.start)));
    }
    for state in &view.job.steps[shown.clone()] {
        lines.push(row(view, state, wide, paint));
        if state.step == view.job.current_step {
            lines.extend_from_slice(&tail);
        }
    }
    if shown.end < view.job.steps.len() {
        lines.push(paint.dim(&format!("  … {} after", view.job.steps.len() - shown.end)));
    }
    if !foot.is_empty() {
        lines.push(paint.dim(&clip(&format!("  {}", one_line(foot)), wide)));
    }
    lines
}

/// What a step does, in the words of its submission.
pub fn excerpt(step: &Step) -> String {
    let text = match &step.kind {
        Some(step::Kind::Run(run)) => one_line(&clip(&run.prompt, 1_000)),
        Some(step::Kind::Approval(approval)) => one_line(&clip(&approval.note, 1_000)),
        Some(step::Kind::Wait(wait)) => match &wait.wait {
            Some(Wait::DurationSeconds(seconds)) => {
                span(Duration::from_secs(u64::try_from(*seconds).unwrap_or(0)))
            }
            Some(Wait::UntilAt(at)) => format!("until {}", local_time(Some(at))),
            None => String::new(),
        },
        None => String::new(),
    };
    if step.name.is_empty() { text } else { format!("{}: {text}", one_line(&step.name)) }
}

/// The sign a step is told by.
pub fn symbol(job: &Job, state: &StepState, paint: Paint) -> String {
    let stands = job.status();
    match (state.status(), state.kind()) {
        (StepStatus::Done, _) => paint.green("✓"),
        (StepStatus::Failed, _) => paint.red("✗"),
        (StepStatus::Active, _) if stands == JobStatus::Paused => paint.yellow("‖"),
        (StepStatus::Active, _) if stands == JobStatus::Cancelled => paint.red("✗"),
        (StepStatus::Active, StepKind::Approval) => paint.yellow("?"),
        (StepStatus::Active, StepKind::Wait) => paint.cyan("…"),
        (StepStatus::Active, StepKind::Run | StepKind::Unspecified) => paint.cyan("▸"),
        (StepStatus::Pending | StepStatus::Unspecified, _) => paint.dim("·"),
    }
}

fn heading(job: &Job, wide: usize, paint: Paint) -> Vec<String> {
    let id = clip(&one_line(&job.job_id), wide / 2);
    let mut stands = word::job_status(job.status).replace('_', " ");
    if !job.reason.is_empty() {
        stands = format!("{stands} ({})", job.reason);
    }
    if job.pause_requested {
        stands.push_str(", pause requested");
    }
    let stands = clip(&stands, wide.saturating_sub(width(&id) + 2));
    let status = paint.status(job.status(), &stands);
    let mut lines = vec![format!("{}  {status}", paint.bold(&id))];
    if !job.task.is_empty() {
        lines.push(paint.dim(&clip(&one_line(&clip(&job.task, 1_000)), wide)));
    }
    lines
}

fn row(view: &View<'_>, state: &StepState, wide: usize, paint: Paint) -> String {
    let number_width = view.job.step_count.to_string().len();
    let usage = state.usage.as_ref();
    let calls = usage.map_or(0, |usage| usage.calls);
    let cost = if calls > 0 { money(&state.cost_usd, 0) } else { String::new() };
    let elapsed = elapsed(view, state).map_or_else(String::new, span);
    // Narrow terminals go without the numbers before they go without the words.
    let mut right = pad_left(&elapsed, 8);
    if wide >= 48 {
        right = format!("{}{right}", pad_left(&cost, 11));
    }
    if wide >= 64 {
        right = format!("{}{right}", pad_left(&render::tokens(usage), 16));
    }
    let kind = word::step_kind(state.kind);
    let left = format!("{} {}", pad_left(&state.step.to_string(), number_width), pad(&kind, 8));
    let room = wide.saturating_sub(4 + width(&left) + 1 + width(&right));
    let words = clip(&told(view, state), room);
    let line = format!("{left} {}{right}", pad(&words, room));
    let line = if state.status() == StepStatus::Pending { paint.dim(&line) } else { line };
    format!("  {} {line}", symbol(view.job, state, paint))
}

/// The end of the answer that is on its way, to stand below its step; nothing where there is no room to spare.
fn tail(view: &View<'_>, wide: usize, high: usize, paint: Paint) -> Vec<String> {
    let mut steps = view.job.steps.iter();
    let current = steps.find(|state| state.step == view.job.current_step);
    if current.is_none_or(|state| state.status() != StepStatus::Active) || high < TAIL.0 * 2 {
        return Vec::new();
    }
    let rows = (high / 4).clamp(TAIL.0, TAIL.1);
    let rows = view.arriving.tail(view.job.current_step, rows, wide.saturating_sub(INDENT.len()));
    rows.iter().map(|row| paint.dim(&format!("{INDENT}{row}"))).collect()
}

/// What the line of a step says: who decided, else what it is to do.
fn told(view: &View<'_>, state: &StepState) -> String {
    if let Some(decision) = state.decisions.last() {
        let verdict = match decision.verdict() {
            Verdict::Approve if decision.edited => "edited and approved",
            Verdict::Approve => "approved",
            Verdict::RequestChanges => "sent back",
            Verdict::Reject => "rejected",
            Verdict::Unspecified => "decided",
        };
        let (by, comment) = (one_line(&decision.by), one_line(&decision.comment));
        let by = if by.is_empty() { by } else { format!(" by {by}") };
        let comment = if comment.is_empty() { comment } else { format!(": {comment}") };
        return format!("{verdict}{by}{comment}");
    }
    let index = usize::try_from(state.step - 1).unwrap_or(usize::MAX);
    view.steps.get(index).map_or_else(|| one_line(&state.name), excerpt)
}

fn elapsed(view: &View<'_>, state: &StepState) -> Option<Duration> {
    match state.status() {
        StepStatus::Done | StepStatus::Failed => {
            between(state.started_at.as_ref(), state.finished_at.as_ref())
        }
        StepStatus::Active => view.elapsed,
        StepStatus::Pending | StepStatus::Unspecified => None,
    }
}

/// Which steps to show of so many, if there is room for that many.
fn window(count: usize, current: i32, room: usize) -> std::ops::Range<usize> {
    if count <= room {
        return 0..count;
    }
    let current = usize::try_from(current - 1).unwrap_or(0);
    let start = current.saturating_sub(room / 2).min(count - room);
    start..start + room
}

#[cfg(test)]
mod tests {
    use prost_types::Timestamp;

    use super::*;
    use crate::rpc::proto::{ApprovalStep, RunStep, Usage};

    fn at(seconds: i64) -> Timestamp {
        Timestamp { seconds, nanos: 0 }
    }

    fn example() -> (Job, Vec<Step>) {
        let run = StepState {
            step: 1,
            kind: StepKind::Run as i32,
            status: StepStatus::Done as i32,
            usage: Some(Usage {
                input_tokens: 31,
                output_tokens: 86,
                calls: 1,
                ..Usage::default()
            }),
            cost_usd: "0.001383".to_owned(),
            started_at: Some(at(100)),
            finished_at: Some(at(102)),
            ..StepState::default()
        };
        let approval = StepState {
            step: 2,
            kind: StepKind::Approval as i32,
            status: StepStatus::Active as i32,
            started_at: Some(at(102)),
            ..StepState::default()
        };
        let job = Job {
            job_id: "demo-job-0001".to_owned(),
            task: "为一款记账App写推广文案".to_owned(),
            status: JobStatus::AwaitingApproval as i32,
            current_step: 2,
            step_count: 2,
            steps: vec![run, approval],
            ..Job::default()
        };
        let prompt = "用中文写一段80字以内的记账App产品简介，风格务实。".to_owned();
        let note = "请审核第一步草稿是否可以对外使用".to_owned();
        let steps = vec![
            Step {
                kind: Some(step::Kind::Run(Box::new(RunStep { prompt, ..RunStep::default() }))),
                ..Step::default()
            },
            Step {
                kind: Some(step::Kind::Approval(Box::new(ApprovalStep {
                    note,
                    ..ApprovalStep::default()
                }))),
                ..Step::default()
            },
        ];
        (job, steps)
    }

    fn drawn(wide: usize, high: usize) -> Vec<String> {
        let (job, steps) = example();
        let view = View {
            job: &job,
            steps: &steps,
            elapsed: Some(Duration::from_millis(3_200)),
            arriving: &Arriving::default(),
            remark: "",
        };
        frame(&view, (wide, high), Paint::plain())
    }

    #[test]
    fn the_example_at_eighty_columns() {
        assert_eq!(
            drawn(80, 24),
            [
                "demo-job-0001  awaiting approval",
                "为一款记账App写推广文案",
                "  ✓ 1 run      用中文写一段80字以内的记账Ap…         31 → 86  $0.001383    2.0s",
                "  ? 2 approval 请审核第一步草稿是否可以对外…                               3.2s",
            ]
        );
    }

    #[test]
    fn every_line_fits_and_the_columns_end_together() {
        for wide in [30, 50, 80, 81, 120, 200] {
            let lines = drawn(wide, 24);
            assert!(lines.iter().all(|line| width(line) < wide), "{lines:#?}");
            assert_eq!(width(&lines[2]), width(&lines[3]), "{lines:#?}");
        }
        assert!(drawn(200, 24)[2].contains("风格务实。 "));
    }

    #[test]
    fn a_job_higher_than_the_screen_shows_the_steps_around_the_current_one() {
        assert_eq!(window(5, 1, 10), 0..5);
        assert_eq!(window(1000, 0, 10), 0..10);
        assert_eq!(window(1000, 500, 10), 494..504);
        assert_eq!(window(1000, 1000, 10), 990..1000);
        let (mut job, steps) = example();
        job.steps = (1..=50).map(|step| StepState { step, ..job.steps[0].clone() }).collect();
        job.current_step = 25;
        let view = View {
            job: &job,
            steps: &steps,
            elapsed: None,
            arriving: &Arriving::default(),
            remark: "away",
        };
        let lines = frame(&view, (80, 12), Paint::plain());
        assert!(lines.len() < 12, "{lines:#?}");
        assert!(lines[2].starts_with("  … ") && lines.last().is_some_and(|line| line == "  away"));
    }

    #[test]
    fn a_decision_takes_the_place_of_the_note() {
        let (mut job, steps) = example();
        job.steps[1].decisions.push(crate::rpc::proto::Decision {
            verdict: Verdict::Reject as i32,
            by: "…0100".to_owned(),
            comment: "太\n长".to_owned(),
            ..Default::default()
        });
        let view = View {
            job: &job,
            steps: &steps,
            elapsed: None,
            arriving: &Arriving::default(),
            remark: "",
        };
        let lines = frame(&view, (80, 24), Paint::plain());
        assert!(lines[3].contains("rejected by …0100: 太 长"), "{lines:#?}");
    }
}
