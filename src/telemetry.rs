//! What the system tells its operators: logs to stderr and, where a collector is named, traces over OTLP.
//!
//! In: settings, mostly from the standard `OTEL_` environment. Out: the subscriber of this process.
//! A job outlives the process that took it, so its trace travels as a W3C traceparent: out with
//! `traceparent`, back in with `link`, and in from a caller with `accept`.
//! Without a collector nothing of OpenTelemetry is built, and these do nothing.

use std::{io::IsTerminal as _, str::FromStr, time::Duration};

use http::HeaderMap;
use opentelemetry::{
    Context,
    trace::{
        SpanContext, SpanId, TraceContextExt as _, TraceFlags, TraceId, TraceState,
        TracerProvider as _,
    },
};
use opentelemetry_otlp::WithExportConfig as _;
use opentelemetry_sdk::{Resource, trace::SdkTracerProvider};
use tracing::{Span, Subscriber};
use tracing_opentelemetry::OpenTelemetrySpanExt as _;
use tracing_subscriber::{
    EnvFilter, Layer, layer::SubscriberExt as _, registry::LookupSpan, util::SubscriberInitExt as _,
};

/// The filter where none is configured; sqlx says too much about each statement at info.
pub const DEFAULT_FILTER: &str = "info,h2=off,hyper=off,tonic=off,sqlx=warn";

/// Whose spans never leave: the exporter itself speaks through these, so each would make more.
const NEVER_EXPORTED: &str =
    "h2=off,hyper=off,hyper_util=off,tonic=off,tower=off,opentelemetry=off";

/// What prints the text of pages, and with it drafts, whatever the filter says.
const NEVER_TOLD: &str = "html5ever=off";

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
    /// The collector that takes traces over gRPC; `None` exports nothing.
    pub otlp_endpoint: Option<String>,
    pub service_name: String,
}

