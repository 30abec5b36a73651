//! Metrics as a collector gets them: their names, values, units and attributes, and what none of them tells.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use longhaul::engine::gauge::Gauger;
use longhaul::rpc::proto::JobStatus;
use longhaul::store::{Store, StoreSettings};
use opentelemetry_proto::tonic::collector::metrics::v1::metrics_service_server::{
    MetricsService, MetricsServiceServer,
};
use opentelemetry_proto::tonic::collector::metrics::v1::{
    ExportMetricsServiceRequest, ExportMetricsServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::number_data_point;
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::{Request, Response, Status};

use crate::ask::{NOTE, asking};
use crate::harness::{PATIENCE, PERSON, Rig, job, pause, run, wait};
use crate::program::{Program, SERVE};

/// A collector that keeps what it gets.
#[derive(Clone, Default)]
struct Collector {
    got: Arc<Mutex<Vec<ExportMetricsServiceRequest>>>,
    arrived: Arc<Notify>,
}

#[tonic::async_trait]
impl MetricsService for Collector {
    async fn export(
        &self,
        request: Request<ExportMetricsServiceRequest>,
    ) -> Result<Response<ExportMetricsServiceResponse>, Status> {
        self.got.lock().unwrap().push(request.into_inner());
        self.arrived.notify_one();
        Ok(Response::new(ExportMetricsServiceResponse::default()))
    }
}

impl Collector {
    async fn start() -> (Self, SocketAddr) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let collector = Self::default();
        let service = MetricsServiceServer::new(collector.clone());
        let serve = tonic::transport::Server::builder().add_service(service);
        tokio::spawn(serve.serve_with_incoming(TcpListenerStream::new(listener)));
        (collector, address)
    }

    /// Unit and last value of each gauge, by its name and its attributes.
    fn gauges(&self) -> BTreeMap<String, (String, f64)> {
        let got = self.got.lock().unwrap();
        let resources = got.iter().flat_map(|one| &one.resource_metrics);
        let metrics = resources.flat_map(|one| &one.scope_metrics).flat_map(|scope| &scope.metrics);
        let mut gauges = BTreeMap::new();
        for metric in metrics {
            let Some(Data::Gauge(gauge)) = &metric.data else { continue };
            for point in &gauge.data_points {
                let attributes = point.attributes.iter().map(|attribute| {
                    let value = attribute.value.as_ref().and_then(|value| value.value.as_ref());
                    let Some(Value::StringValue(value)) = value else { panic!("{attribute:?}") };
                    format!(" {}={value}", attribute.key)
                });
                let name = metric.name.clone() + &attributes.collect::<String>();
                let value = match point.value {
                    Some(number_data_point::Value::AsDouble(value)) => value,
                    Some(number_data_point::Value::AsInt(value)) => value as f64,
                    None => panic!("{metric:?}"),
                };
                gauges.insert(name, (metric.unit.clone(), value));
            }
        }
        gauges
    }

    /// Waits until a gauge has arrived.
    async fn wait_for(&self, name: &str) {
        let look = async {
            while !self.gauges().contains_key(name) {
                self.arrived.notified().await;
            }
        };
        let found = tokio::time::timeout(PATIENCE, look).await;
        found.unwrap_or_else(|_| panic!("{name} is not among {:?}", self.gauges()));
    }
}

