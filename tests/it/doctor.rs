//! `longhaul doctor`, before real servers behind proxies that do right, and behind those that do not.
//!
//! It runs as its users run it, with the variables of the server, and is judged by what it prints.

use std::collections::BTreeMap;

use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::IntoResponse;
use serde_json::{Value, json};

use crate::delivery::{OPEN, VERIFY_TOKEN};
use crate::encrypted::CERTIFICATE;
use crate::harness::{Asked, PATIENCE, Pass, Process, Proxy, Rig};
use crate::program::Program;

const PREFIX: &str = "/some/prefix";

/// What it found, by check, and whether all was well.
pub struct Found {
    pub ok: bool,
    lines: BTreeMap<String, Vec<(String, String)>>,
    pub text: String,
}

impl Found {
    /// The outcome of a check that was made once.
    fn outcome(&self, check: &str) -> &str {
        match self.lines.get(check).map(Vec::as_slice) {
            Some([(outcome, _)]) => outcome,
            other => panic!("{check}: {other:?} in {}", self.text),
        }
    }

    /// Fails unless this check has this outcome, in words that hold these.
    pub fn tells(&self, check: &str, outcome: &str, words: &str) {
        let lines = self.lines.get(check).unwrap_or_else(|| panic!("no {check} in {}", self.text));
        let is_it = |(was, told): &&(String, String)| was == outcome && told.contains(words);
        assert!(lines.iter().any(|line| is_it(&line)), "{check} {outcome} {words}: {}", self.text);
    }
}

