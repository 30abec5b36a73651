//! `longhaul demo`: the example job with a person in the place where a person belongs.
//!
//! In comes a running site; out go the addresses, the job's progress, the approval link, and what to try next,
//! ready to paste.
//! It runs until Ctrl-C, and starts the server again whenever somebody kills it.

use std::{
    env, fs,
    io::{self, IsTerminal as _, Write as _},
    path::Path,
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use tokio::time::interval;

use super::{
    DEFAULT_PHONE, SEED, SEED_JOB, Site,
    doors::{Doors, Message},
};
use crate::cli::{
    exit::Exit,
    render::{Paint, harmless},
    watch::{self, Form, Until},
    word,
};

/// How often a server that was killed is started again before the tour gives up.
const RESTARTS: usize = 40;

/// Shows the example and stays until Ctrl-C.
pub async fn run(site: &mut Site) -> Result<Exit> {
    let mut doors = site.doors().await?;
    welcome(site)?;
    submit(&doors).await?;
    heading("2. Its progress")?;
    watch::show(&mut doors.grpc, SEED_JOB, Until::StandsStill, Form::for_stdout(false, None, true))
        .await?;
    your_turn(site, &doors).await?;
    let tell_the_end = tell_the_end(&mut doors);
    tokio::select! {
        told = tell_the_end => told?,
        gave_up = keep_alive(site) => gave_up?,
    }
    keep_alive(site).await?;
    Ok(Exit::Ok)
}

fn welcome(site: &Site) -> Result<()> {
    let ready = &site.dev.ready;
    heading("Longhaul is up")?;
    let mut out = io::stdout().lock();
    writeln!(out, "   gRPC        {}", ready.grpc)?;
    writeln!(out, "   webhooks    {}/webhook/durable-job", ready.http)?;
    writeln!(out, "   the phone   {}/phone", ready.sandbox)?;
    writeln!(out, "   logs        {}", site.folder.join("dev.log").display())?;
    Ok(())
}

async fn submit(doors: &Doors) -> Result<()> {
    heading("1. A job of two steps: a draft, then a person's decision")?;
    let example = serde_json::from_str(SEED).context("reading the example")?;
    let answer = doors.submit(&example).await?;
    ensure!(answer.status == 200, "the webhook refused the job: {}", answer.told());
    let mut out = io::stdout().lock();
    writeln!(out, "   POST /webhook/durable-job\n   {SEED}\n   → {}", answer.told())?;
    Ok(())
}

async fn your_turn(site: &Site, doors: &Doors) -> Result<()> {
    heading("3. Your turn")?;
    let messages = doors.messages(DEFAULT_PHONE, 1).await?;
    let asks = messages.iter().rev().find(|message| !message.links().is_empty());
    let link = asks.and_then(|message| message.links().first().map(|link| (*link).to_owned()));
    let link = link.context("no message with a link has come")?;
    let example = site.folder.join("example.json");
    fs::write(&example, SEED).with_context(|| format!("writing {}", example.display()))?;
    let ready = &site.dev.ready;
    let mut out = io::stdout().lock();
    writeln!(out, "   open the phone       {}/phone", ready.sandbox)?;
    writeln!(out, "   or the link in it    {link}")?;
    writeln!(out, "\n   Or decide, and try more, in another terminal:\n")?;
    if ready.grpc != "127.0.0.1:50051" {
        writeln!(out, "   export LONGHAUL_SERVER=http://{}\n", ready.grpc)?;
    }
    for (what, commands) in things_to_try(site, &example) {
        for (index, command) in commands.iter().enumerate() {
            writeln!(out, "   {:<20} {command}", if index == 0 { what } else { "" })?;
        }
    }
    writeln!(out, "\n   The demo starts a server that was killed again. Ctrl-C ends it.\n")?;
    Ok(())
}

/// What to try and the commands for it, ready to paste.
fn things_to_try(site: &Site, example: &Path) -> Vec<(&'static str, Vec<String>)> {
    let program = env::args_os().next().unwrap_or_else(|| "longhaul".into());
    let program = program.to_string_lossy();
    let example = example.display();
    let submit = format!("{program} submit {example} --job-id");
    let webhook = format!("{}/webhook/durable-job", site.dev.ready.http);
    let faults = format!("{}/_sandbox/faults", site.dev.ready.sandbox);
    let pid = site.dev.pid().unwrap_or_default();
    vec![
        ("approve", vec![format!("{program} approve {SEED_JOB}")]),
        ("reject", vec![format!("{submit} try-reject"), format!("{program} reject try-reject")]),
        (
            "the same job again",
            vec![format!("curl -H 'content-type: application/json' -d @{example} {webhook}")],
        ),
        (
            "pause and resume",
            vec![
                format!("{submit} try-pause && {program} pause try-pause"),
                format!("{program} resume try-pause"),
            ],
        ),
        (
            "a crash",
            vec![
                format!("curl -d '{{\"model\":{{\"delay_ms\":8000}}}}' {faults}"),
                format!("{submit} try-crash && kill -9 {pid}"),
                format!("{program} watch try-crash"),
            ],
        ),
    ]
}

/// Follows the job to its end and shows what the phone was told of it.
async fn tell_the_end(doors: &mut Doors) -> Result<()> {
    let known = doors.job(SEED_JOB).await?.last_sequence;
    // Where lines are told, the earlier ones have been; a terminal gets the whole display again.
    let after = (!io::stdout().is_terminal()).then_some(known);
    let form = Form::for_stdout(false, after, false);
    let status = watch::show(&mut doors.grpc, SEED_JOB, Until::Ended, form).await?;
    heading(&format!("4. The job is {}", word::job_status(status as i32)))?;
    if let Some(notice) = notice(doors).await? {
        writeln!(io::stdout(), "   The phone was told:\n")?;
        for line in harmless(&notice.text).lines() {
            writeln!(io::stdout(), "   │ {line}")?;
        }
    }
    writeln!(io::stdout(), "\n   Everything goes on running until Ctrl-C.")?;
    Ok(())
}

/// The message that tells the end: the newest one that asks for nothing.
///
/// The phone's memory is the sandbox's, so after a crash it holds only what came since.
async fn notice(doors: &Doors) -> Result<Option<Message>> {
    for at_least in [1, 2] {
        let messages = doors.messages(DEFAULT_PHONE, at_least).await?;
        let told = messages.into_iter().rev().find(|message| message.links().is_empty());
        if told.is_some() {
            return Ok(told);
        }
    }
    Ok(None)
}

/// Starts the server again whenever it is gone; returns only when that fails.
async fn keep_alive(site: &mut Site) -> Result<()> {
    loop {
        site.dev.ended().await?;
        // What a killed server leaves behind, its Postgres above all, takes a moment to be gone.
        let mut tries = interval(Duration::from_millis(250));
        for left in (0..RESTARTS).rev() {
            tries.tick().await;
            match site.start_again().await {
                Ok(()) => break,
                Err(error) if left == 0 => return Err(error),
                Err(_not_yet) => {}
            }
        }
    }
}

fn heading(text: &str) -> Result<()> {
    writeln!(io::stdout(), "\n{}", Paint::for_stdout().bold(text))?;
    Ok(())
}
