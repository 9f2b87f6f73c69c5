//! What the controllers count, for `/metrics`.
//!
//! The numbers are read when somebody asks: the loop itself knows nothing of metrics.

use std::fmt;
use std::sync::PoisonError;

use muster_apiserver::http::metrics::SharedRegistry;
use muster_control::counters::{Scheduling, Waits};
use muster_control::jobsets::JobSetNumbers;
use muster_control::run::Health;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

/// How the controllers are, whenever that is asked.
struct Numbers<F>(F);

/// Shows what `health` tells at every scrape.
pub fn register(registry: &SharedRegistry, health: impl Fn() -> Health + Send + Sync + 'static) {
    let mut registry = registry.lock().unwrap_or_else(PoisonError::into_inner);
    registry.register_collector(Box::new(Numbers(health)));
}

impl<F> fmt::Debug for Numbers<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Numbers")
    }
}

impl<F: Fn() -> Health + Send + Sync + 'static> Collector for Numbers<F> {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let health = (self.0)();
        let all = &health.counters;
        let into = &mut encoder;
        counter(into, "muster_controller_plans", "Keys that controllers looked at", all.plans)?;
        counter(into, "muster_controller_refusals", "Calls that were refused", all.refusals)?;
        counter(into, "muster_controller_repeats", "Calls sent again after a lost reply", all.repeats)?;
        let help = "Events left out because their object, or the server, had too many waiting";
        counter(into, "muster_controller_events_dropped", help, all.events_dropped)?;
        gauge(into, "muster_controller_queue_length", "Keys that wait to be looked at", all.queue_len)?;
        gauge(into, "muster_controller_calls_in_flight", "Calls without a reply", all.in_flight)?;
        gauge(into, "muster_controller_running", "Whether the controllers run", health.running.into())?;
        gauge(into, "muster_controller_synced", "Whether all caches are filled", health.synced.into())?;
        let help = "Writes of controllers, by the field manager they write as";
        let writers = all.writes_by.iter().map(|(by, count)| ([("manager", by.as_str())], *count));
        family(into, "muster_controller_writes", help, writers)?;
        let kinds = all.calls_by.iter();
        let kinds =
            kinds.map(|((verb, plural), count)| ([("verb", *verb), ("resource", plural.as_str())], *count));
        family(into, "muster_controller_calls", "Calls of controllers", kinds)?;
        scheduling(into, &all.scheduling)?;
        jobsets(into, &all.jobsets)
    }
}

/// What the JobSet controller counts; the first two have the names that dashboards know.
fn jobsets(into: &mut DescriptorEncoder<'_>, all: &JobSetNumbers) -> fmt::Result {
    let ends = [
        ("jobset_failed", "JobSets that failed", &all.failed),
        ("jobset_completed", "JobSets that completed", &all.completed),
    ];
    for (name, help, numbers) in ends {
        let labelled = numbers.iter();
        let labelled = labelled.map(|((namespace, set), count)| {
            ([("jobset_name", set.as_str()), ("namespace", namespace.as_str())], *count)
        });
        family(into, name, help, labelled)?;
    }
    let restarts = all.restarts.iter();
    let restarts = restarts.map(|((namespace, reason), count)| {
        ([("namespace", namespace.as_str()), ("reason", reason.as_str())], *count)
    });
    family(into, "jobset_restarts", "Restarts of whole JobSets", restarts)?;
    let help = "From a restart until all Jobs were ready";
    waits(into, "jobset_restart_duration_seconds", help, &all.restart_times)
}

/// What the scheduler counts, under the names that kube-scheduler has for it.
fn scheduling(into: &mut DescriptorEncoder<'_>, all: &Scheduling) -> fmt::Result {
    let attempts = all.attempts.iter();
    let attempts = attempts
        .map(|((profile, result), count)| ([("profile", profile.as_str()), ("result", *result)], *count));
    family(into, "scheduler_schedule_attempts", "Tries to give a pod a node", attempts)?;
    let help = "Pods without a node, by where they wait";
    let mut metric = into.encode_descriptor("scheduler_pending_pods", help, None, MetricType::Gauge)?;
    for (place, count) in &all.pending {
        let count = i64::try_from(*count).unwrap_or(i64::MAX);
        ConstGauge::new(count).encode(metric.encode_family(&[("queue", *place)])?)?;
    }
    let help = "How long pods waited for a node, gates not counted";
    let name = "scheduler_pod_scheduling_sli_duration_seconds";
    waits(into, name, help, &all.waits)
}

fn waits(into: &mut DescriptorEncoder<'_>, name: &str, help: &str, waits: &Waits) -> fmt::Result {
    let mut metric = into.encode_descriptor(name, help, None, MetricType::Histogram)?;
    let bounds = Waits::bounds().map(|bound| bound.as_secs_f64()).chain([f64::MAX]);
    let buckets: Vec<(f64, u64)> = bounds.zip(waits.counts).collect();
    let count = waits.counts.iter().sum();
    metric.encode_histogram::<prometheus_client::encoding::NoLabelSet>(
        waits.sum.as_secs_f64(),
        count,
        &buckets,
        None,
    )
}

fn counter(into: &mut DescriptorEncoder<'_>, name: &str, help: &str, value: u64) -> fmt::Result {
    ConstCounter::new(value).encode(into.encode_descriptor(name, help, None, MetricType::Counter)?)
}

fn gauge(into: &mut DescriptorEncoder<'_>, name: &str, help: &str, value: u64) -> fmt::Result {
    let value = i64::try_from(value).unwrap_or(i64::MAX);
    ConstGauge::new(value).encode(into.encode_descriptor(name, help, None, MetricType::Gauge)?)
}

/// One counter for each set of labels.
fn family<'a, const N: usize>(
    into: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    all: impl Iterator<Item = ([(&'a str, &'a str); N], u64)>,
) -> fmt::Result {
    let mut metric = into.encode_descriptor(name, help, None, MetricType::Counter)?;
    for (labels, count) in all {
        ConstCounter::new(count).encode(metric.encode_family(&labels)?)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use muster_control::counters::Counters;
    use prometheus_client::encoding::text;

    use super::*;

    #[test]
    fn every_number_has_a_name_a_help_and_a_type() {
        let counters = Counters {
            plans: 7,
            queue_len: 2,
            calls_by: [(("create", "pods".into()), 3)].into(),
            writes_by: [("job-controller".into(), 4)].into(),
            ..Counters::default()
        };
        let registry = SharedRegistry::default();
        register(&registry, move || Health { running: true, synced: true, counters: counters.clone() });
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
        ] {
            assert!(text.contains(want), "{want} is not in\n{text}");
        }
    }
}
