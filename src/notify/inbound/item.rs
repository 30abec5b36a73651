//! One message of a person as Meta tells it: texts, taps in both shapes, and everything else, which says nothing here.
//!
//! In comes a part of the webhook's body, out comes a message for the store, or nothing if it cannot be read.
//! A sender may be told by a number, by Meta's id of them, or by both.

use chrono::{DateTime, Utc};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::domain::phone::find_number;
use crate::domain::validate::COMMENT_BYTES_MAX;
use crate::store::inbound::{Inbound, InboundKind};

const ID_BYTES_MAX: usize = 512;

/// Who writes and to which number, as the body says it beside its messages.
pub(crate) struct About {
    /// Our number.
    metadata: Value,
    /// Who writes.
    contacts: Value,
}

#[derive(Deserialize)]
struct Item {
    id: String,
    from: Option<String>,
    from_user_id: Option<String>,
    timestamp: Option<Value>,
    #[serde(rename = "type")]
    kind: String,
    text: Option<Value>,
    interactive: Option<Value>,
    button: Option<Value>,
    context: Option<Value>,
}

/// Reads a message, if it has an id and a sender.
pub(crate) fn read(raw: &str, about: &About) -> Option<Inbound> {
    let item: Item = serde_json::from_str(raw).ok()?;
    let given = item.from.filter(|from| !from.is_empty());
    let number = given.as_deref().and_then(find_number);
    let told = if number.is_some() { None } else { given };
    let user_id = item.from_user_id.or(told).or_else(|| about.only_user_id());
    let user_id = user_id.filter(|user_id| is_id(user_id));
    let sender = number.or_else(|| user_id.clone())?;
    let context = item.context.unwrap_or_default();
    let is_forwarded = context["forwarded"] == true || context["frequently_forwarded"] == true;
    let (kind, content) = match item.kind.as_str() {
        // What is passed on was written for somebody else.
        _ if is_forwarded => (InboundKind::Other, None),
        "text" => (InboundKind::Text, text(item.text.as_ref(), "/body")),
        "button" => (InboundKind::Button, text(item.button.as_ref(), "/payload")),
        "interactive" => match text(item.interactive.as_ref(), "/button_reply/id") {
            Some(id) => (InboundKind::Button, Some(id)),
            None => (InboundKind::Other, None),
        },
        _ => (InboundKind::Other, None),
    };
    let context_id = context["id"].as_str().map(str::to_owned).filter(|id| is_id(id));
    Some(Inbound {
        message_id: Some(item.id).filter(|id| is_id(id))?,
        sender,
        user_id,
        written_to: about.written_to(),
        kind,
        content,
        context_id,
        sent_at: item.timestamp.as_ref().and_then(find_moment),
    })
}

impl About {
    /// Reads both; a part that cannot be read costs no message.
    pub(crate) fn read(metadata: Option<&RawValue>, contacts: Option<&RawValue>) -> Self {
        let read = |part: Option<&RawValue>| {
            part.and_then(|part| serde_json::from_str(part.get()).ok()).unwrap_or_default()
        };
        Self { metadata: read(metadata), contacts: read(contacts) }
    }

    fn written_to(&self) -> Option<String> {
        let id = self.metadata["phone_number_id"].as_str()?;
        is_id(id).then(|| id.to_owned())
    }

    /// Meta's id of who writes, where one person alone can be meant.
    fn only_user_id(&self) -> Option<String> {
        let [contact] = &self.contacts.as_array()?[..] else { return None };
        contact["user_id"].as_str().map(str::to_owned)
    }
}

/// Seconds, which Meta writes as text.
pub(crate) fn find_moment(timestamp: &Value) -> Option<DateTime<Utc>> {
    let seconds = timestamp.as_str().map_or_else(|| timestamp.as_i64(), |text| text.parse().ok());
    // What lies in a year of five digits, no table can hold.
    DateTime::from_timestamp(seconds?, 0).filter(|at| at.timestamp() < 253_402_300_800)
}

