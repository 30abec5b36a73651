//! Bad input: one row for each way in which a call or a request can be wrong, through both doors, before one server.
//!
//! A row says what is sent and what has to come back: the code, the reason, and the field by its path.
//! After each row every table is as it was. What a job has wrong is sent to the webhook too, in its own JSON;
//! what only one door can be sent has a row of its own.

mod call;
mod job;
mod step;
mod webhook;
mod wire;

use std::collections::BTreeSet;

use longhaul::domain::reason::Reason;
use longhaul::rpc::convert::{status::code_of, submission::submission};
use longhaul::rpc::proto::{
    ControlJobsRequest, ControlRequest, GetJobRequest, GetUsageRequest, JobStatus, ListJobsRequest,
    ListNoticesRequest, ResendNoticeRequest, RevokeLinksRequest, SubmitJobRequest, WatchJobRequest,
    control_request::Action,
};
use serde_json::{Value, json};
use tonic::Status;

use crate::harness::{self, NOBODY, Rig, Told, approval, run, wait};

/// A call as a program sends it.
enum Call {
    Submit(SubmitJobRequest),
    Get(GetJobRequest),
    Control(ControlRequest),
    ControlJobs(ControlJobsRequest),
    Revoke(RevokeLinksRequest),
    Watch(WatchJobRequest),
    List(ListJobsRequest),
    Notices(ListNoticesRequest),
    Resend(ResendNoticeRequest),
    Usage(GetUsageRequest),
}

