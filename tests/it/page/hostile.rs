//! Hostile drafts in a real browser: they are text to be read, and nothing of them runs, loads or leads astray.
//!
//! Whatever a draft asks the browser to fetch would come from a trap, which counts its visitors.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use longhaul::rpc::proto::{JobStatus, SubmitJobRequest};
use serde_json::json;
use tokio::net::TcpListener;

use super::browser::Browser;
use crate::ask::ask;
use crate::harness::{PATIENCE, Rig, approval, job, run};

/// What a script of a draft would do.
const RUN: &str = "document.title='run'";

/// What the page must stay below, whatever the draft.
const PAGE_BYTES_MAX: usize = 1 << 20;

/// A server that nobody is to visit.
struct Trap {
    url: String,
    visits: Arc<AtomicUsize>,
}

impl Trap {
    async fn set() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let visits = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&visits);
        tokio::spawn(async move {
            while listener.accept().await.is_ok() {
                counter.fetch_add(1, Ordering::SeqCst);
            }
        });
        Self { url, visits }
    }

    fn visits(&self) -> usize {
        self.visits.load(Ordering::SeqCst)
    }
}

/// A draft, and what a person must be able to read of it.
fn drafts(trap: &str) -> Vec<(&'static str, String, String)> {
    let columns = 60;
    let row = |cell: &str| format!("|{}\n", format!(" {cell} |").repeat(columns));
    let table = row("head") + &row("---") + &row("cell").repeat(400);
    let plain = |name, draft: &str, seen: &str| (name, draft.to_owned(), seen.to_owned());
    vec![
        (
            "scripts",
            format!(
                "</textarea></form></main><script>{RUN}</script><script src={trap}/a.js></script> \
             <img src={trap}/x.png onerror=\"{RUN}\"> <svg onload=\"{RUN}\"> <body onload=\"{RUN}\"> \
             <input autofocus onfocus=\"{RUN}\"> <details open ontoggle=\"{RUN}\"> read me"
            ),
            "read me".to_owned(),
        ),
        (
            "frames",
            format!(
                "<iframe src={trap}/f srcdoc=\"<script>{RUN}</script>\"></iframe> <object data={trap}/o></object> \
             <embed src={trap}/e> <video src={trap}/v autoplay></video> <portal src={trap}/p></portal> read me"
            ),
            "read me".to_owned(),
        ),
        (
            "styles",
            format!(
                "<style>@import url({trap}/a.css); * {{ display: none }}</style> <link rel=stylesheet href={trap}/l.css> \
             <link rel=prefetch href={trap}/n> <base href={trap}/> <p style=\"background:url({trap}/b)\">read me</p> \
             <meta http-equiv=refresh content=\"0;url={trap}/away\">"
            ),
            "read me".to_owned(),
        ),
        (
            "links",
            format!(
                "[one](javascript:{RUN}) [two](JaVaScRiPt:{RUN}) [three](data:text/html,<script>{RUN}</script>) \
             [four](vbscript:x) [five](&#106;avascript:{RUN}) [six](java&Tab;script:{RUN}) [seven][s] <javascript:{RUN}> \
             [eight](//evil.example) [nine](file:///etc/passwd) [ten](https://good.example/page)\n\n[s]: javascript:{RUN}"
            ),
            "eight".to_owned(),
        ),
        (
            "pictures",
            format!(
                "![a picture]({trap}/pixel.png) ![\" onerror={RUN} x=\"]({trap}/b.png) <img src={trap}/c>"
            ),
            "a picture".to_owned(),
        ),
        plain("directions", "Pay \u{202e}001 USD\u{2066} to \u{200f}me\u{202d}!", "Pay 001 USD to"),
        plain("zero width", "Pay\u{200b}ment \u{feff}of\u{2060} 100\u{200d} USD", "USD"),
        plain(
            "marks",
            &format!("z{0}al{1}go", "\u{0301}".repeat(3000), "\u{0323}".repeat(3000)),
            "go",
        ),
        (
            "long",
            "A sentence that goes on. ".repeat((1 << 20) / 25),
            "A sentence that goes on.".to_owned(),
        ),
        ("unbroken", "x".repeat(1 << 20), "x".repeat(200)),
        ("emoji", "👍🏽👩‍👩‍👧🇧🇷".repeat(2000), "👍🏽👩‍👩‍👧🇧🇷".to_owned()),
        ("a huge table", table, "cell".to_owned()),
        ("nested", ">".repeat(50_000) + " deep", "Draft".to_owned()),
        ("lists", "- ".repeat(5000) + "deep", "deep".to_owned()),
    ]
}

