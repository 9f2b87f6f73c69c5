//! ClusterQueues, LocalQueues, Cohorts and flavors: whether they are ready, what their statuses say, and how long they
//! are kept.
//!
//! # Invariants
//!
//! - Nothing is written when nothing changed. Whether a queue is ready is told at once; mere numbers are gathered for
//!   [`NUMBERS_EVERY`].
//! - A queue stays until nobody has a share of it, a flavor until no queue names it.

mod readiness;

use std::collections::BTreeMap;
use std::time::Duration;

use muster_api::queue::condition::{self, Condition};
use muster_api::queue::words::{conditions, finalizers};
use muster_api::queue::{
    ClusterQueueFacts, FlavorFacts, FlavorQuotas, FlavorUsage, LocalQueueFacts, QueueStatus, ResourceUsage,
    StopPolicy, cohort_status,
};
use muster_api::time::Time;
use muster_tree::{Text, Tree};

use super::numbers::QueueState;

pub use readiness::{Around, Readiness, local_readiness, readiness};

/// Numbers alone are written at most this often.
pub const NUMBERS_EVERY: Duration = Duration::from_secs(1);

/// How much of a flavor's resource is taken, in the unit of amounts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Taken {
    /// Set aside.
    pub reserved: i64,
    /// Of that, by Workloads that may run.
    pub used: i64,
}

/// What the engine counts of a queue.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Counted {
    /// By flavor and resource; what is not here is zero.
    pub taken: BTreeMap<(Text, Text), Taken>,
    /// Workloads that wait.
    pub pending: u32,
    /// Workloads that have shares.
    pub reserving: u32,
    /// Workloads that may run.
    pub admitted: u32,
    /// Its share of its cohort in thousandths; none where fair sharing is off.
    pub share: Option<i64>,
}

/// One step.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// Puts our finalizer on.
    AddFinalizer,
    /// Takes our finalizer off.
    DropFinalizer,
    /// Writes the status, over the revision that was read.
    Write(Box<QueueStatus>),
    /// Looks again at this time.
    LookAgain(Time),
}

/// When statuses were and are written.
#[derive(Debug, Clone, Copy)]
pub struct Moment {
    /// When this one was written last, if that is remembered.
    pub told_at: Option<Time>,
    /// The instant of the reading.
    pub now: Time,
}

impl Moment {
    /// When numbers may be written, if not now.
    fn next(self) -> Option<Time> {
        self.told_at.map(|at| at + NUMBERS_EVERY).filter(|at| *at > self.now)
    }
}

/// Until when nothing is to be counted of a ClusterQueue: its numbers were told just now, and all else is told, too.
#[must_use]
pub fn cluster_queue_rests(
    queue: &ClusterQueueFacts,
    old: &QueueStatus,
    ready: &Readiness,
    moment: Moment,
) -> Option<Time> {
    let is_kept = !queue.deleting && has_ours(&queue.finalizers);
    moment.next().filter(|_| is_kept && is_told(old, ready))
}

/// The same of a LocalQueue; `of` is its ClusterQueue.
#[must_use]
pub fn local_queue_rests(
    queue: &LocalQueueFacts,
    old: &QueueStatus,
    of: Option<(&ClusterQueueFacts, &Readiness)>,
    moment: Moment,
) -> Option<Time> {
    moment.next().filter(|_| !queue.deleting && is_told(old, &local_readiness(queue, of)))
}

/// Decides what a ClusterQueue needs next.
#[must_use]
pub fn plan_cluster_queue(
    queue: &ClusterQueueFacts,
    old: &QueueStatus,
    ready: &Readiness,
    counted: &Counted,
    moment: Moment,
) -> Vec<Action> {
    // One write at a time: what follows is told over the next revision.
    if let Some(step) = keep(&queue.finalizers, queue.deleting, counted.reserving > 0) {
        return vec![step];
    }
    if queue.deleting && !has_ours(&queue.finalizers) {
        return Vec::new();
    }
    let usage = usage_of(queue, counted, Tells::Borrowed);
    let status = status(old, ready, queue.generation, counted, usage, moment.now);
    write(old, status, moment).into_iter().collect()
}

/// Decides what a LocalQueue needs next; `of` is its ClusterQueue.
#[must_use]
pub fn plan_local_queue(
    queue: &LocalQueueFacts,
    old: &QueueStatus,
    of: Option<(&ClusterQueueFacts, &Readiness)>,
    counted: &Counted,
    moment: Moment,
) -> Vec<Action> {
    if queue.deleting {
        return Vec::new();
    }
    let ready = local_readiness(queue, of);
    let usage = of.map(|(it, _)| usage_of(it, counted, Tells::TotalOnly)).unwrap_or_default();
    let status = status(old, &ready, queue.generation, counted, usage, moment.now);
    write(old, status, moment).into_iter().collect()
}

