//! The texts of notices in English.
//!
//! A person reads them on a phone, often between other things: a title, what it is about, what to do.
//! They are short and polite, and name no part of the system but the job, its steps and the server.

use super::{Left, Words};
use crate::domain::job::Reason;

pub(super) const WORDS: Words = Words {
    tag: "en",
    asked: "Your decision is needed",
    reminded: "Reminder: your decision is still needed",
    escalated: "Your decision is needed: others have not decided",
    completed: "Your job is done",
    failed: "Your job failed",
    cancelled: "Your job was cancelled",
    out_of_budget: "Your job is paused: its budget is used up",
    draft: "The draft:",
    draft_begins: "The draft begins:",
    result: "The result:",
    result_begins: "The result begins:",
    how: "Each link opens a page; nothing is decided until you confirm there.",
    how_link: "The button opens a page; nothing is decided until you confirm there.",
    how_buttons: "A button decides at once, and rejecting ends the job. To see everything first:",
    open_title: "Open the request",
    approve_title: "Approve",
    reject_title: "Reject",
    approve: "Approve: ",
    reject: "Reject: ",
    error: "Error: ",
    step: |step, count| format!("Step {step} of {count}"),
    deadline: |at, left| format!("Please decide by {at}{left}."),
    left,
    no_deadline: "none",
    why_failed,
    why_cancelled,
    why_paused: "What is left of its budget does not cover the next step. It goes on when somebody resumes it with a higher one.",
    day_used_up: "The day's budget is used up",
    why_put_off,
    cost: |usd| format!("Cost: ${usd}"),
    cost_is_tiny: "Cost: under $0.0001",
};

fn left(left: Left) -> String {
    match left {
        Left::Days(days) => format!(", {days} days left"),
        Left::Hours(hours) => format!(", {hours} hours left"),
        Left::Minutes(1) => ", 1 minute left".to_owned(),
        Left::Minutes(minutes) => format!(", {minutes} minutes left"),
        Left::Moments => ", less than a minute left".to_owned(),
    }
}

fn why_put_off(budget_usd: Option<&str>) -> String {
    let of = budget_usd.map(|usd| format!(" of ${usd}")).unwrap_or_default();
    format!(
        "What is left of the budget{of} for this day does not cover the next call to the AI model. \
         Jobs that need one wait until 00:00 UTC and then go on by themselves. \
         They go on sooner where calls under way cost less than was set aside, or when the servers are started with a higher budget."
    )
}

fn why_failed(reason: Option<Reason>) -> &'static str {
    match reason {
        Some(Reason::ApprovalExpired) => "Nobody decided in time.",
        Some(Reason::RecoveriesExhausted) => {
            "The server went down during this step too many times."
        }
        Some(Reason::RetryWindowExhausted) => "The AI provider was unavailable for too long.",
        Some(Reason::ProviderRejected) => "The AI provider refused the request.",
        Some(Reason::ProviderUnconfigured) => "The server has no key for the AI provider.",
        Some(Reason::ModelRefused) => "The AI model declined to answer.",
        Some(Reason::ModelTruncated) => "The answer grew longer than allowed.",
        Some(Reason::ContextOverflow) => "The conversation grew longer than the AI model can read.",
        Some(Reason::ModelStopped) => "The AI model stopped before it had finished.",
        Some(Reason::StepPanicked) => "The server had a fault while it worked on this step.",
        Some(Reason::ModelUnpriced) => {
            "The price of the AI model is not known, and what may be spent is limited."
        }
        Some(
            Reason::SpendLimit
            | Reason::Batch
            | Reason::Budget
            | Reason::DailyBudget
            | Reason::Scheduled
            | Reason::Waiting
            | Reason::ProviderUnavailable
            | Reason::AttemptLost
            | Reason::Rejected,
        )
        | None => "This step could not be finished.",
    }
}

fn why_cancelled(reason: Option<Reason>) -> &'static str {
    match reason {
        Some(Reason::Rejected) => "It was rejected at this step.",
        Some(Reason::ApprovalExpired) => {
            "Nobody decided in time, which counts as a rejection here."
        }
        Some(
            Reason::Scheduled
            | Reason::Waiting
            | Reason::ProviderUnavailable
            | Reason::AttemptLost
            | Reason::RecoveriesExhausted
            | Reason::RetryWindowExhausted
            | Reason::ProviderRejected
            | Reason::ProviderUnconfigured
            | Reason::ModelRefused
            | Reason::ModelTruncated
            | Reason::ContextOverflow
            | Reason::ModelStopped
            | Reason::StepPanicked
            | Reason::ModelUnpriced
            | Reason::SpendLimit
            | Reason::Batch
            | Reason::Budget
            | Reason::DailyBudget,
        )
        | None => "It was stopped by request.",
    }
}
