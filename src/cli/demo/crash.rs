//! The exercise crash: servers are killed with kill -9 in the middle of a model call.
//!
//! In comes a running site; out go checks: another server finishes the job without repeating a finished step,
//! and a job that keeps killing its servers is failed instead of being tried for ever.
//! The site's own server is frozen meanwhile, so that the job is where it can be killed; its Postgres lives on.

use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use super::{
    Site,
    check::Checks,
    doors::Doors,
    process::{Process, Start},
    submission,
};
use crate::{
    cli::word,
    rpc::proto::{EventKind, JobStatus, StepStatus},
};

const PROMPTS: [&str; 3] = [
    "Name a small town by the sea.",
    "Describe its harbour in the morning.",
    "End with one sentence about its lighthouse.",
];
const POISON: &str = "Describe a storm that ends every ship.";

/// Kills servers and sees what becomes of their jobs.
pub async fn crash(site: &Site, checks: &mut Checks) -> Result<()> {
    checks.exercise(
        "Crash",
        &[
            "The server is killed (kill -9) in the middle of step 2 of 3.",
            "Another one takes the job over.",
        ],
    )?;
    site.dev.freeze()?;
    let ended = with_spare_servers(site, checks).await;
    site.dev.thaw()?;
    ended
}

async fn with_spare_servers(site: &Site, checks: &mut Checks) -> Result<()> {
    let args = ["sandbox", "--addr", "127.0.0.1:0"].map(str::to_owned).to_vec();
    let sandbox = Start { name: "sandbox".to_owned(), args, env: Vec::new() };
    let sandbox = Process::start(&sandbox, &site.folder).await?;
    let spare = Spare { site, sandbox: sandbox.ready.sandbox.clone() };
    let survivor = take_over(&spare, checks).await?;
    exhaust(&spare, survivor, checks).await?;
    sandbox.stop().await
}

/// A job of three steps whose server dies in the second.
async fn take_over(spare: &Spare<'_>, checks: &mut Checks) -> Result<Process> {
    let job_id = "demo-crash";
    let (server, doors) = spare.server(1).await?;
    doors.script_model(json!({"hold": true, "matching": PROMPTS[1]})).await?;
    doors.submit(&submission(job_id, &PROMPTS, false, "+15550105")).await?;
    doors.held(PROMPTS[1], 1).await?;
    let job = doors.job(job_id).await?;
    let stored = job.steps.first().is_some_and(|step| step.status() == StepStatus::Done);
    let seen = format!("step {} of 3 in hand", job.current_step);
    checks.expect("step 1 is stored, step 2 is at the model", stored, &seen)?;
    server.kill().await?;
    doors.script_model(Value::Null).await?;
    let (survivor, doors) = spare.server(2).await?;
    let end = doors.settled(job_id).await?;
    let completed = end.status() == JobStatus::Completed;
    checks.expect("another server finishes the job", completed, &word::job_status(end.status))?;
    let mut asked = Vec::new();
    for prompt in PROMPTS {
        asked.push(doors.asked(prompt, 0, Duration::ZERO).await?);
    }
    let seen = format!("{asked:?} requests for the steps");
    checks.expect("step 1 was asked once, only step 2 again", asked == [1, 2, 1], &seen)?;
    let events = doors.history(job_id).await?;
    let lost = events.iter().filter(|event| event.kind() == EventKind::AttemptLost).count();
    let gapless = events.iter().zip(1..).all(|(event, number)| event.sequence == number);
    let seen = format!("{} events, {lost} attempt lost", events.len());
    checks.expect("the history tells it without a gap", lost == 1 && gapless, &seen)?;
    told_the_end_once(&doors, "+15550105", checks).await?;
    Ok(survivor)
}

/// A job that may lose one attempt, and loses two.
async fn exhaust(spare: &Spare<'_>, first: Process, checks: &mut Checks) -> Result<()> {
    let job_id = "demo-exhausted";
    let mut doors = spare.doors(&first).await?;
    doors.script_model(json!({"hold": true, "matching": POISON})).await?;
    let mut job = submission(job_id, &[POISON], false, "+15550106");
    job["settings"]["max_attempts"] = json!(1);
    doors.submit(&job).await?;
    let mut server = first;
    for kills in 1..=2 {
        doors.held(POISON, kills).await?;
        server.kill().await?;
        (server, doors) = spare.server(kills + 2).await?;
    }
    let end = doors.settled(job_id).await?;
    let seen = format!("{}, {}", word::job_status(end.status), end.reason);
    let failed = end.status() == JobStatus::Failed && end.reason == "RECOVERIES_EXHAUSTED";
    checks.expect("a job that kills one server too many is failed", failed, &seen)?;
    doors.script_model(Value::Null).await?;
    let asked = doors.asked(POISON, 3, Duration::from_secs(1)).await?;
    checks.expect("and is not tried again", asked == 2, &format!("{asked} requests"))?;
    told_the_end_once(&doors, "+15550106", checks).await?;
    server.stop().await
}

/// A phone that is asked nothing gets one message, whoever sent it and however often servers died.
async fn told_the_end_once(doors: &Doors, phone: &str, checks: &mut Checks) -> Result<()> {
    let told = doors.messages(phone, 1).await?.len();
    checks.expect("its end is told once", told == 1, &format!("{told} in all"))
}

/// Where spare servers are started.
struct Spare<'a> {
    site: &'a Site,
    sandbox: String,
}

impl Spare<'_> {
    /// Starts a server on the site's database, with a short lease.
    async fn server(&self, number: usize) -> Result<(Process, Doors)> {
        let dev = &self.site.dev.ready;
        ensure!(!dev.database_url.is_empty(), "the ready file names no database");
        let args = ["serve", "--grpc-addr", "127.0.0.1:0", "--http-addr", "127.0.0.1:0"];
        let start = Start {
            name: format!("serve-{number}"),
            args: args.map(str::to_owned).to_vec(),
            env: vec![
                ("DATABASE_URL", dev.database_url.clone()),
                ("LONGHAUL_PUBLIC_URL", dev.http.clone()),
                ("LONGHAUL_LEASE_SECONDS", "3".to_owned()),
                ("LONGHAUL_MODEL_BASE_URL", self.sandbox.clone()),
                ("LONGHAUL_MODEL_API_KEY", "sandbox".to_owned()),
                ("LONGHAUL_WHATSAPP_BASE_URL", self.sandbox.clone()),
                ("LONGHAUL_WHATSAPP_TOKEN", "sandbox".to_owned()),
                ("LONGHAUL_WHATSAPP_PHONE_NUMBER_ID", "1".to_owned()),
                ("LONGHAUL_WHATSAPP_SPACING_SECONDS", "0".to_owned()),
            ],
        };
        let server = Process::start(&start, &self.site.folder).await?;
        let doors = self.doors(&server).await?;
        Ok((server, doors))
    }

    async fn doors(&self, server: &Process) -> Result<Doors> {
        Doors::open(&server.ready.grpc, &server.ready.http, &self.sandbox).await
    }
}
