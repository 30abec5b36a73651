//! What a file of a job may say, and how its mistakes are told.

use super::*;
use crate::rpc::proto::{ContextMode, TimeoutPolicy, step};
use prost_types::Timestamp;

fn refusal(json: &str) -> (String, String) {
    let error = parse_submission(json).expect_err("it is wrong");
    let Ok(CliError::Invalid { faults, .. }) = error.downcast() else {
        panic!("it names no field")
    };
    let [fault] = faults.as_slice() else { panic!("{faults:?}") };
    (fault.field.clone(), fault.problem.clone())
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

fn of(text: &str, sets: &[&str]) -> Result<SubmitJobRequest, String> {
    let told = |error: CliError| {
        let CliError::Invalid { faults, .. } = error else { panic!("{error}") };
        let lines = faults.into_iter().map(|fault| {
            format!("{}: {}: {}", fault.place.unwrap_or_default(), fault.field, fault.problem)
        });
        lines.collect::<Vec<_>>().join("\n")
    };
    let mut document = Document::read(text, "job.yaml").map_err(told)?;
    for set in sets {
        document.set(&assignment(set).expect("it can be read")).map_err(told)?;
    }
    document.request().map_err(told)
}

fn fault(text: &str, sets: &[&str]) -> String {
    of(text, sets).expect_err("it is wrong")
}

const LAUNCH: &str = "job_id: 42
task: no
steps:
  - type: run
    name: draft
    max_tokens: 300
    prompt: |
      Write a line.
      And another.
  - approval:
      note: \"Go?\"
      allow_edit: true
settings:
  labels: {team: growth, on: 007}
  notify: [+15550100, ana]
  budget_usd: 0.50
  run_at: 2023-11-14T22:13:20Z
";

#[test]
fn yaml_is_read_by_the_types_of_the_fields_and_not_by_guessing() {
    let request = of(LAUNCH, &[]).unwrap();
    assert_eq!((request.job_id.as_str(), request.task.as_str()), ("42", "no"));
    let Some(step::Kind::Run(run)) = &request.steps[0].kind else { panic!("a run step") };
    assert_eq!((run.max_tokens, run.prompt.as_str()), (300, "Write a line.\nAnd another.\n"));
    let Some(step::Kind::Approval(ask)) = &request.steps[1].kind else { panic!("an approval") };
    assert!(ask.allow_edit);
    let settings = request.settings.unwrap();
    assert_eq!(settings.labels["on"], "007");
    assert_eq!(settings.notify, ["+15550100", "ana"]);
    assert_eq!(settings.budget_usd, "0.50", "money keeps its last digit");
    assert_eq!(settings.run_at.map(|at| at.seconds), Some(1_700_000_000));
    let json = r#"{"task":"T","steps":[]}"#;
    assert_eq!(of("{task: T, steps: []}", &[]), of(json, &[]), "both begin alike");
}

#[test]
fn a_mistake_is_told_with_its_line_and_column_and_what_was_meant() {
    for (text, told) in [
        (
            "steps:\n  - type: run\n    promt: p\n",
            "job.yaml:3:5: steps[0].run.promt: unknown field `promt`; did you mean `prompt`?",
        ),
        (
            "steps:\n  - type: rum\n",
            "job.yaml:2:11: steps[0].type: `rum` is not a type of step; did you mean run?",
        ),
        (
            "steps:\n  - {run: {max_tokens: many}}",
            "job.yaml:2:24: steps[0].run.max_tokens: must be a whole number, and is a word `many`",
        ),
        (
            "steps:\n  - {run: {max_tokens: 010}}",
            "job.yaml:2:24: steps[0].run.max_tokens: `010` begins with a 0, which some read as base 8; leave the 0 out",
        ),
        (
            "steps:\n  - {run: {max_tokens: 99999999999}}",
            "job.yaml:2:24: steps[0].run.max_tokens: `99999999999` is too large",
        ),
        (
            "steps:\n  - {run: {max_tokens: \"5\"}}",
            "job.yaml:2:24: steps[0].run.max_tokens: must be a whole number, and is a text `5`",
        ),
        (
            "steps:\n  - {approval: {note: n, allow_edit: yes}}",
            "job.yaml:2:38: steps[0].approval.allow_edit: must be true or false, and is a word `yes`",
        ),
        ("steps: run", "job.yaml:1:8: steps: must be a list, such as [a, b], and is a word `run`"),
        (
            "task:\nsteps: []",
            "job.yaml:1:5: task: has no value; leave the field out, or put the text between quotes",
        ),
        ("task: a\ntask: b\n", "job.yaml:2:1: : the field `task` is there twice"),
        (
            "{\"task\": 5}",
            "job.yaml:1:10: task: must be a text between quotes, and is a number `5`",
        ),
        ("- a", "job.yaml:1:1: : must be an object with fields, and is a list"),
        (
            "steps: [{run: {}, wait: {duration_seconds: 1}}]",
            "job.yaml:1:9: steps[0]: has more than one of run, approval and wait",
        ),
        (
            "steps: [{wait: {duration: 5}}]",
            "job.yaml:1:10: steps[0].wait: unknown field `duration`; did you mean `duration_seconds`?",
        ),
    ] {
        let found = fault(text, &[]);
        assert!(found.starts_with(told), "{text}\n{found}\n{told}");
    }
    // A file called so is YAML, which takes it.
    let text = "{\"task\":\n\"a\",}";
    assert!(of(text, &[]).is_ok());
    for name in ["job.json", "stdin"] {
        let error = Document::read(text, name).expect_err("it is no JSON");
        let CliError::Invalid { faults, .. } = error else { panic!("{error}") };
        assert_eq!(faults[0].place.as_ref(), Some(&format!("{name}:2:5")));
        assert!(faults[0].problem.starts_with("not JSON: trailing comma"), "{faults:?}");
    }
}

#[test]
fn fields_are_set_as_their_types_and_made_where_they_are_not() {
    let request = of(
        LAUNCH,
        &[
            "task=Launch copy",
            "steps[0].prompt=Write: no\nmore = less",
            "steps[0].run.max_tokens=500",
            "steps[1].approval.allow_edit=false",
            "steps[2].wait.duration_seconds=5",
            "settings.labels.team=growth.eu",
            "settings.labels.a.b=c",
            "settings.webhooks=[ops, 7]",
            "settings.notify[1]=bo",
            "validate_only=true",
        ],
    );
    let request = request.unwrap();
    assert_eq!(request.task, "Launch copy");
    let Some(step::Kind::Run(run)) = &request.steps[0].kind else { panic!("a run step") };
    assert_eq!((run.max_tokens, run.prompt.as_str()), (500, "Write: no\nmore = less"));
    assert_eq!(request.steps.len(), 3);
    let settings = request.settings.unwrap();
    assert_eq!(
        (settings.labels["team"].as_str(), settings.labels["a.b"].as_str()),
        ("growth.eu", "c")
    );
    assert_eq!(settings.webhooks, ["ops", "7"]);
    assert_eq!(settings.notify, ["+15550100", "bo"]);
    assert!(request.validate_only);
    for (set, told) in [
        (
            "steps[0].run.promt=x",
            "--set: steps[0].run.promt: unknown field `promt`; did you mean `prompt`?",
        ),
        ("settigns.model=x", "--set: settigns: unknown field `settigns`; did you mean `settings`?"),
        (
            "steps[5].name=x",
            "--set: steps[5]: is too far: the list has 2, and the next that can be set is [2]",
        ),
        ("task.name=x", "--set: task.name: is below something that has no fields"),
        ("task[0]=x", "--set: task[0]: is of something that is no list"),
        ("steps[0].run.max_tokens=1.5", "--set: steps[0].run.max_tokens: must be a whole number"),
        ("steps=x", "--set: steps: must be a list"),
    ] {
        assert!(fault(LAUNCH, &[set]).starts_with(told), "{set}: {}", fault(LAUNCH, &[set]));
    }
    for wrong in ["task", "=x", "steps[x]=1"] {
        assert!(assignment(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn what_a_server_does_not_take_has_its_place_too() {
    let mut document = Document::read(LAUNCH, "job.yaml").unwrap();
    assert_eq!(document.place("steps[0].run.prompt").as_deref(), Some("job.yaml:8:7"));
    assert_eq!(document.place("steps[1].approval.quorum").as_deref(), Some("job.yaml:11:7"));
    assert_eq!(document.place("settings.labels.on").as_deref(), Some("job.yaml:14:30"));
    document.set(&assignment("task=x").unwrap()).unwrap();
    assert_eq!(document.place("task").as_deref(), Some("--set"));
    assert_eq!(document.place("a field?"), Some("job.yaml:1:1".to_owned()));
}
