//! A batch: operations on different jobs that are committed in one transaction.
//!
//! Look, let the state machine decide about each, write everything in one statement: without locks where that is enough,
//! since a row is written only as it was seen, else with the rows locked from the look on.
//! The guard of a running job is its lease: executor, epoch and attempt, compared with the row;
//! a stale one is refused, and only its lines of the ledger are written.

use std::collections::{HashMap, HashSet, VecDeque};

use chrono::{DateTime, Utc};
use sqlx::{Connection as _, PgConnection};

use super::decide::decide;
use super::known::Known;
use super::{Claim, Item, Op, Work};
use crate::domain::id::{ExecutorId, JobKey};
use crate::domain::job::JobState;
use crate::domain::state::Transition;
use crate::store::claim::{Claimable, Claims, claim_rows};
use crate::store::ledger::Line;
use crate::store::write::{Encoded, Foreseen, Written, not_as_read, write};
use crate::store::{StoreError, unless_it_panics};

/// The most operations of one batch.
const OPS_MAX: usize = 128;
/// Of these at the most so many that had found their row locked: what is free is not to wait for them.
const LOCKED_OPS_MAX: usize = 32;
/// The most bytes of one batch, beyond its first operation.
const BYTES_MAX: usize = 4 << 20;

/// Operations that go together.
#[derive(Default)]
pub(super) struct Batch {
    pub(super) ops: Vec<Op>,
    pub(super) claim: Option<Claim>,
}

/// What a committed batch did.
pub(super) struct Outcome {
    /// What became of each operation, in order.
    pub(super) fates: Vec<Fate>,
    /// The jobs that were claimed.
    pub(super) claims: Claims,
}

/// What becomes of an operation.
pub(super) enum Fate {
    /// Somebody else has the row: it waits for the next batch.
    Locked,
    /// Nothing moves; where the job is as it was asked to be, it is in the answer.
    Still(Result<Option<Box<Moved>>, StoreError>),
    /// The job moves, or is born.
    Moves(Box<Moved>),
}

/// A transition, and the row it starts from.
pub(in crate::store) struct Moved {
    pub(in crate::store) from: JobState,
    pub(in crate::store) transition: Transition,
    /// When the lease of its holder runs out, where a submit made it a running one.
    pub(in crate::store) lease_expires_at: Option<DateTime<Utc>>,
}

/// What is seen of the jobs.
pub(super) struct Seen {
    pub(super) now: DateTime<Utc>,
    pub(super) rows: HashMap<String, Row>,
    /// Whether they are locked, so that one which is not here is somebody else's, or gone.
    pub(super) are_locked: bool,
    /// The jobs that are no more: they were pruned.
    pub(super) gone: HashSet<String>,
    /// The executor of this process, if its lease lives, and until when it does.
    pub(super) alive: Option<(ExecutorId, DateTime<Utc>)>,
}

pub(super) struct Row {
    pub(super) state: Encoded,
    pub(super) holder_lives: bool,
}

/// The next operations that go together: in order, one on a job, none on a busy one, one claim, and not too much at once.
pub(super) fn take_batch(waiting: &mut VecDeque<Item>, busy: &HashSet<JobKey>) -> Batch {
    let mut batch = Batch::default();
    let (mut keys, mut bytes) = (HashSet::new(), 0);
    let mut left = VecDeque::new();
    let mut locked = 0;
    for item in waiting.drain(..) {
        match item {
            // Who no longer waits must not be given jobs.
            Item::Claim(claim) if claim.answer.is_closed() => {}
            Item::Op(op) if op.answer.is_closed() && op.work.may_claim() => {}
            Item::Claim(claim) if batch.claim.is_none() => batch.claim = Some(claim),
            // One that does not fit closes the batch for its job, so that the order stays.
            Item::Op(op) if !busy.contains(&op.key) && keys.insert(op.key.clone()) => {
                locked += usize::from(op.was_locked);
                let has_room = batch.ops.len() < OPS_MAX && bytes <= BYTES_MAX;
                let fits = has_room && !(op.was_locked && locked > LOCKED_OPS_MAX);
                if fits {
                    bytes += op.weight();
                    batch.ops.push(*op);
                } else {
                    left.push_back(Item::Op(op));
                }
            }
            item @ (Item::Claim(_) | Item::Op(_)) => left.push_back(item),
        }
    }
    *waiting = left;
    batch
}

impl Outcome {
    /// Of a batch that claims nothing.
    fn of(fates: Vec<Fate>) -> Self {
        Self { fates, claims: Claims { claimed: Vec::new(), saw_all: true } }
    }
}

