//! Status values of queues, positions of pending Workloads, and a recount for invariant checks.

use std::collections::BTreeMap;

use muster_api::time::Time;
use muster_tree::Text;

use super::amount::{minus, plus};
use super::dominant_resource_share::DominantResourceShare;
use super::pending_queue::PendingQueue;
use super::spec::InactiveReason;
use super::tree::QuotaNodeId;
use super::workload::{NamespacedName, QuotaStatus, Requests};
use super::{Engine, WorkloadEntry};

/// A pending Workload and its positions; `PendingWorkload` of the visibility API.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingWorkload {
    pub key: NamespacedName,
    pub priority: i64,
    pub local_queue: Text,
    /// Counted from 0, the head.
    pub position_in_cluster_queue: usize,
    /// Counted from 0, the head.
    pub position_in_local_queue: usize,
    /// Since when it exists.
    pub created: Time,
}

/// Usage of one resource in one flavor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResourceUsageTotal {
    pub resource: Text,
    pub total: i64,
    /// Usage beyond the nominal quota.
    pub borrowed: i64,
}

/// In the order of the spec, all flavor-resources listed.
pub type UsageByFlavor = Vec<(Text, Vec<ResourceUsageTotal>)>;

/// The usage and counts of a ClusterQueue or LocalQueue status.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueUsage {
    pub flavors_reservation: UsageByFlavor,
    pub flavors_usage: UsageByFlavor,
    pub pending: usize,
    /// Of those, Workloads that a coming cycle can nominate.
    pub active: usize,
    pub reserving: usize,
    pub admitted_workloads: usize,
    pub weighted_share: i64,
}

/// The quota of one flavor-resource as a ClusterQueue sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Availability {
    /// Quota available now, including borrowing.
    pub available: i64,
    /// The most it could use in an otherwise empty tree.
    pub maximum: i64,
    pub used: i64,
}

/// All incrementally maintained state, to compare with a recount.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecountableState {
    used: BTreeMap<(Text, Text, Text), i64>,
    admitted: BTreeMap<(Text, Text, Text), i64>,
    holders: BTreeMap<Text, Vec<NamespacedName>>,
    waiting: BTreeMap<Text, Vec<NamespacedName>>,
    unready: Vec<NamespacedName>,
}

impl Engine {
    /// `None` if the ClusterQueue is active or does not exist.
    #[must_use]
    pub fn inactive_reason(&mut self, queue: &str) -> Option<InactiveReason> {
        self.rebuild_if_stale();
        self.ledger.idle.get(self.ledger.tree.cluster_queue(queue)?).copied().flatten()
    }

    /// Pending Workloads of a ClusterQueue in queue order.
    #[must_use]
    pub fn pending_workloads(&self, queue: &str) -> Vec<PendingWorkload> {
        let mut in_local: BTreeMap<(Text, Text), usize> = BTreeMap::new();
        let places = self.pending_queues.get(queue).map(PendingQueue::positions).unwrap_or_default();
        let waiting = places.iter().enumerate().filter_map(|(at, place)| {
            let info = &self.workloads.get(&place.key)?.info;
            let count = in_local.entry((place.key.namespace.clone(), info.local_queue.clone())).or_default();
            *count += 1;
            Some(PendingWorkload {
                key: place.key.clone(),
                priority: info.priority,
                local_queue: info.local_queue.clone(),
                position_in_cluster_queue: at,
                position_in_local_queue: *count - 1,
                created: info.created,
            })
        });
        waiting.collect()
    }

    #[must_use]
    pub fn pending_workloads_in_local_queue(&self, namespace: &str, name: &str) -> Vec<PendingWorkload> {
        let Some(local) = self.locals.get(&NamespacedName::new(namespace, name)) else { return Vec::new() };
        let mut all = self.pending_workloads(&local.cluster_queue);
        all.retain(|it| it.key.namespace == *namespace && it.local_queue == *name);
        all
    }

