//! Pending reasons apart from quota: missing or stopped queues and admission gates.

use std::time::Duration;

use muster_api::queue::StopPolicy;
use muster_api::queue::consts::conditions;

use super::super::pending_reason::{PendingCondition, PendingReason};
use super::super::transitions;
use super::WorkloadReconciliation;

/// How long a new Workload gets no `PendingEvaluation` status: most are evaluated within that time, and one write
/// is saved.
pub const EVALUATION_GRACE: Duration = Duration::from_secs(1);

impl WorkloadReconciliation<'_> {
    /// Writes the most severe pending reason, or clears the one written earlier.
    pub(super) fn report_pending_reason(&mut self) {
        match self.pending_conditions().into_iter().min() {
            Some(worst) if self.is_reported(&worst) => (),
            Some(worst) => self.builder.set_pending(&worst),
            None => self.clear_pending_reason(),
        }
    }

    fn pending_conditions(&self) -> Vec<PendingCondition> {
        let it = self.seen.workload;
        let mut all = Vec::new();
        match self.seen.local_queue {
            None => all.push(PendingCondition::local_queue_missing(&it.queue)),
            // Never reported: give the engine a moment to evaluate it first.
            Some(queue) if queue.stop != StopPolicy::None => {
                all.push(PendingCondition::local_queue_inactive(&queue.name));
            }
            Some(_) => (),
        }
        if let Some(name) = self.seen.local_queue.map(|it| &it.cluster_queue) {
            match self.seen.cluster_queue {
                None => all.push(PendingCondition::cluster_queue_missing(name)),
                Some(queue) if !queue.active => all.push(PendingCondition::cluster_queue_inactive(name)),
                Some(_) => (),
            }
        }
        let gates = transitions::admission_gates(it);
        if !gates.is_empty() {
            all.push(PendingCondition::admission_gated(&gates));
        }
        all
    }

    /// Whether the reason is already written in the wording for stopped queues: the reservation was released
    /// because the queue was stopped, and it still is.
    fn is_reported(&self, blocker: &PendingCondition) -> bool {
        let Some(told) = self.builder.condition(conditions::QUOTA_RESERVED) else { return false };
        let stopped = blocker.message.replace(" is inactive", " is stopped");
        let reason = blocker.reason.condition_reason(self.builder.at.format);
        blocker.reason == PendingReason::Suspended
            && told.reason == reason
            && told.message.as_str() == stopped
    }

    /// A status written by the engine stays; one written by the reconciler is cleared.
    fn clear_pending_reason(&mut self) {
        match self.builder.condition(conditions::QUOTA_RESERVED).map(|it| it.message.clone()) {
            Some(message) if PendingCondition::is_set_by_reconciler(&message) => {
                self.builder.set_pending(&PendingCondition::pending_evaluation());
            }
            Some(_) => (),
            None => {
                let created = self.seen.workload.created.unwrap_or(self.seen.now);
                if self.is_due(created + EVALUATION_GRACE) {
                    self.builder.set_pending(&PendingCondition::pending_evaluation());
                }
            }
        }
    }
}