/// Decides what a flavor needs next; `in_use` tells whether a ClusterQueue names it.
#[must_use]
pub fn plan_flavor(flavor: &FlavorFacts, in_use: bool) -> Option<Action> {
    keep(&flavor.finalizers, flavor.deleting, in_use)
}

/// Whether a ClusterQueue names a flavor.
#[must_use]
pub fn names_flavor(queue: &ClusterQueueFacts, flavor: &str) -> bool {
    queue.flavors().any(|it| it.name == flavor)
}

/// One step for a Cohort.
#[derive(Debug, Clone, PartialEq)]
pub enum CohortAction {
    /// Merges this into its status, over the revision that was read.
    Patch(Tree),
    /// Looks again at this time.
    LookAgain(Time),
}

/// Decides what a Cohort needs next: its share, as the engine has it, and nothing where fair sharing is off.
#[must_use]
pub fn plan_cohort(status: &Tree, share: Option<i64>, moment: Moment) -> Option<CohortAction> {
    let patch = cohort_status(status, share)?;
    Some(match moment.next() {
        Some(at) => CohortAction::LookAgain(at),
        None => CohortAction::Patch(patch),
    })
}

/// What a ClusterQueue is, as it is gauged.
#[must_use]
pub fn state(queue: &ClusterQueueFacts, ready: &Readiness) -> QueueState {
    match (queue.deleting, ready.holds) {
        (true, _) => QueueState::Terminating,
        (false, true) => QueueState::Active,
        (false, false) => QueueState::Pending,
    }
}

/// Our finalizer is there as long as something is in use.
fn keep(held: &[Text], deleting: bool, in_use: bool) -> Option<Action> {
    match (deleting, has_ours(held)) {
        (false, false) => Some(Action::AddFinalizer),
        (true, true) if !in_use => Some(Action::DropFinalizer),
        (false | true, true) | (true, false) => None,
    }
}

fn has_ours(held: &[Text]) -> bool {
    held.iter().any(|it| it == finalizers::IN_USE)
}

/// What is told of each resource.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Tells {
    /// Also how much of it is borrowed.
    Borrowed,
    /// How much there is in all.
    TotalOnly,
}

/// Flavors in a status: the definitions of Kueue refuse a status with more, and a queue may have several times as many.
const STATUS_FLAVORS_MAX: usize = 64;

/// Reservation and usage: the first flavors as the spec has them, resources by name, zeros too.
fn usage_of(queue: &ClusterQueueFacts, counted: &Counted, tells: Tells) -> [Vec<FlavorUsage>; 2] {
    let list = |pick: fn(&Taken) -> i64| {
        let flavor = |it: &FlavorQuotas| {
            let mut resources: Vec<ResourceUsage> = it
                .resources
                .iter()
                .map(|quota| {
                    let key = (it.name.clone(), quota.name.clone());
                    let total = counted.taken.get(&key).map_or(0, pick);
                    let borrowed = total.saturating_sub(quota.nominal).max(0);
                    let borrowed = (tells == Tells::Borrowed).then_some(borrowed);
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
    ready: &Readiness,
    generation: i64,
    counted: &Counted,
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
    if !is_told(old, ready) {
        let next = Condition::new(conditions::ACTIVE, ready.holds, ready.reason, &ready.message, now);
        status.set(next.of_generation(generation));
    }
    status
}

fn is_told(status: &QueueStatus, ready: &Readiness) -> bool {
    let told = condition::find(&status.conditions, conditions::ACTIVE);
    told.is_some_and(|it| it.holds == ready.holds && it.reason == ready.reason && it.message == ready.message)
}

/// The status, if it differs; if only numbers do, not too often.
fn write(old: &QueueStatus, status: QueueStatus, moment: Moment) -> Option<Action> {
    if status == *old {
        return None;
    }
    match moment.next() {
        Some(at) if status.conditions == old.conditions => Some(Action::LookAgain(at)),
        Some(_) | None => Some(Action::Write(Box::new(status))),
    }
}

/// Whether a LocalQueue takes nothing because it was stopped.
fn is_stopped(stop: StopPolicy) -> bool {
    match stop {
        StopPolicy::None => false,
        StopPolicy::Hold | StopPolicy::HoldAndDrain => true,
    }
}
