//! The approval page in a real browser at the size of a phone: what a person sees, taps and gets.
//!
//! The links come from the messages of the sandbox, as an approver has them.
//! Screenshots of every state are left in `target/screenshots` for people to look at.

mod access;
pub mod browser;
mod hostile;
mod phone;

use longhaul::rpc::proto::{
    ApprovalStep, Door, Job, JobSettings, JobStatus, RunStep, Verdict, WebSearch,
};
use serde_json::json;

use self::browser::Browser;
use crate::ask::{NOTE, ask, asking};
use crate::harness::{
    PERSON, Rig, approval, approval_step, approve_as, job, pause, resume, run, run_step, with,
};

/// A key as the protocol of drivers writes it.
const TAB: &str = "\u{E004}";
const ENTER: &str = "\u{E007}";

fn decision(job: &Job) -> (Verdict, String, Door, String) {
    let decisions: Vec<_> = job.steps.iter().flat_map(|step| &step.decisions).collect();
    let [one] = decisions.as_slice() else { panic!("one decision, not {decisions:?}") };
    (one.verdict(), one.by.clone(), one.door(), one.comment.clone())
}

/// Everything that one can tap is large enough for a thumb.
async fn fits_a_thumb(browser: &Browser) {
    let script =
        "return [...document.querySelectorAll('button, textarea, summary, input:not([type=hidden])')]
        .filter(one => one.checkVisibility()).map(one => one.getBoundingClientRect()).map(box => Math.min(box.width, box.height))";
    let sizes = browser.measure(script).await;
    let sizes = sizes.as_array().unwrap();
    assert!(sizes.len() >= 3, "two buttons and a comment, not {sizes:?}");
    assert!(sizes.iter().all(|size| size.as_f64().unwrap() >= 44.0), "{sizes:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_approver_sees_what_to_decide_on_a_phone_and_approves_with_a_comment() {
    let rig = Rig::start().await;
    let links = ask(&rig, asking("page-1")).await;
    let draft = rig.job("page-1").await.output;
    let browser = Browser::start().await;

    browser.open(&links.approve).await;
    let text = browser.text().await;
    let told = ["Launch copy", NOTE, &draft, "…0100", "23 h 59 min left", "$0.0", "Step 2 of 2"];
    for part in told.into_iter().chain(["Cost so far", "page-1", "Rejecting ends it"]) {
        assert!(text.contains(part), "the page lacks {part:?}:\n{text}");
    }
    assert!(!text.contains("15550100"), "{text}");
    fits_a_thumb(&browser).await;
    browser.fits(320).await;
    browser.shoot("ask-320").await;
    browser.fits(390).await;
    browser.shoot("ask-light-en").await;

    let comment = "Fine with me.\nPlease <b>mention</b> the price & date.";
    let field = browser.find("textarea").await;
    field.send_keys(comment).await.unwrap();
    browser.press("button[value=approve]").await;
    let text = browser.text().await;
    for part in ["Approved", "by …0100", "Please <b>mention</b> the price & date."] {
        assert!(text.contains(part), "the outcome lacks {part:?}:\n{text}");
    }
    browser.fits(320).await;
    browser.fits(390).await;
    browser.shoot("outcome-approved-light-en").await;
    let done = rig.settled_as("page-1", JobStatus::Completed).await;
    let expected = (Verdict::Approve, "…0100".to_owned(), Door::Link, comment.to_owned());
    assert_eq!(decision(&done), expected);

    // Each link shows what became of it, and neither asks again.
    for link in [&links.approve, &links.reject] {
        browser.open(link).await;
        assert!(browser.text().await.contains("Approved"));
        assert_eq!(browser.measure("return document.forms.length").await, json!(0));
    }
    browser.darken().await;
    browser.shoot("outcome-approved-dark-en").await;
    assert_eq!(browser.complaints().await, Vec::<String>::new());
    browser.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_other_link_puts_rejecting_first_and_ends_the_job() {
    let rig = Rig::start().await;
    let links = ask(&rig, asking("page-2")).await;
    let browser = Browser::start().await;
    browser.darken().await;
    browser.open(&links.reject).await;
    let first = browser.measure("return document.querySelector('button').value").await;
    assert_eq!(first, "reject");
    let ground =
        "return getComputedStyle(document.body).backgroundColor.match(/[0-9]+/g).map(Number)";
    let ground = browser.measure(ground).await;
    assert!(ground[0].as_u64().unwrap() < 60, "a dark page, not {ground}");
    browser.shoot("ask-dark-en").await;
    browser.press("button[value=reject]").await;
    assert!(browser.text().await.contains("Rejected"));
    browser.shoot("outcome-rejected-dark-en").await;
    let done = rig.settled_as("page-2", JobStatus::Cancelled).await;
    assert_eq!(done.reason, "REJECTED");
    assert_eq!(decision(&done).0, Verdict::Reject);
    browser.open(&links.approve).await;
    assert!(browser.text().await.contains("Rejected"));
    assert_eq!(browser.complaints().await, Vec::<String>::new());
    browser.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_speaks_the_language_of_the_job_or_else_of_the_browser() {
    let rig = Rig::start().await;
    let chinese = JobSettings { language: "zh-CN".to_owned(), ..JobSettings::default() };
    let prompt = "用中文写一段80字以内的记账App产品简介，风格务实。";
    let steps = [run(prompt), approval("请审核第一步草稿是否可以对外使用")];
    let mut request = with(chinese, job("page-zh", steps));
    request.task = "为一款记账App写推广文案".to_owned();
    let links = ask(&rig, request).await;
    let browser = Browser::start().await;
    browser.speak("en-GB,en;q=0.9").await;
    browser.open(&links.approve).await;
    let text = browser.text().await;
    for part in ["为一款记账App写推广文案", "请审核第一步", "批准", "拒绝", "还剩 23 小时"]
    {
        assert!(text.contains(part), "the page lacks {part:?}:\n{text}");
    }
    assert_eq!(browser.measure("return document.documentElement.lang").await, "zh");
    browser.fits(320).await;
    browser.fits(390).await;
    browser.shoot("ask-light-zh").await;
    browser.darken().await;
    browser.shoot("ask-dark-zh").await;
    browser.press("button[value=approve]").await;
    browser.shoot("outcome-approved-dark-zh").await;
    assert!(browser.text().await.contains("已批准"));

    let rig = Rig::start().await;
    let links = ask(&rig, asking("page-en")).await;
    browser.open(&links.approve).await;
    assert_eq!(browser.measure("return document.documentElement.lang").await, "en");
    browser.speak("zh-CN,zh;q=0.9,en;q=0.8").await;
    browser.open(&links.approve).await;
    assert_eq!(browser.measure("return document.documentElement.lang").await, "zh");
    browser.speak("pt-PT,pt;q=0.9,en;q=0.8").await;
    browser.open(&links.approve).await;
    assert_eq!(browser.measure("return document.documentElement.lang").await, "pt-BR");
    assert!(browser.text().await.contains("faltam 23 h 59 min"));
    assert_eq!(browser.complaints().await, Vec::<String>::new());
    browser.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_keyboard_alone_decides_and_its_focus_is_seen() {
    let rig = Rig::start().await;
    let links = ask(&rig, asking("page-keys")).await;
    let browser = Browser::start().await;
    browser.open(&links.approve).await;
    let mut reached = Vec::new();
    while reached.last().is_none_or(|last| last != "approve") {
        assert!(reached.len() < 5, "no button is reached: {reached:?}");
        browser.key(TAB).await;
        let focused = "const one = document.activeElement, style = getComputedStyle(one);
            const box = one.getBoundingClientRect(), seen = document.elementFromPoint(
              box.left + box.width / 2, box.bottom - 4);
            return [one.value || one.name, parseFloat(style.outlineWidth), style.outlineStyle, seen === one]";
        let focused = browser.measure(focused).await;
        assert!(focused[1].as_f64().unwrap() >= 2.0 && focused[2] == "solid", "{focused}");
        assert_eq!(focused[3], true, "something covers what has the focus: {focused}");
        reached.push(focused[0].as_str().unwrap().to_owned());
        browser.shoot(&format!("focus-{}", reached.len())).await;
    }
    assert_eq!(reached, ["comment", "approve"]);
    browser.key(ENTER).await;
    browser.outcome().await;
    let done = rig.settled_as("page-keys", JobStatus::Completed).await;
    assert_eq!(decision(&done).0, Verdict::Approve);
    assert_eq!(browser.complaints().await, Vec::<String>::new());
    browser.close().await;
}

/// A draft that would burst a narrow page, were it let.
const WIDE: &str = "# A heading that goes on\n\n\
    https://example.com/a/very/long/path/that/nobody/could/ever/break/into/two/lines?with=everything\n\n\
    | Plan | Price | What one gets for it |\n|---|---|---|\n| Free | $0 | Everything_that_is_needed_to_begin |\n\n\
    ```\nlet line = \"a line of code that is longer than the phone is wide, by quite a bit\";\n```\n\n\
    > A quotation\n\n1. One\n2. **Two** ~~three~~\n\n<script>alert(1)</script> <img src=x onerror=alert(1)>\n\n\
    Donaudampfschifffahrtselektrizitaetenhauptbetriebswerkbauunterbeamtengesellschaft";

#[tokio::test(flavor = "multi_thread")]
async fn whatever_a_draft_holds_the_page_fits_a_narrow_phone_and_runs_nothing() {
    let rig = Rig::start().await;
    let links = ask(&rig, asking("page-wide")).await;
    let put = sqlx::query("update longhaul.checkpoint set output = $1 where step = 1").bind(WIDE);
    put.execute(&rig.db.pool).await.unwrap();
    let browser = Browser::start().await;
    browser.open(&links.approve).await;
    browser.fits(320).await;
    browser.shoot_whole("wide-320").await;
    browser.fits(390).await;
    let inside =
        "return document.querySelectorAll('.draft script, .draft img, .draft style').length";
    assert_eq!(browser.measure(inside).await, json!(0));
    let shown = browser.find(".draft").await.text().await.unwrap();
    assert!(shown.contains("<script>alert(1)</script>"), "{shown}");
    browser.darken().await;
    browser.shoot_whole("wide-dark").await;
    assert!(browser.page.get_alert_text().await.is_err(), "a script ran");
    assert_eq!(browser.complaints().await, Vec::<String>::new());
    browser.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_other_state_of_a_link_fits_a_phone_too() {
    let rig = Rig::start().await;
    let browser = Browser::start().await;
    let approvers = vec![PERSON.to_owned(), "+15550177".to_owned()];
    let both = ApprovalStep { approvers, quorum: 2, note: NOTE.to_owned(), ..Default::default() };
    let links = ask(&rig, job("page-both", [run("Say something."), approval_step(both)])).await;

    rig.control("page-both", pause()).await;
    browser.open(&links.approve).await;
    assert!(browser.text().await.contains("The job is paused"));
    browser.shoot_whole("ask-paused").await;
    rig.control("page-both", resume()).await;
    browser.open(&links.approve).await;
    browser.press("button[value=approve]").await;
    assert!(browser.text().await.contains("One more approval is needed"));
    browser.shoot("outcome-voted").await;
    let second = crate::ask::links(&rig.sandbox, "+15550177", 1).await;
    browser.open(&second.approve).await;
    assert!(browser.text().await.contains("1 of 2 approvals"));
    browser.fits(390).await;
    browser.shoot_whole("ask-second").await;

    // This browser still shows the question when another door answers it.
    rig.control("page-both", approve_as("+15550177")).await;
    rig.settled_as("page-both", JobStatus::Completed).await;
    browser.press("button[value=reject]").await;
    assert!(browser.text().await.contains("was not counted"));
    browser.fits(390).await;
    browser.shoot("outcome-contradicted").await;

    let (base, _) = links.approve.rsplit_once('/').unwrap();
    browser.open(&format!("{base}/nothing")).await;
    assert!(browser.text().await.contains("This link does not work"));
    browser.fits(390).await;
    browser.shoot("unknown").await;
    // The browser counts a status of 404 or 409 as an error of the page; nothing else may be one.
    let complaints = browser.complaints().await;
    assert!(complaints.iter().all(|one| one.contains("status of 40")), "{complaints:?}");
    browser.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_sandboxes_phone_shows_the_message_and_its_links_lead_to_the_page() {
    let rig = Rig::start().await;
    let links = ask(&rig, asking("page-phone")).await;
    let browser = Browser::start().await;
    browser.open(&format!("{}/phone", rig.sandbox.url)).await;
    browser.appears(&format!("a[href='{}']", links.approve)).await;
    assert!(browser.text().await.contains(NOTE));
    browser.fits(320).await;
    browser.fits(390).await;
    browser.shoot("phone-light").await;
    browser.darken().await;
    browser.shoot("phone-dark").await;
    assert_eq!(browser.complaints().await, Vec::<String>::new());
    browser.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_approver_sends_the_draft_back_and_then_edits_it() {
    let rig = Rig::start().await;
    let step = ApprovalStep {
        note: NOTE.to_owned(),
        max_revisions: 1,
        allow_edit: true,
        ..ApprovalStep::default()
    };
    let request = job("page-edit", [run("Write a line about an app."), approval_step(step)]);
    let links = ask(&rig, request).await;
    let first = rig.job("page-edit").await.output;
    let browser = Browser::start().await;
    browser.open(&links.approve).await;
    fits_a_thumb(&browser).await;
    browser.fits(320).await;
    browser.fits(390).await;
    browser.shoot_whole("ask-send-back").await;
    // Without a word about what is to be changed the browser does not send it.
    browser.reach(".send-back").await;
    browser.find("button[value=request_changes]").await.click().await.unwrap();
    let script = "return document.querySelector('#comment').matches(':user-invalid')";
    assert_eq!(browser.measure(script).await, json!(true));
    browser.find("#comment").await.send_keys("Name the price.").await.unwrap();
    browser.reach(".send-back").await;
    browser.press("button[value=request_changes]").await;
    let text = browser.text().await;
    for part in ["Sent back", "by …0100", "Name the price.", "shown to you anew"] {
        assert!(text.contains(part), "the outcome lacks {part:?}:\n{text}");
    }
    browser.fits(390).await;
    browser.shoot("outcome-sent-back").await;

    let anew = crate::ask::links(&rig.sandbox, PERSON, 2).await;
    rig.settled_as("page-edit", JobStatus::AwaitingApproval).await;
    browser.open(&anew.approve).await;
    assert!(!browser.text().await.contains("Send back"), "once was enough");
    browser.find("summary").await.click().await.unwrap();
    let field = browser.find("textarea[name=edited_output]").await;
    let shown = field.prop("value").await.unwrap().unwrap();
    assert_eq!(shown, rig.job("page-edit").await.output);
    assert_ne!(shown, first);
    field.clear().await.unwrap();
    field.send_keys("As I want it: <b>bold</b> & 记账.").await.unwrap();
    browser.fits(390).await;
    browser.shoot_whole("ask-edit").await;
    browser.press("button[value=approve]").await;
    assert!(browser.text().await.contains("Approved with edits"));
    browser.shoot("outcome-edited").await;
    let done = rig.settled_as("page-edit", JobStatus::Completed).await;
    assert_eq!(done.output, "As I want it: <b>bold</b> & 记账.");
    assert!(done.steps[1].decisions[0].edited);
    browser.open(&links.reject).await;
    assert!(browser.text().await.contains("Sent back"), "each link shows what became of it");
    assert_eq!(browser.complaints().await, Vec::<String>::new());
    browser.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_sources_of_a_draft_are_shown_with_what_it_takes_from_them() {
    let rig = Rig::start().await;
    let prompt = "Research budgeting apps.".to_owned();
    let search = Some(WebSearch::default());
    let researched = run_step(RunStep { prompt, web_search: search, ..RunStep::default() });
    let links = ask(&rig, job("page-sources", [researched, approval(NOTE)])).await;
    let cited = rig.job("page-sources").await.steps[0].citations[0].clone();
    let browser = Browser::start().await;
    browser.open(&links.approve).await;
    fits_a_thumb(&browser).await;
    browser.find("summary").await.click().await.unwrap();
    let text = browser.text().await;
    for part in ["Sources (", &cited.title, &cited.cited_text] {
        assert!(text.contains(part), "the page lacks {part:?}:\n{text}");
    }
    let leads = "const link = document.querySelector('.sources a'); return [link.href, link.rel]";
    let expected = json!([cited.url, "noopener noreferrer nofollow"]);
    assert_eq!(browser.measure(leads).await, expected);
    browser.is_open_to_everybody("ask-sources").await;
    assert_eq!(browser.complaints().await, Vec::<String>::new());
    browser.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_draft_that_was_only_looked_at_is_no_edit() {
    let rig = Rig::start().await;
    let step = ApprovalStep { allow_edit: true, ..ApprovalStep::default() };
    let links = ask(&rig, job("page-look", [run("Write a line."), approval_step(step)])).await;
    let draft = rig.job("page-look").await.output;
    let form = crate::ask::form(&rig, "page-look", "approve", "").await;
    let edited = serde_urlencoded::to_string([("edited_output", draft.replace('\n', "\r\n"))]);
    let form = format!("{form}&{}", edited.unwrap());
    let request = rig.http.post(&links.approve).body(form);
    let kind = "application/x-www-form-urlencoded";
    let answer = request.header("content-type", kind).send().await.unwrap();
    assert_eq!(answer.status(), 303);
    let done = rig.settled_as("page-look", JobStatus::Completed).await;
    assert!(!done.steps[1].decisions[0].edited);
    assert_eq!((done.steps[0].revision, done.output), (1, draft));
}
