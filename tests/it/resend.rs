//! Dead letters: what did not arrive is listed as that, and is sent again when somebody says so.

use std::collections::BTreeMap;

use longhaul::rpc::proto::{
    Delivery, JobNotice, JobSettings, JobStatus, ListJobsRequest, ListNoticesRequest,
    ListNoticesResponse, NoticeKind, ResendNoticeRequest, ResendNoticeResponse, SubmitJobRequest,
};
use longhaul::store::{Store, StoreSettings};
use serde_json::{Value, json};
use tonic::{Code, Status};

use crate::ask::form;
use crate::delivery::{OPEN, body, post, status};
use crate::harness::{
    Client, PATIENCE, PERSON, Rig, Told, approval, approve, cancel, job, links, pause, resume,
    retry, wait, with,
};
use crate::program::{Program, SERVE};
use crate::receiver::{Answer, Book, Receiver, SECRET};

const ALL_JUDGED: &str = "select bool_and(delivery not in ('pending', 'sending'))
    from longhaul.outbox where job_id = $1";

fn told(job: SubmitJobRequest) -> SubmitJobRequest {
    with(JobSettings { webhooks: vec!["ops".to_owned()], ..JobSettings::default() }, job)
}

fn book(receiver: &Receiver) -> Book {
    Book::new(&format!("[endpoints.ops]\nurl = '{}/ops'\nsecret = '{SECRET}'\n", receiver.url))
}

async fn list(client: &Client, request: ListNoticesRequest) -> ListNoticesResponse {
    client.grpc.clone().list_notices(request).await.unwrap().into_inner()
}

async fn resend(client: &Client, notice_id: &str) -> Result<ResendNoticeResponse, Status> {
    let request = ResendNoticeRequest { notice_id: notice_id.to_owned() };
    Ok(client.grpc.clone().resend_notice(request).await?.into_inner())
}

fn dead() -> ListNoticesRequest {
    let deliveries = vec![Delivery::Failed.into(), Delivery::Unconfirmed.into()];
    ListNoticesRequest { deliveries, ..ListNoticesRequest::default() }
}

fn id(listed: &JobNotice) -> String {
    listed.notice.as_ref().unwrap().notice_id.clone()
}

/// A job whose only notice the endpoint has refused for good.
async fn refused(rig: &Rig, receiver: &Receiver, job: SubmitJobRequest) -> String {
    let job_id = job.job_id.clone();
    receiver.answer([Answer::Status(410)]);
    rig.submit(told(job)).await;
    rig.db
        .wait_until("select delivery = 'failed' from longhaul.outbox where job_id = $1", &job_id)
        .await;
    let request = ListNoticesRequest { job_id, ..ListNoticesRequest::default() };
    id(&list(rig, request).await.notices[0])
}

