//! How the sandbox behaves when nothing goes wrong, and what time it is there.
//! In comes JSON that changes some of the settings; out go all of them.
//! Its clock can be put ahead, so that what takes hours or weeks can be tried at once.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::{
    Json,
    extract::State,
    http::StatusCode,
    response::{IntoResponse as _, Response},
};
use chrono::{DateTime, TimeDelta, Utc};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::Sandbox;

/// What can be set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Setting {
    /// The shortest prefix that is cached.
    pub cache_min_tokens: u64,
    /// How long a batch takes.
    pub batch_ms: u64,
    /// How far the sandbox's clock is ahead of the machine's.
    pub clock_ahead_seconds: u32,
    /// Where deliveries and what people write are told; empty for nowhere.
    pub webhook_url: String,
    /// The app's secret, with which they are signed.
    pub app_secret: String,
    /// How long each status takes to come.
    pub status_ms: u64,
    /// The only token that may send; empty for any.
    pub token: String,
    /// A token whose time is over.
    pub expired_token: String,
    /// What becomes of a message to somebody who has not written for 24 hours.
    pub window: Window,
    /// Whether one person may be written to only every six seconds, but for bursts.
    pub pair_limit: bool,
    /// Whether every link is looked at by machines before its message arrives.
    pub link_previews: bool,
    /// Whether people hide their numbers, and are known by their user ids.
    pub user_id_only: bool,
    /// Where the links of the first templates lead; if empty, to where the webhook is.
    pub public_url: String,
}

/// What becomes of a message, other than a template, to somebody who has not written for 24 hours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Window {
    /// It arrives, as if everybody had just written.
    #[default]
    Open,
    /// It is accepted, and fails.
    Fail,
    /// It is refused.
    Refuse,
}

impl Setting {
    /// Where the links of the first templates lead.
    pub fn public_url(&self) -> String {
        let named = [&self.public_url, &self.webhook_url].into_iter().find(|url| !url.is_empty());
        let url = named.map_or("http://127.0.0.1:8080", String::as_str);
        url.trim_end_matches('/').trim_end_matches("/webhook/whatsapp").to_owned()
    }
}

impl Default for Setting {
    fn default() -> Self {
        Self {
            cache_min_tokens: 512,
            batch_ms: 1000,
            clock_ahead_seconds: 0,
            webhook_url: String::new(),
            app_secret: String::new(),
            status_ms: 200,
            token: String::new(),
            expired_token: String::new(),
            window: Window::Open,
            pair_limit: false,
            link_previews: false,
            user_id_only: false,
            public_url: String::new(),
        }
    }
}

/// The settings of one sandbox.
#[derive(Default)]
pub struct Settings(Mutex<Setting>);

impl Settings {
    /// The settings as they are now.
    pub fn now(&self) -> Setting {
        self.lock().clone()
    }

    /// The time in the sandbox.
    pub fn time(&self) -> DateTime<Utc> {
        machine_time() + TimeDelta::seconds(self.lock().clock_ahead_seconds.into())
    }

    /// Changes the named settings, or none of them if any cannot be read.
    fn change(&self, changes: Map<String, Value>) -> Result<Setting, serde_json::Error> {
        let mut setting = self.lock();
        let mut all = serde_json::to_value(&*setting)?;
        for (name, value) in changes {
            all[name] = value;
        }
        *setting = Setting::deserialize(all)?;
        Ok(setting.clone())
    }

    /// Puts the clock further ahead, or says that it would go beyond its end.
    fn advance(&self, seconds: u32) -> Result<Setting, String> {
        let mut setting = self.lock();
        let ahead = setting.clock_ahead_seconds.checked_add(seconds);
        let too_far = || "advance_seconds: the clock does not go so far".to_owned();
        setting.clock_ahead_seconds = ahead.ok_or_else(too_far)?;
        Ok(setting.clone())
    }

    fn lock(&self) -> MutexGuard<'_, Setting> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[expect(clippy::disallowed_methods, reason = "the sandbox plays other machines, with own clocks")]
fn machine_time() -> DateTime<Utc> {
    Utc::now()
}

/// `GET /_sandbox/settings`
pub async fn show(State(sandbox): State<Arc<Sandbox>>) -> Json<Setting> {
    Json(sandbox.settings.now())
}

/// `POST /_sandbox/settings`
pub async fn change(State(sandbox): State<Arc<Sandbox>>, body: String) -> Response {
    let changed = serde_json::from_str(&body).and_then(|changes| sandbox.settings.change(changes));
    match changed {
        Ok(setting) => Json(setting).into_response(),
        Err(error) => {
            (StatusCode::BAD_REQUEST, Json(json!({"error": error.to_string()}))).into_response()
        }
    }
}

/// How far the clock is to go.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Advance {
    advance_seconds: u32,
}

/// `POST /_sandbox/clock`
pub async fn advance(State(sandbox): State<Arc<Sandbox>>, body: String) -> Response {
    let asked: Result<Advance, _> = serde_json::from_str(&body);
    let asked = asked.map_err(|error| error.to_string());
    match asked.and_then(|asked| sandbox.settings.advance(asked.advance_seconds)) {
        Ok(setting) => Json(setting).into_response(),
        Err(error) => (StatusCode::BAD_REQUEST, Json(json!({"error": error}))).into_response(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_named_changes_and_a_misspelt_name_changes_nothing() {
        let settings = Settings::default();
        let change = |changes: Value| settings.change(changes.as_object().unwrap().clone());
        let changed = change(json!({"batch_ms": 0})).unwrap();
        assert_eq!(changed, Setting { batch_ms: 0, ..Setting::default() });
        change(json!({"batch_ms": 5, "batch": 1})).unwrap_err();
        assert_eq!(settings.now(), changed);
    }

    #[test]
    fn the_clock_goes_ahead_step_by_step() {
        let settings = Settings::default();
        settings.advance(60).unwrap();
        assert_eq!(settings.advance(3600).unwrap().clock_ahead_seconds, 3660);
        settings.advance(u32::MAX).unwrap_err();
        assert_eq!(settings.now().clock_ahead_seconds, 3660);
    }

    #[test]
    fn templates_lead_to_where_the_webhook_is_unless_told_otherwise() {
        let of = |webhook_url: &str, public_url: &str| {
            let [webhook_url, public_url] = [webhook_url, public_url].map(str::to_owned);
            Setting { webhook_url, public_url, ..Setting::default() }.public_url()
        };
        assert_eq!(of("", ""), "http://127.0.0.1:8080");
        assert_eq!(of("http://a.example/lh/webhook/whatsapp", ""), "http://a.example/lh");
        assert_eq!(
            of("http://a.example/webhook/whatsapp", "https://b.example/"),
            "https://b.example"
        );
    }
}
