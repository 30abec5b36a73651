//! Paths: what can be asked at each route, and everything that may be answered.
//!
//! A route that has no description here is missing from the document, which a test notices.

use axum::http::StatusCode;
use serde_json::{Map, Value, json};

use super::contract::Contract;
use super::example;
use super::schema::fault;
use crate::domain::reason::{Faces, Reason};
use crate::web::WebSettings;
use crate::web::asked::WAIT_SECONDS_MAX;
use crate::web::fault::code_of;

/// A route as a document writes it.
pub(super) fn written(route: &str) -> String {
    route.replace("{*", "{")
}

/// What can be asked at a route.
pub(super) fn item(route: &str, contract: &Contract, settings: &WebSettings) -> Map<String, Value> {
    let item = match route {
        "/webhook/durable-job" => json!({"post": submit(settings)}),
        "/webhook/durable-job-control" => json!({"post": control(settings, contract)}),
        "/webhook/whatsapp" => json!({"get": verify(), "post": receive()}),
        "/approvals/{token}" => json!({"parameters": [token()], "get": show(), "post": decide()}),
        "/approvals" | "/approvals/" => mangled(route, &[]),
        "/approvals/{token}/" => mangled(route, &[token()]),
        "/approvals/{token}/{*more}" => mangled(route, &[token(), more()]),
        "/healthz" => json!({"get": health()}),
        "/openapi.json" => json!({"get": this()}),
        _ => json!({}),
    };
    let Value::Object(item) = item else { unreachable!("each of these is an object") };
    item
}

/// The reasons that this face gives with a code.
fn reasons(code: StatusCode) -> Vec<&'static str> {
    let told = |reason: &Reason| match reason.faces() {
        Faces::Both | Faces::Http => code_of(*reason) == code,
        Faces::Grpc => false,
    };
    let found: Vec<_> = Reason::ALL.iter().filter(|reason| told(reason)).collect();
    // Codes that HTTP has for requests that are wrong in a way of its own.
    let found = if found.is_empty() { vec![&Reason::InvalidRequest] } else { found };
    found.into_iter().map(|reason| reason.word()).collect()
}

/// The answers with these codes, each an error in the shape of all.
fn faults(codes: &[u16]) -> Map<String, Value> {
    let answers = codes.iter().map(|code| {
        let status = StatusCode::from_u16(*code).expect("the codes here are codes");
        let says = status.canonical_reason().unwrap_or_default();
        let schema = fault(&json!({"const": code}), &json!({"enum": reasons(status)}));
        let mut answer = json!({"description": says, "content": {"application/json": {"schema": schema}}});
        if matches!(code, 429 | 503) {
            answer["headers"] = json!({"Retry-After": {"schema": {"type": "integer"}, "description": "After how many seconds to try again."}});
        }
        if matches!(code, 401) {
            answer["headers"] = json!({"WWW-Authenticate": {"schema": {"type": "string"}}});
        }
        (code.to_string(), answer)
    });
    answers.collect()
}

/// The answers with these codes, each a page.
fn pages(codes: &[(u16, &str)]) -> Map<String, Value> {
    let page = json!({"text/html; charset=utf-8": {"schema": {"type": "string"}}});
    let answers = codes
        .iter()
        .map(|(code, says)| (code.to_string(), json!({"description": says, "content": page})));
    answers.collect()
}

fn with(mut answers: Map<String, Value>, code: &str, answer: Value) -> Value {
    answers.insert(code.to_owned(), answer);
    Value::Object(answers)
}

/// What every webhook of a job takes beside its body.
fn parameters() -> Value {
    json!([
        {
            "name": "wait", "in": "query", "schema": {"type": "integer", "minimum": 0, "maximum": WAIT_SECONDS_MAX},
            "description": "Answer when the job stands still or has ended, or after so many seconds with the job as it is then. A wait that the server's stop ends is answered with 503 and the `job_id`.",
        },
        {
            "name": "lenient", "in": "query", "schema": {"type": "string", "enum": ["true", "false", "1", "0", ""]},
            "description": "Whether mistakes are answered with 200 and `\"ok\": false`, and what nothing reads is a warning. Left out: as LONGHAUL_LENIENT says.",
        },
    ])
}

