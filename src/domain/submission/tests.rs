//! What a submission is read as, and where two of them differ.

use super::*;
use serde_json::json;

fn parse(value: Value) -> Submission {
    let Value::Object(sent) = value else { panic!("the test sends an object") };
    Submission::read(sent).expect("the test's submission parses")
}

#[test]
fn the_templates_example_parses_verbatim() {
    let submission = parse(json!({
        "job_id": "demo-job-0001", "task": "为一款记账App写推广文案",
        "steps": [{"type": "run", "prompt": "用中文写一段80字以内的记账App产品简介，风格务实。"},
                  {"type": "approval", "note": "请审核第一步草稿是否可以对外使用"}]}));
    assert_eq!(submission.job_id.as_deref(), Some("demo-job-0001"));
    assert!(
        matches!(&submission.steps[1], Step::Approval(step) if step.note.starts_with("请审核"))
    );
}

#[test]
fn a_numeric_job_id_is_read_as_text() {
    assert_eq!(parse(json!({"job_id": 42})).job_id.as_deref(), Some("42"));
}

#[test]
fn zero_is_the_same_as_absent_where_zero_means_the_default() {
    let zero = parse(json!({"steps": [{"type": "run", "prompt": "p", "max_tokens": 0}]}));
    let absent = parse(json!({"steps": [{"type": "run", "prompt": "p"}]}));
    assert_eq!(fingerprint(&zero.content()), fingerprint(&absent.content()));
}

#[test]
fn the_first_difference_is_named() {
    let base = json!({"task": "t", "steps": [{"type": "run", "prompt": "p"}]});
    let cases = [
        (json!({"task": "u", "steps": [{"type": "run", "prompt": "p"}]}), Some("task")),
        (json!({"task": "t", "steps": [{"type": "run", "prompt": "q"}]}), Some("steps[0].prompt")),
        (json!({"task": "t", "steps": [{"type": "wait"}]}), Some("steps[0].type")),
        (json!({"task": "t", "steps": []}), Some("steps[0]")),
        (base.clone(), None),
    ];
    for (other, expected) in cases {
        let found = find_difference(&parse(base.clone()).content(), &parse(other).content());
        assert_eq!(found.as_deref(), expected);
    }
}
