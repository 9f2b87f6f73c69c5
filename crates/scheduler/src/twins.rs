//! Nodes that are alike in all that a pod without wishes looks at: what they have, what is taken, how many pods they
//! run.
//!
//! A class that is new looks at one node of each sort instead of at all nodes: most nodes of a cluster are alike, and
//! those that are not are no more than the pods that made them different. Where hardly any two are alike, all nodes are
//! looked at as ever, and nobody keeps account of sorts.
//!
//! # Invariants
//!
//! - Each plain node (no taints, no cordon) is in one sort, and those of a sort have equal cells; each other node is by
//!   itself.
//! - What is told is as of the end of the change log: [`Twins::catch_up`] comes first.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::table::{Row, Table};

/// Nodes per sort, below which looking at sorts costs more than it saves.
const ROWS_PER_SORT_MIN: usize = 4;
/// Changes per node until it is looked again whether there are sorts.
const CHANGES_PER_ROW: usize = 8;

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
    /// Until the change log has come this far, hardly any two are alike.
    idle_until: u64,
}

/// The rows of a sort, ascending. Rankings share them as they were.
pub type Sort = Arc<Vec<Row>>;

impl Twins {
    /// Looks at what changed since the last time; whether there are sorts worth looking at.
    pub fn catch_up(&mut self, table: &Table) -> bool {
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
            *self = Twins { idle_until: end.saturating_add(pause), ..Twins::default() };
        }
        pays
    }

    /// The sorts.
    pub fn sorts(&self) -> impl Iterator<Item = &Sort> {
        self.sorts.values()
    }

    /// The nodes that are in none.
    pub fn others(&self) -> impl Iterator<Item = Row> {
        self.others.iter().copied()
    }

    /// Sorts all rows; no further than there are too many sorts to be worth it.
    fn rebuild(&mut self, table: &Table) {
        self.width = table.resources().len();
        self.of = Vec::with_capacity(table.rows());
        let mut sorts: BTreeMap<Cells, Vec<Row>> = BTreeMap::new();
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

/// Whether so few sorts are worth looking at.
fn pays(sorts: usize, table: &Table) -> bool {
    sorts * ROWS_PER_SORT_MIN <= table.rows() + ROWS_PER_SORT_MIN
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
        assert!(twins.catch_up(table));
        let mut sorts: Vec<Vec<Row>> = twins.sorts().map(|rows| rows.to_vec()).collect();
        sorts.sort();
        let mut anew = Twins::default();
        assert!(anew.catch_up(table));
        assert_eq!(
            (&anew.sorts, &anew.others),
            (&twins.sorts, &twins.others),
            "followed and made anew are the same"
        );
        sorts
    }

    /// Two nodes of one size and many of another.
    fn table() -> Table {
        let mut table = Table::default();
        for n in 0..12 {
            let name = format!("n{n}");
            let row = table.row(&name.as_str().into());
            table.set_facts(row, Some(node(&name, if n < 2 { "8" } else { "4" })));
        }
        table
    }

    fn asks(cpu: i64) -> Asks {
        Asks { amounts: vec![(0, cpu), (2, 1)], scored: [cpu, 0], ports: Vec::new() }
    }

    #[test]
    fn rows_are_sorted_by_what_they_have_and_what_is_taken() {
        let (mut table, mut twins) = (table(), Twins::default());
        let rest = || (2..11).collect::<Vec<Row>>();
        assert_eq!(sorts(&mut twins, &table), [vec![0, 1], (2..12).collect()]);
        table.put(11, 7, &asks(1000));
        assert_eq!(sorts(&mut twins, &table), [vec![0, 1], rest(), vec![11]]);
        table.put(2, 8, &asks(1000));
        assert_eq!(sorts(&mut twins, &table), [vec![0, 1], vec![2, 11], (3..11).collect()]);
        table.take_away(2, 8, &asks(1000));
        assert_eq!(sorts(&mut twins, &table), [vec![0, 1], rest(), vec![11]]);
        let cordoned = NodeFacts { unschedulable: true, ..node("n0", "8") };
        table.set_facts(0, Some(cordoned));
        assert_eq!(sorts(&mut twins, &table), [vec![1], rest(), vec![11]], "it is not plain any more");
        assert_eq!(twins.others().collect::<Vec<_>>(), [0]);
        table.set_facts(1, None);
        assert_eq!(sorts(&mut twins, &table), [rest(), vec![11]]);
    }

    #[test]
    fn nobody_keeps_account_where_hardly_two_are_alike() {
        let (mut table, mut twins) = (table(), Twins::default());
        for row in 2..12 {
            table.put(row, row, &asks(100 * i64::from(row)));
        }
        assert!(!twins.catch_up(&table));
        assert!(twins.sorts.is_empty() && twins.of.is_empty(), "nothing is kept");
        for row in 2..12 {
            table.take_away(row, row, &asks(100 * i64::from(row)));
        }
        assert!(!twins.catch_up(&table), "it is not looked again at once");
        for _ in 0..CHANGES_PER_ROW {
            (0..12).for_each(|row| table.touch(row));
        }
        assert!(twins.catch_up(&table));
        assert_eq!(twins.sorts().count(), 2);
    }
}
