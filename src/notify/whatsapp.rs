//! The client of the `WhatsApp` Cloud API: one request, one answer, understood.
//!
//! In comes a message as JSON; out comes whether it was taken, was refused and why, or may have gone out.
//! Meta knows no idempotency key, so nothing here sends anything twice: no retry, no redirect.
//! Only an answer with a message id is success; whatever may have reached Meta unanswered is ambiguous.

use std::error::Error as _;
use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use reqwest::header::{AUTHORIZATION, HeaderValue};
use reqwest::redirect::Policy;
use reqwest::{Response, StatusCode};
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::Value;

use super::NotifySetupError;
use super::form::FormSettings;
use super::refusal::{Class, Refusal};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// An answer is a few hundred bytes; a page of HTML from a proxy can be any size.
const ANSWER_BYTES_MAX: usize = 64 * 1024;

/// `WhatsAppSettings` says which number sends, and how to reach Meta.
#[derive(Clone, Debug)]
pub struct WhatsAppSettings {
    /// The address of the Graph API; a path in it is kept as a prefix.
    pub base_url: String,
    /// The version of the Graph API, such as `v26.0`.
    pub graph_version: String,
    /// Meta's id of the sending number, which is not the number itself.
    pub phone_number_id: String,
    /// Meta's id of the business account that the templates belong to; only a check-up asks it for them.
    pub account_id: Option<String>,
    /// The token of a system user that may send messages.
    pub token: SecretString,
    /// Where the token was read, to be read again when it no longer counts.
    pub token_file: Option<PathBuf>,
    /// The forms in which people are written to.
    pub forms: FormSettings,
    /// The distance between two messages to one person.
    pub spacing: Duration,
    /// How long one send may take.
    pub timeout: Duration,
}

impl WhatsAppSettings {
    /// The usual settings for a number.
    pub fn new(phone_number_id: impl Into<String>, token: SecretString) -> Self {
        Self {
            base_url: "https://graph.facebook.com".to_owned(),
            graph_version: "v26.0".to_owned(),
            phone_number_id: phone_number_id.into(),
            account_id: None,
            token,
            token_file: None,
            forms: FormSettings::default(),
            spacing: Duration::from_secs(6),
            timeout: Duration::from_secs(20),
        }
    }
}

/// `WhatsApp` sends messages from one number.
pub struct WhatsApp {
    client: reqwest::Client,
    url: reqwest::Url,
    token_file: Option<PathBuf>,
    credential: RwLock<Arc<Credential>>,
}

struct Credential {
    token: SecretString,
    authorization: HeaderValue,
}

/// What came of a request.
#[derive(Debug)]
pub(super) enum Answer {
    /// The message was taken, and this is its id.
    Accepted { message_id: String },
    /// It was not taken.
    Refused(Refusal),
    /// Nobody knows.
    Unclear { error: String },
    /// It never left.
    Unreached { error: String },
}

