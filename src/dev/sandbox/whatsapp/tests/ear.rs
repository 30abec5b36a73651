//! A webhook that listens: it keeps what it is told, checks who signed it, and answers as it is told to.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::{
    Router,
    body::Bytes,
    extract::{Path, State},
    http::{HeaderMap, Method, StatusCode},
    routing::{any, post},
};
use serde_json::{Value, json};
use tokio::{net::TcpListener, sync::mpsc, time::timeout};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::Site;
use crate::notify::signature::is_signed;

const SECRET: &str = "the app's secret";

/// The webhook of one test, and a page that links lead to.
pub struct Ear {
    pub url: String,
    told: mpsc::UnboundedReceiver<Value>,
    answers: Arc<Mutex<VecDeque<u16>>>,
    looked: Arc<Mutex<Vec<String>>>,
    _stop: DropGuard,
}

#[derive(Clone)]
struct Shared {
    told: mpsc::UnboundedSender<Value>,
    answers: Arc<Mutex<VecDeque<u16>>>,
    looked: Arc<Mutex<Vec<String>>>,
}

impl Ear {
    /// Listens to this sandbox, whose statuses come at once from now on.
    pub async fn open(site: &Site) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (told, receiver) = mpsc::unbounded_channel();
        let (answers, looked) = (Arc::default(), Arc::default());
        let shared = Shared { told, answers: Arc::clone(&answers), looked: Arc::clone(&looked) };
        let router = Router::new()
            .route("/webhook/whatsapp", post(hear))
            .route("/approvals/{token}", any(look))
            .with_state(shared);
        let stop = CancellationToken::new();
        let stopped = stop.clone().cancelled_owned();
        tokio::spawn(axum::serve(listener, router).with_graceful_shutdown(stopped).into_future());
        let settings = json!({"webhook_url": format!("{url}/webhook/whatsapp"),
            "app_secret": SECRET, "status_ms": 0});
        assert_eq!(site.post("settings", &settings).await.0, 200);
        Self { url, told: receiver, answers, looked, _stop: stop.drop_guard() }
    }

    /// What the next posts are answered with; after them, 200.
    pub fn answer_with(&self, answers: &[u16]) {
        self.answers.lock().unwrap().extend(answers);
    }

    /// The value of the next change that is told, and its field.
    pub async fn next(&mut self) -> (String, Value) {
        let body = timeout(Duration::from_secs(20), self.told.recv()).await;
        let mut body = body.expect("something is told").unwrap();
        let change = body["entry"][0]["changes"][0].take();
        (change["field"].as_str().unwrap().to_owned(), change["value"].clone())
    }

    /// The next status.
    pub async fn status(&mut self) -> Value {
        let (field, value) = self.next().await;
        assert_eq!(field, "messages");
        value["statuses"][0].clone()
    }

    /// The next message of a person, and the block of contacts.
    pub async fn message(&mut self) -> (Value, Value) {
        let (field, value) = self.next().await;
        assert_eq!(field, "messages");
        (value["messages"][0].clone(), value["contacts"][0].clone())
    }

    /// Nothing is waiting that was told.
    pub fn is_silent(&mut self) -> bool {
        self.told.try_recv().is_err()
    }

    /// Who has looked at links so far: method, path and name.
    pub fn looks(&self) -> Vec<String> {
        self.looked.lock().unwrap().clone()
    }
}

async fn hear(State(shared): State<Shared>, headers: HeaderMap, body: Bytes) -> StatusCode {
    let signature = headers["x-hub-signature-256"].to_str().unwrap();
    assert!(is_signed(signature, &body, &[SECRET.into()]), "a body of somebody else");
    let text = std::str::from_utf8(&body).unwrap();
    assert!(text.is_ascii() && !text.replace("\\/", "").contains('/'), "{text}");
    let _ = shared.told.send(serde_json::from_slice(&body).unwrap());
    let answer = shared.answers.lock().unwrap().pop_front().unwrap_or(200);
    StatusCode::from_u16(answer).unwrap()
}

async fn look(
    State(shared): State<Shared>,
    method: Method,
    Path(token): Path<String>,
    headers: HeaderMap,
) -> &'static str {
    let agent = headers["user-agent"].to_str().unwrap();
    shared.looked.lock().unwrap().push(format!("{method} {token} {agent}"));
    "a page"
}
