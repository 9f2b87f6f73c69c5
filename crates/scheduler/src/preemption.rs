//! Preemption for a single pod (`PostFilter`), as kube-scheduler's `DefaultPreemption`.
//!
//! A dry run evicts all pods of lower priority from a candidate node. If the pod then fits, as many victims as possible
//! are reprieved, first those whose PodDisruptionBudget would be violated, then by priority. Among the candidates wins:
//! fewest budget violations, lowest highest-priority victim, smallest sum of priorities, fewest victims, latest start of
//! the highest-priority victims, lowest row. A group with `disruptionMode: PodGroup` is one unit: all its pods are
//! evicted or none, on all nodes.

use std::cmp::Reverse;

use muster_api::time::Time;

use crate::cache::{PodId, SchedulerCache};
use crate::gang::PreemptionUnit;
use crate::node_table::NodeRow;
use crate::pod::Budget;
use crate::reason::{PreemptionResult, Reason, ReasonCounts};
use crate::select_node::Diagnosis;

/// Minimum number of candidate nodes (`minCandidateNodesAbsolute`); otherwise a tenth of the nodes where preemption may
/// help.
const CANDIDATES_MIN: usize = 100;

/// A node and the victims on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PreemptionPlan {
    pub row: NodeRow,
    /// The highest priority first.
    pub victims: Vec<PodId>,
}

struct Candidate {
    plan: PreemptionPlan,
    violations: usize,
}

impl SchedulerCache {
    /// Finds the best candidate node.
    pub fn preempt(
        &mut self,
        id: PodId,
        why: &Diagnosis,
        budgets: &[&Budget],
    ) -> (PreemptionResult, Option<PreemptionPlan>) {
        if let Some(verdict) = self.ineligible(id, why) {
            return (verdict, None);
        }
        let (candidates, mut useless) = self.candidates(id, why, budgets);
        let Some(best) = candidates.into_iter().min_by_key(|it| (self.cost(it), it.plan.row)) else {
            let others = self.table.len() - why.resolvable.len();
            if others > 0 {
                useless.counts.insert(Reason::NotHelpful, others);
            }
            return (PreemptionResult::NotHelpful(useless), None);
        };
        let node = self.table.name(best.plan.row).clone();
        (PreemptionResult::Found { node, victims: best.plan.victims.len() }, Some(best.plan))
    }

    /// All candidate nodes with the lowest cost.
    pub fn best_candidates(&mut self, id: PodId, why: &Diagnosis, budgets: &[&Budget]) -> Vec<NodeRow> {
        let (candidates, _) = self.candidates(id, why, budgets);
        let best = candidates.iter().map(|it| self.cost(it)).min();
        candidates.iter().filter(|it| Some(self.cost(it)) == best).map(|it| it.plan.row).collect()
    }

    /// The candidate nodes, and why other nodes are none.
    fn candidates(
        &mut self,
        id: PodId,
        why: &Diagnosis,
        budgets: &[&Budget],
    ) -> (Vec<Candidate>, ReasonCounts) {
        // Bounds the dry runs in large clusters, at the price of a possibly worse candidate.
        let enough = CANDIDATES_MIN.max(why.resolvable.len() / 10);
        let mut useless = ReasonCounts { nodes: self.table.len(), ..ReasonCounts::default() };
        let mut candidates: Vec<Candidate> = Vec::new();
        let anybody = self.placed.range(..self.pod(id).priority).next().is_some();
        for row in &why.resolvable {
            let found = if anybody { self.select_victims(id, *row, budgets, &mut useless) } else { None };
            candidates.extend(found);
            if candidates.iter().any(|it| it.violations == 0) && candidates.len() >= enough {
                break;
            }
        }
        if !anybody && !why.resolvable.is_empty() {
            useless.counts.insert(Reason::NoVictims, why.resolvable.len());
        }
        (candidates, useless)
    }

    fn ineligible(&self, id: PodId, why: &Diagnosis) -> Option<PreemptionResult> {
        let pod = self.pod(id);
        if !pod.preempts {
            return Some(PreemptionResult::Never);
        }
        // While a victim on the nominated node terminates, another preemption would evict more pods than needed.
        let row = pod.nominated.filter(|row| why.resolvable.contains(row))?;
        let leaving = |other: &&PodId| {
            let other = self.pod(**other);
            other.evicted && other.priority < pod.priority
        };
        self.table.pods(row).iter().find(leaving).map(|_| PreemptionResult::InProgress)
    }

