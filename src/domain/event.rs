//! Events: the history of a job, one line each, numbered from 1 without gaps.
//!
//! Each carries the status and reason of the job after it, so that nobody has to fold the history to know the present.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use super::approval::{Door, Verdict};
use super::id::ApprovalId;
use super::job::{Failure, Reason, Status};
use super::word::Word;

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EventKind {
    /// The job was stored.
    JobSubmitted,
    /// An executor began an attempt at a step.
    StepStarted,
    /// A step's checkpoint was stored.
    StepFinished,
    /// A wait step began.
    StepWaiting,
    /// An attempt ended with an error that passes by itself.
    StepDelayed,
    /// An attempt's question waits to be answered in a batch.
    StepBatched,
    /// An attempt's executor died.
    AttemptLost,
    /// An attempt was given back by its executor, or aborted by a pause.
    AttemptReleased,
    /// People were asked.
    ApprovalRequested,
    /// One of them decided.
    ApprovalDecided,
    /// Those who have not decided were reminded.
    ApprovalReminded,
    /// More people were asked.
    ApprovalEscalated,
    /// A request for a decision could not be delivered.
    NoticeFailed,
    /// Nobody decided in time.
    ApprovalExpired,
    /// A pause was asked for while an attempt was in hand.
    PauseRequested,
    /// The job was paused.
    JobPaused,
    /// The job goes on.
    JobResumed,
    /// The job begins again.
    JobRetried,
    /// Every step is done.
    JobCompleted,
    /// The job ended in a step that failed.
    JobFailed,
    /// The job was ended by a person.
    JobCancelled,
}

impl Word for EventKind {}

/// One line of a job's history.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Event {
    /// Its number, from 1.
    pub sequence: i32,
    /// When it happened.
    pub occurred_at: DateTime<Utc>,
    /// What happened.
    pub kind: EventKind,
    /// The job's status after it.
    pub status: Status,
    /// The job's reason after it.
    pub reason: Option<Reason>,
    /// The step it concerns; 0 if none.
    pub step: i32,
    /// The revision of the job.
    pub revision: i32,
    /// Which attempt at the step; 0 if none.
    pub attempt: i32,
    /// Who did it.
    pub actor: String,
    /// One line to read.
    pub message: String,
    /// More of it.
    pub detail: Option<Detail>,
}

/// What some events carry beside their line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Detail {
    /// The approval that was requested.
    ApprovalRequested(Asked),
    /// The vote.
    Decision(Decision),
    /// The error.
    Failure(Failure),
    /// The request that reached nobody.
    Notice(Undelivered),
}

/// A request for a decision that could not be delivered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Undelivered {
    /// Whom it was for, unmasked.
    pub recipient: String,
    /// What it told.
    pub kind: NoticeKind,
    /// Why, in words.
    pub error: String,
    /// The endpoint that is asked in their place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instead: Option<String>,
}

/// A request for a decision.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Asked {
    /// Its id.
    pub approval_id: ApprovalId,
    /// What is asked.
    pub note: String,
    /// How many must approve.
    pub quorum: i32,
    /// When it expires.
    pub deadline_at: DateTime<Utc>,
}

/// One vote.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Decision {
    /// What was decided.
    pub verdict: Verdict,
    /// Who decided: an approver's number or the name the caller gave, unmasked.
    pub voter: String,
    /// The way it came in.
    #[serde(flatten, with = "stored_door")]
    pub door: Door,
    /// What they said.
    pub comment: String,
    /// Whether they edited what was shown to them.
    #[serde(default, skip_serializing_if = "is_false")]
    pub edited: bool,
    /// Through which link (by its hash), from which number or id, or by which caller in the voter's name.
    /// Kept for whoever examines it; only the last is ever shown, in the words of the event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub via: Option<String>,
    /// When.
    pub decided_at: DateTime<Utc>,
}

impl Decision {
    /// Who said it in the name of the voter, if somebody did.
    pub fn stand_in(&self) -> Option<&str> {
        match self.door {
            Door::Grpc | Door::Webhook => self.via.as_deref(),
            Door::Link | Door::Button | Door::Reply | Door::Timeout => None,
        }
    }
}

/// How a door is stored: the release before cannot read one that it does not know, so a message is a link to it.
mod stored_door {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use super::Door;

