//! Metrics of a control loop and its controllers: for `/metrics`, and for tests that bound the requests of a scenario.
//!
//! # Guarantees
//!
//! - Metrics of several loops can be added: each kind of controller runs in one loop only.

use std::collections::BTreeMap;
use std::time::Duration;

use muster_api::client::{ApiError, ApiRequest, RequestVerb, Subresource};
use muster_scheduler::GroupStatus;
use muster_trainer::controller::metrics::TrainJobMetrics;
use muster_tree::Text;

use crate::jobsets::JobSetMetrics;
use crate::queueing::SharedQueueMetrics;

/// The verb and the plural resource name of a request.
pub type VerbAndResource = (&'static str, Text);

/// Metrics since the control loop started. Counters, unless noted as gauges.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RuntimeMetrics {
    /// Reconciliations.
    pub reconciles: u64,
    /// Requests sent, retries included.
    pub requests: u64,
    /// Requests sent, by verb and resource.
    pub requests_by_verb: BTreeMap<VerbAndResource, u64>,
    /// Requests that write, Events included.
    pub writes: u64,
    /// Requests that write an Event.
    pub events: u64,
    /// Events dropped by the rate limit of their object or a full queue.
    pub events_dropped: u64,
    /// Requests that failed.
    pub request_errors: u64,
    /// Writes rejected because of their content, by verb and resource: see [`RuntimeMetrics::observe_rejected`].
    pub rejected: BTreeMap<VerbAndResource, u64>,
    /// Requests retried because their reply was lost.
    pub retries: u64,
    /// Requests that write, by field manager.
    pub writes_by_manager: BTreeMap<Text, u64>,
    /// Gauge: ready keys of all controllers.
    pub queue_len: u64,
    /// Gauge: requests without a reply.
    pub in_flight: u64,
    /// Workqueue metrics by [`crate::Controller::metrics_name`].
    pub workqueues: BTreeMap<&'static str, WorkqueueMetrics>,
    /// Metrics of the scheduler.
    pub scheduling: SchedulerMetrics,
    /// Metrics of the JobSet controller.
    pub jobsets: JobSetMetrics,
    /// Metrics of the queue controller.
    pub queueing: SharedQueueMetrics,
    /// Metrics of the TrainJob controller.
    pub training: TrainJobMetrics,
}

/// Metrics of one controller, as client-go's workqueue and controller-runtime define them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WorkqueueMetrics {
    /// `workqueue_adds_total`.
    pub adds: u64,
    /// Reconciliations that succeeded without a requeue.
    pub done: u64,
    /// Reconciliations that succeeded and asked for a requeue (`result="requeue_after"`).
    pub requeues: u64,
    /// Reconciliations that failed; each is retried with backoff.
    pub errors: u64,
    /// Gauge: ready keys, `workqueue_depth`.
    pub depth: u64,
    /// Gauge: reconciliations in flight.
    pub active_workers: u64,
    /// Gauge: the summed age of the reconciliations in flight, `workqueue_unfinished_work_seconds`.
    pub unfinished_work: Duration,
    /// Gauge: the age of the oldest one, `workqueue_longest_running_processor_seconds`.
    pub longest_running: Duration,
    /// Time from ready to reconciled.
    pub queue_duration: DurationHistogram,
    /// Time from there to the last reply.
    pub work_duration: DurationHistogram,
}

impl std::ops::AddAssign<&WorkqueueMetrics> for WorkqueueMetrics {
    fn add_assign(&mut self, other: &WorkqueueMetrics) {
        self.adds += other.adds;
        self.done += other.done;
        self.requeues += other.requeues;
        self.errors += other.errors;
        self.depth += other.depth;
        self.active_workers += other.active_workers;
        self.unfinished_work += other.unfinished_work;
        self.longest_running = self.longest_running.max(other.longest_running);
        self.queue_duration += &other.queue_duration;
        self.work_duration += &other.work_duration;
    }
}

/// Metrics of the scheduler, named as in kube-scheduler.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SchedulerMetrics {
    /// Scheduling attempts of pods, by profile (`spec.schedulerName`) and result.
    pub attempts: BTreeMap<(Text, &'static str), u64>,
    /// Gauge: pending pods, by scheduling queue.
    pub pending: BTreeMap<&'static str, u64>,
    /// Time from creation, or from the removal of the last scheduling gate, to the placement of a pod.
    pub waits: DurationHistogram,
    /// Metrics of pod groups.
    pub gangs: PodGroupMetrics,
}

