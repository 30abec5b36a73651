//! Whether everybody can use the page: axe-core judges each of its states in a real browser.
//!
//! Every state is judged at the width of a small phone, a phone and a desk, in light and in dark.
//! The page lets no script run, so axe is put into a world of its own that sees the same page.
//! A machine without axe fails the tests, and is told what installs it.

use std::fs;

use longhaul::domain::language::SPOKEN;
use longhaul::rpc::proto::{
    ApprovalStep, ApproveAction, EventKind, JobSettings, JobStatus, SubmitJobRequest,
    control_request::Action,
};
use serde_json::{Value, json};

use super::browser::Browser;
use crate::ask::{NOTE, ask, asking, links};
use crate::harness::{
    PERSON, Rig, approval_step, approve_as, cancel, job, pause, reject, run, with,
};

const AXE: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/target/tools/axe/node_modules/axe-core/axe.min.js");

/// What is judged. The size of targets is a rule that has to be asked for.
///
/// Axe is not sure about a mark, which is no text, nor about a cell that is scrolled half out of view; of all else it has to be.
const JUDGE: &str = "axe.run(document, {
    runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'],
    rules: {'target-size': {enabled: true}},
  }).then(found => ({
    faults: found.violations.map(one => [one.id, one.help, ...one.nodes.map(node => node.html)].join('\\n  ')),
    unsure: found.incomplete.flatMap(one => one.nodes
      .filter(node => !node.any.some(check => ['nonBmp', 'elmPartiallyObscured'].includes(check.data?.messageKey)))
      .map(node => [one.id, node.html, JSON.stringify(node.any)].join(' '))),
    passed: found.passes.map(one => one.id),
  }))";

const SECOND: &str = "+15550177";

/// A draft with everything that Markdown can make.
const RICH: &str = "#### A heading\n\nA line with [a link](https://example.com/) and `code`.\n\n\
    # Another one\n\n- one\n- **two** ~~three~~\n\n1. one\n\n> A quotation\n\n---\n\n\
    | Plan | Price | What one gets for it |\n|---|---|---|\n| Free | $0 | Everything_that_is_needed_to_begin |\n\n\
    ```\nlet line = \"a line of code that is longer than the phone is wide, by quite a bit\";\n```";

impl Browser {
    /// Fails if axe finds a fault in what the page shows now.
    pub(super) async fn is_open_to_everybody(&self, state: &str) {
        let world = self.world_with_axe().await;
        for width in [320, 390, 1280] {
            self.fits(width).await;
            self.stretch().await;
            for scheme in ["light", "dark"] {
                self.shade(scheme).await;
                let found = self.evaluate(world, JUDGE).await;
                let told = format!("{state}, {width} wide, {scheme}: {found:#}");
                assert_eq!([&found["faults"], &found["unsure"]], [&json!([]); 2], "{told}");
                for rule in ["color-contrast", "html-has-lang", "region"] {
                    let passed = found["passed"].as_array().unwrap();
                    assert!(passed.contains(&rule.into()), "{rule} was not judged: {told}");
                }
                self.shoot(&format!("access-{state}-{width}-{scheme}")).await;
            }
        }
        self.shade("light").await;
        self.resize(390).await;
    }

    /// A world beside that of the page, with axe in it.
    async fn world_with_axe(&self) -> i64 {
        let axe = fs::read_to_string(AXE).expect("axe-core is missing: run `scripts/setup tests`");
        let frames = self.devtools("Page.getFrameTree", json!({})).await;
        let frame = json!({"frameId": frames["frameTree"]["frame"]["id"]});
        let world = self.devtools("Page.createIsolatedWorld", frame).await;
        let world = world["executionContextId"].as_i64().unwrap();
        self.evaluate(world, &axe).await;
        world
    }

    async fn evaluate(&self, world: i64, script: &str) -> Value {
        let mut answer = self
            .devtools(
                "Runtime.evaluate",
                json!({"expression": script, "contextId": world, "awaitPromise": true, "returnByValue": true}),
            )
            .await;
        assert_eq!(answer["exceptionDetails"], Value::Null, "axe fails");
        answer["result"]["value"].take()
    }
}

/// A job that asks for everything the page offers.
fn asking_for_all(job_id: &str, quorum: i32) -> SubmitJobRequest {
    let approvers = [PERSON, SECOND].into_iter().take(usize::try_from(quorum).unwrap());
    let step = ApprovalStep {
        note: NOTE.to_owned(),
        approvers: approvers.map(str::to_owned).collect(),
        quorum,
        allow_edit: true,
        max_revisions: 1,
        ..ApprovalStep::default()
    };
    job(job_id, [run("Write one line about a budgeting app."), approval_step(step)])
}

