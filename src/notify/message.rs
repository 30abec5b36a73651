//! Messages as the Cloud API takes them: who gets it, and one of its forms.
//!
//! In come texts that were cleaned and cut to what each field takes; out comes the JSON of one request.

use serde_json::{Value, json};

use crate::domain::approval::Verdict;
use crate::domain::id::ApprovalId;

/// What a form of message may hold, in UTF-16 units, which is the strictest way to read "characters".
pub(super) const TEXT_UNITS_MAX: usize = 4096;
pub(super) const BODY_UNITS_MAX: usize = 1024;
pub(super) const URL_CHARS_MAX: usize = 2000;

/// How a message finds its person; a number goes before an id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Address<'a> {
    /// A number in E.164.
    Phone(&'a str),
    /// Meta's id of the person.
    UserId(&'a str),
}

/// The buttons of a template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Buttons {
    /// It has none.
    None,
    /// Each opens an address that ends so.
    Urls([String; 2]),
    /// Each answers with this.
    Replies([String; 2]),
}

/// A request to send this content; the word comes back with what becomes of it.
pub(super) fn request(to: Address<'_>, content: Value, word: &str) -> Value {
    let (field, address) = match to {
        Address::Phone(phone) => ("to", phone),
        Address::UserId(user_id) => ("recipient", user_id),
    };
    let mut request = json!({
        "messaging_product": "whatsapp", "recipient_type": "individual",
        "biz_opaque_callback_data": word,
    });
    request[field] = address.into();
    if let (Value::Object(request), Value::Object(content)) = (&mut request, content) {
        request.extend(content);
    }
    request
}

/// A text, whose links are not fetched for a preview.
pub(super) fn text(body: &str) -> Value {
    json!({"type": "text", "text": {"preview_url": false, "body": body}})
}

/// A text with one button, which opens an address.
pub(super) fn link(body: &str, title: &str, url: &str) -> Value {
    let parameters = json!({"display_text": title, "url": url});
    json!({"type": "interactive", "interactive": {"type": "cta_url", "body": {"text": body},
        "action": {"name": "cta_url", "parameters": parameters}}})
}

/// A text with buttons, each of which answers with its id.
pub(super) fn buttons(body: &str, buttons: [(String, &str); 2]) -> Value {
    let buttons =
        buttons.map(|(id, title)| json!({"type": "reply", "reply": {"id": id, "title": title}}));
    json!({"type": "interactive", "interactive": {"type": "button", "body": {"text": body},
        "action": {"buttons": buttons}}})
}

/// A template with what its text and its buttons leave open.
pub(super) fn template(
    name: &str,
    language: &str,
    parameters: &[String],
    buttons: &Buttons,
) -> Value {
    let parameters: Vec<Value> =
        parameters.iter().map(|text| json!({"type": "text", "text": text})).collect();
    let mut components = vec![json!({"type": "body", "parameters": parameters})];
    let (kind, field, values) = match buttons {
        Buttons::None => ("", "", &[][..]),
        Buttons::Urls(ends) => ("url", "text", &ends[..]),
        Buttons::Replies(payloads) => ("quick_reply", "payload", &payloads[..]),
    };
    for (index, value) in values.iter().enumerate() {
        components.push(json!({"type": "button", "sub_type": kind, "index": index.to_string(),
            "parameters": [{"type": field, field: value}]}));
    }
    json!({"type": "template", "template": {"name": name, "language": {"code": language},
        "components": components}})
}

/// What a button answers with, by which the approval and the verdict are known again.
pub(super) fn answer_of(verdict: Verdict, approval_id: ApprovalId) -> String {
    let letter = match verdict {
        Verdict::Approve => 'a',
        Verdict::Reject => 'r',
        Verdict::RequestChanges => 'c',
    };
    format!("{letter}:{}", approval_id.0.simple())
}
