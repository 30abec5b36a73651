//! A batch: operations on different jobs that are committed in one transaction.
//!
//! Lock what is free, let the state machine decide about each, write everything, commit.
//! The guard of a running job is its lease: executor, epoch and attempt, compared with the locked row;
//! a stale one is refused, and only its lines of the ledger are written.

use std::collections::{HashMap, HashSet};

use chrono::{DateTime, Utc};
use sqlx::{Connection as _, PgConnection};

use super::{Claim, Op, Work};
use crate::domain::id::ExecutorId;
use crate::domain::job::JobState;
use crate::domain::spec::Spec;
use crate::domain::state::{self, Action, Refusal, Transition};
use crate::store::claim::{Claimable, Claims, claim_rows};
use crate::store::write::{Encoded, Written, write};
use crate::store::{StoreError, ledger, read_text, unless_it_panics};

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
    from: JobState,
    pub(in crate::store) transition: Transition,
    /// When the lease of its holder runs out, where a submit made it a running one.
    pub(in crate::store) lease_expires_at: Option<DateTime<Utc>>,
}

/// What the transaction sees of its jobs, all of which it has locked.
struct Seen {
    now: DateTime<Utc>,
    rows: HashMap<String, Row>,
    /// The executor that takes the jobs which are submitted here, if its lease lives, and until when it does.
    claimer: Option<(ExecutorId, DateTime<Utc>)>,
}

struct Row {
    state: Encoded,
    holder_lives: bool,
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

    /// The transaction.
    pub(super) async fn commit(
        &self,
        connection: &mut PgConnection,
    ) -> Result<Outcome, StoreError> {
        let mut tx = connection.begin().await?;
        let (claims, saw_all) = match &self.claim {
            Some(claim) => claim_rows(&mut tx, &claim.request).await?,
            None => (Vec::new(), true),
        };
        let seen = self.look(&mut tx).await?;
        let decide = |op| unless_it_panics(|| Ok(decide(op, &seen)));
        let decided = self.ops.iter().map(decide);
        let mut fates: Vec<Fate> =
            decided.map(|fate| fate.unwrap_or_else(|error| Fate::Still(Err(error)))).collect();
        self.write_lines(&mut tx, &fates).await?;
        let claimed = claims.iter().map(Claimable::written);
        let moved = self.ops.iter().zip(&fates).filter_map(|(op, fate)| op.written(fate));
        let written: Vec<Written<'_>> = claimed.chain(moved).collect();
        let taken =
            if written.is_empty() { HashSet::new() } else { write(&mut tx, &written).await? };
        drop(written);
        tx.commit().await?;
        for (op, fate) in self.ops.iter().zip(&mut fates) {
            if matches!(op.work, Work::Submit(_)) && taken.contains(op.key.job_id()) {
                *fate = Fate::Still(Ok(None));
            }
        }
        let claimed = claims.into_iter().map(Claimable::into_claimed).collect();
        Ok(Outcome { fates, claims: Claims { claimed, saw_all } })
    }

