//! The window: within a day of what a person wrote they are written to freely, else with a template;
//! and what Meta says of it afterwards, or of anything else that went wrong on the way, is acted on.

use chrono::{DateTime, Utc};
use longhaul::rpc::proto::Delivery;
use longhaul::store::{Store, StoreSettings};
use serde_json::{Value, json};

use crate::delivery::{OPEN, SECRET, body, post, shown, status};
use crate::harness::{PERSON, Rig, approval, approve, job, links, wait};

const IS_SENT: &str = "select bool_and(delivery = 'sent') from longhaul.outbox where job_id = $1";
const WAITS: &str = "select delivery = 'pending' from longhaul.outbox where job_id = $1";

/// A rig with templates and a webhook, and a sandbox that knows the second template as well.
async fn with_templates() -> Rig {
    let rig = Rig::start_with(&templates()).await;
    let link = |text: &str| json!({"type": "URL", "text": text, "url": "https://x.example/{{1}}"});
    let components = json!([{"type": "BODY", "text": "A job asks: {{1}}, {{2}}, until {{3}}. Please decide."},
        {"type": "BUTTONS", "buttons": [link("Approve"), link("Reject")]}]);
    let backup =
        json!({"name": "approval_request_2", "language": "en_US", "components": components});
    rig.sandbox.add_template(backup).await;
    rig
}

/// With templates, and a webhook.
fn templates() -> Vec<(&'static str, &'static str)> {
    let mut variables = OPEN.to_vec();
    variables.extend([
        ("LONGHAUL_WHATSAPP_REQUEST_TEMPLATE", "approval_request"),
        ("LONGHAUL_WHATSAPP_REQUEST_TEMPLATE_BACKUP", "approval_request_2"),
        ("LONGHAUL_WHATSAPP_NOTICE_TEMPLATE", "job_notice"),
    ]);
    variables
}

/// The person writes, now.
async fn write(rig: &Rig) {
    let settings = StoreSettings {
        database_url: rig.db.url.as_str().into(),
        direct_url: None,
        connections_max: 1,
    };
    let store = Store::connect(&settings).await.unwrap();
    let now: DateTime<Utc> = store.now().await.unwrap();
    store.note_inbound(PERSON, now, None).await.unwrap();
}

/// Asks, and answers the message that does.
async fn ask(rig: &Rig, job_id: &str) -> Value {
    rig.submit(job(job_id, [approval("Good?")])).await;
    rig.db.wait_until(IS_SENT, job_id).await;
    last(rig, job_id).await
}

/// The last message of a job.
async fn last(rig: &Rig, job_id: &str) -> Value {
    let messages = rig.sandbox.messages(PERSON, 1).await;
    let names = |message: &Value| {
        message["biz_opaque_callback_data"].as_str().unwrap().ends_with(&format!(":{job_id}"))
    };
    messages.into_iter().rfind(names).unwrap()
}

fn template(message: &Value) -> Option<&str> {
    message["body"]["template"]["name"].as_str()
}

/// Where the buttons of a template lead.
fn buttons(rig: &Rig, message: &Value) -> Vec<String> {
    let components = message["body"]["template"]["components"].as_array().unwrap();
    let ends = components.iter().filter(|component| component["type"] == "button");
    let end = |button: &Value| button["parameters"][0]["text"].as_str().unwrap().to_owned();
    ends.map(|button| format!("{}/approvals/{}", rig.http_url, end(button))).collect()
}

/// A failed status of a message, with this code.
fn failed(message: &Value, code: u32) -> Value {
    let mut failed = status(message, "failed");
    failed["errors"] = json!([{"code": code, "title": "No"}]);
    failed
}

