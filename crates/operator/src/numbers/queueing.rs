//! What queueing counts, under the names that dashboards of Kueue know.

use std::fmt;

use muster_queue::life::numbers::{LOCAL, PREFIX, Sample, Spans, Value};
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;

/// What the names mean, those of LocalQueues without their prefix.
const HELP: [(&str, &str); 25] = [
    ("admission_attempts_total", "Cycles that decided something, by whether anybody got quota"),
    ("admission_attempt_duration_seconds", "How long such cycles took"),
    ("pending_workloads", "Workloads that wait, to be looked at or for something to change"),
    ("quota_reserved_workloads_total", "Workloads that got quota"),
    ("quota_reserved_wait_time_seconds", "From being queued until there was quota"),
    ("admitted_workloads_total", "Workloads that were admitted"),
    ("admission_wait_time_seconds", "From being queued until admission"),
    ("admission_checks_wait_time_seconds", "From having quota until all checks were ready"),
    ("evicted_workloads_total", "Workloads that had to leave"),
    ("preempted_workloads_total", "Workloads that had to leave for another"),
    ("reserving_active_workloads", "Workloads with quota that have not ended"),
    ("admitted_active_workloads", "Admitted Workloads that have not ended"),
    ("unadmitted_workloads", "Workloads that are not admitted, by the reason that is told"),
    ("finished_workloads_total", "Workloads that have ended"),
    ("cluster_queue_status", "1 for what a ClusterQueue is"),
    ("cluster_queue_resource_reservation", "What is set aside"),
    ("cluster_queue_resource_usage", "What is set aside for admitted Workloads"),
    ("cluster_queue_resource_pending", "What those who wait ask for"),
    ("cluster_queue_nominal_quota", "What a ClusterQueue owns"),
    ("cluster_queue_borrowing_limit", "How much more it may borrow"),
    ("cluster_queue_lending_limit", "How much of its own it lends"),
    ("cluster_queue_weighted_share", "How far beyond its own it is, in thousandths of the cohort"),
    ("pod_scheduling_gate_removal_seconds", "From admission until a pod was let go"),
    ("workload_creation_latency_seconds", "From a job until its Workload"),
    ("", "Counted by queueing"),
];

/// Tells all of it.
pub fn encode(into: &mut DescriptorEncoder<'_>, samples: &[Sample]) -> fmt::Result {
    for family in samples.chunk_by(|one, other| one.name == other.name) {
        tell(into, family)?;
    }
    Ok(())
}

/// Samples of one name, and so of one type.
fn tell(into: &mut DescriptorEncoder<'_>, family: &[Sample]) -> fmt::Result {
    let Some(first) = family.first() else { return Ok(()) };
    let kind = match first.value {
        Value::Count(_) => MetricType::Counter,
        Value::Gauge(_) => MetricType::Gauge,
        Value::Spans(_) => MetricType::Histogram,
    };
    // The writer adds the ending of counters.
    let name = first.name.strip_suffix("_total").filter(|_| matches!(kind, MetricType::Counter));
    let mut metric = into.encode_descriptor(name.unwrap_or(&first.name), help(&first.name), None, kind)?;
    for sample in family {
        let labels: Vec<(&str, &str)> = sample.labels.iter().map(|(key, it)| (*key, it.as_str())).collect();
        // What has no labels has no braces either.
        match labels[..] {
            [] => value(&sample.value, &mut metric)?,
            _ => value(&sample.value, &mut metric.encode_family(&labels)?)?,
        }
    }
    Ok(())
}

fn help(name: &str) -> &'static str {
    let name = name.strip_prefix(PREFIX).unwrap_or(name);
    let name = name.strip_prefix(LOCAL).unwrap_or(name);
    HELP.iter().find(|(known, _)| name == *known || known.is_empty()).map_or("", |(_, help)| help)
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

fn buckets(spans: &Spans) -> Vec<(f64, u64)> {
    let bounds = spans.bounds.all().map(|it| it.as_secs_f64());
    bounds.into_iter().chain([f64::INFINITY]).zip(spans.counts).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use muster_queue::life::numbers::{Happened, Numbers, Queues};
    use prometheus_client::encoding::text;

    use super::*;

    #[test]
    fn numbers_have_the_names_of_dashboards() {
        let mut numbers = Numbers::default();
        let queues = Queues { cluster: "cq".into(), local: ("ns".into(), "lq".into()) };
        numbers.count(&Happened::Reserved { queues, waited: Duration::from_secs(2) });
        numbers.count(&Happened::Created { took: Duration::from_millis(3) });
        let registry = muster_apiserver::http::metrics::SharedRegistry::default();
        super::super::collect(&registry, move |into| encode(into, &numbers.samples()));
        let mut told = String::new();
        text::encode(&mut told, &registry.lock().unwrap()).unwrap();
        for want in [
            "# HELP kueue_quota_reserved_workloads Workloads that got quota",
            "# TYPE kueue_quota_reserved_workloads counter",
            "kueue_quota_reserved_workloads_total{cluster_queue=\"cq\"} 1",
            "kueue_local_queue_quota_reserved_workloads_total{name=\"lq\",namespace=\"ns\"} 1",
            "kueue_quota_reserved_wait_time_seconds_bucket{le=\"2.5\",cluster_queue=\"cq\"} 1",
            "kueue_quota_reserved_wait_time_seconds_bucket{le=\"+Inf\",cluster_queue=\"cq\"} 1",
            "kueue_workload_creation_latency_seconds_count 1",
        ] {
            assert!(told.contains(want), "{want} is not in\n{told}");
        }
    }

    #[test]
    fn every_number_is_explained() {
        let known = include_str!("../../../queue/src/life/numbers/mod.rs");
        let out = include_str!("../../../queue/src/life/numbers/out.rs");
        let named = HELP.iter().map(|(name, _)| name).filter(|name| !name.is_empty());
        for name in named {
            assert!(known.contains(name) || out.contains(name), "{name} is not counted");
        }
    }
}
