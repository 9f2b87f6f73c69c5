//! Metrics of the queue controller.
//!
//! # Guarantees
//!
//! - A decision counts when its write is in the cache; the objects of the initial list do not count.
//! - Gauges are set when a queue is reconciled, at most once a second while its Workloads change: a scrape computes nothing.
//! - The cost of an event does not depend on the number of queues.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use muster_api::client::{ApiObject, ApiRequest, Uid};
use muster_api::environment::Clock;
use muster_api::kinds::PODS;
use muster_api::meta;
use muster_api::paths::pod as pod_path;
use muster_api::queue::consts::{conditions, gates, reasons};
use muster_api::queue::{ClusterQueueFacts, LocalQueueFacts, WorkloadFacts, kinds};
use muster_api::time::Time;
use muster_queue::engine::decision::Decision;
use muster_queue::engine::report::{QueueUsage, UsageByFlavor};
use muster_queue::engine::workload::{NamespacedName as WorkloadKey, Requests};
use muster_queue::pods::group_metadata;
use muster_queue::reconcilers::metrics::{
    AdmissionResult, ClusterQueueGauges, ClusterQueueStatus, FlavorResourceGauges, MetricEvent, MetricSample,
    QueueMetrics, WorkloadCounts, WorkloadQueues,
};
use muster_queue::reconcilers::pending_reason::PendingReason;
use muster_queue::reconcilers::queues::ActiveCondition;
use muster_queue::reconcilers::workload::cluster_queue_of;
use muster_tree::{Text, Tree};

use super::unadmitted_workloads::UnadmittedWorkloads;
use crate::cache::{Caches, WatchEvent};
use crate::controller::{Reconciled, Step};

/// Measures admission cycles; without a clock every duration is zero (the simulator).
#[derive(Clone, Default)]
pub struct CycleTimer(pub Option<Arc<dyn Clock>>);

impl fmt::Debug for CycleTimer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Stopwatch")
    }
}

impl CycleTimer {
    /// The result of `work`, and how long it took.
    pub fn time<T>(&self, work: impl FnOnce() -> T) -> (T, Duration) {
        let began = self.0.as_ref().map(|clock| clock.now());
        let done = work();
        let took = self.0.as_ref().zip(began).map(|(clock, began)| clock.now().since(began));
        (done, took.unwrap_or_default())
    }
}

/// Queue metrics, shared between the control loop and the metrics endpoint.
#[derive(Debug, Clone, Default)]
pub struct SharedQueueMetrics(Arc<Mutex<QueueMetrics>>);

impl SharedQueueMetrics {
    /// All samples as of now, by metric name.
    #[must_use]
    pub fn samples(&self) -> Vec<MetricSample> {
        let now = self.lock().clone();
        now.samples()
    }

    fn lock(&self) -> MutexGuard<'_, QueueMetrics> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PartialEq for SharedQueueMetrics {
    fn eq(&self, other: &SharedQueueMetrics) -> bool {
        if Arc::ptr_eq(&self.0, &other.0) {
            return true;
        }
        let own = self.lock().clone();
        own == *other.lock()
    }
}

impl Eq for SharedQueueMetrics {}

/// Inputs of a queue's gauges besides its usage.
pub(super) struct QueueGaugeInputs {
    /// Requests of the pending Workloads.
    pub asked: Requests,
    /// The weighted share, with fair sharing.
    pub share: Option<i64>,
}

/// Records queue metrics from watch events and decisions.
#[derive(Debug, Default)]
pub(super) struct MetricsRecorder {
    numbers: SharedQueueMetrics,
    /// Observations of decisions whose write is not in the cache yet.
    unseen: BTreeMap<WorkloadKey, Vec<MetricEvent>>,
    /// Pods being ungated, and how long after their admission; recorded when the cache shows them without the gate.
    opening: BTreeMap<Uid, Duration>,
    unadmitted: UnadmittedWorkloads,
    /// The quota wait times of the last Workloads of each ClusterQueue, for estimates.
    waits: BTreeMap<Text, VecDeque<Duration>>,
    started: bool,
}

/// Wait times remembered per ClusterQueue.
const WAITS_MAX: usize = 20;

