//! Control: one action on one job, whichever door it comes through.

use std::time::Duration;

use serde_json::{Value, json};

use super::place::{self, Place};
use super::{Caller, Engine, EngineError, to_its_end};
use crate::domain::approval::Verdict;
use crate::domain::id::{ApprovalId, JobKey, find_job_id_fault};
use crate::domain::money::Usd;
use crate::domain::submission::fingerprint;
use crate::domain::validate::{COMMENT_BYTES_MAX, Faults, check_budget, check_edited, check_voter};
use crate::store::StoreError;
use crate::store::approval::Vote;
use crate::store::control::{By, Request};
use crate::store::job::{ApprovalLink, JobView};
use crate::store::transition::Acted;

/// What is asked of a job.
#[derive(Clone, Debug)]
pub enum Command {
    /// Look, and change nothing.
    Status,
    /// Hold it where it is; `now` aborts the attempt in hand.
    Pause { now: bool },
    /// Let it go on, and cost up to so much if that is said.
    Resume { budget_usd: Option<Usd> },
    /// End it.
    Cancel { comment: String },
    /// Begin again at a step, or where it ended.
    Retry { from_step: Option<i32> },
    /// Decide an approval.
    Decide {
        /// Which; none means the only one the job has asked.
        approval_id: Option<ApprovalId>,
        /// How.
        verdict: Verdict,
        /// What the approver says.
        comment: String,
        /// Who decides, if not the caller.
        on_behalf_of: Option<String>,
        /// What the approver makes of what was shown, if that was edited.
        edited_output: Option<String>,
    },
}

/// How it is asked.
#[derive(Clone, Debug, Default)]
pub(super) struct How {
    /// Under which id of its own.
    pub(super) request_id: Option<String>,
    /// Whether nobody is to be told what it makes of the job.
    pub(super) is_silent: bool,
}

impl Engine {
    /// Does it; answers whether that changed anything, the same for the same id however often it is asked.
    pub async fn control(
        &self,
        key: &JobKey,
        command: Command,
        caller: Caller,
        request_id: Option<String>,
    ) -> Result<bool, EngineError> {
        check(&command, request_id.as_deref())?;
        // To its end also when the client has gone: whoever waits for the change is to be woken.
        let (engine, key) = (self.clone(), key.clone());
        let how = How { request_id, is_silent: false };
        let act = async move { engine.act(&key, command, caller, how).await };
        Ok(to_its_end(act).await?)
    }

    /// Does what has been checked.
    pub(super) async fn act(
        &self,
        key: &JobKey,
        command: Command,
        caller: Caller,
        how: How,
    ) -> Result<bool, StoreError> {
        let (store, actor, is_silent) = (&self.store, &*caller.actor, how.is_silent);
        let request = how.request_id.and_then(|id| command.request(id, is_silent));
        let request = request.as_ref();
        let by = By { actor, request, is_silent };
        let place = command.may_need_an_executor().then(|| self.executor.find_place()).flatten();
        let claimer = place.as_ref().map(Place::executor_id);
        let acted = match command {
            Command::Status => return Ok(false),
            Command::Pause { now } => store.pause(key, now, by).await,
            Command::Resume { budget_usd } => store.resume(key, budget_usd, by, claimer).await,
            Command::Cancel { comment } => store.cancel(key, &comment, by).await,
            Command::Retry { from_step } => store.retry(key, from_step, by, claimer).await,
            Command::Decide { approval_id, verdict, comment, on_behalf_of, edited_output } => {
                let door = caller.door;
                // Who decides in another's name is kept beside it, and the history tells both.
                let via = on_behalf_of.as_deref().and_then(|voter| caller.stands_for(voter));
                let voter = on_behalf_of.unwrap_or_else(|| actor.to_owned());
                let vote = Vote { approval_id, verdict, voter, door, comment, via, edited_output };
                store.decide(key, &vote, request, claimer).await
            }
        };
        let Acted { changed, claimed, .. } = acted?;
        place::take(place, claimed);
        Ok(changed)
    }

    /// Takes the decision of a person with a link; where the job goes on, it may do so here at once.
    pub async fn decide(&self, key: &JobKey, vote: Vote) -> Result<(), StoreError> {
        let (engine, key) = (self.clone(), key.clone());
        // To its end also when the browser has gone: what was claimed for a place must come into it.
        to_its_end(async move {
            let place = engine.executor.find_place();
            let claimer = place.as_ref().map(Place::executor_id);
            let acted = engine.store.decide(&key, &vote, None, claimer).await?;
            place::take(place, acted.claimed);
            Ok(())
        })
        .await
    }

