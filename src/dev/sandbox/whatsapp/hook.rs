//! The webhook: posts what happens as Meta posts it.
//! In come the parts of a body; out go signed posts, each repeated until it is answered with 200 or a week is over.
//! Nothing is told while no webhook is set.
//! The body is written as Meta writes it, with everything that is not ASCII escaped, and slashes too.

use std::{fmt::Write as _, sync::Arc, time::Duration};

use chrono::TimeDelta;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::super::Sandbox;
use crate::notify::signature::sign;

/// The account's id, and its number as people see it.
const ACCOUNT: &str = "102290129340398";
pub const DISPLAY_NUMBER: &str = "15550783881";
/// Between two tries to tell something; it doubles from the one to the other.
const PAUSE_MIN: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(10);
/// After so long a time nothing is told any more, by the sandbox's clock.
const GIVE_UP: TimeDelta = TimeDelta::days(7);

/// What is told of messages, without what is told.
pub fn about(phone_number_id: &str) -> Value {
    json!({"messaging_product": "whatsapp", "metadata": {
        "display_phone_number": DISPLAY_NUMBER, "phone_number_id": phone_number_id}})
}

/// A person by all the names that may be told: without the number, if people hide theirs.
pub fn contact(sandbox: &Sandbox, person: &str, hides_number: bool) -> Value {
    let mut contact = json!({"user_id": sandbox.whatsapp.people.user_id(person)});
    if !hides_number && person.starts_with('+') {
        contact["wa_id"] = super::digits(person).into();
    }
    contact
}

/// Tells something; answers what the first try was answered with, if anybody answered.
///
/// What is not answered with 200 is told again in the background.
pub async fn tell(sandbox: &Arc<Sandbox>, field: &str, value: &Value) -> Option<u16> {
    if sandbox.settings.now().webhook_url.is_empty() {
        return None;
    }
    let mut entry = json!({"id": ACCOUNT, "changes": [{"field": field, "value": value}]});
    if field != "messages" {
        // Messages have a time of their own.
        entry["time"] = sandbox.settings.time().timestamp().into();
    }
    let body = json!({"object": "whatsapp_business_account", "entry": [entry]});
    let body = escape(&body.to_string());
    let answer = post(sandbox, body.clone()).await;
    if answer != Some(200) {
        let sandbox = Arc::clone(sandbox);
        tokio::spawn(async move {
            let stop = sandbox.stop.clone();
            stop.run_until_cancelled(tell_again(&sandbox, body)).await;
        });
    }
    answer
}

async fn tell_again(sandbox: &Sandbox, body: String) {
    let begun_at = sandbox.settings.time();
    let mut pause = PAUSE_MIN;
    loop {
        sleep(pause).await;
        let is_over = sandbox.settings.time() - begun_at > GIVE_UP;
        if is_over || sandbox.settings.now().webhook_url.is_empty() {
            return;
        }
        if post(sandbox, body.clone()).await == Some(200) {
            return;
        }
        pause = (pause * 2).min(PAUSE_MAX);
    }
}

async fn post(sandbox: &Sandbox, body: String) -> Option<u16> {
    let setting = sandbox.settings.now();
    let signature = sign(&setting.app_secret.as_str().into(), body.as_bytes());
    let request = sandbox
        .http
        .post(&setting.webhook_url)
        .header("content-type", "application/json")
        .header("user-agent", "facebookexternalua")
        .header("x-hub-signature-256", signature);
    match request.body(body).send().await {
        Ok(answer) => Some(answer.status().as_u16()),
        Err(error) => {
            let error = error.without_url();
            tracing::debug!(error = &error as &dyn std::error::Error, "the webhook did not answer");
            None
        }
    }
}

/// JSON as Meta writes it: only ASCII, and no bare slash.
fn escape(json: &str) -> String {
    let mut escaped = String::with_capacity(json.len());
    for letter in json.chars() {
        if letter == '/' {
            escaped.push_str("\\/");
        } else if letter.is_ascii() {
            escaped.push(letter);
        } else {
            for unit in letter.encode_utf16(&mut [0; 2]) {
                write!(escaped, "\\u{unit:04x}").expect("a string takes all that is written");
            }
        }
    }
    escaped
}

#[cfg(test)]
mod tests;
