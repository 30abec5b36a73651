//! Traces: one shows a job from its submit to its end, across processes and crashes.
//!
//! A job outlives the process that took it, so its trace travels as a W3C traceparent: out with
//! `traceparent`, back in with `link`, and in from a caller with `accept`.
//! Without a collector these do nothing.

use std::str::FromStr as _;

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
use tracing_subscriber::{Layer, registry::LookupSpan};

use super::TelemetryError;

/// Exports to a collector, from inside a tokio runtime.
pub(super) fn provider(
    endpoint: &str,
    resource: Resource,
) -> Result<SdkTracerProvider, TelemetryError> {
    let exporter = opentelemetry_otlp::SpanExporter::builder().with_tonic().with_endpoint(endpoint);
    let provider = SdkTracerProvider::builder().with_batch_exporter(exporter.build()?);
    Ok(provider.with_resource(resource).build())
}

/// What turns spans into traces.
pub(super) fn layer<S>(provider: &SdkTracerProvider) -> impl Layer<S> + use<S>
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
    use tracing_subscriber::layer::SubscriberExt as _;
    use tracing_subscriber::{EnvFilter, Layer as _};

    use super::*;
    use crate::telemetry::DEFAULT_FILTER;

    const CALLER: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    /// The spans that some work leaves behind.
    fn spans_of(work: impl FnOnce()) -> Vec<SpanData> {
        let exporter = InMemorySpanExporter::default();
        let provider = SdkTracerProvider::builder().with_simple_exporter(exporter.clone()).build();
        let filter = EnvFilter::new(DEFAULT_FILTER);
        let subscriber = tracing_subscriber::registry().with(layer(&provider).with_filter(filter));
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
}
