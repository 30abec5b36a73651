//! Every status is complete, and none is longer than what trailers may be.

use super::*;
use crate::domain::approval::{ApprovalStatus, Verdict};
use crate::domain::id::{ApprovalId, JOB_ID_BYTES_MAX};
use crate::domain::job;

fn violations(count: usize, text: &str) -> Vec<Violation> {
    let violation =
        |at| Violation { field: format!("steps[{at}].run.{text}"), message: text.to_owned() };
    (0..count).map(violation).collect()
}

/// Every status that this table makes, of the job with the longest id there is.
fn all() -> Vec<Status> {
    let key = JobKey::new(&"账".repeat(JOB_ID_BYTES_MAX / 3));
    let refusals = [
        Refusal::Conflict { status: job::Status::Completed },
        Refusal::ApprovalIdRequired,
        Refusal::ApprovalClosed { status: ApprovalStatus::Expired },
        Refusal::AlreadyVoted { verdict: Verdict::Reject },
        Refusal::StepOutOfRange { last: 3 },
        Refusal::LeaseLost,
    ];
    let mut errors: Vec<StoreError> = refusals.into_iter().map(StoreError::Refused).collect();
    errors.extend([
        StoreError::JobNotFound { key: key.clone() },
        StoreError::StepNotFound { key: key.clone(), step: 7 },
        StoreError::ApprovalNotFound { key: key.clone(), approval_id: ApprovalId::new() },
        StoreError::JobIdConflict { key: key.clone(), field: "长".repeat(5_000) },
        StoreError::SpecVersionUnknown { key: key.clone() },
        StoreError::Corrupt { table: "job", what: "secret".to_owned() },
    ]);
    let stored = errors.into_iter().map(|error| failed(EngineError::Store(error), &key));
    let invalid =
        [violations(1, "x"), violations(3_000, "x"), violations(3_000, &"长".repeat(9_000))];
    let others = [
        unreadable(&"长".repeat(9_000)),
        beyond_the_end(&key, 9, 3),
        stopping(),
        overloaded(),
        timed_out(),
        unimplemented(""),
        internal(),
    ];
    stored.chain(invalid.map(super::invalid)).chain(others).collect()
}

#[test]
fn every_status_has_one_error_info_and_is_short() {
    for status in all() {
        assert!(size(&status) <= STATUS_BYTES_MAX, "{status:?}");
        assert!(!status.message().is_empty(), "{status:?}");
        let details = status.get_error_details();
        let info = details.error_info().unwrap();
        assert_eq!(info.domain, DOMAIN);
        assert!(info.reason.chars().all(|c| c.is_ascii_uppercase() || c == '_'), "{info:?}");
        assert!(!format!("{status:?}").contains("secret"), "a source was sent");
        let invalid = info.reason == "INVALID_REQUEST" && details.bad_request().is_some();
        assert_eq!(
            status.code() == Code::InvalidArgument && details.bad_request().is_some(),
            invalid
        );
        assert_eq!(status.code() == Code::NotFound, details.resource_info().is_some());
        let passes = matches!(status.code(), Code::Unavailable | Code::ResourceExhausted);
        assert_eq!(passes, details.retry_info().is_some());
    }
}

#[test]
fn faults_that_do_not_fit_are_counted() {
    let status = invalid(violations(3_000, "prompt"));
    let listed = status.get_error_details().bad_request().unwrap().field_violations.len();
    assert!((5..3_000).contains(&listed), "{listed}");
    let told = format!("(and 2999 more faults, of which the first {} are listed)", listed - 1);
    assert!(status.message().ends_with(&told), "{}", status.message());
    assert_eq!(invalid(violations(1, "a")).message(), "steps[0].run.a: a");
    assert!(invalid(violations(2, "a")).message().ends_with("(and one more fault)"));
}

#[test]
fn a_conflict_says_what_and_with_whom() {
    let key = JobKey::new("job-1");
    let refusal = Refusal::Conflict { status: job::Status::Completed };
    let status = failed(EngineError::Store(refusal.into()), &key);
    let details = status.get_error_details();
    let info = details.error_info().unwrap();
    assert_eq!(
        (status.code(), info.reason.as_str()),
        (Code::FailedPrecondition, "JOB_STATE_CONFLICT")
    );
    assert_eq!(info.metadata["status"], "JOB_STATUS_COMPLETED");
    assert_eq!(info.metadata["job_id"], "job-1");
}
