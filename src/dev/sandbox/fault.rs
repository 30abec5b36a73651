//! Faults, scripted over HTTP: what goes wrong with which requests, and how often.
//! In comes JSON that replaces one section or both; out goes, per request, the fault that strikes it.
//! A fault with `times` is used up by that many requests; without, it strikes until it is replaced.
//! Whoever waits on a hold is released by the next change of its section, whatever that change is.

mod rate;

mod model;

#[cfg(test)]
mod tests;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::{
    Json,
    extract::State,
    http::StatusCode,
    response::{IntoResponse as _, Response},
};
use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use tokio::sync::watch;

pub use self::model::{Door, Headers, ModelFault};
use self::rate::Room;
use super::{Sandbox, whatsapp::digits};

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
    /// The error's subcode, such as 463 of a token that has expired.
    pub subcode: Option<u32>,
    /// What the error, or the failed status, says of this case.
    pub details: Option<String>,
    /// The error's `retry-after` header.
    pub retry_after_seconds: Option<u64>,
    /// What the error's `x-business-use-case-usage` header says, in minutes.
    pub regain_access_minutes: Option<u32>,
    /// How many more requests this strikes; without it, all.
    pub times: Option<u64>,
    /// Strike only messages to this number.
    pub recipient: Option<String>,
    /// Close the connection without an answer.
    pub drop: Option<Moment>,
    /// Tell the statuses of the accepted message in another way.
    pub statuses: Option<StatusFault>,
    /// Tell that the accepted message failed, with this error code.
    pub fail_code: Option<u32>,
    /// What the answer says of an accepted template; by default `accepted`.
    pub message_status: Option<Hold>,
}

/// What the answer says of a template that Meta may still keep back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Hold {
    /// It goes out.
    Accepted,
    /// It waits for what others say of the template.
    HeldForQualityAssessment,
    /// Its template is paused.
    Paused,
}

/// How the statuses of a message are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StatusFault {
    /// Each twice.
    Repeat,
    /// The last one first, and read among them.
    Reverse,
    /// Not at all.
    Never,
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
    /// Headers of the answer that come from faults which let the request through.
    pub headers: Headers,
    changed: watch::Receiver<()>,
}

impl<F> Strike<F> {
    /// Waits until the section of the fault is changed.
    pub async fn released(&mut self) {
        // An error means that the sandbox is gone, which releases as well.
        let _ = self.changed.changed().await;
    }

    /// What tells whether the section has been changed since.
    pub fn changes(&self) -> watch::Receiver<()> {
        self.changed.clone()
    }
}

impl Faults {
    /// The fault for a request to the Messages API about this text; a harmless one if none is
    /// scripted.
    pub fn strike_model(&self, on: Door, text: &str, now: DateTime<Utc>) -> Strike<ModelFault> {
        let fits = |part: &String| text.contains(part.as_str());
        let mut headers = Vec::new();
        let mut strike = self.model.strike(|fault| {
            if fault.on != on || !fault.matching.as_ref().is_none_or(fits) {
                return None;
            }
            let told = exceeded(fault, now);
            match told {
                Ok(told) => headers.extend(told),
                Err(told) if has_times_left(&mut fault.times) => {
                    headers.extend(told);
                    return Some(struck(fault));
                }
                Err(_) => {}
            }
            None
        });
        strike.headers = headers;
        strike
    }

    /// The fault for a message to this number; a harmless one if none is scripted.
    pub fn strike_whatsapp(&self, to: &str) -> Strike<WhatsappFault> {
        let fits = |recipient: &String| digits(recipient) == digits(to);
        self.whatsapp.strike(|fault| {
            let fits = fault.recipient.as_ref().is_none_or(fits);
            (fits && has_times_left(&mut fault.times)).then(|| fault.clone())
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
        model.iter().flatten().try_for_each(ModelFault::check)?;
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

impl<F: Default> Section<F> {
    fn strike(&self, chosen: impl FnMut(&mut F) -> Option<F>) -> Strike<F> {
        // Subscribed under the lock: a change that comes later always releases.
        let mut faults = self.lock();
        let changed = self.changed.subscribe();
        let fault = faults.iter_mut().find_map(chosen).unwrap_or_default();
        Strike { fault, headers: Vec::new(), changed }
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

/// Whether a fault that looks at the rate strikes now, and what the answer's headers say of it.
fn exceeded(fault: &mut ModelFault, now: DateTime<Utc>) -> Result<Headers, Headers> {
    if let Some(limit) = fault.per_second {
        let room = fault.rate.admit(limit, now);
        return room.map(|room| room.headers()).map_err(|room| full(fault, &room, now));
    }
    match fault.until_per_second {
        Some(limit) if !fault.rate.exceeds(limit, now) => Ok(Vec::new()),
        _ => Err(Vec::new()),
    }
}

/// The headers of who found no room; when to come back is in whole seconds.
fn full(fault: &ModelFault, room: &Room, now: DateTime<Utc>) -> Headers {
    let mut headers = room.headers();
    if fault.retry_after_seconds.or(fault.retry_after_ms).is_none() {
        let wait = (room.free_at - now).num_milliseconds().max(1);
        headers.push(("retry-after".to_owned(), (wait as u64).div_ceil(1000).to_string()));
    }
    headers
}

/// What strikes: the fault, with the status that its kind implies, and without its count.
fn struck(fault: &ModelFault) -> ModelFault {
    let implied = match (fault.per_second, fault.until_per_second) {
        (Some(_), _) => Some(429),
        (None, Some(_)) => Some(529),
        (None, None) => None,
    };
    let status = fault.status.or(implied);
    ModelFault { status, rate: rate::Rate::default(), ..fault.clone() }
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
