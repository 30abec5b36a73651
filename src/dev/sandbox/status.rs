//! Delivery statuses: what becomes of accepted messages, told to a webhook as Meta tells it.
//!
//! In come accepted messages and looks at the phone; out go signed posts, each repeated until it is answered with 200.
//! Nothing is told while no webhook is set. A message is read when its chat is opened on the phone.
//! The body is written as Meta writes it, with everything that is not ASCII escaped, and slashes too.

use std::{
    fmt::Write as _,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use serde_json::{Value, json};
use tokio::time::sleep;

use super::{
    Sandbox,
    fault::{StatusFault, WhatsappFault},
    journal::ENTRIES_MAX,
    setting::Setting,
    whatsapp::{GraphError, WhatsappMessage, digits},
};
use crate::notify::signature::sign;

/// Between two tries to tell something; it doubles from the one to the other.
const PAUSE_MIN: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(10);

/// What a status tells of, beside the status.
#[derive(Clone)]
struct Subject {
    id: String,
    phone_number_id: String,
    to: String,
    word: Option<String>,
}

/// The messages that have arrived and were not read, oldest first.
#[derive(Default)]
pub struct Unread(Mutex<Vec<Subject>>);

impl Unread {
    fn add(&self, subject: Subject) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.push(subject);
        if kept.len() > ENTRIES_MAX {
            kept.remove(0);
        }
    }

    fn take(&self, to: &str) -> Vec<Subject> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.extract_if(.., |subject| subject.to == to).collect()
    }
}

/// Begins to tell what becomes of a message that was accepted.
pub fn begin(sandbox: &Arc<Sandbox>, message: &WhatsappMessage, fault: &WhatsappFault) {
    let Some(id) = message.id.clone() else { return };
    let subject = Subject {
        id,
        phone_number_id: message.phone_number_id.clone(),
        to: digits(&message.to),
        word: message.biz_opaque_callback_data.clone(),
    };
    let sandbox = Arc::clone(sandbox);
    let (how, failure) = (fault.statuses, fault.fail_code);
    tokio::spawn(async move {
        let stop = sandbox.stop.clone();
        stop.run_until_cancelled(run(&sandbox, subject, how, failure)).await;
    });
}

/// What happens after a message is accepted, up to its arrival or failure.
async fn run(sandbox: &Sandbox, subject: Subject, how: Option<StatusFault>, failure: Option<u32>) {
    let mut statuses = match (how, failure) {
        (Some(StatusFault::Never), _) => return,
        (_, Some(code)) => vec![status(sandbox, &subject, "sent"), failed(sandbox, &subject, code)],
        (Some(StatusFault::Reverse), None) => vec!["read", "delivered", "sent"]
            .into_iter()
            .map(|word| status(sandbox, &subject, word))
            .collect(),
        (Some(StatusFault::Repeat) | None, None) => {
            vec![status(sandbox, &subject, "sent"), status(sandbox, &subject, "delivered")]
        }
    };
    if how == Some(StatusFault::Repeat) {
        statuses = statuses.into_iter().flat_map(|one| [one.clone(), one]).collect();
    }
    for one in statuses {
        sleep(Duration::from_millis(sandbox.settings.now().status_ms)).await;
        tell(sandbox, &subject, one).await;
    }
    if failure.is_none() && how != Some(StatusFault::Reverse) {
        sandbox.unread.add(subject);
    }
}

/// Tells that whatever has arrived in a chat is read now.
pub fn read_chat(sandbox: &Arc<Sandbox>, to: &str) {
    for subject in sandbox.unread.take(&digits(to)) {
        let sandbox = Arc::clone(sandbox);
        tokio::spawn(async move {
            let stop = sandbox.stop.clone();
            let read = status(&sandbox, &subject, "read");
            stop.run_until_cancelled(tell(&sandbox, &subject, read)).await;
        });
    }
}

/// Posts a status until somebody answers with 200, or no webhook is set any more.
async fn tell(sandbox: &Sandbox, subject: &Subject, status: Value) {
    let mut pause = PAUSE_MIN;
    loop {
        let setting = sandbox.settings.now();
        if setting.webhook_url.is_empty() || post(sandbox, &setting, subject, &status).await {
            return;
        }
        sleep(pause).await;
        pause = (pause * 2).min(PAUSE_MAX);
    }
}

async fn post(sandbox: &Sandbox, setting: &Setting, subject: &Subject, status: &Value) -> bool {
    let body = json!({"object": "whatsapp_business_account", "entry": [{"id": "0", "changes": [{
    "field": "messages", "value": {
        "messaging_product": "whatsapp",
        "metadata": {
            "display_phone_number": "15550783881", "phone_number_id": subject.phone_number_id},
        "statuses": [status],
    }}]}]});
    let body = escape(&body.to_string());
    let request = sandbox
        .http
        .post(&setting.webhook_url)
        .header("content-type", "application/json")
        .header("user-agent", "facebookexternalua")
        .header("x-hub-signature-256", sign(&setting.app_secret.as_str().into(), body.as_bytes()));
    match request.body(body).send().await {
        Ok(answer) => answer.status() == 200,
        Err(error) => {
            tracing::debug!(error = &error as &dyn std::error::Error, "the webhook did not answer");
            false
        }
    }
}

fn status(sandbox: &Sandbox, subject: &Subject, word: &str) -> Value {
    let mut status = json!({
        "id": subject.id, "status": word, "recipient_id": subject.to,
        "timestamp": sandbox.settings.time().timestamp().to_string(),
    });
    if let Some(data) = &subject.word {
        status["biz_opaque_callback_data"] = data.as_str().into();
    }
    if word == "sent" {
        status["pricing"] = json!({"billable": true, "pricing_model": "PMP", "type": "regular", "category": "utility"});
    }
    status
}

fn failed(sandbox: &Sandbox, subject: &Subject, code: u32) -> Value {
    let title = GraphError::title(code);
    let mut status = status(sandbox, subject, "failed");
    status["errors"] = json!([{
        "code": code, "title": title, "message": title,
        "error_data": {"details": "a scripted fault"},
        "href": "/documentation/business-messaging/whatsapp/support/error-codes",
    }]);
    status
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
mod tests {
    use super::*;

    #[test]
    fn bodies_are_escaped_as_meta_does_and_mean_the_same() {
        let value = json!({"a/b": "ä 任 🎉", "c": "x\\/\n"});
        let escaped = escape(&value.to_string());
        assert!(escaped.is_ascii() && escaped.contains(r"\u00e4 \u4efb \ud83c\udf89"), "{escaped}");
        assert!(escaped.contains(r"a\/b"), "{escaped}");
        let read: Value = serde_json::from_str(&escaped).expect("it is JSON");
        assert_eq!(read, value);
    }

    #[test]
    fn only_what_arrived_in_a_chat_is_read_with_it_and_once() {
        let unread = Unread::default();
        for to in ["1", "2", "1"] {
            let subject = Subject {
                id: to.into(),
                phone_number_id: String::new(),
                to: to.into(),
                word: None,
            };
            unread.add(subject);
        }
        assert_eq!(
            [unread.take("1").len(), unread.take("1").len(), unread.take("2").len()],
            [2, 0, 1]
        );
    }
}
