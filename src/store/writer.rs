//! The writer: group commit.
//!
//! Submits, claims, checkpoints, what people do and lines of the ledger that arrive together are folded into one
//! commit: idle, each waits for one of its own; busy, many share one, and a second batch goes beside the first.
//! A job has at most one operation under way, in the order of arrival; a row that somebody else has locked
//! waits for the next batch; where a row spoils a batch, its operations go one by one, so that a bad one fails alone.
//! Each caller is answered after the commit; one whose answer is lost asks again, and its own ids tell what happened.

mod batch;

mod decide;

mod look;

mod line;

mod known;

use std::collections::{HashSet, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt as _};
use futures::stream::{FuturesUnordered, StreamExt as _};
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::asked::KnownVote;
use super::claim::{ClaimRequest, Claims, set_aside_first};
use super::event::History;
use super::feed::Heard;
use super::ledger;
use super::submit::Birth;
use super::{Store, StoreError, TRIES, bounded};
use crate::domain::id::JobKey;
use crate::domain::job::{JobState, Lease};
use crate::domain::spec::Spec;
use crate::domain::state::{Action, Transition};
pub(super) use batch::Moved;
use batch::{Batch, Fate, Outcome, take_batch};
use line::WriterLine;

/// As many operations wait here at the most; who comes then waits before the door.
const QUEUE_MAX: usize = 1024;
/// How long rows that others have locked are left alone when there is nothing else to do.
const LOCKED_PAUSE: Duration = Duration::from_millis(5);
/// Longer than any of our transactions: what is locked for so long is not to be had.
const LOCKED_MAX: Duration = Duration::from_secs(6);

/// What was decided longer ago than this is decided again.
const FRESH: Duration = Duration::from_millis(500);

/// So many batches are under way at once: while one is made durable, Postgres works on another.
const LINES: usize = 2;
/// Beside a batch that is under way another goes when so many operations wait: two small ones cost more than one.
const CROWD: usize = 16;

/// The way to the writer.
pub(super) struct Writer {
    queue: mpsc::Sender<Item>,
    /// Until the loop takes it.
    arrivals: Mutex<Option<mpsc::Receiver<Item>>>,
}

/// What arrives at the writer.
enum Item {
    Op(Box<Op>),
    Claim(Claim),
}

/// One operation on one job.
struct Op {
    key: JobKey,
    work: Work,
    /// What is known of its calls, written whatever becomes of the rest.
    lines: Vec<ledger::Line>,
    arrived_at: Instant,
    /// Whether somebody else had its row locked when it was tried.
    was_locked: bool,
    answer: Answer<Option<Box<Moved>>>,
}

/// What is to be done to a job.
pub(super) enum Work {
    /// Store it; nothing in the answer means that the id is taken.
    Submit(Box<Birth>),
    /// Let the holder of its lease move it, which knows its row from its own last write.
    Move { spec: Arc<Spec>, known: Box<JobState>, action: Action },
    /// Count a vote on an approval that this process asked, if its row is still as it was written then; else nothing is
    /// in the answer.
    Vote(Box<KnownVote>),
    /// Write what was decided without the lock, if the row is still as it was read; else nothing is in the answer.
    Decided(Box<Decided>),
    /// Begin a further call under its lease.
    Call { lease: Lease, start: ledger::Line },
    /// Nothing but lines of the ledger.
    Ledger,
}

/// A transition that was decided from what was read.
pub(super) struct Decided {
    pub(super) from: JobState,
    pub(super) transition: Transition,
    pub(super) spec: Arc<Spec>,
}

impl Decided {
    fn fate(&self) -> Fate {
        let (from, transition) = (self.from.clone(), self.transition.clone());
        Fate::Moves(Box::new(Moved { from, transition, lease_expires_at: None }))
    }
}

/// An executor asks for jobs.
struct Claim {
    request: ClaimRequest,
    answer: Answer<Claims>,
}

type Answer<T> = oneshot::Sender<Result<T, StoreError>>;

impl Default for Writer {
    fn default() -> Self {
        let (queue, arrivals) = mpsc::channel(QUEUE_MAX);
        Self { queue, arrivals: Mutex::new(Some(arrivals)) }
    }
}

/// What waits to be written, and what is being written.
struct Desk {
    store: Store,
    waiting: VecDeque<Item>,
    /// The lines that are free.
    free: Vec<WriterLine>,
    under_way: FuturesUnordered<BoxFuture<'static, Written>>,
    /// The jobs of the batches that are under way.
    busy: HashSet<JobKey>,
}

/// A batch that is through.
struct Written {
    line: WriterLine,
    keys: Vec<JobKey>,
    /// What somebody else has locked.
    locked: Vec<Op>,
}

