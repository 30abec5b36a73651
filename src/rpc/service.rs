//! The calls of `longhaul.v1.JobService`: convert, ask the engine, convert.
//!
//! Nothing is decided here; what a request means is in `convert`, what a job does is in the engine.

use std::sync::Arc;
use std::time::Duration;

use prost::Message as _;
use tokio::sync::Semaphore;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status};
use tracing::Span;

use super::convert::{self, REPLY_BYTES_MAX, request, status};
use super::deadline::{Cutoff, Deadline};
use super::patience::{Patience, Taken};
use super::place::Place;
use super::proto::{self, job_service_server};
use super::{RpcSettings, watch};
use crate::domain::approval::Door;
use crate::domain::id::JobKey;
use crate::domain::key::Scope;
use crate::domain::submission::Submission;
use crate::door::table::scope_of;
use crate::door::{Authority, Leash, Refusal, Stay};
use crate::engine::submit::Submitted;
use crate::engine::{Engine, EngineError};
use crate::store::StoreError;
use crate::store::job::JobView;
use crate::telemetry;

/// The service as tonic serves it.
pub type JobServer = job_service_server::JobServiceServer<JobService>;

/// `JobService` answers the calls about jobs.
pub struct JobService {
    engine: Engine,
    request_timeout: Duration,
    watches: Arc<Semaphore>,
    seats: Arc<Semaphore>,
    patience: Patience,
    stop: CancellationToken,
}

impl JobService {
    /// The service over an engine, until a stop.
    pub(super) fn new(
        engine: Engine,
        settings: &RpcSettings,
        patience: Patience,
        stop: CancellationToken,
    ) -> Self {
        let most = settings.requests_max.min(Semaphore::MAX_PERMITS);
        Self {
            engine,
            request_timeout: settings.request_timeout,
            watches: Arc::new(Semaphore::new(most)),
            seats: Arc::new(Semaphore::new(most)),
            patience,
            stop,
        }
    }

    async fn shown(&self, key: &JobKey, authority: &Authority) -> Result<proto::Job, Status> {
        let view = self.engine.job(key, None, Duration::ZERO).await;
        let view = view.map_err(|error| status::failed(error, key))?;
        Ok(as_seen_by(authority, &view, REPLY_BYTES_MAX))
    }
}

#[tonic::async_trait]
impl job_service_server::JobService for JobService {
    async fn submit_job(
        &self,
        request: Request<proto::SubmitJobRequest>,
    ) -> Result<Response<proto::SubmitJobResponse>, Status> {
        let sent = request.metadata().get("traceparent").and_then(|sent| sent.to_str().ok());
        let sent = sent.filter(|sent| is_traceparent(sent)).map(str::to_owned);
        let traceparent = telemetry::traceparent(&Span::current()).or(sent);
        let authority = authority(&request)?.clone();
        let caller = authority.caller(Door::Grpc);
        let request = request.into_inner();
        let validate_only = request.validate_only;
        let submission = convert::submission::submission(request).map_err(status::invalid)?;
        let submitted = self
            .engine
            .submit(&submission, caller, traceparent.as_deref(), validate_only)
            .await
            .map_err(|error| refused_submit(error, &submission))?;
        let Submitted { job, created, warnings } = submitted;
        let job = if validate_only {
            as_allowed(&authority, convert::job::as_if_stored(&job))
        } else {
            as_seen_by(&authority, &job, REPLY_BYTES_MAX)
        };
        Ok(Response::new(proto::SubmitJobResponse { job: Some(job), created, warnings }))
    }

    async fn get_job(
        &self,
        request: Request<proto::GetJobRequest>,
    ) -> Result<Response<proto::GetJobResponse>, Status> {
        let authority = authority(&request)?.clone();
        if request.get_ref().include_links {
            let needed = authority.require(Scope::Approve);
            needed.map_err(|refusal| status::not_let_in(&refusal))?;
        }
        let deadline = request.extensions().get::<Deadline>().copied();
        let place = request.extensions().get::<Place>().cloned();
        let request = request.into_inner();
        let request::Look { key, step, wait_seconds } =
            request::look(&request).map_err(status::invalid)?;
        let wait = Duration::from_secs(wait_seconds);
        let wait = deadline.map_or(wait, |deadline| deadline.shorten(wait));
        // Who waits keeps out nobody who does not.
        if let Some(place) = place.filter(|_| !wait.is_zero()) {
            let seat = Arc::clone(&self.seats).try_acquire_owned();
            place.change(seat.map_err(|_full| status::overloaded())?);
        }
        let look = self.engine.job(&key, step, wait);
        let view = tokio::select! {
            view = tokio::time::timeout(wait + self.request_timeout, look) => view,
            () = self.stop.cancelled(), if !wait.is_zero() => return Err(status::stopping()),
        };
        let Ok(view) = view else { return Err(status::timed_out()) };
        let mut view = view.map_err(|error| status::failed(error, &key))?;
        if request.include_links {
            let linked = self.engine.add_links(&key, &mut view).await;
            linked.map_err(|error| status::failed(error, &key))?;
        }
        // A specification is always whole; the outputs get what it leaves.
        let spec = request.include_spec.then(|| convert::job_spec(&view.spec));
        let left = spec.as_ref().map_or(0, prost::Message::encoded_len);
        let job = as_seen_by(&authority, &view, REPLY_BYTES_MAX.saturating_sub(left));
        Ok(Response::new(proto::GetJobResponse { job: Some(job), spec }))
    }

