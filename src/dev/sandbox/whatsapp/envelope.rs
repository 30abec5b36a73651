//! What a send to the `WhatsApp` Cloud API must look like.
//! In comes the JSON body; out goes the recipient, the type and what a person reads, or an error.
//! Limits are Meta's documented ones, counted in characters; keys Meta does not know are refused.

use serde::Serialize;
use serde_json::{Map, Value};

use super::{digits, people::is_user_id, refusal::GraphError, registry::Registry};

const FIELDS: [&str; 10] = [
    "messaging_product",
    "recipient_type",
    "to",
    "recipient",
    "type",
    "text",
    "interactive",
    "template",
    "context",
    "biz_opaque_callback_data",
];

/// A send that may be accepted.
#[derive(Debug)]
pub struct Envelope {
    /// The recipient as the sender wrote it.
    pub input: String,
    /// The recipient: `+` and digits, or a user id.
    pub to: String,
    /// The type of the message.
    pub kind: String,
    /// What a person reads, and the buttons.
    pub reading: Reading,
}

/// What a person reads of a message, part by part.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    pub header: String,
    pub body: String,
    pub footer: String,
    pub buttons: Vec<Button>,
}

impl Reading {
    /// All of it, without the buttons.
    pub fn text(&self) -> String {
        let parts = [&self.header, &self.body, &self.footer];
        let parts: Vec<&str> = parts.into_iter().map(String::as_str).collect();
        let parts: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        parts.join("\n")
    }
}

/// A button under a message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Button {
    /// What stands on it.
    pub label: String,
    #[serde(flatten)]
    pub does: Does,
}

/// What a button does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Does {
    /// It opens this link.
    Url(String),
    /// It answers with this id.
    Id(String),
    /// It answers with this payload, as the buttons of templates do.
    Payload(String),
}

impl Button {
    /// Where it leads, if it is a link.
    pub fn url(&self) -> Option<&str> {
        match &self.does {
            Does::Url(url) => Some(url),
            Does::Id(_) | Does::Payload(_) => None,
        }
    }
}

/// Checks the body of a send; the templates it may name lead to `public_url`.
pub fn check(body: &Value, templates: &Registry, public_url: &str) -> Result<Envelope, GraphError> {
    let (fields, input, to) = check_frame(body)?;
    let kind = match fields.get("type") {
        None => "text",
        Some(kind) => kind.as_str().unwrap_or(""),
    };
    let part = fields.get(kind).and_then(Value::as_object);
    let missing = || GraphError::parameter(format!("The parameter {kind} is required."));
    let reading = match kind {
        "text" => Reading { body: check_text(part.ok_or_else(missing)?)?, ..Reading::default() },
        "interactive" => check_interactive(part.ok_or_else(missing)?)?,
        "template" => {
            let (name, language, components) = check_template(part.ok_or_else(missing)?)?;
            templates.fill(name, language, components, public_url)?
        }
        other => {
            return Err(GraphError::new(131_051, format!("Message type {other} is not supported")));
        }
    };
    Ok(Envelope { input, to, kind: kind.to_owned(), reading })
}

/// Checks what every type of message has: the recipient as written and as meant, and the rest.
fn check_frame(body: &Value) -> Result<(&Map<String, Value>, String, String), GraphError> {
    let Some(fields) = body.as_object() else {
        return Err(GraphError::parameter("The parameter messaging_product is required."));
    };
    if body["messaging_product"] != "whatsapp" {
        return Err(match fields.get("messaging_product") {
            None => GraphError::parameter("The parameter messaging_product is required."),
            Some(_) => GraphError::parameter("Param messaging_product must be one of {WHATSAPP}"),
        });
    }
    if body["category"].is_string() {
        return Err(GraphError::parameter("Direct Send isn't enabled"));
    }
    if let Some(name) = fields.keys().find(|name| !FIELDS.contains(&name.as_str())) {
        return Err(GraphError::parameter(format!("Unexpected key \"{name}\" on param \"$\"")));
    }
    if fields.get("recipient_type").is_some_and(|kind| kind != "individual") {
        return Err(GraphError::parameter("Param recipient_type must be one of {INDIVIDUAL}"));
    }
    let (input, to) = recipient(fields)?;
    if !body["context"].is_null() && body["context"]["message_id"].as_str().is_none() {
        return Err(GraphError::parameter("The parameter context['message_id'] is required."));
    }
    let data = &body["biz_opaque_callback_data"];
    if !data.is_null() && data.as_str().is_none_or(|data| data.chars().count() > 512) {
        return Err(GraphError::parameter(
            "Param biz_opaque_callback_data must be a string of at most 512 characters",
        ));
    }
    Ok((fields, input, to))
}

