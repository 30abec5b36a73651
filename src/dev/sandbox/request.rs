//! What a request to the Messages API must look like, and what is wrong with one that does not.
//! In come the headers and the JSON body; out goes the [`Asked`] question, or a [`Refusal`].
//! It refuses what the provider refuses: unknown fields, wrong types, and what a model does not take.
//! Nothing here answers and nothing here has state.

use std::sync::Arc;

use axum::http::HeaderMap;
use serde_json::{Map, Value};

use super::{
    catalog::{Model, find_model},
    refusal::Refusal,
};

/// Versions of the API, oldest first.
const VERSIONS: [&str; 2] = ["2023-06-01", "2026-10-21"];
/// The fields of a question, whether it is to be answered or only counted.
const FIELDS: [&str; 17] = [
    "model",
    "messages",
    "system",
    "tools",
    "tool_choice",
    "thinking",
    "output_config",
    "cache_control",
    "speed",
    "temperature",
    "top_p",
    "top_k",
    "inference_geo",
    "container",
    "diagnostics",
    "service_tier",
    "metadata",
];
/// The fields only an answer needs.
const ANSWER_FIELDS: [&str; 3] = ["max_tokens", "stream", "stop_sequences"];
/// The fields that no request of a batch may have.
const NEVER_BATCHED: [&str; 4] = ["stream", "speed", "thread", "fallbacks"];
/// The fields that need an `anthropic-beta` header.
const BETA_FIELDS: [&str; 5] =
    ["thread", "fallbacks", "context_management", "mcp_servers", "billing_policy"];

/// What a question is sent for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// To be answered now.
    Answer,
    /// To be answered as one of a batch.
    Batch,
    /// To have its tokens counted.
    Count,
}

/// A question that may be answered.
#[derive(Debug)]
pub struct Asked {
    /// The model that is asked.
    pub model: &'static Model,
    /// The most tokens the answer may have.
    pub max_tokens: u64,
    /// Whether the answer is to be streamed.
    pub stream: bool,
    /// The whole body, checked.
    pub body: Arc<Value>,
}

impl Asked {
    /// The turns so far.
    pub fn messages(&self) -> &[Value] {
        self.body["messages"].as_array().map_or(&[], Vec::as_slice)
    }
}

/// The API version, once it is certain that the caller has a key and named one.
pub fn check_headers(headers: &HeaderMap) -> Result<&'static str, Refusal> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim);
    let bearer = text("authorization").and_then(|value| value.strip_prefix("Bearer "));
    let named = |key: Option<&str>| key.is_some_and(|key| !key.trim().is_empty());
    if !named(text("x-api-key")) && !named(bearer) {
        let message = "x-api-key header is required";
        return Err(Refusal::new(401, "authentication_error", message));
    }
    let Some(version) = text("anthropic-version") else {
        return Err(Refusal::invalid("anthropic-version: header is required"));
    };
    VERSIONS.into_iter().find(|known| *known == version).ok_or_else(|| {
        Refusal::invalid(format!("anthropic-version: \"{version}\" is not a valid version"))
    })
}

/// The question in this request.
pub fn check(headers: &HeaderMap, body: Arc<Value>, purpose: Purpose) -> Result<Asked, Refusal> {
    let version = check_headers(headers)?;
    check_content_type(headers)?;
    check_question(headers, version, body, purpose)
}

/// Whether the body is sent as what it has to be.
pub fn check_content_type(headers: &HeaderMap) -> Result<(), Refusal> {
    let kind = headers.get("content-type").and_then(|value| value.to_str().ok()).unwrap_or("");
    if kind.to_ascii_lowercase().starts_with("application/json") {
        return Ok(());
    }
    Err(Refusal::invalid("content-type: must be application/json"))
}

