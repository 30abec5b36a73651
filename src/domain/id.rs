//! Identity: which job, which executor, which attempt, which approval.
//!
//! A job is named by its `JobKey`, the shard and the job id; every row that belongs to a job carries both.
//! The shard is computed from the job id alone, by a rule that never changes, so that any program can find a job's rows.

use std::{fmt, sync::Arc};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use uuid::Uuid;

/// How many shards there are, for ever.
pub const SHARD_COUNT: u8 = 64;

/// The longest job id, in bytes.
pub const JOB_ID_BYTES_MAX: usize = 255;

/// A job's id and the shard its rows live in.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct JobKey {
    shard: i16,
    job_id: Arc<str>,
    wake_number: u64,
}

impl JobKey {
    /// The key of the job with this id: the shard is the lowest six bits of the first byte of the id's SHA-256.
    pub fn new(job_id: &str) -> Self {
        let digest = Sha256::digest(job_id.as_bytes());
        let wake_number = digest[..8].iter().fold(0, |number, byte| number << 8 | u64::from(*byte));
        Self { shard: i16::from(digest[0] % SHARD_COUNT), job_id: job_id.into(), wake_number }
    }

    /// The shard, from 0 to 63.
    pub fn shard(&self) -> i16 {
        self.shard
    }

    /// The id the client chose.
    pub fn job_id(&self) -> &str {
        &self.job_id
    }

    /// A number that stands for the job in wake-ups; two jobs may share one, which costs a look for nothing.
    pub fn wake_number(&self) -> u64 {
        self.wake_number
    }
}

impl fmt::Display for JobKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.job_id)
    }
}

/// A job id for a client that did not choose one.
pub fn new_job_id() -> String {
    Uuid::now_v7().to_string()
}

/// Why a job id is not acceptable, if it is not.
pub fn find_job_id_fault(job_id: &str) -> Option<&'static str> {
    if job_id.is_empty() || job_id.len() > JOB_ID_BYTES_MAX {
        return Some("must have 1 to 255 bytes");
    }
    if job_id.chars().any(char::is_control) {
        return Some("must be printable text");
    }
    (job_id.trim() != job_id).then_some("must not begin or end with a space")
}

macro_rules! uuid_ids {
    ($($(#[$doc:meta])* $name:ident),+ $(,)?) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub Uuid);

        impl $name {
            /// A new one, never made before.
            #[expect(clippy::new_without_default, reason = "an id is made on purpose, never by default")]
            pub fn new() -> Self {
                Self(Uuid::now_v7())
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    )+};
}

uuid_ids! {
    /// One life of one server process.
    ExecutorId,
    /// One go at a step.
    AttemptId,
    /// One request to the model provider.
    CallId,
    /// One request for a decision.
    ApprovalId,
    /// One message to one person.
    NoticeId,
}

impl CallId {
    /// The first call of an attempt, whose row is written with the attempt itself.
    pub fn first_of(attempt_id: AttemptId) -> Self {
        Self(attempt_id.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shard_of_an_id_never_changes() {
        let shards = ["demo-job-0001", "", "记账"].map(|id| JobKey::new(id).shard());
        assert_eq!(shards, [4, 35, 35]);
    }

    #[test]
    fn a_job_id_is_printable_and_bounded() {
        assert_eq!(find_job_id_fault("demo-job-0001"), None);
        assert_eq!(find_job_id_fault("任务 1"), None);
        assert_eq!(find_job_id_fault(&"x".repeat(255)), None);
        for bad in ["", " x", "x ", "a\0b", "a\nb", &"x".repeat(256)] {
            assert!(find_job_id_fault(bad).is_some(), "{bad:?}");
        }
    }
}
