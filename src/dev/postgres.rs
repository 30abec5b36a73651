//! An embedded Postgres: the machine's own server programs, run on a data folder of our own.
//!
//! In: a data folder and whether its data must survive a power cut. Out: a running server and its URL.
//! The server listens on a Unix socket in a 0700 folder and on no network address; it never runs as root.
//! The folder is locked for as long as any process of the server lives, so two servers never share it.
//! The server dies with its parent, however the parent dies: a shell that waits on a pipe stops it.

mod folder;
mod installation;
mod server;
#[cfg(test)]
mod tests;

use std::{
    fmt::Write as _,
    io,
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use folder::{Folder, SocketDir};
use installation::{HOW_TO_INSTALL, OLDEST_MAJOR};
use server::Server;

/// A fast shutdown writes a checkpoint; a slow disk takes its time.
const STOP_TIMEOUT: Duration = Duration::from_mins(1);
/// How often a condition that another process will meet is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// What an embedded Postgres is started with.
#[derive(Debug, Clone)]
pub struct PostgresSettings {
    /// The folder of cluster, log and lock; made if it is not there.
    pub data_dir: PathBuf,
    /// Whether a commit survives a power cut; without it tests are faster.
    pub durable: bool,
    /// Connections that the server allows.
    pub max_connections: u32,
    /// Further settings of the server, as `name=value`.
    pub options: Vec<String>,
}

/// Why the embedded Postgres could not be started or stopped.
#[derive(Debug, thiserror::Error)]
pub enum PostgresError {
    #[error(
        "no PostgreSQL server programs of version {OLDEST_MAJOR} or newer found{found}; install them:\n{HOW_TO_INSTALL}"
    )]
    NotInstalled { found: String },
    #[error(
        "the data in {data_dir} was made by PostgreSQL {made_by}, and only {found} is installed; \
         install PostgreSQL {made_by}, or move the folder away to start afresh"
    )]
    WrongVersion { data_dir: PathBuf, made_by: u32, found: String },
    #[error("the data folder {data_dir} is already in use by process {process}")]
    InUse { data_dir: PathBuf, process: i32 },
    #[error(
        "the server of a process that was killed is still shutting down in {data_dir}; try again"
    )]
    StillStopping { data_dir: PathBuf },
    #[error(
        "the data folder {data_dir} is not empty, and its contents are not a Longhaul database; choose another"
    )]
    NotOurs { data_dir: PathBuf },
    #[error(
        "PostgreSQL refuses to run as root and runs as the user {user}, who cannot reach {path}; \
         choose a data folder whose parents that user may enter, such as one in /var/lib"
    )]
    Unreachable { path: PathBuf, user: String },
    #[error(
        "PostgreSQL refuses to run as root, and there is neither a user postgres nor a user nobody to run it as"
    )]
    NoUser,
    #[error(
        "no folder for the socket has a path that fits; choose a data folder with a shorter path"
    )]
    SocketPath,
    #[error("initdb failed:\n{output}")]
    Initdb { output: String },
    #[error("PostgreSQL {what}; the end of its log:\n{log}")]
    Server { what: &'static str, log: String },
    #[error("{doing} {path}")]
    Io { doing: &'static str, path: PathBuf, source: io::Error },
}

/// A running server; dropping it stops the server without waiting for its end.
#[derive(Debug)]
pub struct Postgres {
    /// The version of the server, such as 17.
    pub major: u32,
    /// Whether the cluster was made by this start.
    pub freshly_made: bool,
    server: Server,
    socket_dir: SocketDir,
}

impl Postgres {
    /// Makes the cluster if there is none, starts the server, and waits until it answers.
    ///
    /// A server that a killed process left behind is waited for while it shuts down.
    pub async fn start(settings: PostgresSettings) -> Result<Self, PostgresError> {
        blocking(move || Self::start_blocking(&settings)).await
    }

    /// Where sqlx, psql and every other client find the database.
    pub fn url(&self) -> String {
        let mut host = String::new();
        for byte in self.socket_dir.path.as_os_str().as_bytes() {
            match byte {
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' => {
                    host.push(char::from(*byte));
                }
                other => write!(host, "%{other:02X}").expect("a String takes every write"),
            }
        }
        format!("postgres://postgres@localhost:5432/postgres?host={host}")
    }

    /// Ends all sessions, writes a checkpoint, and returns when every process of the server is gone.
    pub async fn stop(self) -> Result<(), PostgresError> {
        blocking(move || self.server.stop()).await
    }

    fn start_blocking(settings: &PostgresSettings) -> Result<Self, PostgresError> {
        let folder = Folder::open(&settings.data_dir)?;
        let installation = folder.installation()?;
        let freshly_made = folder.make_cluster(&installation, settings.durable)?;
        let socket_dir = SocketDir::make(&folder)?;
        let server = Server::start(folder, &installation, &socket_dir.path, settings)?;
        Ok(Self { major: installation.major, freshly_made, server, socket_dir })
    }
}

/// Looks until the condition holds, and says whether it did in time.
fn look_until(timeout: Duration, mut condition: impl FnMut() -> bool) -> bool {
    let started = Instant::now();
    while !condition() {
        if started.elapsed() > timeout {
            return false;
        }
        thread::sleep(LOOK_EVERY);
    }
    true
}

/// The last lines of what a program said.
fn tail(output: &[u8]) -> String {
    let start = output.len().saturating_sub(2000);
    String::from_utf8_lossy(&output[start..]).trim().to_owned()
}

fn io_error(doing: &'static str, path: &Path) -> impl Fn(io::Error) -> PostgresError {
    let path = path.to_path_buf();
    move |source| PostgresError::Io { doing, path: path.clone(), source }
}

/// Runs what waits for processes and disks on a thread that may wait.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(panicked) => std::panic::resume_unwind(panicked.into_panic()),
    }
}
