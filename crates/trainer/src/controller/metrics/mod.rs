//! TrainJob metrics (KEP-2899): exceeded deadlines, TTL deletions, and the state of all TrainJobs.
//!
//! Values derive from observed objects, not from requests: a write counts once even if its reply was lost or it was
//! sent again.
//!
//! # Guarantees
//!
//! - Only the remaining seconds of an overdue deadline are negative.
//! - The gauges of a TrainJob are removed with it; only counters and histograms remain.
//! - The cost of a clone does not grow with the number of TrainJobs.

mod histogram;
mod jobs;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::time::Duration;

use muster_api::client::Uid;
use muster_api::time::Time;
use muster_api::train::consts::conditions;
use muster_api::train::{ManagedBy, TrainJobFacts};
use muster_tree::{Text, Tree};

pub use histogram::{HistogramBuckets, TrainJobHistogram};
use jobs::JobGauges;

use super::deadline::{DeadlineClock, deadline, last_started, ttl_expiry};

/// An observation that is counted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TrainJobObservation {
    /// A TrainJob exceeded `activeDeadlineSeconds`.
    DeadlineExceeded { namespace: Text },
    /// The TTL of a TrainJob expired, and the API server accepted its deletion.
    TtlAccepted { namespace: Text },
    /// The TTL of a TrainJob expired, and it no longer exists.
    TtlGone {
        /// The time since the TTL expired.
        late: Duration,
    },
    /// A TrainJob has its first ready pods.
    Running {
        /// The time since it was created or resumed.
        waited: Duration,
    },
    /// A TrainJob was reconciled once.
    Reconciled {
        /// The duration of the reconciliation.
        took: Duration,
    },
}

/// How a TrainJob stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum TrainJobPhase {
    Suspended,
    Pending,
    /// At least one pod is ready, initializers included.
    Running,
    Complete,
    Failed,
}

impl TrainJobPhase {
    const ALL: [TrainJobPhase; 5] = [
        TrainJobPhase::Suspended,
        TrainJobPhase::Pending,
        TrainJobPhase::Running,
        TrainJobPhase::Complete,
        TrainJobPhase::Failed,
    ];

    /// How a TrainJob stands.
    #[must_use]
    pub fn of(job: &TrainJobFacts) -> TrainJobPhase {
        let status = &job.status;
        if status.holds(conditions::COMPLETE) {
            TrainJobPhase::Complete
        } else if status.holds(conditions::FAILED) {
            TrainJobPhase::Failed
        } else if job.suspend {
            TrainJobPhase::Suspended
        } else if status.jobs.iter().any(|it| it.ready > 0) {
            TrainJobPhase::Running
        } else {
            TrainJobPhase::Pending
        }
    }

    fn word(self) -> &'static str {
        match self {
            TrainJobPhase::Suspended => "suspended",
            TrainJobPhase::Pending => "pending",
            TrainJobPhase::Running => "running",
            TrainJobPhase::Complete => "complete",
            TrainJobPhase::Failed => "failed",
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct TrainJobSample {
    pub name: &'static str,
    /// Labels and their values.
    pub labels: MetricLabels,
    pub value: Value,
}

/// The value of a sample, by metric type.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    Count(u64),
    Gauge(f64),
    /// A histogram of durations.
    Spans(TrainJobHistogram),
}

/// Labels and their values.
pub type MetricLabels = Vec<(&'static str, Text)>;

/// The gauges of one TrainJob.
#[derive(Debug, Clone, PartialEq, Eq)]
struct JobGauge {
    runtime: Text,
    state: TrainJobPhase,
    /// When it exceeds `activeDeadlineSeconds`.
    due: Option<Time>,
    /// Whether it is finished, has a TTL and is not being deleted yet.
    waits: bool,
}

/// The metrics since the controller started.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TrainJobMetrics {
    counts: BTreeMap<(&'static str, Text), u64>,
    spans: BTreeMap<&'static str, TrainJobHistogram>,
    jobs: JobGauges,
    /// TTL deletions that were requested, of TrainJobs that still exist.
    sent: BTreeMap<Uid, Sent>,
}

/// A requested TTL deletion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Sent {
    due: Time,
    /// Whether the API server was observed to accept it. Finalizers may keep the TrainJob for long after that.
    accepted: bool,
}

impl TrainJobMetrics {
    pub fn observe(&mut self, happened: &TrainJobObservation) {
        match happened {
            TrainJobObservation::DeadlineExceeded { namespace } => {
                self.add("trainjob_deadline_exceeded_total", namespace);
            }
            TrainJobObservation::TtlAccepted { namespace } => {
                self.add("trainjob_ttl_deletions_total", namespace);
            }
            TrainJobObservation::TtlGone { late } => {
                self.span("trainjob_ttl_deletion_latency_seconds", HistogramBuckets::Latency, *late);
            }
            TrainJobObservation::Running { waited } => {
                self.span("trainjob_time_to_running_seconds", HistogramBuckets::Waiting, *waited);
            }
            TrainJobObservation::Reconciled { took } => {
                self.span("trainjob_reconcile_duration_seconds", HistogramBuckets::Work, *took);
            }
        }
    }

