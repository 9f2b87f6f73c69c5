//! Priorities that change with their class.
//!
//! A pending Workload takes over the value of a class that changed. A Workload with quota reserved keeps its
//! priority, and a priority that a user writes stays until its class changes.

use muster_api::queue::{PriorityClassFacts, WorkloadFacts};

use super::steps::{Phase, phase};

/// The priority that a Workload should have, if it has another; `class` is its class, where that changed.
#[must_use]
pub fn wanted(workload: &WorkloadFacts, class: Option<&PriorityClassFacts>) -> Option<i64> {
    let names = workload.priority_class.as_ref().filter(|it| it.is_workload())?;
    let class = class.filter(|it| it.name == names.name)?;
    let may_change = phase(workload) == Phase::Pending && !workload.deleting;
    (may_change && workload.priority != class.value).then_some(class.value)
}

/// Whether a Workload has to be looked at when this class changes.
#[must_use]
pub fn refers_to(workload: &WorkloadFacts, class: &str) -> bool {
    workload.priority_class.as_ref().is_some_and(|it| it.is_workload() && it.name == class)
}
