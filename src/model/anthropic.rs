//! The provider's API over HTTP: builds the request, sends it, and reads the stream of its answer.
//!
//! In comes a [`Call`], out comes a [`Reply`]; it is one POST, and it always streams.
//! Two clocks run: one for the whole answer, one for each time it stands still; a ping stops neither.
//! Dropping the future closes the connection's stream at once, for nothing runs beside it.

use std::error::Error;
use std::future::Future;
use std::time::Duration;

use reqwest::header::{CONTENT_TYPE, HeaderValue};
use reqwest::{Method, Request, Response, StatusCode};
use serde::{Deserialize, Serialize, Serializer};
use serde_json::value::RawValue;
use tokio::time::{Instant, timeout, timeout_at};

use super::error::{ModelError, text_header};
use super::reply::without_nul;
use super::sse::SseDecoder;
use super::stream::{Accumulator, Heard};
use super::{Call, Model, Partial, Reply, Role, WebSearch};
use crate::domain::submission::{Effort, UserLocation};

/// An error's body is a few hundred bytes; a page of HTML from a proxy can be any size.
const LONGEST_ERROR_BYTES: usize = 64 * 1024;
/// The end of a stream follows its last event closely, at the latest when a slow acknowledgement lets it go.
const LONGEST_END: Duration = Duration::from_millis(100);

/// How the provider advises to go on with an answer that was cut off: newer models refuse to be given its beginning.
const GO_ON: &str = "Your previous response was cut off. Continue exactly where it ended. \
                     Do not repeat any of it, and do not comment on the interruption.";

/// A request in the provider's words.
#[derive(Serialize)]
pub(super) struct Body<'c> {
    model: &'c str,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_tokens: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stream: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    system: Option<&'c str>,
    messages: Vec<Message<'c>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tools: Option<[WebSearchTool<'c>; 1]>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    stop_sequences: &'c [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    output_config: Option<OutputConfig<'c>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_control: Option<CacheControl>,
    #[serde(flatten)]
    extra: Extra<'c>,
}

/// Fields as they were sent, in their order.
struct Extra<'c>(&'c [(String, Box<RawValue>)]);

impl Serialize for Extra<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_map(self.0.iter().map(|(name, value)| (name, value)))
    }
}

#[derive(Serialize)]
struct OutputConfig<'c> {
    #[serde(skip_serializing_if = "Option::is_none")]
    effort: Option<Effort>,
    #[serde(skip_serializing_if = "Option::is_none")]
    format: Option<OutputFormat<'c>>,
}

#[derive(Serialize)]
struct OutputFormat<'c> {
    #[serde(rename = "type")]
    kind: &'static str,
    schema: &'c RawValue,
}

/// At the top of a request: the provider finds the prefix that is worth keeping.
#[derive(Serialize)]
struct CacheControl {
    #[serde(rename = "type")]
    kind: &'static str,
}

#[derive(Serialize)]
struct Message<'c> {
    role: Role,
    content: Content<'c>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Content<'c> {
    Text(&'c str),
    Blocks(&'c RawValue),
}

#[derive(Serialize)]
struct WebSearchTool<'c> {
    #[serde(rename = "type")]
    kind: &'c str,
    name: &'static str,
    max_uses: u32,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    allowed_domains: &'c [String],
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    blocked_domains: &'c [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    user_location: Option<Location<'c>>,
}

#[derive(Serialize)]
struct Location<'c> {
    #[serde(rename = "type")]
    kind: &'static str,
    #[serde(flatten)]
    place: &'c UserLocation,
}