    /// The job as it is; with a wait, as it is when it stands still or has ended, or when the wait is over.
    pub async fn job(
        &self,
        key: &JobKey,
        step: Option<i32>,
        wait: Duration,
    ) -> Result<JobView, EngineError> {
        let until = tokio::time::Instant::now() + wait;
        let mut changes = self.changes(key);
        loop {
            let view = self.store.job(key, step).await?;
            if view.state.status.stands_still() || tokio::time::Instant::now() >= until {
                return Ok(view);
            }
            tokio::select! {
                still = changes.until_it_stands_still(view.state.last_sequence) => still?,
                () = tokio::time::sleep_until(until) => {}
            }
        }
    }

    /// Gives the pending approval, if there is one, a fresh link for each of its approvers.
    pub async fn add_links(&self, key: &JobKey, view: &mut JobView) -> Result<(), EngineError> {
        let Some(approval) = &mut view.approval else { return Ok(()) };
        let minted = self.store.mint_links(key, approval.approval_id).await?;
        let links = minted.into_iter().map(|(approver, token)| ApprovalLink {
            approver,
            url: format!("{}/approvals/{}", self.settings.public_url, token.reveal()),
        });
        approval.links = links.collect();
        Ok(())
    }
}

impl Command {
    /// Whether the job may be an executor's after it.
    fn may_need_an_executor(&self) -> bool {
        match self {
            Self::Resume { .. } | Self::Retry { .. } | Self::Decide { .. } => true,
            Self::Status | Self::Pause { .. } | Self::Cancel { .. } => false,
        }
    }

    /// What is asked, in the form in which it is compared; looking is the same every time.
    ///
    /// The door is no part of it: a client may repeat through the other one.
    fn request(&self, request_id: String, is_silent: bool) -> Option<Request> {
        // What is not said is not written, so that a field that comes later changes no fingerprint of before.
        let (action, asked) = match self {
            Self::Status => return None,
            Self::Pause { now } => ("pause", json!({"now": now})),
            Self::Resume { budget_usd } => ("resume", json!({"budget_usd": budget_usd})),
            Self::Cancel { comment } => ("cancel", json!({"comment": comment})),
            Self::Retry { from_step } => ("retry", json!({"from_step": from_step})),
            Self::Decide { approval_id, verdict, comment, on_behalf_of, edited_output } => {
                let asked = json!({"approval_id": approval_id, "comment": comment, "on_behalf_of": on_behalf_of,
                    "edited_output": edited_output});
                (verb(*verdict), asked)
            }
        };
        let Value::Object(mut asked) = asked else { unreachable!("each of these is an object") };
        asked.insert("silent".to_owned(), json!(is_silent));
        asked.retain(|_, value| ![json!(null), json!(false), json!("")].contains(value));
        let fingerprint = fingerprint(&json!({"action": action, "asked": asked}));
        Some(Request { request_id, action, fingerprint })
    }
}

fn check(command: &Command, request_id: Option<&str>) -> Result<(), EngineError> {
    let mut faults = Faults::default();
    find_faults(command, request_id, &mut faults);
    faults.into_result().map_err(EngineError::Invalid)
}

/// Adds what is wrong with an action, whatever the job.
pub(super) fn find_faults(command: &Command, request_id: Option<&str>, faults: &mut Faults) {
    if let Some(fault) = request_id.and_then(find_job_id_fault) {
        faults.add("request_id", fault);
    }
    match command {
        Command::Cancel { comment } => {
            faults.check_text("cancel.comment", comment, COMMENT_BYTES_MAX);
        }
        Command::Decide { comment, verdict, on_behalf_of, edited_output, .. } => {
            let action = verb(*verdict);
            if *verdict == Verdict::RequestChanges && comment.trim().is_empty() {
                faults.add(format!("{action}.comment"), "must say what is to be changed");
            }
            if let Some(edited) = edited_output {
                check_edited(&format!("{action}.edited_output"), edited, faults);
            }
            faults.check_text(&format!("{action}.comment"), comment, COMMENT_BYTES_MAX);
            let voter = on_behalf_of.as_deref().unwrap_or_default();
            check_voter(&format!("{action}.on_behalf_of"), voter, faults);
        }
        Command::Resume { budget_usd } => {
            check_budget("resume.budget_usd", *budget_usd, faults);
        }
        Command::Status | Command::Pause { .. } | Command::Retry { .. } => {}
    }
}

fn verb(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Approve => "approve",
        Verdict::Reject => "reject",
        Verdict::RequestChanges => "request_changes",
    }
}
