//! Which form a notice is sent in, what that looks like, and what follows where it is refused.

use super::*;

/// Sends a notice in these forms to a server that answers so, and returns what was sent with what became of it.
pub(super) async fn told(
    forms: FormSettings,
    answers: Vec<Scripted>,
    notice: &Outgoing,
) -> (Vec<Value>, Outcome) {
    let (address, mut received) = serve(answers).await;
    let sender = sender(&WhatsAppSettings { forms, ..settings(address) });
    let outcome = send(&sender, notice, None).await;
    let mut bodies = Vec::new();
    while let Ok(received) = received.try_recv() {
        bodies.push(received.body);
    }
    (bodies, outcome)
}

pub(super) fn templates() -> FormSettings {
    FormSettings {
        request_template: Some("ask".to_owned()),
        request_template_backup: Some("ask_2".to_owned()),
        notice_template: Some("tell".to_owned()),
        ..FormSettings::default()
    }
}

/// The form of each request: its type, or the name of its template.
pub(super) fn forms(bodies: &[Value]) -> Vec<&str> {
    fn form(body: &Value) -> Option<&str> {
        let names = [&body["template"]["name"], &body["interactive"]["type"], &body["type"]];
        names.into_iter().find_map(Value::as_str)
    }
    bodies.iter().filter_map(form).collect()
}

#[tokio::test]
async fn a_person_is_found_by_number_or_by_the_id_they_have_shown() {
    let person = |phone: Option<&str>, user_id: Option<&str>| Person {
        phone: phone.map(str::to_owned),
        user_id: user_id.map(str::to_owned),
        ..Person::default()
    };
    let (address, mut received) = serve(vec![accepted()]).await;
    let sender = sender(&settings(address));
    let named =
        Outgoing { recipient: "ana".to_owned(), user_id: Some("US.7".to_owned()), ..ended(1) };
    for (person, to, recipient) in [
        (person(Some("+5511987654321"), Some("US.1")), json!("+5511987654321"), Value::Null),
        (person(None, Some("US.1")), Value::Null, json!("US.1")),
        (person(None, None), Value::Null, json!("US.7")),
    ] {
        send(&sender, &named, Some(&person)).await;
        let body = received.recv().await.expect("it was sent").body;
        assert_eq!((&body["to"], &body["recipient"]), (&to, &recipient));
    }
    let unknown = Outgoing { user_id: None, ..named };
    for (person, why) in [
        (None, "ana is not in the address book"),
        (Some(person(None, None)), "ana has neither a phone nor a user_id in the address book"),
    ] {
        let Sent::Refused { error } = send(&sender, &unknown, person.as_ref()).await.sent else {
            panic!("{why}")
        };
        assert_eq!(error, why);
    }
    assert!(received.try_recv().is_err());
}

#[tokio::test]
async fn an_open_window_gets_the_form_that_was_chosen() {
    let links = [
        "https://longhaul.example/team/approvals/PaaaaaaaaaaaaaaaaaaaaaA",
        "https://longhaul.example/team/approvals/PbbbbbbbbbbbbbbbbbbbbbQ",
    ];
    let asked = asked(Window::Open);
    let in_form = |request_form| FormSettings { request_form, ..templates() };
    let (bodies, _) = told(in_form(RequestForm::Text), vec![accepted()], &asked).await;
    assert_eq!(forms(&bodies), ["text"]);
    let text = bodies[0]["text"]["body"].as_str().expect("a text");
    assert!(links.iter().all(|link| text.contains(link)), "{text}");
    let letter = Letter::new(&asked, URL, Reader::default());
    let (bodies, _) = told(in_form(RequestForm::Link), vec![accepted()], &asked).await;
    let body = letter.beside_link().expect("it has its links").0;
    let expected = json!({"type": "cta_url", "body": {"text": body}, "action": {"name": "cta_url",
        "parameters": {"display_text": "Open the request", "url": links[0]}}});
    assert_eq!((&bodies[0]["type"], &bodies[0]["interactive"]), (&json!("interactive"), &expected));
    let (bodies, _) = told(in_form(RequestForm::Buttons), vec![accepted()], &asked).await;
    let body = letter.beside_buttons().expect("it has its links").0;
    let id = "00000000000000000000000000000a11";
    let expected = json!({"type": "button", "body": {"text": body}, "action": {"buttons": [
        {"type": "reply", "reply": {"id": format!("a:{id}"), "title": "Approve"}},
        {"type": "reply", "reply": {"id": format!("r:{id}"), "title": "Reject"}}]}});
    assert_eq!(bodies[0]["interactive"], expected);
    // An end has nothing to decide.
    let ended = Outgoing { window: Window::Open, ..ended(1) };
    let (bodies, _) = told(in_form(RequestForm::Buttons), vec![accepted()], &ended).await;
    assert_eq!(forms(&bodies), ["text"]);
}

