//! The outline of a job: what the webhooks show of it to who may move it and not read it.
//!
//! In goes the whole job as JSON has it, out comes as much of it as the caller may see.
//! Of an outline the other fields are absent, since an empty one would say something else.

use serde::Serialize;

use super::json::{Job, Time};
use crate::domain::id::ApprovalId;
use crate::domain::job::Status;
use crate::domain::key::Scope;
use crate::door::Authority;

/// How much of a job a caller may see.
#[derive(Clone, Copy, Debug)]
pub(super) enum Sight {
    /// How it stands, and nothing of what it says.
    Outline,
    /// Everything, with people's numbers masked.
    Masked,
    /// Everything.
    Whole,
}

impl Sight {
    /// That of who calls.
    pub(super) fn of(authority: &Authority) -> Self {
        match (authority.allows(Scope::Read), authority.sees_numbers()) {
            (false, _) => Self::Outline,
            (true, false) => Self::Masked,
            (true, true) => Self::Whole,
        }
    }
}

/// A job as far as it is shown.
#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum Shown<'a> {
    /// How it stands.
    Outline(Outline<'a>),
    /// Everything.
    Whole(Box<Job<'a>>),
}

impl<'a> Shown<'a> {
    /// As much of a job as this lets see.
    pub(super) fn new(job: Job<'a>, sight: Sight) -> Self {
        match sight {
            Sight::Outline => Self::Outline(Outline::new(job)),
            Sight::Masked | Sight::Whole => Self::Whole(Box::new(job)),
        }
    }
}

/// How a job stands.
#[derive(Serialize)]
pub(super) struct Outline<'a> {
    job_id: &'a str,
    status: Status,
    reason: String,
    status_message: String,
    current_step: i32,
    step_count: i32,
    approval: Option<Pending>,
    run_at: Option<Time>,
    last_sequence: i32,
    created_at: Option<Time>,
    updated_at: Option<Time>,
    finished_at: Option<Time>,
}

#[derive(Serialize)]
struct Pending {
    approval_id: ApprovalId,
}

impl<'a> Outline<'a> {
    fn new(job: Job<'a>) -> Self {
        Self {
            job_id: job.job_id,
            status: job.status,
            reason: job.reason,
            status_message: job.status_message,
            current_step: job.current_step,
            step_count: job.step_count,
            approval: job.approval.map(|one| Pending { approval_id: one.approval_id }),
            run_at: job.run_at,
            last_sequence: job.last_sequence,
            created_at: job.created_at,
            updated_at: job.updated_at,
            finished_at: job.finished_at,
        }
    }
}
