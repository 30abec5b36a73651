//! Inbound: what people write is kept before Meta is told so, handled once, and says nothing to strangers or logs.

use longhaul::rpc::proto::{ApprovalStep, Door, JobStatus, SubmitJobRequest};
use serde_json::{Value, json};

use crate::delivery::{OPEN, post, status};
use crate::harness::{Client, NOBODY, PERSON, Process, Rig, approval_step, job, run};
use crate::program::Folder;

/// True once a message is handled and what became of its answer is known.
pub const IS_HANDLED: &str = "select handled_at is not null and answer <> 'sending' from longhaul.inbound where message_id = $1";
const IS_SENT: &str = "select bool_and(delivery = 'sent') from longhaul.outbox where job_id = $1 and approval_id is not null";
/// Numbers and ids that no log may hold.
pub const STRANGER: &str = "+15550177";

/// A request that its approver has.
#[derive(Clone)]
pub struct Asked {
    /// What a tap names.
    pub approval_id: String,
    /// The message.
    pub message: Value,
}

/// A job that asks one person and then goes on.
pub fn asking(job_id: &str, approver: &str) -> SubmitJobRequest {
    let approvers = vec![approver.to_owned()];
    let approval = ApprovalStep { note: "Good?".to_owned(), approvers, ..ApprovalStep::default() };
    job(job_id, [approval_step(approval), run("Go on.")])
}

/// Submits a job that asks, and waits until its approver, whose number this is, has the request.
pub async fn ask(rig: &Rig, job: SubmitJobRequest, number: &str) -> Asked {
    let job_id = job.job_id.clone();
    rig.submit(job).await;
    rig.db.wait_until(IS_SENT, &job_id).await;
    let approval_id = rig.job(&job_id).await.approval.unwrap().approval_id;
    let messages = rig.sandbox.messages(number, 1).await;
    let is_asking = |message: &Value| {
        message["biz_opaque_callback_data"].as_str().unwrap().ends_with(&format!(":{job_id}"))
    };
    let message = messages.into_iter().rfind(is_asking).unwrap();
    Asked { approval_id: approval_id.replace('-', ""), message }
}

/// A moment at which everything that was sent has long arrived.
pub async fn later(rig: &Rig) -> i64 {
    rig.db.number("select extract(epoch from longhaul.now())::bigint + 60").await
}

/// A text as Meta tells it.
pub fn text(id: &str, from: &str, body: &str, at: i64) -> Value {
    json!({"id": id, "from": from.trim_start_matches('+'), "timestamp": at.to_string(), "type": "text",
        "text": {"body": body}})
}

/// A tap on a reply button.
pub fn tap(id: &str, from: &str, letter: &str, asked: &Asked) -> Value {
    let reply = json!({"id": format!("{letter}:{}", asked.approval_id), "title": "…"});
    json!({"id": id, "from": from.trim_start_matches('+'), "timestamp": "1749416383", "type": "interactive",
        "context": {"from": "15551111", "id": asked.message["id"]},
        "interactive": {"type": "button_reply", "button_reply": reply}})
}

/// Meta's body around some messages.
pub fn body(messages: &[Value]) -> String {
    json!({"object": "whatsapp_business_account", "entry": [{"id": "1", "changes": [{"field": "messages",
        "value": {"messaging_product": "whatsapp", "metadata": {"phone_number_id": "1"},
        "messages": messages}}]}]})
    .to_string()
}

/// Posts one message and waits until it is handled.
pub async fn hear(rig: &Rig, message: Value) {
    let id = message["id"].as_str().unwrap().to_owned();
    assert_eq!(post(rig, &body(&[message])).await, 200);
    rig.db.wait_until(IS_HANDLED, &id).await;
}

/// The texts that a person got and that are no notices, once there are so many.
pub async fn answers(rig: &Rig, to: &str, at_least: usize) -> Vec<String> {
    let told = rig.sandbox.messages(to, at_least).await;
    let answers = told.iter().filter(|message| message["biz_opaque_callback_data"] == "answer");
    answers.map(|message| message["text"].as_str().unwrap().to_owned()).collect()
}

/// The last answer that a person got.
pub async fn last_answer(rig: &Rig, to: &str) -> String {
    answers(rig, to, 1).await.pop().expect("an answer")
}

/// A rig whose address book this is.
pub async fn booked(folder: &Folder, book: &str) -> Rig {
    let path = folder.0.join("book.toml");
    std::fs::write(&path, book).unwrap();
    let book = [("LONGHAUL_ADDRESS_BOOK", path.to_str().unwrap())];
    Rig::start_with(&[OPEN, &book].concat()).await
}

/// Which door the only decision of a job's first step came through, in whose name.
pub async fn decided(client: &Client, job_id: &str) -> (Door, String) {
    let job = client.job(job_id).await;
    let [decision] = &job.steps[0].decisions[..] else { panic!("one decision of {job_id}") };
    (decision.door(), decision.by.clone())
}