    /// The usage and counts of a ClusterQueue or LocalQueue status.
    #[must_use]
    pub fn cluster_queue_usage(&mut self, queue: &str) -> Option<QueueUsage> {
        self.rebuild_if_stale();
        let node = self.ledger.tree.cluster_queue(queue)?;
        let line = self.pending_queues.get(queue);
        let holders = self.ledger.holders[node].values();
        let admitted = holders.filter(|holder| {
            let entry = self.workloads.get(&holder.key);
            entry.and_then(|entry| entry.info.reservation()).is_some_and(|it| it.admitted)
        });
        Some(QueueUsage {
            flavors_reservation: self.flavor_usage(node, &self.ledger.usage),
            flavors_usage: self.flavor_usage(node, &self.ledger.admitted),
            pending: line.map_or(0, PendingQueue::count),
            active: line.map_or(0, PendingQueue::active),
            reserving: self.ledger.holders[node].len(),
            admitted_workloads: admitted.count(),
            weighted_share: DominantResourceShare::of(&self.ledger.tree, &self.ledger.usage, node).reported(),
        })
    }

    /// Total requests of all pending Workloads of a ClusterQueue.
    #[must_use]
    pub fn pending_requests(&self, queue: &str) -> Requests {
        let mut all = Requests::new();
        let Some(line) = self.pending_queues.get(queue) else { return all };
        let mut add = |total: Requests| {
            for (resource, amount) in total {
                let sum = all.entry(resource).or_default();
                *sum = plus(*sum, amount);
            }
        };
        line.shapes().for_each(|(shape, count)| add(shape.asked(count)));
        let ineligible = line.aside_keys().filter_map(|key| self.workloads.get(key));
        ineligible.for_each(|entry| add(entry.shape.asked(1)));
        all
    }

    /// The quota of one flavor-resource as a ClusterQueue sees it; None if the ClusterQueue or the flavor-resource
    /// does not exist.
    #[must_use]
    pub fn availability(&mut self, queue: &str, flavor: &str, resource: &str) -> Option<Availability> {
        self.rebuild_if_stale();
        let tree = &self.ledger.tree;
        let node = tree.cluster_queue(queue)?;
        let pair = tree.flavor_resource(&flavor.into(), &resource.into())?;
        Some(Availability {
            available: tree.available(&self.ledger.usage, node, pair),
            maximum: tree.potential_available(node, pair),
            used: tree.used(&self.ledger.usage, node, pair),
        })
    }

    #[must_use]
    pub fn cohort_weighted_share(&mut self, cohort: &str) -> Option<i64> {
        self.rebuild_if_stale();
        let tree = &self.ledger.tree;
        let node =
            (tree.cluster_queue_count..tree.nodes.len()).find(|&node| tree.nodes[node].name == *cohort)?;
        Some(DominantResourceShare::of(tree, &self.ledger.usage, node).reported())
    }

    /// Usage of a LocalQueue for the flavors of its ClusterQueue. `borrowed` is always 0.
    #[must_use]
    pub fn local_queue_usage(&mut self, namespace: &str, name: &str) -> Option<QueueUsage> {
        self.rebuild_if_stale();
        let key = NamespacedName::new(namespace, name);
        let node = self.ledger.tree.cluster_queue(&self.locals.get(&key)?.cluster_queue)?;
        let (mut usage, mut admitted) = (self.ledger.tree.zero_usage(), self.ledger.tree.zero_usage());
        let (mut reserving, mut admitted_workloads, mut pending, mut active) = (0, 0, 0, 0);
        let line = self.pending_queues.get(&self.ledger.tree.nodes[node].name);
        // Inadmissible by class, or ineligible by itself: not nominated by a coming cycle.
        let rests = |entry: &WorkloadEntry| {
            line.is_none_or(|it| {
                it.shared_evaluation(&entry.shape).is_some() || it.aside(&entry.info.key).is_some()
            })
        };
        for entry in self.by_local.get(&key).into_iter().flatten().filter_map(|key| self.workloads.get(key)) {
            let waits = entry.info.status == QuotaStatus::Pending;
            pending += usize::from(waits);
            active += usize::from(waits && !rests(entry));
            let Some(holder) = entry.holder.as_ref().filter(|holder| holder.node == node) else { continue };
            let runs = entry.info.reservation().is_some_and(|it| it.admitted);
            reserving += 1;
            admitted_workloads += usize::from(runs);
            for &(pair, amount) in &holder.usage {
                let cell = node * self.ledger.tree.flavor_resources.len() + pair;
                usage[cell] = plus(usage[cell], amount);
                if runs {
                    admitted[cell] = plus(admitted[cell], amount);
                }
            }
        }
        let unborrowed = |mut list: UsageByFlavor| {
            list.iter_mut().flat_map(|(_, resources)| resources).for_each(|it| it.borrowed = 0);
            list
        };
        Some(QueueUsage {
            flavors_reservation: unborrowed(self.flavor_usage(node, &usage)),
            flavors_usage: unborrowed(self.flavor_usage(node, &admitted)),
            pending,
            active,
            reserving,
            admitted_workloads,
            weighted_share: 0,
        })
    }

