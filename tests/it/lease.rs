//! The lease: without a living one an executor begins nothing, and a queue is never stopped by one bad row.

use longhaul::rpc::proto::{EventKind, JobStatus};

use crate::harness::{PERSON, Process, Rig, events_of, events_until_end, job, run, wait};

#[tokio::test(flavor = "multi_thread")]
async fn an_executor_whose_lease_is_over_claims_nothing_until_it_has_renewed() {
    let rig = Rig::start_with(&[("LONGHAUL_LEASE_SECONDS", "2")]).await;
    // Every lease is over at once, and no renewal has come yet.
    rig.db.sleep_all(3600).await;
    rig.submit(job("patient", [run("Wait for the renewal.")])).await;
    let done = rig.settled_as("patient", JobStatus::Completed).await;
    assert_eq!(done.attempts, 0);
    let events = events_until_end(rig.try_watch("patient", Some(0)).await.unwrap()).await;
    assert_eq!(events_of(&events, EventKind::AttemptLost), 0, "it was never claimed and lost");
    assert_eq!(rig.sandbox.requests("Wait for the renewal").await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_row_that_cannot_be_read_is_set_aside_and_stops_nobody() {
    let rig = Rig::start().await;
    rig.submit(job("broken", [wait(3600), run("Never asked.")])).await;
    let broken = "update longhaul.job_spec set spec = '{\"steps\": 7}' where job_id = 'broken'";
    sqlx::query(broken).execute(&rig.db.pool).await.unwrap();
    // At the head of the queue, before everybody else.
    let urgent = "update longhaul.job set run_at = null, priority = 1000 where job_id = 'broken'";
    sqlx::query(urgent).execute(&rig.db.pool).await.unwrap();
    rig.submit(job("whole", [run("Asked all the same.")])).await;
    rig.settled_as("whole", JobStatus::Completed).await;
    rig.db
        .wait_until("select run_at is not null from longhaul.job where job_id = $1", "broken")
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_parked_row_that_cannot_be_read_is_put_off_and_the_others_go_on() {
    let rig = Rig::start().await;
    rig.submit(job("broken", [wait(60)])).await;
    rig.submit(job("whole", [wait(60)])).await;
    let broken = "update longhaul.job_spec set spec = '{\"steps\": 7}' where job_id = 'broken'";
    sqlx::query(broken).execute(&rig.db.pool).await.unwrap();
    rig.db.shift_clock(61).await;
    rig.settled_as("whole", JobStatus::Completed).await;
    let put_off = "select run_at > longhaul.now() + interval '4 minutes'
                   from longhaul.job where job_id = $1";
    rig.db.wait_until(put_off, "broken").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_that_cannot_be_written_are_put_off_and_the_others_go_on() {
    let rig = Rig::start().await;
    for number in 0..50 {
        rig.submit(job(&format!("bad-{number}"), [wait(60)])).await;
    }
    rig.submit(job("whole", [wait(61)])).await;
    // Refused without a cause that time could mend.
    let refuse = "create function longhaul.refuse() returns trigger language plpgsql as $$
        begin
          if new.job_id like 'bad-%' then raise exception 'no more of this job'; end if;
          return new;
        end $$;
        create trigger refuse before insert on longhaul.event
          for each row execute function longhaul.refuse()";
    sqlx::raw_sql(refuse).execute(&rig.db.pool).await.unwrap();
    rig.db.shift_clock(62).await;
    rig.settled_as("whole", JobStatus::Completed).await;
    let put_off = "select count(*) = 50 and $1 <> '' from longhaul.job
        where run_at > longhaul.now() + interval '4 minutes' and job_id like 'bad-%'";
    rig.db.wait_until(put_off, "any").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_notice_that_cannot_be_read_is_given_up_and_holds_up_no_other() {
    let rig = Rig::start().await;
    rig.sandbox
        .break_whatsapp(serde_json::json!({"status": 400, "code": 131_056, "times": 1}))
        .await;
    rig.submit(job("broken", [wait(0)])).await;
    rig.sandbox.refused_messages(PERSON, 1).await;
    let recorded =
        "select delivery = 'pending' and tries = 1 from longhaul.outbox where job_id = $1";
    rig.db.wait_until(recorded, "broken").await;
    let broken = "update longhaul.job_spec set spec = '{\"steps\": 7}' where job_id = 'broken'";
    sqlx::query(broken).execute(&rig.db.pool).await.unwrap();
    let given_up = "select delivery = 'failed' from longhaul.outbox where job_id = $1";
    rig.db.wait_until(given_up, "broken").await;
    rig.submit(job("whole", [wait(0)])).await;
    rig.sandbox.messages(PERSON, 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_stops_begins_no_further_step() {
    let rig = Rig::without_server(&[]).await;
    let first = Process::serve(&rig, &[("LONGHAUL_DRAIN_SECONDS", "20")]).await;
    rig.sandbox.hold("one").await;
    first.client.submit(job("steps", [run("Say one."), run("Say two."), run("Say three.")])).await;
    rig.sandbox.wait_for("one", "held", 1).await;
    let mut watch = first.client.try_watch("steps", None).await.unwrap();
    let stopping = tokio::spawn(first.terminate());
    // A server that stops ends its watches at once, and waits for the step in flight.
    while watch.message().await.is_ok() {}
    rig.sandbox.mend().await;
    stopping.await.unwrap();
    assert_eq!(
        rig.sandbox.requests("Say two").await.len(),
        0,
        "the next step is for somebody else"
    );
    let second = Process::serve(&rig, &[]).await;
    let done = second.client.settled_as("steps", JobStatus::Completed).await;
    assert_eq!(done.attempts, 0);
    for prompt in ["Say one", "Say two", "Say three"] {
        assert_eq!(rig.sandbox.requests(prompt).await.len(), 1, "{prompt}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_reaches_a_server_that_is_draining() {
    let rig = Rig::without_server(&[]).await;
    let draining = Process::serve(&rig, &[("LONGHAUL_DRAIN_SECONDS", "3600")]).await;
    let other = Process::serve(&rig, &[("LONGHAUL_SLOTS", "1")]).await;
    rig.sandbox.hold("drain").await;
    draining.client.submit(job("drained", [run("Outlast the drain.")])).await;
    rig.sandbox.wait_for("drain", "held", 1).await;
    let holder = rig.db.number("select count(*) from longhaul.executor").await;
    assert_eq!(holder, 2);
    let mut watch = draining.client.try_watch("drained", None).await.unwrap();
    let stopping = tokio::spawn(draining.terminate());
    // A server that stops ends its watches at once.
    while watch.message().await.is_ok() {}
    other.client.control("drained", crate::harness::cancel()).await;
    rig.sandbox.wait_for("drain", "disconnected", 1).await;
    stopping.await.unwrap();
    assert_eq!(other.client.job("drained").await.status(), JobStatus::Cancelled);
}
