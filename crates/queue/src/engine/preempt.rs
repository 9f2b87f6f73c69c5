//! Classical preemption: which Workloads to preempt so that a nominated Workload fits.
//!
//! # Guarantees
//!
//! - A search restores the usage it simulates on.
//! - No Workload is preempted in another ClusterQueue that is within its nominal quota, nor for a preemptor that
//!   would borrow, unless both policy and priority allow it.
//! - The result is minimal: without any one victim (except the last one, which made it fit) the request does not
//!   fit.

use std::cmp::Reverse;
use std::sync::Arc;

use muster_api::time::Time;
use muster_tree::Text;

use super::amount::minus;
use super::snapshot::{QuotaSnapshot, ReservingWorkload};
use super::spec::{ReclaimWithinCohortPolicy, WithinClusterQueuePolicy};
use super::tree::{FlavorResourceId, QuotaNodeId, Usage};

/// The request for which victims are searched.
#[derive(Debug, Clone)]
pub struct PreemptionRequest {
    pub node: QuotaNodeId,
    pub priority: i64,
    pub since: Time,
    /// All that it takes.
    pub usage: Vec<(FlavorResourceId, i64)>,
    /// Flavor-resources without enough quota; only Workloads that use one of them are candidates.
    pub needs_preemption: Vec<FlavorResourceId>,
}

/// The reason of condition `Preempted`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum PreemptionReason {
    /// Lower priority or newer, in the same ClusterQueue.
    InClusterQueue,
    /// The victim's ClusterQueue borrows quota that the preemptor's cohort side owns.
    InCohortReclamation,
    InCohortFairSharing,
    /// The preemptor's ClusterQueue borrows as well; `borrowWithinCohort` allows it.
    InCohortReclaimWhileBorrowing,
}

impl PreemptionReason {
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            PreemptionReason::InClusterQueue => "InClusterQueue",
            PreemptionReason::InCohortReclamation => "InCohortReclamation",
            PreemptionReason::InCohortFairSharing => "InCohortFairSharing",
            PreemptionReason::InCohortReclaimWhileBorrowing => "InCohortReclaimWhileBorrowing",
        }
    }

    /// The text of the preemption message.
    #[must_use]
    pub fn human_readable(self) -> &'static str {
        match self {
            PreemptionReason::InClusterQueue => "prioritization in the ClusterQueue",
            PreemptionReason::InCohortReclamation => "reclamation within the cohort",
            PreemptionReason::InCohortFairSharing => "Fair Sharing within the cohort",
            PreemptionReason::InCohortReclaimWhileBorrowing => {
                "reclamation within the cohort while borrowing"
            }
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PreemptionTarget {
    pub workload: Arc<ReservingWorkload>,
    pub reason: PreemptionReason,
}

/// Whether the preemptor's ClusterQueue may borrow after the preemption.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Borrowing {
    Allowed,
    /// The preemptor's ClusterQueue must end up within its nominal quota.
    Forbidden,
}

/// Returns the preemption targets; empty if preemption does not help.
#[must_use]
pub fn targets(
    snapshot: &QuotaSnapshot<'_>,
    usage: &mut Usage,
    request: &PreemptionRequest,
) -> Vec<PreemptionTarget> {
    match &snapshot.settings.fair_sharing_strategies {
        Some(rules) => super::fair_preemption::targets(snapshot, usage, request, rules),
        None => classical_targets(snapshot, usage, request),
    }
}

fn classical_targets(
    snapshot: &QuotaSnapshot<'_>,
    usage: &mut Usage,
    request: &PreemptionRequest,
) -> Vec<PreemptionTarget> {
    let candidates = Candidates::gather(snapshot, usage, request);
    for borrowing in borrowing_attempts(snapshot, usage, request, &candidates) {
        let found = try_candidates(snapshot, usage, request, &candidates, borrowing);
        if !found.is_empty() {
            return found;
        }
    }
    Vec::new()
}

