//! The standard health service: `SERVING` until the server stops, `NOT_SERVING` from then on.
//!
//! It knows nothing but the stop, so its answer and the server cannot disagree.
//! A watch of it ends with the stop, so that it never holds the server up.

use futures::stream::{self, BoxStream, StreamExt as _};
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
    stop: CancellationToken,
}

impl Health {
    /// Health until a stop.
    pub fn new(stop: CancellationToken) -> Self {
        Self { stop }
    }

    fn now(&self) -> HealthCheckResponse {
        let stopping = self.stop.is_cancelled();
        answer(if stopping { ServingStatus::NotServing } else { ServingStatus::Serving })
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
        let stop = self.stop.clone();
        // The protocol asks that a watch of an unknown service goes on, as it could become known.
        let (first, last) = if is_known(request.get_ref()) {
            (self.now(), Some(answer(ServingStatus::NotServing)))
        } else {
            (answer(ServingStatus::ServiceUnknown), None)
        };
        let last = stream::once(async move {
            stop.cancelled().await;
            last
        });
        let answers = stream::iter([first]).chain(last.filter_map(std::future::ready));
        Ok(Response::new(answers.map(Ok).boxed()))
    }
}

fn is_known(request: &HealthCheckRequest) -> bool {
    ["", JobServer::NAME].contains(&request.service.as_str())
}

fn answer(status: ServingStatus) -> HealthCheckResponse {
    HealthCheckResponse { status: status.into() }
}