#[tokio::test]
async fn outside_the_window_the_template_is_sent_with_the_ends_of_its_links() {
    let (bodies, outcome) = told(templates(), vec![accepted()], &asked(Window::Unknown)).await;
    assert!(matches!(outcome.sent, Sent::Accepted { .. }));
    let expected = json!({"messaging_product": "whatsapp", "recipient_type": "individual", "to": TO,
        "biz_opaque_callback_data": "00000000-0000-0000-0000-000000000000:1t:demo-job-0001",
        "type": "template", "template": {"name": "ask", "language": {"code": "en_US"}, "components": [
            {"type": "body", "parameters": [
                {"type": "text", "text": "为一款记账App写推广文案"},
                {"type": "text", "text": "请审核第一步草稿是否可以对外使用"},
                {"type": "text", "text": "Mon 30 Nov 2026, 19:05 UTC, 24 hours left"}]},
            {"type": "button", "sub_type": "url", "index": "0",
                "parameters": [{"type": "text", "text": "PaaaaaaaaaaaaaaaaaaaaaA"}]},
            {"type": "button", "sub_type": "url", "index": "1",
                "parameters": [{"type": "text", "text": "PbbbbbbbbbbbbbbbbbbbbbQ"}]}]}});
    assert_eq!(bodies, [expected]);
    let replies = FormSettings { template_buttons: TemplateButtons::Replies, ..templates() };
    let (bodies, _) = told(replies, vec![accepted()], &asked(Window::Closed)).await;
    let button = &bodies[0]["template"]["components"][2];
    let payload = "r:00000000000000000000000000000a11";
    let expected = json!({"type": "button", "sub_type": "quick_reply", "index": "1",
        "parameters": [{"type": "payload", "payload": payload}]});
    assert_eq!(button, &expected);
    let chinese = Outgoing { language: Some("zh-Hant".to_owned()), ..ended(1) };
    let (bodies, _) = told(templates(), vec![accepted()], &chinese).await;
    let template = &bodies[0]["template"];
    assert_eq!(
        (&template["name"], &template["language"]["code"]),
        (&json!("tell"), &json!("zh_CN"))
    );
    assert_eq!(template["components"].as_array().map(Vec::len), Some(1));
}

#[tokio::test]
async fn what_is_refused_in_one_form_is_sent_in_the_next() {
    let open = asked(Window::Open);
    let link = FormSettings { request_form: RequestForm::Link, ..templates() };
    for (codes, expected) in [
        (&[131_047][..], &["cta_url", "ask"][..]),
        (&[131_009], &["cta_url", "text"]),
        (&[131_009, 131_009], &["cta_url", "text", "ask"]),
        (&[100, 131_047, 132_015], &["cta_url", "text", "ask", "ask_2"]),
    ] {
        let answers = codes.iter().map(|code| error(*code)).chain([accepted()]).collect();
        let (bodies, outcome) = told(link.clone(), answers, &open).await;
        assert_eq!(forms(&bodies), expected);
        assert!(matches!(outcome.sent, Sent::Accepted { .. }));
        assert_eq!(outcome.is_closed, codes.contains(&131_047), "{codes:?}");
    }
    let again = Outgoing { needs: Some(Needs::Template), ..asked(Window::Open) };
    let answers = vec![error(132_001), error(132_016), accepted()];
    let (bodies, _) = told(link.clone(), answers, &again).await;
    assert_eq!(forms(&bodies), ["ask", "ask_2", "text"]);
    let again = Outgoing { needs: Some(Needs::Backup), ..asked(Window::Closed) };
    let (bodies, outcome) = told(link, vec![error(132_015)], &again).await;
    assert_eq!(forms(&bodies), ["ask_2"]);
    assert!(matches!(outcome.sent, Sent::Again { after, .. } if after == Duration::from_secs(1)));
}

#[tokio::test]
async fn what_is_no_fault_of_the_form_is_not_sent_in_another() {
    for scripted in [
        error(131_026),
        error(131_056),
        error(130_429),
        error(190),
        error(131_000),
        (503, &[], Value::Null),
    ] {
        let (bodies, outcome) = told(templates(), vec![scripted], &asked(Window::Open)).await;
        assert_eq!(bodies.len(), 1, "{outcome:?}");
    }
}

#[tokio::test]
async fn without_a_template_a_closed_window_is_told_and_an_unknown_one_is_tried() {
    let free = FormSettings::default();
    let (bodies, outcome) = told(free.clone(), vec![error(131_047)], &asked(Window::Unknown)).await;
    assert_eq!(forms(&bodies), ["text"]);
    assert!(outcome.is_closed);
    let Sent::Refused { error: before } = outcome.sent else { panic!("{outcome:?}") };
    assert!(before.contains("131047"), "{before}");
    let closed = Outgoing { last_error: Some("error 131047".to_owned()), ..asked(Window::Closed) };
    let (bodies, outcome) = told(free, vec![accepted()], &closed).await;
    assert!(bodies.is_empty());
    let Sent::Refused { error } = outcome.sent else { panic!("{outcome:?}") };
    assert!(error.starts_with("error 131047; the person has not written"), "{error}");
}
