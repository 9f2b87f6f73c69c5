//! Classic preemption: whom to stop so that a workload fits.
//!
//! # Invariants
//!
//! - A search leaves the usage as it found it.
//! - Nobody is stopped in another queue that is within its own quota, nor for the sake of borrowing unless both
//!   policy and priority allow it.
//! - No victim in vain: without any one of them (the last one aside, which made it fit) there is no room.

use std::cmp::Reverse;
use std::sync::Arc;

use muster_api::time::Time;
use muster_tree::Text;

use super::amount::minus;
use super::hold::{Holder, Scene};
use super::spec::{Reclaim, Within};
use super::tree::{NodeId, PairId, Usage};

/// What room is sought for.
#[derive(Debug, Clone)]
pub struct Ask {
    /// The queue.
    pub node: NodeId,
    /// The workload's priority.
    pub priority: i64,
    /// Since when it waits.
    pub since: Time,
    /// All that it takes.
    pub uses: Vec<(PairId, i64)>,
    /// The pairs on which there is no room.
    pub contested: Vec<PairId>,
}

/// Why a victim was chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Because {
    /// Lower rank in the same queue.
    InClusterQueue,
    /// Its queue borrows what the preemptor's owns.
    InCohortReclamation,
    /// Fair shares.
    InCohortFairSharing,
    /// Lower priority, although the preemptor's queue borrows too.
    InCohortReclaimWhileBorrowing,
}

impl Because {
    /// The reason of the condition `Preempted`.
    #[must_use]
    pub fn reason(self) -> &'static str {
        match self {
            Because::InClusterQueue => "InClusterQueue",
            Because::InCohortReclamation => "InCohortReclamation",
            Because::InCohortFairSharing => "InCohortFairSharing",
            Because::InCohortReclaimWhileBorrowing => "InCohortReclaimWhileBorrowing",
        }
    }

    /// The same in words.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Because::InClusterQueue => "prioritization in the ClusterQueue",
            Because::InCohortReclamation => "reclamation within the cohort",
            Because::InCohortFairSharing => "Fair Sharing within the cohort",
            Because::InCohortReclaimWhileBorrowing => "reclamation within the cohort while borrowing",
        }
    }
}

/// Someone to be stopped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// Who.
    pub holder: Arc<Holder>,
    /// Why.
    pub because: Because,
}

/// Whether the preemptor's queue may end up borrowing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Borrowing {
    /// It may.
    Allowed,
    /// It must end up within its own.
    Forbidden,
}

/// Finds whom to stop; nobody if nothing helps.
#[must_use]
pub fn targets(scene: &Scene<'_>, usage: &mut Usage, ask: &Ask) -> Vec<Target> {
    match &scene.settings.fair_sharing {
        Some(rules) => super::fair::targets(scene, usage, ask, rules),
        None => classic(scene, usage, ask),
    }
}

fn classic(scene: &Scene<'_>, usage: &mut Usage, ask: &Ask) -> Vec<Target> {
    let pool = Pool::gather(scene, usage, ask);
    for borrowing in attempts(scene, usage, ask, &pool) {
        let found = attempt(scene, usage, ask, &pool, borrowing);
        if !found.is_empty() {
            return found;
        }
    }
    Vec::new()
}

/// In which ways to try, in order.
fn attempts(scene: &Scene<'_>, usage: &Usage, ask: &Ask, pool: &Pool) -> Vec<Borrowing> {
    let forbidden = scene.specs[ask.node].preemption.while_borrowing.is_none();
    let below_nominal = || {
        let mut pairs = ask.contested.iter();
        pairs.all(|&pair| scene.tree.used(usage, ask.node, pair) < scene.tree.nominal(ask.node, pair))
    };
    if !pool.has(Variant::is_elsewhere) || (forbidden && !below_nominal()) {
        vec![Borrowing::Allowed]
    } else if forbidden && !pool.has(|variant| variant == Variant::Hierarchy) {
        vec![Borrowing::Forbidden, Borrowing::Allowed]
    } else {
        vec![Borrowing::Allowed, Borrowing::Forbidden]
    }
}

