//! Reservations are added, updated and released; usage and inadmissible Workloads follow.
//!
//! # Guarantees
//!
//! - Usage changes only together with the reservation that causes it.
//! - A change that releases no quota requeues nothing, unless it makes a Workload a preemption candidate that it
//!   was not.

use std::sync::Arc;

use super::snapshot::ReservingWorkload;
use super::spec::UNLIMITED;
use super::tree::{FlavorResourceId, QuotaNodeId};
use super::workload::{NamespacedName, WorkloadInfo};
use super::{Engine, QuotaCache};

impl Engine {
    /// Whether the update leaves the reserved quota unchanged.
    pub(super) fn holds_the_same(&self, info: &WorkloadInfo) -> bool {
        let Some(old) = self.workloads.get(&info.key).filter(|old| old.holder.is_some()) else {
            return false;
        };
        let (Some(before), Some(now)) = (old.info.reservation(), info.reservation()) else { return false };
        let same =
            old.info.uid == info.uid && old.info.local_queue == info.local_queue && before.queue == now.queue;
        same && old.info.flavor_resource_usage() == info.flavor_resource_usage()
    }

    /// Updates a Workload with unchanged reserved quota. Its rank as a preemption candidate may change.
    pub(super) fn update_holder(&mut self, info: WorkloadInfo, assumed: bool) {
        let key = info.key.clone();
        let since = info.queue_order_timestamp(self.settings.requeuing_timestamp);
        self.track_pods_ready(&key, info.pods_ready);
        let Some(entry) = self.workloads.get_mut(&key) else { return };
        let admitted = |info: &WorkloadInfo| info.reservation().is_some_and(|it| it.admitted);
        let change = i64::from(admitted(&info)) - i64::from(admitted(&entry.info));
        let (Some(old), Some(reservation)) = (entry.holder.clone(), info.reservation()) else { return };
        let new = Arc::new(ReservingWorkload {
            priority: info.priority,
            queued_since: since,
            reserved_at: reservation.since,
            evicted: info.evicted.is_some(),
            ..(*old).clone()
        });
        entry.holder = Some(Arc::clone(&new));
        (entry.info, entry.since, entry.assumed) = (info, since, assumed);
        if self.stale.is_some() {
            self.mark_queue_stale(old.node);
            return;
        }
        let ledger = &mut self.ledger;
        for &(pair, amount) in &new.usage {
            let cell = &mut ledger.admitted[new.node * ledger.tree.flavor_resources.len() + pair];
            *cell = cell.saturating_add(change.saturating_mul(amount));
        }
        ledger.holders[new.node].remove(&old.rank());
        ledger.holders[new.node].insert(new.rank(), Arc::clone(&new));
        if *old != *new {
            self.invalidate_tree(new.node);
        }
        // A changed priority can make it a candidate of Workloads that found none.
        if old.priority != new.priority {
            let pairs: Vec<FlavorResourceId> = new.usage.iter().map(|(pair, _)| *pair).collect();
            self.requeue_inadmissible(new.node, &pairs);
        }
    }

    /// Maintains the Workloads without ready pods. When the last one is ready, heads that waited for it are
    /// processed again.
    fn track_pods_ready(&mut self, key: &NamespacedName, ready: bool) {
        if !ready {
            self.pods_not_ready.insert(key.clone());
        } else if self.pods_not_ready.remove(key)
            && self.pods_not_ready.is_empty()
            && std::mem::take(&mut self.pods_ready_awaited)
        {
            self.ledger.trees.iter_mut().for_each(|tree| tree.dirty = true);
        }
    }

    /// Adds the usage of a Workload's reservation.
    pub(super) fn hold(&mut self, key: &NamespacedName) {
        let Some(entry) = self.workloads.get(key) else { return };
        if entry.info.reservation().is_none() {
            return;
        }
        let ready = entry.info.pods_ready;
        self.track_pods_ready(key, ready);
        let Some(entry) = self.workloads.get(key) else { return };
        let Some(reservation) = entry.info.reservation() else { return };
        if self.stale.is_some() {
            let queue = reservation.queue.clone();
            self.mark_stale(&queue);
            return;
        }
        // A deleted ClusterQueue: its usage is counted again when it is recreated.
        let Some(node) = self.ledger.tree.cluster_queue(&reservation.queue) else { return };
        let Some(uses) = self.flavor_resources_of(&entry.info) else {
            // No spec names this flavor-resource any more: the tree needs it for the usage.
            self.mark_all_stale();
            return;
        };
        let holder = Arc::new(ReservingWorkload {
            key: key.clone(),
            uid: entry.info.uid.clone(),
            priority: entry.info.priority,
            queued_since: entry.since,
            reserved_at: reservation.since,
            evicted: entry.info.evicted.is_some(),
            node,
            usage: uses,
        });
        let admitted = reservation.admitted;
        self.add_reservation(&holder, admitted);
        if let Some(entry) = self.workloads.get_mut(key) {
            entry.holder = Some(holder);
        }
    }

