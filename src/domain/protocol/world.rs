//! The world around one job: its rows in the database, two processes with what they have in hand, and writes on their way.
//!
//! A job is moved by the real `state::next`; everything else is what `store` and `engine` do around it, each transaction
//! one move. Times, sequences and texts are made equal, so that worlds that differ in nothing else are the same.
//! A rule that a move breaks is its error.

use chrono::{DateTime, Utc};
use uuid::Uuid;

use crate::domain::id::{ApprovalId, AttemptId, ExecutorId};
use crate::domain::job::{Failure, JobState, Lease, Reason, StepResult};
use crate::domain::money::Usage;
use crate::domain::spec::Spec;
use crate::domain::state::{Refusal, submit};

/// Beyond this epoch nobody looks.
pub(super) const EPOCHS: i32 = 3;
/// Two processes, and a new id for each fault that can cost one.
pub(super) const IDS: usize = 5;

/// A part of the protocol that is left out, to see that its absence is noticed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Missing {
    Nothing,
    /// Whoever writes is taken for the holder.
    LeaseFence,
    /// A call is begun without a look at the job.
    CallGuard,
    /// Nobody looks for jobs that carry an id but are in no hand.
    UnheldSearch,
    /// A write whose reply was lost is not recognised by its attempt.
    AttemptId,
}

/// What is tried: which job, and what is left out.
pub(super) struct Model {
    pub(super) spec: Spec,
    pub(super) missing: Missing,
}

/// How much may still go wrong, and how much people may still ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Budget {
    pub(super) faults: u8,
    pub(super) wishes: u8,
}

/// An executor's row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Row {
    Unknown,
    Alive,
    Over,
    Buried,
}

/// A row of the ledger that is not settled for good.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Call {
    pub(super) lease: Lease,
    pub(super) number: u8,
    pub(super) is_lost: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Process {
    pub(super) id: usize,
    pub(super) is_frozen: bool,
    pub(super) hands: Vec<Hand>,
}

/// A job in hand, as its process sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Hand {
    pub(super) lease: Lease,
    pub(super) doing: Doing,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Doing {
    /// A request is with the provider, the so-manieth of this attempt.
    Asking(u8),
    /// The provider paused its answer: another request has to follow.
    Continuing,
    /// The answer is there and has to be stored.
    Storing,
    /// It was sent to the database once, and no reply came.
    StoringAgain(Option<AttemptId>),
}

/// A write of an executor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Write {
    Claim(usize),
    Finish(Lease, Option<AttemptId>),
}

/// What a person asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wish {
    Pause,
    PauseNow,
    Resume,
    Cancel,
    Retry,
    RetryFromTheFirst,
    Approve,
}

/// One step of the world; `by` is a process, `hand` a job in its hands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Move {
    Claim {
        by: usize,
    },
    ClaimUnheard {
        by: usize,
    },
    AnswerPauses {
        by: usize,
        hand: usize,
    },
    CallAgain {
        by: usize,
        hand: usize,
    },
    Answer {
        by: usize,
        hand: usize,
    },
    Finish {
        by: usize,
        hand: usize,
    },
    FinishUnheard {
        by: usize,
        hand: usize,
    },
    ErrorThatPasses {
        by: usize,
        hand: usize,
    },
    GiveBack {
        by: usize,
        hand: usize,
    },
    LetGo {
        by: usize,
        hand: usize,
    },
    ReleaseUnheld {
        by: usize,
    },
    Renew {
        by: usize,
    },
    Freeze {
        by: usize,
    },
    Thaw {
        by: usize,
    },
    DieAndStartAgain {
        by: usize,
    },
    /// A write whose sender heard nothing reaches the database.
    ArriveLate,
    LeaseEnds {
        id: usize,
    },
    Bury {
        id: usize,
    },
    SweepLost,
    SweepDue,
    SweepCall {
        call: usize,
    },
    Person(Wish),
}

