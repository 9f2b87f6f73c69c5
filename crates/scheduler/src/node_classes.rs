//! Node classes: nodes with equal allocatable, equal usage and the same number of pods.
//!
//! A new equivalence class of unconstrained pods scores one node per node class instead of every node: most nodes of a
//! cluster are equal, and at most as many differ as there are pods on them. If hardly any two nodes are equal, no
//! classes are kept and every node is scored.
//!
//! # Invariants
//!
//! - Each plain node (no taints, not cordoned) is in exactly one class, and the nodes of a class have equal cells. Every
//!   other node is scored by itself.
//! - Classes are as of the end of the change log: call [`NodeClasses::catch_up`] first.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::node_table::{NodeRow, NodeTable};

/// Nodes per class below which classes cost more than they save.
const ROWS_PER_SORT_MIN: usize = 4;
/// Changes per node until classes are tried again.
const CHANGES_PER_ROW: usize = 8;

/// Number of pods, scored usage, then allocatable and used per resource.
type Cells = Arc<[i64]>;

#[derive(Debug, Default)]
pub struct NodeClasses {
    sorts: BTreeMap<Cells, NodeClass>,
    /// Nodes with taints or cordoned.
    others: BTreeSet<NodeRow>,
    of: Vec<Option<Cells>>,
    read: Option<u64>,
    /// Number of resources in the cells.
    width: usize,
    /// No classes are built before the change log reaches this position.
    idle_until: u64,
}

/// The rows of a class, ascending. Rankings keep the list as it was when they were built.
pub type NodeClass = Arc<Vec<NodeRow>>;

impl NodeClasses {
    /// Applies the change log; whether classes are worth using.
    pub fn catch_up(&mut self, table: &NodeTable) -> bool {
        let end = table.log_end();
        if end < self.idle_until {
            return false;
        }
        let same_width = self.width == table.resources().len();
        let changed = self.read.filter(|_| same_width).and_then(|read| table.changed_since(read));
        self.read = Some(end);
        match changed.filter(|changed| changed.len() < table.rows() / 2) {
            Some(changed) => changed.iter().for_each(|row| self.move_row(table, *row)),
            None => self.rebuild(table),
        }
        let pays = pays(self.sorts.len(), table);
        if !pays {
            let pause = u64::try_from(table.rows() * CHANGES_PER_ROW).unwrap_or(u64::MAX);
            // Frees the memory, and pauses for some changes per node: the nodes may become equal again.
            *self = NodeClasses { idle_until: end.saturating_add(pause), ..NodeClasses::default() };
        }
        pays
    }

    pub fn classes(&self) -> impl Iterator<Item = &NodeClass> {
        self.sorts.values()
    }

    /// The nodes outside all classes.
    pub fn others(&self) -> impl Iterator<Item = NodeRow> {
        self.others.iter().copied()
    }

    /// Classifies all rows; stops as soon as there are too many classes.
    fn rebuild(&mut self, table: &NodeTable) {
        self.width = table.resources().len();
        self.of = Vec::with_capacity(table.rows());
        let mut sorts: BTreeMap<Cells, Vec<NodeRow>> = BTreeMap::new();
        for row in (0..).take(table.rows()) {
            let cells = cells(table, row);
            if let Some(cells) = &cells {
                sorts.entry(cells.clone()).or_default().push(row);
            }
            self.of.push(cells);
            if !pays(sorts.len(), table) {
                break;
            }
        }
        self.others = table.nodes().filter(|row| !table.is_plain(*row)).collect();
        self.sorts = sorts.into_iter().map(|(cells, rows)| (cells, Arc::new(rows))).collect();
    }

    fn move_row(&mut self, table: &NodeTable, row: NodeRow) {
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

    fn leave(&mut self, cells: &Cells, row: NodeRow) {
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

fn pays(sorts: usize, table: &NodeTable) -> bool {
    sorts * ROWS_PER_SORT_MIN <= table.rows() + ROWS_PER_SORT_MIN
}

/// The cells of a plain node; `None` for any other row.
fn cells(table: &NodeTable, row: NodeRow) -> Option<Cells> {
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
    use crate::node_table::IndexedRequests;

    fn node(name: &str, cpu: &str) -> NodeFacts {
        NodeFacts::of(
            &tree!({"metadata": {"name": name}, "status": {"allocatable": {"cpu": cpu, "pods": "10"}}}),
        )
    }

    fn sorts(twins: &mut NodeClasses, table: &NodeTable) -> Vec<Vec<NodeRow>> {
        assert!(twins.catch_up(table));
        let mut sorts: Vec<Vec<NodeRow>> = twins.classes().map(|rows| rows.to_vec()).collect();
        sorts.sort();
        let mut anew = NodeClasses::default();
        assert!(anew.catch_up(table));
        assert_eq!(
            (&anew.sorts, &anew.others),
            (&twins.sorts, &twins.others),
            "followed and made anew are the same"
        );
        sorts
    }

    /// Two nodes of one size and many of another.
    fn table() -> NodeTable {
        let mut table = NodeTable::default();
        for n in 0..12 {
            let name = format!("n{n}");
            let row = table.row(&name.as_str().into());
            table.set_facts(row, Some(node(&name, if n < 2 { "8" } else { "4" })));
        }
        table
    }

    fn asks(cpu: i64) -> IndexedRequests {
        IndexedRequests { amounts: vec![(0, cpu), (2, 1)], scored: [cpu, 0], ports: Vec::new() }
    }

    #[test]
    fn rows_are_classified_by_allocatable_and_usage() {
        let (mut table, mut twins) = (table(), NodeClasses::default());
        let rest = || (2..11).collect::<Vec<NodeRow>>();
        assert_eq!(sorts(&mut twins, &table), [vec![0, 1], (2..12).collect()]);
        table.add_pod(11, 7, &asks(1000));
        assert_eq!(sorts(&mut twins, &table), [vec![0, 1], rest(), vec![11]]);
        table.add_pod(2, 8, &asks(1000));
        assert_eq!(sorts(&mut twins, &table), [vec![0, 1], vec![2, 11], (3..11).collect()]);
        table.remove_pod(2, 8, &asks(1000));
        assert_eq!(sorts(&mut twins, &table), [vec![0, 1], rest(), vec![11]]);
        let cordoned = NodeFacts { unschedulable: true, ..node("n0", "8") };
        table.set_facts(0, Some(cordoned));
        assert_eq!(sorts(&mut twins, &table), [vec![1], rest(), vec![11]], "it is not plain any more");
        assert_eq!(twins.others().collect::<Vec<_>>(), [0]);
        table.set_facts(1, None);
        assert_eq!(sorts(&mut twins, &table), [rest(), vec![11]]);
    }

    #[test]
    fn no_classes_are_kept_if_hardly_two_nodes_are_equal() {
        let (mut table, mut twins) = (table(), NodeClasses::default());
        for row in 2..12 {
            table.add_pod(row, row, &asks(100 * i64::from(row)));
        }
        assert!(!twins.catch_up(&table));
        assert!(twins.sorts.is_empty() && twins.of.is_empty(), "nothing is kept");
        for row in 2..12 {
            table.remove_pod(row, row, &asks(100 * i64::from(row)));
        }
        assert!(!twins.catch_up(&table), "it is not looked again at once");
        for _ in 0..CHANGES_PER_ROW {
            (0..12).for_each(|row| table.touch(row));
        }
        assert!(twins.catch_up(&table));
        assert_eq!(twins.classes().count(), 2);
    }
}
