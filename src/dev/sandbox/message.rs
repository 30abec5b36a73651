//! The Messages API: answers, counts and models, in the provider's wire format.
//! In come requests as a production client sends them; out go answers, as JSON or as a stream.
//! Every request is journaled before anything else happens to it, refused ones too.
//! Faults strike only what would have been answered, so a wrong request never uses one up.

use std::{sync::Arc, time::Duration};

use axum::{
    Json,
    body::Bytes,
    extract::{ConnectInfo, Path, Query, State, rejection::BytesRejection},
    http::{HeaderMap, HeaderValue, Method, StatusCode, Uri},
    response::{IntoResponse as _, Response},
};
use serde::{Serialize, Serializer};
use serde_json::{Map, Value, json};
use tokio::time::sleep;

use super::{
    Sandbox,
    catalog::{MODELS, find_model},
    fault::{ModelFault, Strike},
    journal::{Look, Open, Outcome},
    new_id,
    reply::{self, Answer},
    request::{self, Asked, Refusal},
    stream,
    wire::Wire,
};

/// A request to the Messages API, as the journal shows it.
#[derive(Clone, Default, Serialize)]
pub struct ModelRequest {
    request_id: String,
    method: String,
    path: String,
    headers: Map<String, Value>,
    #[serde(serialize_with = "shared")]
    body: Arc<Value>,
    /// The status it was answered with; none while, or if, it was not.
    pub status: Option<u16>,
}

/// Reading a request, and its place in the journal.
struct Received {
    open: Open<ModelRequest>,
    request_id: String,
    headers: HeaderMap,
    body: Result<Arc<Value>, Refusal>,
}

impl Received {
    fn new(
        sandbox: &Sandbox,
        (method, uri, headers): (Method, Uri, HeaderMap),
        body: Result<Bytes, BytesRejection>,
    ) -> Self {
        let request_id = new_id("req_");
        let body = body.map_err(|rejection| match rejection.status() {
            StatusCode::PAYLOAD_TOO_LARGE => {
                Refusal::new(413, "request_too_large", "Request exceeds the maximum size")
            }
            _ => Refusal::invalid("The request body could not be read"),
        });
        // What is no JSON is journaled as the text it is, and refused, for a question is an object.
        let body = body.map(|bytes| Arc::new(read(&bytes)));
        let shown = body.as_ref().map_or_else(|_refusal| Arc::default(), Arc::clone);
        let open = sandbox.model.open(ModelRequest {
            request_id: request_id.clone(),
            method: method.to_string(),
            path: uri.path().to_owned(),
            headers: shown_headers(&headers),
            body: shown,
            status: None,
        });
        Self { open, request_id, headers, body }
    }

    fn refuse(mut self, refusal: Refusal) -> Response {
        let status = refusal.status();
        self.open.settle(Outcome::Failed, |request| request.status = Some(status));
        refusal.into_response(&self.request_id)
    }

    fn answer(mut self, body: Value) -> Response {
        self.open.settle(Outcome::Answered, |request| request.status = Some(200));
        with_id(Json(body).into_response(), &self.request_id)
    }
}