impl MetricsRecorder {
    /// The shared metrics.
    pub fn numbers(&self) -> SharedQueueMetrics {
        self.numbers.clone()
    }

    /// The initial list is complete: events count from now on.
    pub fn start(&mut self) {
        self.started = true;
    }

    /// How long the last ones of a ClusterQueue waited for quota.
    pub fn waits(&self, queue: &str) -> Vec<Duration> {
        self.waits.get(queue).into_iter().flatten().copied().collect()
    }

    fn count(&mut self, happened: &MetricEvent) {
        if let MetricEvent::Reserved { queues, waited } = happened {
            let last = self.waits.entry(queues.cluster.clone()).or_default();
            last.push_back(*waited);
            if last.len() > WAITS_MAX {
                last.pop_front();
            }
        }
        self.numbers.lock().record(happened);
    }

    /// Counts an observation. If its queue is deleted by now, its series are removed again.
    fn count_there(&mut self, happened: &MetricEvent, caches: &Caches) {
        self.count(happened);
        let by = match happened {
            MetricEvent::Preempted { by, .. } => Some(by),
            other => other.queues().map(|it| &it.cluster),
        };
        let is_gone = |name: &&Text| caches.get(&kinds::CLUSTER_QUEUES, &Text::new(), name).is_none();
        if let Some(gone) = by.filter(|name| !name.is_empty()).filter(is_gone) {
            self.forget_queue(gone);
        }
        if let Some((namespace, name)) = happened.queues().map(|it| &it.local)
            && caches.get(&kinds::LOCAL_QUEUES, namespace, name).is_none()
        {
            self.numbers.lock().delete_local_queue(&(namespace.clone(), name.clone()));
        }
    }

    /// Counts an admission cycle, if it decided anything.
    pub fn attempted(&mut self, (decisions, took): (Vec<Decision>, Duration)) -> Vec<Decision> {
        if !decisions.is_empty() {
            let admitted = decisions.iter().any(|it| matches!(it, Decision::Admit(_)));
            let result = if admitted { AdmissionResult::Success } else { AdmissionResult::Inadmissible };
            self.count(&MetricEvent::AdmissionAttempt { result, took });
        }
        decisions
    }

    /// Defers observations until the Workload's change is in the cache.
    pub fn once_seen(&mut self, key: WorkloadKey, happened: Vec<MetricEvent>) {
        // Finished is set by several writers: it is counted from the watch event only.
        let ours = happened.into_iter().filter(|it| !matches!(it, MetricEvent::Finished { .. }));
        self.unseen.insert(key, ours.collect());
    }

    /// The write failed: the deferred observations are dropped.
    pub fn refused(&mut self, key: &WorkloadKey) {
        self.unseen.remove(key);
    }

    pub fn on_workload_event(
        &mut self,
        key: &WorkloadKey,
        before: Option<&WorkloadFacts>,
        after: Option<&WorkloadFacts>,
        caches: &Caches,
    ) {
        let (seen, unseen): (Vec<MetricEvent>, Vec<MetricEvent>) =
            self.unseen.remove(key).into_iter().flatten().partition(|it| is_seen(it, before, after));
        seen.iter().for_each(|it| self.count_there(it, caches));
        if !unseen.is_empty() && after.is_some() {
            self.unseen.insert(key.clone(), unseen);
        }
        self.regroup(before, after);
        let Some(after) = after.filter(|_| self.started) else { return };
        match before {
            None => self.created(after, caches),
            Some(before) if after.is_finished() && !before.is_finished() => {
                let local = caches.get(&kinds::LOCAL_QUEUES, &after.namespace, &after.queue);
                let local = local.map(|it| LocalQueueFacts::of(&it.tree));
                let cluster = cluster_queue_of(after, local.as_ref()).unwrap_or_default();
                let queues =
                    WorkloadQueues { cluster, local: (after.namespace.clone(), after.queue.clone()) };
                self.count_there(&MetricEvent::Finished { queues }, caches);
            }
            Some(_) => {}
        }
    }

