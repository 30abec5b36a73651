//! `WhatsApp`'s webhook: Meta asks whether it is ours, and then tells what became of messages and what people wrote.
//!
//! In come requests that Meta has signed over their raw bytes, each at least once and in any order.
//! 200 is answered only after everything that a body tells is stored; whatever else is answered, Meta sends it again.
//! Neither bodies nor numbers nor tokens reach a log.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::Extension;
use axum::extract::rejection::QueryRejection;
use axum::extract::{FromRequestParts, Query, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse as _, Response};
use secrecy::SecretString;

use super::body;
use super::fault::Fault;
use crate::domain::reason::Reason;
use crate::engine::Engine;
use crate::notify::Told;
use crate::notify::signature::{is_same, is_signed};

/// The largest body that Meta sends.
pub(super) const BODY_BYTES_MAX: usize = 3 << 20;
/// A challenge is a number today.
const CHALLENGE_CHARS_MAX: usize = 128;

/// What proves that a request comes from Meta.
#[derive(Clone, Debug)]
pub struct WebhookSettings {
    /// The word that Meta repeats when it asks whether the address is ours.
    pub verify_token: SecretString,
    /// The app's secrets, with which Meta signs: one, or two while they are changed.
    pub app_secrets: Vec<SecretString>,
}

/// The webhook, and what it has said already: whoever calls a wrong address calls often.
pub(super) struct Webhook {
    settings: Option<WebhookSettings>,
    has_said_closed: AtomicBool,
    is_refusing: AtomicBool,
}

impl Webhook {
    /// The webhook, closed if there is nothing by which to know Meta.
    pub(super) fn new(settings: Option<WebhookSettings>) -> Arc<Self> {
        let (has_said_closed, is_refusing) = (AtomicBool::new(false), AtomicBool::new(false));
        Arc::new(Self { settings, has_said_closed, is_refusing })
    }

    fn settings(&self) -> Result<&WebhookSettings, Fault> {
        self.settings.as_ref().ok_or_else(|| {
            if !self.has_said_closed.swap(true, Ordering::Relaxed) {
                tracing::warn!(
                    "whatsapp's webhook was called and is closed: \
                     LONGHAUL_WHATSAPP_APP_SECRET and LONGHAUL_WHATSAPP_VERIFY_TOKEN are not set"
                );
            }
            Fault::new(Reason::NotFound, "WhatsApp's webhook is not configured here")
                .hint("the server's log says what to set")
        })
    }

    fn check_signature(&self, headers: &HeaderMap, body: &[u8]) -> Result<(), Fault> {
        if is_signed(signature(headers), body, &self.settings()?.app_secrets) {
            self.is_refusing.store(false, Ordering::Relaxed);
            return Ok(());
        }
        Err(self.unsigned())
    }

    fn unsigned(&self) -> Fault {
        if !self.is_refusing.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                "a call of whatsapp's webhook is not signed with LONGHAUL_WHATSAPP_APP_SECRET"
            );
        }
        Fault::new(Reason::Unauthenticated, "the signature of the body is missing or wrong")
            .hint("X-Hub-Signature-256 must be made with the app's secret over the raw body")
    }
}

impl fmt::Debug for Webhook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Webhook").field("settings", &self.settings).finish_non_exhaustive()
    }
}

/// Answers Meta's question whether the address is ours, which is not signed.
pub(super) async fn verify(
    Extension(webhook): Extension<Arc<Webhook>>,
    asked: Result<Query<HashMap<String, String>>, QueryRejection>,
) -> Result<Response, Fault> {
    let unread = |_unread| Fault::malformed("the query cannot be read");
    let Query(asked) = asked.map_err(unread)?;
    let settings = webhook.settings()?;
    let field = |name: &str| asked.get(name).map(String::as_str).unwrap_or_default();
    let challenge = field("hub.challenge");
    // It comes back as it came, so it must not be able to be anything but a word.
    let is_word = !challenge.is_empty()
        && challenge.len() <= CHALLENGE_CHARS_MAX
        && challenge.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte));
    let knows_token = is_same(field("hub.verify_token"), &settings.verify_token);
    if field("hub.mode") != "subscribe" || !is_word || !knows_token {
        return Err(Fault::new(
            Reason::Forbidden,
            "this is not the verification that was agreed on",
        )
        .hint("the verify token is the one in LONGHAUL_WHATSAPP_VERIFY_TOKEN"));
    }
    let headers = [
        (header::CONTENT_TYPE, "text/plain; charset=utf-8"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::CACHE_CONTROL, "no-store"),
    ];
    Ok((headers, challenge.to_owned()).into_response())
}

/// Before the body is read: the door is open, and the request has what looks like a signature.
pub(super) struct LooksSigned;

impl<S: Send + Sync> FromRequestParts<S> for LooksSigned {
    type Rejection = Fault;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Fault> {
        let webhook = parts.extensions.get::<Arc<Webhook>>();
        let webhook = webhook.ok_or_else(Fault::internal)?;
        webhook.settings()?;
        let digest = signature(&parts.headers).strip_prefix("sha256=").unwrap_or_default();
        let is_digest = digest.len() == 64 && digest.bytes().all(|byte| byte.is_ascii_hexdigit());
        if is_digest { Ok(Self) } else { Err(webhook.unsigned()) }
    }
}

fn signature(headers: &HeaderMap) -> &str {
    let value = headers.get("x-hub-signature-256").and_then(|value| value.to_str().ok());
    value.unwrap_or_default()
}

/// Stores what Meta tells.
pub(super) async fn receive(
    State(engine): State<Engine>,
    Extension(webhook): Extension<Arc<Webhook>>,
    headers: HeaderMap,
    _looks_signed: LooksSigned,
    request: Request,
) -> Result<&'static str, Fault> {
    let body = body::receive_soon(request).await?;
    webhook.check_signature(&headers, &body)?;
    let told = Told::read(&body);
    if told.broken > 0 {
        tracing::warn!(items = told.broken, "could not read all that whatsapp told");
    }
    let changed = engine.store().record_receipts(&told.receipts).await?;
    // After the receipts: an answer counts only if its request is known to have arrived.
    let kept = engine.store().keep_inbound(&told.messages).await?;
    let (receipts, messages) = (told.receipts.len(), told.messages.len());
    tracing::debug!(receipts, changed, messages, kept, "heard of messages");
    Ok("ok")
}
