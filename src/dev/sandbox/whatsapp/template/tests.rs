//! What a send makes of a template, and each way in which the two do not fit.

use serde_json::json;

use super::*;

fn template(components: &Value) -> Template {
    serde_json::from_value(json!({"name": "ask", "language": "en_US", "components": components}))
        .unwrap()
}

fn asking() -> Template {
    template(&json!([
        {"type": "HEADER", "format": "TEXT", "text": "A job waits"},
        {"type": "BODY", "text": "Job {{1}} asks: {{2}}. Please decide."},
        {"type": "FOOTER", "text": "Longhaul"},
        {"type": "BUTTONS", "buttons": [
            {"type": "URL", "text": "Decide", "url": "https://x.example/approvals/{{1}}"},
            {"type": "QUICK_REPLY", "text": "Reject"},
            {"type": "URL", "text": "Help", "url": "https://x.example/help"},
        ]},
    ]))
}

fn body(values: &[&str]) -> Value {
    let parameters: Vec<_> =
        values.iter().map(|value| json!({"type": "text", "text": value})).collect();
    json!({"type": "body", "parameters": parameters})
}

fn button(sub_type: &str, index: &Value, parameter: &Value) -> Value {
    json!({"type": "button", "sub_type": sub_type, "index": index, "parameters": [parameter]})
}

fn link() -> Value {
    button("url", &json!("0"), &json!({"type": "text", "text": "t0ken"}))
}

fn code(template: &Template, components: &[Value]) -> u32 {
    template.fill(components).unwrap_err().code
}

#[test]
fn values_stand_in_their_places_and_behind_the_buttons() {
    let payload = json!({"type": "payload", "payload": "no:7"});
    let given = [body(&["{{2}}", "Ship it?"]), link(), button("QUICK_REPLY", &json!(1), &payload)];
    let read = asking().fill(&given).unwrap();
    assert_eq!(read.body, "Job {{2}} asks: Ship it?. Please decide.");
    assert_eq!((read.header.as_str(), read.footer.as_str()), ("A job waits", "Longhaul"));
    let does: Vec<Does> = read.buttons.into_iter().map(|button| button.does).collect();
    let expected = [
        Does::Url("https://x.example/approvals/t0ken".to_owned()),
        Does::Payload("no:7".to_owned()),
        Does::Url("https://x.example/help".to_owned()),
    ];
    assert_eq!(does, expected);
    let without = asking().fill(&[body(&["a", "b"]), link()]).unwrap();
    assert_eq!(without.buttons[1].does, Does::Payload("Reject".to_owned()));
}

#[test]
fn each_place_needs_a_value_and_each_value_a_place() {
    let asking = asking();
    assert_eq!(code(&asking, &[body(&["a"]), link()]), 132_000);
    assert_eq!(code(&asking, &[body(&["a", "b", "c"]), link()]), 132_000);
    assert_eq!(code(&asking, &[link()]), 132_000);
    let header = json!({"type": "header", "parameters": [{"type": "text", "text": "x"}]});
    assert_eq!(code(&asking, &[header, body(&["a", "b"]), link()]), 132_000);
    assert_eq!(code(&asking, &[body(&["a", "b"])]), 131_008);
    assert_eq!(code(&asking, &[body(&["a", " "]), link()]), 131_008);
}

#[test]
fn a_value_of_another_kind_is_refused() {
    let asking = asking();
    let money = json!({"type": "body", "parameters": [{"type": "text", "text": "a"},
        {"type": "currency", "currency": {}}]});
    assert_eq!(code(&asking, &[money, link()]), 132_012);
    let text = json!({"type": "text", "text": "x"});
    let fits = body(&["a", "b"]);
    let with = |button: Value| code(&asking, &[fits.clone(), link(), button]);
    assert_eq!(with(button("url", &json!(1), &text)), 132_012);
    assert_eq!(with(button("quick_reply", &json!(1), &text)), 132_012);
    assert_eq!(with(button("url", &json!(2), &text)), 100, "a fixed address takes no value");
    assert_eq!(with(button("url", &json!(3), &text)), 132_012, "there is no such button");
    assert_eq!(with(button("url", &json!("x"), &text)), 100);
    assert_eq!(with(json!({"type": "footer"})), 100);
}

#[test]
fn a_value_has_no_line_break_no_tab_and_no_more_than_four_spaces() {
    for value in ["a\nb", "a\tb", "a\rb", "a     b"] {
        assert_eq!(code(&asking(), &[body(&["a", value]), link()]), 132_018, "{value:?}");
    }
    asking().fill(&[body(&["a", "a    b"]), link()]).unwrap();
}

#[test]
fn the_whole_text_has_at_most_1024_characters() {
    let fits = "记".repeat(1024 - "Job a asks: . Please decide.".len());
    asking().fill(&[body(&["a", &fits]), link()]).unwrap();
    assert_eq!(code(&asking(), &[body(&["a", &format!("{fits}记")]), link()]), 132_005);
}

#[test]
fn places_with_names_are_found_by_their_names() {
    let mut template =
        template(&json!([{"type": "BODY", "text": "For {{who}}: {{what}}, dear {{who}}."}]));
    template.parameter_format = Format::Named;
    let given = |names: [&str; 2]| {
        let parameters = names.map(|name| {
            json!({"type": "text", "text": format!("<{name}>"),
            "parameter_name": name})
        });
        json!({"type": "body", "parameters": parameters})
    };
    let read = template.fill(&[given(["what", "who"])]).unwrap();
    assert_eq!(read.body, "For <who>: <what>, dear <who>.");
    assert_eq!(code(&template, &[given(["what", "when"])]), 132_012);
    assert_eq!(code(&template, &[given(["what", ""])]), 100);
}
