//! Watchers: each records the history of one job, over as many streams and servers as it takes.
//!
//! After a cut it goes on, on any server, after the last sequence it saw, so that all its streams together are one history.

use std::sync::Arc;
use std::time::Duration;

use longhaul::rpc::proto::{Event, WatchJobResponse, watch_job_response::Content};
use rand::RngExt as _;
use rand::rngs::StdRng;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tonic::Streaming;

use super::door::{self, Came};
use super::world::{Recording, Seen, World};

/// Longer than the pause between two heartbeats.
const SILENCE_MAX: Duration = Duration::from_secs(20);

/// Watches until the job has ended and the run is finished.
pub async fn run(world: Arc<World>, job_id: String, mut random: StdRng, finish: CancellationToken) {
    // Some begin with a snapshot, which says from where on.
    let mut after = (random.random_range(0..4) > 0).then_some(0);
    loop {
        let is_last = finish.is_cancelled();
        match watch(&world, &job_id, after, &mut random).await {
            None => sleep(Duration::from_millis(random.random_range(50..300))).await,
            Some(recording) => {
                let last = recording.events.last().map_or(recording.after, |event| event.sequence);
                after = Some(last);
                let has_ended = recording.has_ended;
                world.tally.add_many("watch events", recording.events.len() as u64);
                world.tally.add(if has_ended { "watches ended" } else { "watches cut" });
                world.records.recordings.lock().unwrap().push(recording);
                if has_ended && is_last {
                    return;
                }
                if has_ended {
                    // It may be retried: the last look, when all is over, tells.
                    finish.cancelled().await;
                    sleep(Duration::from_millis(random.random_range(0..500))).await;
                }
            }
        }
    }
}

/// Records one stream up to its end or its cut; nothing if it could not begin.
async fn watch(
    world: &World,
    job_id: &str,
    after: Option<i32>,
    random: &mut StdRng,
) -> Option<Recording> {
    let client = world.fleet.any(random)?;
    let opened = door::grpc(&world.tally, "a watch", client.try_watch(job_id, after)).await;
    let mut stream = match opened {
        Came::Answered(stream) => stream,
        // Its submit may not have been answered yet.
        Came::Refused(reason) if reason == "JOB_NOT_FOUND" && after.is_none_or(|at| at == 0) => {
            sleep(Duration::from_millis(200)).await;
            return None;
        }
        Came::Refused(reason) => {
            world.tally.note_strange(format!("a watch of {job_id} after {after:?}: {reason}"));
            return None;
        }
        Came::Cut => return None,
    };
    let mut recording = Recording {
        job_id: job_id.to_owned(),
        after: after.unwrap_or(-1),
        snapshot: None,
        events: Vec::new(),
        has_ended: false,
    };
    read(world, &mut stream, &mut recording).await;
    (recording.after >= 0).then_some(recording)
}

async fn read(world: &World, stream: &mut Streaming<WatchJobResponse>, recording: &mut Recording) {
    loop {
        let message = match timeout(SILENCE_MAX, stream.message()).await {
            Ok(Ok(Some(message))) => message,
            Ok(Ok(None)) => {
                recording.has_ended = true;
                return;
            }
            Ok(Err(status)) => {
                if let Came::Refused::<()>(reason) = door::judge(&world.tally, "a watch", &status) {
                    let job_id = &recording.job_id;
                    world.tally.note_strange(format!("a watch of {job_id} ended with {reason}"));
                }
                return;
            }
            Err(_frozen) => return,
        };
        match message.content {
            Some(Content::Event(event)) => recording.events.push(seen(&event)),
            Some(Content::Snapshot(job)) => {
                recording.after = job.last_sequence;
                recording.snapshot = Some(word(job.status().as_str_name(), "JOB_STATUS_"));
            }
            Some(Content::Heartbeat(heartbeat)) => {
                let last = recording.events.last().map_or(recording.after, |event| event.sequence);
                if heartbeat.last_sequence != last {
                    let job_id = &recording.job_id;
                    let told = heartbeat.last_sequence;
                    world.tally.note_strange(format!(
                        "a heartbeat of {job_id} tells {told}, and {last} was sent"
                    ));
                }
            }
            Some(Content::OutputDelta(_)) => {
                world.tally.note_strange("a watch sent a delta unasked".to_owned());
            }
            Some(Content::Notice(_)) => {
                world.tally.note_strange("a watch sent a notice unasked".to_owned());
            }
            None => world.tally.note_strange("a watch sent an empty message".to_owned()),
        }
    }
}

fn seen(event: &Event) -> Seen {
    Seen {
        sequence: event.sequence,
        kind: word(event.kind().as_str_name(), "EVENT_KIND_"),
        status: word(event.status().as_str_name(), "JOB_STATUS_"),
        reason: event.reason.clone(),
        step: event.step,
        attempt: event.attempt,
    }
}

/// The word of the tables for a name of the proto.
pub fn word(name: &str, prefix: &str) -> String {
    name.trim_start_matches(prefix).to_lowercase()
}
