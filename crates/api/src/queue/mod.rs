//! The Kueue API: typed views of its objects, and builders of what is written to them.
//!
//! Everything here is in the storage version (`v1beta2`); other versions are converted first. Resource amounts are
//! integers in the unit of [`crate::node::amount`].
//!
//! # Guarantees
//!
//! - A constant, path or message of the wire is spelled once, in [`consts`] and [`paths`].
//! - The status fields that admission owns are applied as a whole ([`AdmissionStatus`]): server-side apply removes an
//!   owned field that is left out.
//! - Defaults of the webhooks are filled in on reading, so that an object created without them behaves the same.
//!
//! # Deliberately absent
//!
//! Admission decisions: the queue engine makes them from these views.

mod admission_status;
mod amounts;
mod build;
mod cluster_queue;
pub mod condition;
pub mod consts;
mod flavor;
pub mod kinds;
mod local_queue;
pub mod paths;
mod queue_status;
#[cfg(test)]
mod tests;
mod workload;
mod workload_status;

pub use admission_status::AdmissionStatus;
pub use amounts::{Amounts, amount_text, amounts_of, amounts_tree};
pub use build::{
    NewPodSet, NewWorkload, condition_body, condition_manager, finalizer_added, reclaimable_body,
};
pub use cluster_queue::{
    AdmissionCheckStrategyRule, BorrowWithinCohort, ClusterQueueFacts, ClusterQueuePreemption,
    FlavorFungibility, FlavorQuotas, PreemptionPolicy, QueueingStrategy, Quota, ResourceGroup,
};
pub use condition::Condition;
pub use flavor::{AdmissionCheckFacts, FlavorFacts, PriorityClassFacts, TopologyFacts};
pub use local_queue::{CohortFacts, LocalQueueFacts};
pub use queue_status::{FlavorUsage, QueueStatus, ResourceUsage, cohort_status};
pub use workload::{PodSet, PriorityRef, WorkloadFacts};
pub use workload_status::{
    Admission, AdmissionCheckState, CheckState, EvictionCount, PodSetAssignment, PodSetUpdate, RequeueState,
};

/// `stopPolicy` of a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum StopPolicy {
    /// Workloads are queued and admitted.
    #[default]
    None,
    /// No new admissions; admitted Workloads keep running.
    Hold,
    /// No new admissions; admitted Workloads are evicted.
    HoldAndDrain,
}

impl StopPolicy {
    fn of(word: &str) -> StopPolicy {
        match word {
            "Hold" => StopPolicy::Hold,
            "HoldAndDrain" => StopPolicy::HoldAndDrain,
            _ => StopPolicy::None,
        }
    }
}

/// The default fair-sharing weight, 1, in billionths.
pub const WEIGHT_ONE: i64 = 1_000_000_000;

fn weight(tree: Option<&muster_tree::Tree>) -> i64 {
    let read = |it: &muster_tree::Tree| crate::quantity::nano(&crate::quantity::text(it));
    tree.filter(|it| !it.is_null()).and_then(read).unwrap_or(WEIGHT_ONE)
}

fn texts(items: &[muster_tree::Tree]) -> Vec<muster_tree::Text> {
    items.iter().filter_map(|it| it.as_text().cloned()).collect()
}

fn count(tree: &muster_tree::Tree, path: &[&str]) -> Option<u32> {
    tree.int_at(path).and_then(|n| u32::try_from(n).ok())
}
