//! A transition in the making: the row as it becomes, and all that is stored with it.
//!
//! The verbs of the other files are made of these: tell, checkpoint, start, let go, end.

use chrono::{DateTime, Utc};

use super::approval::ApprovalStatus;
use super::book::endpoint_recipient;
use super::event::{Detail, Event, EventKind, NoticeKind};
use super::id::{AttemptId, ExecutorId};
use super::job::{Failure, JobState, Lease, Reason, Status, StepResult};
use super::spec::{ApprovalSpec, Spec, Work};
use super::state::{Checkpoint, Refusal, Told, Transition};

/// Whether anything changed, or why it may not.
pub(super) type Moved = Result<bool, Refusal>;

/// A transition in the making.
pub(super) struct Turn<'a> {
    pub(super) spec: &'a Spec,
    pub(super) actor: &'a str,
    pub(super) now: DateTime<Utc>,
    pub(super) state: JobState,
    pub(super) out: Transition,
}

impl<'a> Turn<'a> {
    pub(super) fn new(state: JobState, spec: &'a Spec, actor: &'a str, now: DateTime<Utc>) -> Self {
        // A statement that waited for a lock began earlier than what it waited for; time must not run backwards.
        let now = now.max(state.updated_at);
        let out = Transition::still(state.clone());
        Self { spec, actor, now, state, out }
    }

    /// Adds an event about a step, or about none if that is 0.
    pub(super) fn tell(&mut self, kind: EventKind, step: i32, message: String) {
        self.state.last_sequence += 1;
        let attempt = if step == self.state.current_step { self.state.attempt } else { 0 };
        self.out.events.push(Event {
            sequence: self.state.last_sequence,
            occurred_at: self.now,
            kind,
            status: self.state.status,
            reason: self.state.reason,
            step,
            revision: self.state.revision,
            attempt,
            actor: self.actor.to_owned(),
            message,
            detail: None,
        });
    }

    /// Adds an event about the current step.
    pub(super) fn tell_step(&mut self, kind: EventKind, what: &str) {
        let (step, count) = (self.state.current_step, self.state.step_count);
        self.tell(kind, step, format!("step {step} of {count} {what}"));
    }

    /// Adds to the event just told.
    pub(super) fn add_detail(&mut self, detail: Detail) {
        if let Some(event) = self.out.events.last_mut() {
            event.detail = Some(detail);
        }
    }

    /// Stores the current step as finished.
    pub(super) fn checkpoint(&mut self, attempt_id: Option<AttemptId>, result: Option<StepResult>) {
        self.out.checkpoints.push(Checkpoint {
            step: self.state.current_step,
            revision: self.state.revision,
            attempt_id,
            result,
            started_at: self.state.step_started_at.unwrap_or(self.now),
            finished_at: self.now,
        });
    }

    /// Begins an attempt at the current step.
    pub(super) fn start(&mut self, executor_id: ExecutorId, attempt_id: AttemptId) {
        self.state.status = Status::Running;
        self.state.reason = None;
        self.state.executor_id = Some(executor_id);
        self.state.attempt_id = Some(attempt_id);
        self.state.attempt += 1;
        self.state.step_started_at.get_or_insert(self.now);
        let attempt = self.state.attempt;
        let again = if attempt > 1 { format!(", attempt {attempt}") } else { String::new() };
        self.tell_step(EventKind::StepStarted, &format!("started{again}"));
    }

    /// Takes the job out of its executor's hands.
    pub(super) fn let_go(&mut self) {
        self.state.executor_id = None;
        self.state.attempt_id = None;
    }

    /// Puts the job before a step of which nothing has been done yet.
    pub(super) fn stand_before(&mut self, step: i32) {
        self.state.current_step = step;
        self.state.attempt = 0;
        self.state.attempts = 0;
        self.state.first_error_at = None;
        self.state.last_error = None;
        self.state.step_started_at = None;
        self.state.run_at = None;
        self.state.reason = None;
    }

    /// Ends the job, tells its people, and closes what was pending.
    pub(super) fn end(&mut self, status: Status, reason: Option<Reason>, message: String) {
        self.let_go();
        self.state.status = status;
        self.state.reason = reason;
        self.state.run_at = None;
        self.state.pause_requested = false;
        self.state.paused_from = None;
        self.state.kept_verdict = None;
        self.state.finished_at = Some(self.now);
        self.close_approval(ApprovalStatus::Withdrawn);
        let (event, notice) = match status {
            Status::Completed => (EventKind::JobCompleted, NoticeKind::Completed),
            Status::Failed => (EventKind::JobFailed, NoticeKind::Failed),
            Status::Cancelled => (EventKind::JobCancelled, NoticeKind::Cancelled),
            Status::Queued | Status::Running | Status::AwaitingApproval | Status::Paused => {
                unreachable!("a job ends in a terminal status")
            }
        };
        // Without an approval and without an end before this one, nobody was to be told anything yet.
        self.out.supersedes_notices = self.state.approvals_asked > 0 || self.state.revision > 1;
        self.tell(event, 0, message);
        self.notify(notice);
    }

