//! The client of one endpoint: one request, and what its answer means.
//!
//! In come a notice and its payload; out goes whether the endpoint took it, and when to try again if not.
//! No redirect is followed and nothing is sent twice here; only the status and what `success` asks for are judged.

use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use chrono::Utc;
use reqwest::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use reqwest::redirect::Policy;
use reqwest::{Response, StatusCode};
use secrecy::ExposeSecret as _;
use serde_json::Value;

use super::payload::Payload;
use super::sign::{Secret, sign};
use super::template::Template;
use super::{BODY_BYTES_MAX, EndpointSettings};
use crate::notify::NotifySetupError;
use crate::notify::refusal::{back_off, find_wait};
use crate::notify::whatsapp::{chain, is_loopback, read};
use crate::store::endpoint::{EndpointNotice, Posted};
use crate::store::receipt::TRIES_MAX;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// How often one is tried that was refused, which mostly stays so.
const REFUSED_TRIES_MAX: i32 = 5;
/// The longest that an endpoint which is away is left alone.
const PAUSE_MAX: Duration = Duration::from_mins(1);

/// A header that is sent as it is, mostly a secret.
#[derive(Clone, Debug)]
pub struct Header {
    name: HeaderName,
    value: HeaderValue,
}

impl Header {
    /// Reads `Name: value`; one that we write ourselves is none.
    pub fn parse(text: &str) -> Option<Self> {
        let (name, value) = text.trim().split_once(':')?;
        let name: HeaderName = name.trim().parse().ok()?;
        let mut value = HeaderValue::from_str(value.trim()).ok()?;
        let is_ours = ["content-type", "content-length", "host", "transfer-encoding", "user-agent"];
        if value.is_empty() || is_ours.contains(&name.as_str()) {
            return None;
        }
        value.set_sensitive(true);
        Some(Self { name, value })
    }
}

/// What must stand where in an answer, such as `/code=0`: some chats answer 200 to what they refuse.
#[derive(Clone, Debug, PartialEq)]
pub struct Success {
    pointer: String,
    value: Value,
}

impl Success {
    /// Reads a JSON pointer, `=`, and a JSON value or plain text.
    pub fn parse(text: &str) -> Option<Self> {
        let (pointer, value) = text.split_once('=')?;
        let pointer = pointer.trim();
        let value = value.trim();
        let value = serde_json::from_str(value).unwrap_or_else(|_| Value::from(value));
        pointer.starts_with('/').then(|| Self { pointer: pointer.to_owned(), value })
    }

    fn holds(&self, body: &[u8]) -> bool {
        let body: Value = serde_json::from_slice(body).unwrap_or_default();
        body.pointer(&self.pointer) == Some(&self.value)
    }
}

/// The client of one endpoint.
pub(super) struct Client {
    name: String,
    http: reqwest::Client,
    url: reqwest::Url,
    secrets: Vec<Secret>,
    header: Option<Header>,
    body: Option<Template>,
    success: Option<Success>,
    /// How often in a row it was not there for a notice.
    absences: AtomicU32,
}