#[tokio::test(flavor = "multi_thread")]
async fn five_copies_of_a_tap_make_one_decision_and_one_answer() {
    let rig = Rig::start_with(OPEN).await;
    let asked = ask(&rig, asking("copies", PERSON), PERSON).await;
    let tap = tap("wamid.copies", PERSON, "a", &asked);
    for _ in 0..2 {
        assert_eq!(post(&rig, &body(&[tap.clone(), tap.clone()])).await, 200);
    }
    hear(&rig, tap).await;
    rig.settled_as("copies", JobStatus::Completed).await;
    assert_eq!(decided(&rig, "copies").await, (Door::Button, "…0100".to_owned()));
    assert_eq!(
        answers(&rig, PERSON, 2).await,
        ["*Approved*\nLaunch copy\n\nThank you. The job goes on."]
    );
    assert_eq!(rig.db.number("select count(*) from longhaul.inbound").await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bad_item_costs_no_good_one_and_the_bytes_are_signed_as_meta_writes_them() {
    let rig = Rig::start_with(OPEN).await;
    let first = ask(&rig, asking("first", PERSON), PERSON).await;
    let second = ask(&rig, asking("second", "+15550101"), "+15550101").await;
    let bad = [json!(7), json!({"id": 7}), json!({"from": "1"}), Value::Null];
    let mut messages = vec![tap("wamid.1", PERSON, "a", &first)];
    messages.extend(bad);
    let mut reply = text("wamid.2", "+15550101", "同意", 1_749_416_383);
    reply["context"] = json!({"id": second.message["id"]});
    messages.push(reply);
    let escaped = body(&messages).replace('同', r"\u540c").replace('意', r"\u610f");
    let escaped = escaped.replace('/', r"\/");
    assert_eq!(post(&rig, &escaped).await, 200);
    for (job_id, id) in [("first", "wamid.1"), ("second", "wamid.2")] {
        rig.db.wait_until(IS_HANDLED, id).await;
        rig.settled_as(job_id, JobStatus::Completed).await;
    }
    assert_eq!(decided(&rig, "second").await, (Door::Reply, "…0101".to_owned()));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_comes_before_the_receipt_of_its_request_counts_all_the_same() {
    let rig = Rig::start_with(OPEN).await;
    let asked = ask(&rig, asking("disorder", PERSON), PERSON).await;
    let at = later(&rig).await;
    hear(&rig, text("wamid.disorder", PERSON, "OK!", at)).await;
    for word in ["read", "delivered", "sent"] {
        let told = crate::delivery::body(&[status(&asked.message, word)]);
        assert_eq!(post(&rig, &told).await, 200);
    }
    rig.settled_as("disorder", JobStatus::Completed).await;
    assert_eq!(decided(&rig, "disorder").await.0, Door::Reply);
}

#[tokio::test(flavor = "multi_thread")]
async fn three_mebibytes_of_a_person_are_taken_and_kept_short() {
    let rig = Rig::start_with(OPEN).await;
    let mut long = text("wamid.long", STRANGER, "", 1_749_416_383);
    let room = (3 << 20) - body(&[long.clone()]).len();
    long["text"]["body"] = "x".repeat(room).into();
    let long = body(&[long]);
    assert_eq!(long.len(), 3 << 20);
    assert_eq!(post(&rig, &long).await, 200);
    rig.db.wait_until(IS_HANDLED, "wamid.long").await;
    let kept = "select count(*) from longhaul.inbound where content is not null";
    assert_eq!(rig.db.number(kept).await, 0, "what was written is not kept once it is handled");
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_a_person_sends_opens_the_window_and_a_picture_is_not_answered() {
    let rig = Rig::start_with(OPEN).await;
    let at = 1_749_416_383;
    for (number, kind) in ["image", "reaction", "system", "unsupported"].iter().enumerate() {
        let id = format!("wamid.{kind}");
        let mut message = text(&id, PERSON, "", at + i64::try_from(number).unwrap());
        message["type"] = (*kind).into();
        message[*kind] = json!({"emoji": "👍", "id": "1"});
        hear(&rig, message).await;
    }
    let opened = "select extract(epoch from last_inbound_at)::bigint from longhaul.recipient";
    assert_eq!(rig.db.number(opened).await, at + 3);
    let silent = "select count(*) from longhaul.inbound where answer <> 'none'";
    assert_eq!(rig.db.number(silent).await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_written_to_another_number_of_the_business_is_not_ours() {
    let rig = Rig::start_with(OPEN).await;
    let asked = ask(&rig, asking("another", PERSON), PERSON).await;
    let other = body(&[tap("wamid.another", PERSON, "a", &asked)])
        .replace(r#""phone_number_id":"1""#, r#""phone_number_id":"2""#);
    assert_eq!(post(&rig, &other).await, 200);
    rig.db.wait_until(IS_HANDLED, "wamid.another").await;
    assert_eq!(rig.job("another").await.status(), JobStatus::AwaitingApproval);
    assert!(answers(&rig, PERSON, 1).await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_was_kept_is_handled_by_another_server_when_its_own_has_died() {
    let rig = Rig::without_server(OPEN).await;
    let sends = rig.serve().await;
    sends.client.submit(asking("survives", PERSON)).await;
    rig.db.wait_until(IS_SENT, "survives").await;
    let approval_id = sends.client.job("survives").await.approval.unwrap().approval_id;
    let message = rig.sandbox.messages(PERSON, 1).await.remove(0);
    sends.stop().await;
    let asked = Asked { approval_id: approval_id.replace('-', ""), message };
    // It hears, and has no number to answer from, so it leaves the message to others.
    let silent = ["TOKEN", "PHONE_NUMBER_ID", "BASE_URL", "SPACING_SECONDS"]
        .map(|name| format!("LONGHAUL_WHATSAPP_{name}"));
    let silent: Vec<(&str, &str)> = silent.iter().map(|name| (name.as_str(), "")).collect();
    let hears = Process::serve(&rig, &silent).await;
    assert_eq!(post(&hears.client, &body(&[tap("wamid.kept", PERSON, "r", &asked)])).await, 200);
    hears.kill9().await;
    let open = "select count(*) from longhaul.inbound where handled_at is null and tries = 0";
    assert_eq!(rig.db.number(open).await, 1);
    let server = rig.serve().await;
    rig.db.wait_until(IS_HANDLED, "wamid.kept").await;
    server.client.settled_as("survives", JobStatus::Cancelled).await;
    assert_eq!(last_answer(&rig, PERSON).await, "*Rejected*\nLaunch copy\n\nThis ends the job.");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_killed_while_it_answers_has_decided_and_nobody_is_answered_twice() {
    // Nobody is told of the end, so that what is delayed is the answer.
    let quiet: Vec<_> = OPEN.iter().copied().chain([("LONGHAUL_NOTIFY", NOBODY)]).collect();
    let rig = Rig::without_server(&quiet).await;
    let first = Process::serve(&rig, &[]).await;
    first.client.submit(asking("killed", PERSON)).await;
    rig.db.wait_until(IS_SENT, "killed").await;
    let approval_id = first.client.job("killed").await.approval.unwrap().approval_id;
    let message = rig.sandbox.messages(PERSON, 1).await.remove(0);
    let asked = Asked { approval_id: approval_id.replace('-', ""), message };
    // The answer is with Meta, and its sender waits to hear so.
    rig.sandbox.break_whatsapp(json!({"delay_ms": 20_000, "times": 1})).await;
    assert_eq!(post(&first.client, &body(&[tap("wamid.killed", PERSON, "r", &asked)])).await, 200);
    rig.sandbox.messages(PERSON, 2).await;
    first.kill9().await;
    rig.db.shift_clock(3600).await;
    let server = rig.serve().await;
    server.client.settled_as("killed", JobStatus::Cancelled).await;
    // Whatever was left over is handled before this one.
    assert_eq!(post(&server.client, &body(&[tap("wamid.next", PERSON, "r", &asked)])).await, 200);
    rig.db.wait_until(IS_HANDLED, "wamid.next").await;
    let of_first = "select count(*) from longhaul.inbound where message_id = 'wamid.killed' and answer = 'sending'";
    assert_eq!(rig.db.number(of_first).await, 1, "nobody knows, and nobody tries again");
}

#[tokio::test(flavor = "multi_thread")]
async fn neither_texts_nor_numbers_reach_the_log() {
    let rig = Rig::without_server(OPEN).await;
    let server = Process::serve(&rig, &[("RUST_LOG", "info,longhaul=trace")]).await;
    server.client.submit(asking("quiet", PERSON)).await;
    rig.db.wait_until(IS_SENT, "quiet").await;
    let at = later(&rig).await;
    let written = [
        text("wamid.said1", PERSON, "what a person wrote", at),
        text("wamid.said2", PERSON, "reject: not like this", at + 1),
        text("wamid.said3", STRANGER, "what a stranger wrote", at),
    ];
    assert_eq!(post(&server.client, &body(&written)).await, 200);
    for id in ["wamid.said1", "wamid.said2", "wamid.said3"] {
        rig.db.wait_until(IS_HANDLED, id).await;
    }
    server.client.settled_as("quiet", JobStatus::Cancelled).await;
    let said = server.said();
    for secret in
        ["5550100", "5550177", "person wrote", "stranger wrote", "not like this", "wamid.said"]
    {
        assert!(!said.contains(secret), "{secret}: {said}");
    }
}
