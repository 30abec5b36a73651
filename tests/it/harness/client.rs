//! A client of one server through both of its doors: gRPC, and the sidecar's HTTP.
//!
//! The short names expect success and panic without; the `try_` ones hand the error to the test.

use std::time::Duration;

use longhaul::rpc::proto::{
    ControlRequest, ControlResponse, Event, EventKind, GetJobRequest, Job, JobStatus,
    SubmitJobRequest, SubmitJobResponse, WatchJobRequest, WatchJobResponse,
    control_request::Action, job_service_client::JobServiceClient,
};
use serde_json::{Value, json};
use tonic::transport::{Channel, Endpoint};
use tonic::{Status, Streaming};

use super::PATIENCE;
use super::watch::{Close, find_event};

const LARGEST_REQUEST_BYTES: usize = 64 << 20;

/// A client of one server.
#[derive(Clone)]
pub struct Client {
    /// The stub, for calls that have no short name here.
    pub grpc: JobServiceClient<Channel>,
    /// For requests that have no short name here.
    pub http: reqwest::Client,
    /// Where the sidecar is.
    pub http_url: String,
    /// Where the gRPC face is, for tests that speak to it in another way.
    pub grpc_addr: String,
}

/// An HTTP client that no proxy of the machine gets between.
pub fn http_client() -> reqwest::Client {
    let builder = reqwest::Client::builder().no_proxy().timeout(Duration::from_secs(30));
    builder.redirect(reqwest::redirect::Policy::none()).build().unwrap()
}

impl Client {
    /// A client of the server at these addresses.
    pub fn new(grpc_addr: &str, http_url: String) -> Self {
        let channel = Endpoint::from_shared(format!("http://{grpc_addr}")).unwrap().connect_lazy();
        let grpc = JobServiceClient::new(channel).max_encoding_message_size(LARGEST_REQUEST_BYTES);
        Self { grpc, http: http_client(), http_url, grpc_addr: grpc_addr.to_owned() }
    }

    /// Where the gRPC face is, as a URL.
    pub fn grpc_url(&self) -> String {
        format!("http://{}", self.grpc_addr)
    }

    pub async fn try_submit(&self, job: SubmitJobRequest) -> Result<SubmitJobResponse, Status> {
        let answer = self.grpc.clone().submit_job(job).await?;
        Ok(answer.into_inner())
    }

    /// Submits a job.
    pub async fn submit(&self, job: SubmitJobRequest) -> SubmitJobResponse {
        self.try_submit(job).await.unwrap()
    }

    /// The job as it is now.
    pub async fn job(&self, job_id: &str) -> Job {
        self.look(job_id, 0).await
    }

    /// The job once it stands still or has ended.
    pub async fn settled(&self, job_id: &str) -> Job {
        let job = self.look(job_id, i32::try_from(PATIENCE.as_secs()).unwrap()).await;
        let moves = [JobStatus::Queued, JobStatus::Running].contains(&job.status());
        assert!(!moves, "{job_id} still moves: {} {}", job.reason, job.status_message);
        job
    }

    /// The job once it stands still, which must be so.
    pub async fn settled_as(&self, job_id: &str, status: JobStatus) -> Job {
        let job = self.settled(job_id).await;
        let last_error = job.last_error.as_ref().map(|failure| failure.message.as_str());
        assert_eq!(job.status(), status, "{job_id}: {} {last_error:?}", job.status_message);
        job
    }

    async fn look(&self, job_id: &str, wait_seconds: i32) -> Job {
        let request =
            GetJobRequest { job_id: job_id.to_owned(), wait_seconds, ..GetJobRequest::default() };
        self.grpc.clone().get_job(request).await.unwrap().into_inner().job.unwrap()
    }

    pub async fn try_control(
        &self,
        job_id: &str,
        action: Action,
    ) -> Result<ControlResponse, Status> {
        self.try_control_once(job_id, "", action).await
    }

    /// The same under an id of its own.
    pub async fn try_control_once(
        &self,
        job_id: &str,
        request_id: &str,
        action: Action,
    ) -> Result<ControlResponse, Status> {
        let (job_id, request_id) = (job_id.to_owned(), request_id.to_owned());
        let request = ControlRequest { job_id, request_id, action: Some(action) };
        Ok(self.grpc.clone().control(request).await?.into_inner())
    }

    /// Does something to a job; answers whether that changed anything.
    pub async fn control(&self, job_id: &str, action: Action) -> bool {
        self.try_control(job_id, action).await.unwrap().changed
    }

    pub async fn try_watch(
        &self,
        job_id: &str,
        after_sequence: Option<i32>,
    ) -> Result<Streaming<WatchJobResponse>, Status> {
        let job_id = job_id.to_owned();
        let request = WatchJobRequest { job_id, after_sequence, ..WatchJobRequest::default() };
        Ok(self.grpc.clone().watch_job(request).await?.into_inner())
    }

    /// Watches a job with the text of its answers.
    pub async fn watch_closely(&self, job_id: &str, after_sequence: Option<i32>) -> Close {
        let job_id = job_id.to_owned();
        let request = WatchJobRequest {
            job_id,
            after_sequence,
            include_output_deltas: true,
            include_notices: false,
        };
        Close::new(self.grpc.clone().watch_job(request).await.unwrap().into_inner())
    }

    /// Waits for the first event of a kind in a job's history.
    pub async fn event(&self, job_id: &str, kind: EventKind) -> Event {
        self.event_after(job_id, kind, 0).await
    }

    /// Waits for the first event of a kind after a sequence.
    pub async fn event_after(&self, job_id: &str, kind: EventKind, after: i32) -> Event {
        let stream = self.try_watch(job_id, Some(after)).await.unwrap();
        let found = tokio::time::timeout(PATIENCE, find_event(stream, kind)).await;
        found.unwrap_or_else(|_| panic!("{job_id} has no {kind:?} after {after}"))
    }

    /// Posts JSON to the sidecar.
    pub async fn post(&self, path: &str, body: &Value) -> (u16, Value) {
        self.post_as(path, "application/json", body.to_string()).await
    }

    /// Posts a body of any type to the sidecar.
    pub async fn post_as(&self, path: &str, content_type: &str, body: String) -> (u16, Value) {
        let request = self.http.post(format!("{}{path}", self.http_url));
        let answer = request.header("content-type", content_type).body(body).send().await.unwrap();
        let status = answer.status().as_u16();
        (status, answer.json().await.unwrap_or(Value::Null))
    }

    /// Submits through the webhook.
    pub async fn post_job(&self, body: &Value) -> (u16, Value) {
        self.post("/webhook/durable-job", body).await
    }

    /// Controls through the webhook.
    pub async fn post_action(&self, job_id: &str, action: &str) -> (u16, Value) {
        self.post("/webhook/durable-job-control", &json!({"job_id": job_id, "action": action}))
            .await
    }
}
