//! The program as its users start it: a process with arguments and an environment, and what it says.
//!
//! One that ends is run; one that serves is started, and known by its ready file.
//! It sees nothing of the environment of the tests, has a folder of its own, and dies with its test.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};

use crate::harness::{Client, PATIENCE};

/// A first start of `longhaul dev` makes a whole Postgres, on a machine that runs other tests too.
pub const START: Duration = Duration::from_mins(1);

/// Arguments with which a server takes any free ports.
pub const SERVE: [&str; 5] = ["serve", "--grpc-addr", "127.0.0.1:0", "--http-addr", "127.0.0.1:0"];

/// Numbers the folders of this process.
static NEXT: AtomicU32 = AtomicU32::new(0);

/// A folder for a test's files, removed with it.
pub struct Folder(pub PathBuf);

/// A `longhaul` that serves.
pub struct Program {
    /// What its ready file says.
    pub ready: Value,
    /// From its spawn to its ready file.
    pub started_in: Duration,
    child: Child,
    folder: Folder,
}

impl Program {
    /// Starts it with these arguments and variables, and waits until it serves.
    pub async fn start(args: &[&str], variables: &BTreeMap<String, String>) -> Self {
        let folder = Folder::make();
        let (ready_file, log) = (folder.0.join("ready.json"), folder.0.join("log"));
        let output = File::create(&log).unwrap();
        let mut command = command(args, variables);
        command.arg("--ready-file").arg(&ready_file);
        command.stdout(output.try_clone().unwrap()).stderr(output);
        let started_at = Instant::now();
        let mut child = command.spawn().unwrap();
        let wait = async {
            // A file wakes nobody.
            let mut look = tokio::time::interval(Duration::from_millis(5));
            while !ready_file.exists() && child.try_wait().unwrap().is_none() {
                look.tick().await;
            }
        };
        let _ = tokio::time::timeout(START, wait).await;
        let started_in = started_at.elapsed();
        let ready = fs::read(&ready_file).unwrap_or_else(|_| {
            panic!("{args:?} did not start: {}", fs::read_to_string(&log).unwrap_or_default())
        });
        Self { ready: serde_json::from_slice(&ready).unwrap(), started_in, child, folder }
    }

    /// Runs it to its end, which has to come within this time.
    pub async fn run(
        args: &[&str],
        variables: &BTreeMap<String, String>,
        within: Duration,
    ) -> Output {
        let mut command = command(args, variables);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let ended = tokio::time::timeout(within, command.spawn().unwrap().wait_with_output()).await;
        ended.unwrap_or_else(|_| panic!("{args:?} does not end")).unwrap()
    }

    /// One of its addresses: `grpc`, `http` or `sandbox`.
    pub fn address(&self, face: &str) -> &str {
        self.ready[face].as_str().unwrap_or_else(|| panic!("no {face} in {}", self.ready))
    }

    /// Its client.
    pub fn client(&self) -> Client {
        // Only the first of a process counts; the others find theirs installed.
        let _ = rustls::crypto::ring::default_provider().install_default();
        Client::new(self.address("grpc"), self.address("http").to_owned())
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id().expect("it has not been waited for")
    }

    /// Asks it to stop, waits until it has, which must go well, and answers all it ever said.
    pub async fn stop(mut self) -> String {
        kill(Pid::from_raw(self.pid().cast_signed()), Signal::SIGTERM).unwrap();
        let ended = tokio::time::timeout(START, self.child.wait()).await;
        let said = fs::read_to_string(self.folder.0.join("log")).unwrap();
        assert!(ended.expect("a server stops in time").unwrap().success(), "{said}");
        said
    }
}

/// A command that goes on speaking.
pub struct Speaker {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
    said: String,
}

impl Speaker {
    /// Starts it.
    pub fn start(args: &[&str], variables: &BTreeMap<String, String>) -> Self {
        let mut child = command(args, variables).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines, said: String::new() }
    }

    async fn hear(&mut self) -> bool {
        let line = tokio::time::timeout(PATIENCE, self.lines.next_line()).await;
        let Some(line) = line.expect("it says something").unwrap() else { return false };
        self.said.push_str(&line);
        self.said.push('\n');
        true
    }

    /// Waits until it has said this.
    pub async fn until(&mut self, word: &str) {
        while !self.said.contains(word) {
            assert!(self.hear().await, "it ends without {word}: {}", self.said);
        }
    }

    /// Waits for its end, which must be a good one, and answers all that it said.
    pub async fn until_end(mut self) -> String {
        while self.hear().await {}
        assert!(self.child.wait().await.unwrap().success(), "{}", self.said);
        self.said
    }
}

impl Folder {
    /// A new one.
    pub fn make() -> Self {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("longhaul-program-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        fs::create_dir_all(&folder).unwrap();
        Self(folder)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // A process that was just killed may still be writing into it; the machine cleans up as well.
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn command(args: &[&str], variables: &BTreeMap<String, String>) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_longhaul"));
    command.args(args);
    apart(&mut command);
    command.envs(variables);
    command
}

/// Keeps what this machine's user has configured away from a command, which dies with its test.
pub fn apart(command: &mut Command) {
    command.stdin(Stdio::null()).kill_on_drop(true);
    for name in foreign_variables() {
        command.env_remove(name);
    }
    // Nor the profiles of whoever runs the tests.
    command.env("XDG_CONFIG_HOME", "/nowhere");
    command.envs(["NO_PROXY", "no_proxy"].map(|name| (name, "127.0.0.1,localhost")));
}

/// The variables of the environment of the tests that the program would read.
pub fn foreign_variables() -> Vec<String> {
    let own = ["LONGHAUL_", "OTEL_", "RUST_LOG", "DATABASE_URL"];
    let names = std::env::vars_os().map(|(name, _)| name.to_string_lossy().into_owned());
    names.filter(|name| own.iter().any(|own| name.starts_with(own))).collect()
}
