//! Who thinks: the client of the model provider, an HTTP API that streams its answers.
//!
//! In comes a `Call`, out comes a `Reply` or a `ModelError` that says what the caller can do about it.
//! One `ask` is exactly one request: nothing here retries or continues by itself, so that the caller
//! can write each request into its ledger before it leaves.
//! What was seen of an answer can be read from a `Partial`, however the call ends.

pub mod prompt;

mod call;

mod client;

mod pool;

mod anthropic;

mod sse;

mod stream;

mod block;

mod usage;

mod reply;

mod error;

mod prices;

mod gate;

mod catalog;

pub mod batch;

mod price_file;

#[cfg(any(test, fuzzing))]
pub mod fuzz;

#[cfg(test)]
mod tests;

use std::fmt;
use std::net::IpAddr;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use chrono::{DateTime, NaiveDate, Utc};
use reqwest::ClientBuilder;
use reqwest::header::{HeaderValue, InvalidHeaderValue};
use secrecy::{ExposeSecret, SecretString};

pub use self::call::{Call, MAX_CONTINUATIONS, Role, Then, Turn, WebSearch};
use self::catalog::Catalog;
use self::client::Maker;
pub use self::error::{ModelError, Retry};
use self::gate::Gates;
pub use self::gate::Pass;
use self::pool::Pool;
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
    /// The version of the web search tool; none: the newest that each model takes.
    pub web_search_tool: Option<String>,
    /// How often the list of models is asked for; none: never.
    pub list_period: Option<Duration>,
    /// How long a connection may take to open.
    pub connect_timeout: Duration,
    /// The most calls on one connection of HTTP/2, of which there are as many as that takes.
    pub streams: usize,
    /// The most calls to one model at once; 0: any number.
    pub concurrency: usize,
}

impl Default for ModelSettings {
    fn default() -> Self {
        Self {
            base_url: "https://api.anthropic.com".to_owned(),
            api_key: None,
            version: "2026-10-21".to_owned(),
            web_search_tool: None,
            list_period: Some(Duration::from_hours(1)),
            connect_timeout: Duration::from_secs(5),
            streams: 100,
            concurrency: 0,
        }
    }
}

/// Model is the provider's client; its clones share one pool of clients.
#[derive(Clone)]
pub struct Model {
    inner: Arc<Inner>,
}

struct Inner {
    pool: Pool,
    url: reqwest::Url,
    count_url: reqwest::Url,
    models_url: reqwest::Url,
    batches_url: reqwest::Url,
    api_key: Option<HeaderValue>,
    version: HeaderValue,
    web_search_tool: Option<String>,
    list_period: Option<Duration>,
    catalog: Catalog,
    /// Read at every answer, and replaced as a whole.
    prices: RwLock<Arc<Prices>>,
    gates: Gates,
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
        Self::adapted(settings, |builder| builder)
    }

    /// The same, with clients that a test adapts to its own provider.
    fn adapted(
        settings: ModelSettings,
        adapt: fn(ClientBuilder) -> ClientBuilder,
    ) -> Result<Self, ModelSetupError> {
        let url = messages_url(&settings.base_url).ok_or(ModelSetupError::BaseUrl)?;
        let mut count_url = url.clone();
        count_url.set_path(&format!("{}/count_tokens", url.path()));
        let mut models_url = url.clone();
        models_url.set_path(&url.path().replace("/v1/messages", "/v1/models"));
        let mut batches_url = url.clone();
        batches_url.set_path(&format!("{}/batches", url.path()));
        let ModelSettings { connect_timeout, streams, .. } = settings;
        let maker = Maker { connect_timeout, streams, is_local: is_loopback(&url), adapt };
        let pool = Pool::new(maker, url.scheme() == "https").map_err(ModelSetupError::Client)?;
        let inner = Inner {
            pool,
            url,
            count_url,
            models_url,
            batches_url,
            api_key: api_key_header(settings.api_key.as_ref())?,
            version: settings.version.parse().map_err(ModelSetupError::Version)?,
            web_search_tool: settings.web_search_tool,
            list_period: settings.list_period,
            catalog: Catalog::default(),
            prices: RwLock::new(Arc::new(Prices::default_list()?)),
            gates: Gates::new(settings.concurrency),
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Whether there is a key to make calls with.
    pub fn is_configured(&self) -> bool {
        self.inner.api_key.is_some()
    }

    /// Lets a call to a model leave, or says when to come back: the provider has said that it is too much, or as many
    /// are under way as may be.
    pub fn enter(&self, model: &str, now: DateTime<Utc>) -> Result<Pass, ModelError> {
        self.inner.gates.enter(model, now).map_err(|left| {
            let message = format!("calls to {model} wait for the model provider to have room");
            let after = left.to_std().unwrap_or_default();
            ModelError { retry: Retry::After(after), ..ModelError::unavailable(&message) }
        })
    }

    /// Whether the model has a price at all.
    pub fn has_price(&self, model: &str) -> bool {
        self.prices().find_price(model, NaiveDate::MAX).is_some()
    }

    /// The most that a call can cost; `None` if the model, or the way it is to be served, has no known price.
    ///
    /// The provider counts the prompt; where it does not answer, a byte counts as a token, of which there are fewer.
    pub async fn worst_case(&self, call: &Call, on: NaiveDate) -> Option<Usd> {
        // Found before it is counted, since nobody needs a count without it.
        let price = *self.prices().find_price(&call.model, on)?;
        let prompt_tokens = self.count_tokens(call).await;
        let searches = call.web_search.as_ref().map_or(0, |search| search.max_uses);
        let searches = i32::try_from(searches).unwrap_or(i32::MAX);
        price.worst_case(prompt_tokens, call.max_tokens.into(), searches, call.tier())
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
