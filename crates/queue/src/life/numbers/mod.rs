//! What is counted of queueing, under the names that dashboards know.
//!
//! Decisions say what happened ([`Happened`]); whoever carries them out hands it to [`Numbers::count`]. Gauges are set as
//! a whole, queue by queue, so that a queue that is gone leaves no series behind.
//!
//! # Invariants
//!
//! - Order is that of names and labels: the same numbers are always told in the same order.
//! - A wait is never negative: clocks that disagree give zero.

mod out;
mod spans;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::time::Duration;

use muster_tree::Text;

use out::Out;
pub use spans::{Bounds, Spans};

/// A LocalQueue by namespace and name.
pub type LocalName = (Text, Text);

/// The queues of a Workload.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Queues {
    /// The ClusterQueue.
    pub cluster: Text,
    /// The LocalQueue.
    pub local: LocalName,
}

/// What came of a cycle of the engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Attempt {
    /// At least one Workload got its share.
    Success,
    /// None did.
    Inadmissible,
}

impl Attempt {
    fn word(self) -> &'static str {
        match self {
            Attempt::Success => "success",
            Attempt::Inadmissible => "inadmissible",
        }
    }
}

/// Something that is counted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Happened {
    /// The engine looked at heads of queues.
    Attempted {
        /// What came of it.
        result: Attempt,
        /// How long it took.
        took: Duration,
    },
    /// A Workload got its share.
    Reserved {
        /// Where.
        queues: Queues,
        /// How long it was queued.
        waited: Duration,
    },
    /// A Workload may run.
    Admitted {
        /// Where.
        queues: Queues,
        /// Since it was queued.
        waited: Duration,
        /// Since it got its share; none when it had no checks to wait for.
        checks: Option<Duration>,
    },
    /// A Workload has to leave.
    Evicted {
        /// Where.
        queues: Queues,
        /// Why.
        reason: Text,
        /// What led to it; empty when the reason says all.
        cause: Text,
    },
    /// A Workload has to leave for another.
    Preempted {
        /// The queue of the other.
        by: Text,
        /// Why.
        reason: Text,
    },
    /// A Workload has ended.
    Finished {
        /// Where.
        queues: Queues,
    },
    /// A pod of an admitted Workload was let go.
    Ungated {
        /// Since the Workload was admitted.
        took: Duration,
    },
    /// A Workload was made.
    Created {
        /// Since its job was made.
        took: Duration,
    },
}

impl Happened {
    /// Where it happened, if that is one place.
    #[must_use]
    pub fn queues(&self) -> Option<&Queues> {
        match self {
            Happened::Reserved { queues, .. }
            | Happened::Admitted { queues, .. }
            | Happened::Evicted { queues, .. }
            | Happened::Finished { queues } => Some(queues),
            Happened::Attempted { .. }
            | Happened::Preempted { .. }
            | Happened::Ungated { .. }
            | Happened::Created { .. } => None,
        }
    }
}

/// What a ClusterQueue is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum QueueState {
    /// It takes Workloads.
    Active,
    /// It does not.
    Pending,
    /// It is being deleted.
    Terminating,
}

impl QueueState {
    const ALL: [QueueState; 3] = [QueueState::Active, QueueState::Pending, QueueState::Terminating];

    fn word(self) -> &'static str {
        match self {
            QueueState::Active => "active",
            QueueState::Pending => "pending",
            QueueState::Terminating => "terminating",
        }
    }
}

/// How many Workloads of a queue are where.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tally {
    /// Waiting to be looked at.
    pub active: u64,
    /// Waiting for something to change.
    pub inadmissible: u64,
    /// With a share, not finished.
    pub reserving: u64,
    /// Admitted, not finished.
    pub admitted: u64,
    /// Not admitted, by the reason that is told.
    pub unadmitted: BTreeMap<Text, u64>,
}

/// Numbers of one flavor and resource in a queue, in millicores or whole units.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PairGauges {
    /// Set aside.
    pub reserved: i64,
    /// Of that, admitted.
    pub used: i64,
    /// `nominalQuota`.
    pub nominal: i64,
    /// `borrowingLimit`.
    pub borrowing: Option<i64>,
    /// `lendingLimit`.
    pub lending: Option<i64>,
}

/// Everything that is gauged of a ClusterQueue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueGauges {
    /// Its cohort; may be empty.
    pub cohort: Text,
    /// What it is.
    pub state: QueueState,
    /// Its Workloads.
    pub tally: Tally,
    /// By flavor and resource.
    pub pairs: BTreeMap<(Text, Text), PairGauges>,
    /// Asked for by those who wait: no flavor is chosen for them yet.
    pub pending: BTreeMap<Text, i64>,
    /// Its share of the cohort, in thousandths.
    pub share: Option<i64>,
}

/// One labelled number.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    /// The whole name.
    pub name: String,
    /// Labels and their values.
    pub labels: Vec<(&'static str, Text)>,
    /// The number.
    pub value: Value,
}

/// The number of a sample.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// Only ever grows.
    Count(u64),
    /// Goes up and down.
    Gauge(f64),
    /// How many were how long.
    Spans(Spans),
}

/// What all names begin with.
pub const PREFIX: &str = "kueue_";
/// What follows it where the number is one of a LocalQueue.
pub const LOCAL: &str = "local_queue_";

