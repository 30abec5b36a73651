//! Everything a run works with, and what its actors write down for the checker.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use longhaul::dev::sandbox::serve_keeping;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::fleet::Fleet;
use super::postgres::Database;
use super::tally::Tally;
use super::{check, evidence};
use crate::harness::{self, http_client};

/// More than any run makes: the checker needs the journals whole.
const ENTRIES_MAX: usize = 1_000_000;
/// Counts the jobs that have not completed.
pub const UNCOMPLETED: &str = "select count(*) from longhaul.job where status <> 'completed'";
/// Entries of a journal are read so many at a time, since they hold whole conversations.
const PAGE: usize = 500;

/// A submit that was answered.
#[derive(Clone, Debug)]
pub struct Submitted {
    pub job_id: String,
    pub task: String,
    pub created: bool,
}

/// A control action that was answered with a change.
#[derive(Clone, Debug)]
pub struct Acted {
    pub job_id: String,
    pub last_sequence: i32,
    pub status: String,
}

/// A button that was pressed on the page of an approval; written down before it is known what came of it.
#[derive(Clone, Debug)]
pub struct Press {
    pub approval_id: String,
    pub approver: String,
    pub verdict: &'static str,
}

/// An event as a watcher saw it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    pub sequence: i32,
    pub kind: String,
    pub status: String,
    pub reason: String,
    pub step: i32,
    pub attempt: i32,
}

/// One stream of events, from after one sequence to wherever it was cut.
#[derive(Clone, Debug)]
pub struct Recording {
    pub job_id: String,
    /// The sequence it began after.
    pub after: i32,
    /// The status in its snapshot, if it began with one.
    pub snapshot: Option<String>,
    pub events: Vec<Seen>,
    /// Whether it ended by itself, which says that the job has ended.
    pub has_ended: bool,
}

/// What the actors saw, for the checker.
#[derive(Default)]
pub struct Records {
    pub submitted: Mutex<Vec<Submitted>>,
    /// Ids and tasks of submits that were refused because the id was taken by another content.
    pub conflicts: Mutex<Vec<(String, String)>>,
    pub acted: Mutex<Vec<Acted>>,
    pub presses: Mutex<Vec<Press>>,
    pub recordings: Mutex<Vec<Recording>>,
    /// Ids of jobs whose submit was answered, for actors that pick one.
    pub jobs: Mutex<Vec<String>>,
}

/// Everything a run works with.
pub struct World {
    pub db: Arc<Database>,
    pub tally: Arc<Tally>,
    pub fleet: Fleet,
    pub records: Records,
    /// The sandbox.
    pub sandbox_url: String,
    pub http: reqwest::Client,
    sandbox_stop: CancellationToken,
}

impl World {
    /// A Postgres, a sandbox, and no servers yet.
    pub async fn make(max_connections: u32) -> Self {
        let db = Arc::new(Database::start(max_connections).await);
        let tally = Arc::new(Tally::default());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let sandbox_url = format!("http://{}", listener.local_addr().unwrap());
        let sandbox_stop = CancellationToken::new();
        tokio::spawn(serve_keeping(ENTRIES_MAX, listener, sandbox_stop.clone()));
        let fleet = Fleet::new(&db, &tally, &sandbox_url);
        let records = Records::default();
        Self { db, tally, fleet, records, sandbox_url, http: http_client(), sandbox_stop }
    }

    /// Scripts the faults of both services.
    pub async fn script(&self, faults: &Value) {
        let url = format!("{}/_sandbox/faults", self.sandbox_url);
        let answer = self.http.post(url).body(faults.to_string()).send().await.unwrap();
        let status = answer.status();
        assert!(status.is_success(), "{}", answer.text().await.unwrap());
    }

    /// The faults as they stand, with the times that are left.
    pub async fn faults(&self) -> Value {
        let url = format!("{}/_sandbox/faults", self.sandbox_url);
        self.http.get(url).send().await.unwrap().json().await.unwrap()
    }

    /// Entries of a journal after a number, all of them.
    pub async fn journal(&self, journal: &str, query: &str, after_seq: u64) -> Vec<Value> {
        let mut entries: Vec<Value> = Vec::new();
        let mut after = after_seq;
        loop {
            let url = format!(
                "{}/_sandbox/{journal}?after_seq={after}&limit={PAGE}{query}",
                self.sandbox_url
            );
            let mut page: Value = self.http.get(url).send().await.unwrap().json().await.unwrap();
            let key = if journal.starts_with("model") { "requests" } else { "messages" };
            let Value::Array(found) = page[key].take() else { panic!("no {key}: {page}") };
            let Some(last) = found.last() else { return entries };
            after = last["seq"].as_u64().unwrap();
            entries.extend(found);
        }
    }

    /// A number that a statement tells, once the database answers.
    pub async fn number(&self, statement: &'static str) -> i64 {
        loop {
            match sqlx::query_scalar(statement).fetch_one(&self.db.pool).await {
                Ok(number) => return number,
                Err(sqlx::Error::Database(error))
                    if error.code().is_some_and(|c| c.starts_with("42")) =>
                {
                    panic!("{statement}: {error}")
                }
                Err(_away) => tokio::time::sleep(Duration::from_millis(50)).await,
            }
        }
    }

    /// Waits until a statement tells zero; a row wakes nobody.
    pub async fn wait_for_none(&self, statement: &'static str, patience: Duration) -> bool {
        let look = async {
            while self.number(statement).await != 0 {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        };
        tokio::time::timeout(patience, look).await.is_ok()
    }

    /// Moves the clock of everybody forward, and every lease with it.
    pub async fn shift_clock(&self, seconds: f64) {
        harness::Database::shift_clock_of(&self.db.pool, seconds).await;
        self.tally.add("clock shifts");
    }

    /// Stops every server gracefully, judges everything, ends it all; answers how many violations there are.
    pub async fn end_and_judge(self: Arc<Self>, violations_are_due: bool) -> usize {
        self.fleet.note_the_dead();
        for server in self.fleet.take_all() {
            self.fleet.terminate(server).await;
        }
        self.fleet.note_the_logs();
        let evidence = evidence::gather(&self).await;
        let (violations, _) = check::judge(&self, &evidence).await;
        Arc::into_inner(self)
            .expect("nobody else acts")
            .end(violations > 0 && !violations_are_due)
            .await;
        violations
    }

    /// Ends the sandbox and Postgres; what is on disk stays if somebody wants to look into it.
    pub async fn end(self, keep: bool) {
        self.sandbox_stop.cancel();
        drop(self.fleet);
        let db = Arc::into_inner(self.db).expect("only the fleet had it too");
        db.end(keep).await;
    }
}
