//! Updates of specs, namespaces and Workloads, and the outcome of writes.
//!
//! # Guarantees
//!
//! - Applying an unchanged object is a no-op and requeues nothing.

use std::collections::BTreeSet;
use std::sync::Arc;

use muster_api::time::Time;
use muster_tree::Text;

use super::pending_queue::{EquivalenceKey, Ineligibility};
use super::spec::{ClusterQueueSpec, CohortSpec, FlavorSpec, LocalQueueSpec};
use super::workload::{NamespacedName, QuotaStatus, WorkloadInfo};
use super::{Engine, LastAssignment, WorkloadEntry};

/// The outcome of the writes of a decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriteOutcome {
    /// Done, and the written object was applied.
    Written,
    /// At least one write failed.
    Failed,
}

impl Engine {
    pub fn apply_cluster_queue(&mut self, spec: ClusterQueueSpec) {
        if self.queues.get(&spec.name).is_some_and(|old| **old == spec) {
            return;
        }
        let name = spec.name.clone();
        self.queues.insert(name.clone(), Arc::new(spec));
        self.mark_stale(&name);
        self.pending_queues.entry(name.clone()).or_default();
        // Workloads may have been created before their ClusterQueue.
        self.requeue_members_of(&name);
    }

    /// A ClusterQueue is gone.
    pub fn delete_cluster_queue(&mut self, name: &str) {
        if self.queues.remove(name).is_some() {
            self.mark_stale(&name.into());
            self.requeue_members_of(name);
            self.pending_queues.remove(name);
            self.unreported.remove(name);
        }
    }

    pub fn apply_cohort(&mut self, spec: CohortSpec) {
        let name = spec.name.clone();
        if self.cohorts.get(&name) != Some(&spec) {
            self.cohorts.insert(name, spec);
            self.mark_all_stale();
        }
    }

    /// A Cohort is gone.
    pub fn delete_cohort(&mut self, name: &str) {
        if self.cohorts.remove(name).is_some() {
            self.mark_all_stale();
        }
    }

    pub fn apply_flavor(&mut self, spec: FlavorSpec) {
        let name = spec.name.clone();
        if self.flavors.get(&name) != Some(&spec) {
            self.flavors.insert(name, spec);
            self.mark_all_stale();
        }
    }

    /// A ResourceFlavor is gone.
    pub fn delete_flavor(&mut self, name: &str) {
        if self.flavors.remove(name).is_some() {
            self.mark_all_stale();
        }
    }

    /// Requeues everything after a change that is not fed in, such as an AdmissionCheck (Kueue's
    /// `QueueInadmissibleWorkloads`).
    pub fn requeue_all_inadmissible(&mut self) {
        self.rebuild_if_stale();
        let all: BTreeSet<Text> = self.pending_queues.keys().cloned().collect();
        self.flush_these(&all);
        for tree in &mut self.ledger.trees {
            // Cached nominations do not know what changed.
            tree.generation += 1;
            tree.dirty = true;
        }
    }

    pub fn apply_local_queue(&mut self, spec: LocalQueueSpec) {
        let key = NamespacedName { namespace: spec.namespace.clone(), name: spec.name.clone() };
        if self.locals.get(&key) == Some(&spec) {
            return;
        }
        self.locals.insert(key.clone(), spec);
        self.requeue_members(&key);
    }

    /// A LocalQueue is gone.
    pub fn delete_local_queue(&mut self, namespace: &str, name: &str) {
        let key = NamespacedName::new(namespace, name);
        if self.locals.remove(&key).is_some() {
            self.requeue_members(&key);
        }
    }

    /// `labels` must be sorted by key.
    pub fn apply_namespace(&mut self, name: &str, labels: Vec<(Text, Text)>) {
        if self.namespaces.get(name) == Some(&labels) {
            return;
        }
        self.namespaces.insert(name.into(), labels);
        let queues: Vec<Text> = self.pending_queues.keys().cloned().collect();
        for queue in queues {
            self.requeue_ineligible(&queue, |key, why| {
                *why == Ineligibility::NamespaceMismatch && key.namespace == *name
            });
        }
    }

    /// A namespace is gone.
    pub fn delete_namespace(&mut self, name: &str) {
        self.namespaces.remove(name);
    }

