//! Silence: whatever happens to them and however much they are asked to say, servers tell no secret, no prompt, no
//! output and no number, neither in a log nor in a span.
//!
//! What must not be told has the word `canary` in it, or is known by what it is; all that servers wrote is searched.

use std::fs;

use longhaul::domain::key::{KeyText, Scope};
use longhaul::rpc::proto::{
    ApprovalStep, ApproveAction, ControlRequest, EventKind, GetJobRequest, Job, JobStatus,
    ListNoticesRequest, RequestChangesAction, RunStep, Step, SubmitJobRequest, WatchJobRequest,
    control_request::Action, watch_job_response::Content,
};
use serde_json::{Value, json};
use tonic::Code;

use crate::ask::links;
use crate::delivery::{OPEN, SECRET, post};
use crate::harness::{PERSON, Process, Rig, approval_step, job, run_step};
use crate::inbound::{IS_HANDLED, body, text};
use crate::key::{by, make, wait_until};
use crate::program::Folder;
use crate::trace::Collector;

/// Who is asked.
const ANN: &str = "+15557654321";
const NOTE: &str = "canary note: may this go out?";

/// Everything that happens in the tour, and what is found out on the way.
struct Tour {
    rig: Rig,
    admin: String,
    server: Process,
    secrets: Vec<String>,
}

fn asked(job_id: &str, prompt: &str) -> SubmitJobRequest {
    let system = "canary system prompt".to_owned();
    let run = RunStep { prompt: prompt.to_owned(), system, ..RunStep::default() };
    let approvers = vec![ANN.to_owned()];
    let note = NOTE.to_owned();
    let asking = ApprovalStep {
        note,
        approvers,
        max_revisions: 3,
        allow_edit: true,
        ..ApprovalStep::default()
    };
    let steps: [Step; 2] = [run_step(run), approval_step(asking)];
    SubmitJobRequest { task: "canary task".to_owned(), ..job(job_id, steps) }
}

impl Tour {
    async fn submit(&self, asked: SubmitJobRequest) {
        self.server.client.grpc.clone().submit_job(by(&self.admin, asked)).await.unwrap();
    }

    /// The job once it stands still, of whose output nothing may be told.
    async fn settled(&mut self, job_id: &str) -> Job {
        let look = GetJobRequest {
            job_id: job_id.to_owned(),
            wait_seconds: 20,
            include_spec: true,
            ..GetJobRequest::default()
        };
        let answer = self.server.client.grpc.clone().get_job(by(&self.admin, look)).await;
        let job = answer.unwrap().into_inner().job.unwrap();
        if !job.output.is_empty() {
            self.secrets.push(job.output.lines().next().unwrap().to_owned());
        }
        job
    }

    async fn act(&self, job_id: &str, action: Action) -> Code {
        let (job_id, action) = (job_id.to_owned(), Some(action));
        let request = ControlRequest { job_id, request_id: String::new(), action };
        let answer = self.server.client.grpc.clone().control(by(&self.admin, request)).await;
        answer.map_or_else(|status| status.code(), |_| Code::Ok)
    }

    /// Posts what is no good, with whatever shows who it is.
    async fn post(&self, path: &str, header: (&str, &str), body: String) -> u16 {
        let request =
            self.server.client.http.post(format!("{}{path}", self.server.client.http_url));
        let request = request.header(header.0, header.1).header("content-type", "application/json");
        request.body(body).send().await.unwrap().status().as_u16()
    }

