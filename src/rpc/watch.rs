//! `WatchJob`: a job's history as it happens, without gap or repeat, from any replica.
//!
//! In go a job and the last sequence the client has seen, out comes a stream that ends with the job.
//! All truth is read from Postgres, a page at a time and only as fast as the client takes it, once for all who watch a job;
//! a wake-up, or what a look at all watched jobs finds every second, only says when to read again.
//! A client that leaves drops the stream, and nothing of the watch is left.

use std::collections::VecDeque;
use std::time::Duration;

use futures::stream::{self, BoxStream, StreamExt as _};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tonic::Status;

use super::convert::event::{Outline, event};
use super::convert::{
    REPLY_BYTES_MAX,
    job::{job, reveal},
    request, status,
};
use super::deadline::Deadline;
use super::delivery::Deliveries;
use super::delta::Deltas;
use super::proto::{Heartbeat, Notice, OutputDelta, WatchJobResponse, watch_job_response::Content};
use crate::domain::id::JobKey;
use crate::door::Stay;
use crate::engine::watch::Changes;
use crate::engine::{Engine, EngineError};
use crate::store::event::History;
use crate::store::{Store, StoreError};

/// The longest that a client hears nothing.
pub(super) const HEARTBEAT: Duration = Duration::from_secs(15);
/// How long a database that is away is waited for.
const PATIENCE: Duration = Duration::from_secs(5);
const FIRST_PAUSE: Duration = Duration::from_millis(100);

/// What ends a watch before its job does.
pub(super) struct Bounds {
    /// Whether its client may still read the job.
    pub(super) stay: Box<Stay>,
    /// The stop of the server.
    pub(super) stop: CancellationToken,
    /// When its client stops waiting.
    pub(super) deadline: Option<Deadline>,
    /// Its place among the watches, held until the stream is dropped.
    pub(super) permit: OwnedSemaphorePermit,
}

/// Begins a watch after a sequence, or with a snapshot; `is_whole` shows people's numbers.
pub(super) async fn open(
    engine: Engine,
    asked: request::Watch,
    is_whole: bool,
    bounds: Bounds,
) -> Result<BoxStream<'static, Result<WatchJobResponse, Status>>, Status> {
    let request::Watch { key, after_sequence, has_deltas, has_notices } = asked;
    let Bounds { stay, stop, deadline, permit } = bounds;
    // Before the first look, so that no change falls between the look and the wait.
    let changes = engine.changes(&key);
    let deltas = has_deltas.then(|| Box::new(Deltas::new(engine.listen(&key))));
    let deliveries = has_notices
        .then(|| Box::new(Deliveries::new(engine.store().clone(), key.clone(), is_whole)));
    let mut watch = Watch {
        key,
        changes,
        deltas,
        deliveries,
        is_whole,
        stay,
        stop,
        deadline: deadline.map(|deadline| deadline.0),
        outline: Outline::default(),
        pending: VecDeque::new(),
        sent: after_sequence.unwrap_or(0),
        read: after_sequence.unwrap_or(0),
        is_behind: true,
        has_ended: false,
        heartbeat_at: Instant::now() + HEARTBEAT,
        _permit: permit,
    };
    match after_sequence {
        None => Box::pin(watch.take_snapshot(engine.store())).await?,
        Some(after) => Box::pin(watch.begin_after(engine.store(), after)).await?,
    }
    let messages = stream::unfold(Some(watch), |watch| async {
        let mut watch = watch?;
        match watch.next().await {
            Ok(Some(content)) => {
                Some((Ok(WatchJobResponse { content: Some(content) }), Some(watch)))
            }
            Ok(None) => None,
            Err(status) => Some((Err(status), None)),
        }
    });
    Ok(messages.boxed())
}

/// It holds little, since there are many of them: no engine and no specification.
struct Watch {
    key: JobKey,
    changes: Changes,
    /// The answers as they arrive, if the client wants them.
    deltas: Option<Box<Deltas>>,
    /// What becomes of notices, if the client wants to know.
    deliveries: Option<Box<Deliveries>>,
    /// Whether people's numbers are shown whole.
    is_whole: bool,
    /// Whether its client may still read the job.
    stay: Box<Stay>,
    stop: CancellationToken,
    /// When its client stops waiting, whatever comes.
    deadline: Option<Instant>,
    outline: Outline,
    /// What was read and not yet sent.
    pending: VecDeque<Content>,
    /// The sequence of the last event that was sent.
    sent: i32,
    /// The sequence of the last event that was read.
    read: i32,
    /// There was more to read at the last look.
    is_behind: bool,
    /// The job had ended at the last look, and everything was read.
    has_ended: bool,
    heartbeat_at: Instant,
    _permit: OwnedSemaphorePermit,
}

