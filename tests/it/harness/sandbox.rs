//! The stand-in for model provider and `WhatsApp`, served in this process: its journals and its faults.
//!
//! A journal is asked to wait until enough entries match, so that no test sleeps.

use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::http_client;

/// The sandbox of one rig.
pub struct Sandbox {
    /// Its address.
    pub url: String,
    http: reqwest::Client,
    stop: CancellationToken,
}

impl Sandbox {
    /// Serves on a free port.
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let stop = CancellationToken::new();
        tokio::spawn(longhaul::dev::sandbox::serve(listener, stop.clone()));
        Self { url, http: http_client(), stop }
    }

    /// Requests whose last user text has this in it, so far.
    pub async fn requests(&self, matching: &str) -> Vec<Value> {
        self.look("model/requests", &[("matching", matching)], 0).await
    }

    /// Waits for requests that have come to this: `held`, `answered`, `failed`, `disconnected`.
    pub async fn wait_for(&self, matching: &str, outcome: &str, at_least: usize) -> Vec<Value> {
        let look = [("matching", matching), ("outcome", outcome)];
        self.look("model/requests", &look, at_least).await
    }

    /// Messages that a person got, once there are so many.
    pub async fn messages(&self, to: &str, at_least: usize) -> Vec<Value> {
        self.look("whatsapp/messages", &[("to", to)], at_least).await
    }

    /// Messages to a person that were refused, once there are so many.
    pub async fn refused_messages(&self, to: &str, at_least: usize) -> Vec<Value> {
        self.look("whatsapp/messages", &[("to", to), ("outcome", "failed")], at_least).await
    }

    /// Keeps requests that speak of this waiting for their answer until the faults change.
    pub async fn hold(&self, matching: &str) {
        self.break_model(json!({"matching": matching, "hold": true})).await;
    }

    /// Scripts what goes wrong at the model provider.
    pub async fn break_model(&self, faults: Value) {
        self.script(json!({"model": faults})).await;
    }

    /// Scripts what goes wrong at `WhatsApp`.
    pub async fn break_whatsapp(&self, faults: Value) {
        self.script(json!({"whatsapp": faults})).await;
    }

    /// Changes how it behaves when nothing goes wrong.
    pub async fn set(&self, settings: Value) {
        let url = format!("{}/_sandbox/settings", self.url);
        let answer = self.http.post(url).json(&settings).send().await.unwrap();
        assert!(answer.status().is_success(), "{settings} are no settings");
    }

    /// Adds a template to those that are approved.
    pub async fn add_template(&self, template: Value) {
        let url = format!("{}/_sandbox/whatsapp/templates", self.url);
        let answer = self.http.post(url).json(&template).send().await.unwrap();
        assert!(answer.status().is_success(), "{template} is no template");
    }

    /// Opens a person's chat on the phone.
    pub async fn open_phone(&self, of: &str) {
        let mut url = reqwest::Url::parse(&format!("{}/phone", self.url)).unwrap();
        url.query_pairs_mut().append_pair("to", of);
        assert_eq!(self.http.get(url).send().await.unwrap().status(), 200);
    }

    /// Lets everything go well again; what is held is answered.
    pub async fn mend(&self) {
        self.script(json!({"model": null, "whatsapp": null})).await;
    }

    async fn script(&self, script: Value) {
        let url = format!("{}/_sandbox/faults", self.url);
        let answer = self.http.post(url).json(&script).send().await.unwrap();
        assert!(answer.status().is_success(), "{script} is no script of faults");
    }

    async fn look(&self, journal: &str, query: &[(&str, &str)], at_least: usize) -> Vec<Value> {
        let mut url = reqwest::Url::parse(&format!("{}/_sandbox/{journal}", self.url)).unwrap();
        url.query_pairs_mut()
            .extend_pairs(query)
            .append_pair("at_least", &at_least.to_string())
            .append_pair("timeout_ms", "20000");
        let answer = self.http.get(url).send().await.unwrap();
        let mut answer: Value = answer.json().await.unwrap();
        let key = if journal.starts_with("model") { "requests" } else { "messages" };
        let Value::Array(found) = answer[key].take() else { panic!("no list of {key}: {answer}") };
        assert!(found.len() >= at_least, "{journal} {query:?}: {} of {at_least}", found.len());
        found
    }
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// The two approval links in a message: approve first, then reject.
pub fn links(message: &Value) -> [String; 2] {
    let text = message["text"].as_str().unwrap();
    let words = text.split_whitespace().filter(|word| word.contains("/approvals/"));
    let found: Vec<String> = words.map(str::to_owned).collect();
    found.try_into().unwrap_or_else(|found| panic!("no two links but {found:?}"))
}