/// `POST /v1/messages`
pub async fn create(
    State(sandbox): State<Arc<Sandbox>>,
    ConnectInfo(wire): ConnectInfo<Wire>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Response {
    let mut received = Received::new(&sandbox, (method, uri, headers), body);
    let body = std::mem::replace(&mut received.body, Ok(Arc::default()));
    let asked = match body.and_then(|body| request::check(&received.headers, body, false)) {
        Ok(asked) => asked,
        Err(refusal) => return received.refuse(refusal),
    };
    let mut strike = sandbox.faults.strike_model(&reply::last_user_text(&asked.body));
    if let Some(delay) = strike.fault.delay_ms {
        sleep(Duration::from_millis(delay)).await;
    }
    if strike.fault.hold {
        hold(&received.open, &mut strike).await;
    }
    let ModelFault { error_type, error_code, retry_after_seconds, .. } = strike.fault.clone();
    if let Some(status) = strike.fault.status {
        let refusal = Refusal::scripted(status, error_type, error_code, retry_after_seconds);
        return received.refuse(refusal);
    }
    let message = message(&asked, &reply::answer(&asked, strike.fault.stop_reason.as_deref()));
    if asked.stream {
        let Received { open, request_id, .. } = received;
        let body = stream::body(message, strike, open, request_id.clone());
        let headers = [("content-type", "text/event-stream; charset=utf-8")];
        let quiet = [("cache-control", "no-cache")];
        return with_id((headers, quiet, body).into_response(), &request_id);
    }
    whole(received, message, strike, &wire).await
}

/// Sends an answer in one piece; what would break a stream breaks the whole answer.
async fn whole(
    mut received: Received,
    message: Value,
    mut strike: Strike<ModelFault>,
    wire: &Wire,
) -> Response {
    let fault = strike.fault.clone();
    if fault.hold_after_events.is_some() {
        hold(&received.open, &mut strike).await;
    }
    if fault.silent_after_events.is_some() {
        std::future::pending::<()>().await;
    }
    if fault.cut_after_events.or(fault.end_after_events).is_some() {
        received.open.settle(Outcome::Failed, |_| ());
        return wire.cut().await;
    }
    if fault.error_after_events.is_some() {
        let refusal = Refusal::scripted(529, fault.error_type, fault.error_code, None);
        return received.refuse(refusal);
    }
    received.answer(message)
}

/// Waits for the faults to change; the journal shows the request as held meanwhile.
pub async fn hold(open: &Open<ModelRequest>, strike: &mut Strike<ModelFault>) {
    open.note(Outcome::Held);
    strike.released().await;
    open.note(Outcome::Pending);
}

/// `POST /v1/messages/count_tokens`
pub async fn count_tokens(
    State(sandbox): State<Arc<Sandbox>>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Response {
    let mut received = Received::new(&sandbox, (method, uri, headers), body);
    let body = std::mem::replace(&mut received.body, Ok(Arc::default()));
    match body.and_then(|body| request::check(&received.headers, body, true)) {
        Ok(asked) => received.answer(json!({"input_tokens": reply::prompt_tokens(&asked.body)})),
        Err(refusal) => received.refuse(refusal),
    }
}

/// `GET /v1/models`
pub async fn list_models(
    State(sandbox): State<Arc<Sandbox>>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    Query(page): Query<Map<String, Value>>,
) -> Response {
    let received = Received::new(&sandbox, (method, uri, headers), Ok(Bytes::new()));
    if let Err(refusal) = request::check_headers(&received.headers) {
        return received.refuse(refusal);
    }
    match page_of_models(&page) {
        Ok(page) => received.answer(page),
        Err(refusal) => received.refuse(refusal),
    }
}

fn page_of_models(page: &Map<String, Value>) -> Result<Value, Refusal> {
    let text = |name: &str| page.get(name).and_then(Value::as_str);
    let limit = text("limit").map_or(Ok(20), str::parse::<usize>);
    let Ok(limit @ 1..=1000) = limit else {
        return Err(Refusal::invalid("limit: Input should be between 1 and 1000"));
    };
    let shown = MODELS.iter().map(super::catalog::Model::shown);
    let fits = |model: &Value| text("lifecycle").is_none_or(|wanted| model["lifecycle"] == wanted);
    let mut models: Vec<Value> = shown.filter(fits).collect();
    let place = |id: &str| {
        let found = models.iter().position(|model| model["id"] == id);
        found.ok_or_else(|| Refusal::invalid(format!("no model has the id {id}")))
    };
    let end = text("before_id").map_or(Ok(models.len()), place)?;
    let start = text("after_id").map_or(Ok(0), |id| Ok(place(id)? + 1))?;
    models.truncate(end);
    models.drain(..start.min(end));
    let has_more = models.len() > limit;
    if text("before_id").is_some() {
        models.drain(..models.len().saturating_sub(limit));
    }
    models.truncate(limit);
    let id = |model: Option<&Value>| model.map(|model| model["id"].clone());
    Ok(json!({
        "first_id": id(models.first()), "last_id": id(models.last()),
        "data": models, "has_more": has_more,
    }))
}

/// `GET /v1/models/{id}`
pub async fn get_model(
    State(sandbox): State<Arc<Sandbox>>,
    Path(id): Path<String>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
) -> Response {
    let received = Received::new(&sandbox, (method, uri, headers), Ok(Bytes::new()));
    let model = request::check_headers(&received.headers)
        .and_then(|_| find_model(&id).ok_or_else(|| Refusal::not_found(format!("model: {id}"))));
    match model {
        Ok(model) => received.answer(model.shown()),
        Err(refusal) => received.refuse(refusal),
    }
}

/// `GET /_sandbox/model/requests`
pub async fn journal(State(sandbox): State<Arc<Sandbox>>, Query(look): Query<Look>) -> Json<Value> {
    let found = sandbox.model.look(&look, |entry| {
        let request = &entry.what;
        look.outcome.is_none_or(|outcome| entry.outcome == outcome)
            && look.path.as_ref().is_none_or(|path| request.path == *path)
            && look
                .matching
                .as_ref()
                .is_none_or(|text| reply::last_user_text(&request.body).contains(text.as_str()))
    });
    Json(json!({"requests": found.await}))
}

/// `DELETE /_sandbox/model/requests`
pub async fn forget(State(sandbox): State<Arc<Sandbox>>) -> StatusCode {
    sandbox.model.forget();
    StatusCode::NO_CONTENT
}

fn message(asked: &Asked, answer: &Answer) -> Value {
    let refused = json!({"type": "refusal", "category": null, "explanation": null});
    let geography = asked.body["inference_geo"].as_str().unwrap_or("global");
    let mut usage = json!({
        "input_tokens": answer.input_tokens,
        "output_tokens": answer.output_tokens,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 0,
        "cache_creation": {"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 0},
        "output_tokens_details": {"thinking_tokens": 0},
        "server_tool_use": null,
        "service_tier": "standard",
        "inference_geo": geography,
        "speed": asked.body["speed"].as_str().unwrap_or("standard"),
    });
    if answer.searches > 0 {
        usage["server_tool_use"] =
            json!({"web_search_requests": answer.searches, "web_fetch_requests": 0});
    }
    json!({
        "id": new_id("msg_"),
        "type": "message",
        "role": "assistant",
        "model": asked.model.id,
        "content": answer.content,
        "stop_details": if answer.stop_reason == "refusal" { refused } else { Value::Null },
        "stop_reason": answer.stop_reason,
        "stop_sequence": answer.stop_sequence,
        "container": null,
        "diagnostics": null,
        "usage": usage,
    })
}

fn read(bytes: &Bytes) -> Value {
    if bytes.is_empty() {
        return Value::Null;
    }
    let text = || String::from_utf8_lossy(bytes).into_owned().into();
    serde_json::from_slice(bytes).unwrap_or_else(|_error| text())
}

fn shared<S: Serializer>(body: &Arc<Value>, serializer: S) -> Result<S::Ok, S::Error> {
    body.serialize(serializer)
}

fn shown_headers(headers: &HeaderMap) -> Map<String, Value> {
    let shown = |name: &str, value: &HeaderValue| {
        let value = String::from_utf8_lossy(value.as_bytes()).into_owned();
        match name {
            "authorization" if value.starts_with("Bearer ") => "Bearer ***".to_owned(),
            "x-api-key" | "authorization" => "***".to_owned(),
            _ => value,
        }
    };
    headers
        .iter()
        .map(|(name, value)| (name.to_string(), shown(name.as_str(), value).into()))
        .collect()
}

fn with_id(mut response: Response, request_id: &str) -> Response {
    request::mark(&mut response, request_id);
    response
}