    fn regroup(&mut self, before: Option<&WorkloadFacts>, after: Option<&WorkloadFacts>) {
        let place = |it: &WorkloadFacts| Some(((it.namespace.clone(), it.queue.clone()), unadmitted(it)?));
        let (old, new) = (before.and_then(place), after.and_then(place));
        if old == new {
            return;
        }
        if let Some((local, reason)) = old {
            self.unadmitted.remove(&local, &reason);
        }
        if let Some((local, reason)) = new {
            self.unadmitted.add(&local, &reason);
        }
    }

    fn created(&mut self, workload: &WorkloadFacts, caches: &Caches) {
        let owner = workload.controller().and_then(|it| caches.by_uid(&it.uid));
        let job = owner.and_then(|(_, job)| meta::creation_timestamp(&job.tree));
        if let Some((job, made)) = job.zip(workload.created) {
            self.count(&MetricEvent::WorkloadCreated { took: made.since(job) });
        }
    }

    /// These steps ungate pods; each counts when the cache shows it without its gate.
    pub fn opening(&mut self, plan: &Reconciled, caches: &Caches, now: Time) {
        let told = plan.steps.iter().filter_map(|step| match step {
            Step::ParallelWithEvents(told) => Some(told),
            _ => None,
        });
        let started = told.flatten().filter(|(_, event)| event.reason == reasons::STARTED);
        let those = started.filter_map(|(call, _)| {
            Some((call.preconditions.uid.clone()?, now.since(admitted_at(call, caches)?)))
        });
        self.opening.extend(those);
    }

    /// A pod event: it may have been ungated.
    pub fn on_pod_event(&mut self, seen: &WatchEvent<'_>) {
        let opens =
            seen.old.is_some_and(|it| is_gated(&it.tree)) && seen.new.is_some_and(|it| !is_gated(&it.tree));
        if !opens && seen.new.is_some() {
            return;
        }
        if let Some(took) = self.opening.remove(&meta::uid(&seen.latest().tree)).filter(|_| opens) {
            self.count(&MetricEvent::Ungated { took });
        }
    }

    /// Ungating a pod failed.
    pub fn not_opened(&mut self, pod: &Uid) {
        self.opening.remove(pod);
    }

    /// Sets the gauges of a ClusterQueue.
    pub fn queue(
        &mut self,
        facts: &ClusterQueueFacts,
        ready: &ActiveCondition,
        usage: &QueueUsage,
        beside: &QueueGaugeInputs,
    ) {
        let mut pairs = pairs(facts);
        add(&mut pairs, &usage.flavors_reservation, |pair, total| pair.reserved = total);
        add(&mut pairs, &usage.flavors_usage, |pair, total| pair.used = total);
        let covered = pairs.keys().map(|(_, resource)| resource).collect::<BTreeSet<_>>();
        let pending = covered.into_iter();
        let pending = pending.map(|it| (it.clone(), beside.asked.get(it).copied().unwrap_or(0))).collect();
        let gauges = ClusterQueueGauges {
            cohort: facts.cohort.clone(),
            state: match ready.reason {
                _ if ready.holds => ClusterQueueStatus::Active,
                reasons::TERMINATING => ClusterQueueStatus::Terminating,
                _ => ClusterQueueStatus::Pending,
            },
            workloads: WorkloadCounts { unadmitted: self.unadmitted.of_queue(&facts.name), ..tally(usage) },
            flavor_resources: pairs,
            pending,
            share: beside.share,
        };
        self.numbers.lock().set_cluster_queue(&facts.name, gauges);
    }

    /// Sets the gauges of a LocalQueue.
    pub fn local(&mut self, namespace: &Text, name: &Text, usage: &QueueUsage) {
        let of = (namespace.clone(), name.clone());
        let unadmitted = self.unadmitted.of_local(&of);
        self.numbers.lock().set_local_queue(&of, WorkloadCounts { unadmitted, ..tally(usage) });
    }

    /// A LocalQueue references this ClusterQueue.
    pub fn place_local(&mut self, queue: &LocalQueueFacts) {
        let of = (queue.namespace.clone(), queue.name.clone());
        self.unadmitted.set_cluster_queue(&of, Some(&queue.cluster_queue));
    }

    /// Removes the series of a deleted ClusterQueue.
    pub fn forget_queue(&mut self, name: &str) {
        self.numbers.lock().delete_cluster_queue(name);
        self.waits.remove(name);
    }

