//! What a send to the `WhatsApp` Cloud API must look like.
//! In comes the JSON body; out goes the recipient, the type and the text a person reads, or an error.
//! Limits are Meta's documented ones, counted in characters; keys Meta does not know are refused.

use serde_json::{Map, Value};

use super::whatsapp::{GraphError, digits};

const FIELDS: [&str; 9] = [
    "messaging_product",
    "recipient_type",
    "to",
    "type",
    "text",
    "interactive",
    "template",
    "context",
    "biz_opaque_callback_data",
];

/// A send that may be accepted.
#[derive(Debug, PartialEq, Eq)]
pub struct Envelope {
    /// The recipient as the sender wrote it.
    pub input: String,
    /// The recipient: `+` and digits.
    pub to: String,
    /// The type of the message.
    pub kind: String,
    /// What a person reads.
    pub text: String,
}

/// Checks the body of a send.
pub fn check(body: &Value) -> Result<Envelope, GraphError> {
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
    if body["recipient"].is_string() && body["to"].is_null() {
        return Err(GraphError::new(131_009, "the sandbox knows its people by phone number only"));
    }
    if let Some(name) = fields.keys().find(|name| !FIELDS.contains(&name.as_str())) {
        return Err(GraphError::parameter(format!("Unexpected key \"{name}\" on param \"$\"")));
    }
    if fields.get("recipient_type").is_some_and(|kind| kind != "individual") {
        return Err(GraphError::parameter("Param recipient_type must be one of {INDIVIDUAL}"));
    }
    let input = text(fields, "to", "to", 1..=64)?;
    let to = number(&input)?;
    if !body["context"].is_null() && body["context"]["message_id"].as_str().is_none() {
        return Err(GraphError::parameter("The parameter context['message_id'] is required."));
    }
    let data = &body["biz_opaque_callback_data"];
    if !data.is_null() && data.as_str().is_none_or(|data| data.chars().count() > 512) {
        return Err(GraphError::parameter(
            "Param biz_opaque_callback_data must be a string of at most 512 characters",
        ));
    }
    let kind = match fields.get("type") {
        None => "text",
        Some(kind) => kind.as_str().unwrap_or(""),
    };
    let part = fields.get(kind).and_then(Value::as_object);
    let missing = || GraphError::parameter(format!("The parameter {kind} is required."));
    let text = match kind {
        "text" => check_text(part.ok_or_else(missing)?)?,
        "interactive" => check_interactive(part.ok_or_else(missing)?)?,
        "template" => check_template(part.ok_or_else(missing)?)?,
        other => {
            return Err(GraphError::new(131_051, format!("Message type {other} is not supported")));
        }
    };
    Ok(Envelope { input, to, kind: kind.to_owned(), text })
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

fn check_interactive(part: &Map<String, Value>) -> Result<String, GraphError> {
    only(part, "interactive", &["type", "header", "body", "footer", "action"])?;
    let kind = text(part, "type", "interactive['type']", 1..=64)?;
    let object = |name: &str| part.get(name).and_then(Value::as_object);
    let mut read = Vec::new();
    if let Some(header) = object("header") {
        if header.get("type").is_none_or(|kind| kind != "text") {
            return Err(GraphError::new(131_009, "the sandbox shows text headers only"));
        }
        read.push(text(header, "text", "interactive['header']['text']", 1..=60)?);
    }
    let Some(body) = object("body") else {
        return Err(GraphError::parameter("The parameter interactive['body'] is required."));
    };
    read.push(text(body, "text", "interactive['body']['text']", 1..=1024)?);
    if let Some(footer) = object("footer") {
        read.push(text(footer, "text", "interactive['footer']['text']", 1..=60)?);
    }
    let Some(action) = object("action") else {
        return Err(GraphError::parameter("The parameter interactive['action'] is required."));
    };
    match kind.as_str() {
        "button" => check_buttons(action)?,
        "cta_url" => check_cta_url(action)?,
        other => {
            let details = format!("interactive['type']: the sandbox does not show {other}");
            return Err(GraphError::new(131_009, details));
        }
    }
    Ok(read.join("\n"))
}

fn check_buttons(action: &Map<String, Value>) -> Result<(), GraphError> {
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
    Ok(())
}

fn check_cta_url(action: &Map<String, Value>) -> Result<(), GraphError> {
    let path = "interactive['action']['parameters']";
    let parameters = action.get("parameters").and_then(Value::as_object);
    let parameters =
        parameters.filter(|_| action.get("name").is_some_and(|name| name == "cta_url"));
    let Some(parameters) = parameters else {
        return Err(GraphError::parameter(format!("The parameter {path} is required.")));
    };
    text(parameters, "display_text", &format!("{path}['display_text']"), 1..=20)?;
    let url = text(parameters, "url", &format!("{path}['url']"), 1..=2000)?;
    if is_web_url(&url) {
        Ok(())
    } else {
        Err(GraphError::new(131_009, format!("{path}['url'] is not a valid URL")))
    }
}

/// Whether this is a link a phone can open.
pub fn is_web_url(url: &str) -> bool {
    reqwest::Url::parse(url).is_ok_and(|url| matches!(url.scheme(), "http" | "https"))
}

fn check_template(part: &Map<String, Value>) -> Result<String, GraphError> {
    only(part, "template", &["name", "language", "components", "namespace"])?;
    let name = text(part, "name", "template['name']", 1..=512)?;
    let plain = |letter: char| matches!(letter, 'a'..='z' | '0'..='9' | '_');
    if !name.chars().all(plain) {
        return Err(GraphError::new(132_001, format!("template name ({name}) does not exist")));
    }
    let language = part.get("language").and_then(Value::as_object);
    let Some(language) = language else {
        return Err(GraphError::parameter("The parameter template['language'] is required."));
    };
    text(language, "code", "template['language']['code']", 2..=15)?;
    let mut read = Vec::new();
    let components = part.get("components").and_then(Value::as_array);
    for (n, component) in components.into_iter().flatten().enumerate() {
        let path = format!("template['components'][{n}]");
        let kind = component["type"].as_str().unwrap_or("").to_ascii_lowercase();
        let is_button = kind == "button";
        if !is_button && !["header", "body"].contains(&kind.as_str()) {
            return Err(GraphError::parameter(format!(
                "Param {path}['type'] must be one of {{HEADER, BODY, BUTTON}}"
            )));
        }
        if is_button {
            check_template_button(component, &path)?;
        }
        let parameters = component["parameters"].as_array();
        for (m, parameter) in parameters.into_iter().flatten().enumerate() {
            let read_here = check_parameter(parameter, &format!("{path}['parameters'][{m}]"))?;
            if !is_button {
                read.push(read_here);
            }
        }
    }
    if read.iter().map(|text| text.chars().count()).sum::<usize>() > 1024 {
        return Err(GraphError::new(132_005, "Translated text too long"));
    }
    Ok(if read.is_empty() { name } else { read.join("\n") })
}

fn check_template_button(component: &Value, path: &str) -> Result<(), GraphError> {
    let kind = component["sub_type"].as_str().unwrap_or("").to_ascii_lowercase();
    if !["url", "quick_reply"].contains(&kind.as_str()) {
        let details = format!("{path}['sub_type']: the sandbox shows url and quick_reply only");
        return Err(GraphError::new(131_009, details));
    }
    let index = &component["index"];
    let index = index.as_u64().or_else(|| index.as_str()?.parse().ok());
    let Some(index @ 0..=9) = index else {
        return Err(GraphError::parameter(format!("Param {path}['index'] must be 0 to 9")));
    };
    if component["parameters"].as_array().is_none_or(Vec::is_empty) {
        let details = format!("buttons: Button at index {index} requires a parameter");
        return Err(GraphError::new(131_008, details));
    }
    Ok(())
}

fn check_parameter(parameter: &Value, path: &str) -> Result<String, GraphError> {
    let value = match parameter["type"].as_str() {
        Some("text") => parameter["text"].as_str(),
        Some("payload") => parameter["payload"].as_str(),
        _ => {
            let details = format!("{path}['type']: the sandbox takes text and payload only");
            return Err(GraphError::new(131_009, details));
        }
    };
    let Some(value) = value.filter(|value| !value.trim().is_empty()) else {
        return Err(GraphError::new(
            131_008,
            format!("Parameter of type text is missing text value: {path}"),
        ));
    };
    if value.contains(['\n', '\r', '\t']) || value.contains("     ") {
        return Err(GraphError::new(
            132_018,
            "Param text cannot have new-line/tab characters or more than 4 consecutive spaces",
        ));
    }
    Ok(value.to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn code(change: impl FnOnce(&mut Value)) -> Result<String, u32> {
        let mut body = json!({"messaging_product": "whatsapp", "to": "+1 (650) 555-1234",
            "type": "text", "text": {"body": "hi"}});
        change(&mut body);
        check(&body).map(|envelope| envelope.to).map_err(|error| error.code)
    }

    #[test]
    fn a_number_may_be_spelt_with_spaces_and_brackets() {
        assert_eq!(code(|_| ()), Ok("+16505551234".to_owned()));
        assert_eq!(code(|body| body["to"] = json!("call me")), Err(131_009));
    }

    #[test]
    fn a_text_has_at_most_4096_characters_however_many_bytes() {
        assert!(code(|body| body["text"]["body"] = json!("记".repeat(4096))).is_ok());
        assert_eq!(code(|body| body["text"]["body"] = json!("a".repeat(4097))), Err(100));
        assert_eq!(code(|body| body["text"]["body"] = json!("")), Err(100));
        assert_eq!(code(|body| body["text"]["bdy"] = json!("")), Err(100));
    }

    #[test]
    fn a_template_parameter_has_no_line_break() {
        let template = |text: &str| {
            json!({"name": "ask_v1", "language": {"code": "en_US"}, "components": [
                {"type": "body", "parameters": [{"type": "text", "text": text}]}]})
        };
        let send = |text: &str| {
            code(|body| {
                body["type"] = json!("template");
                body["template"] = template(text);
            })
        };
        assert!(send("Deploy #42").is_ok());
        assert_eq!(send("a\nb"), Err(132_018));
    }

    #[test]
    fn a_button_title_has_at_most_twenty_characters() {
        let send = |title: &str| {
            code(|body| {
                body["type"] = json!("interactive");
                body["interactive"] = json!({"type": "button", "body": {"text": "ok?"},
                    "action": {"buttons": [{"type": "reply", "reply": {"id": "a", "title": title}}]}});
            })
        };
        assert!(send("Approve").is_ok());
        assert_eq!(send("Approve this deployment"), Err(100));
    }
}
