//! Admission check states of a Workload.

use std::collections::BTreeSet;

use muster_api::queue::{Admission, AdmissionCheckState, CheckState, ClusterQueueFacts};
use muster_api::time::Time;
use muster_tree::Text;

/// Bound of `status.admissionChecks`; a ClusterQueue with more checks is inactive.
pub const CHECKS_MAX: usize = 8;

/// The required checks: those for all flavors and, once quota is reserved, those for the assigned flavors.
#[must_use]
pub fn required(queue: &ClusterQueueFacts, admission: Option<&Admission>) -> BTreeSet<Text> {
    let assigned: BTreeSet<&Text> = admission
        .map(|it| it.assignments.iter().flat_map(|set| set.flavors.values()).collect())
        .unwrap_or_default();
    let applies = |flavors: &[Text]| flavors.is_empty() || flavors.iter().any(|it| assigned.contains(it));
    queue.checks.iter().filter(|it| applies(&it.flavors)).map(|it| it.name.clone()).collect()
}

/// The check states to list: the required ones by name, keeping known states.
#[must_use]
pub fn sync(
    current: &[AdmissionCheckState],
    required: &BTreeSet<Text>,
    now: Time,
) -> Vec<AdmissionCheckState> {
    let one = |name: &Text| {
        let known = current.iter().find(|it| it.name == *name).cloned();
        known.unwrap_or_else(|| AdmissionCheckState::pending(name, "", now))
    };
    required.iter().map(one).collect()
}

#[must_use]
pub fn all_ready(current: &[AdmissionCheckState], required: &BTreeSet<Text>) -> bool {
    let is_ready = |name: &Text| current.iter().any(|it| it.name == *name && it.state == CheckState::Ready);
    required.iter().all(is_ready)
}

/// Resets all states to Pending after an eviction, counting retries.
pub fn reset(checks: &mut [AdmissionCheckState], now: Time) {
    for it in checks.iter_mut().filter(|it| it.state != CheckState::Pending) {
        // Only a retry counts; a rejected or ready check is reset without counting.
        let retries = if it.state == CheckState::Retry {
            Some(it.retries.unwrap_or(0).saturating_add(1))
        } else {
            it.retries
        };
        let message = format!("Reset to Pending after eviction. Previously: {}", it.state.word());
        *it = AdmissionCheckState { retries, ..AdmissionCheckState::pending(&it.name, &message, now) };
    }
}

/// The message for all checks in a state: `AdmissionCheck in Retry state: "a" (message)`; None if there are none.
#[must_use]
pub fn message_for_state(checks: &[AdmissionCheckState], state: CheckState) -> Option<String> {
    let those: Vec<&AdmissionCheckState> = checks.iter().filter(|it| it.state == state).collect();
    let noun = match those.len() {
        0 => return None,
        1 => "AdmissionCheck",
        _ => "AdmissionChecks",
    };
    let each: Vec<String> = those.iter().map(|it| format!("\"{}\" ({})", it.name, it.message)).collect();
    Some(format!("{noun} in {} state: {}", state.word(), each.join("; ")))
}

/// The earliest requeue time that the checks in state Retry allow.
#[must_use]
pub fn retry_at(checks: &[AdmissionCheckState]) -> Option<Time> {
    let of = |it: &AdmissionCheckState| {
        let pause = std::time::Duration::from_secs(it.requeue_after_secs?.into());
        Some(it.since? + pause)
    };
    checks.iter().filter(|it| it.state == CheckState::Retry).filter_map(of).max()
}
