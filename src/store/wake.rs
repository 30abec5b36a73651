//! Waking: how a commit here is noticed at once everywhere, and how nothing depends on it.
//!
//! Within the process a wake-up is a notification; between processes it is a NOTIFY on the channel `longhaul`,
//! sent after the commit from one connection, with what came in 10 ms folded into one.
//! Every loop that waits for a wake-up also polls, so a lost one costs time and never truth.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use sqlx::ConnectOptions as _;
use tokio::sync::{Notify, broadcast};
use tokio_util::sync::CancellationToken;

use super::feed::Feeds;
use super::{Store, bounded};
use crate::domain::id::JobKey;

const CHANNEL: &str = "longhaul";
const FOLD: Duration = Duration::from_millis(10);
/// How soon a broken connection is made anew, at the most; half of it at the least, so that not all come at once.
const RECONNECT: Duration = Duration::from_millis(250);
/// Before the token of the process that sends; no number, so that releases that know no token pass over it.
const TOKEN_MARK: char = '_';
/// Postgres takes a payload of less than 8,000 bytes; a job's number has up to 17 with its blank.
const JOBS_PER_NOTIFY: usize = 400;

/// What can be woken in this process.
#[derive(Debug)]
pub struct Wake {
    /// There may be a job to claim.
    pub work: Notify,
    /// There may be a notice to send.
    pub notices: Notify,
    /// There may be a message of a person to handle; only the process that stored it is woken.
    pub inbound: Notify,
    /// The same, for those who tell endpoints.
    pub endpoints: Notify,
    /// Grows when a job may have become claimable.
    work_came: AtomicU64,
    /// How much of that the last look had seen that left nothing to claim.
    work_seen: AtomicU64,
    jobs: broadcast::Sender<u64>,
    feeds: Arc<Feeds>,
    /// Tells this process's own wake-ups from those of others when they come back.
    token: u64,
    pending: Mutex<Pending>,
    has_pending: Notify,
}

#[derive(Debug, Default)]
struct Pending {
    work: bool,
    notices: bool,
    jobs: BTreeSet<u64>,
}

impl Default for Wake {
    fn default() -> Self {
        Self {
            work: Notify::new(),
            notices: Notify::new(),
            inbound: Notify::new(),
            endpoints: Notify::new(),
            work_came: AtomicU64::new(1),
            work_seen: AtomicU64::new(0),
            jobs: broadcast::channel(4096).0,
            feeds: Arc::default(),
            token: rand::random(),
            pending: Mutex::default(),
            has_pending: Notify::new(),
        }
    }
}

/// What a commit gives others to do.
#[derive(Clone, Copy, Debug, Default)]
pub struct Woken {
    /// A job became claimable.
    pub work: bool,
    /// A notice was written.
    pub notices: bool,
}

impl Wake {
    /// The jobs that somebody here waits for.
    pub(super) fn feeds(&self) -> &Arc<Feeds> {
        &self.feeds
    }

    /// The numbers of all jobs that changed, from now on; one that lags must look at everything it holds.
    pub fn watch_jobs(&self) -> broadcast::Receiver<u64> {
        self.jobs.subscribe()
    }

    /// Says, after the commit, that a job changed: here at once, elsewhere within some milliseconds.
    pub fn job_changed(&self, key: &JobKey, woken: Woken) {
        self.feeds.wake(key.wake_number());
        self.note_change(key, woken);
    }

    /// The same where who follows the job has been told already.
    pub(super) fn note_change(&self, key: &JobKey, woken: Woken) {
        let number = key.wake_number();
        self.wake_here(woken, [number]);
        let mut pending = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
        pending.work |= woken.work;
        pending.notices |= woken.notices;
        pending.jobs.insert(number);
        self.has_pending.notify_one();
    }

    /// Says, after the commit, that a job was born: nobody anywhere can have been waiting for it, but for work and notices.
    pub(super) fn job_born(&self, woken: Woken) {
        if !woken.work && !woken.notices {
            return;
        }
        self.wake_here(woken, []);
        let mut pending = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
        pending.work |= woken.work;
        pending.notices |= woken.notices;
        self.has_pending.notify_one();
    }

