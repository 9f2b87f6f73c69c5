//! The typed view of a ClusterQueue.

use muster_tree::{Text, Tree};

use super::condition::{self, Condition};
use super::consts::conditions;
use super::paths::{check_rule, cluster_queue as path, flavor_quotas, queue_status, quota, resource_group};
use super::{StopPolicy, texts, weight};
use crate::client::Uid;
use crate::meta;
use crate::node::amount;
use crate::selector::LabelSelector;

/// The fields of a ClusterQueue that the queue engine reads.
#[derive(Debug, Clone, PartialEq)]
#[expect(missing_docs, reason = "fields mirror metadata and spec of a ClusterQueue")]
pub struct ClusterQueueFacts {
    pub name: Text,
    pub uid: Uid,
    pub generation: i64,
    pub deleting: bool,
    pub finalizers: Vec<Text>,
    pub groups: Vec<ResourceGroup>,
    /// `cohortName`; empty without a cohort.
    pub cohort: Text,
    pub strategy: QueueingStrategy,
    /// `namespaceSelector`: LocalQueues of matching namespaces may use it.
    pub namespaces: LabelSelector,
    pub fungibility: FlavorFungibility,
    pub preemption: ClusterQueuePreemption,
    pub checks: Vec<AdmissionCheckStrategyRule>,
    pub stop: StopPolicy,
    pub weight_nano: i64,
    /// `admissionScope` asks for usage-based admission fair sharing, which is not implemented.
    pub usage_based: bool,
    /// The `Active` condition as last written.
    pub active: bool,
}

/// One entry of `resourceGroups`: resources that get their flavor together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResourceGroup {
    /// Resources that the group covers: `coveredResources`.
    pub covered: Vec<Text>,
    /// Flavors, in the order in which they are tried.
    pub flavors: Vec<FlavorQuotas>,
}

/// The quotas of one flavor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FlavorQuotas {
    /// Name of the ResourceFlavor.
    pub name: Text,
    /// One quota per covered resource.
    pub resources: Vec<Quota>,
}

/// The quota of one resource in one flavor, in the unit of [`amount`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Quota {
    /// Name of the resource.
    pub name: Text,
    /// The guaranteed amount: `nominalQuota`.
    pub nominal: i64,
    /// `borrowingLimit`: `None` is unlimited.
    pub borrowing_limit: Option<i64>,
    /// `lendingLimit`: `None` lends the whole nominal quota.
    pub lending_limit: Option<i64>,
}

/// The order of admission: `queueingStrategy`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum QueueingStrategy {
    /// The head of the queue blocks the Workloads behind it.
    StrictFifo,
    /// A Workload that cannot be admitted is skipped.
    #[default]
    BestEffortFifo,
}

/// `flavorFungibility`: when to try the next flavor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FlavorFungibility {
    /// Before borrowing in this flavor (`whenCanBorrow: TryNextFlavor`).
    pub next_before_borrowing: bool,
    /// Before preempting in this flavor (`whenCanPreempt: TryNextFlavor`).
    pub next_before_preempting: bool,
    /// A flavor that needs preemption is preferred to one that needs borrowing.
    pub preemption_over_borrowing: bool,
}

/// `spec.preemption`: which Workloads may be preempted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ClusterQueuePreemption {
    /// `reclaimWithinCohort`: victims in other ClusterQueues that borrow.
    pub reclaim: PreemptionPolicy,
    /// `borrowWithinCohort`: victims in other ClusterQueues while this one borrows.
    pub borrow: BorrowWithinCohort,
    /// `withinClusterQueue`: victims in this ClusterQueue.
    pub within: PreemptionPolicy,
}

/// Which Workloads qualify as victims.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PreemptionPolicy {
    /// No Workload is preempted.
    #[default]
    Never,
    /// Workloads of lower priority.
    LowerPriority,
    /// Also newer Workloads of equal priority.
    LowerOrNewerEqualPriority,
    /// Workloads of any priority.
    Any,
}

/// Preemption by a ClusterQueue that borrows: `borrowWithinCohort`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BorrowWithinCohort {
    /// `policy: LowerPriority`; otherwise `Never`.
    pub lower_priority: bool,
    /// `maxPriorityThreshold`: only victims up to this priority; `None` is no limit.
    pub max_priority: Option<i64>,
}

/// One entry of `admissionChecksStrategy`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AdmissionCheckStrategyRule {
    /// Name of the AdmissionCheck.
    pub name: Text,
    /// `onFlavors`; empty applies to all flavors.
    pub flavors: Vec<Text>,
}

