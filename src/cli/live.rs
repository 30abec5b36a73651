//! A watch on a terminal: its events as lines that stay, and below them the job, drawn in place.
//!
//! In come what the watch brings and the ticks of a clock; out go the job as the server shows it, the text of the answer
//! that is on its way, and a line that says how the job stands.
//! While the server is away the last of it stays, and the frame says so.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use anyhow::Result;
use prost_types::Timestamp;

use super::{
    answer::Arriving,
    client::{self, Client, call_error, is_passing},
    clock::{ServerClock, since},
    follow::{Beside, Seen, follow},
    progress::{self, View},
    render::{self, Paint, fold, local_time, one_line, pad},
    screen::Screen,
    status,
    watch::Until,
    word,
};
use crate::rpc::proto::{Event, Job, JobStatus, StepStatus, watch_job_response::Content};

/// How often a live display looks at the clock.
const FRAME: Duration = Duration::from_millis(100);
/// How many of the events before the watch began a live display tells.
const BEFORE: i32 = 8;

/// Drawn in place: the watch says when to look, and what is drawn is the job as the server then shows it.
pub async fn live(
    client: &mut Client,
    job_id: &str,
    until: Until,
    is_new: bool,
) -> Result<JobStatus> {
    let reply = client::get_job(client, job_id, true).await.map_err(call_error)?;
    let steps = reply.spec.unwrap_or_default().steps;
    let mut job = reply.job.unwrap_or_default();
    // Without it nothing is said of what remains.
    let time = ServerClock::ask(client, job.updated_at).await.ok().flatten();
    let before = job.last_sequence.saturating_sub(BEFORE).max(0);
    let mut seen = follow(client, job_id, Some(before), Beside { output: true, notices: false });
    let mut arriving = Arriving::default();
    let mut clock = StepClock::attached_to(&job, is_new);
    let mut screen = Screen::open()?;
    let mut told: Vec<Event> = Vec::new();
    let mut remark = String::new();
    let mut ticks = tokio::time::interval(FRAME);
    let mut is_stale = false;
    let mut has_ended = false;
    loop {
        if is_stale && let Some(fresh) = refreshed(client, job_id).await? {
            job = fresh;
            is_stale = false;
            clock.look_at(&job);
        }
        let elapsed = clock.elapsed(&job, time.as_ref());
        let view = View { job: &job, steps: &steps, elapsed, arriving: &arriving, remark: &remark };
        draw(&mut screen, &view, time.as_ref(), &mut told)?;
        if !is_stale && (has_ended || until.is_reached(job.status())) {
            return Ok(job.status());
        }
        tokio::select! {
            // What has come is told before the next look at the clock.
            biased;
            next = seen.recv(), if !has_ended => match next.transpose().map_err(call_error)? {
                Some(Seen::Message(message)) => {
                    remark.clear();
                    match message.content {
                        Some(Content::OutputDelta(piece)) => {
                            arriving.take(&piece);
                        }
                        Some(Content::Event(event)) => {
                            arriving.hear(&event);
                            is_stale |= event.sequence > job.last_sequence;
                            told.push(event);
                        }
                        Some(Content::Snapshot(_) | Content::Heartbeat(_) | Content::Notice(_))
                        | None => {}
                    }
                }
                Some(Seen::Lost(why)) => remark = why,
                None => {
                    has_ended = true;
                    is_stale = true;
                }
            },
            _ = ticks.tick() => {}
        }
    }
}

/// Draws the frame anew, below the events that are to be told.
fn draw(
    screen: &mut Screen,
    view: &View<'_>,
    time: Option<&ServerClock>,
    told: &mut Vec<Event>,
) -> Result<()> {
    let (wide, high) = render::terminal_size().unwrap_or((80, 24));
    let paint = Paint::for_stdout();
    let above: Vec<String> =
        told.drain(..).flat_map(|event| live_lines(&event, wide, paint)).collect();
    let mut lines = vec![String::new()];
    lines.extend(progress::frame(view, (wide, high.saturating_sub(2)), paint));
    let now = time.map(ServerClock::now);
    lines.push(status::line(view.job, now, wide.saturating_sub(1), paint));
    screen.draw(&above, lines, wide)?;
    Ok(())
}

