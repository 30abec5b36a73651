//! What people write: texts, and taps on the buttons of messages.
//! In come the answers of the page's forms, and of scripts; out go signed posts as Meta makes them, and a journal.
//! Whatever a person writes opens the window for 24 hours.

use std::sync::Arc;

use axum::{
    Json,
    extract::{Query, State},
    http::StatusCode,
    response::{IntoResponse as _, Response},
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::{
    super::{
        Sandbox,
        journal::{Entry, Look, Outcome},
    },
    WhatsappMessage, digits,
    envelope::{Button, Does},
    hook, people, wamid,
};

/// What a person wrote, as the journal shows it.
#[derive(Clone, Serialize)]
pub struct Inbound {
    /// Its `wamid`.
    pub id: String,
    /// Who wrote: `+` and digits, or a user id.
    pub from: String,
    /// `text`, `interactive`, `button`, or what a script says.
    #[serde(rename = "type")]
    pub kind: String,
    /// What was written, or what stands on the button.
    pub text: String,
    /// The message that it answers.
    pub answers: Option<String>,
    /// What the webhook answered, once for each time it was told.
    pub answered: Vec<Option<u16>>,
}

/// What a person is to write.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Writing {
    /// Who writes: a number or a user id.
    pub from: String,
    /// The words.
    pub text: Option<String>,
    /// The button that is tapped: what stands on it, its id or its payload.
    pub tap: Option<String>,
    /// The message that is answered; for a tap, the newest that has such a button, unless named.
    pub message: Option<String>,
    /// To which number of the business; by default the one that wrote to this person last, else 1.
    pub phone_number_id: Option<String>,
    /// How often it is told, all under one id.
    pub times: Option<u8>,
    /// How long before now it was written, as if the webhook heard of it late.
    pub seconds_ago: Option<u32>,
    /// Whether the writer's number is hidden; else the settings say so.
    pub user_id_only: Option<bool>,
    /// Any other message, such as a reaction: its type and its parts.
    pub other: Option<Map<String, Value>>,
}

/// What is wrong with something that a person is to write.
type Wrong = (StatusCode, String);

/// Writes it; answers what was written, once the webhook has answered.
pub async fn write(sandbox: &Arc<Sandbox>, writing: &Writing) -> Result<Inbound, Wrong> {
    let wrong = |error: &str| (StatusCode::BAD_REQUEST, error.to_owned());
    let from = sandbox.whatsapp.people.person(&people::named(&writing.from));
    if from.is_empty() {
        return Err(wrong("from: is neither a phone number nor a user id"));
    }
    let sent = sent_to(sandbox, &from).await;
    let (kind, part, text, answers) = match (&writing.text, &writing.tap, &writing.other) {
        (Some(text), None, None) if !text.trim().is_empty() => {
            let part = json!({"text": {"body": text}});
            ("text".to_owned(), part, text.clone(), writing.message.clone())
        }
        (None, Some(tap), None) => {
            let (message, button) = tapped(&sent, tap, writing.message.as_deref())?;
            let (kind, part) = shape(button).ok_or_else(|| wrong("tap: this button is a link"))?;
            (kind.to_owned(), part, button.label.clone(), message.id.clone())
        }
        (None, None, Some(other)) => {
            let kind = other.get("type").and_then(Value::as_str).unwrap_or("unsupported");
            (kind.to_owned(), other.clone().into(), String::new(), writing.message.clone())
        }
        _ => return Err(wrong("give one of text, tap and other")),
    };
    let wrote_last = sent.last().map(|message| &message.phone_number_id);
    let phone_number_id = writing.phone_number_id.as_ref().or(wrote_last);
    let phone_number_id = phone_number_id.map_or("1", String::as_str);
    let hides_number = writing.user_id_only.unwrap_or_else(|| sandbox.settings.now().user_id_only);
    let at = sandbox.settings.time()
        - chrono::TimeDelta::seconds(writing.seconds_ago.unwrap_or(0).into());
    let id = wamid(&from);
    let mut message = json!({"id": id, "timestamp": at.timestamp().to_string(), "type": kind,
        "from_user_id": sandbox.whatsapp.people.user_id(&from)});
    if !hides_number && from.starts_with('+') {
        message["from"] = digits(&from).into();
    }
    if let Some(answers) = &answers {
        message["context"] = json!({"from": hook::DISPLAY_NUMBER, "id": answers});
    }
    for (name, value) in part.as_object().into_iter().flatten() {
        message[name] = value.clone();
    }
    let mut value = hook::about(phone_number_id);
    let mut contact = hook::contact(sandbox, &from, hides_number);
    contact["profile"] = json!({"name": format!("Phone {}", last_four(&from))});
    value["contacts"] = json!([contact]);
    value["messages"] = json!([message]);
    sandbox.whatsapp.people.wrote(&from, at);
    let inbound = Inbound { id, from, kind, text, answers, answered: Vec::new() };
    Ok(tell(sandbox, inbound, &value, writing.times.unwrap_or(1)).await)
}