impl Batch {
    pub(super) fn len(&self) -> usize {
        self.ops.len() + usize::from(self.claim.is_some())
    }

    /// The same operations, each alone.
    pub(super) fn into_singles(self) -> impl Iterator<Item = Self> {
        let claim = self.claim.map(|claim| Self { ops: Vec::new(), claim: Some(claim) });
        claim.into_iter().chain(self.ops.into_iter().map(|op| Self { ops: vec![op], claim: None }))
    }

    /// Tells everybody why it did not go; of many that failed together, nothing is known to have happened.
    pub(super) fn fail(self, error: StoreError) {
        let what = error.to_string();
        let copy = || StoreError::Unavailable(sqlx::Error::Protocol(what.clone()));
        let mut original = Some(error);
        let mut next = || original.take().unwrap_or_else(copy);
        // Whoever no longer waits asks again, or looks.
        for op in self.ops {
            let _ = op.answer.send(Err(next()));
        }
        if let Some(claim) = self.claim {
            let _ = claim.answer.send(Err(next()));
        }
    }

    /// Does everything in one commit.
    ///
    /// Without locks first, where the guards of the statement are enough: one or two round trips instead of four.
    pub(super) async fn commit(
        &self,
        connection: &mut PgConnection,
        known: &mut Option<Known>,
    ) -> Result<Outcome, StoreError> {
        if self.may_go_without_locks() {
            match self.write_unlocked(connection, known).await {
                // Somebody keeps a row locked; the others are not to wait for that.
                Err(error) if error.is_lock_timeout() => {}
                done => return done,
            }
        }
        self.write_locked(connection).await
    }

    /// A claim has to keep others away between its look and its write, and a call must not begin beside a cancel.
    fn may_go_without_locks(&self) -> bool {
        let needs_none = |op: &Op| !op.was_locked && !matches!(op.work, Work::Call { .. });
        self.claim.is_none() && self.ops.iter().all(needs_none)
    }

    /// Looks where what is known is not enough, decides, and writes what is still as it was seen.
    async fn write_unlocked(
        &self,
        connection: &mut PgConnection,
        known: &mut Option<Known>,
    ) -> Result<Outcome, StoreError> {
        if let Some((seen, foreseen)) = self.foresee(known.as_ref())
            && let Some(outcome) =
                self.write_seen(connection, known, Some(&seen), Some(foreseen)).await?
        {
            return Ok(outcome);
        }
        let seen = if self.needs_a_look() { Some(self.look(connection).await?) } else { None };
        let written = self.write_seen(connection, known, seen.as_ref(), None).await?;
        written.ok_or_else(not_as_read)
    }

    /// Decides and writes, unless something is not as it was foreseen; what was not written waits for the next batch.
    async fn write_seen(
        &self,
        connection: &mut PgConnection,
        known: &mut Option<Known>,
        seen: Option<&Seen>,
        foreseen: Option<Foreseen>,
    ) -> Result<Option<Outcome>, StoreError> {
        let mut fates = self.decide(seen);
        let lines = self.lines(&fates);
        let mut moved: Vec<Written<'_>> = self.written(&fates).collect();
        // Two servers that write the same rows wait for each other in one order.
        moved.sort_by(|a, b| a.key().cmp(&b.key()));
        if moved.is_empty() && lines.is_empty() {
            drop(moved);
            let is_locked = fates.iter().any(|fate| matches!(fate, Fate::Locked));
            // Nothing is left out for the sake of others, so that it can wait for its rows at once.
            return if is_locked {
                self.write_locked(connection).await.map(Some)
            } else {
                Ok(Some(Outcome::of(fates)))
            };
        }
        let wrote = write(connection, &moved, &lines, foreseen).await?;
        drop(moved);
        if !wrote.is_open {
            *known = None;
            return Ok(None);
        }
        *known = Some(Known::told_by(&wrote, known.as_ref(), seen));
        self.find_unwritten(&mut fates, &wrote.job_ids());
        Ok(Some(Outcome::of(fates)))
    }

