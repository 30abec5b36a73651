//! Real server processes, for what cannot be played within one: kill -9, and a graceful stop by signal.
//!
//! A process serves the rig's database and sandbox on free ports, and dies with the test that started it.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde::Deserialize;
use tokio::process::{Child, Command};

use super::cluster::Cluster;
use super::{Client, PATIENCE, Rig};

/// A running `longhaul serve`.
pub struct Process {
    /// Its client.
    pub client: Client,
    child: Child,
    log: PathBuf,
}

/// A `longhaul serve` that does not serve yet.
pub struct Starting {
    child: Child,
    ready_file: PathBuf,
    log: PathBuf,
}

#[derive(Deserialize)]
struct Ready {
    grpc: String,
    http: String,
}

impl Process {
    /// Starts a server on the rig's database and sandbox, and waits until it serves.
    pub async fn serve(rig: &Rig, variables: &[(&str, &str)]) -> Self {
        Self::begin(rig, variables).await.ready().await
    }

    /// Starts a server, which may have to wait for its database.
    pub async fn begin(rig: &Rig, variables: &[(&str, &str)]) -> Starting {
        let cluster = Cluster::get().await;
        let (ready_file, log) = (cluster.file("ready.json"), cluster.file("log"));
        let output = File::create(&log).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_longhaul"));
        command.args(["serve", "--grpc-addr", "127.0.0.1:0", "--http-addr", "127.0.0.1:0"]);
        command.arg("--ready-file").arg(&ready_file);
        // What the machine's user has configured is not for tests.
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("LONGHAUL_") {
                command.env_remove(name);
            }
        }
        command.env("NO_PROXY", "127.0.0.1").env_remove("OTEL_EXPORTER_OTLP_ENDPOINT");
        command.envs(rig.variables()).envs(variables.iter().copied());
        command.stdin(Stdio::null()).stdout(output.try_clone().unwrap()).stderr(output);
        let child = command.kill_on_drop(true).spawn().unwrap();
        Starting { child, ready_file, log }
    }

    /// Kills it as a power cut would, and waits until it is gone.
    pub async fn kill9(mut self) {
        self.child.kill().await.unwrap();
    }

    /// Stops it in its tracks: it keeps its connections and does nothing.
    pub fn freeze(&self) {
        self.signal(Signal::SIGSTOP);
    }

    /// Lets it go on after a freeze.
    pub fn thaw(&self) {
        self.signal(Signal::SIGCONT);
    }

    /// Asks it to stop, and waits until it has; it must say that this went well.
    pub async fn terminate(mut self) {
        self.signal(Signal::SIGTERM);
        let ended = tokio::time::timeout(PATIENCE, self.child.wait()).await;
        assert!(ended.expect("a server stops in time").unwrap().success());
    }

    /// Asks it to stop, and at once again, and waits until it has; answers whether it says that this went well.
    pub async fn terminate_twice(mut self) -> bool {
        self.signal(Signal::SIGTERM);
        self.signal(Signal::SIGINT);
        let ended = tokio::time::timeout(PATIENCE, self.child.wait()).await;
        ended.expect("a server stops at once").unwrap().success()
    }

    /// Its process id.
    pub fn pid(&self) -> i32 {
        self.child.id().unwrap().cast_signed()
    }

    /// All it has said so far.
    pub fn said(&self) -> String {
        fs::read_to_string(&self.log).unwrap()
    }

    /// Waits until its log has this in it.
    pub async fn wait_to_say(&self, text: &str) {
        wait_to_say(&self.log, text).await;
    }

    fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.pid()), signal).unwrap();
    }
}

impl Starting {
    /// Waits until it serves.
    pub async fn ready(mut self) -> Process {
        let wait = async {
            // A file wakes nobody.
            let mut look = tokio::time::interval(Duration::from_millis(20));
            while !self.ready_file.exists() && self.child.try_wait().unwrap().is_none() {
                look.tick().await;
            }
        };
        let _ = tokio::time::timeout(PATIENCE, wait).await;
        let ready = fs::read(&self.ready_file).unwrap_or_else(|_| {
            panic!(
                "the server did not start: {}",
                fs::read_to_string(&self.log).unwrap_or_default()
            )
        });
        let ready: Ready = serde_json::from_slice(&ready).unwrap();
        let client = Client::new(&ready.grpc, ready.http);
        Process { client, child: self.child, log: self.log }
    }

    /// The addresses where it listens already, gRPC and HTTP, once it says that it waits.
    pub async fn waiting_at(&self) -> (String, String) {
        let said = wait_to_say(&self.log, "waiting for it").await;
        let address = |face: &str| {
            let (_, rest) = said.split_once(&format!("{face}=")).unwrap();
            rest.split_whitespace().next().unwrap().to_owned()
        };
        (address("grpc"), address("http"))
    }

    /// Asks it to stop, and waits until it has; it must say that this went well.
    pub async fn terminate(mut self) {
        kill(Pid::from_raw(self.child.id().unwrap().cast_signed()), Signal::SIGTERM).unwrap();
        let ended = tokio::time::timeout(PATIENCE, self.child.wait()).await;
        assert!(ended.expect("a server stops in time").unwrap().success());
    }
}

/// Waits until a log has this in it, and answers it all; a file wakes nobody.
async fn wait_to_say(log: &Path, text: &str) -> String {
    let read = || fs::read_to_string(log).unwrap();
    let wait = async {
        let mut look = tokio::time::interval(Duration::from_millis(20));
        while !read().contains(text) {
            look.tick().await;
        }
    };
    let said = tokio::time::timeout(PATIENCE, wait).await;
    said.unwrap_or_else(|_| panic!("it never says {text:?}: {}", read()));
    read()
}
