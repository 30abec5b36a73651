//! `longhaul watch`: follows a job to its end.
//!
//! In comes a job's id; out goes, on a terminal, a display that is drawn in place, elsewhere one line an event, and
//! with `--json` one JSON object a message. The text of answers is shown as it arrives, where that is asked for.
//! When the server goes away the watch resumes after the last sequence it saw, so nothing is lost or told twice.

use std::{
    collections::HashMap,
    io::{self, IsTerminal as _, Write as _},
    time::{Duration, Instant},
};

use anyhow::Result;
use clap::Args;
use prost_types::Timestamp;

use super::{
    answer::{Arriving, Prose},
    client::{self, Client, ClientArgs, call_error, is_passing},
    exit::Exit,
    follow::{Beside, Seen, follow},
    json, notices,
    progress::{self, Screen, View},
    render::{self, Paint, local_time, one_line, pad},
    word,
};
use crate::rpc::proto::{Event, Job, JobStatus, StepStatus, watch_job_response::Content};

/// How often a live display looks at the clock.
const FRAME: Duration = Duration::from_millis(100);

/// Follow a job to its end
#[derive(Args, Debug)]
pub struct WatchArgs {
    /// The job's id
    job: String,
    /// Tell the events after this sequence, as lines; 0 tells all
    #[arg(long, value_name = "SEQUENCE")]
    after: Option<i32>,
    /// Also tell the text of answers as it arrives; a live display always shows the end of it
    #[arg(long)]
    output: bool,
    /// Also tell what becomes of what people and endpoints are told; a live display does not
    #[arg(long)]
    notices: bool,
    #[command(flatten)]
    client: ClientArgs,
}

/// How far to follow a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// To its end.
    Ended,
    /// Until it needs a person, or to its end.
    StandsStill,
}

/// How to show it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Drawn in place.
    Live {
        /// The job was submitted a moment ago, so what is at work has only just begun.
        is_new: bool,
    },
    /// One line an event.
    Lines {
        /// Only those after this sequence.
        after: i32,
        /// What comes between them.
        beside: Beside,
    },
    /// One JSON object a message, a snapshot first unless a sequence is given.
    Json {
        /// Only events after this sequence.
        after: Option<i32>,
        /// What comes between them.
        beside: Beside,
    },
}

impl Form {
    /// The form that stdout can take.
    pub fn for_stdout(json: bool, after: Option<i32>, is_new: bool) -> Self {
        if json {
            Self::Json { after, beside: Beside::default() }
        } else if after.is_none() && io::stdout().is_terminal() {
            Self::Live { is_new }
        } else {
            Self::Lines { after: after.unwrap_or(0), beside: Beside::default() }
        }
    }

    /// The same with what comes between the events.
    fn with(self, beside: Beside) -> Self {
        match self {
            Self::Live { is_new } => Self::Live { is_new },
            Self::Lines { after, .. } => Self::Lines { after, beside },
            Self::Json { after, .. } => Self::Json { after, beside },
        }
    }
}

/// Runs the command.
pub async fn run(args: WatchArgs) -> Result<Exit> {
    let mut client = args.client.connect().await?;
    let form = Form::for_stdout(args.client.format.is_a_line()?, args.after, false);
    let form = form.with(Beside { output: args.output, notices: args.notices });
    let status = show(&mut client, &args.job, Until::Ended, form).await?;
    Ok(Exit::of_job(status))
}

/// Shows a job until it has ended or needs a person, and says how it then stood.
pub async fn show(
    client: &mut Client,
    job_id: &str,
    until: Until,
    form: Form,
) -> Result<JobStatus> {
    match form {
        Form::Live { is_new } => live(client, job_id, until, is_new).await,
        Form::Lines { after, beside } => lines(client, job_id, until, after, beside).await,
        Form::Json { after, beside } => messages(client, job_id, until, after, beside).await,
    }
}

impl Until {
    fn is_reached(self, status: JobStatus) -> bool {
        match status {
            JobStatus::Completed | JobStatus::Failed | JobStatus::Cancelled => true,
            JobStatus::AwaitingApproval | JobStatus::Paused => self == Self::StandsStill,
            JobStatus::Unspecified | JobStatus::Queued | JobStatus::Running => false,
        }
    }
}

/// One line an event, and between them the text of answers, if that is wanted.
async fn lines(
    client: &Client,
    job_id: &str,
    until: Until,
    after: i32,
    beside: Beside,
) -> Result<JobStatus> {
    let mut seen = follow(client, job_id, Some(after), beside);
    let mut status = None;
    let mut was_lost = false;
    let mut prose = Prose::default();
    while let Some(next) = seen.recv().await {
        match next.map_err(call_error)? {
            Seen::Message(message) => {
                was_lost = false;
                let event = match message.content {
                    Some(Content::Event(event)) => event,
                    Some(Content::OutputDelta(piece)) => {
                        prose.tell(&piece)?;
                        continue;
                    }
                    Some(Content::Notice(notice)) => {
                        prose.end_line()?;
                        writeln!(io::stdout(), "{}", notices::line(&notice))?;
                        continue;
                    }
                    Some(Content::Snapshot(_) | Content::Heartbeat(_)) | None => continue,
                };
                prose.end(&event)?;
                writeln!(io::stdout(), "{}", event_line(&event))?;
                status = Some(event.status());
                if until.is_reached(event.status()) && until == Until::StandsStill {
                    break;
                }
            }
            Seen::Lost(why) if !was_lost => {
                was_lost = true;
                eprintln!("{why}");
            }
            Seen::Lost(_) => {}
        }
    }
    ended_as(client, job_id, status).await
}

