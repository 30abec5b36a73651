//! The servers: real `longhaul serve` processes on one database, each with ports of its own.
//!
//! They are killed, frozen, stopped and started again; a server that ends without being told to is written down.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use chrono::{DateTime, Utc};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use rand::RngExt as _;
use rand::rngs::StdRng;
use serde::Deserialize;
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep};

use super::postgres::Database;
use super::tally::Tally;
use crate::harness::{Client, PERSON};

/// A server that is neither ready nor dead after this long hangs.
const START_TIMEOUT: Duration = Duration::from_mins(2);
/// How long a graceful stop may take beside what it gives its steps.
const STOP_TIMEOUT: Duration = Duration::from_secs(40);

/// What the servers know and must not tell.
pub const SECRETS: [&str; 2] = ["sk-canary-of-the-model", "EAA-canary-of-the-phone"];

/// A running server.
pub struct Server {
    /// Its client.
    pub client: Client,
    /// Its lease.
    pub lease: Duration,
    number: u32,
    child: Child,
    struck: Arc<Struck>,
}

/// When each process was first killed or frozen: only then may others take what it had.
#[derive(Default)]
pub struct Struck(Mutex<BTreeMap<u32, DateTime<Utc>>>);

impl Struck {
    #[expect(
        clippy::disallowed_methods,
        reason = "Postgres is on the same machine, and may be away"
    )]
    fn note(&self, process: Option<u32>) {
        let Some(process) = process else { return };
        self.0.lock().unwrap().entry(process).or_insert_with(Utc::now);
    }

    /// When this process was first struck, if it ever was.
    pub fn find(&self, process: u32) -> Option<DateTime<Utc>> {
        self.0.lock().unwrap().get(&process).copied()
    }
}

#[derive(Deserialize)]
struct Ready {
    grpc: String,
    http: String,
}

/// All servers that run, and how more are started.
pub struct Fleet {
    db: Arc<Database>,
    tally: Arc<Tally>,
    variables: Vec<(String, String)>,
    program: PathBuf,
    next: AtomicU32,
    running: Mutex<Vec<Server>>,
    /// Which processes were killed or frozen, and when.
    pub struck: Arc<Struck>,
}

impl Fleet {
    /// A fleet without servers; they use the sandbox at this address.
    pub fn new(db: &Arc<Database>, tally: &Arc<Tally>, sandbox_url: &str) -> Self {
        let given = [
            ("DATABASE_URL", db.url.as_str()),
            ("LONGHAUL_DATABASE_CONNECTIONS", "10"),
            ("LONGHAUL_MODEL_BASE_URL", sandbox_url),
            ("LONGHAUL_MODEL_API_KEY", SECRETS[0]),
            ("LONGHAUL_WHATSAPP_BASE_URL", sandbox_url),
            ("LONGHAUL_WHATSAPP_TOKEN", SECRETS[1]),
            // What is said then is searched for what must not be.
            ("RUST_LOG", "trace"),
            ("LONGHAUL_WHATSAPP_PHONE_NUMBER_ID", "1"),
            ("LONGHAUL_WHATSAPP_SPACING_SECONDS", "0"),
            ("LONGHAUL_NOTIFY", PERSON),
            ("LONGHAUL_SWEEP_MS", "100"),
            ("LONGHAUL_DRAIN_SECONDS", "1"),
            ("NO_PROXY", "127.0.0.1"),
        ];
        let variables = given.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
        Self {
            db: Arc::clone(db),
            tally: Arc::clone(tally),
            variables,
            program: PathBuf::from(env!("CARGO_BIN_EXE_longhaul")),
            next: AtomicU32::new(1),
            running: Mutex::default(),
            struck: Arc::default(),
        }
    }

    /// Servers that are started from now on run another program.
    pub fn run_program(&mut self, program: PathBuf) {
        self.program = program;
    }
    /// Servers that are started from now on tell nobody of a job that names nobody.
    pub fn tell_nobody(&mut self) {
        self.variables.retain(|(name, _)| name != "LONGHAUL_NOTIFY");
    }

    /// Starts a server with a lease of so many seconds; tries again for as long as the database is away.
    pub async fn start(&self, lease_seconds: u64) {
        let started_at = Instant::now();
        loop {
            match self.try_start(lease_seconds).await {
                Ok(server) => return self.take_in(server),
                Err(log) if started_at.elapsed() > START_TIMEOUT => {
                    panic!("no server starts: {log}")
                }
                Err(_log) => self.tally.add("servers that did not start at once"),
            }
            sleep(Duration::from_millis(300)).await;
        }
    }

