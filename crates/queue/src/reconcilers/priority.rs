//! Propagation of WorkloadPriorityClass changes.
//!
//! A pending Workload follows its class. A Workload with quota reserved keeps its priority; a priority written by a
//! user stays until the class changes.

use muster_api::queue::{PriorityClassFacts, WorkloadFacts};

use super::transitions::{WorkloadPhase, phase};

/// The priority to set on a Workload, if it differs; `class` is its class if that changed.
#[must_use]
pub fn priority_to_set(workload: &WorkloadFacts, class: Option<&PriorityClassFacts>) -> Option<i64> {
    let names = workload.priority_class.as_ref().filter(|it| it.is_workload())?;
    let class = class.filter(|it| it.name == names.name)?;
    let may_change = phase(workload) == WorkloadPhase::Pending && !workload.deleting;
    (may_change && workload.priority != class.value).then_some(class.value)
}

/// Whether a change of this class reconciles the Workload.
#[must_use]
pub fn refers_to(workload: &WorkloadFacts, class: &str) -> bool {
    workload.priority_class.as_ref().is_some_and(|it| it.is_workload() && it.name == class)
}
