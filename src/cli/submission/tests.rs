//! What a file of a job may say, and how its mistakes are told.

use super::*;
use crate::rpc::proto::{ContextMode, TimeoutPolicy};

fn refusal(json: &str) -> (String, String) {
    let error = parse_submission(json).expect_err("it is wrong");
    let Ok(CliError::Invalid { field, problem }) = error.downcast() else {
        panic!("it names no field")
    };
    (field, problem)
}

#[test]
fn both_shapes_of_a_step_are_the_same_request() {
    let flat = parse_submission(
        r#"{"job_id":"a","task":"t","steps":[{"type":"run","name":"draft","prompt":"p","context":"none"},
           {"type":"approval","note":"n","on_timeout":"reject"},{"type":"wait","duration_seconds":5}]}"#,
    )
    .expect("flat");
    let nested = parse_submission(
        r#"{"job_id":"a","task":"t","steps":[{"name":"draft","run":{"prompt":"p","context":"CONTEXT_MODE_NONE"}},
           {"approval":{"note":"n","on_timeout":"TIMEOUT_POLICY_REJECT"}},{"wait":{"duration_seconds":5}}]}"#,
    )
    .expect("nested");
    assert_eq!(flat, nested);
    let Some(step::Kind::Run(run)) = &flat.steps[0].kind else { panic!("a run step") };
    assert_eq!((run.prompt.as_str(), run.context), ("p", ContextMode::None as i32));
    let Some(step::Kind::Approval(ask)) = &flat.steps[1].kind else { panic!("an approval") };
    assert_eq!(ask.on_timeout, TimeoutPolicy::Reject as i32);
}

#[test]
fn an_unknown_field_is_refused_by_name() {
    let (field, problem) = refusal(r#"{"steps":[{"type":"run","promt":"p"}]}"#);
    assert_eq!(field, "steps[0].run.promt");
    assert!(problem.contains("unknown field `promt`"), "{problem}");
    assert_eq!(refusal(r#"{"settings":{"labels":{"a":1}}}"#).0, "settings.labels.a");
    assert_eq!(refusal(r#"{"stepz":[]}"#).0, "stepz");
}

#[test]
fn a_wrong_word_says_which_are_right() {
    let (field, problem) =
        refusal(r#"{"steps":[{"type":"approval","note":"n","on_timeout":"explode"}]}"#);
    assert_eq!(field, "steps[0].approval.on_timeout");
    assert!(problem.contains("use fail, approve or reject"), "{problem}");
    assert_eq!(refusal(r#"{"steps":[{"type":"dance"}]}"#).0, "steps[0].type");
    assert_eq!(refusal(r#"{"steps":[{"run":{},"wait":{"duration_seconds":1}}]}"#).0, "steps[0]");
}

#[test]
fn times_are_read_and_nonsense_is_not() {
    let request = parse_submission(r#"{"settings":{"run_at":"2023-11-14T22:13:20Z"}}"#);
    let settings = request.expect("valid").settings.expect("set");
    assert_eq!(settings.run_at, Some(Timestamp { seconds: 1_700_000_000, nanos: 0 }));
    assert_eq!(refusal(r#"{"steps":[{"wait":{"until_at":"soon"}}]}"#).0, "steps[0].wait.until_at");
}

#[test]
fn text_that_is_not_json_says_where_it_breaks() {
    let (field, problem) = refusal("{");
    assert_eq!(field, "");
    assert!(problem.starts_with("not JSON: EOF"), "{problem}");
}