/// The borrowing modes to try, in order; the first one that finds victims is used.
fn borrowing_attempts(
    snapshot: &QuotaSnapshot<'_>,
    usage: &Usage,
    request: &PreemptionRequest,
    candidates: &Candidates,
) -> Vec<Borrowing> {
    let forbidden = snapshot.specs[request.node].preemption.borrow_within_cohort.is_none();
    let below_nominal = || {
        let mut pairs = request.needs_preemption.iter();
        pairs.all(|&pair| {
            snapshot.tree.used(usage, request.node, pair) < snapshot.tree.nominal(request.node, pair)
        })
    };
    // One attempt is enough without candidates in other ClusterQueues, or if reclaiming is impossible: not below
    // nominal quota and no `borrowWithinCohort`.
    if !candidates.has(PreemptionVariant::is_in_cohort) || (forbidden && !below_nominal()) {
        vec![Borrowing::Allowed]
    // Candidates of other ClusterQueues can only be reclaimed without borrowing: try that first.
    } else if forbidden && !candidates.has(|variant| variant == PreemptionVariant::HierarchicalReclaim) {
        vec![Borrowing::Forbidden, Borrowing::Allowed]
    } else {
        vec![Borrowing::Allowed, Borrowing::Forbidden]
    }
}

fn try_candidates(
    snapshot: &QuotaSnapshot<'_>,
    usage: &mut Usage,
    request: &PreemptionRequest,
    candidates: &Candidates,
    borrowing: Borrowing,
) -> Vec<PreemptionTarget> {
    let mut victims: Vec<PreemptionTarget> = Vec::new();
    let mut enough = false;
    for candidate in &candidates.0 {
        // Earlier victims may have brought its ClusterQueue within nominal quota.
        if !candidate.is_valid(snapshot, usage, request, borrowing) {
            continue;
        }
        snapshot.remove_workload(usage, &candidate.holder);
        victims.push(PreemptionTarget {
            workload: Arc::clone(&candidate.holder),
            reason: candidate.variant.because(),
        });
        enough = workload_fits(snapshot, usage, request, borrowing);
        if enough {
            break;
        }
    }
    fill_back_workloads(snapshot, usage, request, borrowing, if enough { Ok(victims) } else { Err(victims) })
}

#[must_use]
pub fn workload_fits(
    snapshot: &QuotaSnapshot<'_>,
    usage: &Usage,
    request: &PreemptionRequest,
    borrowing: Borrowing,
) -> bool {
    let stays = |pair, amount| {
        borrowing == Borrowing::Allowed || !snapshot.tree.is_borrowing_with(usage, request.node, pair, amount)
    };
    snapshot.fits(usage, request.node, &request.usage)
        && request.usage.iter().all(|&(pair, amount)| stays(pair, amount))
}

/// Drops victims that are not needed, last one first, and restores the usage. A failed search returns no victims
/// (Kueue's `fillBackWorkloads`).
#[must_use]
pub fn fill_back_workloads(
    snapshot: &QuotaSnapshot<'_>,
    usage: &mut Usage,
    request: &PreemptionRequest,
    borrowing: Borrowing,
    victims: Result<Vec<PreemptionTarget>, Vec<PreemptionTarget>>,
) -> Vec<PreemptionTarget> {
    let mut victims = match victims {
        Ok(victims) => victims,
        Err(victims) => {
            victims.iter().for_each(|target| snapshot.add_workload(usage, &target.workload));
            return Vec::new();
        }
    };
    // The last victim made it fit, so it is always needed.
    for index in (0..victims.len().saturating_sub(1)).rev() {
        snapshot.add_workload(usage, &victims[index].workload);
        if workload_fits(snapshot, usage, request, borrowing) {
            victims.remove(index);
        } else {
            snapshot.remove_workload(usage, &victims[index].workload);
        }
    }
    victims.iter().for_each(|target| snapshot.add_workload(usage, &target.workload));
    victims
}

/// Kueue's `preemptionVariant`: the policy under which a candidate may be preempted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum PreemptionVariant {
    /// Hierarchical reclaim: the subtree of the preemptor owns what the candidate's subtree borrows.
    HierarchicalReclaim,
    /// Even if the preemptor borrows afterwards.
    ReclaimWhileBorrowing,
    /// Only if the preemptor does not borrow afterwards.
    ReclaimWithoutBorrowing,
    WithinClusterQueue,
}

impl PreemptionVariant {
    fn is_in_cohort(self) -> bool {
        self != PreemptionVariant::WithinClusterQueue
    }

