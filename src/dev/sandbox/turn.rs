//! The turns and tools of a request to the Messages API: what they must look like.
//! In come the fields of the body; out goes nothing, or the [`Refusal`] the provider would send.
//! What a web search returned is opaque to the client and must come back unchanged.

use serde_json::{Map, Value};

use super::{catalog::Model, refusal::Refusal, reply::encrypted_content};

/// Checks system, messages and tools.
pub fn check_turns(fields: &Map<String, Value>, version: &str) -> Result<(), Refusal> {
    let Some(messages) = fields.get("messages").and_then(Value::as_array) else {
        return Err(Refusal::invalid("messages: Input should be a valid list"));
    };
    if messages.is_empty() {
        return Err(Refusal::invalid("messages: at least one message is required"));
    }
    for (n, message) in messages.iter().enumerate() {
        check_message(message, &format!("messages.{n}"), version)?;
    }
    if !messages.iter().any(|message| message["role"] == "user") {
        return Err(Refusal::invalid("messages: at least one user message is required"));
    }
    match fields.get("system") {
        None | Some(Value::String(_)) => {}
        Some(Value::Array(blocks)) => {
            for (n, block) in blocks.iter().enumerate() {
                if block["type"] != "text" {
                    let message = format!("system.{n}.type: Input should be 'text'");
                    return Err(Refusal::invalid(message));
                }
                check_text(block, &format!("system.{n}"))?;
            }
        }
        Some(_) => return Err(Refusal::invalid("system: Input should be a valid string")),
    }
    check_tools(fields)
}

/// Refuses to go on from a beginning of the answer, where the model does not take one.
pub fn check_prefill(fields: &Map<String, Value>, model: &Model) -> Result<(), Refusal> {
    let last = fields.get("messages").and_then(Value::as_array).and_then(|list| list.last());
    match last {
        Some(last)
            if last["role"] == "assistant"
                && !model.takes_prefill()
                && pending_search(last).is_none() =>
        {
            Err(Refusal::invalid(
                "This model does not support assistant message prefill. The conversation must \
                 end with a user message.",
            ))
        }
        _ => Ok(()),
    }
}

/// The search an answer stopped at with `pause_turn`, to be gone on with.
pub fn pending_search(message: &Value) -> Option<&str> {
    let block = message["content"].as_array()?.last()?;
    if block["type"] == "server_tool_use" { block["id"].as_str() } else { None }
}

fn check_message(message: &Value, path: &str, version: &str) -> Result<(), Refusal> {
    let Some(fields) = message.as_object() else {
        return Err(Refusal::invalid(format!("{path}: Input should be an object")));
    };
    if let Some(name) = fields.keys().find(|name| !["role", "content"].contains(&name.as_str())) {
        return Err(Refusal::invalid(format!("{path}.{name}: Extra inputs are not permitted")));
    }
    for name in ["role", "content"] {
        if !fields.contains_key(name) {
            return Err(Refusal::invalid(format!("{path}.{name}: Field required")));
        }
    }
    let role = message["role"].as_str().unwrap_or("");
    if !["user", "assistant", "system"].contains(&role) {
        return Err(Refusal::invalid(format!(
            "{path}.role: Input should be 'user', 'assistant' or 'system'"
        )));
    }
    match &message["content"] {
        Value::String(text) if text.is_empty() => {
            Err(Refusal::invalid(format!("{path}: all messages must have non-empty content")))
        }
        Value::String(_) => Ok(()),
        Value::Array(blocks) if blocks.is_empty() => {
            Err(Refusal::invalid(format!("{path}: all messages must have non-empty content")))
        }
        Value::Array(blocks) => blocks.iter().enumerate().try_for_each(|(n, block)| {
            check_block(block, &format!("{path}.content.{n}"), role, version)
        }),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => {
            Err(Refusal::invalid(format!("{path}.content: Input should be a valid string or list")))
        }
    }
}

