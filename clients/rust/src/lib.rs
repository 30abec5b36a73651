#![doc = include_str!("../README.md")]
#![warn(missing_docs, missing_debug_implementations)]

mod client;
mod connect;
mod error;
#[cfg(test)]
mod tests;
mod watch;

/// The messages and the stub, as the proto has them.
#[allow(clippy::all, clippy::pedantic, clippy::restriction, missing_docs, reason = "generated")]
pub mod v1 {
    include!("gen/longhaul.v1.rs");
}

pub use client::Client;
pub use connect::{ApiKey, ClientBuilder, Stub};
pub use error::{Error, Result};
pub use tonic::Code;
pub use tonic_types::FieldViolation;
/// What a watch delivers; a heartbeat is never among it.
pub use v1::watch_job_response::Content as Update;

/// What the messages and the stub are made of.
pub use {prost_types, tonic};

use v1::{ApprovalStep, GetJobRequest, RunStep, Step, WaitStep, WatchJobRequest, step::Kind};

impl From<RunStep> for Step {
    fn from(run: RunStep) -> Self {
        Self { kind: Some(Kind::Run(run)), ..Self::default() }
    }
}

impl From<ApprovalStep> for Step {
    fn from(approval: ApprovalStep) -> Self {
        Self { kind: Some(Kind::Approval(approval)), ..Self::default() }
    }
}

impl From<WaitStep> for Step {
    fn from(wait: WaitStep) -> Self {
        Self { kind: Some(Kind::Wait(wait)), ..Self::default() }
    }
}

impl<T: Into<String>> From<T> for GetJobRequest {
    fn from(job_id: T) -> Self {
        Self { job_id: job_id.into(), ..Self::default() }
    }
}

impl<T: Into<String>> From<T> for WatchJobRequest {
    fn from(job_id: T) -> Self {
        Self { job_id: job_id.into(), ..Self::default() }
    }
}