impl TelemetrySettings {
    /// Reads `RUST_LOG` and the standard `OTEL_` variables; an empty one counts as unset.
    ///
    /// Headers, certificates, resource attributes and sampling are read by the exporter itself.
    pub fn read(format: LogFormat, variable: impl Fn(&str) -> Option<String>) -> Self {
        let read = |name: &str| variable(name).filter(|value| !value.trim().is_empty());
        let is = |name: &str, value: &str| {
            read(name).is_some_and(|found| found.trim().eq_ignore_ascii_case(value))
        };
        let named = read("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
            .or_else(|| read("OTEL_EXPORTER_OTLP_ENDPOINT"))
            .or_else(|| {
                is("OTEL_TRACES_EXPORTER", "otlp").then(|| "http://localhost:4317".to_owned())
            });
        let off = is("OTEL_SDK_DISABLED", "true") || is("OTEL_TRACES_EXPORTER", "none");
        Self {
            filter: read("RUST_LOG").unwrap_or_else(|| DEFAULT_FILTER.to_owned()),
            format,
            otlp_endpoint: if off { None } else { named },
            service_name: read("OTEL_SERVICE_NAME").unwrap_or_else(|| "longhaul".to_owned()),
        }
    }
}

/// Why telemetry could not be started.
#[derive(Debug, thiserror::Error)]
pub enum TelemetryError {
    #[error("the log filter is not of the form `info,sqlx=warn`")]
    Filter(#[from] tracing_subscriber::filter::ParseError),
    #[error("the exporter of traces could not be built")]
    Exporter(#[from] opentelemetry_otlp::ExporterBuildError),
    #[error("this process has a subscriber already")]
    Subscriber(#[from] tracing_subscriber::util::TryInitError),
}

/// The telemetry of this process, which has to be flushed before it ends.
#[derive(Debug)]
pub struct Telemetry {
    provider: Option<SdkTracerProvider>,
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
        let filter = format!("{},{NEVER_TOLD}", settings.filter);
        let provider = settings.otlp_endpoint.as_ref().map(|_| provider(settings)).transpose()?;
        let traces = match &provider {
            Some(provider) => {
                let filter = format!("{filter},{NEVER_EXPORTED}");
                Some(trace_layer(provider).with_filter(EnvFilter::try_new(filter)?))
            }
            None => None,
        };
        tracing_subscriber::registry()
            .with(log.with_filter(EnvFilter::try_new(filter)?))
            .with(traces)
            .try_init()?;
        Ok(Self { provider })
    }

    /// Sends what has not been sent, for a few seconds at most.
    pub async fn flush(self) {
        let Some(provider) = self.provider else { return };
        // The exporter waits for its own thread, which must not block a thread of the runtime.
        let flush =
            tokio::task::spawn_blocking(move || provider.shutdown_with_timeout(FLUSH_TIMEOUT));
        match tokio::time::timeout(FLUSH_TIMEOUT * 2, flush).await {
            Ok(Ok(Ok(()))) => {}
            Ok(Ok(Err(error))) => tracing::warn!(%error, "the last traces were not sent"),
            Ok(Err(_)) | Err(_) => tracing::warn!("the last traces were not sent in time"),
        }
    }
}

fn provider(settings: &TelemetrySettings) -> Result<SdkTracerProvider, TelemetryError> {
    let mut exporter = opentelemetry_otlp::SpanExporter::builder().with_tonic();
    if let Some(endpoint) = &settings.otlp_endpoint {
        exporter = exporter.with_endpoint(endpoint);
    }
    let resource = Resource::builder().with_service_name(settings.service_name.clone()).build();
    Ok(SdkTracerProvider::builder()
        .with_batch_exporter(exporter.build()?)
        .with_resource(resource)
        .build())
}

fn trace_layer<S>(provider: &SdkTracerProvider) -> impl Layer<S> + use<S>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    tracing_opentelemetry::layer()
        .with_tracer(provider.tracer("longhaul"))
        .with_location(false)
        .with_threads(false)
        .with_tracked_inactivity(false)
}

/// The place of a span in its trace, to be stored or sent; `None` if it is not traced.
pub fn traceparent(span: &Span) -> Option<String> {
    let context = span.context();
    let span = context.span();
    let place = span.span_context();
    let flags = place.trace_flags() & TraceFlags::SAMPLED;
    let text = || format!("00-{}-{}-{:02x}", place.trace_id(), place.span_id(), flags.to_u8());
    place.is_valid().then(text)
}

/// Links a span to a stored place: what runs later is a trace of its own, and one click away.
///
/// Does nothing if the text is not a traceparent.
pub fn link(span: &Span, traceparent: &str) {
    if let Some(place) = find_place(traceparent, TraceState::NONE) {
        span.add_link(place);
    }
}

/// Makes a new span a child of the caller's, if the caller sent one valid traceparent.
pub fn accept(span: &Span, headers: &HeaderMap) {
    let mut sent = headers.get_all("traceparent").iter();
    let (Some(traceparent), None) = (sent.next(), sent.next()) else { return };
    let states: Vec<&str> =
        headers.get_all("tracestate").iter().filter_map(|state| state.to_str().ok()).collect();
    let state = TraceState::from_str(&states.join(",")).unwrap_or_default();
    if let Some(place) = traceparent.to_str().ok().and_then(|text| find_place(text, state)) {
        // It fails only where no layer exports, and then there is nothing to be a child in.
        let _ = span.set_parent(Context::new().with_remote_span_context(place));
    }
}

/// Reads `00-<32 hex>-<16 hex>-<2 hex>` as W3C wants it: lower case, no part of zeros, no version ff.
///
/// A later version may have more parts after these.
fn find_place(traceparent: &str, state: TraceState) -> Option<SpanContext> {
    let mut parts = traceparent.split('-');
    let mut part = |digits: usize| {
        let is_hex = |text: &&str| text.bytes().all(|c| matches!(c, b'0'..=b'9' | b'a'..=b'f'));
        parts.next().filter(|text| text.len() == digits).filter(is_hex)
    };
    let (version, trace, parent, flags) = (part(2)?, part(32)?, part(16)?, part(2)?);
    if version == "ff" || (version == "00" && parts.next().is_some()) {
        return None;
    }
    let flags = TraceFlags::new(u8::from_str_radix(flags, 16).ok()?) & TraceFlags::SAMPLED;
    let (trace, parent) = (TraceId::from_hex(trace).ok()?, SpanId::from_hex(parent).ok()?);
    Some(SpanContext::new(trace, parent, flags, true, state)).filter(SpanContext::is_valid)
}

#[cfg(test)]
mod tests {
    use opentelemetry_sdk::trace::{InMemorySpanExporter, SpanData};
    use tracing::info_span;

    use super::*;

    const CALLER: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    /// The spans that some work leaves behind.
    fn spans_of(work: impl FnOnce()) -> Vec<SpanData> {
        let exporter = InMemorySpanExporter::default();
        let provider = SdkTracerProvider::builder().with_simple_exporter(exporter.clone()).build();
        let filter = EnvFilter::new(DEFAULT_FILTER);
        let subscriber =
            tracing_subscriber::registry().with(trace_layer(&provider).with_filter(filter));
        tracing::subscriber::with_default(subscriber, work);
        provider.force_flush().unwrap();
        exporter.get_finished_spans().unwrap()
    }

