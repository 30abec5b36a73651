//! Probes: the page of a test link, by which `longhaul doctor` proves that the links of messages lead here.
//!
//! It goes the way of the approval page: the same address, headers, checks and redirect after the form.
//! A look shows the proof and changes nothing; the form burns the link. No job is touched by either.

use askama::Template;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Request};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use serde::Deserialize;

use super::body;
use super::fault::Fault;
use crate::domain::probe::{ProbeToken, shown};
use crate::domain::reason::Reason;
use crate::engine::Engine;

#[derive(Template)]
#[template(path = "approval/probe.html")]
struct Page {
    word: String,
}

#[derive(Deserialize)]
struct Form {
    proof: String,
}

/// The test link in a path, if it is one.
pub(super) fn find(path: &Result<Path<String>, PathRejection>) -> Option<ProbeToken> {
    path.as_ref().ok().and_then(|Path(text)| ProbeToken::parse(text))
}

/// Shows the proof.
pub(super) async fn show(engine: &Engine, token: &ProbeToken) -> Result<Response, Fault> {
    let probe = engine.store().find_probe(token).await?.ok_or_else(unknown)?;
    let page = Page { word: shown(&probe.proof, probe.has_arrived) };
    let html = page.render().map_err(|error| {
        tracing::error!(%error, "a page could not be rendered");
        Fault::internal()
    })?;
    let kind = HeaderValue::from_static("text/html; charset=utf-8");
    Ok(([(header::CONTENT_TYPE, kind)], html).into_response())
}

/// Takes the form, burns the link, and leads back to the same address.
pub(super) async fn take(
    engine: &Engine,
    token: &ProbeToken,
    request: Request,
) -> Result<Response, Fault> {
    engine.store().find_probe(token).await?.ok_or_else(unknown)?;
    let body = body::receive_raw(request).await?;
    let form: Form = serde_urlencoded::from_bytes(&body)
        .map_err(|_unread| Fault::malformed("the form could not be read"))?;
    if !engine.store().burn_probe(token, &form.proof).await? {
        return Err(unknown());
    }
    let mut address = HeaderValue::from_str(&format!("./{}", token.reveal()))
        .expect("a token is made of letters, digits, `-` and `_`");
    address.set_sensitive(true);
    Ok((StatusCode::SEE_OTHER, [(header::LOCATION, address)]).into_response())
}

fn unknown() -> Fault {
    Fault::new(Reason::NotFound, "this link opens nothing")
}
