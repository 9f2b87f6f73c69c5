//! Fair sharing preemption: Workloads of the subtree with the highest dominant resource share are preempted first.
//!
//! # Guarantees
//!
//! - The preemptor's request counts as usage while shares are compared; the usage is restored at the end.
//! - A preemptor within its nominal quota reclaims without comparing shares. No ClusterQueue within its nominal
//!   quota loses a Workload.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use super::dominant_resource_share::DominantResourceShare;
use super::preempt::{
    Borrowing, PreemptionReason, PreemptionRequest, PreemptionTarget, candidates_ordering,
    fill_back_workloads, satisfies_reclaim_within_cohort, satisfies_within_cluster_queue, workload_fits,
};
use super::snapshot::{QuotaSnapshot, ReservingWorkload};
use super::spec::FairSharingStrategy;
use super::tree::{QuotaNodeId, Usage};

#[must_use]
pub fn targets(
    snapshot: &QuotaSnapshot<'_>,
    usage: &mut Usage,
    request: &PreemptionRequest,
    rules: &[FairSharingStrategy],
) -> Vec<PreemptionTarget> {
    let candidates = collect_candidates(snapshot, usage, request);
    if candidates.is_empty() {
        return Vec::new();
    }
    // Shares are compared as if the preemptor were admitted.
    snapshot.add_usage(usage, request.node, &request.usage);
    let mut search = FairPreemption { snapshot, request, taken: Vec::new() };
    let (first, second) = (rules.first().copied(), rules.get(1).copied());
    let mut retry = Vec::new();
    let mut enough = first.is_some_and(|rule| search.run_first_strategy(usage, candidates, rule, &mut retry));
    if !enough && second == Some(FairSharingStrategy::LessThanInitialShare) {
        enough = search.run_second_strategy(usage, retry);
    }
    snapshot.remove_usage(usage, request.node, &request.usage);
    let victims = search.taken;
    fill_back_workloads(
        snapshot,
        usage,
        request,
        Borrowing::Allowed,
        if enough { Ok(victims) } else { Err(victims) },
    )
}

/// All candidates allowed by policy, in order.
fn collect_candidates(
    snapshot: &QuotaSnapshot<'_>,
    usage: &Usage,
    request: &PreemptionRequest,
) -> Vec<Arc<ReservingWorkload>> {
    let policy = &snapshot.specs[request.node].preemption;
    let mut found: Vec<Arc<ReservingWorkload>> = Vec::new();
    for node in snapshot.tree.subtree_cluster_queues(snapshot.tree.nodes[request.node].root) {
        let own = node == request.node;
        // Protected: a ClusterQueue within its nominal quota loses nothing.
        if !own && snapshot.tree.is_within_nominal(usage, node, &request.needs_preemption) {
            continue;
        }
        let may = |it: &ReservingWorkload| {
            if own {
                satisfies_within_cluster_queue(policy.within_cluster_queue, request, it)
            } else {
                satisfies_reclaim_within_cohort(policy.reclaim_within_cohort, request, it)
            }
        };
        let holders =
            snapshot.reserving[node].values().filter(|it| it.uses_any(&request.needs_preemption) && may(it));
        found.extend(holders.map(Arc::clone));
    }
    found.sort_by_cached_key(|holder| candidates_ordering(request, holder));
    found
}

struct FairPreemption<'a> {
    snapshot: &'a QuotaSnapshot<'a>,
    request: &'a PreemptionRequest,
    taken: Vec<PreemptionTarget>,
}

