//! The server process, and the guard that ends it with its parent.
//!
//! In: a locked folder with a cluster. Out: a server that is ready, or the end of its log.
//! The lock is held until the last process of the server has ended, and no process becomes a zombie.

use std::{
    fs::{self, File, OpenOptions},
    io,
    os::unix::{fs::OpenOptionsExt as _, process::CommandExt as _},
    path::{Path, PathBuf},
    process::{ChildStdin, ExitStatus, Stdio},
    thread::{self, JoinHandle},
    time::Duration,
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

use super::{
    PostgresError, PostgresSettings, STOP_TIMEOUT, folder::Folder, installation::Installation,
    io_error, look_until, tail,
};

/// Long enough for the recovery after a crash of a large cluster.
const START_TIMEOUT: Duration = Duration::from_mins(2);

/// Starts the server given as arguments, and ends it when the pipe on its own stdin closes.
///
/// The kernel closes the pipe whenever its holder ends. Signals from the terminal are ignored, since
/// the holder decides when the server stops; the server sets handlers of its own. Stdout is the lock
/// file: the shell and every process of the server keep it open, and with it the lock.
const GUARD: &str = r#"
trap '' HUP INT QUIT TERM
exec 3<&0
"$@" </dev/null 3<&- &
server=$!
{ read -r _ <&3; kill -INT "$server"; } &
watcher=$!
wait "$server"
code=$?
kill -KILL "$watcher"
wait "$watcher"
exit "$code"
"#;

/// The guard and the server under it; dropping it closes the pipe, which stops both.
#[derive(Debug)]
pub struct Server {
    pipe: Option<ChildStdin>,
    /// Ends when the guard has ended, and leaves no zombie even if nobody asks.
    reaper: JoinHandle<io::Result<ExitStatus>>,
    lock: File,
    log: PathBuf,
    process: Option<Pid>,
}

impl Server {
    pub fn start(
        folder: Folder,
        installation: &Installation,
        socket_dir: &Path,
        settings: &PostgresSettings,
    ) -> Result<Self, PostgresError> {
        let log = folder.path.join("postgres.log");
        let log_file = OpenOptions::new()
            .create(true)
            .write(true)
            .truncate(true)
            .mode(0o600)
            .open(&log)
            .map_err(io_error("opening the log", &log))?;
        let held =
            folder.lock.try_clone().map_err(io_error("keeping the lock of", &folder.path))?;
        let mut command = folder.command(Path::new("/bin/sh"));
        command.args(["-c", GUARD, "longhaul-postgres"]).arg(installation.bin.join("postgres"));
        command.arg("-D").arg(folder.cluster()).arg("-k").arg(socket_dir).args(["-p", "5432"]);
        for option in options(settings) {
            command.arg("-c").arg(option);
        }
        // A group of its own: Ctrl-C in the terminal reaches this process alone.
        command.stdin(Stdio::piped()).stdout(held).stderr(log_file).process_group(0);

        let pid_file = folder.cluster().join("postmaster.pid");
        let leftover = fs::read_to_string(&pid_file).unwrap_or_default();
        let mut guard =
            command.spawn().map_err(io_error("starting the server of", &installation.bin))?;
        let pipe = guard.stdin.take();
        let reaper = thread::spawn(move || guard.wait());
        let mut server = Self { pipe, reaper, lock: folder.lock, log, process: None };
        server.wait_until_ready(&pid_file, &leftover)?;
        Ok(server)
    }

    /// Waits for the word `ready` in the file of the server's process id, which a crash leaves behind.
    fn wait_until_ready(&mut self, pid_file: &Path, leftover: &str) -> Result<(), PostgresError> {
        let ended = look_until(START_TIMEOUT, || {
            let text = fs::read_to_string(pid_file).unwrap_or_default();
            if text != leftover && text.lines().nth(7).map(str::trim) == Some("ready") {
                self.process =
                    text.lines().next().and_then(|id| id.trim().parse().ok()).map(Pid::from_raw);
            }
            self.process.is_some() || self.reaper.is_finished()
        });
        match (ended, self.process) {
            (true, Some(_)) => Ok(()),
            (true, None) => Err(self.error("did not start")),
            (false, _) => Err(self.error("was not ready in time")),
        }
    }

    pub fn stop(mut self) -> Result<(), PostgresError> {
        if self.reaper.is_finished() {
            return Err(self.error("had ended by itself"));
        }
        drop(self.pipe.take());
        if look_until(STOP_TIMEOUT, || self.reaper.is_finished()) {
            return Ok(());
        }
        if let Some(process) = self.process {
            // The guard has not ended, so the id still belongs to the server.
            let _ = kill(process, Signal::SIGQUIT);
        }
        if look_until(STOP_TIMEOUT, || self.reaper.is_finished()) {
            return Ok(());
        }
        Err(self.error("does not stop"))
    }

    fn error(&self, what: &'static str) -> PostgresError {
        PostgresError::Server { what, log: tail(&fs::read(&self.log).unwrap_or_default()) }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // An empty lock file says that its holder has let go, so the next one waits for the shutdown.
        let _ = self.lock.set_len(0);
    }
}

fn options(settings: &PostgresSettings) -> Vec<String> {
    let mut options = vec![
        "listen_addresses=".to_owned(),
        "unix_socket_permissions=0700".to_owned(),
        "log_destination=stderr".to_owned(),
        "logging_collector=off".to_owned(),
        format!("max_connections={}", settings.max_connections),
    ];
    if !settings.durable {
        let unsafe_but_fast = ["fsync=off", "full_page_writes=off", "synchronous_commit=off"];
        options.extend(unsafe_but_fast.map(str::to_owned));
    }
    options.extend(settings.options.iter().cloned());
    options
}
