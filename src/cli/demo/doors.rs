//! The public doors that the demo goes through: webhooks, gRPC, the approval page, and the sandbox's own paths.
//!
//! In come the addresses of a server and its sandbox; out go answers as anybody with curl and grpcurl would get them.
//! Every wait here is for something to happen, and is bounded.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use reqwest::{
    StatusCode,
    header::{CONTENT_TYPE, ORIGIN},
};
use serde::Deserialize;
use serde_json::{Value, json};

use super::page;
use crate::{
    cli::client::{self, Client, call_error},
    rpc::proto::{Event, GetJobRequest, Job, WatchJobRequest, watch_job_response::Content},
};

/// The longest wait for anything.
const PATIENCE: Duration = Duration::from_secs(30);

/// A server and the sandbox it works with.
#[derive(Clone, Debug)]
pub struct Doors {
    /// The gRPC face.
    pub grpc: Client,
    http: reqwest::Client,
    web: String,
    sandbox: String,
}

/// What a door answered over HTTP.
#[derive(Debug)]
pub struct Answer {
    /// The status.
    pub status: StatusCode,
    /// The body, as JSON.
    pub body: Value,
}

impl Doors {
    /// Opens the doors of a server at these addresses.
    pub async fn open(grpc: &str, web: &str, sandbox: &str) -> Result<Self> {
        // A second installation is refused and changes nothing.
        let _already = rustls::crypto::ring::default_provider().install_default();
        let http = reqwest::Client::builder()
            .no_proxy()
            .timeout(PATIENCE + Duration::from_secs(5))
            .build()
            .context("preparing HTTP")?;
        let grpc = client::connect(grpc).await?;
        let trim = |url: &str| url.trim_end_matches('/').to_owned();
        Ok(Self { grpc, http, web: trim(web), sandbox: trim(sandbox) })
    }

    /// Submits a job through the webhook.
    pub async fn submit(&self, submission: &Value) -> Result<Answer> {
        self.post(&format!("{}/webhook/durable-job", self.web), submission).await
    }

    /// Acts on a job through the webhook.
    pub async fn control(&self, job_id: &str, action: &str) -> Result<Answer> {
        let body = json!({"job_id": job_id, "action": action});
        self.post(&format!("{}/webhook/durable-job-control", self.web), &body).await
    }

    /// A job as it is now.
    pub async fn job(&self, job_id: &str) -> Result<Job> {
        self.look(job_id, 0).await
    }

    /// A job once it stands still or has ended.
    pub async fn settled(&self, job_id: &str) -> Result<Job> {
        self.look(job_id, PATIENCE.as_secs() as i32).await
    }

    async fn look(&self, job_id: &str, wait_seconds: i32) -> Result<Job> {
        let request =
            GetJobRequest { job_id: job_id.to_owned(), wait_seconds, ..GetJobRequest::default() };
        let reply = self.grpc.clone().get_job(request).await.map_err(call_error)?;
        reply.into_inner().job.context("the server answered without a job")
    }

    /// The whole history of a job that has ended.
    pub async fn history(&self, job_id: &str) -> Result<Vec<Event>> {
        let request = WatchJobRequest {
            job_id: job_id.to_owned(),
            after_sequence: Some(0),
            ..WatchJobRequest::default()
        };
        let mut stream =
            self.grpc.clone().watch_job(request).await.map_err(call_error)?.into_inner();
        let mut events = Vec::new();
        while let Some(message) = stream.message().await.map_err(call_error)? {
            if let Some(Content::Event(event)) = message.content {
                events.push(event);
            }
        }
        Ok(events)
    }

    /// Opens a page as a browser does.
    pub async fn open_page(&self, url: &str) -> Result<String> {
        let reply = self.http.get(url).send().await.context("opening the approval page")?;
        let status = reply.status();
        ensure!(status.is_success(), "the approval page answered {status}");
        reply.text().await.context("reading the approval page")
    }

