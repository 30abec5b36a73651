//! Each rule for a message, as Meta documents it, and the code of who breaks it.

use serde_json::json;

use super::*;

fn sent(change: impl FnOnce(&mut Value)) -> Result<Envelope, u32> {
    let mut body = json!({"messaging_product": "whatsapp", "to": "+1 (650) 555-1234",
        "type": "text", "text": {"body": "hi"}});
    change(&mut body);
    check(&body, &Registry::default(), "http://x.example").map_err(|error| error.code)
}

fn code(change: impl FnOnce(&mut Value)) -> Result<String, u32> {
    sent(change).map(|envelope| envelope.to)
}

fn interactive(part: Value) -> Result<Envelope, u32> {
    sent(|body| {
        body["type"] = json!("interactive");
        body["interactive"] = part;
    })
}

fn buttons(replies: &[(&str, &str)]) -> Result<Envelope, u32> {
    let button =
        |(id, title): &(&str, &str)| json!({"type": "reply", "reply": {"id": id, "title": title}});
    let buttons: Vec<_> = replies.iter().map(button).collect();
    interactive(json!({"type": "button", "header": {"type": "text", "text": "Job 7"},
        "body": {"text": "Ship it?"}, "footer": {"text": "Longhaul"}, "action": {"buttons": buttons}}))
}

fn cta(display_text: &str, url: &str) -> Result<Envelope, u32> {
    interactive(json!({"type": "cta_url", "body": {"text": "Ship it?"}, "action": {
        "name": "cta_url", "parameters": {"display_text": display_text, "url": url}}}))
}

#[test]
fn a_number_may_be_spelt_with_spaces_and_brackets() {
    assert_eq!(code(|_| ()), Ok("+16505551234".to_owned()));
    assert_eq!(code(|body| body["to"] = json!("call me")), Err(131_009));
    assert_eq!(code(|body| body["to"] = json!("0049 30 1234567")), Err(131_009));
    assert_eq!(code(|body| body["to"] = json!(16_505_551_234_i64)), Err(100));
}

#[test]
fn a_person_may_be_named_by_a_user_id_and_a_number_goes_before_it() {
    let id = "US.13491208655302741918";
    assert_eq!(code(|body| body["recipient"] = json!(id)), Ok("+16505551234".to_owned()));
    let without_number = |recipient: &str| {
        code(|body| {
            body.as_object_mut().unwrap().remove("to");
            body["recipient"] = json!(recipient);
        })
    };
    assert_eq!(without_number(id), Ok(id.to_owned()));
    assert_eq!(without_number("13491208655302741918"), Err(131_009));
    assert_eq!(code(|body| body["to"] = Value::Null), Err(100));
}

#[test]
fn a_message_says_that_it_is_one_of_whatsapp() {
    assert_eq!(code(|body| body["messaging_product"] = json!("sms")), Err(100));
    assert_eq!(code(|body| body["messaging_product"] = Value::Null), Err(100));
    assert_eq!(code(|body| body["colour"] = json!("blue")), Err(100));
    assert_eq!(code(|body| body["recipient_type"] = json!("group")), Err(100));
    assert_eq!(code(|body| body["category"] = json!("utility")), Err(100), "no Direct Send");
    assert_eq!(code(|body| body["biz_opaque_callback_data"] = json!("a".repeat(513))), Err(100));
    assert_eq!(code(|body| body["context"] = json!({"id": "wamid.x"})), Err(100));
    assert_eq!(code(|body| body["type"] = json!("poem")), Err(131_051));
    assert_eq!(code(|body| body["type"] = json!("interactive")), Err(100), "its part is missing");
}

#[test]
fn a_text_has_at_most_4096_characters_however_many_bytes() {
    assert!(code(|body| body["text"]["body"] = json!("记".repeat(4096))).is_ok());
    assert_eq!(code(|body| body["text"]["body"] = json!("a".repeat(4097))), Err(100));
    assert_eq!(code(|body| body["text"]["body"] = json!("")), Err(100));
    assert_eq!(code(|body| body["text"]["bdy"] = json!("")), Err(100));
    assert_eq!(code(|body| body["text"]["preview_url"] = json!("yes")), Err(100));
}

