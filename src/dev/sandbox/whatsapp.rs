//! The `WhatsApp` Cloud API: takes messages as Meta's endpoint does, and keeps them for the phone.
//! In come sends, and what people do on their phones; out go answers, and posts to a webhook.
//! Beside what Meta offers there are doors for scripts, and the page that looks like a phone.
//! Everything that was sent or written is journaled; refused messages are shown only when asked for.

mod refusal;

mod envelope;

mod template;

mod registry;

mod pair;

mod people;

mod hook;

mod preview;

mod status;

mod send;

mod inbound;

mod phone;

#[cfg(test)]
mod tests;

use std::{sync::Arc, time::Duration};

use axum::{
    Json, Router,
    extract::{Query, State},
    http::{HeaderMap, StatusCode, header::AUTHORIZATION},
    routing::{get, post},
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::{sync::watch, time::timeout};

pub use self::refusal::GraphError;
use self::{
    envelope::{Button, Envelope, Reading},
    inbound::Inbound,
    pair::Pairs,
    people::People,
    preview::Preview,
    registry::Registry,
    status::Status,
};
use super::{
    Sandbox,
    journal::{Entry, Journal, Look, Outcome},
    setting::Setting,
};

/// How long who follows the page waits for a change.
const FOLLOW: Duration = Duration::from_secs(20);

/// Everything that this service knows.
pub struct Whatsapp {
    /// What was sent to people.
    sent: Arc<Journal<WhatsappMessage>>,
    /// What people wrote.
    received: Arc<Journal<Inbound>>,
    templates: Registry,
    pairs: Pairs,
    people: People,
    /// Counts what has changed on any phone.
    changes: watch::Sender<u64>,
}

impl Whatsapp {
    /// Nothing has been sent; so many messages will be kept.
    pub fn keeping(entries_max: usize) -> Self {
        Self {
            sent: Arc::new(Journal::keeping(entries_max)),
            received: Arc::new(Journal::keeping(entries_max)),
            templates: Registry::default(),
            pairs: Pairs::default(),
            people: People::default(),
            changes: watch::Sender::new(0),
        }
    }

    fn touch(&self) {
        self.changes.send_modify(|count| *count += 1);
    }

    /// Changes what is kept of a message.
    fn change(&self, seq: u64, change: impl FnOnce(&mut WhatsappMessage)) {
        self.sent.change(seq, |entry| change(&mut entry.what));
        self.touch();
    }

    /// Notes how far a message has come, and why no further; it never goes back.
    fn mark(&self, seq: u64, status: Status, error_code: Option<u32>) {
        self.change(seq, |message| {
            message.status = message.status.max(Some(status));
            message.error_code = error_code.or(message.error_code);
        });
    }
}

/// The doors: those of Meta, those of scripts, and those of the page.
pub fn router() -> Router<Arc<Sandbox>> {
    let templates = get(registry::show).post(registry::change).delete(registry::reset);
    Router::new()
        .route("/{version}/{phone_number_id}/messages", post(send::send))
        .route("/{version}/{account_id}/message_templates", get(registry::list))
        .route("/_sandbox/whatsapp/messages", get(journal).delete(forget))
        .route("/_sandbox/whatsapp/inbound", get(inbound::journal).post(inbound::receive))
        .route("/_sandbox/whatsapp/templates", templates)
        .route("/_sandbox/whatsapp/changes", get(follow))
        .route("/phone", get(phone::page))
        .route("/phone/say", post(phone::say))
        .route("/phone/tap", post(phone::tap))
}

/// A message to a phone, as the journal shows it.
#[derive(Clone, Default, Serialize)]
pub struct WhatsappMessage {
    /// Its `wamid`; none if it was refused.
    pub id: Option<String>,
    /// The number it was sent from.
    pub phone_number_id: String,
    /// Whom it was sent to: `+` and digits, or a user id.
    pub to: String,
    /// `text`, `interactive` or `template`.
    #[serde(rename = "type")]
    pub kind: String,
    /// What a person reads, whatever the type.
    pub text: String,
    /// The same, part by part.
    #[serde(skip)]
    pub reading: Reading,
    /// What stands on its buttons, and what each does.
    pub buttons: Vec<Button>,
    /// The whole request.
    pub body: Value,
    /// What the sender wants to see again in delivery statuses.
    pub biz_opaque_callback_data: Option<String>,
    /// How far it has come; none if it was refused.
    pub status: Option<Status>,
    /// The code of the error it was refused with, or failed with later.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_code: Option<u32>,
    /// Who has looked at its links, before it arrived.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub previews: Vec<Preview>,
}

/// Whether a request shows the token it has to show: any, unless the settings name one.
fn authorize(headers: &HeaderMap, setting: &Setting) -> Result<(), GraphError> {
    let shown = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok()).unwrap_or("");
    let token = shown.strip_prefix("Bearer ").unwrap_or("").trim();
    if token.is_empty() {
        return Err(GraphError::no_token());
    }
    if token == setting.expired_token {
        return Err(GraphError::expired_token());
    }
    if setting.token.is_empty() || token == setting.token {
        return Ok(());
    }
    Err(GraphError::no_token())
}