    /// Locks the rows of moves that nobody else has locked, in the order everybody locks in.
    async fn look(&self, tx: &mut PgConnection) -> Result<Seen, StoreError> {
        let moved = self.ops.iter().filter(|op| match op.work {
            Work::Move { .. } | Work::Call { .. } => true,
            Work::Submit(_) | Work::Ledger => false,
        });
        let (shards, job_ids): (Vec<i16>, Vec<String>) =
            moved.map(|op| (op.key.shard(), op.key.job_id().to_owned())).unzip();
        let found = sqlx::query!(
            r#"-- lock_batch
            with locked as materialized (
              select j.job_id, to_json(j) as state,
                exists (select from longhaul.executor e
                  where e.executor_id = j.executor_id and e.lease_expires_at > longhaul.now()) as holder_lives
              from longhaul.job j
              join unnest($1::smallint[], $2::text[]) as k(shard, job_id) using (shard, job_id)
              order by j.shard, j.job_id
              for update of j skip locked
            )
            -- One row at least, which tells the time.
            select longhaul.now() as "now!", l.job_id as "job_id?", l.state as "state: Encoded", l.holder_lives,
              (select e.lease_expires_at from longhaul.executor e
                where e.executor_id = $3 and e.lease_expires_at > longhaul.now()) as claimer_lives_until
            from (select) one left join locked l on true"#,
            &shards,
            &job_ids,
            self.claimer().map(|executor_id| executor_id.0),
        )
        .fetch_all(tx)
        .await?;
        let first = found.first().ok_or(StoreError::Unavailable(sqlx::Error::RowNotFound))?;
        let now = first.now;
        let claimer = self.claimer().zip(first.claimer_lives_until);
        let rows = found.into_iter().filter_map(|row| {
            let holder_lives = row.holder_lives.unwrap_or(false);
            Some((row.job_id?, Row { state: row.state?, holder_lives }))
        });
        Ok(Seen { now, rows: rows.collect(), claimer })
    }

    /// The executor that takes the jobs which are submitted here, if it has room.
    fn claimer(&self) -> Option<ExecutorId> {
        self.ops.iter().find_map(|op| match &op.work {
            Work::Submit(birth) => birth.claimer,
            Work::Move { .. } | Work::Call { .. } | Work::Ledger => None,
        })
    }

    async fn write_lines(&self, tx: &mut PgConnection, fates: &[Fate]) -> Result<(), StoreError> {
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
        if lines.is_empty() { Ok(()) } else { ledger::write_lines(tx, &lines).await }
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
            Work::Call { .. } | Work::Ledger => None,
        }
    }
}

fn decide(op: &Op, seen: &Seen) -> Fate {
    match &op.work {
        Work::Ledger => Fate::Still(Ok(None)),
        Work::Submit(birth) => {
            let claimer = seen.claimer.map(|(executor_id, _)| executor_id);
            let (from, transition) = birth.transition(seen.now, claimer);
            let lives_until = seen.claimer.map(|(_, lives_until)| lives_until);
            let lease_expires_at = lives_until.filter(|_| transition.state.executor_id.is_some());
            Fate::Moves(Box::new(Moved { from, transition, lease_expires_at }))
        }
        Work::Move { spec, action } => seen.decide_locked(op, |from, holder_lives| {
            move_held(from, spec, hold_back(action, holder_lives), seen.now)
        }),
        // An executor whose lease is over begins nothing.
        Work::Call { lease, .. } => seen.decide_locked(op, |from, holder_lives| {
            let holds = from.is_held_by(lease) && holder_lives;
            Fate::Still(if holds { Ok(None) } else { Err(Refusal::LeaseLost.into()) })
        }),
    }
}

impl Seen {
    fn decide_locked(&self, op: &Op, decide: impl FnOnce(JobState, bool) -> Fate) -> Fate {
        let Some(row) = self.rows.get(op.key.job_id()) else { return Fate::Locked };
        match read_text("job", &row.state) {
            Ok(from) => decide(from, row.holder_lives),
            Err(error) => Fate::Still(Err(error)),
        }
    }
}

fn move_held(from: JobState, spec: &Spec, action: Action, now: DateTime<Utc>) -> Fate {
    match state::next(&from, spec, action, "executor", now) {
        Ok(Some(transition)) => {
            Fate::Moves(Box::new(Moved { from, transition, lease_expires_at: None }))
        }
        Ok(None) => {
            let transition = Transition::still(from.clone());
            Fate::Still(Ok(Some(Box::new(Moved { from, transition, lease_expires_at: None }))))
        }
        Err(refusal) => Fate::Still(Err(refusal.into())),
    }
}

/// A result is always stored, but an executor whose lease is over does not go straight on.
fn hold_back(action: &Action, holder_lives: bool) -> Action {
    let mut action = action.clone();
    if let Action::Finish { next_attempt, .. } = &mut action
        && !holder_lives
    {
        *next_attempt = None;
    }
    action
}