/// What the page consists of that it must not.
const FOREIGN: &str = "return [...document.querySelectorAll(
    'script, img, picture, svg, iframe, object, embed, video, audio, link, base, meta[http-equiv], portal, \
     input:not([type=hidden]):not([type=checkbox])')].map(one => one.outerHTML.slice(0, 200))";

const LEADS: &str =
    "return [...new Set([...document.querySelectorAll('a[href]')].map(a => a.protocol))].sort()";

const LOADED: &str = "return performance.getEntriesByType('resource').map(one => one.name)
    .filter(name => !name.startsWith(location.origin))";

async fn put_draft(rig: &Rig, draft: &str) {
    let put = sqlx::query("update longhaul.checkpoint set output = $1 where step = 1").bind(draft);
    assert_eq!(put.execute(&rig.db.pool).await.unwrap().rows_affected(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hostile_draft_is_read_and_does_nothing() {
    let rig = Rig::start().await;
    let trap = Trap::set().await;
    let hostile = format!("\"></p></form><script>{RUN}</script><img src={}/t>", trap.url);
    let request = job("hostile-page", [run("Say something."), approval(&hostile)]);
    let links = ask(&rig, SubmitJobRequest { task: hostile.clone(), ..request }).await;
    let browser = Browser::start().await;
    let mut asked = None;
    for (name, draft, seen) in drafts(&trap.url) {
        put_draft(&rig, &draft).await;
        let page = rig.http.get(&links.approve).send().await.unwrap().text().await.unwrap();
        assert!(page.len() < PAGE_BYTES_MAX, "{name}: a page of {} bytes", page.len());
        browser.open(&links.approve).await;
        let text = browser.text().await;
        assert!(text.contains(&seen), "{name}: {seen:?} cannot be read: {text:.600}");
        assert!(text.contains("</form><script>"), "{name}: the note is shown as the text it is");
        for turn in ['\u{202a}', '\u{202b}', '\u{202d}', '\u{202e}', '\u{2066}', '\u{2067}'] {
            assert!(!text.contains(turn), "{name}: {turn:?} turns the text");
        }
        assert_ne!(browser.page.title().await.unwrap(), "run", "{name}: a script ran");
        assert_eq!(browser.measure(FOREIGN).await, json!([]), "{name}");
        assert_eq!(browser.measure(LOADED).await, json!([]), "{name}");
        let leads = browser.measure(LEADS).await;
        let is_harmless = |lead: &serde_json::Value| {
            ["http:", "https:", "mailto:"].iter().any(|known| lead == known)
        };
        assert!(leads.as_array().unwrap().iter().all(is_harmless), "{name}: {leads}");
        browser.fits(390).await;
        browser.fits(320).await;
        // What a draft draws stays within its frame.
        let seen = browser.find(".note").await.screenshot().await.unwrap();
        assert!(
            *asked.get_or_insert_with(|| seen.clone()) == seen,
            "{name}: it covers the question"
        );
        browser.shoot(&format!("hostile-{}", name.replace(' ', "-"))).await;
        let address = browser.page.current_url().await.unwrap();
        assert_eq!(address.as_str(), links.approve, "{name}: the page went elsewhere");
        // Nothing was even tried that the page's policy had to forbid.
        assert_eq!(browser.complaints().await, Vec::<String>::new(), "{name}");
    }
    assert_eq!(trap.visits(), 0, "the browser visited the trap");
    // And what decides still decides.
    put_draft(&rig, &drafts(&trap.url)[0].1).await;
    browser.open(&links.approve).await;
    browser.reach("button[value=approve]").await;
    browser.press("button[value=approve]").await;
    rig.settled_as("hostile-page", JobStatus::Completed).await;
    browser.close().await;
    assert_eq!(trap.visits(), 0, "the outcome visited the trap");
    // The trap works.
    tokio::net::TcpStream::connect(trap.url.strip_prefix("http://").unwrap()).await.unwrap();
    let caught = async {
        while trap.visits() == 0 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, caught).await.expect("the trap counts");
}