    /// The position of its candidate list: hierarchical reclaim, cohort, own ClusterQueue.
    fn candidate_list(self) -> u8 {
        match self {
            PreemptionVariant::HierarchicalReclaim => 0,
            PreemptionVariant::ReclaimWhileBorrowing | PreemptionVariant::ReclaimWithoutBorrowing => 1,
            PreemptionVariant::WithinClusterQueue => 2,
        }
    }

    fn because(self) -> PreemptionReason {
        match self {
            PreemptionVariant::WithinClusterQueue => PreemptionReason::InClusterQueue,
            PreemptionVariant::HierarchicalReclaim | PreemptionVariant::ReclaimWithoutBorrowing => {
                PreemptionReason::InCohortReclamation
            }
            PreemptionVariant::ReclaimWhileBorrowing => PreemptionReason::InCohortReclaimWhileBorrowing,
        }
    }
}

struct Candidate {
    holder: Arc<ReservingWorkload>,
    variant: PreemptionVariant,
    /// The lowest common ancestor of both ClusterQueues.
    common: QuotaNodeId,
}

impl Candidate {
    /// Whether it is still a valid candidate after the removals so far: its subtree must still borrow.
    fn is_valid(
        &self,
        snapshot: &QuotaSnapshot<'_>,
        usage: &Usage,
        request: &PreemptionRequest,
        borrowing: Borrowing,
    ) -> bool {
        if self.variant == PreemptionVariant::WithinClusterQueue {
            return true;
        }
        if self.variant == PreemptionVariant::ReclaimWithoutBorrowing && borrowing == Borrowing::Allowed {
            return false;
        }
        let below_common = snapshot.tree.ancestors(self.holder.node).take_while(|&node| node != self.common);
        let mut branch = std::iter::once(self.holder.node).chain(below_common);
        !branch.any(|node| snapshot.tree.is_within_nominal(usage, node, &request.needs_preemption))
    }
}

/// All candidates in preemption order.
struct Candidates(Vec<Candidate>);

impl Candidates {
    fn gather(snapshot: &QuotaSnapshot<'_>, usage: &Usage, request: &PreemptionRequest) -> Candidates {
        let mut candidates = Candidates(Vec::new());
        candidates.collect_own(snapshot, request);
        candidates.collect_in_cohort(snapshot, usage, request);
        candidates.0.sort_by_cached_key(|candidate| {
            let (priority, since, uid) = candidate.holder.rank();
            (!candidate.holder.evicted, candidate.variant.candidate_list(), priority, since, uid)
        });
        candidates
    }

    fn has(&self, which: impl Fn(PreemptionVariant) -> bool) -> bool {
        self.0.iter().any(|candidate| which(candidate.variant))
    }

    fn collect_own(&mut self, snapshot: &QuotaSnapshot<'_>, request: &PreemptionRequest) {
        let policy = snapshot.specs[request.node].preemption.within_cluster_queue;
        let own = snapshot.reserving[request.node].values();
        let own = own.filter(|it| {
            satisfies_within_cluster_queue(policy, request, it) && it.uses_any(&request.needs_preemption)
        });
        self.0.extend(own.map(|holder| Candidate {
            holder: Arc::clone(holder),
            variant: PreemptionVariant::WithinClusterQueue,
            common: request.node,
        }));
    }

    /// Collects candidates ancestor by ancestor, with the advantage the preemptor's subtree has at that level.
    fn collect_in_cohort(
        &mut self,
        snapshot: &QuotaSnapshot<'_>,
        usage: &Usage,
        request: &PreemptionRequest,
    ) {
        if snapshot.specs[request.node].preemption.reclaim_within_cohort == ReclaimWithinCohortPolicy::Never {
            return;
        }
        let mut left = request.usage.clone();
        let mut advantage = consume_quota(snapshot, usage, request.node, &mut left);
        let mut visited = request.node;
        for ancestor in snapshot.tree.ancestors(request.node) {
            self.collect_below(snapshot, usage, request, &Branch { ancestor, seen: visited, advantage });
            advantage |= consume_quota(snapshot, usage, ancestor, &mut left);
            visited = ancestor;
        }
    }

