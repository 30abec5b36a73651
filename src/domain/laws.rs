//! The laws of the state machine, tried on random lives of random jobs.
//!
//! A life is a specification and a list of actions, most of them possible and some of them absurd.
//! After each step everything that must always hold is checked, and what a repeated action must answer.

mod check;

mod import;

mod sample;

mod spec;

use std::collections::HashSet;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use proptest::prelude::*;
use uuid::Uuid;

use self::check::{check_history, check_notices, check_row, check_silence, may_move};
use self::sample::{failure, result};
use self::spec::{specs, start};
use super::approval::{ApprovalStatus, Door, Verdict};
use super::book::find_endpoint;
use super::event::{NoticeKind, Undelivered};
use super::id::{ApprovalId, AttemptId, ExecutorId};
use super::job::{JobState, Lease, Reason};
use super::remind;
use super::spec::Spec;
use super::state::{Action, Ballot, Refusal, Transition, next, submit};

/// Who is told of the day's budget, and of nothing else.
const OPERATOR: &str = "+15550109";

/// What the generator asks for; what it becomes depends on the job.
#[derive(Clone, Debug)]
enum Wish {
    Claim,
    Finish { straight_on: bool },
    Delay { after_seconds: u64 },
    Fail,
    Starve,
    Batch,
    PutOff,
    Release,
    StaleFinish,
    Lose,
    Due,
    Expire { delivered: bool },
    Remind,
    Undelivered { has_endpoint: bool },
    Pause { now: bool },
    Resume,
    Cancel,
    Retry { from_step: Option<i32> },
    Vote { verdict: Verdict, voter: u8, edits: bool },
    LetTimePass { seconds: i64 },
}

fn wishes() -> impl Strategy<Value = Wish> {
    let verdict = prop_oneof![
        4 => Just((Verdict::Approve, false)),
        2 => Just((Verdict::Approve, true)),
        1 => Just((Verdict::Reject, false)),
        2 => Just((Verdict::RequestChanges, false)),
    ];
    prop_oneof![
        6 => Just(Wish::Claim),
        6 => any::<bool>().prop_map(|straight_on| Wish::Finish { straight_on }),
        2 => (0_u64..400).prop_map(|after_seconds| Wish::Delay { after_seconds }),
        1 => Just(Wish::Fail),
        1 => Just(Wish::Starve),
        1 => Just(Wish::Batch),
        1 => Just(Wish::PutOff),
        1 => Just(Wish::Release),
        1 => Just(Wish::StaleFinish),
        2 => Just(Wish::Lose),
        4 => Just(Wish::Due),
        2 => any::<bool>().prop_map(|delivered| Wish::Expire { delivered }),
        3 => Just(Wish::Remind),
        1 => any::<bool>().prop_map(|has_endpoint| Wish::Undelivered { has_endpoint }),
        2 => any::<bool>().prop_map(|now| Wish::Pause { now }),
        3 => Just(Wish::Resume),
        1 => Just(Wish::Cancel),
        2 => proptest::option::of(-1_i32..7).prop_map(|from_step| Wish::Retry { from_step }),
        6 => (verdict, 0_u8..3).prop_map(|((verdict, edits), voter)| Wish::Vote { verdict, voter, edits }),
        4 => (0_i64..200).prop_map(|seconds| Wish::LetTimePass { seconds }),
    ]
}

/// An approval that was asked, how it stands, and who has voted how.
type Asked = (ApprovalId, ApprovalStatus, Vec<(String, Verdict)>);

/// A job's life so far, and what is known of it besides its row.
struct Life<'a> {
    spec: &'a Spec,
    state: JobState,
    now: DateTime<Utc>,
    checkpoints: HashSet<(i32, i32)>,
    approvals: Vec<Asked>,
    /// Who has been asked to decide the approval that was asked last.
    asked: Vec<String>,
}

impl<'a> Life<'a> {
    fn begin(spec: &'a Spec) -> Result<Self, TestCaseError> {
        let nothing = JobState::new(spec.step_count(), start());
        let (checkpoints, approvals) = (HashSet::new(), Vec::new());
        let (state, now, asked) = (nothing.clone(), start(), Vec::new());
        let mut life = Self { spec, state, now, checkpoints, approvals, asked };
        life.take(&nothing, submit(spec, "client", start()))?;
        Ok(life)
    }

    fn lease(&self) -> Lease {
        Lease {
            executor_id: self.state.executor_id.unwrap_or(ExecutorId(Uuid::nil())),
            epoch: self.state.epoch,
            attempt_id: self.state.attempt_id.unwrap_or(AttemptId(Uuid::nil())),
        }
    }

