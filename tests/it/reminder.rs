//! Approvals that stay open: who has not decided is reminded, others are asked after a while, and a request that cannot
//! be delivered is told and goes elsewhere; each at its time, also across a restart and a pause.

use longhaul::rpc::proto::{
    ApprovalStep, EventKind, GetJobRequest, JobSettings, JobStatus, Notice, NoticeKind, event,
};
use serde_json::{Value, json};
use tonic::Request;

use crate::ask::form;
use crate::delivery::{OPEN, SECRET};
use crate::harness::{
    PERSON, Rig, Told, approval_step, approve_as, events_of, events_until_end, job, links, pause,
    resume, run, with,
};
use crate::receiver::{Book, Receiver, SECRET as HOOK_SECRET};

const OTHER: &str = "+15550101";
const DEPUTY: &str = "+15550177";

/// An approval with an hour of time.
fn hour() -> ApprovalStep {
    ApprovalStep { timeout_seconds: 3600, ..ApprovalStep::default() }
}

/// How much time is left when something is next due, in seconds.
async fn next_is_due_with(rig: &Rig, job_id: &str) -> Option<f64> {
    let left = "select extract(epoch from deadline_at - run_at)::float8 from longhaul.job where job_id = $1";
    sqlx::query_scalar(left).bind(job_id).fetch_one(&rig.db.pool).await.unwrap()
}

/// How far from the request each event of a kind came, in seconds.
async fn came_after(rig: &Rig, job_id: &str, kind: EventKind) -> i64 {
    let asked = rig.event(job_id, EventKind::ApprovalRequested).await.occurred_at.unwrap();
    rig.event(job_id, kind).await.occurred_at.unwrap().seconds - asked.seconds
}

/// Approves on the page behind a link; answers the status.
async fn approve_by(rig: &Rig, job_id: &str, link: &str) -> u16 {
    let form = form(rig, job_id, "approve", "").await;
    let request = rig.http.post(link).header("content-type", "application/x-www-form-urlencoded");
    request.body(form).send().await.unwrap().status().as_u16()
}

