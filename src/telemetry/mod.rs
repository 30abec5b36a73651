//! What the system tells its operators: logs to stderr and, where a collector is named, traces and metrics over OTLP.
//!
//! In: settings, mostly from the standard `OTEL_` environment. Out: the subscriber of this process.
//! Traces are spans, in `trace`; metrics are events with the target `METRIC`, in `metric`, and neither in the log nor in traces.
//! Without a collector nothing of OpenTelemetry is built, and an event of a metric is not even made.

mod filter;

mod trace;

mod metric;

use std::io::IsTerminal as _;
use std::time::Duration;

use opentelemetry::{Key, KeyValue};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::metrics::SdkMeterProvider;
use opentelemetry_sdk::trace::SdkTracerProvider;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer as _};

pub use metric::METRIC;
pub use trace::{accept, link, traceparent};

/// The filter where none is configured; sqlx says too much about each statement at info.
pub const DEFAULT_FILTER: &str = "info,h2=off,hyper=off,tonic=off,sqlx=warn";

/// Whose spans never leave: the exporter itself speaks through these, so each would make more.
const NEVER_EXPORTED: &str =
    "h2=off,hyper=off,hyper_util=off,tonic=off,tower=off,opentelemetry=off";

/// What no log and no trace shows, whatever the filter says: the text of pages, and with it drafts; and metrics.
const NEVER_TOLD: &str = "html5ever=off,longhaul::metric=off";

/// Where a collector is, if it is on and nobody says where.
const USUAL_ENDPOINT: &str = "http://localhost:4317";

/// How long a stop waits for a collector.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(5);

/// How a line of the log looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One object a line.
    Json,
}

/// What is told, how, and to whom.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TelemetrySettings {
    /// In the form of `RUST_LOG`.
    pub filter: String,
    pub format: LogFormat,
    /// The collector that takes traces over gRPC; `None` exports none.
    pub traces_endpoint: Option<String>,
    /// The collector that takes metrics over gRPC; `None` exports none.
    pub metrics_endpoint: Option<String>,
    pub service_name: String,
}

impl TelemetrySettings {
    /// Reads `RUST_LOG` and the standard `OTEL_` variables; an empty one counts as unset.
    ///
    /// Headers, certificates, resource attributes, sampling and intervals are read by the exporter itself.
    pub fn read(format: LogFormat, variable: impl Fn(&str) -> Option<String>) -> Self {
        let read = |name: &str| variable(name).filter(|value| !value.trim().is_empty());
        let is = |name: &str, value: &str| {
            read(name).is_some_and(|found| found.trim().eq_ignore_ascii_case(value))
        };
        let endpoint = |special: &str, exporter: &str| {
            let off = is("OTEL_SDK_DISABLED", "true") || is(exporter, "none");
            let named = read(special).or_else(|| read("OTEL_EXPORTER_OTLP_ENDPOINT"));
            let usual = || is(exporter, "otlp").then(|| USUAL_ENDPOINT.to_owned());
            named.or_else(usual).filter(|_| !off)
        };
        Self {
            filter: read("RUST_LOG").unwrap_or_else(|| DEFAULT_FILTER.to_owned()),
            format,
            traces_endpoint: endpoint("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_TRACES_EXPORTER"),
            metrics_endpoint: endpoint(
                "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT",
                "OTEL_METRICS_EXPORTER",
            ),
            service_name: read("OTEL_SERVICE_NAME").unwrap_or_else(|| "longhaul".to_owned()),
        }
    }
}

impl TelemetrySettings {
    /// Whether the filter is of the form that one has.
    pub fn has_good_filter(&self) -> bool {
        EnvFilter::try_new(&self.filter).is_ok()
    }
}

