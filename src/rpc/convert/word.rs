//! The closed enums of the proto and of the domain, which name the same things in the same words.
//!
//! In goes one, out comes the other; both directions are exhaustive, so that neither side can grow alone.
//! A reason is text in the proto: the domain's word in capitals.

use crate::domain::validate::Faults;
use crate::domain::word::Word as _;
use crate::domain::{approval, event, job, spec, submission};
use crate::rpc::proto;
use crate::store::usage;

/// A proto enum that stands for one of the domain's.
pub(super) trait Meaning: TryFrom<i32> {
    /// The domain's enum.
    type Means;

    /// What it stands for; nothing if it is unspecified.
    fn meaning(self) -> Option<Self::Means>;
}

macro_rules! meanings {
    ($($domain:ident :: $name:ident = $proto:ident { $($variant:ident),+ $(,)? })+) => {$(
        impl From<$domain::$name> for proto::$proto {
            fn from(word: $domain::$name) -> Self {
                match word { $($domain::$name::$variant => Self::$variant),+ }
            }
        }

        impl Meaning for proto::$proto {
            type Means = $domain::$name;

            fn meaning(self) -> Option<Self::Means> {
                match self {
                    Self::Unspecified => None,
                    $(Self::$variant => Some($domain::$name::$variant)),+
                }
            }
        }
    )+};
}

meanings! {
    submission::ContextMode = ContextMode { Conversation, None }
    submission::TimeoutPolicy = TimeoutPolicy { Fail, Approve, Reject }
    submission::Effort = Effort { Low, Medium, High, Xhigh, Max }
    submission::RunMode = RunMode { Stream, Batch }
    submission::TruncationPolicy = TruncationPolicy { Fail, Accept, Continue }
    submission::InterruptPolicy = InterruptPolicy { Restart, Continue }
    job::Status = JobStatus {
        Queued, Running, AwaitingApproval, Paused, Completed, Failed, Cancelled,
    }
    job::StepStatus = StepStatus { Pending, Active, Done, Failed }
    approval::Verdict = Verdict { Approve, Reject, RequestChanges }
    approval::Door = Door { Link, Button, Reply, Grpc, Webhook, Timeout }
    event::NoticeKind = NoticeKind {
        ApprovalRequested, ApprovalReminder, ApprovalEscalated, Completed, Failed, Cancelled,
        OutOfBudget, DailyBudget, ApprovalDecided, ApprovalExpired, Paused, NoticeFailed,
    }
    event::Delivery = Delivery {
        Pending, Sending, Sent, Failed, Superseded, Unconfirmed, Delivered, Read,
    }
    event::EventKind = EventKind {
        JobSubmitted, StepStarted, StepFinished, StepWaiting, StepDelayed, AttemptLost,
        AttemptReleased, ApprovalRequested, ApprovalDecided, ApprovalExpired, PauseRequested,
        JobPaused, JobResumed, JobRetried, JobCompleted, JobFailed, JobCancelled,
        StepBatched, ApprovalReminded, ApprovalEscalated, NoticeFailed,
    }
    usage::Grouping = UsageGrouping { Day, Model, Label, Job, None }
}

/// What a number in a request stands for; a number that stands for nothing is a fault.
pub(super) fn read<P: Meaning>(field: &str, number: i32, faults: &mut Faults) -> Option<P::Means> {
    if let Ok(word) = P::try_from(number) {
        return word.meaning();
    }
    faults.add(field, format!("must be a value that this server knows, is {number}"));
    None
}

/// What a step of the specification does.
pub(super) fn step_kind(work: &spec::Work) -> proto::StepKind {
    match work {
        spec::Work::Run(_) => proto::StepKind::Run,
        spec::Work::Approval(_) => proto::StepKind::Approval,
        spec::Work::Wait(_) => proto::StepKind::Wait,
    }
}

/// A reason as the proto writes it; empty if there is none.
pub(super) fn reason(reason: Option<job::Reason>) -> String {
    reason.map(|reason| reason.word().to_ascii_uppercase()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every number of a proto enum goes to the domain and comes back, and its name is the domain's word.
    fn both_ways<P>(prefix: &str, name: impl Fn(&P) -> &'static str)
    where
        P: Meaning + From<P::Means> + Into<i32> + Copy,
        P::Means: crate::domain::word::Word + Copy,
    {
        let mut count = 0;
        for number in 1.. {
            let Ok(word) = P::try_from(number) else { break };
            let meaning = word.meaning().unwrap();
            assert_eq!(P::from(meaning).into(), number);
            let expected = format!("{prefix}_{}", meaning.word().to_ascii_uppercase());
            assert_eq!(name(&word), expected);
            count += 1;
        }
        assert!(count > 1, "{prefix} has values");
        assert!(P::try_from(0).is_ok_and(|word| word.meaning().is_none()));
    }

    #[test]
    fn every_enum_maps_both_ways_without_loss() {
        both_ways("CONTEXT_MODE", proto::ContextMode::as_str_name);
        both_ways("TIMEOUT_POLICY", proto::TimeoutPolicy::as_str_name);
        both_ways("INTERRUPT_POLICY", proto::InterruptPolicy::as_str_name);
        both_ways("JOB_STATUS", proto::JobStatus::as_str_name);
        both_ways("VERDICT", proto::Verdict::as_str_name);
        both_ways("DOOR", proto::Door::as_str_name);
        both_ways("NOTICE_KIND", proto::NoticeKind::as_str_name);
        both_ways("DELIVERY", proto::Delivery::as_str_name);
        both_ways("EVENT_KIND", proto::EventKind::as_str_name);
    }

    #[test]
    fn an_unknown_number_is_a_fault_and_zero_is_none() {
        let mut faults = Faults::default();
        assert!(read::<proto::ContextMode>("a", 0, &mut faults).is_none());
        assert!(faults.into_result().is_ok());
        let mut faults = Faults::default();
        assert!(read::<proto::ContextMode>("steps[0].run.context", 9, &mut faults).is_none());
        assert_eq!(faults.into_result().unwrap_err()[0].field, "steps[0].run.context");
    }

    #[test]
    fn a_reason_is_its_word_in_capitals() {
        assert_eq!(reason(Some(job::Reason::AttemptLost)), "ATTEMPT_LOST");
        assert_eq!(reason(None), "");
    }
}
