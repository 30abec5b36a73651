//! The `OpenAPI` document: what the sidecar takes and answers, for whoever writes a client or draws a workflow.
//!
//! It is made when the server starts, of what the code itself goes by: the routes and what they need (`door::table`),
//! the messages of the proto with their comments, the actions and their fields, the reasons and their codes.
//! So it says of this server how it is: which header holds a key, where it is, and whether it is open.

mod bound;

mod contract;

mod schema;

mod request;

mod path;

mod example;

use std::sync::Arc;

use axum::Extension;
use axum::http::header;
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use serde_json::{Map, Value, json};

use self::contract::Contract;
use super::WebSettings;
use crate::domain::word::Word as _;
use crate::door::Keyring;
use crate::door::table::{Need, ROUTES};

const ABOUT: &str = "The HTTP face of Longhaul, a durable queue for long AI jobs: two webhooks for clients that cannot speak gRPC, \
the approval page, and WhatsApp's webhook.\n\n\
A submit with a `job_id` and every control action are safe to repeat. No GET acts.\n\n\
Every error of the webhooks is JSON with `code`, `message`, `hint` and `reason`; those of the approval page are pages.\n\n\
With `lenient`, mistakes in what is asked are answered with 200 and `\"ok\": false`, and fields that nothing reads \
are named in `warnings` instead of being refused; a key that is missing or wrong, and a server without room, never are.";

/// The document, as it is while keys are needed and as it is while they are not.
pub(super) struct Document {
    closed: Bytes,
    open: Bytes,
    keyring: Keyring,
}

impl Document {
    /// The document of a server with these settings.
    pub(super) fn new(settings: &WebSettings, keyring: Keyring) -> Arc<Self> {
        let written = |is_open| Bytes::from(document(settings, is_open).to_string());
        Arc::new(Self { closed: written(false), open: written(true), keyring })
    }
}

/// Shows the document.
pub(super) async fn show(Extension(document): Extension<Arc<Document>>) -> Response {
    let is_open = document.keyring.is_open();
    let body = if is_open { &document.open } else { &document.closed };
    ([(header::CONTENT_TYPE, "application/json")], body.clone()).into_response()
}

fn document(settings: &WebSettings, is_open: bool) -> Value {
    let contract = Contract::read();
    let paths: Map<String, Value> = ROUTES
        .iter()
        .map(|(route, need)| {
            let mut item = path::item(route, &contract, settings);
            for (_, operation) in item.iter_mut().filter(|(name, _)| *name != "parameters") {
                operation["security"] = security(*need, settings, is_open);
                let Need::AnyOf(scopes) = need else { continue };
                let words: Vec<_> =
                    scopes.iter().map(|scope| format!("`{}`", scope.word())).collect();
                let says = operation["description"].as_str().unwrap_or_default();
                let says = format!("{says}\n\nNeeds a key with the scope {}.", words.join(" or "));
                operation["description"] = says.into();
            }
            (path::written(route), Value::Object(item))
        })
        .collect();
    json!({
        "openapi": "3.1.0",
        "jsonSchemaDialect": "https://json-schema.org/draft/2020-12/schema",
        "info": {
            "title": "Longhaul",
            "summary": "A durable queue for long AI jobs that pause, wait for a human, and survive crashes.",
            "description": ABOUT,
            "version": env!("CARGO_PKG_VERSION"),
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": settings.public_url, "description": "As LONGHAUL_PUBLIC_URL says."}],
        "tags": [
            {"name": "jobs", "description": "Submit jobs and move them."},
            {"name": "approvals", "description": "Where approvers decide, with nothing but a link."},
            {"name": "whatsapp", "description": "Where Meta tells what became of messages, and what people wrote."},
            {"name": "server", "description": "About the server itself."},
        ],
        "paths": paths,
        "components": {"schemas": schema::all(&contract), "securitySchemes": schemes(settings)},
    })
}

fn schemes(settings: &WebSettings) -> Value {
    let mut schemes = json!({
        "bearer": {"type": "http", "scheme": "bearer", "description": "`Authorization: Bearer` and a key."},
        "basic": {"type": "http", "scheme": "basic", "description": "The key is the password; the user may be anything."},
        "x_api_key": {"type": "apiKey", "in": "header", "name": "x-api-key"},
    });
    if let Some(name) = &settings.key_header {
        schemes["own_header"] = json!({
            "type": "apiKey", "in": "header", "name": name.as_str(),
            "description": "As LONGHAUL_KEY_HEADER says.",
        });
    }
    schemes
}

/// The ways to show a key, any of which will do; none at all, where none is needed.
fn security(need: Need, settings: &WebSettings, is_open: bool) -> Value {
    if need == Need::Nothing {
        return json!([]);
    }
    let own = settings.key_header.as_ref().map(|_| "own_header");
    let names = ["bearer", "basic", "x_api_key"].into_iter().chain(own);
    let mut ways: Vec<Value> = names.map(|name| json!({name: []})).collect();
    if is_open {
        ways.push(json!({}));
    }
    ways.into()
}

#[cfg(test)]
mod tests;