/// One JSON object a message.
async fn messages(
    client: &Client,
    job_id: &str,
    until: Until,
    after: Option<i32>,
    beside: Beside,
) -> Result<JobStatus> {
    let mut seen = follow(client, job_id, after, beside);
    let mut status = None;
    while let Some(next) = seen.recv().await {
        match next.map_err(call_error)? {
            Seen::Message(message) => {
                writeln!(io::stdout(), "{}", json::watch_message(&message))?;
                status = match &message.content {
                    Some(Content::Snapshot(job)) => Some(job.status()),
                    Some(Content::Event(event)) => Some(event.status()),
                    Some(Content::Heartbeat(_) | Content::OutputDelta(_) | Content::Notice(_))
                    | None => status,
                };
                if until == Until::StandsStill && status.is_some_and(|s| until.is_reached(s)) {
                    break;
                }
            }
            Seen::Lost(why) => eprintln!("{why}"),
        }
    }
    ended_as(client, job_id, status).await
}

/// How a watched job stands at the end of the watch; the server is asked only if the watch brought nothing.
async fn ended_as(client: &Client, job_id: &str, status: Option<JobStatus>) -> Result<JobStatus> {
    if let Some(status) = status {
        return Ok(status);
    }
    let reply = client::get_job(&mut client.clone(), job_id, false).await.map_err(call_error)?;
    Ok(reply.job.unwrap_or_default().status())
}

/// Drawn in place: the watch says when to look, and what is drawn is the job as the server then shows it.
async fn live(client: &mut Client, job_id: &str, until: Until, is_new: bool) -> Result<JobStatus> {
    let reply = client::get_job(client, job_id, true).await.map_err(call_error)?;
    let steps = reply.spec.unwrap_or_default().steps;
    let mut job = reply.job.unwrap_or_default();
    let mut seen =
        follow(client, job_id, Some(job.last_sequence), Beside { output: true, notices: false });
    let mut arriving = Arriving::default();
    let mut clock = StepClock::attached_to(&job, is_new);
    let mut screen = Screen::open()?;
    let paint = Paint::for_stdout();
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
        let elapsed = clock.elapsed(&job);
        let view = View { job: &job, steps: &steps, elapsed, arriving: &arriving, remark: &remark };
        let size = render::terminal_size().unwrap_or((80, 24));
        screen.draw(progress::frame(&view, size, paint), size.0)?;
        if !is_stale && (has_ended || until.is_reached(job.status())) {
            return Ok(job.status());
        }
        tokio::select! {
            next = seen.recv(), if !has_ended => match next.transpose().map_err(call_error)? {
                Some(Seen::Message(message)) => {
                    remark.clear();
                    match message.content {
                        Some(Content::OutputDelta(piece)) => {
                            arriving.take(&piece);
                            continue;
                        }
                        Some(Content::Event(event)) => arriving.hear(&event),
                        Some(Content::Snapshot(_) | Content::Heartbeat(_) | Content::Notice(_))
                        | None => {}
                    }
                    is_stale = true;
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

/// The job as it is now; `None` while the server is away.
async fn refreshed(client: &mut Client, job_id: &str) -> Result<Option<Job>> {
    match client::get_job(client, job_id, false).await {
        Ok(reply) => Ok(reply.job),
        Err(status) if is_passing(&status) => Ok(None),
        Err(status) => Err(call_error(status)),
    }
}

/// One line of a job's history: time, number, status, what happened.
fn event_line(event: &Event) -> String {
    let number = format!("#{}", event.sequence);
    let status = pad(&word::job_status(event.status), 17);
    let time = local_time(event.occurred_at.as_ref());
    format!("{time}  {} {status}  {}", pad(&number, 5), one_line(&event.message))
}

/// How long steps have been at work, by this machine's clock alone: the server's may differ.
///
/// A step that was at work before the watch began is told without a time.
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

    fn elapsed(&self, job: &Job) -> Option<Duration> {
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
    fn an_event_is_one_line() {
        let line = event_line(&Event {
            sequence: 7,
            status: JobStatus::AwaitingApproval as i32,
            message: "asked\n1 approver".to_owned(),
            ..Event::default()
        });
        assert_eq!(line, "  #7    awaiting_approval  asked 1 approver");
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
        assert_eq!(clock.elapsed(&job), None);
        job.steps[0].started_at = at(9);
        clock.look_at(&job);
        assert!(clock.elapsed(&job).is_some());
    }

    #[test]
    fn a_watch_to_the_end_goes_on_past_an_approval() {
        assert!(Until::StandsStill.is_reached(JobStatus::AwaitingApproval));
        assert!(!Until::Ended.is_reached(JobStatus::AwaitingApproval));
        assert!(Until::Ended.is_reached(JobStatus::Cancelled));
    }
}
