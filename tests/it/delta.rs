//! Output deltas: answers as they arrive, in pieces that fit together, from any server, for nobody who did not ask.
//!
//! Whoever reads a watch in these tests judges each piece: where it begins, and that it comes before its attempt ends.

use std::path::Path;

use longhaul::rpc::proto::{
    EventKind, Job, JobStatus, RunStep, TruncationPolicy, WebSearch, watch_job_response::Content,
};
use serde_json::{Value, json};

use crate::harness::{
    Close, NOBODY, Process, Rig, approval, approve, events_until_end, job, run, run_step, wait,
};
use crate::program::{Program, SERVE, Speaker};

const CHINESE: &str = "用中文写一段80字以内的记账App产品简介，风格务实。";
const ENGLISH: &str = "Write a long story about a picnic.";
/// How many characters have come when the model holds: six pieces, after three events that have no text.
const HELD: usize = 72;

/// Lets the model speak slowly.
fn drip(event_delay_ms: u64) -> Value {
    json!({"event_delay_ms": event_delay_ms})
}

/// Has the model stop in the middle until the faults change.
fn held(matching: &str) -> Value {
    json!({"matching": matching, "hold_after_events": 9})
}

fn assert_whole(watch: &Close, job: &Job, places: &[(i32, i32)]) {
    assert!(watch.texts.keys().eq(places), "{:?} {:?}", watch.texts, watch.events);
    for (step, attempt) in places {
        let output = &job.steps[usize::try_from(step - 1).unwrap()].output;
        assert_eq!(&watch.texts[&(*step, *attempt)], output);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_arrives_in_pieces_that_make_it_whole() {
    let rig = Rig::start().await;
    rig.sandbox.break_model(drip(20)).await;
    let searched = RunStep {
        prompt: ENGLISH.to_owned(),
        web_search: Some(WebSearch::default()),
        ..RunStep::default()
    };
    // Nobody is to come late.
    let steps = [approval("Now?"), run(CHINESE), wait(0), run_step(searched)];
    rig.submit(job("pieces", steps)).await;
    let plain = rig.try_watch("pieces", Some(0)).await.unwrap();
    let replay = rig.watch_closely("pieces", Some(0)).await;
    let live = rig.watch_closely("pieces", None).await;
    assert!(rig.control("pieces", approve()).await);
    let (live, replay, events) =
        tokio::join!(live.until_end(), replay.until_end(), events_until_end(plain));
    let done = rig.job("pieces").await;
    assert!(done.steps[1].output.chars().any(|c| c.len_utf8() > 2), "{}", done.steps[1].output);
    for watch in [&live, &replay] {
        assert_whole(watch, &done, &[(2, 1), (4, 1)]);
        // The model says 12 characters every 20 ms: a piece is more than one of these, and less than all.
        let chars: usize = watch.texts.values().map(|text| text.chars().count()).sum();
        assert!((3..chars / 12).contains(&watch.pieces), "{} of {chars}", watch.pieces);
    }
    assert_eq!(replay.events, events, "the history is the same for everybody");
}

#[tokio::test(flavor = "multi_thread")]
async fn who_did_not_ask_gets_none_and_a_quick_answer_comes_before_its_end() {
    let rig = Rig::start().await;
    rig.sandbox.hold("picnic").await;
    rig.submit(job("quick", [run(ENGLISH)])).await;
    let mut plain = rig.try_watch("quick", Some(0)).await.unwrap();
    let close = rig.watch_closely("quick", None).await;
    rig.sandbox.wait_for("picnic", "held", 1).await;
    rig.sandbox.mend().await;
    let close = close.until_end().await;
    assert_whole(&close, &rig.job("quick").await, &[(1, 1)]);
    while let Some(message) = plain.message().await.unwrap() {
        assert!(!matches!(message.content, Some(Content::OutputDelta(_))), "{message:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_comes_late_gets_what_there_is_so_far() {
    let rig = Rig::start().await;
    rig.sandbox.break_model(held("")).await;
    rig.submit(job("late", [run(ENGLISH)])).await;
    let mut early = rig.watch_closely("late", Some(0)).await;
    early.until((1, 1), HELD).await;
    let last = rig.job("late").await.last_sequence;
    for after in [None, Some(0), Some(last)] {
        let mut late = rig.watch_closely("late", after).await;
        let piece = late.piece().await;
        assert_eq!((piece.offset, &piece.text), (0, &early.texts[&(1, 1)]));
    }
    let late = rig.watch_closely("late", Some(last)).await;
    rig.sandbox.mend().await;
    let (early, late) = tokio::join!(early.until_end(), late.until_end());
    let done = rig.job("late").await;
    for watch in [&early, &late] {
        assert_whole(watch, &done, &[(1, 1)]);
    }
    let after = rig.watch_closely("late", Some(last)).await.until_end().await;
    assert!(after.texts.is_empty(), "what is over is not told any more: {:?}", after.texts);
}

#[tokio::test(flavor = "multi_thread")]
async fn another_server_tells_what_is_kept_and_the_rest_at_the_end() {
    let rig = Rig::start().await;
    let other = rig.serve().await;
    rig.sandbox.break_model(held("")).await;
    rig.submit(job("shared", [run(ENGLISH), run(CHINESE)])).await;
    let mut early = other.client.watch_closely("shared", None).await;
    early.until((1, 1), HELD).await;
    let last = rig.job("shared").await.last_sequence;
    let mut late = other.client.watch_closely("shared", Some(last)).await;
    let piece = late.piece().await;
    assert_eq!((piece.offset, &piece.text), (0, &early.texts[&(1, 1)]));
    rig.sandbox.mend().await;
    let (early, late) = tokio::join!(early.until_end(), late.until_end());
    let done = rig.job("shared").await;
    for watch in [&early, &late] {
        // The second answer was too quick to be kept before its end.
        assert_whole(watch, &done, &[(1, 1), (2, 1)]);
    }
}

/// How often the kept answers of a job were looked for; only that statement ends with such a parameter.
async fn looks(rig: &Rig, job_id: &str) -> usize {
    let folder = sqlx::query_scalar("select current_setting('data_directory')");
    let folder: String = folder.fetch_one(&rig.db.pool).await.unwrap();
    let log = std::fs::read(Path::new(&folder).with_file_name("postgres.log")).unwrap();
    let of_this_job = format!("$2 = '{{{job_id}}}', ");
    let is_look = |line: &&str| line.contains(&of_this_job) && line.contains("$6 = '{");
    String::from_utf8_lossy(&log).lines().filter(is_look).count()
}

/// Long enough for several looks.
async fn let_looks_pass(rig: &Rig, job_id: &str) {
    rig.submit(job(job_id, [wait(3)])).await;
    rig.settled_as(job_id, JobStatus::Completed).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn kept_answers_are_looked_for_once_for_all_and_only_while_the_job_runs() {
    let rig = Rig::without_server(&[("LONGHAUL_NOTIFY", NOBODY)]).await;
    let log_all = "do $$ begin execute format(
      'alter database %I set log_statement = ''all''', current_database()); end $$";
    sqlx::raw_sql(log_all).execute(&rig.db.pool).await.unwrap();
    let url = rig.db.url.clone();
    let rig = rig.start_at(&url).await;
    let other = rig.serve().await;
    rig.sandbox.break_model(held("picnic")).await;
    rig.submit(job("looked-at", [approval("Good?"), run(ENGLISH)])).await;
    rig.settled_as("looked-at", JobStatus::AwaitingApproval).await;
    let plain = other.client.try_watch("looked-at", Some(0)).await.unwrap();
    let mut watches = Vec::new();
    for _ in 0..10 {
        watches.push(other.client.watch_closely("looked-at", None).await);
    }
    let here = rig.watch_closely("looked-at", None).await;
    let_looks_pass(&rig, "looked-pass-1").await;
    assert_eq!(looks(&rig, "looked-at").await, 0, "it does not run");
    assert!(rig.control("looked-at", approve()).await);
    for watch in &mut watches {
        watch.until((2, 1), HELD).await;
    }
    let_looks_pass(&rig, "looked-pass-2").await;
    let before = looks(&rig, "looked-at").await;
    let_looks_pass(&rig, "looked-pass-3").await;
    let running = looks(&rig, "looked-at").await - before;
    assert!((1..=8).contains(&running), "{running} looks in some 3 s, for ten who listen");
    drop(watches);
    // Its server has to learn that they have gone.
    let_looks_pass(&rig, "looked-pass-4").await;
    let before = looks(&rig, "looked-at").await;
    let_looks_pass(&rig, "looked-pass-5").await;
    assert_eq!(looks(&rig, "looked-at").await, before, "nobody elsewhere listens any more");
    rig.sandbox.mend().await;
    let (here, _) = tokio::join!(here.until_end(), events_until_end(plain));
    assert_whole(&here, &rig.job("looked-at").await, &[(2, 1)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_attempt_that_was_killed_is_told_and_the_next_begins_anew() {
    let rig = Rig::without_server(&[("LONGHAUL_LEASE_SECONDS", "2")]).await;
    let server = Process::serve(&rig, &[]).await;
    rig.sandbox.break_model(held("")).await;
    server.client.submit(job("killed", [run(ENGLISH)])).await;
    let survivor = rig.serve().await;
    let mut watch = survivor.client.watch_closely("killed", Some(0)).await;
    watch.until((1, 1), HELD).await;
    server.kill9().await;
    watch.until((1, 2), HELD).await;
    rig.sandbox.mend().await;
    let watch = watch.until_end().await;
    let done = survivor.client.job("killed").await;
    assert_eq!(watch.texts[&(1, 2)], done.steps[0].output);
    assert!(done.steps[0].output.starts_with(&watch.texts[&(1, 1)]), "it says the same again");
    let lost = watch.events.iter().find(|event| event.kind() == EventKind::AttemptLost).unwrap();
    assert_eq!((lost.step, lost.attempt), (1, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_is_continued_goes_on_where_it_was() {
    let rig = Rig::start().await;
    let cut = json!({"times": 1, "stop_reason": "max_tokens", "event_delay_ms": 5});
    let paused = json!({"times": 1, "stop_reason": "pause_turn", "event_delay_ms": 5});
    let step = RunStep {
        prompt: ENGLISH.to_owned(),
        on_truncated: TruncationPolicy::Continue.into(),
        web_search: Some(WebSearch::default()),
        ..RunStep::default()
    };
    for (job_id, fault) in [("cut", &cut), ("paused", &paused)] {
        rig.sandbox.break_model(json!([fault, drip(5)])).await;
        rig.submit(job(job_id, [approval("Now?"), run_step(step.clone())])).await;
        let watch = rig.watch_closely(job_id, Some(0)).await;
        assert!(rig.control(job_id, approve()).await);
        let watch = watch.until_end().await;
        let done = rig.job(job_id).await;
        assert_eq!(done.usage.unwrap().calls, 2, "{job_id}");
        assert_whole(&watch, &done, &[(2, 1)]);
        assert!(watch.pieces > 2, "{job_id}: {}", watch.pieces);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_reads_slowly_slows_nobody_and_misses_nothing() {
    let rig = Rig::start().await;
    // More than a connection holds that nobody reads from.
    let steps: Vec<_> = (0..120).map(|number| run(&format!("{ENGLISH} Part {number}."))).collect();
    rig.sandbox.hold("Part 0.").await;
    rig.submit(job("slow", steps)).await;
    let slow = rig.watch_closely("slow", Some(0)).await;
    let quick = rig.watch_closely("slow", Some(0)).await;
    rig.sandbox.wait_for("Part 0.", "held", 1).await;
    rig.sandbox.mend().await;
    let quick = quick.until_end().await;
    rig.settled_as("slow", JobStatus::Completed).await;
    let slow = slow.until_end().await;
    assert_eq!(slow.events, quick.events);
    let done = rig.job("slow").await;
    let places: Vec<_> = (1..=120).map(|step| (step, 1)).collect();
    assert_whole(&quick, &done, &places);
    assert_whole(&slow, &done, &places);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_command_line_tells_an_answer_as_it_arrives() {
    let rig = Rig::without_server(&[("LONGHAUL_NOTIFY", NOBODY)]).await;
    let server = Program::start(&SERVE, rig.variables()).await;
    let variables = [("LONGHAUL_SERVER".to_owned(), server.address("grpc").to_owned())].into();
    rig.sandbox.hold("记账").await;
    server.client().submit(job("told", [run(CHINESE)])).await;
    rig.sandbox.wait_for("记账", "held", 1).await;
    let commands = [&["--output"][..], &["--output", "--json"], &[]];
    let mut told = Vec::new();
    for args in commands {
        let args = [&["watch", "told", "--after", "0"], args].concat();
        let mut command = Speaker::start(&args, &variables);
        // From then on its watch is open.
        command.until("started").await;
        told.push(command);
    }
    rig.sandbox.break_model(drip(30)).await;
    let told = futures::future::join_all(told.into_iter().map(Speaker::until_end)).await;
    let [lines, json, quiet] = <[String; 3]>::try_from(told).unwrap();
    let output = server.client().job("told").await.output;
    let (before, after) = lines.split_once(&output).unwrap_or_else(|| panic!("{lines}"));
    assert!(before.trim_end().ends_with("started"), "{lines}");
    assert!(after.starts_with('\n') && after.contains("finished"), "{lines}");
    let messages = json.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let pieces =
        messages.filter_map(|message| Some(message["output_delta"]["text"].as_str()?.to_owned()));
    assert_eq!(pieces.collect::<String>(), output);
    assert!(quiet.contains("finished") && !quiet.contains(&output), "{quiet}");
}
