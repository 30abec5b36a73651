//! `longhaul demo`: Longhaul shows itself, on this machine, with nothing configured.
//!
//! In comes nothing but this program; out goes a walk through the public doors: webhooks, gRPC, the approval page.
//! It starts its own servers as child processes, stops them when it ends, and says where their logs are if they fail.

mod process;

mod doors;

mod page;

mod check;

mod decide;

mod repeat;

mod pause;

mod crash;

mod walk;

mod tour;

use std::{
    env,
    fs::{self, Permissions},
    net::{SocketAddr, TcpListener},
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};
use clap::Args;
use serde_json::{Value, json};
use tokio::signal::unix::{SignalKind, signal};

use self::{
    doors::{Answer, Doors},
    process::{Process, Start},
};
use super::exit::Exit;

/// The example: two steps, a draft and a person's decision.
const SEED: &str = r#"{"job_id":"demo-job-0001","task":"为一款记账App写推广文案","steps":[{"type":"run","prompt":"用中文写一段80字以内的记账App产品简介，风格务实。"},{"type":"approval","note":"请审核第一步草稿是否可以对外使用"}]}"#;

/// Its id.
const SEED_JOB: &str = "demo-job-0001";
/// Who is asked and told where a job names nobody, in `longhaul dev`.
const DEFAULT_PHONE: &str = "+15550100";

/// The addresses people know, tried first: gRPC, webhooks, sandbox.
const USUAL_PORTS: [(&str, u16); 3] =
    [("--grpc-addr", 50051), ("--http-addr", 8080), ("--sandbox-addr", 8090)];

/// See it work: the example job, and what to try with it
#[derive(Args, Debug)]
pub struct DemoArgs {
    /// Decide and crash by itself, and exit with 0 only if everything held
    #[arg(long)]
    auto: bool,
    /// Keep the logs and the data when the demo ends
    #[arg(long)]
    keep: bool,
}

/// A running `longhaul dev`, how it was started, and the folder of its logs and ready files.
#[derive(Debug)]
struct Site {
    folder: PathBuf,
    start: Start,
    dev: Process,
}

/// Runs the command.
pub async fn run(args: DemoArgs) -> Result<Exit> {
    let folder = make_folder()?;
    let ended = Box::pin(run_in(&folder, args.auto)).await;
    if args.keep || !matches!(ended, Ok(Exit::Ok | Exit::Interrupted)) {
        eprintln!("logs and data are kept in {}", folder.display());
    } else {
        let removed = fs::remove_dir_all(&folder);
        removed.with_context(|| format!("removing {}", folder.display()))?;
    }
    ended
}

async fn run_in(folder: &Path, auto: bool) -> Result<Exit> {
    let mut site = tokio::select! {
        site = Site::start(folder, auto) => site?,
        signal = told_to_stop() => return signal.map(|()| Exit::Interrupted),
    };
    let ended = tokio::select! {
        ended = async {
            if auto { walk::run(&site).await } else { tour::run(&mut site).await }
        } => ended,
        // A person leaves the tour this way, as it says.
        signal = told_to_stop() => {
            signal.map(|()| if auto { Exit::Interrupted } else { Exit::Ok })
        }
    };
    // A frozen process hears nothing, not even that it is to stop.
    site.dev.thaw()?;
    site.dev.stop().await?;
    ended
}

impl Site {
    /// Starts everything: on free ports for the walk, on the usual ones for a person.
    async fn start(folder: &Path, auto: bool) -> Result<Self> {
        let mut args = vec!["dev".to_owned()];
        for (option, usual) in USUAL_PORTS {
            let port = if auto || is_taken(usual) { 0 } else { usual };
            if port == 0 && !auto {
                eprintln!("port {usual} is taken; a free one serves instead");
            }
            args.extend([option.to_owned(), SocketAddr::from(([127, 0, 0, 1], port)).to_string()]);
        }
        // A folder of its own: a demo finds no jobs of an earlier one, and leaves none behind.
        args.extend(["--data-dir".to_owned(), folder.join("data").display().to_string()]);
        let start = Start { name: "dev".to_owned(), args, env: Vec::new() };
        let dev = Process::start(&start, folder).await?;
        Ok(Self { folder: folder.to_owned(), start, dev })
    }

    /// Starts `dev` again where it was, after somebody killed it.
    async fn start_again(&mut self) -> Result<()> {
        let ready = &self.dev.ready;
        for (option, address) in [
            ("--grpc-addr", &ready.grpc),
            ("--http-addr", &ready.http),
            ("--sandbox-addr", &ready.sandbox),
        ] {
            let address = address.trim_start_matches("http://").trim_end_matches('/');
            let value = self.start.args.iter().position(|arg| arg == option).map(|at| at + 1);
            let value = value.and_then(|at| self.start.args.get_mut(at));
            address.clone_into(value.context("every address was given at the start")?);
        }
        self.dev = Process::start(&self.start, &self.folder).await?;
        Ok(())
    }

    async fn doors(&self) -> Result<Doors> {
        let ready = &self.dev.ready;
        Doors::open(&ready.grpc, &ready.http, &ready.sandbox).await
    }
}

fn make_folder() -> Result<PathBuf> {
    let name = format!("longhaul-demo-{}-{:08x}", std::process::id(), rand::random::<u32>());
    let folder = env::temp_dir().join(name);
    // The user that Postgres runs as has to get through to its data, whatever the umask.
    let make = || {
        fs::create_dir(&folder)?;
        fs::set_permissions(&folder, Permissions::from_mode(0o711))
    };
    make().with_context(|| format!("making {}", folder.display()))?;
    Ok(folder)
}

impl Answer {
    /// The answer in a few words.
    fn told(&self) -> String {
        let word = |key: &str| self.body[key].as_str().unwrap_or_default().to_owned();
        let what = if self.status.is_success() { word("status") } else { word("message") };
        let made = if self.body["created"] == true { ", created" } else { "" };
        format!("{} {what}{made}", self.status.as_u16())
    }
}

/// A submission in the webhook's shape: run steps, an approval behind them where wanted, and who is told.
fn submission(job_id: &str, prompts: &[&str], asks: bool, phone: &str) -> Value {
    let run = |prompt: &&str| json!({"type": "run", "prompt": prompt});
    let mut steps: Vec<Value> = prompts.iter().map(run).collect();
    if asks {
        steps.push(json!({"type": "approval", "note": "May this go out?"}));
    }
    json!({"job_id": job_id, "task": "Demo", "steps": steps, "settings": {"notify": [phone]}})
}

fn is_taken(port: u16) -> bool {
    TcpListener::bind(("127.0.0.1", port)).is_err()
}

/// Waits for Ctrl-C, a kill, or the terminal's end.
async fn told_to_stop() -> Result<()> {
    let mut interrupt = signal(SignalKind::interrupt()).context("listening for Ctrl-C")?;
    let mut terminate = signal(SignalKind::terminate()).context("listening for a kill")?;
    let mut hang_up = signal(SignalKind::hangup()).context("listening for a hang-up")?;
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
        _ = hang_up.recv() => {}
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::submission::parse_submission;

    #[test]
    fn what_the_demo_submits_is_valid() {
        let seed = parse_submission(SEED).expect("the example");
        assert_eq!((seed.job_id.as_str(), seed.steps.len()), (SEED_JOB, 2));
        let own = submission("a", &["x", "y"], true, "+15550100").to_string();
        assert_eq!(parse_submission(&own).expect("a submission").steps.len(), 3);
    }
}
