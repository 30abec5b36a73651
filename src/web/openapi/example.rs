//! Examples: bodies that can be sent as they stand; a test sends each of them.

use serde_json::{Value, json};

/// Named examples, as a document has them.
fn named(examples: &[(&str, &str, Value)]) -> Value {
    let written = examples.iter().map(|(name, summary, value)| {
        ((*name).to_owned(), json!({"summary": summary, "value": value}))
    });
    Value::Object(written.collect())
}

fn the_templates() -> Value {
    json!({
        "job_id": "demo-job-0001", "task": "为一款记账App写推广文案",
        "steps": [
            {"type": "run", "prompt": "用中文写一段80字以内的记账App产品简介，风格务实。"},
            {"type": "approval", "note": "请审核第一步草稿是否可以对外使用"},
        ],
    })
}

/// Jobs as JSON.
pub(super) fn submissions() -> Value {
    named(&[
        ("template", "The example of the n8n template, unchanged", the_templates()),
        (
            "every_kind_of_step",
            "A draft that a person may send back, a pause, and a summary of what was approved",
            json!({
                "job_id": "launch-0042", "task": "Launch copy for the spring campaign",
                "steps": [
                    {"type": "run", "name": "draft", "prompt": "Write two sentences about {{ task }}. {{ feedback }}", "max_tokens": 500, "effort": "low"},
                    {"type": "approval", "note": "May this go out?", "approvers": ["+15550100"], "timeout_seconds": 3600, "on_timeout": "reject", "allow_edit": true, "max_revisions": 2},
                    {"type": "wait", "duration_seconds": 60},
                    {"type": "run", "prompt": "Make a headline of this: {{ draft.output }}", "context": "none"},
                ],
                "settings": {"labels": {"team": "marketing"}, "budget_usd": "2.50", "priority": 10, "language": "en"},
            }),
        ),
        (
            "checked_only",
            "A check that stores nothing",
            json!({"validate_only": true, "steps": [{"type": "wait", "until_at": "2031-01-01T09:00:00Z"}]}),
        ),
    ])
}

/// Jobs as forms, with one value for each field.
pub(super) fn submission_forms() -> Value {
    let steps = the_templates()["steps"].to_string();
    named(&[
        (
            "steps_as_json",
            "Steps as JSON text",
            json!({"job_id": "form-0001", "task": "From a form", "steps": steps}),
        ),
        (
            "steps_in_parts",
            "A field for each part",
            json!({
                "job_id": "form-0002", "steps[0][type]": "run", "steps[0][prompt]": "Say something short.",
                "steps[1][type]": "wait", "steps[1][duration_seconds]": "60", "settings[labels][from]": "a form",
            }),
        ),
    ])
}

/// Jobs as text.
pub(super) fn submission_texts() -> Value {
    let text = json!({"job_id": "text-0001", "steps": [{"type": "wait", "duration_seconds": 60}]});
    named(&[("json_in_text", "JSON without saying so", Value::String(text.to_string()))])
}

/// Actions as JSON, on the template's job.
pub(super) fn actions() -> Value {
    let job_id = "demo-job-0001";
    named(&[
        ("status", "How it stands", json!({"job_id": job_id, "action": "status"})),
        ("pause", "Hold it", json!({"job_id": job_id, "action": "pause", "now": true})),
        ("resume", "Let it go on", json!({"job_id": job_id, "action": "resume"})),
        (
            "cancel",
            "End it, once however often this is sent",
            json!({"job_id": job_id, "action": "cancel", "comment": "no longer needed", "request_id": "cancel-1"}),
        ),
    ])
}

/// Actions as forms.
pub(super) fn action_forms() -> Value {
    named(&[("status", "How it stands", json!({"job_id": "demo-job-0001", "action": "status"}))])
}

/// Actions as text.
pub(super) fn action_texts() -> Value {
    let text = json!({"job_id": "demo-job-0001", "action": "status"});
    named(&[("json_in_text", "JSON without saying so", Value::String(text.to_string()))])
}
