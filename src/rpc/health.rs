//! The standard health service: `SERVING` from when the store is open until the server stops, else `NOT_SERVING`.
//!
//! It knows nothing but these two moments, so its answer and the server cannot disagree.
//! A watch of it ends with the stop, so that it never holds the server up.

use std::sync::Arc;

use futures::stream::{self, BoxStream, StreamExt as _};
use tokio::sync::SetOnce;
use tokio_util::sync::CancellationToken;
use tonic::server::NamedService as _;
use tonic::{Request, Response, Status};
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_server::Health as HealthService;
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};

use super::service::JobServer;

/// Health answers whether this server takes calls.
#[derive(Debug)]
pub struct Health {
    opened: Arc<SetOnce<()>>,
    stop: CancellationToken,
}

impl Health {
    /// Health between two moments.
    pub fn new(opened: Arc<SetOnce<()>>, stop: CancellationToken) -> Self {
        Self { opened, stop }
    }

    fn now(&self) -> HealthCheckResponse {
        let serving = self.opened.initialized() && !self.stop.is_cancelled();
        answer(if serving { ServingStatus::Serving } else { ServingStatus::NotServing })
    }
}

#[tonic::async_trait]
impl HealthService for Health {
    async fn check(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<HealthCheckResponse>, Status> {
        if is_known(request.get_ref()) {
            return Ok(Response::new(self.now()));
        }
        Err(Status::not_found("there is no service of that name"))
    }

    type WatchStream = BoxStream<'static, Result<HealthCheckResponse, Status>>;

    async fn watch(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        let (opened, stop) = (Arc::clone(&self.opened), self.stop.clone());
        // The protocol asks that a watch of an unknown service goes on, as it could become known.
        if !is_known(request.get_ref()) {
            let ended = stream::once(stop.cancelled_owned()).filter_map(async |()| None);
            let answers = stream::iter([Ok(answer(ServingStatus::ServiceUnknown))]).chain(ended);
            return Ok(Response::new(answers.boxed()));
        }
        let is_open = opened.initialized();
        let first = self.now();
        let opening = stream::once(async move {
            tokio::select! {
                biased;
                () = stop.cancelled() => None,
                () = opened.wait(), if !is_open => Some(answer(ServingStatus::Serving)),
            }
        });
        let stop = self.stop.clone();
        let stopped = stream::once(async move {
            stop.cancelled().await;
            Some(answer(ServingStatus::NotServing))
        });
        let later = opening.chain(stopped).filter_map(std::future::ready);
        let answers = stream::iter([first]).chain(later);
        Ok(Response::new(answers.map(Ok).boxed()))
    }
}

fn is_known(request: &HealthCheckRequest) -> bool {
    ["", JobServer::NAME].contains(&request.service.as_str())
}

fn answer(status: ServingStatus) -> HealthCheckResponse {
    HealthCheckResponse { status: status.into() }
}
