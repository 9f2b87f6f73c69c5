//! Preemption units: a single pod, or all pods of a group with `disruptionMode: PodGroup`.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use muster_api::time::Time;

use super::GroupId;
use crate::cache::{PodId, SchedulerCache};
use crate::pod::Budget;

/// Pods that are evicted together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PreemptionUnit {
    /// All of them, on any node.
    pub pods: Vec<PodId>,
    /// The group, if it is evicted as a whole.
    pub team: Option<GroupId>,
    pub priority: i64,
    /// Whether its eviction violates a PodDisruptionBudget, after the eviction of all units before it.
    pub violates: bool,
}

impl SchedulerCache {
    /// The priority of a pod as a victim: that of its group if the group has one.
    pub fn rank(&self, id: PodId) -> i64 {
        let pod = self.pod(id);
        let own = pod.group.and_then(|team| self.groups.of(team).group()?.priority);
        own.unwrap_or(pod.priority)
    }

    /// The group that is evicted as a whole with a pod.
    pub fn disrupted_group(&self, id: PodId) -> Option<GroupId> {
        self.pod(id).group.filter(|team| self.groups.of(*team).disrupted_as_group())
    }

    /// The placed pods of a group.
    pub fn on_nodes(&self, team: GroupId) -> Vec<PodId> {
        let members = self.groups.of(team).members.iter().copied();
        members.filter(|id| self.pod(*id).on.is_some()).collect()
    }

    /// Whether any placed pod has a lower priority.
    pub fn has_lower_priority(&self, priority: i64) -> bool {
        self.placed.range(..priority).next().is_some()
    }

    /// All units below this priority, the highest priority first.
    pub fn units_below(&self, priority: i64, budgets: &[&Budget]) -> Vec<PreemptionUnit> {
        let mut units: Vec<PreemptionUnit> = Vec::new();
        let mut seen: BTreeSet<GroupId> = BTreeSet::new();
        for (id, pod) in (0..).zip(&self.pods) {
            let here = pod.as_ref().and_then(|pod| pod.on).is_some_and(|row| self.table.is_node(row));
            if !here || self.rank(id) >= priority {
                continue;
            }
            let team = self.disrupted_group(id);
            if team.is_some_and(|team| !seen.insert(team)) {
                continue;
            }
            let pods = team.map_or_else(|| vec![id], |team| self.on_nodes(team));
            let rank = pods.iter().map(|id| self.rank(*id)).max().unwrap_or_default();
            if rank < priority {
                units.push(PreemptionUnit { pods, team, priority: rank, violates: false });
            }
        }
        units.sort_by_cached_key(|unit| self.importance_of(unit));
        self.mark_violations(&mut units, budgets);
        units
    }

    /// Sort key: highest priority first, groups before pods, the longest running first; terminating units last.
    fn importance_of(
        &self,
        unit: &PreemptionUnit,
    ) -> (bool, Reverse<i64>, bool, Reverse<usize>, Time, PodId) {
        let leaving = unit.pods.iter().all(|id| self.pod(*id).evicted || self.pod(*id).deleting);
        let start = unit.pods.iter().map(|id| self.pod(*id).started.unwrap_or(Time(i64::MAX))).min();
        let alone = unit.team.is_none();
        let first = unit.pods.first().copied().unwrap_or_default();
        (leaving, Reverse(unit.priority), alone, Reverse(unit.pods.len()), start.unwrap_or_default(), first)
    }

    fn mark_violations(&self, units: &mut [PreemptionUnit], budgets: &[&Budget]) {
        if budgets.is_empty() {
            return;
        }
        let mut left: Vec<i64> = budgets.iter().map(|budget| budget.allowed()).collect();
        for unit in units {
            for id in &unit.pods {
                unit.violates |= self.violates(*id, budgets, &mut left);
            }
        }
    }

    /// Subtracts a pod from the allowed disruptions; whether a budget is exceeded.
    pub fn violates(&self, id: PodId, budgets: &[&Budget], left: &mut [i64]) -> bool {
        let pod = self.pod(id);
        for (budget, left) in budgets.iter().zip(left) {
            if budget.protects(&pod.key, &pod.labels) {
                *left -= 1;
                if *left < 0 {
                    return true;
                }
            }
        }
        false
    }
}
