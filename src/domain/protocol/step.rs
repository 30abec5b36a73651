//! What each move does to the world: the transactions of `store`, the choices of `engine`, and what goes wrong.
//!
//! A move that costs something takes it from the budget; every change of the job passes `act`, which knows the rules.

use super::world::{
    Call, Doing, EPOCHS, Hand, IDS, Missing, Model, Move, No, Row, Wish, World, Write, attempt,
    evened, executor, failure, moment, result,
};
use crate::domain::approval::{ApprovalStatus, Door, Verdict};
use crate::domain::id::{AttemptId, ExecutorId};
use crate::domain::job::{Lease, Status};
use crate::domain::state::{Action, Ballot, next};

impl World {
    /// Makes a move; false if it cannot happen or changes nothing.
    pub(super) fn make(&mut self, model: &Model, step: Move) -> Result<bool, No> {
        match step {
            Move::Claim { by } => self.claim(model, by),
            Move::ClaimUnheard { by } => Ok(self.send(Write::Claim(self.processes[by].id))),
            Move::AnswerPauses { by, hand } => {
                self.processes[by].hands[hand].doing = Doing::Continuing;
                Ok(true)
            }
            Move::Answer { by, hand } => {
                self.processes[by].hands[hand].doing = Doing::Storing;
                Ok(true)
            }
            Move::CallAgain { by, hand } => self.call_again(model, by, hand),
            Move::Finish { by, hand } => self.finish(model, by, hand),
            Move::FinishUnheard { by, hand } => {
                let Some(write) = self.write_of(by, hand) else { return Ok(false) };
                if let Write::Finish(_, next) = write {
                    self.processes[by].hands[hand].doing = Doing::StoringAgain(next);
                }
                Ok(self.send(write))
            }
            Move::ErrorThatPasses { by, hand } => self.error(model, by, hand),
            Move::GiveBack { by, hand } => {
                self.costs_a_fault()?;
                self.give_back(model, by, hand)
            }
            Move::LetGo { by, hand } => {
                let process = &self.processes[by];
                let epoch = process.hands[hand].lease.epoch;
                if self.holds(process.id) && self.job.epoch == epoch {
                    return Ok(false);
                }
                self.give_back(model, by, hand)
            }
            Move::ReleaseUnheld { by } => self.release_unheld(model, by),
            Move::Renew { by } => Ok(self.renew(by)),
            Move::Freeze { by } => {
                let is_other_awake = !self.processes[1 - by].is_frozen;
                self.costs_a_fault()?;
                self.processes[by].is_frozen = true;
                Ok(is_other_awake)
            }
            Move::Thaw { by } => {
                self.processes[by].is_frozen = false;
                Ok(true)
            }
            Move::DieAndStartAgain { by } => {
                self.costs_a_fault()?;
                self.processes[by].hands.clear();
                Ok(self.take_new_id(by))
            }
            Move::ArriveLate => match self.late.take() {
                // Refused or not, nobody hears of it.
                Some(write) => self.commit(model, write).map(|_| true).or_else(No::or_refused),
                None => Ok(false),
            },
            Move::LeaseEnds { id } => self.declare(id, Row::Over, &[Row::Alive]),
            Move::Bury { id } => self.declare(id, Row::Buried, &[Row::Alive, Row::Over]),
            Move::SweepLost => self.sweep_lost(model),
            Move::SweepDue => self.act(model, Action::Due, None),
            Move::SweepCall { call } => Ok(self.sweep_call(call)),
            Move::Person(wish) => self.wish(model, wish),
        }
    }