fn check_block(block: &Value, path: &str, role: &str, version: &str) -> Result<(), Refusal> {
    let newest = version == "2026-10-21";
    let Some(kind) = block["type"].as_str() else {
        return Err(Refusal::invalid(format!("{path}.type: Field required")));
    };
    match kind {
        "text" => {
            check_text(block, path)?;
            let cites = block["citations"].as_array().is_some_and(|list| !list.is_empty());
            if newest && role == "user" && cites {
                return Err(Refusal::invalid(format!("{path}.citations: must be empty")));
            }
            Ok(())
        }
        "document" if newest && role == "assistant" => {
            Err(Refusal::invalid(format!("{path}: a document is not permitted here")))
        }
        "web_search_tool_result" => {
            let results = block["content"].as_array().map_or(&[][..], Vec::as_slice);
            let unchanged = |result: &&Value| {
                let url = result["url"].as_str().unwrap_or("");
                result["encrypted_content"] == encrypted_content(url)
            };
            match results.iter().position(|result| !unchanged(&result)) {
                Some(n) => Err(Refusal::invalid(format!(
                    "{path}.content.{n}.encrypted_content: Invalid encrypted_content"
                ))),
                None => Ok(()),
            }
        }
        "document" | "image" | "search_result" | "tool_result" if role == "user" => Ok(()),
        "thinking" if role == "assistant" => check_thought(block, path),
        "document"
        | "redacted_thinking"
        | "tool_use"
        | "server_tool_use"
        | "web_fetch_tool_result"
            if role == "assistant" =>
        {
            Ok(())
        }
        other => Err(Refusal::invalid(format!(
            "{path}.type: Input tag '{other}' is not permitted in a {role} message"
        ))),
    }
}

/// Thinking that was shown comes back with the signature of just that; else only the signature does.
fn check_thought(block: &Value, path: &str) -> Result<(), Refusal> {
    let Some(text) = block["thinking"].as_str() else {
        return Err(Refusal::invalid(format!("{path}.thinking: Field required")));
    };
    let Some(signature) = block["signature"].as_str() else {
        return Err(Refusal::invalid(format!("{path}.signature: Field required")));
    };
    let fits = if text.is_empty() {
        signature.len() == encrypted_content("").len()
    } else {
        signature == encrypted_content(text)
    };
    if fits {
        return Ok(());
    }
    Err(Refusal::invalid(format!("{path}: Invalid `signature` in `thinking` block")))
}

fn check_text(block: &Value, path: &str) -> Result<(), Refusal> {
    match block["text"].as_str() {
        None => Err(Refusal::invalid(format!("{path}.text: Field required"))),
        Some(text) if text.trim().is_empty() => {
            Err(Refusal::invalid("messages: text content blocks must be non-empty"))
        }
        Some(_) => Ok(()),
    }
}

fn check_tools(fields: &Map<String, Value>) -> Result<(), Refusal> {
    let tools = match fields.get("tools") {
        None => return Ok(()),
        Some(tools) => tools.as_array(),
    };
    let Some(tools) = tools else {
        return Err(Refusal::invalid("tools: Input should be a valid list"));
    };
    for (n, tool) in tools.iter().enumerate() {
        let path = format!("tools.{n}");
        if tool["name"].as_str().is_none_or(str::is_empty) {
            return Err(Refusal::invalid(format!("{path}.name: Field required")));
        }
        let kind = tool["type"].as_str().unwrap_or("custom");
        if kind == "custom" {
            if !tool["input_schema"].is_object() {
                return Err(Refusal::invalid(format!("{path}.input_schema: Field required")));
            }
        } else if is_web_search(tool) {
            if tool["name"] != "web_search" {
                return Err(Refusal::invalid(format!("{path}.name: Input should be 'web_search'")));
            }
            if !tool["allowed_domains"].is_null() && !tool["blocked_domains"].is_null() {
                let message = format!(
                    "{path}: only one of allowed_domains and blocked_domains may be specified"
                );
                return Err(Refusal::invalid(message));
            }
        } else {
            let message = format!("{path}.type: the sandbox has no tool of the type '{kind}'");
            return Err(Refusal::invalid(message));
        }
    }
    Ok(())
}

/// Whether a tool is the provider's web search.
pub fn is_web_search(tool: &Value) -> bool {
    ["web_search_20250305", "web_search_20260209", "web_search_20260318"]
        .iter()
        .any(|kind| tool["type"] == *kind)
}