/// A job of every status that is not terminal, and some that are.
async fn every_status(rig: &Rig) {
    rig.sandbox.hold("long line").await;
    rig.submit(job("worked-on", [run("Write a long line.")])).await;
    rig.sandbox.wait_for("long line", "held", 1).await;
    for job_id in ["parked-1", "parked-2", "held"] {
        rig.submit(job(job_id, [wait(3600)])).await;
    }
    rig.control("held", pause()).await;
    rig.submit(asking("asking")).await;
    rig.settled_as("asking", JobStatus::AwaitingApproval).await;
    for job_id in ["done-1", "done-2", "done-3"] {
        rig.submit(job(job_id, [run("Write a short line.")])).await;
        rig.settled_as(job_id, JobStatus::Completed).await;
    }
    let sent = "select bool_and(delivery = 'sent') and $1 <> '' from longhaul.outbox";
    rig.db.wait_until(sent, "asking").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collector_gets_how_much_is_where_and_nothing_that_is_nobodys_business() {
    let rig = Rig::start().await;
    every_status(&rig).await;
    rig.db.shift_clock(60).await;
    let (collector, address) = Collector::start().await;
    let mut variables = rig.variables().clone();
    for (name, value) in [
        ("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", format!("http://{address}")),
        ("OTEL_METRIC_EXPORT_INTERVAL", "100".to_owned()),
        ("OTEL_SERVICE_NAME", "queue-under-test".to_owned()),
        ("RUST_LOG", "trace,h2=trace,hyper=trace,tokio_util=trace".to_owned()),
        ("LONGHAUL_DAILY_BUDGET_USD", "100".to_owned()),
    ] {
        variables.insert(name.to_owned(), value);
    }
    let server = Program::start(&SERVE, &variables).await;
    for name in ["longhaul.transaction.age_seconds", "longhaul.budget.left_usd"] {
        collector.wait_for(name).await;
    }
    let log = server.stop().await;

    let gauges = collector.gauges();
    for (status, count) in [
        ("queued", 0.0),
        ("parked", 2.0),
        ("running", 1.0),
        ("awaiting_approval", 1.0),
        ("paused", 1.0),
    ] {
        let told = &gauges[&format!("longhaul.jobs status={status}")];
        assert_eq!(told, &(String::new(), count), "{status}");
    }
    assert_eq!(gauges["longhaul.approval.pending"], (String::new(), 1.0));
    assert_eq!(gauges["longhaul.outbox.pending"], (String::new(), 0.0));
    assert_eq!(gauges["longhaul.budget.left_usd"], ("USD".to_owned(), 100.0));
    let (unit, age) = &gauges["longhaul.approval.age_seconds"];
    assert!(unit == "s" && (60.0..120.0).contains(age), "{age} {unit}");
    for name in ["longhaul.queue.age_seconds", "longhaul.outbox.age_seconds"] {
        assert_eq!(gauges[name], ("s".to_owned(), 0.0), "{name}");
    }
    let told = format!("{:?}", collector.got.lock().unwrap());
    for part in ["queue-under-test", "service.instance.id"] {
        assert!(told.contains(part), "{told}");
    }
    for secret in ["worked-on", "parked-1", "asking", "line", NOTE, &PERSON[1..], "sandbox"] {
        assert!(!told.contains(secret), "a metric tells {secret}: {told}");
    }
    assert!(log.contains("TRACE"), "{log}");
    let shown = log.lines().find(|line| line.contains("longhaul::metric"));
    assert_eq!(shown, None, "a metric is no line of the log");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_age_of_the_queue_is_that_of_the_oldest_job_that_could_be_claimed() {
    let rig = Rig::start_with(&[("LONGHAUL_SLOTS", "1")]).await;
    let database_url = rig.db.url.clone().into();
    let settings = StoreSettings { database_url, direct_url: None, connections_max: 2 };
    let gauger = Gauger::new(Store::connect(&settings).await.unwrap());
    let first = gauger.run_once().await.unwrap();
    assert_eq!(first.queued.count + first.parked + first.running + first.paused, 0);
    rig.sandbox.hold("line").await;
    rig.submit(job("first", [run("Write a line.")])).await;
    rig.sandbox.wait_for("line", "held", 1).await;
    rig.submit(job("second", [run("Write a line.")])).await;
    rig.db.shift_clock(100).await;
    rig.submit(job("third", [run("Write a line.")])).await;
    let mut open = rig.db.pool.begin().await.unwrap();
    sqlx::query("select 1").execute(&mut *open).await.unwrap();
    let gauges = gauger.run_once().await.unwrap();
    assert_eq!((gauges.running, gauges.queued.count), (1, 2));
    let age = Duration::from_secs_f64(gauges.queued.age_seconds);
    assert!((100..110).contains(&age.as_secs()), "{age:?}");
    assert!(gauges.transaction_age_seconds > 0.0, "{gauges:?}");
    drop(open);
}
