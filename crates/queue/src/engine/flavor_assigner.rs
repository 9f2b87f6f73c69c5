//! The flavor assigner: which flavor each resource of each pod set gets, and whether that needs borrowing or
//! preemption.
//!
//! # Guarantees
//!
//! - All resources of one resource group get the same flavor within one pod set.
//! - Usage assumed by earlier pod sets counts when later ones are assigned.
//! - Every flavor that was tried is recorded ([`FlavorTrace`]): explanations read the trace and never evaluate
//!   again.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use muster_api::time::Time;
use muster_tree::Text;

use super::amount::{minus, plus};
use super::assignment_trace::{FlavorTrace, GranularMode, NoFitReason, ResourceTrace};
use super::flavor_compatibility;
use super::preempt::{self, PreemptionRequest};
use super::snapshot::QuotaSnapshot;
use super::spec::{
    FlavorSearchPolicy, FungibilityPreference, PODS, ReclaimWithinCohortPolicy, ResourceGroupSpec,
};
use super::tree::{FlavorResourceId, QuotaNodeId, Usage};
use super::workload::{PodSetResources, PodSetSpec, Requests, WorkloadInfo};

/// The Workload that is nominated.
pub struct Nominee<'a> {
    pub node: QuotaNodeId,
    pub info: &'a WorkloadInfo,
    pub since: Time,
    /// Where the previous attempt stopped.
    pub tried: &'a LastTriedFlavors,
}

/// Index of the last flavor tried, by pod set and resource group, for searches that stopped before the last flavor.
pub type LastTriedFlavors = BTreeMap<(usize, usize), usize>;

/// Whether an attempt that stopped at `now` is further than one that stopped at `before`.
///
/// A group without an entry was searched to its end and restarts. The order is total: otherwise two pod sets could
/// alternate, each restarting when the other one stops, and the Workload would be requeued forever.
#[must_use]
pub fn advances(before: &LastTriedFlavors, now: &LastTriedFlavors) -> bool {
    let at = |tried: &LastTriedFlavors, place| tried.get(place).copied().unwrap_or(usize::MAX);
    let places: BTreeSet<_> = before.keys().chain(now.keys()).collect();
    let differs = places.into_iter().find(|place| at(before, place) != at(now, place));
    before.is_empty() || differs.is_some_and(|place| at(now, place) > at(before, place))
}

/// The flavor assigned to one resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FlavorAssignment {
    pub flavor: Text,
    pub pair: FlavorResourceId,
    pub amount: i64,
    pub grade: GranularMode,
}

/// The flavors assigned to one pod set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodSetFlavors {
    pub name: Text,
    pub count: i64,
    /// By resource; empty if the pod set does not fit.
    pub flavors: BTreeMap<Text, FlavorAssignment>,
    /// The evaluated flavors.
    pub traces: Vec<FlavorTrace>,
    /// Set when the pod set needs preemption or does not fit.
    pub no_fit_reason: Option<NoFitReason>,
    /// Sorted; part of the message of `QuotaReserved=False`.
    pub reasons: Vec<String>,
    pub no_fit: bool,
}

/// The flavor assignment of a Workload.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct WorkloadAssignment {
    /// By pod set, up to the first one that does not fit.
    pub sets: Vec<PodSetFlavors>,
    pub usage: BTreeMap<FlavorResourceId, i64>,
    /// The largest height over all resources; 0 without borrowing.
    pub borrowing_height: usize,
    pub last_tried_flavors: LastTriedFlavors,
}

/// The worst mode over all pod sets (Kueue's `RepresentativeMode`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum AssignmentMode {
    NoFit,
    /// Victims have to be preempted first.
    Preempt,
    Fit,
}

impl WorkloadAssignment {
    #[must_use]
    pub fn representative_mode(&self) -> AssignmentMode {
        if self.sets.iter().any(|set| set.no_fit) {
            return AssignmentMode::NoFit;
        }
        let fits = self.choices().all(|choice| choice.grade == GranularMode::Fit);
        if fits { AssignmentMode::Fit } else { AssignmentMode::Preempt }
    }

    fn choices(&self) -> impl Iterator<Item = &FlavorAssignment> {
        self.sets.iter().flat_map(|set| set.flavors.values())
    }

