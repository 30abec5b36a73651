//! Doors: a hundred decisions at once through all of them, of which one is made and ninety-nine are answered politely.
//!
//! A door that is new is one more entry in `doors`.

use std::collections::BTreeMap;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use longhaul::rpc::proto::control_request::Action;
use longhaul::rpc::proto::{
    ApprovalStep, ApproveAction, EventKind, JobStatus, RejectAction, Verdict,
};
use serde_json::{Value, json};
use tonic::Code;

use crate::ask::{NOTE, ask, links};
use crate::delivery::{OPEN, post};
use crate::harness::{
    Client, PERSON, Rig, Told, approval_step, events_of, events_until_end, job, run,
};
use crate::inbound::{Asked, answers, body, tap, text};

const OTHER: &str = "+15550177";
const JOB: &str = "besieged";
const DECISIONS: usize = 100;
const ALL_ANSWERED: &str =
    "select bool_and(handled_at is not null and answer = 'sent') and $1 <> ''
  from longhaul.inbound";

/// What a door says to a decision: whether that changed anything, where it tells; else that it was too late.
#[derive(Debug)]
enum Said {
    Taken(Option<bool>),
    TooLate,
    /// What it comes to is told in a message to the person.
    Heard,
}

/// Sends a decision and reads the answer, which must be a polite one.
type Knock = Box<dyn Fn(Verdict) -> BoxFuture<'static, Said> + Send>;

/// Every door, by the name that a decision has of it.
async fn doors(rig: &Rig, other: &Client) -> Vec<(&'static str, Knock)> {
    let approval_id = rig.job(JOB).await.approval.unwrap().approval_id;
    let mut doors: Vec<(&'static str, Knock)> = Vec::new();
    for (client, person) in [(&**rig, PERSON), (other, OTHER)] {
        let sent = links(&rig.sandbox, person, 1).await;
        for link in [sent.approve, sent.reject] {
            let token = link.rsplit('/').next().unwrap();
            let link = format!("{}/approvals/{token}", client.http_url);
            doors.push(("link", by_link(client, link, &approval_id)));
        }
        doors.push(("grpc", by_grpc(client, &approval_id)));
        doors.push(("webhook", by_webhook(client, &approval_id)));
        let told = rig.sandbox.messages(person, 1).await;
        let asked = Asked { approval_id: approval_id.replace('-', ""), message: told[0].clone() };
        doors.push(("button", by_message(client, person, asked.clone(), by_tap)));
        doors.push(("reply", by_message(client, person, asked, by_word)));
    }
    doors
}

fn word(verdict: Verdict) -> &'static str {
    if verdict == Verdict::Approve { "approve" } else { "reject" }
}

fn by_link(client: &Client, link: String, approval_id: &str) -> Knock {
    let (http, approval_id) = (client.http.clone(), approval_id.to_owned());
    Box::new(move |verdict| {
        let fields = [("approval_id", approval_id.as_str()), ("verdict", word(verdict))];
        let request = http.post(&link).body(serde_urlencoded::to_string(fields).unwrap());
        let request = request.header("content-type", "application/x-www-form-urlencoded");
        async move {
            let answer = request.send().await.unwrap();
            let status = answer.status().as_u16();
            let page = answer.text().await.unwrap();
            if status == 303 {
                return Said::Taken(None);
            }
            assert_eq!(status, 409, "{page}");
            for part in ["was not counted", "UTC"] {
                assert!(page.contains(part), "the page lacks {part:?}: {page}");
            }
            let who = ["by …0100", "by …0177", "by grpc-caller", "by webhook-caller"];
            assert!(who.iter().any(|who| page.contains(who)), "nobody decided: {page}");
            Said::TooLate
        }
        .boxed()
    })
}

fn by_grpc(client: &Client, approval_id: &str) -> Knock {
    let (client, approval_id) = (client.clone(), approval_id.to_owned());
    Box::new(move |verdict| {
        let (client, approval_id) = (client.clone(), approval_id.clone());
        async move {
            let (on_behalf_of, comment) = ("grpc-caller".to_owned(), String::new());
            let action = if verdict == Verdict::Approve {
                let edited_output = None;
                Action::Approve(ApproveAction { approval_id, on_behalf_of, comment, edited_output })
            } else {
                Action::Reject(RejectAction { approval_id, on_behalf_of, comment })
            };
            match client.try_control(JOB, action).await {
                Ok(answer) => Said::Taken(Some(answer.changed)),
                Err(status) => {
                    let told = Told::from(&status);
                    assert_eq!(told.code, Code::FailedPrecondition, "{status:?}");
                    let polite = ["APPROVAL_CLOSED", "ALREADY_VOTED", "JOB_STATE_CONFLICT"];
                    assert!(polite.contains(&told.reason.as_str()), "{told:?}");
                    Said::TooLate
                }
            }
        }
        .boxed()
    })
}

fn by_webhook(client: &Client, approval_id: &str) -> Knock {
    let (client, approval_id) = (client.clone(), approval_id.to_owned());
    Box::new(move |verdict| {
        let (client, action) = (client.clone(), word(verdict));
        let body = json!({"job_id": JOB, "action": action, "approval_id": approval_id,
            "on_behalf_of": "webhook-caller"});
        async move {
            let (status, answer) = client.post("/webhook/durable-job-control", &body).await;
            if status == 200 {
                return Said::Taken(Some(answer["changed"].as_bool().unwrap()));
            }
            assert_eq!(status, 409, "{answer}");
            let polite = ["APPROVAL_CLOSED", "ALREADY_VOTED", "JOB_STATE_CONFLICT"];
            assert!(polite.contains(&answer["reason"].as_str().unwrap()), "{answer}");
            Said::TooLate
        }
        .boxed()
    })
}

