//! A Postgres of our own that can be attacked: restarted fast or at once, its backends killed, its connections used up.
//!
//! It is durable, on one folder and one socket for its whole life, so that servers find it again after each restart.
//! The tool's own sessions carry a name, so that attacks on others spare them.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use longhaul::dev::postgres::{Postgres, PostgresSettings};
use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use sqlx::postgres::{PgPool, PgPoolOptions};
use sqlx::{Connection as _, PgConnection};
use tokio::sync::Mutex;
use tokio::time::sleep;

const PREFIX: &str = "longhaul-torture-";
/// How the tool's own sessions are called.
const OWN_NAME: &str = "torture";

/// How a Postgres is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// It ends all sessions and writes a checkpoint.
    Fast,
    /// It drops everything, and recovers at its next start.
    Immediate,
}

/// The Postgres of one run, and the folder of everything that the run leaves on disk.
pub struct Database {
    /// Where servers find it.
    pub url: String,
    /// The tool's own connections.
    pub pool: PgPool,
    /// For logs and ready files of servers.
    pub folder: PathBuf,
    settings: PostgresSettings,
    running: Mutex<Option<Postgres>>,
}

impl Database {
    /// Starts one in a fresh folder.
    pub async fn start(max_connections: u32) -> Self {
        remove_stale_folders();
        let name = format!("{PREFIX}{}-{:08x}", std::process::id(), rand::random::<u32>());
        let folder = std::env::temp_dir().join(name);
        fs::create_dir_all(&folder).unwrap();
        let data_dir = folder.join("postgres");
        let settings =
            PostgresSettings { data_dir, durable: true, max_connections, options: Vec::new() };
        let postgres = Postgres::start(settings.clone()).await.unwrap();
        let url = postgres.url();
        let own_url = format!("{url}&application_name={OWN_NAME}");
        let pool = PgPoolOptions::new().max_connections(8).connect_lazy(&own_url).unwrap();
        Self { url, pool, folder, settings, running: Mutex::new(Some(postgres)) }
    }

    /// Stops it and starts it again on the same data.
    pub async fn restart(&self, stop: Stop, away: Duration) {
        let mut held = self.running.lock().await;
        let running = held.take().expect("it runs except while this lock is held");
        match stop {
            Stop::Fast => running.stop().await.unwrap(),
            Stop::Immediate => {
                let process = self.process();
                kill(process, Signal::SIGQUIT).unwrap();
                while kill(process, None) != Err(Errno::ESRCH) {
                    sleep(Duration::from_millis(10)).await;
                }
                // It says that the server has ended, which is what was wanted.
                let _ended_by_itself = running.stop().await;
            }
        }
        sleep(away).await;
        *held = Some(Postgres::start(self.settings.clone()).await.unwrap());
    }

    fn process(&self) -> Pid {
        let file = self.settings.data_dir.join("cluster/postmaster.pid");
        let text = fs::read_to_string(file).unwrap();
        Pid::from_raw(text.lines().next().unwrap().trim().parse().unwrap())
    }

    /// Ends so many sessions of servers; answers how many it ended.
    pub async fn kill_backends(&self, count: i64) -> u64 {
        let killed = sqlx::query(
            "select pg_terminate_backend(pid) from pg_stat_activity
             where backend_type = 'client backend' and application_name <> $1
             order by random() limit $2",
        );
        let killed = killed.bind(OWN_NAME).bind(count).fetch_all(&self.pool).await;
        killed.map_or(0, |rows| rows.len() as u64)
    }

    /// Takes every connection there is, and keeps them for a while; answers how many it got.
    pub async fn exhaust(&self, how_long: Duration) -> u64 {
        let url = format!("{}&application_name={OWN_NAME}", self.url);
        let mut taken = Vec::new();
        let until = tokio::time::Instant::now() + how_long;
        while tokio::time::Instant::now() < until {
            match PgConnection::connect(&url).await {
                Ok(connection) => taken.push(connection),
                // Whatever others give back is taken as well.
                Err(_refused) => sleep(Duration::from_millis(20)).await,
            }
        }
        let count = taken.len() as u64;
        for connection in taken {
            let _ = connection.close().await;
        }
        count
    }

    /// Stops it for good; the folder goes too, unless somebody wants to look into it.
    pub async fn end(self, keep: bool) {
        self.pool.close().await;
        if let Some(running) = self.running.lock().await.take() {
            running.stop().await.unwrap();
        }
        if keep {
            println!("the data and the logs of the servers are in {}", self.folder.display());
        } else {
            fs::remove_dir_all(&self.folder).unwrap();
        }
    }

    /// A path for a file of a server.
    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }
}

/// What an earlier run left behind that was killed, or that somebody wanted to look into.
fn remove_stale_folders() {
    let Ok(entries) = fs::read_dir(std::env::temp_dir()) else { return };
    for entry in entries.filter_map(Result::ok) {
        if process_of(&entry.path()).is_some_and(|pid| kill(pid, None) == Err(Errno::ESRCH)) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

fn process_of(folder: &Path) -> Option<Pid> {
    let rest = folder.file_name()?.to_str()?.strip_prefix(PREFIX)?;
    rest.split('-').next()?.parse().ok().map(Pid::from_raw)
}
