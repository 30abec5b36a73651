//! People: control actions that may make no sense, buttons pressed on the page of an approval, and previews of links.
//!
//! A press is written down before it is sent, since it may take effect although its answer is lost.

use std::sync::Arc;
use std::time::Duration;

use longhaul::rpc::proto::{
    ApproveAction, Job, PauseAction, RejectAction, RequestChangesAction, RetryAction,
    control_request::Action,
};
use rand::RngExt as _;
use rand::rngs::StdRng;
use serde_json::json;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::door::{self, Came};
use super::plan::between_ms;
use super::shape::PEOPLE;
use super::watcher::word;
use super::world::{Acted, Press, World};
use crate::harness::{cancel, resume};

/// A link in a message.
struct Link {
    to: String,
    token: String,
}

/// Controls random jobs until told to stop.
pub async fn control(world: Arc<World>, mut random: StdRng, stop: CancellationToken) {
    while !stop.is_cancelled() {
        sleep(between_ms(&mut random, 50, 400)).await;
        let Some(job_id) = some_job(&world, &mut random) else { continue };
        let Some(client) = world.fleet.any(&mut random) else { continue };
        if random.random_range(0..4) == 0 {
            let action =
                ["pause", "resume", "approve", "status", "retry"][random.random_range(0..5)];
            let url = format!("{}/webhook/durable-job-control", client.http_url);
            let request = client.http.post(url).json(&json!({"job_id": job_id, "action": action}));
            let came = door::http(&world.tally, action, request).await;
            count(&world, action, &came);
            continue;
        }
        let (name, action) = any_action(&mut random);
        let action = aim(&world, &client, &job_id, action, &mut random).await;
        let came = door::grpc(&world.tally, name, client.try_control(&job_id, action)).await;
        count(&world, name, &came);
        if let Came::Answered(answer) = came
            && answer.changed
            && let Some(job) = answer.job
        {
            world.records.acted.lock().unwrap().push(acted(&job));
        }
    }
}

fn acted(job: &Job) -> Acted {
    let status = word(job.status().as_str_name(), "JOB_STATUS_");
    Acted { job_id: job.job_id.clone(), last_sequence: job.last_sequence, status }
}

fn count<T>(world: &World, name: &str, came: &Came<T>) {
    match came {
        Came::Answered(_) => world.tally.add(&format!("actions answered: {name}")),
        Came::Refused(_) => world.tally.add("actions refused"),
        Came::Cut => world.tally.add("actions cut"),
    }
}

fn some_job(world: &World, random: &mut StdRng) -> Option<String> {
    let jobs = world.records.jobs.lock().unwrap();
    // Mostly one of the newest, which still moves.
    let recent = jobs.len().min(if random.random_range(0..4) == 0 { usize::MAX } else { 40 });
    let at = (recent > 0).then(|| jobs.len() - 1 - random.random_range(0..recent))?;
    Some(jobs[at].clone())
}

fn any_action(random: &mut StdRng) -> (&'static str, Action) {
    let on_behalf_of = PEOPLE[random.random_range(0..PEOPLE.len())].to_owned();
    match random.random_range(0..40) {
        0..6 => ("pause", Action::Pause(PauseAction { now: false })),
        6..10 => ("pause now", Action::Pause(PauseAction { now: true })),
        10..20 => ("resume", resume()),
        20 => ("cancel", cancel()),
        21..25 => {
            let from_step = random.random_range(0..3);
            ("retry", Action::Retry(RetryAction { from_step }))
        }
        25..37 => {
            let who = ApproveAction { on_behalf_of, ..ApproveAction::default() };
            ("approve", Action::Approve(who))
        }
        _ => {
            let who = RejectAction { on_behalf_of, ..RejectAction::default() };
            ("reject", Action::Reject(who))
        }
    }
}

