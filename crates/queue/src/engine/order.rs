//! In which order the heads of a cycle are served.
//!
//! # Invariants
//!
//! - The order is total: the last word has the UID.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use muster_api::time::Time;
use muster_tree::Text;

use super::hold::Scene;
use super::share::Share;
use super::tree::{NodeId, PairId, Usage};

/// What the order looks at.
#[derive(Debug, Clone)]
pub struct Contender {
    /// Its queue.
    pub node: NodeId,
    /// From how high up it borrows.
    pub height: usize,
    /// Its priority.
    pub priority: i64,
    /// Since when it waits.
    pub since: Time,
    /// Its UID.
    pub uid: Text,
    /// What it would take.
    pub uses: Vec<(PairId, i64)>,
}

type Merit = (Reverse<i64>, Time, Text);

impl Contender {
    fn merit(&self) -> Merit {
        (Reverse(self.priority), self.since, self.uid.clone())
    }
}

/// Lines the heads up, the last one first: without fair sharing their order does not change while they are served.
pub fn line_up(scene: &Scene<'_>, all: &mut [(Contender, usize)]) {
    if scene.settings.fair_sharing.is_none() {
        all.sort_by_cached_key(|(it, _)| Reverse((it.height, it.merit())));
    }
}

/// Takes the next one out of those that are left.
pub fn next(scene: &Scene<'_>, usage: &mut Usage, left: &mut Vec<(Contender, usize)>) -> Option<usize> {
    if scene.settings.fair_sharing.is_none() {
        return left.pop().map(|(_, index)| index);
    }
    let at = fairest(scene, usage, left)?;
    Some(left.swap_remove(at).1)
}

/// Who stands where in the contest of one cohort.
struct Champion {
    index: usize,
    /// The child of that cohort through which it came.
    child: NodeId,
}

/// Per tree a contest: each cohort sends up the one whose branch has the least; the first tree in order is served.
fn fairest(scene: &Scene<'_>, usage: &mut Usage, left: &[(Contender, usize)]) -> Option<usize> {
    let tree = scene.tree;
    let root = left.iter().map(|(it, _)| tree.nodes[it.node].root).min()?;
    let mut champions: BTreeMap<NodeId, Vec<Champion>> = BTreeMap::new();
    let mut order: Vec<NodeId> = Vec::new();
    for (index, (contender, _)) in left.iter().enumerate() {
        if tree.nodes[contender.node].root != root {
            continue;
        }
        let Some(parent) = tree.nodes[contender.node].parent else { return Some(index) };
        champions.entry(parent).or_default().push(Champion { index, child: contender.node });
        order.extend(tree.path(contender.node));
    }
    order.sort_by_key(|&cohort| (Reverse(tree.path(cohort).count()), cohort));
    order.dedup();
    let mut winner = None;
    for cohort in order {
        let field = champions.remove(&cohort).unwrap_or_default();
        let best = field.into_iter().min_by_key(|it| standing(scene, usage, &left[it.index].0, it.child))?;
        winner = Some(best.index);
        if let Some(parent) = tree.nodes[cohort].parent {
            champions.entry(parent).or_default().push(Champion { index: best.index, child: cohort });
        }
    }
    winner
}

/// How a contender stands through one child of a cohort, as if it had what it asks for: less is better.
fn standing(scene: &Scene<'_>, usage: &mut Usage, it: &Contender, child: NodeId) -> (bool, Share, Merit) {
    scene.add(usage, it.node, &it.uses);
    let borrows = it.uses.iter().any(|&(pair, _)| scene.tree.borrows_with(usage, child, pair, 0));
    let share = Share::of(scene.tree, usage, child);
    scene.subtract(usage, it.node, &it.uses);
    (borrows, share, it.merit())
}
