//! The Message Batches API: many questions sent at once and answered some time later.
//! In come batches, looks at them, and orders to cancel or delete one; out go their states, and in
//! the end their results, in an order that is not the one of the questions.
//! A batch that cannot be read is refused at once, a wrong question in it only in its result.
//! Faults decide how long it takes and what becomes of each question, when the batch is created.

mod shelf;

#[cfg(test)]
mod tests;

use std::{collections::HashSet, sync::Arc};

use axum::{
    body::Bytes,
    extract::{Path, Query, State, rejection::BytesRejection},
    http::HeaderMap,
    response::{IntoResponse as _, Response},
};
use chrono::{DateTime, TimeDelta, Utc};
use serde_json::{Value, json};

pub use self::shelf::Shelf;
use self::shelf::{Batch, Item, Term};
use super::{
    Sandbox,
    fault::{Door, ModelFault, Strike},
    message, new_id,
    page::{Page, page},
    receipt::{Arrival, Received},
    refusal::Refusal,
    reply,
    request::{self, Purpose},
};

/// The largest body that can create a batch.
pub const BODY_LIMIT_BYTES: usize = 256 * 1024 * 1024;
/// The most requests of one batch.
const REQUESTS_MAX: usize = 100_000;

/// `POST /v1/messages/batches`
pub async fn create(
    State(sandbox): State<Arc<Sandbox>>,
    arrival: Arrival,
    body: Result<Bytes, BytesRejection>,
) -> Response {
    let mut received = Received::new(&sandbox, arrival, body);
    let (version, body) = match readable(&mut received) {
        Ok(readable) => readable,
        Err(refusal) => return received.refuse(refusal),
    };
    let strike = match received.endure(Door::BatchCreate, &reply::text_asked(&body)).await {
        Ok(strike) => strike,
        Err(refusal) => return received.refuse(refusal),
    };
    let requests = body["requests"].as_array().into_iter().flatten();
    let item = |request: &Value| Item {
        custom_id: request["custom_id"].as_str().unwrap_or("").to_owned(),
        result: result(&sandbox, &received.headers, version, request),
    };
    let items = requests.map(item).collect();
    let now = sandbox.settings.time();
    let batch = Batch {
        id: new_id("msgbatch_"),
        created_at: now,
        term: term(&strike, now, sandbox.settings.now().batch_ms),
        items,
        done: strike.fault.batch_done,
        unseen: strike.fault.batch_unseen,
        cancel_initiated_at: None,
        ended_at: None,
    };
    let shown = batch.shown(&origin(&received.headers), now);
    sandbox.batches.add(batch);
    received.finish(Ok(shown), &strike).await
}

/// `GET /v1/messages/batches`
pub async fn list(
    State(sandbox): State<Arc<Sandbox>>,
    arrival: Arrival,
    Query(query): Query<Page>,
) -> Response {
    let mut received = Received::bare(&sandbox, arrival);
    let strike = match received.enter(Door::BatchList, "").await {
        Ok(strike) => strike,
        Err(refusal) => return received.refuse(refusal),
    };
    let shown = sandbox.batches.shown(&origin(&received.headers), sandbox.settings.time());
    received.finish(page(shown, &query), &strike).await
}

/// `GET /v1/messages/batches/{id}`
pub async fn get(
    State(sandbox): State<Arc<Sandbox>>,
    Path(id): Path<String>,
    arrival: Arrival,
) -> Response {
    let mut received = Received::bare(&sandbox, arrival);
    let strike = match received.enter(Door::BatchGet, &id).await {
        Ok(strike) => strike,
        Err(refusal) => return received.refuse(refusal),
    };
    let (origin, now) = (origin(&received.headers), sandbox.settings.time());
    let shown = sandbox.batches.look(&id, now, |batch| batch.shown(&origin, now));
    received.finish(shown.ok_or_else(|| unknown(&id)), &strike).await
}

/// `GET /v1/messages/batches/{id}/results`
pub async fn results(
    State(sandbox): State<Arc<Sandbox>>,
    Path(id): Path<String>,
    arrival: Arrival,
) -> Response {
    let mut received = Received::bare(&sandbox, arrival);
    let strike = match received.enter(Door::BatchResults, &id).await {
        Ok(strike) => strike,
        Err(refusal) => return received.refuse(refusal),
    };
    let now = sandbox.settings.time();
    match sandbox.batches.look(&id, now, |batch| batch.results(now)) {
        None => received.refuse(unknown(&id)),
        Some(None) => {
            let message = format!("Message Batch {id} has no available results.");
            received.refuse(Refusal::not_found(message))
        }
        Some(_) if strike.fault.lose_reply => received.lose().await,
        Some(Some(lines)) => {
            received.answer(([("content-type", "application/x-jsonl")], lines).into_response())
        }
    }
}

/// `POST /v1/messages/batches/{id}/cancel`
pub async fn cancel(
    State(sandbox): State<Arc<Sandbox>>,
    Path(id): Path<String>,
    arrival: Arrival,
) -> Response {
    let mut received = Received::bare(&sandbox, arrival);
    let strike = match received.enter(Door::BatchCancel, &id).await {
        Ok(strike) => strike,
        Err(refusal) => return received.refuse(refusal),
    };
    let (origin, now) = (origin(&received.headers), sandbox.settings.time());
    let canceled = sandbox.batches.with(&id, now, |batch| {
        if batch.ended_at.is_some() {
            let message = format!("Message Batch {id} has ended and cannot be canceled.");
            return Err(Refusal::invalid(message));
        }
        batch.cancel(now, term(&strike, now, 0));
        Ok(batch.shown(&origin, now))
    });
    received.finish(canceled.unwrap_or_else(|| Err(unknown(&id))), &strike).await
}

