//! Starts: what a server makes of the database it is given.

use longhaul::rpc::proto::JobStatus;

use crate::harness::{Rig, job, run};

#[tokio::test(flavor = "multi_thread")]
async fn servers_that_start_on_an_empty_database_at_once_all_serve() {
    let rig = Rig::on_an_empty_database().await;
    let (one, two, three) = tokio::join!(rig.serve(), rig.serve(), rig.serve());
    for (server, job_id) in [(&one, "one"), (&two, "two"), (&three, "three")] {
        server.client.submit(job(job_id, [run("Write a line.")])).await;
    }
    for job_id in ["one", "two", "three"] {
        one.client.settled_as(job_id, JobStatus::Completed).await;
    }
    assert!(rig.db.state("one").await["step_1_output"].is_string());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_of_the_template_that_is_there_already_is_left_alone() {
    let rig = Rig::on_an_empty_database().await;
    let theirs = "create table public.durable_jobs as select 'theirs' as job_id";
    sqlx::query(theirs).execute(&rig.db.pool).await.unwrap();
    let server = rig.serve().await;
    server.client.submit(job("ours", [run("Write a line.")])).await;
    server.client.settled_as("ours", JobStatus::Completed).await;
    assert_eq!(rig.db.number("select count(*) from public.durable_jobs").await, 1);
    assert_eq!(rig.db.number("select count(*) from longhaul.durable_jobs").await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restarted_server_finds_everything_as_it_left_it() {
    let mut rig = Rig::start().await;
    rig.submit(job("kept", [run("Write a line.")])).await;
    let before = rig.settled_as("kept", JobStatus::Completed).await;
    rig.stop_server().await;
    let again = rig.serve().await;
    let after = again.client.job("kept").await;
    assert_eq!((after.last_sequence, after.output), (before.last_sequence, before.output));
}
