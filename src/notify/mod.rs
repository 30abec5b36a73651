//! WHO is told: people get notices on their phones, through the outbox and `WhatsApp`.
//!
//! The store writes a notice in the transaction that causes it; the dispatcher here takes it, writes its text,
//! sends it, and records what became of it; what Meta tells later is read here as well.
//! This folder meets the engine only in the outbox.
//! Links, tokens, texts and phone numbers never reach a log, a span or an error.

mod dispatcher;

mod inbound;

mod channel;

mod sender;

mod form;

mod text;

mod message;

mod whatsapp;

mod refusal;

mod receipt;

pub mod signature;

pub mod endpoint;

pub mod number;

pub mod approved;

#[cfg(any(test, fuzzing))]
pub mod fuzz;

#[cfg(test)]
mod tests;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use chrono_tz::Tz;
use reqwest::header::InvalidHeaderValue;

use self::endpoint::EndpointSettings;
pub use self::form::{FormSettings, RequestForm, TemplateButtons};
pub use self::inbound::Listener;
pub use self::receipt::Told;
use self::sender::Sender;
pub use self::whatsapp::{WhatsApp, WhatsAppSettings};
use crate::domain::book::Book;
use crate::store::Store;

/// A longer address would leave too little of a message for what it says.
const PUBLIC_URL_CHARS_MAX: usize = 1000;

/// `NotifySettings` says how people are reached, and where the links in their messages lead.
#[derive(Clone, Debug)]
pub struct NotifySettings {
    /// The address under which people reach this server; a path in it is kept as a prefix.
    pub public_url: String,
    /// The language of what is told to operators; English if none was chosen.
    pub language: Option<String>,
    /// Where people are of whom the address book does not say it.
    pub time_zone: Tz,
    /// Who has a name here.
    pub book: Arc<Book>,
    /// The number messages are sent from; without one notices stay pending.
    pub whatsapp: Option<WhatsAppSettings>,
    /// Who is told besides people.
    pub endpoints: Vec<EndpointSettings>,
    /// How often to look for notices that nobody announced.
    pub poll: Duration,
}

/// Notifier sends what the outbox holds.
pub struct Notifier {
    store: Store,
    /// How people are reached; without it their notices stay pending.
    sender: Option<Sender>,
    public_url: String,
    language: Option<String>,
    time_zone: Tz,
    book: Arc<Book>,
    poll: Duration,
    /// The person whose notice was taken last, if others may come after.
    after: Mutex<String>,
}

/// `NotifySetupError` says which setting cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum NotifySetupError {
    /// Links cannot be made from it.
    #[error(
        "the public url is not an http or https address without query and fragment, of at most {PUBLIC_URL_CHARS_MAX} characters"
    )]
    PublicUrl,
    /// The base URL cannot be used.
    #[error("the whatsapp base url is not an http or https address")]
    BaseUrl,
    /// The Graph version cannot be used.
    #[error("the whatsapp graph version does not look like v26.0")]
    GraphVersion,
    /// The id of the sending number cannot be used.
    #[error("the whatsapp phone number id is not a number")]
    PhoneNumberId,
    /// The token is empty.
    #[error("the whatsapp token is empty")]
    NoToken,
    /// The token cannot be sent.
    #[error("the whatsapp token holds characters that no header can carry")]
    Token(#[source] InvalidHeaderValue),
    /// The address of an endpoint cannot be used.
    #[error("the address of an endpoint is not a plain http or https address")]
    EndpointUrl,
    /// The HTTP client cannot be built, mostly because the machine has no CA certificates.
    #[error("the http client could not be built; are the machine's ca-certificates installed?")]
    Client(#[source] reqwest::Error),
}

impl Notifier {
    /// Makes the notifier; it opens no connection yet.
    ///
    /// The process must have installed its TLS provider before.
    pub fn new(store: Store, settings: &NotifySettings) -> Result<Self, NotifySetupError> {
        Ok(Self {
            store,
            sender: settings.whatsapp.as_ref().map(Sender::new).transpose()?,
            public_url: link_base(&settings.public_url).ok_or(NotifySetupError::PublicUrl)?,
            language: settings.language.clone(),
            time_zone: settings.time_zone,
            book: Arc::clone(&settings.book),
            poll: settings.poll,
            after: Mutex::default(),
        })
    }
}

/// The public URL as links begin with it: no slash at the end.
fn link_base(public_url: &str) -> Option<String> {
    let url = reqwest::Url::parse(public_url.trim()).ok()?;
    let is_plain = matches!(url.scheme(), "http" | "https")
        && url.has_host()
        && url.query().is_none()
        && url.fragment().is_none();
    let base = url.as_str().trim_end_matches('/');
    (is_plain && base.len() <= PUBLIC_URL_CHARS_MAX).then(|| base.to_owned())
}
