//! The document, held to the routes, the types and the checks that it speaks of.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::schema::INPUTS;
use super::*;
use crate::domain::book::Book;
use crate::domain::spec::Defaults;
use crate::domain::submission::known::fields_of;
use crate::domain::submission::{
    ApprovalStep, ContextMode, RunStep, Settings, Submission, UserLocation, WaitStep, WebSearch,
};
use crate::domain::validate::freeze;

fn whole() -> Value {
    document(&WebSettings::default(), true)
}

/// Every object of the document, with where it stands.
fn walk<'a>(at: &str, value: &'a Value, seen: &mut Vec<(String, &'a Map<String, Value>)>) {
    match value {
        Value::Object(object) => {
            seen.push((at.to_owned(), object));
            object.iter().for_each(|(name, inner)| walk(&format!("{at}/{name}"), inner, seen));
        }
        Value::Array(values) => {
            (0..)
                .zip(values)
                .for_each(|(n, inner): (usize, _)| walk(&format!("{at}/{n}"), inner, seen));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[test]
fn every_route_is_described_and_nothing_else() {
    let document = whole();
    let paths: BTreeSet<&str> =
        document["paths"].as_object().expect("paths").keys().map(String::as_str).collect();
    let routes: Vec<String> = ROUTES.iter().map(|(route, _)| path::written(route)).collect();
    assert_eq!(paths, routes.iter().map(String::as_str).collect());
    for (path, item) in document["paths"].as_object().expect("paths") {
        assert!(item.as_object().expect("an item").keys().any(|key| key != "parameters"), "{path}");
    }
}

#[test]
fn every_reference_leads_somewhere_and_every_schema_is_used() {
    let document = whole();
    let (mut seen, mut used) = (Vec::new(), BTreeSet::new());
    walk("", &document, &mut seen);
    for (at, object) in seen {
        let Some(reference) = object.get("$ref").and_then(Value::as_str) else { continue };
        assert!(document.pointer(&reference[1..]).is_some(), "{at} leads to {reference}");
        used.insert(reference.rsplit('/').next().expect("a name").to_owned());
    }
    let schemas = document["components"]["schemas"].as_object().expect("schemas");
    assert_eq!(used, schemas.keys().cloned().collect());
}

#[test]
fn operations_have_names_of_their_own() {
    let document = whole();
    let (mut seen, mut names) = (Vec::new(), BTreeSet::new());
    walk("", &document["paths"], &mut seen);
    for (at, object) in seen {
        if let Some(name) = object.get("operationId") {
            assert!(names.insert(name.as_str().expect("a name")), "{at} {name}");
            assert!(object.contains_key("security"), "{at} says what it needs");
        }
    }
}

#[test]
fn the_types_read_exactly_what_is_described() {
    let document = whole();
    let types = [
        fields_of::<RunStep>(),
        fields_of::<ApprovalStep>(),
        fields_of::<WaitStep>(),
        fields_of::<WebSearch>(),
        fields_of::<UserLocation>(),
        fields_of::<Settings>(),
    ];
    for (name, fields) in INPUTS.iter().zip(types) {
        let described = document["components"]["schemas"][name]["properties"].as_object();
        let described: BTreeSet<&str> =
            described.expect("properties").keys().map(String::as_str).collect();
        let kind = name.ends_with("Step").then_some("type");
        assert_eq!(described, fields.iter().copied().chain(kind).collect(), "{name}");
    }
    let (mut seen, mut says) = (Vec::new(), 0);
    walk("", &document["components"]["schemas"], &mut seen);
    for (at, object) in
        seen.iter().filter(|(at, _)| INPUTS.iter().any(|name| *at == format!("/{name}/properties")))
    {
        for (field, schema) in object.iter().filter(|(field, _)| *field != "type") {
            assert!(
                schema["description"].as_str().is_some_and(|says| says.len() > 5),
                "{at}/{field}"
            );
            says += 1;
        }
    }
    assert!(says > 40, "the comments of the proto are there");
}

/// A submission with this value in a field of this message.
fn with(message: &str, field: &str, value: Value) -> Value {
    let run = json!({"type": "run", "prompt": "p"});
    let first = run.clone();
    let mut step = match message {
        "RunStep" | "WebSearch" | "UserLocation" => run,
        "ApprovalStep" => {
            json!({"type": "approval", "timeout_seconds": 30 * 86_400, "max_revisions": 1, "escalate_to": ["+15550199"], "escalate_after_seconds": 5})
        }
        "WaitStep" => json!({"type": "wait"}),
        _ => json!({"type": "wait", "duration_seconds": 1}),
    };
    let mut settings = json!({});
    match message {
        "JobSettings" => settings[field] = value,
        "WebSearch" => step["web_search"] = json!({field: value}),
        "UserLocation" => step["web_search"] = json!({"user_location": {field: value}}),
        _ => step[field] = value,
    }
    json!({"steps": [first, step], "settings": settings})
}

/// Whether the checks have anything against this field.
fn is_refused(field: &str, sent: Value) -> bool {
    let Value::Object(sent) = sent else { panic!("the test sends an object") };
    let submission = Submission::read(sent).expect("the form is right");
    let defaults = Defaults {
        model: "m".to_owned(),
        max_tokens: 1,
        notify: Vec::new(),
        language: None,
        context: ContextMode::None,
        book: Arc::new(Book::default()),
    };
    let faults = freeze(&submission, &defaults).err().unwrap_or_default();
    let part = format!(".{field}");
    faults.iter().any(|fault| {
        let rest = fault.field.rsplit_once(&part).map(|(_, rest)| rest);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('['))
    })
}

#[test]
fn numbers_are_bounded_as_the_checks_bound_them() {
    // What these may be depends on the rest of the job as well.
    let relative = ["quorum", "revise_step"];
    for (message, field, (least, most)) in bound::NUMBERS {
        let given = |number: i32| {
            let value =
                if field == "remind_before_seconds" { json!([number]) } else { json!(number) };
            is_refused(field, with(message, field, value))
        };
        assert!(given(least - 1), "{message}.{field}: {}", least - 1);
        assert!(given(most + 1), "{message}.{field}: {}", most + 1);
        if !relative.contains(&field) {
            // Who is asked later has to be asked at some time.
            let least = if field == "escalate_after_seconds" { 1 } else { least };
            assert!(!given(least), "{message}.{field}: {least}");
            assert!(!given(most), "{message}.{field}: {most}");
        }
    }
}

#[test]
fn texts_and_lists_are_bounded_as_the_checks_bound_them() {
    let checked =
        |(message, ..): &&(&str, &str, usize)| !["Submission", "Action"].contains(message);
    for (message, field, most) in bound::TEXTS.iter().filter(checked) {
        let given = |bytes: usize| {
            let text = if field.ends_with("_json") {
                format!("{{\"a\":\"{}\"}}", "x".repeat(bytes - 8))
            } else if *field == "language" {
                // Its parts have at most eight letters each.
                "en-abcdef".chars().cycle().take(bytes).collect()
            } else {
                "x".repeat(bytes)
            };
            let lists = ["stop_sequences", "allowed_domains", "blocked_domains"];
            let value = if lists.contains(field) { json!([text]) } else { json!(text) };
            is_refused(field, with(message, field, value))
        };
        assert!(given(most + 1), "{message}.{field}: {}", most + 1);
        assert!(!given(*most), "{message}.{field}: {most}");
    }
    for (message, field, most) in bound::LISTS {
        let given = |count: usize| {
            let people = |n: usize| json!(format!("+1555{n:06}"));
            let values: Vec<Value> = (0..count)
                .map(|n| match field {
                    "remind_before_seconds" => json!(n + 1),
                    "stop_sequences" => json!(n.to_string()),
                    "allowed_domains" | "blocked_domains" => json!(format!("{n}.example")),
                    _ => people(n),
                })
                .collect();
            is_refused(field, with(message, field, json!(values)))
        };
        assert!(given(most + 1), "{message}.{field}: {}", most + 1);
        // No endpoint is configured here, so that any name of one is refused.
        if field != "webhooks" {
            assert!(!given(most), "{message}.{field}: {most}");
        }
    }
}

#[test]
fn a_header_of_the_servers_own_is_described_and_so_is_whether_a_key_is_needed() {
    let key_header = Some("x-own-key".parse().expect("a name"));
    let settings = WebSettings { key_header, ..WebSettings::default() };
    let (closed, open) = (document(&settings, false), document(&settings, true));
    assert_eq!(closed["components"]["securitySchemes"]["own_header"]["name"], "x-own-key");
    let security = |document: &Value| {
        document["paths"]["/webhook/durable-job"]["post"]["security"]
            .as_array()
            .expect("ways")
            .len()
    };
    assert_eq!((security(&closed), security(&open)), (4, 5));
    assert_eq!(closed["paths"]["/healthz"]["get"]["security"], json!([]));
}
