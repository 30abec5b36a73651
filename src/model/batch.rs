//! Batches of questions: the provider answers them within a day, at half the price of tokens.
//!
//! In go questions under ids of ours, out comes the provider's id of the batch, and in the end a result for each.
//! The provider keeps no list of who sent what and knows no key that makes sending safe to repeat, so an order whose
//! answer was lost is told apart from one that was refused: only whoever has written down the intent can find out.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::time::Duration;

use chrono::{DateTime, Utc};
use reqwest::header::HeaderMap;
use reqwest::{Method, Response, StatusCode};
use serde::Deserialize;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};
use tokio::time::timeout;

use super::anthropic::Body;
use super::error::ModelError;
use super::pool::Answer;
use super::stream::Accumulator;
use super::usage::UsageReport;
use super::{Call, Model, Reply};
use crate::domain::id::CallId;
use crate::domain::job::Reason;
use crate::domain::money::ServiceTier;

/// An order of many megabytes takes its time.
const LONGEST_ORDER: Duration = Duration::from_mins(2);
/// A look at a batch, or at the list of them.
const LONGEST_LOOK: Duration = Duration::from_secs(30);
/// How long the results of a batch may stand still.
const LONGEST_SILENCE: Duration = Duration::from_mins(1);
/// A result holds a whole answer with all it has found.
const LONGEST_RESULT_BYTES: usize = 64 * 1024 * 1024;

/// A batch as the provider shows it.
#[derive(Clone, Debug, Deserialize)]
pub struct ProviderBatch {
    /// The provider's id.
    pub id: String,
    /// When it was made, by the provider's clock.
    pub created_at: DateTime<Utc>,
    /// How far it is.
    processing_status: String,
}

impl ProviderBatch {
    /// Whether there will be no more results than there are.
    pub fn has_ended(&self) -> bool {
        self.processing_status == "ended"
    }
}

/// What became of one question.
#[derive(Debug, Deserialize)]
pub struct BatchResult {
    /// The question, in our words.
    pub custom_id: String,
    /// What became of it, as the provider says it.
    pub result: Box<RawValue>,
}

impl BatchResult {
    /// The result of a question in an order that was refused as a whole, in our own word.
    pub fn refused(error: &ModelError) -> Box<RawValue> {
        raw(&json!({"type": "refused", "message": error.message}))
    }

    /// The result of a question that the provider has none for, in our own word.
    pub fn missing() -> Box<RawValue> {
        raw(&json!({"type": "missing"}))
    }

    /// Whether a result is that.
    pub fn is_missing(result: &RawValue) -> bool {
        serde_json::from_str(result.get()).is_ok_and(|outcome: Outcome| outcome.kind == "missing")
    }
}

/// Why no batch is known to have been made.
#[derive(Debug)]
pub enum NotOrdered {
    /// None was.
    Refused {
        /// Why.
        error: ModelError,
        /// Whether that may be the fault of one of its questions.
        is_about_a_question: bool,
    },
    /// One may have been: the answer did not come.
    Unsure(ModelError),
}

#[derive(Deserialize)]
struct Page {
    data: Vec<ProviderBatch>,
    #[serde(default)]
    has_more: bool,
    last_id: Option<String>,
}

#[derive(Default, Deserialize)]
struct Outcome {
    #[serde(rename = "type")]
    kind: String,
    message: Option<Box<RawValue>>,
    error: Option<Box<RawValue>>,
}

#[derive(Deserialize)]
struct Served {
    model: String,
    usage: UsageReport,
}

/// The results of a batch, read one by one.
pub struct Results<'m> {
    /// Keeps its place in the connection for as long as it is read.
    answer: Answer<'m>,
    /// What has come and is not read yet; the last of it may be half a line.
    pending: VecDeque<u8>,
    /// So much of it is known to have no end of a line.
    searched: usize,
    is_over: bool,
}

impl Model {
    /// A question in the form in which it goes into a batch.
    pub fn batched(&self, call: &Call) -> String {
        let body = Body::new(call, self.web_search_tool(&call.model)).in_a_batch();
        serde_json::to_string(&body).expect("texts and raw JSON always serialise")
    }