/// The job as it is now; `None` while the server is away.
async fn refreshed(client: &mut Client, job_id: &str) -> Result<Option<Job>> {
    match client::get_job(client, job_id, false).await {
        Ok(reply) => Ok(reply.job),
        Err(status) if is_passing(&status) => Ok(None),
        Err(status) => Err(call_error(status)),
    }
}

/// An event above a live display: what does not fit on its line goes on below the beginning of its words.
fn live_lines(event: &Event, wide: usize, paint: Paint) -> Vec<String> {
    let time = local_time(event.occurred_at.as_ref());
    let words = word::job_status(event.status).replace('_', " ");
    // A narrow terminal does without the day, and with shorter words.
    let (time, words) = if wide < 100 {
        let time = time.rsplit(' ').next().unwrap_or_default();
        (time, pad(&status::short(event.status), 9))
    } else {
        (time.as_str(), pad(&words, 17))
    };
    let indent = render::width(time) + 10 + render::width(&words);
    let status = paint.status(event.status(), &words);
    let begin =
        format!("{}  {} {status}  ", paint.dim(time), pad(&format!("#{}", event.sequence), 5));
    let rows = fold(&one_line(&event.message), wide.saturating_sub(indent + 1).max(20));
    let rows = rows.iter().enumerate().map(|(index, row)| match index {
        0 => format!("{begin}{row}"),
        _ => format!("{}{row}", " ".repeat(indent)),
    });
    rows.collect()
}

/// How long steps have been at work, where the server's clock is not known: by this machine's own.
///
/// A step that was at work before the watch began is then told without a time.
struct StepClock {
    begun: HashMap<(i32, i64), Option<Instant>>,
}

impl StepClock {
    fn attached_to(job: &Job, is_new: bool) -> Self {
        let begun = is_new.then(Instant::now);
        Self { begun: active(job).map(|step| (step, begun)).collect() }
    }

    fn look_at(&mut self, job: &Job) {
        for step in active(job) {
            self.begun.entry(step).or_insert_with(|| Some(Instant::now()));
        }
    }

    fn elapsed(&self, job: &Job, time: Option<&ServerClock>) -> Option<Duration> {
        if let Some(time) = time {
            let at_work = job.steps.iter().find(|step| step.status() == StepStatus::Active)?;
            return since(at_work.started_at.as_ref(), time.now());
        }
        let step = active(job).next()?;
        self.begun.get(&step).copied().flatten().map(|begun| begun.elapsed())
    }
}

/// The steps at work, each with when it was begun, since a step can be begun again.
fn active(job: &Job) -> impl Iterator<Item = (i32, i64)> {
    let steps = job.steps.iter().filter(|step| step.status() == StepStatus::Active);
    steps.map(|step| (step.step, started_second(step.started_at.as_ref())))
}

fn started_second(at: Option<&Timestamp>) -> i64 {
    at.map_or(0, |at| at.seconds)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rpc::proto::StepState;

    #[test]
    fn a_long_event_goes_on_below_its_words() {
        let event = Event {
            sequence: 7,
            status: JobStatus::Running as i32,
            message: "the first half of it and then the second half".to_owned(),
            ..Event::default()
        };
        let told = live_lines(&event, 50, Paint::plain());
        let indent = " ".repeat(19);
        assert_eq!(told[0], "  #7    running    the first half of it and then");
        assert_eq!(told[1..], [format!("{indent}the second half")]);
        assert!(told.iter().all(|line| render::width(line) < 50));
    }

    #[test]
    fn a_step_begun_before_the_watch_has_no_clock_and_one_begun_during_it_has() {
        let at = |seconds| Some(Timestamp { seconds, nanos: 0 });
        let status = StepStatus::Active as i32;
        let mut job = Job {
            steps: vec![StepState { step: 1, status, started_at: at(5), ..StepState::default() }],
            ..Job::default()
        };
        let mut clock = StepClock::attached_to(&job, false);
        clock.look_at(&job);
        assert_eq!(clock.elapsed(&job, None), None);
        job.steps[0].started_at = at(9);
        clock.look_at(&job);
        assert!(clock.elapsed(&job, None).is_some());
    }
}
