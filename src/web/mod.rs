//! How PEOPLE reach it: the HTTP sidecar, with the two webhooks of the template, `WhatsApp`'s, and the approval page.
//!
//! In come requests of clients that cannot speak gRPC, of approvers with a phone and of Meta; out go JSON and pages.
//! Nothing is decided here: every request becomes one call of the engine or the store.
//! No GET changes anything, and no token of a link ever reaches a log or a span.

mod guard;

mod gate;

mod origin;

mod cors;

mod fault;

mod strict;

mod body;

mod asked;

mod call;

mod lenient;

mod jobs;

mod json;

mod openapi;

mod outline;

mod whatsapp;

mod approval;

mod probe;

mod health;

mod language;

#[cfg(any(test, fuzzing))]
pub mod fuzz;

use std::sync::Arc;
use std::time::Duration;

use axum::extract::DefaultBodyLimit;
use axum::http::{HeaderName, HeaderValue, Uri};
use axum::middleware::{from_fn, from_fn_with_state};
use axum::routing::{get, post};
use axum::{Extension, Router};
use chrono_tz::Tz;
use tokio::sync::{Semaphore, SetOnce};
use tokio_util::sync::CancellationToken;

use self::approval::People;
pub use self::approval::headers as page_headers;
use self::asked::Manner;
use self::cors::Cors;
use self::fault::Fault;
pub use self::fault::code_of;
use self::gate::HttpFace;
use self::guard::Limits;
use self::health::Pulse;
use self::openapi::Document;
pub use self::origin::is_loopback_url;
use self::origin::{Origin, Ours};
use self::whatsapp::Webhook;
pub use self::whatsapp::WebhookSettings;
use crate::domain::book::Book;
use crate::domain::reason::Reason;
use crate::domain::state::Refusal;
use crate::door::{self, GateLayer, Keyring, LimitLayer};
use crate::engine::{Engine, EngineError};
use crate::store::StoreError;

/// How the sidecar is reached and how much it takes.
#[derive(Clone, Debug)]
pub struct WebSettings {
    /// The address of the sidecar as people see it; may have a path prefix, and is the only source of links.
    pub public_url: String,
    /// Whether it listens to this machine alone.
    pub is_on_loopback: bool,
    /// The longest a request may take.
    pub request_timeout: Duration,
    /// The largest body a webhook reads.
    pub body_bytes_max: usize,
    /// The most requests at once.
    pub requests_max: usize,
    /// How Meta is known; without, `WhatsApp`'s webhook is closed.
    pub whatsapp: Option<WebhookSettings>,
    /// Where people are of whom the address book does not say it.
    pub time_zone: Tz,
    /// Who has a name here.
    pub book: Arc<Book>,
    /// A header that may hold a key, beside those that always may.
    pub key_header: Option<HeaderName>,
    /// Where the webhooks are beside `webhook`, as n8n had them; without slashes at its ends.
    pub webhook_prefix: String,
    /// Whose pages may call the webhooks, as browsers write an origin.
    pub cors_origins: Arc<[HeaderValue]>,
    /// Whether mistakes are answered with 200, and what nothing reads is a warning, where a request does not say.
    pub is_lenient: bool,
}

impl Default for WebSettings {
    fn default() -> Self {
        Self {
            public_url: "http://localhost:8080".to_owned(),
            is_on_loopback: true,
            request_timeout: Duration::from_secs(30),
            body_bytes_max: 4 << 20,
            requests_max: door::REQUESTS_MAX,
            whatsapp: None,
            time_zone: Tz::UTC,
            book: Arc::default(),
            key_header: None,
            webhook_prefix: "webhook".to_owned(),
            cors_origins: Arc::default(),
            is_lenient: false,
        }
    }
}

