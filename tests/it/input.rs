//! Bad input: every fault is refused with its field by name, nothing is stored, and the server is unharmed.

use longhaul::rpc::proto::{
    ApprovalStep, ApproveAction, CancelAction, GetJobRequest, JobSettings, JobStatus, RunStep,
    Step, SubmitJobRequest, UserLocation, WaitStep, WebSearch, control_request::Action, step::Kind,
    wait_step::Wait,
};
use prost_types::Timestamp;
use serde_json::{Value, json};
use tonic::Code;

use crate::harness::{
    Rig, Told, approval, approval_step, approve_that, job, named, run, run_step, wait, with,
};

fn settings(change: impl FnOnce(&mut JobSettings)) -> SubmitJobRequest {
    let mut settings = JobSettings::default();
    change(&mut settings);
    with(settings, job("bad", [wait(60)]))
}

fn people(approvers: &[&str], quorum: i32) -> Step {
    let approvers = approvers.iter().map(|&who| who.to_owned()).collect();
    approval_step(ApprovalStep { approvers, quorum, ..ApprovalStep::default() })
}

fn asks(change: impl FnOnce(&mut RunStep)) -> Step {
    let mut run = RunStep { prompt: "Write a line.".to_owned(), ..RunStep::default() };
    change(&mut run);
    run_step(run)
}

fn until(seconds: i64) -> Step {
    let wait = Some(Wait::UntilAt(Timestamp { seconds, nanos: 0 }));
    Step { name: String::new(), kind: Some(Kind::Wait(WaitStep { wait })) }
}

fn bad_ids_and_steps() -> Vec<(SubmitJobRequest, &'static str)> {
    let bare = || [wait(60)];
    vec![
        (job(&"x".repeat(300), bare()), "job_id"),
        (job(&"记".repeat(86), bare()), "job_id"),
        (job(" spaced ", bare()), "job_id"),
        (job("nul\0", bare()), "job_id"),
        (job("line\nbreak", bare()), "job_id"),
        (job("bad", []), "steps"),
        (job("bad", (0..1001).map(|_| wait(0))), "steps"),
        (job("bad", [Step::default()]), "steps[0]"),
        (SubmitJobRequest { task: "nul\0".to_owned(), ..job("bad", bare()) }, "task"),
        (SubmitJobRequest { task: "x".repeat(65_537), ..job("bad", bare()) }, "task"),
        (job("bad", [named("a", wait(0)), named("a", wait(0))]), "steps[1].name"),
        (job("bad", [named("1a", wait(0))]), "steps[0].name"),
        (job("bad", [named(&"a".repeat(65), wait(0))]), "steps[0].name"),
        (job("bad", [run("")]), "steps[0].run.prompt"),
        (job("bad", [run(" \n ")]), "steps[0].run.prompt"),
        (job("bad", [run("nul\0")]), "steps[0].run.prompt"),
        (job("bad", [run(&"x".repeat(2 << 20))]), "steps[0].run.prompt"),
        (job("bad", [run("{{ nothing }}")]), "steps[0].run.prompt"),
        (job("bad", [run("{{ task")]), "steps[0].run.prompt"),
        (job("bad", [run("{{ step_2_output }}"), run("x")]), "steps[0].run.prompt"),
        (job("bad", [run("{{ step_1_output }}")]), "steps[0].run.prompt"),
        (job("bad", [run("x"), run("{{ later.output }}")]), "steps[1].run.prompt"),
        (job("bad", [approval("?"), run("{{ step_1_output }}")]), "steps[1].run.prompt"),
        (job("bad", [wait(-1)]), "steps[0].wait.duration_seconds"),
        (job("bad", [wait(366 * 86_400 + 1)]), "steps[0].wait.duration_seconds"),
        (job("bad", [until(i64::MAX)]), "steps[0].wait.until_at"),
        (
            job("bad", [Step { name: String::new(), kind: Some(Kind::Wait(WaitStep::default())) }]),
            "steps[0].wait",
        ),
    ]
}