    pub fn apply_workload(&mut self, mut info: WorkloadInfo) {
        let key = info.key.clone();
        let old = self.workloads.get(&key);
        let mut assumed = old.is_some_and(|old| old.assumed);
        if let Some(old) = old {
            match info.status {
                // The cache is behind the assumed admission: keep the assumption.
                QuotaStatus::Pending if assumed && old.info.uid == info.uid => {
                    info.status = old.info.status.clone();
                }
                QuotaStatus::Pending
                | QuotaStatus::Blocked
                | QuotaStatus::QuotaReserved(_)
                | QuotaStatus::Finished => assumed = false,
            }
            if old.info == info {
                if let Some(old) = self.workloads.get_mut(&key) {
                    old.assumed = assumed;
                }
                return;
            }
            // Keep position and class: requeueing would cost a nomination for nothing.
            if old.line.is_some() && keeps_queue_position(&old.info, &info) {
                if let Some(old) = self.workloads.get_mut(&key) {
                    old.info = info;
                }
                return;
            }
        }
        // The eviction was observed, or the quota is released: the expectation is met.
        if info.evicted.is_some() || info.reservation().is_none() {
            self.preemption_expectations.remove(&key);
        }
        if self.holds_the_same(&info) {
            self.update_holder(info, assumed);
            return;
        }
        let tour = LastAssignment::default();
        self.remove_workload(&key);
        let since = info.queue_order_timestamp(self.settings.requeuing_timestamp);
        let local = NamespacedName { namespace: key.namespace.clone(), name: info.local_queue.clone() };
        self.by_local.entry(local).or_default().insert(key.clone());
        let shape = Arc::new(EquivalenceKey::of(&info));
        let entry = WorkloadEntry {
            since,
            shape,
            line: None,
            assumed,
            reported: None,
            last_assignment: tour,
            verdict: None,
            holder: None,
            info,
        };
        self.workloads.insert(key.clone(), entry);
        self.insert_workload(&key);
    }

    /// A workload is gone.
    pub fn delete_workload(&mut self, key: &NamespacedName) {
        self.remove_workload(key);
        self.preemption_expectations.remove(key);
        // The preemptor is gone: its victims may be issued again for another one.
        self.preemption_expectations.retain(|_, by| by != key);
    }

    /// Confirms or rolls back the last decision about a Workload. Until then an assumed reservation counts as
    /// usage, whatever is applied.
    pub fn record_write_outcome(&mut self, key: &NamespacedName, outcome: WriteOutcome) {
        let Some(entry) = self.workloads.get_mut(key) else { return };
        let assumed = std::mem::take(&mut entry.assumed);
        match outcome {
            WriteOutcome::Written => {}
            WriteOutcome::Failed if assumed => {
                entry.info.status = QuotaStatus::Pending;
                entry.reported = None;
                // It holds no quota that a preemptor could wait for.
                self.preemption_expectations.remove(key);
                self.release(key);
                self.insert_workload(key);
            }
            WriteOutcome::Failed => {
                entry.reported = None;
                let queue = entry.line.clone();
                // The evictions may not have been written: issue them again.
                self.preemption_expectations.retain(|_, by| by != key);
                if let Some(queue) = queue {
                    self.schedule_queue(&queue);
                }
            }
        }
    }

    /// Adds a Workload to the usage or to its pending queue.
    fn insert_workload(&mut self, key: &NamespacedName) {
        let Some(entry) = self.workloads.get(key) else { return };
        match entry.info.status {
            QuotaStatus::QuotaReserved(_) => self.hold(key),
            QuotaStatus::Pending => self.enqueue(key),
            QuotaStatus::Blocked | QuotaStatus::Finished => {}
        }
    }

    /// Removes a Workload with its usage and queue position.
    fn remove_workload(&mut self, key: &NamespacedName) {
        self.release(key);
        self.dequeue(key);
        if let Some(old) = self.workloads.remove(key) {
            let local = NamespacedName { namespace: key.namespace.clone(), name: old.info.local_queue };
            if let Some(members) = self.by_local.get_mut(&local) {
                members.remove(key);
                if members.is_empty() {
                    self.by_local.remove(&local);
                }
            }
        }
    }

    /// Requeues all Workloads of these ClusterQueues, except those in backoff or with `Requeued=False`.
    pub(super) fn flush_these(&mut self, queues: &BTreeSet<Text>) {
        for queue in queues {
            self.unreported.remove(queue);
            let Some(line) = self.pending_queues.get_mut(queue) else { continue };
            line.requeue_all();
            self.requeue_ineligible(queue, |_, why| match why {
                // The namespace selector may have changed: check again.
                Ineligibility::Invalid | Ineligibility::NamespaceMismatch => true,
                Ineligibility::Backoff(_) | Ineligibility::OnHold => false,
            });
        }
    }

