//! Real server processes, for what cannot be played within one: kill -9, and a graceful stop by signal.
//!
//! A process serves the rig's database and sandbox on free ports, and dies with the test that started it.

use std::fs::{self, File};
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
}

#[derive(Deserialize)]
struct Ready {
    grpc: String,
    http: String,
}

impl Process {
    /// Starts a server on the rig's database and sandbox, and waits until it serves.
    pub async fn serve(rig: &Rig, variables: &[(&str, &str)]) -> Self {
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
        let mut child = command.kill_on_drop(true).spawn().unwrap();
        let wait = async {
            // A file wakes nobody.
            let mut look = tokio::time::interval(Duration::from_millis(20));
            while !ready_file.exists() && child.try_wait().unwrap().is_none() {
                look.tick().await;
            }
        };
        let _ = tokio::time::timeout(PATIENCE, wait).await;
        let ready = fs::read(&ready_file).unwrap_or_else(|_| {
            panic!("the server did not start: {}", fs::read_to_string(&log).unwrap_or_default())
        });
        let ready: Ready = serde_json::from_slice(&ready).unwrap();
        Self { client: Client::new(&ready.grpc, ready.http), child }
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

    fn signal(&self, signal: Signal) {
        let process = Pid::from_raw(self.child.id().unwrap().cast_signed());
        kill(process, signal).unwrap();
    }
}