impl Model {
    /// Sends one request and waits for the whole answer; what comes of it meanwhile is shown in `partial`.
    ///
    /// It never retries and never continues: `pause_turn` is a reply that [`Call::then`] goes on from.
    /// If the process dies in the middle, the provider may still bill the request.
    pub async fn ask(&self, call: &Call, partial: &Partial) -> Result<Reply, ModelError> {
        if !self.is_configured() {
            return Err(ModelError::unconfigured());
        }
        let body = Body::new(call, self.web_search_tool(&call.model));
        let body = serde_json::to_vec(&body).expect("texts and raw JSON always serialise");
        let request = self.post(&self.inner.url, body);
        let mut patience = Patience::new(call);
        let sent = patience.wait(self.inner.pool.send(request)).await?;
        // It keeps its place in the connection for as long as it is read.
        let mut answer = sent.map_err(|error| {
            ModelError::transport("the model provider could not be reached", error)
        })?;
        let response = &mut answer.response;
        let request_id = text_header(response.headers(), "request-id").map(without_nul);
        partial.update(|seen| seen.request_id.clone_from(&request_id));
        if !is_event_stream(response) {
            return Err(refusal(response, &patience).await);
        }
        let mut accumulator = Accumulator::new(partial.clone(), request_id);
        match listen(response, &mut accumulator, &mut patience).await {
            // The answer is paid for and whole: how its stream ended does not matter any more.
            Err(error) if !accumulator.is_complete() => Err(accumulator.explained(error)),
            Err(_) | Ok(()) => accumulator.finish(),
        }
    }
}

/// Counting is free and quick; a call does not wait long for it.
const LONGEST_COUNT: Duration = Duration::from_secs(10);

#[derive(Deserialize)]
struct Counted {
    input_tokens: i64,
}

impl Model {
    /// A request that sends JSON.
    pub(super) fn post(&self, url: &reqwest::Url, body: Vec<u8>) -> Request {
        let mut request = self.signed(Method::POST, url.clone());
        let json = HeaderValue::from_static("application/json");
        request.headers_mut().insert(CONTENT_TYPE, json);
        *request.body_mut() = Some(body.into());
        request
    }

    /// A request that says who asks, and in which version of the API.
    pub(super) fn signed(&self, method: Method, url: reqwest::Url) -> Request {
        let mut request = Request::new(method, url);
        let headers = request.headers_mut();
        if let Some(key) = &self.inner.api_key {
            headers.insert("x-api-key", key.clone());
        }
        headers.insert("anthropic-version", self.inner.version.clone());
        request
    }

    /// How many tokens the prompt of a call has, or at the most.
    pub(super) async fn count_tokens(&self, call: &Call) -> i64 {
        let body =
            Body::new(call, self.web_search_tool(&call.model)).without_what_an_answer_needs();
        let body = serde_json::to_vec(&body).expect("texts and raw JSON always serialise");
        let most = i64::try_from(body.len()).unwrap_or(i64::MAX);
        if !self.is_configured() {
            return most;
        }
        let request = self.post(&self.inner.count_url, body);
        match self.inner.pool.fetch::<Counted>(request, LONGEST_COUNT).await {
            Ok(counted) => counted.input_tokens.max(0),
            Err(error) => {
                tracing::debug!(
                    error = &error.without_url() as &dyn Error,
                    "could not count tokens"
                );
                most
            }
        }
    }
}

impl<'c> Body<'c> {
    /// Without what the provider takes in no batch.
    pub(super) fn in_a_batch(self) -> Self {
        Self { stream: None, ..self }
    }

    /// Without what only an answer needs.
    fn without_what_an_answer_needs(self) -> Self {
        Self { max_tokens: None, stream: None, stop_sequences: &[], ..self }
    }

    pub(super) fn new(call: &'c Call, web_search_tool: &'c str) -> Self {
        let turns = call
            .turns
            .iter()
            .map(|turn| Message { role: turn.role, content: Content::Text(&turn.text) });
        let begun = call.begun.iter().flat_map(|begun| {
            [
                Message { role: Role::Assistant, content: Content::Text(begun) },
                Message { role: Role::User, content: Content::Text(GO_ON) },
            ]
        });
        let paused = call
            .paused_contents
            .iter()
            .map(|blocks| Message { role: Role::Assistant, content: Content::Blocks(blocks) });
        let format = call
            .output_schema
            .as_deref()
            .map(|schema| OutputFormat { kind: "json_schema", schema });
        let has_output_config = call.effort.is_some() || format.is_some();
        let says_how_to_cache = call.extra.iter().any(|(name, _)| name == "cache_control");
        Self {
            model: &call.model,
            max_tokens: Some(call.max_tokens),
            stream: Some(true),
            system: call.system.as_deref().filter(|system| !system.is_empty()),
            messages: turns.chain(begun).chain(paused).collect(),
            tools: call
                .web_search
                .as_ref()
                .map(|search| [WebSearchTool::new(search, web_search_tool)]),
            stop_sequences: &call.stop_sequences,
            output_config: has_output_config
                .then_some(OutputConfig { effort: call.effort, format }),
            cache_control: (call.is_cached && !says_how_to_cache)
                .then_some(CacheControl { kind: "ephemeral" }),
            extra: Extra(&call.extra),
        }
    }
}

