//! The order in which the heads of a cycle are processed.
//!
//! # Guarantees
//!
//! - The order is total: the UID breaks ties.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use muster_api::time::Time;
use muster_tree::Text;

use super::dominant_resource_share::DominantResourceShare;
use super::snapshot::QuotaSnapshot;
use super::tree::{FlavorResourceId, QuotaNodeId, Usage};

/// The attributes of a head that its order depends on.
#[derive(Debug, Clone)]
pub struct OrderedHead {
    pub node: QuotaNodeId,
    /// Borrowing height; 0 without borrowing.
    pub height: usize,
    pub priority: i64,
    pub since: Time,
    pub uid: Text,
    pub uses: Vec<(FlavorResourceId, i64)>,
}

type FifoOrder = (Reverse<i64>, Time, Text);

impl OrderedHead {
    fn fifo_order(&self) -> FifoOrder {
        (Reverse(self.priority), self.since, self.uid.clone())
    }
}

/// Sorts the heads, last one first. Without fair sharing the order is fixed for the cycle: borrowing height,
/// priority, age.
pub fn line_up(snapshot: &QuotaSnapshot<'_>, all: &mut [(OrderedHead, usize)]) {
    if snapshot.settings.fair_sharing_strategies.is_none() {
        all.sort_by_cached_key(|(it, _)| Reverse((it.height, it.fifo_order())));
    }
}

/// Pops the next head to process.
pub fn next(
    snapshot: &QuotaSnapshot<'_>,
    usage: &mut Usage,
    left: &mut Vec<(OrderedHead, usize)>,
) -> Option<usize> {
    if snapshot.settings.fair_sharing_strategies.is_none() {
        return left.pop().map(|(_, index)| index);
    }
    let at = run_tournament(snapshot, usage, left)?;
    Some(left.swap_remove(at).1)
}

/// A head in the tournament of a cohort.
struct TournamentEntry {
    index: usize,
    /// The child of the cohort that contains the head.
    child: QuotaNodeId,
}

/// Fair sharing tournament (as in Kueue's fair sharing iterator): each cohort passes up the head of the child with
/// the lowest dominant resource share, its request included. Shares depend on usage, so the tournament is repeated
/// after each head.
fn run_tournament(
    snapshot: &QuotaSnapshot<'_>,
    usage: &mut Usage,
    left: &[(OrderedHead, usize)],
) -> Option<usize> {
    let tree = snapshot.tree;
    let root = left.iter().map(|(it, _)| tree.nodes[it.node].root).min()?;
    let mut entries: BTreeMap<QuotaNodeId, Vec<TournamentEntry>> = BTreeMap::new();
    let mut order: Vec<QuotaNodeId> = Vec::new();
    for (index, (contender, _)) in left.iter().enumerate() {
        if tree.nodes[contender.node].root != root {
            continue;
        }
        let Some(parent) = tree.nodes[contender.node].parent else { return Some(index) };
        entries.entry(parent).or_default().push(TournamentEntry { index, child: contender.node });
        order.extend(tree.ancestors(contender.node));
    }
    order.sort_by_key(|&cohort| (Reverse(tree.ancestors(cohort).count()), cohort));
    order.dedup();
    let mut winner = None;
    for cohort in order {
        let field = entries.remove(&cohort).unwrap_or_default();
        let best = field
            .into_iter()
            .min_by_key(|it| tournament_key(snapshot, usage, &left[it.index].0, it.child))?;
        winner = Some(best.index);
        if let Some(parent) = tree.nodes[cohort].parent {
            entries.entry(parent).or_default().push(TournamentEntry { index: best.index, child: cohort });
        }
    }
    winner
}

/// The tournament key of a head through one child of a cohort, with its request added; lower wins.
fn tournament_key(
    snapshot: &QuotaSnapshot<'_>,
    usage: &mut Usage,
    it: &OrderedHead,
    child: QuotaNodeId,
) -> (bool, DominantResourceShare, FifoOrder) {
    snapshot.add_usage(usage, it.node, &it.uses);
    let borrows = it.uses.iter().any(|&(pair, _)| snapshot.tree.is_borrowing_with(usage, child, pair, 0));
    let share = DominantResourceShare::of(snapshot.tree, usage, child);
    snapshot.remove_usage(usage, it.node, &it.uses);
    (borrows, share, it.fifo_order())
}