    /// Removes the series of a deleted LocalQueue.
    pub fn forget_local(&mut self, namespace: &Text, name: &Text) {
        let of = (namespace.clone(), name.clone());
        self.numbers.lock().delete_local_queue(&of);
        self.unadmitted.set_cluster_queue(&of, None);
    }
}

fn is_gated(pod: &Tree) -> bool {
    pod.items_at(pod_path::GATES).iter().any(|gate| gate.str_at(&["name"]) == gates::ADMISSION)
}

/// Whether this event shows the write of the observed decision.
fn is_seen(it: &MetricEvent, before: Option<&WorkloadFacts>, after: Option<&WorkloadFacts>) -> bool {
    let becomes = |is: &dyn Fn(&WorkloadFacts) -> bool| after.is_some_and(is) && !before.is_some_and(is);
    match it {
        MetricEvent::Reserved { .. } => becomes(&|it| it.has_quota()),
        MetricEvent::Admitted { .. } => becomes(&|it| it.is_admitted()),
        MetricEvent::Evicted { .. } => becomes(&|it| it.is_evicted()),
        MetricEvent::Preempted { .. } => becomes(&|it| it.holds(conditions::PREEMPTED)),
        MetricEvent::Finished { .. } => becomes(&|it| it.is_finished()),
        MetricEvent::AdmissionAttempt { .. }
        | MetricEvent::Ungated { .. }
        | MetricEvent::WorkloadCreated { .. } => true,
    }
}

/// Why a Workload is not admitted; `None` if it is admitted or finished.
fn unadmitted(it: &WorkloadFacts) -> Option<Text> {
    if it.is_finished() || it.is_admitted() {
        return None;
    }
    let kind = if it.has_quota() { conditions::ADMITTED } else { conditions::QUOTA_RESERVED };
    let told = it.condition(kind).map(|it| it.reason.clone()).filter(|it| !it.is_empty());
    Some(told.unwrap_or_else(|| PendingReason::PendingEvaluation.condition_reason(Default::default()).into()))
}

/// When the Workload of a pod was admitted; `None` if it is not.
fn admitted_at(call: &ApiRequest, caches: &Caches) -> Option<Time> {
    let pod = caches.get(&PODS, &call.target.namespace, &call.target.name)?;
    let workload: &ApiObject = match group_metadata::group_name(&pod.tree) {
        Some((group, _)) => caches.get(&kinds::WORKLOADS, &call.target.namespace, &group)?,
        None => {
            let uid = meta::uid(&pod.tree);
            caches.owned_by(&uid).find(|(key, _)| key.kind == kinds::WORKLOADS)?.1
        }
    };
    WorkloadFacts::of(&workload.tree).condition(conditions::ADMITTED).filter(|it| it.holds)?.since
}

fn tally(usage: &QueueUsage) -> WorkloadCounts {
    let number = |n: usize| u64::try_from(n).unwrap_or(u64::MAX);
    WorkloadCounts {
        active: number(usage.active),
        inadmissible: number(usage.pending.saturating_sub(usage.active)),
        reserving: number(usage.reserving),
        admitted: number(usage.admitted_workloads),
        unadmitted: BTreeMap::new(),
    }
}

fn pairs(facts: &ClusterQueueFacts) -> BTreeMap<(Text, Text), FlavorResourceGauges> {
    let mut all = BTreeMap::new();
    for flavor in facts.flavors() {
        for it in &flavor.resources {
            let (nominal, borrowing, lending) = (it.nominal, it.borrowing_limit, it.lending_limit);
            let gauges =
                FlavorResourceGauges { nominal, borrowing, lending, ..FlavorResourceGauges::default() };
            all.insert((flavor.name.clone(), it.name.clone()), gauges);
        }
    }
    all
}

fn add(
    pairs: &mut BTreeMap<(Text, Text), FlavorResourceGauges>,
    usage: &UsageByFlavor,
    set: impl Fn(&mut FlavorResourceGauges, i64),
) {
    for (flavor, resources) in usage {
        for it in resources {
            if let Some(pair) = pairs.get_mut(&(flavor.clone(), it.resource.clone())) {
                set(pair, it.total);
            }
        }
    }
}