    /// Presses a button of a page as a browser does.
    pub async fn press(&self, url: &str, html: &str, button: &str) -> Result<String> {
        let pressed = page::press(html, button)?;
        let page = reqwest::Url::parse(url).context("the link is no URL")?;
        let target = page.join(&pressed.action).context("the form's address is no URL")?;
        let body = serde_urlencoded::to_string(&pressed.fields).context("writing the form")?;
        let request = self.http.post(target).body(body);
        let request = request
            .header(CONTENT_TYPE, "application/x-www-form-urlencoded")
            .header(ORIGIN, page.origin().ascii_serialization());
        let reply = request.send().await.context("sending the form")?;
        let status = reply.status();
        ensure!(status.is_success(), "the form was answered with {status}");
        reply.text().await.context("reading the answer to the form")
    }

    /// Scripts the faults of the sandbox's model.
    pub async fn script_model(&self, fault: Value) -> Result<()> {
        let answer = self
            .post(&format!("{}/_sandbox/faults", self.sandbox), &json!({"model": fault}))
            .await?;
        ensure!(answer.status.is_success(), "the sandbox refused a fault: {}", answer.body);
        Ok(())
    }

    /// The model requests whose prompt has this text in it, once there are so many, or after this time.
    pub async fn asked(&self, prompt: &str, at_least: usize, within: Duration) -> Result<usize> {
        let look = [("matching", prompt), ("path", "/v1/messages")];
        Ok(self.journal("model/requests", "requests", &look, at_least, within).await?.len())
    }

    /// Waits until a model request with this text in its prompt is held, for the so-manieth time.
    pub async fn held(&self, prompt: &str, times: usize) -> Result<()> {
        ensure!(self.asked(prompt, times, PATIENCE).await? >= times, "no model call was begun");
        let look = [("matching", prompt), ("outcome", "held")];
        let held = self.journal("model/requests", "requests", &look, 1, PATIENCE).await?;
        ensure!(!held.is_empty(), "no model call was held");
        Ok(())
    }

    /// The messages on one phone, once there are so many.
    pub async fn messages(&self, to: &str, at_least: usize) -> Result<Vec<Message>> {
        let look = [("to", to)];
        let found =
            self.journal("whatsapp/messages", "messages", &look, at_least, PATIENCE).await?;
        let read = found.into_iter().map(serde_json::from_value);
        read.collect::<Result<_, _>>().context("the journal holds something else than messages")
    }

    async fn journal(
        &self,
        path: &str,
        list: &str,
        look: &[(&str, &str)],
        at_least: usize,
        within: Duration,
    ) -> Result<Vec<Value>> {
        let (at_least, timeout_ms) = (at_least.to_string(), within.as_millis().to_string());
        let waits = [("at_least", at_least.as_str()), ("timeout_ms", timeout_ms.as_str())];
        let look: Vec<_> = look.iter().chain(&waits).collect();
        let query = serde_urlencoded::to_string(look).context("writing a query")?;
        let url = format!("{}/_sandbox/{path}?{query}", self.sandbox);
        let reply = self.http.get(url).send().await.context("reading a journal")?;
        let status = reply.status();
        let mut body: Value = reply.json().await.context("reading a journal")?;
        ensure!(status.is_success(), "the sandbox refused to show a journal: {body}");
        serde_json::from_value(body[list].take()).context("the journal is not a list")
    }

    async fn post(&self, url: &str, body: &Value) -> Result<Answer> {
        let reply = self.http.post(url).json(body).send().await;
        let reply = reply.with_context(|| format!("posting to {url}"))?;
        let status = reply.status();
        let body = reply.json().await.with_context(|| format!("reading the answer of {url}"))?;
        Ok(Answer { status, body })
    }
}

/// A message as the phone got it.
#[derive(Clone, Debug, Deserialize)]
pub struct Message {
    /// What it says.
    pub text: String,
}

impl Message {
    /// The links to the approval page in it; a message without any asks for nothing.
    pub fn links(&self) -> Vec<&str> {
        let words = self.text.split_whitespace();
        words.filter(|word| word.starts_with("http") && word.contains("/approvals/")).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_read_with_its_links() {
        let entry = json!({
            "seq": 1,
            "to": "+15550100",
            "text": "请审核\n批准: http://127.0.0.1:8080/approvals/a1\n拒绝: http://127.0.0.1:8080/approvals/b2",
        });
        let message: Message = serde_json::from_value(entry).expect("a message");
        assert_eq!(
            message.links(),
            ["http://127.0.0.1:8080/approvals/a1", "http://127.0.0.1:8080/approvals/b2"]
        );
    }
}