impl Client {
    pub(super) fn new(settings: &EndpointSettings) -> Result<Self, NotifySetupError> {
        let url = find_url(settings.url.expose_secret()).ok_or(NotifySetupError::EndpointUrl)?;
        let mut builder = reqwest::Client::builder()
            .user_agent(concat!("longhaul/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(CONNECT_TIMEOUT)
            .timeout(settings.timeout)
            .redirect(Policy::none())
            .retry(reqwest::retry::never());
        if is_loopback(&url) {
            // A proxy of the environment leads out of the machine and would look for itself here.
            builder = builder.no_proxy();
        }
        Ok(Self {
            name: settings.name.clone(),
            http: builder.build().map_err(NotifySetupError::Client)?,
            url,
            secrets: settings.secrets.clone(),
            header: settings.header.clone(),
            body: settings.body.clone(),
            success: settings.success.clone(),
            absences: AtomicU32::new(0),
        })
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Sends a notice once. If the process dies in the middle, it may have gone out, and goes out again under the same id.
    pub(super) async fn post(&self, notice: &EndpointNotice, payload: &Payload<'_>) -> Posted {
        let body = payload.body(self.body.as_ref());
        if body.len() > BODY_BYTES_MAX {
            return Posted::GivenUp { error: "it is longer than 256 KiB".to_owned() };
        }
        let (posted, is_there) = self.judge(self.send(notice, body).await, notice.tries).await;
        let before = if is_there {
            self.absences.swap(0, Ordering::Relaxed)
        } else {
            self.absences.fetch_add(1, Ordering::Relaxed)
        };
        // Each is told once, and not for every notice.
        match (before, &posted) {
            (1.., Posted::Taken) => tracing::info!("the endpoint takes notices again"),
            (0, Posted::Again { error, .. }) => {
                tracing::warn!(error, "the endpoint does not take notices");
            }
            (0.., _) => {}
        }
        posted
    }

    /// How long to leave it alone: what waits for one that is away would all be tried in vain, and looked through again
    /// and again.
    pub(super) fn pause(&self) -> Duration {
        match self.absences.load(Ordering::Relaxed) {
            0 => Duration::ZERO,
            absences => Duration::from_secs(1 << (absences - 1).min(6)).min(PAUSE_MAX),
        }
    }

    async fn send(
        &self,
        notice: &EndpointNotice,
        body: Vec<u8>,
    ) -> Result<Response, reqwest::Error> {
        let id = notice.notice_id.to_string();
        // The receiver compares it with its own clock, so it is that of this machine, and anew for each try.
        let timestamp = now().timestamp().to_string();
        let mut request = self
            .http
            .post(self.url.clone())
            .header(CONTENT_TYPE, "application/json")
            .header("webhook-id", &id)
            .header("webhook-timestamp", &timestamp);
        if !self.secrets.is_empty() {
            let signature = sign(&self.secrets, &id, &timestamp, &body);
            request = request.header("webhook-signature", signature);
        }
        if let Some(Header { name, value }) = &self.header {
            request = request.header(name, value.clone());
        }
        request.body(body).send().await
    }

    /// What became of a try, and whether the endpoint is there at all.
    async fn judge(&self, answer: Result<Response, reqwest::Error>, tries: i32) -> (Posted, bool) {
        let mut response = match answer {
            Ok(response) => response,
            Err(error) => {
                let what =
                    if error.is_connect() { "could not be reached" } else { "did not answer" };
                let error = format!("it {what}: {}", chain(error));
                return (again(tries, TRIES_MAX, None, error), false);
            }
        };
        let status = response.status();
        let headers = std::mem::take(response.headers_mut());
        if status.is_success() {
            let Some(success) = &self.success else { return (Posted::Taken, true) };
            if success.holds(&read(response).await) {
                return (Posted::Taken, true);
            }
            let error = format!("its answer does not have {} as configured", success.pointer);
            return (again(tries, REFUSED_TRIES_MAX, None, error), true);
        }
        let error = format!("it answered {}", status.as_u16());
        if status == StatusCode::GONE {
            return (Posted::GivenUp { error }, true);
        }
        let is_away = passes(status);
        let most = if is_away { TRIES_MAX } else { REFUSED_TRIES_MAX };
        let wait = find_wait(&headers);
        let posted = match again(tries, most, wait, error) {
            // With these it speaks of itself, and not of this notice.
            Posted::Again { after, error, .. } if asks_for_rest(status) => {
                Posted::Again { after, rest: wait.unwrap_or_default(), error }
            }
            posted @ (Posted::Again { .. } | Posted::GivenUp { .. } | Posted::Taken) => posted,
        };
        (posted, !is_away)
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("name", &self.name).finish_non_exhaustive()
    }
}

/// The address, if requests can go there: names and passwords in it would be sent in a header that nobody sees.
pub fn find_url(text: &str) -> Option<reqwest::Url> {
    let url = reqwest::Url::parse(text.trim()).ok()?;
    let is_web = matches!(url.scheme(), "http" | "https") && url.has_host();
    let is_plain = url.username().is_empty() && url.password().is_none();
    (is_web && is_plain && url.fragment().is_none()).then_some(url)
}

/// Whether a refusal is about now and not about the notice.
fn passes(status: StatusCode) -> bool {
    status.is_server_error() || matches!(status.as_u16(), 408 | 409 | 425 | 429)
}

/// Whether a wait that it asks for is for everything that there is for it.
fn asks_for_rest(status: StatusCode) -> bool {
    matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE)
}

fn again(tries: i32, most: i32, wait: Option<Duration>, error: String) -> Posted {
    if tries >= most {
        return Posted::GivenUp { error: format!("given up after {tries} tries: {error}") };
    }
    let after = back_off(tries).max(wait.unwrap_or_default());
    Posted::Again { after, rest: Duration::ZERO, error }
}

#[expect(clippy::disallowed_methods, reason = "receivers compare the time with their own clocks")]
fn now() -> chrono::DateTime<Utc> {
    Utc::now()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_success_is_read_and_looked_for() {
        let zero = Success::parse("/code=0").unwrap();
        assert!(zero.holds(br#"{"code":0,"msg":"success"}"#));
        for body in ["", "[]", r#"{"code":"0"}"#, r#"{"code":19001}"#] {
            assert!(!zero.holds(body.as_bytes()), "{body}");
        }
        assert!(Success::parse("/a/b = ok").unwrap().holds(br#"{"a":{"b":"ok"}}"#));
        for bad in ["", "/code", "code=0"] {
            assert_eq!(Success::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_header_has_a_name_and_a_value_and_does_not_print() {
        let header = Header::parse("Authorization: Bearer a:b").unwrap();
        assert_eq!(
            (header.name.as_str(), header.value.as_bytes()),
            ("authorization", &b"Bearer a:b"[..])
        );
        assert!(!format!("{header:?}").contains("Bearer"));
        for bad in ["", "Authorization", "a b: c", "x:", "x: a\nb", "Content-Type: text/plain"] {
            assert!(Header::parse(bad).is_none(), "{bad}");
        }
    }

    #[test]
    fn an_address_is_a_plain_one() {
        assert!(find_url("https://hooks.example/a?b=c").is_some());
        for bad in ["", "hooks.example", "ftp://a", "https://a:b@c", "https://a/#b", "http://"] {
            assert!(find_url(bad).is_none(), "{bad}");
        }
    }

    #[test]
    fn what_passes_is_tried_long_and_what_is_refused_is_not() {
        for (status, is_long) in [
            (500, true),
            (503, true),
            (429, true),
            (409, true),
            (400, false),
            (404, false),
            (302, false),
        ] {
            assert_eq!(passes(StatusCode::from_u16(status).unwrap()), is_long, "{status}");
        }
        let tried = |tries, most| again(tries, most, Some(Duration::from_secs(9)), "no".to_owned());
        assert_eq!(
            tried(1, 5),
            Posted::Again {
                after: Duration::from_secs(9),
                rest: Duration::ZERO,
                error: "no".to_owned()
            }
        );
        assert_eq!(tried(5, 5), Posted::GivenUp { error: "given up after 5 tries: no".to_owned() });
    }
}
