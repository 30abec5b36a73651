//! Limits: how much one key may ask for, on both faces, and what is never refused.

use longhaul::domain::key::{Key, KeyText, Scopes};
use longhaul::rpc::proto::{GetJobRequest, JobStatus};
use longhaul::store::key::NewKey;
use longhaul::store::{Store, StoreSettings};
use tonic::metadata::MetadataValue;
use tonic::{Code, Request, Status};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;
use tonic_types::StatusExt as _;

use crate::harness::{Client, PATIENCE, Rig, Told, job, run, wait};

/// A key with limits of its own, kept as an operator would have it; answers what its holder shows.
pub async fn make_key(
    rig: &Rig,
    name: &str,
    per_second: Option<u32>,
    at_once: Option<u32>,
) -> String {
    let text = KeyText::mint(&mut rand::rng());
    let key = Key {
        key_id: text.key_id(),
        name: name.to_owned(),
        scopes: Scopes::all(),
        requests_per_second: per_second,
        requests_max: at_once,
    };
    let store = Store::new(&StoreSettings {
        database_url: rig.db.url.clone().into(),
        direct_url: None,
        connections_max: 4,
    });
    let store = store.unwrap();
    let new = NewKey { key, hash: text.hash(), lifetime: None };
    assert!(store.create_key(&new).await.unwrap());
    store.close().await;
    text.reveal().to_owned()
}

/// A request that shows a key.
pub fn shown<T>(key: &str, message: T) -> Request<T> {
    let mut request = Request::new(message);
    let value: MetadataValue<_> = format!("Bearer {key}").parse().unwrap();
    request.metadata_mut().insert("authorization", value);
    request
}

async fn look(client: &Client, key: &str) -> Result<(), Status> {
    let request = GetJobRequest { job_id: "one".to_owned(), ..GetJobRequest::default() };
    client.grpc.clone().get_job(shown(key, request)).await.map(|_| ())
}

