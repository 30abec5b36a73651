//! Watches and actions through the public door, and how old an event is when it arrives.
//!
//! An event carries the time of Postgres, which runs on this machine and reads the same clock. It was taken before
//! the commit, so the age of an event contains the commit: an upper bound of the way from there to the watcher.

use anyhow::{Context as _, Result, bail};
use longhaul::rpc::proto::{
    ApproveAction, ControlRequest, Event, EventKind, Job, PauseAction, ResumeAction,
    WatchJobRequest, WatchJobResponse, control_request::Action, watch_job_response::Content,
};
use tonic::Streaming;

use crate::server::Client;

/// Opens a watch that replays what comes after a sequence, and goes on.
pub async fn open(
    client: &mut Client,
    job_id: &str,
    after: i32,
) -> Result<Streaming<WatchJobResponse>> {
    let request = WatchJobRequest {
        job_id: job_id.to_owned(),
        after_sequence: Some(after),
        ..WatchJobRequest::default()
    };
    Ok(client.watch_job(request).await?.into_inner())
}

/// The next event.
pub async fn next(watch: &mut Streaming<WatchJobResponse>) -> Result<Event> {
    loop {
        let message = watch.message().await?.context("the job has not ended")?;
        match message.content {
            Some(Content::Event(event)) => return Ok(event),
            Some(Content::Heartbeat(_)) => {}
            Some(Content::Snapshot(_) | Content::OutputDelta(_) | Content::Notice(_)) | None => {
                bail!("a watch after a sequence sends events")
            }
        }
    }
}

/// The next event of a kind.
pub async fn until(watch: &mut Streaming<WatchJobResponse>, kind: EventKind) -> Result<Event> {
    loop {
        let event = next(watch).await?;
        if event.kind() == kind {
            return Ok(event);
        }
    }
}

/// How old an event is now, in milliseconds.
#[expect(clippy::disallowed_methods, reason = "Postgres reads the clock of this machine")]
pub fn age_ms(event: &Event) -> Result<f64> {
    let occurred_at = event.occurred_at.as_ref().context("an event has a time")?;
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?;
    let now_ms = now.as_secs_f64() * 1e3;
    Ok(now_ms - (occurred_at.seconds as f64 * 1e3 + f64::from(occurred_at.nanos) / 1e6))
}

async fn control(client: &mut Client, job_id: &str, action: Action) -> Result<Job> {
    let action = Some(action);
    let request = ControlRequest { job_id: job_id.to_owned(), request_id: String::new(), action };
    let answer = client.control(request).await?.into_inner();
    if !answer.changed {
        bail!("an action on {job_id} changed nothing");
    }
    answer.job.context("an action answers the job")
}

/// Approves what the job asks.
pub async fn approve(client: &mut Client, job_id: &str) -> Result<Job> {
    control(client, job_id, Action::Approve(ApproveAction::default())).await
}

/// Pauses a job, or lets it go on.
pub async fn turn(client: &mut Client, job_id: &str, pause: bool) -> Result<Job> {
    let action = if pause {
        Action::Pause(PauseAction::default())
    } else {
        Action::Resume(ResumeAction::default())
    };
    control(client, job_id, action).await
}