    /// Has a batch made of questions; answers with the provider's id of it.
    pub async fn order_batch(&self, questions: &[(CallId, String)]) -> Result<String, NotOrdered> {
        let size: usize = questions.iter().map(|(_, params)| params.len() + 80).sum();
        let mut body = String::with_capacity(size + 20);
        body.push_str("{\"requests\":[");
        for (number, (call_id, params)) in questions.iter().enumerate() {
            if number > 0 {
                body.push(',');
            }
            // Both are JSON already, and an id has nothing to escape.
            write!(body, "{{\"custom_id\":\"{call_id}\",\"params\":{params}}}")
                .expect("a String takes every write");
        }
        body.push_str("]}");
        let mut request = self.post(&self.inner.batches_url, body.into_bytes());
        *request.timeout_mut() = Some(LONGEST_ORDER);
        let made = match self.inner.pool.send(request).await {
            Ok(answer) => read::<ProviderBatch>(answer.response).await,
            // Nothing has left.
            Err(error) if error.is_connect() || error.is_builder() => {
                return Err(NotOrdered::Refused {
                    error: unreachable(error),
                    is_about_a_question: false,
                });
            }
            Err(error) => Err((None, unreachable(error))),
        };
        made.map(|batch| batch.id).map_err(|(status, error)| match status {
            // What is too much is refused; any other fault of the provider's own may have come after the deed.
            Some(status) if status.is_client_error() || status.as_u16() == 529 => {
                let is_about_a_question = matches!(status.as_u16(), 400 | 413 | 422);
                NotOrdered::Refused { error, is_about_a_question }
            }
            Some(_) | None => NotOrdered::Unsure(error),
        })
    }

    /// A batch as it is now; none if the provider does not know it, or not yet.
    pub async fn find_batch(&self, id: &str) -> Result<Option<ProviderBatch>, ModelError> {
        let found = self.look(Method::GET, self.batch_url(&[id])).await;
        match found {
            Err((Some(StatusCode::NOT_FOUND), _)) => Ok(None),
            found => found.map(Some).map_err(|(_, error)| error),
        }
    }

    /// Has the provider stop working on a batch; what is done by then stays done, and paid.
    pub async fn cancel_batch(&self, id: &str) -> Result<(), ModelError> {
        let url = self.batch_url(&[id, "cancel"]);
        let canceled = self.look::<ProviderBatch>(Method::POST, url).await;
        canceled.map(|_| ()).map_err(|(_, error)| error)
    }

    /// The batches that were made since then, newest first, whoever made them.
    pub async fn list_batches(
        &self,
        since: DateTime<Utc>,
    ) -> Result<Vec<ProviderBatch>, ModelError> {
        let mut batches = Vec::new();
        let mut after: Option<String> = None;
        loop {
            let mut url = self.inner.batches_url.clone();
            url.query_pairs_mut().append_pair("limit", "1000");
            if let Some(after) = &after {
                url.query_pairs_mut().append_pair("after_id", after);
            }
            let page: Page = self.look(Method::GET, url).await.map_err(|(_, error)| error)?;
            let is_last = !page.has_more || page.data.iter().any(|batch| batch.created_at < since);
            batches.extend(page.data.into_iter().filter(|batch| batch.created_at >= since));
            after = page.last_id.filter(|_| !is_last);
            if after.is_none() {
                return Ok(batches);
            }
        }
    }