    /// Has the job's people told what the last event says.
    pub(super) fn notify(&mut self, notice: NoticeKind) {
        self.tell_people(notice, self.spec.notify.clone());
        self.announce(notice);
    }

    /// Has these people told what the last event says.
    pub(super) fn tell_people(&mut self, kind: NoticeKind, people: Vec<String>) {
        for person in people {
            let told = match self.spec.at_endpoints.get(&person) {
                Some(endpoint) => self.notice(kind, endpoint_recipient(endpoint)),
                None => self.notice(kind, person),
            };
            self.add_notice(told);
        }
    }

    /// Has these people asked to decide the pending approval.
    pub(super) fn ask_people(&mut self, kind: NoticeKind, people: Vec<String>) {
        for person in people {
            if let Some(endpoint) = self.spec.at_endpoints.get(&person) {
                self.ask_at_endpoint(kind, endpoint, person);
            } else {
                let told = self.notice(kind, person);
                self.add_notice(told);
            }
        }
    }

    /// Has an endpoint asked in the name of an approver.
    pub(super) fn ask_at_endpoint(&mut self, kind: NoticeKind, endpoint: &str, approver: String) {
        let told = self.notice(kind, endpoint_recipient(endpoint));
        self.add_notice(Told { approvers: vec![approver], ..told });
    }

    /// Has the endpoints told what the last event says, those that want to know.
    pub(super) fn announce(&mut self, kind: NoticeKind) {
        for hook in self.spec.webhooks.iter().filter(|hook| hook.events.contains(&kind)) {
            let told = self.notice(kind, endpoint_recipient(&hook.name));
            self.add_notice(told);
        }
    }

    fn notice(&self, kind: NoticeKind, recipient: String) -> Told {
        Told {
            sequence: self.state.last_sequence,
            kind,
            recipient,
            approval_id: self.state.approval_id.filter(|_| kind.asks()),
            approvers: Vec::new(),
        }
    }

    /// Whoever is to be told of an event for several reasons is told once.
    fn add_notice(&mut self, told: Told) {
        let same =
            |one: &&mut Told| one.sequence == told.sequence && one.recipient == told.recipient;
        match self.out.notices.iter_mut().rev().find(same) {
            None => self.out.notices.push(told),
            // It has the links of everybody already.
            Some(before) if before.approvers.is_empty() => {}
            Some(before) if told.approvers.is_empty() => before.approvers.clear(),
            Some(before) => before.approvers.extend(told.approvers),
        }
    }

    /// Ends the job because of an error.
    pub(super) fn fail(&mut self, failure: Failure) {
        let (step, count) = (self.state.current_step, self.state.step_count);
        let message = format!("failed in step {step} of {count}: {}", failure.message);
        self.state.last_error = Some(failure.clone());
        self.end(Status::Failed, Some(failure.reason), message);
        self.add_detail(Detail::Failure(failure));
    }

    /// Closes the pending approval, if there is one.
    pub(super) fn close_approval(&mut self, status: ApprovalStatus) {
        if let Some(approval_id) = self.state.approval_id.take() {
            self.out.closed = Some((approval_id, status));
            self.out.supersedes_notices = true;
            self.state.run_at = None;
        }
        self.state.votes = 0;
        self.state.deadline_at = None;
        self.state.left_ms = None;
    }

    /// The current step, if it is an approval step.
    pub(super) fn approval_spec(&self) -> Option<&'a ApprovalSpec> {
        match self.spec.find_step(self.state.current_step).map(|step| &step.work) {
            Some(Work::Approval(approval)) => Some(approval),
            Some(Work::Run(_) | Work::Wait(_)) | None => None,
        }
    }

    /// The refusal that names the present status.
    pub(super) fn conflict(&self) -> Refusal {
        Refusal::Conflict { status: self.state.status }
    }

    pub(super) fn demand(&self, lease: &Lease) -> Result<(), Refusal> {
        if self.state.is_held_by(lease) { Ok(()) } else { Err(Refusal::LeaseLost) }
    }

    /// The last event tells how the job stands; where nothing was told, the reason stays what the last one told.
    pub(super) fn close(mut self, before: &JobState) -> Transition {
        self.state.updated_at = self.now;
        match self.out.events.last_mut() {
            Some(last) => {
                last.status = self.state.status;
                last.reason = self.state.reason;
            }
            None => self.state.reason = before.reason,
        }
        self.out.state = self.state;
        self.out
    }
}

/// A noun in the number that fits.
pub(super) fn plural(count: i32, noun: &str) -> String {
    if count == 1 { noun.to_owned() } else { format!("{noun}s") }
}