/// Whom it is for: a number goes before a user id.
fn recipient(fields: &Map<String, Value>) -> Result<(String, String), GraphError> {
    if fields.contains_key("to") || !fields.contains_key("recipient") {
        let input = text(fields, "to", "to", 1..=64)?;
        let to = number(&input)?;
        return Ok((input, to));
    }
    let input = text(fields, "recipient", "recipient", 1..=131)?;
    if is_user_id(&input) {
        return Ok((input.clone(), input));
    }
    Err(GraphError::new(131_009, "recipient: is not a business-scoped user id"))
}

/// A number in any usual spelling, as `+` and 7 to 15 digits.
fn number(input: &str) -> Result<String, GraphError> {
    let rest = input.trim().strip_prefix('+').unwrap_or(input.trim());
    let spelt = rest.chars().all(|letter| letter.is_ascii_digit() || " ()-".contains(letter));
    let digits = digits(rest);
    if spelt && (7..=15).contains(&digits.len()) && !digits.starts_with('0') {
        Ok(format!("+{digits}"))
    } else {
        Err(GraphError::new(131_009, "to: is not a phone number"))
    }
}

/// A required text within its limits, called `path` in errors.
fn text(
    fields: &Map<String, Value>,
    name: &str,
    path: &str,
    limits: std::ops::RangeInclusive<usize>,
) -> Result<String, GraphError> {
    match fields.get(name).map(Value::as_str) {
        None => Err(GraphError::parameter(format!("The parameter {path} is required."))),
        Some(None) => Err(GraphError::parameter(format!("Param {path} must be a string."))),
        Some(Some(text)) if text.trim().is_empty() => {
            Err(GraphError::parameter(format!("The parameter {path} is required.")))
        }
        Some(Some(text)) if !limits.contains(&text.chars().count()) => {
            let most = limits.end();
            let message = format!("Param {path} must be at most {most} characters long.");
            Err(GraphError::parameter(message))
        }
        Some(Some(text)) => Ok(text.to_owned()),
    }
}

fn only(fields: &Map<String, Value>, path: &str, names: &[&str]) -> Result<(), GraphError> {
    match fields.keys().find(|name| !names.contains(&name.as_str())) {
        Some(name) => {
            Err(GraphError::parameter(format!("Unexpected key \"{name}\" on param \"{path}\"")))
        }
        None => Ok(()),
    }
}

fn check_text(part: &Map<String, Value>) -> Result<String, GraphError> {
    only(part, "text", &["body", "preview_url"])?;
    if part.get("preview_url").is_some_and(|preview| !preview.is_boolean()) {
        return Err(GraphError::parameter("Param text['preview_url'] must be a boolean."));
    }
    text(part, "body", "text['body']", 1..=4096)
}