    /// Observes a watch event of a TrainJob. A TrainJob that existed before the start is gauged, but not counted.
    pub fn observe_change(
        &mut self,
        before: Option<&Tree>,
        after: Option<&Tree>,
        clock: DeadlineClock,
        now: Time,
    ) {
        let [before, after] = [before, after].map(|it| it.map(TrainJobFacts::of));
        let Some(newest) = after.as_ref().or(before.as_ref()) else { return };
        let key = (newest.namespace.clone(), newest.name.clone());
        match after.as_ref().filter(|it| it.managed_by == ManagedBy::Trainer) {
            Some(job) => self.jobs.insert(key, gauged(job, clock)),
            None => self.jobs.remove(&key),
        }
        if let Some(before) = &before {
            // An object of the same name with another UID is a new TrainJob, and the old one is gone.
            let later = after.as_ref().filter(|it| it.uid == before.uid);
            for happened in self.observations(before, later, now) {
                self.observe(&happened);
            }
        }
    }

    /// Compares two observations of one TrainJob.
    fn observations(
        &mut self,
        before: &TrainJobFacts,
        after: Option<&TrainJobFacts>,
        now: Time,
    ) -> Vec<TrainJobObservation> {
        let mut all = Vec::new();
        let namespace = || before.namespace.clone();
        // The deletion timestamp, or the missing object, shows that the request was accepted, even if its reply was
        // lost.
        let sent = self.sent.get_mut(&before.uid).filter(|_| after.is_none_or(|it| it.deleting));
        if sent.is_some_and(|sent| !std::mem::replace(&mut sent.accepted, true)) {
            all.push(TrainJobObservation::TtlAccepted { namespace: namespace() });
        }
        let Some(after) = after else {
            let sent = self.sent.remove(&before.uid);
            all.extend(sent.map(|sent| TrainJobObservation::TtlGone { late: now.since(sent.due) }));
            return all;
        };
        if after.status.is_overdue() && !before.status.is_overdue() {
            all.push(TrainJobObservation::DeadlineExceeded { namespace: namespace() });
        }
        if TrainJobPhase::of(after) == TrainJobPhase::Running
            && TrainJobPhase::of(before) != TrainJobPhase::Running
        {
            let since = last_started(&after.status, after.created);
            all.extend(since.map(|since| TrainJobObservation::Running { waited: now.since(since) }));
        }
        all
    }

    /// A TTL deletion is requested. It counts once its acceptance is observed; its latency counts once the TrainJob
    /// is gone.
    pub fn deletion_sent(&mut self, uid: &Uid, due: Time) {
        // A repeated request keeps the first entry: a deletion counts once.
        self.sent.entry(uid.clone()).or_insert(Sent { due, accepted: false });
    }

    /// A TTL deletion failed; one that was observed to be accepted still counts.
    pub fn deletion_failed(&mut self, uid: &Uid) {
        if self.sent.get(uid).is_some_and(|sent| !sent.accepted) {
            self.sent.remove(uid);
        }
    }

