//! Reconcilers of ClusterQueues, LocalQueues, Cohorts and ResourceFlavors: `Active` condition, usage, and
//! finalizers.
//!
//! # Guarantees
//!
//! - An unchanged status is not written. A change of `Active` is written at once, usage alone at most once per
//!   [`USAGE_UPDATE_INTERVAL`].
//! - A ClusterQueue keeps its finalizer while a Workload has a reservation in it, a ResourceFlavor while a
//!   ClusterQueue references it.

mod active;

use std::collections::BTreeMap;
use std::time::Duration;

use muster_api::queue::condition::{self, Condition};
use muster_api::queue::consts::{conditions, finalizers};
use muster_api::queue::{
    ClusterQueueFacts, FlavorFacts, FlavorQuotas, FlavorUsage, LocalQueueFacts, QueueStatus, ResourceUsage,
    StopPolicy, cohort_status,
};
use muster_api::time::Time;
use muster_tree::{Text, Tree};

use super::metrics::ClusterQueueStatus;

pub use active::{ActiveCondition, ReadinessLister, cluster_queue_active, local_queue_active};

/// Minimum interval between status updates that change usage only.
pub const USAGE_UPDATE_INTERVAL: Duration = Duration::from_secs(1);

/// Usage of one flavor-resource, in the units of the engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FlavorResourceUsage {
    pub reserved: i64,
    /// Of that, by admitted Workloads.
    pub used: i64,
}

/// Usage and Workload counts of a queue, from the engine.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct QueueCounts {
    /// By flavor and resource; missing entries are zero.
    pub usage: BTreeMap<(Text, Text), FlavorResourceUsage>,
    pub pending: u32,
    pub reserving: u32,
    /// Workloads that may run.
    pub admitted: u32,
    /// Weighted share in thousandths; None without fair sharing.
    pub share: Option<i64>,
}

#[derive(Debug, Clone, PartialEq)]
pub enum QueueAction {
    AddFinalizer,
    RemoveFinalizer,
    /// Writes the status, with the resourceVersion that was read.
    Write(Box<QueueStatus>),
    RequeueAt(Time),
}

/// Timing of usage-only updates.
#[derive(Debug, Clone, Copy)]
pub struct StatusTiming {
    /// When this status was written last, if known.
    pub last_written_at: Option<Time>,
    /// The instant of the reading.
    pub now: Time,
}

impl StatusTiming {
    /// The earliest time of the next usage-only update; None if now.
    fn next(self) -> Option<Time> {
        self.last_written_at.map(|at| at + USAGE_UPDATE_INTERVAL).filter(|at| *at > self.now)
    }
}

/// Until when a reconciliation of a ClusterQueue can be skipped: usage was written just now and `Active` is up to
/// date. It saves counting the usage.
#[must_use]
pub fn cluster_queue_update_deferred_until(
    queue: &ClusterQueueFacts,
    old: &QueueStatus,
    ready: &ActiveCondition,
    moment: StatusTiming,
) -> Option<Time> {
    let is_kept = !queue.deleting && has_ours(&queue.finalizers);
    moment.next().filter(|_| is_kept && is_reported(old, ready))
}

/// Like [`cluster_queue_rests`] for a LocalQueue; `of` is its ClusterQueue.
#[must_use]
pub fn local_queue_update_deferred_until(
    queue: &LocalQueueFacts,
    old: &QueueStatus,
    of: Option<(&ClusterQueueFacts, &ActiveCondition)>,
    moment: StatusTiming,
) -> Option<Time> {
    moment.next().filter(|_| !queue.deleting && is_reported(old, &local_queue_active(queue, of)))
}

#[must_use]
pub fn reconcile_cluster_queue(
    queue: &ClusterQueueFacts,
    old: &QueueStatus,
    ready: &ActiveCondition,
    counted: &QueueCounts,
    moment: StatusTiming,
) -> Vec<QueueAction> {
    // One write per reconciliation: the status is reconciled on the new resourceVersion.
    if let Some(step) = reconcile_finalizer(&queue.finalizers, queue.deleting, counted.reserving > 0) {
        return vec![step];
    }
    // Without our finalizer the object is about to be removed.
    if queue.deleting && !has_ours(&queue.finalizers) {
        return Vec::new();
    }
    let usage = usage_of(queue, counted, UsageDetail::Borrowed);
    let status = status(old, ready, queue.generation, counted, usage, moment.now);
    write(old, status, moment).into_iter().collect()
}

/// `of` is its ClusterQueue.
#[must_use]
pub fn reconcile_local_queue(
    queue: &LocalQueueFacts,
    old: &QueueStatus,
    of: Option<(&ClusterQueueFacts, &ActiveCondition)>,
    counted: &QueueCounts,
    moment: StatusTiming,
) -> Vec<QueueAction> {
    if queue.deleting {
        return Vec::new();
    }
    let ready = local_queue_active(queue, of);
    let usage = of.map(|(it, _)| usage_of(it, counted, UsageDetail::TotalOnly)).unwrap_or_default();
    let status = status(old, &ready, queue.generation, counted, usage, moment.now);
    write(old, status, moment).into_iter().collect()
}