async fn newest(rig: &Rig, to: &str, at_least: usize) -> Value {
    rig.sandbox.messages(to, at_least).await.pop().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_approval_that_nobody_answers_reminds_escalates_and_expires_each_in_its_time() {
    let mut rig = Rig::start().await;
    let step = ApprovalStep {
        remind_before_seconds: vec![600],
        escalate_after_seconds: 1800,
        escalate_to: vec![DEPUTY.to_owned()],
        ..hour()
    };
    rig.submit(job("nobody", [run("draft"), approval_step(step)])).await;
    rig.sandbox.messages(PERSON, 1).await;
    assert_eq!(next_is_due_with(&rig, "nobody").await, Some(1800.0));

    rig.db.shift_clock(1801).await;
    let deputy = newest(&rig, DEPUTY, 1).await;
    assert!(deputy["text"].as_str().unwrap().contains("others have not decided"), "{deputy}");
    assert!((1801..1900).contains(&came_after(&rig, "nobody", EventKind::ApprovalEscalated).await));
    assert_eq!(next_is_due_with(&rig, "nobody").await, Some(600.0));
    let page = rig.http.get(&links(&deputy)[0]).send().await.unwrap();
    assert!(page.text().await.unwrap().contains("…0177"), "the deputy decides by it");

    rig.stop_server().await;
    rig.db.shift_clock(1200).await;
    rig.start_server_again().await;
    for (to, at_least) in [(PERSON, 2), (DEPUTY, 2)] {
        let reminder = newest(&rig, to, at_least).await;
        assert!(reminder["text"].as_str().unwrap().starts_with("*Reminder"), "{reminder}");
    }
    assert!((3001..3100).contains(&came_after(&rig, "nobody", EventKind::ApprovalReminded).await));
    assert_eq!(next_is_due_with(&rig, "nobody").await, None);

    rig.stop_server().await;
    rig.db.shift_clock(600).await;
    rig.start_server_again().await;
    rig.event("nobody", EventKind::JobFailed).await;
    let failed = rig.settled_as("nobody", JobStatus::Failed).await;
    assert_eq!(failed.reason, "APPROVAL_EXPIRED");
    let end = newest(&rig, PERSON, 3).await;
    assert!(end["text"].as_str().unwrap().contains("failed"), "{end}");
    let events = events_until_end(rig.try_watch("nobody", Some(0)).await.unwrap()).await;
    for kind in
        [EventKind::ApprovalReminded, EventKind::ApprovalEscalated, EventKind::ApprovalExpired]
    {
        assert_eq!(events_of(&events, kind), 1, "{kind:?}");
    }
    let mut kinds: Vec<NoticeKind> = failed.notices.iter().map(Notice::kind).collect();
    kinds.sort();
    let expected = [
        NoticeKind::ApprovalRequested,
        NoticeKind::Failed,
        NoticeKind::ApprovalReminder,
        NoticeKind::ApprovalReminder,
        NoticeKind::ApprovalEscalated,
    ];
    assert_eq!(kinds, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pause_keeps_reminders_where_they_were() {
    let rig = Rig::start().await;
    let step = ApprovalStep { remind_before_seconds: vec![600, 60], ..hour() };
    rig.submit(job("paused", [approval_step(step)])).await;
    rig.sandbox.messages(PERSON, 1).await;
    rig.control("paused", pause()).await;
    rig.db.shift_clock(100_000).await;
    rig.control("paused", resume()).await;
    assert_eq!(next_is_due_with(&rig, "paused").await, Some(600.0));
    rig.db.shift_clock(3001).await;
    rig.sandbox.messages(PERSON, 2).await;
    assert_eq!(next_is_due_with(&rig, "paused").await, Some(60.0));
    rig.control("paused", approve_as(PERSON)).await;
    rig.settled_as("paused", JobStatus::Completed).await;
    rig.db.wait_until(NOTHING_IS_DUE, "paused").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_has_decided_is_not_reminded() {
    let rig = Rig::start().await;
    let step = ApprovalStep {
        approvers: vec![PERSON.to_owned(), OTHER.to_owned()],
        quorum: 2,
        remind_before_seconds: vec![600],
        ..hour()
    };
    rig.submit(job("both", [approval_step(step)])).await;
    for person in [PERSON, OTHER] {
        rig.sandbox.messages(person, 1).await;
    }
    rig.db.wait_until(ALL_SENT, "both").await;
    rig.control("both", approve_as(PERSON)).await;
    rig.db.shift_clock(3001).await;
    rig.sandbox.messages(OTHER, 2).await;
    rig.control("both", approve_as(OTHER)).await;
    let reminded: Vec<String> = reminded(&rig, "both").await;
    assert_eq!(reminded, [OTHER]);
}

const ALL_SENT: &str =
    "select count(*) = 2 and bool_and(delivery = 'sent') from longhaul.outbox where job_id = $1";

async fn reminded(rig: &Rig, job_id: &str) -> Vec<String> {
    let notices = rig.db.notices(job_id).await;
    let reminders = notices.into_iter().filter(|notice| notice.kind == "approval_reminder");
    reminders.map(|notice| notice.recipient).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_cannot_be_delivered_is_told_and_goes_to_whoever_comes_next() {
    let rig = Rig::start_with(OPEN).await;
    let webhook_url = format!("{}/webhook/whatsapp", rig.http_url);
    let told = json!({"webhook_url": webhook_url, "app_secret": SECRET, "status_ms": 0});
    rig.sandbox.set(told).await;
    rig.sandbox.break_whatsapp(json!({"fail_code": 131_026})).await;
    let step = ApprovalStep {
        escalate_after_seconds: 1800,
        escalate_to: vec![DEPUTY.to_owned()],
        ..hour()
    };
    rig.submit(job("gone", [approval_step(step)])).await;
    let failed = rig.event("gone", EventKind::NoticeFailed).await;
    let Some(event::Detail::Notice(notice)) = &failed.detail else { panic!("{failed:?}") };
    assert_eq!(
        (notice.recipient.as_str(), notice.kind()),
        ("…0100", NoticeKind::ApprovalRequested)
    );
    assert!(notice.error.contains("error 131026"), "{}", notice.error);
    assert!(failed.message.contains("could not ask …0100"), "{}", failed.message);
    rig.event("gone", EventKind::ApprovalEscalated).await;
    let deputy = newest(&rig, DEPUTY, 1).await;
    rig.sandbox.mend().await;
    // Its time comes, and nobody is asked again.
    rig.db.shift_clock(1801).await;
    rig.db.wait_until(NOTHING_IS_DUE, "gone").await;
    assert_eq!(rig.db.notices("gone").await.len(), 2);
    assert_eq!(approve_by(&rig, "gone", &links(&deputy)[0]).await, 303);
    let done = rig.settled_as("gone", JobStatus::Completed).await;
    assert_eq!(done.steps[0].decisions[0].by, "…0177");
    let traced = "select count(*) from longhaul.decision d join longhaul.approval_link l using (shard, job_id)
        where d.via = encode(l.token_hash, 'hex') and l.approver = d.voter";
    assert_eq!(rig.db.number(traced).await, 1, "it is known which link decided");
}

#[tokio::test(flavor = "multi_thread")]
async fn who_cannot_be_reached_is_asked_at_their_endpoint_and_reads_times_where_they_are() {
    let receiver = Receiver::start().await;
    let book = Book::new(&format!(
        "[people.ana]\nphone = '+5511987654321'\nlanguage = 'pt-BR'\n\
         time_zone = 'America/Sao_Paulo'\nendpoint = 'ops'\n\
         [endpoints.ops]\nurl = '{}/ops'\nsecret = '{HOOK_SECRET}'\n\
         always = true\nevents = ['notice_failed', 'completed']\n",
        receiver.url
    ));
    let variables: Vec<(&str, &str)> = OPEN.iter().copied().chain([book.variable()]).collect();
    let rig = Rig::start_with(&variables).await;
    let webhook_url = format!("{}/webhook/whatsapp", rig.http_url);
    let told = json!({"webhook_url": webhook_url, "app_secret": SECRET, "status_ms": 0});
    rig.sandbox.set(told).await;
    rig.sandbox.break_whatsapp(json!({"fail_code": 131_026})).await;
    let step = ApprovalStep { approvers: vec!["+5511987654321".to_owned()], ..hour() };
    let quiet = JobSettings { notify: vec![DEPUTY.to_owned()], ..JobSettings::default() };
    rig.submit(with(quiet, job("ana", [approval_step(step)]))).await;
    let mut heard = receiver.heard(2).await;
    heard.sort_by_key(|one| one.about().0);
    let [asked, failed] = &heard[..] else { panic!("{heard:?}") };
    assert_eq!(failed.about().0, "notice.failed");
    assert_eq!(asked.about().0, "approval.requested");
    let asked = asked.json();
    let approvers = asked["data"]["approvers"].as_array().unwrap();
    assert_eq!(approvers.len(), 1);
    assert_eq!(approvers[0]["approver"], "ana");
    let url = approvers[0]["approve_url"].as_str().unwrap();
    let page = rig.http.get(url).send().await.unwrap().text().await.unwrap();
    assert!(page.contains("Prazo") && page.contains("(UTC-03:00)"), "{page}");
    assert_eq!(approve_by(&rig, "ana", url).await, 303);
    let done = rig.settled_as("ana", JobStatus::Completed).await;
    assert_eq!(done.steps[0].decisions[0].by, "ana");
}

#[tokio::test(flavor = "multi_thread")]
async fn people_who_have_only_an_endpoint_are_asked_and_told_there_without_any_phone() {
    let receiver = Receiver::start().await;
    let book = Book::new(&format!(
        "[people.ana]\nendpoint = 'ops'\n[people.bo]\nendpoint = 'ops'\n\
         [endpoints.ops]\nurl = '{}/ops'\nsecret = '{HOOK_SECRET}'\n",
        receiver.url
    ));
    let nobody = ["TOKEN", "PHONE_NUMBER_ID", "BASE_URL", "SPACING_SECONDS"];
    let nobody = nobody.map(|name| format!("LONGHAUL_WHATSAPP_{name}"));
    let mut variables: Vec<(&str, &str)> = nobody.iter().map(|name| (name.as_str(), "")).collect();
    variables.push(book.variable());
    let rig = Rig::start_with(&variables).await;
    let people = vec!["ana".to_owned(), "bo".to_owned()];
    let step = ApprovalStep {
        approvers: people.clone(),
        quorum: 2,
        remind_before_seconds: vec![600],
        ..hour()
    };
    let settings = JobSettings { notify: people, ..JobSettings::default() };
    let submitted = rig.submit(with(settings, job("both", [approval_step(step)]))).await;
    assert_eq!(submitted.warnings, [""; 0]);
    let asked = receiver.heard(1).await[0].json();
    let approvers = asked["data"]["approvers"].as_array().unwrap().clone();
    let names: Vec<&Value> = approvers.iter().map(|one| &one["approver"]).collect();
    assert_eq!(names, ["ana", "bo"]);
    let link = |at: usize| approvers[at]["approve_url"].as_str().unwrap().to_owned();
    assert_eq!(approve_by(&rig, "both", &link(0)).await, 303);
    rig.db.wait_until(IS_ALL_SENT, "both").await;
    rig.db.shift_clock(3001).await;
    let reminded = receiver.heard(2).await[1].json();
    assert_eq!(reminded["type"], "approval.reminder");
    let left: Vec<&Value> = reminded["data"]["approvers"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| &one["approver"])
        .collect();
    assert_eq!(left, ["bo"]);
    assert_eq!(approve_by(&rig, "both", &link(1)).await, 303);
    rig.settled_as("both", JobStatus::Completed).await;
    let ended = receiver.heard(3).await[2].json();
    assert_eq!(ended["type"], "job.completed");
}

#[tokio::test(flavor = "multi_thread")]
async fn who_is_asked_later_at_an_endpoint_is_an_approver_under_their_own_name() {
    let receiver = Receiver::start().await;
    let book = Book::new(&format!(
        "[people.bo]\nendpoint = 'ops'\n\
         [endpoints.ops]\nurl = '{}/ops'\nsecret = '{HOOK_SECRET}'\n",
        receiver.url
    ));
    let rig = Rig::start_with(&[book.variable()]).await;
    let step =
        ApprovalStep { escalate_after_seconds: 600, escalate_to: vec!["bo".to_owned()], ..hour() };
    rig.submit(job("later", [approval_step(step)])).await;
    rig.settled("later").await;
    rig.db.shift_clock(601).await;
    assert_eq!(receiver.heard(1).await[0].json()["data"]["approvers"][0]["approver"], "bo");
    let approvers: Vec<String> =
        sqlx::query_scalar("select unnest(approvers) from longhaul.approval")
            .fetch_all(&rig.db.pool)
            .await
            .unwrap();
    assert_eq!(approvers, [PERSON, "bo"]);
}

const IS_ALL_SENT: &str =
    "select bool_and(delivery = 'sent') from longhaul.outbox where job_id = $1";

const NOTHING_IS_DUE: &str = "select run_at is null from longhaul.job where job_id = $1";

#[tokio::test(flavor = "multi_thread")]
async fn a_program_gets_links_that_decide_in_the_name_of_each_approver() {
    let rig = Rig::start().await;
    let people = [PERSON.to_owned(), OTHER.to_owned()];
    let step = ApprovalStep { approvers: people.to_vec(), quorum: 2, ..hour() };
    rig.submit(job("linked", [run("draft"), approval_step(step)])).await;
    rig.settled("linked").await;
    let plain = rig.job("linked").await.approval.unwrap();
    assert_eq!(plain.links.len(), 0);
    let get = GetJobRequest {
        job_id: "linked".to_owned(),
        include_links: true,
        ..GetJobRequest::default()
    };
    let reply = rig.grpc.clone().get_job(Request::new(get)).await.unwrap().into_inner();
    let links = reply.job.unwrap().approval.unwrap().links;
    let approvers: Vec<&str> = links.iter().map(|link| link.approver.as_str()).collect();
    assert_eq!(approvers, [PERSON, OTHER]);
    let status = json!({"job_id": "linked", "action": "status", "include_links": true});
    let (_, answer) = rig.post("/webhook/durable-job-control", &status).await;
    let webhook_link = &answer["job"]["approval"]["links"][1];
    assert_eq!(webhook_link["approver"], OTHER);
    let page = rig.http.get(webhook_link["url"].as_str().unwrap()).send().await.unwrap();
    assert!(page.text().await.unwrap().contains("…0101"));
    for link in &links {
        assert_eq!(approve_by(&rig, "linked", &link.url).await, 303, "{}", link.approver);
    }
    let done = rig.settled_as("linked", JobStatus::Completed).await;
    let by: Vec<&str> = done.steps[1].decisions.iter().map(|one| one.by.as_str()).collect();
    assert_eq!(by, ["…0100", "…0101"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_reminded_or_escalated_is_refused_with_its_field() {
    let rig = Rig::start().await;
    let deputy = || vec![DEPUTY.to_owned()];
    for (step, field) in [
        (
            ApprovalStep { remind_before_seconds: vec![3600], ..hour() },
            "steps[0].approval.remind_before_seconds[0]",
        ),
        (
            ApprovalStep { remind_before_seconds: vec![60, 60], ..hour() },
            "steps[0].approval.remind_before_seconds[1]",
        ),
        (
            ApprovalStep { remind_before_seconds: (1..12).collect(), ..hour() },
            "steps[0].approval.remind_before_seconds",
        ),
        (ApprovalStep { escalate_after_seconds: 60, ..hour() }, "steps[0].approval.escalate_to"),
        (
            ApprovalStep { escalate_to: deputy(), ..hour() },
            "steps[0].approval.escalate_after_seconds",
        ),
        (
            ApprovalStep { escalate_after_seconds: 3600, escalate_to: deputy(), ..hour() },
            "steps[0].approval.escalate_after_seconds",
        ),
        (
            ApprovalStep {
                escalate_after_seconds: 60,
                escalate_to: vec![PERSON.to_owned()],
                ..hour()
            },
            "steps[0].approval.escalate_to[0]",
        ),
        (
            ApprovalStep {
                escalate_after_seconds: 60,
                escalate_to: vec!["ana".to_owned()],
                ..hour()
            },
            "steps[0].approval.escalate_to[0]",
        ),
    ] {
        let settings = JobSettings { notify: vec![PERSON.to_owned()], ..JobSettings::default() };
        let refused = rig.try_submit(with(settings, job("refused", [approval_step(step)]))).await;
        assert_eq!(Told::by(refused).fields, [field]);
    }
}
