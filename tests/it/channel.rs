//! The channel: what stops it stops it once for all notices, is shown by each, and ends by itself.

use axum::Router;
use axum::http::StatusCode;
use longhaul::rpc::proto::{Delivery, JobSettings};
use serde_json::json;
use tokio::net::TcpListener;

use crate::harness::{PERSON, Rig, job, wait, with};
use crate::program::Folder;

const EXPIRED: &str = "error 190";
const PEOPLE: [&str; 3] = ["+15550101", "+15550102", "+15550103"];
const IS_SENT: &str = "select bool_and(delivery = 'sent') from longhaul.outbox where job_id = $1";
const IS_HELD: &str = "select delivery = 'pending' and tries = 0 and error is not null from longhaul.outbox where job_id = $1";

/// One job for each of these people, whose end they are told.
async fn tell_all(rig: &Rig) {
    for person in PEOPLE {
        let notify = vec![person.to_owned()];
        let settings = JobSettings { notify, ..JobSettings::default() };
        rig.submit(with(settings, job(person, [wait(0)]))).await;
        rig.settled(person).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_expired_token_stops_everything_once_until_it_is_replaced() {
    let folder = Folder::make();
    let file = folder.0.join("token");
    std::fs::write(&file, "expired").unwrap();
    let token = [("LONGHAUL_WHATSAPP_TOKEN_FILE", file.to_str().unwrap())];
    let rig = Rig::start_with(&token).await;
    rig.sandbox.break_whatsapp(json!({"code": 190})).await;
    rig.submit(job("first", [wait(0)])).await;
    rig.db.wait_until(IS_HELD, "first").await;
    tell_all(&rig).await;
    // A minute later one message is tried, and all say why they wait.
    rig.db.shift_clock(60).await;
    for job_id in PEOPLE.into_iter().chain(["first"]) {
        rig.db.wait_until(IS_HELD, job_id).await;
        let notice = rig.job(job_id).await.notices.remove(0);
        assert_eq!(notice.delivery(), Delivery::Pending);
        assert!(notice.error.contains(EXPIRED), "{}", notice.error);
    }
    let mut refused = 0;
    for person in PEOPLE.into_iter().chain([PERSON]) {
        refused += rig.sandbox.refused_messages(person, 0).await.len();
    }
    assert_eq!(refused, 2, "one to begin with, and one a minute later");
    rig.sandbox.mend().await;
    std::fs::write(&file, "fresh").unwrap();
    for job_id in PEOPLE.into_iter().chain(["first"]) {
        rig.db.wait_until(IS_SENT, job_id).await;
        assert_eq!(rig.job(job_id).await.notices[0].error, "");
    }
    let tries = "select max(tries)::bigint from longhaul.outbox";
    assert_eq!(rig.db.number(tries).await, 1, "what was held is no try");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fault_that_is_mended_elsewhere_is_noticed_within_a_minute() {
    let rig = Rig::start().await;
    rig.sandbox.break_whatsapp(json!({"code": 131_031})).await;
    rig.submit(job("locked", [wait(0)])).await;
    rig.db.wait_until(IS_HELD, "locked").await;
    rig.sandbox.mend().await;
    rig.db.shift_clock(60).await;
    rig.db.wait_until(IS_SENT, "locked").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_limit_of_the_account_is_waited_for_by_all_and_costs_nobody_a_try() {
    let rig = Rig::start().await;
    rig.sandbox.break_whatsapp(json!({"code": 80_007})).await;
    rig.submit(job("first", [wait(0)])).await;
    rig.db.wait_until(IS_HELD, "first").await;
    rig.sandbox.mend().await;
    tell_all(&rig).await;
    rig.db.shift_clock(3600).await;
    for job_id in PEOPLE.into_iter().chain(["first"]) {
        rig.db.wait_until(IS_SENT, job_id).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_with_a_bad_token_holds_up_no_server_with_a_good_one() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let refuse = || async {
        let error = json!({"error": {"code": 190, "message": "Session has expired"}});
        (StatusCode::UNAUTHORIZED, error.to_string())
    };
    tokio::spawn(async move { axum::serve(listener, Router::new().fallback(refuse)).await });
    let bad = Rig::start_with(&[("LONGHAUL_WHATSAPP_BASE_URL", &url)]).await;
    bad.submit(job("first", [wait(0)])).await;
    bad.db.wait_until(IS_HELD, "first").await;
    let good = Rig::on(bad.db.url.clone(), &[]).await;
    let _server = good.serve().await;
    tell_all(&bad).await;
    for job_id in PEOPLE.into_iter().chain(["first"]) {
        bad.db.wait_until(IS_SENT, job_id).await;
    }
    assert_eq!(good.sandbox.messages(PERSON, 1).await.len(), 1);
}
