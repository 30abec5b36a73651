//! `longhaul watch`: follows a job to its end.
//!
//! In comes a job's id; out goes, on a terminal, one line an event above a display that is drawn in place, elsewhere one
//! line an event, and with `--json` one JSON object a message. The text of answers is shown as it arrives, where that is asked for.
//! When the server goes away the watch resumes after the last sequence it saw, so nothing is lost or told twice.

use std::io::{self, IsTerminal as _, Write as _};

use anyhow::Result;
use clap::Args;

use super::{
    answer::Prose,
    client::{self, Client, ClientArgs, call_error},
    exit::Exit,
    follow::{Beside, Seen, follow},
    json,
    live::live,
    notices,
    render::{local_time, one_line, pad},
    word,
};
use crate::rpc::proto::{Event, JobStatus, watch_job_response::Content};

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
    /// Whether a job in this status need not be followed any further.
    pub fn is_reached(self, status: JobStatus) -> bool {
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

/// One line of a job's history: time, number, status, what happened.
fn event_line(event: &Event) -> String {
    let number = format!("#{}", event.sequence);
    let status = pad(&word::job_status(event.status), 17);
    let time = local_time(event.occurred_at.as_ref());
    format!("{time}  {} {status}  {}", pad(&number, 5), one_line(&event.message))
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn a_watch_to_the_end_goes_on_past_an_approval() {
        assert!(Until::StandsStill.is_reached(JobStatus::AwaitingApproval));
        assert!(!Until::Ended.is_reached(JobStatus::AwaitingApproval));
        assert!(Until::Ended.is_reached(JobStatus::Cancelled));
    }
}
