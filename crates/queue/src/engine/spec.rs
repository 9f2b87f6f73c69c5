//! The specs fed to the engine: ClusterQueues, Cohorts, ResourceFlavors and LocalQueues as names and integers.
//!
//! # Guarantees
//!
//! - Amounts are whole units, millicores for cpu. [`UNLIMITED`] absorbs additions and subtractions.
//! - Applying an equal spec again is a no-op: nothing is requeued.

use std::collections::BTreeMap;

use muster_api::node::Taint;
use muster_api::selector::LabelSelector;
use muster_api::toleration::Toleration;
use muster_tree::Text;

/// The value of a limit that is not set.
pub const UNLIMITED: i64 = i64::MAX;

/// The pseudo resource `pods`: Kueue counts one per pod where a ClusterQueue covers it.
pub const PODS: &str = "pods";

/// The default `fairSharing.weight` of 1, in billionths.
pub const WEIGHT_ONE: u64 = 1_000_000_000;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EngineSettings {
    /// How many Workloads of one ClusterQueue a cycle may process; Kueue processes one.
    pub heads_per_cycle: usize,
    /// `fairSharing.preemptionStrategies` in order. None: fair sharing is off, classical preemption applies.
    pub fair_sharing_strategies: Option<Vec<FairSharingStrategy>>,
    /// `waitForPodsReady.blockAdmission`: nothing is admitted while the pods of an admitted Workload are not ready.
    pub block_admission: bool,
    /// Field `requeuingStrategy.timestamp` of Kueue's configuration.
    pub requeuing_timestamp: RequeuingTimestamp,
}

impl Default for EngineSettings {
    fn default() -> EngineSettings {
        EngineSettings {
            heads_per_cycle: 1,
            fair_sharing_strategies: None,
            block_admission: false,
            requeuing_timestamp: RequeuingTimestamp::Eviction,
        }
    }
}

/// The queue-order timestamp of a Workload evicted by `PodsReadyTimeout`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequeuingTimestamp {
    /// Time of the eviction: the Workload moves behind those that queued meanwhile.
    Eviction,
    /// Creation time: the Workload keeps its position.
    Creation,
}

/// When fair sharing may preempt a borrowing Workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FairSharingStrategy {
    /// The preemptor's share, with its request, is at most the share of the victim's subtree without the victim.
    LessThanOrEqualToFinalShare,
    /// The preemptor's share, with its request, is below the current share of the victim's subtree.
    LessThanInitialShare,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FlavorResourceQuota {
    pub nominal: i64,
    /// None means no limit is set.
    pub borrowing_limit: Option<i64>,
    /// None: all of the nominal quota may be lent.
    pub lending_limit: Option<i64>,
}

/// A resource group: resources assigned from the same list of flavors.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ResourceGroupSpec {
    /// Flavors in the order in which they are tried, with the quota of each resource.
    pub flavors: Vec<(Text, BTreeMap<Text, FlavorResourceQuota>)>,
}

impl ResourceGroupSpec {
    #[must_use]
    pub fn covers(&self, resource: &str) -> bool {
        self.flavors.iter().any(|(_, quotas)| quotas.contains_key(resource))
    }
}

/// API field `spec.queueingStrategy` of Kueue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum QueueingPolicy {
    /// A Workload that does not fit lets later ones pass.
    #[default]
    BestEffortFifo,
    /// A head that does not fit blocks the Workloads behind it.
    StrictFifo,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FlavorSearchPolicy {
    MayStopSearch,
    /// Try the next flavor; use this one only if none is better.
    TryNextFlavor,
}

/// API field `flavorFungibility.preference` of Kueue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FungibilityPreference {
    /// Rather borrow than preempt.
    #[default]
    BorrowingOverPreemption,
    /// Rather preempt than borrow.
    PreemptionOverBorrowing,
}

/// API field `spec.flavorFungibility` of Kueue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FungibilityPolicies {
    pub when_can_borrow: FlavorSearchPolicy,
    pub when_can_preempt: FlavorSearchPolicy,
    /// Which price is lower.
    pub preference: FungibilityPreference,
}