fn check_interactive(part: &Map<String, Value>) -> Result<Reading, GraphError> {
    only(part, "interactive", &["type", "header", "body", "footer", "action"])?;
    let kind = text(part, "type", "interactive['type']", 1..=64)?;
    let object = |name: &str| part.get(name).and_then(Value::as_object);
    let mut reading = Reading::default();
    if let Some(header) = object("header") {
        if header.get("type").is_none_or(|kind| kind != "text") {
            return Err(GraphError::new(131_009, "the sandbox shows text headers only"));
        }
        reading.header = text(header, "text", "interactive['header']['text']", 1..=60)?;
    }
    let Some(body) = object("body") else {
        return Err(GraphError::parameter("The parameter interactive['body'] is required."));
    };
    reading.body = text(body, "text", "interactive['body']['text']", 1..=1024)?;
    if let Some(footer) = object("footer") {
        reading.footer = text(footer, "text", "interactive['footer']['text']", 1..=60)?;
    }
    let Some(action) = object("action") else {
        return Err(GraphError::parameter("The parameter interactive['action'] is required."));
    };
    reading.buttons = match kind.as_str() {
        "button" => check_buttons(action)?,
        "cta_url" => vec![check_cta_url(action)?],
        other => {
            let details = format!("interactive['type']: the sandbox does not show {other}");
            return Err(GraphError::new(131_009, details));
        }
    };
    Ok(reading)
}

fn check_buttons(action: &Map<String, Value>) -> Result<Vec<Button>, GraphError> {
    let buttons = action.get("buttons").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    if !(1..=3).contains(&buttons.len()) {
        return Err(GraphError::new(
            131_009,
            "Invalid buttons count. Min allowed buttons: 1, Max allowed buttons: 3",
        ));
    }
    let mut seen: Vec<(String, String)> = Vec::new();
    for (n, button) in buttons.iter().enumerate() {
        let path = format!("interactive['action']['buttons'][{n}]");
        let reply = button["reply"].as_object().filter(|_| button["type"] == "reply");
        let Some(reply) = reply else {
            return Err(GraphError::parameter(format!(
                "The parameter {path}['reply'] is required."
            )));
        };
        let id = text(reply, "id", &format!("{path}['reply']['id']"), 1..=256)?;
        let title = text(reply, "title", &format!("{path}['reply']['title']"), 1..=20)?;
        if id.trim() != id {
            let details = format!("{path}: the id begins or ends with a space");
            return Err(GraphError::new(131_009, details));
        }
        if seen.iter().any(|other| other.0 == id || other.1 == title) {
            return Err(GraphError::new(131_009, format!("{path}: duplicated id or title")));
        }
        seen.push((id, title));
    }
    Ok(seen.into_iter().map(|(id, label)| Button { label, does: Does::Id(id) }).collect())
}

fn check_cta_url(action: &Map<String, Value>) -> Result<Button, GraphError> {
    let path = "interactive['action']['parameters']";
    let parameters = action.get("parameters").and_then(Value::as_object);
    let parameters =
        parameters.filter(|_| action.get("name").is_some_and(|name| name == "cta_url"));
    let Some(parameters) = parameters else {
        return Err(GraphError::parameter(format!("The parameter {path} is required.")));
    };
    let label = text(parameters, "display_text", &format!("{path}['display_text']"), 1..=20)?;
    let url = text(parameters, "url", &format!("{path}['url']"), 1..=2000)?;
    if is_web_url(&url) {
        Ok(Button { label, does: Does::Url(url) })
    } else {
        Err(GraphError::new(131_009, format!("{path}['url'] is not a valid URL")))
    }
}

/// Whether this is a link a phone can open.
pub fn is_web_url(url: &str) -> bool {
    reqwest::Url::parse(url).is_ok_and(|url| matches!(url.scheme(), "http" | "https"))
}

/// The name, the language and the values of a template that is sent.
fn check_template(part: &Map<String, Value>) -> Result<(&str, &str, &[Value]), GraphError> {
    only(part, "template", &["name", "language", "components", "namespace"])?;
    text(part, "name", "template['name']", 1..=512)?;
    let Some(language) = part.get("language").and_then(Value::as_object) else {
        return Err(GraphError::parameter("The parameter template['language'] is required."));
    };
    text(language, "code", "template['language']['code']", 2..=15)?;
    let name = part.get("name").and_then(Value::as_str).unwrap_or_default();
    let code = language.get("code").and_then(Value::as_str).unwrap_or_default();
    let components = part.get("components").and_then(Value::as_array);
    Ok((name, code, components.map_or(&[], Vec::as_slice)))
}

#[cfg(test)]
mod tests;
