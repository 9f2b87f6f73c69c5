//! Workloads with a quota reservation in preemption order, and the snapshot on which one nomination is computed.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use muster_api::time::Time;
use muster_tree::Text;

use super::spec::{ClusterQueueSpec, EngineSettings, FlavorSpec};
use super::tree::{FlavorResourceId, QuotaNodeId, QuotaTree, Usage};
use super::workload::NamespacedName;

/// A Workload with a quota reservation; a candidate for preemption.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReservingWorkload {
    pub key: NamespacedName,
    pub uid: Text,
    pub priority: i64,
    /// The queue-order timestamp before the reservation.
    pub queued_since: Time,
    /// The `lastTransitionTime` of condition `QuotaReserved`.
    pub reserved_at: Time,
    /// Condition `Evicted` is True: it releases its quota when its job has stopped.
    pub evicted: bool,
    pub node: QuotaNodeId,
    /// Every amount is above zero.
    pub usage: Vec<(FlavorResourceId, i64)>,
}

/// Order among the candidates of a ClusterQueue: lowest priority first, then the most recent reservation, then UID.
pub type CandidateRank = (i64, Reverse<Time>, Text);
/// The Workloads with a reservation in one ClusterQueue, in preemption order.
pub type ReservingWorkloads = BTreeMap<CandidateRank, Arc<ReservingWorkload>>;

impl ReservingWorkload {
    #[must_use]
    pub fn rank(&self) -> CandidateRank {
        (self.priority, Reverse(self.reserved_at), self.uid.clone())
    }

    /// Whether it uses any of these flavor-resources.
    #[must_use]
    pub fn uses_any(&self, pairs: &[FlavorResourceId]) -> bool {
        self.usage.iter().any(|(pair, _)| pairs.contains(pair))
    }
}

/// Everything a nomination reads. Usage is passed separately, so that a simulation can change and restore it.
#[derive(Clone, Copy)]
pub struct QuotaSnapshot<'a> {
    pub tree: &'a QuotaTree,
    pub specs: &'a [Arc<ClusterQueueSpec>],
    pub flavors: &'a BTreeMap<Text, FlavorSpec>,
    pub reserving: &'a [ReservingWorkloads],
    pub settings: &'a EngineSettings,
}

impl QuotaSnapshot<'_> {
    /// Simulates the removal of a Workload's usage.
    pub fn remove_workload(&self, usage: &mut Usage, holder: &ReservingWorkload) {
        for &(pair, amount) in &holder.usage {
            self.tree.remove_usage(usage, holder.node, pair, amount);
        }
    }

    /// Restores a removed Workload.
    pub fn add_workload(&self, usage: &mut Usage, holder: &ReservingWorkload) {
        for &(pair, amount) in &holder.usage {
            self.tree.add_usage(usage, holder.node, pair, amount);
        }
    }

    pub fn add_usage(&self, usage: &mut Usage, node: QuotaNodeId, uses: &[(FlavorResourceId, i64)]) {
        for &(pair, amount) in uses {
            self.tree.add_usage(usage, node, pair, amount);
        }
    }

    pub fn remove_usage(&self, usage: &mut Usage, node: QuotaNodeId, uses: &[(FlavorResourceId, i64)]) {
        for &(pair, amount) in uses {
            self.tree.remove_usage(usage, node, pair, amount);
        }
    }

    /// Whether a request fits the available quota without preemption.
    #[must_use]
    pub fn fits(&self, usage: &Usage, node: QuotaNodeId, uses: &[(FlavorResourceId, i64)]) -> bool {
        uses.iter().all(|&(pair, amount)| amount <= self.tree.available(usage, node, pair))
    }
}
