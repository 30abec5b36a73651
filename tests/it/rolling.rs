//! Rolling: servers are stopped and started one after the other under load, and nobody notices.

use std::error::Error as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use longhaul::rpc::proto::JobStatus;
use tokio::sync::RwLock;
use tonic::Code;

use crate::harness::{Client, Process, Rig, job, run};

/// What clients do: they try another server until one answers, and sending a job twice is safe.
async fn submit_anywhere(clients: &RwLock<Vec<Client>>, job_id: &str) {
    for number in 0.. {
        let client = {
            let clients = clients.read().await;
            clients[number % clients.len()].clone()
        };
        let steps = ["Write a line.", "Shorten it.", "Translate it."].map(run);
        match client.try_submit(job(job_id, steps)).await {
            Ok(_) => return,
            // The server says so, or the connection ended with it.
            Err(status) => assert!(
                status.code() == Code::Unavailable || status.source().is_some(),
                "{status:?}"
            ),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rolling_restart_under_load_loses_nothing_and_counts_no_attempt() {
    let rig = Rig::without_server(&[("LONGHAUL_DRAIN_SECONDS", "1")]).await;
    rig.sandbox.break_model(serde_json::json!({"delay_ms": 150})).await;
    let mut servers = Vec::new();
    for _ in 0..3 {
        servers.push(Process::serve(&rig, &[]).await);
    }
    let clients = servers.iter().map(|server| server.client.clone()).collect();
    let (clients, is_over) = (Arc::new(RwLock::new(clients)), Arc::new(AtomicBool::new(false)));
    let load = tokio::spawn({
        let (clients, is_over) = (Arc::clone(&clients), Arc::clone(&is_over));
        async move {
            let mut submitted = 0;
            while !is_over.load(Ordering::Relaxed) {
                submit_anywhere(&clients, &format!("rolled-{submitted}")).await;
                submitted += 1;
            }
            submitted
        }
    });
    for at in 0..3 {
        let old = servers.remove(0);
        // It is told to stop while it takes jobs and runs steps.
        old.terminate().await;
        let new = Process::serve(&rig, &[]).await;
        clients.write().await[at] = new.client.clone();
        servers.push(new);
    }
    is_over.store(true, Ordering::Relaxed);
    let submitted = load.await.unwrap();
    println!("{submitted} jobs were submitted meanwhile");
    let last = &servers[0].client;
    for number in 0..submitted {
        let done = last.settled_as(&format!("rolled-{number}"), JobStatus::Completed).await;
        assert_eq!((done.attempts, done.steps.len()), (0, 3));
    }
    assert_eq!(rig.db.job_count().await, i64::from(submitted));
    for (never, counted) in [
        ("an attempt is lost", "select count(*) from longhaul.event where kind = 'attempt_lost'"),
        (
            "a call stays open",
            "select count(*) from longhaul.model_call where outcome in ('lost', 'started')",
        ),
        (
            "a step is stored twice",
            "select count(*) from longhaul.job where 3 <> (
               select count(*) from longhaul.checkpoint c where c.job_id = job.job_id)",
        ),
    ] {
        assert_eq!(rig.db.number(counted).await, 0, "{never}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_signal_ends_a_server_at_once() {
    let rig = Rig::without_server(&[("LONGHAUL_LEASE_SECONDS", "120")]).await;
    let server = Process::serve(&rig, &[("LONGHAUL_DRAIN_SECONDS", "3600")]).await;
    rig.sandbox.hold("held").await;
    server.client.submit(job("held", [run("Be held.")])).await;
    rig.sandbox.wait_for("held", "held", 1).await;
    assert!(!server.terminate_twice().await, "what was in flight was not given back");
    let other = Process::serve(&rig, &[]).await;
    rig.sandbox.mend().await;
    let done = other.client.settled_as("held", JobStatus::Completed).await;
    assert_eq!(done.steps.len(), 1);
}