impl Watch {
    /// The next message; nothing once the job has ended and everything was sent.
    async fn next(&mut self) -> Result<Option<Content>, Status> {
        loop {
            if self.deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                return Err(status::timed_out());
            }
            self.stay.check().map_err(|refusal| status::not_let_in(&refusal))?;
            if let Some(content) = self.pending.pop_front() {
                if self.pending.is_empty() {
                    // What a long page took is not held until the next.
                    self.pending.shrink_to_fit();
                }
                if let Content::Event(event) = &content {
                    self.sent = event.sequence;
                }
                self.heartbeat_at = Instant::now() + HEARTBEAT;
                return Ok(Some(content));
            }
            if self.has_ended {
                // Nothing comes after this look, so it is made once.
                let Some(mut deliveries) = self.deliveries.take() else { return Ok(None) };
                self.pending.extend(deliveries.last().await.into_iter().map(Content::Notice));
                continue;
            }
            if self.stop.is_cancelled() {
                return Err(status::stopping());
            }
            if !self.is_behind {
                tokio::select! {
                    () = self.stop.cancelled() => return Err(status::stopping()),
                    () = until(self.deadline) => continue,
                    () = self.stay.wait() => continue,
                    () = self.changes.next_after(self.read) => {}
                    delta = next_delta(&mut self.deltas) => {
                        self.heartbeat_at = Instant::now() + HEARTBEAT;
                        return Ok(Some(Content::OutputDelta(delta)));
                    }
                    notice = next_notice(&mut self.deliveries) => {
                        self.heartbeat_at = Instant::now() + HEARTBEAT;
                        return Ok(Some(Content::Notice(notice)));
                    }
                    () = tokio::time::sleep_until(self.heartbeat_at) => {
                        self.heartbeat_at = Instant::now() + HEARTBEAT;
                        let last_sequence = self.sent;
                        return Ok(Some(Content::Heartbeat(Heartbeat { last_sequence })));
                    }
                }
            }
            Box::pin(self.read_page()).await?;
        }
    }

    /// Begins with the job as it is; the events after it are read next.
    async fn take_snapshot(&mut self, store: &Store) -> Result<(), Status> {
        let view = patiently(&self.stop, || store.job(&self.key, None)).await;
        let view = view.map_err(|error| self.failed(error))?;
        self.outline = Outline::of(&view.spec);
        self.sent = view.state.last_sequence;
        self.read = view.state.last_sequence;
        self.has_ended = view.state.status.is_terminal();
        let mut snapshot = job(&view, REPLY_BYTES_MAX);
        if self.is_whole {
            reveal(&mut snapshot.notices, &view.notices);
        }
        self.pending.push_back(Content::Snapshot(snapshot));
        if let Some(deltas) = &mut self.deltas {
            deltas.begin_at(&view.state);
        }
        Ok(())
    }

    /// Begins with what comes after a sequence; of a job that was pruned there is nothing.
    async fn begin_after(&mut self, store: &Store, after: i32) -> Result<(), Status> {
        self.read_outline(store).await.map_err(|error| {
            if matches!(error, StoreError::JobPruned { .. }) {
                return status::nothing_after(&error, &self.key, after);
            }
            self.failed(error)
        })?;
        let last = self.read_first_page().await?;
        if after > last {
            return Err(status::beyond_the_end(&self.key, after, last));
        }
        Ok(())
    }

    /// Reads what the steps are called, which never changes; and where the job stands, if answers are to be told.
    async fn read_outline(&mut self, store: &Store) -> Result<(), StoreError> {
        if self.deltas.is_some() {
            let view = patiently(&self.stop, || store.job(&self.key, None)).await?;
            self.outline = Outline::of(&view.spec);
            if let Some(deltas) = &mut self.deltas {
                deltas.begin_at(&view.state);
            }
            return Ok(());
        }
        let spec = patiently(&self.stop, || store.spec(&self.key)).await;
        self.outline = Outline::of(&spec?);
        Ok(())
    }

    /// Reads the first events as they are now; answers with the sequence of the last one there is.
    ///
    /// Another server may have told the client of an event that nobody here has heard of.
    async fn read_first_page(&mut self) -> Result<i32, Status> {
        let page = patiently(&self.stop, || self.changes.page_now(self.read)).await;
        let page = page.map_err(|error| self.failed(error))?;
        self.take(&page);
        Ok(page.last_sequence)
    }

    /// Reads the next events, together with others who watch the job.
    async fn read_page(&mut self) -> Result<(), Status> {
        let page = patiently(&self.stop, || self.changes.page(self.read)).await;
        self.take(&page.map_err(|error| self.failed(error))?);
        Ok(())
    }

    fn take(&mut self, page: &History) {
        for stored in &page.events {
            self.read = stored.event.sequence;
            if let Some(deltas) = &mut self.deltas {
                // What an event ends is told before it.
                self.pending.extend(deltas.before(stored).into_iter().map(Content::OutputDelta));
            }
            self.pending.push_back(Content::Event(event(stored, &self.outline)));
        }
        self.is_behind = self.read < page.last_sequence;
        self.has_ended = page.has_ended && !self.is_behind;
    }

    fn failed(&self, error: StoreError) -> Status {
        if self.stop.is_cancelled() {
            return status::stopping();
        }
        status::failed(EngineError::Store(error), &self.key)
    }
}

/// Returns when the deadline has come; never, if there is none.
async fn until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

/// The next piece of an answer; never, for a client that does not want any.
async fn next_delta(deltas: &mut Option<Box<Deltas>>) -> OutputDelta {
    match deltas {
        Some(deltas) => deltas.next().await,
        None => std::future::pending().await,
    }
}

/// The next notice that has changed; never, for a client that does not want to know.
async fn next_notice(deliveries: &mut Option<Box<Deliveries>>) -> Notice {
    match deliveries {
        Some(deliveries) => deliveries.next().await,
        None => std::future::pending().await,
    }
}

/// Looks again while the database is away, for a few seconds and not beyond the stop.
async fn patiently<T, F>(stop: &CancellationToken, look: impl Fn() -> F) -> Result<T, StoreError>
where
    F: Future<Output = Result<T, StoreError>>,
{
    let give_up_at = Instant::now() + PATIENCE;
    let mut pause = FIRST_PAUSE;
    loop {
        match look().await {
            Err(StoreError::Unavailable(error)) if Instant::now() < give_up_at => {
                tracing::debug!(%error, "a watch waits for the database");
                tokio::select! {
                    () = stop.cancelled() => return Err(StoreError::Unavailable(error)),
                    () = tokio::time::sleep(pause) => pause *= 2,
                }
            }
            result => return result,
        }
    }
}