    /// A job whose person is asked, looks, sends it back by the API, and decides on the page.
    async fn decide_on_the_page(&mut self) {
        self.submit(asked("paged", "canary prompt: write about plums")).await;
        let job = self.settled("paged").await;
        assert_eq!(job.status(), JobStatus::AwaitingApproval);
        let comment = "canary comment: shorter".to_owned();
        let back = RequestChangesAction {
            comment,
            on_behalf_of: "canary name".to_owned(),
            ..RequestChangesAction::default()
        };
        assert_eq!(self.act("paged", Action::RequestChanges(back)).await, Code::Ok);
        let job = self.settled("paged").await;
        let sent = "select count(*) = 2 and bool_and(delivery = 'sent') from longhaul.outbox
          where kind = 'approval_requested' and recipient like '+%' and job_id = $1";
        self.rig.db.wait_until(sent, "paged").await;
        for number in [1, 2] {
            let found = links(&self.rig.sandbox, ANN, number).await;
            for link in [found.approve, found.reject] {
                self.secrets.push(link.rsplit('/').next().unwrap().to_owned());
                self.server.client.http.get(&link).send().await.unwrap();
            }
        }
        let link = links(&self.rig.sandbox, ANN, 2).await.approve;
        let approval_id = &job.approval.as_ref().unwrap().approval_id;
        let form = serde_urlencoded::to_string([
            ("approval_id", approval_id.as_str()),
            ("verdict", "approve"),
            ("comment", "canary on the page"),
        ]);
        let press = self.server.client.http.post(&link).body(form.unwrap());
        let press = press.header("content-type", "application/x-www-form-urlencoded");
        assert_eq!(press.send().await.unwrap().status(), 303);
        assert_eq!(self.settled("paged").await.status(), JobStatus::Completed);
    }

    /// Edits, watches with everything, and lists.
    async fn edit_and_watch(&mut self) {
        self.submit(asked("edited", "canary prompt: write about pears")).await;
        self.settled("edited").await;
        let edit = ApproveAction {
            edited_output: Some("canary edit".to_owned()),
            on_behalf_of: ANN.to_owned(),
            ..ApproveAction::default()
        };
        assert_eq!(self.act("edited", Action::Approve(edit)).await, Code::Ok);
        self.settled("edited").await;
        let watch = WatchJobRequest {
            job_id: "edited".to_owned(),
            after_sequence: Some(0),
            include_output_deltas: true,
            include_notices: true,
        };
        let grpc = &self.server.client.grpc;
        let mut watched =
            grpc.clone().watch_job(by(&self.admin, watch)).await.unwrap().into_inner();
        let mut events = 0;
        while let Some(told) = watched.message().await.unwrap() {
            events += usize::from(matches!(told.content, Some(Content::Event(_))));
        }
        assert!(events > 4);
        let list =
            ListNoticesRequest { recipient: ANN.to_owned(), ..ListNoticesRequest::default() };
        grpc.clone().list_notices(by(&self.admin, list)).await.unwrap();
    }

