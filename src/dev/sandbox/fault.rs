//! Faults, scripted over HTTP: what goes wrong with which requests, and how often.
//! In comes JSON that replaces one section or both; out goes, per request, the fault that strikes it.
//! A fault with `times` is used up by that many requests; without, it strikes until it is replaced.
//! Whoever waits on a hold is released by the next change of its section, whatever that change is.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::{
    Json,
    extract::State,
    http::StatusCode,
    response::{IntoResponse as _, Response},
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use tokio::sync::watch;

use super::{Sandbox, whatsapp::digits};

/// What goes wrong with a request to the Messages API; everything left out goes well.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ModelFault {
    /// Wait this long before the first byte of the answer.
    pub delay_ms: Option<u64>,
    /// Wait before the first byte until the section is changed.
    pub hold: bool,
    /// Answer with this error status.
    pub status: Option<u16>,
    /// The error's type; by default the one that belongs to the status.
    pub error_type: Option<String>,
    /// The error's `details.error_code`.
    pub error_code: Option<String>,
    /// The error's `retry-after` header.
    pub retry_after_seconds: Option<u64>,
    /// How many more requests this strikes; without it, all.
    pub times: Option<u64>,
    /// Strike only requests whose last user text has this in it.
    pub matching: Option<String>,
    /// Wait this long before each event of a stream.
    pub event_delay_ms: Option<u64>,
    /// Wait after this many events until the section is changed.
    pub hold_after_events: Option<usize>,
    /// Cut the connection after this many events.
    pub cut_after_events: Option<usize>,
    /// End the stream in good order, but too early, after this many events.
    pub end_after_events: Option<usize>,
    /// Send an `error` event after this many events, and end.
    pub error_after_events: Option<usize>,
    /// Send nothing more after this many events, and keep the connection open.
    pub silent_after_events: Option<usize>,
    /// Stop for this reason instead of the natural one.
    pub stop_reason: Option<String>,
}

/// What goes wrong with a request to the `WhatsApp` Cloud API.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct WhatsappFault {
    /// Wait this long before the answer; the message is accepted first.
    pub delay_ms: Option<u64>,
    /// Refuse with this status; by default the one seen with the code.
    pub status: Option<u16>,
    /// Refuse with this error code; by default 131000.
    pub code: Option<u32>,
    /// How many more requests this strikes; without it, all.
    pub times: Option<u64>,
    /// Strike only messages to this number.
    pub recipient: Option<String>,
    /// Close the connection without an answer.
    pub drop: Option<Moment>,
}

/// Whether a connection is closed before or after the message is accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Moment {
    /// The message is lost.
    Before,
    /// The message is delivered, but its sender is not told.
    After,
}

/// The scripted faults of both services.
#[derive(Default)]
pub struct Faults {
    model: Section<ModelFault>,
    whatsapp: Section<WhatsappFault>,
}

struct Section<F> {
    faults: Mutex<Vec<F>>,
    changed: watch::Sender<()>,
}

impl<F> Default for Section<F> {
    fn default() -> Self {
        Self { faults: Mutex::new(Vec::new()), changed: watch::Sender::new(()) }
    }
}

/// The fault that strikes a request, and what releases the request from a hold.
pub struct Strike<F> {
    /// What goes wrong.
    pub fault: F,
    changed: watch::Receiver<()>,
}

impl<F> Strike<F> {
    /// Waits until the section of the fault is changed.
    pub async fn released(&mut self) {
        // An error means that the sandbox is gone, which releases as well.
        let _ = self.changed.changed().await;
    }
}

impl Faults {
    /// The fault for a model request with this last user text; a harmless one if none is scripted.
    pub fn strike_model(&self, last_user_text: &str) -> Strike<ModelFault> {
        let fits = |text: &String| last_user_text.contains(text.as_str());
        self.model.strike(|fault| {
            fault.matching.as_ref().is_none_or(fits) && has_times_left(&mut fault.times)
        })
    }

    /// The fault for a message to this number; a harmless one if none is scripted.
    pub fn strike_whatsapp(&self, to: &str) -> Strike<WhatsappFault> {
        let fits = |recipient: &String| digits(recipient) == digits(to);
        self.whatsapp.strike(|fault| {
            fault.recipient.as_ref().is_none_or(fits) && has_times_left(&mut fault.times)
        })
    }

    fn show(&self) -> Value {
        json!({"model": *self.model.lock(), "whatsapp": *self.whatsapp.lock()})
    }