/// Why a move does not happen.
pub(super) enum No {
    Refused,
    Broken(&'static str),
}

impl From<Refusal> for No {
    fn from(_: Refusal) -> Self {
        Self::Refused
    }
}

/// Everything that can differ.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct World {
    pub(super) job: JobState,
    /// Steps and revisions that were finished.
    pub(super) checkpoints: Vec<(i32, i32)>,
    pub(super) calls: Vec<Call>,
    pub(super) executors: [Row; IDS],
    pub(super) processes: [Process; 2],
    pub(super) late: Option<Write>,
    pub(super) budget: Budget,
}

impl Move {
    pub(super) fn is_thaw(self) -> bool {
        matches!(self, Self::Thaw { .. })
    }
}

impl World {
    /// A job just submitted, and two processes with nothing in hand.
    pub(super) fn new(model: &Model, budget: Budget) -> Self {
        let process = |id| Process { id, is_frozen: false, hands: Vec::new() };
        let mut executors = [Row::Unknown; IDS];
        executors[..2].fill(Row::Alive);
        Self {
            job: evened(&submit(&model.spec, "", moment()).state),
            checkpoints: Vec::new(),
            calls: Vec::new(),
            executors,
            processes: [process(0), process(1)],
            late: None,
            budget,
        }
    }

    /// Whether the job rests or lies beyond the horizon, and nothing of it is left in a living hand or open in the ledger.
    pub(super) fn is_at_an_end(&self) -> bool {
        let is_beyond = self.job.is_claimable() && self.job.epoch == EPOCHS;
        let is_out_of_hand = |of: &Process| of.is_frozen || of.hands.is_empty();
        (self.job.status.stands_still() || is_beyond)
            && self.processes.iter().all(is_out_of_hand)
            && self.calls.iter().all(|call| call.is_lost)
    }

    /// What might happen next; `after` says whether it can.
    pub(super) fn moves(&self) -> Vec<Move> {
        let is_faulty = self.budget.faults > 0;
        // Which of two equals is the first to claim makes no difference.
        let is_even = self.job.epoch == 0 && self.late.is_none() && !self.processes[0].is_frozen;
        let mut moves = Vec::new();
        moves.extend(self.late.is_some().then_some(Move::ArriveLate));
        moves.extend(self.job.executor_id.is_some().then_some(Move::SweepLost));
        moves.extend(self.job.run_at.is_some().then_some(Move::SweepDue));
        moves.extend((0..self.calls.len()).map(|call| Move::SweepCall { call }));
        for (by, process) in self.processes.iter().enumerate() {
            if process.is_frozen {
                moves.push(Move::Thaw { by });
                continue;
            }
            if self.job.is_claimable() && (by == 0 || !is_even) {
                moves.push(Move::Claim { by });
                moves.extend(is_faulty.then_some(Move::ClaimUnheard { by }));
            }
            moves.extend([Move::ReleaseUnheld { by }, Move::Renew { by }]);
            for (at, hand) in process.hands.iter().enumerate() {
                hand.add_moves(by, at, is_faulty, &mut moves);
            }
            if is_faulty {
                moves.extend([Move::Freeze { by }, Move::DieAndStartAgain { by }]);
            }
        }
        for (id, row) in self.executors.iter().enumerate() {
            moves.extend((*row == Row::Alive).then_some(Move::LeaseEnds { id }));
            moves.extend((*row == Row::Alive || *row == Row::Over).then_some(Move::Bury { id }));
        }
        if self.budget.wishes > 0 {
            use Wish::{Approve, Cancel, Pause, PauseNow, Resume, Retry, RetryFromTheFirst};
            let wishes = [Pause, PauseNow, Resume, Cancel, Retry, RetryFromTheFirst, Approve];
            moves.extend(wishes.map(Move::Person));
        }
        moves
    }

    /// The world after a move, `None` if it cannot happen or changes nothing, or the rule it breaks.
    pub(super) fn after(&self, model: &Model, step: Move) -> Result<Option<Self>, &'static str> {
        let mut after = self.clone();
        match after.make(model, step) {
            Ok(true) => {}
            Ok(false) | Err(No::Refused) => return Ok(None),
            Err(No::Broken(rule)) => return Err(rule),
        }
        // Nobody can tell a lost row that no hand will settle from a settled one.
        let World { calls, processes, .. } = &mut after;
        let is_in_hand =
            |call: &Call| processes.iter().flat_map(|of| &of.hands).any(|hand| hand.settles(call));
        calls.retain(|call| !call.is_lost || is_in_hand(call));
        after.check()?;
        Ok(Some(after))
    }
}

