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
    /// Where delivery statuses are told; empty for nowhere.
    pub webhook_url: String,
    /// The app's secret, with which they are signed.
    pub app_secret: String,
    /// How long each status takes to come.
    pub status_ms: u64,
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
}
