//! Which templates there are, which may be sent, and which Meta's review would refuse.

use super::*;

const HOME_URL: &str = "https://x.example/lh";

fn send(registry: &Registry, language: &str) -> Result<Reading, u32> {
    let text = |text: &str| json!({"type": "text", "text": text});
    let link = |index: &str| json!({"type": "button", "sub_type": "url", "index": index, "parameters": [text(index)]});
    let body = json!({"type": "body", "parameters": [text("a"), text("b"), text("c")]});
    let given = [body, link("0"), link("1")];
    let sent = registry.fill("approval_request", language, &given, HOME_URL);
    sent.map_err(|error| error.code)
}

#[test]
fn the_first_templates_would_pass_the_review_and_lead_to_this_product() {
    for template in first() {
        check(&template).unwrap_or_else(|error| panic!("{}: {error}", template.name));
    }
    let registry = Registry::default();
    for language in ["en_US", "zh_CN", "pt_BR"] {
        let read = send(&registry, language).unwrap();
        let links: Vec<_> = read.buttons.iter().filter_map(|button| button.url()).collect();
        assert_eq!(links, ["https://x.example/lh/approvals/0", "https://x.example/lh/approvals/1"]);
        registry.find("job_notice", language).unwrap();
    }
    assert_eq!(send(&registry, "de"), Err(132_001));
    assert_eq!(send(&registry, "en"), Err(132_001));
}

#[test]
fn a_template_can_be_stopped_in_one_language_or_in_all() {
    let registry = Registry::default();
    let change = |script: Value| registry.change(script).unwrap().len();
    let paused = json!({"name": "approval_request", "language": "en_US", "status": "PAUSED"});
    assert_eq!(change(paused), 1);
    assert_eq!(send(&registry, "en_US"), Err(132_015));
    assert!(send(&registry, "zh_CN").is_ok());
    assert_eq!(change(json!({"name": "approval_request", "status": "DISABLED"})), 3);
    assert_eq!(send(&registry, "zh_CN"), Err(132_016));
    change(json!({"name": "approval_request", "status": "PENDING"}));
    assert_eq!(send(&registry, "zh_CN"), Err(132_001));
    assert_eq!(change(json!({"name": "approval_request", "status": "PENDING"})), 0);
    registry.reset();
    assert!(send(&registry, "en_US").is_ok());
}

#[test]
fn what_the_review_would_refuse_is_refused_and_changes_nothing() {
    let registry = Registry::default();
    let body = |text: &str| json!([{"type": "BODY", "text": text}]);
    let link = |url: &str| {
        json!([{"type": "BODY", "text": "Hello."},
            {"type": "BUTTONS", "buttons": [{"type": "URL", "text": "Go", "url": url}]}])
    };
    let fine = json!({"name": "fine", "language": "en", "components": body("Hi {{1}}.")});
    for (name, components) in [
        ("Ask", body("Hello.")),
        ("ask", json!([])),
        ("ask", body("{{1}} waits.")),
        ("ask", body("It waits for {{1}}")),
        ("ask", body("It is {{2}}, is it?")),
        ("ask", body(&"a".repeat(1025))),
        ("ask", link("https://x.example/{{1}}/approvals")),
        ("ask", json!([{"type": "BODY", "text": "Hello.", "txt": 1}])),
        ("ask", json!([{"type": "VIDEO"}])),
    ] {
        let script = json!([fine, {"name": name, "language": "en", "components": components}]);
        let error = registry.change(script.clone()).unwrap_err();
        assert!(error.starts_with("template 1: "), "{error}");
        assert!(registry.find("fine", "en").is_err(), "{script}");
    }
    let unknown = json!({"name": "nobody", "status": "PAUSED"});
    assert!(registry.change(unknown).unwrap_err().contains("nobody"));
    registry.change(fine).unwrap();
    registry.find("fine", "en").unwrap();
}
