//! Old and new side by side: what the previous release left behind goes on, and neither release stands in the other's way.
//!
//! The fixture is a dump of a database as the previous release left it; its head says how it was made and when.
//! The clock is set back to that time, so that nothing in it has become due by lying around.

use longhaul::rpc::proto::JobStatus;
use serde_json::{Value, json};
use sqlx::{Connection as _, PgConnection};

use crate::ask::{asking, form};
use crate::harness::{Client, PERSON, Process, Rig, approve, job, resume, retry, run, wait};

const FIXTURE: &str = include_str!("fixture/migration_0007.sql");

/// What the head of the fixture says under this name.
fn told(name: &str) -> &'static str {
    let head = FIXTURE.lines().take_while(|line| line.starts_with("--"));
    let mut found = head.filter_map(|line| line.strip_prefix("-- ")?.split_once(": "));
    found.find(|(known, _)| *known == name).unwrap_or_else(|| panic!("no {name} in the head")).1
}

/// A rig on the database of the previous release, at the time at which that was left.
async fn previous() -> Rig {
    let rig = Rig::on_an_empty_database().await;
    let mut connection = PgConnection::connect(&rig.db.url).await.unwrap();
    sqlx::raw_sql(FIXTURE).execute(&mut connection).await.unwrap();
    let set = sqlx::query(
        "insert into longhaul.setting (name, value)
         values ('clock_shift', ($1::timestamptz - now())::text)",
    );
    set.bind(told("taken_at")).execute(&mut connection).await.unwrap();
    connection.close().await.unwrap();
    rig
}

/// The rows of a table, oldest columns first.
async fn rows(rig: &Rig, statement: &'static str) -> Vec<Value> {
    sqlx::query_scalar(statement).fetch_all(&rig.db.pool).await.unwrap()
}

/// Decides through a link from before the upgrade.
async fn press(client: &Client, job_id: &str, token: &str, note: &str) {
    let link = format!("{}/approvals/{token}", client.http_url);
    let page = client.http.get(&link).send().await.unwrap().text().await.unwrap();
    assert!(page.contains(note), "{page}");
    let form = form(client, job_id, "approve", "").await;
    let kind = "application/x-www-form-urlencoded";
    let post = client.http.post(&link).header("content-type", kind).body(form);
    assert_eq!(post.send().await.unwrap().status(), 303);
}

/// The history of every job is whole, and agrees with its row.
async fn assert_histories(rig: &Rig) {
    let broken = "select count(*) from longhaul.job j where (
        select (count(*), min(e.sequence), max(e.sequence), (array_agg(e.status order by e.sequence desc))[1])
        from longhaul.event e where e.shard = j.shard and e.job_id = j.job_id
      ) is distinct from (j.last_sequence::bigint, 1, j.last_sequence, j.status)";
    assert_eq!(rig.db.number(broken).await, 0, "a history has a gap, or tells another end");
}

const PAUSED: [&str; 8] = [
    "paused-waiting",
    "paused-scheduled",
    "paused-provider",
    "paused-asking",
    "paused-kept",
    "paused-entering",
    "paused-lost",
    "paused-queued",
];

