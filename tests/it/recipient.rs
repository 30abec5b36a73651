//! People: each is written to in order and at a distance, where they are reached now, and none waits for another.

use std::path::PathBuf;

use longhaul::rpc::proto::{JobSettings, SubmitJobRequest};
use serde_json::{Value, json};

use crate::harness::{PERSON, Rig, approval, job, wait, with};
use crate::program::Folder;

const OTHER: &str = "+15550101";
const IS_SENT: &str = "select bool_and(delivery = 'sent') from longhaul.outbox where job_id = $1";

fn tell(job_id: &str, person: &str) -> SubmitJobRequest {
    let notify = vec![person.to_owned()];
    with(JobSettings { notify, ..JobSettings::default() }, job(job_id, [wait(0)]))
}

/// The jobs that the messages to a person told of, in the order in which they came.
async fn told(rig: &Rig, person: &str, at_least: usize) -> Vec<String> {
    let messages = rig.sandbox.messages(person, at_least).await;
    messages.iter().map(job_of).collect()
}

fn job_of(message: &Value) -> String {
    let word = message["biz_opaque_callback_data"].as_str().unwrap();
    word.rsplit_once(':').unwrap().1.to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_to_one_person_keep_their_distance_and_nobody_else_waits_for_it() {
    let rig = Rig::start_with(&[("LONGHAUL_WHATSAPP_SPACING_SECONDS", "60")]).await;
    for job_id in ["one", "two", "three"] {
        rig.submit(tell(job_id, PERSON)).await;
        rig.settled(job_id).await;
    }
    assert_eq!(told(&rig, PERSON, 1).await, ["one"]);
    for (number, job_id) in ["two", "three"].into_iter().enumerate() {
        let other = format!("beside-{job_id}");
        rig.submit(tell(&other, &format!("+155502{number:02}"))).await;
        rig.db.wait_until(IS_SENT, &other).await;
        assert_eq!(told(&rig, PERSON, 0).await.len(), number + 1, "their time has not come");
        rig.db.shift_clock(61).await;
        rig.db.wait_until(IS_SENT, job_id).await;
    }
    assert_eq!(told(&rig, PERSON, 3).await, ["one", "two", "three"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_got_too_much_is_left_alone_and_gets_the_rest_in_order() {
    let rig = Rig::start().await;
    rig.sandbox.break_whatsapp(json!({"code": 131_056, "recipient": PERSON})).await;
    rig.submit(tell("one", PERSON)).await;
    rig.sandbox.refused_messages(PERSON, 1).await;
    let waits = "select delivery = 'pending' and tries > 0 from longhaul.outbox where job_id = $1";
    rig.db.wait_until(waits, "one").await;
    rig.submit(tell("two", PERSON)).await;
    rig.submit(tell("beside", OTHER)).await;
    rig.db.wait_until(IS_SENT, "beside").await;
    let untried =
        "select delivery = 'pending' and tries = 0 from longhaul.outbox where job_id = $1";
    rig.db.wait_until(untried, "two").await;
    rig.sandbox.mend().await;
    rig.db.shift_clock(3600).await;
    rig.db.wait_until(IS_SENT, "two").await;
    assert_eq!(told(&rig, PERSON, 2).await, ["one", "two"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_hangs_holds_up_no_other_person() {
    let rig = Rig::start().await;
    let hangs = json!({"recipient": PERSON, "delay_ms": 15_000, "times": 1});
    rig.sandbox.break_whatsapp(hangs).await;
    rig.submit(tell("hanging", PERSON)).await;
    rig.sandbox.messages(PERSON, 1).await;
    // One after the other, so that no single round took them all.
    for job_id in ["one", "two", "three"] {
        rig.submit(tell(job_id, OTHER)).await;
        rig.db.wait_until(IS_SENT, job_id).await;
    }
    let hangs = "select delivery = 'sending' from longhaul.outbox where job_id = $1";
    rig.db.wait_until(hangs, "hanging").await;
}

/// A book with one person in it.
fn book(folder: &Folder, person: &str) -> PathBuf {
    let path = folder.0.join("book.toml");
    std::fs::write(&path, format!("[people.ana]\n{person}\n")).unwrap();
    path
}

#[tokio::test(flavor = "multi_thread")]
async fn a_person_is_written_to_in_their_language_and_time_where_they_are_reached_now() {
    let folder = Folder::make();
    let path = book(
        &folder,
        "phone = '+5511987654321'\nlanguage = 'pt-BR'\ntime_zone = 'America/Sao_Paulo'",
    );
    let path = path.to_str().unwrap();
    let rig = Rig::start_with(&[("LONGHAUL_ADDRESS_BOOK", path)]).await;
    let asks = |job_id: &str| {
        let (notify, language) = (vec!["ana".to_owned()], "zh".to_owned());
        let settings = JobSettings { notify, language, ..JobSettings::default() };
        with(settings, job(job_id, [approval("Good?")]))
    };
    rig.submit(asks("first")).await;
    rig.db.wait_until(IS_SENT, "first").await;
    let message = rig.sandbox.messages("+5511987654321", 1).await.remove(0);
    let text = message["text"].as_str().unwrap();
    assert!(text.starts_with("*Precisamos da sua decisão*"), "{text}");
    assert!(text.contains(" (UTC-03:00), faltam 24 horas."), "{text}");
    // Their number changes while a request waits for a server that knows it.
    let mut rig = rig;
    rig.sandbox.break_whatsapp(json!({"code": 131_056})).await;
    rig.submit(asks("second")).await;
    rig.sandbox.refused_messages("+5511987654321", 1).await;
    rig.stop_server().await;
    book(&folder, "phone = '+5511900000000'");
    rig.sandbox.mend().await;
    let _server = rig.serve().await;
    rig.db.shift_clock(3600).await;
    let message = rig.sandbox.messages("+5511900000000", 1).await.remove(0);
    assert_eq!(job_of(&message), "second");
}

#[tokio::test(flavor = "multi_thread")]
async fn who_is_no_longer_in_the_book_cannot_be_told_and_that_is_said() {
    let folder = Folder::make();
    let path = book(&folder, "phone = '+5511987654321'");
    let path = path.to_str().unwrap();
    let mut rig = Rig::start_with(&[("LONGHAUL_ADDRESS_BOOK", path)]).await;
    rig.sandbox.break_whatsapp(json!({"code": 131_056})).await;
    rig.submit(tell("lost", "ana")).await;
    rig.sandbox.refused_messages("+5511987654321", 1).await;
    rig.stop_server().await;
    std::fs::write(path, "").unwrap();
    rig.sandbox.mend().await;
    let server = rig.serve().await;
    rig.db.shift_clock(3600).await;
    let is_failed = "select delivery = 'failed' from longhaul.outbox where job_id = $1";
    rig.db.wait_until(is_failed, "lost").await;
    assert_eq!(server.client.job("lost").await.notices[0].error, "ana is not in the address book");
}
