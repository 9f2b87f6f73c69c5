//! Metrics of queueing, under Kueue's names.
//!
//! Decisions return [`MetricEvent`] values, which the caller passes to [`Numbers::count`] once they are written.
//! Gauges are set per queue as a whole, so that a deleted queue leaves no series behind.
//!
//! # Guarantees
//!
//! - Samples are ordered by name and labels: the same metrics are always printed in the same order.
//! - A wait time is never negative: clock skew gives zero.

mod sample_writer;
mod spans;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::time::Duration;

use muster_tree::Text;

use sample_writer::Out;
pub use spans::{Buckets, Histogram};

/// A LocalQueue by namespace and name.
pub type LocalQueueKey = (Text, Text);

/// The queues of a Workload.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct WorkloadQueues {
    pub cluster: Text,
    pub local: LocalQueueKey,
}

/// The `result` label of an admission attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum AdmissionResult {
    /// At least one Workload got a quota reservation.
    Success,
    Inadmissible,
}

impl AdmissionResult {
    fn word(self) -> &'static str {
        match self {
            AdmissionResult::Success => "success",
            AdmissionResult::Inadmissible => "inadmissible",
        }
    }
}

/// An event that updates counters or histograms.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MetricEvent {
    /// A scheduling cycle ran.
    AdmissionAttempt {
        result: AdmissionResult,
        /// How long it took.
        took: Duration,
    },
    Reserved {
        queues: WorkloadQueues,
        /// Time since it was queued.
        waited: Duration,
    },
    /// A Workload may run.
    Admitted {
        queues: WorkloadQueues,
        /// Time since it was queued.
        waited: Duration,
        /// Time since the quota reservation; None without admission checks.
        checks: Option<Duration>,
    },
    Evicted {
        queues: WorkloadQueues,
        reason: Text,
        cause: Text,
    },
    Preempted {
        /// ClusterQueue of the preemptor.
        by: Text,
        reason: Text,
    },
    /// A Workload has ended.
    Finished {
        queues: WorkloadQueues,
    },
    /// The scheduling gate of a pod was removed.
    Ungated {
        took: Duration,
    },
    /// A Workload was made.
    WorkloadCreated {
        /// Time since the job was created.
        took: Duration,
    },
}

impl MetricEvent {
    /// The queues the event belongs to, if it has any.
    #[must_use]
    pub fn queues(&self) -> Option<&WorkloadQueues> {
        match self {
            MetricEvent::Reserved { queues, .. }
            | MetricEvent::Admitted { queues, .. }
            | MetricEvent::Evicted { queues, .. }
            | MetricEvent::Finished { queues } => Some(queues),
            MetricEvent::AdmissionAttempt { .. }
            | MetricEvent::Preempted { .. }
            | MetricEvent::Ungated { .. }
            | MetricEvent::WorkloadCreated { .. } => None,
        }
    }
}

/// The value of metric `cluster_queue_status`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ClusterQueueStatus {
    Active,
    Pending,
    Terminating,
}

impl ClusterQueueStatus {
    const ALL: [ClusterQueueStatus; 3] =
        [ClusterQueueStatus::Active, ClusterQueueStatus::Pending, ClusterQueueStatus::Terminating];

    fn word(self) -> &'static str {
        match self {
            ClusterQueueStatus::Active => "active",
            ClusterQueueStatus::Pending => "pending",
            ClusterQueueStatus::Terminating => "terminating",
        }
    }
}

/// Workload counts of a queue.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WorkloadCounts {
    /// Pending, and can be nominated.
    pub active: u64,
    /// Pending, and inadmissible until something changes.
    pub inadmissible: u64,
    pub reserving: u64,
    pub admitted: u64,
    /// Not admitted, by reported reason.
    pub unadmitted: BTreeMap<Text, u64>,
}

/// Gauges of one flavor-resource, in engine units.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FlavorResourceGauges {
    pub reserved: i64,
    pub used: i64,
    pub nominal: i64,
    pub borrowing: Option<i64>,
    pub lending: Option<i64>,
}

