//! Queueing: what is read of its kinds, and what is written to them.
//!
//! Everything here speaks the stored version; whoever reads another converts first. Amounts of resources are whole
//! numbers in the unit of [`crate::node::amount`].
//!
//! # Invariants
//!
//! - A word, path or message of the wire is spelled once, in [`words`] and [`paths`].
//! - What admission owns of a Workload's status is written as a whole ([`AdmissionStatus`]): an apply that leaves
//!   something out takes it away.
//! - An object that never passed admission means the same as one that did: what would be filled in is read as if it were.
//!
//! # Deliberately absent
//!
//! Who may run when; that is decided elsewhere, from these facts.

mod admission_status;
mod amounts;
mod build;
mod cluster_queue;
pub mod condition;
mod flavor;
pub mod kinds;
mod local_queue;
pub mod paths;
mod queue_status;
#[cfg(test)]
mod tests;
pub mod words;
mod workload;
mod workload_status;

pub use admission_status::AdmissionStatus;
pub use amounts::{Amounts, amount_text, amounts_of, amounts_tree};
pub use build::{
    NewPodSet, NewWorkload, condition_body, condition_manager, finalizer_added, reclaimable_body,
};
pub use cluster_queue::{
    BorrowWithinCohort, CheckRule, ClusterQueueFacts, FlavorQuotas, Fungibility, Preemption, Quota,
    ResourceGroup, Strategy, Within,
};
pub use condition::Condition;
pub use flavor::{CheckFacts, FlavorFacts, PriorityClassFacts, TopologyFacts};
pub use local_queue::{CohortFacts, LocalQueueFacts};
pub use queue_status::{FlavorUsage, QueueStatus, ResourceUsage, cohort_status};
pub use workload::{PodSet, PriorityRef, WorkloadFacts};
pub use workload_status::{
    Admission, Assignment, CheckState, EvictionCount, PodSetUpdate, RequeueState, State,
};

/// Whether a queue takes work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum StopPolicy {
    /// It does.
    #[default]
    None,
    /// Nothing new; what runs goes on.
    Hold,
    /// Nothing new, and what runs has to leave.
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

/// One of everything: the weight of who says none, in billionths.
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
