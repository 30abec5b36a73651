//! A local stand-in for the two outside services: the Messages API and the `WhatsApp` Cloud API.
//! In come their real wire formats over HTTP; out go answers a production client cannot tell apart.
//! Beside them: journals of what was received, scripted faults, and a page that looks like a phone.
//! It is strict: what the real service would refuse is refused here, in the same words and shape.
//! All state lives in one struct, made by [`serve`]; nothing outlives it.

mod wire;

mod journal;

mod setting;

mod refusal;

mod fault;

mod receipt;

mod page;

mod catalog;

mod request;

mod turn;

mod cache;

mod prose;

mod schema;

mod reply;

mod message;

mod stream;

mod batch;

mod whatsapp;

mod number;

#[cfg(test)]
mod tests;

use std::{io, sync::Arc, time::Duration};

use axum::{
    Json, Router,
    extract::DefaultBodyLimit,
    http::{StatusCode, Uri},
    response::{IntoResponse as _, Redirect, Response},
    routing::{any, get, post},
};
use serde_json::json;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use self::{
    batch::Shelf,
    cache::Cache,
    fault::Faults,
    journal::{ENTRIES_MAX, Journal},
    receipt::ModelRequest,
    refusal::Refusal,
    setting::Settings,
    whatsapp::{GraphError, Whatsapp},
    wire::{Wire, WireListener},
};

/// The largest body the Messages API takes.
const BODY_LIMIT_BYTES: usize = 32 * 1024 * 1024;

/// Everything the sandbox knows, for as long as it serves.
struct Sandbox {
    settings: Settings,
    faults: Faults,
    cache: Cache,
    batches: Shelf,
    model: Arc<Journal<ModelRequest>>,
    whatsapp: Whatsapp,
    http: reqwest::Client,
    stop: CancellationToken,
}

/// Serves until `stop` is cancelled; connections that are open then are cut.
pub async fn serve(listener: TcpListener, stop: CancellationToken) -> io::Result<()> {
    serve_keeping(ENTRIES_MAX, listener, stop).await
}

/// The same, with journals that keep so many entries: for who judges a long run by all of them.
pub async fn serve_keeping(
    entries_max: usize,
    listener: TcpListener,
    stop: CancellationToken,
) -> io::Result<()> {
    let sandbox = Arc::new(Sandbox {
        settings: Settings::default(),
        faults: Faults::default(),
        cache: Cache::default(),
        batches: Shelf::default(),
        model: Arc::new(Journal::keeping(entries_max)),
        whatsapp: Whatsapp::keeping(entries_max),
        http: client().map_err(io::Error::other)?,
        stop: stop.clone(),
    });
    let doors = WireListener::new(listener, stop.clone());
    axum::serve(doors, router(sandbox).into_make_service_with_connect_info::<Wire>())
        .with_graceful_shutdown(stop.cancelled_owned())
        .await
}

/// The client that tells statuses, mostly to this machine, which no proxy is to stand between.
fn client() -> reqwest::Result<reqwest::Client> {
    // Once per process; that a server of this process has done it is no fault.
    let _already = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder().no_proxy().timeout(Duration::from_secs(20)).build()
}

fn router(sandbox: Arc<Sandbox>) -> Router {
    Router::new()
        .route("/v1/messages", post(message::create))
        .route("/v1/messages/count_tokens", post(message::count_tokens))
        .merge(batches())
        .route("/v1/models", get(catalog::list))
        .route("/v1/models/{id}", get(catalog::get))
        .merge(whatsapp::router())
        .route("/{version}/{phone_number_id}", any(number::show))
        .route("/_sandbox/health", get(async || Json(json!({"ok": true}))))
        .route("/_sandbox/faults", get(fault::show).post(fault::replace).delete(fault::clear))
        .route("/_sandbox/settings", get(setting::show).post(setting::change))
        .route("/_sandbox/clock", post(setting::advance))
        .route("/_sandbox/model/requests", get(receipt::journal).delete(receipt::forget))
        .route("/", get(async || Redirect::temporary("/phone")))
        .fallback(no_such_route)
        .method_not_allowed_fallback(wrong_method)
        .layer(DefaultBodyLimit::max(BODY_LIMIT_BYTES))
        .with_state(sandbox)
}

fn batches() -> Router<Arc<Sandbox>> {
    let create = post(batch::create).layer(DefaultBodyLimit::max(batch::BODY_LIMIT_BYTES));
    Router::new()
        .route("/v1/messages/batches", create.get(batch::list))
        .route("/v1/messages/batches/{id}", get(batch::get).delete(batch::delete))
        .route("/v1/messages/batches/{id}/results", get(batch::results))
        .route("/v1/messages/batches/{id}/cancel", post(batch::cancel))
}

/// Answers in the shape of the service the path seems to be meant for.
async fn no_such_route(uri: Uri) -> Response {
    let path = uri.path();
    if path.starts_with("/v1/") {
        return Refusal::not_found("Not found").into_response(&new_id("req_"));
    }
    if path.starts_with("/_sandbox") || !path.starts_with("/v") {
        let hint = "the sandbox's own paths are /phone, /_sandbox/health, /_sandbox/faults, \
                    /_sandbox/settings, /_sandbox/clock, /_sandbox/model/requests and \
                    /_sandbox/whatsapp/messages, inbound, templates and changes";
        return (StatusCode::NOT_FOUND, Json(json!({"error": "no such path", "hint": hint})))
            .into_response();
    }
    GraphError::unknown_path(path).into_response()
}

async fn wrong_method(uri: Uri) -> Response {
    if uri.path().starts_with("/v1/") {
        let refusal = Refusal::new(405, "invalid_request_error", "Method Not Allowed");
        return refusal.into_response(&new_id("req_"));
    }
    (StatusCode::METHOD_NOT_ALLOWED, Json(json!({"error": "this path has no such method"})))
        .into_response()
}

/// A fresh id in the provider's style: a prefix and 24 letters and digits.
fn new_id(prefix: &str) -> String {
    const LETTERS: &[u8; 58] = b"123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz";
    let letters: [u8; 22] = rand::random();
    let mut id = format!("{prefix}01");
    id.extend(letters.map(|letter| char::from(LETTERS[usize::from(letter) % LETTERS.len()])));
    id
}
