//! How PROGRAMS reach it: the gRPC face.
//!
//! In come calls over HTTP/2, out go the answers of the engine.
//! `routes` is what is served, `serve` is how; both end with the same stop.
//! Reflection tells clients everything, also how to read error details, so that grpcurl needs no proto file.

pub mod proto;

pub mod convert;

pub mod service;

pub mod watch;

mod delta;

mod delivery;

mod health;

mod guard;

mod gate;

mod connection;

#[cfg(any(test, fuzzing))]
pub mod fuzz;

use std::sync::Arc;
use std::time::Duration;

use http::HeaderName;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tonic::codec::CompressionEncoding;
use tonic::service::Routes;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::Server;
use tonic_health::pb::health_server::HealthServer;
use tonic_reflection::server::Builder;

use crate::door::{GateLayer, Keyring};
use crate::engine::Engine;
use convert::status;
use gate::GrpcFace;
use guard::GuardLayer;
use health::Health;
use service::{JobServer, JobService};

/// A peer that does not answer a ping for this long after it is gone.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(20);
const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(10);
/// The most calls of one connection at once.
const STREAMS_MAX: u32 = 1024;
/// How long a stop lets calls finish before their connections are cut.
const GRACE: Duration = Duration::from_secs(2);

/// What calls may ask of this server.
#[derive(Clone, Debug)]
pub struct RpcSettings {
    /// How long a call may take; a watch may take for ever, and a wait comes on top.
    pub request_timeout: Duration,
    /// How many calls may be in hand at once, and beside them how many watches.
    pub requests_max: usize,
    /// The largest request, in bytes.
    pub message_bytes_max: usize,
    /// A header that may hold a key, beside those that always may.
    pub key_header: Option<HeaderName>,
}

impl Default for RpcSettings {
    fn default() -> Self {
        Self {
            request_timeout: Duration::from_secs(30),
            requests_max: 4096,
            message_bytes_max: 4 << 20,
            key_header: None,
        }
    }
}

/// Everything that is served: the jobs as soon as the store is open, health, and reflection in both versions.
pub fn routes(engine: Engine, settings: &RpcSettings, stop: CancellationToken) -> Routes {
    let opened = engine.store().opened();
    let jobs = JobServer::new(JobService::new(engine, settings, stop.clone()))
        .accept_compressed(CompressionEncoding::Gzip)
        .send_compressed(CompressionEncoding::Gzip)
        .max_decoding_message_size(settings.message_bytes_max);
    let health = Health::new(Arc::clone(&opened), stop);
    let jobs = InterceptedService::new(jobs, move |request| {
        if opened.initialized() { Ok(request) } else { Err(status::waiting()) }
    });
    let readable = "the descriptors were compiled into this program";
    Routes::new(jobs)
        .add_service(HealthServer::new(health))
        .add_service(reflection().build_v1().expect(readable))
        .add_service(reflection().build_v1alpha().expect(readable))
        .prepare()
}

/// The descriptors that both versions of reflection tell; grpcurl knows only those of the version it uses.
fn reflection() -> Builder<'static> {
    Builder::configure()
        .register_encoded_file_descriptor_set(proto::FILE_DESCRIPTOR_SET)
        .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
        .register_encoded_file_descriptor_set(tonic_types::pb::FILE_DESCRIPTOR_SET)
}

/// Serves until the stop, and then for as long as calls take to finish, but not longer than two seconds.
pub async fn serve(
    listener: TcpListener,
    routes: Routes,
    settings: &RpcSettings,
    keyring: Keyring,
    stop: CancellationToken,
) -> Result<(), tonic::transport::Error> {
    let cut = CancellationToken::new();
    // Connections live in tasks of their own, which must not outlive this future either.
    let _cut_when_dropped = cut.clone().drop_guard();
    let served = Server::builder()
        .http2_keepalive_interval(Some(KEEPALIVE_INTERVAL))
        .http2_keepalive_timeout(Some(KEEPALIVE_TIMEOUT))
        .max_concurrent_streams(STREAMS_MAX)
        .layer(GuardLayer::new(settings))
        .layer(GateLayer::new(keyring, settings.key_header.clone(), GrpcFace))
        .add_routes(routes)
        .serve_with_incoming_shutdown(
            connection::accept(listener, cut.clone()),
            stop.clone().cancelled_owned(),
        );
    let cut_late = async {
        stop.cancelled().await;
        tokio::time::sleep(GRACE).await;
        cut.cancel();
    };
    tokio::pin!(served);
    tokio::select! {
        served = &mut served => return served,
        () = cut_late => {}
    }
    // The cut ends the connections, and that ends this.
    served.await
}