/// A row over gRPC: what is sent, why it is refused, and the field that is wrong; empty where no field is.
struct Row(Call, Reason, &'static str);

/// A job that stands at its approval, for rows about states.
const ASKED: &str = "asked";
/// A job that has completed.
const DONE: &str = "done";
/// Nobody's.
const ABSENT: &str = "absent";
const UUID: &str = "01931f5e-7b9a-7c3e-8a54-3f1b2c4d5e6f";

/// Text of so many bytes.
fn long(bytes: usize) -> String {
    "x".repeat(bytes)
}

impl Call {
    async fn send(self, rig: &Rig) -> Option<Status> {
        let mut grpc = rig.grpc.clone();
        match self {
            Self::Submit(request) => grpc.submit_job(request).await.err(),
            Self::Get(request) => grpc.get_job(request).await.err(),
            Self::Control(request) => grpc.control(request).await.err(),
            Self::ControlJobs(request) => grpc.control_jobs(request).await.err(),
            Self::Revoke(request) => grpc.revoke_links(request).await.err(),
            Self::Watch(request) => match grpc.watch_job(request).await {
                Ok(stream) => stream.into_inner().message().await.err(),
                Err(status) => Some(status),
            },
            Self::List(request) => grpc.list_jobs(request).await.err(),
            Self::Notices(request) => grpc.list_notices(request).await.err(),
            Self::Resend(request) => grpc.resend_notice(request).await.err(),
            Self::Usage(request) => grpc.get_usage(request).await.err(),
        }
    }

    /// The same for the webhook: its path and its JSON, if it has such a request at all.
    fn twin(&self) -> Option<(&'static str, Value)> {
        match self {
            Self::Submit(request) => {
                // What is no submission yet cannot be written as the webhook's.
                let submission = submission(request.clone()).ok()?;
                Some(("/webhook/durable-job", serde_json::to_value(submission).unwrap()))
            }
            Self::Control(request) => Some(("/webhook/durable-job-control", action(request)?)),
            Self::Get(_)
            | Self::ControlJobs(_)
            | Self::Revoke(_)
            | Self::Watch(_)
            | Self::List(_)
            | Self::Notices(_)
            | Self::Resend(_)
            | Self::Usage(_) => None,
        }
    }
}

/// An action in the webhook's JSON.
fn action(request: &ControlRequest) -> Option<Value> {
    let mut body = match request.action.as_ref()? {
        Action::Status(_) => json!({"action": "status"}),
        Action::Pause(pause) => json!({"action": "pause", "now": pause.now}),
        Action::Resume(resume) => json!({"action": "resume", "budget_usd": resume.budget_usd}),
        Action::Cancel(cancel) => json!({"action": "cancel", "comment": cancel.comment}),
        Action::Retry(retry) => json!({"action": "retry", "from_step": retry.from_step}),
        Action::Approve(approve) => json!({"action": "approve", "comment": approve.comment,
            "approval_id": approve.approval_id, "on_behalf_of": approve.on_behalf_of,
            // Empty is absent there.
            "edited_output": approve.edited_output.clone().filter(|text| !text.is_empty())?}),
        Action::Reject(reject) => json!({"action": "reject", "comment": reject.comment,
            "approval_id": reject.approval_id, "on_behalf_of": reject.on_behalf_of}),
        Action::RequestChanges(changes) => json!({"action": "request_changes",
            "comment": changes.comment, "approval_id": changes.approval_id,
            "on_behalf_of": changes.on_behalf_of}),
    };
    body["job_id"] = request.job_id.as_str().into();
    body["request_id"] = request.request_id.as_str().into();
    Some(body)
}

/// A field as the webhook writes it.
fn flat(field: &str) -> String {
    let mut flat = field.to_owned();
    for kind in ["run", "approval", "wait"] {
        flat = flat.replace(&format!("].{kind}."), "].");
        flat = flat.strip_suffix(&format!("].{kind}")).map_or(flat.clone(), |at| format!("{at}]"));
    }
    let is_action = |name: &str| {
        ["pause", "resume", "cancel", "retry", "approve", "reject", "request_changes"]
            .contains(&name)
    };
    match flat.split_once('.') {
        Some((name, rest)) if is_action(name) => rest.to_owned(),
        _ => flat,
    }
}

/// A rig before which a wrong call changes nothing: nobody is told anything, and its two jobs stand still.
struct Bench {
    rig: Rig,
    digest: String,
    seen: BTreeSet<&'static str>,
    count: usize,
    /// What was stored before the next row.
    before: String,
    faults: Vec<String>,
}

impl Bench {
    async fn set_up() -> Self {
        let rig = Rig::start_with(&[("LONGHAUL_NOTIFY", NOBODY)]).await;
        rig.submit(harness::job(ASKED, [run("Write a line."), approval("May it go out?")])).await;
        rig.submit(harness::job(DONE, [wait(0)])).await;
        rig.settled_as(ASKED, JobStatus::AwaitingApproval).await;
        rig.settled_as(DONE, JobStatus::Completed).await;
        // A request that was answered, for one that takes its id for another action.
        let first = rig.try_control_once(ASKED, "once", harness::resume()).await.unwrap();
        assert!(!first.changed, "a job that waits for a person is not paused");
        // Everything but what servers tell of themselves.
        let tables: Vec<String> = sqlx::query_scalar(
            "select table_name::text from information_schema.tables
             where table_schema = 'longhaul' and table_type = 'BASE TABLE'
               and table_name not in ('executor', '_sqlx_migrations') order by 1",
        )
        .fetch_all(&rig.db.pool)
        .await
        .unwrap();
        assert!(tables.len() > 15 && tables.iter().any(|name| name == "event"), "{tables:?}");
        let table = |name: &String| {
            format!(
                "(select count(*) || coalesce(md5(string_agg(t::text, '' order by t::text)), '')
                  from longhaul.{name} t)"
            )
        };
        let digest = tables.iter().map(table).collect::<Vec<_>>().join(" || ' ' || ");
        let (seen, before, faults) = (BTreeSet::new(), String::new(), Vec::new());
        let mut bench = Self { rig, digest, seen, count: 0, before, faults };
        // What was done last may still be written down.
        loop {
            let stored = bench.stored().await;
            if std::mem::replace(&mut bench.before, stored) == bench.before {
                return bench;
            }
        }
    }

    /// A digest of all that is stored.
    async fn stored(&self) -> String {
        let statement = sqlx::AssertSqlSafe(format!("select {}", self.digest));
        sqlx::query_scalar(statement).fetch_one(&self.rig.db.pool).await.unwrap()
    }

    async fn try_row(&mut self, Row(call, reason, field): Row) {
        let twin = call.twin();
        let what = format!("{} {field:?} over gRPC", reason.word());
        match call.send(&self.rig).await {
            None => self.blame(&what, "was taken"),
            Some(status) => {
                let Told { code, reason: word, fields, .. } = Told::from(&status);
                let got = (code, word.as_str(), fields.join(" "));
                let expected = (code_of(reason), reason.word(), field.to_owned());
                if got != expected {
                    self.blame(&what, &format!("{got:?} {}", status.message()));
                }
            }
        }
        self.note(&what, reason).await;
        if let Some((path, body)) = twin {
            let code = longhaul::web::code_of(reason).as_u16();
            self.try_post(path, &body, code, reason, &flat(field)).await;
        }
    }

    async fn try_post(&mut self, path: &str, body: &Value, code: u16, reason: Reason, field: &str) {
        let what = format!("{} {field:?} at {path}", reason.word());
        let (status, answer) = self.rig.post(path, body).await;
        let violations = answer["violations"].as_array().into_iter().flatten();
        let named: Vec<&str> = violations.filter_map(|one| one["field"].as_str()).collect();
        let got = (status, answer["reason"].as_str().unwrap_or_default(), named.join(" "));
        let is_same_code = answer["code"] == status;
        if got != (code, reason.word(), field.to_owned()) || !is_same_code {
            self.blame(&what, &answer.to_string());
        }
        if answer.to_string().len() > 4_000 {
            self.blame(&what, "is answered at length");
        }
        self.note(&what, reason).await;
    }

    /// One row more was tried, and must have left nothing.
    async fn note(&mut self, what: &str, reason: Reason) {
        let stored = self.stored().await;
        if std::mem::replace(&mut self.before, stored) != self.before {
            self.blame(what, "has left something");
        }
        self.seen.insert(reason.word());
        self.count += 1;
    }

    /// All rows are tried before the test fails, so that a change of many is seen at once.
    fn blame(&mut self, what: &str, why: &str) {
        let why: String = why.chars().take(500).collect();
        self.faults.push(format!("{what}: {why}"));
    }

    /// The server does what it did before.
    async fn assert_unharmed(&self) {
        let rig = &self.rig;
        rig.submit(harness::job("good", [run("Write a line.")])).await;
        rig.settled_as("good", JobStatus::Completed).await;
        let health = rig.http.get(format!("{}/healthz", rig.http_url)).send().await.unwrap();
        assert_eq!(health.status(), 200);
        assert_eq!(rig.db.job_count().await, 3);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_is_wrong_is_named_with_its_field_and_nothing_is_stored() {
    let mut bench = Bench::set_up().await;
    let (jobs, calls) = (job::rows(), call::rows());
    let steps = step::rows();
    assert!(jobs.len() + steps.len() + calls.len() > 150);
    for row in jobs.into_iter().chain(steps).chain(calls) {
        bench.try_row(row).await;
    }
    for webhook::Post(path, body, reason, field) in webhook::rows() {
        let code = longhaul::web::code_of(reason).as_u16();
        bench.try_post(path, &body, code, reason, field).await;
    }
    wire::try_all(&mut bench).await;
    assert!(bench.faults.is_empty(), "{}", bench.faults.join("\n"));
    assert!(bench.count > 250, "{} ways to be wrong", bench.count);
    // Those that a client can bring about with one call.
    let told = ["INVALID_REQUEST", "JOB_NOT_FOUND", "JOB_STATE_CONFLICT", "UNIMPLEMENTED"];
    assert!(told.iter().all(|word| bench.seen.contains(word)), "{:?}", bench.seen);
    bench.assert_unharmed().await;
    println!("{} ways to be wrong: {:?}", bench.count, bench.seen);
}

#[test]
fn a_field_has_its_other_path_at_the_webhook() {
    for (field, expected) in [
        ("steps[1].run.prompt", "steps[1].prompt"),
        ("steps[0].wait", "steps[0]"),
        ("approve.comment", "comment"),
        ("settings.run_at", "settings.run_at"),
    ] {
        assert_eq!(flat(field), expected);
    }
}
