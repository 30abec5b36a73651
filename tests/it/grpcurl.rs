//! The real grpcurl, through reflection and without a proto file, as a person at a terminal uses it.
//!
//! It comes from the variable `GRPCURL` or from the PATH; a machine that cannot have it says so with a variable.

use std::fs;
use std::path::Path;
use std::process::{Output, Stdio};

use longhaul::rpc::proto::JobStatus;
use serde_json::{Value, json};
use tokio::process::Command;

use crate::harness::{PATIENCE, Rig, job, wait};
use crate::program::{Program, SERVE};

const SERVICE: &str = "longhaul.v1.JobService";
/// Where the examples find their server.
const ADDRESS: &str = "localhost:50051";

/// A server and the grpcurl to call it with; none if the machine is known to have no grpcurl.
struct Terminal {
    rig: Rig,
    server: Program,
    grpcurl: String,
}

/// The grpcurl of this machine; none only if it is known to have none.
#[expect(clippy::disallowed_methods, reason = "this configures the tests and not the product")]
pub async fn find_grpcurl() -> Option<String> {
    let grpcurl = std::env::var("GRPCURL").unwrap_or_else(|_| "grpcurl".to_owned());
    let Err(error) = Command::new(&grpcurl).arg("-version").output().await else {
        return Some(grpcurl);
    };
    assert!(
        std::env::var("LONGHAUL_WITHOUT_GRPCURL").as_deref() == Ok("1"),
        "{grpcurl}: {error}; go install github.com/fullstorydev/grpcurl/cmd/grpcurl@latest, \
         name it in GRPCURL, or set LONGHAUL_WITHOUT_GRPCURL=1 to go without these tests"
    );
    eprintln!("skipped: this machine has no grpcurl");
    None
}

impl Terminal {
    async fn open() -> Option<Self> {
        Self::open_with(&[]).await
    }

    async fn open_with(variables: &[(&str, &str)]) -> Option<Self> {
        let grpcurl = find_grpcurl().await?;
        let rig = Rig::without_server(variables).await;
        let server = Program::start(&SERVE, rig.variables()).await;
        Some(Self { rig, server, grpcurl })
    }

    /// Runs grpcurl with these arguments; `A` stands for the address.
    async fn call(&self, args: &[&str]) -> Output {
        let args =
            args.iter().map(|arg| if *arg == "A" { self.server.address("grpc") } else { arg });
        let mut command = Command::new(&self.grpcurl);
        command.arg("-plaintext").args(args).stdin(Stdio::null()).kill_on_drop(true);
        tokio::time::timeout(PATIENCE, command.output()).await.expect("grpcurl ends").unwrap()
    }