fn bad_settings() -> Vec<(SubmitJobRequest, &'static str)> {
    vec![
        (settings(|all| all.notify = vec!["nobody".to_owned()]), "settings.notify[0]"),
        (settings(|all| all.max_attempts = Some(-1)), "settings.max_attempts"),
        (settings(|all| all.retry_window_seconds = Some(-1)), "settings.retry_window_seconds"),
        (settings(|all| all.priority = 1001), "settings.priority"),
        (settings(|all| all.budget_usd.push_str("2,50")), "settings.budget_usd"),
        (settings(|all| all.budget_usd.push_str("-1")), "settings.budget_usd"),
        (settings(|all| all.budget_usd.push_str("0.0")), "settings.budget_usd"),
        (settings(|all| all.language.push_str("not a tag")), "settings.language"),
        (
            settings(|all| drop(all.labels.insert("k".repeat(64), String::new()))),
            "settings.labels[\"kkkk",
        ),
        (
            settings(|all| drop(all.labels.insert("k".to_owned(), "\0".to_owned()))),
            "settings.labels[\"k\"]",
        ),
        (
            settings(|all| all.labels = (0..65).map(|n| (n.to_string(), String::new())).collect()),
            "settings.labels",
        ),
        (
            settings(|all| all.run_at = Some(Timestamp { seconds: i64::MIN, nanos: 0 })),
            "settings.run_at",
        ),
    ]
}

fn bad_options() -> Vec<(SubmitJobRequest, &'static str)> {
    let search = |search: WebSearch| asks(|run| run.web_search = Some(search));
    let nowhere = UserLocation { country: "Portugal".to_owned(), ..UserLocation::default() };
    vec![
        (job("bad", [asks(|run| run.effort = 99)]), "steps[0].run.effort"),
        (job("bad", [asks(|run| run.on_truncated = -1)]), "steps[0].run.on_truncated"),
        (
            job("bad", [asks(|run| run.output_schema_json.push('['))]),
            "steps[0].run.output_schema_json",
        ),
        (
            job("bad", [asks(|run| run.extra_json.push_str("{\"model\":\"x\"}"))]),
            "steps[0].run.extra_json",
        ),
        (
            job("bad", [asks(|run| run.stop_sequences = vec![String::new()])]),
            "steps[0].run.stop_sequences[0]",
        ),
        (
            job("bad", [asks(|run| run.stop_sequences = vec!["x".to_owned(); 17])]),
            "steps[0].run.stop_sequences",
        ),
        (
            job(
                "bad",
                [search(WebSearch { user_location: Some(nowhere), ..WebSearch::default() })],
            ),
            "steps[0].run.web_search.user_location.country",
        ),
    ]
}

fn bad_fields() -> Vec<(SubmitJobRequest, &'static str)> {
    let long = || "x".repeat(64 << 10) + "x";
    let search = |search: WebSearch| asks(|run| run.web_search = Some(search));
    let domains = || vec!["example.com".to_owned()];
    let both = WebSearch {
        allowed_domains: domains(),
        blocked_domains: domains(),
        ..WebSearch::default()
    };
    let policy = ApprovalStep { on_timeout: 99, ..ApprovalStep::default() };
    let timeout = ApprovalStep { timeout_seconds: -5, ..ApprovalStep::default() };
    let month = ApprovalStep { timeout_seconds: 31 * 86_400, ..ApprovalStep::default() };
    vec![
        (job("bad", [asks(|run| run.context = 99)]), "steps[0].run.context"),
        (job("bad", [asks(|run| run.max_tokens = -1)]), "steps[0].run.max_tokens"),
        (job("bad", [asks(|run| run.max_tokens = 128_001)]), "steps[0].run.max_tokens"),
        (job("bad", [asks(|run| run.timeout_seconds = -1)]), "steps[0].run.timeout_seconds"),
        (
            job("bad", [asks(|run| run.idle_timeout_seconds = 3601)]),
            "steps[0].run.idle_timeout_seconds",
        ),
        (job("bad", [asks(|run| run.model.push_str("a b"))]), "steps[0].run.model"),
        (job("bad", [asks(|run| run.system.push('\0'))]), "steps[0].run.system"),
        (job("bad", [search(both)]), "steps[0].run.web_search.blocked_domains"),
        (
            job("bad", [search(WebSearch { max_uses: 101, ..WebSearch::default() })]),
            "steps[0].run.web_search.max_uses",
        ),
        (job("bad", [approval(&long())]), "steps[0].approval.note"),
        (job("bad", [people(&["15550100"], 0)]), "steps[0].approval.approvers[0]"),
        (job("bad", [people(&["+0155501000"], 0)]), "steps[0].approval.approvers[0]"),
        (job("bad", [people(&["+15550100", "+15550100"], 0)]), "steps[0].approval.approvers[1]"),
        (job("bad", [people(&["+15550100"], 2)]), "steps[0].approval.quorum"),
        (job("bad", [people(&["+15550100"], -1)]), "steps[0].approval.quorum"),
        (job("bad", [approval_step(timeout)]), "steps[0].approval.timeout_seconds"),
        (job("bad", [approval_step(month)]), "steps[0].approval.timeout_seconds"),
        (job("bad", [approval_step(policy)]), "steps[0].approval.on_timeout"),
    ]
}