impl FairPreemption<'_> {
    /// Adds a victim; returns whether the request fits now. The preemptor's own request, already counted as usage,
    /// is left out of the check.
    fn add_victim(
        &mut self,
        usage: &mut Usage,
        holder: Arc<ReservingWorkload>,
        because: PreemptionReason,
    ) -> bool {
        self.snapshot.remove_workload(usage, &holder);
        self.taken.push(PreemptionTarget { workload: holder, reason: because });
        self.snapshot.remove_usage(usage, self.request.node, &self.request.usage);
        let enough = workload_fits(self.snapshot, usage, self.request, Borrowing::Allowed);
        self.snapshot.add_usage(usage, self.request.node, &self.request.usage);
        enough
    }

    fn run_first_strategy(
        &mut self,
        usage: &mut Usage,
        candidates: Vec<Arc<ReservingWorkload>>,
        rule: FairSharingStrategy,
        retry: &mut Vec<Arc<ReservingWorkload>>,
    ) -> bool {
        let mut ordering = TargetOrdering::new(self.snapshot, self.request, candidates);
        while let Some(node) = ordering.next(usage) {
            if node == self.request.node {
                let Some(holder) = ordering.pop(node) else { continue };
                if self.add_victim(usage, holder, PreemptionReason::InClusterQueue) {
                    return true;
                }
            // Reclaims its nominal quota: no share comparison (Kueue's `isWithinNominal` case).
            } else if self.snapshot.tree.is_within_nominal(
                usage,
                self.request.node,
                &self.request.needs_preemption,
            ) {
                let Some(holder) = ordering.pop(node) else { continue };
                if self.add_victim(usage, holder, PreemptionReason::InCohortReclamation) {
                    return true;
                }
            } else if self.preempt_first_allowed(usage, &mut ordering, node, rule, retry) {
                return true;
            }
        }
        false
    }

    /// Preempts the first candidate of a ClusterQueue that the strategy allows. Shares change with each victim, so
    /// the caller then selects the ClusterQueue anew.
    fn preempt_first_allowed(
        &mut self,
        usage: &mut Usage,
        ordering: &mut TargetOrdering<'_>,
        node: QuotaNodeId,
        rule: FairSharingStrategy,
        retry: &mut Vec<Arc<ReservingWorkload>>,
    ) -> bool {
        let branches = AlmostLcas::of(self.snapshot, self.request.node, node);
        while let Some(holder) = ordering.pop(node) {
            let ours = DominantResourceShare::of(self.snapshot.tree, usage, branches.ours);
            let allowed = match rule {
                FairSharingStrategy::LessThanOrEqualToFinalShare => {
                    self.snapshot.remove_workload(usage, &holder);
                    let theirs = DominantResourceShare::of(self.snapshot.tree, usage, branches.theirs);
                    self.snapshot.add_workload(usage, &holder);
                    ours <= theirs
                }
                FairSharingStrategy::LessThanInitialShare => {
                    ours < DominantResourceShare::of(self.snapshot.tree, usage, branches.theirs)
                }
            };
            if allowed {
                return self.add_victim(usage, holder, PreemptionReason::InCohortFairSharing);
            }
            // Rejected by the first strategy; the second one may still allow it.
            retry.push(holder);
        }
        false
    }

    /// Candidates rejected by the first strategy are tried once per ClusterQueue under the second.
    fn run_second_strategy(&mut self, usage: &mut Usage, retry: Vec<Arc<ReservingWorkload>>) -> bool {
        let mut ordering = TargetOrdering::new(self.snapshot, self.request, retry);
        while let Some(node) = ordering.next(usage) {
            let branches = AlmostLcas::of(self.snapshot, self.request.node, node);
            let ours = DominantResourceShare::of(self.snapshot.tree, usage, branches.ours);
            if ours < DominantResourceShare::of(self.snapshot.tree, usage, branches.theirs)
                && let Some(holder) = ordering.pop(node)
                && self.add_victim(usage, holder, PreemptionReason::InCohortFairSharing)
            {
                return true;
            }
            // One attempt per ClusterQueue under the second strategy.
            ordering.drop_queue(node);
        }
        false
    }
}

/// The children of the lowest common ancestor that contain each ClusterQueue (Kueue's almost-LCAs).
struct AlmostLcas {
    ours: QuotaNodeId,
    theirs: QuotaNodeId,
}

