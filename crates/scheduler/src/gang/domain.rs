//! Groups with a topology constraint: all members in one domain, that is, on nodes with the same value of a label.
//!
//! Every domain is tried as if there were no other nodes. The domain where most members fit wins, then the fullest, then
//! the first by name. If members are placed already, only their domain is tried.

use std::collections::{BTreeMap, BTreeSet};

use muster_tree::Text;

use super::GroupId;
use super::cycle::GroupCycle;
use super::unschedulable::GroupFailure;
use crate::cache::{PodId, SchedulerCache};
use crate::label;
use crate::node_table::{CPU, MEMORY, NodeRow};
use crate::reason::QueueingHints;
use crate::select_node::Stats;

/// The nodes that filter and score are restricted to.
#[derive(Debug)]
pub struct NodeScope {
    /// Unique per scope: a cached ranking is valid for one scope only.
    pub number: u64,
    pub rows: Vec<NodeRow>,
    inside: Vec<bool>,
}

impl NodeScope {
    pub fn has(&self, row: NodeRow) -> bool {
        self.inside.get(row as usize) == Some(&true)
    }
}

impl SchedulerCache {
    /// Whether a node is in the current scope.
    pub fn in_scope(&self, row: NodeRow) -> bool {
        self.scope.as_ref().is_none_or(|fence| fence.has(row))
    }

    /// The domains that the placed members of a group are in.
    pub fn domains_of(&self, team: GroupId, key: &Text) -> BTreeSet<Text> {
        let rows = self.groups.of(team).members.iter().filter_map(|id| self.pod(*id).on);
        rows.filter_map(|row| label::find(&self.table.facts(row)?.labels, key).cloned()).collect()
    }

    /// Finds nodes in one domain for the members that a group needs and assumes them.
    pub fn place_in_a_domain(
        &mut self,
        task: &GroupCycle,
        key: &Text,
        stats: &mut Stats,
    ) -> Result<Vec<(PodId, NodeRow)>, GroupFailure> {
        let domains = self.domains(task, key);
        let many = domains.len();
        let (mut best, mut first): (Option<(i64, Text)>, Option<GroupFailure>) = (None, None);
        let mut cures = QueueingHints { node: true, ..QueueingHints::default() };
        for (name, rows) in &domains {
            let marks = self.checkpoint();
            self.set_scope(rows.clone());
            match self.place_members(task, stats) {
                Ok(placed) => {
                    let score = self.domain_score(rows, placed.len(), task.members.len());
                    // Each domain is tried on the unchanged cache; the winner is placed again below.
                    self.roll_back(&placed, marks);
                    if best.as_ref().is_none_or(|(top, _)| score > *top) {
                        best = Some((score, name.clone()));
                    }
                }
                Err(failure) => {
                    cures = cures.or(failure.cures);
                    first = first.or(Some(failure));
                }
            }
            self.scope = None;
        }
        if let Some((_, name)) = best {
            self.set_scope(domains[&name].clone());
            let placed = self.place_members(task, stats);
            self.scope = None;
            return placed;
        }
        let mut failure =
            first.unwrap_or_else(|| GroupFailure { need: task.need(), ..GroupFailure::default() });
        failure.cures = cures;
        let status = if many == 0 { format!("no node has the label {key}") } else { failure.words(task) };
        failure.instead =
            Some(format!("0/{many} placements are available, first placement status: {status}"));
        Err(failure)
    }

    /// The domains to try, with their nodes.
    fn domains(&self, task: &GroupCycle, key: &Text) -> BTreeMap<Text, Vec<NodeRow>> {
        let forced = self.domains_of(task.team, key);
        let mut domains: BTreeMap<Text, Vec<NodeRow>> = BTreeMap::new();
        for row in self.table.nodes() {
            let value = self.table.facts(row).and_then(|facts| label::find(&facts.labels, key));
            if let Some(value) = value.filter(|value| forced.is_empty() || forced.contains(*value)) {
                domains.entry(value.clone()).or_default().push(row);
            }
        }
        domains
    }

    fn set_scope(&mut self, rows: Vec<NodeRow>) {
        let mut inside = vec![false; self.table.rows()];
        rows.iter().for_each(|row| inside[*row as usize] = true);
        self.scopes_created += 1;
        self.scope = Some(NodeScope { number: self.scopes_created, rows, inside });
    }

    /// Score of a domain: share of the members scheduled and utilisation, each up to 100.
    fn domain_score(&self, rows: &[NodeRow], placed: usize, members: usize) -> i64 {
        let full = |resource: usize| {
            let sum = |of: &dyn Fn(NodeRow) -> i64| rows.iter().map(|row| i128::from(of(*row))).sum::<i128>();
            let all = sum(&|row| self.table.allocatable(row, resource)).max(1);
            (sum(&|row| self.table.used(row, resource)) * 100 / all).clamp(0, 100)
        };
        let part = i64::try_from(placed * 100 / members.max(1)).unwrap_or(0);
        part + i64::try_from((full(CPU) + full(MEMORY)) / 2).unwrap_or(0)
    }
}
