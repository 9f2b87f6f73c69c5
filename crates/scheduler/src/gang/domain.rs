//! Groups whose members must all be in one domain: nodes that share the value of a label.
//!
//! Every domain is tried as if there were no other nodes. Of those that do, the one is taken where most members find
//! a place and that is the fullest; among equals the first by name. Where members are already, the others must go.

use std::collections::{BTreeMap, BTreeSet};

use muster_tree::Text;

use super::TeamId;
use super::cycle::Task;
use super::refuse::Failure;
use crate::choose::Stats;
use crate::label;
use crate::reason::Cures;
use crate::table::{CPU, MEMORY, Row};
use crate::world::{PodId, World};

/// The only nodes that are looked at.
#[derive(Debug)]
pub struct Fence {
    /// No other fence has it.
    pub number: u64,
    /// The nodes.
    pub rows: Vec<Row>,
    inside: Vec<bool>,
}

impl Fence {
    /// Whether a node is looked at.
    pub fn has(&self, row: Row) -> bool {
        self.inside.get(row as usize) == Some(&true)
    }
}

impl World {
    /// Whether a node is looked at at all.
    pub fn is_inside(&self, row: Row) -> bool {
        self.fence.as_ref().is_none_or(|fence| fence.has(row))
    }

    /// The values of a label that members of a group on nodes have.
    pub fn domains_of(&self, team: TeamId, key: &Text) -> BTreeSet<Text> {
        let rows = self.teams.of(team).members.iter().filter_map(|id| self.pod(*id).on);
        rows.filter_map(|row| label::find(&self.table.facts(row)?.labels, key).cloned()).collect()
    }

    /// Finds nodes in one domain for as many as a group needs, and takes them.
    pub fn place_in_a_domain(
        &mut self,
        task: &Task,
        key: &Text,
        stats: &mut Stats,
    ) -> Result<Vec<(PodId, Row)>, Failure> {
        let domains = self.domains(task, key);
        let many = domains.len();
        let (mut best, mut first): (Option<(i64, Text)>, Option<Failure>) = (None, None);
        let mut cures = Cures { node: true, ..Cures::default() };
        for (name, rows) in &domains {
            let marks = self.mark();
            self.put_up_fence(rows.clone());
            match self.place_members(task, stats) {
                Ok(placed) => {
                    let score = self.domain_score(rows, placed.len(), task.members.len());
                    self.undo(&placed, marks);
                    if best.as_ref().is_none_or(|(top, _)| score > *top) {
                        best = Some((score, name.clone()));
                    }
                }
                Err(failure) => {
                    cures = cures.or(failure.cures);
                    first = first.or(Some(failure));
                }
            }
            self.fence = None;
        }
        if let Some((_, name)) = best {
            self.put_up_fence(domains[&name].clone());
            let placed = self.place_members(task, stats);
            self.fence = None;
            return placed;
        }
        let mut failure = first.unwrap_or_else(|| Failure { need: task.need(), ..Failure::default() });
        failure.cures = cures;
        let status = if many == 0 { format!("no node has the label {key}") } else { failure.words(task) };
        failure.instead =
            Some(format!("0/{many} placements are available, first placement status: {status}"));
        Err(failure)
    }

    /// The domains that may be tried, with their nodes.
    fn domains(&self, task: &Task, key: &Text) -> BTreeMap<Text, Vec<Row>> {
        let forced = self.domains_of(task.team, key);
        let mut domains: BTreeMap<Text, Vec<Row>> = BTreeMap::new();
        for row in self.table.nodes() {
            let value = self.table.facts(row).and_then(|facts| label::find(&facts.labels, key));
            if let Some(value) = value.filter(|value| forced.is_empty() || forced.contains(*value)) {
                domains.entry(value.clone()).or_default().push(row);
            }
        }
        domains
    }

    fn put_up_fence(&mut self, rows: Vec<Row>) {
        let mut inside = vec![false; self.table.rows()];
        rows.iter().for_each(|row| inside[*row as usize] = true);
        self.fences += 1;
        self.fence = Some(Fence { number: self.fences, rows, inside });
    }

    /// How good a domain is with the members on it: how many they are, and how full it is, each up to 100.
    fn domain_score(&self, rows: &[Row], placed: usize, members: usize) -> i64 {
        let full = |resource: usize| {
            let sum = |of: &dyn Fn(Row) -> i64| rows.iter().map(|row| i128::from(of(*row))).sum::<i128>();
            let all = sum(&|row| self.table.allocatable(row, resource)).max(1);
            (sum(&|row| self.table.used(row, resource)) * 100 / all).clamp(0, 100)
        };
        let part = i64::try_from(placed * 100 / members.max(1)).unwrap_or(0);
        part + i64::try_from((full(CPU) + full(MEMORY)) / 2).unwrap_or(0)
    }
}
