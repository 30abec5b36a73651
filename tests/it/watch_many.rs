//! Many watchers of one job: woken together, read once for all of them, and none loses anything when wake-ups or reads do.
//!
//! How often a history is read is counted in the log of Postgres, which all tests share; each test has job ids of its own.

use std::path::Path;
use std::time::{Duration, Instant};

use longhaul::rpc::proto::{
    Event, EventKind, JobStatus, WatchJobResponse, watch_job_response::Content,
};
use serde_json::json;
use tonic::{Code, Streaming};

use crate::harness::{
    Client, NOBODY, PATIENCE, Rig, Told, approval, approve, cancel, events_until_end, job, pause,
    resume, run, wait,
};

const WATCHERS: usize = 20;
/// Well below what a heartbeat takes, and above what a look takes that comes once a second.
const SOON: Duration = Duration::from_secs(5);

const LOG_STATEMENTS: &str = "
    do $$ begin execute format(
      'alter database %I set log_statement = ''all''', current_database());
    end $$";

/// A `pg_notify` that is found before Postgres's own, so that each wake-up goes nowhere.
const DEAFEN: &str = "
    create schema deaf;
    create function deaf.pg_notify(channel text, payload text) returns void
      language sql as 'select';
    do $$ begin execute format(
      'alter database %I set search_path = deaf, pg_catalog, public', current_database());
    end $$";

/// An event as another process commits it whose wake-up is lost.
const MOVE_ON: &str = "
    with moved as (
      update longhaul.job set last_sequence = last_sequence + 1 where job_id = $1
      returning shard, job_id, last_sequence
    )
    insert into longhaul.event (shard, job_id, sequence, occurred_at, kind, status, step, revision,
      attempt, actor, message, detail)
    select shard, job_id, last_sequence, longhaul.now(), 'job_paused', 'paused', 1, 0,
      0, 'another', 'moved on', $2::jsonb from moved";