#[tokio::test(flavor = "multi_thread")]
async fn every_job_of_the_previous_release_goes_on_to_its_right_end() {
    let rig = previous().await;
    let kept = "select to_jsonb(c) from longhaul.checkpoint c order by job_id, step, revision";
    let checkpoints = rows(&rig, kept).await;
    let server = rig.serve().await;
    let client = &server.client;

    // What had ended stays as it was, and what was running or due runs.
    for (job_id, status) in [
        ("completed", JobStatus::Completed),
        ("failed", JobStatus::Failed),
        ("cancelled", JobStatus::Cancelled),
        ("rejected", JobStatus::Cancelled),
        ("queued", JobStatus::Completed),
        ("running", JobStatus::Completed),
        ("running-again", JobStatus::Completed),
        ("last-slot", JobStatus::Completed),
        ("pausing", JobStatus::Paused),
    ] {
        client.settled_as(job_id, status).await;
    }
    rig.db.shift_clock(30).await;
    client.settled_as("delayed", JobStatus::Completed).await;
    press(client, "asking", told("link asking"), "May the asked line go out?").await;
    client.settled_as("asking", JobStatus::Completed).await;
    press(client, "quorum", told("link quorum"), "Two must say yes.").await;
    client.settled_as("quorum", JobStatus::Completed).await;
    assert!(client.control("failed", retry(0)).await);
    assert_eq!(client.settled_as("failed", JobStatus::Completed).await.revision, 2);

    for job_id in ["pausing", "paused-now"].iter().chain(&PAUSED) {
        assert_eq!(client.job(job_id).await.status(), JobStatus::Paused, "{job_id}");
        assert!(client.control(job_id, resume()).await, "{job_id}");
    }
    client.settled_as("paused-asking", JobStatus::AwaitingApproval).await;
    assert!(client.control("paused-asking", approve()).await);
    rig.db.shift_clock(2 * 3600).await;
    for job_id in ["retried", "parked", "pausing", "paused-now"]
        .iter()
        .chain(PAUSED.iter().filter(|job_id| **job_id != "paused-scheduled"))
    {
        client.settled_as(job_id, JobStatus::Completed).await;
    }
    let sent = "select bool_and(delivery = 'sent') from longhaul.outbox
                where job_id = $1 and kind = 'approval_requested'";
    for job_id in ["unsent", "half-sent"] {
        rig.db.wait_until(sent, job_id).await;
        assert!(client.control(job_id, approve()).await);
        client.settled_as(job_id, JobStatus::Completed).await;
    }
    rig.db.shift_clock(24 * 3600).await;
    for job_id in ["scheduled", "paused-scheduled"] {
        client.settled_as(job_id, JobStatus::Completed).await;
    }

    assert_histories(&rig).await;
    let now = rows(&rig, kept).await;
    for before in checkpoints {
        assert!(now.iter().any(|row| contains(row, &before)), "lost or changed: {before}");
    }
    assert_nothing_is_asked_twice(&rig).await;
}

