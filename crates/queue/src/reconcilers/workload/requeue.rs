//! Deactivation, reactivation, and requeueing after stopped queues and backoff.

use muster_api::queue::StopPolicy;
use muster_api::queue::consts::{conditions, messages, reasons};

use super::super::pending_reason::PendingCondition;
use super::super::status_builder::{Eviction, is_deactivation};
use super::WorkloadReconciliation;

impl WorkloadReconciliation<'_> {
    /// Evicts an inactive Workload and reports it as pending.
    pub(super) fn reconcile_inactive(&mut self) {
        self.evict_deactivated();
        let evicted = self.builder.condition(conditions::EVICTED).cloned();
        self.builder.status.remove(conditions::DEACTIVATION_TARGET);
        // A reactivated Workload starts with a fresh backoff.
        self.builder.status.requeue = None;
        if self.builder.has_quota() {
            return;
        }
        let Some(evicted) = evicted else { return };
        self.builder.set_condition(conditions::REQUEUED, false, &evicted.reason, &evicted.message);
        self.builder.set_pending(&PendingCondition::deactivated(&evicted.message));
    }

    /// Evicts with the deactivation reason, unless it is evicted for that already.
    fn evict_deactivated(&mut self) {
        let leaves = self.builder.condition(conditions::EVICTED).filter(|it| it.holds);
        if leaves.is_some_and(|it| is_deactivation(&it.reason)) {
            return;
        }
        let target = self.builder.condition(conditions::DEACTIVATION_TARGET).filter(|it| it.holds).cloned();
        match target {
            Some(target) => self.builder.evict(&Eviction {
                reason: &format!("{}{}", reasons::DEACTIVATED_DUE_TO, target.reason),
                cause: &target.reason,
                message: &format!("{} due to {}", messages::DEACTIVATED, target.message),
            }),
            None => self.builder.evict(&Eviction {
                reason: reasons::DEACTIVATED,
                cause: "",
                message: messages::DEACTIVATED,
            }),
        }
    }

    /// Sets `Requeued=True` when the reason of `Requeued=False` no longer holds.
    pub(super) fn requeue_if_unblocked(&mut self) {
        let requeued = self.builder.condition(conditions::REQUEUED).filter(|it| !it.holds);
        let Some(reason) = requeued.map(|it| it.reason.clone()) else { return };
        match reason.as_str() {
            reasons::CLUSTER_QUEUE_STOPPED if self.is_cluster_queue_active() => {
                self.requeue(reasons::CLUSTER_QUEUE_RESTARTED, messages::CLUSTER_QUEUE_RESTARTED);
            }
            reasons::LOCAL_QUEUE_STOPPED if self.is_local_queue_active() => {
                self.requeue(reasons::LOCAL_QUEUE_RESTARTED, messages::LOCAL_QUEUE_RESTARTED);
            }
            reasons::PODS_READY_TIMEOUT | reasons::ADMISSION_CHECK => self.requeue_after_backoff(),
            other if is_deactivation(other) => {
                self.requeue(reasons::REACTIVATED, messages::REACTIVATED);
            }
            // A preempted plain pod is never requeued, and external reasons are cleared by their controllers.
            _ => (),
        }
    }

    fn requeue(&mut self, reason: &str, message: &str) {
        self.builder.set_condition(conditions::REQUEUED, true, reason, message);
    }

    fn requeue_after_backoff(&mut self) {
        let at = self.builder.status.requeue.and_then(|it| it.at);
        if at.is_some_and(|at| !self.is_due(at)) {
            return;
        }
        self.requeue(reasons::BACKOFF_FINISHED, messages::BACKOFF_FINISHED);
        let requeue = &mut self.builder.status.requeue;
        // The count stays: the next backoff doubles.
        *requeue = requeue.filter(|it| it.count.is_some());
        if let Some(requeue) = requeue {
            requeue.at = None;
        }
    }

    fn is_cluster_queue_active(&self) -> bool {
        self.seen.cluster_queue.is_some_and(|it| it.facts.stop == StopPolicy::None && !it.facts.deleting)
    }

    fn is_local_queue_active(&self) -> bool {
        self.seen.local_queue.is_some_and(|it| it.stop == StopPolicy::None)
    }
}