fn attempt(
    scene: &Scene<'_>,
    usage: &mut Usage,
    ask: &Ask,
    pool: &Pool,
    borrowing: Borrowing,
) -> Vec<Target> {
    let mut taken: Vec<Target> = Vec::new();
    let mut enough = false;
    for candidate in &pool.0 {
        if !candidate.may_go(scene, usage, ask, borrowing) {
            continue;
        }
        scene.remove(usage, &candidate.holder);
        taken.push(Target { holder: Arc::clone(&candidate.holder), because: candidate.variant.because() });
        enough = has_room(scene, usage, ask, borrowing);
        if enough {
            break;
        }
    }
    finish(scene, usage, ask, borrowing, if enough { Ok(taken) } else { Err(taken) })
}

/// Whether the whole request fits now.
#[must_use]
pub fn has_room(scene: &Scene<'_>, usage: &Usage, ask: &Ask, borrowing: Borrowing) -> bool {
    let stays = |pair, amount| {
        borrowing == Borrowing::Allowed || !scene.tree.borrows_with(usage, ask.node, pair, amount)
    };
    scene.fits(usage, ask.node, &ask.uses) && ask.uses.iter().all(|&(pair, amount)| stays(pair, amount))
}

/// Puts back whom nobody needs gone, the last one first, and restores the usage. An unsuccessful search names nobody.
#[must_use]
pub fn finish(
    scene: &Scene<'_>,
    usage: &mut Usage,
    ask: &Ask,
    borrowing: Borrowing,
    taken: Result<Vec<Target>, Vec<Target>>,
) -> Vec<Target> {
    let mut taken = match taken {
        Ok(taken) => taken,
        Err(taken) => {
            taken.iter().for_each(|target| scene.restore(usage, &target.holder));
            return Vec::new();
        }
    };
    for index in (0..taken.len().saturating_sub(1)).rev() {
        scene.restore(usage, &taken[index].holder);
        if has_room(scene, usage, ask, borrowing) {
            taken.remove(index);
        } else {
            scene.remove(usage, &taken[index].holder);
        }
    }
    taken.iter().for_each(|target| scene.restore(usage, &target.holder));
    taken
}

/// On which grounds a candidate may be stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Variant {
    /// The preemptor's own branch is owed what the candidate's branch borrows.
    Hierarchy,
    /// Also if the preemptor ends up borrowing.
    WhileBorrowing,
    /// Only if it does not.
    WithoutBorrowing,
    /// Same queue.
    Own,
}

impl Variant {
    fn is_elsewhere(self) -> bool {
        self != Variant::Own
    }

    /// Which of the three lists it is in.
    fn list(self) -> u8 {
        match self {
            Variant::Hierarchy => 0,
            Variant::WhileBorrowing | Variant::WithoutBorrowing => 1,
            Variant::Own => 2,
        }
    }

    fn because(self) -> Because {
        match self {
            Variant::Own => Because::InClusterQueue,
            Variant::Hierarchy | Variant::WithoutBorrowing => Because::InCohortReclamation,
            Variant::WhileBorrowing => Because::InCohortReclaimWhileBorrowing,
        }
    }
}

struct Candidate {
    holder: Arc<Holder>,
    variant: Variant,
    /// The lowest cohort that stands above both queues.
    common: NodeId,
}

impl Candidate {
    /// Whether it may still go, now that others went before it.
    fn may_go(&self, scene: &Scene<'_>, usage: &Usage, ask: &Ask, borrowing: Borrowing) -> bool {
        if self.variant == Variant::Own {
            return true;
        }
        if self.variant == Variant::WithoutBorrowing && borrowing == Borrowing::Allowed {
            return false;
        }
        let below_common = scene.tree.path(self.holder.node).take_while(|&node| node != self.common);
        let mut branch = std::iter::once(self.holder.node).chain(below_common);
        !branch.any(|node| scene.tree.within_own(usage, node, &ask.contested))
    }
}

/// All candidates, in the order in which they go.
struct Pool(Vec<Candidate>);

impl Pool {
    fn gather(scene: &Scene<'_>, usage: &Usage, ask: &Ask) -> Pool {
        let mut pool = Pool(Vec::new());
        pool.gather_own(scene, ask);
        pool.gather_elsewhere(scene, usage, ask);
        pool.0.sort_by_cached_key(|candidate| {
            let (priority, since, uid) = candidate.holder.rank();
            (!candidate.holder.evicted, candidate.variant.list(), priority, since, uid)
        });
        pool
    }

    fn has(&self, which: impl Fn(Variant) -> bool) -> bool {
        self.0.iter().any(|candidate| which(candidate.variant))
    }