/// Why telemetry could not be started.
#[derive(Debug, thiserror::Error)]
pub enum TelemetryError {
    #[error("the log filter is not of the form `info,sqlx=warn`")]
    Filter(#[from] tracing_subscriber::filter::ParseError),
    #[error("the exporter of traces or metrics could not be built")]
    Exporter(#[from] opentelemetry_otlp::ExporterBuildError),
    #[error("this process has a subscriber already")]
    Subscriber(#[from] tracing_subscriber::util::TryInitError),
}

/// The telemetry of this process, which has to be flushed before it ends.
#[derive(Debug)]
pub struct Telemetry {
    traces: Option<SdkTracerProvider>,
    metrics: Option<SdkMeterProvider>,
}

impl Telemetry {
    /// Installs the subscriber of this process; with a collector, inside a tokio runtime.
    pub fn start(settings: &TelemetrySettings) -> Result<Self, TelemetryError> {
        let log = match settings.format {
            LogFormat::Text => tracing_subscriber::fmt::layer()
                .with_writer(std::io::stderr)
                .with_ansi(std::io::stderr().is_terminal())
                .boxed(),
            LogFormat::Json => {
                tracing_subscriber::fmt::layer().json().with_writer(std::io::stderr).boxed()
            }
        };
        let filter = filter::bounded(&settings.filter);
        let resource = resource(settings);
        let traces = settings.traces_endpoint.as_deref();
        let traces = traces.map(|at| trace::provider(at, resource.clone())).transpose()?;
        let metrics = settings.metrics_endpoint.as_deref();
        let metrics = metrics.map(|at| metric::provider(at, resource)).transpose()?;
        let trace_layer = match &traces {
            Some(provider) => {
                let filter = format!("{filter},{NEVER_EXPORTED}");
                Some(trace::layer(provider).with_filter(EnvFilter::try_new(filter)?))
            }
            None => None,
        };
        tracing_subscriber::registry()
            .with(log.with_filter(EnvFilter::try_new(filter)?))
            .with(trace_layer)
            .with(metrics.as_ref().map(metric::layer))
            .try_init()?;
        Ok(Self { traces, metrics })
    }

    /// Sends what has not been sent, for a few seconds at most.
    pub async fn flush(self) {
        let Self { traces, metrics } = self;
        if traces.is_none() && metrics.is_none() {
            return;
        }
        // The exporters wait for threads of their own, which must not block a thread of the runtime.
        let traces = tokio::task::spawn_blocking(move || {
            traces.map_or(Ok(()), |provider| provider.shutdown_with_timeout(FLUSH_TIMEOUT))
        });
        let metrics = tokio::task::spawn_blocking(move || {
            metrics.map_or(Ok(()), |provider| provider.shutdown_with_timeout(FLUSH_TIMEOUT))
        });
        let flushed = async { tokio::join!(traces, metrics) };
        let Ok((traces, metrics)) = tokio::time::timeout(FLUSH_TIMEOUT * 2, flushed).await else {
            tracing::warn!("the last traces and metrics were not sent in time");
            return;
        };
        for (what, flushed) in [("traces", traces), ("metrics", metrics)] {
            match flushed {
                Ok(Ok(())) => {}
                Ok(Err(error)) => tracing::warn!(%error, "the last {what} were not sent"),
                Err(error) => tracing::warn!(%error, "the last {what} were not sent"),
            }
        }
    }
}

/// Who tells it; two servers are told apart by an id that is fresh per boot, unless the environment names one.
fn resource(settings: &TelemetrySettings) -> Resource {
    let id = Key::from_static_str("service.instance.id");
    let resource = Resource::builder().with_service_name(settings.service_name.clone());
    let built = resource.build();
    if built.get_ref(&id).is_some() {
        return built;
    }
    let own = KeyValue::new(id, uuid::Uuid::new_v4().to_string());
    Resource::builder().with_service_name(settings.service_name.clone()).with_attribute(own).build()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> TelemetrySettings {
        TelemetrySettings::read(LogFormat::Text, |name| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn the_standard_variables_are_understood() {
        assert_eq!(read(&[]).filter, DEFAULT_FILTER);
        assert_eq!(read(&[("OTEL_SERVICE_NAME", "queue")]).service_name, "queue");
        let general = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://a:4317");
        let special = [
            ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://b:4317"),
            ("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "http://c:4317"),
        ];
        let usual = [("OTEL_TRACES_EXPORTER", "otlp"), ("OTEL_METRICS_EXPORTER", "OTLP")];
        let off = [("OTEL_TRACES_EXPORTER", "none"), ("OTEL_METRICS_EXPORTER", "none")];
        for (variables, traces, metrics) in [
            (vec![], "", ""),
            (vec![("OTEL_EXPORTER_OTLP_ENDPOINT", " ")], "", ""),
            (vec![general], "http://a:4317", "http://a:4317"),
            (vec![general, special[0]], "http://b:4317", "http://a:4317"),
            (vec![general, special[1]], "http://a:4317", "http://c:4317"),
            (vec![general, off[0]], "", "http://a:4317"),
            (vec![general, off[1]], "http://a:4317", ""),
            (vec![general, ("OTEL_SDK_DISABLED", "TRUE")], "", ""),
            (vec![usual[0]], USUAL_ENDPOINT, ""),
            (vec![usual[1]], "", USUAL_ENDPOINT),
        ] {
            let settings = read(&variables);
            let told = [settings.traces_endpoint, settings.metrics_endpoint];
            assert_eq!(told.map(Option::unwrap_or_default), [traces, metrics], "{variables:?}");
        }
    }
}
