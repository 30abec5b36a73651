//! Watchers that stop reading: they are let go, and nobody else feels them.

use bytes::Buf as _;
use longhaul::rpc::proto::{EventKind, WatchJobRequest};
use tonic::Code;

use crate::harness::{PATIENCE, Raw, Rig, Told, cancel, events_until_end, job, named, wait};

/// Less than the snapshot of the job takes, by far.
const WINDOW: u32 = 1024;

fn watch(job_id: &str) -> WatchJobRequest {
    WatchJobRequest { job_id: job_id.to_owned(), ..WatchJobRequest::default() }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watcher_that_takes_nothing_is_let_go_and_beside_it_all_goes_on() {
    let rig = Rig::start_with(&[
        ("LONGHAUL_WATCH_PATIENCE_SECONDS", "1"),
        // Room for three watches, so that it shows when one is given back.
        ("LONGHAUL_REQUESTS_MAX", "3"),
    ])
    .await;
    let steps = (0..900).map(|at| named(&format!("a-step-with-a-long-name-{at}"), wait(3600)));
    rig.submit(job("big", steps)).await;
    let raw = Raw::connect(&rig.grpc_addr, WINDOW).await;
    let mut good = rig.try_watch("big", None).await.unwrap();
    assert!(good.message().await.unwrap().is_some());
    let (headers, slow) = raw.call("WatchJob", &[], &watch("big")).await;
    let (_, mut silent) = raw.call("WatchJob", &[], &watch("big")).await;
    assert_eq!(Told::by(rig.try_watch("big", None).await).reason, "OVERLOADED");

    // Neither of them is ever asked again, and yet their room is given back.
    let room = async {
        let mut look = tokio::time::interval(std::time::Duration::from_millis(50));
        while rig.try_watch("big", None).await.is_err() {
            look.tick().await;
        }
    };
    tokio::time::timeout(PATIENCE, room).await.expect("what they held is freed");
    let told = Told::from(&Raw::read_to_end(&headers, slow).await);
    assert_eq!((told.code, told.reason.as_str()), (Code::Unavailable, "WATCH_LAGGED"));

    // The one that does not even find out has its stream reset.
    let reset = async {
        loop {
            match silent.data().await {
                Some(Ok(mut data)) => data.advance(data.len()),
                Some(Err(error)) => return error,
                None => panic!("it ended as if all were well"),
            }
        }
    };
    let reset = tokio::time::timeout(PATIENCE, reset).await.expect("it is ended");
    assert!(reset.is_reset(), "{reset}");

    // The same connection goes on, and so does who reads.
    let (headers, body) = raw.call("WatchJob", &[("grpc-timeout", "100m")], &watch("none")).await;
    let told = Told::from(&Raw::read_to_end(&headers, body).await);
    assert_eq!(told.reason, "JOB_NOT_FOUND");
    assert!(rig.control("big", cancel()).await);
    let events = events_until_end(good).await;
    assert_eq!(events.last().unwrap().kind(), EventKind::JobCancelled);
}
