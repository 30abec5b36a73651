//! Every form of every notice, against Meta's own description of what it takes.

use super::form::{forms, templates, told};
use chrono::DateTime;

use super::*;
use crate::notify::message::Address;
use crate::notify::text::answer::tests::every;
use crate::notify::text::answer::{say, write};

const SCHEMA: &str = include_str!("../../../tests/it/fixture/whatsapp_message.json");

fn faults(message: &Value) -> Vec<String> {
    let schema = serde_json::from_str(SCHEMA).expect("the schema is JSON");
    let validator = jsonschema::validator_for(&schema).expect("it is a schema");
    validator.iter_errors(message).map(|error| error.to_string()).collect()
}

#[tokio::test]
async fn every_form_of_every_notice_is_as_meta_describes_it() {
    let kinds = [
        NoticeKind::ApprovalRequested,
        NoticeKind::ApprovalReminder,
        NoticeKind::ApprovalEscalated,
        NoticeKind::Completed,
        NoticeKind::Failed,
        NoticeKind::Cancelled,
        NoticeKind::OutOfBudget,
        NoticeKind::DailyBudget,
    ];
    let mut seen = Vec::new();
    for kind in kinds {
        for request_form in [RequestForm::Text, RequestForm::Link, RequestForm::Buttons] {
            for template_buttons in [TemplateButtons::Urls, TemplateButtons::Replies] {
                let settings = FormSettings { request_form, template_buttons, ..templates() };
                let long = "记账 one two\n\n\t three     👨‍👩‍👧‍👦 ".repeat(900);
                let notice = Outgoing {
                    window: Window::Open,
                    note: Some(long.clone()),
                    output: Some(long.clone()),
                    ..notice(kind, "pt-BR")
                };
                // Each form is refused, so that all of them are sent.
                let (bodies, _) = told(settings, vec![error(132_015)], &notice).await;
                seen.extend(forms(&bodies).into_iter().map(str::to_owned));
                for body in &bodies {
                    assert_eq!(faults(body), [""; 0], "{body}");
                }
            }
        }
    }
    seen.sort();
    seen.dedup();
    assert_eq!(seen, ["ask", "ask_2", "button", "cta_url", "tell", "text"]);
}

#[tokio::test]
async fn every_answer_is_as_meta_describes_it() {
    let (address, mut received) = serve(vec![accepted()]).await;
    let sender = sender(&settings(address));
    for language in ["en", "zh", "pt-BR"] {
        for answer in every() {
            let text = write(&answer, say(Some(language), ""), Tz::UTC);
            for to in [Address::Phone(TO), Address::UserId("US.1")] {
                sender.answer(to, &text, "answer", DateTime::UNIX_EPOCH).await;
                let body = received.recv().await.expect("it was sent").body;
                assert_eq!(faults(&body), [""; 0], "{body}");
            }
        }
    }
}

#[test]
fn the_description_sees_what_is_wrong() {
    let base = json!({"messaging_product": "whatsapp", "recipient_type": "individual", "to": TO});
    let with = |change: &Value| {
        let mut message = base.clone();
        if let (Value::Object(message), Value::Object(change)) = (&mut message, change) {
            message.extend(change.clone());
        }
        message
    };
    let good = json!({"type": "text", "text": {"body": "a", "preview_url": false}});
    assert_eq!(faults(&with(&good)), [""; 0]);
    for bad in [
        json!({"type": "text"}),
        json!({"type": "text", "text": {"body": ""}}),
        json!({"type": "text", "text": {"body": "a"}, "recipient": "US.1"}),
        json!({"type": "text", "text": {"body": "a"}, "more": 1}),
        json!({"type": "interactive", "interactive": {"type": "button", "body": {"text": "a"},
            "action": {"buttons": [{"type": "reply", "reply": {"id": "a", "title": "longer than it may be"}}]}}}),
        json!({"type": "template", "template": {"name": "a", "language": {"code": "en"}, "components": [
            {"type": "body", "parameters": [{"type": "text", "text": "a\nb"}]}]}}),
        json!({"type": "template", "template": {"name": "a", "language": {"code": "en"}, "components": [
            {"type": "button", "sub_type": "url", "parameters": [{"type": "text", "text": "a"}]}]}}),
    ] {
        assert!(!faults(&with(&bad)).is_empty(), "{bad}");
    }
}