impl Desk {
    /// Begins as many batches as may be under way.
    fn begin(&mut self) {
        while self.under_way.is_empty() || self.waiting.len() >= CROWD {
            let Some(mut line) = self.free.pop() else { return };
            let batch = take_batch(&mut self.waiting, &self.busy);
            let (size, store) = (batch.len(), self.store.clone());
            if size == 0 {
                self.free.push(line);
                return;
            }
            let keys: Vec<JobKey> = batch.ops.iter().map(|op| op.key.clone()).collect();
            self.busy.extend(keys.iter().cloned());
            let write = async move {
                let locked = store.write_batch(&mut line, batch).await;
                if locked.len() == size {
                    tokio::time::sleep(LOCKED_PAUSE).await;
                }
                Written { line, keys, locked }
            };
            self.under_way.push(write.boxed());
        }
    }

    fn end(&mut self, Written { line, keys, locked }: Written) {
        self.free.push(line);
        for key in &keys {
            self.busy.remove(key);
        }
        for op in locked.into_iter().rev() {
            self.waiting.push_front(Item::Op(Box::new(op)));
        }
    }
}

impl Store {
    /// Writes what arrives until told to stop, and then what has arrived by then.
    pub async fn write_batches(&self, stop: CancellationToken) {
        let taken = self.writer.arrivals.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(mut arrivals) = taken else {
            unreachable!("a store has one writer, which its server runs once")
        };
        let mut desk = Desk {
            store: self.clone(),
            waiting: VecDeque::new(),
            free: (0..LINES).map(|_| WriterLine::new(&self.options)).collect(),
            under_way: FuturesUnordered::new(),
            busy: HashSet::new(),
        };
        loop {
            let has_room = desk.waiting.len() < QUEUE_MAX;
            let is_idle = desk.waiting.is_empty() && desk.under_way.is_empty();
            tokio::select! {
                // What has arrived goes before the stop.
                biased;
                Some(written) = desk.under_way.next() => desk.end(written),
                item = arrivals.recv(), if has_room => desk.waiting.extend(item),
                () = stop.cancelled(), if is_idle => return,
            }
            while desk.waiting.len() < QUEUE_MAX
                && let Ok(item) = arrivals.try_recv()
            {
                desk.waiting.push_back(item);
            }
            desk.begin();
        }
    }

    /// Has something written with the next batch, and waits for the commit.
    pub(super) async fn write_soon(
        &self,
        key: &JobKey,
        work: Work,
        lines: Vec<ledger::Line>,
    ) -> Result<Option<Box<Moved>>, StoreError> {
        let key = key.clone();
        let arrived_at = Instant::now();
        let op = |answer| Op { key, work, lines, arrived_at, was_locked: false, answer };
        self.ask_writer(|answer| Item::Op(Box::new(op(answer)))).await
    }

    /// Has jobs claimed with the next batch.
    pub(super) async fn claim_soon(&self, request: ClaimRequest) -> Result<Claims, StoreError> {
        self.ask_writer(|answer| Item::Claim(Claim { request, answer })).await
    }

    async fn ask_writer<T>(&self, item: impl FnOnce(Answer<T>) -> Item) -> Result<T, StoreError> {
        let (answer, answered) = oneshot::channel();
        let item = item(answer);
        bounded(async {
            // It is gone only when the server is.
            let gone = || StoreError::Unavailable(sqlx::Error::PoolClosed);
            self.writer.queue.send(item).await.map_err(|_gone| gone())?;
            answered.await.unwrap_or_else(|_gone| Err(gone()))
        })
        .await
    }

    /// Writes a batch and answers its callers; what somebody else has locked comes back.
    async fn write_batch(&self, line: &mut WriterLine, batch: Batch) -> Vec<Op> {
        let heard = self.heard(&batch);
        let error = match self.commit_batch(line, &batch).await {
            Ok(outcome) => return self.answer(batch, outcome, heard).await,
            Err(error) => error,
        };
        if batch.len() == 1 || error.is_of_the_connection() {
            Self::refuse(line, batch, error).await;
            return Vec::new();
        }
        tracing::debug!(%error, size = batch.len(), "a batch was spoilt; it goes one by one");
        let mut locked = Vec::new();
        for single in batch.into_singles() {
            let heard = self.heard(&single);
            match self.commit_batch(line, &single).await {
                Ok(outcome) => locked.extend(self.answer(single, outcome, heard).await),
                Err(error) => Self::refuse(line, single, error).await,
            }
        }
        locked
    }