/// The question in this JSON, which came with these headers and this version of the API.
pub fn check_question(
    headers: &HeaderMap,
    version: &str,
    body: Arc<Value>,
    purpose: Purpose,
) -> Result<Asked, Refusal> {
    let counted = purpose == Purpose::Count;
    let Some(fields) = body.as_object() else {
        return Err(Refusal::invalid("The request body is not valid JSON: expected an object"));
    };
    check_names(headers, fields, purpose)?;
    let name = required(fields, "model")?;
    let Some(name) = name.as_str() else {
        return Err(Refusal::invalid("model: Input should be a valid string"));
    };
    let max_tokens = if counted { u64::MAX } else { check_max_tokens(fields, purpose)? };
    required(fields, "messages")?;
    super::turn::check_turns(fields, version)?;
    super::cache::check(&body)?;
    let model = find_model(name).ok_or_else(|| Refusal::not_found(format!("model: {name}")))?;
    if !counted && max_tokens > model.max_tokens {
        return Err(Refusal::invalid(format!(
            "max_tokens: {max_tokens} > {}, which is the maximum allowed number of output tokens \
             for {}",
            model.max_tokens, model.id
        )));
    }
    let stream = match fields.get("stream") {
        None | Some(Value::Bool(false)) => false,
        Some(Value::Bool(true)) => true,
        Some(_) => return Err(Refusal::invalid("stream: Input should be a valid boolean")),
    };
    check_settings(fields, model, version)?;
    check_thinking(fields, model, max_tokens)?;
    super::turn::check_prefill(fields, model)?;
    Ok(Asked { model, max_tokens, stream, body })
}

fn check_names(
    headers: &HeaderMap,
    fields: &Map<String, Value>,
    purpose: Purpose,
) -> Result<(), Refusal> {
    let beta = headers.contains_key("anthropic-beta");
    for name in fields.keys() {
        let name = name.as_str();
        if purpose == Purpose::Batch && NEVER_BATCHED.contains(&name) {
            return Err(Refusal::invalid(format!("{name}: not supported in a batch")));
        }
        let known = FIELDS.contains(&name)
            || (purpose != Purpose::Count && ANSWER_FIELDS.contains(&name))
            || (beta && BETA_FIELDS.contains(&name));
        if !known {
            return Err(Refusal::invalid(format!("{name}: Extra inputs are not permitted")));
        }
    }
    Ok(())
}

fn required<'a>(fields: &'a Map<String, Value>, name: &str) -> Result<&'a Value, Refusal> {
    fields.get(name).ok_or_else(|| Refusal::invalid(format!("{name}: Field required")))
}

/// None at all only warms the cache, for which nobody sends a batch.
fn check_max_tokens(fields: &Map<String, Value>, purpose: Purpose) -> Result<u64, Refusal> {
    let value = required(fields, "max_tokens")?;
    let least = u64::from(purpose == Purpose::Batch);
    match (value.as_u64(), value.as_i64()) {
        (None, None) => Err(Refusal::invalid("max_tokens: Input should be a valid integer")),
        (Some(tokens), _) if tokens >= least => Ok(tokens),
        _ => {
            let message = format!("max_tokens: Input should be greater than or equal to {least}");
            Err(Refusal::invalid(message))
        }
    }
}

/// Everything that depends on the model or on the version of the API.
fn check_settings(
    fields: &Map<String, Value>,
    model: &Model,
    version: &str,
) -> Result<(), Refusal> {
    check_sampling(fields, model, version)?;
    let id = model.id;
    let kind = |name: &str| fields.get(name).map(|value| value["type"].as_str().unwrap_or(""));
    match kind("tool_choice") {
        None | Some("auto" | "none") => {}
        Some("any" | "tool") if model.takes_forced_tools() => {
            let message = "tool_choice: the sandbox never calls a client's tools, so none can be \
                           forced";
            return Err(Refusal::invalid(message));
        }
        Some("any" | "tool") => {
            let message = format!("tool_choice: forcing a tool is not supported for {id}");
            return Err(Refusal::invalid(message));
        }
        Some(_) => {
            let message = "tool_choice.type: Input should be 'auto', 'any', 'tool' or 'none'";
            return Err(Refusal::invalid(message));
        }
    }
    check_choice(fields, "service_tier", &["auto", "standard_only"])?;
    check_choice(
        fields,
        "speed",
        if model.takes_speed() { &["standard", "fast"] } else { &["standard"] },
    )?;
    check_choice(
        fields,
        "inference_geo",
        if model.takes_geography() { &["us", "global"] } else { &[] },
    )?;
    if let Some(config) = fields.get("output_config") {
        check_output_config(config, model)?;
    }
    let sequences = fields.get("stop_sequences").map(|value| value.as_array());
    match sequences {
        Some(Some(list))
            if list.iter().all(|one| one.as_str().is_some_and(|s| !s.trim().is_empty())) =>
        {
            Ok(())
        }
        Some(_) => Err(Refusal::invalid("stop_sequences: Input should be a list of texts")),
        None => Ok(()),
    }
}

