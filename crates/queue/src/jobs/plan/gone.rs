//! What is left of a job that is gone, or on its way.

use muster_api::queue::Condition;
use muster_api::queue::words::{conditions, messages, reasons};
use muster_api::time::Time;

use super::{Action, Seen, drop_finalizer};

/// The Workloads of a job that does not exist any more: they end, and then nothing keeps them.
#[must_use]
pub fn plan_gone(workloads: &[Seen<'_>], now: Time) -> Vec<Action> {
    let one = |workload: &Seen<'_>| {
        let facts = &workload.facts;
        if facts.controller().is_none() || facts.deleting || facts.is_finished() {
            return drop_finalizer(workload);
        }
        // A Workload that outlives its job must not hold a share for it.
        let (reason, message) = (reasons::OWNER_NOT_FOUND, messages::OWNER_NOT_FOUND);
        let condition = Condition::new(conditions::FINISHED, true, reason, message, now);
        vec![Action::SetCondition(workload.this(), condition.of_generation(facts.generation))]
    };
    workloads.iter().flat_map(one).collect()
}
