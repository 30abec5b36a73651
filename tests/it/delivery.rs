//! Deliveries: what `WhatsApp` tells of messages is shown, never goes back, and settles what nobody knew.

use std::collections::BTreeMap;

use longhaul::notify::signature::sign;
use longhaul::rpc::proto::{ApprovalStep, Delivery, EventKind, JobStatus, Step, TimeoutPolicy};
use serde_json::{Value, json};

use crate::harness::{
    Client, Database, Ending, OwnPostgres, PERSON, Process, Rig, approval, approval_step, approve,
    job, run, wait,
};
use crate::program::{Folder, Program};

/// The app's secret, and the one before it.
pub const SECRET: &str = "the app's secret";
pub const OLD_SECRET: &str = "the app's secret before";
pub const VERIFY_TOKEN: &str = "the word we agreed on";

/// What opens the webhook.
pub const OPEN: &[(&str, &str)] = &[
    ("LONGHAUL_WHATSAPP_APP_SECRET", SECRET),
    ("LONGHAUL_WHATSAPP_APP_SECRET_OLD", OLD_SECRET),
    ("LONGHAUL_WHATSAPP_VERIFY_TOKEN", VERIFY_TOKEN),
];

const IS_SENT: &str = "select bool_and(delivery = 'sent') from longhaul.outbox where job_id = $1";
const IS_DELIVERED: &str =
    "select bool_and(receipt = 'delivered') from longhaul.outbox where job_id = $1";
const IS_READ: &str = "select bool_and(receipt = 'read') from longhaul.outbox where job_id = $1";
const IS_FAILED: &str =
    "select bool_and(delivery = 'failed') from longhaul.outbox where job_id = $1";
const WAITS: &str =
    "select delivery = 'pending' and tries = 1 from longhaul.outbox where job_id = $1";

/// A rig whose sandbox tells its server what becomes of messages.
async fn told_rig() -> Rig {
    let rig = Rig::start_with(OPEN).await;
    tell(&rig, &rig.http_url).await;
    rig
}

async fn tell(rig: &Rig, http_url: &str) {
    let webhook_url = format!("{http_url}/webhook/whatsapp");
    rig.sandbox
        .set(json!({"webhook_url": webhook_url, "app_secret": SECRET, "status_ms": 0}))
        .await;
}

/// Meta's body around some statuses.
pub fn body(statuses: &[Value]) -> String {
    json!({"object": "whatsapp_business_account", "entry": [{"id": "1", "changes": [
        {"field": "messages", "value": {"messaging_product": "whatsapp", "statuses": statuses}}]}]})
    .to_string()
}

/// A status of a message in the sandbox's journal.
pub fn status(message: &Value, word: &str) -> Value {
    let mut status = json!({"id": message["id"], "status": word, "timestamp": "1749416383",
        "recipient_id": "15550100", "biz_opaque_callback_data": message["biz_opaque_callback_data"]});
    if word == "failed" {
        status["errors"] = json!([{"code": 131_026, "title": "Message undeliverable",
            "error_data": {"details": "Message to +15550100 undeliverable."}}]);
    }
    status
}

/// Posts a body, signed; answers the status, after which everything is stored.
pub async fn post(client: &Client, body: &str) -> u16 {
    let request = client.http.post(format!("{}/webhook/whatsapp", client.http_url));
    let request = request.header("x-hub-signature-256", sign(&SECRET.into(), body.as_bytes()));
    request.body(body.to_owned()).send().await.unwrap().status().as_u16()
}

/// How far the only notice of a job has come, and why no further.
pub async fn shown(client: &Client, job_id: &str) -> (Delivery, String) {
    let [notice] = &client.job(job_id).await.notices[..] else { panic!("one notice of {job_id}") };
    (notice.delivery(), notice.error.clone())
}

/// The message that tells the end of a job, once it is recorded as sent.
pub async fn sent_message(rig: &Rig, job_id: &str) -> Value {
    rig.submit(job(job_id, [wait(0)])).await;
    rig.db.wait_until(IS_SENT, job_id).await;
    let messages = rig.sandbox.messages(PERSON, 1).await;
    messages.into_iter().rfind(|message| names(message, job_id)).unwrap()
}