/// What every webhook of a job may answer.
fn job_answers() -> Value {
    let schema = json!({"anyOf": [
        {"$ref": "#/components/schemas/Answer"}, {"$ref": "#/components/schemas/Softened"},
    ]});
    with(
        faults(&[400, 401, 403, 404, 405, 409, 413, 415, 429, 500, 503]),
        "200",
        json!({"description": "What was asked is done; or, to a lenient client, what was wrong with it.", "content": {"application/json": {"schema": schema}}}),
    )
}

/// A body in every type that is taken.
fn body(settings: &WebSettings, name: &str, [object, form, text]: &[Value; 3]) -> Value {
    let whole = json!({"$ref": format!("#/components/schemas/{name}")});
    let in_form = json!({"$ref": format!("#/components/schemas/{name}Form")});
    let in_text =
        json!({"type": "string", "contentMediaType": "application/json", "contentSchema": whole});
    json!({
        "required": true,
        "description": format!(
            "At most {} bytes, also after it is unpacked: `Content-Encoding` may be gzip or deflate. Without a content type it is JSON.",
            settings.body_bytes_max
        ),
        "content": {
            "application/json": {"schema": whole, "examples": object},
            "application/x-www-form-urlencoded": {"schema": in_form, "examples": form},
            "multipart/form-data": {"schema": in_form, "examples": form},
            "text/plain": {"schema": in_text, "examples": text},
        },
    })
}

fn submit(settings: &WebSettings) -> Value {
    let examples =
        [example::submissions(), example::submission_forms(), example::submission_texts()];
    json!({
        "tags": ["jobs"], "operationId": "submitJob", "summary": "Submit a job",
        "description": "Stores a job and answers at once; 200 means that it is committed. Safe to repeat with a `job_id`.",
        "parameters": parameters(),
        "requestBody": body(settings, "Submission", &examples),
        "responses": job_answers(),
    })
}

fn control(settings: &WebSettings, contract: &Contract) -> Value {
    let says = &contract.message("ControlRequest").says;
    let examples = [example::actions(), example::action_forms(), example::action_texts()];
    json!({
        "tags": ["jobs"], "operationId": "controlJob", "summary": "Move a job, or look at it",
        "description": format!("{says} Safe to repeat. `status` changes nothing and needs the scope `read`; `approve`, `reject` and `request_changes` need `approve`; the others need `control`."),
        "parameters": parameters(),
        "requestBody": body(settings, "Action", &examples),
        "responses": job_answers(),
    })
}

fn verify() -> Value {
    let parameter = |name: &str, says: &str| json!({"name": name, "in": "query", "required": true, "schema": {"type": "string"}, "description": says});
    let word = json!({"text/plain; charset=utf-8": {"schema": {"type": "string"}}});
    json!({
        "tags": ["whatsapp"], "operationId": "verifyWhatsapp", "summary": "Meta asks whether the address is ours",
        "parameters": [
            parameter("hub.mode", "`subscribe`."),
            parameter("hub.verify_token", "LONGHAUL_WHATSAPP_VERIFY_TOKEN."),
            parameter("hub.challenge", "A word, which is answered as it came."),
        ],
        "responses": with(
            faults(&[400, 403, 404, 405, 429, 500, 503]), "200",
            json!({"description": "The challenge.", "content": word}),
        ),
    })
}

fn receive() -> Value {
    let word = json!({"text/plain; charset=utf-8": {"schema": {"const": "ok"}}});
    json!({
        "tags": ["whatsapp"], "operationId": "receiveWhatsapp", "summary": "Meta tells of messages",
        "description": "Counts only if one of the app's secrets has signed its raw bytes. 200 means that all of it is kept.",
        "parameters": [{
            "name": "X-Hub-Signature-256", "in": "header", "required": true,
            "schema": {"type": "string", "pattern": "^sha256=[0-9a-fA-F]{64}$"},
            "description": "HMAC-SHA-256 of the body with the app's secret.",
        }],
        "requestBody": {"required": true, "content": {"application/json": {"schema": {"type": "object", "description": "A notification of Meta's WhatsApp Business Platform."}}}},
        "responses": with(
            faults(&[400, 401, 404, 405, 413, 429, 500, 503]), "200",
            json!({"description": "It is kept.", "content": word}),
        ),
    })
}