/// Scheduler metrics of pod groups.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PodGroupMetrics {
    /// Scheduling attempts of pod groups, by result.
    pub attempts: BTreeMap<&'static str, u64>,
    /// Time from the placement of a group to the binding of all its pods.
    pub times: DurationHistogram,
    /// Time from the first pod of a group until enough pods have nodes.
    pub waits: DurationHistogram,
    /// Gauge: pod groups, by policy and by whether enough pods have nodes.
    pub groups: BTreeMap<(&'static str, bool), u64>,
}

impl PodGroupMetrics {
    /// Counts a scheduling attempt; a group that is held back was not attempted.
    pub fn observe_attempt(&mut self, verdict: &GroupStatus) {
        let result = match verdict {
            GroupStatus::Held(_) => return,
            GroupStatus::Placed => "scheduled",
            GroupStatus::Unschedulable(_) | GroupStatus::DeadlineExceeded(_) => "unschedulable",
            GroupStatus::Error(_) => "error",
        };
        *self.attempts.entry(result).or_default() += 1;
    }
}

impl std::ops::AddAssign<&PodGroupMetrics> for PodGroupMetrics {
    fn add_assign(&mut self, other: &PodGroupMetrics) {
        for (result, count) in &other.attempts {
            *self.attempts.entry(result).or_default() += count;
        }
        for (kind, count) in &other.groups {
            *self.groups.entry(*kind).or_default() += count;
        }
        self.times += &other.times;
        self.waits += &other.waits;
    }
}

/// A histogram of durations with exponential buckets: 10 ms, doubled 19 times.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DurationHistogram {
    /// Observations per bucket, not cumulative; the last bucket is `+Inf`.
    pub counts: [u64; DurationHistogram::BOUNDS + 1],
    /// The sum of all observations.
    pub sum: Duration,
}

impl DurationHistogram {
    /// The number of finite buckets.
    pub const BOUNDS: usize = 20;
    /// The upper bound of the first bucket.
    pub const FIRST: Duration = Duration::from_millis(10);

    /// The upper bounds of the finite buckets.
    pub fn bounds() -> impl Iterator<Item = Duration> {
        (0..DurationHistogram::BOUNDS).map(|n| DurationHistogram::FIRST * (1 << n))
    }

    /// Adds an observation.
    pub fn observe(&mut self, wait: Duration) {
        let at =
            DurationHistogram::bounds().position(|bound| wait <= bound).unwrap_or(DurationHistogram::BOUNDS);
        self.counts[at] += 1;
        self.sum = self.sum.saturating_add(wait);
    }
}

impl std::ops::AddAssign<&SchedulerMetrics> for SchedulerMetrics {
    fn add_assign(&mut self, other: &SchedulerMetrics) {
        for (key, count) in &other.attempts {
            *self.attempts.entry(key.clone()).or_default() += count;
        }
        for (place, count) in &other.pending {
            *self.pending.entry(place).or_default() += count;
        }
        self.waits += &other.waits;
        self.gangs += &other.gangs;
    }
}

impl std::ops::AddAssign<&DurationHistogram> for DurationHistogram {
    fn add_assign(&mut self, other: &DurationHistogram) {
        for (mine, others) in self.counts.iter_mut().zip(other.counts) {
            *mine += others;
        }
        self.sum = self.sum.saturating_add(other.sum);
    }
}

impl RuntimeMetrics {
    /// Counts a request that is sent.
    pub fn observe_sent(&mut self, request: &ApiRequest) {
        self.requests += 1;
        *self.requests_by_verb.entry((verb(request), request.target.kind.plural.clone())).or_default() += 1;
        if matches!(request.verb, RequestVerb::Get) {
            return;
        }
        self.writes += 1;
        *self.writes_by_manager.entry(request.field_manager.clone()).or_default() += 1;
        if request.target.kind.plural == "events" {
            self.events += 1;
        }
    }

    /// Counts a write that the server rejects because of its content, and returns whether it is one. A retry does not help:
    /// schema validation, a webhook or RBAC rejects it. A forbidden create does not count: ResourceQuota and a terminating
    /// namespace forbid creates, too, and both may pass.
    pub fn observe_rejected(&mut self, request: &ApiRequest, error: &ApiError) -> bool {
        let rejected = match (error, &request.verb) {
            (_, RequestVerb::Get) => false,
            (ApiError::Invalid(_), _) => true,
            (ApiError::Forbidden(_), act) => !matches!(act, RequestVerb::Create(_)),
            _ => false,
        };
        if rejected {
            *self.rejected.entry((verb(request), request.target.kind.plural.clone())).or_default() += 1;
        }
        rejected
    }
}

