//! Preemption by fair shares: whoever has borrowed most for its weight gives way first.
//!
//! # Invariants
//!
//! - The preemptor's request counts as used while shares are compared; the usage is restored at the end.
//! - Who reclaims its own quota need not compare shares; nobody within its own quota is stopped.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use super::hold::{Holder, Scene};
use super::preempt::{
    Ask, Because, Borrowing, Target, finish, has_room, may_preempt_elsewhere, may_preempt_own, order_across,
};
use super::share::Share;
use super::spec::ShareRule;
use super::tree::{NodeId, Usage};

/// Finds whom to stop; nobody if nothing helps.
#[must_use]
pub fn targets(scene: &Scene<'_>, usage: &mut Usage, ask: &Ask, rules: &[ShareRule]) -> Vec<Target> {
    let candidates = gather(scene, usage, ask);
    if candidates.is_empty() {
        return Vec::new();
    }
    scene.add(usage, ask.node, &ask.uses);
    let mut hunt = Hunt { scene, ask, taken: Vec::new() };
    let (first, second) = (rules.first().copied(), rules.get(1).copied());
    let mut retry = Vec::new();
    let mut enough = first.is_some_and(|rule| hunt.first_round(usage, candidates, rule, &mut retry));
    if !enough && second == Some(ShareRule::LessThanInitialShare) {
        enough = hunt.second_round(usage, retry);
    }
    scene.subtract(usage, ask.node, &ask.uses);
    let taken = hunt.taken;
    finish(scene, usage, ask, Borrowing::Allowed, if enough { Ok(taken) } else { Err(taken) })
}

/// All who may be stopped by policy, in order.
fn gather(scene: &Scene<'_>, usage: &Usage, ask: &Ask) -> Vec<Arc<Holder>> {
    let policy = &scene.specs[ask.node].preemption;
    let mut found: Vec<Arc<Holder>> = Vec::new();
    for node in scene.tree.queues_below(scene.tree.nodes[ask.node].root) {
        let own = node == ask.node;
        if !own && scene.tree.within_own(usage, node, &ask.contested) {
            continue;
        }
        let may = |it: &Holder| {
            if own {
                may_preempt_own(policy.within, ask, it)
            } else {
                may_preempt_elsewhere(policy.reclaim, ask, it)
            }
        };
        let holders = scene.holders[node].values().filter(|it| it.uses_any(&ask.contested) && may(it));
        found.extend(holders.map(Arc::clone));
    }
    found.sort_by_cached_key(|holder| order_across(ask, holder));
    found
}

struct Hunt<'a> {
    scene: &'a Scene<'a>,
    ask: &'a Ask,
    taken: Vec<Target>,
}

impl Hunt<'_> {
    /// Stops one; whether that was enough. The preemptor's own request, counted as used, is left out of the question.
    fn stop(&mut self, usage: &mut Usage, holder: Arc<Holder>, because: Because) -> bool {
        self.scene.remove(usage, &holder);
        self.taken.push(Target { holder, because });
        self.scene.subtract(usage, self.ask.node, &self.ask.uses);
        let enough = has_room(self.scene, usage, self.ask, Borrowing::Allowed);
        self.scene.add(usage, self.ask.node, &self.ask.uses);
        enough
    }

    fn first_round(
        &mut self,
        usage: &mut Usage,
        candidates: Vec<Arc<Holder>>,
        rule: ShareRule,
        retry: &mut Vec<Arc<Holder>>,
    ) -> bool {
        let mut field = Field::new(self.scene, self.ask, candidates);
        while let Some(node) = field.next(usage) {
            if node == self.ask.node {
                let Some(holder) = field.pop(node) else { continue };
                if self.stop(usage, holder, Because::InClusterQueue) {
                    return true;
                }
            } else if self.scene.tree.within_own(usage, self.ask.node, &self.ask.contested) {
                let Some(holder) = field.pop(node) else { continue };
                if self.stop(usage, holder, Because::InCohortReclamation) {
                    return true;
                }
            } else if self.stop_first_allowed(usage, &mut field, node, rule, retry) {
                return true;
            }
        }
        false
    }

    /// Stops the first candidate of a queue that the rule lets go; shares change, so the queue is chosen anew then.
    fn stop_first_allowed(
        &mut self,
        usage: &mut Usage,
        field: &mut Field<'_>,
        node: NodeId,
        rule: ShareRule,
        retry: &mut Vec<Arc<Holder>>,
    ) -> bool {
        let sides = Sides::of(self.scene, self.ask.node, node);
        while let Some(holder) = field.pop(node) {
            let ours = Share::of(self.scene.tree, usage, sides.ours);
            let allowed = match rule {
                ShareRule::LessThanOrEqualToFinalShare => {
                    self.scene.remove(usage, &holder);
                    let theirs = Share::of(self.scene.tree, usage, sides.theirs);
                    self.scene.restore(usage, &holder);
                    ours <= theirs
                }
                ShareRule::LessThanInitialShare => ours < Share::of(self.scene.tree, usage, sides.theirs),
            };
            if allowed {
                return self.stop(usage, holder, Because::InCohortFairSharing);
            }
            retry.push(holder);
        }
        false
    }

    /// Those who failed the first rule get one more chance per queue under the second.
    fn second_round(&mut self, usage: &mut Usage, retry: Vec<Arc<Holder>>) -> bool {
        let mut field = Field::new(self.scene, self.ask, retry);
        while let Some(node) = field.next(usage) {
            let sides = Sides::of(self.scene, self.ask.node, node);
            let ours = Share::of(self.scene.tree, usage, sides.ours);
            if ours < Share::of(self.scene.tree, usage, sides.theirs)
                && let Some(holder) = field.pop(node)
                && self.stop(usage, holder, Because::InCohortFairSharing)
            {
                return true;
            }
            field.drop_queue(node);
        }
        false
    }
}