    /// Lets the state machine decide, and holds what it decides against the rules.
    fn act(&mut self, model: &Model, action: Action, writer: Option<Lease>) -> Result<bool, No> {
        let before = self.job.clone();
        let is_retry = matches!(action, Action::Retry { .. });
        let by_people = matches!(
            action,
            Action::Pause { .. } | Action::Resume { .. } | Action::Cancel { .. } | Action::Vote(_)
        );
        let Some(made) = next(&before, &model.spec, action, "", moment())? else {
            return Ok(false);
        };
        if writer.is_some_and(|lease| !before.is_held_by(&lease)) {
            return Err(No::Broken("a writer without the lease moved the job"));
        }
        if before.status == Status::Paused && !by_people {
            return Err(No::Broken("a paused job moved by itself"));
        }
        if before.status.is_terminal() && !is_retry || before.status == Status::Completed {
            return Err(No::Broken("a job that had ended moved"));
        }
        let after = &made.state;
        if after.epoch < before.epoch || after.last_sequence < before.last_sequence {
            return Err(No::Broken("an epoch or a sequence went back"));
        }
        for checkpoint in &made.checkpoints {
            let key = (checkpoint.step, checkpoint.revision);
            if self.checkpoints.contains(&key) {
                return Err(No::Broken("a step was checkpointed twice in one revision"));
            }
            self.checkpoints.push(key);
        }
        self.job = evened(&made.state);
        Ok(true)
    }

    /// Writes the ledger row of a request that is about to leave.
    fn begin(&mut self, lease: Lease, number: u8) -> Result<(), No> {
        let (step, revision) = (self.job.current_step, self.job.revision);
        if !self.job.is_held_by(&lease) {
            return Err(No::Broken("a call was begun for a job that its lease does not hold"));
        }
        if self.checkpoints.contains(&(step, revision)) {
            return Err(No::Broken("a finished step was asked again"));
        }
        let is_done = |step| self.checkpoints.iter().any(|(done, _)| *done == step);
        if !(1..step).all(is_done) {
            return Err(No::Broken("a step was begun before the one before it was stored"));
        }
        self.calls.push(Call { lease, number, is_lost: false });
        Ok(())
    }

    /// Commits a write of an executor, with the first ledger row of the attempt it begins.
    fn commit(&mut self, model: &Model, write: Write) -> Result<Option<Lease>, No> {
        match write {
            Write::Claim(id) => {
                if self.executors[id] != Row::Alive || self.job.epoch == EPOCHS {
                    return Err(No::Refused);
                }
                let (executor_id, epoch) = (executor(id), self.job.epoch + 1);
                let lease = Lease { executor_id, epoch, attempt_id: attempt(epoch, id) };
                let action = Action::Claim { executor_id, attempt_id: lease.attempt_id };
                self.act(model, action, None)?;
                self.begin(lease, 1)?;
                Ok(Some(lease))
            }
            Write::Finish(lease, next_attempt) => {
                let named = match (model.missing, self.job.executor_id, self.job.attempt_id) {
                    (Missing::LeaseFence, Some(executor_id), Some(attempt_id)) => {
                        Lease { executor_id, epoch: self.job.epoch, attempt_id }
                    }
                    _ => lease,
                };
                self.settle(lease);
                // A result is always stored, but an executor whose lease is over does not go straight on.
                let next_attempt = next_attempt.filter(|_| self.lives(lease.executor_id));
                let result = Box::new(result());
                let action = Action::Finish { lease: named, result, next_attempt };
                self.act(model, action, Some(lease))?;
                let next = self.going_on(lease, next_attempt);
                if let Some(next) = next {
                    self.begin(next, 1)?;
                }
                Ok(next)
            }
        }
    }

    /// The lease under which the same executor goes straight on, if the row says so.
    fn going_on(&self, lease: Lease, next_attempt: Option<AttemptId>) -> Option<Lease> {
        let next = Lease { attempt_id: next_attempt?, ..lease };
        self.job.is_held_by(&next).then_some(next)
    }

    fn claim(&mut self, model: &Model, by: usize) -> Result<bool, No> {
        let lease = self.commit(model, Write::Claim(self.processes[by].id))?;
        self.processes[by].hands.extend(lease.map(Hand::new));
        Ok(true)
    }

    /// Settles whatever is open of an attempt, whoever holds the job: it names only the ledger's own rows.
    fn settle(&mut self, lease: Lease) {
        self.calls.retain(|call| call.lease != lease);
    }