impl ClusterQueueFacts {
    /// Reads a ClusterQueue in the storage version.
    #[must_use]
    pub fn of(tree: &Tree) -> ClusterQueueFacts {
        let status = tree.at(path::STATUS).unwrap_or(&Tree::Null);
        let found: Vec<Condition> =
            status.items_at(queue_status::CONDITIONS).iter().map(Condition::of).collect();
        ClusterQueueFacts {
            name: meta::name(tree),
            uid: meta::uid(tree),
            generation: tree.int_at(crate::paths::meta::GENERATION).unwrap_or(0),
            deleting: meta::deletion_timestamp(tree).is_some(),
            finalizers: texts(tree.items_at(crate::paths::meta::FINALIZERS)),
            groups: tree.items_at(path::GROUPS).iter().map(ResourceGroup::of).collect(),
            cohort: tree.text_at(path::COHORT),
            strategy: match tree.str_at(path::STRATEGY) {
                "StrictFIFO" => QueueingStrategy::StrictFifo,
                _ => QueueingStrategy::BestEffortFifo,
            },
            namespaces: LabelSelector::of(tree.at(path::NAMESPACES)),
            fungibility: FlavorFungibility {
                next_before_borrowing: tree.str_at(path::WHEN_CAN_BORROW) == "TryNextFlavor",
                next_before_preempting: tree.str_at(path::WHEN_CAN_PREEMPT) != "MayStopSearch",
                preemption_over_borrowing: tree.str_at(path::PREFERENCE) == "PreemptionOverBorrowing",
            },
            preemption: ClusterQueuePreemption {
                reclaim: PreemptionPolicy::of(tree.str_at(path::RECLAIM)),
                borrow: BorrowWithinCohort {
                    lower_priority: tree.str_at(path::BORROW_POLICY) == "LowerPriority",
                    max_priority: tree.int_at(path::BORROW_THRESHOLD),
                },
                within: PreemptionPolicy::of(tree.str_at(path::WITHIN)),
            },
            checks: tree.items_at(path::CHECKS).iter().map(AdmissionCheckStrategyRule::of).collect(),
            stop: StopPolicy::of(tree.str_at(path::STOP)),
            weight_nano: weight(tree.at(path::WEIGHT)),
            usage_based: tree.str_at(path::ADMISSION_MODE) == "UsageBasedAdmissionFairSharing",
            active: condition::holds(&found, conditions::ACTIVE),
        }
    }

    /// All flavors of all resource groups, in spec order.
    pub fn flavors(&self) -> impl Iterator<Item = &FlavorQuotas> {
        self.groups.iter().flat_map(|it| &it.flavors)
    }
}

impl ResourceGroup {
    /// Reads a resource group of a ClusterQueue or a Cohort.
    #[must_use]
    pub fn of(tree: &Tree) -> ResourceGroup {
        ResourceGroup {
            covered: texts(tree.items_at(resource_group::COVERED)),
            flavors: tree.items_at(resource_group::FLAVORS).iter().map(FlavorQuotas::of).collect(),
        }
    }
}

impl FlavorQuotas {
    fn of(tree: &Tree) -> FlavorQuotas {
        FlavorQuotas {
            name: tree.text_at(flavor_quotas::NAME),
            resources: tree.items_at(flavor_quotas::RESOURCES).iter().map(Quota::of).collect(),
        }
    }
}

impl Quota {
    fn of(tree: &Tree) -> Quota {
        let name = tree.text_at(quota::NAME);
        // An absent limit is unlimited; a malformed one must not be, so it reads as 0.
        let given = |path: &[&str]| tree.at(path).filter(|it| !it.is_null());
        let read = |path: &[&str]| given(path).map(|it| amount(&name, it).unwrap_or(0));
        Quota {
            nominal: read(quota::NOMINAL).unwrap_or(0),
            borrowing_limit: read(quota::BORROWING),
            lending_limit: read(quota::LENDING),
            name,
        }
    }
}

impl AdmissionCheckStrategyRule {
    fn of(tree: &Tree) -> AdmissionCheckStrategyRule {
        AdmissionCheckStrategyRule {
            name: tree.text_at(check_rule::NAME),
            flavors: texts(tree.items_at(check_rule::FLAVORS)),
        }
    }
}

impl PreemptionPolicy {
    fn of(word: &str) -> PreemptionPolicy {
        match word {
            "LowerPriority" => PreemptionPolicy::LowerPriority,
            "LowerOrNewerEqualPriority" => PreemptionPolicy::LowerOrNewerEqualPriority,
            "Any" => PreemptionPolicy::Any,
            _ => PreemptionPolicy::Never,
        }
    }
}