/// Whether the server says that it serves.
pub async fn is_healthy(client: &Client) -> bool {
    let channel = tonic::transport::Endpoint::from_shared(format!("http://{}", client.grpc_addr));
    let mut health = HealthClient::new(channel.unwrap().connect().await.unwrap());
    let request = HealthCheckRequest { service: String::new() };
    health.check(request).await.unwrap().into_inner().status == 1
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_asks_too_often_is_refused_on_both_faces_and_others_are_not() {
    let rig = Rig::without_server(&[("LONGHAUL_KEY_REQUESTS_PER_SECOND", "1000")]).await;
    let (few, many) =
        (make_key(&rig, "few", Some(1), None).await, make_key(&rig, "many", None, None).await);
    let node = rig.serve().await;
    let client = &node.client;
    let submit = client.grpc.clone().submit_job(shown(&many, job("one", [wait(3600)]))).await;
    submit.unwrap();
    look(client, &few).await.unwrap();
    let refused = loop {
        // A slow machine may have let a whole second pass.
        if let Err(refused) = look(client, &few).await {
            break refused;
        }
    };
    let told = Told::from(&refused);
    assert_eq!((told.code, told.reason.as_str()), (Code::ResourceExhausted, "RATE_LIMITED"));
    let wait = refused.get_error_details().retry_info().unwrap().retry_delay.unwrap();
    assert!(wait <= std::time::Duration::from_secs(1), "{wait:?}");
    look(client, &many).await.unwrap();

    let post = async || {
        let request = client.http.post(format!("{}/webhook/durable-job-control", client.http_url));
        let request = request.header("x-api-key", &few);
        request
            .json(&serde_json::json!({"job_id": "one", "action": "status"}))
            .send()
            .await
            .unwrap()
    };
    let refused = loop {
        let answer = post().await;
        if answer.status() == 429 {
            break answer;
        }
    };
    assert_eq!(refused.headers()["retry-after"], "1");
    let body: serde_json::Value = refused.json().await.unwrap();
    assert_eq!(body["reason"], "RATE_LIMITED", "{body}");
    for _ in 0..20 {
        assert!(is_healthy(client).await);
        let health = client.http.get(format!("{}/healthz", client.http_url)).send().await.unwrap();
        assert_eq!(health.status(), 200);
        let page = client.http.get(format!("{}/approvals/none", client.http_url)).send().await;
        assert_eq!(page.unwrap().status(), 404, "an approver is never refused for others");
    }
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_has_so_many_calls_in_hand_and_as_many_watches_beside_them() {
    let rig = Rig::without_server(&[("LONGHAUL_KEY_REQUESTS_MAX", "1")]).await;
    let (one, three) =
        (make_key(&rig, "one", None, None).await, make_key(&rig, "three", None, Some(3)).await);
    let node = rig.serve().await;
    let client = &node.client;
    rig.sandbox.hold("Write").await;
    client.grpc.clone().submit_job(shown(&one, job("one", [run("Write a line.")]))).await.unwrap();
    rig.sandbox.wait_for("Write", "held", 1).await;
    let wait = |key: &str| {
        let (mut grpc, job_id) = (client.grpc.clone(), "one".to_owned());
        let request = GetJobRequest { job_id, wait_seconds: 20, ..GetJobRequest::default() };
        let request = shown(key, request);
        tokio::spawn(async move { grpc.get_job(request).await })
    };
    let held = wait(&one);
    let refused = loop {
        if let Err(refused) = look(client, &one).await {
            break refused;
        }
        tokio::task::yield_now().await;
    };
    let told = Told::from(&refused);
    assert_eq!((told.code, told.reason.as_str()), (Code::ResourceExhausted, "OVERLOADED"));
    let watch = |key: &str| {
        let (mut grpc, job_id) = (client.grpc.clone(), "one".to_owned());
        let request = longhaul::rpc::proto::WatchJobRequest { job_id, ..Default::default() };
        let request = shown(key, request);
        async move { grpc.watch_job(request).await }
    };
    let watched = watch(&one).await.unwrap();
    assert_eq!(Told::by(watch(&one).await).reason, "OVERLOADED");
    let more = [wait(&three), wait(&three)];
    look(client, &three).await.unwrap();
    assert!(is_healthy(client).await);

    rig.sandbox.mend().await;
    for held in more.into_iter().chain([held]) {
        let done = held.await.unwrap().unwrap().into_inner().job.unwrap();
        assert_eq!(done.status(), JobStatus::Completed);
    }
    look(client, &one).await.unwrap();
    drop(watched);
    // The server hears of it a little later.
    while watch(&one).await.is_err() {
        tokio::task::yield_now().await;
    }
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_waits_for_a_job_keeps_out_nobody_who_does_not() {
    let rig = Rig::start_with(&[("LONGHAUL_REQUESTS_MAX", "1")]).await;
    rig.sandbox.hold("Write").await;
    rig.submit(job("one", [run("Write a line.")])).await;
    rig.sandbox.wait_for("Write", "held", 1).await;
    let asked = |wait_seconds| {
        let (mut grpc, job_id) = (rig.grpc.clone(), "one".to_owned());
        let request = GetJobRequest { job_id, wait_seconds, ..GetJobRequest::default() };
        async move { grpc.get_job(request).await }
    };
    let (mut one, mut other) = (tokio::spawn(asked(60)), tokio::spawn(asked(60)));
    let (refused, held) = tokio::select! {
        refused = &mut one => (refused, other),
        refused = &mut other => (refused, one),
    };
    assert_eq!(Told::by(refused.unwrap()).reason, "OVERLOADED", "there is a seat for one");
    let look = async {
        while asked(0).await.is_err() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, look).await.expect("the place is given back");
    assert!(!held.is_finished());
    rig.sandbox.mend().await;
    let done = held.await.unwrap().unwrap().into_inner().job.unwrap();
    assert_eq!(done.status(), JobStatus::Completed);
}