impl Default for FungibilityPolicies {
    fn default() -> FungibilityPolicies {
        FungibilityPolicies {
            when_can_borrow: FlavorSearchPolicy::MayStopSearch,
            when_can_preempt: FlavorSearchPolicy::TryNextFlavor,
            preference: FungibilityPreference::default(),
        }
    }
}

/// API field `preemption.withinClusterQueue` of Kueue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WithinClusterQueuePolicy {
    #[default]
    Never,
    LowerPriority,
    /// Lower priority, or equal priority and queued later.
    LowerOrNewerEqualPriority,
}

/// API field `preemption.reclaimWithinCohort` of Kueue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ReclaimWithinCohortPolicy {
    #[default]
    Never,
    LowerPriority,
    Any,
}

/// API field `spec.preemption` of Kueue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PreemptionPolicies {
    /// In the own queue.
    pub within_cluster_queue: WithinClusterQueuePolicy,
    pub reclaim_within_cohort: ReclaimWithinCohortPolicy,
    /// `preemption.borrowWithinCohort`; None for policy `Never`.
    pub borrow_within_cohort: Option<BorrowWithinCohortPolicy>,
}

/// `borrowWithinCohort` with policy `LowerPriority`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BorrowWithinCohortPolicy {
    /// `maxPriorityThreshold`: victims above this priority are excluded.
    pub max_priority_threshold: Option<i64>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterQueueSpec {
    pub name: Text,
    /// The cohort it is in.
    pub cohort: Option<Text>,
    pub groups: Vec<ResourceGroupSpec>,
    /// In which order it is emptied.
    pub strategy: QueueingPolicy,
    /// API field `spec.namespaceSelector` of Kueue.
    pub namespace_selector: LabelSelector,
    /// API field `spec.flavorFungibility` of Kueue.
    pub fungibility: FungibilityPolicies,
    /// API field `spec.preemption` of Kueue.
    pub preemption: PreemptionPolicies,
    /// API field `fairSharing.weight` in billionths.
    pub weight: u64,
    /// Why it is inactive, as far as the caller knows. The engine itself adds missing flavors and cohort cycles.
    pub inactive: Option<InactiveReason>,
}

impl ClusterQueueSpec {
    /// A ClusterQueue without quota and with API defaults.
    #[must_use]
    pub fn named(name: &str) -> ClusterQueueSpec {
        ClusterQueueSpec {
            name: name.into(),
            cohort: None,
            groups: Vec::new(),
            strategy: QueueingPolicy::default(),
            namespace_selector: LabelSelector::default(),
            fungibility: FungibilityPolicies::default(),
            preemption: PreemptionPolicies::default(),
            weight: WEIGHT_ONE,
            inactive: None,
        }
    }

    #[must_use]
    pub fn group_of(&self, resource: &str) -> Option<usize> {
        self.groups.iter().position(|group| group.covers(resource))
    }
}

/// Why a ClusterQueue is inactive; the first applicable variant is reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum InactiveReason {
    Terminating,
    Stopped,
    FlavorNotFound,
    /// An AdmissionCheck that it references is missing or inactive.
    AdmissionChecks,
    /// The ancestors of its cohort form a cycle.
    CohortCycle,
}

/// A Cohort. A cohort that is only referenced has no quota and no parent, as in Kueue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CohortSpec {
    pub name: Text,
    /// The cohort above it.
    pub parent: Option<Text>,
    /// Quota in addition to that of its members.
    pub groups: Vec<ResourceGroupSpec>,
    /// API field `fairSharing.weight` in billionths.
    pub weight: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FlavorSpec {
    pub name: Text,
    /// Labels of its nodes.
    pub labels: BTreeMap<Text, Text>,
    /// Taints of its nodes.
    pub taints: Vec<Taint>,
    /// Tolerations added to pods that use this flavor.
    pub tolerations: Vec<Toleration>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocalQueueSpec {
    pub namespace: Text,
    pub name: Text,
    /// The queue it feeds.
    pub cluster_queue: Text,
    pub stopped: bool,
}
