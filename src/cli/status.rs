//! The line that says in a glance how a job stands: status, step, time that remains, time it took, cost, tokens.
//!
//! In come a job, what the time is there, and the cells there are; out goes a line that fits.
//! What matters less is left out first, and of what nobody knows nothing is said.

use chrono::{DateTime, Utc};

use super::{
    clock::{since, until},
    render::{Paint, between, clip, money, span, tokens, width},
    word,
};
use crate::rpc::proto::{Job, JobStatus, StepKind, StepStatus};

/// Between the parts.
const BETWEEN: &str = " · ";

/// The line of a job.
pub fn line(job: &Job, now: Option<DateTime<Utc>>, wide: usize, paint: Paint) -> String {
    let stands = clip(&word::job_status(job.status).replace('_', " "), wide);
    let used = job.usage.as_ref().filter(|usage| usage.calls > 0);
    // In the order in which they are given up, the last first; they are told in another.
    let by_weight = [
        (0, Some(format!("step {}/{}", job.current_step, job.step_count))),
        (4, now.and_then(|now| remaining(job, now))),
        (3, elapsed(job, now)),
        (2, used.map(|_| money(&job.cost_usd, job.unpriced_calls))),
        (1, used.map(|usage| format!("{} tokens", tokens(Some(usage))))),
    ];
    let mut left = wide.saturating_sub(width(&stands));
    let mut told: Vec<(u8, String)> = Vec::new();
    for (place, part) in by_weight {
        let Some(part) = part else { continue };
        let Some(rest) = left.checked_sub(width(BETWEEN) + width(&part)) else { break };
        left = rest;
        told.push((place, part));
    }
    told.sort_unstable();
    let told: String = told.iter().flat_map(|(_, part)| [BETWEEN, part]).collect();
    format!("{}{}", paint.status(job.status(), &stands), paint.dim(&told))
}

/// How long the job has taken so far, or took.
fn elapsed(job: &Job, now: Option<DateTime<Utc>>) -> Option<String> {
    let took = match &job.finished_at {
        Some(end) => between(job.created_at.as_ref(), Some(end)),
        None => since(job.created_at.as_ref(), now?),
    };
    Some(format!("{} elapsed", span(took?)))
}

/// What remains of a wait, whose end is known; how long the model takes is not.
pub fn remaining(job: &Job, now: DateTime<Utc>) -> Option<String> {
    match job.status() {
        JobStatus::AwaitingApproval => {
            let deadline = job.approval.as_ref()?.deadline_at.as_ref()?;
            let left = until(Some(deadline), now);
            Some(left.map_or("overdue".to_owned(), |left| format!("{} to decide", span(left))))
        }
        JobStatus::Queued => {
            let left = span(until(job.run_at.as_ref(), now)?);
            let waits = job
                .steps
                .iter()
                .any(|step| step.kind() == StepKind::Wait && step.status() == StepStatus::Active);
            Some(if waits { format!("{left} to wait") } else { format!("goes on in {left}") })
        }
        JobStatus::Unspecified
        | JobStatus::Running
        | JobStatus::Paused
        | JobStatus::Completed
        | JobStatus::Failed
        | JobStatus::Cancelled => None,
    }
}

/// The word of a status where there is little room.
pub fn short(status: i32) -> String {
    match JobStatus::try_from(status) {
        Ok(JobStatus::AwaitingApproval) => "awaiting".to_owned(),
        Ok(
            JobStatus::Unspecified
            | JobStatus::Queued
            | JobStatus::Running
            | JobStatus::Paused
            | JobStatus::Completed
            | JobStatus::Failed
            | JobStatus::Cancelled,
        )
        | Err(_) => word::job_status(status),
    }
}

#[cfg(test)]
mod tests {
    use prost_types::Timestamp;

    use super::*;
    use crate::rpc::proto::{Approval, StepState, Usage};

    fn at(seconds: i64) -> Timestamp {
        Timestamp { seconds, nanos: 0 }
    }

    fn now() -> Option<DateTime<Utc>> {
        DateTime::from_timestamp(1_000, 0)
    }

    fn example() -> Job {
        let usage = Usage { input_tokens: 31, output_tokens: 86, calls: 1, ..Usage::default() };
        Job {
            status: JobStatus::AwaitingApproval as i32,
            current_step: 2,
            step_count: 3,
            usage: Some(usage),
            cost_usd: "0.0013".to_owned(),
            created_at: Some(at(880)),
            approval: Some(Approval { deadline_at: Some(at(4_600)), ..Approval::default() }),
            ..Job::default()
        }
    }

    #[test]
    fn everything_that_is_known_is_told_where_there_is_room() {
        assert_eq!(
            line(&example(), now(), 100, Paint::plain()),
            "awaiting approval · step 2/3 · 31 → 86 tokens · $0.0013 · 2m 00s elapsed · 1h 00m to decide"
        );
        assert_eq!(
            line(&example(), now(), 79, Paint::plain()),
            "awaiting approval · step 2/3 · $0.0013 · 2m 00s elapsed · 1h 00m to decide"
        );
        assert_eq!(
            line(&example(), None, 79, Paint::plain()),
            "awaiting approval · step 2/3 · 31 → 86 tokens · $0.0013"
        );
        for wide in 0..120 {
            assert!(width(&line(&example(), now(), wide, Paint::plain())) <= wide);
        }
    }

    #[test]
    fn what_remains_is_told_of_waits_and_deadlines_alone() {
        let told = |job: &Job| remaining(job, now().expect("a time"));
        let mut job = example();
        job.approval = Some(Approval { deadline_at: Some(at(999)), ..Approval::default() });
        assert_eq!(told(&job).as_deref(), Some("overdue"));
        job.status = JobStatus::Queued as i32;
        assert_eq!(told(&job), None);
        job.run_at = Some(at(1_030));
        assert_eq!(told(&job).as_deref(), Some("goes on in 30s"));
        let (kind, status) = (StepKind::Wait as i32, StepStatus::Active as i32);
        job.steps = vec![StepState { kind, status, ..StepState::default() }];
        assert_eq!(told(&job).as_deref(), Some("30s to wait"));
        job.status = JobStatus::Running as i32;
        assert_eq!(told(&job), None);
    }

    #[test]
    fn a_job_that_has_ended_took_as_long_as_it_did() {
        let mut job = example();
        job.status = JobStatus::Completed as i32;
        job.finished_at = Some(at(940));
        let told = line(&job, None, 100, Paint::plain());
        assert!(told.ends_with("· $0.0013 · 1m 00s elapsed"), "{told}");
    }
}
