//! What goes together when room is made: a pod alone, or a whole group that says so.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use muster_api::time::Time;

use super::TeamId;
use crate::pod::Budget;
use crate::world::{PodId, World};

/// Pods that go together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unit {
    /// All of them, on whatever nodes.
    pub pods: Vec<PodId>,
    /// The group, when it goes as a whole.
    pub team: Option<TeamId>,
    /// How important it is.
    pub priority: i64,
    /// Whether it violates a budget when it goes, all others gone as well.
    pub violates: bool,
}

impl World {
    /// How important a pod is to those who look for victims: as its group says, if that says anything.
    pub fn rank(&self, id: PodId) -> i64 {
        let pod = self.pod(id);
        let own = pod.team.and_then(|team| self.teams.of(team).group()?.priority);
        own.unwrap_or(pod.priority)
    }

    /// The group that goes as a whole when a pod goes.
    pub fn whole(&self, id: PodId) -> Option<TeamId> {
        self.pod(id).team.filter(|team| self.teams.of(*team).goes_whole())
    }

    /// The pods of a group that are on nodes.
    pub fn on_nodes(&self, team: TeamId) -> Vec<PodId> {
        let members = self.teams.of(team).members.iter().copied();
        members.filter(|id| self.pod(*id).on.is_some()).collect()
    }

    /// Whether anybody on a node is less important than this.
    pub fn anybody_below(&self, priority: i64) -> bool {
        self.placed.range(..priority).next().is_some()
    }

    /// All units that are less important than this, the most important first.
    pub fn units_below(&self, priority: i64, budgets: &[&Budget]) -> Vec<Unit> {
        let mut units: Vec<Unit> = Vec::new();
        let mut seen: BTreeSet<TeamId> = BTreeSet::new();
        for (id, pod) in (0..).zip(&self.pods) {
            let here = pod.as_ref().and_then(|pod| pod.on).is_some_and(|row| self.table.is_node(row));
            if !here || self.rank(id) >= priority {
                continue;
            }
            let team = self.whole(id);
            if team.is_some_and(|team| !seen.insert(team)) {
                continue;
            }
            let pods = team.map_or_else(|| vec![id], |team| self.on_nodes(team));
            let rank = pods.iter().map(|id| self.rank(*id)).max().unwrap_or_default();
            if rank < priority {
                units.push(Unit { pods, team, priority: rank, violates: false });
            }
        }
        units.sort_by_cached_key(|unit| self.importance_of(unit));
        self.mark_violations(&mut units, budgets);
        units
    }

    /// Sorts the most important first; whoever is on the way out is least important.
    fn importance_of(&self, unit: &Unit) -> (bool, Reverse<i64>, bool, Reverse<usize>, Time, PodId) {
        let leaving = unit.pods.iter().all(|id| self.pod(*id).evicted || self.pod(*id).deleting);
        let start = unit.pods.iter().map(|id| self.pod(*id).started.unwrap_or(Time(i64::MAX))).min();
        let alone = unit.team.is_none();
        let first = unit.pods.first().copied().unwrap_or_default();
        (leaving, Reverse(unit.priority), alone, Reverse(unit.pods.len()), start.unwrap_or_default(), first)
    }

    fn mark_violations(&self, units: &mut [Unit], budgets: &[&Budget]) {
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

    /// Takes a pod off what budgets allow; whether one of them does not.
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