    /// Flavor-resources that need preemption.
    #[must_use]
    pub fn needs_preemption(&self) -> Vec<FlavorResourceId> {
        let mut pairs: Vec<FlavorResourceId> = self
            .choices()
            .filter(|choice| choice.grade != GranularMode::Fit)
            .map(|choice| choice.pair)
            .collect();
        pairs.sort_unstable();
        pairs.dedup();
        pairs
    }

    /// All that it takes.
    #[must_use]
    pub fn total_usage(&self) -> Vec<(FlavorResourceId, i64)> {
        self.usage.iter().map(|(&pair, &amount)| (pair, amount)).collect()
    }

    /// The most severe reason over all pod sets.
    #[must_use]
    pub fn no_fit_reason(&self) -> Option<NoFitReason> {
        self.sets.iter().filter_map(|set| set.no_fit_reason).min()
    }

    /// Why it does not fit without preemption, as condition `QuotaReserved` prints it.
    #[must_use]
    pub fn message(&self) -> String {
        let sets = self.sets.iter().filter(|set| !set.reasons.is_empty());
        let lines: Vec<String> = sets
            .map(|set| format!("couldn't assign flavors to pod set {}: {}", set.name, set.reasons.join(", ")))
            .collect();
        lines.join("; ")
    }

    /// The content of `status.admission.podSetAssignments`.
    #[must_use]
    pub fn pod_set_resources(&self) -> Vec<PodSetResources> {
        let set = |set: &PodSetFlavors| PodSetResources {
            name: set.name.clone(),
            flavors: set.flavors.iter().map(|(name, choice)| (name.clone(), choice.flavor.clone())).collect(),
            usage: set.flavors.iter().map(|(name, choice)| (name.clone(), choice.amount)).collect(),
            count: set.count,
        };
        self.sets.iter().map(set).collect()
    }
}

/// Assigns flavors. `counts` overrides the pod counts of the pod sets, for partial admission.
#[must_use]
pub fn assign_flavors(
    snapshot: &QuotaSnapshot<'_>,
    usage: &mut Usage,
    nominee: &Nominee<'_>,
    counts: Option<&[i64]>,
) -> WorkloadAssignment {
    let counts_pods = snapshot.specs[nominee.node].group_of(PODS).is_some();
    let mut done = WorkloadAssignment::default();
    for (index, set) in nominee.info.pod_sets.iter().enumerate() {
        let count =
            counts.and_then(|all| all.get(index)).copied().unwrap_or_else(|| set.count_after_reclaim());
        let asks = set.total_requests(count, counts_pods);
        let mut assigner = PodSetAssigner { snapshot, usage, nominee, set, index, done: &mut done };
        let choice = assigner.assign_pod_set(count, &asks);
        let failed = choice.no_fit;
        for it in choice.flavors.values() {
            let sum = done.usage.entry(it.pair).or_default();
            *sum = plus(*sum, it.amount);
        }
        done.sets.push(choice);
        if failed {
            break;
        }
    }
    done
}

/// The assignment of one pod set.
struct PodSetAssigner<'a, 'b> {
    snapshot: &'a QuotaSnapshot<'a>,
    usage: &'a mut Usage,
    nominee: &'a Nominee<'b>,
    set: &'a PodSetSpec,
    index: usize,
    done: &'a mut WorkloadAssignment,
}

impl PodSetAssigner<'_, '_> {
    fn assign_pod_set(&mut self, count: i64, asks: &Requests) -> PodSetFlavors {
        let mut choice = PodSetFlavors {
            name: self.set.name.clone(),
            count,
            flavors: BTreeMap::new(),
            traces: Vec::new(),
            no_fit_reason: None,
            reasons: Vec::new(),
            no_fit: false,
        };
        for (resource, &amount) in asks {
            if choice.flavors.contains_key(resource) {
                continue;
            }
            let Some(group) = self.snapshot.specs[self.nominee.node].group_of(resource) else {
                if amount == 0 {
                    continue;
                }
                let sentence = format!("resource {resource} unavailable in ClusterQueue");
                return choice.into_no_fit(NoFitReason::NoMatchingFlavor, vec![sentence]);
            };
            let found = self.find_flavor(group, asks);
            // The least severe reason over the flavors: one flavor that only waits for quota is enough to wait.
            let obstacle =
                found.looks.iter().map(FlavorTrace::obstacle).max().unwrap_or(NoFitReason::NoMatchingFlavor);
            let mut sentences: Vec<String> = found.looks.iter().flat_map(FlavorTrace::sentences).collect();
            choice.traces.extend(found.looks);
            let Some(best) = found.best else {
                return choice.into_no_fit(obstacle, sentences);
            };
            self.done.borrowing_height = self.done.borrowing_height.max(best.height);
            let fits = best.choices.values().all(|it| it.grade == GranularMode::Fit);
            choice.flavors.extend(best.choices);
            if !fits {
                choice.no_fit_reason =
                    Some(choice.no_fit_reason.map_or(obstacle, |other| other.min(obstacle)));
                choice.reasons.append(&mut sentences);
            }
        }
        choice.reasons.sort();
        choice
    }