    fn call_again(&mut self, model: &Model, by: usize, hand: usize) -> Result<bool, No> {
        let Hand { lease, doing } = self.processes[by].hands[hand];
        if doing != Doing::Continuing {
            return Ok(false);
        }
        self.settle(lease);
        let may = self.job.is_held_by(&lease) && self.lives(lease.executor_id);
        if may || model.missing == Missing::CallGuard {
            self.begin(lease, 2)?;
            self.processes[by].hands[hand].doing = Doing::Asking(2);
        } else {
            self.processes[by].hands.remove(hand);
        }
        Ok(true)
    }

    /// What a hand wants to store, the same however often it is sent.
    fn write_of(&self, by: usize, hand: usize) -> Option<Write> {
        let Hand { lease, doing } = self.processes[by].hands[hand];
        match doing {
            Doing::Asking(_) | Doing::Continuing => None,
            Doing::Storing => {
                let goes_on = self.executors[self.processes[by].id] == Row::Alive;
                let next_attempt =
                    AttemptId(uuid::Uuid::from_u128(lease.attempt_id.0.as_u128() + 1));
                Some(Write::Finish(lease, goes_on.then_some(next_attempt)))
            }
            Doing::StoringAgain(next_attempt) => Some(Write::Finish(lease, next_attempt)),
        }
    }

    fn finish(&mut self, model: &Model, by: usize, hand: usize) -> Result<bool, No> {
        let Some(write @ Write::Finish(lease, next_attempt)) = self.write_of(by, hand) else {
            return Ok(false);
        };
        let is_again = matches!(self.processes[by].hands[hand].doing, Doing::StoringAgain(_));
        let goes_on = match self.commit(model, write) {
            Ok(next) => next,
            Err(No::Refused) if !is_again || model.missing == Missing::AttemptId => None,
            // Lost, or stored by the write whose reply was lost: then the row carries its next attempt.
            Err(No::Refused) => self.going_on(lease, next_attempt),
            Err(broken @ No::Broken(_)) => return Err(broken),
        };
        let hands = &mut self.processes[by].hands;
        match goes_on {
            Some(next) => hands[hand] = Hand::new(next),
            None => drop(hands.remove(hand)),
        }
        let is_known = self.processes[by].hands.iter().any(|hand| self.job.is_held_by(&hand.lease));
        if self.going_on(lease, next_attempt).is_some() && !is_known {
            return Err(No::Broken("a server let go of an attempt that it holds"));
        }
        Ok(true)
    }

    fn error(&mut self, model: &Model, by: usize, hand: usize) -> Result<bool, No> {
        let Hand { lease, doing } = self.processes[by].hands[hand];
        if !matches!(doing, Doing::Asking(_)) {
            return Ok(false);
        }
        self.costs_a_fault()?;
        self.settle(lease);
        self.processes[by].hands.remove(hand);
        let action = Action::Delay { lease, failure: failure(), after: None, jitter: 0.0 };
        self.act(model, action, Some(lease)).or_else(No::or_refused)
    }

    /// Aborts what a hand does, settles it, and releases the job if it is still there to be released.
    fn give_back(&mut self, model: &Model, by: usize, hand: usize) -> Result<bool, No> {
        let Hand { lease, .. } = self.processes[by].hands.remove(hand);
        self.settle(lease);
        self.act(model, Action::Release { lease }, Some(lease)).or_else(No::or_refused)
    }

    fn release_unheld(&mut self, model: &Model, by: usize) -> Result<bool, No> {
        let process = &self.processes[by];
        let is_in_hand = process.hands.iter().any(|hand| hand.lease.epoch == self.job.epoch);
        let (true, Some(lease)) = (self.holds(process.id) && !is_in_hand, self.held_lease()) else {
            return Ok(false);
        };
        if model.missing == Missing::UnheldSearch {
            return Ok(false);
        }
        self.act(model, Action::Release { lease }, Some(lease))
    }