    /// Requeues Workloads with an expired backoff.
    pub(super) fn recall_due(&mut self, now: Time) {
        if self.next_requeue_at().is_none_or(|at| at > now) {
            return;
        }
        let queues: Vec<Text> = self.pending_queues.keys().cloned().collect();
        for queue in queues {
            self.requeue_ineligible(&queue, |_, why| matches!(why, Ineligibility::Backoff(at) if *at <= now));
        }
    }

    fn requeue_ineligible(&mut self, queue: &Text, which: impl Fn(&NamespacedName, &Ineligibility) -> bool) {
        let Some(line) = self.pending_queues.get_mut(queue) else { return };
        for key in line.take_ineligible(which) {
            self.push(queue, &key);
        }
    }

    /// Queues a pending Workload, if its LocalQueue and ClusterQueue exist and are not stopped.
    fn enqueue(&mut self, key: &NamespacedName) {
        let Some(entry) = self.workloads.get(key) else { return };
        let local = NamespacedName { namespace: key.namespace.clone(), name: entry.info.local_queue.clone() };
        let Some(local) = self.locals.get(&local).filter(|local| !local.stopped) else { return };
        let queue = local.cluster_queue.clone();
        if !self.queues.contains_key(&queue) {
            return;
        }
        // `Requeued=False` has no deadline; it precedes the backoff.
        let ineligibility = match (entry.info.on_hold, entry.info.requeue_at) {
            (true, _) => Some(Ineligibility::OnHold),
            (false, Some(at)) => Some(Ineligibility::Backoff(at)),
            (false, None) => None,
        };
        let place = entry.place();
        match ineligibility {
            Some(why) => self.pending_queues.entry(queue.clone()).or_default().insert_ineligible(place, why),
            None => self.push(&queue, key),
        }
        if let Some(entry) = self.workloads.get_mut(key) {
            entry.line = Some(queue);
        }
    }

    /// Adds a Workload to its equivalence class; schedules the queue if the head changed.
    fn push(&mut self, queue: &Text, key: &NamespacedName) {
        let Some(entry) = self.workloads.get(key) else { return };
        let (place, shape) = (entry.place(), Arc::clone(&entry.shape));
        let line = self.pending_queues.entry(queue.clone()).or_default();
        if line.push(place, &shape) {
            self.unreported.insert(queue.clone());
        } else if line.head() == Some(key) {
            self.new_head(queue);
        }
    }

    /// Removes a Workload from its pending queue; schedules the queue if the head changed.
    pub(super) fn dequeue(&mut self, key: &NamespacedName) {
        let Some(entry) = self.workloads.get_mut(key) else { return };
        let Some(queue) = entry.line.take() else { return };
        let (place, shape) = (entry.place(), Arc::clone(&entry.shape));
        // A Workload recreated under this name must not get the cached nomination.
        if let Some(node) = self.ledger.tree.cluster_queue(&queue) {
            self.ledger.memo[node].take_if(|memo| memo.key == *key);
        }
        if let Some(line) = self.pending_queues.get_mut(&queue) {
            let was_head = line.head() == Some(key);
            line.remove(&place, &shape);
            if was_head {
                self.new_head(&queue);
            }
        }
    }

    fn requeue_members_of(&mut self, queue: &str) {
        let locals = self.locals.iter().filter(|(_, local)| local.cluster_queue == *queue);
        let locals: Vec<NamespacedName> = locals.map(|(key, _)| key.clone()).collect();
        for local in &locals {
            self.requeue_members(local);
        }
    }

    /// Requeues the pending Workloads of a LocalQueue after it or its ClusterQueue changed.
    fn requeue_members(&mut self, local: &NamespacedName) {
        let members: Vec<NamespacedName> = self.by_local.get(local).into_iter().flatten().cloned().collect();
        for key in &members {
            if self.workloads.get(key).is_some_and(|entry| entry.info.status == QuotaStatus::Pending) {
                self.dequeue(key);
                self.enqueue(key);
            }
        }
    }
}

/// Whether an update leaves the scheduling inputs of a pending Workload unchanged.
fn keeps_queue_position(old: &WorkloadInfo, new: &WorkloadInfo) -> bool {
    let mut same = new.clone();
    same.job_uid.clone_from(&old.job_uid);
    same.pods_ready = old.pods_ready;
    same == *old
}