/// `in_use`: a ClusterQueue references the flavor.
#[must_use]
pub fn reconcile_flavor(flavor: &FlavorFacts, in_use: bool) -> Option<QueueAction> {
    reconcile_finalizer(&flavor.finalizers, flavor.deleting, in_use)
}

/// Whether a ClusterQueue names a flavor.
#[must_use]
pub fn references_flavor(queue: &ClusterQueueFacts, flavor: &str) -> bool {
    queue.flavors().any(|it| it.name == flavor)
}

/// An action of the Cohort reconciler.
#[derive(Debug, Clone, PartialEq)]
pub enum CohortAction {
    /// Merge patch of the status, with the resourceVersion that was read.
    Patch(Tree),
    RequeueAt(Time),
}

/// Writes the weighted share of a Cohort; nothing without fair sharing.
#[must_use]
pub fn reconcile_cohort(status: &Tree, share: Option<i64>, moment: StatusTiming) -> Option<CohortAction> {
    let patch = cohort_status(status, share)?;
    Some(match moment.next() {
        Some(at) => CohortAction::RequeueAt(at),
        None => CohortAction::Patch(patch),
    })
}

/// The value of metric `cluster_queue_status`.
#[must_use]
pub fn cluster_queue_status(queue: &ClusterQueueFacts, ready: &ActiveCondition) -> ClusterQueueStatus {
    match (queue.deleting, ready.holds) {
        (true, _) => ClusterQueueStatus::Terminating,
        (false, true) => ClusterQueueStatus::Active,
        (false, false) => ClusterQueueStatus::Pending,
    }
}

/// Adds the finalizer to every object, and removes it from a deleted one that is not in use.
fn reconcile_finalizer(held: &[Text], deleting: bool, in_use: bool) -> Option<QueueAction> {
    match (deleting, has_ours(held)) {
        (false, false) => Some(QueueAction::AddFinalizer),
        (true, true) if !in_use => Some(QueueAction::RemoveFinalizer),
        (false | true, true) | (true, false) => None,
    }
}

fn has_ours(held: &[Text]) -> bool {
    held.iter().any(|it| it == finalizers::IN_USE)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum UsageDetail {
    /// Also how much of it is borrowed.
    Borrowed,
    /// How much there is in all.
    TotalOnly,
}

/// Bound on flavors in a status: Kueue's CRDs reject more, and a ClusterQueue may have several times as many.
const STATUS_FLAVORS_MAX: usize = 64;

/// Reservation and usage: flavors in spec order, resources by name, zeros included.
fn usage_of(queue: &ClusterQueueFacts, counted: &QueueCounts, detail: UsageDetail) -> [Vec<FlavorUsage>; 2] {
    let list = |pick: fn(&FlavorResourceUsage) -> i64| {
        let flavor = |it: &FlavorQuotas| {
            let mut resources: Vec<ResourceUsage> = it
                .resources
                .iter()
                .map(|quota| {
                    let key = (it.name.clone(), quota.name.clone());
                    let total = counted.usage.get(&key).map_or(0, pick);
                    let borrowed = total.saturating_sub(quota.nominal).max(0);
                    let borrowed = (detail == UsageDetail::Borrowed).then_some(borrowed);
                    ResourceUsage { name: quota.name.clone(), total, borrowed }
                })
                .collect();
            resources.sort_by(|a, b| a.name.cmp(&b.name));
            FlavorUsage { name: it.name.clone(), resources }
        };
        queue.flavors().take(STATUS_FLAVORS_MAX).map(flavor).collect()
    };
    [list(|it| it.reserved), list(|it| it.used)]
}

fn status(
    old: &QueueStatus,
    ready: &ActiveCondition,
    generation: i64,
    counted: &QueueCounts,
    [reservation, usage]: [Vec<FlavorUsage>; 2],
    now: Time,
) -> QueueStatus {
    let mut status = QueueStatus {
        conditions: old.conditions.clone(),
        reservation,
        usage,
        pending: counted.pending,
        reserving: counted.reserving,
        admitted: counted.admitted,
        share: counted.share,
    };
    if !is_reported(old, ready) {
        let next = Condition::new(conditions::ACTIVE, ready.holds, ready.reason, &ready.message, now);
        status.set(next.of_generation(generation));
    }
    status
}

fn is_reported(status: &QueueStatus, ready: &ActiveCondition) -> bool {
    let current = condition::find(&status.conditions, conditions::ACTIVE);
    current
        .is_some_and(|it| it.holds == ready.holds && it.reason == ready.reason && it.message == ready.message)
}

/// Returns the status if it differs; usage-only changes are rate-limited.
fn write(old: &QueueStatus, status: QueueStatus, moment: StatusTiming) -> Option<QueueAction> {
    if status == *old {
        return None;
    }
    match moment.next() {
        // Usage changes with every admission; the condition is written at once.
        Some(at) if status.conditions == old.conditions => Some(QueueAction::RequeueAt(at)),
        Some(_) | None => Some(QueueAction::Write(Box::new(status))),
    }
}

fn is_stopped(stop: StopPolicy) -> bool {
    match stop {
        StopPolicy::None => false,
        StopPolicy::Hold | StopPolicy::HoldAndDrain => true,
    }
}