/// `DELETE /v1/messages/batches/{id}`
pub async fn delete(
    State(sandbox): State<Arc<Sandbox>>,
    Path(id): Path<String>,
    arrival: Arrival,
) -> Response {
    let mut received = Received::bare(&sandbox, arrival);
    let strike = match received.enter(Door::BatchDelete, &id).await {
        Ok(strike) => strike,
        Err(refusal) => return received.refuse(refusal),
    };
    let ended =
        sandbox.batches.with(&id, sandbox.settings.time(), |batch| batch.ended_at.is_some());
    let deleted = match ended {
        None => Err(unknown(&id)),
        Some(false) => Err(Refusal::invalid(format!(
            "Message Batch {id} cannot be deleted before it has ended. Cancel it first."
        ))),
        Some(true) => {
            sandbox.batches.remove(&id);
            Ok(json!({"id": id, "type": "message_batch_deleted"}))
        }
    };
    received.finish(deleted, &strike).await
}

fn unknown(id: &str) -> Refusal {
    Refusal::not_found(format!("Message Batch {id} not found."))
}

/// When a batch ends that was struck so, if by itself it took this long.
fn term(strike: &Strike<ModelFault>, now: DateTime<Utc>, usual_ms: u64) -> Term {
    if strike.fault.batch_hold {
        return Term::Held(strike.changes());
    }
    let ms = strike.fault.batch_ms.unwrap_or(usual_ms);
    let length = i64::try_from(ms).ok().and_then(TimeDelta::try_milliseconds);
    Term::At(
        length
            .and_then(|length| now.checked_add_signed(length))
            .unwrap_or(DateTime::<Utc>::MAX_UTC),
    )
}

/// Where the client found the sandbox, and will find the results.
fn origin(headers: &HeaderMap) -> String {
    let host = headers.get("host").and_then(|host| host.to_str().ok());
    format!("http://{}", host.unwrap_or("localhost"))
}

/// The body, once it is certain that it is a batch, whatever its requests are worth.
fn readable(received: &mut Received) -> Result<(&'static str, Arc<Value>), Refusal> {
    let body = received.body()?;
    let version = request::check_headers(&received.headers)?;
    request::check_content_type(&received.headers)?;
    check_batch(&body)?;
    Ok((version, body))
}

fn check_batch(body: &Value) -> Result<(), Refusal> {
    let Some(fields) = body.as_object() else {
        return Err(Refusal::invalid("The request body is not valid JSON: expected an object"));
    };
    if let Some(name) = fields.keys().find(|name| *name != "requests") {
        return Err(Refusal::invalid(format!("{name}: Extra inputs are not permitted")));
    }
    let Some(requests) = fields.get("requests") else {
        return Err(Refusal::invalid("requests: Field required"));
    };
    let Some(requests) = requests.as_array() else {
        return Err(Refusal::invalid("requests: Input should be a valid list"));
    };
    if !(1..=REQUESTS_MAX).contains(&requests.len()) {
        let message = format!("requests: List should have 1 to {REQUESTS_MAX} items");
        return Err(Refusal::invalid(message));
    }
    let mut ids = HashSet::new();
    for (n, request) in requests.iter().enumerate() {
        let id = check_request(request, &format!("requests.{n}"))?;
        if !ids.insert(id) {
            let message = format!("requests.{n}.custom_id: \"{id}\" is not unique in the batch");
            return Err(Refusal::invalid(message));
        }
    }
    Ok(())
}

/// The id of one request, once it is certain that it has one and something to ask.
fn check_request<'r>(request: &'r Value, path: &str) -> Result<&'r str, Refusal> {
    let Some(fields) = request.as_object() else {
        return Err(Refusal::invalid(format!("{path}: Input should be an object")));
    };
    if let Some(name) = fields.keys().find(|name| !["custom_id", "params"].contains(&name.as_str()))
    {
        return Err(Refusal::invalid(format!("{path}.{name}: Extra inputs are not permitted")));
    }
    if !request["params"].is_object() {
        return Err(Refusal::invalid(format!("{path}.params: Field required")));
    }
    let Some(id) = fields.get("custom_id") else {
        return Err(Refusal::invalid(format!("{path}.custom_id: Field required")));
    };
    let fits = |letter: char| letter.is_ascii_alphanumeric() || "_-".contains(letter);
    let id = id.as_str().filter(|id| (1..=64).contains(&id.len()) && id.chars().all(fits));
    id.ok_or_else(|| {
        let pattern = "^[a-zA-Z0-9_-]{1,64}$";
        Refusal::invalid(format!("{path}.custom_id: String should match pattern '{pattern}'"))
    })
}

/// What one request of a batch comes to.
fn result(sandbox: &Sandbox, headers: &HeaderMap, version: &str, request: &Value) -> Value {
    let errored =
        |refusal: Refusal| json!({"type": "errored", "error": refusal.body(&new_id("req_"))});
    let body = Arc::new(request["params"].clone());
    let asked = match request::check_question(headers, version, body, Purpose::Batch) {
        Ok(asked) => asked,
        Err(refusal) => return errored(refusal),
    };
    let text = reply::batched_text(request);
    let fault =
        sandbox.faults.strike_model(Door::BatchRequest, &text, sandbox.settings.time()).fault;
    if fault.expire {
        return json!({"type": "expired"});
    }
    if let Some(refusal) = fault.refusal() {
        return errored(refusal);
    }
    let message = message::answer(sandbox, &asked, fault.stop_reason.as_deref(), "batch");
    json!({"type": "succeeded", "message": message})
}
