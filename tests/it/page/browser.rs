//! A real Chromium at the size of a phone, driven through chromedriver.
//!
//! Each browser has a driver on a free port and a fresh profile, and both end with it.
//! They are those that `CHROMEDRIVER` and `CHROMIUM` name, else what the PATH has.
//! A machine without them fails the test, and is told what to install.

use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use fantoccini::elements::Element;
use fantoccini::wd::{Capabilities, WebDriverCompatibleCommand};
use fantoccini::{Client, ClientBuilder, Locator};
use hyper_util::client::legacy::connect::HttpConnector;
use reqwest::Url;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};

use crate::harness::PATIENCE;
use crate::program::Folder;

/// The height of the phone; its width is the caller's to choose.
const HEIGHT: u32 = 844;

/// A driver that ends with its test, however that ends; a browser is in its group.
const DRIVER: &str = r#"driver=${CHROMEDRIVER:-chromedriver}
command -v "$driver" >/dev/null || exit
"$driver" --port=0 & read -r _; kill -KILL 0"#;

/// A browser with one page.
pub struct Browser {
    /// For what has no short name here.
    pub page: Client,
    /// Holds the pipe whose end ends the driver and its browser.
    _driver: Child,
    _profile: Folder,
}

/// A command that only this driver knows.
#[derive(Debug)]
struct Extra {
    path: &'static str,
    body: Value,
}

impl WebDriverCompatibleCommand for Extra {
    fn endpoint(
        &self,
        base: &Url,
        session: Option<&str>,
    ) -> Result<Url, <Url as std::str::FromStr>::Err> {
        base.join(&format!("session/{}/{}", session.unwrap_or_default(), self.path))
    }

    fn method_and_body(&self, _url: &Url) -> (http::Method, Option<String>) {
        (http::Method::POST, Some(self.body.to_string()))
    }
}

impl Browser {
    /// Starts one.
    pub async fn start() -> Self {
        let profile = Folder::make();
        let (driver, address) = start_driver().await;
        let connect = async {
            let mut builder = ClientBuilder::new(HttpConnector::new());
            builder.capabilities(capabilities(&profile.0)).connect(&address).await
        };
        let page = tokio::time::timeout(PATIENCE, connect).await.expect("chromium starts in time");
        let page = page.unwrap_or_else(|error| {
            panic!("no browser: {error}; install Debian's chromium and chromium-driver")
        });
        Self { page, _driver: driver, _profile: profile }
    }

    /// Opens an address as a person does who taps a link.
    pub async fn open(&self, url: &str) {
        self.page.goto(url).await.unwrap();
    }

    /// What a person reads on the page.
    pub async fn text(&self) -> String {
        self.find("body").await.text().await.unwrap()
    }

    /// The one element of a CSS selector.
    pub async fn find(&self, selector: &str) -> Element {
        let found = self.page.find(Locator::Css(selector)).await;
        found.unwrap_or_else(|error| panic!("no {selector} on the page: {error}"))
    }

    /// Presses a button and waits for the page behind it.
    pub async fn press(&self, selector: &str) {
        self.find(selector).await.click().await.unwrap();
        self.outcome().await;
    }

    /// Scrolls to where nothing covers an element.
    pub async fn reach(&self, selector: &str) {
        let center = "scrollIntoView({block: 'center'})";
        self.measure(&format!("document.querySelector('{selector}').{center}")).await;
    }

    /// Waits for the page that tells an outcome.
    pub async fn outcome(&self) {
        self.appears("main.outcome").await;
    }

    /// Waits until there is an element of this CSS selector.
    pub async fn appears(&self, selector: &str) {
        let wait = self.page.wait().at_most(PATIENCE).every(Duration::from_millis(20));
        wait.for_element(Locator::Css(selector)).await.unwrap();
    }

    /// What a piece of script tells about the page.
    pub async fn measure(&self, script: &str) -> Value {
        self.page.execute(script, Vec::new()).await.unwrap()
    }

    /// Presses a key where the focus is; what that key may lead to is not waited for.
    pub async fn key(&self, key: &str) {
        self.page.active_element().await.unwrap().send_keys(key).await.unwrap();
    }

    /// A phone of another width.
    pub async fn resize(&self, width: u32) {
        self.resize_to(width, HEIGHT).await;
    }

    async fn resize_to(&self, width: u32, height: u32) {
        let size = json!({"width": width, "height": height, "deviceScaleFactor": 2, "mobile": width < 800});
        self.devtools("Emulation.setDeviceMetricsOverride", size).await;
    }

    /// A person who likes it dark.
    pub async fn darken(&self) {
        self.shade("dark").await;
    }