    /// What is wrong in every way, by people with wrong keys and with the right one.
    async fn go_wrong(&mut self) {
        let revoked = make(&self.rig, "revoked", &[Scope::Admin], None).await;
        let store = crate::key::store(&self.rig).await;
        store.revoke_key("revoked").await.unwrap();
        store.close().await;
        let unknown = KeyText::mint(&mut rand::rng()).reveal().to_owned();
        let bearer = |key: &str| format!("Bearer {key}");
        let (admin, wrong) = (bearer(&self.admin), bearer("lh_canary"));
        for header in [
            ("authorization", bearer(&revoked).as_str()),
            ("authorization", bearer(&unknown).as_str()),
            ("authorization", wrong.as_str()),
            ("authorization", "Basic Y2FuYXJ5OmNhbmFyeQ=="),
            ("authorization", "canary"),
            ("x-api-key", "canary"),
            ("x-canary", "canary"),
        ] {
            let body = json!({"job_id": "paged", "action": "status", "comment": "canary"});
            let status = self.post("/webhook/durable-job-control", header, body.to_string()).await;
            assert!([401, 403].contains(&status), "{header:?}: {status}");
        }
        self.secrets.extend([revoked, unknown, "Y2FuYXJ5".to_owned()]);
        let header = ("authorization", admin.as_str());
        for (path, body, status) in [
            ("/webhook/durable-job", r#"{"canary": "canary"}"#, 400),
            (
                "/webhook/durable-job",
                r#"{"steps": [{"type": "run", "prompt": "canary", "model": "canary x"}]}"#,
                400,
            ),
            ("/webhook/durable-job", "canary{", 400),
            ("/webhook/durable-job-control", r#"{"job_id": "x", "action": "canary"}"#, 400),
            (
                "/webhook/durable-job-control",
                r#"{"job_id": "x", "action": "approve", "approval_id": "canary"}"#,
                400,
            ),
            ("/webhook/durable-job?canary=canary", "{}", 400),
            ("/approvals/canary-token", "verdict=canary", 404),
            ("/canary-path", "{}", 404),
            ("/webhook/whatsapp?canary", r#"{"canary": "15557654321"}"#, 401),
        ] {
            let got = self.post(path, header, body.to_owned()).await;
            assert_eq!(got, status, "{path} {body}");
        }
        let hub =
            "/webhook/whatsapp?hub.mode=subscribe&hub.verify_token=canary&hub.challenge=canary";
        self.server
            .client
            .http
            .get(format!("{}{hub}", self.server.client.http_url))
            .send()
            .await
            .unwrap();
        let grpc = &self.server.client.grpc;
        let bad = SubmitJobRequest { task: "canary\u{0}".to_owned(), ..asked("bad", "") };
        grpc.clone().submit_job(by(&self.admin, bad)).await.unwrap_err();
        let again =
            SubmitJobRequest { task: "canary other".to_owned(), ..asked("paged", "canary") };
        grpc.clone().submit_job(by(&self.admin, again)).await.unwrap_err();
        let mut oddly = by(
            &self.admin,
            ListNoticesRequest { page_token: "canary".to_owned(), ..Default::default() },
        );
        oddly.metadata_mut().insert("x-canary", "canary".parse().unwrap());
        grpc.clone().list_notices(oddly).await.unwrap_err();
    }

    /// What the outside world refuses, and what people write of themselves.
    async fn be_refused(&mut self) {
        self.rig.sandbox.break_model(json!({"status": 400, "matching": "figs"})).await;
        self.submit(asked("refused", "canary prompt: write about figs")).await;
        assert_eq!(self.settled("refused").await.status(), JobStatus::Failed);
        self.rig.sandbox.break_model(json!({"status": 529, "matching": "dates", "times": 1})).await;
        self.submit(asked("busy", "canary prompt: write about dates")).await;
        self.settled("busy").await;
        self.rig.sandbox.break_whatsapp(json!({"code": 131_026})).await;
        self.submit(asked("unheard", "canary prompt: write about limes")).await;
        self.settled("unheard").await;
        let failed = "select bool_and(delivery = 'failed') from longhaul.outbox where job_id = $1
          and recipient like '+%'";
        self.rig.db.wait_until(failed, "unheard").await;
        self.rig.sandbox.mend().await;
        let now = "select extract(epoch from longhaul.now())::bigint";
        let at = self.rig.db.number(now).await;
        let message = text("wamid.canary", ANN, "canary text of a person", at);
        assert_eq!(post(&self.server.client, &body(&[message])).await, 200);
        self.rig.db.wait_until(IS_HANDLED, "wamid.canary").await;
    }

    /// A server dies in the middle of an answer, and another goes on, which is then asked to stop.
    async fn crash(mut self, other: &[(&str, &str)]) -> (Vec<String>, Vec<String>) {
        self.rig.sandbox.hold("quinces").await;
        self.submit(asked("crashed", "canary prompt: write about quinces")).await;
        self.rig.sandbox.wait_for("quinces", "held", 1).await;
        let survivor = Process::serve(&self.rig, other).await;
        wait_until(&survivor.client, Some(&self.admin), Code::Ok).await;
        self.server.freeze();
        let mut said = vec![self.server.said()];
        std::mem::replace(&mut self.server, survivor).kill9().await;
        let watch = WatchJobRequest {
            job_id: "crashed".to_owned(),
            after_sequence: Some(0),
            ..WatchJobRequest::default()
        };
        let grpc = &self.server.client.grpc;
        let mut watched =
            grpc.clone().watch_job(by(&self.admin, watch)).await.unwrap().into_inner();
        loop {
            let told = watched.message().await.unwrap().unwrap();
            if matches!(&told.content, Some(Content::Event(event)) if event.kind() == EventKind::AttemptLost)
            {
                break;
            }
        }
        self.rig.sandbox.mend().await;
        assert_eq!(self.settled("crashed").await.status(), JobStatus::AwaitingApproval);
        self.server.freeze();
        said.push(self.server.said());
        self.server.thaw();
        self.server.terminate().await;
        (said, self.secrets)
    }
}

/// An address book with an endpoint that nobody serves, and whose every part is secret.
fn book(folder: &Folder) -> String {
    let path = folder.0.join("book.toml");
    let text = "[endpoints.ops]\nurl = 'http://127.0.0.1:1/canary-hook'\nheader = 'x-hook: canary'\n\
      events = ['completed', 'failed', 'approval_requested']\nalways = true\n";
    fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_happens_no_log_and_no_span_tells_a_secret_a_prompt_an_output_or_a_number() {
    let folder = Folder::make();
    let book = book(&folder);
    let given = [
        ("LONGHAUL_MODEL_API_KEY", "sk-canary-model"),
        ("LONGHAUL_WHATSAPP_TOKEN", "EAA-canary"),
        ("LONGHAUL_ADDRESS_BOOK", book.as_str()),
        ("LONGHAUL_LEASE_SECONDS", "5"),
    ];
    let rig = Rig::without_server(&[&given[..], OPEN].concat()).await;
    let admin = make(&rig, "admin", &[Scope::Admin], None).await;
    let (collector, address) = Collector::start().await;
    let (endpoint, url) =
        (format!("http://{address}"), rig.db.url.replace("postgres@", "postgres:canary-password@"));
    let url = if url.contains("canary") {
        url
    } else {
        url.replacen("postgres://", "postgres://postgres:canary-password@", 1)
    };
    let loud = [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint.as_str()),
        ("OTEL_BSP_SCHEDULE_DELAY", "100"),
        ("RUST_LOG", "trace"),
        ("DATABASE_URL", &url),
    ];
    let server = Process::serve(&rig, &loud).await;
    let mut tour = Tour { rig, admin: admin.clone(), server, secrets: Vec::new() };
    tour.decide_on_the_page().await;
    tour.edit_and_watch().await;
    tour.go_wrong().await;
    tour.be_refused().await;
    let json = [&loud[..], &[("LONGHAUL_LOG_FORMAT", "json")]].concat();
    let (said, mut secrets) = tour.crash(&json).await;

    secrets.extend([
        admin,
        ANN[1..].to_owned(),
        PERSON[1..].to_owned(),
        SECRET.to_owned(),
        "canary".to_owned(),
    ]);
    secrets.extend(OPEN.iter().map(|(_, secret)| (*secret).to_owned()));
    assert!(secrets.len() > 16, "{secrets:?}");
    let told = collector.text();
    assert!(said.iter().all(|log| log.contains("DEBUG")) && told.contains("attempt"), "{said:?}");
    for secret in &secrets {
        for (number, log) in said.iter().enumerate() {
            let line = log.lines().find(|line| line.contains(secret.as_str()));
            assert_eq!(line, None, "the log of server {number} tells {secret:?}");
        }
        let at = told.find(secret.as_str());
        let around = at.map(|at| &told[told.floor_char_boundary(at.saturating_sub(900))..at]);
        assert_eq!(around, None, "a span tells {secret:?}");
    }
    // A library speaks up only if it is asked for by its name.
    for library in [" h2::", " hyper", " rustls::", " sqlx::", " reqwest::", " tower"] {
        let line = said[0].lines().find(|line| {
            line.contains(library) && (line.contains(" TRACE ") || line.contains(" DEBUG "))
        });
        assert_eq!(line, None, "{library}");
    }
    let value: Result<Value, _> = serde_json::from_str(said[1].lines().next().unwrap());
    assert!(value.is_ok(), "the other server's log is JSON: {}", said[1]);
}