    async fn control(
        &self,
        request: Request<proto::ControlRequest>,
    ) -> Result<Response<proto::ControlResponse>, Status> {
        let authority = authority(&request)?.clone();
        let mut request = request.into_inner();
        let request_id = Some(std::mem::take(&mut request.request_id)).filter(|id| !id.is_empty());
        let (key, command) = request::command(request).map_err(status::invalid)?;
        authority.require(scope_of(&command)).map_err(|refusal| status::not_let_in(&refusal))?;
        let caller = authority.caller(Door::Grpc);
        let changed = self.engine.control(&key, command, caller, request_id).await;
        let changed = changed.map_err(|error| status::failed(error, &key))?;
        let job = self.shown(&key, &authority).await?;
        Ok(Response::new(proto::ControlResponse { job: Some(job), changed }))
    }

    async fn revoke_links(
        &self,
        request: Request<proto::RevokeLinksRequest>,
    ) -> Result<Response<proto::RevokeLinksResponse>, Status> {
        let request::Revocation { key, approvers } =
            request::revocation(request.get_ref(), self.engine.book()).map_err(status::invalid)?;
        let revoked = self.engine.store().revoke_links(&key, &approvers).await;
        let revoked = revoked.map_err(|error| status::failed(EngineError::Store(error), &key))?;
        Ok(Response::new(proto::RevokeLinksResponse { revoked }))
    }

    type WatchJobStream = Taken;

    async fn watch_job(
        &self,
        request: Request<proto::WatchJobRequest>,
    ) -> Result<Response<Self::WatchJobStream>, Status> {
        let is_whole = authority(&request)?.sees_numbers();
        let asked = request::watch(request.get_ref()).map_err(status::invalid)?;
        let watches = self.watches.clone();
        let permit = watches.try_acquire_owned().map_err(|_full| status::overloaded())?;
        let stop = self.stop.clone();
        let extensions = request.extensions();
        let leash = extensions.get::<Leash>().cloned();
        let deadline = extensions.get::<Deadline>().copied();
        // Without it the gate was gone round, and nobody is let in.
        let stay = extensions.get::<Stay>().cloned();
        let stay = stay.ok_or_else(|| status::not_let_in(&Refusal::KeyRequired))?;
        let bounds = watch::Bounds { stay: Box::new(stay), stop, deadline, permit };
        let watch = watch::open(self.engine.clone(), asked, is_whole, bounds).await?;
        Ok(Response::new(self.patience.with(watch, leash)))
    }

    async fn list_jobs(
        &self,
        request: Request<proto::ListJobsRequest>,
    ) -> Result<Response<proto::ListJobsResponse>, Status> {
        let authority = authority(&request)?.clone();
        let convert::list::Page { selector, after, size, has_counts } =
            convert::list::page(request.into_inner()).map_err(status::invalid)?;
        // One more than a page tells whether there is a next one.
        let limit = i64::try_from(size + 1).expect("a page is small");
        let store = self.engine.store();
        let listed = store.list(&selector, after.as_ref(), limit).await;
        let listed = listed.map_err(status::failed_list)?;
        let counted = if has_counts { Some(store.counts().await) } else { None };
        let counted = counted.transpose().map_err(status::failed_list)?;
        let (mut jobs, mut bytes, mut last) = (Vec::new(), 0, None);
        for (at, one) in listed.iter().enumerate().take(size) {
            let job = one.job.as_ref().map(|view| as_seen_by(&authority, view, REPLY_BYTES_MAX));
            // Each job in the list is preceded by a tag and its length.
            bytes += job.as_ref().map_or(0, |job| job.encoded_len() + 6);
            if bytes > REPLY_BYTES_MAX && !jobs.is_empty() {
                break;
            }
            jobs.extend(job);
            last = Some((at, &one.place));
        }
        // A place whose job cannot be shown was passed all the same.
        let last = last.filter(|(at, _)| at + 1 < listed.len());
        let next_page_token = last.map(|(_, place)| place.token(&selector));
        Ok(Response::new(proto::ListJobsResponse {
            jobs,
            next_page_token: next_page_token.unwrap_or_default(),
            counts: counted.iter().flat_map(|all| convert::list::counts(all, &selector)).collect(),
            counts_as_of: counted.as_ref().map(convert::list::counts_as_of),
        }))
    }