/// The routes of the sidecar, at the root and under the path of the public URL: a proxy may strip that or leave it.
///
/// The stop ends whoever waits for a job.
pub fn router(
    engine: Engine,
    settings: &WebSettings,
    keyring: Keyring,
    limits: door::Limits,
    stop: CancellationToken,
) -> Router {
    let public_url: Option<Uri> = settings.public_url.trim().parse().ok();
    let public = public_url.as_ref().and_then(Origin::of_url);
    let ours = Ours { public, is_on_loopback: settings.is_on_loopback, shared: Arc::default() };
    let prefix = public_url.as_ref().map_or("", |url| url.path().trim_end_matches('/'));
    // Braces are wildcards to the router and text in an address.
    let prefix = prefix.replace('{', "{{").replace('}', "}}");
    let document = Document::new(settings, keyring.clone());
    let routes = routes(settings, ours, &engine.store().opened(), stop);
    let routes = routes.layer(Extension(document));
    let face = HttpFace { webhook_prefix: settings.webhook_prefix.as_str().into() };
    let limit = LimitLayer::new(limits, face.clone());
    let gate = GateLayer::new(keyring, settings.key_header.clone(), face);
    let routes = routes
        .route_layer(limit)
        .route_layer(gate)
        .route_layer(from_fn(gate::refuse_key_in_address));
    let routes = if prefix.is_empty() {
        routes
    } else {
        routes.clone().without_v07_checks().nest(&prefix, routes)
    };
    let cors = Cors::new(Arc::clone(&settings.cors_origins), settings.key_header.as_ref());
    routes
        .fallback(fault::unknown_path)
        .layer(from_fn_with_state(cors, cors::share))
        .layer(from_fn(guard::trace))
        .with_state(engine)
}

/// The two webhooks of the template, under their own prefix and the one that n8n had.
fn webhooks(settings: &WebSettings, stop: CancellationToken) -> Router<Engine> {
    let manner = Arc::new(Manner {
        body_bytes_max: settings.body_bytes_max,
        is_lenient: settings.is_lenient,
        seats: Arc::new(Semaphore::new(settings.requests_max.clamp(1, Semaphore::MAX_PERMITS))),
        stop,
    });
    let prefixes = ["webhook", &*settings.webhook_prefix];
    let distinct = if prefixes[0] == prefixes[1] { &prefixes[..1] } else { &prefixes };
    let under = |router: Router<Engine>, prefix: &&str| {
        router
            .route(&format!("/{prefix}/durable-job"), post(jobs::submit))
            .route(&format!("/{prefix}/durable-job-control"), post(jobs::control))
    };
    distinct
        .iter()
        .fold(Router::new(), under)
        .layer(from_fn_with_state(Arc::clone(&manner), asked::heed))
        .layer(Extension(manner))
}

fn routes(
    settings: &WebSettings,
    ours: Ours,
    opened: &Arc<SetOnce<()>>,
    stop: CancellationToken,
) -> Router<Engine> {
    let limits = || Limits::new(settings, Arc::clone(opened));
    let sharing = Ours { shared: Arc::clone(&settings.cors_origins), ..ours.clone() };
    let refuse_others = from_fn_with_state(Arc::new(ours), origin::refuse_others);
    let webhooks = webhooks(settings, stop)
        .layer(from_fn_with_state(Arc::new(sharing), origin::refuse_others))
        .layer(from_fn_with_state(limits(), guard::limit));
    // No browser calls it and a signature guards it, so it does not matter which page may have sent it.
    let meta = Router::new()
        .route("/webhook/whatsapp", get(whatsapp::verify).post(whatsapp::receive))
        .layer(DefaultBodyLimit::max(whatsapp::BODY_BYTES_MAX))
        .layer(Extension(Webhook::new(settings.whatsapp.clone())))
        // Whoever floods it keeps out nobody else.
        .layer(from_fn_with_state(limits(), guard::limit));
    let pages = Router::new()
        .route("/approvals/{token}", get(approval::show).post(approval::decide))
        // A mangled link is a person's, who gets a page too.
        .route("/approvals", get(approval::mangled).post(approval::mangled))
        .route("/approvals/", get(approval::mangled).post(approval::mangled))
        .route("/approvals/{token}/", get(approval::mangled).post(approval::mangled))
        .route("/approvals/{token}/{*more}", get(approval::mangled).post(approval::mangled))
        .layer(DefaultBodyLimit::max(approval::FORM_BYTES_MAX))
        .layer(Extension(People {
            book: Arc::clone(&settings.book),
            time_zone: settings.time_zone,
        }))
        .layer(refuse_others)
        // A flood of submits keeps out no approver.
        .layer(from_fn_with_state(limits(), guard::limit));
    // A busy server is healthy: nothing that sheds load stands before this one.
    let health =
        Router::new().route("/healthz", get(health::show)).layer(Extension(Pulse::default()));
    let about = Router::new()
        .route("/openapi.json", get(openapi::show))
        .layer(from_fn_with_state(limits(), guard::limit));
    webhooks
        .merge(meta)
        .merge(health)
        .merge(about)
        .method_not_allowed_fallback(fault::wrong_method)
        // Whatever answers, the page's errors are pages too and carry its headers.
        .merge(
            pages.method_not_allowed_fallback(fault::wrong_method).layer(from_fn(approval::dress)),
        )
}

