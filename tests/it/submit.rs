//! Submit: one id is one job, whichever door it comes through and however often.

use std::collections::HashSet;

use longhaul::rpc::proto::{
    ApprovalStep, GetJobRequest, JobSettings, JobStatus, SubmitJobRequest, step::Kind,
};
use prost_types::Timestamp;
use serde_json::{Value, json};
use tonic::Code;

use crate::harness::{NOBODY, Rig, Told, approval, approval_step, job, run, wait, with};
use crate::receiver::Book;

fn parked(job_id: &str) -> SubmitJobRequest {
    job(job_id, [wait(3600)])
}

const WITHOUT_WHATSAPP: [(&str, &str); 4] = [
    ("LONGHAUL_WHATSAPP_BASE_URL", ""),
    ("LONGHAUL_WHATSAPP_TOKEN", ""),
    ("LONGHAUL_WHATSAPP_PHONE_NUMBER_ID", ""),
    ("LONGHAUL_NOTIFY", NOBODY),
];

#[tokio::test(flavor = "multi_thread")]
async fn the_same_job_twice_is_one_job() {
    let rig = Rig::start().await;
    let first = rig.submit(parked("twice")).await;
    let second = rig.submit(parked("twice")).await;
    assert!(first.created && !second.created);
    assert_eq!(first.job.unwrap().created_at, second.job.unwrap().created_at);
    assert_eq!(rig.db.job_count().await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeated_submit_answers_with_the_job_as_it_is_now() {
    let rig = Rig::start().await;
    rig.submit(job("now", [run("Say something.")])).await;
    rig.settled_as("now", JobStatus::Completed).await;
    let again = rig.submit(job("now", [run("Say something.")])).await;
    assert!(!again.created);
    assert_eq!(again.job.unwrap().status(), JobStatus::Completed);
    assert_eq!(rig.sandbox.requests("").await.len(), 1);
}

/// The answer is made of what the submit wrote, without reading it: a reader must find the same.
#[tokio::test(flavor = "multi_thread")]
async fn a_submit_answers_with_what_a_look_at_the_job_finds() {
    let rig = Rig::start().await;
    rig.sandbox.hold("Say something.").await;
    let later = Timestamp { seconds: 4_000_000_000, nanos: 0 };
    let scheduled = JobSettings { run_at: Some(later), ..JobSettings::default() };
    let people = ["+15550103", "+15550102"].map(str::to_owned).to_vec();
    let labels = [("team".to_owned(), "blue".to_owned())].into();
    let labelled = JobSettings { notify: people.clone(), labels, ..JobSettings::default() };
    let asks = ApprovalStep { approvers: people, quorum: 2, ..ApprovalStep::default() };
    for submitted in [
        parked("parked"),
        with(scheduled, job("scheduled", [run("Say something.")])),
        job("waits later", [wait(0), wait(3600)]),
        job("asked", [wait(0), approval_step(asks), run("Say something.")]),
        with(labelled, job("over", [wait(0), wait(0)])),
        job("in hand", [wait(0), run("Say something.")]),
    ] {
        let answered = rig.submit(submitted).await.job.unwrap();
        let mut found = rig.job(&answered.job_id).await;
        // A lease may have been renewed, and a notice sent, between the two; an id is told only by a look.
        assert_eq!(found.lease_expires_at.is_some(), answered.lease_expires_at.is_some());
        found.lease_expires_at = answered.lease_expires_at;
        for (found, answered) in found.notices.iter_mut().zip(&answered.notices) {
            (found.delivery, found.updated_at) = (answered.delivery, answered.updated_at);
            (found.tries, found.error) = (answered.tries, answered.error.clone());
            assert!(answered.notice_id.is_empty() && !found.notice_id.is_empty());
            found.notice_id.clear();
        }
        assert_eq!(answered, found);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn twenty_submits_at_once_through_both_doors_make_one_job() {
    let rig = Rig::start().await;
    let other = rig.serve().await;
    let mut submits = tokio::task::JoinSet::new();
    for number in 0..20 {
        let client = if number % 4 < 2 { (*rig).clone() } else { other.client.clone() };
        submits.spawn(async move {
            if number % 2 == 0 {
                return client.submit(parked("crowd")).await.created;
            }
            let steps = json!([{"type": "wait", "duration_seconds": 3600}]);
            let body = json!({"job_id": "crowd", "task": "Launch copy", "steps": steps});
            let (status, answer) = client.post_job(&body).await;
            assert_eq!(status, 200, "{answer}");
            answer["created"].as_bool().unwrap()
        });
    }
    let created = submits.join_all().await;
    assert_eq!(created.iter().filter(|created| **created).count(), 1);
    assert_eq!(rig.db.job_count().await, 1);
    assert_eq!(rig.db.number("select count(*) from longhaul.event where sequence = 1").await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn other_content_under_the_same_id_is_refused_and_the_difference_named() {
    let rig = Rig::start().await;
    rig.submit(job("taken", [wait(3600), approval("May this go out?")])).await;
    let labelled = JobSettings { priority: 7, ..JobSettings::default() };
    for (other, field) in [
        (job("taken", [wait(3600), approval("May that go out?")]), "steps[1].approval.note"),
        (
            job("taken", [wait(3601), approval("May this go out?")]),
            "steps[0].wait.duration_seconds",
        ),
        (job("taken", [wait(3600)]), "steps[1]"),
        (with(labelled, job("taken", [wait(3600), approval("May this go out?")])), "settings"),
    ] {
        let told = Told::by(rig.try_submit(other).await);
        assert_eq!((told.code, told.reason.as_str()), (Code::AlreadyExists, "JOB_ID_CONFLICT"));
        assert!(told.metadata["field"].starts_with(field), "{told:?}");
    }
    let steps = json!([{"type": "wait", "duration_seconds": 3600}]);
    let body = json!({"job_id": "taken", "task": "Another task", "steps": steps});
    let (status, answer) = rig.post_job(&body).await;
    assert_eq!((status, &answer["reason"]), (409, &json!("JOB_ID_CONFLICT")));
    assert_eq!(answer["field"], "task");
    assert_eq!(rig.db.job_count().await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_templates_json_works_verbatim_to_the_end() {
    let rig = Rig::start().await;
    let body = r#"{"job_id":"demo-job-0001","task":"为一款记账App写推广文案","steps":[{"type":"run","prompt":"用中文写一段80字以内的记账App产品简介，风格务实。"},{"type":"approval","note":"请审核第一步草稿是否可以对外使用"}]}"#;
    let (status, answer) =
        rig.post_as("/webhook/durable-job", "application/json", body.to_owned()).await;
    assert_eq!(status, 200, "{answer}");
    assert_eq!((&answer["ok"], &answer["created"]), (&json!(true), &json!(true)));
    assert_eq!(answer["job_id"], "demo-job-0001");
    let asked = rig.settled_as("demo-job-0001", JobStatus::AwaitingApproval).await;
    assert!((1..=80).contains(&asked.output.chars().count()), "{}", asked.output);
    let (status, answer) = rig.post_action("demo-job-0001", "status").await;
    assert_eq!((status, &answer["status"]), (200, &json!("awaiting_approval")));
    assert_eq!((&answer["current_step"], &answer["changed"]), (&json!(2), &json!(false)));
    let body = r#"{"job_id":"demo-job-0001","action":"approve"}"#;
    let (status, answer) =
        rig.post_as("/webhook/durable-job-control", "application/json", body.to_owned()).await;
    assert_eq!((status, &answer["status"]), (200, &json!("completed")));
    assert_eq!(answer["changed"], true);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_numeric_job_id_is_read_as_text() {
    let rig = Rig::start().await;
    let steps = json!([{"type": "wait", "duration_seconds": 3600}]);
    let (status, answer) = rig.post_job(&json!({"job_id": 42, "steps": steps})).await;
    assert_eq!((status, &answer["job_id"]), (200, &json!("42")));
    let again = json!({"job_id": "42", "steps": steps});
    assert_eq!(rig.post_job(&again).await.1["created"], false);
    let (status, _) =
        rig.post("/webhook/durable-job-control", &json!({"job_id": 42, "action": "cancel"})).await;
    assert_eq!(status, 200);
    assert_eq!(rig.job("42").await.status(), JobStatus::Cancelled);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_form_and_a_text_are_as_good_as_json() {
    let rig = Rig::start().await;
    let steps = json!([{"type": "wait", "duration_seconds": 3600}]).to_string();
    let fields = [("job_id", "form"), ("task", "From a form & more"), ("steps", steps.as_str())];
    let form = reqwest::Url::parse_with_params("http://x/", fields).unwrap();
    let form = form.query().unwrap().to_owned();
    let kind = "application/x-www-form-urlencoded";
    let (status, answer) = rig.post_as("/webhook/durable-job", kind, form).await;
    assert_eq!((status, &answer["created"]), (200, &json!(true)), "{answer}");
    assert_eq!(rig.job("form").await.task, "From a form & more");
    let text = json!({"job_id": "form", "task": "From a form & more",
        "steps": [{"type": "wait", "duration_seconds": 3600}]});
    let (status, answer) =
        rig.post_as("/webhook/durable-job", "text/plain; charset=utf-8", text.to_string()).await;
    assert_eq!((status, &answer["created"]), (200, &json!(false)), "{answer}");
    let pause = "job_id=form&action=pause".to_owned();
    let (status, answer) = rig.post_as("/webhook/durable-job-control", kind, pause).await;
    assert_eq!((status, &answer["status"]), (200, &json!("paused")), "{answer}");
}

#[tokio::test(flavor = "multi_thread")]
async fn validate_only_checks_and_stores_nothing() {
    let rig = Rig::start().await;
    let dry = SubmitJobRequest { validate_only: true, ..job("dry", [run("Say something.")]) };
    let answer = rig.submit(dry.clone()).await;
    assert!(!answer.created);
    assert_eq!(answer.job.unwrap().job_id, "dry");
    let wrong = SubmitJobRequest { steps: vec![run(" ")], ..dry };
    assert_eq!(Told::by(rig.try_submit(wrong).await).fields, ["steps[0].run.prompt"]);
    assert_eq!(rig.db.job_count().await, 0);
    assert!(rig.sandbox.requests("").await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_without_an_id_gets_a_uuid_of_version_7() {
    let rig = Rig::start().await;
    let mut ids = HashSet::new();
    for _ in 0..3 {
        ids.insert(rig.submit(parked("")).await.job.unwrap().job_id);
    }
    let steps = json!([{"type": "wait", "duration_seconds": 3600}]);
    let (_, answer) = rig.post_job(&json!({"steps": steps})).await;
    ids.insert(answer["job_id"].as_str().unwrap().to_owned());
    assert_eq!(ids.len(), 4);
    for id in ids {
        assert_eq!(uuid::Uuid::parse_str(&id).unwrap().get_version_num(), 7);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_submit_warns_of_no_more_than_is_true_where_endpoints_are_told() {
    let book = Book::new(
        "[endpoints.ops]\nurl = 'http://127.0.0.1:1/'\nheader = 'x-key: k'\n\
         [people.ana]\nphone = '+15550199'\nendpoint = 'ops'\n[people.bo]\nendpoint = 'ops'\n",
    );
    let rig = Rig::start_with(&[&WITHOUT_WHATSAPP[..], &[book.variable()]].concat()).await;
    let settings = |webhooks: &[&str], notify: &[&str]| JobSettings {
        webhooks: webhooks.iter().map(|&name| name.to_owned()).collect(),
        notify: notify.iter().map(|&name| name.to_owned()).collect(),
        ..JobSettings::default()
    };
    let only_endpoints = &["WhatsApp is not configured: only endpoints will be told"][..];
    for (number, (settings, expected)) in [
        (settings(&["ops"], &[]), &[][..]),
        (settings(&["ops"], &["+15550101"]), only_endpoints),
        (settings(&[], &["ana"]), only_endpoints),
        (settings(&[], &["bo"]), &[]),
        (settings(&[], &["+15550101"]), &["WhatsApp is not configured: nobody will be told"]),
    ]
    .into_iter()
    .enumerate()
    {
        let submitted = rig.submit(with(settings, parked(&format!("told-{number}")))).await;
        assert_eq!(submitted.warnings, expected, "{number}");
    }
    let asks = job("asks", [wait(3600), approval("Good?")]);
    let asks = rig.submit(with(settings(&["ops"], &[]), asks)).await;
    assert_eq!(asks.warnings, [""; 0], "the endpoint is asked");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_submit_warns_of_what_is_not_configured() {
    let unconfigured = [&WITHOUT_WHATSAPP[..], &[("LONGHAUL_MODEL_API_KEY", "")]].concat();
    let rig = Rig::start_with(&unconfigured).await;
    assert!(rig.submit(parked("calm")).await.warnings.is_empty());
    let answer = rig.submit(job("warned", [run("Say something."), approval("Well?")])).await;
    let warnings = answer.warnings.join("\n");
    for part in ["no key for the model provider", "names nobody to ask"] {
        assert!(warnings.contains(part), "{warnings}");
    }
    let notify = JobSettings { notify: vec!["+15550101".to_owned()], ..JobSettings::default() };
    let warnings = rig.submit(with(notify, parked("told"))).await.warnings;
    assert!(warnings.join("\n").contains("WhatsApp is not configured"), "{warnings:?}");
    for (language, expected) in [
        ("zh-Hant", &[][..]),
        ("pt-BR", &[][..]),
        ("fr-CA", &["language `fr-CA` is not spoken here yet: people are addressed in English"]),
    ] {
        let settings = JobSettings { language: language.to_owned(), ..JobSettings::default() };
        assert_eq!(rig.submit(with(settings, parked(language))).await.warnings, expected);
    }
    let failed = rig.settled_as("warned", JobStatus::Failed).await;
    assert_eq!(failed.reason, "PROVIDER_UNCONFIGURED");
    assert!(
        rig.db.calls("warned").await.is_empty(),
        "nothing was sent, so nothing is in the ledger"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_that_is_configured_later_changes_a_job() {
    let rig = Rig::start_with(&[("LONGHAUL_MODEL", "claude-haiku-5-5")]).await;
    let scheduled = rig.submit(job("frozen", [wait(60), run("Say something.")])).await;
    assert_eq!(scheduled.job.unwrap().reason, "WAITING");
    let sent: Value = sqlx::query_scalar("select sent from longhaul.job_spec")
        .fetch_one(&rig.db.pool)
        .await
        .unwrap();
    assert_eq!(sent["steps"][1], json!({"type": "run", "prompt": "Say something."}));
    rig.db.shift_clock(61).await;
    rig.settled_as("frozen", JobStatus::Completed).await;
    assert_eq!(rig.sandbox.requests("").await[0]["body"]["model"], "claude-haiku-5-5");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_webhook_checks_without_storing_as_grpc_does() {
    let rig = Rig::start().await;
    let path = "/webhook/durable-job";
    let mut body = json!({"job_id": "tried", "task": "t", "validate_only": true,
        "steps": [{"type": "wait", "duration_seconds": 60}], "settings": {"language": "fr-CA"}});
    let form = "application/x-www-form-urlencoded";
    let sent = "job_id=tried&task=t&validate_only=true&settings={\"language\":\"fr-CA\"}\
        &steps=[{\"type\":\"wait\",\"duration_seconds\":60}]";
    for (status, answer) in
        [rig.post_job(&body).await, rig.post_as(path, form, sent.to_owned()).await]
    {
        assert_eq!((status, &answer["ok"], &answer["created"]), (200, &json!(true), &json!(false)));
        assert_eq!((&answer["job_id"], &answer["status"]), (&json!("tried"), &json!("queued")));
        let job = &answer["job"];
        assert_eq!((&job["step_count"], &job["created_at"]), (&json!(1), &Value::Null));
        assert!(answer["warnings"][0].as_str().unwrap().contains("fr-CA"), "{answer}");
    }
    body["steps"] = json!([]);
    assert_eq!(rig.post_job(&body).await.0, 400);
    body["validate_only"] = json!("yes");
    let (status, answer) = rig.post_job(&body).await;
    assert_eq!((status, &answer["violations"][0]["field"]), (400, &json!("validate_only")));
    assert_eq!(rig.db.job_count().await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_specification_comes_back_whole() {
    let rig = Rig::start().await;
    let long = "x".repeat((7 << 20) / 8);
    let parked = JobSettings {
        run_at: Some(Timestamp { seconds: 4_000_000_000, nanos: 0 }),
        ..JobSettings::default()
    };
    let steps = (0..4).map(|_| run(&long));
    rig.submit(with(parked, job("long", steps))).await;
    let request =
        GetJobRequest { job_id: "long".to_owned(), include_spec: true, ..GetJobRequest::default() };
    let answer = rig.grpc.clone().get_job(request).await.unwrap().into_inner();
    assert_eq!(answer.job.unwrap().step_count, 4);
    let prompts = answer.spec.unwrap().steps.into_iter().map(|step| match step.kind {
        Some(Kind::Run(run)) => run.prompt.len(),
        Some(Kind::Approval(_) | Kind::Wait(_)) | None => 0,
    });
    assert_eq!(prompts.sum::<usize>(), 4 * long.len());
}
