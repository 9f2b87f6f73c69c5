//! Making room for a pod by evicting less important ones from one node.
//!
//! On every node where it could help, all less important pods are taken away in thought; if the pod then fits, as
//! many as possible are given back, those first whose budget would be violated, the most important first. Among
//! the nodes: fewest violations, least important first victim, smallest sum of priorities, fewest victims, latest
//! start of the most important victims, lowest row. Pods of a group that goes as a whole are one: all of them stay,
//! or all of them go, those on other nodes too.

use std::cmp::Reverse;

use muster_api::time::Time;

use crate::choose::Diagnosis;
use crate::gang::Unit;
use crate::pod::Budget;
use crate::reason::{Preemption, Reason, Tally};
use crate::table::Row;
use crate::world::{PodId, World};

/// Nodes that are worked out before the best is taken: a tenth of those where it could help, and no fewer than this.
const CANDIDATES_MIN: usize = 100;

/// Room to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// On this node.
    pub row: Row,
    /// By evicting these, the most important first.
    pub victims: Vec<PodId>,
}

struct Candidate {
    plan: Plan,
    violations: usize,
}

impl World {
    /// Looks for a node where room can be made.
    pub fn preempt(&mut self, id: PodId, why: &Diagnosis, budgets: &[&Budget]) -> (Preemption, Option<Plan>) {
        if let Some(verdict) = self.may_not_preempt(id, why) {
            return (verdict, None);
        }
        let (candidates, mut useless) = self.rooms(id, why, budgets);
        let Some(best) = candidates.into_iter().min_by_key(|it| (self.cost(it), it.plan.row)) else {
            let others = self.table.len() - why.resolvable.len();
            if others > 0 {
                useless.counts.insert(Reason::NotHelpful, others);
            }
            return (Preemption::Useless(useless), None);
        };
        let node = self.table.name(best.plan.row).clone();
        (Preemption::Found { node, victims: best.plan.victims.len() }, Some(best.plan))
    }

    /// The nodes where room can be made at the least cost: any of them will do.
    pub fn best_rooms(&mut self, id: PodId, why: &Diagnosis, budgets: &[&Budget]) -> Vec<Row> {
        let (candidates, _) = self.rooms(id, why, budgets);
        let best = candidates.iter().map(|it| self.cost(it)).min();
        candidates.iter().filter(|it| Some(self.cost(it)) == best).map(|it| it.plan.row).collect()
    }

    /// The nodes where room can be made, and why it cannot be made on others.
    fn rooms(&mut self, id: PodId, why: &Diagnosis, budgets: &[&Budget]) -> (Vec<Candidate>, Tally) {
        let enough = CANDIDATES_MIN.max(why.resolvable.len() / 10);
        let mut useless = Tally { nodes: self.table.len(), ..Tally::default() };
        let mut candidates: Vec<Candidate> = Vec::new();
        let anybody = self.placed.range(..self.pod(id).priority).next().is_some();
        for row in &why.resolvable {
            let found = if anybody { self.victims(id, *row, budgets, &mut useless) } else { None };
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

    fn may_not_preempt(&self, id: PodId, why: &Diagnosis) -> Option<Preemption> {
        let pod = self.pod(id);
        if !pod.preempts {
            return Some(Preemption::Never);
        }
        let row = pod.nominated.filter(|row| why.resolvable.contains(row))?;
        let leaving = |other: &&PodId| {
            let other = self.pod(**other);
            other.evicted && other.priority < pod.priority
        };
        self.table.pods(row).iter().find(leaving).map(|_| Preemption::UnderWay)
    }

    /// Whom to evict from a node so that the pod fits; a tally entry when that does not help.
    fn victims(
        &mut self,
        id: PodId,
        row: Row,
        budgets: &[&Budget],
        useless: &mut Tally,
    ) -> Option<Candidate> {
        let units = self.units_on(row, self.rank(id), budgets);
        if units.is_empty() {
            useless.add(Reason::NoVictims);
            return None;
        }
        let all: Vec<PodId> = units.iter().flat_map(|unit| unit.pods.iter().copied()).collect();
        all.iter().for_each(|other| self.pretend(*other, row, -1));
        let wrong = self.wrong_with_nominated(id, row);
        if let Some(wrong) = wrong {
            self.tally_with_nominated(id, row, wrong, useless);
            all.iter().for_each(|other| self.pretend(*other, row, 1));
            return None;
        }
        let (violating, fine): (Vec<Unit>, Vec<Unit>) = units.into_iter().partition(|unit| unit.violates);
        let mut gone: Vec<Unit> = Vec::new();
        for unit in violating.into_iter().chain(fine) {
            unit.pods.iter().for_each(|other| self.pretend(*other, row, 1));
            if self.wrong_with_nominated(id, row).is_some() {
                unit.pods.iter().for_each(|other| self.pretend(*other, row, -1));
                gone.push(unit);
            }
        }
        gone.iter().flat_map(|unit| &unit.pods).for_each(|other| self.pretend(*other, row, 1));
        let violations = gone.iter().filter(|unit| unit.violates).count();
        let mut victims: Vec<PodId> = Vec::new();
        for unit in &gone {
            // A group that goes as a whole goes from all nodes.
            victims.extend(unit.team.map_or_else(|| unit.pods.clone(), |team| self.on_nodes(team)));
        }
        victims.sort_by_key(|other| self.importance(*other));
        (!victims.is_empty()).then_some(Candidate { plan: Plan { row, victims }, violations })
    }

    /// The units that are less important than this, as far as they are on one node, the most important first.
    fn units_on(&self, row: Row, priority: i64, budgets: &[&Budget]) -> Vec<Unit> {
        let lower = |other: &PodId| self.rank(*other) < priority;
        let mut all: Vec<PodId> = self.table.pods(row).iter().copied().filter(lower).collect();
        all.sort_by_key(|other| self.importance(*other));
        let mut left: Vec<i64> = budgets.iter().map(|budget| budget.allowed()).collect();
        let mut units: Vec<Unit> = Vec::new();
        for id in all {
            let violates = self.violates(id, budgets, &mut left);
            let team = self.whole(id);
            match units.iter_mut().find(|unit| team.is_some() && unit.team == team) {
                Some(unit) => {
                    unit.pods.push(id);
                    unit.violates |= violates;
                }
                None => units.push(Unit { pods: vec![id], team, priority: self.rank(id), violates }),
            }
        }
        units
    }

    /// Sorts the most important first: priority, then the longest running.
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
