//! Import: a table of the published n8n template, filled as its description says, is taken over and run to the end.
//!
//! The template itself is not public, so that its exact rows are not known; these are of the columns and words that
//! its description names, and of the shape of our own read model.

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use longhaul::rpc::proto::{EventKind, Job, JobStatus};
use serde_json::{Value, json};

use crate::harness::{PERSON, Rig, approve, events_of, events_until_end, links, resume, retry};
use crate::program::{Folder, Program};
use crate::prune::see_pruned;

const WITHIN: Duration = Duration::from_mins(1);
const STEPS: &str = r#"[{"type": "run", "prompt": "Draft it."}, {"type": "approval", "note": "Well?"}, {"type": "run", "prompt": "Send {{ step_1_output }}."}]"#;

/// A database with the template's table beside ours, in a schema of its own.
struct Old {
    rig: Rig,
    folder: Folder,
}

impl Old {
    async fn table(variables: &[(&str, &str)]) -> Self {
        let rig = Rig::start_with(variables).await;
        let table = "create schema n8n; create table n8n.durable_jobs (
            job_id text primary key, status text not null, current_step integer not null default 0,
            state jsonb not null default '{}', lease_expires_at timestamptz, attempts integer not null default 0,
            created_at timestamptz not null default now(), updated_at timestamptz not null default now())";
        sqlx::raw_sql(table).execute(&rig.db.pool).await.unwrap();
        Self { rig, folder: Folder::make() }
    }

    /// A row that is a day old, whose steps are the usual three.
    async fn row(&self, job_id: &str, status: &str, current_step: i32, state: Value) {
        let asked =
            json!({"task": "Launch copy", "steps": serde_json::from_str::<Value>(STEPS).unwrap()});
        let insert = "insert into n8n.durable_jobs (job_id, status, current_step, state, created_at, updated_at)
          values ($1, $2, $3, $4::jsonb || $5, now() - interval '2 days', now() - interval '1 day')";
        let insert = sqlx::query(insert).bind(job_id).bind(status).bind(current_step);
        insert.bind(asked).bind(state).execute(&self.rig.db.pool).await.unwrap();
    }

    fn file(&self, name: &str, text: &str) -> String {
        let path = self.folder.0.join(name);
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }

    /// The exit code, and what it said on stdout and stderr.
    async fn import(&self, args: &[&str]) -> (i32, String, String) {
        let variables = BTreeMap::from([
            ("DATABASE_URL".to_owned(), self.rig.db.url.clone()),
            ("LONGHAUL_IMPORT_URL".to_owned(), self.rig.db.url.clone()),
            ("LONGHAUL_NOTIFY".to_owned(), PERSON.to_owned()),
            ("LONGHAUL_KEEP_FAILED_DAYS".to_owned(), "0.5".to_owned()),
        ]);
        let args = [&["import-n8n", "--table", "n8n.durable_jobs"], args].concat();
        let output = Program::run(&args, &variables, WITHIN).await;
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
    }

    async fn report(&self, args: &[&str]) -> Value {
        let (_, said, errors) = self.import(&[args, &["--json"]].concat()).await;
        serde_json::from_str(&said).unwrap_or_else(|_| panic!("{said}\n{errors}"))
    }

    /// Outcome, status and notes of each row.
    async fn rows(&self, args: &[&str]) -> BTreeMap<String, (String, String, String)> {
        let report = self.report(args).await;
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let of = |line: &Value| {
            let notes = line["notes"].as_array().cloned().unwrap_or_default();
            let notes: Vec<String> = notes.iter().map(text).collect();
            (
                text(&line["job_id"]),
                (text(&line["outcome"]), text(&line["status"]), notes.join("; ")),
            )
        };
        report["jobs"].as_array().unwrap().iter().map(of).collect()
    }
}

/// The results of a first step.
fn drafted() -> Value {
    json!({"step_1_output": "A draft.", "step_1_tokens": {"input": 100, "output": 20}, "step_1_cost_usd": 0.0123})
}

