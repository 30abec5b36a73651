//! `longhaul top` and a live `longhaul watch`, in a terminal, beside a server.

use std::collections::BTreeMap;

use longhaul::rpc::proto::{ApprovalStep, JobStatus};

use crate::harness::{PATIENCE, Rig, approval_step, job, wait};
use crate::program::{Program, SERVE};
use crate::screen::Screen;

fn asks(note: &str) -> ApprovalStep {
    ApprovalStep { note: note.to_owned(), timeout_seconds: 3600, ..ApprovalStep::default() }
}

/// A server and how the command line reaches it.
async fn serve(rig: &Rig) -> (Program, BTreeMap<String, String>) {
    let server = Program::start(&SERVE, rig.variables()).await;
    let variables = [("LONGHAUL_SERVER".to_owned(), server.address("grpc").to_owned())].into();
    (server, variables)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_asks_is_seen_approved_and_the_view_left() {
    let rig = Rig::without_server(&[]).await;
    let (server, variables) = serve(&rig).await;
    let client = server.client();
    client.submit(job("launch-copy", [approval_step(asks("可以发布吗？ May it go out?"))])).await;
    client.submit(job("sleeps", [wait(3600)])).await;
    client.settled_as("launch-copy", JobStatus::AwaitingApproval).await;
    let mut top = Screen::start(&["top"], &variables);
    top.until_text("1 to decide").await;
    top.until_text("可以发布吗？").await;
    top.until_text("sleeps       queued").await;
    top.press("a").await;
    top.until_text("approve launch-copy?").await;
    // Said behind the first frame, and so before this one.
    assert!(top.shown().alternate_screen() && top.shown().hide_cursor());
    top.until_text("可以发布吗？ May it go out?").await;
    top.press("y").await;
    top.until_text("approved launch-copy").await;
    top.until(|shown| !shown.contains("to decide") && shown.contains("completed 1")).await;
    client.settled_as("launch-copy", JobStatus::Completed).await;

    // Another size is seen, an open job too.
    top.resize(50, 200);
    top.until_text("t retry").await;
    top.press("/sleeps\r").await;
    top.until_text("/sleeps  1 job").await;
    top.press("\r").await;
    top.until_text("1h 00m").await;
    top.press("w").await;
    top.until_text("events of sleeps").await;
    top.until_text("submitted with 1 step").await;

    // What the server refuses is told with its reason.
    top.press("c").await;
    top.until_text("cancel sleeps?").await;
    top.press("y").await;
    top.until_text("cancelled sleeps").await;
    client.settled_as("sleeps", JobStatus::Cancelled).await;
    top.press("q").await;
    assert_eq!(top.end().await, 0);
    assert!(!top.shown().alternate_screen() && !top.shown().hide_cursor());
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_goes_away_is_told_and_a_signal_gives_the_terminal_back() {
    let rig = Rig::without_server(&[]).await;
    let (server, variables) = serve(&rig).await;
    let mut top = Screen::start(&["top"], &variables);
    top.until_text("no jobs").await;
    server.stop().await;
    top.until_text("the server has been away").await;
    top.press("?").await;
    top.until_text("one up or down").await;
    top.terminate();
    assert_eq!(top.end().await, 130);
    assert!(!top.shown().alternate_screen() && !top.shown().hide_cursor());
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_terminal_or_a_server_the_view_does_not_open() {
    let output = Program::run(&["top"], &BTreeMap::new(), PATIENCE).await;
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("needs a terminal"), "{said}");
    assert!(output.stdout.is_empty());

    let nowhere = [("LONGHAUL_SERVER".to_owned(), "http://127.0.0.1:1".to_owned())].into();
    let mut top = Screen::start(&["top"], &nowhere);
    assert_eq!(top.end().await, 69);
    assert!(top.text().contains("no server answers"), "{}", top.text());
    assert!(!top.shown().alternate_screen());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_is_drawn_below_its_events_and_leaves_the_terminal_in_order() {
    let rig = Rig::without_server(&[]).await;
    let (server, variables) = serve(&rig).await;
    let client = server.client();
    client.submit(job("asks", [wait(0), approval_step(asks("🚀 去吧？"))])).await;
    client.settled_as("asks", JobStatus::AwaitingApproval).await;
    let mut watch = Screen::start(&["watch", "asks"], &variables);
    let is_whole =
        |shown: &str| shown.contains("submitted with 2 steps") && shown.contains("to decide");
    watch.until(is_whole).await;
    assert!(watch.shown().hide_cursor());
    let shown = watch.text();
    let rows: Vec<&str> = shown.lines().collect();
    assert!(rows[0].contains("#1") && rows[0].contains("submitted with 2 steps"), "{shown}");
    let last = rows.last().unwrap();
    assert!(last.starts_with("awaiting approval · step 2/2 · "), "{shown}");
    assert!(last.contains(" elapsed · ") && last.ends_with(" to decide"), "{shown}");
    assert!(shown.contains("🚀 去吧？"), "{shown}");

    // What is typed is not shown, and so moves nothing.
    watch.press("junk\r").await;
    watch.resize(24, 44);
    watch.until(|shown| !shown.contains("elapsed")).await;
    assert!(!watch.text().contains("junk"), "{}", watch.text());
    watch.press("\u{3}").await;
    assert_eq!(watch.end().await, 130);
    assert!(!watch.shown().hide_cursor());
    server.stop().await;
}