    fn action(&self, wish: &Wish) -> Option<Action> {
        let lease = self.lease();
        Some(match wish.clone() {
            Wish::Claim => {
                Action::Claim { executor_id: ExecutorId::new(), attempt_id: AttemptId::new() }
            }
            Wish::Finish { straight_on } => Action::Finish {
                lease,
                result: Box::new(result()),
                next_attempt: straight_on.then(AttemptId::new),
            },
            Wish::StaleFinish => Action::Finish {
                lease: Lease { epoch: lease.epoch - 1, ..lease },
                result: Box::new(result()),
                next_attempt: None,
            },
            Wish::Delay { after_seconds } => Action::Delay {
                lease,
                failure: failure(Reason::ProviderUnavailable, self.now),
                after: (after_seconds > 0).then(|| Duration::from_secs(after_seconds)),
                jitter: 0.5,
            },
            Wish::Fail => {
                Action::Fail { lease, failure: failure(Reason::ProviderRejected, self.now) }
            }
            Wish::Batch => Action::Batch { lease },
            Wish::Starve => Action::Starve { lease, failure: failure(Reason::Budget, self.now) },
            Wish::PutOff => Action::PutOff {
                lease,
                failure: failure(Reason::DailyBudget, self.now),
                until: self.now + TimeDelta::seconds(60),
                tell: vec![OPERATOR.to_owned()],
            },
            Wish::Release => Action::Release { lease },
            Wish::Lose => Action::Lose { lease },
            Wish::Due => Action::Due,
            Wish::Expire { delivered } => Action::Expire { delivered },
            Wish::Remind => {
                let (_, _, cast) = self.approvals.last()?;
                let spared = cast.iter().map(|(voter, _)| voter.clone()).collect();
                // Endpoints of the job have no links, so that nobody finds them among those who were asked.
                let people = self.asked.iter().filter(|one| find_endpoint(one).is_none());
                let people = people.cloned().collect();
                Action::Remind { asked: remind::Asked { people, spared } }
            }
            Wish::Undelivered { has_endpoint } => {
                let lost = Undelivered {
                    recipient: self.asked.first()?.clone(),
                    kind: NoticeKind::ApprovalRequested,
                    error: "gone".to_owned(),
                    instead: has_endpoint.then(|| "spare".to_owned()),
                };
                Action::Undelivered { lost, asked: self.asked.clone(), is_missed: true }
            }
            Wish::Pause { now } => Action::Pause { now },
            Wish::Resume => Action::Resume { budget_usd: None },
            Wish::Cancel => Action::Cancel { comment: String::new() },
            Wish::Retry { from_step } => Action::Retry { from_step },
            Wish::Vote { verdict, voter, edits } => self.ballot(verdict, voter, edits)?,
            Wish::LetTimePass { .. } => return None,
        })
    }

    fn ballot(&self, verdict: Verdict, nth: u8, edits: bool) -> Option<Action> {
        let (approval_id, status, cast) = self.approvals.last()?.clone();
        let voter = format!("+1555010{nth}");
        let (door, comment) = (Door::Link, String::new());
        let sent_back = |(_, status, _): &&Asked| *status == ApprovalStatus::ChangesRequested;
        let revisions = self.approvals.iter().filter(sent_back).count();
        Some(Action::Vote(Ballot {
            via: None,
            edited_output: edits.then(|| "e".to_owned()),
            shown: Some(Box::new(result())),
            revisions: i32::try_from(revisions).expect("a life is short"),
            has_edited: false,
            approval_id,
            status,
            votes: cast,
            verdict,
            voter,
            door,
            comment,
        }))
    }

    fn live(&mut self, wish: &Wish) -> Result<(), TestCaseError> {
        if let Wish::LetTimePass { seconds } = wish {
            self.now += TimeDelta::seconds(*seconds);
        }
        let Some(action) = self.action(wish) else { return Ok(()) };
        let before = self.state.clone();
        match next(&before, self.spec, action.clone(), "actor", self.now) {
            Ok(None) => {}
            Ok(Some(transition)) => {
                prop_assert!(may_move(&before, &action), "{action:?} moved {before:?}");
                self.take(&before, transition)?;
                self.repeat(wish)?;
            }
            Err(refusal) => {
                let lost = refusal == Refusal::LeaseLost;
                let by_lease = matches!(
                    action,
                    Action::Finish { .. }
                        | Action::Delay { .. }
                        | Action::Fail { .. }
                        | Action::Starve { .. }
                        | Action::Batch { .. }
                        | Action::PutOff { .. }
                        | Action::Release { .. }
                        | Action::Lose { .. }
                );
                prop_assert_eq!(lost, by_lease, "{:?} of {:?}", action, before);
            }
        }
        Ok(())
    }