    /// Tries the flavors of a resource group in order and keeps the best one.
    fn find_flavor(&mut self, group_index: usize, asks: &Requests) -> FlavorSearch {
        let spec = &self.snapshot.specs[self.nominee.node];
        let group = &spec.groups[group_index];
        let place = (self.index, group_index);
        // Kueue's `NextFlavorToTry`: continue after the flavor of the previous attempt.
        let start = self.nominee.tried.get(&place).map_or(0, |last| last + 1);
        let mut found = FlavorSearch { best: None, looks: Vec::new() };
        let mut best_rank = None;
        for at in start..group.flavors.len() {
            let look = self.evaluate_flavor(group, at, asks);
            let rank = flavor_rank(spec.fungibility.preference, look.grade(), look.height());
            if look.grade() > GranularMode::NoFit && best_rank.is_none_or(|best| rank > best) {
                best_rank = Some(rank);
                found.best = Some(self.flavor_assignments(&look));
            }
            let stop =
                stops_search(spec.fungibility.when_can_preempt, spec.fungibility.when_can_borrow, &look);
            found.looks.push(look);
            if stop {
                // Recorded only if flavors are left: a search that reached the last one restarts from the first.
                if at + 1 < group.flavors.len() {
                    self.done.last_tried_flavors.insert(place, at);
                }
                break;
            }
        }
        found
    }

    fn flavor_assignments(&self, look: &FlavorTrace) -> BestFlavor {
        let pair = |resource: &Text| self.snapshot.tree.flavor_resource(&look.flavor, resource);
        let choices = look.resources.iter().filter_map(|it| {
            let choice = FlavorAssignment {
                flavor: look.flavor.clone(),
                pair: pair(&it.resource)?,
                amount: it.requested,
                grade: it.mode,
            };
            Some((it.resource.clone(), choice))
        });
        BestFlavor { choices: choices.collect(), height: look.height() }
    }

    fn evaluate_flavor(&mut self, group: &ResourceGroupSpec, at: usize, asks: &Requests) -> FlavorTrace {
        let (name, quotas) = &group.flavors[at];
        let unsuitable = match self.snapshot.flavors.get(name) {
            None => Some(format!("flavor {name} not found")),
            Some(flavor) => flavor_compatibility::refusal(flavor, self.set),
        };
        let mut look = FlavorTrace { flavor: name.clone(), unsuitable, resources: Vec::new() };
        if look.unsuitable.is_none() {
            let covered = asks.iter().filter(|(resource, _)| quotas.contains_key(*resource));
            for (resource, &amount) in covered {
                if let Some(pair) = self.snapshot.tree.flavor_resource(name, resource) {
                    look.resources.push(self.check_resource_quota(resource, pair, amount));
                }
            }
        }
        look
    }

    /// Checks one flavor-resource against the available quota (Kueue's `fitsResourceQuota`).
    fn check_resource_quota(
        &mut self,
        resource: &Text,
        pair: FlavorResourceId,
        requested: i64,
    ) -> ResourceTrace {
        let (tree, node) = (self.snapshot.tree, self.nominee.node);
        let before = self.done.usage.get(&pair).copied().unwrap_or(0);
        let value = plus(before, requested);
        let (available, maximum) =
            (tree.available(self.usage, node, pair), tree.potential_available(node, pair));
        let (reach, owed) = tree.lowest_fitting_height(self.usage, node, pair, value);
        // Preemption is simulated only if it could help: within nominal quota, quota owed by the cohort, or
        // preemption while borrowing.
        let (grade, height) = if value > maximum {
            (GranularMode::NoFit, reach)
        } else if value <= available {
            (GranularMode::Fit, reach)
        } else if tree.nominal(node, pair) >= value || owed || self.may_preempt_while_borrowing() {
            self.simulate_preemption(pair, value, reach)
        } else {
            (GranularMode::NoFit, reach)
        };
        let shortfall = minus(value, available).max(0);
        ResourceTrace {
            resource: resource.clone(),
            requested,
            assumed_by_earlier_pod_sets: before,
            available,
            maximum,
            shortfall,
            mode: grade,
            borrowing_height: height,
        }
    }