impl<'c> WebSearchTool<'c> {
    fn new(search: &'c WebSearch, kind: &'c str) -> Self {
        Self {
            kind,
            name: "web_search",
            max_uses: search.max_uses,
            allowed_domains: &search.allowed_domains,
            blocked_domains: &search.blocked_domains,
            user_location: search
                .user_location
                .as_ref()
                .map(|place| Location { kind: "approximate", place }),
        }
    }
}

/// How long one call may still take.
struct Patience {
    timeout: Duration,
    idle_timeout: Duration,
    ends_at: Option<Instant>,
    progress_at: Instant,
}

impl Patience {
    fn new(call: &Call) -> Self {
        let now = Instant::now();
        Self {
            timeout: call.timeout,
            idle_timeout: call.idle_timeout,
            ends_at: now.checked_add(call.timeout),
            progress_at: now,
        }
    }

    fn take_note_of_progress(&mut self) {
        self.progress_at = Instant::now();
    }

    async fn wait<F: Future>(&self, work: F) -> Result<F::Output, ModelError> {
        let idle_at = self.progress_at.checked_add(self.idle_timeout);
        // A time that cannot be counted never comes.
        let Some(until) = [self.ends_at, idle_at].into_iter().flatten().min() else {
            return Ok(work.await);
        };
        timeout_at(until, work).await.map_err(|_elapsed| {
            ModelError::unavailable(&if Some(until) == self.ends_at {
                format!("the answer was not whole after {:?}", self.timeout)
            } else {
                format!("the answer stood still for {:?}", self.idle_timeout)
            })
        })
    }
}

fn is_event_stream(response: &Response) -> bool {
    response.status() == StatusCode::OK
        && text_header(response.headers(), CONTENT_TYPE.as_str()).is_some_and(|kind| {
            kind.trim_start().to_ascii_lowercase().starts_with("text/event-stream")
        })
}

/// Reads why there is no stream; a body that breaks off leaves the status and the headers to judge by.
async fn refusal(response: &mut Response, patience: &Patience) -> ModelError {
    let mut body = Vec::new();
    while body.len() < LONGEST_ERROR_BYTES {
        match patience.wait(response.chunk()).await {
            Ok(Ok(Some(chunk))) => body.extend_from_slice(&chunk),
            Ok(Ok(None) | Err(_)) | Err(_) => break,
        }
    }
    ModelError::refused(response.status(), response.headers(), &body)
}

async fn listen(
    response: &mut Response,
    accumulator: &mut Accumulator,
    patience: &mut Patience,
) -> Result<(), ModelError> {
    let mut decoder = SseDecoder::default();
    loop {
        let chunk = patience.wait(response.chunk()).await?.map_err(|error| {
            ModelError::transport("the connection to the model provider broke off", error)
        })?;
        let Some(chunk) = chunk else { return Ok(()) };
        decoder.push(&chunk).map_err(|_too_long| {
            ModelError::unavailable("the model provider sent more than an answer can hold")
        })?;
        while let Some(event) = decoder.take() {
            match accumulator.hear(event)? {
                Heard::Nothing => {}
                Heard::Progress => patience.take_note_of_progress(),
                Heard::End => {
                    read_to_the_end(response).await;
                    return Ok(());
                }
            }
        }
    }
}

/// Only a connection whose answer was read to its end can carry another call.
async fn read_to_the_end(response: &mut Response) {
    let end = async { while let Ok(Some(_)) = response.chunk().await {} };
    // Whether it comes or not: the answer is whole.
    let _ = timeout(LONGEST_END, end).await;
}