/// Labels whose value is a ClusterQueue.
const QUEUE_LABELS: [&str; 2] = ["cluster_queue", "preempting_cluster_queue"];

type Labels = Vec<(&'static str, Text)>;
type Series = (&'static str, Labels);

/// Numbers since the start.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Numbers {
    counts: BTreeMap<Series, u64>,
    local_counts: BTreeMap<Series, u64>,
    spans: BTreeMap<Series, Spans>,
    local_spans: BTreeMap<Series, Spans>,
    queues: BTreeMap<Text, QueueGauges>,
    locals: BTreeMap<LocalName, Tally>,
}

impl Numbers {
    /// Counts what happened.
    pub fn count(&mut self, happened: &Happened) {
        match happened {
            Happened::Attempted { result, took } => {
                let labels = vec![("result", Text::from(result.word()))];
                add(&mut self.counts, "admission_attempts_total", labels.clone());
                span(&mut self.spans, "admission_attempt_duration_seconds", labels, Bounds::Short, *took);
            }
            Happened::Reserved { queues, waited } => {
                self.both("quota_reserved_workloads_total", queues, &[]);
                self.both_spans("quota_reserved_wait_time_seconds", queues, *waited);
            }
            Happened::Admitted { queues, waited, checks } => {
                self.both("admitted_workloads_total", queues, &[]);
                self.both_spans("admission_wait_time_seconds", queues, *waited);
                if let Some(checks) = checks {
                    self.both_spans("admission_checks_wait_time_seconds", queues, *checks);
                }
            }
            Happened::Evicted { queues, reason, cause } => {
                let more = [("reason", reason.clone()), ("underlying_cause", cause.clone())];
                self.both("evicted_workloads_total", queues, &more);
            }
            Happened::Preempted { by, reason } => {
                let labels = vec![("preempting_cluster_queue", by.clone()), ("reason", reason.clone())];
                add(&mut self.counts, "preempted_workloads_total", labels);
            }
            Happened::Finished { queues } => self.both("finished_workloads_total", queues, &[]),
            Happened::Ungated { took } => {
                let name = "pod_scheduling_gate_removal_seconds";
                span(&mut self.spans, name, Vec::new(), Bounds::Short, *took);
            }
            Happened::Created { took } => {
                span(&mut self.spans, "workload_creation_latency_seconds", Vec::new(), Bounds::Short, *took);
            }
        }
    }

    fn both(&mut self, name: &'static str, queues: &Queues, more: &[(&'static str, Text)]) {
        let with = |mut labels: Labels| {
            labels.extend_from_slice(more);
            labels
        };
        add(&mut self.counts, name, with(of_cluster(&queues.cluster)));
        add(&mut self.local_counts, name, with(of_local(&queues.local)));
    }

    fn both_spans(&mut self, name: &'static str, queues: &Queues, took: Duration) {
        span(&mut self.spans, name, of_cluster(&queues.cluster), Bounds::Long, took);
        span(&mut self.local_spans, name, of_local(&queues.local), Bounds::Long, took);
    }

    /// Sets what is gauged of a ClusterQueue.
    pub fn set_queue(&mut self, name: &Text, gauges: QueueGauges) {
        self.queues.insert(name.clone(), gauges);
    }

    /// Sets what is gauged of a LocalQueue.
    pub fn set_local(&mut self, name: &LocalName, tally: Tally) {
        self.locals.insert(name.clone(), tally);
    }

    /// A ClusterQueue is gone, and its series with it.
    pub fn forget_queue(&mut self, name: &str) {
        self.queues.remove(name);
        let name = Text::from(name);
        let is_its = |(key, value): &(&'static str, Text)| QUEUE_LABELS.contains(key) && *value == name;
        let is_other = |labels: &Labels| !labels.iter().any(is_its);
        self.counts.retain(|(_, labels), _| is_other(labels));
        self.spans.retain(|(_, labels), _| is_other(labels));
    }

    /// A LocalQueue is gone, and its series with it.
    pub fn forget_local(&mut self, name: &LocalName) {
        self.locals.remove(name);
        let gone = of_local(name);
        self.local_counts.retain(|(_, labels), _| !labels.starts_with(&gone));
        self.local_spans.retain(|(_, labels), _| !labels.starts_with(&gone));
    }

    /// All numbers, by name.
    #[must_use]
    pub fn samples(&self) -> Vec<Sample> {
        let mut out = Out::default();
        for (prefix, counts, spans) in
            [("", &self.counts, &self.spans), (LOCAL, &self.local_counts, &self.local_spans)]
        {
            for ((name, labels), n) in counts {
                out.push(&format!("{prefix}{name}"), labels.clone(), Value::Count(*n));
            }
            for ((name, labels), it) in spans {
                out.push(&format!("{prefix}{name}"), labels.clone(), Value::Spans(it.clone()));
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

fn of_local((namespace, name): &LocalName) -> Labels {
    vec![("name", name.clone()), ("namespace", namespace.clone())]
}

fn add(all: &mut BTreeMap<Series, u64>, name: &'static str, labels: Labels) {
    *all.entry((name, labels)).or_default() += 1;
}

fn span(all: &mut BTreeMap<Series, Spans>, name: &'static str, labels: Labels, of: Bounds, took: Duration) {
    all.entry((name, labels)).or_insert_with(|| Spans::new(of)).add(took);
}