#[tokio::test(flavor = "multi_thread")]
async fn within_a_day_of_what_a_person_wrote_they_are_written_to_freely() {
    let rig = with_templates().await;
    let before = ask(&rig, "before").await;
    assert_eq!(template(&before), Some("approval_request"));
    for link in buttons(&rig, &before) {
        assert_eq!(rig.http.get(&link).send().await.unwrap().status(), 200);
    }
    write(&rig).await;
    let within = ask(&rig, "within").await;
    assert_eq!(within["type"], "text");
    links(&within);
    rig.db.shift_clock(22 * 3600).await;
    assert_eq!(ask(&rig, "still").await["type"], "text");
    // An hour is left for what is on its way.
    rig.db.shift_clock(3600).await;
    assert_eq!(template(&ask(&rig, "after").await), Some("approval_request"));
    rig.submit(job("end", [wait(0)])).await;
    rig.db.wait_until(IS_SENT, "end").await;
    assert_eq!(template(&last(&rig, "end").await), Some("job_notice"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_window_that_meta_calls_closed_stays_so_until_the_person_writes() {
    let rig = with_templates().await;
    write(&rig).await;
    rig.sandbox.break_whatsapp(json!({"code": 131_047, "times": 1})).await;
    let message = ask(&rig, "refused").await;
    assert_eq!(template(&message), Some("approval_request"));
    assert_eq!(rig.sandbox.refused_messages(PERSON, 1).await.len(), 1);
    let tries = "select tries::bigint from longhaul.outbox where job_id = 'refused'";
    assert_eq!(rig.db.number(tries).await, 1, "a refusal is certain, so nothing had to wait");
    assert_eq!(template(&ask(&rig, "next").await), Some("approval_request"));
    write(&rig).await;
    assert_eq!(ask(&rig, "written").await["type"], "text");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_window_that_was_closed_after_all_has_the_template_sent_with_links_of_its_own() {
    let rig = with_templates().await;
    write(&rig).await;
    let message = ask(&rig, "asked").await;
    let failed = failed(&message, 131_047);
    assert_eq!(post(&rig, &body(&[failed.clone(), failed.clone()])).await, 200);
    let twice = "select delivery = 'sent' and tries = 2 from longhaul.outbox where job_id = $1";
    rig.db.wait_until(twice, "asked").await;
    let again = last(&rig, "asked").await;
    assert_eq!(template(&again), Some("approval_request"));
    // It is no news any more, and neither is what the first message went through before.
    assert_eq!(post(&rig, &body(&[failed, status(&message, "sent")])).await, 200);
    assert_eq!(shown(&rig, "asked").await, (Delivery::Sent, String::new()));
    assert_eq!(rig.sandbox.messages(PERSON, 2).await.len(), 2);
    for link in buttons(&rig, &again).into_iter().chain(links(&message)) {
        assert_eq!(rig.http.get(&link).send().await.unwrap().status(), 200);
    }
    let plain = "select count(*) from longhaul.outbox where tokens is not null";
    assert_eq!(rig.db.number(plain).await, 0, "no token outlives its message");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_could_not_be_delivered_for_a_while_is_sent_again_after_a_while() {
    let rig = Rig::start_with(OPEN).await;
    rig.submit(job("end", [wait(0)])).await;
    rig.db.wait_until(IS_SENT, "end").await;
    ask(&rig, "asked").await;
    for job_id in ["end", "asked"] {
        let message = last(&rig, job_id).await;
        assert_eq!(post(&rig, &body(&[failed(&message, 131_000)])).await, 200);
        let (delivery, error) = shown(&rig, job_id).await;
        assert_eq!(delivery, Delivery::Pending);
        assert!(error.contains("131000"), "{error}");
        // Disorder must not let it count as sent.
        assert_eq!(post(&rig, &body(&[status(&message, "sent")])).await, 200);
        assert_eq!(shown(&rig, job_id).await.0, Delivery::Pending);
    }
    // A server of the release before would not know how to send it, and leaves it alone.
    let readied = "select count(*) from longhaul.outbox o join longhaul.job j using (shard, job_id)
      where j.spec_version = 4 and (o.approval_id is null) = (o.tokens is null)";
    assert_eq!(rig.db.number(readied).await, 2);
    rig.db.shift_clock(61).await;
    for job_id in ["end", "asked"] {
        rig.db.wait_until(IS_SENT, job_id).await;
    }
    assert_eq!(rig.sandbox.messages(PERSON, 4).await.len(), 4);
    // What had arrived after all is not sent once more.
    let message = last(&rig, "end").await;
    let told = [failed(&message, 131_000), status(&message, "delivered")];
    assert_eq!(post(&rig, &body(&told)).await, 200);
    assert_eq!(shown(&rig, "end").await.0, Delivery::Delivered);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_decided_meanwhile_is_not_sent_again() {
    let rig = Rig::start_with(OPEN).await;
    let message = ask(&rig, "decided").await;
    assert!(rig.control("decided", approve()).await);
    rig.settled("decided").await;
    assert_eq!(post(&rig, &body(&[failed(&message, 131_000)])).await, 200);
    let is_overtaken = "select delivery = 'superseded' and tokens is null from longhaul.outbox
        where job_id = $1 and kind = 'approval_requested'";
    rig.db.wait_until(is_overtaken, "decided").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_form_that_could_not_be_delivered_is_followed_by_another() {
    let rig = with_templates().await;
    write(&rig).await;
    let message = ask(&rig, "asked").await;
    for (number, (code, form)) in
        [(131_053, "approval_request"), (132_015, "approval_request_2")].into_iter().enumerate()
    {
        let message = last(&rig, "asked").await;
        assert_eq!(post(&rig, &body(&[failed(&message, code)])).await, 200);
        rig.sandbox.messages(PERSON, number + 2).await;
        rig.db.wait_until(IS_SENT, "asked").await;
        assert_eq!(template(&last(&rig, "asked").await), Some(form));
    }
    let backup = last(&rig, "asked").await;
    // A template may be taken again any hour, so it waits.
    assert_eq!(post(&rig, &body(&[failed(&backup, 132_015)])).await, 200);
    assert_eq!(shown(&rig, "asked").await.0, Delivery::Pending);
    rig.db.shift_clock(3600).await;
    rig.db.wait_until(IS_SENT, "asked").await;
    assert_eq!(template(&last(&rig, "asked").await), Some("approval_request_2"));
    assert_eq!(message["type"], "text");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_template_a_closed_window_is_told_once_and_for_all() {
    let rig = Rig::start_with(OPEN).await;
    let message = ask(&rig, "closed").await;
    assert_eq!(post(&rig, &body(&[failed(&message, 131_047)])).await, 200);
    let is_failed = "select delivery = 'failed' from longhaul.outbox where job_id = $1";
    rig.db.wait_until(is_failed, "closed").await;
    let (_, error) = shown(&rig, "closed").await;
    assert!(error.contains("131047") && error.contains("no template"), "{error}");
    assert_eq!(rig.sandbox.messages(PERSON, 1).await.len(), 1, "it was not tried once more");
    // What is asked later is tried: they may have written where nobody told us.
    ask(&rig, "later").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_sandbox_plays_a_failure_and_the_request_arrives_all_the_same() {
    let rig = Rig::start_with(OPEN).await;
    let webhook_url = format!("{}/webhook/whatsapp", rig.http_url);
    let settings = json!({"webhook_url": webhook_url, "app_secret": SECRET, "status_ms": 0});
    rig.sandbox.set(settings).await;
    rig.sandbox.break_whatsapp(json!({"fail_code": 131_016, "times": 1})).await;
    rig.submit(job("again", [approval("Good?")])).await;
    let failed =
        "select delivery = 'pending' and failed_try = 1 from longhaul.outbox where job_id = $1";
    rig.db.wait_until(failed, "again").await;
    rig.db.wait_until(WAITS, "again").await;
    rig.db.shift_clock(61).await;
    let is_delivered = "select receipt = 'delivered' from longhaul.outbox where job_id = $1";
    rig.db.wait_until(is_delivered, "again").await;
}
