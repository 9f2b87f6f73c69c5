//! Score plugins: integers from 0 to 100 per plugin, weighted as in kube-scheduler's default profile.

use crate::equivalence_class::EquivalenceClass;
use crate::node_table::{CPU, MEMORY, NodeRow, NodeTable};

/// The same as kube-scheduler's `MaxNodeScore`.
pub const BEST: i64 = 100;
/// Weight of the plugin `TaintToleration`.
const TAINTS: i64 = 3;
/// Weight of the plugin `NodeAffinity`.
const PREFERENCE: i64 = 2;
/// Weight of the plugin `InterPodAffinity`.
pub const INTER_POD_AFFINITY: i64 = 2;
pub const SPREAD: i64 = 2;
/// Weight of `DynamicResources`: earlier `firstAvailable` alternatives are better.
pub const DYNAMIC_RESOURCES: i64 = 2;

/// The number of pods on a node breaks ties only: fewer pods than this never outweigh one point.
const PODS_PER_POINT: i64 = 1 << 20;

/// Scores of the node-only plugins before normalisation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RawScore {
    /// Number of untolerated `PreferNoSchedule` taints.
    pub taints: i64,
    /// Sum of the weights of matching preferences.
    pub preference: i64,
}

impl RawScore {
    /// The maximum per field.
    #[must_use]
    pub fn max(self, other: RawScore) -> RawScore {
        RawScore { taints: self.taints.max(other.taints), preference: self.preference.max(other.preference) }
    }

    /// The weighted score, normalised by the maximum over all nodes.
    #[must_use]
    pub fn score(self, top: RawScore) -> i64 {
        let taints = if top.taints == 0 { BEST } else { BEST - BEST * self.taints / top.taints };
        let preference = if top.preference == 0 { 0 } else { BEST * self.preference / top.preference };
        TAINTS * taints + PREFERENCE * preference
    }
}

/// Breaks ties: of nodes with equal scores the one with fewer pods wins.
pub fn among_equals(score: i64, table: &NodeTable, row: NodeRow) -> i64 {
    score * PODS_PER_POINT - i64::try_from(table.pods(row).len()).unwrap_or(0).min(PODS_PER_POINT - 1)
}

/// `NodeResourcesFit` plus `NodeResourcesBalancedAllocation`.
pub fn amounts(table: &NodeTable, row: NodeRow, class: &EquivalenceClass) -> i64 {
    let fullness = if class.packed.is_empty() {
        least_allocated(table, row, class)
    } else {
        most_allocated(table, row, class)
    };
    fullness + if class.balances { balanced(table, row, class) } else { 0 }
}

/// `LeastAllocated`: the mean of the free shares of CPU and memory.
fn least_allocated(table: &NodeTable, row: NodeRow, class: &EquivalenceClass) -> i64 {
    let taken = table.scored(row);
    let (mut sum, mut parts) = (0, 0);
    for resource in [CPU, MEMORY] {
        let all = table.allocatable(row, resource);
        if all != 0 {
            let asked = taken[resource] + class.requests.scored[resource];
            sum += if asked > all { 0 } else { part(all - asked, all) };
            parts += 1;
        }
    }
    if parts == 0 { 0 } else { sum / parts }
}

/// `MostAllocated`: scarce devices are bin-packed, so that whole nodes stay free for pods that need all of them.
fn most_allocated(table: &NodeTable, row: NodeRow, class: &EquivalenceClass) -> i64 {
    let (mut sum, mut parts) = (0, 0);
    for (resource, amount) in &class.packed {
        let all = table.allocatable(row, *resource);
        if all != 0 {
            sum += part((table.used(row, *resource) + amount).min(all), all);
            parts += 1;
        }
    }
    if parts == 0 { 0 } else { sum / parts }
}

fn part(some: i64, all: i64) -> i64 {
    some.checked_mul(BEST).map_or_else(|| some / (all / BEST).max(1), |product| product / all)
}

/// `BalancedAllocation`: above 75 if the shares of CPU and memory come closer to each other, below if they diverge.
fn balanced(table: &NodeTable, row: NodeRow, class: &EquivalenceClass) -> i64 {
    let after = balance(table, row, [class.requested(CPU), class.requested(MEMORY)]);
    let before = balance(table, row, [0, 0]);
    BEST / 2 + (BEST / 2 + after - before) / 2
}

#[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, reason = "fractions of one")]
fn balance(table: &NodeTable, row: NodeRow, more: [i64; 2]) -> i64 {
    let fraction = |resource: usize| {
        let all = table.allocatable(row, resource);
        let asked = table.used(row, resource) + more[resource];
        (all != 0).then(|| (asked as f64 / all as f64).min(1.0))
    };
    let uneven = match (fraction(CPU), fraction(MEMORY)) {
        (Some(cpu), Some(memory)) => ((cpu - memory) / 2.0).abs(),
        _ => 0.0,
    };
    ((1.0 - uneven) * BEST as f64) as i64
}
