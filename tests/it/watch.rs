//! Watches: a job's history without gap or repeat, from any point and from any server.

use longhaul::rpc::proto::{
    Delivery, Event, EventKind, GetJobRequest, JobStatus, Notice, NoticeKind, StepKind,
    WatchJobRequest, event::Detail, watch_job_response::Content,
};
use tonic::Code;

use crate::harness::{Rig, Told, approval, approve, cancel, events_until_end, job, run, wait};

fn assert_gapless(events: &[Event], first: i32) {
    let sequences = events.iter().map(|event| event.sequence);
    let expected = first..first + i32::try_from(events.len()).unwrap();
    assert!(sequences.eq(expected), "{events:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_begins_with_a_snapshot_and_goes_on_with_what_follows() {
    let rig = Rig::start().await;
    rig.submit(job("live", [run("Write a line."), approval("Good?")])).await;
    rig.settled_as("live", JobStatus::AwaitingApproval).await;
    let mut stream = rig.try_watch("live", None).await.unwrap();
    let first = stream.message().await.unwrap().unwrap();
    let Some(Content::Snapshot(snapshot)) = first.content else { panic!("no snapshot: {first:?}") };
    assert_eq!(snapshot.status(), JobStatus::AwaitingApproval);
    assert_eq!(snapshot.steps.len(), 2);
    assert!(rig.control("live", approve()).await);
    let events = events_until_end(stream).await;
    assert_gapless(&events, snapshot.last_sequence + 1);
    assert_eq!(events.last().unwrap().kind(), EventKind::JobCompleted);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replay_has_no_gap_and_ends_as_the_job_stands() {
    let rig = Rig::start().await;
    rig.submit(job("whole", [run("Write a line."), wait(0), approval("Good?")])).await;
    rig.settled_as("whole", JobStatus::AwaitingApproval).await;
    let early = rig.try_watch("whole", Some(0)).await.unwrap();
    assert!(rig.control("whole", approve()).await);
    let done = rig.settled_as("whole", JobStatus::Completed).await;
    let events = events_until_end(early).await;
    assert_gapless(&events, 1);
    let last = events.last().unwrap();
    assert_eq!((last.sequence, last.status()), (done.last_sequence, done.status()));
    assert_eq!((&last.reason, last.occurred_at), (&done.reason, done.finished_at));
    assert_eq!(events[0].kind(), EventKind::JobSubmitted);
    let finished = events.iter().find(|event| event.kind() == EventKind::StepFinished).unwrap();
    let Some(Detail::StepFinished(step)) = &finished.detail else { panic!("{finished:?}") };
    assert_eq!((step.kind(), &step.output), (StepKind::Run, &done.steps[0].output));
    let late = events_until_end(rig.try_watch("whole", Some(0)).await.unwrap()).await;
    assert_eq!(late, events, "every watcher sees the same");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_can_be_resumed_from_any_event() {
    let rig = Rig::start().await;
    rig.submit(job("resumed", [run("Write a line."), run("Shorten it.")])).await;
    let done = rig.settled_as("resumed", JobStatus::Completed).await;
    for after in 0..=done.last_sequence {
        let events = events_until_end(rig.try_watch("resumed", Some(after)).await.unwrap()).await;
        assert_gapless(&events, after + 1);
        assert_eq!(i32::try_from(events.len()).unwrap(), done.last_sequence - after);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_from_beyond_the_end_or_of_no_job_is_refused() {
    let rig = Rig::start().await;
    rig.submit(job("short", [wait(3600)])).await;
    let last = rig.job("short").await.last_sequence;
    let told = Told::by(rig.try_watch("short", Some(last + 1)).await);
    assert_eq!((told.code, told.reason.as_str()), (Code::OutOfRange, "SEQUENCE_OUT_OF_RANGE"));
    let told = Told::by(rig.try_watch("short", Some(-1)).await);
    assert_eq!(
        (told.code, told.fields),
        (Code::InvalidArgument, vec!["after_sequence".to_owned()])
    );
    for after in [None, Some(0)] {
        let told = Told::by(rig.try_watch("nowhere", after).await);
        assert_eq!((told.code, told.reason.as_str()), (Code::NotFound, "JOB_NOT_FOUND"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_of_a_job_that_has_ended_ends_by_itself() {
    let rig = Rig::start().await;
    rig.submit(job("over", [wait(0)])).await;
    let mut stream = rig.try_watch("over", None).await.unwrap();
    let first = stream.message().await.unwrap().unwrap();
    assert!(matches!(first.content, Some(Content::Snapshot(_))));
    assert_eq!(stream.message().await.unwrap(), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_sees_what_another_server_does() {
    let rig = Rig::start().await;
    let other = rig.serve().await;
    rig.submit(job("shared", [approval("Good?"), run("Write a line.")])).await;
    let here = rig.try_watch("shared", Some(0)).await.unwrap();
    let there = other.client.try_watch("shared", Some(0)).await.unwrap();
    assert!(other.client.control("shared", approve()).await);
    let (here, there) = tokio::join!(events_until_end(here), events_until_end(there));
    assert_eq!(here, there);
    assert_gapless(&here, 1);
    assert_eq!(here.last().unwrap().kind(), EventKind::JobCompleted);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stopping_server_ends_its_watches_and_another_goes_on_from_there() {
    let mut rig = Rig::start().await;
    let other = rig.serve().await;
    rig.submit(job("moved", [wait(3600)])).await;
    let mut stream = rig.try_watch("moved", Some(0)).await.unwrap();
    let mut seen = 0;
    while seen < 2 {
        let message = stream.message().await.unwrap().unwrap();
        let Some(Content::Event(event)) = message.content else { panic!("{message:?}") };
        seen = event.sequence;
    }
    rig.stop_server().await;
    let told = Told::by(stream.message().await);
    assert_eq!((told.code, told.reason.as_str()), (Code::Unavailable, "UNAVAILABLE"));
    let rest = other.client.try_watch("moved", Some(seen)).await.unwrap();
    assert!(other.client.control("moved", cancel()).await);
    assert_gapless(&events_until_end(rest).await, seen + 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_shows_one_step_whole_and_its_specification_on_request() {
    let rig = Rig::start().await;
    rig.submit(job("shown", [run("Write a line."), run("Shorten it.")])).await;
    let done = rig.settled_as("shown", JobStatus::Completed).await;
    let request = GetJobRequest {
        job_id: "shown".to_owned(),
        step: 1,
        include_spec: true,
        ..GetJobRequest::default()
    };
    let answer = rig.grpc.clone().get_job(request.clone()).await.unwrap().into_inner();
    let shown = answer.job.unwrap();
    assert_eq!(shown.steps[0].output, done.steps[0].output);
    assert_eq!((shown.steps[1].output.as_str(), shown.output.as_str()), ("", ""));
    let spec = answer.spec.unwrap();
    assert_eq!((spec.task.as_str(), spec.steps.len()), ("Launch copy", 2));
    assert_eq!(spec.settings.unwrap().max_attempts, Some(3));
    let none = GetJobRequest { step: 3, ..request };
    let told = Told::by(rig.grpc.clone().get_job(none).await);
    assert_eq!((told.code, told.reason.as_str()), (Code::NotFound, "STEP_NOT_FOUND"));
}

#[tokio::test(flavor = "multi_thread")]
async fn deliveries_are_told_as_they_change_to_who_asks_for_them() {
    let rig = Rig::start().await;
    rig.submit(job("delivered", [approval("Good?"), wait(0)])).await;
    let request = WatchJobRequest {
        job_id: "delivered".to_owned(),
        after_sequence: Some(0),
        include_notices: true,
        ..WatchJobRequest::default()
    };
    let mut watch = rig.grpc.clone().watch_job(request).await.unwrap().into_inner();
    let mut told = Vec::new();
    while let Some(message) = watch.message().await.unwrap() {
        let Some(Content::Notice(notice)) = message.content else { continue };
        assert!(!told.contains(&notice), "the same is told once: {notice:?}");
        let is_sent = notice.delivery() == Delivery::Sent;
        if is_sent && notice.kind() == NoticeKind::ApprovalRequested {
            assert!(rig.control("delivered", approve()).await);
        }
        told.push(notice);
    }
    let kinds: Vec<NoticeKind> = told.iter().map(Notice::kind).collect();
    assert!(kinds.contains(&NoticeKind::ApprovalRequested), "{told:?}");
    assert_eq!(kinds.last(), Some(&NoticeKind::Completed), "its end is told before the watch ends");
    assert!(told.iter().all(|notice| !notice.notice_id.is_empty() && notice.recipient == "…0100"));
}