impl From<EngineError> for Fault {
    fn from(error: EngineError) -> Self {
        match error {
            EngineError::Invalid(violations) => Self::invalid(violations),
            EngineError::Store(error) => error.into(),
        }
    }
}

/// The one table of what an error is in HTTP; sources are logged here and never sent.
impl From<StoreError> for Fault {
    fn from(error: StoreError) -> Self {
        let message = error.to_string();
        match error {
            StoreError::JobNotFound { .. } => Self::new(Reason::JobNotFound, message)
                .hint("check the job_id; a job exists from the moment its submit was answered"),
            StoreError::JobPruned { status, .. } => Self::new(Reason::JobPruned, message)
                .hint("its results are no longer kept; to run it again, submit it under another job_id")
                .status(status),
            StoreError::ApprovalNotFound { .. } => Self::new(Reason::ApprovalNotFound, message)
                .hint("the approval_id of a pending approval is in the job, under approval"),
            // No door of this face is about a notice.
            StoreError::NoticeNotFound { .. } => Self::new(Reason::NoticeNotFound, message),
            StoreError::NoticeKept { .. } => Self::new(Reason::NoticeKept, message),
            StoreError::StepNotFound { .. } => Self::new(Reason::StepNotFound, message),
            StoreError::JobIdConflict { field, .. } => Self::new(Reason::JobIdConflict, message)
                .hint("send the same content again, or choose another job_id")
                .field(field),
            StoreError::SpecVersionUnknown { .. } => Self::new(Reason::SpecVersionUnknown, message)
                .hint("ask a server of the newer release, or update this one"),
            StoreError::RequestIdConflict { .. } => Self::new(Reason::RequestIdConflict, message)
                .hint("send the same action again, or choose another request_id"),
            StoreError::Refused(refusal) => refusal.into(),
            StoreError::Unavailable(_) => {
                tracing::warn!(
                    error = &error as &dyn std::error::Error,
                    "a request was not served"
                );
                Self::unavailable()
            }
            StoreError::Corrupt { .. } | StoreError::Database(_) | StoreError::Migrate(_) => {
                tracing::error!(error = &error as &dyn std::error::Error, "a request failed");
                Self::internal()
            }
        }
    }
}

impl From<Refusal> for Fault {
    fn from(refusal: Refusal) -> Self {
        let message = refusal.to_string();
        match refusal {
            Refusal::Conflict { status } => {
                Self::new(Reason::JobStateConflict, message).status(status)
            }
            Refusal::ApprovalIdRequired => Self::new(Reason::ApprovalIdRequired, message).hint(
                "send the approval_id; that of a pending approval is in the job, under approval",
            ),
            Refusal::ApprovalClosed { .. } => Self::new(Reason::ApprovalClosed, message),
            Refusal::AlreadyVoted { .. } => Self::new(Reason::AlreadyVoted, message),
            Refusal::ChangesNotAllowed { .. } => Self::new(Reason::ChangesNotAllowed, message),
            Refusal::EditNotAllowed => Self::new(Reason::EditNotAllowed, message),
            Refusal::StepOutOfRange { .. } => Self::violation("from_step", message),
            Refusal::LeaseLost => {
                tracing::error!("a door was told about a lease, which it never holds");
                Self::internal()
            }
        }
    }
}