    fn may_preempt_while_borrowing(&self) -> bool {
        let policy = &self.snapshot.specs[self.nominee.node].preemption;
        policy.borrow_within_cohort.is_some()
            || (self.snapshot.settings.fair_sharing_strategies.is_some()
                && policy.reclaim_within_cohort != ReclaimWithinCohortPolicy::Never)
    }

    /// Simulates the preemption for one flavor-resource alone, and returns the borrowing height that remains after
    /// it.
    fn simulate_preemption(
        &mut self,
        pair: FlavorResourceId,
        value: i64,
        reach: usize,
    ) -> (GranularMode, usize) {
        let node = self.nominee.node;
        let request = PreemptionRequest {
            node,
            priority: self.nominee.info.priority,
            since: self.nominee.since,
            usage: vec![(pair, value)],
            needs_preemption: vec![pair],
        };
        let targets = preempt::targets(self.snapshot, self.usage, &request);
        if targets.is_empty() {
            return (GranularMode::NoPreemptionCandidates, reach);
        }
        // The height after the preemption decides between flavors: victims may free quota closer to the
        // ClusterQueue.
        targets.iter().for_each(|it| self.snapshot.remove_workload(self.usage, &it.workload));
        let (height, _) = self.snapshot.tree.lowest_fitting_height(self.usage, node, pair, value);
        targets.iter().for_each(|it| self.snapshot.add_workload(self.usage, &it.workload));
        let own = targets.iter().any(|it| it.workload.node == node);
        (if own { GranularMode::Preempt } else { GranularMode::Reclaim }, height)
    }
}

impl PodSetFlavors {
    fn into_no_fit(mut self, obstacle: NoFitReason, mut sentences: Vec<String>) -> PodSetFlavors {
        sentences.sort();
        PodSetFlavors {
            flavors: BTreeMap::new(),
            no_fit_reason: Some(obstacle),
            reasons: sentences,
            no_fit: true,
            traces: std::mem::take(&mut self.traces),
            ..self
        }
    }
}

struct BestFlavor {
    choices: BTreeMap<Text, FlavorAssignment>,
    height: usize,
}

struct FlavorSearch {
    best: Option<BestFlavor>,
    looks: Vec<FlavorTrace>,
}

/// Ranks flavors by mode and borrowing height; higher is better.
type FlavorRank = (GranularMode, Reverse<usize>, GranularMode);

fn flavor_rank(preference: FungibilityPreference, grade: GranularMode, height: usize) -> FlavorRank {
    match (preference, grade) {
        // Without candidates the preference makes no difference.
        (_, GranularMode::NoFit | GranularMode::NoPreemptionCandidates) => (grade, Reverse(height), grade),
        (
            FungibilityPreference::BorrowingOverPreemption,
            GranularMode::Preempt | GranularMode::Reclaim | GranularMode::Fit,
        ) => (grade, Reverse(height), grade),
        (
            FungibilityPreference::PreemptionOverBorrowing,
            GranularMode::Preempt | GranularMode::Reclaim | GranularMode::Fit,
        ) => (GranularMode::Fit, Reverse(height), grade),
    }
}

/// Whether the flavor search stops here, by `whenCanBorrow` and `whenCanPreempt`.
fn stops_search(
    when_can_preempt: FlavorSearchPolicy,
    when_can_borrow: FlavorSearchPolicy,
    look: &FlavorTrace,
) -> bool {
    let content = match look.grade() {
        GranularMode::NoFit | GranularMode::NoPreemptionCandidates => false,
        GranularMode::Preempt | GranularMode::Reclaim => {
            when_can_preempt == FlavorSearchPolicy::MayStopSearch
        }
        GranularMode::Fit => true,
    };
    content && (look.height() == 0 || when_can_borrow == FlavorSearchPolicy::MayStopSearch)
}