    /// What it prints when all goes well.
    async fn told(&self, args: &[&str]) -> String {
        let output = self.call(args).await;
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{args:?}: {errors}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Runs an example as it would be pasted into a shell.
    async fn paste(&self, example: &str) -> String {
        let script = example.replace(ADDRESS, self.server.address("grpc"));
        let script = script.replacen("grpcurl", &format!("'{}'", self.grpcurl), 1);
        let mut shell = Command::new("sh");
        shell.args(["-euc", &script]).stdin(Stdio::null()).kill_on_drop(true);
        let output = tokio::time::timeout(PATIENCE, shell.output()).await.expect(example).unwrap();
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{script}\n{errors}");
        String::from_utf8(output.stdout).unwrap()
    }
}

impl Terminal {
    /// An example that names a notice names one that failed and can be sent again.
    async fn with_notice(&self, example: &str) -> String {
        if !example.contains("Notice") {
            return example.to_owned();
        }
        let failed = "select bool_and(delivery = 'failed') from longhaul.outbox
            where job_id = $1 and kind = 'completed'";
        self.rig.db.wait_until(failed, "hello-1").await;
        let Some((before, rest)) = example.split_once(r#""notice_id":""#) else {
            return example.to_owned();
        };
        let (_, after) = rest.split_once('"').unwrap();
        let read = "select notice_id::text from longhaul.outbox where kind = 'completed'";
        let id: String = sqlx::query_scalar(read).fetch_one(&self.rig.db.pool).await.unwrap();
        format!(r#"{before}"notice_id":"{id}"{after}"#)
    }
}

/// The messages that grpcurl printed one after the other.
fn messages(printed: &str) -> Vec<Value> {
    serde_json::Deserializer::from_str(printed).into_iter().map(Result::unwrap).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_api_explains_itself_through_reflection() {
    let Some(terminal) = Terminal::open().await else { return };
    let services = terminal.told(&["A", "list"]).await;
    for service in [SERVICE, "grpc.health.v1.Health", "grpc.reflection.v1.ServerReflection"] {
        assert!(services.lines().any(|line| line == service), "{services}");
    }
    let methods = terminal.told(&["A", "list", SERVICE]).await;
    for method in [
        "SubmitJob",
        "GetJob",
        "Control",
        "RevokeLinks",
        "WatchJob",
        "ListJobs",
        "ControlJobs",
        "ListNotices",
        "ResendNotice",
        "GetUsage",
    ] {
        assert!(methods.contains(&format!("{SERVICE}.{method}")), "{methods}");
        let told = terminal.told(&["A", "describe", &format!("{SERVICE}.{method}")]).await;
        assert!(told.contains(&format!("rpc {method} ")), "{told}");
    }
    let told = terminal.told(&["A", "describe", ".longhaul.v1.SubmitJobRequest"]).await;
    assert!(told.contains(".longhaul.v1.Step steps = 3"), "{told}");
    let health = terminal
        .told(&[
            "-d",
            r#"{"service":"longhaul.v1.JobService"}"#,
            "A",
            "grpc.health.v1.Health/Check",
        ])
        .await;
    assert!(health.contains("SERVING") && !health.contains("NOT_SERVING"), "{health}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_is_submitted_and_watched_to_its_end() {
    let Some(terminal) = Terminal::open().await else { return };
    let method = format!("{SERVICE}/SubmitJob");
    let body = r#"{"job_id":"curled","task":"文案","steps":[{"run":{"prompt":"Say something."}},{"wait":{"duration_seconds":1}}]}"#;
    let submitted = terminal.told(&["-d", body, "A", &method]).await;
    let submitted = &messages(&submitted)[0];
    assert_eq!((&submitted["created"], &submitted["job"]["task"]), (&true.into(), &"文案".into()));
    let method = format!("{SERVICE}/WatchJob");
    let watched =
        terminal.told(&["-d", r#"{"job_id":"curled","after_sequence":0}"#, "A", &method]).await;
    let kinds = messages(&watched);
    let kinds: Vec<&str> = kinds.iter().filter_map(|one| one["event"]["kind"].as_str()).collect();
    assert_eq!(kinds.first(), Some(&"EVENT_KIND_JOB_SUBMITTED"));
    assert_eq!(kinds.last(), Some(&"EVENT_KIND_JOB_COMPLETED"));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_request_shows_each_wrong_field_readably() {
    let Some(terminal) = Terminal::open().await else { return };
    let method = format!("{SERVICE}/SubmitJob");
    let body = r#"{"steps":[{"run":{"prompt":""}},{"approval":{"quorum":9}}]}"#;
    for format in ["text", "json"] {
        let args: &[&str] = if format == "json" { &["-format-error"] } else { &[] };
        let output = terminal.call(&[args, &["-d", body, "A", &method]].concat()).await;
        let said =
            String::from_utf8(output.stderr).unwrap() + &String::from_utf8_lossy(&output.stdout);
        assert!(!output.status.success());
        for part in [
            "InvalidArgument",
            "INVALID_REQUEST",
            "longhaul.dev",
            "fieldViolations",
            "\"field\"",
            "\"description\"",
            "steps[0].run.prompt",
            "steps[1].approval.quorum",
        ] {
            let code = part == "InvalidArgument" && format == "json";
            assert!(code || said.contains(part), "the error lacks {part}: {said}");
        }
        assert!(!said.contains("not recognized"), "{said}");
    }
    let method = format!("{SERVICE}/GetJob");
    let output = terminal.call(&["-d", r#"{"job_id":"nobody"}"#, "A", &method]).await;
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("NotFound") && said.contains("JOB_NOT_FOUND"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_kind_of_detail_is_shown_readably() {
    let Some(terminal) = Terminal::open_with(&[("LONGHAUL_REQUESTS_MAX", "1")]).await else {
        return;
    };
    let client = terminal.server.client();
    client.submit(job("slow", [wait(3600)])).await;
    client.submit(job("done", [wait(0)])).await;
    client.settled_as("done", JobStatus::Completed).await;
    // The one watch that this server allows at once.
    let mut held = client.try_watch("slow", None).await.unwrap();
    held.message().await.unwrap();
    let body = |job_id: &str, more: &str| format!(r#"{{"job_id":"{job_id}"{more}}}"#);
    for (method, body, code, parts) in [
        (
            "SubmitJob",
            r#"{"steps":[]}"#.to_owned(),
            3,
            ["INVALID_REQUEST", "BadRequest", "fieldViolations", "\"steps\""],
        ),
        (
            "GetJob",
            body("nobody", ""),
            5,
            ["JOB_NOT_FOUND", "ResourceInfo", "resourceName", "longhaul.v1.Job"],
        ),
        (
            "Control",
            body("done", r#","pause":{}"#),
            9,
            ["JOB_STATE_CONFLICT", "PreconditionFailure", "subject", "JOB_STATUS_COMPLETED"],
        ),
        (
            "Control",
            body("nobody", r#","pause":{}"#),
            5,
            ["JOB_NOT_FOUND", "ResourceInfo", "resourceType", "nobody"],
        ),
        (
            "SubmitJob",
            body("done", r#","steps":[{"wait":{"duration_seconds":1}}]"#),
            6,
            ["JOB_ID_CONFLICT", "ErrorInfo", "metadata", "\"field\""],
        ),
        (
            "WatchJob",
            body("done", r#","after_sequence":99"#),
            8,
            ["OVERLOADED", "RetryInfo", "retryDelay", "ErrorInfo"],
        ),
    ] {
        let method = format!("{SERVICE}/{method}");
        let output = terminal.call(&["-d", &body, "A", &method]).await;
        let said = String::from_utf8(output.stderr).unwrap();
        // A status is the exit code above 64.
        assert_eq!(output.status.code(), Some(64 + code), "{said}");
        for part in parts.into_iter().chain(["longhaul.dev"]) {
            assert!(said.contains(part), "{method} {body} lacks {part}: {said}");
        }
        assert!(!said.contains("not recognized") && !said.contains("@value"), "{said}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_example_of_the_proto_runs_as_pasted() {
    let Some(terminal) = Terminal::open().await else { return };
    let proto = Path::new(env!("CARGO_MANIFEST_DIR")).join("proto/longhaul/v1/job_service.proto");
    let proto = fs::read_to_string(proto).unwrap();
    let lines = proto.lines().map(|line| line.trim().trim_start_matches("//").trim());
    let mut examples: Vec<String> = Vec::new();
    let mut is_inside = false;
    for line in lines {
        if line.starts_with("grpcurl ") {
            is_inside = true;
            examples.push(String::new());
        }
        if let Some(example) = examples.last_mut().filter(|_| is_inside) {
            example.push_str(line);
            example.push('\n');
            is_inside = !line.contains(ADDRESS);
        }
    }
    assert_eq!(examples.len(), 10, "{examples:?}");
    // Nobody can be told, so that there is something to send again.
    terminal.rig.sandbox.break_whatsapp(json!({"code": 131_026})).await;
    let mut printed = Vec::new();
    for example in &examples {
        printed.push(terminal.paste(&terminal.with_notice(example).await).await);
    }
    let [submitted, shown, approved, revoked, watched, listed, counted, notices, resent, used] =
        &printed[..]
    else {
        unreachable!("ten")
    };
    assert!(messages(revoked)[0]["revoked"].as_i64().is_some_and(|count| count > 0), "{revoked}");
    assert!(messages(notices)[0]["notices"].is_array(), "{notices}");
    assert_eq!(messages(resent)[0]["changed"], true);
    assert_eq!(messages(submitted)[0]["created"], true);
    assert_eq!(messages(shown)[0]["job"]["status"], "JOB_STATUS_AWAITING_APPROVAL");
    assert_eq!(messages(approved)[0]["changed"], true);
    let last = messages(watched).pop().unwrap();
    assert_eq!(last["event"]["kind"], "EVENT_KIND_JOB_COMPLETED");
    assert!(messages(listed)[0]["jobs"].is_null(), "{listed}");
    assert!(messages(listed)[0]["counts"].as_array().is_some_and(|all| all.len() == 1), "{listed}");
    assert_eq!(messages(counted), [json!({})], "nothing matches");
    assert_eq!(messages(used)[0]["rows"][0]["usage"]["calls"], 1, "{used}");
    terminal.server.client().settled_as("hello-1", JobStatus::Completed).await;
    assert_eq!(terminal.rig.db.job_count().await, 1);
}
