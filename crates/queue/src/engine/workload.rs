//! What the engine is told about one workload.
//!
//! # Invariants
//!
//! - Requests are those of one pod, already adjusted (overhead, limits, transformations): here they are only multiplied.
//! - Whether a workload waits, holds quota or is done is said by [`Stand`]; the rest never contradicts it.

use std::collections::BTreeMap;

use muster_api::time::Time;
use muster_api::toleration::Toleration;
use muster_tree::Text;

use super::amount;
use super::spec::{PODS, RequeueFrom};

/// A workload's name: namespace and name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// Namespace.
    pub namespace: Text,
    /// Name.
    pub name: Text,
}

impl Key {
    /// A key.
    #[must_use]
    pub fn new(namespace: &str, name: &str) -> Key {
        Key { namespace: namespace.into(), name: name.into() }
    }
}

/// Amounts by resource.
pub type Amounts = BTreeMap<Text, i64>;

/// One workload, as its object says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Info {
    /// Its name.
    pub key: Key,
    /// Its UID: the last word in every order.
    pub uid: Text,
    /// The UID of its job, for messages.
    pub job_uid: Option<Text>,
    /// The local queue it was sent to.
    pub local_queue: Text,
    /// Its effective priority.
    pub priority: i64,
    /// Since when it exists.
    pub created: Time,
    /// What it runs.
    pub pod_sets: Vec<PodSet>,
    /// Where it stands.
    pub stand: Stand,
    /// Its last eviction, while the condition says so.
    pub evicted: Option<Eviction>,
    /// `Requeued` is False: someone else decides when it queues again.
    pub on_hold: bool,
    /// Not before this instant.
    pub requeue_at: Option<Time>,
    /// One of its admission checks says Retry or Rejected.
    pub checks_failed: bool,
    /// What is wrong with its resources (requests above limits, limit ranges), if anything.
    pub wrong: Option<String>,
    /// All its pods are ready.
    pub pods_ready: bool,
}

/// Where a workload stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stand {
    /// It may be queued.
    Waiting,
    /// It must not be queued: deactivated, gated by annotation, waiting for replacement pods.
    Barred,
    /// Quota is set aside for it.
    Reserved(Reservation),
    /// It is done.
    Finished,
}

/// The quota a workload holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reservation {
    /// In which queue.
    pub queue: Text,
    /// What each set got.
    pub sets: Vec<SetAssignment>,
    /// Since when.
    pub since: Time,
    /// All checks are ready: it may run.
    pub admitted: bool,
}

/// What one set of pods got.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SetAssignment {
    /// The set.
    pub name: Text,
    /// The flavor of each resource.
    pub flavors: BTreeMap<Text, Text>,
    /// What all its pods take together.
    pub usage: Amounts,
    /// How many pods are let in.
    pub count: i64,
}

/// Pods of one shape.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PodSet {
    /// Name.
    pub name: Text,
    /// How many.
    pub count: i64,
    /// With how few it may start.
    pub min_count: Option<i64>,
    /// How many are done and need nothing any more.
    pub reclaimable: i64,
    /// What one pod asks for.
    pub requests: Amounts,
    /// What its pods tolerate.
    pub tolerations: Vec<Toleration>,
    /// Where its pods may run.
    pub affinity: Affinity,
}

/// What pods ask of their nodes' labels.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Affinity {
    /// `nodeSelector`.
    pub selector: BTreeMap<Text, Text>,
    /// Required node affinity: one of the terms must match; each is a conjunction. Empty: nothing is asked.
    pub terms: Vec<Vec<Expression>>,
}

/// One expression over node labels.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Expression {
    /// The label.
    pub key: Text,
    /// The comparison.
    pub operator: Operator,
    /// The values it is compared with.
    pub values: Vec<Text>,
}

/// How a label is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operator {
    /// One of the values.
    In,
    /// None of them, or no such label.
    NotIn,
    /// There is such a label.
    Exists,
    /// There is none.
    DoesNotExist,
    /// A whole number above the value.
    Gt,
    /// A whole number below the value.
    Lt,
}

/// Why and when a workload was evicted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Eviction {
    /// Why.
    pub cause: EvictionCause,
    /// When.
    pub at: Time,
}

/// Evictions, as far as they matter for the order of a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EvictionCause {
    /// Its pods were not ready in time.
    PodsReadyTimeout,
    /// A check asked for another try.
    AdmissionCheck,
    /// Anything else; the place in the queue is kept.
    Other,
}

impl Info {
    /// Since when it waits, as far as its place in a queue goes.
    #[must_use]
    pub fn queued_since(&self, from: RequeueFrom) -> Time {
        match &self.evicted {
            Some(Eviction { cause: EvictionCause::AdmissionCheck, at }) => *at,
            Some(Eviction { cause: EvictionCause::PodsReadyTimeout, at })
                if from == RequeueFrom::Eviction =>
            {
                *at
            }
            Some(_) | None => self.created,
        }
    }

    /// The quota it holds, if any.
    #[must_use]
    pub fn reservation(&self) -> Option<&Reservation> {
        match &self.stand {
            Stand::Reserved(reservation) => Some(reservation),
            Stand::Waiting | Stand::Barred | Stand::Finished => None,
        }
    }

    /// What it holds by flavor and resource: what was admitted, less the pods that are done.
    #[must_use]
    pub fn held(&self) -> BTreeMap<(Text, Text), i64> {
        let mut held = BTreeMap::new();
        for set in self.reservation().into_iter().flat_map(|r| &r.sets) {
            let own = self.pod_sets.iter().find(|own| own.name == set.name);
            let left = own.map_or(set.count, |own| own.left().min(set.count));
            for (resource, &total) in &set.usage {
                let Some(flavor) = set.flavors.get(resource) else { continue };
                let now = if set.count > 0 { amount::share_of(total, left, set.count) } else { 0 };
                let sum: &mut i64 = held.entry((flavor.clone(), resource.clone())).or_default();
                *sum = amount::plus(*sum, now.max(0));
            }
        }
        held
    }
}

impl PodSet {
    /// How many of its pods still need something.
    #[must_use]
    pub fn left(&self) -> i64 {
        (self.count - self.reclaimable).max(0)
    }

    /// What `count` of its pods ask for together; pods themselves too, where the queue counts them.
    #[must_use]
    pub fn asks(&self, count: i64, counts_pods: bool) -> Amounts {
        let mut all: Amounts = self
            .requests
            .iter()
            .map(|(name, &each)| (name.clone(), amount::times(each.max(0), count)))
            .collect();
        if counts_pods {
            all.insert(PODS.into(), count);
        }
        all
    }
}
