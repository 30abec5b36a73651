//! Schemas: what each object of the sidecar looks like, made of the messages of the proto.
//!
//! What comes in may leave out nearly everything; what goes out has every field, `null` where there is nothing to tell.
//! Enums are short lower-case words, times RFC 3339 in UTC, and amounts numbers with exactly their digits.

use serde_json::{Map, Value, json};

use super::bound;
use super::contract::{Contract, Field};
use super::request;
use crate::domain::validate::bound::{
    BUDGET_USD_MAX, LABEL_KEY_BYTES_MAX, LABEL_VALUE_BYTES_MAX, LABELS_MAX,
};

/// The messages that come in, by the names that schemas have.
pub(super) const INPUTS: [&str; 6] =
    ["RunStep", "ApprovalStep", "WaitStep", "WebSearch", "UserLocation", "JobSettings"];
/// Those that go out.
pub(super) const OUTPUTS: [&str; 9] = [
    "Job",
    "StepState",
    "Citation",
    "Usage",
    "Approval",
    "ApprovalLink",
    "Decision",
    "Notice",
    "Failure",
];
/// Texts that are there even if nothing was said, and so are never null.
const TEXTS_NEVER_NULL: [(&str, &str); 6] = [
    ("RunStep", "prompt"),
    ("ApprovalStep", "note"),
    ("UserLocation", "city"),
    ("UserLocation", "region"),
    ("UserLocation", "country"),
    ("UserLocation", "timezone"),
];
/// Outgoing texts that are null where there is nothing to tell, and numbers that the proto writes as text.
const AMOUNTS: [&str; 2] = ["cost_usd", "budget_usd"];

/// What is shown of a job to who may move it and not read it, beside the id of its approval.
const OUTLINE: [&str; 11] = [
    "job_id",
    "status",
    "reason",
    "status_message",
    "current_step",
    "step_count",
    "run_at",
    "last_sequence",
    "created_at",
    "updated_at",
    "finished_at",
];

/// Every schema of the document.
pub(super) fn all(contract: &Contract) -> Map<String, Value> {
    let inputs = INPUTS.iter().map(|name| ((*name).to_owned(), input(contract, name)));
    let outputs = OUTPUTS.iter().map(|name| ((*name).to_owned(), output(contract, name)));
    let own = [
        ("Submission", request::submission()),
        ("SubmissionForm", request::submission_form()),
        ("Step", request::step()),
        ("Action", request::action(contract)),
        ("ActionForm", request::action_form()),
        ("JobOutline", outline(contract)),
        ("Answer", answer()),
        ("Violation", violation()),
        ("Softened", softened()),
    ];
    inputs.chain(outputs).chain(own.map(|(name, schema)| (name.to_owned(), schema))).collect()
}

/// Where another schema is.
pub(super) fn reference(name: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{name}")})
}

/// The same schema, which null fits as well.
fn or_null(mut schema: Value) -> Value {
    if let Some(words) = schema.get_mut("enum").and_then(Value::as_array_mut) {
        words.push(Value::Null);
    }
    match schema.get_mut("type") {
        Some(kind) => {
            *kind = json!([kind.take(), "null"]);
            schema
        }
        None => json!({"anyOf": [schema, {"type": "null"}]}),
    }
}

/// An amount of dollars as it is sent: text, or a number, which is read as it is written.
pub(super) fn dollars() -> Value {
    json!({"anyOf": [
        {"type": "string", "pattern": r"^([0-9]+(\.[0-9]+)?)?$", "maxLength": 32},
        {"type": "number", "exclusiveMinimum": 0, "maximum": BUDGET_USD_MAX},
        {"type": "null"},
    ]})
}

fn moment() -> Value {
    json!({"type": "string", "format": "date-time"})
}

