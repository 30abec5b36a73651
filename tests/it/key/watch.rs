//! Watches and the end of their keys: who may no longer read a job is told nothing more of it, and others go on.

use std::time::{Duration, Instant};

use longhaul::domain::key::{KeyText, Scope};
use longhaul::rpc::proto::{ControlRequest, WatchJobRequest, WatchJobResponse};
use tonic::{Code, Request, Streaming};

use super::{by, command, keep, make, wait_until};
use crate::harness::{Client, PATIENCE, Rig, Told, cancel, job, wait};

const JOB: &str = "watched";

/// Begins a watch, and reads what there is to be sure that it goes on.
async fn begin(client: &Client, key: Option<&str>) -> Streaming<WatchJobResponse> {
    let request = WatchJobRequest {
        job_id: JOB.to_owned(),
        include_output_deltas: true,
        ..WatchJobRequest::default()
    };
    let request = match key {
        Some(key) => by(key, request),
        None => Request::new(request),
    };
    let mut stream = client.grpc.clone().watch_job(request).await.unwrap().into_inner();
    stream.message().await.unwrap().expect("a snapshot");
    stream
}

/// Why a watch ends, if it does not end with its job.
async fn end_of(mut stream: Streaming<WatchJobResponse>) -> Option<Told> {
    let ended = async {
        loop {
            match stream.message().await {
                Ok(Some(_)) => {}
                Ok(None) => break None,
                Err(status) => break Some(Told::from(&status)),
            }
        }
    };
    tokio::time::timeout(PATIENCE, ended).await.expect("the watch ends")
}

fn assert_ended(told: Option<&Told>, code: Code, reason: &str) {
    let told = told.expect("refused");
    assert_eq!((told.code, told.reason.as_str()), (code, reason));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_ends_within_seconds_of_its_key_and_no_other_does() {
    let rig = Rig::without_server(&[]).await;
    let node = rig.serve().await;
    let client = &node.client;
    client.submit(job(JOB, [wait(3600)])).await;
    let open = begin(client, None).await;
    let kept = make(&rig, "kept", &[Scope::Admin], None).await;
    let revoked = make(&rig, "revoked", &[Scope::Read], None).await;
    let lifetime = Duration::from_secs(6);
    let expired = make(&rig, "expired", &[Scope::Read], Some(lifetime)).await;
    let expires_at = Instant::now() + lifetime;
    // Once the server is closed, nobody who has shown nothing goes on.
    assert_ended(end_of(open).await.as_ref(), Code::Unauthenticated, "KEY_REQUIRED");
    wait_until(client, Some(&expired), Code::Ok).await;
    let watches = [&kept, &revoked, &expired].map(|key| begin(client, Some(key)));
    let [mut kept_watch, revoked_watch, expired_watch]: [_; 3] =
        futures::future::join_all(watches).await.try_into().unwrap_or_else(|_| panic!("three"));

    assert_eq!(command(&rig, &["key", "revoke", "revoked"], &[]).await.code, 0);
    let revoked_at = Instant::now();
    assert_ended(end_of(revoked_watch).await.as_ref(), Code::Unauthenticated, "KEY_INVALID");
    let after = revoked_at.elapsed();
    assert!(after < Duration::from_secs(5), "ended after {after:?}");
    assert_ended(end_of(expired_watch).await.as_ref(), Code::Unauthenticated, "KEY_INVALID");
    let late = Instant::now().saturating_duration_since(expires_at);
    assert!(late < Duration::from_secs(5), "ended {late:?} late");

    let action = Some(cancel());
    let request = ControlRequest { job_id: JOB.to_owned(), action, ..ControlRequest::default() };
    client.grpc.clone().control(by(&kept, request)).await.unwrap();
    let ended = async { while kept_watch.message().await.unwrap().is_some() {} };
    tokio::time::timeout(PATIENCE, ended).await.expect("the watch ends with its job");
}

/// How two watches end that show a key before the first one is made, which is the key of one of them.
async fn ends_by_the_first_key(scope: Scope) -> [Option<Told>; 2] {
    let rig = Rig::without_server(&[]).await;
    let node = rig.serve().await;
    let client = &node.client;
    client.submit(job(JOB, [wait(3600)])).await;
    let [first, other] = [(); 2].map(|()| KeyText::mint(&mut rand::rng()));
    let [first_watch, other_watch] =
        [begin(client, Some(first.reveal())).await, begin(client, Some(other.reveal())).await];
    keep(&rig, &first, "first", &[scope], None).await;
    let other_end = end_of(other_watch).await;
    // The job's end is one more way for the first to end, if its key may do that.
    let action = Some(cancel());
    let request = ControlRequest { job_id: JOB.to_owned(), action, ..ControlRequest::default() };
    let cancelled = client.grpc.clone().control(by(first.reveal(), request)).await;
    assert_eq!(cancelled.is_ok(), scope == Scope::Admin);
    [end_of(first_watch).await, other_end]
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_shows_the_first_key_before_the_server_knows_it_goes_on_by_it() {
    let [first, other] = ends_by_the_first_key(Scope::Admin).await;
    assert_ended(other.as_ref(), Code::Unauthenticated, "KEY_INVALID");
    assert!(first.is_none(), "{first:?}");
    let [first, other] = ends_by_the_first_key(Scope::Submit).await;
    assert_ended(other.as_ref(), Code::Unauthenticated, "KEY_INVALID");
    assert_ended(first.as_ref(), Code::PermissionDenied, "SCOPE_REQUIRED");
}
