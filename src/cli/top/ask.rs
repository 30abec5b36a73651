//! What a person can do to a job, and what is asked before it is done.
//!
//! In come a key and the job that is selected; out goes a question, or why there is none to ask; and, once it was
//! answered with yes, the call.
//! The question holds what was asked about, the approval too: what is selected meanwhile does not matter.

use crate::{
    cli::word,
    rpc::proto::{
        ApproveAction, CancelAction, ControlRequest, Job, JobStatus, PauseAction, RejectAction,
        ResumeAction, RetryAction, control_request::Action,
    },
};

/// What can be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// Hold it.
    Pause,
    /// Let it go on.
    Resume,
    /// End it.
    Cancel,
    /// Decide: go on.
    Approve,
    /// Decide: end it.
    Reject,
    /// Begin it again.
    Retry,
}

/// A question with an answer of yes or no.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ask {
    /// What is to be done.
    pub act: Act,
    /// To which job.
    pub job_id: String,
    /// What the approval asks, where one is decided.
    pub note: String,
    approval_id: String,
}

impl Act {
    /// What a key stands for.
    pub fn of_key(key: char) -> Option<Self> {
        match key {
            'p' => Some(Self::Pause),
            'r' => Some(Self::Resume),
            'c' => Some(Self::Cancel),
            'a' => Some(Self::Approve),
            'x' => Some(Self::Reject),
            't' => Some(Self::Retry),
            _ => None,
        }
    }

    /// Whether it decides what a job asks.
    pub fn decides(self) -> bool {
        matches!(self, Self::Approve | Self::Reject)
    }

    /// What it does, and what it has then done.
    pub fn in_words(self) -> (&'static str, &'static str) {
        match self {
            Self::Pause => ("pause", "paused"),
            Self::Resume => ("resume", "resumed"),
            Self::Cancel => ("cancel", "cancelled"),
            Self::Approve => ("approve", "approved"),
            Self::Reject => ("reject", "rejected"),
            Self::Retry => ("retry", "begun again"),
        }
    }

    /// Whether there is anything to do to a job that stands like this.
    fn suits(self, job: &Job) -> bool {
        let status = job.status();
        let has_ended =
            matches!(status, JobStatus::Completed | JobStatus::Failed | JobStatus::Cancelled);
        match self {
            Self::Pause => !has_ended && status != JobStatus::Paused,
            Self::Resume => status == JobStatus::Paused || job.pause_requested,
            Self::Cancel => !has_ended,
            Self::Approve | Self::Reject => status == JobStatus::AwaitingApproval,
            Self::Retry => matches!(status, JobStatus::Failed | JobStatus::Cancelled),
        }
    }
}

impl Ask {
    /// The question, or why there is nothing to ask.
    pub fn about(act: Act, job: &Job) -> Result<Self, String> {
        if !act.suits(job) {
            let (does, _) = act.in_words();
            let stands = word::job_status(job.status).replace('_', " ");
            return Err(format!("{} is {stands}: there is nothing to {does}", job.job_id));
        }
        let approval = job.approval.as_ref();
        let approval = approval.filter(|_| act.decides());
        Ok(Self {
            act,
            job_id: job.job_id.clone(),
            note: approval.map_or_else(String::new, |approval| approval.note.clone()),
            approval_id: approval.map_or_else(String::new, |approval| approval.approval_id.clone()),
        })
    }

    /// The call that does it.
    pub fn request(&self) -> ControlRequest {
        let approval_id = self.approval_id.clone();
        let action = match self.act {
            Act::Pause => Action::Pause(PauseAction::default()),
            Act::Resume => Action::Resume(ResumeAction::default()),
            Act::Cancel => Action::Cancel(CancelAction::default()),
            Act::Approve => {
                Action::Approve(ApproveAction { approval_id, ..ApproveAction::default() })
            }
            Act::Reject => Action::Reject(RejectAction { approval_id, ..RejectAction::default() }),
            Act::Retry => Action::Retry(RetryAction::default()),
        };
        let job_id = self.job_id.clone();
        ControlRequest { job_id, action: Some(action), ..ControlRequest::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rpc::proto::Approval;

    #[test]
    fn a_decision_names_the_approval_that_was_shown() {
        let approval = Approval {
            approval_id: "0193".to_owned(),
            note: "May it go out?".to_owned(),
            ..Approval::default()
        };
        let job = Job {
            job_id: "a".to_owned(),
            status: JobStatus::AwaitingApproval.into(),
            approval: Some(approval),
            ..Job::default()
        };
        let ask = Ask::about(Act::Approve, &job).expect("it can be approved");
        assert_eq!(ask.note, "May it go out?");
        let Some(Action::Approve(approve)) = ask.request().action else { panic!("{ask:?}") };
        assert_eq!(approve.approval_id, "0193");
        assert_eq!(Ask::about(Act::Cancel, &job).expect("it can be").note, "");
    }

    #[test]
    fn what_makes_no_sense_is_not_asked() {
        let of = |status: JobStatus| Job {
            job_id: "a".to_owned(),
            status: status.into(),
            ..Job::default()
        };
        let able = |act: Act, status| Ask::about(act, &of(status)).is_ok();
        assert!(able(Act::Pause, JobStatus::Queued) && !able(Act::Pause, JobStatus::Paused));
        assert!(able(Act::Resume, JobStatus::Paused) && !able(Act::Resume, JobStatus::Queued));
        assert!(able(Act::Cancel, JobStatus::Paused) && !able(Act::Cancel, JobStatus::Failed));
        assert!(able(Act::Retry, JobStatus::Failed) && !able(Act::Retry, JobStatus::Completed));
        assert!(!able(Act::Approve, JobStatus::Running));
        assert_eq!(
            Ask::about(Act::Pause, &of(JobStatus::Completed)),
            Err("a is completed: there is nothing to pause".to_owned())
        );
    }
}
