//! Delivery statuses: what becomes of accepted messages.
//! In come accepted messages and looks at the phone; out go statuses, in the journal first and then to the webhook.
//! A message is read when its chat is opened on the phone, after it has arrived.
//! Whoever previews links does it before a message has arrived, so before a person can open one.

use std::{sync::Arc, time::Duration};

use serde::Serialize;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::super::{
    Sandbox,
    fault::{StatusFault, WhatsappFault},
    journal::Entry,
};
use super::{WhatsappMessage, hook, preview, refusal::GraphError};

/// How far a message has come, the least first; a failure gives way to what shows that it was none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// Meta has taken it.
    Accepted,
    /// It is on its way to the phone.
    Sent,
    /// It will not arrive.
    Failed,
    /// It is on the phone.
    Delivered,
    /// Its chat was opened.
    Read,
}

impl Status {
    /// The word for it in a webhook, and on the page.
    pub fn word(self) -> &'static str {
        match self {
            Self::Accepted => "accepted",
            Self::Sent => "sent",
            Self::Failed => "failed",
            Self::Delivered => "delivered",
            Self::Read => "read",
        }
    }
}

/// What a status tells of, beside the status.
#[derive(Clone)]
struct Subject {
    seq: u64,
    id: String,
    phone_number_id: String,
    to: String,
    word: Option<String>,
}

impl Subject {
    fn of(seq: u64, message: &WhatsappMessage) -> Option<Self> {
        Some(Self {
            seq,
            id: message.id.clone()?,
            phone_number_id: message.phone_number_id.clone(),
            to: message.to.clone(),
            word: message.biz_opaque_callback_data.clone(),
        })
    }
}

/// How a message ends that does not arrive.
#[derive(Clone)]
pub struct Failure {
    /// Meta's error code.
    pub code: u32,
    /// What is wrong in this case.
    pub details: String,
    /// Whether Meta tells first that it has sent it.
    pub is_late: bool,
}

/// Begins to tell what becomes of a message that was accepted.
pub fn begin(
    sandbox: &Arc<Sandbox>,
    seq: u64,
    message: &WhatsappMessage,
    fault: &WhatsappFault,
    failure: Option<Failure>,
) {
    let Some(subject) = Subject::of(seq, message) else { return };
    let links = if sandbox.settings.now().link_previews { message.links() } else { Vec::new() };
    let scripted = fault.fail_code.map(|code| Failure {
        code,
        details: fault.details.clone().unwrap_or_else(|| "a scripted fault".to_owned()),
        is_late: true,
    });
    let (sandbox, how, failure) = (Arc::clone(sandbox), fault.statuses, failure.or(scripted));
    tokio::spawn(async move {
        let stop = sandbox.stop.clone();
        let telling = async {
            preview::fetch(&sandbox, seq, &links).await;
            run(&sandbox, &subject, how, failure).await;
        };
        stop.run_until_cancelled(telling).await;
    });
}

/// What happens after a message is accepted, up to its arrival or failure.
async fn run(
    sandbox: &Arc<Sandbox>,
    subject: &Subject,
    how: Option<StatusFault>,
    failure: Option<Failure>,
) {
    let words = match (how, &failure) {
        (Some(StatusFault::Never), _) => return,
        (_, Some(Failure { is_late: false, .. })) => vec![Status::Failed],
        (_, Some(_)) => vec![Status::Sent, Status::Failed],
        (Some(StatusFault::Reverse), None) => vec![Status::Read, Status::Delivered, Status::Sent],
        (Some(StatusFault::Repeat) | None, None) => vec![Status::Sent, Status::Delivered],
    };
    for word in words {
        sleep(Duration::from_millis(sandbox.settings.now().status_ms)).await;
        let times = if how == Some(StatusFault::Repeat) { 2 } else { 1 };
        for _ in 0..times {
            tell(sandbox, subject, word, failure.as_ref()).await;
        }
    }
}

/// Tells that whatever has arrived in a chat is read now.
pub async fn read_chat(sandbox: &Arc<Sandbox>, to: &str) {
    let is_unread = |entry: &Entry<WhatsappMessage>| {
        entry.what.status == Some(Status::Delivered) && entry.what.to == to
    };
    for entry in
        sandbox.whatsapp.sent.look(&super::super::journal::Look::default(), is_unread).await
    {
        let Some(subject) = Subject::of(entry.seq, &entry.what) else { continue };
        // Written down at once, so that a second look tells nothing.
        sandbox.whatsapp.mark(entry.seq, Status::Read, None);
        let sandbox = Arc::clone(sandbox);
        tokio::spawn(async move {
            let stop = sandbox.stop.clone();
            let value = value(&sandbox, &subject, Status::Read, None);
            stop.run_until_cancelled(hook::tell(&sandbox, "messages", &value)).await;
        });
    }
}

async fn tell(
    sandbox: &Arc<Sandbox>,
    subject: &Subject,
    status: Status,
    failure: Option<&Failure>,
) {
    let failure = failure.filter(|_| status == Status::Failed);
    sandbox.whatsapp.mark(subject.seq, status, failure.map(|failure| failure.code));
    let value = value(sandbox, subject, status, failure);
    hook::tell(sandbox, "messages", &value).await;
}

fn value(sandbox: &Sandbox, subject: &Subject, status: Status, failure: Option<&Failure>) -> Value {
    let hides_number = sandbox.settings.now().user_id_only;
    let mut contact = hook::contact(sandbox, &subject.to, hides_number);
    if failure.is_some() && contact["wa_id"].is_string() {
        // As it has been seen of a failure: nobody says who is behind the number.
        contact = json!({"wa_id": contact["wa_id"]});
    }
    let mut told = json!({
        "id": subject.id, "status": status.word(),
        "timestamp": sandbox.settings.time().timestamp().to_string(),
    });
    for (name, told_as) in [("wa_id", "recipient_id"), ("user_id", "recipient_user_id")] {
        if contact[name].is_string() {
            told[told_as] = contact[name].clone();
        }
    }
    if let Some(data) = &subject.word {
        told["biz_opaque_callback_data"] = data.as_str().into();
    }
    if status == Status::Sent {
        told["pricing"] = json!({"billable": true, "pricing_model": "PMP", "type": "regular",
            "category": "utility"});
    }
    if let Some(Failure { code, details, .. }) = failure {
        let title = GraphError::title(*code);
        told["errors"] = json!([{
            "code": code, "title": title, "message": title, "error_data": {"details": details},
            "href": "/documentation/business-messaging/whatsapp/support/error-codes",
        }]);
    }
    let mut value = hook::about(&subject.phone_number_id);
    value["contacts"] = json!([contact]);
    value["statuses"] = json!([told]);
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_later_status_is_higher_and_a_failure_gives_way_to_an_arrival() {
        let order =
            [Status::Accepted, Status::Sent, Status::Failed, Status::Delivered, Status::Read];
        assert!(order.is_sorted());
        for status in order {
            assert_eq!(serde_json::to_value(status).unwrap(), status.word());
        }
    }
}
