//! Taps on the buttons of a message: each decides the approval that it names, as the person to whom it was sent.

use longhaul::rpc::proto::{ApprovalStep, Door, EventKind, JobStatus};
use serde_json::{Value, json};

use crate::ask::form;
use crate::delivery::OPEN;
use crate::harness::{
    PERSON, Rig, approval_step, approve, cancel, job, links, pause, reject, resume, run,
};
use crate::inbound::{answers, ask, asking, booked, decided, hear, last_answer, tap, text};
use crate::program::Folder;

const OTHER: &str = "+15550101";

/// The same tap on the quick reply of a template, which Meta tells in another shape.
fn as_quick_reply(mut tap: Value) -> Value {
    let payload = tap["interactive"]["button_reply"]["id"].take();
    tap["type"] = "button".into();
    tap["button"] = json!({"payload": payload, "text": "…"});
    tap.as_object_mut().unwrap().remove("interactive");
    tap
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tap_decides_in_both_shapes() {
    let rig = Rig::start_with(OPEN).await;
    let asked = ask(&rig, asking("reply", PERSON), PERSON).await;
    hear(&rig, tap("wamid.reply", PERSON, "a", &asked)).await;
    rig.settled_as("reply", JobStatus::Completed).await;
    let asked = ask(&rig, asking("quick", PERSON), PERSON).await;
    hear(&rig, as_quick_reply(tap("wamid.quick", PERSON, "r", &asked))).await;
    let job = rig.settled_as("quick", JobStatus::Cancelled).await;
    assert_eq!(job.reason, "REJECTED");
    assert_eq!(decided(&rig, "quick").await, (Door::Button, "…0100".to_owned()));
    assert_eq!(last_answer(&rig, PERSON).await, "*Rejected*\nLaunch copy\n\nThis ends the job.");
    let (_, shown) = rig.post_action("quick", "status").await;
    assert_eq!(shown["job"]["steps"][0]["decisions"][0]["door"], "button");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tap_that_comes_too_late_is_told_what_was_decided() {
    let rig = Rig::start_with(OPEN).await;
    let asked = ask(&rig, asking("late", PERSON), PERSON).await;
    assert!(rig.control("late", approve()).await);
    rig.settled_as("late", JobStatus::Completed).await;
    hear(&rig, tap("wamid.late", PERSON, "r", &asked)).await;
    let answer = last_answer(&rig, PERSON).await;
    assert!(
        answer
            .starts_with("*This was decided before*\nLaunch copy\n\nIt was approved by client on "),
        "{answer}"
    );
    assert!(answer.contains("UTC"), "{answer}");
    // Whoever says the same again is told so, and not that it was in vain.
    let asked = ask(&rig, asking("again", PERSON), PERSON).await;
    for id in ["wamid.again1", "wamid.again2"] {
        hear(&rig, tap(id, PERSON, "a", &asked)).await;
        assert!(last_answer(&rig, PERSON).await.starts_with("*Approved*"));
    }
    hear(&rig, tap("wamid.again3", PERSON, "r", &asked)).await;
    assert!(last_answer(&rig, PERSON).await.contains("approved by …0100"));
    rig.settled_as("again", JobStatus::Completed).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tap_on_what_was_cancelled_or_has_expired_says_so() {
    let rig = Rig::start_with(OPEN).await;
    let asked = ask(&rig, asking("cancelled", PERSON), PERSON).await;
    assert!(rig.control("cancelled", cancel()).await);
    hear(&rig, tap("wamid.cancelled", PERSON, "a", &asked)).await;
    assert!(last_answer(&rig, PERSON).await.starts_with("*No decision is needed any more*"));
    let asked = ask(&rig, asking("expired", PERSON), PERSON).await;
    rig.db.shift_clock(100_000).await;
    hear(&rig, tap("wamid.expired", PERSON, "a", &asked)).await;
    assert!(last_answer(&rig, PERSON).await.starts_with("*The time is over*"));
    rig.event("expired", EventKind::ApprovalExpired).await;
    // The sweeper has come to the same end.
    hear(&rig, tap("wamid.over", PERSON, "r", &asked)).await;
    assert!(last_answer(&rig, PERSON).await.starts_with("*The time is over*"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tap_on_a_paused_job_is_kept_until_it_goes_on() {
    let rig = Rig::start_with(OPEN).await;
    let asked = ask(&rig, asking("paused", PERSON), PERSON).await;
    assert!(rig.control("paused", pause()).await);
    hear(&rig, tap("wamid.paused", PERSON, "a", &asked)).await;
    assert!(last_answer(&rig, PERSON).await.contains("takes effect when it goes on"));
    assert_eq!(rig.job("paused").await.status(), JobStatus::Paused);
    assert!(rig.control("paused", resume()).await);
    rig.settled_as("paused", JobStatus::Completed).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_person_who_was_asked_decides() {
    let folder = Folder::make();
    let book = format!("[people.ana]\nphone = \"{PERSON}\"\n[people.bo]\nphone = \"{OTHER}\"\n");
    let rig = booked(&folder, &book).await;
    let asked = ask(&rig, asking("hers", "ana"), PERSON).await;
    // Somebody else who is known is refused politely, and a stranger hears nothing.
    hear(&rig, tap("wamid.bo", OTHER, "a", &asked)).await;
    assert!(last_answer(&rig, OTHER).await.starts_with("This is for somebody else to decide"));
    hear(&rig, tap("wamid.stranger", "+15550177", "a", &asked)).await;
    assert!(answers(&rig, "+15550177", 0).await.is_empty());
    assert_eq!(rig.job("hers").await.status(), JobStatus::AwaitingApproval);
    // What the message says it answers is not what the button names: nobody is believed.
    let theirs = ask(&rig, asking("theirs", "bo"), OTHER).await;
    let mut forged = tap("wamid.forged", OTHER, "a", &asked);
    forged["context"]["id"] = theirs.message["id"].clone();
    hear(&rig, forged).await;
    assert_eq!(rig.job("hers").await.status(), JobStatus::AwaitingApproval);
    assert_eq!(rig.job("theirs").await.status(), JobStatus::AwaitingApproval);
    hear(&rig, tap("wamid.ana", PERSON, "a", &asked)).await;
    rig.settled_as("hers", JobStatus::Completed).await;
    assert_eq!(decided(&rig, "hers").await, (Door::Button, "ana".to_owned()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tap_on_a_message_that_is_not_known_any_more_counts_if_it_asks_its_sender() {
    let rig = Rig::start_with(OPEN).await;
    let asked = ask(&rig, asking("resent", PERSON), PERSON).await;
    let mut tapped = tap("wamid.resent", PERSON, "a", &asked);
    tapped["context"]["id"] = "wamid.of-an-earlier-try".into();
    hear(&rig, tapped).await;
    rig.settled_as("resent", JobStatus::Completed).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_phone_is_known_by_every_way_to_write_its_number() {
    let rig = Rig::start_with(OPEN).await;
    for (job_id, asked_at, tells) in [
        ("br", "+5511987654321", "551187654321"),
        ("br-old", "+551187654322", "5511987654322"),
        ("mx", "+525512345678", "5215512345678"),
        ("mx-old", "+5215512345679", "525512345679"),
        ("ar", "+541123456789", "5491123456789"),
        ("ar-at-home", "+54111523456780", "5491123456780"),
    ] {
        let asked = ask(&rig, asking(job_id, asked_at), asked_at).await;
        hear(&rig, tap(&format!("wamid.{job_id}"), tells, "a", &asked)).await;
        rig.settled_as(job_id, JobStatus::Completed).await;
        let last = &asked_at[asked_at.len() - 4..];
        assert_eq!(decided(&rig, job_id).await.1, format!("…{last}"), "as the approval names them");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_phone_that_is_asked_under_two_numbers_decides_for_the_one_that_it_taps() {
    let rig = Rig::start_with(OPEN).await;
    let approvers = vec!["+5511987654321".to_owned(), "+551187654321".to_owned()];
    let both = ApprovalStep { approvers, ..ApprovalStep::default() };
    let asked =
        ask(&rig, job("both", [approval_step(both), run("Go on.")]), "+5511987654321").await;
    // Without the message it is not clear for whom.
    let mut tapped = tap("wamid.unclear", "551187654321", "a", &asked);
    tapped["context"] = Value::Null;
    hear(&rig, tapped).await;
    assert_eq!(rig.job("both").await.status(), JobStatus::AwaitingApproval);
    hear(&rig, tap("wamid.clear", "551187654321", "a", &asked)).await;
    rig.settled_as("both", JobStatus::Completed).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_person_who_shows_no_number_is_known_by_metas_id() {
    let folder = Folder::make();
    let book =
        format!("[people.ana]\nphone = \"{PERSON}\"\nuser_id = \"US.13491208655302741918\"\n");
    let rig = booked(&folder, &book).await;
    let asked = ask(&rig, asking("by-book", "ana"), PERSON).await;
    let hide = |mut message: Value, user_id: &str| {
        message.as_object_mut().unwrap().remove("from");
        message["from_user_id"] = user_id.into();
        message
    };
    hear(&rig, hide(tap("wamid.by-book", "", "a", &asked), "US.13491208655302741918")).await;
    rig.settled_as("by-book", JobStatus::Completed).await;
    assert!(last_answer(&rig, PERSON).await.starts_with("*Approved*"));
    // Another was learned from a message that told both.
    let asked = ask(&rig, asking("learned", OTHER), OTHER).await;
    hear(&rig, hide(tap("wamid.unknown", "", "a", &asked), "US.2")).await;
    assert_eq!(rig.job("learned").await.status(), JobStatus::AwaitingApproval);
    let mut both = text("wamid.both", OTHER, "hello", 1_749_416_383);
    both["from_user_id"] = "US.2".into();
    hear(&rig, both).await;
    hear(&rig, hide(tap("wamid.learned", "", "a", &asked), "US.2")).await;
    rig.settled_as("learned", JobStatus::Completed).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_taps_replies_and_pages_at_once_make_one_decision() {
    let rig = Rig::start_with(OPEN).await;
    let other = rig.serve().await;
    let asked = ask(&rig, asking("crowd", PERSON), PERSON).await;
    let [approve_link, _] = links(&asked.message);
    let press = form(&rig, "crowd", "approve", "").await;
    let acts = (0..100).map(|number| {
        let (rig, other, asked, press) = (&rig, &other, &asked, &press);
        let link = approve_link.clone();
        async move {
            let id = format!("wamid.crowd{number}");
            let letter = if number % 2 == 0 { "a" } else { "r" };
            let client = if number % 3 == 0 { &other.client } else { &**rig };
            match number % 4 {
                0 => {
                    let kind = "application/x-www-form-urlencoded";
                    let request = rig.http.post(link).header("content-type", kind);
                    let answer = request.body(press.clone()).send().await.unwrap();
                    assert!([303, 409].contains(&answer.status().as_u16()), "{}", answer.status());
                }
                1 => {
                    let action = if number % 8 == 1 { approve() } else { reject() };
                    if let Err(status) = client.try_control("crowd", action).await {
                        assert_eq!(status.code(), tonic::Code::FailedPrecondition);
                    }
                }
                2 => {
                    let message = tap(&id, PERSON, letter, asked);
                    assert_eq!(
                        crate::delivery::post(client, &crate::inbound::body(&[message])).await,
                        200
                    );
                }
                _ => {
                    let mut message = text(&id, PERSON, if letter == "a" { "ok" } else { "no" }, 1);
                    message["context"] = json!({"id": asked.message["id"]});
                    assert_eq!(
                        crate::delivery::post(client, &crate::inbound::body(&[message])).await,
                        200
                    );
                }
            }
        }
    });
    futures::future::join_all(acts).await;
    let all = "select bool_and(handled_at is not null and answer <> 'sending') and count(*) = 50 and $1 <> ''
      from longhaul.inbound";
    rig.db.wait_until(all, "any").await;
    let ended = rig.settled("crowd").await;
    assert!([JobStatus::Completed, JobStatus::Cancelled].contains(&ended.status()));
    for (what, statement) in [
        ("decisions", "select count(*) from longhaul.decision"),
        ("events", "select count(*) from longhaul.event where kind = 'approval_decided'"),
    ] {
        assert_eq!(rig.db.number(statement).await, 1, "{what}");
    }
    let answered = "select count(*) from longhaul.inbound where answer = 'sent'";
    assert_eq!(rig.db.number(answered).await, 50, "each tap and each reply is answered politely");
}
