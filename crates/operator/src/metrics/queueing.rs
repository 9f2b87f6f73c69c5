//! Queue metrics, under the names of Kueue.

use std::fmt;

use muster_queue::reconcilers::metrics::{Histogram, LOCAL, MetricSample, MetricValue, PREFIX};
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;

/// HELP texts; LocalQueue metrics share those of their ClusterQueue counterpart.
const HELP: [(&str, &str); 25] = [
    ("admission_attempts_total", "Scheduling cycles with a decision, by whether a Workload got quota"),
    ("admission_attempt_duration_seconds", "Duration of scheduling cycles with a decision"),
    ("pending_workloads", "Pending Workloads: active ones in the queue, and inadmissible ones"),
    ("quota_reserved_workloads_total", "Workloads whose quota was reserved"),
    ("quota_reserved_wait_time_seconds", "Time from queueing until quota was reserved"),
    ("admitted_workloads_total", "Workloads admitted"),
    ("admission_wait_time_seconds", "Time from queueing until admission"),
    (
        "admission_checks_wait_time_seconds",
        "Time from quota reservation until all admission checks were ready",
    ),
    ("evicted_workloads_total", "Workloads evicted"),
    ("preempted_workloads_total", "Workloads preempted by another Workload"),
    ("reserving_active_workloads", "Unfinished Workloads with a quota reservation"),
    ("admitted_active_workloads", "Unfinished admitted Workloads"),
    ("unadmitted_workloads", "Workloads that are not admitted, by the reason in their condition"),
    ("finished_workloads_total", "Finished Workloads"),
    ("cluster_queue_status", "1 for the current status of a ClusterQueue"),
    ("cluster_queue_resource_reservation", "Quota reserved"),
    ("cluster_queue_resource_usage", "Quota used by admitted Workloads"),
    ("cluster_queue_resource_pending", "Resources requested by pending Workloads"),
    ("cluster_queue_nominal_quota", "Nominal quota of a ClusterQueue"),
    ("cluster_queue_borrowing_limit", "Borrowing limit of a ClusterQueue"),
    ("cluster_queue_lending_limit", "Lending limit of a ClusterQueue"),
    ("cluster_queue_weighted_share", "Weighted share of borrowed quota, in thousandths of the cohort"),
    ("pod_scheduling_gate_removal_seconds", "Time from admission until a pod was ungated"),
    ("workload_creation_latency_seconds", "Time from the creation of a job until its Workload was created"),
    ("", "Queue metric"),
];

/// Encodes all of them; samples of one name are adjacent.
pub fn encode(into: &mut DescriptorEncoder<'_>, samples: &[MetricSample]) -> fmt::Result {
    for family in samples.chunk_by(|one, other| one.name == other.name) {
        encode_family(into, family)?;
    }
    Ok(())
}

/// Encodes the samples of one name, and so of one type.
fn encode_family(into: &mut DescriptorEncoder<'_>, family: &[MetricSample]) -> fmt::Result {
    let Some(first) = family.first() else { return Ok(()) };
    let kind = match first.value {
        MetricValue::Counter(_) => MetricType::Counter,
        MetricValue::Gauge(_) => MetricType::Gauge,
        MetricValue::Spans(_) => MetricType::Histogram,
    };
    // The encoder appends `_total` to counters.
    let name = first.name.strip_suffix("_total").filter(|_| matches!(kind, MetricType::Counter));
    let mut metric = into.encode_descriptor(name.unwrap_or(&first.name), help(&first.name), None, kind)?;
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

fn help(name: &str) -> &'static str {
    let name = name.strip_prefix(PREFIX).unwrap_or(name);
    let name = name.strip_prefix(LOCAL).unwrap_or(name);
    HELP.iter().find(|(known, _)| name == *known || known.is_empty()).map_or("", |(_, help)| help)
}

fn value(value: &MetricValue, to: &mut MetricEncoder<'_>) -> fmt::Result {
    match value {
        MetricValue::Counter(n) => to.encode_counter::<NoLabelSet, _, u64>(n, None),
        MetricValue::Gauge(n) => to.encode_gauge(n),
        MetricValue::Spans(spans) => {
            to.encode_histogram::<NoLabelSet>(spans.sum.as_secs_f64(), spans.count(), &buckets(spans), None)
        }
    }
}

fn buckets(spans: &Histogram) -> Vec<(f64, u64)> {
    let bounds = spans.bounds.all().map(|it| it.as_secs_f64());
    bounds.into_iter().chain([f64::INFINITY]).zip(spans.counts).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use muster_queue::reconcilers::metrics::{MetricEvent, QueueMetrics, WorkloadQueues};
    use prometheus_client::encoding::text;

    use super::*;

    #[test]
    fn metrics_have_the_names_of_kueue() {
        let mut numbers = QueueMetrics::default();
        let queues = WorkloadQueues { cluster: "cq".into(), local: ("ns".into(), "lq".into()) };
        numbers.record(&MetricEvent::Reserved { queues, waited: Duration::from_secs(2) });
        numbers.record(&MetricEvent::WorkloadCreated { took: Duration::from_millis(3) });
        let registry = muster_apiserver::http::metrics::SharedRegistry::default();
        super::super::collect(&registry, move |into| encode(into, &numbers.samples()));
        let mut told = String::new();
        text::encode(&mut told, &registry.lock().unwrap()).unwrap();
        for want in [
            "# HELP kueue_quota_reserved_workloads Workloads whose quota was reserved",
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
    fn every_metric_has_help() {
        let known = include_str!("../../../queue/src/reconcilers/metrics/mod.rs");
        let out = include_str!("../../../queue/src/reconcilers/metrics/sample_writer.rs");
        let named = HELP.iter().map(|(name, _)| name).filter(|name| !name.is_empty());
        for name in named {
            assert!(known.contains(name) || out.contains(name), "{name} is not counted");
        }
    }
}