/// How the next token is chosen, which newer models and versions leave to the model.
fn check_sampling(
    fields: &Map<String, Value>,
    model: &Model,
    version: &str,
) -> Result<(), Refusal> {
    for name in ["temperature", "top_p", "top_k"] {
        let Some(value) = fields.get(name) else { continue };
        let Some(number) = value.as_f64() else {
            return Err(Refusal::invalid(format!("{name}: Input should be a valid number")));
        };
        let usual = match name {
            "temperature" => (number - 1.0).abs() < f64::EPSILON,
            "top_p" => (0.99..=1.0).contains(&number),
            _ => false,
        };
        if version == VERSIONS[1] || !(usual || model.takes_sampling()) {
            return Err(Refusal::invalid(format!("{name}: `{name}` is not supported here")));
        }
        let most = if name == "top_k" { f64::MAX } else { 1.0 };
        if !(0.0..=most).contains(&number) {
            return Err(Refusal::invalid(format!("{name}: range: 0..1")));
        }
    }
    Ok(())
}

fn check_choice(fields: &Map<String, Value>, name: &str, allowed: &[&str]) -> Result<(), Refusal> {
    match fields.get(name) {
        Some(value) if !value.as_str().is_some_and(|value| allowed.contains(&value)) => {
            let allowed = allowed.join("', '");
            Err(Refusal::invalid(format!("{name}: Input should be one of '{allowed}'")))
        }
        _ => Ok(()),
    }
}

/// How much the model may think, and whether it is shown.
fn check_thinking(
    fields: &Map<String, Value>,
    model: &Model,
    max_tokens: u64,
) -> Result<(), Refusal> {
    let Some(thinking) = fields.get("thinking") else { return Ok(()) };
    let Some(fields) = thinking.as_object() else {
        return Err(Refusal::invalid("thinking: Input should be an object"));
    };
    let kind = thinking["type"].as_str().unwrap_or("");
    if !model.takes_thinking(kind) {
        let message = format!("thinking.type: \"{kind}\" is not supported for {}", model.id);
        return Err(Refusal::invalid(message));
    }
    let known: &[&str] = match kind {
        "adaptive" => &["type", "display"],
        "enabled" => &["type", "display", "budget_tokens"],
        _ => &["type"],
    };
    if let Some(name) = fields.keys().find(|name| !known.contains(&name.as_str())) {
        let message = format!("thinking.{kind}.{name}: Extra inputs are not permitted");
        return Err(Refusal::invalid(message));
    }
    if !thinking["display"].is_null() {
        check_choice(fields, "display", &["summarized", "omitted"])?;
    }
    match thinking["budget_tokens"].as_u64() {
        _ if kind != "enabled" => Ok(()),
        Some(budget) if (1024..max_tokens).contains(&budget) => Ok(()),
        Some(1024..) => {
            Err(Refusal::invalid("`max_tokens` must be greater than `thinking.budget_tokens`."))
        }
        _ => Err(Refusal::invalid(
            "thinking.enabled.budget_tokens: Input should be greater than or equal to 1024",
        )),
    }
}

fn check_output_config(config: &Value, model: &Model) -> Result<(), Refusal> {
    let Some(fields) = config.as_object() else {
        return Err(Refusal::invalid("output_config: Input should be an object"));
    };
    if let Some(name) = fields.keys().find(|name| !["effort", "format"].contains(&name.as_str())) {
        let message = format!("output_config.{name}: Extra inputs are not permitted");
        return Err(Refusal::invalid(message));
    }
    if fields.contains_key("effort") && !model.takes_effort() {
        let message = format!("output_config.effort: not supported for {}", model.id);
        return Err(Refusal::invalid(message));
    }
    check_choice(fields, "effort", &["low", "medium", "high", "xhigh", "max"])?;
    match fields.get("format") {
        Some(format) if format["type"] != "json_schema" || !format["schema"].is_object() => {
            let message = "output_config.format: Input should be {\"type\": \"json_schema\", \
                           \"schema\": {…}}";
            Err(Refusal::invalid(message))
        }
        Some(format) => super::schema::check(&format["schema"]),
        None => Ok(()),
    }
}