/// All gauges of a ClusterQueue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterQueueGauges {
    /// Its cohort; may be empty.
    pub cohort: Text,
    pub state: ClusterQueueStatus,
    pub workloads: WorkloadCounts,
    /// By flavor and resource.
    pub flavor_resources: BTreeMap<(Text, Text), FlavorResourceGauges>,
    /// Requests of pending Workloads by resource: no flavor is assigned yet.
    pub pending: BTreeMap<Text, i64>,
    /// Weighted share in thousandths.
    pub share: Option<i64>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct MetricSample {
    pub name: String,
    /// Labels and their values.
    pub labels: Vec<(&'static str, Text)>,
    pub value: MetricValue,
}

/// The number of a sample.
#[derive(Debug, Clone, PartialEq)]
pub enum MetricValue {
    Counter(u64),
    Gauge(f64),
    Spans(Histogram),
}

/// Prefix of all metrics.
pub const PREFIX: &str = "kueue_";
/// Follows the prefix for metrics by LocalQueue.
pub const LOCAL: &str = "local_queue_";

/// Labels with a ClusterQueue as value: their series are deleted with it.
const QUEUE_LABELS: [&str; 2] = ["cluster_queue", "preempting_cluster_queue"];

type Labels = Vec<(&'static str, Text)>;
type Series = (&'static str, Labels);

/// Numbers since the start.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct QueueMetrics {
    counts: BTreeMap<Series, u64>,
    local_counts: BTreeMap<Series, u64>,
    spans: BTreeMap<Series, Histogram>,
    local_spans: BTreeMap<Series, Histogram>,
    queues: BTreeMap<Text, ClusterQueueGauges>,
    locals: BTreeMap<LocalQueueKey, WorkloadCounts>,
}

impl QueueMetrics {
    pub fn record(&mut self, happened: &MetricEvent) {
        match happened {
            MetricEvent::AdmissionAttempt { result, took } => {
                let labels = vec![("result", Text::from(result.word()))];
                add(&mut self.counts, "admission_attempts_total", labels.clone());
                span(&mut self.spans, "admission_attempt_duration_seconds", labels, Buckets::Short, *took);
            }
            MetricEvent::Reserved { queues, waited } => {
                // Counted per ClusterQueue and per LocalQueue.
                self.both("quota_reserved_workloads_total", queues, &[]);
                self.both_spans("quota_reserved_wait_time_seconds", queues, *waited);
            }
            MetricEvent::Admitted { queues, waited, checks } => {
                self.both("admitted_workloads_total", queues, &[]);
                self.both_spans("admission_wait_time_seconds", queues, *waited);
                if let Some(checks) = checks {
                    self.both_spans("admission_checks_wait_time_seconds", queues, *checks);
                }
            }
            MetricEvent::Evicted { queues, reason, cause } => {
                let more = [("reason", reason.clone()), ("underlying_cause", cause.clone())];
                self.both("evicted_workloads_total", queues, &more);
            }
            MetricEvent::Preempted { by, reason } => {
                let labels = vec![("preempting_cluster_queue", by.clone()), ("reason", reason.clone())];
                add(&mut self.counts, "preempted_workloads_total", labels);
            }
            MetricEvent::Finished { queues } => self.both("finished_workloads_total", queues, &[]),
            MetricEvent::Ungated { took } => {
                let name = "pod_scheduling_gate_removal_seconds";
                span(&mut self.spans, name, Vec::new(), Buckets::Short, *took);
            }
            MetricEvent::WorkloadCreated { took } => {
                span(&mut self.spans, "workload_creation_latency_seconds", Vec::new(), Buckets::Short, *took);
            }
        }
    }

    fn both(&mut self, name: &'static str, queues: &WorkloadQueues, more: &[(&'static str, Text)]) {
        let with = |mut labels: Labels| {
            labels.extend_from_slice(more);
            labels
        };
        add(&mut self.counts, name, with(of_cluster(&queues.cluster)));
        add(&mut self.local_counts, name, with(of_local(&queues.local)));
    }

    fn both_spans(&mut self, name: &'static str, queues: &WorkloadQueues, took: Duration) {
        span(&mut self.spans, name, of_cluster(&queues.cluster), Buckets::Long, took);
        span(&mut self.local_spans, name, of_local(&queues.local), Buckets::Long, took);
    }

    pub fn set_cluster_queue(&mut self, name: &Text, gauges: ClusterQueueGauges) {
        self.queues.insert(name.clone(), gauges);
    }

    pub fn set_local_queue(&mut self, name: &LocalQueueKey, tally: WorkloadCounts) {
        self.locals.insert(name.clone(), tally);
    }

    /// Deletes all series of a ClusterQueue.
    pub fn delete_cluster_queue(&mut self, name: &str) {
        self.queues.remove(name);
        let name = Text::from(name);
        let is_its = |(key, value): &(&'static str, Text)| QUEUE_LABELS.contains(key) && *value == name;
        // Preemption counters name the preemptor's ClusterQueue by another label; they go with it, too.
        let is_other = |labels: &Labels| !labels.iter().any(is_its);
        self.counts.retain(|(_, labels), _| is_other(labels));
        self.spans.retain(|(_, labels), _| is_other(labels));
    }

    /// Deletes all series of a LocalQueue.
    pub fn delete_local_queue(&mut self, name: &LocalQueueKey) {
        self.locals.remove(name);
        let gone = of_local(name);
        self.local_counts.retain(|(_, labels), _| !labels.starts_with(&gone));
        self.local_spans.retain(|(_, labels), _| !labels.starts_with(&gone));
    }

    #[must_use]
    pub fn samples(&self) -> Vec<MetricSample> {
        let mut out = Out::default();
        for (prefix, counts, spans) in
            [("", &self.counts, &self.spans), (LOCAL, &self.local_counts, &self.local_spans)]
        {
            for ((name, labels), n) in counts {
                out.push(&format!("{prefix}{name}"), labels.clone(), MetricValue::Counter(*n));
            }
            for ((name, labels), it) in spans {
                out.push(&format!("{prefix}{name}"), labels.clone(), MetricValue::Spans(it.clone()));
            }
        }
        for (name, gauges) in &self.queues {
            out.queue(name, gauges);
        }
        for (name, tally) in &self.locals {
            out.tally(LOCAL, &of_local(name), tally);
        }
        out.samples.sort_by(|a, b| (&a.name, &a.labels).cmp(&(&b.name, &b.labels)));
        out.samples
    }
}

fn of_cluster(name: &Text) -> Labels {
    vec![("cluster_queue", name.clone())]
}

fn of_local((namespace, name): &LocalQueueKey) -> Labels {
    vec![("name", name.clone()), ("namespace", namespace.clone())]
}

fn add(all: &mut BTreeMap<Series, u64>, name: &'static str, labels: Labels) {
    *all.entry((name, labels)).or_default() += 1;
}

fn span(
    all: &mut BTreeMap<Series, Histogram>,
    name: &'static str,
    labels: Labels,
    of: Buckets,
    took: Duration,
) {
    all.entry((name, labels)).or_insert_with(|| Histogram::new(of)).add(took);
}
