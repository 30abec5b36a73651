//! The client of the `WhatsApp` Cloud API: one text message to one person.
//!
//! In come a number, a text and a word to recognise the message by; out comes what became of it.
//! Meta knows no idempotency key, so nothing here sends anything twice: no retry, no redirect.
//! Only an answer with a message id is success; whatever may have reached Meta unanswered is ambiguous.

use std::error::Error as _;
use std::fmt;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use reqwest::header::{AUTHORIZATION, HeaderValue};
use reqwest::redirect::Policy;
use reqwest::{Response, StatusCode};
use secrecy::{ExposeSecret as _, SecretString};
use serde::Serialize;
use serde_json::Value;

use super::NotifySetupError;
use super::refusal::{Class, Refusal, back_off};
use crate::store::outbox::Sent;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// An answer is a few hundred bytes; a page of HTML from a proxy can be any size.
const ANSWER_BYTES_MAX: usize = 64 * 1024;
/// A person who mends a setting should not have to wait long, nor Meta be asked for ever.
const CONFIGURATION_WAIT: Duration = Duration::from_mins(1);
const CONFIGURATION_WAIT_MAX: Duration = Duration::from_mins(30);

/// `WhatsAppSettings` says which number sends, and how to reach Meta.
#[derive(Clone, Debug)]
pub struct WhatsAppSettings {
    /// The address of the Graph API; a path in it is kept as a prefix.
    pub base_url: String,
    /// The version of the Graph API, such as `v26.0`.
    pub graph_version: String,
    /// Meta's id of the sending number, which is not the number itself.
    pub phone_number_id: String,
    /// The token of a system user that may send messages.
    pub token: SecretString,
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
            token,
            timeout: Duration::from_secs(20),
        }
    }
}

/// `WhatsApp` sends messages from one number.
pub struct WhatsApp {
    client: reqwest::Client,
    url: reqwest::Url,
    token: SecretString,
    authorization: HeaderValue,
    /// Whether the account or the token was at fault, or nobody answered, at last; each is logged once and not per message.
    is_at_fault: AtomicBool,
    is_away: AtomicBool,
}

#[derive(Serialize)]
struct Message<'m> {
    messaging_product: &'static str,
    recipient_type: &'static str,
    to: &'m str,
    #[serde(rename = "type")]
    kind: &'static str,
    text: Text<'m>,
    biz_opaque_callback_data: &'m str,
}

#[derive(Serialize)]
struct Text<'m> {
    preview_url: bool,
    body: &'m str,
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
        let token = settings.token.expose_secret().trim();
        if token.is_empty() {
            return Err(NotifySetupError::NoToken);
        }
        let mut authorization =
            HeaderValue::try_from(format!("Bearer {token}")).map_err(NotifySetupError::Token)?;
        authorization.set_sensitive(true);
        Ok(Self {
            client: builder.build().map_err(NotifySetupError::Client)?,
            url,
            token: token.into(),
            authorization,
            is_at_fault: AtomicBool::new(false),
            is_away: AtomicBool::new(false),
        })
    }

    /// Sends a text to a number in E.164; the `correlation` comes back with its delivery statuses.
    ///
    /// `tries` counts from 1 and spaces the tries out. If the process dies in the middle, the text may have gone out.
    pub async fn send_text(&self, to: &str, body: &str, correlation: &str, tries: i32) -> Sent {
        let message = Message {
            messaging_product: "whatsapp",
            recipient_type: "individual",
            to,
            kind: "text",
            text: Text { preview_url: false, body },
            biz_opaque_callback_data: correlation,
        };
        let request = self
            .client
            .post(self.url.clone())
            .header(AUTHORIZATION, self.authorization.clone())
            .json(&message);
        match request.send().await {
            Ok(response) => self.judge(response, tries).await,
            // The connection was never there, so nothing has left.
            Err(error) if error.is_connect() || error.is_builder() => {
                let error = format!("whatsapp could not be reached: {}", chain(error));
                if !self.is_away.swap(true, Ordering::Relaxed) {
                    tracing::warn!(error, "notices wait until whatsapp can be reached");
                }
                Sent::Again { after: back_off(tries), error }
            }
            Err(error) => {
                Sent::Ambiguous { error: format!("whatsapp did not answer: {}", chain(error)) }
            }
        }
    }

    async fn judge(&self, mut response: Response, tries: i32) -> Sent {
        self.is_away.store(false, Ordering::Relaxed);
        let status = response.status();
        let headers = std::mem::take(response.headers_mut());
        let body = read(response).await;
        if let Some(provider_message_id) = find_message_id(status, &body) {
            if self.is_at_fault.swap(false, Ordering::Relaxed) {
                tracing::info!("whatsapp takes messages again");
            }
            return Sent::Accepted { provider_message_id };
        }
        let refusal = Refusal::read(status, &headers, &body, self.token.expose_secret());
        let error = match refusal.class {
            Class::Ambiguous => format!("whatsapp gave no clear answer: {}", refusal.words),
            Class::Rate | Class::Permanent | Class::Configuration => {
                format!("whatsapp refused the message: {}", refusal.words)
            }
        };
        match refusal.class {
            Class::Rate => {
                Sent::Again { after: back_off(tries).max(refusal.wait.unwrap_or_default()), error }
            }
            Class::Ambiguous => Sent::Ambiguous { error },
            Class::Permanent => Sent::Refused { error },
            Class::Configuration => {
                if !self.is_at_fault.swap(true, Ordering::Relaxed) {
                    tracing::error!(
                        error,
                        "no notice can be sent: the whatsapp account or token needs mending"
                    );
                }
                let wait = CONFIGURATION_WAIT.saturating_mul(tries.max(1).unsigned_abs());
                Sent::Again { after: wait.min(CONFIGURATION_WAIT_MAX), error }
            }
        }
    }
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
