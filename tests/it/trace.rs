//! Traces as a collector gets them, and what must be in no trace and no log.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use longhaul::rpc::proto::JobStatus;
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{
    TraceService, TraceServiceServer,
};
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::trace::v1::Span;
use tokio::net::TcpListener;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::{Request, Response, Status};

use crate::ask::{NOTE, asking, form, links};
use crate::harness::{PERSON, Rig};
use crate::program::{Program, SERVE};

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const COMMENT: &str = "Pleasantly worded.";

/// A collector that keeps what it gets.
#[derive(Clone, Default)]
pub struct Collector(Arc<Mutex<Vec<ExportTraceServiceRequest>>>);

#[tonic::async_trait]
impl TraceService for Collector {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        self.0.lock().unwrap().push(request.into_inner());
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

impl Collector {
    pub async fn start() -> (Self, SocketAddr) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let collector = Self::default();
        let service = TraceServiceServer::new(collector.clone());
        let serve = tonic::transport::Server::builder().add_service(service);
        tokio::spawn(serve.serve_with_incoming(TcpListenerStream::new(listener)));
        (collector, address)
    }

    fn spans(&self) -> Vec<Span> {
        let got = self.0.lock().unwrap();
        let scopes =
            got.iter().flat_map(|one| &one.resource_spans).flat_map(|one| &one.scope_spans);
        scopes.flat_map(|scope| &scope.spans).cloned().collect()
    }

    /// Everything it ever got, as text.
    pub fn text(&self) -> String {
        format!("{:?}", self.0.lock().unwrap())
    }
}

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").expect("a string takes everything");
        text
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn one_trace_shows_a_job_and_neither_traces_nor_logs_tell_its_secrets() {
    let rig = Rig::without_server(&[]).await;
    let (collector, address) = Collector::start().await;
    let mut variables = rig.variables().clone();
    for (name, value) in [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", format!("http://{address}")),
        ("OTEL_SERVICE_NAME", "queue-under-test".to_owned()),
        ("OTEL_BSP_SCHEDULE_DELAY", "100".to_owned()),
        ("RUST_LOG", "trace".to_owned()),
        ("LONGHAUL_MODEL_API_KEY", "sk-very-secret".to_owned()),
        ("LONGHAUL_WHATSAPP_TOKEN", "EAA-very-secret".to_owned()),
    ] {
        variables.insert(name.to_owned(), value);
    }
    let server = Program::start(&SERVE, &variables).await;
    let client = server.client();
    let mut submit = Request::new(asking("traced"));
    let parent = format!("00-{TRACE}-b7ad6b7169203331-01");
    submit.metadata_mut().insert("traceparent", parent.parse().unwrap());
    client.grpc.clone().submit_job(submit).await.unwrap();
    let asked = client.settled_as("traced", JobStatus::AwaitingApproval).await;
    let links = links(&rig.sandbox, PERSON, 1).await;
    let token = |link: &str| link.rsplit('/').next().unwrap().to_owned();
    let tokens = [token(&links.approve), token(&links.reject)];
    for link in [&links.approve, &links.reject] {
        assert_eq!(client.http.get(link).send().await.unwrap().status(), 200);
    }
    let press = form(&client, "traced", "approve", COMMENT).await;
    let kind = "application/x-www-form-urlencoded";
    let sent = client.http.post(&links.approve).header("content-type", kind).body(press);
    assert_eq!(sent.send().await.unwrap().status(), 303);
    client.settled_as("traced", JobStatus::Completed).await;
    rig.sandbox.messages(PERSON, 2).await;
    let log = server.stop().await;

    let spans = collector.spans();
    let names: BTreeSet<&str> = spans.iter().map(|span| span.name.as_str()).collect();
    let served = spans.iter().find(|span| span.name.contains("SubmitJob"));
    let served = served.unwrap_or_else(|| panic!("no span of the submit: {names:?}"));
    assert_eq!(hex(&served.trace_id), TRACE);
    let linked = |span: &&Span| span.links.iter().any(|link| hex(&link.trace_id) == TRACE);
    let attempt = spans.iter().find(linked);
    let attempt = attempt.unwrap_or_else(|| panic!("no attempt is linked: {names:?}"));
    assert!(attempt.name.contains("attempt"), "{}", attempt.name);
    assert!(names.iter().any(|name| name.contains("/approvals/{token}")), "{names:?}");

    let told = collector.text();
    assert!(told.contains("queue-under-test"));
    let prompt = "Write one line about a budgeting app.";
    let secrets = ["very-secret", prompt, NOTE, COMMENT, "15550100", &asked.output];
    for secret in secrets.into_iter().chain(tokens.iter().map(String::as_str)) {
        let found =
            told.find(secret).map(|at| &told[told.floor_char_boundary(at.saturating_sub(900))..at]);
        assert_eq!(found, None, "a trace tells {secret:?}");
        let line = log.lines().find(|line| line.contains(secret));
        assert_eq!(line, None, "the log tells {secret:?}");
    }
    assert!(log.contains("DEBUG"), "{log}");
}