#[tokio::test(flavor = "multi_thread")]
async fn notices_are_listed_newest_first_page_by_page_and_by_what_is_asked_for() {
    let receiver = Receiver::start().await;
    let book = book(&receiver);
    let rig = Rig::start_with(&[book.variable()]).await;
    rig.sandbox.break_whatsapp(json!({"code": 131_026})).await;
    for number in 0..5 {
        let job_id = format!("job-{number}");
        rig.submit(told(job(&job_id, [wait(0)]))).await;
        rig.db.wait_until(ALL_JUDGED, &job_id).await;
    }
    let all = list(&rig, ListNoticesRequest::default()).await;
    assert_eq!((all.notices.len(), all.next_page_token.as_str()), (10, ""));
    let mut paged = Vec::new();
    let mut page_token = String::new();
    loop {
        let page =
            list(&rig, ListNoticesRequest { page_size: 3, page_token, ..Default::default() }).await;
        paged.extend(page.notices);
        page_token = page.next_page_token;
        if page_token.is_empty() {
            break;
        }
    }
    assert_eq!(paged, all.notices);
    assert_eq!((paged[0].job_id.as_str(), paged[9].job_id.as_str()), ("job-4", "job-0"));
    let to = |recipient: &str| ListNoticesRequest {
        recipient: recipient.to_owned(),
        ..Default::default()
    };
    for (request, count) in [
        (dead(), 5),
        (to("webhook:ops"), 5),
        (to(PERSON), 5),
        (to("+15550199"), 0),
        (ListNoticesRequest { recipient: "webhook:ops".to_owned(), ..dead() }, 0),
        (ListNoticesRequest { job_id: "job-3".to_owned(), ..Default::default() }, 2),
        (ListNoticesRequest { job_id: "job-3".to_owned(), ..dead() }, 1),
        (ListNoticesRequest { job_id: "none".to_owned(), ..Default::default() }, 0),
        (ListNoticesRequest { kinds: vec![NoticeKind::Completed.into()], ..dead() }, 5),
        (ListNoticesRequest { kinds: vec![NoticeKind::Completed.into()], ..to(PERSON) }, 5),
        (ListNoticesRequest { kinds: vec![NoticeKind::Failed.into()], ..to(PERSON) }, 0),
        (ListNoticesRequest { deliveries: vec![Delivery::Read.into()], ..Default::default() }, 0),
        (ListNoticesRequest { deliveries: vec![Delivery::Sent.into()], ..Default::default() }, 5),
    ] {
        assert_eq!(list(&rig, request.clone()).await.notices.len(), count, "{request:?}");
    }
    assert!(!format!("{all:?}").contains(PERSON), "numbers are masked");
    let jobs = rig.grpc.clone().list_jobs(ListJobsRequest::default()).await.unwrap().into_inner();
    assert_eq!(jobs.jobs.len(), 5);
    assert!(jobs.jobs.iter().all(|job| job.undelivered_notices == 1), "{jobs:?}");
    assert_eq!(rig.job("job-3").await.undelivered_notices, 1);
    let (_, shown) = rig.post_action("job-3", "status").await;
    assert_eq!(shown["job"]["undelivered_notices"], 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_failed_is_sent_again_with_fresh_links() {
    let receiver = Receiver::start().await;
    let book = book(&receiver);
    let rig = Rig::start_with(&[book.variable(), ("LONGHAUL_NOTIFY", "")]).await;
    let notice_id = refused(&rig, &receiver, job("asked", [approval("Good?")])).await;
    let resent = resend(&rig, &notice_id).await.unwrap();
    let notice = resent.notice.unwrap();
    assert!(resent.changed && notice.job_id == "asked");
    let heard = receiver.heard(2).await;
    assert_eq!(heard[0].header("webhook-id"), heard[1].header("webhook-id"));
    let link = |at: usize| {
        heard[at].json()["data"]["approvers"][0]["approve_url"].as_str().unwrap().to_owned()
    };
    assert_ne!(link(0), link(1));
    rig.db.wait_until(ALL_JUDGED, "asked").await;
    let form = form(&rig, "asked", "approve", "").await;
    let post = rig.http.post(link(1)).header("content-type", "application/x-www-form-urlencoded");
    assert_eq!(post.body(form).send().await.unwrap().status(), 303);
    rig.settled_as("asked", JobStatus::Completed).await;
    let sent = Told::by(resend(&rig, &notice_id).await);
    assert_eq!((sent.code, sent.reason.as_str()), (Code::FailedPrecondition, "NOTICE_KEPT"));
    assert_eq!(sent.metadata["delivery"], "DELIVERY_SENT");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_person_gets_what_failed_again_and_its_links_decide() {
    let rig = Rig::start().await;
    rig.sandbox.break_whatsapp(json!({"code": 131_026, "times": 1})).await;
    rig.submit(job("asked", [approval("Good?")])).await;
    rig.db
        .wait_until("select delivery = 'failed' from longhaul.outbox where job_id = $1", "asked")
        .await;
    let failed = list(&rig, dead()).await.notices;
    assert!(resend(&rig, &id(&failed[0])).await.unwrap().changed);
    let message = rig.sandbox.messages(PERSON, 1).await.remove(0);
    let form = form(&rig, "asked", "approve", "").await;
    let post = rig
        .http
        .post(&links(&message)[0])
        .header("content-type", "application/x-www-form-urlencoded");
    assert_eq!(post.body(form).send().await.unwrap().status(), 303);
    let ended = rig.settled_as("asked", JobStatus::Completed).await;
    assert_eq!(ended.steps[0].decisions[0].by, "…0100");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_used_up_its_tries_has_as_many_again_and_no_old_try_is_taken_for_a_new_one() {
    let rig = Rig::start_with(OPEN).await;
    rig.submit(job("asked", [approval("Good?")])).await;
    let sent = "select delivery = 'sent' from longhaul.outbox where job_id = $1";
    rig.db.wait_until(sent, "asked").await;
    let first = rig.sandbox.messages(PERSON, 1).await.remove(0);
    let used_up = "update longhaul.outbox set tries = 50, delivery = 'failed', failed_try = 50, needs = 'template'";
    sqlx::raw_sql(used_up).execute(&rig.db.pool).await.unwrap();
    rig.sandbox.break_whatsapp(json!({"code": 131_056, "times": 1})).await;
    let failed = list(&rig, dead()).await.notices;
    assert!(resend(&rig, &id(&failed[0])).await.unwrap().changed);
    let again = "select delivery = 'pending' and tries = 51 and tries_before = 50 and needs is null and failed_try is null
        from longhaul.outbox where job_id = $1";
    rig.db.wait_until(again, "asked").await;
    rig.db.shift_clock(10).await;
    rig.db.wait_until(sent, "asked").await;
    let mut late = status(&first, "failed");
    late["errors"] = json!([{"code": 131_026, "title": "No"}]);
    assert_eq!(post(&rig, &body(&[late])).await, 200);
    rig.db.wait_until(sent, "asked").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_happened_stays_told_and_what_was_undone_does_not() {
    let rig = Rig::start().await;
    for job_id in ["resumed", "retried"] {
        rig.submit(job(job_id, [wait(3600)])).await;
    }
    for action in [pause(), resume()] {
        assert!(rig.control("resumed", action).await);
    }
    for action in [cancel(), retry(0)] {
        assert!(rig.control("retried", action).await);
    }
    let ask = "select longhaul.is_overtaken(jsonb_populate_record(null::longhaul.outbox,
          jsonb_build_object('shard', shard, 'job_id', job_id, 'sequence', 1, 'kind', $2)))
        from longhaul.job where job_id = $1";
    for (job_id, kind, is_overtaken) in [
        ("resumed", "out_of_budget", true),
        ("resumed", "completed", false),
        ("resumed", "paused", false),
        ("retried", "out_of_budget", true),
        ("retried", "cancelled", true),
        ("retried", "failed", true),
        ("retried", "daily_budget", false),
        ("retried", "approval_decided", false),
        ("retried", "notice_failed", false),
    ] {
        let asked = sqlx::query_scalar(ask).bind(job_id).bind(kind);
        let said: bool = asked.fetch_one(&rig.db.pool).await.unwrap();
        assert_eq!(said, is_overtaken, "{job_id} {kind}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_overtaken_or_is_not_there_is_not_sent_again() {
    let receiver = Receiver::start().await;
    let book = book(&receiver);
    let rig = Rig::start_with(&[book.variable(), ("LONGHAUL_NOTIFY", "")]).await;
    let overtaken = refused(&rig, &receiver, job("overtaken", [approval("Good?")])).await;
    assert!(rig.control("overtaken", approve()).await);
    let told = Told::by(resend(&rig, &overtaken).await);
    assert_eq!((told.code, told.reason.as_str()), (Code::FailedPrecondition, "NOTICE_KEPT"));
    assert_eq!(told.metadata["delivery"], "DELIVERY_FAILED");
    let told = Told::by(resend(&rig, "01931f5e-7b9a-7c3e-8a54-3f1b2c4d5e6f").await);
    assert_eq!((told.code, told.reason.as_str()), (Code::NotFound, "NOTICE_NOT_FOUND"));
    assert_eq!(Told::by(resend(&rig, "seven").await).fields, ["notice_id"]);
    rig.db.wait_until(ALL_JUDGED, "overtaken").await;
    // Repeating it while it waits changes nothing.
    receiver.answer([Answer::Status(410), Answer::Status(500)]);
    rig.submit(self::told(job("twice", [wait(0)]))).await;
    rig.db
        .wait_until("select delivery = 'failed' from longhaul.outbox where job_id = $1", "twice")
        .await;
    let request =
        ListNoticesRequest { job_id: "twice".to_owned(), ..ListNoticesRequest::default() };
    let twice = id(&list(&rig, request).await.notices[0]);
    assert!(resend(&rig, &twice).await.unwrap().changed);
    rig.db
        .wait_until(
            "select delivery = 'pending' and tries = 1 from longhaul.outbox where job_id = $1",
            "twice",
        )
        .await;
    assert!(!resend(&rig, &twice).await.unwrap().changed);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_endpoint_that_asks_to_be_left_alone_is_for_everything_that_there_is_for_it() {
    let receiver = Receiver::start().await;
    let book = book(&receiver);
    let rig = Rig::start_with(&[book.variable(), ("LONGHAUL_NOTIFY", "")]).await;
    receiver.answer([Answer::With(429, "retry-after", "120")]);
    rig.submit(told(job("told", [wait(0)]))).await;
    let rests = "select next_at > longhaul.now() + interval '100 seconds' from longhaul.recipient
        where recipient = 'webhook:' || $1";
    rig.db.wait_until(rests, "ops").await;
    rig.submit(told(job("waits", [wait(0)]))).await;
    rig.db.shift_clock(60).await;
    assert_eq!(receiver.so_far().len(), 1);
    rig.db.shift_clock(61).await;
    for job_id in ["told", "waits"] {
        rig.db.wait_until(ALL_JUDGED, job_id).await;
    }
    assert_eq!(receiver.so_far().len(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_waits_for_an_endpoint_that_nobody_knows_is_given_up_after_a_day_and_a_half() {
    let receiver = Receiver::start().await;
    let book = book(&receiver);
    let rig = Rig::start_with(&[book.variable(), ("LONGHAUL_NOTIFY", "")]).await;
    receiver.answer([Answer::Status(503)]);
    rig.submit(told(job("orphan", [wait(0)]))).await;
    let waits = "select delivery = 'pending' and tries = 1 from longhaul.outbox where job_id = $1";
    rig.db.wait_until(waits, "orphan").await;
    let rename = "update longhaul.outbox set recipient = 'webhook:gone'";
    sqlx::raw_sql(rename).execute(&rig.db.pool).await.unwrap();
    let settings = StoreSettings {
        database_url: rig.db.url.as_str().into(),
        direct_url: None,
        connections_max: 1,
    };
    let store = Store::connect(&settings).await.unwrap();
    let give_up = async |known: &[&str]| {
        let known: Vec<String> = known.iter().map(|&name| name.to_owned()).collect();
        store.give_up_orphaned_notices(&known).await.unwrap()
    };
    assert_eq!(give_up(&["ops"]).await, 0);
    rig.db.shift_clock(36 * 3600 + 1).await;
    // Who knows no endpoint at all is no judge, and who knows this one sends to it.
    assert_eq!((give_up(&[]).await, give_up(&["ops", "gone"]).await), (0, 0));
    assert_eq!(give_up(&["ops"]).await, 1);
    rig.db.wait_until(ALL_JUDGED, "orphan").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_command_line_lists_and_sends_again() {
    let receiver = Receiver::start().await;
    let book = book(&receiver);
    let rig = Rig::without_server(&[book.variable(), ("LONGHAUL_NOTIFY", "")]).await;
    let server = Program::start(&SERVE, rig.variables()).await;
    let client = server.client();
    receiver.answer([Answer::Status(410), Answer::Status(410)]);
    for job_id in ["one", "two"] {
        client.submit(told(job(job_id, [wait(0)]))).await;
        rig.db
            .wait_until("select delivery = 'failed' from longhaul.outbox where job_id = $1", job_id)
            .await;
    }
    let grpc = format!("http://{}", server.address("grpc"));
    let variables = BTreeMap::from([("LONGHAUL_SERVER".to_owned(), grpc)]);
    let said = async |args: &[&str]| {
        let output = Program::run(args, &variables, PATIENCE).await;
        assert!(output.status.success(), "{args:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let listed: Value =
        serde_json::from_str(&said(&["notices", "--failed", "--json"]).await).unwrap();
    let notices = listed["notices"].as_array().unwrap();
    assert_eq!((notices.len(), &notices[0]["job_id"]), (2, &json!("two")));
    assert_eq!(notices[0]["notice"]["error"], "it answered 410");
    let notice_id = notices[0]["notice"]["notice_id"].as_str().unwrap();
    let table = said(&["notices", "--job", "two"]).await;
    assert!(table.contains(notice_id) && table.contains("webhook:ops"), "{table}");
    assert!(said(&["notices", "resend", notice_id]).await.contains("will be sent again"));
    rig.db.wait_until(ALL_JUDGED, "two").await;
    assert!(said(&["notices", "resend", "--failed"]).await.contains("of one: will be sent again"));
    rig.db.wait_until(ALL_JUDGED, "one").await;
    assert_eq!(said(&["notices", "--failed"]).await.trim(), "no notices");
    assert_eq!(receiver.heard(4).await.len(), 4);
}
