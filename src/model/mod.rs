//! Who thinks: the client of the model provider, an HTTP API that streams its answers.
//!
//! In comes a `Call`, out comes a `Reply` or a `ModelError` that says what the caller can do about it.
//! One `ask` is exactly one request: nothing here retries or continues by itself, so that the caller
//! can write each request into its ledger before it leaves.
//! What was seen of an answer can be read from a `Partial`, however the call ends.

pub mod prompt;

mod call;

mod anthropic;

mod sse;

mod stream;

mod block;

mod usage;

mod reply;

mod error;

mod prices;

mod price_file;

#[cfg(test)]
mod tests;

use std::fmt;
use std::net::IpAddr;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use chrono::NaiveDate;
use reqwest::header::{HeaderValue, InvalidHeaderValue};
use reqwest::redirect::Policy;
use secrecy::{ExposeSecret, SecretString};

pub use self::call::{Call, MAX_CONTINUATIONS, Role, Turn, WebSearch};
pub use self::error::{ModelError, Retry};
pub use self::price_file::{Change, LeftOut, ListedPrice, PriceFile, PriceFileError};
pub use self::prices::{Prices, PricesError};
pub use self::reply::{Partial, Reply, Seen};
use crate::domain::money::{ServiceTier, Usage, Usd};

/// `ModelSettings` says where the provider is and how to speak to it.
#[derive(Clone, Debug)]
pub struct ModelSettings {
    /// The provider's address; a path in it is kept as a prefix.
    pub base_url: String,
    /// The key; without one no call can be made.
    pub api_key: Option<SecretString>,
    /// The version of the API.
    pub version: String,
    /// The version of the web search tool.
    pub web_search_tool: String,
    /// How long a connection may take to open.
    pub connect_timeout: Duration,
}

impl Default for ModelSettings {
    fn default() -> Self {
        Self {
            base_url: "https://api.anthropic.com".to_owned(),
            api_key: None,
            version: "2026-10-21".to_owned(),
            web_search_tool: "web_search_20250305".to_owned(),
            connect_timeout: Duration::from_secs(5),
        }
    }
}

/// Model is the provider's client; its clones share one pool of connections.
#[derive(Clone)]
pub struct Model {
    inner: Arc<Inner>,
}

struct Inner {
    client: reqwest::Client,
    url: reqwest::Url,
    api_key: Option<HeaderValue>,
    version: HeaderValue,
    web_search_tool: String,
    /// Read at every answer, and replaced as a whole.
    prices: RwLock<Arc<Prices>>,
}

/// `ModelSetupError` says why the client could not be made from its settings.
#[derive(Debug, thiserror::Error)]
pub enum ModelSetupError {
    /// The base URL cannot be used.
    #[error("the model provider's base url is not an http or https address")]
    BaseUrl,
    /// The API key cannot be sent.
    #[error("the model provider's api key holds characters that no header can carry")]
    ApiKey(#[source] InvalidHeaderValue),
    /// The API version cannot be sent.
    #[error("the model provider's api version holds characters that no header can carry")]
    Version(#[source] InvalidHeaderValue),
    /// The price list cannot be read.
    #[error(transparent)]
    Prices(#[from] PricesError),
    /// The HTTP client cannot be built, mostly because the machine has no CA certificates.
    #[error("the http client could not be built; are the machine's ca-certificates installed?")]
    Client(#[source] reqwest::Error),
}

impl Model {
    /// Makes the client; it opens no connection yet.
    ///
    /// The process must have installed its TLS provider before.
    pub fn new(settings: ModelSettings) -> Result<Self, ModelSetupError> {
        let url = messages_url(&settings.base_url).ok_or(ModelSetupError::BaseUrl)?;
        let mut builder = reqwest::Client::builder()
            .user_agent(concat!("longhaul/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(settings.connect_timeout)
            .tcp_keepalive(Duration::from_mins(1))
            .redirect(Policy::none())
            // The step owns all retries: a layer below it would send requests that no ledger knows.
            .retry(reqwest::retry::never());
        if is_loopback(&url) {
            // A proxy of the environment leads out of the machine and would look for itself here.
            builder = builder.no_proxy();
        }
        let inner = Inner {
            client: builder.build().map_err(ModelSetupError::Client)?,
            url,
            api_key: api_key_header(settings.api_key.as_ref())?,
            version: settings.version.parse().map_err(ModelSetupError::Version)?,
            web_search_tool: settings.web_search_tool,
            prices: RwLock::new(Arc::new(Prices::default_list()?)),
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Whether there is a key to make calls with.
    pub fn is_configured(&self) -> bool {
        self.inner.api_key.is_some()
    }

    /// What the usage of one request cost; `None` if the model, or the way it was served, has no known price.
    pub fn find_cost(
        &self,
        model: &str,
        usage: &Usage,
        tier: ServiceTier,
        on: NaiveDate,
    ) -> Option<Usd> {
        self.prices().find_price(model, on)?.cost(usage, tier)
    }

    /// The prices in force.
    pub fn prices(&self) -> Arc<Prices> {
        let prices = self.inner.prices.read().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(&prices)
    }

    /// Puts other prices in force, for every clone of the client.
    pub fn replace_prices(&self, prices: Prices) {
        let mut inner = self.inner.prices.write().unwrap_or_else(PoisonError::into_inner);
        *inner = Arc::new(prices);
    }
}

impl fmt::Debug for Model {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Model").field("url", &self.inner.url.as_str()).finish_non_exhaustive()
    }
}

fn messages_url(base_url: &str) -> Option<reqwest::Url> {
    let mut url = reqwest::Url::parse(base_url.trim()).ok()?;
    if !matches!(url.scheme(), "http" | "https") {
        return None;
    }
    url.path_segments_mut().ok()?.pop_if_empty().extend(["v1", "messages"]);
    Some(url)
}

fn is_loopback(url: &reqwest::Url) -> bool {
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

fn api_key_header(key: Option<&SecretString>) -> Result<Option<HeaderValue>, ModelSetupError> {
    let Some(key) = key.map(|key| key.expose_secret().trim()).filter(|key| !key.is_empty()) else {
        return Ok(None);
    };
    let mut header: HeaderValue = key.parse().map_err(ModelSetupError::ApiKey)?;
    header.set_sensitive(true);
    Ok(Some(header))
}