    fn sweep_lost(&mut self, model: &Model) -> Result<bool, No> {
        let is_dead = |id: &usize| self.holds(*id) && self.executors[*id] != Row::Alive;
        let Some(lease) = (0..IDS).find(is_dead).and_then(|_| self.held_lease()) else {
            return Ok(false);
        };
        self.act(model, Action::Lose { lease }, Some(lease))
    }

    fn sweep_call(&mut self, call: usize) -> bool {
        let lease = self.calls[call].lease;
        let is_of_the_dead = !self.lives(lease.executor_id);
        let is_over = self.job.attempt_id != Some(lease.attempt_id);
        let was_lost = std::mem::replace(&mut self.calls[call].is_lost, true);
        !was_lost && (is_of_the_dead || is_over)
    }

    fn renew(&mut self, by: usize) -> bool {
        let id = self.processes[by].id;
        match self.executors[id] {
            Row::Over => self.executors[id] = Row::Alive,
            Row::Buried => return self.take_new_id(by),
            Row::Alive | Row::Unknown => return false,
        }
        true
    }

    fn take_new_id(&mut self, by: usize) -> bool {
        let Some(id) = self.executors.iter().position(|row| *row == Row::Unknown) else {
            return false;
        };
        self.executors[id] = Row::Alive;
        self.processes[by].id = id;
        true
    }

    /// Judges an executor: of one that lives and is awake, that is a fault.
    fn declare(&mut self, id: usize, row: Row, from: &[Row]) -> Result<bool, No> {
        if !from.contains(&self.executors[id]) {
            return Ok(false);
        }
        let is_awake = |id| self.processes.iter().any(|of| of.id == id && !of.is_frozen);
        if is_awake(id) && self.executors[id] == Row::Alive {
            self.costs_a_fault()?;
        }
        self.executors[id] = row;
        Ok(true)
    }

    fn wish(&mut self, model: &Model, wish: Wish) -> Result<bool, No> {
        self.budget.wishes -= 1;
        let action = match wish {
            Wish::Pause => Action::Pause { now: false },
            Wish::PauseNow => Action::Pause { now: true },
            Wish::Resume => Action::Resume { budget_usd: None },
            Wish::Cancel => Action::Cancel { comment: String::new() },
            Wish::Retry => Action::Retry { from_step: None },
            Wish::RetryFromTheFirst => Action::Retry { from_step: Some(1) },
            Wish::Approve => {
                let Some(approval_id) = self.job.approval_id else { return Ok(false) };
                Action::Vote(Ballot {
                    approval_id,
                    status: ApprovalStatus::Pending,
                    votes: Vec::new(),
                    verdict: Verdict::Approve,
                    voter: String::new(),
                    door: Door::Grpc,
                    comment: String::new(),
                    via: None,
                    edited_output: None,
                    shown: None,
                    revisions: 0,
                    has_edited: false,
                })
            }
        };
        self.act(model, action, None)
    }

    /// Lets a write be on its way without its sender hearing of it.
    fn send(&mut self, write: Write) -> bool {
        let is_free = self.late.is_none();
        self.late = Some(write);
        is_free && self.costs_a_fault().is_ok()
    }

    fn costs_a_fault(&mut self) -> Result<(), No> {
        self.budget.faults = self.budget.faults.checked_sub(1).ok_or(No::Refused)?;
        Ok(())
    }

    fn lives(&self, executor_id: ExecutorId) -> bool {
        (0..IDS).any(|id| executor(id) == executor_id && self.executors[id] == Row::Alive)
    }

    fn holds(&self, id: usize) -> bool {
        self.job.executor_id == Some(executor(id))
    }

    fn held_lease(&self) -> Option<Lease> {
        let (executor_id, attempt_id) = self.job.executor_id.zip(self.job.attempt_id)?;
        Some(Lease { executor_id, epoch: self.job.epoch, attempt_id })
    }
}

impl No {
    /// A refusal that the writer takes as its answer: the job is no longer its own.
    fn or_refused(self) -> Result<bool, Self> {
        match self {
            Self::Refused => Ok(true),
            Self::Broken(_) => Err(self),
        }
    }
}
