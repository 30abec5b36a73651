//! Why a job stands where it stands, in one sentence for people.
//!
//! In goes the hot row, out comes a sentence; both doors show the same one.
//! It holds no prompt, no output and no phone number.

use chrono::{DateTime, Utc};

use super::job::{JobState, Reason, Status};

/// The sentence about a job as it is now.
pub fn explain(state: &JobState) -> String {
    let sentence = match state.status {
        Status::Queued => queued(state),
        Status::Running => running(state),
        Status::AwaitingApproval => match state.deadline_at {
            Some(deadline_at) => {
                format!("{} waits for a decision until {}", place(state), moment(deadline_at))
            }
            None => format!("{} waits for a decision", place(state)),
        },
        Status::Paused => paused(state),
        Status::Completed if state.step_count == 1 => "the only step is done".to_owned(),
        Status::Completed => format!("all {} steps are done", state.step_count),
        Status::Failed => match error(state) {
            Some(error) => format!("{} failed: {error}", place(state)),
            None => format!("{} failed", place(state)),
        },
        Status::Cancelled => cancelled(state),
    };
    finish(&sentence)
}

fn queued(state: &JobState) -> String {
    let place = place(state);
    let error = error(state).map(|error| format!(": {error}")).unwrap_or_default();
    match (state.reason, state.run_at) {
        (Some(Reason::Scheduled), Some(run_at)) => format!("starts at {}", moment(run_at)),
        (Some(Reason::Waiting), Some(run_at)) => format!("{place} waits until {}", moment(run_at)),
        (Some(Reason::ProviderUnavailable), Some(run_at)) => {
            format!("{place} is tried again at {}{error}", moment(run_at))
        }
        (Some(Reason::SpendLimit), Some(run_at)) => {
            format!(
                "{place} waits for the model provider's spend limit and is tried again at {}{error}",
                moment(run_at)
            )
        }
        (Some(Reason::DailyBudget), Some(run_at)) => {
            format!("{place} goes on at {} at the latest{error}", moment(run_at))
        }
        (Some(Reason::ProviderUnavailable), None) => {
            format!("{place} waits for an executor to try it again{error}")
        }
        (Some(Reason::Batch), Some(_)) => {
            format!(
                "{place} waits to be answered in a batch, which takes the model provider up to a day"
            )
        }
        (Some(Reason::Batch), None) => format!("{place} waits for an executor to read its answer"),
        (Some(Reason::AttemptLost), Some(run_at)) => {
            format!("{place} lost its executor and begins again at {}", moment(run_at))
        }
        (Some(Reason::AttemptLost), None) => {
            format!("{place} lost its executor and waits for another one")
        }
        (Some(_) | None, _) => format!("{place} waits for an executor"),
    }
}

fn running(state: &JobState) -> String {
    let attempt = match state.attempt {
        ..=1 => String::new(),
        attempt => format!(" (attempt {attempt})"),
    };
    let pause = if state.pause_requested { "; the job will be paused after it" } else { "" };
    format!("{} is running{attempt}{pause}", place(state))
}

fn paused(state: &JobState) -> String {
    let place = format!("paused at step {} of {}", state.current_step, state.step_count);
    if state.kept_verdict.is_some() {
        return format!("{place}; a decision was made and is carried out by a resume");
    }
    if state.approval_id.is_some() {
        return format!("{place}, which waits for a decision");
    }
    match error(state) {
        Some(error) if state.reason == Some(Reason::Budget) => format!("{place}: {error}"),
        Some(error) => format!("{place}; the last error was: {error}"),
        None => place,
    }
}

fn cancelled(state: &JobState) -> String {
    let place = format!("step {} of {}", state.current_step, state.step_count);
    match state.reason {
        Some(Reason::Rejected) => format!("cancelled: an approver rejected {place}"),
        Some(Reason::ApprovalExpired) => {
            format!("cancelled: nobody decided {place} in time")
        }
        Some(_) | None => format!("cancelled at {place}"),
    }
}

fn place(state: &JobState) -> String {
    format!("step {} of {}", state.current_step, state.step_count)
}

fn error(state: &JobState) -> Option<&str> {
    state.last_error.as_ref().map(|failure| failure.message.trim()).filter(|text| !text.is_empty())
}

fn moment(at: DateTime<Utc>) -> String {
    at.format("%Y-%m-%d %H:%M:%S UTC").to_string()
}

/// A capital at the beginning and a full stop at the end.
fn finish(sentence: &str) -> String {
    let mut letters = sentence.chars();
    let first = letters.next().map(|first| first.to_uppercase().to_string()).unwrap_or_default();
    let end = if sentence.ends_with(['.', '!', '?', '。']) { "" } else { "." };
    format!("{first}{}{end}", letters.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::job::Failure;

    fn state(status: Status, reason: Option<Reason>) -> JobState {
        JobState { status, reason, current_step: 2, ..JobState::new(3, DateTime::UNIX_EPOCH) }
    }

    #[test]
    fn every_status_is_one_sentence() {
        for status in Status::ALL {
            let sentence = explain(&state(status, None));
            assert!(sentence.starts_with(char::is_uppercase), "{sentence}");
            assert!(sentence.ends_with('.') && !sentence.contains('\n'), "{sentence}");
        }
    }

    #[test]
    fn a_parked_job_says_until_when_and_why() {
        let run_at = Some(DateTime::UNIX_EPOCH);
        let failure = Failure::new(
            Reason::ProviderUnavailable,
            "the provider is overloaded.",
            DateTime::UNIX_EPOCH,
        );
        let parked = JobState {
            run_at,
            last_error: Some(failure),
            ..state(Status::Queued, Some(Reason::ProviderUnavailable))
        };
        assert_eq!(
            explain(&parked),
            "Step 2 of 3 is tried again at 1970-01-01 00:00:00 UTC: the provider is overloaded."
        );
        let scheduled = JobState { run_at, ..state(Status::Queued, Some(Reason::Scheduled)) };
        assert_eq!(explain(&scheduled), "Starts at 1970-01-01 00:00:00 UTC.");
    }

    #[test]
    fn a_job_without_money_says_what_it_needs() {
        let failure = Failure::new(
            Reason::Budget,
            "the budget of $1 does not cover the next call",
            DateTime::UNIX_EPOCH,
        );
        let starved =
            JobState { last_error: Some(failure), ..state(Status::Paused, Some(Reason::Budget)) };
        assert_eq!(
            explain(&starved),
            "Paused at step 2 of 3: the budget of $1 does not cover the next call."
        );
    }

    #[test]
    fn a_job_that_was_put_off_says_until_when_and_why() {
        let failure = Failure::new(
            Reason::DailyBudget,
            "what is left of the day's budget of $1 does not cover the next call",
            DateTime::UNIX_EPOCH,
        );
        let waits = JobState {
            run_at: Some(DateTime::UNIX_EPOCH),
            last_error: Some(failure),
            ..state(Status::Queued, Some(Reason::DailyBudget))
        };
        assert_eq!(
            explain(&waits),
            "Step 2 of 3 goes on at 1970-01-01 00:00:00 UTC at the latest: \
             what is left of the day's budget of $1 does not cover the next call."
        );
    }

    #[test]
    fn an_end_says_how_it_came() {
        let rejected = state(Status::Cancelled, Some(Reason::Rejected));
        assert_eq!(explain(&rejected), "Cancelled: an approver rejected step 2 of 3.");
        assert_eq!(explain(&state(Status::Completed, None)), "All 3 steps are done.");
    }
}