/// Names the pending approval in half of all decisions.
async fn aim(
    world: &World,
    client: &crate::harness::Client,
    job_id: &str,
    action: Action,
    random: &mut StdRng,
) -> Action {
    if random.random_range(0..2) == 0 {
        return action;
    }
    let status = Action::Status(longhaul::rpc::proto::StatusAction {});
    let looked = door::grpc(&world.tally, "status", client.try_control(job_id, status)).await;
    let Came::Answered(looked) = looked else { return action };
    let Some(approval) = looked.job.and_then(|job| job.approval) else { return action };
    let approval_id = approval.approval_id;
    match action {
        Action::Approve(who) => Action::Approve(ApproveAction { approval_id, ..who }),
        Action::Reject(who) => Action::Reject(RejectAction { approval_id, ..who }),
        Action::RequestChanges(who) => {
            Action::RequestChanges(RequestChangesAction { approval_id, ..who })
        }
        other @ (Action::Status(_)
        | Action::Pause(_)
        | Action::Resume(_)
        | Action::Cancel(_)
        | Action::Retry(_)) => other,
    }
}

/// Opens links from the messages, presses buttons behind some of them, and looks at others only.
pub async fn click(world: Arc<World>, mut random: StdRng, stop: CancellationToken) {
    let (mut links, mut after) = (Vec::<Link>::new(), 0);
    while !stop.is_cancelled() {
        sleep(between_ms(&mut random, 50, 300)).await;
        for message in world.journal("whatsapp/messages", "", after).await {
            after = message["seq"].as_u64().unwrap_or(after);
            links.extend(links_in(&message));
        }
        if links.is_empty() {
            continue;
        }
        let recent = links.len().min(60);
        let link = &links[links.len() - 1 - random.random_range(0..recent)];
        follow(&world, link, &mut random).await;
    }
}

fn links_in(message: &serde_json::Value) -> Vec<Link> {
    let to = message["to"].as_str().unwrap_or_default().to_owned();
    let text = message["text"].as_str().unwrap_or_default();
    let tokens = text.split_whitespace().filter_map(|word| word.split_once("/approvals/"));
    tokens.map(|(_, token)| Link { to: to.clone(), token: token.to_owned() }).collect()
}

async fn follow(world: &World, link: &Link, random: &mut StdRng) {
    let Some(client) = world.fleet.any(random) else { return };
    let url = format!("{}/approvals/{}", client.http_url, link.token);
    let look = client.http.get(&url).timeout(Duration::from_secs(8));
    let page = match look.send().await {
        Ok(answer) if answer.status().is_success() => answer.text().await.unwrap_or_default(),
        Ok(answer) if answer.status().is_server_error() && answer.status().as_u16() != 503 => {
            let status = answer.status();
            return world.tally.note_strange(format!("a link was answered with {status}"));
        }
        Ok(_) | Err(_) => return world.tally.add("links: not opened"),
    };
    world.tally.add("links: looked at");
    let hidden = r#"name="approval_id" value=""#;
    let approval_id = page.split_once(hidden).and_then(|(_, rest)| rest.split('"').next());
    let Some(approval_id) = approval_id.filter(|_| random.random_range(0..2) == 0) else { return };
    let verdict = if random.random_range(0..5) == 0 { "reject" } else { "approve" };
    let (approver, approval_id) = (link.to.clone(), approval_id.to_owned());
    let form = [("approval_id", approval_id.as_str()), ("verdict", verdict), ("comment", "")];
    let form = serde_urlencoded::to_string(form).unwrap();
    world.records.presses.lock().unwrap().push(Press { approval_id, approver, verdict });
    let press = client.http.post(&url).timeout(Duration::from_secs(8));
    let press = press.header("content-type", "application/x-www-form-urlencoded").body(form);
    match press.send().await {
        Ok(answer) => world.tally.add(&format!("links: pressed, {}", answer.status().as_u16())),
        Err(_) => world.tally.add("links: pressed, cut"),
    }
}
