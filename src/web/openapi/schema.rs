//! Schemas: what each object of the sidecar looks like, made of the messages of the proto.
//!
//! What comes in may leave out nearly everything; what goes out has every field, `null` where there is nothing to tell.
//! Enums are short lower-case words, times RFC 3339 in UTC, and amounts numbers with exactly their digits.

use serde_json::{Map, Value, json};

use super::bound;
use super::contract::{Contract, Field};
use crate::web::jobs::ACTIONS;

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

/// Every schema of the document.
pub(super) fn all(contract: &Contract) -> Map<String, Value> {
    let inputs = INPUTS.iter().map(|name| ((*name).to_owned(), input(contract, name)));
    let outputs = OUTPUTS.iter().map(|name| ((*name).to_owned(), output(contract, name)));
    let own = [
        ("Submission", submission()),
        ("SubmissionForm", submission_form()),
        ("Step", step()),
        ("Action", action(contract)),
        ("ActionForm", action_form()),
        ("Answer", answer()),
        ("Violation", violation()),
        ("Softened", softened()),
    ];
    inputs.chain(outputs).chain(own.map(|(name, schema)| (name.to_owned(), schema))).collect()
}

fn reference(name: &str) -> Value {
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
fn dollars() -> Value {
    json!({"anyOf": [
        {"type": "string", "pattern": r"^([0-9]+(\.[0-9]+)?)?$", "maxLength": 32},
        {"type": "number", "exclusiveMinimum": 0, "maximum": 1_000_000},
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
            "type": "object", "maxProperties": 64, "propertyNames": {"minLength": 1, "maxLength": 63},
            "additionalProperties": {"type": "string", "maxLength": 255},
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
fn described(mut schema: Value, says: &str) -> Value {
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

fn field_says(contract: &Contract, message: &str, field: &str) -> String {
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

/// An id as it is sent: text, or a whole number, which is read as text.
fn id(says: &str) -> Value {
    json!({"description": says, "anyOf": [
        {"type": "string", "maxLength": 255, "pattern": bound::ID},
        {"type": "integer", "minimum": i64::MIN, "maximum": u64::MAX},
        {"type": "null"},
    ]})
}

const JOB_ID_SAYS: &str = "The job's id, chosen by the client: 1 to 255 bytes of printable text without spaces at its ends. A number is read as text.";

fn submission() -> Value {
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

fn step() -> Value {
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
fn form(properties: Value, required: &[&str], says: &str) -> Value {
    json!({"type": "object", "properties": properties, "required": required, "description": says})
}

fn submission_form() -> Value {
    let text = |says: &str| json!({"type": "string", "description": says});
    let json_text = |says: &str| json!({"type": "string", "contentMediaType": "application/json", "description": says});
    form(
        json!({
            "job_id": text(JOB_ID_SAYS), "task": text("What the job is for."),
            "steps": json_text("The steps as JSON text; or a field for each part, such as `steps[0][type]`."),
            "settings": json_text("The settings as JSON text; or a field for each part, such as `settings[labels][team]`."),
            "validate_only": {"type": "string", "enum": ["true", "false", ""]},
        }),
        &[],
        "A submission as a form. A part of a multipart form may be a file: its text counts.",
    )
}

fn violation() -> Value {
    let text = json!({"type": "string"});
    json!({
        "type": "object", "required": ["field", "message"], "additionalProperties": false,
        "properties": {"field": text, "message": text},
    })
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

fn action(contract: &Contract) -> Value {
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
                json!({"type": "string", "pattern": r"\S", "maxLength": 4096}),
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

fn action_form() -> Value {
    let actions = ACTIONS.map(|(name, _)| name);
    let text = json!({"type": "string"});
    form(
        json!({
            "job_id": text, "action": {"type": "string", "enum": actions}, "request_id": text, "comment": text,
            "approval_id": text, "on_behalf_of": text, "edited_output": text, "budget_usd": text,
            "now": text, "from_step": text, "include_links": text,
        }),
        &["job_id", "action"],
        "An action as a form.",
    )
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
            "job": reference("Job"),
        },
    })
}

/// What an error says, with the code and the reasons that it may have.
pub(super) fn fault(code: Value, reasons: Value) -> Value {
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
    let mut schema = fault(json!({"enum": [400, 404, 409, 413, 415]}), json!({"type": "string"}));
    schema["description"] = "A mistake in what was asked, as a lenient client gets it.".into();
    schema["properties"]["ok"] = json!({"const": false});
    schema["properties"]["warnings"] = json!({"type": "array", "items": {"type": "string"}});
    schema["required"] = json!(["ok", "code", "message", "hint", "reason", "warnings"]);
    schema
}