fn token() -> Value {
    json!({
        "name": "token", "in": "path", "required": true, "schema": {"type": "string"},
        "description": "The secret of a link, which is the right to decide; it belongs to one approver.",
    })
}

fn more() -> Value {
    json!({"name": "more", "in": "path", "required": true, "schema": {"type": "string"}, "description": "Anything."})
}

fn show() -> Value {
    json!({
        "tags": ["approvals"], "operationId": "showApproval", "summary": "Show what is asked, or what became of it",
        "description": "Changes nothing, however often and by whomever it is fetched.",
        "responses": pages(&[
            (200, "The page."), (404, "The link opens nothing."), (405, "Only GET and POST are taken."),
            (429, "Too much at once."), (500, "A fault of the server."), (503, "The server cannot do this at the moment."),
        ]),
    })
}

fn decide() -> Value {
    let text = json!({"type": "string"});
    let form = json!({
        "type": "object", "required": ["verdict", "approval_id"],
        "properties": {
            "verdict": {"type": "string", "enum": ["approve", "reject", "request_changes"]},
            "approval_id": {"type": "string", "format": "uuid"},
            "comment": text, "edited_output": text,
        },
    });
    let answers = pages(&[
        (400, "The form cannot be read."),
        (403, "The page of another website sent it."),
        (404, "The link opens nothing."),
        (405, "Only GET and POST are taken."),
        (409, "It was decided before; the page says how."),
        (413, "The form is too large."),
        (429, "Too much at once."),
        (500, "A fault of the server."),
        (503, "The server cannot do this at the moment."),
    ]);
    json!({
        "tags": ["approvals"], "operationId": "decideApproval", "summary": "Decide",
        "description": "Decides once, in the name of the approver whose link it is, and leads back to the page.",
        "requestBody": {"required": true, "content": {"application/x-www-form-urlencoded": {"schema": form}}},
        "responses": with(answers, "303", json!({
            "description": "It is decided; the page shows it.",
            "headers": {"Location": {"schema": {"type": "string"}}},
        })),
    })
}

/// A link that somebody added to, or cut its token off: a page says that it opens nothing.
fn mangled(route: &str, parameters: &[Value]) -> Value {
    let mut item = Map::new();
    let place: String = route.chars().filter(char::is_ascii_alphabetic).collect();
    let ends = if route.ends_with('/') { "Slash" } else { "" };
    for method in ["get", "post"] {
        let operation = json!({
            "tags": ["approvals"], "operationId": format!("{method}Mangled{place}{ends}"), "summary": "A mangled link",
            "responses": pages(&[
                (403, "The page of another website sent it."), (404, "The link opens nothing."),
                (405, "Only GET and POST are taken."), (429, "Too much at once."),
                (500, "A fault of the server."), (503, "The server cannot do this at the moment."),
            ]),
        });
        item.insert(method.to_owned(), operation);
    }
    item.insert("parameters".to_owned(), parameters.into());
    Value::Object(item)
}

fn health() -> Value {
    let word = json!({"text/plain; charset=utf-8": {"schema": {"const": "ok"}}});
    json!({
        "tags": ["server"], "operationId": "health", "summary": "Whether the database answers",
        "responses": with(faults(&[405, 429, 500, 503]), "200", json!({"description": "It does.", "content": word})),
    })
}

fn this() -> Value {
    let object = json!({"application/json": {"schema": {"type": "object"}}});
    json!({
        "tags": ["server"], "operationId": "openapi", "summary": "This document",
        "responses": with(faults(&[405, 429, 500, 503]), "200", json!({"description": "OpenAPI 3.1.", "content": object})),
    })
}
