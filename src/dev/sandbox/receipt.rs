//! What happens to every request to the Messages API, whatever it asks for.
//! In come its parts; out go its place in the journal, the fault that strikes it, and its answer.
//! Every request is journaled before anything else happens to it, refused ones too.
//! Faults strike only what would have been answered, so a wrong request never uses one up.

use std::{convert::Infallible, sync::Arc, time::Duration};

use axum::{
    Json,
    body::Bytes,
    extract::{ConnectInfo, FromRequestParts, Query, State, rejection::BytesRejection},
    http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, request::Parts},
    response::{IntoResponse as _, Response},
};
use serde::{Serialize, Serializer};
use serde_json::{Map, Value, json};
use tokio::time::sleep;

use super::{
    Sandbox,
    fault::{Door, Headers, ModelFault, Strike},
    journal::{Look, Open, Outcome},
    new_id,
    refusal::{Refusal, mark},
    reply, request,
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

/// A request without its body, and the connection it came by.
pub struct Arrival {
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    wire: Wire,
}

/// Reading a request, and its place in the journal.
pub struct Received {
    /// The headers it came with.
    pub headers: HeaderMap,
    sandbox: Arc<Sandbox>,
    open: Open<ModelRequest>,
    request_id: String,
    body: Result<Arc<Value>, Refusal>,
    wire: Wire,
    reply_headers: Headers,
}

impl<S: Send + Sync> FromRequestParts<S> for Arrival {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        let wire = parts.extensions.get::<ConnectInfo<Wire>>();
        Ok(Self {
            method: parts.method.clone(),
            uri: parts.uri.clone(),
            headers: parts.headers.clone(),
            wire: wire.expect("every connection of the sandbox is a wire").0.clone(),
        })
    }
}

impl Received {
    /// Journals a request whose body matters.
    pub fn new(
        sandbox: &Arc<Sandbox>,
        arrival: Arrival,
        body: Result<Bytes, BytesRejection>,
    ) -> Self {
        let Arrival { method, uri, headers, wire } = arrival;
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
        let sandbox = Arc::clone(sandbox);
        Self { headers, sandbox, open, request_id, body, wire, reply_headers: Vec::new() }
    }

    /// Journals a request without a body.
    pub fn bare(sandbox: &Arc<Sandbox>, arrival: Arrival) -> Self {
        Self::new(sandbox, arrival, Ok(Bytes::new()))
    }

    /// The body, which is handed out once.
    pub fn body(&mut self) -> Result<Arc<Value>, Refusal> {
        std::mem::replace(&mut self.body, Ok(Arc::default()))
    }

    /// Lets a request without a body in, as far as its headers and the faults allow.
    pub async fn enter(&mut self, door: Door, text: &str) -> Result<Strike<ModelFault>, Refusal> {
        request::check_headers(&self.headers)?;
        self.endure(door, text).await
    }

    /// Finds the fault that strikes a request about this text, and waits or fails as it says.
    pub async fn endure(&mut self, door: Door, text: &str) -> Result<Strike<ModelFault>, Refusal> {
        let now = self.sandbox.settings.time();
        let mut strike = self.sandbox.faults.strike_model(door, text, now);
        if let Some(delay) = strike.fault.delay_ms {
            sleep(Duration::from_millis(delay)).await;
        }
        if strike.fault.hold {
            hold(&self.open, &mut strike).await;
        }
        self.reply_headers.append(&mut strike.headers);
        self.reply_headers.extend(strike.fault.reply_headers(self.sandbox.settings.time()));
        strike.fault.refusal().map_or(Ok(strike), Err)
    }

    /// Answers with an error.
    pub fn refuse(mut self, refusal: Refusal) -> Response {
        let status = refusal.status();
        self.open.settle(Outcome::Failed, |request| request.status = Some(status));
        let response = refusal.into_response(&self.request_id);
        self.marked(response)
    }

    /// Answers with what was found or done, unless the answer is to be lost.
    pub async fn finish(
        self,
        answer: Result<Value, Refusal>,
        strike: &Strike<ModelFault>,
    ) -> Response {
        match answer {
            Err(refusal) => self.refuse(refusal),
            Ok(_) if strike.fault.lose_reply => self.lose().await,
            Ok(body) => self.answer(Json(body).into_response()),
        }
    }

    /// Answers well; the journal has it as answered.
    pub fn answer(mut self, response: Response) -> Response {
        self.open.settle(Outcome::Answered, |request| request.status = Some(200));
        self.marked(response)
    }

    /// Cuts the connection instead of answering.
    pub async fn lose(mut self) -> Response {
        self.open.settle(Outcome::Failed, |_| ());
        self.wire.cut().await
    }

    /// Waits for the faults to change.
    pub async fn hold(&self, strike: &mut Strike<ModelFault>) {
        hold(&self.open, strike).await;
    }

    /// The id of the request, the headers of its answer, and what is to be told the journal.
    pub fn into_parts(self) -> (String, Headers, Open<ModelRequest>) {
        (self.request_id, self.reply_headers, self.open)
    }

    fn marked(&self, mut response: Response) -> Response {
        mark(&mut response, "request-id", &self.request_id);
        for (name, value) in &self.reply_headers {
            mark(&mut response, name, value);
        }
        response
    }
}

/// Waits for the faults to change; the journal shows the request as held meanwhile.
pub async fn hold(open: &Open<ModelRequest>, strike: &mut Strike<ModelFault>) {
    open.note(Outcome::Held);
    strike.released().await;
    open.note(Outcome::Pending);
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
                .is_none_or(|text| reply::text_asked(&request.body).contains(text.as_str()))
    });
    Json(json!({"requests": found.await}))
}

/// `DELETE /_sandbox/model/requests`
pub async fn forget(State(sandbox): State<Arc<Sandbox>>) -> StatusCode {
    sandbox.model.forget();
    StatusCode::NO_CONTENT
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
