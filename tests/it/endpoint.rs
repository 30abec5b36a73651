//! Endpoints: told what they want to know, signed, in order, until they take it; one that is ill harms nobody else.

use longhaul::rpc::proto::{ApprovalStep, Delivery, JobSettings, JobStatus, SubmitJobRequest};
use serde_json::{Value, json};

use crate::ask::form;
use crate::harness::{
    NoticeRow, PERSON, Process, Rig, Told, approval, approval_step, approve, job, pause, retry,
    run, wait, with,
};
use crate::receiver::{Answer, Book, OLD_SECRET, Receiver, SECRET};

const OTHER: &str = "+15550101";
/// True once no notice of the job is on its way any more.
const ALL_JUDGED: &str = "select bool_and(delivery not in ('pending', 'sending'))
    from longhaul.outbox where job_id = $1";
const WAITS: &str =
    "select delivery = 'pending' and tries = 1 from longhaul.outbox where job_id = $1";

/// The job, told to these endpoints and to nobody else at its end.
fn told(endpoints: &[&str], job: SubmitJobRequest) -> SubmitJobRequest {
    let webhooks = endpoints.iter().map(|&name| name.to_owned()).collect();
    with(JobSettings { webhooks, ..JobSettings::default() }, job)
}

fn signed(name: &str, url: &str, more: &str) -> String {
    format!("[endpoints.{name}]\nurl = '{url}/{name}'\nsecret = '{SECRET}'\n{more}\n")
}

/// A rig that tells nobody but endpoints.
async fn rig(book: &Book) -> Rig {
    Rig::start_with(&[book.variable(), ("LONGHAUL_NOTIFY", "")]).await
}

async fn tries(rig: &Rig, job_id: &str) -> i32 {
    let read = sqlx::query_scalar("select max(tries) from longhaul.outbox where job_id = $1");
    read.bind(job_id).fetch_one(&rig.db.pool).await.unwrap()
}

