//! The end of a run: everything is mended, and every job is helped along until it has ended.
//!
//! What a person holds is let go at once, and what time holds is waited for, or the clock is moved to it.
//! A job that nothing holds has to move: the longest pause is measured, and too long a one is a violation.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use longhaul::rpc::proto::{ApproveAction, control_request::Action};
use rand::rngs::StdRng;
use tokio::time::{Instant, sleep};

use super::door::{self, Came};
use super::plan::fork;
use super::shape::PEOPLE;
use super::world::World;
use crate::harness::resume;

/// A job that nothing holds moves within this.
const STILL_MAX: Duration = Duration::from_secs(30);
/// After this long the run gives up on what does not move.
const GIVE_UP: Duration = Duration::from_mins(2);
/// What is due sooner is waited for.
const SHORT_WAIT_SECONDS: f64 = 3.0;

/// A job that has not ended.
#[derive(sqlx::FromRow)]
struct Open {
    job_id: String,
    status: String,
    last_sequence: i32,
    approval_id: Option<String>,
    /// How long time holds it; negative or nothing if it does not.
    parked_seconds: Option<f64>,
}

/// Since when nothing holds a job.
struct Watched {
    last_sequence: i32,
    free_since: Instant,
}

/// Helps every job along; answers whether each moved in time.
pub async fn end_every_job(world: &Arc<World>, random: &mut StdRng) -> bool {
    let mut watched = HashMap::<String, Watched>::new();
    let (mut longest, mut slowest) = (Duration::ZERO, String::new());
    let mut moved_at = Instant::now();
    loop {
        let open = open_jobs(world).await;
        let now = Instant::now();
        watched.retain(|job_id, _| open.iter().any(|job| job.job_id == *job_id));
        for job in &open {
            let is_held = ["paused", "awaiting_approval"].contains(&job.status.as_str())
                || job.parked_seconds.is_some_and(|seconds| seconds > 0.0);
            let entry = watched
                .entry(job.job_id.clone())
                .or_insert(Watched { last_sequence: job.last_sequence, free_since: now });
            if is_held || entry.last_sequence != job.last_sequence {
                *entry = Watched { last_sequence: job.last_sequence, free_since: now };
                moved_at = now;
            }
            if now - entry.free_since > longest {
                longest = now - entry.free_since;
                slowest = format!("{} {}", job.job_id, job.status);
            }
        }
        if open.is_empty() || moved_at.elapsed() > GIVE_UP {
            break;
        }
        help(world, &open, random).await;
        skip_time(world, &open).await;
        sleep(Duration::from_millis(150)).await;
    }
    let seconds = longest.as_secs_f64();
    println!(
        "  the longest that a job stood still with nothing holding it: {seconds:.1} s ({slowest})"
    );
    if longest > STILL_MAX {
        world.tally.note_strange(format!("{slowest} stood still for {seconds:.1} s"));
    }
    longest <= STILL_MAX
}

async fn open_jobs(world: &World) -> Vec<Open> {
    loop {
        let found = sqlx::query_as(
            "select job_id, status, last_sequence, approval_id::text,
               extract(epoch from run_at - longhaul.now())::float8 as parked_seconds
             from longhaul.job where status not in ('completed', 'failed', 'cancelled')",
        );
        match found.fetch_all(&world.db.pool).await {
            Ok(open) => return open,
            Err(_away) => sleep(Duration::from_millis(100)).await,
        }
    }
}

/// Resumes what is paused, and approves what is asked, in everybody's name.
async fn help(world: &Arc<World>, open: &[Open], random: &mut StdRng) {
    let mut actions = Vec::new();
    for job in open {
        match (job.status.as_str(), &job.approval_id) {
            ("paused", _) => actions.push((job.job_id.clone(), resume())),
            ("awaiting_approval", Some(approval_id)) => {
                actions.extend(PEOPLE.map(|who| {
                    let approve = ApproveAction {
                        approval_id: approval_id.clone(),
                        on_behalf_of: who.to_owned(),
                        ..ApproveAction::default()
                    };
                    (job.job_id.clone(), Action::Approve(approve))
                }));
            }
            _ => {}
        }
    }
    let calls = actions.into_iter().map(|(job_id, action)| {
        let (world, mut random) = (Arc::clone(world), fork(random));
        async move {
            let Some(client) = world.fleet.any(&mut random) else { return };
            let call = client.try_control(&job_id, action);
            match door::grpc(&world.tally, "help", call).await {
                Came::Answered(_) | Came::Refused(_) => {}
                Came::Cut => sleep(Duration::from_millis(50)).await,
            }
        }
    });
    futures::stream::iter(calls).buffer_unordered(8).collect::<Vec<()>>().await;
}

/// Moves the clock where every job that is left waits for time alone.
async fn skip_time(world: &World, open: &[Open]) {
    let waits = open.iter().map(|job| job.parked_seconds.unwrap_or_default());
    let shortest = waits.fold(f64::INFINITY, f64::min);
    if shortest.is_finite() && shortest > SHORT_WAIT_SECONDS {
        world.shift_clock(shortest).await;
    }
}

/// Lets what is judged by the clock be judged: calls that nobody settled, and notices on their way.
pub async fn end_the_rest(world: &World) {
    const CALLS: &str = "select count(*) from longhaul.model_call where outcome = 'started'";
    const NOTICES: &str =
        "select count(*) from longhaul.outbox where delivery in ('pending', 'sending')";
    for _ in 0..20 {
        let calls = world.wait_for_none(CALLS, Duration::from_secs(2)).await;
        if calls && world.wait_for_none(NOTICES, Duration::from_secs(2)).await {
            return;
        }
        world.shift_clock(70.0).await;
    }
}
