//! Leaving the queue and coming back to it: deactivated and activated again, queues stopped and restarted, pauses.

use muster_api::queue::StopPolicy;
use muster_api::queue::words::{conditions, messages, reasons};

use super::super::blockers::Blocker;
use super::super::draft::{Eviction, says_deactivated};
use super::Pass;

impl Pass<'_> {
    /// It is not active: it has to leave, and waits until it is active again.
    pub(super) fn deactivated(&mut self) {
        self.leave_deactivated();
        let evicted = self.draft.find(conditions::EVICTED).cloned();
        self.draft.status.remove(conditions::DEACTIVATION_TARGET);
        self.draft.status.requeue = None;
        if self.draft.has_quota() {
            return;
        }
        let Some(evicted) = evicted else { return };
        self.draft.set(conditions::REQUEUED, false, &evicted.reason, &evicted.message);
        self.draft.block(&Blocker::deactivated(&evicted.message));
    }

    /// Evicts, unless that is why it leaves already.
    fn leave_deactivated(&mut self) {
        let leaves = self.draft.find(conditions::EVICTED).filter(|it| it.holds);
        if leaves.is_some_and(|it| says_deactivated(&it.reason)) {
            return;
        }
        let target = self.draft.find(conditions::DEACTIVATION_TARGET).filter(|it| it.holds).cloned();
        match target {
            Some(target) => self.draft.evict(&Eviction {
                reason: &format!("{}{}", reasons::DEACTIVATED_DUE_TO, target.reason),
                cause: &target.reason,
                message: &format!("{} due to {}", messages::DEACTIVATED, target.message),
            }),
            None => self.draft.evict(&Eviction {
                reason: reasons::DEACTIVATED,
                cause: "",
                message: messages::DEACTIVATED,
            }),
        }
    }

    /// What kept it from queueing may be over.
    pub(super) fn come_back(&mut self) {
        let requeued = self.draft.find(conditions::REQUEUED).filter(|it| !it.holds);
        let Some(reason) = requeued.map(|it| it.reason.clone()) else { return };
        match reason.as_str() {
            reasons::CLUSTER_QUEUE_STOPPED if self.cluster_queue_runs() => {
                self.requeue(reasons::CLUSTER_QUEUE_RESTARTED, messages::CLUSTER_QUEUE_RESTARTED);
            }
            reasons::LOCAL_QUEUE_STOPPED if self.local_queue_runs() => {
                self.requeue(reasons::LOCAL_QUEUE_RESTARTED, messages::LOCAL_QUEUE_RESTARTED);
            }
            reasons::PODS_READY_TIMEOUT | reasons::ADMISSION_CHECK => self.wait_out_pause(),
            other if says_deactivated(other) => {
                self.requeue(reasons::REACTIVATED, messages::REACTIVATED);
            }
            // A lone pod that was preempted never comes back, and neither does what others keep away.
            _ => (),
        }
    }

    fn requeue(&mut self, reason: &str, message: &str) {
        self.draft.set(conditions::REQUEUED, true, reason, message);
    }

    fn wait_out_pause(&mut self) {
        let at = self.draft.status.requeue.and_then(|it| it.at);
        if at.is_some_and(|at| !self.is_due(at)) {
            return;
        }
        self.requeue(reasons::BACKOFF_FINISHED, messages::BACKOFF_FINISHED);
        let requeue = &mut self.draft.status.requeue;
        *requeue = requeue.filter(|it| it.count.is_some());
        if let Some(requeue) = requeue {
            requeue.at = None;
        }
    }

    fn cluster_queue_runs(&self) -> bool {
        self.seen.cluster_queue.is_some_and(|it| it.facts.stop == StopPolicy::None && !it.facts.deleting)
    }

    fn local_queue_runs(&self) -> bool {
        self.seen.local_queue.is_some_and(|it| it.stop == StopPolicy::None)
    }
}
