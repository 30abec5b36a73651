//! A Postgres of a test's own, which can be stopped in the ways it is stopped in life, and started again.
//!
//! It keeps its folder and its socket, so that whoever knew where it was finds it there again.
//! What was committed has to survive every end, so it writes to the disk, unlike the one that all tests share.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use longhaul::dev::postgres::{Postgres, PostgresSettings};
use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use sqlx::{Connection as _, PgConnection};

use super::PATIENCE;
use super::cluster::Cluster;

/// How a Postgres is stopped.
#[derive(Clone, Copy, Debug)]
pub enum Ending {
    /// It ends all sessions and writes everything.
    Fast,
    /// It ends at once, and has to recover.
    Immediate,
}

/// One that a test may stop.
pub struct OwnPostgres {
    /// Where it is, also while it is stopped.
    pub url: String,
    data_dir: PathBuf,
    options: Vec<String>,
    running: Option<Postgres>,
}

impl OwnPostgres {
    /// Makes one and starts it.
    pub async fn start() -> Self {
        Self::start_with(&[]).await
    }

    /// The same with further settings, as `name=value`.
    pub async fn start_with(options: &[&str]) -> Self {
        let data_dir = Cluster::get().await.file("postgres");
        let options: Vec<String> = options.iter().map(|option| (*option).to_owned()).collect();
        let postgres = run(data_dir.clone(), options.clone()).await;
        Self { url: postgres.url(), data_dir, options, running: Some(postgres) }
    }

    /// Stops it, and returns when all of its processes are gone.
    pub async fn stop(&mut self, ending: Ending) {
        let running = self.running.take().expect("it is running");
        let pid_file = fs::read_to_string(self.data_dir.join("cluster/postmaster.pid")).unwrap();
        let process = Pid::from_raw(pid_file.lines().next().unwrap().parse().unwrap());
        let signal = match ending {
            Ending::Fast => Signal::SIGINT,
            Ending::Immediate => Signal::SIGQUIT,
        };
        kill(process, signal).unwrap();
        let gone = async {
            // The end of a process that is not our child wakes nobody.
            let mut look = tokio::time::interval(Duration::from_millis(10));
            while kill(process, None) != Err(Errno::ESRCH) {
                look.tick().await;
            }
        };
        tokio::time::timeout(PATIENCE, gone).await.expect("Postgres stops when it is told to");
        drop(running);
    }

    /// Kills one of its processes, whereupon it ends all sessions and begins anew by itself.
    pub async fn kill_a_backend(&self) {
        let mut victim = PgConnection::connect(&self.url).await.unwrap();
        let read = sqlx::query_scalar("select pg_backend_pid()");
        let process: i32 = read.fetch_one(&mut victim).await.unwrap();
        kill(Pid::from_raw(process), Signal::SIGKILL).unwrap();
        let again = async {
            let mut look = tokio::time::interval(Duration::from_millis(20));
            while victim.ping().await.is_ok() || PgConnection::connect(&self.url).await.is_err() {
                look.tick().await;
            }
        };
        tokio::time::timeout(PATIENCE, again).await.expect("Postgres begins anew");
    }

    /// Starts it again where it was.
    pub async fn start_again(&mut self) {
        assert!(self.running.is_none(), "it is running");
        self.running = Some(run(self.data_dir.clone(), self.options.clone()).await);
    }
}

async fn run(data_dir: PathBuf, options: Vec<String>) -> Postgres {
    let settings = PostgresSettings { data_dir, durable: true, max_connections: 100, options };
    Postgres::start(settings).await.unwrap()
}
