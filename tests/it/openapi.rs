//! The `OpenAPI` document: it is valid, its examples can be sent as they stand, and the answers are what it says.

use std::collections::BTreeMap;

use jsonschema::Validator;
use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::{Rig, approval, job, run, wait};

/// The schema of `OpenAPI` 3.1 documents, by the `OpenAPI` Initiative (Apache-2.0).
const OPENAPI_3_1: &str = include_str!("fixture/openapi_3_1.json");

async fn document(rig: &Rig) -> Value {
    let answer = rig.http.get(format!("{}/openapi.json", rig.http_url)).send().await.unwrap();
    assert_eq!(answer.headers()["content-type"], "application/json");
    answer.json().await.unwrap()
}

/// A schema of the document, which may lead to others.
fn validator(document: &Value, schema: &Value) -> Validator {
    let whole = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "allOf": [schema], "components": document["components"],
    });
    jsonschema::options().should_validate_formats(true).build(&whole).unwrap()
}

fn assert_valid(validator: &Validator, value: &Value, what: &str) {
    let faults: Vec<String> = validator
        .iter_errors(value)
        .map(|fault| format!("{}: {fault}", fault.instance_path()))
        .collect();
    assert!(faults.is_empty(), "{what}: {faults:#?} in {value:#}");
}

/// The schema of an answer of an operation.
fn answer_schema<'a>(document: &'a Value, path: &str, method: &str, status: u16) -> &'a Value {
    let answers = &document["paths"][path][method]["responses"];
    let answer = &answers[status.to_string()]["content"]["application/json"]["schema"];
    assert!(answer.is_object(), "{method} {path} says nothing of {status}");
    answer
}

#[tokio::test(flavor = "multi_thread")]
async fn the_document_is_one_of_openapi_3_1() {
    let rig = Rig::start_with(&[("LONGHAUL_KEY_HEADER", "X-Own-Key")]).await;
    let document = document(&rig).await;
    let meta: Value = serde_json::from_str(OPENAPI_3_1).unwrap();
    assert_valid(&jsonschema::draft202012::new(&meta).unwrap(), &document, "the document");
    for (name, schema) in document["components"]["schemas"].as_object().unwrap() {
        assert!(jsonschema::draft202012::meta::is_valid(schema), "{name}");
        let _compiles = validator(&document, schema);
    }
    assert_eq!(document["servers"][0]["url"], rig.http_url);
    assert_eq!(document["components"]["securitySchemes"]["own_header"]["name"], "x-own-key");
}

/// The bodies of an operation's examples, with their type and the body itself as its schema has it.
fn examples(operation: &Value) -> Vec<(String, Value, Value)> {
    let content = operation["requestBody"]["content"].as_object().unwrap();
    let mut all = Vec::new();
    for (kind, media) in content {
        for (_, example) in media["examples"].as_object().unwrap() {
            all.push((kind.clone(), example["value"].clone(), media["schema"].clone()));
        }
    }
    all
}

