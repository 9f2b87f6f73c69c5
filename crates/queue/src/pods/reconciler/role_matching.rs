//! Matches pods to the pod sets of a Workload with role hashes as names: excess, replaced and missing pods.

use std::cmp::Reverse;

use muster_api::queue::WorkloadFacts;
use muster_api::time::Time;

use super::status::BySet;
use crate::pods::group::GroupDeclaration;
use crate::pods::queued_pod::QueuedPod;

#[derive(Debug, Default)]
pub(super) struct RoleMatch<'p> {
    pub(super) absent: u64,
    pub(super) excess: Vec<&'p QueuedPod>,
    /// Inactive pods replaced by others.
    pub(super) replaced: Vec<&'p QueuedPod>,
    /// Whether the Workload is the one of these pods.
    pub(super) matches: bool,
}

/// Assigns pods to the pod sets of a Workload.
pub(super) fn fill<'p>(
    group: &GroupDeclaration,
    workload: &WorkloadFacts,
    pods: &[&'p QueuedPod],
    by_set: &BySet<'p>,
    now: Time,
) -> RoleMatch<'p> {
    let mut found = RoleMatch::default();
    let mut kept = 0;
    for set in &workload.pod_sets {
        let of_role = by_set.get(&set.name).map(Vec::as_slice).unwrap_or_default();
        let (mut gone, mut active): (Vec<&QueuedPod>, Vec<&QueuedPod>) =
            of_role.iter().copied().partition(|pod| pod.inactive());
        let count = set.count as usize;
        // With fast admission one pod per role is enough; the others are created later.
        found.absent += match group.fast {
            true => u64::from(count > 0 && active.is_empty()),
            false => count.saturating_sub(active.len()) as u64,
        };
        sort_active(&mut active);
        sort_inactive(&mut gone, now);
        // Inactive pods beyond the declared count have been replaced.
        let replaced = gone.len().min((gone.len() + active.len()).saturating_sub(count));
        kept += active.len().min(count) + gone.len() - replaced;
        found.excess.extend(active.split_off(active.len().min(count)));
        found.replaced.extend(gone.split_off(gone.len() - replaced));
    }
    let is_lacking = |pod: &&&QueuedPod| {
        !pod.inactive() && by_set.values().flatten().all(|it| it.reference != pod.reference)
    };
    found.matches = workload.name == group.name
        && kept > 0
        && !pods.iter().any(|pod| is_lacking(&pod))
        && max_exec(pods) == workload.max_exec_secs;
    found
}

/// The maximum execution time: the first pod that has it decides, as when the Workload was created.
pub(super) fn max_exec(pods: &[&QueuedPod]) -> Option<u32> {
    pods.iter().find_map(|pod| crate::jobs::construct::max_exec_secs(&pod.tree))
}

/// Sorts pods to keep first: with finalizer, ungated, older.
pub(super) fn sort_active(pods: &mut [&QueuedPod]) {
    pods.sort_by_key(|pod| (!pod.finalizer, pod.gated, pod.created, pod.reference.name.clone()));
}

/// Sorts pods to keep first: with finalizer, active most recently, older.
pub(super) fn sort_inactive(pods: &mut [&QueuedPod], now: Time) {
    pods.sort_by_key(|pod| {
        (!pod.finalizer, Reverse(pod.last_active(now)), pod.created, pod.reference.name.clone())
    });
}
