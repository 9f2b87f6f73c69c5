//! A Workload with quota reserved: admission checks, limits, stopped queues, and admission.

use std::time::Duration;

use muster_api::queue::consts::{conditions, messages, reasons};
use muster_api::queue::{CheckState, RequeueState, StopPolicy};
use muster_api::time::Time;

use super::super::admission;
use super::super::checks;
use super::super::pending_reason::PendingCondition;
use super::super::status_builder::{Eviction, WorkloadEvent};
use super::WorkloadReconciliation;

const RAN_TOO_LONG: &str = "exceeding the maximum execution time";

impl WorkloadReconciliation<'_> {
    /// Syncs `status.admissionChecks`. An admitted Workload keeps the checks it was admitted with.
    pub(super) fn sync_checks(&mut self) {
        let Some(queue) = self.seen.cluster_queue else { return };
        if self.builder.status.holds(conditions::ADMITTED) {
            return;
        }
        let required = checks::required(queue.facts, self.builder.status.admission.as_ref());
        let listed = checks::sync(&self.builder.status.checks, &required, self.seen.now);
        self.builder.status.checks = listed;
    }

    /// Reconciles a Workload with quota that is not evicted.
    pub(super) fn reconcile_reserved(&mut self) {
        let admitted = self.builder.status.holds(conditions::ADMITTED);
        let leaves = (admitted && self.exceeds_max_execution_time())
            || self.apply_check_states()
            || self.apply_queue_state(admitted);
        if leaves {
            return;
        }
        if admitted {
            self.check_pods_ready_timeout();
        } else {
            self.admit();
        }
    }

    /// Sets `DeactivationTarget` when the maximum execution time is exceeded.
    fn exceeds_max_execution_time(&mut self) -> bool {
        let admitted = self.builder.condition(conditions::ADMITTED).and_then(|it| it.since);
        let (Some(limit), Some(since)) = (self.seen.workload.max_exec_secs, admitted) else { return false };
        let before = self.builder.status.accumulated_secs.unwrap_or(0);
        let left = Duration::from_secs(limit.saturating_sub(before).into());
        if !self.is_due(since + left) {
            return false;
        }
        self.builder.set_condition(
            conditions::DEACTIVATION_TARGET,
            true,
            reasons::MAX_EXEC_EXCEEDED,
            RAN_TOO_LONG,
        );
        // Reset, so that a reactivated Workload gets its full execution time.
        self.builder.status.accumulated_secs = None;
        let words = format!("The maximum execution time ({limit}s) exceeded");
        self.builder.say(WorkloadEvent::warning(reasons::MAX_EXEC_EXCEEDED, &words));
        true
    }

    /// Handles checks in state Rejected (deactivates) and Retry (evicts); returns whether there were any.
    pub(super) fn apply_check_states(&mut self) -> bool {
        if let Some(words) = checks::message_for_state(&self.builder.status.checks, CheckState::Rejected) {
            self.builder.set_condition(
                conditions::DEACTIVATION_TARGET,
                true,
                reasons::ADMISSION_CHECK,
                &words,
            );
            self.builder
                .say(WorkloadEvent::warning(reasons::CHECK_REJECTED, &format!("Deactivated due to {words}")));
            return true;
        }
        let Some(words) = checks::message_for_state(&self.builder.status.checks, CheckState::Retry) else {
            return false;
        };
        // Before the eviction resets the checks, which hold the requeue time.
        if let Some(at) = checks::retry_at(&self.builder.status.checks) {
            let count = self.builder.status.requeue.and_then(|it| it.count);
            self.builder.status.requeue = Some(RequeueState { count, at: Some(at) });
        }
        let message = format!("Evicted due to {words}");
        self.builder.evict(&Eviction { reason: reasons::ADMISSION_CHECK, cause: "", message: &message });
        true
    }

    /// Handles stopped and deleted queues. An admitted Workload is evicted only by `HoldAndDrain`; one with pending
    /// checks loses its reservation at once, since nothing runs.
    fn apply_queue_state(&mut self, admitted: bool) -> bool {
        if admitted {
            return self.evict_if_draining();
        }
        let Some(blocker) = self.unusable_queue() else { return false };
        self.builder.unset_quota_reservation(&blocker);
        true
    }

    fn evict_if_draining(&mut self) -> bool {
        let drains = |stop: StopPolicy| stop == StopPolicy::HoldAndDrain;
        let (reason, message) = if self.seen.local_queue.is_some_and(|it| drains(it.stop)) {
            (reasons::LOCAL_QUEUE_STOPPED, messages::LOCAL_QUEUE_STOPPED)
        } else if self.seen.cluster_queue.is_some_and(|it| drains(it.facts.stop)) {
            (reasons::CLUSTER_QUEUE_STOPPED, messages::CLUSTER_QUEUE_STOPPED)
        } else {
            return false;
        };
        self.builder.evict(&Eviction { reason, cause: "", message });
        true
    }

    /// Why a reservation without admission is released.
    fn unusable_queue(&self) -> Option<PendingCondition> {
        self.unusable_local_queue().or_else(|| self.unusable_cluster_queue())
    }

    fn unusable_local_queue(&self) -> Option<PendingCondition> {
        match self.seen.local_queue {
            Some(queue) if queue.deleting => Some(PendingCondition::local_queue_terminating(&queue.name)),
            Some(queue) if queue.stop != StopPolicy::None => {
                Some(PendingCondition::local_queue_stopped(&queue.name))
            }
            Some(_) => None,
            None => Some(PendingCondition::local_queue_terminating(&self.seen.workload.queue)),
        }
    }

    fn unusable_cluster_queue(&self) -> Option<PendingCondition> {
        let name = &self.builder.status.admission.as_ref()?.cluster_queue;
        match self.seen.cluster_queue.map(|it| it.facts) {
            Some(queue) if queue.deleting => Some(PendingCondition::cluster_queue_terminating(name)),
            Some(queue) if queue.stop != StopPolicy::None => {
                Some(PendingCondition::cluster_queue_stopped(name))
            }
            Some(_) => None,
            None => Some(PendingCondition::cluster_queue_terminating(name)),
        }
    }

    /// Admits the Workload when all checks are Ready.
    fn admit(&mut self) {
        let Some(queue) = self.seen.cluster_queue else { return };
        let required = checks::required(queue.facts, self.builder.status.admission.as_ref());
        let topology = self.builder.status.admission.as_ref().is_some_and(admission::has_pending_topology);
        if topology || !checks::all_ready(&self.builder.status.checks, &required) {
            admission::set_not_admitted(&mut self.builder, topology);
            return;
        }
        let reserved = self.builder.condition(conditions::QUOTA_RESERVED).and_then(|it| it.since);
        let waited = reserved.map(|since| self.time_since(since));
        admission::set_admitted(&mut self.builder, self.seen.known(), waited.unwrap_or_default(), true);
        // Starts the PodsReady timeout in the same reconciliation.
        self.check_pods_ready_timeout();
    }

    fn time_since(&self, earlier: Time) -> Duration {
        self.seen.now.whole_seconds().since(earlier)
    }
}