    fn add_reservation(&mut self, holder: &Arc<ReservingWorkload>, admitted: bool) {
        let ledger = &mut self.ledger;
        for &(pair, amount) in &holder.usage {
            ledger.tree.add_usage(&mut ledger.usage, holder.node, pair, amount);
            if admitted {
                let cell = &mut ledger.admitted[holder.node * ledger.tree.flavor_resources.len() + pair];
                *cell = cell.saturating_add(amount);
            }
        }
        ledger.holders[holder.node].insert(holder.rank(), Arc::clone(holder));
        self.invalidate_tree(holder.node);
    }

    /// Usage by flavor-resource id; `None` if the tree has no such flavor-resource yet.
    fn flavor_resources_of(&self, info: &WorkloadInfo) -> Option<Vec<(FlavorResourceId, i64)>> {
        let held = info.flavor_resource_usage().into_iter().filter(|(_, amount)| *amount > 0);
        held.map(|((flavor, resource), amount)| {
            Some((self.ledger.tree.flavor_resource(&flavor, &resource)?, amount))
        })
        .collect()
    }

    /// Releases the quota of a Workload and requeues the Workloads that lacked it.
    pub(super) fn release(&mut self, key: &NamespacedName) {
        self.track_pods_ready(key, true);
        let Some(entry) = self.workloads.get_mut(key) else { return };
        let Some(holder) = entry.holder.take() else { return };
        let admitted = entry.info.reservation().is_some_and(|it| it.admitted);
        // A saturated sum cannot be undone by subtraction: recount the tree.
        if self.stale.is_some() || self.ledger.is_saturated(&holder) {
            self.mark_queue_stale(holder.node);
            return;
        }
        let ledger = &mut self.ledger;
        for &(pair, amount) in &holder.usage {
            ledger.tree.remove_usage(&mut ledger.usage, holder.node, pair, amount);
            if admitted {
                let cell = &mut ledger.admitted[holder.node * ledger.tree.flavor_resources.len() + pair];
                *cell = cell.saturating_sub(amount);
            }
        }
        ledger.holders[holder.node].remove(&holder.rank());
        self.invalidate_tree(holder.node);
        let pairs: Vec<FlavorResourceId> = holder.usage.iter().map(|(pair, _)| *pair).collect();
        self.requeue_inadmissible(holder.node, &pairs);
    }

    /// Usage changes while a rebuild is pending; the rebuild recounts it.
    fn mark_queue_stale(&mut self, node: QuotaNodeId) {
        let queue = self.ledger.tree.nodes[node].name.clone();
        self.mark_stale(&queue);
    }

    /// Requeues the inadmissible Workloads of a tree that lacked these flavor-resources. With fair sharing every
    /// usage changes shares, so all are requeued.
    fn requeue_inadmissible(&mut self, node: QuotaNodeId, pairs: &[FlavorResourceId]) {
        let root = self.ledger.tree.nodes[node].root;
        for queue in self.ledger.tree.subtree_cluster_queues(root) {
            let name = &self.ledger.tree.nodes[queue].name;
            if let Some(line) = self.pending_queues.get_mut(name) {
                if self.settings.fair_sharing_strategies.is_some() {
                    line.requeue_all();
                } else {
                    line.requeue_by_flavor_resources(pairs);
                }
            }
        }
    }
}

impl QuotaCache {
    /// Whether a sum on the path of this Workload is saturated.
    fn is_saturated(&self, holder: &ReservingWorkload) -> bool {
        let tree = &self.tree;
        let full =
            |node| holder.usage.iter().any(|&(pair, _)| tree.used(&self.usage, node, pair) == UNLIMITED);
        full(holder.node) || tree.ancestors(holder.node).any(full)
    }
}