/// A rig whose Postgres is told these things before its servers come.
async fn rig_told(statements: &[&'static str]) -> Rig {
    let rig = Rig::without_server(&[("LONGHAUL_NOTIFY", NOBODY)]).await;
    for statement in statements {
        sqlx::raw_sql(*statement).execute(&rig.db.pool).await.unwrap();
    }
    rig
}

/// How often the history of a job was read; only that statement ends with such a parameter.
async fn reads(rig: &Rig, job_id: &str) -> usize {
    let folder = sqlx::query_scalar("select current_setting('data_directory')");
    let folder: String = folder.fetch_one(&rig.db.pool).await.unwrap();
    let log = std::fs::read(Path::new(&folder).with_file_name("postgres.log")).unwrap();
    let of_this_job = format!("$2 = '{job_id}', ");
    let is_read = |line: &&str| line.contains(&of_this_job) && line.ends_with("$5 = '16384'");
    String::from_utf8_lossy(&log).lines().filter(is_read).count()
}

async fn move_on(rig: &Rig, job_id: &str, detail: Option<&str>) {
    let moved = sqlx::query(MOVE_ON).bind(job_id).bind(detail).execute(&rig.db.pool).await;
    assert_eq!(moved.unwrap().rows_affected(), 1);
}

/// Watchers who have read all there is, and wait.
async fn watch_all(client: &Client, job_id: &str) -> Vec<Streaming<WatchJobResponse>> {
    let mut streams = Vec::new();
    for _ in 0..WATCHERS {
        let mut stream = client.try_watch(job_id, None).await.unwrap();
        let first = stream.message().await.unwrap().unwrap();
        assert!(matches!(first.content, Some(Content::Snapshot(_))));
        streams.push(stream);
    }
    streams
}

async fn next(stream: &mut Streaming<WatchJobResponse>) -> Event {
    loop {
        let message = stream.message().await.unwrap().unwrap();
        if let Some(Content::Event(event)) = message.content {
            return event;
        }
    }
}

/// The next event, which must be the same for everybody.
async fn next_of_all(streams: &mut [Streaming<WatchJobResponse>]) -> Event {
    let next = futures::future::join_all(streams.iter_mut().map(next));
    let events = tokio::time::timeout(PATIENCE, next).await.expect("it reaches everybody");
    assert!(events.iter().all(|event| *event == events[0]), "{events:?}");
    events.into_iter().next().unwrap()
}

/// Long enough for several looks at all that is watched.
async fn let_looks_pass(client: &Client, job_id: &str) {
    client.submit(job(job_id, [wait(3)])).await;
    client.settled_as(job_id, JobStatus::Completed).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_is_read_once_for_all_who_watch_the_job_and_silence_not_at_all() {
    let rig = rig_told(&[LOG_STATEMENTS]).await;
    let (server, other) = (rig.serve().await, rig.serve().await);
    server.client.submit(job("read-once", [wait(3600)])).await;
    server.client.submit(job("read-beside", [wait(3600)])).await;
    let mut streams = watch_all(&server.client, "read-once").await;
    let mut beside = watch_all(&server.client, "read-beside").await;
    let_looks_pass(&server.client, "read-looks-1").await;
    let before = (reads(&rig, "read-once").await, reads(&rig, "read-beside").await);
    let_looks_pass(&server.client, "read-looks-2").await;
    let silent = (reads(&rig, "read-once").await, reads(&rig, "read-beside").await);
    assert_eq!(silent, before, "nothing happened");
    for round in 1..=10 {
        let action = if round % 2 == 1 { pause() } else { resume() };
        assert!(other.client.control("read-once", action).await);
        next_of_all(&mut streams).await;
        // Once more where the look of a second has found it before its wake-up came.
        let read = reads(&rig, "read-once").await - before.0;
        assert!((round..=2 * round).contains(&read), "{read} reads of {round} events");
    }
    let_looks_pass(&server.client, "read-looks-3").await;
    let after = (reads(&rig, "read-once").await, reads(&rig, "read-beside").await);
    let_looks_pass(&server.client, "read-looks-4").await;
    let silent = (reads(&rig, "read-once").await, reads(&rig, "read-beside").await);
    assert_eq!(silent, after, "what was heard is not looked for again");
    assert_eq!(after.1, before.1, "another job is none of its business");
    for action in [pause(), resume()] {
        assert!(server.client.control("read-once", action).await);
        next_of_all(&mut streams).await;
    }
    assert_eq!(reads(&rig, "read-once").await, after.0, "what is written here is known here");
    assert!(server.client.control("read-beside", pause()).await);
    assert_eq!(next_of_all(&mut beside).await.kind(), EventKind::JobPaused);
}

/// What is written here is passed on without having been read; a reader must find the same.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_watch_tells_at_once_is_what_is_read_later() {
    let rig = Rig::start().await;
    let steps = [run("Write a draft."), approval("Good?"), wait(0), run("Go on."), run("Fail.")];
    rig.sandbox.break_model(json!({"matching": "Fail", "status": 400})).await;
    rig.submit(job("told", steps)).await;
    let live = rig.try_watch("told", Some(0)).await.unwrap();
    let live = tokio::spawn(events_until_end(live));
    rig.settled_as("told", JobStatus::AwaitingApproval).await;
    assert!(rig.control("told", pause()).await);
    assert!(rig.control("told", resume()).await);
    assert!(rig.control("told", approve()).await);
    rig.settled_as("told", JobStatus::Failed).await;
    let live = live.await.unwrap();
    let later = events_until_end(rig.try_watch("told", Some(0)).await.unwrap()).await;
    assert_eq!(live, later);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_whose_wake_up_was_lost_reaches_everybody_soon() {
    let rig = rig_told(&[DEAFEN, LOG_STATEMENTS]).await;
    let (here, there) = (rig.serve().await, rig.serve().await);
    here.client.submit(job("lost-word", [wait(3600)])).await;
    let mut streams = watch_all(&there.client, "lost-word").await;
    let before = reads(&rig, "lost-word").await;
    let began_at = Instant::now();
    for (round, action) in [pause(), resume(), pause()].into_iter().enumerate() {
        assert!(here.client.control("lost-word", action).await);
        next_of_all(&mut streams).await;
        assert_eq!(reads(&rig, "lost-word").await - before, round + 1);
    }
    assert!(began_at.elapsed() < 3 * SOON, "{:?}", began_at.elapsed());
    let waits = there.client.clone();
    here.client.submit(job("lost-end", [wait(3600)])).await;
    let settled =
        tokio::spawn(async move { waits.settled_as("lost-end", JobStatus::Cancelled).await });
    assert!(here.client.control("lost-end", cancel()).await);
    let settled = tokio::time::timeout(SOON, settled).await.expect("who waits hears of it as well");
    assert_eq!(settled.unwrap().status(), JobStatus::Cancelled);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_goes_on_from_an_event_that_its_new_server_has_not_heard_of() {
    let rig = rig_told(&[DEAFEN]).await;
    let (here, there) = (rig.serve().await, rig.serve().await);
    here.client.submit(job("ahead", [wait(3600)])).await;
    let mut streams = watch_all(&there.client, "ahead").await;
    for action in [pause(), resume(), pause(), resume()] {
        assert!(here.client.control("ahead", action).await);
        let last = here.client.job("ahead").await.last_sequence;
        let ahead = there.client.try_watch("ahead", Some(last)).await.unwrap();
        streams.push(ahead);
        let too_far = Told::by(there.client.try_watch("ahead", Some(last + 1)).await);
        assert_eq!(too_far.code, Code::OutOfRange);
    }
    assert!(here.client.control("ahead", cancel()).await);
    let last = here.client.job("ahead").await.last_sequence;
    let all = futures::future::join_all(streams.into_iter().map(events_until_end)).await;
    for (number, events) in all.iter().enumerate() {
        // Those who came later begin later, one event each.
        let begun_late = number.checked_sub(WATCHERS).map_or(0, |late| late + 1);
        let expected = all[0].iter().skip(begun_late);
        assert!(events.iter().eq(expected), "{number}: {events:?}");
        assert_eq!(events.last().map(|event| event.sequence), Some(last));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_storm_of_changes_from_two_servers_has_no_gap_for_anybody() {
    let rig = rig_told(&[]).await;
    let servers = [rig.serve().await, rig.serve().await];
    servers[0].client.submit(job("storm", [wait(3600)])).await;
    let mut streams = watch_all(&servers[0].client, "storm").await;
    streams.extend(watch_all(&servers[1].client, "storm").await);
    let first = servers[0].client.job("storm").await.last_sequence + 1;
    let watching = futures::future::join_all(streams.into_iter().map(events_until_end));
    let moving = async {
        for round in 0..60 {
            let action = if round % 2 == 0 { pause() } else { resume() };
            assert!(servers[round / 3 % 2].client.control("storm", action).await);
        }
        assert!(servers[0].client.control("storm", cancel()).await);
    };
    let (all, ()) = tokio::join!(watching, moving);
    for events in &all {
        assert_eq!(events, &all[0]);
        let expected = (first..).take(events.len());
        assert!(events.iter().map(|event| event.sequence).eq(expected), "{events:?}");
    }
    assert_eq!(all[0].last().map(Event::kind), Some(EventKind::JobCancelled));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_read_that_is_slow_is_one_read_and_everybody_waits_for_it() {
    let rig = rig_told(&[]).await;
    let server = rig.serve().await;
    server.client.submit(job("slow", [wait(3600)])).await;
    let mut streams = watch_all(&server.client, "slow").await;
    // A history cannot be read without this table.
    let mut holding = rig.db.pool.begin().await.unwrap();
    let hold = sqlx::query("lock table longhaul.checkpoint in access exclusive mode");
    hold.execute(&mut *holding).await.unwrap();
    move_on(&rig, "slow", None).await;
    let waits = "select count(*) > 0 and $1 <> '' from pg_locks
      where relation = 'longhaul.checkpoint'::regclass and not granted";
    rig.db.wait_until(waits, "slow").await;
    let waiting = "select count(*) from pg_locks
      where relation = 'longhaul.checkpoint'::regclass and not granted";
    assert_eq!(rig.db.number(waiting).await, 1, "not one for each watcher");
    holding.rollback().await.unwrap();
    assert_eq!(next_of_all(&mut streams).await.message, "moved on");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_nobody_can_read_ends_every_watch_of_that_job_and_no_other() {
    let rig = rig_told(&[]).await;
    let server = rig.serve().await;
    server.client.submit(job("unreadable", [wait(3600)])).await;
    server.client.submit(job("readable", [wait(3600)])).await;
    let streams = watch_all(&server.client, "unreadable").await;
    let mut others = watch_all(&server.client, "readable").await;
    move_on(&rig, "unreadable", Some("{\"no\": \"detail\"}")).await;
    for mut stream in streams {
        let told = tokio::time::timeout(SOON, stream.message()).await.expect("it ends soon");
        assert_eq!(Told::by(told).code, Code::Internal);
    }
    assert!(server.client.control("readable", pause()).await);
    assert_eq!(next_of_all(&mut others).await.kind(), EventKind::JobPaused);
}