    fn headers(lines: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            headers.append(*name, value.parse().unwrap());
        }
        headers
    }

    fn read(variables: &[(&str, &str)]) -> TelemetrySettings {
        TelemetrySettings::read(LogFormat::Text, |name| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn a_call_continues_the_trace_of_its_caller() {
        let spans = spans_of(|| {
            let span = info_span!("call");
            accept(&span, &headers(&[("traceparent", CALLER), ("tracestate", "a=1")]));
        });
        assert_eq!(spans[0].span_context.trace_id().to_string(), &CALLER[3..35]);
        assert_eq!(spans[0].parent_span_id.to_string(), &CALLER[36..52]);
        assert_eq!(spans[0].span_context.trace_state().get("a"), Some("1"));
    }

    #[test]
    fn an_attempt_is_a_trace_of_its_own_linked_to_the_submit() {
        let spans = spans_of(|| {
            let submit = info_span!("submit");
            let stored = traceparent(&submit).unwrap();
            drop(submit);
            link(&info_span!("attempt"), &stored);
        });
        let [submit, attempt] = spans.as_slice() else { panic!("two spans, not {spans:?}") };
        let link = &attempt.links.links[0].span_context;
        assert_eq!(link.trace_id(), submit.span_context.trace_id());
        assert_eq!(link.span_id(), submit.span_context.span_id());
        assert_ne!(attempt.span_context.trace_id(), submit.span_context.trace_id());
    }

    #[test]
    fn two_callers_are_none() {
        let spans = spans_of(|| {
            let span = info_span!("call");
            accept(&span, &headers(&[("traceparent", CALLER), ("traceparent", CALLER)]));
        });
        assert_eq!(spans[0].parent_span_id, SpanId::INVALID);
    }

    #[test]
    fn only_what_w3c_allows_is_a_traceparent() {
        let place = |text: &str| find_place(text, TraceState::NONE);
        assert!(place(CALLER).is_some_and(|place| place.is_sampled() && place.is_remote()));
        assert!(place(&format!("cc{}-more", &CALLER[2..])).is_some());
        let (start, end) = (&CALLER[..36], &CALLER[52..]);
        for wrong in [
            "",
            "00",
            &CALLER[..54],
            &format!("{CALLER}-"),
            &format!("{CALLER}-more"),
            &format!(" {CALLER}"),
            &format!("ff{}", &CALLER[2..]),
            &format!("cc{}0", &CALLER[2..]),
            &CALLER.to_uppercase(),
            &format!("00-{}-b7ad6b7169203331-01", "0".repeat(32)),
            &format!("{start}{}{end}", "0".repeat(16)),
            &format!("{start}+7ad6b7169203331{end}"),
            &format!("{start}é7ad6b716920333{end}"),
        ] {
            assert!(place(wrong).is_none(), "{wrong}");
        }
    }

    #[test]
    fn without_a_collector_there_is_nothing_to_pass_on() {
        let span = info_span!("alone");
        accept(&span, &headers(&[("traceparent", CALLER)]));
        link(&span, CALLER);
        assert_eq!(traceparent(&span), None);
    }

    #[test]
    fn the_standard_variables_are_understood() {
        assert_eq!(read(&[]).filter, DEFAULT_FILTER);
        assert_eq!(read(&[("OTEL_EXPORTER_OTLP_ENDPOINT", "")]).otlp_endpoint, None);
        let general = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://a:4317");
        let special = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://b:4317");
        assert_eq!(read(&[general]).otlp_endpoint.as_deref(), Some("http://a:4317"));
        assert_eq!(read(&[general, special]).otlp_endpoint.as_deref(), Some("http://b:4317"));
        assert_eq!(read(&[general, ("OTEL_TRACES_EXPORTER", "none")]).otlp_endpoint, None);
        assert_eq!(read(&[general, ("OTEL_SDK_DISABLED", "TRUE")]).otlp_endpoint, None);
        let usual = read(&[("OTEL_TRACES_EXPORTER", "otlp")]).otlp_endpoint;
        assert_eq!(usual.as_deref(), Some("http://localhost:4317"));
        assert_eq!(read(&[("OTEL_SERVICE_NAME", "queue")]).service_name, "queue");
    }
}
