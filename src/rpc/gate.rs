//! What the gate has to know of the gRPC face: which method a request calls, and how it is refused.

use http::{Request, Response};
use tonic::body::Body;
use tonic::server::NamedService as _;

use super::convert::status;
use super::service::JobServer;
use crate::door::table::{Need, need_of_rpc};
use crate::door::{Face, Refusal, Shed};

/// The gRPC face, as the gate sees it.
#[derive(Clone, Copy, Debug)]
pub struct GrpcFace;

impl Face for GrpcFace {
    type Body = Body;

    fn need<B>(&self, request: &Request<B>) -> Need {
        let path = request.uri().path();
        let named = path.strip_prefix('/').and_then(|path| path.split_once('/'));
        match named {
            Some((JobServer::NAME, method)) => need_of_rpc(method),
            // Health and reflection tell nothing of any job.
            Some(_) | None => Need::Nothing,
        }
    }

    fn is_watch<B>(&self, request: &Request<B>) -> bool {
        request.uri().path().ends_with("/WatchJob")
    }

    fn refuse(&self, refusal: &Refusal) -> Response<Body> {
        status::not_let_in(refusal).into_http()
    }

    fn shed(&self, shed: Shed) -> Response<Body> {
        status::shed(shed).into_http()
    }
}
