//! Approval links under fire: previews, crowds, contradictions, other sites, hostile drafts, and proxies.
//!
//! Looking never changes anything, one decision is made however many come, and no answer tells more than it has to.

use std::collections::BTreeMap;

use longhaul::rpc::proto::{EventKind, JobSettings, JobStatus, SubmitJobRequest};
use reqwest::{Method, RequestBuilder, Response};
use serde_json::{Value, json};
use sqlx::AssertSqlSafe;

use crate::ask::{NOTE, ask, asking, form, links};
use crate::harness::{PERSON, Rig, approval, approval_step, events_of, job, run, with};

/// Who fetches links without anybody having decided anything, and a browser.
const VISITORS: [&str; 12] = [
    "WhatsApp/2.22.20.72 A",
    "WhatsApp/2.23.20.0 I",
    "WhatsApp/2.2236.3 N",
    "facebookexternalhit/1.1 (+http://www.facebook.com/externalhit_uatext.php)",
    "Slackbot-LinkExpanding 1.0 (+https://api.slack.com/robots)",
    "Mozilla/5.0 (Windows NT 6.1; WOW64) SkypeUriPreview Preview/0.5",
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) Teams/24.1 MicrosoftPreview/2.0",
    "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)",
    "Mozilla/5.0 (iPhone; CPU iPhone OS 26_0 like Mac OS X) AppleWebKit/605.1.15 Mobile/15E148",
    "curl/8.14.1",
    "",
    "Mozilla/5.0 (Linux; Android 16) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/148.0.0.0 Mobile",
];

/// What a decision changes first, to be told apart.
const ALL: &str = "select jsonb_build_array(
    (select jsonb_agg(to_jsonb(t)) from longhaul.job t),
    (select jsonb_agg(to_jsonb(t) order by t.sequence) from longhaul.event t),
    (select jsonb_agg(to_jsonb(t)) from longhaul.approval t),
    (select jsonb_agg(to_jsonb(t)) from longhaul.decision t),
    (select jsonb_agg(to_jsonb(t) order by t.token_hash) from longhaul.approval_link t),
    (select jsonb_agg(to_jsonb(t) order by t.notice_id) from longhaul.outbox t))";

pub async fn everything(rig: &Rig) -> Value {
    sqlx::query_scalar(ALL).fetch_one(&rig.db.pool).await.unwrap()
}

/// Every row of every job, table by table, and every recipient's: also of tables that come later.
async fn every_row(rig: &Rig) -> BTreeMap<String, String> {
    let tables = sqlx::query_scalar::<_, String>(
        "select distinct table_name::text from information_schema.columns c
         join information_schema.tables t using (table_schema, table_name)
         where table_schema = 'longhaul' and table_type = 'BASE TABLE'
           and column_name in ('job_id', 'recipient', 'token_hash')",
    );
    let mut rows = BTreeMap::new();
    for table in tables.fetch_all(&rig.db.pool).await.unwrap() {
        let read = format!(
            "select coalesce(string_agg(row, e'\\n' order by row), '')
             from (select to_jsonb(t)::text as row from longhaul.{table} t) r"
        );
        let read = sqlx::query_scalar(AssertSqlSafe(read));
        rows.insert(table, read.fetch_one(&rig.db.pool).await.unwrap());
    }
    assert!(rows.len() >= 9, "{:?}", rows.keys());
    rows
}

pub fn post(rig: &Rig, link: &str, form: String) -> RequestBuilder {
    let request = rig.http.post(link).header("content-type", "application/x-www-form-urlencoded");
    request.body(form)
}

/// The headers that every answer of the page carries, whatever happened.
fn wears_the_headers(answer: &Response) {
    let what = format!("{} {:?}", answer.status(), answer.headers());
    for (name, part) in [
        ("cache-control", "no-store"),
        ("referrer-policy", "same-origin"),
        ("content-security-policy", "default-src 'none'"),
        ("content-security-policy", "frame-ancestors 'none'"),
        ("content-security-policy", "form-action 'self'"),
        ("x-robots-tag", "noindex"),
        ("x-content-type-options", "nosniff"),
        ("x-frame-options", "DENY"),
    ] {
        let value = answer.headers().get(name).unwrap_or_else(|| panic!("no {name}: {what}"));
        assert!(value.to_str().unwrap().contains(part), "{name} lacks {part}: {what}");
    }
    assert!(answer.headers().get("set-cookie").is_none(), "{what}");
}

