//! Validation of `reclaimablePods`: known pod sets, at most their count, and never decreasing while quota is
//! reserved.

use muster_api::queue::WorkloadFacts;
use muster_schema::error::FieldError;

use super::common::Problems;

const PODS: &str = "status.reclaimablePods";

pub(super) fn check(facts: &WorkloadFacts, problems: &mut Problems) {
    for (name, count) in &facts.reclaimable {
        let Some(set) = facts.pod_set(name) else {
            let known = facts.pod_sets.iter().map(|it| it.name.as_str());
            problems.push(FieldError::not_supported(format!("{PODS}[{name}].name"), name, known));
            continue;
        };
        if *count > set.count {
            let why = format!("should be less or equal to {}", set.count);
            problems.push(FieldError::invalid(format!("{PODS}[{name}].count"), *count, why));
        }
    }
}

pub(super) fn check_change(new: &WorkloadFacts, old: &WorkloadFacts, problems: &mut Problems) {
    for (name, before) in &old.reclaimable {
        match new.reclaimable.get(name) {
            Some(count) if count < before => {
                let why = format!("cannot be less than {before}");
                problems.push(FieldError::invalid(format!("{PODS}[{name}].count"), *count, why));
            }
            Some(_) => {}
            None => problems.push(FieldError::required(format!("{PODS}[{name}]"), "cannot be removed")),
        }
    }
}
