//! Sends: takes messages as Meta's endpoint does.
//! In come sends as a production client makes them; out go message ids, or errors in Meta's shape.
//! A message is journaled when it is accepted; a refused one too.
//! Whether its sender learns of it is another matter: a fault can lose the answer.

use std::{sync::Arc, time::Duration};

use axum::{
    Json,
    body::Bytes,
    extract::{ConnectInfo, Path, State},
    http::{HeaderMap, HeaderValue},
    response::{IntoResponse as _, Response},
};
use serde_json::{Value, json};
use tokio::time::sleep;

use super::{
    super::{
        Sandbox,
        fault::{Hold, Moment, WhatsappFault},
        journal::Outcome,
        setting::{Setting, Window},
        wire::Wire,
    },
    Whatsapp, WhatsappMessage, authorize, digits,
    envelope::{self, Envelope},
    is_version, people,
    refusal::{self, GraphError},
    status::{self, Failure, Status},
    wamid,
};

/// The code of who writes freely to somebody who has not written for 24 hours.
const CLOSED_WINDOW: u32 = 131_047;

/// `POST /v{N}.{M}/{phone_number_id}/messages`
pub async fn send(
    State(sandbox): State<Arc<Sandbox>>,
    ConnectInfo(wire): ConnectInfo<Wire>,
    Path((version, phone_number_id)): Path<(String, String)>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    if !is_version(&version) {
        let path = format!("/{version}/{phone_number_id}/messages");
        return GraphError::unknown_path(&path).into_response();
    }
    let setting = sandbox.settings.now();
    let body: Option<Value> = serde_json::from_slice(&body).ok();
    let mut message = WhatsappMessage { phone_number_id, ..WhatsappMessage::default() };
    let envelope = check(&sandbox, &setting, &headers, &message.phone_number_id, body.as_ref());
    message.body = body.unwrap_or_default();
    let envelope = match envelope {
        Ok(envelope) => envelope,
        Err(error) => return refuse(&sandbox.whatsapp, message, error),
    };
    message.fill(&envelope, &sandbox.whatsapp.people);
    let fault = sandbox.faults.strike_whatsapp(&message.to).fault;
    let delay = Duration::from_millis(fault.delay_ms.unwrap_or(0));
    let error = GraphError::scripted(&fault);
    if error.is_some() || fault.drop == Some(Moment::Before) {
        message.error_code = error.as_ref().map(|error| error.code);
        let mut open = sandbox.whatsapp.sent.open(message);
        sleep(delay).await;
        open.settle(Outcome::Failed, |_| ());
        return match error {
            Some(error) => error.into_response(),
            None => wire.cut().await,
        };
    }
    let failure = match admit(&sandbox, &setting, &message) {
        Ok(failure) => failure,
        Err(error) => return refuse(&sandbox.whatsapp, message, error),
    };
    message.id = Some(wamid(&message.to));
    message.status = Some(Status::Accepted);
    let answer = answer(&message, &envelope, &fault, &version);
    let mut open = sandbox.whatsapp.sent.open(message.clone());
    status::begin(&sandbox, open.seq(), &message, &fault, failure);
    sandbox.whatsapp.touch();
    sleep(delay).await;
    if fault.drop == Some(Moment::After) {
        drop(open);
        return wire.cut().await;
    }
    open.settle(Outcome::Answered, |_| ());
    answer
}

/// Whether a message may go now, and whether it is accepted only to fail.
fn admit(
    sandbox: &Sandbox,
    setting: &Setting,
    message: &WhatsappMessage,
) -> Result<Option<Failure>, GraphError> {
    let now = sandbox.settings.time();
    let is_closed =
        message.kind != "template" && !sandbox.whatsapp.people.is_window_open(&message.to, now);
    let details = "Message failed to send because more than 24 hours have passed since the \
                   customer last replied to this number.";
    let failure = match setting.window {
        Window::Fail if is_closed => {
            Some(Failure { code: CLOSED_WINDOW, details: details.to_owned(), is_late: false })
        }
        Window::Refuse if is_closed => return Err(GraphError::new(CLOSED_WINDOW, details)),
        Window::Open | Window::Fail | Window::Refuse => None,
    };
    let from = &message.phone_number_id;
    if setting.pair_limit && !sandbox.whatsapp.pairs.admit(from, &message.to, now) {
        let details = "Too many messages sent from this phone number to the same user phone \
                       number in a short period of time.";
        return Err(GraphError::new(131_056, details));
    }
    Ok(failure)
}

/// The answer to a message that was accepted.
fn answer(
    message: &WhatsappMessage,
    envelope: &Envelope,
    fault: &WhatsappFault,
    version: &str,
) -> Response {
    let mut sent = json!({"id": message.id});
    if message.kind == "template" {
        sent["message_status"] = json!(fault.message_status.unwrap_or(Hold::Accepted));
    }
    let input = &envelope.input;
    let contact = if people::is_user_id(input) {
        json!({"input": input, "user_id": input})
    } else {
        json!({"input": input, "wa_id": digits(&message.to)})
    };
    let body = json!({"messaging_product": "whatsapp", "contacts": [contact], "messages": [sent]});
    let mut response = Json(body).into_response();
    let headers = [("facebook-api-version", version), ("x-fb-trace-id", &refusal::trace_id())];
    for (name, value) in headers {
        if let Ok(value) = HeaderValue::from_str(value) {
            response.headers_mut().insert(name, value);
        }
    }
    response
}

fn refuse(whatsapp: &Whatsapp, mut message: WhatsappMessage, error: GraphError) -> Response {
    message.error_code = Some(error.code);
    whatsapp.sent.open(message).settle(Outcome::Failed, |_| ());
    error.into_response()
}

fn check(
    sandbox: &Sandbox,
    setting: &Setting,
    headers: &HeaderMap,
    phone_number_id: &str,
    body: Option<&Value>,
) -> Result<Envelope, GraphError> {
    authorize(headers, setting)?;
    if phone_number_id.is_empty() || !phone_number_id.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(GraphError::unknown_object(phone_number_id));
    }
    let kind = headers.get("content-type").and_then(|value| value.to_str().ok()).unwrap_or("");
    if !kind.to_ascii_lowercase().starts_with("application/json") {
        return Err(GraphError::parameter("The parameter messaging_product is required."));
    }
    let body = body.ok_or_else(|| GraphError::parameter("The request body is not valid JSON"))?;
    envelope::check(body, &sandbox.whatsapp.templates, &setting.public_url())
}