impl AlmostLcas {
    fn of(snapshot: &QuotaSnapshot<'_>, ours: QuotaNodeId, theirs: QuotaNodeId) -> AlmostLcas {
        let up = |node| -> Vec<QuotaNodeId> {
            std::iter::once(node).chain(snapshot.tree.ancestors(node)).collect()
        };
        let (mut a, mut b) = (up(ours), up(theirs));
        while a.len() > 1 && b.len() > 1 && a[a.len() - 2] == b[b.len() - 2] {
            a.pop();
            b.pop();
        }
        // Both now end in the common ancestor; its child precedes it.
        AlmostLcas { ours: a[a.len().saturating_sub(2)], theirs: b[b.len().saturating_sub(2)] }
    }
}

/// The remaining candidates by ClusterQueue (Kueue's `TargetClusterQueueOrdering`).
struct TargetOrdering<'a> {
    snapshot: &'a QuotaSnapshot<'a>,
    request: &'a PreemptionRequest,
    left: BTreeMap<QuotaNodeId, VecDeque<Arc<ReservingWorkload>>>,
    pruned: BTreeSet<QuotaNodeId>,
    root: QuotaNodeId,
}

impl<'a> TargetOrdering<'a> {
    fn new(
        snapshot: &'a QuotaSnapshot<'a>,
        request: &'a PreemptionRequest,
        candidates: Vec<Arc<ReservingWorkload>>,
    ) -> TargetOrdering<'a> {
        let mut left: BTreeMap<QuotaNodeId, VecDeque<Arc<ReservingWorkload>>> = BTreeMap::new();
        for holder in candidates {
            left.entry(holder.node).or_default().push_back(holder);
        }
        let root = snapshot.tree.nodes[request.node].root;
        TargetOrdering { snapshot, request, left, pruned: BTreeSet::new(), root }
    }

    fn pop(&mut self, node: QuotaNodeId) -> Option<Arc<ReservingWorkload>> {
        self.left.get_mut(&node).and_then(VecDeque::pop_front)
    }

    fn drop_queue(&mut self, node: QuotaNodeId) {
        self.left.remove(&node);
    }

    /// The next ClusterQueue: from the root down, always the child with the highest share.
    fn next(&mut self, usage: &Usage) -> Option<QuotaNodeId> {
        while !self.pruned.contains(&self.root) {
            let mut node = self.root;
            loop {
                if node < self.snapshot.tree.cluster_queue_count {
                    if self.is_exhausted(usage, node) {
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

    fn highest_child(&mut self, usage: &Usage, cohort: QuotaNodeId) -> Option<QuotaNodeId> {
        let mut best: Option<(DominantResourceShare, QuotaNodeId)> = None;
        for &child in &self.snapshot.tree.nodes[cohort].children {
            if self.pruned.contains(&child) || self.is_exhausted(usage, child) {
                self.pruned.insert(child);
                continue;
            }
            let share = DominantResourceShare::of(self.snapshot.tree, usage, child);
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

    /// At equal shares a cohort precedes a ClusterQueue, and ClusterQueues are ordered by their next candidate.
    fn wins_tie(&self, one: QuotaNodeId, other: QuotaNodeId) -> bool {
        let queues = self.snapshot.tree.cluster_queue_count;
        if one >= queues || other >= queues {
            return one >= queues && other < queues;
        }
        let next = |node| {
            let front = self.left.get(&node).and_then(VecDeque::front);
            front.map(|holder| candidates_ordering(self.request, holder))
        };
        next(one) < next(other)
    }

    fn is_exhausted(&self, usage: &Usage, node: QuotaNodeId) -> bool {
        let tree = self.snapshot.tree;
        let borrows =
            (0..tree.flavor_resources.len()).any(|pair| tree.is_borrowing_with(usage, node, pair, 0));
        if node < tree.cluster_queue_count {
            return self.left.get(&node).is_none_or(VecDeque::is_empty)
                || (!borrows && node != self.request.node);
        }
        !borrows && !tree.ancestors(self.request.node).any(|above| above == node)
    }
}
