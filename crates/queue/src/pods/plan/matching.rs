//! Which pods fill a Workload whose roles are told by fingerprint, which are too many, and which were replaced.

use std::cmp::Reverse;

use muster_api::queue::WorkloadFacts;
use muster_api::time::Time;

use super::wait::BySet;
use crate::pods::group::Group;
use crate::pods::member::Member;

/// How pods and a Workload go together.
#[derive(Debug, Default)]
pub(super) struct Match<'p> {
    /// How many pods are missing.
    pub(super) absent: u64,
    /// Pods that are too many.
    pub(super) excess: Vec<&'p Member>,
    /// Pods in whose place others are.
    pub(super) replaced: Vec<&'p Member>,
    /// Whether the Workload is the one of these pods.
    pub(super) matches: bool,
}

/// Fills the sets of a Workload with pods.
pub(super) fn fill<'p>(
    group: &Group,
    workload: &WorkloadFacts,
    pods: &[&'p Member],
    by_set: &BySet<'p>,
    now: Time,
) -> Match<'p> {
    let mut found = Match::default();
    let mut kept = 0;
    for set in &workload.pod_sets {
        let of_role = by_set.get(&set.name).map(Vec::as_slice).unwrap_or_default();
        let (mut gone, mut active): (Vec<&Member>, Vec<&Member>) =
            of_role.iter().copied().partition(|pod| pod.inactive());
        let count = set.count as usize;
        found.absent += match group.fast {
            true => u64::from(count > 0 && active.is_empty()),
            false => count.saturating_sub(active.len()) as u64,
        };
        sort_active(&mut active);
        sort_inactive(&mut gone, now);
        let replaced = gone.len().min((gone.len() + active.len()).saturating_sub(count));
        kept += active.len().min(count) + gone.len() - replaced;
        found.excess.extend(active.split_off(active.len().min(count)));
        found.replaced.extend(gone.split_off(gone.len() - replaced));
    }
    let is_lacking =
        |pod: &&&Member| !pod.inactive() && by_set.values().flatten().all(|it| it.this != pod.this);
    found.matches = workload.name == group.name
        && kept > 0
        && !pods.iter().any(|pod| is_lacking(&pod))
        && max_exec(pods) == workload.max_exec_secs;
    found
}

/// For how long the pods may run: the first that says it counts, as it did when the Workload was made.
pub(super) fn max_exec(pods: &[&Member]) -> Option<u32> {
    pods.iter().find_map(|pod| crate::jobs::construct::max_exec_secs(&pod.tree))
}

/// Those to be kept first: with our finalizer, open, older.
pub(super) fn sort_active(pods: &mut [&Member]) {
    pods.sort_by_key(|pod| (!pod.finalizer, pod.gated, pod.created, pod.this.name.clone()));
}

/// Those to be kept first: with our finalizer, active until later, older.
pub(super) fn sort_inactive(pods: &mut [&Member], now: Time) {
    pods.sort_by_key(|pod| {
        (!pod.finalizer, Reverse(pod.last_active(now)), pod.created, pod.this.name.clone())
    });
}