    #[derive(Serialize, Deserialize)]
    struct Stored {
        door: Door,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        came_by: Option<Door>,
    }

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
    pub(super) fn serialize<S: Serializer>(door: &Door, serializer: S) -> Result<S::Ok, S::Error> {
        let stored = match door {
            Door::Button | Door::Reply => Stored { door: Door::Link, came_by: Some(*door) },
            Door::Link | Door::Grpc | Door::Webhook | Door::Timeout => {
                Stored { door: *door, came_by: None }
            }
        };
        stored.serialize(serializer)
    }

    pub(super) fn deserialize<'d, D: Deserializer<'d>>(deserializer: D) -> Result<Door, D::Error> {
        let Stored { door, came_by } = Stored::deserialize(deserializer)?;
        Ok(came_by.unwrap_or(door))
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_false(value: &bool) -> bool {
    !value
}

/// What a notice tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NoticeKind {
    /// A decision is asked for.
    ApprovalRequested,
    /// It is still asked for.
    ApprovalReminder,
    /// It is asked for because others have not given it.
    ApprovalEscalated,
    /// The job has completed.
    Completed,
    /// The job has failed.
    Failed,
    /// The job was cancelled.
    Cancelled,
    /// The job stands still until its budget is raised.
    OutOfBudget,
    /// The day's budget of all servers does not cover the next call; this is told to the operators, once a day.
    DailyBudget,
    /// Somebody decided; only endpoints are told.
    ApprovalDecided,
    /// Nobody decided in time; only endpoints are told.
    ApprovalExpired,
    /// The job is held; only endpoints are told.
    Paused,
    /// Somebody could not be told; only endpoints are told.
    NoticeFailed,
}

impl Word for NoticeKind {}

impl NoticeKind {
    /// Whether it asks for a decision, and so has links and may be sent again where it may be lost.
    pub fn asks(self) -> bool {
        match self {
            Self::ApprovalRequested | Self::ApprovalReminder | Self::ApprovalEscalated => true,
            Self::Completed
            | Self::Failed
            | Self::Cancelled
            | Self::OutOfBudget
            | Self::DailyBudget
            | Self::ApprovalDecided
            | Self::ApprovalExpired
            | Self::Paused
            | Self::NoticeFailed => false,
        }
    }
    /// What an endpoint can be told of.
    pub const FOR_ENDPOINTS: [Self; 9] = [
        Self::ApprovalRequested,
        Self::ApprovalDecided,
        Self::ApprovalExpired,
        Self::Completed,
        Self::Failed,
        Self::Cancelled,
        Self::OutOfBudget,
        Self::Paused,
        Self::NoticeFailed,
    ];
    /// What it is told of if its configuration does not say.
    pub const USUAL_FOR_ENDPOINTS: [Self; 4] =
        [Self::ApprovalRequested, Self::Completed, Self::Failed, Self::Cancelled];
}

/// How far a notice has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Delivery {
    /// Waiting to be sent, or to be tried again.
    Pending,
    /// On its way.
    Sending,
    /// The channel took it.
    Sent,
    /// The channel refused it for good.
    Failed,
    /// Overtaken by events before it was sent.
    Superseded,
    /// Whether the channel took it is not known, unless the channel still says.
    Unconfirmed,
    /// It has reached the person's phone.
    Delivered,
    /// The person has seen it.
    Read,
}

impl Word for Delivery {}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn a_door_that_the_release_before_does_not_know_is_a_link_to_it() {
        for (door, stored, came_by) in [
            (Door::Link, "link", Value::Null),
            (Door::Grpc, "grpc", Value::Null),
            (Door::Timeout, "timeout", Value::Null),
            (Door::Button, "link", json!("button")),
            (Door::Reply, "link", json!("reply")),
        ] {
            let decision = Decision {
                verdict: Verdict::Approve,
                voter: "+15550100".to_owned(),
                door,
                comment: String::new(),
                edited: false,
                via: None,
                decided_at: DateTime::UNIX_EPOCH,
            };
            let written = json!(Detail::Decision(decision.clone()));
            let of_decision = &written["decision"];
            assert_eq!((&of_decision["door"], &of_decision["came_by"]), (&json!(stored), &came_by));
            let read: Detail = serde_json::from_value(written).expect("it was written so");
            assert_eq!(read, Detail::Decision(decision));
        }
    }
}
