//! The sending number: whether Meta knows it, and lets this token use it.
//!
//! In come the settings of the channel; out comes what Meta shows of the number, or its refusal in words without a secret.
//! Nothing is sent to anybody.

use std::error::Error as _;
use std::net::IpAddr;
use std::time::Duration;

use reqwest::redirect::Policy;
use secrecy::ExposeSecret as _;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::WhatsAppSettings;
use super::refusal::Refusal;
use crate::domain::approval::mask;

/// Meta answers this at once; whoever asks does not want to wait.
const LONGEST_LOOK: Duration = Duration::from_secs(10);

/// The number as Meta shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Number {
    /// Its last digits.
    pub masked: String,
    /// The name that people see.
    pub name: String,
    /// `GREEN`, `YELLOW` or `RED`, or what else Meta says.
    pub quality: String,
    /// `CONNECTED` if it can send; empty if Meta does not say.
    pub status: String,
}

#[derive(Deserialize)]
struct Shown {
    display_phone_number: String,
    #[serde(default)]
    verified_name: String,
    #[serde(default)]
    quality_rating: String,
    #[serde(default)]
    status: String,
}

/// Asks Meta for the sending number.
pub async fn look_up(settings: &WhatsAppSettings) -> Result<Number, String> {
    let fields = "id,display_phone_number,verified_name,quality_rating,status";
    let shown: Shown =
        ask(settings, settings.phone_number_id.trim(), &[("fields", fields)]).await?;
    let digits: String = shown.display_phone_number.chars().filter(char::is_ascii_digit).collect();
    Ok(Number {
        masked: mask(&format!("+{digits}")),
        name: shown.verified_name,
        quality: shown.quality_rating,
        status: shown.status,
    })
}

/// What Meta shows at a path of the Graph API, or its refusal in words without a secret.
pub(super) async fn ask<T: DeserializeOwned>(
    settings: &WhatsAppSettings,
    path: &str,
    query: &[(&str, &str)],
) -> Result<T, String> {
    let base_url = settings.base_url.trim().trim_end_matches('/');
    let version = settings.graph_version.trim();
    let url = reqwest::Url::parse(&format!("{base_url}/{version}/{path}"));
    let mut url = url.map_err(|error| format!("the address of the Graph API: {error}"))?;
    url.query_pairs_mut().extend_pairs(query);
    let mut builder = reqwest::Client::builder()
        .user_agent(concat!("longhaul/", env!("CARGO_PKG_VERSION")))
        .timeout(LONGEST_LOOK)
        .redirect(Policy::none());
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    if host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback()) {
        builder = builder.no_proxy();
    }
    let client = builder.build().map_err(|error| error.to_string())?;
    let token = settings.token.expose_secret().trim();
    let answer = client.get(url).bearer_auth(token).send().await.map_err(in_words)?;
    let (status, headers) = (answer.status(), answer.headers().clone());
    let body = answer.bytes().await.map_err(in_words)?;
    if !status.is_success() {
        return Err(Refusal::read(status, &headers, &body, token).words);
    }
    serde_json::from_slice(&body).map_err(|_unread| "what answers is not the Graph API".to_owned())
}

/// An error of the connection with its causes and without the address.
fn in_words(error: reqwest::Error) -> String {
    let error = error.without_url();
    let mut words = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        words = format!("{words}: {cause}");
        source = cause.source();
    }
    words
}
