//! Notices: whoever is to know the end is told once, and what was overtaken is not told at all.

use longhaul::rpc::proto::{Delivery, JobSettings, JobStatus};
use serde_json::json;

use crate::harness::{
    NoticeRow, PERSON, Rig, approval, approve, cancel, job, links, retry, run, wait, with,
};

const OTHER: &str = "+15550101";

/// True once no notice of the job is on its way any more.
const ALL_JUDGED: &str = "select bool_and(delivery not in ('pending', 'sending'))
    from longhaul.outbox where job_id = $1";

fn both() -> JobSettings {
    let notify = vec![PERSON.to_owned(), OTHER.to_owned()];
    JobSettings { notify, ..JobSettings::default() }
}

fn row(kind: &str, recipient: &str, delivery: &str) -> NoticeRow {
    let [kind, recipient, delivery] = [kind, recipient, delivery].map(str::to_owned);
    NoticeRow { kind, recipient, delivery }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_end_is_told_to_each_person_exactly_once() {
    let rig = Rig::start().await;
    rig.sandbox.break_model(json!({"status": 400, "matching": "Fail"})).await;
    rig.submit(with(both(), job("completed", [run("Write a line.")]))).await;
    rig.submit(with(both(), job("failed", [run("Fail.")]))).await;
    rig.submit(with(both(), job("cancelled", [wait(60)]))).await;
    rig.settled("completed").await;
    rig.settled("failed").await;
    assert!(rig.control("cancelled", cancel()).await);
    assert!(!rig.control("cancelled", cancel()).await);
    for kind in ["completed", "failed", "cancelled"] {
        rig.db.wait_until(ALL_JUDGED, kind).await;
        let expected = [row(kind, PERSON, "sent"), row(kind, OTHER, "sent")];
        assert_eq!(rig.db.notices(kind).await, expected);
        let shown = rig.job(kind).await.notices;
        assert!(shown.iter().all(|notice| notice.delivery() == Delivery::Sent));
        assert!(shown.iter().all(|notice| notice.recipient.starts_with('…')), "{shown:?}");
    }
    for person in [PERSON, OTHER] {
        let texts = rig.sandbox.messages(person, 3).await;
        assert_eq!(texts.len(), 3);
        for word in ["done", "failed", "cancelled"] {
            let says =
                |message: &&serde_json::Value| message["text"].as_str().unwrap().contains(word);
            assert_eq!(texts.iter().filter(says).count(), 1, "{word} to {person}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_fails_and_is_retried_and_completes_tells_both() {
    let rig = Rig::start().await;
    rig.sandbox.break_model(json!({"status": 400, "times": 1})).await;
    rig.submit(with(both(), job("both", [run("Write a line.")]))).await;
    rig.settled_as("both", JobStatus::Failed).await;
    rig.db.wait_until(ALL_JUDGED, "both").await;
    assert!(rig.control("both", retry(0)).await);
    rig.settled_as("both", JobStatus::Completed).await;
    rig.db.wait_until(ALL_JUDGED, "both").await;
    let expected = [
        row("completed", PERSON, "sent"),
        row("completed", OTHER, "sent"),
        row("failed", PERSON, "sent"),
        row("failed", OTHER, "sent"),
    ];
    assert_eq!(rig.db.notices("both").await, expected);
    assert_eq!(rig.sandbox.messages(PERSON, 2).await.len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_carries_two_links_of_its_own_for_each_person() {
    let rig = Rig::start().await;
    let chinese = JobSettings { language: "zh".to_owned(), ..both() };
    rig.submit(with(chinese, job("asked", [run("写一句话。"), approval("可以发布吗？")]))).await;
    let mut all = Vec::new();
    for person in [PERSON, OTHER] {
        let message = rig.sandbox.messages(person, 1).await.remove(0);
        let text = message["text"].as_str().unwrap();
        assert!(text.contains("可以发布吗？") && text.contains("批准"), "{text}");
        assert!(text.chars().count() <= 4096);
        all.extend(links(&message));
    }
    assert!(all.iter().all(|link| link.starts_with(&rig.http_url)), "{all:?}");
    all.sort();
    all.dedup();
    assert_eq!(all.len(), 4);
    rig.db.wait_until(ALL_JUDGED, "asked").await;
    let plain = "select count(*) from longhaul.outbox where tokens is not null";
    assert_eq!(rig.db.number(plain).await, 0, "no token outlives its message");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_was_decided_before_it_went_out_is_not_sent() {
    let rig = Rig::start().await;
    rig.sandbox.break_whatsapp(json!({"code": 131_056})).await;
    rig.submit(job("overtaken", [approval("Good?")])).await;
    rig.sandbox.refused_messages(PERSON, 1).await;
    let waits = "select delivery = 'pending' and tries = 1 from longhaul.outbox where job_id = $1";
    rig.db.wait_until(waits, "overtaken").await;
    assert!(rig.control("overtaken", approve()).await);
    rig.sandbox.mend().await;
    rig.db.wait_until(ALL_JUDGED, "overtaken").await;
    let expected =
        [row("approval_requested", PERSON, "superseded"), row("completed", PERSON, "sent")];
    assert_eq!(rig.db.notices("overtaken").await, expected);
    assert_eq!(rig.sandbox.messages(PERSON, 1).await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_was_decided_while_it_was_being_sent_is_not_sent_again() {
    let rig = Rig::start().await;
    rig.sandbox.break_whatsapp(json!({"code": 131_056, "delay_ms": 700, "times": 1})).await;
    rig.submit(job("racing", [approval("Good?")])).await;
    let leaves = "select delivery = 'sending' from longhaul.outbox where job_id = $1";
    rig.db.wait_until(leaves, "racing").await;
    assert!(rig.control("racing", approve()).await);
    rig.db.wait_until(ALL_JUDGED, "racing").await;
    let expected =
        [row("approval_requested", PERSON, "superseded"), row("completed", PERSON, "sent")];
    assert_eq!(rig.db.notices("racing").await, expected);
    assert_eq!(rig.sandbox.messages(PERSON, 1).await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_refused_for_its_pace_is_tried_again() {
    let rig = Rig::start().await;
    rig.sandbox.break_whatsapp(json!({"code": 131_056, "times": 1})).await;
    rig.submit(job("paced", [wait(0)])).await;
    rig.sandbox.refused_messages(PERSON, 1).await;
    rig.db.shift_clock(2).await;
    rig.sandbox.messages(PERSON, 1).await;
    rig.db.wait_until(ALL_JUDGED, "paced").await;
    assert_eq!(rig.db.notices("paced").await, [row("completed", PERSON, "sent")]);
    assert_eq!(rig.db.number("select tries::bigint from longhaul.outbox").await, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_end_whose_answer_was_lost_is_not_told_twice() {
    let rig = Rig::start().await;
    rig.sandbox.break_whatsapp(json!({"drop": "after", "times": 1})).await;
    rig.submit(job("lost", [wait(0)])).await;
    rig.db.wait_until(ALL_JUDGED, "lost").await;
    assert_eq!(rig.db.notices("lost").await, [row("completed", PERSON, "unconfirmed")]);
    rig.db.shift_clock(3600).await;
    // The next one is sent after whatever would be sent again.
    rig.submit(job("next", [wait(0)])).await;
    rig.db.wait_until(ALL_JUDGED, "next").await;
    assert_eq!(rig.sandbox.messages(PERSON, 2).await.len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_whose_answer_was_lost_is_sent_again() {
    let rig = Rig::start().await;
    rig.sandbox.break_whatsapp(json!({"drop": "before", "times": 1})).await;
    rig.submit(job("asked", [approval("Good?")])).await;
    let waits = "select delivery = 'pending' and tries = 1 from longhaul.outbox where job_id = $1";
    rig.db.wait_until(waits, "asked").await;
    rig.db.shift_clock(61).await;
    let message = rig.sandbox.messages(PERSON, 1).await.remove(0);
    assert_eq!(rig.http.get(&links(&message)[0]).send().await.unwrap().status(), 200);
    rig.db.wait_until(ALL_JUDGED, "asked").await;
    assert_eq!(rig.db.notices("asked").await, [row("approval_requested", PERSON, "sent")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_will_never_arrive_is_given_up_and_says_why() {
    let rig = Rig::start().await;
    rig.sandbox.break_whatsapp(json!({"code": 131_047, "recipient": OTHER})).await;
    rig.submit(with(both(), job("closed", [wait(0)]))).await;
    rig.db.wait_until(ALL_JUDGED, "closed").await;
    let expected = [row("completed", PERSON, "sent"), row("completed", OTHER, "failed")];
    assert_eq!(rig.db.notices("closed").await, expected);
    let shown = rig.job("closed").await.notices;
    let failed = shown.iter().find(|notice| notice.recipient == "…0101").unwrap();
    assert!(failed.error.contains("131047"), "{}", failed.error);
    assert!(!failed.error.contains("5550101"), "{}", failed.error);
}

#[tokio::test(flavor = "multi_thread")]
async fn more_people_than_one_batch_takes_are_all_told_once() {
    let rig = Rig::start().await;
    let people: Vec<String> = (0..50).map(|number| format!("+155502{number:02}")).collect();
    let told = |person: &String| {
        let notify = vec![person.clone(), PERSON.to_owned()];
        with(JobSettings { notify, ..JobSettings::default() }, job(person, [wait(0)]))
    };
    for person in &people {
        rig.submit(told(person)).await;
    }
    for person in &people {
        assert_eq!(rig.sandbox.messages(person, 1).await.len(), 1, "{person}");
    }
    // One after the other, since they are all for one person.
    assert_eq!(rig.sandbox.messages(PERSON, people.len()).await.len(), people.len());
}