/// The results of all three.
fn sent() -> Value {
    let mut all = drafted();
    all["step_2_decision"] = json!("approved");
    all["step_3_output"] = json!("Sent.");
    all
}

fn cost(job: &Job) -> (String, i64, i64) {
    let usage = job.usage.unwrap();
    (job.cost_usd.clone(), usage.input_tokens, usage.output_tokens)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_in_each_status_is_taken_over_and_those_that_had_not_ended_run_to_the_end() {
    let old = Old::table(&[]).await;
    old.row("queued", "queued", 1, json!({})).await;
    old.row("running", "running", 1, json!({})).await;
    old.row("awaiting", "awaiting_approval", 2, drafted()).await;
    old.row("paused", "paused", 2, drafted()).await;
    old.row("completed", "completed", 3, sent()).await;
    old.row("failed", "failed", 1, json!({"error": "the model said no"})).await;
    old.row("cancelled", "cancelled", 2, drafted()).await;
    let expected = |outcome: &str| {
        let living = ["awaiting", "queued", "running", "paused"];
        let ended = ["completed", "failed", "cancelled"];
        living
            .into_iter()
            .chain(ended)
            .map(|id| (id.to_owned(), outcome.to_owned()))
            .collect::<BTreeMap<_, _>>()
    };
    let outcomes = |rows: &BTreeMap<String, (String, String, String)>| {
        rows.iter()
            .map(|(id, (outcome, ..))| (id.clone(), outcome.clone()))
            .collect::<BTreeMap<_, _>>()
    };
    let trial = old.rows(&["--dry-run"]).await;
    assert_eq!(outcomes(&trial), expected("imported"));
    assert_eq!(old.rig.db.job_count().await, 0, "a trial stores nothing");
    let rows = old.rows(&[]).await;
    assert_eq!(rows, trial, "it does what the trial said");
    assert_eq!(outcomes(&old.rows(&[]).await), expected("there_already"));
    assert_eq!(old.rig.db.job_count().await, 7);

    let rig = &old.rig;
    let completed = rig.job("completed").await;
    assert_eq!((completed.status(), completed.output.as_str()), (JobStatus::Completed, "Sent."));
    assert_eq!(cost(&completed), ("0.0123".to_owned(), 100, 20));
    let failed = rig.job("failed").await;
    assert_eq!((failed.status(), failed.current_step), (JobStatus::Failed, 1));
    for ended in ["completed", "failed", "cancelled"] {
        let job = rig.job(ended).await;
        assert_eq!(job.notices, [], "{ended}: nobody is told of what was before");
        let (created, finished) =
            (job.created_at.unwrap().seconds, job.finished_at.unwrap().seconds);
        assert_eq!(finished - created, 86_400, "{ended}: its times are those it had");
        let history = events_until_end(rig.try_watch(ended, Some(0)).await.unwrap()).await;
        assert_eq!(
            (history[0].kind(), history[0].actor.as_str()),
            (EventKind::JobSubmitted, "import")
        );
    }
    let history = events_until_end(rig.try_watch("failed", Some(0)).await.unwrap()).await;
    assert!(history.last().unwrap().message.contains("the model said no"), "{history:?}");
    go_on(rig).await;
}

/// Three wait for their people, of which two have their draft written first; one is held, and one begins again.
async fn go_on(rig: &Rig) {
    for job_id in ["awaiting", "queued", "running"] {
        rig.settled_as(job_id, JobStatus::AwaitingApproval).await;
        assert!(rig.control(job_id, approve()).await);
        let done = rig.settled_as(job_id, JobStatus::Completed).await;
        assert_eq!(done.steps.len(), 3);
    }
    assert_eq!(
        rig.sandbox.requests("Draft it.").await.len(),
        2,
        "a step that was done is not run again"
    );
    assert_eq!(rig.sandbox.requests("Send A draft.").await.len(), 1, "a later step builds on it");
    assert_eq!(rig.job("paused").await.status(), JobStatus::Paused);
    assert!(rig.control("paused", resume()).await);
    rig.settled_as("paused", JobStatus::AwaitingApproval).await;
    assert!(rig.control("failed", retry(0)).await);
    rig.settled_as("failed", JobStatus::AwaitingApproval).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_open_approval_is_asked_anew_and_the_new_link_decides() {
    let old = Old::table(&[]).await;
    old.row("awaiting", "awaiting_approval", 1, drafted()).await;
    old.import(&[]).await;
    let message = old.rig.sandbox.messages(PERSON, 1).await.remove(0);
    let [approve, _] = links(&message);
    let page = old.rig.http.get(&approve).send().await.unwrap().text().await.unwrap();
    assert!(page.contains("A draft.") && page.contains("Launch copy"), "{page}");
    let approval_id = old.rig.job("awaiting").await.approval.unwrap().approval_id;
    let form = format!("approval_id={approval_id}&verdict=approve");
    let post =
        old.rig.http.post(&approve).header("content-type", "application/x-www-form-urlencoded");
    assert_eq!(post.body(form).send().await.unwrap().status(), 303);
    old.rig.settled_as("awaiting", JobStatus::Completed).await;
    let history = events_until_end(old.rig.try_watch("awaiting", Some(0)).await.unwrap()).await;
    assert_eq!(events_of(&history, EventKind::StepFinished), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_sends_an_imported_job_again_is_answered_that_it_is_there() {
    let old = Old::table(&[("LONGHAUL_NOTIFY", "")]).await;
    old.row("same", "completed", 3, drafted()).await;
    old.import(&[]).await;
    let steps: Value = serde_json::from_str(STEPS).unwrap();
    let body = json!({"job_id": "same", "task": "Launch copy", "steps": steps});
    let (code, answer) = old.rig.post_job(&body).await;
    assert_eq!(
        (code, &answer["created"], &answer["status"]),
        (200, &json!(false), &json!("completed")),
        "{answer}"
    );
    let other = json!({"job_id": "same", "task": "Another", "steps": steps});
    assert_eq!(old.rig.post_job(&other).await.0, 409);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_bad_row_stops_no_other_and_each_says_what_is_wrong() {
    let old = Old::table(&[("LONGHAUL_NOTIFY", "")]).await;
    old.row("good", "paused", 1, json!({})).await;
    old.row("word", "snoozed", 1, json!({})).await;
    old.row("nowhere", "awaiting_approval", 1, json!({})).await;
    old.row("dance", "paused", 1, json!({"steps": [{"type": "dance"}]})).await;
    old.row("empty", "paused", 1, json!({"steps": []})).await;
    old.row("lost", "paused", 1, json!({"steps": null})).await;
    old.row("taken", "paused", 1, json!({})).await;
    old.row("\u{7}", "paused", 1, json!({})).await;
    old.row("held", "running", 1, json!({})).await;
    let lease = "update n8n.durable_jobs set lease_expires_at = now() + interval '1 hour' where job_id = 'held'";
    sqlx::raw_sql(lease).execute(&old.rig.db.pool).await.unwrap();
    let other = json!({"job_id": "taken", "task": "Another", "steps": [{"type": "wait", "duration_seconds": 3600}]});
    assert_eq!(old.rig.post_job(&other).await.0, 200);
    let (code, text, _) = old.import(&["--dry-run"]).await;
    assert_eq!(code, 1, "{text}");
    assert!(text.contains("1 would be imported, 0 there already, 8 left out"), "{text}");
    assert!(text.contains("deactivate n8n's workflow"), "{text}");
    let rows = old.rows(&[]).await;
    for (job_id, why) in [
        ("word", "--statuses"),
        ("nowhere", "awaits an approval"),
        ("dance", "steps[0].type"),
        ("empty", "steps: must have 1 to 1000"),
        ("lost", "--steps"),
        ("taken", "exists with other content"),
        ("\u{7}", "job_id: must be printable"),
        ("held", "n8n holds it until"),
    ] {
        let (outcome, _, notes) = &rows[job_id];
        assert_eq!(outcome, "left_out", "{job_id}");
        assert!(notes.contains(why), "{job_id}: {notes}");
    }
    assert_eq!((rows["good"].0.as_str(), rows["good"].1.as_str()), ("imported", "paused"));
}

#[tokio::test(flavor = "multi_thread")]
async fn files_say_what_the_table_does_not() {
    let old = Old::table(&[("LONGHAUL_NOTIFY", "")]).await;
    old.row("snoozed", "On Hold", 1, json!({})).await;
    old.row("bare", "done", 0, json!({"steps": null, "task": null})).await;
    old.row("own", "done", 0, json!({"steps": null})).await;
    let statuses = old.file("statuses.toml", "on_hold = \"paused\"\ndone = \"completed\"\n");
    let steps = json!({
        "default": {"task": "From the file", "steps": [{"type": "run", "prompt": "P"}]},
        "own": {"task": "Its own", "steps": [{"type": "wait", "duration_seconds": 0}]},
    });
    let steps = old.file("steps.json", &steps.to_string());
    let rows = old.rows(&["--statuses", &statuses, "--steps", &steps]).await;
    assert!(rows.values().all(|(outcome, ..)| outcome == "imported"), "{rows:?}");
    assert_eq!(old.rig.job("snoozed").await.status(), JobStatus::Paused);
    assert_eq!(old.rig.job("bare").await.task, "From the file");
    assert!(rows["bare"].2.contains("output is not in its state"), "{rows:?}");
    assert_eq!(old.rig.job("own").await.task, "Its own");
    for (file, expected) in [
        ("statuses = 7", "a status for each word"),
        ("on_hold = \"gone\"", "must be one of queued"),
    ] {
        let statuses = old.file("bad.toml", file);
        let (code, _, errors) = old.import(&["--statuses", &statuses]).await;
        assert_eq!(code, 2);
        assert!(errors.contains(expected), "{errors}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn how_steps_are_counted_is_told_by_the_rows_that_leave_no_doubt() {
    let old = Old::table(&[("LONGHAUL_NOTIFY", "")]).await;
    // Whether its approval has been given, the number alone tells.
    old.row("doubt", "paused", 2, drafted()).await;
    let rows = old.rows(&["--dry-run"]).await;
    assert!(rows["doubt"].2.contains("fits counting from 0 and from 1"), "{rows:?}");
    old.row("clear", "awaiting_approval", 1, drafted()).await;
    let (_, _, errors) = old.import(&["--dry-run"]).await;
    assert!(errors.contains("counts from 0, as 1 rows show"), "{errors}");
    old.import(&[]).await;
    assert_eq!(old.rig.job("doubt").await.current_step, 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn our_own_view_and_a_table_that_is_not_there_are_refused_and_no_password_is_told() {
    let old = Old::table(&[]).await;
    let variables = BTreeMap::from([("DATABASE_URL".to_owned(), old.rig.db.url.clone())]);
    let with_password = old.rig.db.url.replacen("postgres@", "postgres:hunter2@", 1);
    for (table, expected) in [
        ("durable_jobs", "Longhaul's own view"),
        ("longhaul.durable_jobs", "Longhaul's own view"),
        ("n8n.nothing", "no table n8n.nothing"),
        ("longhaul.event", "has no column"),
    ] {
        let args = ["import-n8n", "--from", &with_password, "--table", table];
        let output = Program::run(&args, &variables, WITHIN).await;
        let errors = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{errors}");
        assert!(errors.contains(expected) && !errors.contains("hunter2"), "{errors}");
    }
    let args = ["import-n8n", "--from", "mysql://root:hunter2@127.0.0.1/x"];
    let output = Program::run(&args, &variables, WITHIN).await;
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(errors.contains("must name a Postgres") && !errors.contains("hunter2"), "{errors}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_table_is_read_by_the_index_of_its_ids() {
    let old = Old::table(&[("LONGHAUL_NOTIFY", "")]).await;
    let fill = "insert into n8n.durable_jobs (job_id, status, state)
          select 'job-' || n, 'snoozed', jsonb_build_object('pad', repeat('x', 2000))
          from generate_series(1, 20000) n;
        analyze n8n.durable_jobs";
    sqlx::raw_sql(fill).execute(&old.rig.db.pool).await.unwrap();
    let report = old.report(&["--dry-run"]).await;
    assert_eq!(report["left_out"], 20_000);
    // Twice a hundred at a time: to see how steps are counted, and to import. All ids are read once, to count them.
    let by_index = "select idx_scan >= 400 and $1 <> '' from pg_stat_user_indexes
      where schemaname = 'n8n' and indexrelname = 'durable_jobs_pkey'";
    old.rig.db.wait_until(by_index, "any").await;
    let scans = "select seq_scan from pg_stat_user_tables where schemaname = 'n8n'";
    assert!(old.rig.db.number(scans).await < 10);
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_without_an_id_or_with_that_of_another_are_counted() {
    let old = Old::table(&[("LONGHAUL_NOTIFY", "")]).await;
    let loosen = "alter table n8n.durable_jobs drop constraint durable_jobs_pkey;
      alter table n8n.durable_jobs alter job_id drop not null;
      alter table n8n.durable_jobs alter job_id type varchar(40)";
    sqlx::raw_sql(loosen).execute(&old.rig.db.pool).await.unwrap();
    for job_id in ["one", "twice", "twice", "zero"] {
        old.row(job_id, "paused", 1, json!({})).await;
    }
    let nameless = "insert into n8n.durable_jobs (status) values ('paused'), ('queued')";
    sqlx::raw_sql(nameless).execute(&old.rig.db.pool).await.unwrap();
    let (code, text, _) = old.import(&["--dry-run"]).await;
    assert_eq!(code, 1, "{text}");
    assert!(text.contains("2 more left out: they have no job_id"), "{text}");
    let report = old.report(&[]).await;
    assert_eq!(
        (&report["imported"], &report["without_job_id"], &report["with_job_id_of_another"]),
        (&json!(3), &json!(2), &json!(1)),
        "{report}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn history_that_is_pruned_at_once_is_told_before_and_after() {
    let old = Old::table(&[("LONGHAUL_KEEP_FAILED_DAYS", "0.5")]).await;
    old.row("old", "failed", 1, json!({})).await;
    old.row("kept", "completed", 3, sent()).await;
    let rows = old.rows(&["--dry-run"]).await;
    assert!(rows["old"].2.contains("LONGHAUL_KEEP_FAILED_DAYS"), "{rows:?}");
    assert_eq!(old.rows(&[]).await, rows);
    see_pruned(&old.rig.db, &["old"]).await;
    let rows = old.rows(&[]).await;
    assert_eq!((rows["old"].0.as_str(), rows["kept"].0.as_str()), ("pruned", "there_already"));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_read_is_told_and_a_broken_database_is_told_once() {
    let old = Old::table(&[("LONGHAUL_NOTIFY", "")]).await;
    let mut odd = sent();
    odd["step_1_tokens"] = json!("many");
    old.row("odd", "completed", 3, odd).await;
    old.row("other", "Rejected", 2, drafted()).await;
    let statuses = old.file("statuses.json", r#"{"rejected": "cancelled"}"#);
    let rows = old.rows(&["--statuses", &statuses]).await;
    assert!(rows["odd"].2.contains("step 1: its tokens cannot be read"), "{rows:?}");
    assert_eq!(old.rig.job("other").await.reason, "REJECTED");
    let broken = "alter table longhaul.job rename to gone";
    sqlx::raw_sql(broken).execute(&old.rig.db.pool).await.unwrap();
    let (code, said, errors) = old.import(&["--dry-run"]).await;
    assert_ne!(code, 0);
    assert_eq!(errors.matches("has a server of this release").count(), 1, "{said}\n{errors}");
}
