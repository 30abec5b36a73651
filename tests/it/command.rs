//! The command line as a script uses it: the real program, its exit codes, its stderr, and JSON for machines.

use std::collections::BTreeMap;
use std::fs;
use std::process::Output;

use serde_json::{Value, json};

use crate::harness::{PATIENCE, Rig};
use crate::program::{Folder, Program, SERVE};

/// A shell beside a server.
pub struct Shell {
    _rig: Rig,
    pub server: Program,
    pub folder: Folder,
    variables: BTreeMap<String, String>,
}

/// How a command ended and what it said.
#[derive(Debug)]
pub struct Said {
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl Shell {
    /// A shell beside a server that has no key for its model, so that a run step fails for good.
    pub async fn open() -> Self {
        let rig = Rig::without_server(&[("LONGHAUL_MODEL_API_KEY", "")]).await;
        let server = Program::start(&SERVE, rig.variables()).await;
        let address = format!("http://{}", server.address("grpc"));
        let variables = BTreeMap::from([("LONGHAUL_SERVER".to_owned(), address)]);
        Self { _rig: rig, server, folder: Folder::make(), variables }
    }

    pub async fn run(&self, args: &[&str]) -> Said {
        let Output { status, stdout, stderr } = Program::run(args, &self.variables, PATIENCE).await;
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Said { code: status.code().unwrap(), out: text(stdout), err: text(stderr) }
    }

    /// Runs a command that prints one JSON value.
    pub async fn json(&self, args: &[&str]) -> Value {
        let said = self.run(&[args, &["--json"]].concat()).await;
        assert_eq!((said.code, said.err.as_str()), (0, ""), "{args:?}: {said:?}");
        serde_json::from_str(&said.out).unwrap()
    }

    pub fn file(&self, name: &str, submission: &Value) -> String {
        let path = self.folder.0.join(name);
        fs::write(&path, submission.to_string()).unwrap();
        path.to_str().unwrap().to_owned()
    }

    /// A file with a job of one step.
    pub fn job(&self, job_id: &str, step: &Value) -> String {
        self.file(job_id, &json!({"job_id": job_id, "task": "Copy", "steps": [step]}))
    }
}

pub fn long_wait() -> Value {
    json!({"type": "wait", "duration_seconds": 3600})
}

fn question() -> Value {
    json!({"type": "approval", "note": "Well?"})
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watched_submit_ends_as_its_job_does() {
    let shell = Shell::open().await;
    let quick = shell.job("quick", &json!({"type": "wait", "duration_seconds": 0}));
    let said = shell.run(&["submit", &quick, "--watch"]).await;
    assert_eq!(said.code, 0, "{said:?}");
    assert!(
        said.out.contains("job quick was created") && said.out.contains("completed"),
        "{said:?}"
    );
    let hopeless = shell.job("hopeless", &json!({"type": "run", "prompt": "Write."}));
    let said = shell.run(&["submit", &hopeless, "--watch"]).await;
    assert_eq!(said.code, 3, "{said:?}");
    assert!(said.err.contains("warning: no key for the model provider"), "{said:?}");
    let asked = shell.job("asked", &question());
    assert_eq!(shell.run(&["submit", &asked]).await.code, 0);
    shell.server.client().settled("asked").await;
    let (watched, rejected) = (["submit", &asked, "--watch"], ["reject", "asked"]);
    let (watched, rejected) = tokio::join!(shell.run(&watched), shell.run(&rejected));
    assert_eq!((watched.code, rejected.code), (4, 0), "{watched:?} {rejected:?}");
    assert_eq!(shell.run(&["watch", "asked"]).await.code, 4);
    shell.server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn each_refusal_has_its_exit_code_and_says_why() {
    let shell = Shell::open().await;
    let said = shell.run(&["get", "nobody"]).await;
    assert_eq!((said.code, said.out.as_str()), (5, ""), "{said:?}");
    assert!(said.err.contains("there is no job nobody"), "{said:?}");
    let first = shell.job("taken", &long_wait());
    assert_eq!(shell.run(&["submit", &first]).await.code, 0);
    assert!(shell.run(&["submit", &first]).await.out.contains("was there already"));
    let other = shell.file("other", &json!({"job_id": "taken", "steps": [question()]}));
    let said = shell.run(&["submit", &other]).await;
    assert_eq!(said.code, 6, "{said:?}");
    assert_eq!(shell.run(&["approve", "taken"]).await.code, 6);
    for (submission, field) in [
        (json!({"steps": [{"type": "run", "prompt": ""}]}), "steps[0].run.prompt: must not be"),
        (json!({"steps": [{"type": "run", "promt": "p"}]}), "steps[0].run.promt: unknown field"),
        (json!({"steps": []}), "steps: must have 1 to 1000 steps"),
    ] {
        let said = shell.run(&["submit", &shell.file("invalid", &submission)]).await;
        assert_eq!(said.code, 7, "{said:?}");
        assert!(said.err.contains(field) && said.out.is_empty(), "{said:?}");
    }
    let said = shell.run(&["list", "--server", "http://127.0.0.1:1"]).await;
    assert_eq!(said.code, 69, "{said:?}");
    assert!(said.err.contains("no server answers at"), "{said:?}");
    assert_eq!(shell.run(&["list", "--status", "done"]).await.code, 2);
    shell.server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_is_moved_and_shown_from_the_shell() {
    let shell = Shell::open().await;
    let parked = shell.job("parked", &long_wait());
    let created = shell.json(&["submit", &parked]).await;
    assert_eq!((&created["created"], &created["job"]["status"]), (&json!(true), &json!("queued")));
    for (args, status, changed) in [
        (&["pause", "parked"][..], "paused", true),
        (&["pause", "parked"], "paused", false),
        (&["pause", "parked", "--request-id", "p"], "paused", false),
        (&["resume", "parked"], "queued", true),
        // It would pause the job, if it had not been answered before.
        (&["pause", "parked", "--request-id", "p"], "queued", false),
        (&["cancel", "parked", "--comment", "No."], "cancelled", true),
        (&["retry", "parked"], "queued", true),
    ] {
        let moved = shell.json(args).await;
        assert_eq!(moved["changed"], changed, "{args:?}: {moved}");
        assert_eq!(moved["job"]["status"], status, "{args:?}: {moved}");
    }
    for (job_id, action, end) in [("yes", "approve", "completed"), ("no", "reject", "cancelled")] {
        shell.json(&["submit", &shell.job(job_id, &question())]).await;
        let asks = shell.json(&["get", job_id, "--wait", "20"]).await;
        assert_eq!(asks["job"]["status"], "awaiting_approval", "{asks}");
        shell.json(&[action, job_id, "--comment", "Said.", "--as", "Ann"]).await;
        let ended = shell.json(&["get", job_id, "--wait", "20"]).await;
        assert_eq!(ended["job"]["status"], end, "{ended}");
        assert_eq!(ended["job"]["steps"][0]["decisions"][0]["comment"], "Said.");
    }
    let listed = shell.json(&["list"]).await;
    let ids = listed["jobs"].as_array().unwrap().iter().map(|job| &job["job_id"]);
    assert_eq!(ids.collect::<Vec<_>>(), ["no", "yes", "parked"], "newest first");
    let listed = shell.json(&["list", "--status", "queued"]).await;
    assert_eq!(listed["jobs"].as_array().unwrap().len(), 1);
    let plain = shell.run(&["list"]).await;
    assert!(plain.out.lines().count() == 4 && plain.out.contains("parked"), "{plain:?}");
    shell.server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_would_open_the_sandbox_or_pass_for_another_process_is_refused() {
    let nothing = BTreeMap::new();
    for args in [&["sandbox", "--addr", "0.0.0.0:0"][..], &["dev", "--sandbox-addr", "[::]:0"]] {
        let output = Program::run(args, &nothing, PATIENCE).await;
        assert_eq!(output.status.code(), Some(2), "{args:?}: {output:?}");
        assert!(String::from_utf8(output.stderr).unwrap().contains("must be a loopback address"));
    }
    let folder = Folder::make();
    let stale = folder.0.join("ready.json");
    fs::write(&stale, "{}").unwrap();
    let args = [&SERVE[..], &["--ready-file", stale.to_str().unwrap()]].concat();
    let output = Program::run(&args, &nothing, PATIENCE).await;
    assert_eq!(output.status.code(), Some(78), "{output:?}");
    assert!(!stale.exists(), "a server that does not serve is not known as one that does");
}

#[tokio::test(flavor = "multi_thread")]
async fn many_jobs_are_moved_after_a_look_at_how_many() {
    let shell = Shell::open().await;
    for (job_id, name) in [("one", "a"), ("two", "a"), ("three", "b")] {
        let labels = json!({"labels": {"team": name}});
        let submission = json!({"job_id": job_id, "steps": [long_wait()], "settings": labels});
        assert_eq!(shell.run(&["submit", &shell.file(job_id, &submission)]).await.code, 0);
    }
    let team = ["cancel", "--where", "label.team=a", "--where", "status=queued"];
    let with = |more: &[&'static str]| [&team[..], more].concat();
    let said = shell.run(&with(&["--dry-run"])).await;
    assert_eq!((said.code, said.out.as_str()), (0, "would cancel 2 jobs\n"), "{said:?}");
    // There is nobody here to be asked.
    let said = shell.run(&team).await;
    assert_eq!(said.code, 2, "{said:?}");
    assert!(said.err.contains("--yes"), "{said:?}");
    let counts = shell.json(&["list", "--counts"]).await;
    assert_eq!(
        (&counts["counts"]["queued"], &counts["counts"]["cancelled"]),
        (&json!(3), &json!(0))
    );
    let done = shell.json(&with(&["--yes", "--silent", "--comment", "The launch is off."])).await;
    let expected = json!({"matched": 2, "changed": 2, "refused": 0, "refused_job_ids": []});
    assert_eq!(done, expected);
    let said = shell.run(&with(&["--yes"])).await;
    assert_eq!((said.code, said.out.as_str()), (0, "no job to cancel\n"), "{said:?}");
    let said = shell.run(&["list", "--counts", "--status", "queued,cancelled"]).await;
    assert!(said.out.starts_with("1 queued, 2 cancelled\n\n"), "{said:?}");
    let said = shell.run(&["list", "--created-before", "2026-01-01"]).await;
    assert_eq!((said.code, said.out.as_str()), (0, "no jobs\n"), "{said:?}");
    for (args, code, why) in [
        (vec!["cancel"], 2, "JOB"),
        (vec!["cancel", "one", "--where", "status=queued"], 2, "cannot be used with"),
        (vec!["pause", "one", "--silent"], 2, "cannot be used with"),
        (vec!["pause", "--where", "team=a"], 2, "label.KEY=VALUE"),
        (vec!["retry", "--where", "status=queued", "--yes"], 7, "selector.statuses[0]"),
    ] {
        let said = shell.run(&args).await;
        assert_eq!(said.code, code, "{args:?}: {said:?}");
        assert!(said.err.contains(why), "{args:?}: {said:?}");
    }
    shell.server.stop().await;
}