    /// The number of entries that belong to single TrainJobs.
    #[must_use]
    pub fn tracked_jobs(&self) -> usize {
        self.jobs.len() + self.sent.len()
    }

    /// All samples at an instant, sorted by name and labels.
    #[must_use]
    pub fn samples(&self, now: Time) -> Vec<TrainJobSample> {
        let count = |((name, namespace), n): (&(&'static str, Text), &u64)| TrainJobSample {
            name,
            labels: vec![("namespace", namespace.clone())],
            value: Value::Count(*n),
        };
        let span = |(name, spans): (&&'static str, &TrainJobHistogram)| TrainJobSample {
            name,
            labels: Vec::new(),
            value: Value::Spans(spans.clone()),
        };
        let mut all: Vec<TrainJobSample> = self.counts.iter().map(count).collect();
        all.extend(self.spans.iter().map(span));
        all.extend(self.remaining(now));
        all.push(self.pending());
        all.extend(self.states());
        all.sort_by(|a, b| (a.name, &a.labels).cmp(&(b.name, &b.labels)));
        all
    }

    /// Seconds until the active deadline; negative while it has passed and the TrainJob has not failed yet.
    fn remaining(&self, now: Time) -> impl Iterator<Item = TrainJobSample> + '_ {
        self.jobs.iter().filter_map(move |((namespace, name), job)| {
            Some(TrainJobSample {
                name: "trainjob_active_deadline_remaining_seconds",
                labels: vec![("name", name.clone()), ("namespace", namespace.clone())],
                value: Value::Gauge(seconds(job.due?.0.saturating_sub(now.0))),
            })
        })
    }

    /// The number of finished TrainJobs that have a TTL and are not being deleted yet.
    fn pending(&self) -> TrainJobSample {
        let waiting = self.jobs.iter().filter(|(_, it)| it.waits).count();
        let value = Value::Gauge(number(waiting));
        TrainJobSample { name: "trainjob_ttl_pending_deletions", labels: Vec::new(), value }
    }

    fn states(&self) -> Vec<TrainJobSample> {
        let mut tally: BTreeMap<(&Text, &Text), BTreeMap<TrainJobPhase, usize>> = BTreeMap::new();
        for ((namespace, _), job) in self.jobs.iter() {
            *tally.entry((namespace, &job.runtime)).or_default().entry(job.state).or_default() += 1;
        }
        let one = |((namespace, runtime), states): (&(&Text, &Text), &BTreeMap<TrainJobPhase, usize>)| {
            TrainJobPhase::ALL.map(|state| TrainJobSample {
                name: "trainjob_status",
                labels: vec![
                    ("namespace", (*namespace).clone()),
                    ("runtime", (*runtime).clone()),
                    ("state", state.word().into()),
                ],
                value: Value::Gauge(number(states.get(&state).copied().unwrap_or(0))),
            })
        };
        tally.iter().flat_map(one).collect()
    }

    fn add(&mut self, name: &'static str, namespace: &Text) {
        *self.counts.entry((name, namespace.clone())).or_default() += 1;
    }

    fn span(&mut self, name: &'static str, bounds: HistogramBuckets, took: Duration) {
        self.spans.entry(name).or_insert_with(|| TrainJobHistogram::new(bounds)).add(took);
    }
}

fn gauged(job: &TrainJobFacts, clock: DeadlineClock) -> JobGauge {
    JobGauge {
        runtime: job.runtime.name.clone(),
        state: TrainJobPhase::of(job),
        due: deadline(job, &job.status, clock).filter(|_| !job.deleting),
        waits: ttl_expiry(job, &job.status).is_some(),
    }
}

// Prometheus values are floating point; above 2^53 the lost precision does not matter.
#[allow(clippy::cast_precision_loss, reason = "metrics are floating point by their format")]
fn seconds(micros: i64) -> f64 {
    micros as f64 / 1_000_000.0
}

#[allow(clippy::cast_precision_loss, reason = "metrics are floating point by their format")]
fn number(n: usize) -> f64 {
    n as f64
}
