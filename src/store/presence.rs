//! Presence: a lock that a session of this process holds, so that Postgres itself notices when the process dies.
//!
//! The session is the one on which wake-ups are heard: a read is always pending there, so its end is known at once.
//! The row of the executor names the lock's key only while the lock is known to be held; without one, the lease alone
//! decides. A session that a pooler may hand to others proves nothing: its lock would outlive us, or vanish before us.
//! If the process dies, its kernel closes the session, and Postgres lets the lock go; what follows is in `sweep`.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use sqlx::postgres::{PgConnectOptions, PgListener, PgPoolOptions};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::domain::id::ExecutorId;

/// Of our locks among all advisory ones; `longhaul.present_keys` names it too.
const NAMESPACE: i32 = 1_819_242_087;
/// Set when a session begins, and not passed on by a pooler.
const MARK: &str = "longhaul.presence";
/// How long the making of a session may take.
const CONNECT: Duration = Duration::from_secs(5);
/// How often it is asked for an answer, and how long that may take.
const CHECK: Duration = Duration::from_secs(2);

/// What this process knows of its own session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Line {
    /// Nothing was tried yet.
    Untried,
    /// It holds the lock.
    Held,
    /// It is broken, cannot be made, or is not our own.
    Absent,
}

/// The sign of life of this process, and how well it reaches Postgres itself.
pub struct Presence {
    key: i32,
    options: PgConnectOptions,
    is_declared: bool,
    line: watch::Sender<Line>,
    is_shared: AtomicBool,
    has_told: AtomicBool,
    troubled_at: Mutex<Option<Instant>>,
    executor_id: Mutex<Option<ExecutorId>>,
}

impl Presence {
    /// A sign that is not given yet; `is_declared` says that somebody vouched for the connection.
    pub(super) fn new(options: PgConnectOptions, is_declared: bool) -> Self {
        let key = rand::random_range(1..=i32::MAX);
        // A host that vanishes says nothing, so Postgres has to ask.
        let options = options.options([
            (MARK, key.to_string().as_str()),
            ("tcp_keepalives_idle", "5"),
            ("tcp_keepalives_interval", "2"),
            ("tcp_keepalives_count", "3"),
            ("tcp_user_timeout", "11000"),
        ]);
        Self {
            key,
            options,
            is_declared,
            line: watch::Sender::new(Line::Untried),
            is_shared: AtomicBool::new(false),
            has_told: AtomicBool::new(false),
            troubled_at: Mutex::default(),
            executor_id: Mutex::default(),
        }
    }

    /// The key of the lock while it is held.
    pub(super) fn key(&self) -> Option<i32> {
        (*self.line.borrow() == Line::Held).then_some(self.key)
    }

    /// Whether the sign of life is given.
    pub fn is_held(&self) -> bool {
        self.key().is_some()
    }

    /// The way around a pooler, if one was declared.
    pub(super) fn declared(&self) -> Option<&PgConnectOptions> {
        self.is_declared.then_some(&self.options)
    }

    /// Notes under which id this process lives now.
    pub(super) fn note_executor(&self, executor_id: ExecutorId) {
        *self.executor_id.lock().unwrap_or_else(PoisonError::into_inner) = Some(executor_id);
    }

    /// The id under which this process lives, once it is registered.
    pub(super) fn executor_id(&self) -> Option<ExecutorId> {
        *self.executor_id.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until the first try is over, however it ended.
    pub async fn settled(&self) {
        // The sender is here, so this cannot fail.
        let _ = self.line.subscribe().wait_for(|line| *line != Line::Untried).await;
    }

    /// What changes whenever the row has to tell something else.
    pub fn changes(&self) -> PresenceChanges {
        PresenceChanges(self.line.subscribe())
    }

    /// Notes that Postgres, or this process, was away: the living have not given signs of life either.
    pub fn note_trouble(&self) {
        *self.troubled_at.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }

    /// Whether there was no trouble for so long.
    pub fn is_calm_for(&self, time: Duration) -> bool {
        let troubled_at = *self.troubled_at.lock().unwrap_or_else(PoisonError::into_inner);
        troubled_at.is_none_or(|at| at.elapsed() >= time)
    }

    /// Makes the session, which listens to the channel, and takes the lock if the session is our own.
    pub(super) async fn connect(&self, channel: &str) -> Result<Session<'_>, sqlx::Error> {
        let made = tokio::time::timeout(CONNECT, self.make_session(channel)).await;
        let made = made.unwrap_or(Err(sqlx::Error::PoolTimedOut));
        if let Err(error) = &made {
            self.turn(Line::Absent);
            if self.is_declared && !self.has_told.swap(true, Ordering::Relaxed) {
                let error = error as &dyn std::error::Error;
                tracing::warn!(
                    error,
                    "the direct connection cannot be made; until it can, the lease alone decides"
                );
            }
        }
        made
    }

