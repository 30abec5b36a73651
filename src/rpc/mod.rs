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

mod deadline;

mod place;

mod patience;

mod origin;

#[cfg(any(test, fuzzing))]
pub mod fuzz;

use std::sync::Arc;
use std::time::Duration;

use http::{HeaderName, Request};
use hyper::body::Incoming;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tonic::body::Body;
use tonic::codec::CompressionEncoding;
use tonic::service::Routes;
use tonic::service::interceptor::InterceptedService;
use tonic_health::pb::health_server::HealthServer;
use tonic_reflection::server::Builder;
use tonic_web::GrpcWebLayer;
use tower::{Layer as _, ServiceExt as _};

use crate::door::{self, GateLayer, Keyring, LimitLayer, Limits, Wire};
use crate::engine::Engine;
use convert::status;
use gate::GrpcFace;
use guard::GuardLayer;
use health::Health;
pub use origin::Origins;
use patience::Patience;
use service::{JobServer, JobService};

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
    /// How long a watcher may take nothing though there is something for it.
    pub watch_patience: Duration,
    /// From where browsers may come; nothing, if gRPC-Web is not spoken.
    pub web_origins: Option<Origins>,
}

impl Default for RpcSettings {
    fn default() -> Self {
        Self {
            request_timeout: Duration::from_secs(30),
            requests_max: door::REQUESTS_MAX,
            message_bytes_max: 4 << 20,
            key_header: None,
            watch_patience: Duration::from_mins(1),
            web_origins: None,
        }
    }
}

/// The largest message that is taken of anybody: the name of a service, or of what one would know of it.
const STRANGERS_BYTES_MAX: usize = 4 << 10;

/// Everything that is served, and what looks after it.
pub struct Served {
    routes: Routes,
    patience: Patience,
}

/// Everything that is served: the jobs as soon as the store is open, health, and reflection in both versions.
pub fn routes(engine: Engine, settings: &RpcSettings, stop: CancellationToken) -> Served {
    let opened = engine.store().opened();
    let patience = Patience::new(settings.watch_patience);
    let service = JobService::new(engine, settings, patience.clone(), stop.clone());
    let jobs = JobServer::new(service)
        .accept_compressed(CompressionEncoding::Gzip)
        .send_compressed(CompressionEncoding::Gzip)
        .max_decoding_message_size(settings.message_bytes_max);
    let health = Health::new(Arc::clone(&opened), stop);
    let jobs = InterceptedService::new(jobs, move |request| {
        if opened.initialized() { Ok(request) } else { Err(status::waiting()) }
    });
    let readable = "the descriptors were compiled into this program";
    let v1 = reflection().build_v1().expect(readable);
    let v1alpha = reflection().build_v1alpha().expect(readable);
    let routes = Routes::new(jobs)
        .add_service(HealthServer::new(health).max_decoding_message_size(STRANGERS_BYTES_MAX))
        .add_service(v1.max_decoding_message_size(STRANGERS_BYTES_MAX))
        .add_service(v1alpha.max_decoding_message_size(STRANGERS_BYTES_MAX))
        .prepare();
    Served { routes, patience }
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
    served: Served,
    settings: &RpcSettings,
    (keyring, limits): (Keyring, Limits),
    wire: Wire,
    stop: CancellationToken,
) {
    let Served { routes, patience } = served;
    let routes = LimitLayer::new(limits, GrpcFace).layer(routes);
    let routes = GateLayer::new(keyring, settings.key_header.clone(), GrpcFace).layer(routes);
    let routes = GuardLayer::new(settings).layer(routes);
    // Its end is the end of serving.
    let patient = patience.run(stop.clone());
    let served = async {
        if let Some(origins) = &settings.web_origins {
            let routes = GrpcWebLayer::new().layer(routes);
            door::serve(listener, origins.cors().layer(routes), wire, stop).await;
        } else {
            let routes = routes.map_request(|request: Request<Incoming>| request.map(Body::new));
            door::serve(listener, routes, wire, stop).await;
        }
    };
    tokio::join!(served, patient);
}