#[test]
fn one_to_three_reply_buttons_with_ids_and_titles_of_their_own() {
    let read = buttons(&[("apr:1:ok", "Approve"), ("apr:1:no", "Reject")]).unwrap().reading;
    assert_eq!(read.text(), "Job 7\nShip it?\nLonghaul");
    let shown = serde_json::to_value(&read.buttons).unwrap();
    let expected =
        json!([{"label": "Approve", "id": "apr:1:ok"}, {"label": "Reject", "id": "apr:1:no"}]);
    assert_eq!(shown, expected);
    let (id, title) = ("a".repeat(256), "ä".repeat(20));
    buttons(&[(&id, &title), ("b", "B"), ("c", "C")]).unwrap();
    for (replies, code) in [
        (&[][..], 131_009),
        (&[("a", "A"), ("b", "B"), ("c", "C"), ("d", "D")], 131_009),
        (&[("a", "A"), ("a", "B")], 131_009),
        (&[("a", "A"), ("b", "A")], 131_009),
        (&[(" a", "A")], 131_009),
        (&[("a", "Approve this deployment")], 100),
        (&[("a", "")], 100),
        (&[(&"a".repeat(257), "A")], 100),
    ] {
        assert_eq!(buttons(replies).unwrap_err(), code, "{replies:?}");
    }
}

#[test]
fn the_parts_of_an_interactive_message_have_limits() {
    let with = |header: usize, body: usize, footer: usize| {
        let text = |length: usize| json!({"type": "text", "text": "记".repeat(length)});
        let body = json!({"text": "记".repeat(body)});
        let footer = json!({"text": "记".repeat(footer)});
        let button = json!({"type": "reply", "reply": {"id": "a", "title": "A"}});
        interactive(json!({"type": "button", "header": text(header), "body": body,
            "footer": footer, "action": {"buttons": [button]}}))
    };
    with(60, 1024, 60).unwrap();
    for (header, body, footer) in [(61, 1, 1), (1, 1025, 1), (1, 1, 61), (1, 0, 1)] {
        assert_eq!(with(header, body, footer).unwrap_err(), 100, "{header} {body} {footer}");
    }
    assert_eq!(
        interactive(json!({"type": "list", "body": {"text": "a"}, "action": {}})).unwrap_err(),
        131_009
    );
}

#[test]
fn one_button_may_lead_to_a_page() {
    let read = cta("Review request", "https://x.example/approvals/t").unwrap().reading;
    assert_eq!(read.buttons[0].url(), Some("https://x.example/approvals/t"));
    assert_eq!(cta("Review this long request", "https://x.example").unwrap_err(), 100);
    assert_eq!(cta("", "https://x.example").unwrap_err(), 100);
    assert_eq!(cta("Review", "javascript:alert(1)").unwrap_err(), 131_009);
    assert_eq!(cta("Review", "approvals/t").unwrap_err(), 131_009);
}

#[test]
fn a_template_is_looked_up_and_needs_a_language() {
    let send = |template: Value| {
        sent(|body| {
            body["type"] = json!("template");
            body["template"] = template;
        })
    };
    let values = json!([{"type": "body", "parameters": [
        {"type": "text", "text": "nightly"}, {"type": "text", "text": "It is done."}]}]);
    let read =
        send(json!({"name": "job_notice", "language": {"code": "en_US"}, "components": values}));
    assert!(read.unwrap().reading.body.contains("It is done."));
    let code = |template: Value| send(template).unwrap_err();
    assert_eq!(code(json!({"name": "job_notice", "language": {"code": "en_US"}})), 132_000);
    assert_eq!(code(json!({"name": "job_news", "language": {"code": "en_US"}})), 132_001);
    assert_eq!(code(json!({"name": "job_notice", "language": {"code": "fr"}})), 132_001);
    assert_eq!(code(json!({"name": "job_notice"})), 100);
    assert_eq!(code(json!({"name": "job_notice", "language": "en_US"})), 100);
}