    /// Tells everybody why it did not go; where it is one job that cannot be claimed, nobody is to try again soon.
    async fn refuse(line: &mut WriterLine, batch: Batch, error: StoreError) {
        let first = match &batch.claim {
            Some(Claim { request: request @ ClaimRequest { limit: 1, .. }, .. }) => Some(*request),
            Some(_) | None => None,
        };
        let is_of_a_row = !matches!(error, StoreError::Unavailable(_));
        if let Some(request) = first.filter(|_| is_of_a_row && batch.len() == 1)
            && let Ok(mut connection) = line.take().await
        {
            match bounded(set_aside_first(&mut connection, &request)).await {
                Ok(()) => line.connection = Some((connection, Instant::now())),
                Err(error) => tracing::warn!(%error, "could not set a job aside"),
            }
        }
        batch.fail(error);
    }

    /// One transaction, again if Postgres undid it for the sake of another.
    async fn commit_batch(
        &self,
        line: &mut WriterLine,
        batch: &Batch,
    ) -> Result<Outcome, StoreError> {
        let mut tried = 1;
        loop {
            // Away from the line while it is used: one that breaks or hangs is not used again.
            let mut connection = line.take().await?;
            let committed = bounded(batch.commit(&mut connection, &mut line.known)).await;
            let is_broken = match &committed {
                Ok(_) => false,
                Err(error) => error.is_of_the_connection(),
            };
            if !is_broken {
                line.connection = Some((connection, Instant::now()));
            }
            match committed {
                Err(error) if error.is_undone() && tried < TRIES => tried += 1,
                committed => return committed,
            }
        }
    }

    /// What is known of each of its jobs that is followed.
    fn heard(&self, batch: &Batch) -> Vec<Option<Heard>> {
        batch.ops.iter().map(|op| self.wake.feeds().heard(&op.key)).collect()
    }

    /// Tells who follows a job what was written, and then every caller its fate.
    async fn answer(&self, batch: Batch, outcome: Outcome, heard: Vec<Option<Heard>>) -> Vec<Op> {
        if self.tell(&batch, &outcome, heard) {
            // They have all they need; callers look again, or go on with the job, and would be in their way.
            tokio::task::yield_now().await;
        }
        let mut locked = Vec::new();
        for (op, fate) in batch.ops.into_iter().zip(outcome.fates) {
            let answered = match fate {
                Fate::Locked if op.arrived_at.elapsed() < LOCKED_MAX => {
                    locked.push(Op { was_locked: true, ..op });
                    continue;
                }
                Fate::Locked => Err(StoreError::Unavailable(sqlx::Error::PoolTimedOut)),
                Fate::Still(answered) => answered,
                Fate::Moves(moved) => Ok(Some(moved)),
            };
            // Whoever no longer waits finds it in the tables.
            let _ = op.answer.send(answered);
        }
        if let Some(claim) = batch.claim {
            // One that nobody waits for is found unheld, and released.
            let _ = claim.answer.send(Ok(outcome.claims));
        }
        locked
    }

    /// Tells what moved; answers whether somebody here follows one of these jobs.
    fn tell(&self, batch: &Batch, outcome: &Outcome, heard: Vec<Option<Heard>>) -> bool {
        let mut is_followed = false;
        for ((op, fate), heard) in batch.ops.iter().zip(&outcome.fates).zip(heard) {
            let Fate::Moves(moved) = fate else { continue };
            let woken = super::transition::woken(&moved.transition);
            match heard {
                _ if matches!(op.work, Work::Submit(_)) => self.wake.job_born(woken),
                Some(heard) => {
                    is_followed = true;
                    let after = moved.from.last_sequence;
                    let history = History::told_by(&moved.transition);
                    self.wake.feeds().tell(&heard, after, history);
                    self.wake.note_change(&op.key, woken);
                }
                None => self.wake.job_changed(&op.key, woken),
            }
        }
        for claimed in &outcome.claims.claimed {
            self.wake.job_changed(&claimed.key, super::wake::Woken::default());
        }
        is_followed
    }
}

impl Op {
    /// Whether it has waited so long that what it was decided from, the time and the lease, may be over.
    fn is_stale(&self) -> bool {
        self.arrived_at.elapsed() > FRESH
    }

    /// About how many bytes it writes.
    fn weight(&self) -> usize {
        let lines: usize = self.lines.iter().map(ledger::Line::weight).sum();
        let work = match &self.work {
            Work::Submit(birth) => birth.weight(),
            Work::Move { action: Action::Finish { result, .. }, .. } => {
                result.output.len() + result.content.len()
            }
            Work::Move { .. }
            | Work::Vote(_)
            | Work::Decided(_)
            | Work::Call { .. }
            | Work::Ledger => 0,
        };
        work + lines
    }
}