#[tokio::test(flavor = "multi_thread")]
async fn the_question_is_open_to_everybody_in_every_language() {
    let rig = Rig::start().await;
    let browser = Browser::start().await;
    for language in SPOKEN {
        let settings = JobSettings { language: language.to_owned(), ..JobSettings::default() };
        let job_id = format!("access-{language}");
        let links = ask(&rig, with(settings, asking_for_all(&job_id, 1))).await;
        browser.open(&links.approve).await;
        browser.is_open_to_everybody(&format!("ask-{language}")).await;
        let put = "update longhaul.checkpoint set output = $1 where job_id = $2 and step = 1";
        sqlx::query(put).bind(RICH).bind(&job_id).execute(&rig.db.pool).await.unwrap();
        rig.control(&job_id, pause()).await;
        browser.open(&links.reject).await;
        let lang = browser.measure("return document.documentElement.lang").await;
        assert_eq!(lang, language);
        browser.reach("summary").await;
        browser.find("summary").await.click().await.unwrap();
        browser.is_open_to_everybody(&format!("ask-paused-edit-{language}")).await;
    }
    assert_eq!(browser.complaints().await, Vec::<String>::new());
    browser.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_becomes_of_a_vote_is_open_to_everybody() {
    let rig = Rig::start().await;
    let browser = Browser::start().await;
    let first = ask(&rig, asking_for_all("access-votes", 2)).await;
    let second = links(&rig.sandbox, SECOND, 1).await;

    rig.control("access-votes", approve_as(PERSON)).await;
    browser.open(&first.approve).await;
    assert!(browser.text().await.contains("One more approval is needed"));
    browser.is_open_to_everybody("voted").await;
    browser.open(&second.approve).await;
    assert!(browser.text().await.contains("1 of 2 approvals"));
    browser.is_open_to_everybody("ask-second").await;

    let edited = ApproveAction {
        edited_output: Some("Mine.".to_owned()),
        on_behalf_of: SECOND.to_owned(),
        ..ApproveAction::default()
    };
    rig.control("access-votes", Action::Approve(edited)).await;
    browser.find("button[value=reject]").await.click().await.unwrap();
    browser.outcome().await;
    assert!(browser.text().await.contains("was not counted"));
    browser.is_open_to_everybody("contradicted").await;
    browser.open(&first.approve).await;
    assert!(browser.text().await.contains("The draft was edited"));
    browser.is_open_to_everybody("superseded").await;
    browser.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_outcome_is_open_to_everybody() {
    let rig = Rig::start().await;
    let browser = Browser::start().await;
    for (verdict, language, told) in [
        ("approve", "en", "Approved"),
        ("reject", "zh", "已拒绝"),
        ("request_changes", "pt-BR", "Ajustes pedidos"),
    ] {
        let settings = JobSettings { language: language.to_owned(), ..JobSettings::default() };
        let job = with(settings, asking_for_all(&format!("access-{verdict}"), 1));
        browser.open(&ask(&rig, job).await.approve).await;
        browser.find("#comment").await.send_keys("Name the price.").await.unwrap();
        browser.reach(".send-back").await;
        browser.press(&format!("button[value={verdict}]")).await;
        assert!(browser.text().await.contains(told));
        browser.is_open_to_everybody(verdict).await;
    }
    let kept = ask(&rig, asking("access-kept")).await;
    rig.control("access-kept", pause()).await;
    rig.control("access-kept", reject()).await;
    let ended = ask(&rig, asking("access-ended")).await;
    rig.control("access-ended", cancel()).await;
    let late = ask(&rig, asking("access-late")).await;
    rig.db.shift_clock(86_401).await;
    rig.event("access-late", EventKind::JobFailed).await;
    for (state, link, told) in [
        ("kept", kept, "The decision is kept"),
        ("withdrawn", ended, "No decision is needed"),
        ("expired", late, "The time is over"),
    ] {
        browser.open(&link.approve).await;
        assert!(browser.text().await.contains(told), "{state}");
        browser.is_open_to_everybody(state).await;
    }
    assert_eq!(browser.complaints().await, Vec::<String>::new());
    browser.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_goes_wrong_is_open_to_everybody() {
    let rig = Rig::start().await;
    let browser = Browser::start().await;
    let links = ask(&rig, asking("access-wrong")).await;
    let (base, _) = links.approve.rsplit_once('/').unwrap();
    browser.open(&format!("{base}/nothing")).await;
    assert!(browser.text().await.contains("This link does not work"));
    browser.is_open_to_everybody("unknown").await;
    for (state, wrong, told) in [
        ("malformed", "input[name=approval_id]').value = ''", "could not be read"),
        ("too-long", "#comment').value = 'c'.repeat(5000)", "comment is too long"),
    ] {
        browser.open(&links.approve).await;
        browser.measure(&format!("document.querySelector('{wrong}")).await;
        browser.press("button[value=approve]").await;
        assert!(browser.text().await.contains(told), "{state}");
        browser.is_open_to_everybody(state).await;
    }
    let form = format!(
        "data:text/html,<form method=post action='{}'><button>Win</button></form>",
        links.approve
    );
    browser.open(&form).await;
    browser.press("button").await;
    assert!(browser.text().await.contains("It came from another website"));
    browser.is_open_to_everybody("foreign").await;
    rig.settled_as("access-wrong", JobStatus::AwaitingApproval).await;
    browser.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_judge_sees_a_fault() {
    let rig = Rig::start().await;
    let browser = Browser::start().await;
    let links = ask(&rig, asking("access-judge")).await;
    browser.open(&links.approve).await;
    let world = browser.world_with_axe().await;
    for (spoil, rule) in [
        ("document.documentElement.lang = ''", "html-has-lang"),
        ("document.querySelector('label').remove()", "label"),
        ("document.querySelector('h1').style.color = '#bbb'", "color-contrast"),
        ("document.querySelector('main').setAttribute('role', 'none')", "region"),
        (
            "document.querySelectorAll('.buttons > *').forEach(one => one.style = 'flex: none; width: 9px; height: 9px; min-height: 0; padding: 0; border: 0; margin-right: -9px')",
            "target-size",
        ),
    ] {
        browser.measure(spoil).await;
        let found = browser.evaluate(world, JUDGE).await;
        let faults = found["faults"].as_array().unwrap();
        let is_found = faults.iter().any(|fault| fault.as_str().unwrap().starts_with(rule));
        assert!(is_found, "{rule} is not found: {found:#}");
    }
    browser.close().await;
}
