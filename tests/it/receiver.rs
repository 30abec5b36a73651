//! A receiver of what servers tell endpoints: it keeps what came, answers as told, and checks signatures by itself.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{Request, State};
use axum::response::{IntoResponse as _, Response};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use hmac::{Hmac, KeyInit as _, Mac as _};
use http::{HeaderMap, StatusCode};
use serde_json::Value;
use sha2::Sha256;
use tokio::sync::Notify;

use crate::harness::PATIENCE;
use crate::program::Folder;

/// Two secrets for signatures.
pub const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
pub const OLD_SECRET: &str = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYX";

/// A request that came.
#[derive(Clone, Debug)]
pub struct Heard {
    /// Where to.
    pub path: String,
    pub headers: HeaderMap,
    pub body: Bytes,
}

/// How to answer a request.
#[derive(Clone, Debug)]
pub enum Answer {
    Status(u16),
    /// A status with a header.
    With(u16, &'static str, &'static str),
    /// 200 with this body.
    Body(&'static str),
    /// Not at all.
    Silence,
}

#[derive(Default)]
struct Kept {
    heard: Mutex<Vec<Heard>>,
    answers: Mutex<VecDeque<Answer>>,
    came: Notify,
}

/// A server on a free port that everything is told.
pub struct Receiver {
    /// Its address.
    pub url: String,
    kept: Arc<Kept>,
}

impl Receiver {
    pub async fn start() -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let kept = Arc::<Kept>::default();
        let router = Router::new().fallback(hear).with_state(Arc::clone(&kept));
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self { url, kept }
    }

    /// Answers the next requests so, and those after them with 200.
    pub fn answer(&self, answers: impl IntoIterator<Item = Answer>) {
        self.kept.answers.lock().unwrap().extend(answers);
    }

    /// Waits until so many requests have come, and answers all that have.
    pub async fn heard(&self, count: usize) -> Vec<Heard> {
        let look = async {
            loop {
                let mut came = std::pin::pin!(self.kept.came.notified());
                came.as_mut().enable();
                let heard = self.so_far();
                if heard.len() >= count {
                    return heard;
                }
                came.await;
            }
        };
        let found = tokio::time::timeout(PATIENCE, look).await;
        found.unwrap_or_else(|_| panic!("{} of {count} requests came", self.so_far().len()))
    }

    /// What has come until now.
    pub fn so_far(&self) -> Vec<Heard> {
        self.kept.heard.lock().unwrap().clone()
    }
}

async fn hear(State(kept): State<Arc<Kept>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let body = axum::body::to_bytes(body, 1 << 20).await.unwrap();
    let path = parts.uri.path().to_owned();
    kept.heard.lock().unwrap().push(Heard { path, headers: parts.headers, body });
    kept.came.notify_waiters();
    let answer = kept.answers.lock().unwrap().pop_front();
    let status = |code: u16| StatusCode::from_u16(code).unwrap();
    match answer {
        None => StatusCode::OK.into_response(),
        Some(Answer::Status(code)) => status(code).into_response(),
        Some(Answer::With(code, name, value)) => (status(code), [(name, value)]).into_response(),
        Some(Answer::Body(body)) => body.into_response(),
        Some(Answer::Silence) => {
            tokio::time::sleep(Duration::from_mins(5)).await;
            StatusCode::OK.into_response()
        }
    }
}

impl Heard {
    /// The body as JSON.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).unwrap_or_else(|| panic!("no {name}")).to_str().unwrap()
    }

    /// Whether one of its signatures is that of this secret.
    pub fn is_signed_by(&self, secret: &str) -> bool {
        let key = STANDARD.decode(secret.strip_prefix("whsec_").unwrap()).unwrap();
        let (id, timestamp) = (self.header("webhook-id"), self.header("webhook-timestamp"));
        let mut code = Hmac::<Sha256>::new_from_slice(&key).unwrap();
        code.update(format!("{id}.{timestamp}.").as_bytes());
        code.update(&self.body);
        let expected = format!("v1,{}", STANDARD.encode(code.finalize().into_bytes()));
        self.header("webhook-signature").split(' ').any(|signature| signature == expected)
    }

    /// The type of the event and the job it is about.
    pub fn about(&self) -> (String, String) {
        let body = self.json();
        let word = |value: &Value| value.as_str().unwrap().to_owned();
        (word(&body["type"]), word(&body["data"]["job_id"]))
    }
}

/// An address book in a folder of its own.
pub struct Book {
    pub folder: Folder,
    path: String,
}

impl Book {
    pub fn new(text: &str) -> Self {
        let folder = Folder::make();
        let path = folder.0.join("book.toml");
        std::fs::write(&path, text).unwrap();
        let path = path.to_str().unwrap().to_owned();
        Self { folder, path }
    }

    /// The variable that names it.
    pub fn variable(&self) -> (&'static str, &str) {
        ("LONGHAUL_ADDRESS_BOOK", &self.path)
    }

    /// A file beside it.
    pub fn beside(folder: &Path, name: &str, text: &str) -> String {
        let path = folder.join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }
}