    /// Selects the victims on a node; if none help, the reason is counted.
    fn select_victims(
        &mut self,
        id: PodId,
        row: NodeRow,
        budgets: &[&Budget],
        useless: &mut ReasonCounts,
    ) -> Option<Candidate> {
        let units = self.units_on(row, self.rank(id), budgets);
        if units.is_empty() {
            useless.add(Reason::NoVictims);
            return None;
        }
        let all: Vec<PodId> = units.iter().flat_map(|unit| unit.pods.iter().copied()).collect();
        // If the pod does not fit with every victim evicted, no subset helps.
        all.iter().for_each(|other| self.simulate(*other, row, -1));
        let wrong = self.filter_with_nominated(id, row);
        if let Some(wrong) = wrong {
            self.count_reasons_with_nominated(id, row, wrong, useless);
            all.iter().for_each(|other| self.simulate(*other, row, 1));
            return None;
        }
        let (violating, fine): (Vec<PreemptionUnit>, Vec<PreemptionUnit>) =
            units.into_iter().partition(|unit| unit.violates);
        let mut gone: Vec<PreemptionUnit> = Vec::new();
        // Reprieve units with budget violations first: they should be evicted only if nothing else suffices.
        for unit in violating.into_iter().chain(fine) {
            unit.pods.iter().for_each(|other| self.simulate(*other, row, 1));
            if self.filter_with_nominated(id, row).is_some() {
                unit.pods.iter().for_each(|other| self.simulate(*other, row, -1));
                gone.push(unit);
            }
        }
        gone.iter().flat_map(|unit| &unit.pods).for_each(|other| self.simulate(*other, row, 1));
        let violations = gone.iter().filter(|unit| unit.violates).count();
        let mut victims: Vec<PodId> = Vec::new();
        for unit in &gone {
            // A group that is evicted as a whole is evicted from all nodes.
            victims.extend(unit.team.map_or_else(|| unit.pods.clone(), |team| self.on_nodes(team)));
        }
        victims.sort_by_key(|other| self.importance(*other));
        (!victims.is_empty()).then_some(Candidate { plan: PreemptionPlan { row, victims }, violations })
    }

    /// The units below this priority with their pods on one node, the highest priority first.
    fn units_on(&self, row: NodeRow, priority: i64, budgets: &[&Budget]) -> Vec<PreemptionUnit> {
        let lower = |other: &PodId| self.rank(*other) < priority;
        let mut all: Vec<PodId> = self.table.pods(row).iter().copied().filter(lower).collect();
        all.sort_by_key(|other| self.importance(*other));
        let mut left: Vec<i64> = budgets.iter().map(|budget| budget.allowed()).collect();
        let mut units: Vec<PreemptionUnit> = Vec::new();
        for id in all {
            let violates = self.violates(id, budgets, &mut left);
            let team = self.disrupted_group(id);
            match units.iter_mut().find(|unit| team.is_some() && unit.team == team) {
                Some(unit) => {
                    unit.pods.push(id);
                    unit.violates |= violates;
                }
                None => {
                    units.push(PreemptionUnit { pods: vec![id], team, priority: self.rank(id), violates });
                }
            }
        }
        units
    }

    /// Sort key: highest priority first, then the longest running.
    fn importance(&self, id: PodId) -> (Reverse<i64>, Time, PodId) {
        let pod = self.pod(id);
        (Reverse(self.rank(id)), pod.started.unwrap_or(Time(i64::MAX)), id)
    }

    fn cost(&self, candidate: &Candidate) -> (usize, i64, i64, usize, Reverse<Time>) {
        let victims = &candidate.plan.victims;
        let priority = |id: &PodId| self.rank(*id);
        let top = victims.first().map_or(i64::MIN, priority);
        // Shifted above zero: two victims of negative priority are not cheaper than one.
        let sum = victims.iter().map(|id| priority(id) + i64::from(i32::MAX) + 1).sum();
        let highest = victims.iter().filter(|id| priority(id) == top);
        let start =
            highest.map(|id| self.pod(*id).started.unwrap_or(Time(i64::MAX))).min().unwrap_or_default();
        (candidate.violations, top, sum, victims.len(), Reverse(start))
    }
}