    fn collect_below(
        &mut self,
        snapshot: &QuotaSnapshot<'_>,
        usage: &Usage,
        request: &PreemptionRequest,
        branch: &Branch,
    ) {
        let mut left: Vec<QuotaNodeId> = snapshot.tree.nodes[branch.ancestor].children.clone();
        while let Some(node) = left.pop() {
            // A subtree that borrows nothing has nothing to reclaim; its children cannot either.
            if node == branch.seen || snapshot.tree.is_within_nominal(usage, node, &request.needs_preemption)
            {
                continue;
            }
            left.extend(&snapshot.tree.nodes[node].children);
            if node >= snapshot.tree.cluster_queue_count {
                continue;
            }
            for holder in
                snapshot.reserving[node].values().filter(|it| it.uses_any(&request.needs_preemption))
            {
                if let Some(variant) = cohort_variant(snapshot, request, holder, branch.advantage) {
                    let common = branch.ancestor;
                    self.0.push(Candidate { holder: Arc::clone(holder), variant, common });
                }
            }
        }
    }
}

struct Branch {
    ancestor: QuotaNodeId,
    seen: QuotaNodeId,
    advantage: bool,
}

/// Whether the remaining request fits the node's subtree quota; its local quota is subtracted from the remainder.
fn consume_quota(
    snapshot: &QuotaSnapshot<'_>,
    usage: &Usage,
    node: QuotaNodeId,
    left: &mut [(FlavorResourceId, i64)],
) -> bool {
    let mut fits = true;
    for (pair, amount) in left {
        fits &= !snapshot.tree.is_borrowing_with(usage, node, *pair, *amount);
        *amount = minus(*amount, snapshot.tree.local_available(usage, node, *pair)).max(0);
    }
    fits
}

/// Kueue's `preemptionVariant`: the policy under which a candidate may be preempted.
fn cohort_variant(
    snapshot: &QuotaSnapshot<'_>,
    request: &PreemptionRequest,
    holder: &ReservingWorkload,
    advantage: bool,
) -> Option<PreemptionVariant> {
    let policy = &snapshot.specs[request.node].preemption;
    if !satisfies_reclaim_within_cohort(policy.reclaim_within_cohort, request, holder) {
        return None;
    }
    if advantage {
        return Some(PreemptionVariant::HierarchicalReclaim);
    }
    let lower = holder.priority < request.priority;
    let while_borrowing = policy
        .borrow_within_cohort
        .is_some_and(|rule| lower && rule.max_priority_threshold.is_none_or(|most| holder.priority <= most));
    Some(if while_borrowing {
        PreemptionVariant::ReclaimWhileBorrowing
    } else {
        PreemptionVariant::ReclaimWithoutBorrowing
    })
}

/// Whether `withinClusterQueue` allows preempting this Workload.
#[must_use]
pub fn satisfies_within_cluster_queue(
    policy: WithinClusterQueuePolicy,
    request: &PreemptionRequest,
    holder: &ReservingWorkload,
) -> bool {
    let lower = holder.priority < request.priority;
    match policy {
        WithinClusterQueuePolicy::Never => false,
        WithinClusterQueuePolicy::LowerPriority => lower,
        WithinClusterQueuePolicy::LowerOrNewerEqualPriority => {
            lower || (holder.priority == request.priority && holder.queued_since > request.since)
        }
    }
}

/// Whether `reclaimWithinCohort` allows preempting this Workload.
#[must_use]
pub fn satisfies_reclaim_within_cohort(
    policy: ReclaimWithinCohortPolicy,
    request: &PreemptionRequest,
    holder: &ReservingWorkload,
) -> bool {
    match policy {
        ReclaimWithinCohortPolicy::Never => false,
        ReclaimWithinCohortPolicy::LowerPriority => holder.priority < request.priority,
        ReclaimWithinCohortPolicy::Any => true,
    }
}

/// Candidate order across ClusterQueues: already evicted first, then other ClusterQueues, then by rank.
#[must_use]
pub fn candidates_ordering(
    request: &PreemptionRequest,
    holder: &ReservingWorkload,
) -> (bool, bool, i64, Reverse<Time>, Text) {
    let (priority, since, uid) = holder.rank();
    (!holder.evicted, holder.node == request.node, priority, since, uid)
}