/// Runs it with the rig's variables and these.
pub async fn examine(rig: &Rig, variables: &[(&str, &str)]) -> Found {
    let mut all = rig.variables().clone();
    all.extend(variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
    let output = Program::run(&["doctor", "--json"], &all, PATIENCE * 3).await;
    let text = String::from_utf8(output.stdout).unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    let told: Value = serde_json::from_str(&text).unwrap_or_else(|_| panic!("{text}{errors}"));
    let ok = told["ok"].as_bool().unwrap();
    assert_eq!(output.status.code(), Some(i32::from(!ok)), "{text}{errors}");
    let mut lines = BTreeMap::<String, Vec<(String, String)>>::new();
    for check in told["checks"].as_array().unwrap() {
        let word = |name: &str| check[name].as_str().unwrap_or_default().to_owned();
        let words = format!("{} → {}", word("found"), word("remedy"));
        // Whoever has to do something is told what.
        let has_remedy = ["warning", "fault"].contains(&word("outcome").as_str());
        assert_eq!(has_remedy, !word("remedy").is_empty(), "{check}");
        lines.entry(word("check")).or_default().push((word("outcome"), words));
    }
    for secret in ["probe-", "15550100", VERIFY_TOKEN, "s3cret"] {
        assert!(!text.contains(secret) && !errors.contains(secret), "{secret}: {text}{errors}");
    }
    Found { ok, lines, text }
}

/// How many test links there are.
async fn links_left(rig: &Rig) -> i64 {
    rig.db.number("select count(*) from longhaul.link_probe").await
}

/// A rig whose server is reached through this proxy, under this path.
pub async fn behind(proxy: &Proxy, path: &str) -> (Rig, String) {
    let public = format!("{}{path}", proxy.url);
    let variables = [OPEN, &[("LONGHAUL_PUBLIC_URL", public.as_str())]].concat();
    let rig = Rig::start_with(&variables).await;
    proxy.lead_to(&rig.http_url);
    (rig, public)
}

fn strip_prefix(asked: &Asked) -> Pass {
    match asked.path.strip_prefix(PREFIX) {
        Some(path) => Pass::On(path.to_owned()),
        None => answer(StatusCode::NOT_FOUND),
    }
}

fn keep(asked: &Asked) -> Pass {
    Pass::On(asked.path.clone())
}

/// What a proxy answers by itself.
fn answer(answer: impl IntoResponse) -> Pass {
    Pass::Answer(answer.into_response())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_installation_that_works_is_proven_behind_any_good_proxy() {
    let kept = Proxy::plain().await;
    let stripped = Proxy::start(strip_prefix, |_headers| {}).await;
    let at_root = Proxy::plain().await;
    for (proxy, path) in [(&kept, PREFIX), (&stripped, PREFIX), (&at_root, "")] {
        let (rig, _) = behind(proxy, path).await;
        let found = examine(&rig, &[]).await;
        assert!(found.ok, "{}", found.text);
        for check in ["configuration", "database", "schema", "clock", "servers", "model provider"] {
            assert_eq!(found.outcome(check), "ok", "{}", found.text);
        }
        for check in ["whatsapp", "whatsapp webhook", "public url", "headers", "form"] {
            assert_eq!(found.outcome(check), "ok", "{}", found.text);
        }
        found.tells("whatsapp", "ok", "…3881");
        found.tells("address", "warning", "leads to this machine");
        assert_eq!(links_left(&rig).await, 0, "the test link is taken away");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_counts_if_whoever_opens_the_link_knows_its_signer() {
    let proxy = Proxy::plain().await;
    let public = proxy.over_tls().await;
    let variables = [OPEN, &[("LONGHAUL_PUBLIC_URL", public.as_str())]].concat();
    let rig = Rig::start_with(&variables).await;
    proxy.lead_to(&rig.http_url);
    let found = examine(&rig, &[("SSL_CERT_FILE", CERTIFICATE)]).await;
    assert!(found.ok, "{}", found.text);
    assert_eq!(found.outcome("form"), "ok");
    let found = examine(&rig, &[]).await;
    found.tells("public url", "fault", "the certificate must be valid");
}

#[tokio::test(flavor = "multi_thread")]
async fn it_prints_a_checklist_and_no_secret_reaches_the_log_of_the_server() {
    let proxy = Proxy::plain().await;
    let variables = [OPEN, &[("LONGHAUL_PUBLIC_URL", proxy.url.as_str())]].concat();
    let rig = Rig::without_server(&variables).await;
    let server = Process::serve(
        &rig,
        &[("RUST_LOG", "trace,axum=trace,hyper=trace,sqlx=trace,tower=trace")],
    )
    .await;
    proxy.lead_to(&server.client.http_url);
    let output = Program::run(&["doctor"], rig.variables(), PATIENCE * 3).await;
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}");
    for line in ["✓ public url", "✓ form", "✓ whatsapp webhook", "! address", "→ set LONGHAUL"]
    {
        assert!(text.contains(line), "{line} is not in\n{text}");
    }
    server.wait_to_say("/approvals/{token}").await;
    let said = server.said();
    for secret in ["probe-", "verify_token", "word+we", "word%20we", VERIFY_TOKEN] {
        let line = said.lines().find(|line| line.contains(secret));
        assert_eq!(line, None, "the log tells {secret}");
    }
    server.terminate().await;
}

/// A way in which a proxy can be wrong, and what is said of it.
struct Wrong {
    bend: fn(&Asked) -> Pass,
    strip: fn(&mut HeaderMap),
    check: &'static str,
    outcome: &'static str,
    words: &'static str,
}

/// Proxies that let nobody come to the page.
fn wrong_ways() -> Vec<Wrong> {
    let wrong = |bend, words| Wrong {
        bend,
        strip: |_headers| {},
        check: "public url",
        outcome: "fault",
        words,
    };
    vec![
        wrong(
            |asked| match asked.path.strip_prefix("/some") {
                Some(half) => Pass::On(half.to_owned()),
                None => answer(StatusCode::NOT_FOUND),
            },
            "under a path that it does not know",
        ),
        wrong(
            |asked| match asked.path.strip_prefix(PREFIX) {
                Some(_) => answer((StatusCode::NOT_FOUND, "no such page")),
                None => keep(asked),
            },
            "not under /some/prefix but at the root",
        ),
        wrong(|_| answer("<html>It works!</html>"), "something else answers"),
        wrong(
            |asked| {
                let leads = format!("https://login.example/?next={}", asked.path);
                answer((StatusCode::FOUND, [(header::LOCATION, leads)]))
            },
            "leads away to https://login.example →",
        ),
        wrong(|_| answer(StatusCode::UNAUTHORIZED), "no login or filter"),
        wrong(|_| answer(StatusCode::BAD_GATEWAY), "does not reach the server"),
    ]
}

/// Proxies behind which the page opens, and something of it is lost.
fn wrong_hands() -> Vec<Wrong> {
    let form = |bend, strip, outcome, words| Wrong { bend, strip, check: "form", outcome, words };
    vec![
        Wrong {
            bend: keep,
            strip: |headers| {
                headers.remove(header::CONTENT_SECURITY_POLICY);
                headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("max-age=60"));
            },
            check: "headers",
            outcome: "fault",
            words: "content-security-policy is gone, cache-control was changed",
        },
        form(
            |asked| match asked.method.as_str() {
                "POST" => answer(StatusCode::METHOD_NOT_ALLOWED),
                _ => keep(asked),
            },
            |_headers| {},
            "fault",
            "does not arrive: it is answered with status 405",
        ),
        form(
            keep,
            |headers| {
                let leads = HeaderValue::from_static("http://10.0.0.7:8080/approvals/x");
                if headers.contains_key(header::LOCATION) {
                    headers.insert(header::LOCATION, leads);
                }
            },
            "fault",
            "leads away to http://10.0.0.7:8080",
        ),
        form(
            |asked| match asked.body.len() {
                0..=1_000_000 => keep(asked),
                _ => answer(StatusCode::PAYLOAD_TOO_LARGE),
            },
            |_headers| {},
            "warning",
            "2 MiB is answered with status 413",
        ),
        Wrong {
            bend: |asked| match asked.method.as_str() {
                "HEAD" => answer(StatusCode::FORBIDDEN),
                _ => keep(asked),
            },
            strip: |_headers| {},
            check: "public url",
            outcome: "warning",
            words: "HEAD is answered with status 403",
        },
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn each_mistake_of_a_proxy_is_told_with_what_to_do() {
    for wrong in wrong_ways().into_iter().chain(wrong_hands()) {
        let proxy = Proxy::start(wrong.bend, wrong.strip).await;
        let (rig, _) = behind(&proxy, PREFIX).await;
        let found = examine(&rig, &[]).await;
        found.tells(wrong.check, wrong.outcome, wrong.words);
        assert_eq!(found.ok, wrong.outcome == "warning", "{}", found.text);
        assert_eq!(links_left(&rig).await, 0, "the test link is taken away");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_of_another_database_or_another_address_is_no_proof() {
    let proxy = Proxy::plain().await;
    let (rig, public) = behind(&proxy, "").await;
    let other = Rig::start().await;
    proxy.lead_to(&other.http_url);
    examine(&rig, &[]).await.tells("public url", "fault", "uses another database");
    // The right database, and a server that was told another address: it takes the form for a stranger's.
    let stranger = Rig::on(rig.db.url.clone(), &[("LONGHAUL_PUBLIC_URL", "https://old.example")]);
    let stranger = stranger.await.start_at(&rig.db.url).await;
    proxy.lead_to(&stranger.http_url);
    let found = examine(&rig, &[]).await;
    found.tells("form", "fault", "another website's");
    found.tells("whatsapp webhook", "fault", "404");
    proxy.lead_to(&rig.http_url);
    let wrong = [("LONGHAUL_WHATSAPP_VERIFY_TOKEN", "another")];
    examine(&rig, &wrong).await.tells("whatsapp webhook", "fault", "VERIFY_TOKEN");
    let wrong = [("LONGHAUL_WHATSAPP_APP_SECRET", "another")];
    examine(&rig, &wrong).await.tells("whatsapp webhook", "fault", "APP_SECRET");
    drop(proxy);
    let nowhere = [("LONGHAUL_PUBLIC_URL", "http://127.0.0.1:1")];
    examine(&rig, &nowhere).await.tells("public url", "fault", "nothing listens there");
    let unencrypted = public.replacen("http:", "https:", 1);
    let found = examine(&rig, &[("LONGHAUL_PUBLIC_URL", &unencrypted)]).await;
    found.tells("public url", "fault", "no answer");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_server_stands_on_is_judged_before_anything_is_served() {
    let rig = Rig::without_server(&[]).await;
    let found = examine(&rig, &[]).await;
    found.tells("servers", "fault", "no server is alive");
    found.tells("address", "warning", "LONGHAUL_PUBLIC_URL is not set");
    found.tells("whatsapp webhook", "warning", "LONGHAUL_WHATSAPP_APP_SECRET");
    rig.db.shift_clock(3600).await;
    examine(&rig, &[]).await.tells("clock", "warning", "ahead of this machine's");

    let found = examine(&rig, &[("LONGHAUL_SLOTS", "many"), ("LONGHAUL_SWEEP_MS", "1")]).await;
    found.tells("configuration", "fault", "LONGHAUL_SLOTS");
    found.tells("configuration", "fault", "LONGHAUL_SWEEP_MS");
    assert_eq!(found.outcome("database"), "ok");
    assert_eq!(found.outcome("public url"), "skipped");

    let without = [
        ("LONGHAUL_MODEL_API_KEY", ""),
        ("LONGHAUL_WHATSAPP_TOKEN", ""),
        ("LONGHAUL_WHATSAPP_PHONE_NUMBER_ID", ""),
        ("LONGHAUL_WHATSAPP_BASE_URL", ""),
    ];
    let found = examine(&rig, &without).await;
    assert_eq!(found.outcome("model provider"), "skipped");
    assert_eq!(found.outcome("whatsapp"), "skipped");

    let away = [
        ("LONGHAUL_MODEL_BASE_URL", "http://127.0.0.1:1"),
        ("LONGHAUL_WHATSAPP_PHONE_NUMBER_ID", "not-a-number"),
        ("DATABASE_URL", "postgres://user:s3cret@127.0.0.1:1/nowhere"),
    ];
    let found = examine(&rig, &away).await;
    found.tells("database", "fault", "DATABASE_URL");
    found.tells("model provider", "fault", "LONGHAUL_MODEL_BASE_URL");
    found.tells("whatsapp", "fault", "LONGHAUL_WHATSAPP_PHONE_NUMBER_ID");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_schema_that_is_not_there_is_told_and_not_made() {
    let rig = Rig::on_an_empty_database().await;
    let found = examine(&rig, &[]).await;
    found.tells("schema", "fault", "0001");
    let made = "select count(*) from information_schema.schemata where schema_name = 'longhaul'";
    assert_eq!(rig.db.number(made).await, 0);
    // One that lacks the last, as a release before left it.
    let rig = Rig::without_server(&[]).await;
    let forget = sqlx::query("delete from longhaul._sqlx_migrations where version = 23");
    assert_eq!(forget.execute(&rig.db.pool).await.unwrap().rows_affected(), 1);
    examine(&rig, &[]).await.tells("schema", "fault", "missing: 0023");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_test_link_is_burnt_by_its_form_alone_and_opens_nothing_of_a_job() {
    let rig = Rig::start().await;
    // Its hash stands for a token that this test knows.
    let leave = sqlx::query(
        "insert into longhaul.link_probe (token_hash, proof, expires_at)
         values (sha256('probe-AAAAAAAAAAAAAAAAAAAAAA'::bytea), 'proof', longhaul.now() + interval '10 minutes')",
    );
    leave.execute(&rig.db.pool).await.unwrap();
    let link = format!("{}/approvals/probe-AAAAAAAAAAAAAAAAAAAAAA", rig.http_url);
    let look = async || {
        let answer = rig.http.get(&link).send().await.unwrap();
        (answer.status().as_u16(), answer.text().await.unwrap())
    };
    let post = async |form: &str| {
        let post = rig.http.post(&link).body(form.to_owned());
        let post = post.header("content-type", "application/x-www-form-urlencoded");
        post.send().await.unwrap().status().as_u16()
    };
    for _ in 0..3 {
        assert_eq!(rig.http.head(&link).send().await.unwrap().status(), 200);
        let (status, page) = look().await;
        assert!(status == 200 && page.contains("longhaul-open-proof"), "{page}");
    }
    for (form, status) in [("", 400), ("verdict=approve", 400), ("proof=another", 404)] {
        assert_eq!(post(form).await, status, "{form}");
        assert!(look().await.1.contains("longhaul-open-proof"));
    }
    for _ in 0..2 {
        assert_eq!(post("proof=proof").await, 303);
        assert!(look().await.1.contains("longhaul-arrived-proof"));
    }
    rig.db.shift_clock(601).await;
    assert_eq!((look().await.0, post("proof=proof").await), (404, 404));
    let touched = "select count(*) from longhaul.event";
    assert_eq!(rig.db.number(touched).await, 0);
    assert_eq!(json!(links_left(&rig).await), json!(1), "the next doctor sweeps it");
    examine(&rig, &[("LONGHAUL_PUBLIC_URL", &rig.http_url)]).await;
    assert_eq!(links_left(&rig).await, 0);
}