fn names(message: &Value, job_id: &str) -> bool {
    message["biz_opaque_callback_data"].as_str().unwrap().ends_with(&format!(":{job_id}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_is_shown_as_delivered_and_once_it_is_seen_as_read() {
    let rig = told_rig().await;
    rig.submit(job("任务 / ü", [wait(0)])).await;
    rig.db.wait_until(IS_DELIVERED, "任务 / ü").await;
    assert_eq!(shown(&rig, "任务 / ü").await, (Delivery::Delivered, String::new()));
    rig.sandbox.open_phone(PERSON).await;
    rig.db.wait_until(IS_READ, "任务 / ü").await;
    assert_eq!(shown(&rig, "任务 / ü").await, (Delivery::Read, String::new()));
    let (_, answer) = rig.post_action("任务 / ü", "status").await;
    assert_eq!(answer["job"]["notices"][0]["delivery"], "read");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_told_twice_or_backwards_or_never_does_no_harm() {
    let rig = told_rig().await;
    for (statuses, reached) in [("repeat", IS_DELIVERED), ("reverse", IS_READ), ("never", IS_SENT)]
    {
        rig.sandbox.break_whatsapp(json!({"statuses": statuses})).await;
        rig.submit(job(statuses, [wait(0)])).await;
        rig.db.wait_until(reached, statuses).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_could_not_be_delivered_says_why() {
    let rig = told_rig().await;
    rig.sandbox.break_whatsapp(json!({"fail_code": 131_026})).await;
    rig.submit(job("undeliverable", [wait(0)])).await;
    rig.db.wait_until(IS_FAILED, "undeliverable").await;
    let (_, error) = shown(&rig, "undeliverable").await;
    assert!(error.contains("error 131026: Message undeliverable"), "{error}");
}

/// Every order of four.
fn orders() -> Vec<[&'static str; 4]> {
    let words = ["sent", "failed", "delivered", "read"];
    let mut orders = Vec::new();
    for number in 0..256 {
        let order = [0, 2, 4, 6].map(|shift| words[number >> shift & 3]);
        if words.iter().all(|word| order.contains(word)) {
            orders.push(order);
        }
    }
    orders
}

#[tokio::test(flavor = "multi_thread")]
async fn statuses_never_move_a_notice_back_in_whatever_order_they_come() {
    let rig = Rig::start_with(OPEN).await;
    let ranks = [Delivery::Sent, Delivery::Failed, Delivery::Delivered, Delivery::Read];
    let rank = |delivery| ranks.iter().position(|one| *one == delivery).unwrap();
    assert_eq!(orders().len(), 24);
    for (number, order) in orders().into_iter().enumerate() {
        let job_id = format!("order-{number}");
        let message = sent_message(&rig, &job_id).await;
        let mut highest = 0;
        for word in order {
            for _ in 0..2 {
                assert_eq!(post(&rig, &body(&[status(&message, word)])).await, 200);
                let (delivery, error) = shown(&rig, &job_id).await;
                let told = ["sent", "failed", "delivered", "read"].iter().position(|w| *w == word);
                highest = highest.max(told.unwrap());
                assert_eq!(rank(delivery), highest, "{order:?} at {word}");
                assert_eq!(error.is_empty(), delivery != Delivery::Failed, "{error}");
                assert!(!error.contains("5550100"), "{error}");
            }
        }
        // All in one body are worth what they are worth one by one.
        let again = order.map(|word| status(&message, word));
        assert_eq!(post(&rig, &body(&again)).await, 200);
        assert_eq!(shown(&rig, &job_id).await.0, Delivery::Read);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broken_item_and_messages_of_others_cost_no_item_of_ours() {
    let rig = Rig::start_with(OPEN).await;
    let (one, two) = (sent_message(&rig, "one").await, sent_message(&rig, "two").await);
    let mut by_id_alone = status(&two, "read");
    by_id_alone.as_object_mut().unwrap().remove("biz_opaque_callback_data");
    let mut of_another_sender = status(&one, "read");
    of_another_sender["id"] = "wamid.unknown".into();
    of_another_sender["biz_opaque_callback_data"] = "campaign-7".into();
    let mut of_no_job = status(&one, "read");
    of_no_job["biz_opaque_callback_data"] = "0197f0a4-6b7e-7cc3-9d0c-2b1f6f0a1234:1:never".into();
    let items =
        [json!({"id": 7}), of_another_sender, of_no_job, status(&one, "delivered"), by_id_alone];
    assert_eq!(post(&rig, &body(&items)).await, 200);
    assert_eq!(shown(&rig, "one").await.0, Delivery::Delivered);
    assert_eq!(shown(&rig, "two").await.0, Delivery::Read);
    assert_eq!(post(&rig, "no json at all").await, 200, "sending it again would not mend it");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_end_of_which_nobody_knew_is_what_its_status_says() {
    let rig = Rig::start_with(OPEN).await;
    rig.sandbox.break_whatsapp(json!({"drop": "after"})).await;
    let unconfirmed = "select delivery = 'unconfirmed' from longhaul.outbox where job_id = $1";
    for (word, delivery) in
        [("sent", Delivery::Sent), ("delivered", Delivery::Delivered), ("failed", Delivery::Failed)]
    {
        rig.submit(job(word, [wait(0)])).await;
        rig.db.wait_until(unconfirmed, word).await;
        let messages = rig.sandbox.messages(PERSON, 1).await;
        let message = messages.iter().find(|message| names(message, word)).unwrap();
        assert_eq!(post(&rig, &body(&[status(message, word)])).await, 200);
        assert_eq!(shown(&rig, word).await.0, delivery);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_is_known_to_have_arrived_is_not_sent_again() {
    let rig = Rig::start_with(OPEN).await;
    rig.sandbox.break_whatsapp(json!({"drop": "after", "times": 1})).await;
    rig.submit(job("asked", [approval("Good?")])).await;
    rig.db.wait_until(WAITS, "asked").await;
    let message = rig.sandbox.messages(PERSON, 1).await.remove(0);
    assert_eq!(post(&rig, &body(&[status(&message, "delivered")])).await, 200);
    rig.db.shift_clock(3600).await;
    // The next one is sent after whatever would be sent again.
    let next = sent_message(&rig, "next").await;
    assert!(names(&next, "next"));
    assert_eq!(rig.sandbox.messages(PERSON, 2).await.len(), 2);
    assert_eq!(shown(&rig, "asked").await.0, Delivery::Delivered);
    let plain = "select count(*) from longhaul.outbox where tokens is not null";
    assert_eq!(rig.db.number(plain).await, 0, "no token outlives its message");
    assert!(rig.control("asked", approve()).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failure_of_an_earlier_try_says_nothing_of_the_newest() {
    let rig = Rig::start_with(OPEN).await;
    rig.sandbox.break_whatsapp(json!({"drop": "after", "times": 1})).await;
    rig.submit(job("twice", [approval("Good?")])).await;
    rig.db.wait_until(WAITS, "twice").await;
    rig.db.shift_clock(61).await;
    rig.db.wait_until(IS_SENT, "twice").await;
    let messages = rig.sandbox.messages(PERSON, 2).await;
    for (message, word, delivery) in [
        (&messages[0], "failed", Delivery::Sent),
        (&messages[1], "failed", Delivery::Failed),
        (&messages[0], "sent", Delivery::Failed),
        (&messages[0], "delivered", Delivery::Delivered),
        (&messages[1], "failed", Delivery::Delivered),
    ] {
        assert_eq!(post(&rig, &body(&[status(message, word)])).await, 200);
        assert_eq!(shown(&rig, "twice").await.0, delivery, "{word}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_killed_between_sending_and_noting_leaves_it_to_the_status() {
    let rig = Rig::without_server(OPEN).await;
    let silent =
        [("TOKEN", ""), ("PHONE_NUMBER_ID", ""), ("BASE_URL", ""), ("SPACING_SECONDS", "")];
    let silent: Vec<_> =
        silent.iter().map(|(name, value)| (format!("LONGHAUL_WHATSAPP_{name}"), *value)).collect();
    let silent: Vec<_> = silent.iter().map(|(name, value)| (name.as_str(), *value)).collect();
    // It hears of messages and sends none.
    let hears = Process::serve(&rig, &silent).await;
    // The message is there at once, and its sender waits for the answer.
    rig.sandbox.break_whatsapp(json!({"delay_ms": 20_000, "times": 1})).await;
    let sends = Process::serve(&rig, &[]).await;
    sends.client.submit(job("killed", [wait(0)])).await;
    let message = rig.sandbox.messages(PERSON, 1).await.remove(0);
    sends.kill9().await;
    assert_eq!(shown(&hears.client, "killed").await.0, Delivery::Sending);
    assert_eq!(post(&hears.client, &body(&[status(&message, "delivered")])).await, 200);
    rig.db.shift_clock(3600).await;
    let sends = Process::serve(&rig, &[]).await;
    sends.client.submit(job("next", [wait(0)])).await;
    rig.db.wait_until(IS_SENT, "next").await;
    assert_eq!(rig.sandbox.messages(PERSON, 2).await.len(), 2, "no end is told twice");
    assert_eq!(shown(&hears.client, "killed").await.0, Delivery::Delivered);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_status_that_cannot_be_stored_is_not_taken_and_comes_again() {
    let mut postgres = OwnPostgres::start().await;
    let rig = Rig::on(postgres.url.clone(), OPEN).await;
    let server = Process::serve(&rig, &[]).await;
    tell(&rig, &server.client.http_url).await;
    server.client.submit(job("kept", [wait(0)])).await;
    rig.db.wait_until(IS_DELIVERED, "kept").await;
    let message = rig.sandbox.messages(PERSON, 1).await.remove(0);
    postgres.stop(Ending::Fast).await;
    assert_eq!(post(&server.client, &body(&[status(&message, "read")])).await, 503);
    // From here on the sandbox tells it, again and again.
    rig.sandbox.open_phone(PERSON).await;
    postgres.start_again().await;
    rig.db.wait_until(IS_READ, "kept").await;
}

fn timed() -> Step {
    let on_timeout = TimeoutPolicy::Approve.into();
    approval_step(ApprovalStep { timeout_seconds: 60, on_timeout, ..ApprovalStep::default() })
}

#[tokio::test(flavor = "multi_thread")]
async fn silence_approves_only_if_a_request_is_known_to_have_arrived() {
    let rig = Rig::start_with(OPEN).await;
    for (job_id, word, ended) in [
        ("sent", "sent", JobStatus::Failed),
        ("undelivered", "failed", JobStatus::Failed),
        ("delivered", "delivered", JobStatus::Completed),
        ("read", "read", JobStatus::Completed),
    ] {
        let submitted = rig.submit(job(job_id, [timed(), run("Go on.")])).await;
        assert_eq!(submitted.warnings, [""; 0]);
        rig.db.wait_until(IS_SENT, job_id).await;
        let messages = rig.sandbox.messages(PERSON, 1).await;
        let message = messages.iter().find(|message| names(message, job_id)).unwrap();
        assert_eq!(post(&rig, &body(&[status(message, word)])).await, 200);
        rig.db.shift_clock(61).await;
        rig.event(job_id, EventKind::ApprovalExpired).await;
        let job = rig.settled_as(job_id, ended).await;
        let reason = if ended == JobStatus::Failed { "APPROVAL_EXPIRED" } else { "" };
        assert_eq!(job.reason, reason, "{job_id}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_webhook_a_submit_is_warned_that_silence_will_not_approve() {
    let rig = Rig::start().await;
    let submitted = rig.submit(job("warned", [timed()])).await;
    let [warning] = &submitted.warnings[..] else { panic!("{:?}", submitted.warnings) };
    assert!(warning.contains("no delivery is confirmed"), "{warning}");
}

#[tokio::test(flavor = "multi_thread")]
async fn longhaul_dev_hears_of_deliveries_by_itself() {
    let (data, any) = (Folder::make(), "127.0.0.1:0");
    let faces = ["dev", "--grpc-addr", any, "--http-addr", any, "--sandbox-addr", any];
    let args = [&faces[..], &["--data-dir", data.0.to_str().unwrap()]].concat();
    let program = Program::start(&args, &BTreeMap::new()).await;
    let client = program.client();
    let db = Database::open(program.address("database_url").to_owned()).await;
    client.submit(job("shown", [wait(0)])).await;
    db.wait_until(IS_DELIVERED, "shown").await;
    let phone = format!("{}/phone", program.address("sandbox"));
    assert_eq!(client.http.get(phone).send().await.unwrap().status(), 200);
    db.wait_until(IS_READ, "shown").await;
    assert_eq!(shown(&client, "shown").await.0, Delivery::Read);
}