    fn take(&mut self, before: &JobState, transition: Transition) -> Result<(), TestCaseError> {
        let after = &transition.state;
        check_row(after, self.spec)?;
        check_history(before, &transition)?;
        check_notices(&transition, self.spec)?;
        check_silence(&transition)?;
        prop_assert!(after.epoch >= before.epoch && after.revision >= before.revision);
        // What is decided without the lock is written only where these are as they were read.
        let version = |state: &JobState| (state.epoch, state.last_sequence, state.run_at);
        prop_assert!(version(after) != version(before), "a change that a reader could miss");
        for checkpoint in &transition.checkpoints {
            let key = (checkpoint.step, checkpoint.revision);
            prop_assert!(self.checkpoints.insert(key), "step {key:?} was checkpointed twice");
        }
        if let Some((_, asked, _)) = &transition.asked {
            self.approvals.push((asked.approval_id, ApprovalStatus::Pending, Vec::new()));
            self.asked.clear();
        }
        for told in &transition.notices {
            if told.kind.asks() {
                prop_assert_eq!(told.approval_id, after.approval_id, "asked of what is not open");
            }
            if matches!(told.kind, NoticeKind::ApprovalRequested | NoticeKind::ApprovalEscalated) {
                let person = &told.recipient;
                let is_new = find_endpoint(person).is_some() || !self.asked.contains(person);
                prop_assert!(is_new, "{person} was asked twice");
                self.asked.push(person.clone());
            }
        }
        if let Some((approval_id, decision)) = &transition.vote {
            let is_over = before.deadline_at.is_some_and(|deadline_at| deadline_at <= self.now)
                || before.left_ms == Some(0);
            prop_assert!(!is_over || decision.door == Door::Timeout, "a vote after the deadline");
            let found = self.approvals.iter_mut().find(|(id, _, _)| id == approval_id);
            let (_, _, votes) = found.expect("a vote is cast for an approval that was asked");
            prop_assert!(votes.iter().all(|(voter, _)| *voter != decision.voter), "voted twice");
            votes.push((decision.voter.clone(), decision.verdict));
        }
        if let Some((approval_id, status)) = transition.closed {
            let found = self.approvals.iter_mut().find(|(id, _, _)| *id == approval_id);
            let (_, was, _) = found.expect("what is closed was asked");
            prop_assert_eq!(*was, ApprovalStatus::Pending, "one outcome per approval");
            *was = status;
        }
        let open = |(id, status, _): &Asked| {
            (*status == ApprovalStatus::Pending) == (after.approval_id == Some(*id))
        };
        prop_assert!(self.approvals.iter().all(open), "the row and the approvals disagree");
        self.state = transition.state;
        Ok(())
    }

    /// A control action that has taken effect changes nothing when it is repeated, and is not refused.
    fn repeat(&self, wish: &Wish) -> Result<(), TestCaseError> {
        let idempotent =
            matches!(wish, Wish::Pause { .. } | Wish::Resume | Wish::Cancel | Wish::Vote { .. });
        if !idempotent || (matches!(wish, Wish::Resume) && self.state.status.is_terminal()) {
            return Ok(());
        }
        // The same vote is meant for the same approval, even where another was asked by it.
        let action = match (self.action(wish), wish) {
            (Some(Action::Vote(ballot)), Wish::Vote { .. }) => {
                let cast =
                    |votes: &[(String, Verdict)]| votes.iter().any(|(who, _)| *who == ballot.voter);
                let asked = self.approvals.iter().rev().find(|(_, _, votes)| cast(votes));
                let (approval_id, status, votes) = asked.expect("the vote was cast").clone();
                Action::Vote(Ballot { approval_id, status, votes, ..ballot })
            }
            (Some(action), _) => action,
            (None, _) => return Ok(()),
        };
        // Pausing a running job twice is one request; only `now` does more, and has done it.
        let again = next(&self.state, self.spec, action, "actor", self.now);
        prop_assert!(matches!(again, Ok(None)), "{wish:?} again: {again:?}");
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(400) })]

    #[test]
    fn the_laws_hold_in_every_life(spec in specs(), wishes in proptest::collection::vec(wishes(), 0..60)) {
        let mut life = Life::begin(&spec)?;
        for wish in &wishes {
            life.live(wish)?;
        }
    }

    #[test]
    fn every_life_that_is_helped_along_ends(spec in specs()) {
        let mut life = Life::begin(&spec)?;
        for _ in 0..40 {
            life.live(&Wish::LetTimePass { seconds: 61 })?;
            for wish in [
                Wish::Due,
                Wish::Claim,
                Wish::Finish { straight_on: true },
                Wish::Vote { verdict: Verdict::Approve, voter: 0, edits: false },
                Wish::Vote { verdict: Verdict::Approve, voter: 1, edits: false },
                Wish::Expire { delivered: false },
            ] {
                life.live(&wish)?;
            }
        }
        prop_assert!(life.state.status.is_terminal(), "stuck at {:?}", life.state);
    }
}