impl World {
    /// At most one hand holds the job, and its request is in the ledger.
    fn check(&self) -> Result<(), &'static str> {
        let hands = || self.processes.iter().flat_map(|process| &process.hands);
        if hands().filter(|hand| self.job.is_held_by(&hand.lease)).count() > 1 {
            return Err("two hands hold the job");
        }
        let is_unwritten = |hand: &&Hand| {
            matches!(hand.doing, Doing::Asking(_)) && !self.calls.iter().any(|call| hand.asks(call))
        };
        if hands().any(|hand| is_unwritten(&hand)) {
            return Err("the provider was asked without a row in the ledger");
        }
        Ok(())
    }
}

impl Hand {
    /// A job whose attempt has just been begun: its first request leaves.
    pub(super) fn new(lease: Lease) -> Self {
        Self { lease, doing: Doing::Asking(1) }
    }

    fn add_moves(&self, by: usize, hand: usize, is_faulty: bool, moves: &mut Vec<Move>) {
        match self.doing {
            Doing::Asking(number) => {
                // One pause of an answer shows everything that two would.
                moves.extend((number == 1).then_some(Move::AnswerPauses { by, hand }));
                moves.push(Move::Answer { by, hand });
                moves.extend(is_faulty.then_some(Move::ErrorThatPasses { by, hand }));
            }
            Doing::Continuing => moves.push(Move::CallAgain { by, hand }),
            Doing::Storing | Doing::StoringAgain(_) => {
                moves.push(Move::Finish { by, hand });
                moves.extend(is_faulty.then_some(Move::FinishUnheard { by, hand }));
            }
        }
        moves.push(Move::LetGo { by, hand });
        moves.extend(is_faulty.then_some(Move::GiveBack { by, hand }));
    }

    fn asks(&self, call: &Call) -> bool {
        self.lease == call.lease && self.doing == Doing::Asking(call.number)
    }

    /// Whether it will settle this call, perhaps once it learns that it was begun.
    fn settles(&self, call: &Call) -> bool {
        let is_next = self.doing == Doing::StoringAgain(Some(call.lease.attempt_id));
        is_next || self.lease == call.lease
    }
}

/// The only time there is: whatever is due is due whenever a sweeper comes.
pub(super) fn moment() -> DateTime<Utc> {
    DateTime::from_timestamp(1_764_000_000, 0).expect("a time")
}

/// The row without what makes no difference.
pub(super) fn evened(state: &JobState) -> JobState {
    let even = |time: Option<DateTime<Utc>>| time.map(|_| moment());
    JobState {
        run_at: even(state.run_at),
        first_error_at: even(state.first_error_at),
        last_error: None,
        last_sequence: 0,
        attempt: 0,
        approval_id: state.approval_id.map(|_| ApprovalId(Uuid::from_u128(1))),
        approvals_asked: 0,
        deadline_at: even(state.deadline_at).map(|at| at + chrono::TimeDelta::seconds(1)),
        left_ms: state.left_ms.map(|_| 1000),
        step_started_at: even(state.step_started_at),
        updated_at: moment(),
        finished_at: even(state.finished_at),
        ..state.clone()
    }
}

pub(super) fn executor(id: usize) -> ExecutorId {
    ExecutorId(Uuid::from_u128(id as u128))
}

/// Never the same for two claims; the next of an attempt is one more.
pub(super) fn attempt(epoch: i32, id: usize) -> AttemptId {
    AttemptId(Uuid::from_u128(u128::from(epoch.unsigned_abs()) * 1000 + id as u128 * 100))
}

pub(super) fn result() -> StepResult {
    StepResult {
        output: String::new(),
        content: String::new(),
        citations: Vec::new(),
        usage: Usage::default(),
        cost_usd: None,
        model: String::new(),
        stop_reason: String::new(),
    }
}

pub(super) fn failure() -> Failure {
    let reason = Reason::ProviderUnavailable;
    Failure::new(reason, "", moment())
}
