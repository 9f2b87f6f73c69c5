//! Numbers for `/metrics`, beside those of the API server.
//!
//! They are read when somebody asks: nothing here counts anything.

mod controllers;
mod process;
mod queueing;
mod training;
mod webhooks;

use std::fmt;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use muster_apiserver::http::metrics::SharedRegistry;
use muster_control::counters::Waits;
use muster_control::run::Health;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

use crate::State;
use process::Process;

/// What is told at every scrape.
struct Numbers<F>(F);

/// Shows what `health` tells of controllers that always run, and this process.
pub fn register(registry: &SharedRegistry, health: impl Fn() -> Health + Send + Sync + 'static) {
    collect(registry, move |into| {
        controllers::encode(into, &health())?;
        process::encode(into, Process::read().as_ref())
    });
}

/// Shows an operator: whether it leads, its controllers while it does, its webhooks, and this process.
pub(crate) fn register_operator(registry: &SharedRegistry, state: Arc<State>) {
    collect(registry, move |into| {
        let health = state.health();
        let leads = u64::from(health.is_some());
        gauge(into, "muster_operator_leads", "Whether this operator is in charge", leads)?;
        if let Some(health) = health {
            controllers::encode(into, &health)?;
        }
        webhooks::encode(into, &state.tally.counts())?;
        process::encode(into, Process::read().as_ref())
    });
}

fn collect<F>(registry: &SharedRegistry, tell: F)
where
    F: Fn(&mut DescriptorEncoder<'_>) -> fmt::Result + Send + Sync + 'static,
{
    let mut registry = registry.lock().unwrap_or_else(PoisonError::into_inner);
    registry.register_collector(Box::new(Numbers(tell)));
}

impl<F> fmt::Debug for Numbers<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Numbers")
    }
}

impl<F> Collector for Numbers<F>
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

/// Counters.
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

/// Gauges that tell a time.
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
    all: impl Iterator<Item = Labelled<'a, N, &'a Waits>>,
) -> fmt::Result {
    each(into, (name, help, MetricType::Histogram), all, |waits, mut to| histogram(&mut to, waits))
}

fn waits(into: &mut DescriptorEncoder<'_>, name: &str, help: &str, waits: &Waits) -> fmt::Result {
    histogram(&mut into.encode_descriptor(name, help, None, MetricType::Histogram)?, waits)
}

fn histogram(to: &mut MetricEncoder<'_>, waits: &Waits) -> fmt::Result {
    let bounds = Waits::bounds().map(|bound| bound.as_secs_f64()).chain([f64::INFINITY]);
    let buckets: Vec<(f64, u64)> = bounds.zip(waits.counts).collect();
    let count = waits.counts.iter().sum();
    to.encode_histogram::<NoLabelSet>(waits.sum.as_secs_f64(), count, &buckets, None)
}

#[cfg(test)]
mod tests {
    use muster_control::counters::{Counters, Work};
    use prometheus_client::encoding::text;

    use super::*;

    #[test]
    fn every_number_has_a_name_a_help_and_a_type() {
        let mut work = Work { adds: 5, done: 2, again: 1, refused: 1, ready: 1, ..Work::default() };
        work.times.add(Duration::from_millis(15));
        let counters = Counters {
            plans: 7,
            queue_len: 2,
            calls_by: [(("create", "pods".into()), 3)].into(),
            writes_by: [("job-controller".into(), 4)].into(),
            work: [("jobset", work)].into(),
            ..Counters::default()
        };
        let registry = SharedRegistry::default();
        register(&registry, move || Health {
            running: true,
            synced: true,
            turns: 1,
            counters: counters.clone(),
        });
        let mut text = String::new();
        text::encode(&mut text, &registry.lock().unwrap()).unwrap();
        for want in [
            "# HELP muster_controller_plans Keys that controllers looked at",
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