/// Writes it down and tells it, so many times.
async fn tell(sandbox: &Arc<Sandbox>, mut inbound: Inbound, value: &Value, times: u8) -> Inbound {
    let mut open = sandbox.whatsapp.received.open(inbound.clone());
    sandbox.whatsapp.touch();
    for _ in 0..times {
        inbound.answered.push(hook::tell(sandbox, "messages", value).await);
    }
    let is_heard = inbound.answered.contains(&Some(200));
    let outcome = if is_heard { Outcome::Answered } else { Outcome::Failed };
    open.settle(outcome, |kept| kept.answered.clone_from(&inbound.answered));
    sandbox.whatsapp.touch();
    inbound
}

fn last_four(person: &str) -> String {
    person.chars().skip(person.chars().count().saturating_sub(4)).collect()
}

/// What this person was sent, the oldest first.
async fn sent_to(sandbox: &Sandbox, person: &str) -> Vec<WhatsappMessage> {
    let fits = |entry: &Entry<WhatsappMessage>| entry.what.to == person && entry.what.id.is_some();
    let found = sandbox.whatsapp.sent.look(&Look::default(), fits).await;
    found.into_iter().map(|entry| entry.what).collect()
}

/// The button that is meant, and its message.
fn tapped<'m>(
    sent: &'m [WhatsappMessage],
    tap: &str,
    message: Option<&str>,
) -> Result<(&'m WhatsappMessage, &'m Button), Wrong> {
    let is_meant = |button: &&Button| {
        button.label == tap
            || match &button.does {
                Does::Id(word) | Does::Payload(word) | Does::Url(word) => word == tap,
            }
    };
    let candidates = sent
        .iter()
        .rev()
        .filter(|sent| message.is_none_or(|message| sent.id.as_deref() == Some(message)));
    let found = candidates.filter_map(|sent| Some((sent, sent.buttons.iter().find(is_meant)?)));
    let none = || (StatusCode::NOT_FOUND, "no message to this person has such a button".to_owned());
    found.into_iter().next().ok_or_else(none)
}

/// The type and the parts of what a tap sends; the buttons of templates have another shape.
fn shape(button: &Button) -> Option<(&'static str, Value)> {
    let label = &button.label;
    match &button.does {
        Does::Url(_) => None,
        Does::Id(id) => {
            let reply = json!({"id": id, "title": label});
            Some((
                "interactive",
                json!({"interactive": {"type": "button_reply", "button_reply": reply}}),
            ))
        }
        Does::Payload(payload) => {
            Some(("button", json!({"button": {"payload": payload, "text": label}})))
        }
    }
}

/// `POST /_sandbox/whatsapp/inbound`
pub async fn receive(State(sandbox): State<Arc<Sandbox>>, body: String) -> Response {
    let writing =
        serde_json::from_str(&body).map_err(|error| (StatusCode::BAD_REQUEST, error.to_string()));
    let written = match writing {
        Ok(writing) => write(&sandbox, &writing).await,
        Err(wrong) => Err(wrong),
    };
    match written {
        Ok(inbound) => Json(inbound).into_response(),
        Err((status, error)) => (status, Json(json!({"error": error}))).into_response(),
    }
}

/// `GET /_sandbox/whatsapp/inbound`
pub async fn journal(State(sandbox): State<Arc<Sandbox>>, Query(look): Query<Look>) -> Json<Value> {
    let from = look.to.as_deref().map(people::named);
    let found = sandbox.whatsapp.received.look(&look, |entry| {
        look.outcome.is_none_or(|outcome| entry.outcome == outcome)
            && from.as_ref().is_none_or(|from| entry.what.from == *from)
            && look.matching.as_ref().is_none_or(|text| entry.what.text.contains(text))
    });
    Json(json!({"inbound": found.await}))
}
