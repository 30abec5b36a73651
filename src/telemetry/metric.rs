//! Metrics: any layer tells one by `event!(target: METRIC, Level::TRACE, gauge.longhaul.jobs = 3_u64)`.
//!
//! The first part of a field is the kind: `gauge`, `monotonic_counter` or `histogram`; the rest is the name, its unit last.
//! Whole numbers are `u64` and the others `f64`, always the same for one name; all other fields are attributes.
//! An attribute has few values: never an id of a job, and no word of its people or its model.

use opentelemetry_otlp::WithExportConfig as _;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::metrics::{
    Aggregation, Instrument, InstrumentKind, SdkMeterProvider, Stream,
};
use tracing::{Metadata, Subscriber};
use tracing_opentelemetry::MetricsLayer;
use tracing_subscriber::{Layer, filter::filter_fn, registry::LookupSpan};

use super::TelemetryError;

/// The target of events that are metrics.
pub const METRIC: &str = "longhaul::metric";

/// From a claim, in milliseconds, to a step that searches for an hour.
const SECONDS: [f64; 16] = [
    0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3600.0,
];

/// Exports to a collector every minute, or as `OTEL_METRIC_EXPORT_INTERVAL` says, from inside a tokio runtime.
pub(super) fn provider(
    endpoint: &str,
    resource: Resource,
) -> Result<SdkMeterProvider, TelemetryError> {
    let exporter =
        opentelemetry_otlp::MetricExporter::builder().with_tonic().with_endpoint(endpoint);
    let provider = SdkMeterProvider::builder().with_periodic_exporter(exporter.build()?);
    Ok(provider.with_resource(resource).with_view(view).build())
}

/// What turns events into metrics, whatever is logged.
pub(super) fn layer<S>(provider: &SdkMeterProvider) -> impl Layer<S> + use<S>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    let is_metric = |event: &Metadata<'_>| event.target() == METRIC;
    MetricsLayer::new(provider.clone()).with_filter(filter_fn(is_metric))
}

/// The unit is the end of the name, and what takes time is told apart from milliseconds to an hour.
fn view(instrument: &Instrument) -> Option<Stream> {
    let unit = match instrument.name().rsplit(['.', '_']).next() {
        Some("seconds") => "s",
        Some("usd") => "USD",
        _ => return None,
    };
    let mut stream = Stream::builder().with_unit(unit);
    if instrument.kind() == InstrumentKind::Histogram {
        let boundaries = SECONDS.to_vec();
        let buckets = Aggregation::ExplicitBucketHistogram { boundaries, record_min_max: true };
        stream = stream.with_aggregation(buckets);
    }
    stream.build().ok()
}

#[cfg(test)]
mod tests {
    use opentelemetry_sdk::metrics::InMemoryMetricExporter;
    use opentelemetry_sdk::metrics::data::{
        AggregatedMetrics, Metric, MetricData, ResourceMetrics, ScopeMetrics, SumDataPoint,
    };
    use tracing::Level;
    use tracing_subscriber::EnvFilter;
    use tracing_subscriber::layer::SubscriberExt as _;

    use super::*;
    use crate::telemetry::NEVER_TOLD;

    /// The metrics that some work leaves behind, beside a log that wants to hear of everything but spans.
    fn metrics_of(work: impl FnOnce()) -> Vec<(String, String, String)> {
        let exporter = InMemoryMetricExporter::default();
        let provider = SdkMeterProvider::builder().with_periodic_exporter(exporter.clone());
        let provider = provider.with_view(view).build();
        let log = tracing_subscriber::fmt::layer().with_writer(std::io::sink);
        let log = log.with_filter(EnvFilter::new(format!("off,{NEVER_TOLD}")));
        let subscriber = tracing_subscriber::registry().with(log).with(layer(&provider));
        tracing::subscriber::with_default(subscriber, work);
        provider.force_flush().unwrap();
        let exported = exporter.get_finished_metrics().unwrap();
        let scopes = exported.last().into_iter().flat_map(ResourceMetrics::scope_metrics);
        let told = scopes
            .flat_map(ScopeMetrics::metrics)
            .map(|metric| (metric.name().to_owned(), metric.unit().to_owned(), values(metric)));
        let mut told: Vec<_> = told.collect();
        told.sort();
        told
    }

    fn values(metric: &Metric) -> String {
        if let AggregatedMetrics::U64(MetricData::Sum(sum)) = metric.data() {
            return sum.data_points().map(SumDataPoint::value).sum::<u64>().to_string();
        }
        if let AggregatedMetrics::F64(MetricData::Gauge(gauge)) = metric.data() {
            return gauge.data_points().map(|point| point.value().to_string()).collect();
        }
        let AggregatedMetrics::F64(MetricData::Histogram(histogram)) = metric.data() else {
            panic!("an unexpected kind of metric: {metric:?}");
        };
        let buckets = histogram.data_points().map(|point| {
            let counts: Vec<u64> = point.bucket_counts().collect();
            format!("{} {counts:?}", point.sum())
        });
        buckets.collect()
    }

    #[test]
    fn an_event_is_a_metric_whatever_is_logged() {
        let told = metrics_of(|| {
            tracing::event!(target: METRIC, Level::TRACE, gauge.test.a.age_seconds = 0.5);
            tracing::event!(target: METRIC, Level::TRACE, gauge.test.a.age_seconds = 0.4);
            for _ in 0..2 {
                tracing::event!(target: METRIC, Level::TRACE, monotonic_counter.test.b = 3_u64);
            }
            tracing::event!(target: METRIC, Level::TRACE, histogram.test.c.seconds = 0.02);
            tracing::event!(target: METRIC, Level::TRACE, histogram.test.c.seconds = 4000.0);
            tracing::event!(target: "longhaul::other", Level::ERROR, gauge.test.d = 1_u64);
        });
        let told: Vec<_> = told.iter().map(|(name, unit, value)| [name, unit, value]).collect();
        assert_eq!(
            told,
            [
                ["test.a.age_seconds", "s", "0.4"],
                ["test.b", "", "6"],
                [
                    "test.c.seconds",
                    "s",
                    "4000.02 [0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]"
                ],
            ]
        );
    }

    #[test]
    fn nobody_makes_a_metric_that_nobody_takes() {
        let listens = || tracing::event_enabled!(target: METRIC, Level::TRACE, gauge.longhaul.jobs);
        let log = tracing_subscriber::fmt::layer().with_writer(std::io::sink);
        let log = log.with_filter(EnvFilter::new(format!("trace,{NEVER_TOLD}")));
        let alone = tracing_subscriber::registry().with(log);
        assert!(!tracing::subscriber::with_default(alone, listens));
        let provider = SdkMeterProvider::default();
        let with_metrics = tracing_subscriber::registry().with(layer(&provider));
        assert!(tracing::subscriber::with_default(with_metrics, || {
            tracing::event_enabled!(target: METRIC, Level::TRACE, gauge.longhaul.jobs)
        }));
    }
}