    /// The results of a batch that has ended; none if the provider does not find them, or not yet.
    pub async fn batch_results(&self, id: &str) -> Result<Option<Results<'_>>, ModelError> {
        let request = self.signed(Method::GET, self.batch_url(&[id, "results"]));
        let sent = timeout(LONGEST_LOOK, self.inner.pool.send(request)).await;
        let answer = sent.map_err(|_elapsed| silent())?.map_err(unreachable)?;
        if answer.response.status().is_success() {
            return Ok(Some(Results::new(answer)));
        }
        match read::<serde::de::IgnoredAny>(answer.response).await {
            Err((Some(StatusCode::NOT_FOUND), _)) => Ok(None),
            Err((_, error)) => Err(error),
            Ok(_ignored) => Err(silent()),
        }
    }

    /// The answer that a result holds, or why it holds none.
    pub fn read_result(&self, result: &RawValue, batch_id: &str) -> Result<Reply, ModelError> {
        let request_id = Some(batch_id.to_owned()).filter(|id| !id.is_empty());
        let outcome: Outcome = serde_json::from_str(result.get()).unwrap_or_default();
        let error = match (outcome.kind.as_str(), outcome.message, outcome.error) {
            ("succeeded", Some(message), _) => {
                return Accumulator::read_whole(&message, request_id);
            }
            ("errored", _, Some(error)) => ModelError::in_a_batch(error.get()),
            ("refused", Some(message), _) => {
                let message: String = serde_json::from_str(message.get()).unwrap_or_default();
                ModelError::stopped(Reason::ProviderRejected, &message)
            }
            ("canceled", ..) => ModelError::unavailable("the batch was canceled"),
            ("expired", ..) => {
                ModelError::unavailable("the model provider did not get to it in a day")
            }
            _ => ModelError::unavailable("the batch has no result for it"),
        };
        Err(ModelError { request_id, ..error })
    }

    /// Which model a result is of, and how it was served, if it is an answer.
    pub fn served(&self, result: &RawValue) -> Option<(String, ServiceTier)> {
        let outcome: Outcome = serde_json::from_str(result.get()).ok()?;
        let served: Served = serde_json::from_str(outcome.message?.get()).ok()?;
        Some((served.model, served.usage.tier()))
    }

    async fn look<T: for<'de> Deserialize<'de>>(
        &self,
        method: Method,
        url: reqwest::Url,
    ) -> Result<T, (Option<StatusCode>, ModelError)> {
        let mut request = self.signed(method, url);
        *request.timeout_mut() = Some(LONGEST_LOOK);
        let sent = self.inner.pool.send(request).await;
        let answer = sent.map_err(|error| (None, unreachable(error)))?;
        read(answer.response).await
    }

    fn batch_url(&self, segments: &[&str]) -> reqwest::Url {
        let mut url = self.inner.batches_url.clone();
        if let Ok(mut path) = url.path_segments_mut() {
            path.extend(segments);
        }
        url
    }
}

impl<'m> Results<'m> {
    fn new(answer: Answer<'m>) -> Self {
        Self { answer, pending: VecDeque::new(), searched: 0, is_over: false }
    }

    /// The next result; none after the last.
    ///
    /// A line that cannot be read says of no question what became of it, and is passed over.
    pub async fn next(&mut self) -> Result<Option<BatchResult>, ModelError> {
        loop {
            while let Some(line) = self.take_line() {
                match serde_json::from_slice(&line) {
                    Ok(result) => return Ok(Some(result)),
                    Err(_) if line.iter().all(u8::is_ascii_whitespace) => {}
                    Err(error) => {
                        // Its words may hold a piece of the answer.
                        let column = error.column();
                        tracing::warn!(column, "a line of a batch's results cannot be read");
                    }
                }
            }
            if self.is_over {
                return Ok(None);
            }
            if self.pending.len() > LONGEST_RESULT_BYTES {
                let message = "the model provider sent more than an answer can hold";
                return Err(ModelError::unavailable(message));
            }
            let chunk = timeout(LONGEST_SILENCE, self.answer.response.chunk()).await;
            match chunk.map_err(|_elapsed| silent())?.map_err(unreachable)? {
                Some(chunk) => self.pending.extend(&chunk),
                None => self.is_over = true,
            }
        }
    }

    fn take_line(&mut self) -> Option<Vec<u8>> {
        let end = self.pending.iter().skip(self.searched).position(|byte| *byte == b'\n');
        let Some(end) = end.map(|end| end + self.searched) else {
            self.searched = self.pending.len();
            // The last line need not end like the others.
            let rest: Vec<u8> =
                if self.is_over { self.pending.drain(..).collect() } else { Vec::new() };
            return Some(rest).filter(|rest| !rest.is_empty());
        };
        self.searched = 0;
        Some(self.pending.drain(..=end).collect())
    }
}

/// What the provider answered, or with which status it did not.
async fn read<T: for<'de> Deserialize<'de>>(
    response: Response,
) -> Result<T, (Option<StatusCode>, ModelError)> {
    let (status, headers): (StatusCode, HeaderMap) =
        (response.status(), response.headers().clone());
    let body = response.bytes().await.map_err(|error| (None, unreachable(error)))?;
    if !status.is_success() {
        return Err((Some(status), ModelError::refused(status, &headers, &body)));
    }
    serde_json::from_slice(&body).map_err(|error| {
        let message = format!(
            "the model provider sent an answer that cannot be read at column {}",
            error.column()
        );
        (None, ModelError::unavailable(&message))
    })
}

fn raw(value: &Value) -> Box<RawValue> {
    to_raw_value(value).expect("a JSON value always serialises")
}

fn unreachable(error: reqwest::Error) -> ModelError {
    ModelError::transport("the model provider could not be reached", error)
}

fn silent() -> ModelError {
    ModelError::unavailable("the model provider does not answer")
}