async fn assert_unharmed(rig: &Rig) {
    assert_eq!(rig.db.job_count().await, 0);
    rig.submit(job("good", [run("Write a line.")])).await;
    rig.settled_as("good", JobStatus::Completed).await;
    let health = rig.http.get(format!("{}/healthz", rig.http_url)).send().await.unwrap();
    assert_eq!(health.status(), 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn over_grpc_each_fault_is_named_and_nothing_is_stored() {
    let rig = Rig::start().await;
    for (request, field) in bad_ids_and_steps()
        .into_iter()
        .chain(bad_options())
        .chain(bad_settings())
        .chain(bad_fields())
    {
        let answer = rig.try_submit(request).await;
        assert!(answer.is_err(), "{field} was accepted");
        let told = Told::by(answer);
        assert_eq!(told.code, Code::InvalidArgument, "{field}");
        assert_eq!(told.reason, "INVALID_REQUEST", "{field}");
        assert!(told.fields[0].starts_with(field), "{field}: {:?}", told.fields);
        assert_eq!(told.fields.len(), 1, "{field}: {:?}", told.fields);
    }
    assert_unharmed(&rig).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn all_faults_of_a_request_are_told_at_once() {
    let rig = Rig::start().await;
    let request = job(" x", [run(""), wait(-1), approval("\0")]);
    let expected = [
        "job_id",
        "steps[0].run.prompt",
        "steps[1].wait.duration_seconds",
        "steps[2].approval.note",
    ];
    assert_eq!(Told::by(rig.try_submit(request).await).fields, expected);
    let many = job("many", (0..1000).map(|_| run("")));
    let told = Told::by(rig.try_submit(many).await);
    assert!(told.fields.len() > 5, "as many as fit into a trailer");
    assert_unharmed(&rig).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_of_more_than_four_mib_is_refused() {
    let rig = Rig::start().await;
    let steps = (0..5).map(|_| run(&"x".repeat(1 << 20)));
    let told = Told::by(rig.try_submit(job("huge", steps)).await);
    assert_eq!(told.code, Code::InvalidArgument, "{told:?}");
    assert_unharmed(&rig).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_other_calls_name_their_faults_too() {
    let rig = Rig::start().await;
    let get = |job_id: &str, wait_seconds, step| GetJobRequest {
        job_id: job_id.to_owned(),
        wait_seconds,
        step,
        ..GetJobRequest::default()
    };
    for (request, field) in [
        (get("", 0, 0), "job_id"),
        (get("x", -1, 0), "wait_seconds"),
        (get("x", 61, 0), "wait_seconds"),
        (get("x", 0, -1), "step"),
    ] {
        assert_eq!(Told::by(rig.grpc.clone().get_job(request).await).fields, [field]);
    }
    let long = CancelAction { comment: "x".repeat(4097) };
    let voter = ApproveAction { on_behalf_of: "x".repeat(256), ..ApproveAction::default() };
    for (action, field) in [
        (Action::Cancel(long), "cancel.comment"),
        (Action::Cancel(CancelAction { comment: "\0".to_owned() }), "cancel.comment"),
        (Action::Approve(voter), "approve.on_behalf_of"),
        (approve_that("not a uuid"), "approve.approval_id"),
    ] {
        assert_eq!(Told::by(rig.try_control("x", action).await).fields, [field]);
    }
    let nothing =
        longhaul::rpc::proto::ControlRequest { job_id: "x".to_owned(), ..Default::default() };
    assert_eq!(Told::by(rig.grpc.clone().control(nothing).await).fields, ["action"]);
    assert_unharmed(&rig).await;
}

fn bad_jobs() -> Vec<(Value, &'static str)> {
    let with = |step: Value| json!({"job_id": "bad", "steps": [step]});
    let far = "+12026-01-01T00:00:00Z";
    vec![
        (json!({"job_id": "x".repeat(300), "steps": [{"type": "wait"}]}), "job_id"),
        (json!({"job_id": " x", "steps": [{"type": "wait", "duration_seconds": 1}]}), "job_id"),
        (json!({"job_id": 1.5, "steps": []}), "job_id"),
        (json!({"job_id": "bad"}), "steps"),
        (json!({"job_id": "bad", "steps": []}), "steps"),
        (json!({"job_id": "bad", "steps": "run"}), "steps"),
        (
            json!({"job_id": "bad", "steps": vec![json!({"type": "wait", "duration_seconds": 0}); 1001]}),
            "steps",
        ),
        (json!({"job_id": "bad", "title": "x"}), "title"),
        (
            json!({"job_id": "bad", "task": "nul\0", "steps": [{"type": "wait", "duration_seconds": 1}]}),
            "task",
        ),
        (with(json!({"type": "dance"})), "steps[0].type"),
        (with(json!({"prompt": "x"})), "steps[0].type"),
        (with(json!({"type": "run"})), "steps[0].prompt"),
        (with(json!({"type": "run", "prompt": ""})), "steps[0].prompt"),
        (with(json!({"type": "run", "prompt": "x".repeat(2 << 20)})), "steps[0].prompt"),
        (with(json!({"type": "run", "prompt": "{{ nothing }}"})), "steps[0].prompt"),
        (with(json!({"type": "run", "prompt": "x", "promt": "y"})), "steps[0].promt"),
        (with(json!({"type": "run", "prompt": "x", "note": "y"})), "steps[0].note"),
        (with(json!({"type": "run", "prompt": "x", "max_tokens": "many"})), "steps[0].max_tokens"),
        (with(json!({"type": "run", "prompt": "x", "context": "all"})), "steps[0].context"),
        (
            with(json!({"type": "run", "prompt": "x", "web_search": {"depth": 1}})),
            "steps[0].web_search.depth",
        ),
        (
            with(json!({"type": "approval", "note": "x", "on_timeout": "shrug"})),
            "steps[0].on_timeout",
        ),
        (with(json!({"type": "approval", "note": "x", "quorum": 2})), "steps[0].quorum"),
        (with(json!({"type": "approval", "approvers": ["0800"]})), "steps[0].approvers[0]"),
        (with(json!({"type": "approval", "timeout_seconds": -1})), "steps[0].timeout_seconds"),
        (with(json!({"type": "wait"})), "steps[0]"),
        (
            with(
                json!({"type": "wait", "duration_seconds": 1, "until_at": "2027-01-01T00:00:00Z"}),
            ),
            "steps[0]",
        ),
        (with(json!({"type": "wait", "until_at": "tomorrow"})), "steps[0].until_at"),
        (with(json!({"type": "wait", "until_at": far})), "steps[0].until_at"),
        (
            json!({"job_id": "bad", "steps": [{"type": "wait", "duration_seconds": 1}], "settings": {"retries": 1}}),
            "settings.retries",
        ),
        (
            json!({"job_id": "bad", "steps": [{"type": "wait", "duration_seconds": 1}], "settings": {"run_at": far}}),
            "settings.run_at",
        ),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn over_the_webhook_each_fault_is_named_and_nothing_is_stored() {
    let rig = Rig::start().await;
    for (body, field) in bad_jobs() {
        let (status, answer) = rig.post_job(&body).await;
        assert_eq!(status, 400, "{field}: {answer}");
        assert_eq!((&answer["code"], &answer["reason"]), (&json!(400), &json!("INVALID_REQUEST")));
        let named = answer["violations"][0]["field"].as_str().unwrap_or_default();
        let message = answer["message"].as_str().unwrap();
        assert!(named.starts_with(field) || message.contains(field), "{field}: {answer}");
        assert!(message.len() < 1000, "{answer}");
    }
    assert_unharmed(&rig).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn over_the_webhook_what_is_no_request_at_all_is_refused() {
    let rig = Rig::start().await;
    let json = "application/json";
    for (content_type, body, expected) in [
        (json, "", 400),
        (json, "{", 400),
        (json, "[]", 400),
        (json, "null", 400),
        (json, "{\"job_id\":\"a\"} {}", 400),
        (json, "{\"job_id\":\"a\",\"job_id\":\"b\"}", 400),
        (json, "{\"task\":\"\\ud800\"}", 400),
        (json, "{\"task\":\"\u{1}\"}", 400),
        ("application/x-www-form-urlencoded", "steps=[", 400),
        ("application/x-www-form-urlencoded", "job_id=a&job_id=b", 400),
        ("multipart/form-data; boundary=x", "--x--", 400),
        ("multipart/form-data", "--x--", 400),
        ("image/png", "png", 415),
    ] {
        for path in ["/webhook/durable-job", "/webhook/durable-job-control"] {
            let (status, answer) = rig.post_as(path, content_type, body.to_owned()).await;
            assert_eq!(status, expected, "{path} {body:?}: {answer}");
            assert!(!answer["message"].as_str().unwrap().is_empty());
            assert!(answer["hint"].is_string());
        }
    }
    let deep = format!("{{\"steps\":{}{}}}", "[".repeat(10_000), "]".repeat(10_000));
    assert_eq!(rig.post_as("/webhook/durable-job", json, deep).await.0, 400);
    let huge = format!("{{\"task\":\"{}\"}}", "x".repeat(16 << 20));
    assert_eq!(rig.post_as("/webhook/durable-job", json, huge).await.0, 413);
    for (path, expected) in [("/webhook/durable-job", 405), ("/webhook-test/x", 404), ("/", 404)] {
        let answer = rig.http.get(format!("{}{path}", rig.http_url)).send().await.unwrap();
        assert_eq!(answer.status(), expected, "{path}");
    }
    assert_unharmed(&rig).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn over_the_webhook_a_bad_action_is_named_and_does_nothing() {
    let rig = Rig::start().await;
    for (body, field) in [
        (json!({"job_id": "x"}), "action"),
        (json!({"job_id": "x", "action": "explode"}), "action"),
        (json!({"job_id": "x", "action": 7}), "action"),
        (json!({"action": "pause"}), "job_id"),
        (json!({"job_id": "x", "action": "pause", "why": "y"}), "why"),
        (json!({"job_id": "x", "action": "pause", "comment": "y"}), "comment"),
        (json!({"job_id": "x", "action": "approve", "approval_id": "y"}), "approval_id"),
        (json!({"job_id": "x", "action": "cancel", "comment": "\0"}), "comment"),
        (json!({"job_id": "x", "action": "retry", "from_step": -1}), "from_step"),
    ] {
        let (status, answer) = rig.post("/webhook/durable-job-control", &body).await;
        assert_eq!(status, 400, "{body}: {answer}");
        let named = answer["violations"][0]["field"].as_str().unwrap_or_default();
        let message = answer["message"].as_str().unwrap();
        assert!(named == field || message.contains(field), "{field}: {answer}");
    }
    assert_unharmed(&rig).await;
}
