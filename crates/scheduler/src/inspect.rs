//! A look inside, for tests that compare.

use muster_tree::Text;

use crate::Scheduler;
use crate::pod::{Budget, PodKey};
use crate::table::Row;

impl Scheduler {
    /// All that is taken and counted, for comparing with a scheduler that was fed anew.
    #[doc(hidden)]
    #[must_use]
    pub fn picture(&self) -> Vec<String> {
        let world = &self.world;
        let mut lines = world.counts.picture();
        for at in 0..world.table.rows() {
            let row = Row::try_from(at).expect("fewer nodes than 2^32");
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

    /// The nodes that would do for a pod that waits, with their scores.
    #[doc(hidden)]
    pub fn scores(&mut self, key: &PodKey) -> Vec<(Text, i64)> {
        let Some(id) = self.index.get(key).copied() else { return Vec::new() };
        let scores = self.world.scores(id);
        scores.into_iter().map(|(row, score)| (self.world.table.name(row).clone(), score)).collect()
    }

    /// The nodes where room can best be made for a pod that waits.
    #[doc(hidden)]
    pub fn best_rooms(&mut self, key: &PodKey) -> Vec<Text> {
        let Some(id) = self.index.get(key).copied() else { return Vec::new() };
        let why = self.world.diagnose(id);
        let budgets: Vec<&Budget> = self.budgets.values().collect();
        let rows = self.world.best_rooms(id, &why, &budgets);
        rows.into_iter().map(|row| self.world.table.name(row).clone()).collect()
    }

    /// Nodes that hold more than they may, by resource.
    #[doc(hidden)]
    #[must_use]
    pub fn overfull(&self) -> Vec<(Text, Text)> {
        let table = &self.world.table;
        let short = |row: Row| {
            let over = (0..table.resources().len())
                .filter(move |n| table.left(row, *n) < 0 && table.used(row, *n) > 0);
            over.map(move |n| (table.name(row).clone(), table.resource_name(n).clone()))
        };
        table.nodes().flat_map(short).collect()
    }
}
