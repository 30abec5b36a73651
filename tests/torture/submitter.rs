//! Submitters: jobs of mixed shapes at a steady rate, through both doors, some of them twice, some with another content.
//!
//! A submit that was cut is sent again with the same id until it is answered; only answers are written down.

use std::sync::Arc;
use std::time::Duration;

use rand::RngExt as _;
use rand::rngs::StdRng;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep};
use tokio_util::sync::CancellationToken;

use super::door::{self, Came};
use super::plan::fork;
use super::shape::Shape;
use super::watcher;
use super::world::{Submitted, World};

/// How long one submit is tried.
const PATIENCE: Duration = Duration::from_mins(2);

/// Submits until told to stop, and starts a watcher for a share of the jobs.
pub async fn run(
    world: Arc<World>,
    rate: f64,
    mut random: StdRng,
    stop: CancellationToken,
    finish: CancellationToken,
) {
    let mut pace = interval(Duration::from_secs_f64(1.0 / rate));
    pace.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let (mut submits, mut watchers) = (JoinSet::new(), JoinSet::new());
    let mut number = 0;
    while !stop.is_cancelled() {
        pace.tick().await;
        number += 1;
        let shape = Shape::any(&format!("t-{number}"), &mut random);
        for sent in variants(&shape, &mut random) {
            let dice = fork(&mut random);
            submits.spawn(submit(Arc::clone(&world), sent, dice));
        }
        if random.random_range(0..5) < 2 {
            let dice = fork(&mut random);
            watchers.spawn(watcher::run(Arc::clone(&world), shape.job_id, dice, finish.clone()));
        }
    }
    submits.join_all().await;
    watchers.join_all().await;
}

/// What is sent of one job: mostly once, sometimes twice at once, sometimes with another content.
fn variants(shape: &Shape, random: &mut StdRng) -> Vec<Shape> {
    match random.random_range(0..12) {
        0 => vec![shape.clone(), shape.clone()],
        1 => vec![shape.clone(), shape.conflicting()],
        _ => vec![shape.clone()],
    }
}

/// Submits until there is an answer.
pub async fn submit(world: Arc<World>, shape: Shape, mut random: StdRng) {
    let started_at = Instant::now();
    while started_at.elapsed() < PATIENCE {
        let came = submit_once(&world, &shape, &mut random).await;
        match came {
            Some(Came::Answered(created)) => {
                world.tally.add("submits answered");
                let Shape { job_id, task, .. } = shape;
                if created {
                    world.records.jobs.lock().unwrap().push(job_id.clone());
                }
                let submitted = Submitted { job_id, task, created };
                return world.records.submitted.lock().unwrap().push(submitted);
            }
            Some(Came::Refused(reason)) => {
                world.tally.add(&format!("submits refused: {reason}"));
                let Shape { job_id, task, .. } = shape;
                if reason == "JOB_ID_CONFLICT" {
                    world.records.conflicts.lock().unwrap().push((job_id, task));
                } else {
                    world.tally.note_strange(format!("submit of {job_id} was refused: {reason}"));
                }
                return;
            }
            Some(Came::Cut) => world.tally.add("submits cut"),
            None => {}
        }
        sleep(Duration::from_millis(random.random_range(50..400))).await;
    }
    world.tally.add("submits never answered");
}

/// Whether the job was created, if the answer says.
async fn submit_once(world: &World, shape: &Shape, random: &mut StdRng) -> Option<Came<bool>> {
    let client = world.fleet.any(random)?;
    let tally = &world.tally;
    if random.random_range(0..3) == 0 {
        let url = format!("{}/webhook/durable-job", client.http_url);
        let request = client.http.post(url).json(&shape.body());
        return Some(match door::http(tally, "submit", request).await {
            Came::Answered(body) => {
                if let Some(created) = body["created"].as_bool() {
                    Came::Answered(created)
                } else {
                    tally.note_strange(format!("a submit was answered with {body}"));
                    Came::Cut
                }
            }
            Came::Refused(code) => Came::Refused(code),
            Came::Cut => Came::Cut,
        });
    }
    Some(match door::grpc(tally, "submit", client.try_submit(shape.request())).await {
        Came::Answered(answer) => Came::Answered(answer.created),
        Came::Refused(reason) => Came::Refused(reason),
        Came::Cut => Came::Cut,
    })
}
