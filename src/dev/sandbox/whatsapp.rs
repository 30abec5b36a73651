//! The `WhatsApp` Cloud API: takes messages as Meta's endpoint does, and keeps them for the phone.
//! In come sends as a production client makes them; out go message ids, or errors in Meta's shape.
//! A message is journaled when it is accepted; a refused one too, but is shown only when asked for.
//! Whether its sender learns of it is another matter: a fault can lose the answer.

use std::{sync::Arc, time::Duration};

use axum::{
    Json,
    body::Bytes,
    extract::{ConnectInfo, Path, Query, State},
    http::{HeaderMap, HeaderValue, StatusCode},
    response::{IntoResponse, Response},
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde::Serialize;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::{
    Sandbox,
    envelope::{self, Envelope},
    fault::Moment,
    journal::{Entry, Journal, Look, Open, Outcome},
    new_id, status,
    wire::Wire,
};

/// A message to a phone, as the journal shows it.
#[derive(Clone, Default, Serialize)]
pub struct WhatsappMessage {
    /// Its `wamid`; none if it was refused.
    pub id: Option<String>,
    /// The number it was sent from.
    pub phone_number_id: String,
    /// The number it was sent to: `+` and digits.
    pub to: String,
    /// `text`, `interactive` or `template`.
    #[serde(rename = "type")]
    pub kind: String,
    /// What a person reads, whatever the type.
    pub text: String,
    /// The whole request.
    pub body: Value,
    /// What the sender wants to see again in delivery statuses.
    pub biz_opaque_callback_data: Option<String>,
    /// The code of the error it was refused with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_code: Option<u32>,
}

/// An error answer of the Graph API.
#[derive(Debug, PartialEq, Eq)]
pub struct GraphError {
    status: u16,
    /// Meta's error code.
    pub code: u32,
    subcode: Option<u32>,
    message: String,
    details: Option<String>,
}

impl GraphError {
    /// An error with Meta's code and title, and the details of this case.
    pub fn new(code: u32, details: impl Into<String>) -> Self {
        let (status, title) = Self::known(code);
        let message = format!("(#{code}) {title}");
        Self { status, code, subcode: None, message, details: Some(details.into()) }
    }

    /// Meta's title of a code.
    pub fn title(code: u32) -> &'static str {
        Self::known(code).1
    }

    fn known(code: u32) -> (u16, &'static str) {
        match code {
            0 | 190 => (401, "Error validating access token"),
            4 => (400, "Application request limit reached"),
            10 | 200..=299 => (403, "Permission denied"),
            100 => (400, "Invalid parameter"),
            368 => (403, "Temporarily blocked for policies violations"),
            80007 => (400, "Rate limit issues"),
            130_429 => (429, "Rate limit hit"),
            131_000 => (500, "Something went wrong"),
            131_005 => (403, "Access denied"),
            131_008 => (400, "Required parameter is missing"),
            131_009 => (400, "Parameter value is not valid"),
            131_016 => (503, "Service unavailable"),
            131_026 => (400, "Message undeliverable"),
            131_030 => (400, "Recipient phone number not in allowed list"),
            131_047 => (400, "Re-engagement message"),
            131_048 => (400, "Spam rate limit hit"),
            131_051 => (400, "Unsupported message type"),
            131_056 => (400, "(Business Account, Consumer Account) pair rate limit hit"),
            132_000 => (400, "Number of parameters does not match the expected number of params"),
            132_001 => (404, "Template name does not exist in the translation"),
            132_015 => (400, "Template is paused"),
            132_018 => (400, "There is an issue with the parameters in your template"),
            133_004 => (503, "Server temporarily unavailable"),
            1 | 2 => (500, "An unknown error has occurred"),
            _ => (400, "The message could not be sent"),
        }
    }

    /// A parameter that is missing or of the wrong shape, in Meta's words.
    pub fn parameter(message: impl AsRef<str>) -> Self {
        let message = format!("(#100) {}", message.as_ref());
        Self { status: 400, code: 100, subcode: None, message, details: None }
    }

    fn no_token() -> Self {
        let message = "Invalid OAuth access token - Cannot parse access token".to_owned();
        Self { status: 401, code: 190, subcode: None, message, details: None }
    }
}

impl IntoResponse for GraphError {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::BAD_REQUEST);
        let mut error = json!({
            "message": self.message, "type": "OAuthException", "code": self.code,
            "fbtrace_id": new_id("A"),
        });
        if let Some(details) = self.details {
            error["error_data"] = json!({"messaging_product": "whatsapp", "details": details});
        }
        if let Some(subcode) = self.subcode {
            error["error_subcode"] = subcode.into();
        }
        (status, Json(json!({"error": error}))).into_response()
    }
}

/// The Graph API's answer to a path it does not know.
pub fn unknown_path(path: &str) -> GraphError {
    let message = format!("Unknown path components: {path}");
    GraphError { status: 400, code: 2500, subcode: None, message, details: None }
}