    async fn control_jobs(
        &self,
        request: Request<proto::ControlJobsRequest>,
    ) -> Result<Response<proto::ControlJobsResponse>, Status> {
        let caller = authority(&request)?.caller(Door::Grpc);
        // Half of the time there is: what is under way then has to come to its end as well.
        let (now, cutoff) = (Instant::now(), request.extensions().get::<Cutoff>());
        let left = cutoff.map(|cutoff| cutoff.0.saturating_duration_since(now));
        let until = now + left.unwrap_or(self.request_timeout) / 2;
        let bulk = convert::bulk::bulk(request.into_inner()).map_err(status::invalid)?;
        let bulked = self.engine.control_jobs(&bulk, &caller, until).await;
        let bulked = bulked.map_err(status::failed_bulk)?;
        Ok(Response::new(convert::bulk::bulked(&bulked, &bulk.selector)))
    }

    async fn list_notices(
        &self,
        request: Request<proto::ListNoticesRequest>,
    ) -> Result<Response<proto::ListNoticesResponse>, Status> {
        let (book, is_whole) = (self.engine.book(), authority(&request)?.sees_numbers());
        let convert::notice::Page { selector, before, size } =
            convert::notice::page(request.into_inner(), book).map_err(status::invalid)?;
        // One more than a page tells whether there is a next one.
        let limit = i64::try_from(size + 1).expect("a page is small");
        let notices = self.engine.store().list_notices(&selector, before, limit).await;
        let notices = notices.map_err(status::failed_list)?;
        let last = notices.get(size - 1).filter(|_| notices.len() > size);
        let next_page_token = last.map(convert::notice::token_after).unwrap_or_default();
        let notices = notices.iter().take(size);
        let notices = notices.map(|notice| convert::notice::listed(notice, is_whole)).collect();
        Ok(Response::new(proto::ListNoticesResponse { notices, next_page_token }))
    }

    async fn resend_notice(
        &self,
        request: Request<proto::ResendNoticeRequest>,
    ) -> Result<Response<proto::ResendNoticeResponse>, Status> {
        let is_whole = authority(&request)?.sees_numbers();
        let notice_id = convert::notice::notice_id(request.get_ref()).map_err(status::invalid)?;
        let resent = self.engine.store().resend_notice(notice_id).await;
        let (notice, changed) = resent.map_err(status::failed_list)?;
        let notice = Some(convert::notice::listed(&notice, is_whole));
        Ok(Response::new(proto::ResendNoticeResponse { notice, changed }))
    }

    async fn get_usage(
        &self,
        request: Request<proto::GetUsageRequest>,
    ) -> Result<Response<proto::GetUsageResponse>, Status> {
        let query = convert::usage::query(request.into_inner()).map_err(status::invalid)?;
        let report = self.engine.store().usage(&query).await.map_err(status::failed_list)?;
        Ok(Response::new(convert::usage::page(&report, &query)))
    }
}

/// Who calls, which the gate has found out.
fn authority<T>(request: &Request<T>) -> Result<&Authority, Status> {
    // Without it the gate was gone round, and nobody is let in.
    let authority = request.extensions().get::<Authority>();
    authority.ok_or_else(|| status::not_let_in(&Refusal::KeyRequired))
}

/// A job as far as the caller may read it, with people's numbers whole where they may be seen.
fn as_seen_by(authority: &Authority, view: &JobView, bytes_max: usize) -> proto::Job {
    let mut job = convert::job::job(view, bytes_max);
    if authority.sees_numbers() {
        convert::job::reveal(&mut job.notices, &view.notices);
    }
    as_allowed(authority, job)
}

/// A job as far as the caller may read it.
fn as_allowed(authority: &Authority, job: proto::Job) -> proto::Job {
    if authority.allows(Scope::Read) { job } else { convert::job::outline(job) }
}

/// A conflict names the field as the request does.
fn refused_submit(error: EngineError, submission: &Submission) -> Status {
    let job_id = submission.job_id.as_deref().unwrap_or_default();
    let error = match error {
        EngineError::Store(StoreError::JobIdConflict { key, field }) => {
            let field = convert::submission::differing_field(&field, submission);
            EngineError::Store(StoreError::JobIdConflict { key, field })
        }
        other @ (EngineError::Store(_) | EngineError::Invalid(_)) => other,
    };
    status::failed(error, &JobKey::new(job_id))
}

/// The form of a W3C traceparent; what it says is judged where it is linked.
fn is_traceparent(text: &str) -> bool {
    let is_hex = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    let lengths = text.split('-').map(str::len);
    lengths.eq([2, 32, 16, 2]) && text.bytes().all(|byte| byte == b'-' || is_hex(byte))
}
