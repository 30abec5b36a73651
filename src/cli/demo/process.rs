//! The demo's servers: processes of this same program, started, killed and started again.
//!
//! In come a command line and an environment; out comes a process that serves, with the addresses from its ready file.
//! Each writes its log into a file of its own, which is named when something goes wrong.
//! None outlives the demo: dropping a process kills it.

use std::{
    env,
    fs::{self, File},
    path::Path,
    process::{ExitStatus, Stdio},
    time::Duration,
};

use anyhow::{Context as _, Result, anyhow, bail};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde::Deserialize;
use tokio::{
    process::{Child, Command},
    time::{Instant, interval, timeout},
};

/// How long a start may take: the first one makes a Postgres cluster.
const START: Duration = Duration::from_mins(1);
/// How long a graceful stop may take before it is cut short.
const STOP: Duration = Duration::from_secs(15);

/// What a process says of itself once it serves.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Ready {
    /// Its gRPC face, `host:port`.
    pub grpc: String,
    /// Its webhooks and approval page, a URL.
    pub http: String,
    /// Its sandbox, a URL.
    pub sandbox: String,
    /// Its database.
    pub database_url: String,
}

/// How to start a process.
#[derive(Clone, Debug)]
pub struct Start {
    /// What its files are called.
    pub name: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// What its environment has beside the demo's own.
    pub env: Vec<(&'static str, String)>,
}

/// A running process.
#[derive(Debug)]
pub struct Process {
    /// What it said of itself.
    pub ready: Ready,
    child: Child,
}

impl Process {
    /// Starts a process and waits until it serves.
    pub async fn start(start: &Start, folder: &Path) -> Result<Self> {
        let ready_file = folder.join(format!("{}.json", start.name));
        let log = folder.join(format!("{}.log", start.name));
        if ready_file.exists() {
            fs::remove_file(&ready_file).context("removing an old ready file")?;
        }
        let output = File::options().create(true).append(true).open(&log);
        let output = output.with_context(|| format!("opening {}", log.display()))?;
        let mut command = Command::new(env::current_exe().context("finding this program")?);
        command.args(&start.args).arg("--ready-file").arg(&ready_file);
        // The demo is the same on every machine, whatever its user has configured.
        for (name, _) in env::vars_os() {
            if is_configuration(&name.to_string_lossy()) {
                command.env_remove(name);
            }
        }
        command.envs(["NO_PROXY", "no_proxy"].map(|name| (name, "127.0.0.1,localhost")));
        command.envs(start.env.iter().map(|(name, value)| (name, value)));
        command.stdin(Stdio::null());
        command.stdout(output.try_clone().context("sharing the log file")?).stderr(output);
        // Ctrl-C in the terminal is for the demo, which then stops its processes in order.
        command.process_group(0).kill_on_drop(true);
        let mut child =
            command.spawn().with_context(|| format!("starting longhaul {}", start.args[0]))?;
        let ready = wait_until_ready(&mut child, &ready_file).await;
        let ready = ready.map_err(|error| {
            let last = last_lines(&fs::read_to_string(&log).unwrap_or_default());
            let (what, log) = (&start.args[0], log.display());
            anyhow!("longhaul {what} did not start: {error:#}; its log {log} ends with\n{last}")
        })?;
        Ok(Self { ready, child })
    }

    /// Kills it as a power cut would, and waits until it is gone.
    pub async fn kill(mut self) -> Result<()> {
        self.child.kill().await.context("killing a server")
    }

    /// Stops it in its tracks; it keeps its connections and does nothing.
    pub fn freeze(&self) -> Result<()> {
        self.signal(Signal::SIGSTOP)
    }

    /// Lets it go on after a freeze.
    pub fn thaw(&self) -> Result<()> {
        self.signal(Signal::SIGCONT)
    }

    /// Asks it to stop and waits until it has; one that takes too long is killed.
    pub async fn stop(mut self) -> Result<()> {
        self.signal(Signal::SIGTERM)?;
        match timeout(STOP, self.child.wait()).await {
            Ok(ended) => ended.map(drop).context("waiting for a server to stop"),
            Err(_elapsed) => self.child.kill().await.context("killing a server"),
        }
    }

    /// Waits until it ends by itself, or because somebody killed it.
    pub async fn ended(&mut self) -> Result<ExitStatus> {
        self.child.wait().await.context("waiting for a server")
    }

    /// Its process id, while it runs.
    pub fn pid(&self) -> Option<u32> {
        self.child.id()
    }

    fn signal(&self, signal: Signal) -> Result<()> {
        let Some(pid) = self.child.id() else { return Ok(()) };
        kill(Pid::from_raw(pid as i32), signal).with_context(|| format!("sending {signal}"))
    }
}

/// Whether a variable would change what runs; that of Postgres's own clients is read as well.
fn is_configuration(name: &str) -> bool {
    ["LONGHAUL_", "DATABASE_URL", "OTEL_", "PG"].iter().any(|own| name.starts_with(own))
}

async fn wait_until_ready(child: &mut Child, ready_file: &Path) -> Result<Ready> {
    let deadline = Instant::now() + START;
    let mut looks = interval(Duration::from_millis(20));
    while Instant::now() < deadline {
        tokio::select! {
            ended = child.wait() => bail!("it ended with {}", ended.context("waiting for it")?),
            _ = looks.tick() => {}
        }
        // A file that cannot be read yet is about to be.
        let text = fs::read(ready_file).unwrap_or_default();
        if let Ok(ready) = serde_json::from_slice(&text) {
            return Ok(ready);
        }
    }
    bail!("it did not serve within {} s", START.as_secs())
}

/// The end of a log, as much as one wants to see beside an error.
fn last_lines(log: &str) -> String {
    let lines: Vec<&str> = log.lines().collect();
    let last = lines.iter().skip(lines.len().saturating_sub(8));
    last.map(|line| format!("  {line}")).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_a_user_has_configured_reaches_the_demo() {
        for name in [
            "LONGHAUL_SLOTS",
            "LONGHAUL_DATABASE_URL_FILE",
            "DATABASE_URL",
            "DATABASE_URL_FILE",
            "OTEL_TRACES_EXPORTER",
            "PGSSLMODE",
        ] {
            assert!(is_configuration(name), "{name}");
        }
        assert!(!["PATH", "HOME", "LANG", "RUST_LOG"].into_iter().any(is_configuration));
    }

    #[test]
    fn a_ready_file_may_say_less_or_more_than_is_read() {
        let ready: Ready =
            serde_json::from_str(r#"{"sandbox":"http://127.0.0.1:1","pid":7}"#).expect("valid");
        assert_eq!((ready.sandbox.as_str(), ready.grpc.as_str()), ("http://127.0.0.1:1", ""));
    }
}