    /// Locks what is free, decides, writes; nobody else has come between.
    async fn write_locked(&self, connection: &mut PgConnection) -> Result<Outcome, StoreError> {
        let mut tx = connection.begin().await?;
        let (claims, saw_all) = match &self.claim {
            Some(claim) => claim_rows(&mut tx, &claim.request).await?,
            None => (Vec::new(), true),
        };
        let seen = self.lock(&mut tx).await?;
        let mut fates = self.decide(Some(&seen));
        // The claim goes before what was decided from the row as it was before it, and before a birth under its id.
        for (op, fate) in self.ops.iter().zip(&mut fates) {
            let is_claimed = || claims.iter().any(|claim| claim.job_id() == op.key.job_id());
            if matches!(fate, Fate::Moves(_)) && is_claimed() {
                *fate = op.unwritten();
            }
        }
        let lines = self.lines(&fates);
        let claimed = claims.iter().map(Claimable::written);
        let moved: Vec<Written<'_>> = claimed.chain(self.written(&fates)).collect();
        if !moved.is_empty() || !lines.is_empty() {
            let wrote = write(&mut tx, &moved, &lines, None).await?;
            drop(moved);
            let written = wrote.job_ids();
            let has_left_a_claim = claims.iter().any(|claim| !written.contains(claim.job_id()));
            // What was decided before the lock may be out of date; what was decided under it cannot be.
            if self.find_unwritten(&mut fates, &written) > 0 || has_left_a_claim {
                return Err(not_as_read());
            }
        }
        tx.commit().await?;
        let claimed = claims.into_iter().map(Claimable::into_claimed).collect();
        Ok(Outcome { fates, claims: Claims { claimed, saw_all } })
    }

    /// Finds what was not written, and what becomes of it; answers how many moves are to be made again.
    fn find_unwritten(&self, fates: &mut [Fate], written: &HashSet<&str>) -> usize {
        let mut again = 0;
        for (op, fate) in self.ops.iter().zip(fates) {
            if matches!(fate, Fate::Moves(_)) && !written.contains(op.key.job_id()) {
                *fate = op.unwritten();
                again += usize::from(matches!(fate, Fate::Locked));
            }
        }
        again
    }

    fn decide(&self, seen: Option<&Seen>) -> Vec<Fate> {
        let decide = |op| unless_it_panics(|| Ok(decide(op, seen)));
        let decided = self.ops.iter().map(decide);
        decided.map(|fate| fate.unwrap_or_else(|error| Fate::Still(Err(error)))).collect()
    }

    fn written<'a>(&'a self, fates: &'a [Fate]) -> impl Iterator<Item = Written<'a>> {
        self.ops.iter().zip(fates).filter_map(|(op, fate)| op.written(fate))
    }

    /// The lines of the ledger that go with what was decided.
    fn lines(&self, fates: &[Fate]) -> Vec<&Line> {
        let mut lines = Vec::new();
        for (op, fate) in self.ops.iter().zip(fates) {
            if matches!(fate, Fate::Locked) {
                continue;
            }
            lines.extend(&op.lines);
            if let (Work::Call { start, .. }, Fate::Still(Ok(_))) = (&op.work, fate) {
                lines.push(start);
            }
        }
        lines
    }

    pub(super) fn needs_a_look(&self) -> bool {
        self.ops.iter().any(|op| match op.work {
            Work::Submit(_) | Work::Vote(_) | Work::Move { .. } | Work::Call { .. } => true,
            Work::Decided(_) | Work::Ledger => false,
        })
    }
}

impl Op {
    fn written<'a>(&'a self, fate: &'a Fate) -> Option<Written<'a>> {
        let Fate::Moves(moved) = fate else { return None };
        let written = Written::new(&self.key, &moved.from, &moved.transition);
        match &self.work {
            Work::Submit(birth) => {
                Some(written.born(birth.row()).beginning(&moved.from, &birth.spec))
            }
            Work::Move { spec, .. } => Some(written.beginning(&moved.from, spec)),
            Work::Vote(vote) => Some(written.beginning(&moved.from, &vote.job.spec)),
            Work::Decided(decided) => Some(written.beginning(&moved.from, &decided.spec)),
            Work::Call { .. } | Work::Ledger => None,
        }
    }

    /// Whether its row need not be looked at: its holder wrote it last, and the lease of that lives.
    pub(super) fn is_known(&self, seen: &Seen) -> bool {
        let Work::Move { known, .. } = &self.work else { return false };
        let (alive, _) = seen.alive.unzip();
        !seen.are_locked && alive.is_some() && known.executor_id == alive
    }

    /// What becomes of one that was not written, because its row is no longer as it was seen, or there already.
    fn unwritten(&self) -> Fate {
        match self.work {
            Work::Submit(_) | Work::Vote(_) | Work::Decided(_) => Fate::Still(Ok(None)),
            Work::Move { .. } | Work::Call { .. } | Work::Ledger => Fate::Locked,
        }
    }
}