fn input(contract: &Contract, name: &str) -> Value {
    let message = contract.message(name);
    let mut properties = Map::new();
    let mut required = Vec::new();
    if let Some(kind) = name.strip_suffix("Step") {
        properties.insert("type".to_owned(), json!({"const": kind.to_ascii_lowercase()}));
        required.push("type");
        let says = field_says(contract, "Step", "name");
        properties.insert("name".to_owned(), described(or_null(json!({"type": "string"})), &says));
    }
    for field in &message.fields {
        let schema = described(input_field(contract, name, field), &says_here(name, field));
        properties.insert(field.name.clone(), schema);
    }
    for (field, schema) in &mut properties {
        let is_list = schema["type"] == "array";
        bound::bind(schema, name, field, is_list);
    }
    if name == "RunStep" {
        required.push("prompt");
    }
    let mut schema = json!({
        "type": "object", "description": message.says, "properties": properties,
        "required": required, "additionalProperties": false,
    });
    if name == "WaitStep" {
        let nothing = json!({"type": "null"});
        schema["oneOf"] = json!([
            {"required": ["duration_seconds"], "properties": {"duration_seconds": {"type": "integer"}, "until_at": nothing}},
            {"required": ["until_at"], "properties": {"until_at": {"type": "string"}, "duration_seconds": nothing}},
        ]);
    }
    schema
}

fn input_field(contract: &Contract, message: &str, field: &Field) -> Value {
    let nullable = |schema: Value| if field.list { schema } else { or_null(schema) };
    let one = match field.holds.as_str() {
        "bool" => json!({"type": "boolean"}),
        "map" => json!({
            "type": "object", "maxProperties": LABELS_MAX,
            "propertyNames": {"minLength": 1, "maxLength": LABEL_KEY_BYTES_MAX},
            "additionalProperties": {"type": "string", "maxLength": LABEL_VALUE_BYTES_MAX},
        }),
        "string" if AMOUNTS.contains(&field.name.as_str()) => dollars(),
        "string" if TEXTS_NEVER_NULL.contains(&(message, &*field.name)) => {
            json!({"type": "string"})
        }
        "string" => nullable(json!({"type": "string"})),
        "int32" | "int64" => nullable(json!({"type": "integer"})),
        "Timestamp" => nullable(moment()),
        other => nullable(named(contract, other)),
    };
    if field.list { json!({"type": "array", "items": one}) } else { one }
}

/// What another message or an enum looks like.
fn named(contract: &Contract, name: &str) -> Value {
    match contract.enums.get(name) {
        Some(known) => {
            let words: Vec<&str> = known.words.iter().map(|one| one.word.as_str()).collect();
            json!({"type": "string", "enum": words, "title": name, "description": known.description()})
        }
        None => reference(name),
    }
}

/// Adds what is said of a field to what its type says.
pub(super) fn described(mut schema: Value, says: &str) -> Value {
    let known = schema["description"].as_str().map(|known| format!("\n\n{known}"));
    schema["description"] = format!("{says}{}", known.unwrap_or_default()).into();
    schema
}

/// What the proto says of a field, with what is otherwise over the webhook.
fn says_here(message: &str, field: &Field) -> String {
    match (message, field.name.as_str()) {
        ("RunStep", "context") => {
            "What the model sees of the steps before. Left out: `none`, as the template had it."
                .to_owned()
        }
        _ => field.says.clone(),
    }
}

/// What the proto says of a field of a message.
pub(super) fn field_says(contract: &Contract, message: &str, field: &str) -> String {
    let found = contract.message(message).fields.iter().find(|one| one.name == field);
    found.map_or_else(String::new, |field| field.says.clone())
}

fn output(contract: &Contract, name: &str) -> Value {
    let message = contract.message(name);
    let mut properties = Map::new();
    let mut required = Vec::new();
    for field in &message.fields {
        let schema = described(output_field(contract, name, field), &field.says);
        properties.insert(field.name.clone(), schema);
        // Links are secrets, and there only for whoever asks for them.
        if field.name != "links" {
            required.push(field.name.as_str());
        }
    }
    json!({
        "type": "object", "description": message.says, "properties": properties,
        "required": required, "additionalProperties": false,
    })
}

