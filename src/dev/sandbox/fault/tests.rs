//! Faults as they are scripted, and the errors of the provider as a client then sees them.

use super::{
    super::tests::{Site, question},
    *,
};

#[test]
fn a_fault_strikes_as_often_as_it_says_and_then_the_next_one_does() {
    let faults = Faults::default();
    let script = json!({"model": [{"status": 529, "times": 1, "matching": "x"}, {"hold": true}]});
    faults.replace(script).unwrap();
    let strike = |text| faults.strike_model(Door::Message, text, DateTime::UNIX_EPOCH).fault;
    assert!(strike("no").hold);
    assert_eq!(strike("axb").status, Some(529));
    assert!(strike("axb").hold);
}

#[test]
fn the_document_tells_every_word_of_a_script() {
    let document = include_str!("../../../../docs/sandbox.md");
    let faults = [
        serde_json::to_value(ModelFault::default()),
        serde_json::to_value(WhatsappFault::default()),
        serde_json::to_value(super::super::setting::Setting::default()),
    ];
    let faults = faults.map(Result::unwrap);
    let words = faults.iter().flat_map(|fault| fault.as_object().unwrap().keys());
    let source = include_str!("../whatsapp/inbound.rs");
    let writing = source.split("struct Writing {").nth(1).unwrap().split('}').next().unwrap();
    let fields = writing.split("    pub ").skip(1).map(|rest| rest.split(':').next().unwrap());
    for word in words.map(String::as_str).chain(fields) {
        assert!(document.contains(&format!("`{word}`")), "docs/sandbox.md lacks {word}");
    }
}

#[test]
fn the_document_tells_every_door() {
    let document = include_str!("../../../../docs/sandbox.md");
    let sources = [include_str!("../mod.rs"), include_str!("../whatsapp.rs")].concat();
    let doors = sources.split(".route(\"").skip(1).map(|rest| rest.split('"').next().unwrap());
    let own: Vec<&str> = doors.filter(|door| door.starts_with("/_sandbox")).collect();
    assert!(own.len() >= 9, "{own:?}");
    for door in own {
        assert!(document.contains(&format!("`{door}`")), "docs/sandbox.md lacks {door}");
    }
}

#[test]
fn a_fault_strikes_only_at_its_door() {
    let faults = Faults::default();
    faults.replace(json!({"model": {"status": 404, "on": "batch_get"}})).unwrap();
    let strike = |door| faults.strike_model(door, "", DateTime::UNIX_EPOCH).fault.status;
    assert_eq!(strike(Door::Message), None);
    assert_eq!(strike(Door::BatchGet), Some(404));
}

#[test]
fn a_limit_lets_through_what_it_allows_and_the_next_fault_still_strikes() {
    let faults = Faults::default();
    let limit = json!({"per_second": 1});
    faults.replace(json!({"model": [limit, {"stop_reason": "refusal"}]})).unwrap();
    let strike = || faults.strike_model(Door::Message, "", DateTime::UNIX_EPOCH);
    let first = strike();
    assert_eq!(first.fault.stop_reason.as_deref(), Some("refusal"));
    assert!(first.headers.iter().any(|(name, value)| name.ends_with("limit") && value == "1"));
    let second = strike();
    assert_eq!(second.fault.status, Some(429));
    assert!(second.headers.contains(&("retry-after".to_owned(), "1".to_owned())));
}

#[test]
fn a_misspelt_field_is_named_and_changes_nothing() {
    let faults = Faults::default();
    faults.replace(json!({"whatsapp": {"code": 131_056, "recipient": "+1 555"}})).unwrap();
    for script in [
        json!({"whatsapp": null, "model": {"delay": 1}}),
        json!({"modell": {}, "delay": 1}),
        json!({"model": {"status": 200}}),
        json!({"model": {"batch_ms": 1}}),
    ] {
        let error = faults.replace(script).unwrap_err();
        assert!(["delay", "200", "batch_ms"].iter().any(|word| error.contains(word)), "{error}");
    }
    assert_eq!(faults.strike_whatsapp("+1555").fault.code, Some(131_056));
    assert_eq!(faults.strike_whatsapp("+1556").fault, WhatsappFault::default());
}

#[tokio::test]
async fn an_error_says_when_to_come_back_in_every_way_there_is() {
    let site = Site::open().await;
    let headers = json!({"anthropic-ratelimit-tokens-remaining": "0"});
    site.break_with(json!({"model": [
        {"status": 429, "retry_after_ms": 1500, "headers": headers, "times": 1},
        {"status": 429, "retry_after_date_seconds": 60, "should_retry": false, "times": 1},
        {"status": 429, "error_code": "enforced_spend_limit_reached", "times": 1},
        {"status": 400, "error_message": "You have reached your specified API usage limits.",
            "times": 1},
    ]}))
    .await;
    let ask = async || site.ask(&question(&json!({}))).send().await.unwrap();
    let (first, second, third, fourth) = (ask().await, ask().await, ask().await, ask().await);
    assert_eq!(first.headers()["retry-after-ms"], "1500");
    assert_eq!(first.headers()["anthropic-ratelimit-tokens-remaining"], "0");
    assert!(second.headers()["retry-after"].to_str().unwrap().ends_with("GMT"));
    assert_eq!(second.headers()["x-should-retry"], "false");
    assert!(!third.headers().contains_key("retry-after"));
    let body: Value = third.json().await.unwrap();
    assert_eq!(body["error"]["details"]["error_code"], "enforced_spend_limit_reached");
    let body: Value = fourth.json().await.unwrap();
    assert!(body["error"]["message"].as_str().unwrap().starts_with("You have reached"));
    assert_eq!(ask().await.status(), 200);
}

#[tokio::test]
async fn a_limit_answers_what_is_beyond_it_with_429_and_tells_what_is_left() {
    let site = Site::open().await;
    let ask = async |per_second: u32| {
        site.break_with(json!({"model": {"per_second": per_second, "matching": "Friday"}})).await;
        site.ask(&question(&json!({}))).send().await.unwrap()
    };
    let (refused, admitted) = (ask(0).await, ask(1000).await);
    assert_eq!((refused.status().as_u16(), admitted.status().as_u16()), (429, 200));
    assert_eq!(refused.headers()["retry-after"], "1");
    assert!(!admitted.headers().contains_key("retry-after"));
    for (response, limit, left) in [(refused, "0", "0"), (admitted, "1000", "999")] {
        assert_eq!(response.headers()["anthropic-ratelimit-requests-limit"], limit);
        assert_eq!(response.headers()["anthropic-ratelimit-requests-remaining"], left);
    }
}

#[tokio::test]
async fn every_door_can_fail() {
    let site = Site::open().await;
    for (door, path) in [
        ("model", "/v1/models"),
        ("batch_list", "/v1/messages/batches"),
        ("batch_get", "/v1/messages/batches/x"),
        ("batch_results", "/v1/messages/batches/x/results"),
    ] {
        let id = if path.contains("/x") { "x" } else { "" };
        let script = json!({"model": {"on": door, "status": 503, "matching": id}});
        site.break_with(script).await;
        let request = site.client.get(format!("{}{path}", site.url)).bearer_auth("k");
        let response = request.header("anthropic-version", "2026-10-21").send().await.unwrap();
        assert_eq!(response.status(), 503, "{door}");
    }
    assert_eq!(site.ask(&question(&json!({}))).send().await.unwrap().status(), 200);
}
