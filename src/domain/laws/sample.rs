//! What attempts of the lives come to, where nothing depends on it.

use chrono::{DateTime, Utc};

use crate::domain::job::{Failure, Reason, StepResult};
use crate::domain::money::Usage;

pub(super) fn result() -> StepResult {
    StepResult {
        output: "o".to_owned(),
        content: "[]".to_owned(),
        citations: Vec::new(),
        usage: Usage::default(),
        cost_usd: None,
        model: "m".to_owned(),
        stop_reason: "end_turn".to_owned(),
    }
}

pub(super) fn failure(reason: Reason, failed_at: DateTime<Utc>) -> Failure {
    Failure::new(reason, "trouble", failed_at)
}
