//! Admission checks of a Workload: which it has, what they say, and what an eviction does to them.

use std::collections::BTreeSet;

use muster_api::queue::{Admission, CheckState, ClusterQueueFacts, State};
use muster_api::time::Time;
use muster_tree::Text;

/// The most checks a Workload may have; a queue with more cannot admit.
pub const CHECKS_MAX: usize = 8;

/// The checks a Workload needs: before it has a share those for all flavors, afterwards those of its flavors.
#[must_use]
pub fn required(queue: &ClusterQueueFacts, admission: Option<&Admission>) -> BTreeSet<Text> {
    let assigned: BTreeSet<&Text> = admission
        .map(|it| it.assignments.iter().flat_map(|set| set.flavors.values()).collect())
        .unwrap_or_default();
    let applies = |flavors: &[Text]| flavors.is_empty() || flavors.iter().any(|it| assigned.contains(it));
    queue.checks.iter().filter(|it| applies(&it.flavors)).map(|it| it.name.clone()).collect()
}

/// Checks as they should be listed: what is required, in order of names, with what was said already.
#[must_use]
pub fn synced(current: &[CheckState], required: &BTreeSet<Text>, now: Time) -> Vec<CheckState> {
    let one = |name: &Text| {
        let known = current.iter().find(|it| it.name == *name).cloned();
        known.unwrap_or_else(|| CheckState::pending(name, "", now))
    };
    required.iter().map(one).collect()
}

/// Whether all that are required agree.
#[must_use]
pub fn all_ready(current: &[CheckState], required: &BTreeSet<Text>) -> bool {
    let is_ready = |name: &Text| current.iter().any(|it| it.name == *name && it.state == State::Ready);
    required.iter().all(is_ready)
}

/// After an eviction everybody is asked again.
pub fn reset(checks: &mut [CheckState], now: Time) {
    for it in checks.iter_mut().filter(|it| it.state != State::Pending) {
        let retries = if it.state == State::Retry {
            Some(it.retries.unwrap_or(0).saturating_add(1))
        } else {
            it.retries
        };
        let message = format!("Reset to Pending after eviction. Previously: {}", it.state.word());
        *it = CheckState { retries, ..CheckState::pending(&it.name, &message, now) };
    }
}

/// What those in a state say: `AdmissionCheck in Retry state: "a" (why)`; none when there are none.
#[must_use]
pub fn words(checks: &[CheckState], state: State) -> Option<String> {
    let those: Vec<&CheckState> = checks.iter().filter(|it| it.state == state).collect();
    let noun = match those.len() {
        0 => return None,
        1 => "AdmissionCheck",
        _ => "AdmissionChecks",
    };
    let each: Vec<String> = those.iter().map(|it| format!("\"{}\" ({})", it.name, it.message)).collect();
    Some(format!("{noun} in {} state: {}", state.word(), each.join("; ")))
}

/// When a Workload may come back, by the checks that want it to try again.
#[must_use]
pub fn retry_at(checks: &[CheckState]) -> Option<Time> {
    let of = |it: &CheckState| {
        let pause = std::time::Duration::from_secs(it.requeue_after_secs?.into());
        Some(it.since? + pause)
    };
    checks.iter().filter(|it| it.state == State::Retry).filter_map(of).max()
}
