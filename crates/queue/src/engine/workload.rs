//! A Workload as the engine sees it.
//!
//! # Guarantees
//!
//! - Requests are those of one pod, already adjusted (overhead, limits, transformations). The engine only
//!   multiplies them.
//! - [`QuotaStatus`] alone says whether a Workload is pending, holds quota or is finished; other fields never
//!   contradict it.

use std::collections::BTreeMap;

use muster_api::time::Time;
use muster_api::toleration::Toleration;
use muster_tree::Text;

use super::amount;
use super::spec::{PODS, RequeuingTimestamp};

/// Namespace and name of a Workload or LocalQueue.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NamespacedName {
    pub namespace: Text,
    pub name: Text,
}

impl NamespacedName {
    #[must_use]
    pub fn new(namespace: &str, name: &str) -> NamespacedName {
        NamespacedName { namespace: namespace.into(), name: name.into() }
    }
}

pub type Requests = BTreeMap<Text, i64>;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkloadInfo {
    pub key: NamespacedName,
    /// Breaks ties in every order.
    pub uid: Text,
    /// For the preemption message only.
    pub job_uid: Option<Text>,
    pub local_queue: Text,
    pub priority: i64,
    /// Since when it exists.
    pub created: Time,
    pub pod_sets: Vec<PodSetSpec>,
    pub status: QuotaStatus,
    /// The last eviction while condition `Evicted` is True.
    pub evicted: Option<Eviction>,
    /// Condition `Requeued` is False: its controller decides when it may queue again.
    pub on_hold: bool,
    /// API field `status.requeueState.requeueAt` of Kueue.
    pub requeue_at: Option<Time>,
    /// An admission check is in state Retry or Rejected.
    pub checks_failed: bool,
    /// The message when requests exceed limits or violate a LimitRange.
    pub invalid_resources: Option<String>,
    /// Condition `PodsReady` is True.
    pub pods_ready: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum QuotaStatus {
    /// Pending: queueable, without a reservation.
    Pending,
    /// Not queueable: deactivated, admission-gated, or waiting for replacement pods.
    Blocked,
    QuotaReserved(QuotaReservation),
    Finished,
}

/// The quota reserved for a Workload (`status.admission`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuotaReservation {
    pub queue: Text,
    /// The flavors and usage of each pod set.
    pub pod_sets: Vec<PodSetResources>,
    pub since: Time,
    /// Condition `Admitted` is True.
    pub admitted: bool,
}

/// The quota reserved for one pod set (`podSetAssignments[]`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodSetResources {
    pub name: Text,
    pub flavors: BTreeMap<Text, Text>,
    /// The total of all pods of the set.
    pub usage: Requests,
    /// The admitted pod count; below the spec's count after partial admission.
    pub count: i64,
}

/// Pods of one shape.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PodSetSpec {
    pub name: Text,
    pub count: i64,
    /// `minCount` of partial admission.
    pub min_count: Option<i64>,
    /// API field `status.reclaimablePods[].count` of Kueue.
    pub reclaimable: i64,
    /// The requests of one pod.
    pub requests: Requests,
    pub tolerations: Vec<Toleration>,
    /// Where its pods may run.
    pub affinity: FlavorNodeRequirements,
}

/// Node selector and required node affinity of a pod template.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct FlavorNodeRequirements {
    pub selector: BTreeMap<Text, Text>,
    /// Required node affinity: terms are ORed, the expressions of a term are ANDed. Empty: no requirement.
    pub terms: Vec<Vec<NodeSelectorRequirement>>,
}

/// One expression over node labels.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct NodeSelectorRequirement {
    pub key: Text,
    pub operator: NodeSelectorOperator,
    /// The values it is compared with.
    pub values: Vec<Text>,
}

/// How a label is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum NodeSelectorOperator {
    /// The label has one of the values.
    In,
    /// Also matches when the label is missing.
    NotIn,
    /// There is such a label.
    Exists,
    DoesNotExist,
    /// The label value is an integer above the operand.
    Gt,
    /// The label value is an integer below the operand.
    Lt,
}

/// Why and when a workload was evicted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Eviction {
    pub cause: EvictionCause,
    pub at: Time,
}

/// Causes of eviction that affect queue order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EvictionCause {
    PodsReadyTimeout,
    /// An AdmissionCheck in state Retry.
    AdmissionCheck,
    /// Any other cause; the Workload keeps its queue position.
    Other,
}

impl WorkloadInfo {
    /// The timestamp that orders the pending queue (Kueue's `GetQueueOrderTimestamp`).
    #[must_use]
    pub fn queue_order_timestamp(&self, from: RequeuingTimestamp) -> Time {
        match &self.evicted {
            // As in Kueue, an AdmissionCheck retry always moves the Workload behind those queued meanwhile; a
            // PodsReady timeout only with `timestamp: Eviction`.
            Some(Eviction { cause: EvictionCause::AdmissionCheck, at }) => *at,
            Some(Eviction { cause: EvictionCause::PodsReadyTimeout, at })
                if from == RequeuingTimestamp::Eviction =>
            {
                *at
            }
            Some(_) | None => self.created,
        }
    }

    #[must_use]
    pub fn reservation(&self) -> Option<&QuotaReservation> {
        match &self.status {
            QuotaStatus::QuotaReserved(reservation) => Some(reservation),
            QuotaStatus::Pending | QuotaStatus::Blocked | QuotaStatus::Finished => None,
        }
    }

    /// Usage by flavor and resource: the reserved amounts less those of reclaimable pods.
    #[must_use]
    pub fn flavor_resource_usage(&self) -> BTreeMap<(Text, Text), i64> {
        let mut held = BTreeMap::new();
        for set in self.reservation().into_iter().flat_map(|r| &r.pod_sets) {
            let own = self.pod_sets.iter().find(|own| own.name == set.name);
            // The reserved total is scaled down, so that a changed pod template does not change what an admitted
            // Workload holds.
            // After partial admission `count` is below the spec's count, so reclaimable pods may exceed it.
            let left = own.map_or(set.count, |own| own.count_after_reclaim().min(set.count));
            for (resource, &total) in &set.usage {
                let Some(flavor) = set.flavors.get(resource) else { continue };
                let now = if set.count > 0 { amount::prorate(total, left, set.count) } else { 0 };
                let sum: &mut i64 = held.entry((flavor.clone(), resource.clone())).or_default();
                *sum = amount::plus(*sum, now.max(0));
            }
        }
        held
    }
}

impl PodSetSpec {
    /// The pod count without reclaimable pods.
    #[must_use]
    pub fn count_after_reclaim(&self) -> i64 {
        (self.count - self.reclaimable).max(0)
    }

    /// The requests of `count` pods; `counts_pods` adds the resource `pods`.
    #[must_use]
    pub fn total_requests(&self, count: i64, counts_pods: bool) -> Requests {
        let mut all: Requests = self
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
