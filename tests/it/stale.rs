//! Control against an executor that works, one that was just killed, and one that froze past its lease and wakes up.
//!
//! Whatever is asked is done at once and is the same when it is repeated; each job ends as it was told to,
//! a stale executor writes nothing, and the ledger has every call the provider saw.

use longhaul::rpc::proto::{JobStatus, control_request::Action};

use crate::harness::{Client, Process, Rig, cancel, job, pause, pause_now, resume, retry, run};
use crate::storm::assert_laws;

/// What is asked, each once and again, and how the job stands then: if its executor works, and if it does not.
struct Row {
    name: &'static str,
    actions: &'static [fn() -> Action],
    working: (JobStatus, i32),
    gone: (JobStatus, i32),
}

const TABLE: [Row; 6] = [
    Row {
        name: "soft",
        actions: &[pause],
        // The attempt in hand is the last before the pause, and if it is lost there is none.
        working: (JobStatus::Paused, 3),
        gone: (JobStatus::Paused, 2),
    },
    Row {
        name: "hard",
        actions: &[pause_now],
        working: (JobStatus::Paused, 2),
        gone: (JobStatus::Paused, 2),
    },
    Row {
        name: "resume",
        actions: &[pause, resume],
        working: (JobStatus::Completed, 3),
        gone: (JobStatus::Completed, 3),
    },
    Row {
        name: "again",
        actions: &[pause_now, resume],
        working: (JobStatus::Completed, 3),
        gone: (JobStatus::Completed, 3),
    },
    Row {
        name: "cancel",
        actions: &[cancel],
        working: (JobStatus::Cancelled, 2),
        gone: (JobStatus::Cancelled, 2),
    },
    Row {
        name: "retry",
        actions: &[cancel, || retry(1)],
        working: (JobStatus::Completed, 3),
        gone: (JobStatus::Completed, 3),
    },
];

/// A rig and a process on it that has the second step of every job of the table in hand.
async fn all_in_hand() -> (Rig, Process) {
    let rig = Rig::without_server(&[("LONGHAUL_LEASE_SECONDS", "2")]).await;
    let process = Process::serve(&rig, &[]).await;
    rig.sandbox.hold("second").await;
    for Row { name, .. } in TABLE {
        let steps =
            ["first", "second", "third"].map(|which| run(&format!("The {which} of {name}.")));
        process.client.submit(job(name, steps)).await;
    }
    rig.sandbox.wait_for("second", "held", TABLE.len()).await;
    (rig, process)
}

async fn ask(client: &Client) {
    for Row { name, actions, .. } in TABLE {
        for action in actions {
            assert!(client.control(name, action()).await, "{name}: {:?}", action());
            assert!(!client.control(name, action()).await, "{name}: {:?} again", action());
        }
    }
}

/// Every job ends as the table says, and those that are paused go on where they stood.
async fn assert_ends(rig: &Rig, client: &Client, expected: impl Fn(&Row) -> (JobStatus, i32)) {
    rig.sandbox.mend().await;
    for row in TABLE {
        let (status, step) = expected(&row);
        let stands = client.settled_as(row.name, status).await;
        assert_eq!(stands.current_step, step, "{}", row.name);
        let revision = if row.name == "retry" { 2 } else { 1 };
        assert_eq!(stands.revision, revision, "{}", row.name);
        if status == JobStatus::Paused {
            assert!(client.control(row.name, resume()).await, "{}", row.name);
            client.settled_as(row.name, JobStatus::Completed).await;
        }
        // What is paused or done once is done once: a first step has no second answer unless it was asked for.
        let asked = rig.sandbox.requests(&format!("first of {}", row.name)).await.len();
        assert_eq!(i32::try_from(asked), Ok(revision), "{}", row.name);
    }
    let settled = "select $1 <> '' and bool_and(outcome <> 'started') from longhaul.model_call";
    rig.db.wait_until(settled, "all").await;
    assert_laws(rig).await;
    let seen = i64::try_from(rig.sandbox.requests("").await.len()).unwrap();
    assert_eq!(rig.db.number("select count(*) from longhaul.model_call").await, seen);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_working_executor_is_told() {
    let (rig, process) = all_in_hand().await;
    let other = rig.serve().await;
    ask(&other.client).await;
    assert_ends(&rig, &other.client, |row| row.working).await;
    process.terminate().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_executor_that_was_just_killed_holds_nobody_up() {
    let (rig, process) = all_in_hand().await;
    let other = rig.serve().await;
    process.kill9().await;
    ask(&other.client).await;
    assert_ends(&rig, &other.client, |row| row.gone).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_executor_that_froze_past_its_lease_changes_nothing_when_it_wakes() {
    let (rig, process) = all_in_hand().await;
    let other = rig.serve().await;
    process.freeze();
    ask(&other.client).await;
    assert_ends(&rig, &other.client, |row| row.gone).await;
    let all = "select coalesce(sum(last_sequence), 0) + 1000000 * (select count(*) from longhaul.checkpoint)
               from longhaul.job";
    let before = rig.db.number(all).await;
    process.thaw();
    let settled =
        "select $1 <> '' and bool_and(outcome not in ('started', 'lost')) from longhaul.model_call";
    rig.db.wait_until(settled, "each call that it had in hand").await;
    process.terminate().await;
    assert_eq!(rig.db.number(all).await, before, "a stale executor wrote something");
    assert_laws(&rig).await;
}
