//! TrainJob metrics (KEP-2899).
//!
//! Every name is exposed at every scrape, with its type, so that a dashboard finds it before the first TrainJob.

use std::fmt;

use muster_trainer::controller::metrics::{
    HistogramBuckets, MetricLabels, TrainJobHistogram, TrainJobSample, Value,
};
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;

/// The type of a metric.
#[derive(Clone, Copy)]
enum Kind {
    Counter,
    Gauge,
    Histogram(HistogramBuckets),
}

/// All metrics by name, with their HELP texts.
const FAMILIES: [(&str, Kind, &str); 7] = [
    (
        "trainjob_active_deadline_remaining_seconds",
        Kind::Gauge,
        "Time until the active deadline of a TrainJob; negative when it is exceeded",
    ),
    ("trainjob_deadline_exceeded_total", Kind::Counter, "TrainJobs that exceeded their active deadline"),
    ("trainjob_status", Kind::Gauge, "TrainJobs, by state"),
    (
        "trainjob_time_to_running_seconds",
        Kind::Histogram(HistogramBuckets::Waiting),
        "Time from the creation or last resumption of a TrainJob until pods were ready",
    ),
    (
        "trainjob_ttl_deletion_latency_seconds",
        Kind::Histogram(HistogramBuckets::Latency),
        "Time from the TTL expiry of a TrainJob until it was deleted",
    ),
    ("trainjob_ttl_deletions_total", Kind::Counter, "TrainJobs deleted after their TTL"),
    ("trainjob_ttl_pending_deletions", Kind::Gauge, "Finished TrainJobs whose TTL has not expired"),
];

/// Encodes all of them.
pub fn encode(into: &mut DescriptorEncoder<'_>, samples: &[TrainJobSample]) -> fmt::Result {
    FAMILIES.iter().try_for_each(|(name, kind, help)| {
        let mut of_it = samples.iter().filter(|it| it.name == *name);
        let none = TrainJobSample { name, labels: MetricLabels::new(), value: Value::Gauge(0.0) };
        match kind {
            Kind::Counter => {
                // The encoder appends `_total` to counters.
                let name = name.strip_suffix("_total").unwrap_or(name);
                encode_family(into.encode_descriptor(name, help, None, MetricType::Counter)?, of_it)
            }
            Kind::Gauge => encode_family(into.encode_descriptor(name, help, None, MetricType::Gauge)?, of_it),
            Kind::Histogram(bounds) => {
                let none = TrainJobSample { value: Value::Spans(TrainJobHistogram::new(*bounds)), ..none };
                let one = of_it.next_back().unwrap_or(&none);
                encode_family(
                    into.encode_descriptor(name, help, None, MetricType::Histogram)?,
                    [one].into_iter(),
                )
            }
        }
    })
}

/// Encodes the samples of one name.
fn encode_family<'a>(
    mut metric: MetricEncoder<'_>,
    family: impl Iterator<Item = &'a TrainJobSample>,
) -> fmt::Result {
    for sample in family {
        let labels: Vec<(&str, &str)> = sample.labels.iter().map(|(key, it)| (*key, it.as_str())).collect();
        // A family without labels would be encoded with empty braces.
        match labels[..] {
            [] => value(&sample.value, &mut metric)?,
            _ => value(&sample.value, &mut metric.encode_family(&labels)?)?,
        }
    }
    Ok(())
}

fn value(value: &Value, to: &mut MetricEncoder<'_>) -> fmt::Result {
    match value {
        Value::Count(n) => to.encode_counter::<NoLabelSet, _, u64>(n, None),
        Value::Gauge(n) => to.encode_gauge(n),
        Value::Spans(spans) => {
            to.encode_histogram::<NoLabelSet>(spans.sum.as_secs_f64(), spans.count(), &buckets(spans), None)
        }
    }
}

fn buckets(spans: &TrainJobHistogram) -> Vec<(f64, u64)> {
    let bounds = spans.bounds.millis().iter().map(|it| std::time::Duration::from_millis(*it).as_secs_f64());
    bounds.chain([f64::INFINITY]).zip(spans.counts.iter().copied()).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use muster_api::time::Time;
    use muster_trainer::controller::DeadlineClock;
    use muster_trainer::controller::metrics::{TrainJobMetrics, TrainJobObservation};
    use muster_tree::tree;
    use prometheus_client::encoding::text;

    use super::*;

    fn told(numbers: &TrainJobMetrics, now: i64) -> String {
        let samples = numbers.samples(Time(now * 1_000_000));
        let registry = muster_apiserver::http::metrics::SharedRegistry::default();
        super::super::collect(&registry, move |into| encode(into, &samples));
        let mut told = String::new();
        text::encode(&mut told, &registry.lock().unwrap()).unwrap();
        told
    }

    /// Shows: 2899-31, 2899-32, 2899-33, 2899-34, 2899-35.
    #[test]
    fn every_metric_has_its_name_and_labels() {
        let mut numbers = TrainJobMetrics::default();
        let namespace = || "ns".into();
        numbers.observe(&TrainJobObservation::DeadlineExceeded { namespace: namespace() });
        numbers.observe(&TrainJobObservation::TtlAccepted { namespace: namespace() });
        numbers.observe(&TrainJobObservation::TtlGone { late: Duration::from_millis(1500) });
        let created = "1970-01-01T00:00:00Z";
        let job = tree!({"metadata": {"name": "a", "namespace": "ns", "uid": "u", "creationTimestamp": created},
            "spec": {"runtimeRef": {"name": "torch"}, "activeDeadlineSeconds": 100}});
        numbers.observe_change(None, Some(&job), DeadlineClock::Auto, Time(0));
        let told = told(&numbers, 30);
        for want in [
            "# TYPE trainjob_ttl_deletions counter",
            "trainjob_ttl_deletions_total{namespace=\"ns\"} 1",
            "trainjob_deadline_exceeded_total{namespace=\"ns\"} 1",
            "# TYPE trainjob_ttl_deletion_latency_seconds histogram",
            "trainjob_ttl_deletion_latency_seconds_bucket{le=\"1.0\"} 0",
            "trainjob_ttl_deletion_latency_seconds_bucket{le=\"2.0\"} 1",
            "trainjob_ttl_deletion_latency_seconds_bucket{le=\"30.0\"} 1",
            "trainjob_ttl_deletion_latency_seconds_bucket{le=\"300.0\"} 1",
            "trainjob_ttl_deletion_latency_seconds_bucket{le=\"+Inf\"} 1",
            "trainjob_ttl_deletion_latency_seconds_sum 1.5",
            "trainjob_ttl_pending_deletions 0",
            "trainjob_active_deadline_remaining_seconds{name=\"a\",namespace=\"ns\"} 70",
            "trainjob_status{namespace=\"ns\",runtime=\"torch\",state=\"pending\"} 1",
            "trainjob_time_to_running_seconds_count 0",
        ] {
            assert!(told.contains(want), "{want} is not in\n{told}");
        }
        assert!(
            super::tests::told(&numbers, 103).contains("remaining_seconds{name=\"a\",namespace=\"ns\"} -3")
        );
    }

    #[test]
    fn names_are_exposed_before_the_first_trainjob() {
        let told = told(&TrainJobMetrics::default(), 0);
        for (name, ..) in FAMILIES {
            assert!(told.contains(&format!("# TYPE {} ", name.trim_end_matches("_total"))), "{name}");
        }
    }
}