impl WhatsappMessage {
    /// Whether this is in what a person reads, or behind one of the buttons.
    fn says(&self, text: &str) -> bool {
        self.text.contains(text) || self.body.to_string().contains(text)
    }

    fn fill(&mut self, envelope: &Envelope, people: &People) {
        self.to = people.person(&envelope.to);
        self.kind.clone_from(&envelope.kind);
        self.text = envelope.reading.text();
        self.buttons.clone_from(&envelope.reading.buttons);
        self.reading.clone_from(&envelope.reading);
        let data = self.body["biz_opaque_callback_data"].as_str();
        self.biz_opaque_callback_data = data.map(str::to_owned);
    }

    /// Every link in its text and behind its buttons.
    fn links(&self) -> Vec<String> {
        let behind = self.buttons.iter().filter_map(Button::url).map(str::to_owned);
        phone::links(&self.text).into_iter().chain(behind).collect()
    }
}

/// `GET /_sandbox/whatsapp/messages`
pub async fn journal(State(sandbox): State<Arc<Sandbox>>, Query(look): Query<Look>) -> Json<Value> {
    let to = look.to.as_deref().map(people::named);
    let found = sandbox.whatsapp.sent.look(&look, |entry| {
        is_wanted(entry, look.outcome)
            && to.as_ref().is_none_or(|to| entry.what.to == *to)
            && look.matching.as_ref().is_none_or(|text| entry.what.says(text))
    });
    Json(json!({"messages": found.await}))
}

/// `DELETE /_sandbox/whatsapp/messages`
pub async fn forget(State(sandbox): State<Arc<Sandbox>>) -> StatusCode {
    sandbox.whatsapp.sent.forget();
    sandbox.whatsapp.received.forget();
    sandbox.whatsapp.touch();
    StatusCode::NO_CONTENT
}

/// What a follower of the page has seen.
#[derive(Deserialize)]
pub struct Seen {
    after: Option<u64>,
}

/// `GET /_sandbox/whatsapp/changes`: answers when there is a change, or after a while.
pub async fn follow(State(sandbox): State<Arc<Sandbox>>, Query(seen): Query<Seen>) -> Json<Value> {
    let mut changes = sandbox.whatsapp.changes.subscribe();
    let changed = changes.wait_for(|count| seen.after != Some(*count));
    // Neither a timeout nor the end of the sandbox is a change.
    let _ = timeout(FOLLOW, changed).await;
    let count = *sandbox.whatsapp.changes.borrow();
    Json(json!({"changes": count}))
}

/// What was refused never reached a phone, so it is shown only to who asks for it.
pub fn is_wanted(entry: &Entry<WhatsappMessage>, outcome: Option<Outcome>) -> bool {
    outcome.map_or(entry.what.id.is_some(), |outcome| entry.outcome == outcome)
}

/// The digits of a phone number, however it is written.
pub fn digits(number: &str) -> String {
    number.chars().filter(char::is_ascii_digit).collect()
}

fn is_version(version: &str) -> bool {
    let number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let parts = version.strip_prefix('v').and_then(|version| version.split_once('.'));
    parts.is_some_and(|(major, minor)| number(major) && number(minor))
}

/// An id as Meta makes them: base64 over the number and a random part.
fn wamid(to: &str) -> String {
    let number = if to.starts_with('+') { digits(to) } else { to.to_owned() };
    let mut bytes = vec![0x1c, 0x18, number.len() as u8];
    bytes.extend(number.as_bytes());
    bytes.extend([0x15, 0x02, 0x00, 0x11, 0x18, 0x12]);
    bytes.extend(format!("{:032X}", rand::random::<u128>()).as_bytes()[..18].iter());
    bytes.push(0);
    format!("wamid.{}", STANDARD.encode(bytes))
}