    fn gather_own(&mut self, scene: &Scene<'_>, ask: &Ask) {
        let policy = scene.specs[ask.node].preemption.within;
        let own = scene.holders[ask.node].values();
        let own = own.filter(|it| may_preempt_own(policy, ask, it) && it.uses_any(&ask.contested));
        self.0.extend(own.map(|holder| Candidate {
            holder: Arc::clone(holder),
            variant: Variant::Own,
            common: ask.node,
        }));
    }

    /// Walks up: whatever lies below an ancestor and was not seen yet is looked at with the advantage that the
    /// preemptor's branch has there.
    fn gather_elsewhere(&mut self, scene: &Scene<'_>, usage: &Usage, ask: &Ask) {
        if scene.specs[ask.node].preemption.reclaim == Reclaim::Never {
            return;
        }
        let mut left = ask.uses.clone();
        let mut advantage = absorb(scene, usage, ask.node, &mut left);
        let mut seen = ask.node;
        for ancestor in scene.tree.path(ask.node) {
            self.gather_below(scene, usage, ask, &Branch { ancestor, seen, advantage });
            advantage |= absorb(scene, usage, ancestor, &mut left);
            seen = ancestor;
        }
    }

    fn gather_below(&mut self, scene: &Scene<'_>, usage: &Usage, ask: &Ask, branch: &Branch) {
        let mut left: Vec<NodeId> = scene.tree.nodes[branch.ancestor].children.clone();
        while let Some(node) = left.pop() {
            if node == branch.seen || scene.tree.within_own(usage, node, &ask.contested) {
                continue;
            }
            left.extend(&scene.tree.nodes[node].children);
            if node >= scene.tree.queues {
                continue;
            }
            for holder in scene.holders[node].values().filter(|it| it.uses_any(&ask.contested)) {
                if let Some(variant) = elsewhere(scene, ask, holder, branch.advantage) {
                    let common = branch.ancestor;
                    self.0.push(Candidate { holder: Arc::clone(holder), variant, common });
                }
            }
        }
    }
}

struct Branch {
    ancestor: NodeId,
    seen: NodeId,
    advantage: bool,
}

/// Whether what is left of a request fits into a node's own quota; what the node keeps for itself is spent on it.
fn absorb(scene: &Scene<'_>, usage: &Usage, node: NodeId, left: &mut [(PairId, i64)]) -> bool {
    let mut fits = true;
    for (pair, amount) in left {
        fits &= !scene.tree.borrows_with(usage, node, *pair, *amount);
        *amount = minus(*amount, scene.tree.local_available(usage, node, *pair)).max(0);
    }
    fits
}

/// On which grounds a holder of another queue may go, if on any.
fn elsewhere(scene: &Scene<'_>, ask: &Ask, holder: &Holder, advantage: bool) -> Option<Variant> {
    let policy = &scene.specs[ask.node].preemption;
    if !may_preempt_elsewhere(policy.reclaim, ask, holder) {
        return None;
    }
    if advantage {
        return Some(Variant::Hierarchy);
    }
    let lower = holder.priority < ask.priority;
    let while_borrowing = policy
        .while_borrowing
        .is_some_and(|rule| lower && rule.threshold.is_none_or(|most| holder.priority <= most));
    Some(if while_borrowing { Variant::WhileBorrowing } else { Variant::WithoutBorrowing })
}

/// Whether the rule of the own queue lets this one be stopped.
#[must_use]
pub fn may_preempt_own(policy: Within, ask: &Ask, holder: &Holder) -> bool {
    let lower = holder.priority < ask.priority;
    match policy {
        Within::Never => false,
        Within::LowerPriority => lower,
        Within::LowerOrNewerEqualPriority => {
            lower || (holder.priority == ask.priority && holder.queued_since > ask.since)
        }
    }
}

/// Whether the rule for other queues lets this one be stopped.
#[must_use]
pub fn may_preempt_elsewhere(policy: Reclaim, ask: &Ask, holder: &Holder) -> bool {
    match policy {
        Reclaim::Never => false,
        Reclaim::LowerPriority => holder.priority < ask.priority,
        Reclaim::Any => true,
    }
}

/// The order of candidates across queues: those told to go, then other queues, then who matters least.
#[must_use]
pub fn order_across(ask: &Ask, holder: &Holder) -> (bool, bool, i64, Reverse<Time>, Text) {
    let (priority, since, uid) = holder.rank();
    (!holder.evicted, holder.node == ask.node, priority, since, uid)
}