fn row(kind: &str, recipient: &str, delivery: &str) -> NoticeRow {
    let [kind, recipient, delivery] = [kind, recipient, delivery].map(str::to_owned);
    NoticeRow { kind, recipient, delivery }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_endpoint_is_told_what_it_wants_to_know_signed_and_once() {
    let receiver = Receiver::start().await;
    let every = "events = ['approval_requested', 'approval_decided', 'completed', 'paused']";
    let book = Book::new(&format!(
        "{}{}{}",
        signed("ops", &receiver.url, ""),
        signed("every", &receiver.url, &format!("always = true\n{every}")),
        signed("never", &receiver.url, ""),
    ));
    let rig = rig(&book).await;
    let submitted =
        rig.submit(told(&["ops"], job("told", [run("Write."), approval("Good?")]))).await;
    assert_eq!(submitted.warnings, [""; 0]);
    rig.settled_as("told", JobStatus::AwaitingApproval).await;
    // Each is told before the next overtakes it.
    receiver.heard(2).await;
    assert!(rig.control("told", pause()).await);
    receiver.heard(3).await;
    assert!(rig.control("told", approve()).await);
    receiver.heard(4).await;
    assert!(rig.control("told", crate::harness::resume()).await);
    rig.settled_as("told", JobStatus::Completed).await;
    rig.db.wait_until(ALL_JUDGED, "told").await;
    let heard = receiver.so_far();
    let to = |path: &str| {
        let all = heard.iter().filter(|one| one.path == path);
        all.map(|one| one.about().0).collect::<Vec<_>>()
    };
    assert_eq!(to("/ops"), ["approval.requested", "job.completed"]);
    let expected = ["approval.requested", "job.paused", "approval.decided", "job.completed"];
    assert_eq!(to("/every"), expected);
    assert!(to("/never").is_empty());
    for one in &heard {
        assert!(one.is_signed_by(SECRET) && !one.is_signed_by(OLD_SECRET));
        assert_eq!(one.header("content-type"), "application/json");
        assert!(one.header("user-agent").starts_with("longhaul/"));
    }
    let done = heard.iter().find(|one| one.about().0 == "job.completed").unwrap().json();
    let data = &done["data"];
    assert_eq!((&data["task"], &data["status"]), (&json!("Launch copy"), &json!("completed")));
    assert!(data["output"].is_string() && data["cost_usd"].is_number(), "{data}");
    assert!(data.get("approvers").is_none(), "{data}");
    let shown = rig.job("told").await.notices;
    assert!(shown.iter().all(|notice| notice.delivery() == Delivery::Sent && notice.tries == 1));
    let ids: Vec<&str> = shown.iter().map(|notice| notice.notice_id.as_str()).collect();
    assert!(heard.iter().all(|one| ids.contains(&one.header("webhook-id"))));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_links_open_the_page_and_decide_as_the_right_approver() {
    let receiver = Receiver::start().await;
    let book = Book::new(&signed("ops", &receiver.url, ""));
    let rig = rig(&book).await;
    let approvers = vec![PERSON.to_owned(), OTHER.to_owned()];
    let step =
        ApprovalStep { note: "Good?".to_owned(), approvers, quorum: 2, ..Default::default() };
    rig.submit(told(&["ops"], job("linked", [run("Write."), approval_step(step)]))).await;
    let asked = receiver.heard(1).await.remove(0).json();
    let data = &asked["data"];
    assert_eq!((&data["note"], &data["quorum"]), (&json!("Good?"), &json!(2)));
    assert!(data["draft"].is_string() && data["deadline_at"].is_string(), "{data}");
    let masked: Vec<&Value> =
        data["approvers"].as_array().unwrap().iter().map(|one| &one["approver"]).collect();
    assert_eq!(masked, ["…0100", "…0101"]);
    assert!(!asked.to_string().contains("5550101"), "numbers are masked");
    for one in data["approvers"].as_array().unwrap() {
        let link = one["approve_url"].as_str().unwrap();
        assert!(link.starts_with(&rig.http_url), "{link}");
        assert_eq!(rig.http.get(link).send().await.unwrap().status(), 200);
        let form = form(&rig, "linked", "approve", "").await;
        let post = rig.http.post(link).header("content-type", "application/x-www-form-urlencoded");
        assert_eq!(post.body(form).send().await.unwrap().status(), 303);
    }
    let ended = rig.settled_as("linked", JobStatus::Completed).await;
    let by: Vec<&str> = ended.steps[1].decisions.iter().map(|one| one.by.as_str()).collect();
    assert_eq!(by, ["…0100", "…0101"]);
    let plain = "select count(*) from longhaul.outbox where tokens is not null and recipient like 'webhook:%'";
    rig.db.wait_until(ALL_JUDGED, "linked").await;
    assert_eq!(rig.db.number(plain).await, 0, "no token outlives its message");
}

#[tokio::test(flavor = "multi_thread")]
async fn where_an_approval_names_nobody_the_endpoint_itself_decides() {
    let receiver = Receiver::start().await;
    let book = Book::new(&signed("ops", &receiver.url, ""));
    let rig = rig(&book).await;
    rig.submit(told(&["ops"], job("alone", [approval("Good?")]))).await;
    let asked = receiver.heard(1).await.remove(0).json();
    let link = asked["data"]["approvers"][0]["reject_url"].as_str().unwrap();
    let form = form(&rig, "alone", "reject", "").await;
    let post = rig.http.post(link).header("content-type", "application/x-www-form-urlencoded");
    assert_eq!(post.body(form).send().await.unwrap().status(), 303);
    let ended = rig.settled_as("alone", JobStatus::Cancelled).await;
    assert_eq!(ended.steps[0].decisions[0].by, "webhook:ops");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_template_makes_what_a_chat_takes_and_its_refusal_in_a_good_status_is_noticed() {
    let receiver = Receiver::start().await;
    let feishu = r#"body = '''{"msg_type": "text", "content": {"text": "{{ title }}\n{{ text }}"}}'''
        success = "/code=0""#;
    let slack = r#"body = '''{"text": "{{ title }}", "blocks": [{"type": "actions", "elements": [
        {"type": "button", "text": {"type": "plain_text", "text": "OK"}, "url": "{{ links.0.approve_url }}"}]}]}'''"#;
    let wecom = r#"body = '''{"msgtype": "text", "text": {"content": "{{ text }}"}}'''
        success = "/errcode=0""#;
    let entry = |name: &str, more: &str| {
        format!("[endpoints.{name}]\nurl = '{}/{name}'\nalways = true\n{more}\n", receiver.url)
    };
    let book = Book::new(
        &[entry("feishu", feishu), entry("slack", slack), entry("wecom", wecom)].concat(),
    );
    let rig = rig(&book).await;
    receiver.answer([
        Answer::Body(r#"{"code":0,"errcode":0}"#),
        Answer::Body(r#"{"code":0,"errcode":0}"#),
        Answer::Body(r#"{"code":0,"errcode":0}"#),
    ]);
    let task = "为\"记账\"\nApp写推广文案";
    let asking = SubmitJobRequest {
        task: task.to_owned(),
        ..job("chat", [approval("可以\"发布\"吗？\n}}")])
    };
    rig.submit(asking).await;
    rig.db.wait_until(ALL_JUDGED, "chat").await;
    let heard = receiver.heard(3).await;
    let of = |name: &str| heard.iter().find(|one| one.path == format!("/{name}")).unwrap().json();
    let text = of("feishu")["content"]["text"].as_str().unwrap().to_owned();
    for part in
        ["有任务等待您的决定", "为\"记账\" App", "可以\"发布\"吗？\n}}", "批准: http", "拒绝: http"]
    {
        assert!(text.contains(part), "{part} is not in {text}");
    }
    let link = of("slack")["blocks"][0]["elements"][0]["url"].as_str().unwrap().to_owned();
    assert_eq!(rig.http.get(&link).send().await.unwrap().status(), 200);
    assert!(of("wecom")["text"]["content"].as_str().unwrap().len() <= 2048);
    assert!(heard.iter().all(|one| one.headers.get("webhook-signature").is_none()));
    // A 200 that holds an error is no success; slack's plain one is.
    receiver.answer((0..3).map(|_| Answer::Body(r#"{"code":19001,"errcode":93000}"#)));
    assert!(rig.control("chat", approve()).await);
    let waits = "select count(*) = 2 from longhaul.outbox
        where job_id = $1 and delivery = 'pending' and tries = 1 and error like '%as configured'";
    rig.db.wait_until(waits, "chat").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_passes_is_tried_again_and_what_is_refused_is_given_up() {
    let receiver = Receiver::start().await;
    let book = Book::new(&signed("ops", &receiver.url, ""));
    let rig = rig(&book).await;
    let asked = |job_id: &str| told(&["ops"], job(job_id, [wait(0)]));
    receiver.answer([
        Answer::Status(503),
        Answer::With(429, "retry-after", "120"),
        Answer::Status(204),
    ]);
    rig.submit(asked("passes")).await;
    rig.db.wait_until(WAITS, "passes").await;
    rig.db.shift_clock(2).await;
    receiver.heard(2).await;
    rig.db.wait_until("select tries = 2 and delivery = 'pending' and due_at > longhaul.now() + interval '100 seconds'
        from longhaul.outbox where job_id = $1", "passes").await;
    rig.db.shift_clock(121).await;
    rig.db.wait_until(ALL_JUDGED, "passes").await;
    let heard = receiver.heard(3).await;
    assert!(heard.iter().all(|one| one.header("webhook-id") == heard[0].header("webhook-id")));
    assert!(heard.iter().all(|one| one.is_signed_by(SECRET)));
    receiver.answer([Answer::Status(410)]);
    rig.submit(asked("gone")).await;
    rig.db.wait_until(ALL_JUDGED, "gone").await;
    assert_eq!(tries(&rig, "gone").await, 1);
    receiver.answer([
        Answer::With(302, "location", "/elsewhere"),
        Answer::Status(404),
        Answer::Status(400),
        Answer::Status(401),
        Answer::Status(403),
    ]);
    rig.submit(asked("refused")).await;
    for count in 5..9 {
        receiver.heard(count).await;
        rig.db
            .wait_until(
                "select delivery = 'pending' from longhaul.outbox where job_id = $1",
                "refused",
            )
            .await;
        rig.db.shift_clock(100).await;
    }
    rig.db.wait_until(ALL_JUDGED, "refused").await;
    for (job_id, delivery, error) in [
        ("passes", Delivery::Sent, ""),
        ("gone", Delivery::Failed, "it answered 410"),
        ("refused", Delivery::Failed, "given up after 5 tries: it answered 403"),
    ] {
        let [notice] = &rig.job(job_id).await.notices[..] else { panic!("one notice of {job_id}") };
        assert_eq!((notice.delivery(), notice.error.as_str()), (delivery, error), "{job_id}");
    }
    assert!(receiver.so_far().iter().all(|one| one.path == "/ops"), "no redirect is followed");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_endpoint_that_hangs_holds_up_nobody_else() {
    let (ill, well) = (Receiver::start().await, Receiver::start().await);
    ill.answer([Answer::Silence]);
    let book = Book::new(&format!(
        "{}{}",
        signed("ill", &ill.url, "timeout_seconds = 30"),
        signed("well", &well.url, "")
    ));
    let rig = Rig::start_with(&[book.variable()]).await;
    rig.submit(told(&["ill"], job("first", [wait(0)]))).await;
    ill.heard(1).await;
    for number in 0..5 {
        rig.submit(told(&["ill", "well"], job(&format!("job-{number}"), [wait(0)]))).await;
    }
    let order: Vec<String> = well.heard(5).await.iter().map(|one| one.about().1).collect();
    assert_eq!(
        order,
        ["job-0", "job-1", "job-2", "job-3", "job-4"],
        "in the order of what happened"
    );
    rig.sandbox.messages(PERSON, 6).await;
    assert_eq!(ill.so_far().len(), 1, "one at a time");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_killed_between_sending_and_noting_has_it_sent_again_under_the_same_id() {
    let receiver = Receiver::start().await;
    let book = Book::new(&signed("ops", &receiver.url, "timeout_seconds = 30"));
    let rig = Rig::without_server(&[book.variable(), ("LONGHAUL_NOTIFY", "")]).await;
    receiver.answer([Answer::Silence]);
    let killed = Process::serve(&rig, &[]).await;
    killed.client.submit(told(&["ops"], job("killed", [wait(0)]))).await;
    receiver.heard(1).await;
    killed.kill9().await;
    let next = Process::serve(&rig, &[]).await;
    rig.db.shift_clock(61).await;
    rig.db.wait_until(ALL_JUDGED, "killed").await;
    let heard = receiver.heard(2).await;
    assert_eq!(heard[0].header("webhook-id"), heard[1].header("webhook-id"));
    assert_eq!(rig.db.notices("killed").await, [row("completed", "webhook:ops", "sent")]);
    next.terminate().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_overtaken_is_not_sent_and_what_stays_true_is() {
    let receiver = Receiver::start().await;
    let events = "events = ['approval_requested', 'approval_decided', 'failed', 'completed']";
    let book = Book::new(&signed("ops", &receiver.url, events));
    let rig = rig(&book).await;
    receiver.answer([Answer::Status(500)]);
    rig.submit(told(&["ops"], job("overtaken", [approval("Good?")]))).await;
    rig.db.wait_until(WAITS, "overtaken").await;
    assert!(rig.control("overtaken", approve()).await);
    rig.db.wait_until(ALL_JUDGED, "overtaken").await;
    let expected = [
        row("approval_decided", "webhook:ops", "sent"),
        row("approval_requested", "webhook:ops", "superseded"),
        row("completed", "webhook:ops", "sent"),
    ];
    assert_eq!(rig.db.notices("overtaken").await, expected);
    rig.sandbox.break_model(json!({"status": 400, "times": 1})).await;
    receiver.answer([Answer::Status(500)]);
    rig.submit(told(&["ops"], job("undone", [run("Write.")]))).await;
    rig.settled_as("undone", JobStatus::Failed).await;
    rig.db.wait_until(WAITS, "undone").await;
    assert!(rig.control("undone", retry(0)).await);
    rig.settled_as("undone", JobStatus::Completed).await;
    rig.db.wait_until(ALL_JUDGED, "undone").await;
    let expected =
        [row("completed", "webhook:ops", "sent"), row("failed", "webhook:ops", "superseded")];
    assert_eq!(rig.db.notices("undone").await, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_is_rotated_with_both_and_a_header_is_sent_as_it_is() {
    let receiver = Receiver::start().await;
    let book = Book::new("");
    let secret = Book::beside(&book.folder.0, "secret", &format!("{SECRET}\n"));
    let header = Book::beside(&book.folder.0, "header", "Authorization: Bearer s3cret\n");
    let text = format!(
        "[endpoints.ops]\nurl = '{0}/ops'\nsecret_file = '{secret}'\nsecret_old = '{OLD_SECRET}'\n
         [endpoints.simple]\nurl = '{0}/simple'\nheader_file = '{header}'\n",
        receiver.url
    );
    Book::beside(&book.folder.0, "book.toml", &text);
    let rig = rig(&book).await;
    rig.submit(told(&["ops", "simple"], job("rotated", [wait(0)]))).await;
    for one in receiver.heard(2).await {
        if one.path == "/ops" {
            assert!(one.is_signed_by(SECRET) && one.is_signed_by(OLD_SECRET));
            assert!(one.headers.get("authorization").is_none());
        } else {
            assert_eq!(one.header("authorization"), "Bearer s3cret");
            assert!(one.headers.get("webhook-signature").is_none());
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_names_endpoints_that_there_are_and_never_addresses() {
    let receiver = Receiver::start().await;
    let book = Book::new(&signed("ops", &receiver.url, ""));
    let rig = rig(&book).await;
    let address = receiver.url.as_str();
    for (webhooks, field) in [
        (vec!["lost"], "settings.webhooks[0]"),
        (vec!["ops", address], "settings.webhooks[1]"),
        (vec!["ops", "ops"], "settings.webhooks[1]"),
    ] {
        let refused = Told::by(rig.try_submit(told(&webhooks, job("refused", [wait(0)]))).await);
        assert_eq!(refused.fields, [field]);
    }
    let body = json!({"job_id": "hook", "steps": [{"type": "wait", "duration_seconds": 0}],
        "settings": {"webhooks": ["lost"]}});
    let (status, answer) = rig.post_job(&body).await;
    assert_eq!(status, 400, "{answer}");
    let body = json!({"job_id": "hook", "steps": [{"type": "wait", "duration_seconds": 0}],
        "settings": {"webhooks": ["ops"]}});
    assert_eq!(rig.post_job(&body).await.0, 200);
    assert_eq!(receiver.heard(1).await[0].about(), ("job.completed".to_owned(), "hook".to_owned()));
    assert_eq!(rig.db.job_count().await, 1, "nothing is half stored");
    // Another list of endpoints is other content.
    let (status, answer) = rig
        .post_job(&json!({"job_id": "hook", "steps": [{"type": "wait", "duration_seconds": 0}]}))
        .await;
    assert_eq!((status, &answer["reason"]), (409, &json!("JOB_ID_CONFLICT")), "{answer}");
    let versions = "select max(spec_version)::bigint from longhaul.job";
    assert_eq!(rig.db.number(versions).await, 4, "the release before leaves it alone");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_nobody_can_send_any_more_is_given_up_and_nothing_of_it_is_logged() {
    let receiver = Receiver::start().await;
    let book = Book::new(&signed("ops", &format!("{}/s3cret", receiver.url), ""));
    let rig = Rig::without_server(&[book.variable(), ("LONGHAUL_NOTIFY", "")]).await;
    receiver.answer([Answer::Status(500), Answer::Status(410)]);
    let server = Process::serve(&rig, &[("RUST_LOG", "debug")]).await;
    server.client.submit(told(&["ops"], job("logged", [approval("Good?")]))).await;
    rig.db.wait_until(WAITS, "logged").await;
    rig.db.shift_clock(5).await;
    rig.db.wait_until(ALL_JUDGED, "logged").await;
    let said = server.said();
    assert!(said.contains("gave a notice to an endpoint up"), "{said}");
    let links = receiver.heard(1).await[0].json();
    let link = links["data"]["approvers"][0]["approve_url"].as_str().unwrap();
    let token = link.rsplit('/').next().unwrap();
    for secret in ["s3cret", "whsec_", token] {
        assert!(!said.contains(secret), "{secret} is in {said}");
    }
    server.terminate().await;
}