pub async fn read(answer: Response, status: u16) -> String {
    wears_the_headers(&answer);
    assert_eq!(answer.status(), status);
    answer.text().await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_link_that_is_only_looked_at_changes_nothing_and_still_decides() {
    let rig = Rig::start().await;
    let links = ask(&rig, asking("preview")).await;
    let before = every_row(&rig).await;
    for visitor in VISITORS {
        for link in [&links.approve, &links.reject] {
            for method in [Method::HEAD, Method::GET, Method::GET] {
                let visit = rig.http.request(method.clone(), link).header("user-agent", visitor);
                let page = read(visit.send().await.unwrap(), 200).await;
                assert_eq!(page.contains(NOTE), method == Method::GET, "{visitor}: {page}");
            }
        }
    }
    for method in ["OPTIONS", "PUT", "DELETE", "PATCH", "TRACE", "PROPFIND", "APPROVE"] {
        let method = Method::from_bytes(method.as_bytes()).unwrap();
        read(rig.http.request(method, &links.approve).send().await.unwrap(), 405).await;
    }
    // Nor does what a look says, whatever a crawler makes of the form.
    let press = form(&rig, "preview", "approve", "").await;
    let asked = format!("{}?{press}", links.approve);
    read(rig.http.get(&asked).send().await.unwrap(), 200).await;
    read(rig.http.get(&links.approve).body(press).send().await.unwrap(), 200).await;
    assert_eq!(every_row(&rig).await, before);
    let press = form(&rig, "preview", "approve", "").await;
    read(post(&rig, &links.approve, press).send().await.unwrap(), 303).await;
    rig.settled_as("preview", JobStatus::Completed).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn fifty_posts_at_once_make_one_decision() {
    let rig = Rig::start().await;
    let other = rig.serve().await;
    let links = ask(&rig, asking("crowd")).await;
    let press = form(&rig, "crowd", "approve", "Go.").await;
    let token = links.approve.rsplit('/').next().unwrap();
    let mut posts = tokio::task::JoinSet::new();
    for number in 0..50 {
        let at_other = format!("{}/approvals/{token}", other.client.http_url);
        let link = if number % 2 == 0 { links.approve.clone() } else { at_other };
        posts.spawn(post(&rig, &link, press.clone()).send());
    }
    for answer in posts.join_all().await {
        read(answer.unwrap(), 303).await;
    }
    rig.settled_as("crowd", JobStatus::Completed).await;
    let events =
        crate::harness::events_until_end(rig.try_watch("crowd", Some(0)).await.unwrap()).await;
    assert_eq!(events_of(&events, EventKind::ApprovalDecided), 1);
    assert_eq!(events_of(&events, EventKind::JobCompleted), 1);
    assert_eq!(rig.db.number("select count(*) from longhaul.decision").await, 1);
    // A late one is as polite.
    read(post(&rig, &links.approve, press).send().await.unwrap(), 303).await;
    let page = read(rig.http.get(&links.approve).send().await.unwrap(), 200).await;
    assert!(page.contains("Approved") && page.contains("Go."), "{page}");
}

#[tokio::test(flavor = "multi_thread")]
async fn both_buttons_at_once_make_one_decision_and_tell_the_others() {
    let rig = Rig::start().await;
    let links = ask(&rig, asking("torn")).await;
    let presses = [form(&rig, "torn", "approve", "").await, form(&rig, "torn", "reject", "").await];
    let mut posts = tokio::task::JoinSet::new();
    for number in 0..20 {
        posts.spawn(post(&rig, &links.approve, presses[number % 2].clone()).send());
    }
    let answers =
        posts.join_all().await.into_iter().map(|answer| answer.unwrap().status().as_u16());
    let answers: Vec<u16> = answers.collect();
    assert_eq!(answers.iter().filter(|status| **status == 303).count(), 10, "{answers:?}");
    assert_eq!(answers.iter().filter(|status| **status == 409).count(), 10, "{answers:?}");
    assert_eq!(rig.db.number("select count(*) from longhaul.decision").await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_contradicting_decision_is_told_who_decided_before_and_nobodys_number() {
    let rig = Rig::start().await;
    let approvers = vec![PERSON.to_owned(), "+15550177".to_owned()];
    let step = longhaul::rpc::proto::ApprovalStep { approvers, ..Default::default() };
    let request = job("contradicted", [run("Say something."), approval_step(step)]);
    let first = ask(&rig, request).await;
    let second = links(&rig.sandbox, "+15550177", 1).await;
    let reject = form(&rig, "contradicted", "reject", "No.").await;
    let approve = form(&rig, "contradicted", "approve", "Yes.").await;
    read(post(&rig, &first.approve, approve).send().await.unwrap(), 303).await;
    let before = everything(&rig).await;
    for link in [&first.approve, &first.reject, &second.approve, &second.reject] {
        let page = read(post(&rig, link, reject.clone()).send().await.unwrap(), 409).await;
        for part in ["was not counted", "Approved", "by …0100", "Yes.", "UTC"] {
            assert!(page.contains(part), "the page lacks {part:?}: {page}");
        }
        assert!(!page.contains("1555") && !page.contains("No."), "{page}");
    }
    let jobs = everything(&rig).await;
    assert_eq!((&jobs[1], &jobs[3]), (&before[1], &before[3]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_link_opens_nothing_and_tells_nothing() {
    let rig = Rig::start().await;
    let links = ask(&rig, asking("secret-job")).await;
    let before = everything(&rig).await;
    let (base, token) = links.approve.rsplit_once('/').unwrap();
    let last = if token.ends_with('A') { 'Q' } else { 'A' };
    let changed = format!("{}{last}", &token[..token.len() - 1]);
    let mut answers = Vec::new();
    for wrong in [
        &changed,
        &token[1..],
        &format!("{token}A"),
        &format!("{token}/and/more"),
        &token.to_lowercase(),
        "x",
        "%00",
        "%FF%FE",
        "AAAAAAAAAAAAAAAAAAAAAAAA",
        "<script>alert(1)",
        &"A".repeat(4000),
    ] {
        let url = format!("{base}/{wrong}");
        let shown = read(rig.http.get(&url).send().await.unwrap(), 404).await;
        let press = form(&rig, "secret-job", "approve", "").await;
        let posted = read(post(&rig, &url, press).send().await.unwrap(), 404).await;
        assert_eq!(shown, posted);
        answers.push(shown);
    }
    answers.dedup();
    assert_eq!(answers.len(), 1, "wrong links are told apart: {answers:?}");
    for part in ["secret-job", "Launch copy", NOTE, "0100", "script>alert"] {
        assert!(!answers[0].contains(part), "the page tells {part}: {}", answers[0]);
    }
    assert_eq!(everything(&rig).await, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_form_of_another_website_decides_nothing() {
    let rig = Rig::start().await;
    let links = ask(&rig, asking("cross")).await;
    let before = everything(&rig).await;
    let press = form(&rig, "cross", "approve", "").await;
    for (name, value) in [
        ("origin", "https://evil.example"),
        ("origin", "null"),
        ("sec-fetch-site", "cross-site"),
        ("sec-fetch-site", "same-site"),
    ] {
        let sent = post(&rig, &links.approve, press.clone()).header(name, value).send().await;
        read(sent.unwrap(), 403).await;
    }
    // What is no form of this page decides nothing either.
    for (wrong, status) in [
        (String::new(), 400),
        ("verdict=approve".to_owned(), 400),
        (press.replace("verdict=approve", "verdict=maybe"), 400),
        ("approval_id=00000000-0000-7000-8000-000000000000&verdict=approve".to_owned(), 400),
        (form(&rig, "cross", "approve", &"c".repeat(4097)).await, 413),
        (form(&rig, "cross", "approve", &"c".repeat(64 << 10)).await, 413),
        (format!("{press}%00"), 400),
    ] {
        read(post(&rig, &links.approve, wrong).send().await.unwrap(), status).await;
    }
    assert_eq!(everything(&rig).await, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn hostile_texts_are_shown_and_do_nothing() {
    let rig = Rig::start().await;
    let hostile =
        "</textarea></form><script>alert(1)</script><img src=x onerror=alert(2)>\u{202e}gpj";
    let request = job("hostile", [run("Say something."), approval(hostile)]);
    let links = ask(&rig, SubmitJobRequest { task: hostile.to_owned(), ..request }).await;
    let page = read(rig.http.get(&links.approve).send().await.unwrap(), 200).await;
    assert!(page.contains("&lt;script&gt;") || page.contains("&#60;script&#62;"), "{page}");
    for (draft, seen) in [
        (hostile.to_owned(), "alert(1)"),
        ("a <svg onload=alert(3)> <iframe src='//evil.example'></iframe> b".to_owned(), "onload"),
        (
            "[tap](javascript:alert(4)) and [this](data:text/html,x) <a href='javascript:x'>"
                .to_owned(),
            "tap",
        ),
        (
            "![](https://evil.example/pixel.png) <style>*{display:none}</style> <base href=//e>"
                .to_owned(),
            "style",
        ),
        ("Pay \u{202e}001 USD\u{2066} to \u{200f}me".to_owned(), "Pay 001 USD to"),
        ("👍🏽👩‍👩‍👧🇧🇷".to_owned(), "👍🏽👩‍👩‍👧🇧🇷"),
        (format!("{} end", "字".repeat((1 << 20) / 3)), "字字字"),
        (" ".repeat(2000), "Draft"),
        (">".repeat(50_000), "Draft"),
    ] {
        put_draft(&rig, &draft).await;
        let page = read(rig.http.get(&links.approve).send().await.unwrap(), 200).await;
        assert!(
            page.contains(seen),
            "{seen:?} is not shown of {:?}",
            &draft[..draft.floor_char_boundary(80)]
        );
        assert!(page.len() < 1 << 20, "a page of {} bytes", page.len());
        for sign in [
            "<script",
            "<img",
            "<svg",
            "<iframe",
            "<base",
            "href=\"javascript:",
            "href=\"data:",
            "\u{202e}",
            "\u{2066}",
        ] {
            let around = page.find(sign).map(|at| {
                page[page.floor_char_boundary(at.saturating_sub(60))..]
                    .chars()
                    .take(150)
                    .collect::<String>()
            });
            assert!(around.is_none(), "{sign} in the page: {around:?}");
        }
        assert_eq!(page.matches("<style").count(), 1);
        assert_eq!(page.matches("<form").count(), 1);
    }
    let press = form(&rig, "hostile", "reject", "<script>alert(5)</script>").await;
    read(post(&rig, &links.reject, press).send().await.unwrap(), 303).await;
    let page = read(rig.http.get(&links.reject).send().await.unwrap(), 200).await;
    assert!(page.contains("alert(5)") && !page.contains("<script"), "{page}");
}

/// Writes a draft as a model might have.
async fn put_draft(rig: &Rig, draft: &str) {
    let put = sqlx::query("update longhaul.checkpoint set output = $1 where step = 1").bind(draft);
    assert_eq!(put.execute(&rig.db.pool).await.unwrap().rows_affected(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_works_behind_a_proxy_that_keeps_its_prefix_and_one_that_strips_it() {
    let public = "https://jobs.example/some/prefix";
    let rig = Rig::start_with(&[("LONGHAUL_PUBLIC_URL", public)]).await;
    for (job_id, prefix) in [("kept", "/some/prefix"), ("stripped", "")] {
        let links = {
            rig.submit(asking(job_id)).await;
            rig.settled_as(job_id, JobStatus::AwaitingApproval).await;
            let before = if job_id == "kept" { 0 } else { 2 };
            links(&rig.sandbox, PERSON, before + 1).await
        };
        let path = links.approve.strip_prefix(public).unwrap_or_else(|| panic!("{links:?}"));
        let inside = format!("{}{prefix}{path}", rig.http_url);
        let page = read(rig.http.get(&inside).send().await.unwrap(), 200).await;
        assert!(page.contains(NOTE), "{page}");
        let press = form(&rig, job_id, "approve", "").await;
        let sent = post(&rig, &inside, press).header("origin", "https://jobs.example");
        let answer = sent.send().await.unwrap();
        let back = answer.headers()["location"].to_str().unwrap().to_owned();
        read(answer, 303).await;
        let back = reqwest::Url::parse(&links.approve).unwrap().join(&back).unwrap();
        assert_eq!(back.as_str(), links.approve, "a person is led back to the page they came from");
        rig.settled_as(job_id, JobStatus::Completed).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_that_comes_too_late_says_so() {
    let rig = Rig::start().await;
    let settings = JobSettings { language: "en".to_owned(), ..JobSettings::default() };
    let links = ask(&rig, with(settings, asking("late"))).await;
    let press = form(&rig, "late", "approve", "").await;
    rig.db.shift_clock(86_401).await;
    rig.event("late", EventKind::JobFailed).await;
    let page = read(rig.http.get(&links.approve).send().await.unwrap(), 200).await;
    assert!(page.contains("The time is over"), "{page}");
    let page = read(post(&rig, &links.approve, press).send().await.unwrap(), 409).await;
    assert!(page.contains("The time is over"), "{page}");
    assert_eq!(rig.db.number("select count(*) from longhaul.decision").await, 0);
    assert_eq!(json!(rig.job("late").await.reason), "APPROVAL_EXPIRED");
}
