//! The calls.

use std::{sync::Arc, time::Duration};

use futures::{Stream, TryStreamExt as _, stream};
use tokio::time::{Instant, sleep, timeout};
use tonic::{Code, Request, Response, Status};

use crate::v1::control_request::Action;
use crate::v1::{
    ApproveAction, CancelAction, ControlRequest, ControlResponse, GetJobRequest, GetJobResponse,
    Job, JobStatus, ListJobsRequest, PauseAction, RejectAction, RequestChangesAction, ResumeAction,
    RetryAction, SubmitJobRequest, SubmitJobResponse, WatchJobRequest,
};
use crate::watch::{Patience, watch};
use crate::{ClientBuilder, Error, Result, Stub, Update};

const TRIES_MAX: u32 = 5;
/// How long one call waits for a job to stand still.
const WAIT_SECONDS: u16 = 60;
/// How long a watch may be silent; the server gives a sign of life every 15 seconds.
const SILENCE_MAX: Duration = Duration::from_secs(45);
/// More cannot be said to a server.
const DEADLINE_MAX: Duration = Duration::from_secs(99_999_999);

/// A client of one server. Clones share its connection.
#[derive(Clone, Debug)]
pub struct Client {
    pub(crate) stub: Stub,
    pub(crate) timeout: Duration,
    pub(crate) give_up_after: Duration,
}

impl Client {
    /// Says how to reach a server.
    pub fn builder() -> ClientBuilder {
        ClientBuilder::default()
    }

    /// A client of the server that the environment names, as [`ClientBuilder::connect`] makes it.
    pub fn from_env() -> Result<Self> {
        Self::builder().connect()
    }

    /// The same client with another deadline for each call.
    #[must_use]
    pub fn with_timeout(&self, timeout: Duration) -> Self {
        Self { timeout, ..self.clone() }
    }

    /// The generated stub: it puts the API key into each call, and leaves the rest to its caller.
    pub fn stub(&self) -> Stub {
        self.stub.clone()
    }

    /// Calls a method of the stub that has none here, with the client's deadline and tries.
    ///
    /// It may be sent more than once: also where the server has done it and the answer was lost.
    pub async fn call<Q, A, F>(
        &self,
        request: Q,
        method: impl Fn(Stub, Request<Q>) -> F,
    ) -> Result<A>
    where
        Q: Clone,
        F: Future<Output = Result<Response<A>, Status>>,
    {
        let (began_at, mut failures) = (Instant::now(), 0);
        loop {
            let left = self.timeout.saturating_sub(began_at.elapsed());
            let error = match self.once(left, request.clone(), &method).await {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            let pause = error.pause(failures);
            failures += 1;
            let is_late = began_at.elapsed() + pause >= self.timeout;
            if !error.is_transient() || failures == TRIES_MAX || is_late {
                return Err(error);
            }
            sleep(pause).await;
        }
    }

    /// One try of a call.
    async fn once<Q, A, F>(
        &self,
        at_most: Duration,
        request: Q,
        method: impl Fn(Stub, Request<Q>) -> F,
    ) -> Result<A>
    where
        F: Future<Output = Result<Response<A>, Status>>,
    {
        let mut sent = Request::new(request);
        sent.set_timeout(at_most.min(DEADLINE_MAX));
        let late = |_| Error::new(Code::DeadlineExceeded, "no answer came in time");
        Ok(timeout(at_most, method(self.stub(), sent)).await.map_err(late)??.into_inner())
    }

    /// Submits a job. Without a `job_id` it gets one here, so that it is stored once however often it is sent.
    pub async fn submit(&self, mut request: SubmitJobRequest) -> Result<SubmitJobResponse> {
        fill(&mut request.job_id);
        self.call(request, async |mut stub, request| stub.submit_job(request).await).await
    }

    /// Shows a job, by its id or as a request wants it.
    pub async fn get(&self, request: impl Into<GetJobRequest>) -> Result<GetJobResponse> {
        self.call(request.into(), async |mut stub, request| stub.get_job(request).await).await
    }

    /// Waits until a job awaits an approval, is paused or has ended, also while the server is away.
    ///
    /// It waits at most as long as said, and then fails with `DeadlineExceeded`, whose source is what went wrong last, if
    /// anything has. Where nothing is said it waits however long it takes, and gives up as a [watch](Self::watch) does:
    /// with the last error, after [`ClientBuilder::give_up_after`] without an answer.
    pub async fn wait(&self, job_id: &str, at_most: impl Into<Option<Duration>>) -> Result<Job> {
        let request = GetJobRequest { wait_seconds: WAIT_SECONDS.into(), ..job_id.into() };
        let one_wait = self.timeout.saturating_add(Duration::from_secs(WAIT_SECONDS.into()));
        let get = async |mut stub: Stub, request| stub.get_job(request).await;
        let ask = || self.once(one_wait, request.clone(), get);
        wait(at_most.into(), self.give_up_after, ask).await
    }

    /// Moves a job. Without a `request_id` it gets one here, so that it takes effect once however often it is sent.
    pub async fn control(&self, mut request: ControlRequest) -> Result<ControlResponse> {
        fill(&mut request.request_id);
        self.call(request, async |mut stub, request| stub.control(request).await).await
    }

    async fn act(&self, job_id: &str, action: Action) -> Result<ControlResponse> {
        let (job_id, request_id) = (job_id.to_owned(), String::new());
        self.control(ControlRequest { job_id, request_id, action: Some(action) }).await
    }

    /// Holds a job where it is.
    pub async fn pause(&self, job_id: &str, action: PauseAction) -> Result<ControlResponse> {
        self.act(job_id, Action::Pause(action)).await
    }

    /// Lets a paused job go on; also raises its budget.
    pub async fn resume(&self, job_id: &str, action: ResumeAction) -> Result<ControlResponse> {
        self.act(job_id, Action::Resume(action)).await
    }

    /// Ends a job.
    pub async fn cancel(&self, job_id: &str, action: CancelAction) -> Result<ControlResponse> {
        self.act(job_id, Action::Cancel(action)).await
    }

    /// Begins a job again that failed or was cancelled.
    pub async fn retry(&self, job_id: &str, action: RetryAction) -> Result<ControlResponse> {
        self.act(job_id, Action::Retry(action)).await
    }

    /// Decides a pending approval: the job goes on.
    pub async fn approve(&self, job_id: &str, action: ApproveAction) -> Result<ControlResponse> {
        self.act(job_id, Action::Approve(action)).await
    }

    /// Decides a pending approval: the job ends.
    pub async fn reject(&self, job_id: &str, action: RejectAction) -> Result<ControlResponse> {
        self.act(job_id, Action::Reject(action)).await
    }

    /// Decides a pending approval: the step that it shows is done again.
    pub async fn request_changes(
        &self,
        job_id: &str,
        action: RequestChangesAction,
    ) -> Result<ControlResponse> {
        self.act(job_id, Action::RequestChanges(action)).await
    }

    /// The jobs of all pages, newest first; each page is fetched when it is needed.
    pub fn list(
        &self,
        request: ListJobsRequest,
    ) -> impl Stream<Item = Result<Job>> + Send + Unpin + use<> {
        let from = (self.clone(), Some(request));
        let pages = stream::try_unfold(from, async |(client, next)| {
            let Some(mut request) = next else { return Ok::<_, Error>(None) };
            let list = async |mut stub: Stub, request| stub.list_jobs(request).await;
            let page = client.call(request.clone(), list).await?;
            request.page_token = page.next_page_token;
            let next = Some(request).filter(|request| !request.page_token.is_empty());
            Ok(Some((stream::iter(page.jobs.into_iter().map(Ok)), (client, next))))
        });
        Box::pin(pages.try_flatten())
    }

    /// What happens to a job, as it happens, until it has ended; begins with a snapshot, or after a sequence.
    ///
    /// A line that breaks, or on which nothing has come for 45 seconds, is replaced by itself, from the last sequence
    /// that came: no event is lost or comes twice. Only an answer that was just being streamed, as output deltas, begins
    /// again from offset 0. It fails with what the server refuses, and with the last error once the server could not be
    /// reached for as long as [`ClientBuilder::give_up_after`] says. Dropping it ends the call.
    pub fn watch(
        &self,
        request: impl Into<WatchJobRequest>,
    ) -> impl Stream<Item = Result<Update>> + Send + Unpin + 'static {
        let stub = self.stub();
        let patience = Patience { silence: SILENCE_MAX, absence: self.give_up_after };
        Box::pin(watch(request.into(), patience, move |request| {
            let mut stub = stub.clone();
            async move { stub.watch_job(request).await.map(Response::into_inner) }
        }))
    }
}

