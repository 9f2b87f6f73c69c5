//! Nomination of a head: flavor assignment, preemption targets, and fewer pods by partial admission.

use super::flavor_assigner::{AssignmentMode, Nominee, WorkloadAssignment, assign_flavors};
use super::preempt::{self, PreemptionRequest, PreemptionTarget};
use super::snapshot::QuotaSnapshot;
use super::tree::Usage;

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Nomination {
    pub assignment: WorkloadAssignment,
    pub targets: Vec<PreemptionTarget>,
}

impl Nomination {
    fn is_viable(&self) -> bool {
        match self.assignment.representative_mode() {
            AssignmentMode::Fit => true,
            AssignmentMode::Preempt => !self.targets.is_empty(),
            AssignmentMode::NoFit => false,
        }
    }
}

/// Nominates a Workload with its full pod counts, else with the largest counts that help. If none do, returns the
/// full one.
#[must_use]
pub fn nominate(snapshot: &QuotaSnapshot<'_>, usage: &mut Usage, nominee: &Nominee<'_>) -> Nomination {
    let whole = nominate_with_counts(snapshot, usage, nominee, None);
    if whole.is_viable() {
        return whole;
    }
    nominate_partially(snapshot, usage, nominee).unwrap_or(whole)
}

fn nominate_with_counts(
    snapshot: &QuotaSnapshot<'_>,
    usage: &mut Usage,
    nominee: &Nominee<'_>,
    counts: Option<&[i64]>,
) -> Nomination {
    let assignment = assign_flavors(snapshot, usage, nominee, counts);
    let targets = match assignment.representative_mode() {
        AssignmentMode::Fit | AssignmentMode::NoFit => Vec::new(),
        AssignmentMode::Preempt => {
            let request = PreemptionRequest {
                node: nominee.node,
                priority: nominee.info.priority,
                since: nominee.since,
                usage: assignment.total_usage(),
                needs_preemption: assignment.needs_preemption(),
            };
            preempt::targets(snapshot, usage, &request)
        }
    };
    Nomination { assignment, targets }
}

/// Partial admission: binary search for the largest counts between `minCount` and `count`. It relies on fewer pods
/// never needing more quota.
fn nominate_partially(
    snapshot: &QuotaSnapshot<'_>,
    usage: &mut Usage,
    nominee: &Nominee<'_>,
) -> Option<Nomination> {
    let full: Vec<i64> =
        nominee.info.pod_sets.iter().map(super::workload::PodSetSpec::count_after_reclaim).collect();
    // Pods that may be left out, by pod set; all pod sets are reduced in proportion, as in Kueue.
    let spare: Vec<i64> = nominee
        .info
        .pod_sets
        .iter()
        .zip(&full)
        .map(|(set, &count)| set.min_count.map_or(0, |least| (count - least).max(0)))
        .collect();
    let total: i64 = spare.iter().sum();
    let mut best = None;
    let (mut low, mut high) = (1, total);
    while low <= high {
        let cut = low + (high - low) / 2;
        let counts: Vec<i64> =
            full.iter().zip(&spare).map(|(&count, &spare)| count - spare * cut / total).collect();
        let tried = nominate_with_counts(snapshot, usage, nominee, Some(&counts));
        if tried.is_viable() {
            best = Some(tried);
            high = cut - 1;
        } else {
            low = cut + 1;
        }
    }
    best
}