    async fn make_session(&self, channel: &str) -> Result<Session<'_>, sqlx::Error> {
        // A pool of its own for each session: nothing is left in it from the one before.
        let pool = PgPoolOptions::new()
            .max_connections(1)
            .acquire_timeout(CONNECT)
            .idle_timeout(None)
            .max_lifetime(None)
            .connect_lazy_with(self.options.clone());
        let mut listener = PgListener::connect_with(&pool).await?;
        listener.ignore_pool_close_event(true);
        listener.eager_reconnect(false);
        listener.listen(channel).await?;
        let taken = sqlx::query!(
            r#"-- take_presence
            select pg_backend_pid() as "pid!", case when current_setting($1, true) = $2
              then pg_try_advisory_lock_shared($3, $4) end as is_held"#,
            MARK,
            self.key.to_string(),
            NAMESPACE,
            self.key,
        )
        .fetch_one(&mut listener)
        .await?;
        // Shared, so that the lock of our own half-dead session before does not stand in the way.
        let is_held = taken.is_held == Some(true) && !self.is_shared.load(Ordering::Relaxed);
        if taken.is_held.is_none() {
            self.tell_shared();
        }
        self.turn(if is_held { Line::Held } else { Line::Absent });
        Ok(Session { presence: self, listener, pid: taken.pid })
    }

    fn turn(&self, to: Line) {
        self.line.send_if_modified(|line| std::mem::replace(line, to) != to);
    }

    fn tell_shared(&self) {
        if self.is_shared.swap(true, Ordering::Relaxed) {
            return;
        }
        let said = "the database is reached through a pooler, so the death of a server is noticed by its lease alone; \
                    LONGHAUL_DATABASE_DIRECT_URL can name a way around it";
        if self.is_declared {
            tracing::warn!("{said}, and does not");
        } else {
            tracing::info!("{said}");
        }
    }

    /// Notes that a lock which was taken is not seen where the executors' rows are.
    pub(super) fn tell_unseen(&self) {
        if !self.has_told.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                "the lock of the direct connection is not seen here, as if it led to another database; \
                 until it is, the lease alone decides"
            );
        }
    }
}

/// Tells when the sign of life came or went.
pub struct PresenceChanges(watch::Receiver<Line>);

impl PresenceChanges {
    /// Returns at the next change, also if that has happened meanwhile.
    pub async fn next(&mut self) {
        if self.0.changed().await.is_err() {
            // Nothing will ever change again.
            std::future::pending::<()>().await;
        }
    }
}

/// The session, until it breaks; dropped, it takes the sign of life back.
pub(super) struct Session<'a> {
    presence: &'a Presence,
    listener: PgListener,
    pid: i32,
}

impl Session<'_> {
    /// The next payload; an error when the session is broken, or silent, or not our own.
    pub(super) async fn next(&mut self) -> Result<String, sqlx::Error> {
        loop {
            let heard = tokio::time::timeout(CHECK, self.listener.try_recv()).await;
            match heard {
                Ok(Ok(Some(notification))) => return Ok(notification.payload().to_owned()),
                Ok(Ok(None)) => return Err(sqlx::Error::WorkerCrashed),
                Ok(Err(error)) => return Err(error),
                Err(_silent) => self.check().await?,
            }
        }
    }

    async fn check(&mut self) -> Result<(), sqlx::Error> {
        let asked = sqlx::query_scalar!(
            r#"-- check_presence
            select pg_backend_pid() as "pid!""#
        );
        let answer = tokio::time::timeout(CHECK, asked.fetch_one(&mut self.listener)).await;
        let pid = answer.unwrap_or(Err(sqlx::Error::PoolTimedOut))?;
        if pid != self.pid && !self.presence.is_shared.load(Ordering::Relaxed) {
            // Somebody between us and Postgres passed the mark on, and hands sessions around all the same.
            self.presence.tell_shared();
            return Err(sqlx::Error::WorkerCrashed);
        }
        Ok(())
    }
}

impl Drop for Session<'_> {
    fn drop(&mut self) {
        self.presence.turn(Line::Absent);
        self.presence.note_trouble();
    }
}