/// Neither a model nor a person is asked again what had been answered, or told again what they had been told.
async fn assert_nothing_is_asked_twice(rig: &Rig) {
    for done in ["a completed line", "before the crash", "to approve", "for two", "a first line"] {
        assert_eq!(rig.sandbox.requests(done).await.len(), 0, "{done:?} is asked again");
    }
    for once in ["through the crash", "a [hold] line twice", "after the approval", "in the queue"] {
        assert_eq!(rig.sandbox.requests(once).await.len(), 1, "{once:?}");
    }
    let asked = rig.sandbox.messages(PERSON, 0).await;
    let texts = asked.iter().map(|message| message["text"].as_str().unwrap());
    let requests: Vec<&str> = texts.filter(|text| text.contains("/approvals/")).collect();
    assert_eq!(requests.len(), 1, "only the held job had not been asked: {requests:?}");
    for (person, told) in [("+15550198", 1), ("+15550199", 1), ("+15550101", 0), ("+15550102", 0)] {
        let got = rig.sandbox.messages(person, 0).await;
        let asked = got.iter().filter(|message| {
            message["text"].as_str().is_some_and(|text| text.contains("/approvals/"))
        });
        assert_eq!(asked.count(), told, "{person}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_migration_that_waits_for_a_lock_holds_up_nobody_for_long() {
    let rig = previous().await;
    let mut holder = rig.db.pool.begin().await.unwrap();
    let hold = "lock table longhaul.executor in access share mode";
    sqlx::query(hold).execute(&mut *holder).await.unwrap();
    let starting = Process::begin(&rig, &[]).await;
    let queued = "select count(*) > 0 and $1 <> '' from pg_locks
      where not granted and relation = 'longhaul.executor'::regclass";
    rig.db.wait_until(queued, "any").await;
    // As a server of the previous release renews, with its patience.
    let renew = "set local lock_timeout = '3s';
      update longhaul.executor set lease_expires_at = longhaul.now() + interval '30 seconds'";
    for _ in 0..3 {
        let mut renewing = rig.db.pool.begin().await.unwrap();
        sqlx::raw_sql(renew).execute(&mut *renewing).await.unwrap();
        renewing.commit().await.unwrap();
        rig.db.wait_until(queued, "any").await;
    }
    starting.waiting_at().await;
    holder.rollback().await.unwrap();
    let server = starting.ready().await;
    assert!(server.said().contains("a migration needs a lock"), "{}", server.said());
    assert_eq!(rig.db.number("select count(presence_key) from longhaul.executor").await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_submission_of_the_previous_release_is_known_again() {
    let rig = previous().await;
    let server = rig.serve().await;
    let (before, after) = ("Write a line before the wait.", "Write a line after the wait.");
    let mut body = json!({"job_id": "parked", "task": "Launch copy", "steps": [
        {"type": "run", "prompt": before}, {"type": "wait", "duration_seconds": 3600},
        {"type": "run", "prompt": after}]});
    let (status, answer) = server.client.post_job(&body).await;
    assert_eq!((status, &answer["created"]), (200, &json!(false)), "{answer}");
    body["task"] = "Another task".into();
    let (status, answer) = server.client.post_job(&body).await;
    assert_eq!((status, &answer["reason"]), (409, &json!("JOB_ID_CONFLICT")), "{answer}");
}

/// What a newer release's migrations may do while servers of this one are running.
const NEWER: &str = "
    alter table longhaul.job add novelty text not null default 'new';
    alter table longhaul.job_spec add novelty text not null default 'new';
    alter table longhaul.executor add novelty jsonb;
    alter table longhaul.checkpoint add novelty text not null default 'new';
    alter table longhaul.event add novelty text;
    alter table longhaul.model_call add novelty integer not null default 0;
    alter table longhaul.approval add novelty text;
    alter table longhaul.decision add novelty text;
    alter table longhaul.approval_link add novelty text;
    alter table longhaul.outbox add novelty text not null default 'new';
    create table longhaul.novelty (novelty text primary key);
    insert into longhaul._sqlx_migrations (version, description, success, checksum, execution_time)
    values (9999, 'novelty', true, '\\x00', 0)";

#[tokio::test(flavor = "multi_thread")]
async fn a_server_goes_on_and_starts_again_on_the_schema_of_a_newer_release() {
    let rig = Rig::start().await;
    let shapes = |name: &str| job(name, [run("Write it."), wait(60), run("Write it again.")]);
    let every = |when: &str| [shapes(&format!("{when}-run")), asking(&format!("{when}-asking"))];
    for job in every("before") {
        rig.submit(job).await;
    }
    rig.settled_as("before-asking", JobStatus::AwaitingApproval).await;
    sqlx::raw_sql(NEWER).execute(&rig.db.pool).await.unwrap();
    // The one that is running has every statement prepared already; the other one has to start.
    let other = rig.serve().await;
    for job in every("after") {
        other.client.submit(job).await;
    }
    rig.sandbox.hold("lost").await;
    rig.submit(job("lost", [run("Write what is lost.")])).await;
    rig.sandbox.wait_for("lost", "held", 1).await;
    rig.db.end_lease("lost").await;
    rig.sandbox.wait_for("lost", "disconnected", 1).await;
    rig.sandbox.mend().await;
    rig.db.shift_clock(61).await;
    for when in ["before", "after"] {
        let asking = format!("{when}-asking");
        rig.settled_as(&asking, JobStatus::AwaitingApproval).await;
        assert!(rig.control(&asking, approve()).await);
        rig.settled_as(&asking, JobStatus::Completed).await;
        rig.settled_as(&format!("{when}-run"), JobStatus::Completed).await;
    }
    rig.settled_as("lost", JobStatus::Completed).await;
    assert_histories(&rig).await;
    other.stop().await;
}

/// Whether a row has everything that another has; a newer release may have added to it.
fn contains(row: &Value, part: &Value) -> bool {
    let (Some(row), Some(part)) = (row.as_object(), part.as_object()) else { return false };
    part.iter().all(|(name, value)| row.get(name) == Some(value))
}