impl std::ops::AddAssign<&RuntimeMetrics> for RuntimeMetrics {
    fn add_assign(&mut self, other: &RuntimeMetrics) {
        self.reconciles += other.reconciles;
        self.requests += other.requests;
        self.writes += other.writes;
        self.events += other.events;
        self.events_dropped += other.events_dropped;
        self.request_errors += other.request_errors;
        self.retries += other.retries;
        self.queue_len += other.queue_len;
        self.in_flight += other.in_flight;
        for (name, work) in &other.workqueues {
            *self.workqueues.entry(name).or_default() += work;
        }
        self.scheduling += &other.scheduling;
        self.jobsets += &other.jobsets;
        // One loop only runs the queue controller.
        if self.queueing == SharedQueueMetrics::default() {
            self.queueing = other.queueing.clone();
        }
        // One loop only runs the TrainJob controller.
        if self.training == TrainJobMetrics::default() {
            self.training = other.training.clone();
        }
        for (kind, count) in &other.requests_by_verb {
            *self.requests_by_verb.entry(kind.clone()).or_default() += count;
        }
        for (kind, count) in &other.rejected {
            *self.rejected.entry(kind.clone()).or_default() += count;
        }
        for (manager, count) in &other.writes_by_manager {
            *self.writes_by_manager.entry(manager.clone()).or_default() += count;
        }
    }
}

/// The `verb` label of a request.
pub(crate) fn verb(request: &ApiRequest) -> &'static str {
    match (&request.verb, request.target.subresource) {
        (RequestVerb::Get, _) => "get",
        (RequestVerb::Create(_), Subresource::Binding) => "bind",
        (RequestVerb::Create(_), Subresource::Eviction) => "evict",
        (RequestVerb::Create(_), _) => "create",
        (RequestVerb::Delete { .. }, _) => "delete",
        (_, Subresource::Status) => "status",
        (_, Subresource::Finalize) => "finalize",
        (RequestVerb::Apply { .. }, _) => "apply",
        (RequestVerb::MergePatch(_) | RequestVerb::StrategicMergePatch(_), _) => "patch",
    }
}

#[cfg(test)]
mod tests {
    use muster_api::client::{DeletionPropagation, Kind, Preconditions, RequestTarget};
    use muster_api::kinds;
    use muster_tree::{literal, tree};

    use super::*;

    fn call(kind: &Kind, part: Subresource, act: RequestVerb) -> ApiRequest {
        let on =
            RequestTarget { kind: kind.clone(), namespace: "n".into(), name: "a".into(), subresource: part };
        ApiRequest {
            field_manager: literal!("me"),
            target: on,
            preconditions: Preconditions::default(),
            verb: act,
        }
    }

    #[test]
    fn durations_are_counted_by_bucket() {
        let mut histogram = DurationHistogram::default();
        for millis in [0, 10, 11, 20, 21, 10_000_000] {
            histogram.observe(Duration::from_millis(millis));
        }
        assert_eq!(histogram.counts[..3], [2, 2, 1]);
        assert_eq!(histogram.counts[DurationHistogram::BOUNDS], 1, "longer than all bounds");
        assert_eq!(histogram.sum, Duration::from_millis(10_000_062));
    }

    #[test]
    fn requests_are_counted_by_verb_and_resource() {
        let create = || RequestVerb::Create(tree!({}));
        let merge = || RequestVerb::MergePatch(tree!({}));
        let mut metrics = RuntimeMetrics::default();
        for call in [
            call(&kinds::PODS, Subresource::Main, create()),
            call(&kinds::PODS, Subresource::Main, create()),
            call(&kinds::PODS, Subresource::Binding, create()),
            call(&kinds::JOBS, Subresource::Status, merge()),
            call(&kinds::JOBS, Subresource::Main, merge()),
            call(&kinds::EVENTS, Subresource::Main, create()),
            call(&kinds::JOBS, Subresource::Main, RequestVerb::Get),
            call(
                &kinds::JOBS,
                Subresource::Main,
                RequestVerb::Delete { propagation_policy: DeletionPropagation::Background, grace_secs: None },
            ),
        ] {
            metrics.observe_sent(&call);
        }
        let by: Vec<(&str, &str, u64)> =
            metrics.requests_by_verb.iter().map(|((verb, plural), n)| (*verb, plural.as_str(), *n)).collect();
        let want = [
            ("bind", "pods", 1),
            ("create", "events", 1),
            ("create", "pods", 2),
            ("delete", "jobs", 1),
            ("get", "jobs", 1),
            ("patch", "jobs", 1),
            ("status", "jobs", 1),
        ];
        assert_eq!(by, want);
        assert_eq!((metrics.requests, metrics.writes, metrics.events), (8, 7, 1));
    }
}