    /// Starts one server, or says what it said.
    pub async fn try_start(&self, lease_seconds: u64) -> Result<Server, String> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let ready_file = self.db.file(&format!("server-{number}.json"));
        let log = self.log_of(number);
        let output = File::create(&log).unwrap();
        let mut command = Command::new(&self.program);
        command.args(["serve", "--grpc-addr", "127.0.0.1:0", "--http-addr", "127.0.0.1:0"]);
        command.arg("--ready-file").arg(&ready_file);
        // What the machine's user has configured is not for tests.
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("LONGHAUL_") {
                command.env_remove(name);
            }
        }
        command.env_remove("OTEL_EXPORTER_OTLP_ENDPOINT");
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        command.env("LONGHAUL_LEASE_SECONDS", lease_seconds.to_string());
        command.stdin(Stdio::null()).stdout(output.try_clone().unwrap()).stderr(output);
        let mut child = command.kill_on_drop(true).spawn().unwrap();
        let wait = async {
            // A file wakes nobody.
            while !ready_file.exists() && child.try_wait().unwrap().is_none() {
                sleep(Duration::from_millis(20)).await;
            }
        };
        let _ = tokio::time::timeout(START_TIMEOUT, wait).await;
        let Ok(ready) = fs::read(&ready_file) else {
            return Err(fs::read_to_string(&log).unwrap_or_default());
        };
        let ready: Ready = serde_json::from_slice(&ready).unwrap();
        let client = Client::new(&ready.grpc, ready.http);
        let (lease, struck) = (Duration::from_secs(lease_seconds), Arc::clone(&self.struck));
        Ok(Server { client, lease, number, child, struck })
    }

    /// Puts a server among those that run.
    pub fn take_in(&self, server: Server) {
        self.running.lock().unwrap().push(server);
    }

    /// Takes a random server out of the fleet, unless it is the last; its owner does with it what it wants.
    pub fn take_out(&self, random: &mut StdRng) -> Option<Server> {
        let mut running = self.running.lock().unwrap();
        (running.len() > 1).then(|| {
            let at = random.random_range(0..running.len());
            running.swap_remove(at)
        })
    }

    /// Takes out the server with this process id.
    pub fn take_out_process(&self, id: u32) -> Option<Server> {
        let mut running = self.running.lock().unwrap();
        let at = running.iter().position(|server| server.child.id() == Some(id))?;
        Some(running.swap_remove(at))
    }

    /// Takes out every server.
    pub fn take_all(&self) -> Vec<Server> {
        std::mem::take(&mut *self.running.lock().unwrap())
    }

    /// A client of any server.
    pub fn any(&self, random: &mut StdRng) -> Option<Client> {
        let running = self.running.lock().unwrap();
        let at = (!running.is_empty()).then(|| random.random_range(0..running.len()))?;
        Some(running[at].client.clone())
    }

    /// How many run.
    pub fn count(&self) -> usize {
        self.running.lock().unwrap().len()
    }

    /// Writes down which servers have ended without being told to.
    pub fn note_the_dead(&self) {
        for server in &mut *self.running.lock().unwrap() {
            if let Some(status) = server.child.try_wait().unwrap() {
                let log = fs::read_to_string(self.log_of(server.number)).unwrap_or_default();
                let tail: Vec<&str> = log.lines().rev().take(5).collect();
                self.tally.note_strange(format!(
                    "server {} ended by itself: {status}: {tail:?}",
                    server.number
                ));
            }
        }
    }

    /// What each server wrote, with its number; each that was begun has a log.
    pub fn logs(&self) -> impl Iterator<Item = (u32, String)> {
        let numbers = 1..self.next.load(Ordering::Relaxed);
        numbers.map(|number| {
            let log = fs::read(self.log_of(number));
            let log = log.unwrap_or_else(|why| panic!("server {number} has no log: {why}"));
            (number, String::from_utf8_lossy(&log).into_owned())
        })
    }

    /// Writes down panics and errors that servers logged.
    pub fn note_the_logs(&self) {
        for (number, log) in self.logs() {
            for line in log.lines() {
                if line.contains("panicked") {
                    self.tally.note_strange(format!("server {number} said: {line}"));
                } else if line.contains(" ERROR ") {
                    let said = line.split(" ERROR ").nth(1).unwrap_or_default();
                    // Spans stand before the message, fields after it.
                    let said = said.rsplit_once("}: ").map_or(said, |(_, said)| said);
                    let said = said.split(" error=").next().unwrap_or_default();
                    self.tally.add(&format!("errors logged: {:.80}", said.trim()));
                }
            }
        }
    }

    /// Asks a server to stop, and judges how it did.
    pub async fn terminate(&self, mut server: Server) {
        server.signal(Signal::SIGTERM);
        match tokio::time::timeout(STOP_TIMEOUT, server.child.wait()).await {
            Ok(Ok(status)) if status.success() => {}
            Ok(ended) => {
                let what = format!("server {} stopped with {ended:?}", server.number);
                self.tally.note_strange(what);
            }
            Err(_elapsed) => {
                self.tally.note_strange(format!("server {} does not stop", server.number));
            }
        }
    }

    fn log_of(&self, number: u32) -> PathBuf {
        self.db.file(&format!("server-{number}.log"))
    }
}

impl Server {
    /// Kills it as a power cut would, and waits until it is gone.
    pub async fn kill9(mut self) {
        self.struck.note(self.child.id());
        self.child.kill().await.unwrap();
    }

    /// Stops it in its tracks: it keeps its connections and does nothing.
    pub fn freeze(&self) {
        self.struck.note(self.child.id());
        self.signal(Signal::SIGSTOP);
    }

    /// Lets it go on after a freeze.
    pub fn thaw(&self) {
        self.signal(Signal::SIGCONT);
    }

    fn signal(&self, signal: Signal) {
        // It may have ended by itself, which is written down elsewhere.
        if let Some(id) = self.child.id() {
            kill(Pid::from_raw(id.cast_signed()), signal).unwrap();
        }
    }
}