    /// Takes in what this or another process said after its commits.
    fn heard(&self, payload: &str) {
        let mut words = payload.split(' ');
        let flags = words.next().unwrap_or_default();
        let woken = Woken { work: flags.starts_with('1'), notices: flags.ends_with('1') };
        let own = format!("{TOKEN_MARK}{:x}", self.token);
        // Whoever is concerned here was woken by the commit itself.
        if words.clone().next() == Some(own.as_str()) {
            return;
        }
        let jobs = words.filter_map(|word| u64::from_str_radix(word, 16).ok());
        jobs.clone().for_each(|number| self.feeds.wake(number));
        self.wake_here(woken, jobs);
    }

    fn wake_here(&self, woken: Woken, jobs: impl IntoIterator<Item = u64>) {
        if woken.work {
            self.note_work();
            self.work.notify_one();
        }
        if woken.notices {
            self.notices.notify_one();
            self.endpoints.notify_waiters();
        }
        for number in jobs {
            // That no executor listens is no fault.
            let _ = self.jobs.send(number);
        }
    }

    /// Whether jobs may be waiting to be claimed, as far as this process knows.
    pub fn may_have_work(&self) -> bool {
        self.work_came() != self.work_seen.load(Ordering::Acquire)
    }

    /// To be asked before a look for claimable jobs, and told after it.
    pub fn work_came(&self) -> u64 {
        self.work_came.load(Ordering::Acquire)
    }

    /// A look that began when so much had come has left nothing to claim.
    pub fn note_nothing_left(&self, came: u64) {
        self.work_seen.fetch_max(came, Ordering::AcqRel);
    }

    fn note_work(&self) {
        self.work_came.fetch_add(1, Ordering::AcqRel);
    }

    fn take_pending(&self) -> Vec<String> {
        let mut pending = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
        let taken = std::mem::take(&mut *pending);
        let flags = format!("{}{}", i32::from(taken.work), i32::from(taken.notices));
        let numbers: Vec<String> = taken.jobs.iter().map(|number| format!("{number:x}")).collect();
        let payload =
            |chunk: &[String]| format!("{flags} {TOKEN_MARK}{:x} {}", self.token, chunk.join(" "));
        if numbers.is_empty() && (taken.work || taken.notices) {
            return vec![payload(&[])];
        }
        numbers.chunks(JOBS_PER_NOTIFY).map(payload).collect()
    }
}

impl Store {
    /// Sends this process's wake-ups to the others until told to stop.
    pub async fn notify_others(&self, stop: CancellationToken) {
        let mut connection = None;
        while !stop.is_cancelled() {
            tokio::select! {
                () = stop.cancelled() => {}
                () = self.wake.has_pending.notified() => tokio::time::sleep(FOLD).await,
            }
            // After the stop once more: others hear of what it gave back.
            for payload in self.wake.take_pending() {
                if let Err(error) = bounded(self.notify(&mut connection, &payload)).await {
                    // The others poll; what could not be sent is not sent again.
                    tracing::debug!(%error, "could not send a wake-up");
                    connection = None;
                }
            }
        }
    }

    async fn notify(
        &self,
        connection: &mut Option<sqlx::PgConnection>,
        payload: &str,
    ) -> Result<(), sqlx::Error> {
        let open = match connection.take() {
            Some(open) => open,
            None => self.options.connect().await?,
        };
        sqlx::query("-- notify_others\nselect pg_notify($1, $2)")
            .bind(CHANNEL)
            .bind(payload)
            .execute(connection.insert(open))
            .await?;
        Ok(())
    }

    /// Wakes this process by what the others commit, and holds its sign of life, until told to stop.
    pub async fn listen_to_others(&self, stop: CancellationToken) {
        tokio::join!(self.listen_again_and_again(&stop), self.poll_followed(&stop));
    }

    async fn listen_again_and_again(&self, stop: &CancellationToken) {
        while !stop.is_cancelled() {
            if let Err(error) = self.listen(stop).await {
                tracing::debug!(%error, "lost the connection for wake-ups");
            }
            let pause = RECONNECT.mul_f64(0.5 + rand::random::<f64>() / 2.0);
            tokio::select! {
                () = stop.cancelled() => {}
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    async fn listen(&self, stop: &CancellationToken) -> Result<(), sqlx::Error> {
        let mut session = tokio::select! {
            () = stop.cancelled() => return Ok(()),
            session = self.presence.connect(CHANNEL) => session?,
        };
        // What was sent while nobody listened is lost; look at everything.
        self.wake.wake_here(Woken { work: true, notices: true }, []);
        loop {
            let payload = tokio::select! {
                () = stop.cancelled() => return Ok(()),
                payload = session.next() => payload?,
            };
            self.wake.heard(&payload);
        }
    }
}