fn by_tap(id: &str, person: &str, verdict: Verdict, asked: &Asked) -> Value {
    tap(id, person, &word(verdict)[..1], asked)
}

fn by_word(id: &str, person: &str, verdict: Verdict, asked: &Asked) -> Value {
    let mut reply = text(id, person, word(verdict), 1_749_416_383);
    reply["context"] = json!({"from": "15551111", "id": asked.message["id"]});
    reply
}

/// Each message has an id of its own, as at Meta; its answer is a message to the person who wrote it.
fn by_message(
    client: &Client,
    person: &'static str,
    asked: Asked,
    write: fn(&str, &str, Verdict, &Asked) -> Value,
) -> Knock {
    let client = client.clone();
    Box::new(move |verdict| {
        let id = format!("wamid.{}", uuid::Uuid::now_v7());
        let body = body(&[write(&id, person, verdict, &asked)]);
        let client = client.clone();
        async move {
            assert_eq!(post(&client, &body).await, 200);
            Said::Heard
        }
        .boxed()
    })
}

/// What an answer to a person says, which must be a polite one.
fn read(answer: &str) -> Said {
    if answer.starts_with("*Approved*") || answer.starts_with("*Rejected*") {
        return Said::Taken(None);
    }
    assert!(answer.starts_with("*This was decided before*"), "{answer}");
    Said::TooLate
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_decisions_through_all_doors_at_once_are_one() {
    let rig = Rig::start_with(OPEN).await;
    let other = rig.serve().await;
    let approvers = vec![PERSON.to_owned(), OTHER.to_owned()];
    let step = ApprovalStep { note: NOTE.to_owned(), approvers, ..ApprovalStep::default() };
    ask(&rig, job(JOB, [run("Say something."), approval_step(step)])).await;
    let doors = doors(&rig, &other.client).await;
    let mut knocks = tokio::task::JoinSet::new();
    for number in 0..DECISIONS {
        let (name, knock) = (doors[number % doors.len()].0, &doors[number % doors.len()].1);
        // Each door gets both.
        let is_even = (number / doors.len()).is_multiple_of(2);
        let knock = knock(if is_even { Verdict::Approve } else { Verdict::Reject });
        knocks.spawn(async move { (name, knock.await) });
    }
    let mut said = knocks.join_all().await;
    let heard = said.extract_if(.., |(_, said)| matches!(said, Said::Heard)).count();
    rig.db.wait_until(ALL_ANSWERED, "any").await;
    for person in [PERSON, OTHER] {
        said.extend(answers(&rig, person, 1).await.iter().map(|text| ("message", read(text))));
    }
    assert!(heard >= 2 * DECISIONS / doors.len(), "{heard} came by messages");
    assert_eq!(said.len(), DECISIONS, "each is answered once");

    let ended = rig.settled(JOB).await;
    let [decision] = &ended.steps[1].decisions[..] else { panic!("{:?}", ended.steps[1]) };
    let ends = [(Verdict::Approve, JobStatus::Completed), (Verdict::Reject, JobStatus::Cancelled)];
    assert!(ends.contains(&(decision.verdict(), ended.status())), "{ended:?}");
    let door = decision.door().as_str_name().rsplit('_').next().unwrap().to_lowercase();
    let changed = said.iter().filter(|(_, said)| matches!(said, Said::Taken(Some(true))));
    let changed: Vec<&str> = changed.map(|(name, _)| *name).collect();
    let expected = if ["link", "button", "reply"].contains(&door.as_str()) {
        vec![]
    } else {
        vec![door.as_str()]
    };
    assert_eq!(changed, expected, "one door says that it changed something, if it can tell");
    let mut counts = BTreeMap::<(&str, bool), usize>::new();
    for (name, said) in &said {
        *counts.entry((*name, matches!(said, Said::Taken(_)))).or_default() += 1;
    }
    println!("decided by {door}; answers by door, and whether they agree: {counts:?}");
    // Whoever agrees by message with what another decided is told as well that it was decided before.
    let direct: Vec<&Said> =
        said.iter().filter(|(name, _)| *name != "message").map(|(_, said)| said).collect();
    let contradicted = direct.iter().filter(|said| matches!(said, Said::TooLate)).count();
    let about_half = direct.len() * 2 / 5..=direct.len() * 3 / 5;
    assert!(about_half.contains(&contradicted), "each contradiction is told as one: {counts:?}");

    let history = rig.try_watch(JOB, Some(0)).await.unwrap();
    let events = events_until_end(history).await;
    assert_eq!(events_of(&events, EventKind::ApprovalDecided), 1);
    let ends = [EventKind::JobCompleted, EventKind::JobCancelled];
    assert_eq!(ends.map(|kind| events_of(&events, kind)).iter().sum::<usize>(), 1);
    assert_eq!(rig.db.number("select count(*) from longhaul.decision").await, 1);
    let closed = "select count(*) from longhaul.approval where status in ('approved', 'rejected')";
    assert_eq!(rig.db.number(closed).await, 1);
}
