//! Typed answers decide only where it is beyond doubt what they mean; else they are answered with how to decide.

use longhaul::rpc::proto::{ApprovalStep, Door, JobSettings, JobStatus};
use serde_json::json;

use crate::delivery::{OPEN, body as statuses, post, status};
use crate::harness::{PERSON, Rig, approval_step, job, run, wait, with};
use crate::inbound::{
    IS_HANDLED, STRANGER, answers, ask, asking, body, booked, decided, hear, last_answer, later,
    tap, text,
};
use crate::program::Folder;

const IS_SENT: &str = "select bool_and(delivery = 'sent') from longhaul.outbox where job_id = $1";
const OTHER: &str = "+15550101";

#[tokio::test(flavor = "multi_thread")]
async fn the_words_of_three_languages_decide() {
    let rig = Rig::start_with(OPEN).await;
    for (number, (word, ends)) in [
        ("Approve", JobStatus::Completed),
        ("ok!", JobStatus::Completed),
        ("批准。", JobStatus::Completed),
        ("ｓｉｍ", JobStatus::Completed),
        ("👍🏽", JobStatus::Completed),
        ("no", JobStatus::Cancelled),
        ("拒绝", JobStatus::Cancelled),
        ("Não!", JobStatus::Cancelled),
    ]
    .into_iter()
    .enumerate()
    {
        let (job_id, person) = (format!("word-{number}"), format!("+1555020{number}"));
        ask(&rig, asking(&job_id, &person), &person).await;
        let at = later(&rig).await;
        hear(&rig, text(&format!("wamid.{number}"), &person, word, at)).await;
        rig.settled_as(&job_id, ends).await;
        assert_eq!(decided(&rig, &job_id).await.0, Door::Reply, "{word}");
    }
    // The language is that of the word, where nobody has chosen one.
    assert!(last_answer(&rig, "+15550203").await.starts_with("*Aprovado*"));
    assert!(last_answer(&rig, "+15550206").await.starts_with("*已拒绝*"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_comment_comes_with_the_decision() {
    let rig = Rig::start_with(OPEN).await;
    ask(&rig, asking("comment", PERSON), PERSON).await;
    let at = later(&rig).await;
    hear(&rig, text("wamid.comment", PERSON, "Reject: too long\r\nand dull", at)).await;
    let job = rig.settled_as("comment", JobStatus::Cancelled).await;
    assert_eq!(job.steps[0].decisions[0].comment, "too long\nand dull");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_written_before_the_request_arrived_decides_nothing() {
    let rig = Rig::start_with(OPEN).await;
    let asked = ask(&rig, asking("early", PERSON), PERSON).await;
    // It arrived long after it was sent, and what was written in between is about something else.
    let at = later(&rig).await + 3600;
    let mut arrived = status(&asked.message, "delivered");
    arrived["timestamp"] = at.to_string().into();
    assert_eq!(post(&rig, &statuses(&[arrived])).await, 200);
    for (id, moment) in [("wamid.before", at - 1), ("wamid.same", at)] {
        hear(&rig, text(id, PERSON, "reject", moment)).await;
        assert_eq!(rig.job("early").await.status(), JobStatus::AwaitingApproval);
    }
    assert!(last_answer(&rig, PERSON).await.contains("before this request had reached you"));
    let mut timeless = text("wamid.timeless", PERSON, "reject", 0);
    timeless["timestamp"] = "soon".into();
    hear(&rig, timeless).await;
    assert_eq!(rig.job("early").await.status(), JobStatus::AwaitingApproval);
    hear(&rig, text("wamid.after", PERSON, "reject", at + 1)).await;
    rig.settled_as("early", JobStatus::Cancelled).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn with_two_pending_a_text_decides_neither_and_a_reply_decides_its_own() {
    let rig = Rig::start_with(OPEN).await;
    let one = ask(&rig, asking("one", PERSON), PERSON).await;
    let two = ask(&rig, asking("two", PERSON), PERSON).await;
    let at = later(&rig).await;
    hear(&rig, text("wamid.which", PERSON, "approve", at)).await;
    let help = last_answer(&rig, PERSON).await;
    assert!(
        help.starts_with(
            "*These wait for your decision*\n• Launch copy (two)\n• Launch copy (one)\n"
        ),
        "{help}"
    );
    for job_id in ["one", "two"] {
        assert_eq!(rig.job(job_id).await.status(), JobStatus::AwaitingApproval);
    }
    // Such a reply says which is meant, whatever its time.
    let mut reply = text("wamid.this", PERSON, "reject", 1_749_416_383);
    reply["context"] = json!({"from": "15551111", "id": two.message["id"]});
    hear(&rig, reply).await;
    rig.settled_as("two", JobStatus::Cancelled).await;
    // Now one is left, but what they had before them last was the other.
    hear(&rig, text("wamid.left", PERSON, "approve", at + 1)).await;
    assert_eq!(rig.job("one").await.status(), JobStatus::AwaitingApproval);
    let mut reply = text("wamid.that", PERSON, "approve", at + 2);
    reply["context"] = json!({"from": "15551111", "id": one.message["id"]});
    hear(&rig, reply).await;
    rig.settled_as("one", JobStatus::Completed).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_text_decides_only_what_they_were_asked_last_when_they_wrote() {
    let rig = Rig::start_with(OPEN).await;
    let before = ask(&rig, asking("before", PERSON), PERSON).await;
    ask(&rig, asking("after", PERSON), PERSON).await;
    let at = later(&rig).await;
    rig.db.shift_clock(120).await;
    hear(&rig, tap("wamid.tap", PERSON, "a", &before)).await;
    rig.settled_as("before", JobStatus::Completed).await;
    // Both were open when they wrote.
    hear(&rig, text("wamid.slow", PERSON, "reject", at)).await;
    assert_eq!(rig.job("after").await.status(), JobStatus::AwaitingApproval);
    // What they were told last asks nothing.
    rig.submit(job("end", [wait(0)])).await;
    rig.db.wait_until(IS_SENT, "end").await;
    let at = later(&rig).await;
    hear(&rig, text("wamid.news", PERSON, "reject", at)).await;
    assert_eq!(rig.job("after").await.status(), JobStatus::AwaitingApproval);
    assert!(last_answer(&rig, PERSON).await.starts_with("*This waits for your decision*"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reply_to_another_message_and_small_talk_decide_nothing() {
    let rig = Rig::start_with(OPEN).await;
    ask(&rig, asking("waits", PERSON), PERSON).await;
    let at = later(&rig).await;
    let mut reply = text("wamid.elsewhere", PERSON, "ok", at);
    reply["context"] = json!({"from": "15551111", "id": "wamid.something-else"});
    hear(&rig, reply).await;
    assert!(
        last_answer(&rig, PERSON).await.starts_with("*This waits for your decision*\nLaunch copy")
    );
    let mut forwarded = text("wamid.forwarded", PERSON, "ok", at);
    forwarded["context"] = json!({"forwarded": true});
    hear(&rig, forwarded).await;
    for (number, said) in ["ok?", "ok but wait", "hello", "yes: but change it"].iter().enumerate() {
        hear(&rig, text(&format!("wamid.talk{number}"), PERSON, said, at)).await;
    }
    assert_eq!(rig.job("waits").await.status(), JobStatus::AwaitingApproval);
    assert_eq!(answers(&rig, PERSON, 2).await.len(), 1, "help comes once a minute");
    rig.db.shift_clock(61).await;
    hear(&rig, text("wamid.minute", PERSON, "hello?", at)).await;
    assert_eq!(answers(&rig, PERSON, 3).await.len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_has_nothing_to_decide_is_told_so_and_a_stranger_is_told_nothing() {
    let folder = Folder::make();
    let rig =
        booked(&folder, &format!("[people.ana]\nphone = \"{PERSON}\"\nlanguage = \"pt-BR\"\n"))
            .await;
    let at = later(&rig).await;
    hear(&rig, text("wamid.nothing", PERSON, "approve", at)).await;
    assert_eq!(last_answer(&rig, PERSON).await, "No momento, nada espera por sua decisão.");
    for (number, said) in ["approve", "hello", "批准"].iter().enumerate() {
        hear(&rig, text(&format!("wamid.stranger{number}"), STRANGER, said, at)).await;
    }
    assert!(answers(&rig, STRANGER, 0).await.is_empty());
    // What others are asked is not theirs to see or to decide.
    ask(&rig, asking("others", OTHER), OTHER).await;
    rig.db.shift_clock(61).await;
    hear(&rig, text("wamid.others", PERSON, "approve", at + 600)).await;
    assert_eq!(last_answer(&rig, PERSON).await, "No momento, nada espera por sua decisão.");
    assert_eq!(rig.job("others").await.status(), JobStatus::AwaitingApproval);
}

#[tokio::test(flavor = "multi_thread")]
async fn each_of_two_approvers_counts_once_and_is_told_what_is_missing() {
    let rig = Rig::start_with(OPEN).await;
    let approvers = vec![PERSON.to_owned(), OTHER.to_owned()];
    let two = ApprovalStep { approvers, quorum: 2, ..ApprovalStep::default() };
    let chinese = JobSettings { language: "zh".to_owned(), ..JobSettings::default() };
    let job = with(chinese, job("quorum", [approval_step(two), run("Go on.")]));
    ask(&rig, job, OTHER).await;
    let at = later(&rig).await;
    hear(&rig, text("wamid.first", PERSON, "同意", at)).await;
    assert!(last_answer(&rig, PERSON).await.ends_with("谢谢，还需要 1 人批准。"));
    // For the first nothing is pending any more, so that a second word of theirs is about nothing.
    hear(&rig, text("wamid.more", PERSON, "同意", at + 1)).await;
    assert_eq!(rig.job("quorum").await.status(), JobStatus::AwaitingApproval);
    hear(&rig, text("wamid.second", OTHER, "ok", at)).await;
    rig.settled_as("quorum", JobStatus::Completed).await;
    assert!(last_answer(&rig, OTHER).await.starts_with("*已批准*"));
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_texts_in_one_body_the_first_decides() {
    let rig = Rig::start_with(OPEN).await;
    ask(&rig, asking("minds", PERSON), PERSON).await;
    let at = later(&rig).await;
    let both = [text("wamid.a", PERSON, "no", at), text("wamid.b", PERSON, "yes", at + 1)];
    assert_eq!(post(&rig, &body(&both)).await, 200);
    rig.db.wait_until(IS_HANDLED, "wamid.b").await;
    rig.settled_as("minds", JobStatus::Cancelled).await;
}
