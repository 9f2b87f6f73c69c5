//! Inspection for tests.

use muster_tree::Text;

use crate::Scheduler;
use crate::node_table::NodeRow;
use crate::pod::{Budget, PodKey};

impl Scheduler {
    /// All charges and counts, for comparison with a scheduler rebuilt from the same objects.
    #[doc(hidden)]
    #[must_use]
    pub fn dump(&self) -> Vec<String> {
        let world = &self.cache;
        let mut lines = world.counts.dump();
        for at in 0..world.table.rows() {
            let row = NodeRow::try_from(at).expect("fewer nodes than 2^32");
            let mut pods: Vec<&PodKey> = world.table.pods(row).iter().map(|id| &world.pod(*id).key).collect();
            pods.sort();
            let amounts: Vec<(&Text, i64)> = (0..)
                .zip(world.table.resources())
                .map(|(n, name)| (name, world.table.used(row, n)))
                .filter(|(_, used)| *used != 0)
                .collect();
            if !pods.is_empty() || world.table.facts(row).is_some() {
                lines.push(format!(
                    "{} {amounts:?} {:?} {:?} {pods:?}",
                    world.table.name(row),
                    world.table.scored(row),
                    world.table.taken_ports(row)
                ));
            }
        }
        lines.sort();
        lines
    }

    /// The feasible nodes of a pending pod with their scores.
    #[doc(hidden)]
    pub fn scores(&mut self, key: &PodKey) -> Vec<(Text, i64)> {
        let Some(id) = self.index.get(key).copied() else { return Vec::new() };
        let scores = self.cache.scores(id);
        scores.into_iter().map(|(row, score)| (self.cache.table.name(row).clone(), score)).collect()
    }

    /// The preemption candidates with the lowest cost for a pending pod.
    #[doc(hidden)]
    pub fn best_rooms(&mut self, key: &PodKey) -> Vec<Text> {
        let Some(id) = self.index.get(key).copied() else { return Vec::new() };
        let why = self.cache.diagnose(id);
        let budgets: Vec<&Budget> = self.budgets.values().collect();
        let rows = self.cache.best_candidates(id, &why, &budgets);
        rows.into_iter().map(|row| self.cache.table.name(row).clone()).collect()
    }

    /// Overcommitted nodes with the resource.
    #[doc(hidden)]
    #[must_use]
    pub fn overfull(&self) -> Vec<(Text, Text)> {
        let table = &self.cache.table;
        let short = |row: NodeRow| {
            let over = (0..table.resources().len())
                .filter(move |n| table.left(row, *n) < 0 && table.used(row, *n) > 0);
            over.map(move |n| (table.name(row).clone(), table.resource_name(n).clone()))
        };
        table.nodes().flat_map(short).collect()
    }
}