impl WhatsApp {
    /// Makes the client; it opens no connection yet.
    pub fn new(settings: &WhatsAppSettings) -> Result<Self, NotifySetupError> {
        let url = messages_url(settings)?;
        let mut builder = reqwest::Client::builder()
            .user_agent(concat!("longhaul/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(CONNECT_TIMEOUT)
            .timeout(settings.timeout)
            .tcp_keepalive(Duration::from_mins(1))
            .redirect(Policy::none())
            .retry(reqwest::retry::never());
        if is_loopback(&url) {
            // A proxy of the environment leads out of the machine and would look for itself here.
            builder = builder.no_proxy();
        }
        Ok(Self {
            client: builder.build().map_err(NotifySetupError::Client)?,
            url,
            token_file: settings.token_file.clone(),
            credential: RwLock::new(Arc::new(Credential::new(settings.token.expose_secret())?)),
        })
    }

    /// Sends a message; if the process dies in the middle, it may have gone out.
    pub(super) async fn send(&self, message: &Value) -> Answer {
        let credential = self.credential();
        let request = self
            .client
            .post(self.url.clone())
            .header(AUTHORIZATION, credential.authorization.clone())
            .json(message);
        match request.send().await {
            Ok(response) => judge(response, credential.token.expose_secret()).await,
            // The connection was never there, so nothing has left.
            Err(error) if error.is_connect() || error.is_builder() => Answer::Unreached {
                error: format!("whatsapp could not be reached: {}", chain(error)),
            },
            Err(error) => {
                Answer::Unclear { error: format!("whatsapp did not answer: {}", chain(error)) }
            }
        }
    }

    /// Reads the token's file again; true if there is another token in it now.
    ///
    /// A file that cannot be read, or holds nothing that can be sent, leaves the token as it is.
    pub(super) async fn reload_token(&self) -> bool {
        let Some(file) = &self.token_file else { return false };
        let Ok(token) = tokio::fs::read_to_string(file).await.map(SecretString::from) else {
            return false;
        };
        let Ok(read) = Credential::new(token.expose_secret()) else { return false };
        if read.token.expose_secret() == self.credential().token.expose_secret() {
            return false;
        }
        *self.credential.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(read);
        true
    }

    fn credential(&self) -> Arc<Credential> {
        Arc::clone(&self.credential.read().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Credential {
    fn new(token: &str) -> Result<Self, NotifySetupError> {
        let token = token.trim();
        if token.is_empty() {
            return Err(NotifySetupError::NoToken);
        }
        let mut authorization =
            HeaderValue::try_from(format!("Bearer {token}")).map_err(NotifySetupError::Token)?;
        authorization.set_sensitive(true);
        Ok(Self { token: token.into(), authorization })
    }
}

async fn judge(mut response: Response, token: &str) -> Answer {
    let status = response.status();
    let headers = std::mem::take(response.headers_mut());
    let body = read(response).await;
    if let Some(message_id) = find_message_id(status, &body) {
        return Answer::Accepted { message_id };
    }
    let refusal = Refusal::read(status, &headers, &body, token);
    if refusal.class == Class::Ambiguous {
        let error = format!("whatsapp gave no clear answer: {}", refusal.words);
        return Answer::Unclear { error };
    }
    Answer::Refused(refusal)
}

impl fmt::Debug for WhatsApp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WhatsApp").field("url", &self.url.as_str()).finish_non_exhaustive()
    }
}

fn messages_url(settings: &WhatsAppSettings) -> Result<reqwest::Url, NotifySetupError> {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let version = settings.graph_version.trim();
    let numbers = version.strip_prefix('v').and_then(|numbers| numbers.split_once('.'));
    if !numbers.is_some_and(|(major, minor)| digits(major) && digits(minor)) {
        return Err(NotifySetupError::GraphVersion);
    }
    let phone_number_id = settings.phone_number_id.trim();
    if !digits(phone_number_id) {
        return Err(NotifySetupError::PhoneNumberId);
    }
    let parsed = reqwest::Url::parse(settings.base_url.trim()).ok();
    let is_http = |url: &reqwest::Url| matches!(url.scheme(), "http" | "https");
    let mut url = parsed.filter(is_http).ok_or(NotifySetupError::BaseUrl)?;
    url.path_segments_mut().map_err(|()| NotifySetupError::BaseUrl)?.pop_if_empty().extend([
        version,
        phone_number_id,
        "messages",
    ]);
    Ok(url)
}

pub(super) fn is_loopback(url: &reqwest::Url) -> bool {
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// What can be read of the body; one that breaks off leaves the status to judge by.
pub(super) async fn read(mut response: Response) -> Vec<u8> {
    let mut body = Vec::new();
    while body.len() < ANSWER_BYTES_MAX {
        match response.chunk().await {
            Ok(Some(chunk)) => body.extend_from_slice(&chunk),
            Ok(None) | Err(_) => break,
        }
    }
    body
}

fn find_message_id(status: StatusCode, body: &[u8]) -> Option<String> {
    if !status.is_success() {
        return None;
    }
    let body: Value = serde_json::from_slice(body).ok()?;
    let id = body["messages"][0]["id"].as_str()?;
    (!id.is_empty() && !id.contains(char::is_control)).then(|| id.to_owned())
}

/// An error of the connection with its causes and without the address.
pub(super) fn chain(error: reqwest::Error) -> String {
    let error = error.without_url();
    let mut words = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        words = format!("{words}: {cause}");
        source = cause.source();
    }
    words.chars().take(300).collect()
}
