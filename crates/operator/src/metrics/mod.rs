//! Prometheus metrics of the controllers, the webhooks and the process, beside those of the API server.
//!
//! Values are collected at scrape time; nothing is counted here.

mod controllers;
mod process;
mod queueing;
mod training;
mod webhooks;

use std::fmt;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use muster_apiserver::http::metrics::SharedRegistry;
use muster_control::driver::RuntimeHealth;
use muster_control::metrics::DurationHistogram;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

use crate::OperatorStatus;
use process::ProcessMetrics;

/// A collector that calls a function at every scrape.
struct MetricsCollector<F>(F);

/// Registers the metrics of controllers that always run, and of this process.
pub fn register(registry: &SharedRegistry, health: impl Fn() -> RuntimeHealth + Send + Sync + 'static) {
    collect(registry, move |into| {
        controllers::encode(into, &health())?;
        process::encode(into, ProcessMetrics::read().as_ref())
    });
}

/// Registers the operator's metrics: its role, its controllers while it leads, its webhooks, and this process.
pub(crate) fn register_operator(registry: &SharedRegistry, state: Arc<OperatorStatus>) {
    collect(registry, move |into| {
        let health = state.health();
        let leads = u64::from(health.is_some());
        gauge(into, "muster_operator_leads", "Whether this replica holds the leader lease", leads)?;
        if let Some(health) = health {
            controllers::encode(into, &health)?;
        }
        webhooks::encode(into, &state.webhook_metrics.counts())?;
        process::encode(into, ProcessMetrics::read().as_ref())
    });
}

fn collect<F>(registry: &SharedRegistry, tell: F)
where
    F: Fn(&mut DescriptorEncoder<'_>) -> fmt::Result + Send + Sync + 'static,
{
    let mut registry = registry.lock().unwrap_or_else(PoisonError::into_inner);
    registry.register_collector(Box::new(MetricsCollector(tell)));
}

impl<F> fmt::Debug for MetricsCollector<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Numbers")
    }
}

impl<F> Collector for MetricsCollector<F>
where
    F: Fn(&mut DescriptorEncoder<'_>) -> fmt::Result + Send + Sync + 'static,
{
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        (self.0)(&mut encoder)
    }
}

fn counter(into: &mut DescriptorEncoder<'_>, name: &str, help: &str, value: u64) -> fmt::Result {
    ConstCounter::new(value).encode(into.encode_descriptor(name, help, None, MetricType::Counter)?)
}

fn gauge(into: &mut DescriptorEncoder<'_>, name: &str, help: &str, value: u64) -> fmt::Result {
    whole(value).encode(into.encode_descriptor(name, help, None, MetricType::Gauge)?)
}

fn whole(value: u64) -> ConstGauge {
    ConstGauge::new(i64::try_from(value).unwrap_or(i64::MAX))
}

/// One value for each set of labels.
type Labelled<'a, const N: usize, V> = ([(&'a str, &'a str); N], V);

fn each<'a, const N: usize, V>(
    into: &mut DescriptorEncoder<'_>,
    (name, help, kind): (&str, &str, MetricType),
    all: impl Iterator<Item = Labelled<'a, N, V>>,
    encode: impl Fn(V, MetricEncoder<'_>) -> fmt::Result,
) -> fmt::Result {
    let mut metric = into.encode_descriptor(name, help, None, kind)?;
    for (labels, value) in all {
        encode(value, metric.encode_family(&labels)?)?;
    }
    Ok(())
}

fn family<'a, const N: usize>(
    into: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    all: impl Iterator<Item = Labelled<'a, N, u64>>,
) -> fmt::Result {
    each(into, (name, help, MetricType::Counter), all, |value, to| ConstCounter::new(value).encode(to))
}

fn gauges<'a, const N: usize>(
    into: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    all: impl Iterator<Item = Labelled<'a, N, u64>>,
) -> fmt::Result {
    each(into, (name, help, MetricType::Gauge), all, |value, to| whole(value).encode(to))
}

