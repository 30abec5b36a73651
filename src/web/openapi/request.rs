//! Requests: what the bodies of the two webhooks look like, as JSON and as forms.
//!
//! Submissions are made of the messages of the proto; actions of the table by which they are read (`jobs::ACTIONS`).
//! A field that an action does not take may be there if it is empty, as clients with fixed forms send it.

use serde_json::{Map, Value, json};

use super::bound;
use super::contract::Contract;
use super::schema::{described, dollars, field_says, reference};
use crate::domain::validate::bound::COMMENT_BYTES_MAX;
use crate::web::jobs::ACTIONS;

/// An id as it is sent: text, or a whole number, which is read as text.
fn id(says: &str) -> Value {
    json!({"description": says, "anyOf": [
        {"type": "string", "maxLength": 255, "pattern": bound::ID},
        {"type": "integer", "minimum": i64::MIN, "maximum": u64::MAX},
        {"type": "null"},
    ]})
}

const JOB_ID_SAYS: &str = "The job's id, chosen by the client: 1 to 255 bytes of printable text without spaces at its ends. A number is read as text.";

/// A job as JSON.
pub(super) fn submission() -> Value {
    let says = format!("{JOB_ID_SAYS} Left out or empty: a UUIDv7, which the answer names.");
    let mut task = json!({"type": "string", "description": "What the job is for."});
    bound::bind(&mut task, "Submission", "task", false);
    json!({
        "type": "object", "additionalProperties": false, "required": ["steps"],
        "description": "A job to store. The same job_id with the same content answers with the job as it is; with other content it is refused.",
        "properties": {
            "job_id": id(&says),
            "task": task,
            "steps": {
                "type": "array", "minItems": 1, "maxItems": bound::STEPS, "items": reference("Step"),
                "description": "The steps, in order.",
            },
            "settings": described(reference("JobSettings"), "What holds for the whole job."),
            "validate_only": {"type": ["boolean", "null"], "description": "Check it and store nothing."},
        },
    })
}

/// One of its steps.
pub(super) fn step() -> Value {
    let kinds = ["RunStep", "ApprovalStep", "WaitStep"];
    json!({
        "description": "One unit of a job: its fields stand beside its `type`.",
        "oneOf": kinds.map(reference),
        "discriminator": {"propertyName": "type", "mapping": {
            "run": "#/components/schemas/RunStep",
            "approval": "#/components/schemas/ApprovalStep",
            "wait": "#/components/schemas/WaitStep",
        }},
    })
}

/// A form, in which everything is text; what is nested is JSON text or has a field for each part.
fn form(properties: &Value, required: &[&str], says: &str) -> Value {
    json!({"type": "object", "properties": properties, "required": required, "description": says})
}

/// A job as a form.
pub(super) fn submission_form() -> Value {
    let text = |says: &str| json!({"type": "string", "description": says});
    let json_text = |says: &str| json!({"type": "string", "contentMediaType": "application/json", "description": says});
    form(
        &json!({
            "job_id": text(JOB_ID_SAYS), "task": text("What the job is for."),
            "steps": json_text("The steps as JSON text; or a field for each part, such as `steps[0][type]`."),
            "settings": json_text("The settings as JSON text; or a field for each part, such as `settings[labels][team]`."),
            "validate_only": {"type": "string", "enum": ["true", "false", ""], "description": "Check it and store nothing."},
        }),
        &[],
        "A submission as a form. A part of a multipart form may be a file: its text counts.",
    )
}

/// The fields of an action, with what each takes; `given` that is empty is as good as left out.
fn action_fields(contract: &Contract) -> Vec<(&'static str, Value, Value)> {
    let says = |message: &str, field: &str| field_says(contract, message, field);
    let text = |message: &str, field: &str| {
        let mut schema = json!({"type": ["string", "null"], "description": says(message, field)});
        bound::bind(&mut schema, "Action", field, false);
        schema
    };
    let empty_text = json!({"enum": ["", null]});
    let mut approval_id = text("ApproveAction", "approval_id");
    approval_id["anyOf"] = json!([{"format": "uuid"}, {"enum": ["", null]}]);
    vec![
        ("comment", text("ApproveAction", "comment"), empty_text.clone()),
        ("approval_id", approval_id, empty_text.clone()),
        ("on_behalf_of", text("ApproveAction", "on_behalf_of"), empty_text.clone()),
        ("edited_output", text("ApproveAction", "edited_output"), empty_text.clone()),
        (
            "now",
            described(json!({"type": ["boolean", "null"]}), &says("PauseAction", "now")),
            json!({"enum": [false, null]}),
        ),
        (
            "from_step",
            described(
                json!({"type": ["integer", "null"], "minimum": 0, "maximum": i32::MAX}),
                &says("RetryAction", "from_step"),
            ),
            json!({"enum": [0, null]}),
        ),
        ("budget_usd", described(dollars(), &says("ResumeAction", "budget_usd")), empty_text),
        (
            "include_links",
            json!({"type": ["boolean", "null"], "description": "Answer with a fresh link for each approver of the pending approval; needs the scope `approve` as well."}),
            json!({"enum": [false, null]}),
        ),
    ]
}

/// An action as JSON: a schema for each, as its fields differ.
pub(super) fn action(contract: &Contract) -> Value {
    let fields = action_fields(contract);
    let one = |(name, takes): &(&str, &[&str])| {
        let mut required = vec!["job_id", "action"];
        let mut properties = Map::new();
        properties.insert("action".to_owned(), json!({"const": name}));
        properties.insert(
            "job_id".to_owned(),
            json!({
                "description": JOB_ID_SAYS,
                "anyOf": [
                    {"type": "string", "minLength": 1, "maxLength": 255, "pattern": bound::ID},
                    {"type": "integer", "minimum": i64::MIN, "maximum": u64::MAX},
                ],
            }),
        );
        properties.insert(
            "request_id".to_owned(),
            id(&field_says(contract, "ControlRequest", "request_id")),
        );
        for (field, full, empty) in &fields {
            let schema = if takes.contains(field) { full } else { empty };
            properties.insert((*field).to_owned(), schema.clone());
        }
        if *name == "request_changes" {
            required.push("comment");
            properties.insert(
                "comment".to_owned(),
                json!({"type": "string", "pattern": r"\S", "maxLength": COMMENT_BYTES_MAX}),
            );
        }
        json!({
            "title": name, "type": "object", "properties": properties, "required": required,
            "additionalProperties": false, "description": field_says(contract, "ControlRequest", name),
        })
    };
    json!({
        "description": "One action on one job. The same request_id with the same action answers as the first time.",
        "oneOf": ACTIONS.iter().map(one).collect::<Vec<_>>(),
    })
}

/// An action as a form.
pub(super) fn action_form() -> Value {
    let actions = ACTIONS.map(|(name, _)| name);
    let text = json!({"type": "string"});
    form(
        &json!({
            "job_id": text, "action": {"type": "string", "enum": actions}, "request_id": text, "comment": text,
            "approval_id": text, "on_behalf_of": text, "edited_output": text, "budget_usd": text,
            "now": text, "from_step": text, "include_links": text,
        }),
        &["job_id", "action"],
        "An action as a form.",
    )
}