    fn flavor_usage(&self, node: QuotaNodeId, usage: &[i64]) -> UsageByFlavor {
        let tree = &self.ledger.tree;
        let flavors = self.ledger.specs[node].groups.iter().flat_map(|group| &group.flavors);
        let list = flavors.map(|(flavor, quotas)| {
            let resources = quotas.iter().map(|(resource, quota)| {
                let pair = tree.flavor_resource(flavor, resource);
                let total = pair.map_or(0, |pair| usage[node * tree.flavor_resources.len() + pair]);
                // Per ClusterQueue, without regard to lending, as Kueue reports it.
                let borrowed = minus(total, quota.nominal).max(0);
                ResourceUsageTotal { resource: resource.clone(), total, borrowed }
            });
            (flavor.clone(), resources.collect())
        });
        list.collect()
    }

    /// An engine fed the same objects, with everything recounted.
    #[must_use]
    pub fn rebuilt(&self) -> Engine {
        let mut new = Engine::new(self.settings.clone());
        new.flavors.clone_from(&self.flavors);
        new.cohorts.clone_from(&self.cohorts);
        new.namespaces.clone_from(&self.namespaces);
        for queue in self.queues.values() {
            new.apply_cluster_queue((**queue).clone());
        }
        for local in self.locals.values() {
            new.apply_local_queue(local.clone());
        }
        for (key, entry) in &self.workloads {
            new.apply_workload(entry.info.clone());
            if let Some(copy) = new.workloads.get_mut(key) {
                copy.assumed = entry.assumed;
            }
        }
        new.preemption_expectations.clone_from(&self.preemption_expectations);
        new.rebuild_if_stale();
        new
    }

    /// The recountable part of the state.
    #[must_use]
    pub fn recountable_state(&mut self) -> RecountableState {
        self.rebuild_if_stale();
        let tree = &self.ledger.tree;
        let by_name = |usage: &[i64]| {
            let mut found = BTreeMap::new();
            for (node, it) in tree.nodes.iter().enumerate() {
                let kind = if node < tree.cluster_queue_count { "queue" } else { "cohort" };
                for (pair, (flavor, resource)) in tree.flavor_resources.iter().enumerate() {
                    let amount = usage[node * tree.flavor_resources.len() + pair];
                    if amount != 0 {
                        let pair = format!("{flavor}/{resource}");
                        found.insert((Text::from(kind), it.name.clone(), Text::from(pair)), amount);
                    }
                }
            }
            found
        };
        let holders = |node: usize| self.ledger.holders[node].values().map(|it| it.key.clone()).collect();
        let waiting = |line: &PendingQueue| {
            let mut keys: Vec<NamespacedName> =
                line.positions().into_iter().map(|place| place.key.clone()).collect();
            keys.sort();
            keys
        };
        RecountableState {
            used: by_name(&self.ledger.usage),
            admitted: by_name(&self.ledger.admitted),
            holders: (0..tree.cluster_queue_count)
                .map(|node| (tree.nodes[node].name.clone(), holders(node)))
                .collect(),
            waiting: self.pending_queues.iter().map(|(name, line)| (name.clone(), waiting(line))).collect(),
            unready: self.pods_not_ready.iter().cloned().collect(),
        }
    }
}