    /// Replaces the named sections, or nothing at all if any of it cannot be read.
    pub fn replace(&self, script: Value) -> Result<(), String> {
        let Value::Object(mut script) = script else {
            return Err("the body must be a JSON object".to_owned());
        };
        let model = script.remove("model").map(|value| read("model", value)).transpose()?;
        let whatsapp =
            script.remove("whatsapp").map(|value| read("whatsapp", value)).transpose()?;
        if let Some(name) = script.keys().next() {
            return Err(format!("unknown field `{name}`, expected `model` or `whatsapp`"));
        }
        let statuses = model.iter().flatten().filter_map(|fault: &ModelFault| fault.status);
        let others = whatsapp.iter().flatten().filter_map(|fault: &WhatsappFault| fault.status);
        if let Some(status) = statuses.chain(others).find(|status| !(400..=599).contains(status)) {
            return Err(format!("status {status} is no error; use 400 to 599"));
        }
        if let Some(faults) = model {
            self.model.replace(faults);
        }
        if let Some(faults) = whatsapp {
            self.whatsapp.replace(faults);
        }
        Ok(())
    }

    fn clear(&self) {
        self.model.replace(Vec::new());
        self.whatsapp.replace(Vec::new());
    }
}

impl<F: Clone + Default> Section<F> {
    fn strike(&self, mut chosen: impl FnMut(&mut F) -> bool) -> Strike<F> {
        // Subscribed under the lock: a change that comes later always releases.
        let mut faults = self.lock();
        let changed = self.changed.subscribe();
        let struck = faults.iter_mut().find_map(|fault| chosen(fault).then(|| fault.clone()));
        let fault = struck.unwrap_or_default();
        Strike { fault, changed }
    }

    fn replace(&self, faults: Vec<F>) {
        let mut kept = self.lock();
        *kept = faults;
        self.changed.send_replace(());
    }

    fn lock(&self) -> MutexGuard<'_, Vec<F>> {
        self.faults.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Uses up one of the times that are left, if any are.
fn has_times_left(times: &mut Option<u64>) -> bool {
    match times {
        None => true,
        Some(0) => false,
        Some(left) => {
            *left -= 1;
            true
        }
    }
}

/// One fault, a list of them, or null for none.
fn read<F: DeserializeOwned>(section: &str, value: Value) -> Result<Vec<F>, String> {
    let values = match value {
        Value::Null => Vec::new(),
        Value::Array(values) => values,
        one @ (Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_)) => {
            vec![one]
        }
    };
    let one = |value| {
        serde_path_to_error::deserialize(value)
            .map_err(|error| format!("{section}: {}: {}", error.path().clone(), error.into_inner()))
    };
    values.into_iter().map(one).collect()
}

/// `GET /_sandbox/faults`
pub async fn show(State(sandbox): State<Arc<Sandbox>>) -> Json<Value> {
    Json(sandbox.faults.show())
}

/// `POST /_sandbox/faults`
pub async fn replace(State(sandbox): State<Arc<Sandbox>>, body: String) -> Response {
    let script = serde_json::from_str(&body).map_err(|error| format!("not JSON: {error}"));
    match script.and_then(|script| sandbox.faults.replace(script)) {
        Ok(()) => Json(sandbox.faults.show()).into_response(),
        Err(error) => (StatusCode::BAD_REQUEST, Json(json!({"error": error}))).into_response(),
    }
}

/// `DELETE /_sandbox/faults`
pub async fn clear(State(sandbox): State<Arc<Sandbox>>) -> Json<Value> {
    sandbox.faults.clear();
    Json(sandbox.faults.show())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_strikes_as_often_as_it_says_and_then_the_next_one_does() {
        let faults = Faults::default();
        let script =
            json!({"model": [{"status": 529, "times": 1, "matching": "x"}, {"hold": true}]});
        faults.replace(script).unwrap();
        assert!(faults.strike_model("no").fault.hold);
        assert_eq!(faults.strike_model("axb").fault.status, Some(529));
        assert!(faults.strike_model("axb").fault.hold);
    }

    #[test]
    fn a_misspelt_field_is_named_and_changes_nothing() {
        let faults = Faults::default();
        faults.replace(json!({"whatsapp": {"code": 131_056, "recipient": "+1 555"}})).unwrap();
        for script in [
            json!({"whatsapp": null, "model": {"delay": 1}}),
            json!({"modell": {}, "delay": 1}),
            json!({"model": {"status": 200}}),
        ] {
            let error = faults.replace(script).unwrap_err();
            assert!(error.contains("delay") || error.contains("200"), "{error}");
        }
        assert_eq!(faults.strike_whatsapp("+1555").fault.code, Some(131_056));
        assert_eq!(faults.strike_whatsapp("+1556").fault, WhatsappFault::default());
    }
}