    /// A person who likes it `dark` or `light`.
    pub async fn shade(&self, scheme: &str) {
        let features = json!([{"name": "prefers-color-scheme", "value": scheme}]);
        self.devtools("Emulation.setEmulatedMedia", json!({"features": features})).await;
    }

    /// A person who reads this language.
    pub async fn speak(&self, accept_language: &str) {
        self.devtools("Network.enable", json!({})).await;
        let headers = json!({"headers": {"Accept-Language": accept_language}});
        self.devtools("Network.setExtraHTTPHeaders", headers).await;
    }

    /// What the browser complained about since it was last asked: errors, and what the page's own policy forbids.
    pub async fn complaints(&self) -> Vec<String> {
        let log = self.extra("se/log", json!({"type": "browser"})).await;
        let lines = log.as_array().cloned().unwrap_or_default();
        lines.iter().map(|line| line["message"].as_str().unwrap_or_default().to_owned()).collect()
    }

    /// Keeps what a person sees, for people to look at.
    pub async fn shoot(&self, name: &str) {
        keep(name, &self.page.screenshot().await.unwrap());
    }

    /// Keeps the whole page, as if the phone were as long as it.
    pub async fn shoot_whole(&self, name: &str) {
        let width = self.stretch().await;
        self.shoot(name).await;
        self.resize(width).await;
    }

    /// A phone as wide as before, and as long as the page: nothing lies behind what stays in view.
    pub async fn stretch(&self) -> u32 {
        let size = self.measure("return [innerWidth, document.documentElement.scrollHeight]").await;
        let part = |at: usize| u32::try_from(size[at].as_u64().unwrap()).unwrap();
        self.resize_to(part(0), part(1)).await;
        part(0)
    }

    /// Fails if a part of the page lies beyond the right edge, at this width.
    pub async fn fits(&self, width: u32) {
        self.resize(width).await;
        let script = "const root = document.documentElement; return [root.scrollWidth, innerWidth]";
        let measured = self.measure(script).await;
        assert_eq!(measured, json!([width, width]), "a page that scrolls sideways");
    }

    /// Does what the tools of developers can, and answers with what they are told.
    pub async fn devtools(&self, command: &str, params: Value) -> Value {
        self.extra("goog/cdp/execute", json!({"cmd": command, "params": params})).await
    }

    async fn extra(&self, path: &'static str, body: Value) -> Value {
        self.page.issue_cmd(Extra { path, body }).await.unwrap()
    }

    /// Ends the browser in good order.
    pub async fn close(self) {
        self.page.close().await.unwrap();
    }
}

fn keep(name: &str, screenshot: &[u8]) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/screenshots");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join(format!("{name}.png")), screenshot).unwrap();
}

/// The browser that the machine's user wants; the driver finds one by itself.
#[expect(clippy::disallowed_methods, reason = "this configures the tests and not the product")]
fn find_chromium() -> Option<String> {
    std::env::var("CHROMIUM").ok().filter(|binary| !binary.is_empty())
}

fn capabilities(profile: &Path) -> Capabilities {
    let args = [
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-quic",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        "--no-proxy-server",
        "--hide-scrollbars",
        "--lang=en-US",
        &format!("--user-data-dir={}", profile.display()),
    ]
    .map(str::to_owned);
    let metrics = json!({"width": 390, "height": HEIGHT, "pixelRatio": 2.0, "touch": true});
    let mut options = json!({"args": args, "mobileEmulation": {"deviceMetrics": metrics}});
    if let Some(binary) = find_chromium() {
        options["binary"] = binary.into();
    }
    let capabilities = json!({
        "browserName": "chrome",
        "goog:chromeOptions": options,
        "goog:loggingPrefs": {"browser": "ALL"},
    });
    let Value::Object(capabilities) = capabilities else { unreachable!("an object was written") };
    capabilities
}

/// Starts a driver on a free port.
///
/// It takes one for IPv4 and then the same for IPv6, and ends without a word if somebody was quicker: then another try helps.
async fn start_driver() -> (Child, String) {
    for _ in 0..4 {
        if let Ok(started) = tokio::time::timeout(PATIENCE / 3, try_driver()).await {
            return started;
        }
    }
    panic!("chromedriver does not start");
}

/// Starts a driver, and waits until it prints its port.
async fn try_driver() -> (Child, String) {
    let mut command = Command::new("/bin/sh");
    command.args(["-c", DRIVER]).process_group(0);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    loop {
        let line = lines.next_line().await.unwrap();
        let line = line.expect("no chromedriver: install Debian's chromium and chromium-driver");
        if let Some((_, port)) = line.split_once("started successfully on port ") {
            return (child, format!("http://127.0.0.1:{}", port.trim_end_matches('.')));
        }
    }
}
