//! Reconciles the Workloads of a deleted job.

use muster_api::queue::Condition;
use muster_api::queue::consts::{conditions, messages, reasons};
use muster_api::time::Time;

use super::{JobReconcilerAction, WorkloadView, drop_finalizer};

/// Finishes the Workloads of a deleted job, then removes their finalizers.
#[must_use]
pub fn reconcile_deleted(workloads: &[WorkloadView<'_>], now: Time) -> Vec<JobReconcilerAction> {
    let one = |workload: &WorkloadView<'_>| {
        let facts = &workload.facts;
        if facts.controller().is_none() || facts.deleting || facts.is_finished() {
            return drop_finalizer(workload);
        }
        // A Workload that outlives its job must not use quota.
        let (reason, message) = (reasons::OWNER_NOT_FOUND, messages::OWNER_NOT_FOUND);
        let condition = Condition::new(conditions::FINISHED, true, reason, message, now);
        vec![JobReconcilerAction::SetCondition(
            workload.reference(),
            condition.of_generation(facts.generation),
        )]
    };
    workloads.iter().flat_map(one).collect()
}