pub(crate) async fn wait<F>(
    at_most: Option<Duration>,
    give_up_after: Duration,
    ask: impl Fn() -> F,
) -> Result<Job>
where
    F: Future<Output = Result<GetJobResponse>>,
{
    let mut last_error = None;
    let (at_most, absence) =
        at_most.map_or((Duration::MAX, give_up_after), |at_most| (at_most, Duration::MAX));
    let answer = timeout(at_most, standstill(absence, &mut last_error, ask)).await;
    answer.unwrap_or_else(|_| {
        let mut late = Status::deadline_exceeded("the job did not come to stand still in time");
        if let Some(error) = last_error {
            late.set_source(Arc::new(error));
        }
        Err(late.into())
    })
}

/// Asks until the job stands still; keeps what went wrong since the last answer.
async fn standstill<F>(
    absence: Duration,
    last_error: &mut Option<Error>,
    ask: impl Fn() -> F,
) -> Result<Job>
where
    F: Future<Output = Result<GetJobResponse>>,
{
    let (mut heard_at, mut failures) = (Instant::now(), 0);
    loop {
        let error = match ask().await {
            Ok(GetJobResponse { job: Some(job), .. }) if stands_still(&job) => return Ok(job),
            Ok(_) => {
                (heard_at, failures, *last_error) = (Instant::now(), 0, None);
                continue;
            }
            Err(error) => error,
        };
        // The deadline is that of one question, not of the wait.
        let may_pass = error.is_broken_line() || error.code() == Code::DeadlineExceeded;
        let pause = error.pause(failures);
        if !may_pass || heard_at.elapsed() + pause > absence {
            return Err(error);
        }
        *last_error = Some(error);
        failures += 1;
        sleep(pause).await;
    }
}

fn fill(id: &mut String) {
    if id.is_empty() {
        *id = uuid::Uuid::new_v4().to_string();
    }
}

fn stands_still(job: &Job) -> bool {
    !matches!(job.status(), JobStatus::Unspecified | JobStatus::Queued | JobStatus::Running)
}