/// The two branches below the lowest cohort that stands above both queues.
struct Sides {
    ours: NodeId,
    theirs: NodeId,
}

impl Sides {
    fn of(scene: &Scene<'_>, ours: NodeId, theirs: NodeId) -> Sides {
        let up = |node| -> Vec<NodeId> { std::iter::once(node).chain(scene.tree.path(node)).collect() };
        let (mut a, mut b) = (up(ours), up(theirs));
        while a.len() > 1 && b.len() > 1 && a[a.len() - 2] == b[b.len() - 2] {
            a.pop();
            b.pop();
        }
        // Both end in the common ancestor now; the branch is what stands before it.
        Sides { ours: a[a.len().saturating_sub(2)], theirs: b[b.len().saturating_sub(2)] }
    }
}

/// Who is still in question, by queue.
struct Field<'a> {
    scene: &'a Scene<'a>,
    ask: &'a Ask,
    left: BTreeMap<NodeId, VecDeque<Arc<Holder>>>,
    pruned: BTreeSet<NodeId>,
    root: NodeId,
}

impl<'a> Field<'a> {
    fn new(scene: &'a Scene<'a>, ask: &'a Ask, candidates: Vec<Arc<Holder>>) -> Field<'a> {
        let mut left: BTreeMap<NodeId, VecDeque<Arc<Holder>>> = BTreeMap::new();
        for holder in candidates {
            left.entry(holder.node).or_default().push_back(holder);
        }
        let root = scene.tree.nodes[ask.node].root;
        Field { scene, ask, left, pruned: BTreeSet::new(), root }
    }

    fn pop(&mut self, node: NodeId) -> Option<Arc<Holder>> {
        self.left.get_mut(&node).and_then(VecDeque::pop_front)
    }

    fn drop_queue(&mut self, node: NodeId) {
        self.left.remove(&node);
    }

    /// The queue to look at next: down from the root, always to the child with the highest share.
    fn next(&mut self, usage: &Usage) -> Option<NodeId> {
        while !self.pruned.contains(&self.root) {
            let mut node = self.root;
            loop {
                if node < self.scene.tree.queues {
                    if self.is_out(usage, node) {
                        self.pruned.insert(node);
                        break;
                    }
                    return Some(node);
                }
                let Some(child) = self.highest_child(usage, node) else {
                    self.pruned.insert(node);
                    break;
                };
                node = child;
            }
        }
        None
    }

    fn highest_child(&mut self, usage: &Usage, cohort: NodeId) -> Option<NodeId> {
        let mut best: Option<(Share, NodeId)> = None;
        for &child in &self.scene.tree.nodes[cohort].children {
            if self.pruned.contains(&child) || self.is_out(usage, child) {
                self.pruned.insert(child);
                continue;
            }
            let share = Share::of(self.scene.tree, usage, child);
            let better = best.is_none_or(|(highest, node)| match share.cmp(&highest) {
                Ordering::Less => false,
                Ordering::Greater => true,
                Ordering::Equal => self.wins_tie(child, node),
            });
            if better {
                best = Some((share, child));
            }
        }
        best.map(|(_, node)| node)
    }

    /// At equal shares a cohort goes before a queue, and queues go by their next candidate.
    fn wins_tie(&self, one: NodeId, other: NodeId) -> bool {
        let queues = self.scene.tree.queues;
        if one >= queues || other >= queues {
            return one >= queues && other < queues;
        }
        let next = |node| {
            let front = self.left.get(&node).and_then(VecDeque::front);
            front.map(|holder| order_across(self.ask, holder))
        };
        next(one) < next(other)
    }

    fn is_out(&self, usage: &Usage, node: NodeId) -> bool {
        let tree = self.scene.tree;
        let borrows = (0..tree.pairs.len()).any(|pair| tree.borrows_with(usage, node, pair, 0));
        if node < tree.queues {
            return self.left.get(&node).is_none_or(VecDeque::is_empty)
                || (!borrows && node != self.ask.node);
        }
        !borrows && !tree.path(self.ask.node).any(|above| above == node)
    }
}