fn outline(contract: &Contract) -> Value {
    let whole = output(contract, "Job");
    let field = |name: &&str| ((*name).to_owned(), whole["properties"][*name].clone());
    let mut properties: Map<String, Value> = OUTLINE.iter().map(field).collect();
    let approval = json!({
        "type": "object", "required": ["approval_id"], "additionalProperties": false,
        "properties": {"approval_id": {"type": "string"}},
    });
    properties.insert("approval".to_owned(), or_null(approval));
    let required: Vec<String> = properties.keys().cloned().collect();
    json!({
        "type": "object", "properties": properties, "required": required,
        "additionalProperties": false,
        "description": "How a job stands, for a key that lacks the scope read.",
    })
}

fn output_field(contract: &Contract, message: &str, field: &Field) -> Value {
    let one = match (message, field.name.as_str(), field.holds.as_str()) {
        ("Job", "cost_usd", _) => json!({"type": "number", "minimum": 0}),
        (_, "cost_usd" | "budget_usd", _) => json!({"type": ["number", "null"], "minimum": 0}),
        ("Notice", "notice_id", _) => json!({"type": ["string", "null"]}),
        // What has no usage or no decision has an empty one; a job that was never stored has no times.
        (_, "usage", _) => reference("Usage"),
        (_, _, "bool") => json!({"type": "boolean"}),
        (_, _, "map") => json!({"type": "object", "additionalProperties": {"type": "string"}}),
        (_, _, "string") => json!({"type": "string"}),
        (_, _, "int32" | "int64") => json!({"type": "integer"}),
        (_, _, "Timestamp") => or_null(moment()),
        (_, _, other) if contract.enums.contains_key(other) => named(contract, other),
        (_, _, other) if field.list => reference(other),
        (_, _, other) => or_null(reference(other)),
    };
    if field.list { json!({"type": "array", "items": one}) } else { one }
}

fn violation() -> Value {
    json!({
        "type": "object", "required": ["field", "message"], "additionalProperties": false,
        "description": "A field of the request that is wrong.",
        "properties": {
            "field": {"type": "string", "description": "Its path, such as `steps[0].prompt`."},
            "message": {"type": "string", "description": "What is wrong with it."},
        },
    })
}

fn answer() -> Value {
    let text = json!({"type": "string"});
    let flag = json!({"type": "boolean"});
    json!({
        "type": "object", "additionalProperties": false,
        "description": "What was asked is done; the job as it is now.",
        "required": ["ok", "job_id", "status", "current_step", "created", "changed", "message", "warnings", "job"],
        "properties": {
            "ok": {"const": true},
            "job_id": text,
            "status": {"type": "string", "description": "The same as job.status."},
            "current_step": {"type": "integer"},
            "created": described(flag.clone(), "Whether the job was stored now."),
            "changed": described(flag, "Whether this changed anything."),
            "message": text,
            "warnings": {"type": "array", "items": text, "description": "What the job needs that is not configured, and what nothing read."},
            "job": {"anyOf": [reference("Job"), reference("JobOutline")]},
        },
    })
}

/// What an error says, with the code and the reasons that it may have.
pub(super) fn fault(code: &Value, reasons: &Value) -> Value {
    let text = json!({"type": "string"});
    json!({
        "type": "object", "required": ["code", "message", "hint", "reason"], "additionalProperties": false,
        "properties": {
            "code": code,
            "message": described(text.clone(), "What is wrong, for people."),
            "hint": described(text.clone(), "What can be done about it; may be empty."),
            "reason": reasons,
            "field": described(text.clone(), "The field it is about."),
            "status": described(text.clone(), "The status the job has."),
            "job_id": described(text, "The job that is stored although this went wrong."),
            "violations": {"type": "array", "items": reference("Violation")},
        },
    })
}

/// An error as it is told with 200 to whom mistakes are softened.
fn softened() -> Value {
    let mut schema = fault(&json!({"enum": [400, 404, 409, 413, 415]}), &json!({"type": "string"}));
    schema["description"] = "A mistake in what was asked, as a lenient client gets it.".into();
    schema["properties"]["ok"] = json!({"const": false});
    schema["properties"]["warnings"] = json!({"type": "array", "items": {"type": "string"}});
    schema["required"] = json!(["ok", "code", "message", "hint", "reason", "warnings"]);
    schema
}