/// `POST /v{N}.{M}/{phone_number_id}/messages`
pub async fn send(
    State(sandbox): State<Arc<Sandbox>>,
    ConnectInfo(wire): ConnectInfo<Wire>,
    Path((version, phone_number_id)): Path<(String, String)>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    if !is_version(&version) {
        return unknown_path(&format!("/{version}/{phone_number_id}/messages")).into_response();
    }
    let body: Option<Value> = serde_json::from_slice(&body).ok();
    let mut message = WhatsappMessage { phone_number_id, ..WhatsappMessage::default() };
    let envelope = check(&headers, &message.phone_number_id, body.as_ref());
    message.body = body.unwrap_or_default();
    let envelope = match envelope {
        Ok(envelope) => envelope,
        Err(error) => return refuse(&sandbox.whatsapp, message, error),
    };
    message.fill(&envelope);
    let fault = sandbox.faults.strike_whatsapp(&message.to).fault;
    let delay = Duration::from_millis(fault.delay_ms.unwrap_or(0));
    let is_refused = fault.status.is_some() || fault.code.is_some();
    if is_refused || fault.drop == Some(Moment::Before) {
        message.error_code = is_refused.then(|| fault.code.unwrap_or(131_000));
        let error = message.error_code.map(|code| GraphError::new(code, "a scripted fault"));
        let mut open = sandbox.whatsapp.open(message);
        sleep(delay).await;
        open.settle(Outcome::Failed, |_| ());
        let Some(mut error) = error else { return wire.cut().await };
        error.status = fault.status.unwrap_or(error.status);
        return error.into_response();
    }
    let id = wamid(&message.to);
    message.id = Some(id.clone());
    let is_template = message.kind == "template";
    let to = message.to.clone();
    status::begin(&sandbox, &message, &fault);
    let mut open = sandbox.whatsapp.open(message);
    sleep(delay).await;
    if fault.drop == Some(Moment::After) {
        drop(open);
        return wire.cut().await;
    }
    accept(&mut open, &id, &envelope.input, &to, is_template, &version)
}

fn accept(
    open: &mut Open<WhatsappMessage>,
    id: &str,
    input: &str,
    to: &str,
    is_template: bool,
    version: &str,
) -> Response {
    open.settle(Outcome::Answered, |_| ());
    let mut sent = json!({"id": id});
    if is_template {
        sent["message_status"] = "accepted".into();
    }
    let mut response = Json(json!({
        "messaging_product": "whatsapp",
        "contacts": [{"input": input, "wa_id": digits(to)}],
        "messages": [sent],
    }))
    .into_response();
    if let Ok(version) = HeaderValue::from_str(version) {
        response.headers_mut().insert("facebook-api-version", version);
    }
    response
}

fn refuse(
    journal: &Arc<Journal<WhatsappMessage>>,
    mut message: WhatsappMessage,
    error: GraphError,
) -> Response {
    message.error_code = Some(error.code);
    journal.open(message).settle(Outcome::Failed, |_| ());
    error.into_response()
}

fn check(
    headers: &HeaderMap,
    phone_number_id: &str,
    body: Option<&Value>,
) -> Result<Envelope, GraphError> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or("");
    let token = text("authorization").strip_prefix("Bearer ").unwrap_or("");
    if token.trim().is_empty() {
        return Err(GraphError::no_token());
    }
    if phone_number_id.is_empty() || !phone_number_id.bytes().all(|byte| byte.is_ascii_digit()) {
        let mut error = GraphError::parameter("");
        error.message = format!(
            "Unsupported post request. Object with ID '{phone_number_id}' does not exist, cannot \
             be loaded due to missing permissions, or does not support this operation"
        );
        error.subcode = Some(33);
        return Err(error);
    }
    if !text("content-type").to_ascii_lowercase().starts_with("application/json") {
        return Err(GraphError::parameter("The parameter messaging_product is required."));
    }
    let body = body.ok_or_else(|| GraphError::parameter("The request body is not valid JSON"))?;
    envelope::check(body)
}

impl WhatsappMessage {
    /// Whether this is in what a person reads, or behind one of the buttons.
    fn says(&self, text: &str) -> bool {
        self.text.contains(text) || self.body.to_string().contains(text)
    }

    fn fill(&mut self, envelope: &Envelope) {
        self.to.clone_from(&envelope.to);
        self.kind.clone_from(&envelope.kind);
        self.text.clone_from(&envelope.text);
        let data = self.body["biz_opaque_callback_data"].as_str();
        self.biz_opaque_callback_data = data.map(str::to_owned);
    }
}

/// `GET /_sandbox/whatsapp/messages`
pub async fn journal(State(sandbox): State<Arc<Sandbox>>, Query(look): Query<Look>) -> Json<Value> {
    let found = sandbox.whatsapp.look(&look, |entry| {
        is_wanted(entry, look.outcome)
            && look.to.as_ref().is_none_or(|to| digits(&entry.what.to) == digits(to))
            && look.matching.as_ref().is_none_or(|text| entry.what.says(text))
    });
    Json(json!({"messages": found.await}))
}

/// `DELETE /_sandbox/whatsapp/messages`
pub async fn forget(State(sandbox): State<Arc<Sandbox>>) -> StatusCode {
    sandbox.whatsapp.forget();
    StatusCode::NO_CONTENT
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
    let number = digits(to);
    let mut bytes = vec![0x1c, 0x18, number.len() as u8];
    bytes.extend(number.as_bytes());
    bytes.extend([0x15, 0x02, 0x00, 0x11, 0x18, 0x12]);
    bytes.extend(format!("{:032X}", rand::random::<u128>()).as_bytes()[..18].iter());
    bytes.push(0);
    format!("wamid.{}", STANDARD.encode(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_look_like_those_of_the_real_service_and_differ() {
        assert!(wamid("+16505551234").starts_with("wamid.HBgL"));
        assert_ne!(wamid("+16505551234"), wamid("+16505551234"));
    }

    #[test]
    fn only_a_graph_version_is_one() {
        let known = ["v26.0", "v1", "v26", "26.0", "v.0", "vx.1"].map(is_version);
        assert_eq!(known, [true, false, false, false, false, false]);
    }
}