/// Gauges of durations, in seconds.
fn seconds<'a, const N: usize>(
    into: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    all: impl Iterator<Item = Labelled<'a, N, Duration>>,
) -> fmt::Result {
    let encode = |value: Duration, to: MetricEncoder<'_>| ConstGauge::new(value.as_secs_f64()).encode(to);
    each(into, (name, help, MetricType::Gauge), all, encode)
}

fn histograms<'a, const N: usize>(
    into: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    all: impl Iterator<Item = Labelled<'a, N, &'a DurationHistogram>>,
) -> fmt::Result {
    each(into, (name, help, MetricType::Histogram), all, |waits, mut to| histogram(&mut to, waits))
}

fn waits(into: &mut DescriptorEncoder<'_>, name: &str, help: &str, waits: &DurationHistogram) -> fmt::Result {
    histogram(&mut into.encode_descriptor(name, help, None, MetricType::Histogram)?, waits)
}

fn histogram(to: &mut MetricEncoder<'_>, waits: &DurationHistogram) -> fmt::Result {
    // Counts are per bucket; the encoder adds them up.
    let bounds = DurationHistogram::bounds().map(|bound| bound.as_secs_f64()).chain([f64::INFINITY]);
    let buckets: Vec<(f64, u64)> = bounds.zip(waits.counts).collect();
    let count = waits.counts.iter().sum();
    to.encode_histogram::<NoLabelSet>(waits.sum.as_secs_f64(), count, &buckets, None)
}

#[cfg(test)]
mod tests {
    use muster_control::metrics::{RuntimeMetrics, WorkqueueMetrics};
    use prometheus_client::encoding::text;

    use super::*;

    #[test]
    fn every_metric_has_name_help_and_type() {
        let mut work = WorkqueueMetrics {
            adds: 5,
            done: 2,
            requeues: 1,
            errors: 1,
            depth: 1,
            ..WorkqueueMetrics::default()
        };
        work.work_duration.observe(Duration::from_millis(15));
        let counters = RuntimeMetrics {
            reconciles: 7,
            queue_len: 2,
            requests_by_verb: [(("create", "pods".into()), 3)].into(),
            writes_by_manager: [("job-controller".into(), 4)].into(),
            workqueues: [("jobset", work)].into(),
            ..RuntimeMetrics::default()
        };
        let registry = SharedRegistry::default();
        register(&registry, move || RuntimeHealth {
            running: true,
            synced: true,
            iterations: 1,
            metrics: counters.clone(),
        });
        let mut text = String::new();
        text::encode(&mut text, &registry.lock().unwrap()).unwrap();
        for want in [
            "# HELP muster_controller_plans Reconciliations",
            "# TYPE muster_controller_plans counter",
            "muster_controller_plans_total 7",
            "# TYPE muster_controller_queue_length gauge",
            "muster_controller_queue_length 2",
            "muster_controller_calls_total{verb=\"create\",resource=\"pods\"} 3",
            "muster_controller_writes_total{manager=\"job-controller\"} 4",
            "muster_controller_running 1",
            "controller_runtime_reconcile_total{controller=\"jobset\",result=\"success\"} 2",
            "controller_runtime_reconcile_total{controller=\"jobset\",result=\"requeue_after\"} 1",
            "controller_runtime_reconcile_total{controller=\"jobset\",result=\"error\"} 1",
            "controller_runtime_reconcile_errors_total{controller=\"jobset\"} 1",
            "controller_runtime_reconcile_time_seconds_bucket{le=\"0.02\",controller=\"jobset\"} 1",
            "controller_runtime_reconcile_time_seconds_bucket{le=\"+Inf\",controller=\"jobset\"} 1",
            "workqueue_depth{controller=\"jobset\",name=\"jobset\"} 1",
            "workqueue_adds_total{controller=\"jobset\",name=\"jobset\"} 5",
            "# TYPE process_resident_memory_bytes gauge",
        ] {
            assert!(text.contains(want), "{want} is not in\n{text}");
        }
    }
}