/// The example as it goes over the wire.
fn written(kind: &str, example: &Value) -> (String, String) {
    let fields = example.as_object().filter(|_| kind != "application/json");
    let fields: BTreeMap<&str, &str> = fields
        .into_iter()
        .flatten()
        .map(|(name, text)| (name.as_str(), text.as_str().unwrap()))
        .collect();
    match kind {
        "application/json" => (kind.to_owned(), example.to_string()),
        "text/plain" => (kind.to_owned(), example.as_str().unwrap().to_owned()),
        "multipart/form-data" => {
            let parts = fields.iter().map(|(name, text)| {
                format!("--b\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{text}\r\n")
            });
            (format!("{kind}; boundary=b"), parts.collect::<String>() + "--b--\r\n")
        }
        _ => (kind.to_owned(), serde_urlencoded::to_string(fields).unwrap()),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_example_can_be_sent_and_is_answered_as_described() {
    let rig = Rig::start().await;
    let document = document(&rig).await;
    let mut count = 0;
    for path in ["/webhook/durable-job", "/webhook/durable-job-control"] {
        let schema = answer_schema(&document, path, "post", 200);
        let answers = validator(&document, schema);
        let mut examples = examples(&document["paths"][path]["post"]);
        // Nothing else can be done to a job that was cancelled.
        examples.sort_by_key(|(_, example, _)| example["action"] == "cancel");
        for (kind, example, schema) in examples {
            assert_valid(&validator(&document, &schema), &example, &kind);
            let (kind, body) = written(&kind, &example);
            let (status, answer) = rig.post_as(path, &kind, body.clone()).await;
            assert_eq!((status, &answer["ok"]), (200, &json!(true)), "{kind} {body}: {answer}");
            assert_valid(&answers, &answer, &body);
            count += 1;
        }
    }
    assert!(count >= 14, "{count} examples");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_in_every_state_is_answered_as_described() {
    let rig = Rig::start().await;
    rig.submit(job("asks", [run("Say something."), approval("Good?"), wait(0), run("End.")])).await;
    rig.submit(job("parked", [wait(3600)])).await;
    rig.sandbox.break_model(json!({"matching": "Fail", "status": 400})).await;
    rig.submit(job("failed", [run("Fail.")])).await;
    let document = document(&rig).await;
    let control = "/webhook/durable-job-control";
    let answers = validator(&document, answer_schema(&document, control, "post", 200));
    let look = |job_id: &str, links: bool| json!({"job_id": job_id, "action": "status", "include_links": links});
    for (body, status) in [
        (look("asks", true), "awaiting_approval"),
        (look("failed", false), "failed"),
        (look("parked", false), "queued"),
        (json!({"job_id": "parked", "action": "pause"}), "paused"),
        (json!({"job_id": "parked", "action": "cancel"}), "cancelled"),
        (json!({"job_id": "asks", "action": "approve", "comment": "yes"}), "completed"),
    ] {
        let waits = if status == "queued" { 0 } else { 20 };
        let (code, answer) = rig.post(&format!("{control}?wait={waits}"), &body).await;
        assert_eq!((code, &answer["status"]), (200, &json!(status)), "{body}: {answer}");
        assert_valid(&answers, &answer, &body.to_string());
    }
    for (query, body, code) in [
        ("", look("none", false), 404),
        ("", json!({"job_id": "asks", "action": "pause"}), 409),
        ("", json!({"job_id": "asks", "action": "pause", "why": 1}), 400),
        ("?lenient=1", json!({"id": "none", "op": "pause"}), 200),
        ("?key=x", look("asks", false), 401),
    ] {
        let (status, answer) = rig.post(&format!("{control}{query}"), &body).await;
        assert_eq!(status, code, "{body}: {answer}");
        let schema = answer_schema(&document, control, "post", code);
        assert_valid(&validator(&document, schema), &answer, &body.to_string());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_types_refuse_what_the_document_refuses() {
    let rig = Rig::start().await;
    let document = document(&rig).await;
    let path = "/webhook/durable-job";
    let schema =
        &document["paths"][path]["post"]["requestBody"]["content"]["application/json"]["schema"];
    let bodies = validator(&document, schema);
    for body in [
        json!({}),
        json!({"steps": []}),
        json!({"steps": [{"type": "dance"}]}),
        json!({"steps": [{"type": "run"}]}),
        json!({"steps": [{"type": "run", "prompt": " "}]}),
        json!({"steps": [{"type": "run", "prompt": "p", "effort": "LOW"}]}),
        json!({"steps": [{"type": "run", "prompt": "p", "max_tokens": 128_001}]}),
        json!({"steps": [{"type": "run", "prompt": "p", "note": "n"}]}),
        json!({"steps": [{"type": "wait"}]}),
        json!({"steps": [{"type": "wait", "duration_seconds": 1, "until_at": "2031-01-01T00:00:00Z"}]}),
        json!({"steps": [{"type": "wait", "duration_seconds": 1}], "job_id": " x"}),
        json!({"steps": [{"type": "wait", "duration_seconds": 1}], "settings": {"priority": 1001}}),
        json!({"steps": [{"type": "wait", "duration_seconds": 1}], "settings": null}),
        json!({"steps": [{"type": "wait", "duration_seconds": 1}], "title": "x"}),
    ] {
        assert!(!bodies.is_valid(&body), "{body}");
        assert_eq!(rig.post(path, &body).await.0, 400, "{body}");
    }
    assert_eq!(rig.db.job_count().await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_operation_is_there_and_no_other_method_is() {
    let rig = Rig::start().await;
    let document = document(&rig).await;
    for (path, item) in document["paths"].as_object().unwrap() {
        let url =
            format!("{}{}", rig.http_url, path.replace("{token}", "x").replace("{more}", "y"));
        for method in ["GET", "POST", "PUT", "PATCH", "DELETE"] {
            let is_described = item.get(method.to_ascii_lowercase()).is_some();
            let request = rig.http.request(method.parse::<Method>().unwrap(), &url);
            let status = request.send().await.unwrap().status();
            assert_eq!(status != 405, is_described, "{method} {path}: {status}");
        }
    }
}
