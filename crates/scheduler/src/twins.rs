//! Nodes that are alike in all that a pod without wishes looks at: what they have, what is taken, how many pods they
//! run.
//!
//! A class that is new looks at one node of each sort instead of at all nodes: most nodes of a cluster are alike, and
//! those that are not are no more than the pods that made them different.
//!
//! # Invariants
//!
//! - Each plain node (no taints, no cordon) is in one sort, and those of a sort have equal cells; each other node is by
//!   itself.
//! - What is told is as of the end of the change log: [`Twins::catch_up`] comes first.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::table::{Row, Table};

/// What makes two nodes alike.
type Cells = Arc<[i64]>;

/// All sorts of plain nodes.
#[derive(Debug, Default)]
pub struct Twins {
    sorts: BTreeMap<Cells, Sort>,
    /// Nodes with taints or a cordon.
    others: BTreeSet<Row>,
    /// The sort of each row.
    of: Vec<Option<Cells>>,
    /// How far the change log was read.
    read: Option<u64>,
    /// How many resources the cells were made with.
    width: usize,
}

/// The rows of a sort, ascending. Rankings share them as they were.
pub type Sort = Arc<Vec<Row>>;

impl Twins {
    /// Looks at what changed since the last time.
    pub fn catch_up(&mut self, table: &Table) {
        let same_width = self.width == table.resources().len();
        let changed = self.read.filter(|_| same_width).and_then(|read| table.changed_since(read));
        self.read = Some(table.log_end());
        match changed {
            Some(changed) => changed.iter().for_each(|row| self.move_row(table, *row)),
            None => self.rebuild(table),
        }
    }

    /// The sorts.
    pub fn sorts(&self) -> impl Iterator<Item = &Sort> {
        self.sorts.values()
    }

    /// The nodes that are in none.
    pub fn others(&self) -> impl Iterator<Item = Row> {
        self.others.iter().copied()
    }

    fn rebuild(&mut self, table: &Table) {
        self.width = table.resources().len();
        self.of = (0..).take(table.rows()).map(|row| cells(table, row)).collect();
        let mut sorts: BTreeMap<Cells, Vec<Row>> = BTreeMap::new();
        for (row, cells) in (0..).zip(&self.of) {
            if let Some(cells) = cells {
                sorts.entry(cells.clone()).or_default().push(row);
            }
        }
        self.others = table.nodes().filter(|row| !table.is_plain(*row)).collect();
        self.sorts = sorts.into_iter().map(|(cells, rows)| (cells, Arc::new(rows))).collect();
    }

    fn move_row(&mut self, table: &Table, row: Row) {
        let at = row as usize;
        if self.of.len() <= at {
            self.of.resize(at + 1, None);
        }
        if table.is_node(row) && !table.is_plain(row) {
            self.others.insert(row);
        } else {
            self.others.remove(&row);
        }
        let now = cells(table, row);
        if self.of[at] == now {
            return;
        }
        if let Some(before) = std::mem::replace(&mut self.of[at], now.clone()) {
            self.leave(&before, row);
        }
        if let Some(now) = now {
            let rows = Arc::make_mut(self.sorts.entry(now).or_default());
            if let Err(place) = rows.binary_search(&row) {
                rows.insert(place, row);
            }
        }
    }

    fn leave(&mut self, cells: &Cells, row: Row) {
        let Some(sort) = self.sorts.get_mut(cells) else { return };
        if sort.len() == 1 {
            self.sorts.remove(cells);
            return;
        }
        let rows = Arc::make_mut(sort);
        if let Ok(place) = rows.binary_search(&row) {
            rows.remove(place);
        }
    }
}

/// The cells of a plain node.
fn cells(table: &Table, row: Row) -> Option<Cells> {
    if !table.is_plain(row) {
        return None;
    }
    let pods = i64::try_from(table.pods(row).len()).unwrap_or(i64::MAX);
    let amounts = (0..table.resources().len())
        .flat_map(|resource| [table.allocatable(row, resource), table.used(row, resource)]);
    Some([pods].into_iter().chain(table.scored(row)).chain(amounts).collect())
}

#[cfg(test)]
mod tests {
    use muster_api::node::NodeFacts;
    use muster_tree::tree;

    use super::*;
    use crate::table::Asks;

    fn node(name: &str, cpu: &str) -> NodeFacts {
        NodeFacts::of(
            &tree!({"metadata": {"name": name}, "status": {"allocatable": {"cpu": cpu, "pods": "10"}}}),
        )
    }

    fn sorts(twins: &mut Twins, table: &Table) -> Vec<Vec<Row>> {
        twins.catch_up(table);
        let mut sorts: Vec<Vec<Row>> = twins.sorts().map(|rows| rows.to_vec()).collect();
        sorts.sort();
        let mut anew = Twins::default();
        anew.catch_up(table);
        assert_eq!(
            (&anew.sorts, &anew.others),
            (&twins.sorts, &twins.others),
            "followed and made anew are the same"
        );
        sorts
    }

    #[test]
    fn rows_are_sorted_by_what_they_have_and_what_is_taken() {
        let (mut table, mut twins) = (Table::default(), Twins::default());
        for (name, cpu) in [("a", "4"), ("b", "4"), ("c", "8"), ("d", "4")] {
            let row = table.row(&name.into());
            table.set_facts(row, Some(node(name, cpu)));
        }
        assert_eq!(sorts(&mut twins, &table), [vec![0, 1, 3], vec![2]]);
        let asks = Asks { amounts: vec![(0, 1000), (2, 1)], scored: [1000, 0], ports: Vec::new() };
        table.put(1, 7, &asks);
        assert_eq!(sorts(&mut twins, &table), [vec![0, 3], vec![1], vec![2]]);
        table.put(3, 8, &asks);
        assert_eq!(sorts(&mut twins, &table), [vec![0], vec![1, 3], vec![2]]);
        table.take_away(1, 7, &asks);
        assert_eq!(sorts(&mut twins, &table), [vec![0, 1], vec![2], vec![3]]);
        let cordoned = NodeFacts { unschedulable: true, ..node("a", "4") };
        table.set_facts(0, Some(cordoned));
        assert_eq!(sorts(&mut twins, &table), [vec![1], vec![2], vec![3]], "it is not plain any more");
        assert_eq!(twins.others().collect::<Vec<_>>(), [0]);
        table.set_facts(2, None);
        assert_eq!(sorts(&mut twins, &table), [vec![1], vec![3]]);
    }
}