/// The beginning of a text, as long as a comment may be.
fn text(part: Option<&Value>, pointer: &str) -> Option<String> {
    let text = part?.pointer(pointer)?.as_str()?.replace('\0', "");
    let end = text.floor_char_boundary(COMMENT_BYTES_MAX);
    Some(text[..end].to_owned())
}

fn is_id(id: &str) -> bool {
    !id.is_empty() && id.len() <= ID_BYTES_MAX && !id.contains(char::is_control)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read_item(item: &Value) -> Option<Inbound> {
        let metadata = json!({"phone_number_id": "106540352242922"});
        let contacts = json!([{"wa_id": "16505551234", "user_id": "US.1349"}]);
        read(&item.to_string(), &About { metadata, contacts })
    }

    fn item(kind: &str, part: &Value) -> Value {
        json!({"from": "16505551234", "id": "wamid.A=", "timestamp": "1749416383", "type": kind, kind: part,
            "context": {"from": "1555", "id": "wamid.sent"}})
    }

    #[test]
    fn texts_and_taps_in_both_shapes_are_read() {
        let tap =
            json!({"type": "button_reply", "button_reply": {"id": "a:1", "title": "Approve"}});
        for (kind, part, expected, content) in [
            ("text", json!({"body": "ok"}), InboundKind::Text, Some("ok")),
            ("interactive", tap, InboundKind::Button, Some("a:1")),
            (
                "button",
                json!({"payload": "r:1", "text": "Reject"}),
                InboundKind::Button,
                Some("r:1"),
            ),
            ("interactive", json!({"list_reply": {"id": "x"}}), InboundKind::Other, None),
            ("reaction", json!({"emoji": "👍"}), InboundKind::Other, None),
            ("system", json!({"type": "user_changed_number"}), InboundKind::Other, None),
            ("unsupported", json!(7), InboundKind::Other, None),
        ] {
            let found = read_item(&item(kind, &part)).expect("it is a message");
            assert_eq!((found.kind, found.content.as_deref()), (expected, content), "{kind}");
            assert_eq!(found.sender, "+16505551234");
            assert_eq!(found.context_id.as_deref(), Some("wamid.sent"));
            assert_eq!(found.written_to.as_deref(), Some("106540352242922"));
            assert_eq!(found.sent_at.map(|at| at.timestamp()), Some(1_749_416_383));
        }
    }

    #[test]
    fn a_sender_without_a_number_is_known_by_metas_id() {
        let mut told = item("text", &json!({"body": "ok"}));
        told["from"] = json!(null);
        told["from_user_id"] = json!("US.7");
        assert_eq!(read_item(&told).map(|one| one.sender).as_deref(), Some("US.7"));
        told.as_object_mut().expect("an item").remove("from_user_id");
        assert_eq!(read_item(&told).map(|one| one.sender).as_deref(), Some("US.1349"));
        told["from"] = json!("US.8");
        assert_eq!(read_item(&told).map(|one| one.sender).as_deref(), Some("US.8"));
    }

    #[test]
    fn what_has_no_id_or_was_passed_on_says_nothing() {
        let mut nameless = item("text", &json!({"body": "ok"}));
        for id in [json!(""), json!("a\u{0}"), json!(7), json!(null)] {
            nameless["id"] = id;
            assert_eq!(read_item(&nameless), None);
        }
        let mut forwarded = item("text", &json!({"body": "ok"}));
        forwarded["context"] = json!({"forwarded": true});
        assert_eq!(read_item(&forwarded).map(|one| one.kind), Some(InboundKind::Other));
    }

    #[test]
    fn a_long_text_is_cut_between_characters() {
        let long = item("text", &json!({"body": format!("\u{0}{}", "任".repeat(3000))}));
        let content = read_item(&long).and_then(|one| one.content).expect("it has a text");
        assert_eq!(content, "任".repeat(COMMENT_BYTES_MAX / 3));
    }

    #[test]
    fn a_moment_is_a_number_of_seconds() {
        assert_eq!(find_moment(&json!("1749416383")), find_moment(&json!(1_749_416_383)));
        for none in [json!("soon"), json!(null), json!("99999999999999"), json!(1e300)] {
            assert_eq!(find_moment(&none), None, "{none}");
        }
    }
}
