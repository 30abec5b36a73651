//! Every status is complete, and none is longer than what trailers may be.

use std::collections::HashSet;

use proptest::prelude::*;
use tonic_types::ErrorDetail;

use super::*;
use crate::domain::approval::{ApprovalStatus, Verdict};
use crate::domain::event::Delivery;
use crate::domain::id::{ApprovalId, JOB_ID_BYTES_MAX, NoticeId};
use crate::domain::job;
use crate::domain::key::Scope;
use crate::domain::reason::Faces;

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
        Refusal::ChangesNotAllowed { most: 20 },
        Refusal::EditNotAllowed,
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
        StoreError::RequestIdConflict { key: key.clone(), action: "approve".to_owned() },
        StoreError::NoticeNotFound { notice_id: NoticeId::new() },
        StoreError::Corrupt { table: "job", what: "secret".to_owned() },
    ]);
    let stored = errors.into_iter().map(|error| failed(EngineError::Store(error), &key));
    let invalid =
        [violations(1, "x"), violations(3_000, "x"), violations(3_000, &"长".repeat(9_000))];
    let others = [
        unreadable(&"长".repeat(9_000)),
        beyond_the_end(&key, 9, 3),
        waiting(),
        not_let_in(&door::Refusal::KeyRequired),
        not_let_in(&door::Refusal::KeyInvalid),
        not_let_in(&door::Refusal::ScopeRequired(vec![Scope::Read, Scope::Control])),
        not_let_in(&door::Refusal::NotReady),
        stopping(),
        overloaded(),
        timed_out(),
        unimplemented(""),
        internal(),
    ];
    stored.chain(invalid.map(super::invalid)).chain(others).collect()
}

fn assert_complete(status: &Status) {
    assert!(size(status) <= STATUS_BYTES_MAX, "{status:?}");
    assert!(!status.message().is_empty(), "{status:?}");
    let infos = status.get_error_details_vec().into_iter();
    let infos = infos.filter(|detail| matches!(detail, ErrorDetail::ErrorInfo(_)));
    assert_eq!(infos.count(), 1, "{status:?}");
    let details = status.get_error_details();
    let info = details.error_info().unwrap();
    assert_eq!(info.domain, DOMAIN);
    let reason = Reason::ALL.iter().find(|reason| reason.word() == info.reason).unwrap();
    assert_eq!(code_of(*reason), status.code());
    assert_ne!(reason.faces(), Faces::Http, "{info:?}");
    let names_fields = details.bad_request().is_some();
    assert!(!names_fields || *reason == Reason::InvalidRequest, "{status:?}");
    assert_eq!(status.code() == Code::NotFound, details.resource_info().is_some());
    let is_of_state = status.code() == Code::FailedPrecondition;
    assert_eq!(is_of_state, details.precondition_failure().is_some());
    let passes = matches!(status.code(), Code::Unavailable | Code::ResourceExhausted);
    assert_eq!(passes, details.retry_info().is_some());
}

#[test]
fn every_status_has_one_error_info_and_is_short() {
    let mut seen = HashSet::new();
    for status in all() {
        assert_complete(&status);
        assert!(!format!("{status:?}").contains("secret"), "a source was sent");
        seen.insert(status.get_error_details().error_info().unwrap().reason.clone());
    }
    let kept = StoreError::NoticeKept {
        notice_id: NoticeId::new(),
        delivery: Delivery::Sent,
        why: "it was sent",
    };
    let kept = failed_list(kept);
    assert_complete(&kept);
    seen.insert(kept.get_error_details().error_info().unwrap().reason.clone());
    // Those that are made elsewhere.
    for made in [Reason::JobPruned, Reason::WatchLagged, Reason::RateLimited] {
        seen.insert(made.word().to_owned());
    }
    let told = Reason::ALL.iter().filter(|reason| reason.faces() != Faces::Http);
    let missing: Vec<_> = told.filter(|reason| !seen.contains(reason.word())).collect();
    assert!(missing.is_empty(), "the list of this test lacks {missing:?}");
}

/// Text as nobody would want to carry it: long, of many bytes, with what has to be encoded.
fn nasty(chars_max: usize) -> impl Strategy<Value = String> {
    let char = prop_oneof![any::<char>(), Just('%'), Just('长'), Just('\u{10ffff}'), Just('a')];
    prop::collection::vec(char, 0..chars_max).prop_map(String::from_iter)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn however_nasty_what_was_sent_the_status_is_complete_and_short(
        job_id in nasty(300), field in nasty(400), message in nasty(2_000), many in 1_usize..200,
        reason in prop::sample::select(Reason::ALL),
    ) {
        let fault = Violation { field: format!("f{field}"), message: message.clone() };
        assert_complete(&invalid(vec![fault; many]));
        assert_complete(&unreadable(&format!("m{message}")));
        let key = JobKey::new(&job_id);
        let conflict = StoreError::JobIdConflict { key: key.clone(), field };
        assert_complete(&failed(EngineError::Store(conflict), &key));
        assert_complete(&failed(EngineError::Store(StoreError::JobNotFound { key }), &JobKey::new("")));
        prop_assume!(reason.faces() != Faces::Http);
        let mut problem = Problem::new(reason, format!("m{message}")).with("job_id", &job_id);
        problem = problem.with("status", &message).with("action", &message);
        if code_of(reason) == Code::NotFound {
            problem = problem.missing("longhaul.v1.Job", &job_id);
        }
        assert_complete(&problem.status());
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
