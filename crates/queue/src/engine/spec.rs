//! What the engine is fed: queues, cohorts, flavors and local queues, as names and integers.
//!
//! # Invariants
//!
//! - Amounts are whole units, millicores for cpu; [`UNLIMITED`] absorbs whatever is added to or taken from it.
//! - Two equal specs behave equally: feeding the same one again changes nothing and wakes nobody.

use std::collections::BTreeMap;

use muster_api::node::Taint;
use muster_api::selector::Selector;
use muster_api::toleration::Toleration;
use muster_tree::Text;

/// More than any request; what a missing limit means.
pub const UNLIMITED: i64 = i64::MAX;

/// The pseudo resource that counts pods.
pub const PODS: &str = "pods";

/// The weight of a node that names none, in thousand millionths.
pub const WEIGHT_ONE: u64 = 1_000_000_000;

/// How the engine behaves as a whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// How many workloads of one queue may be looked at in one cycle.
    pub heads_per_cycle: usize,
    /// Fair sharing: which comparisons may preempt, in order. None: classic preemption and order.
    pub fair_sharing: Option<Vec<ShareRule>>,
    /// Nothing is admitted while the pods of something admitted are not ready.
    pub block_admission: bool,
    /// Whether time spent in a queue counts anew after a time-out of ready pods.
    pub requeue_from: RequeueFrom,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            heads_per_cycle: 1,
            fair_sharing: None,
            block_admission: false,
            requeue_from: RequeueFrom::Eviction,
        }
    }
}

/// From when a workload waits that was evicted because its pods were not ready in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequeueFrom {
    /// From the eviction: it lost its place.
    Eviction,
    /// From its creation: it keeps its place.
    Creation,
}

/// When a borrower of quota may be preempted for the sake of fair shares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShareRule {
    /// The preemptor's share must not exceed what is left to the victim's side.
    LessThanOrEqualToFinalShare,
    /// The preemptor's share must be below what the victim's side has now.
    LessThanInitialShare,
}

/// Quota of one resource in one flavor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Quota {
    /// What is owned.
    pub nominal: i64,
    /// How much more may be borrowed; none: as much as there is.
    pub borrowing: Option<i64>,
    /// How much of the own may be lent; none: all of it.
    pub lending: Option<i64>,
}

/// Resources that are given out together from the same flavors.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Group {
    /// Flavors in the order in which they are tried, with the quota of each resource.
    pub flavors: Vec<(Text, BTreeMap<Text, Quota>)>,
}

impl Group {
    /// Whether this resource is given out by this group.
    #[must_use]
    pub fn covers(&self, resource: &str) -> bool {
        self.flavors.iter().any(|(_, quotas)| quotas.contains_key(resource))
    }
}

/// In which order a queue is emptied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Strategy {
    /// What does not fit now lets others pass.
    #[default]
    BestEffortFifo,
    /// What does not fit now holds up all behind it.
    StrictFifo,
}

/// Whether to be content with a flavor or to look at the next one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Search {
    /// Take it.
    MayStop,
    /// Look on; take it only if nothing better comes.
    TryNext,
}

/// What counts more when every flavor has a price.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Preference {
    /// Rather borrow than preempt.
    #[default]
    BorrowingOverPreemption,
    /// Rather preempt than borrow.
    PreemptionOverBorrowing,
}

/// How flavors replace each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fungibility {
    /// A flavor that fits by borrowing.
    pub when_can_borrow: Search,
    /// A flavor that fits by preempting.
    pub when_can_preempt: Search,
    /// Which price is lower.
    pub preference: Preference,
}

impl Default for Fungibility {
    fn default() -> Fungibility {
        Fungibility {
            when_can_borrow: Search::MayStop,
            when_can_preempt: Search::TryNext,
            preference: Preference::default(),
        }
    }
}

/// Whom a workload may preempt in its own queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Within {
    /// Nobody.
    #[default]
    Never,
    /// Who has a lower priority.
    LowerPriority,
    /// Also who has the same and came later.
    LowerOrNewerEqualPriority,
}

/// Whom a workload may preempt in other queues that borrow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Reclaim {
    /// Nobody.
    #[default]
    Never,
    /// Who has a lower priority.
    LowerPriority,
    /// Anybody.
    Any,
}

/// The preemption rules of a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Preemption {
    /// In the own queue.
    pub within: Within,
    /// In other queues of the cohort.
    pub reclaim: Reclaim,
    /// Whether others may be preempted even though the preemptor ends up borrowing.
    pub while_borrowing: Option<WhileBorrowing>,
}

/// `borrowWithinCohort` with policy `LowerPriority`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WhileBorrowing {
    /// Only victims up to this priority.
    pub threshold: Option<i64>,
}

/// A ClusterQueue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueSpec {
    /// Its name.
    pub name: Text,
    /// The cohort it is in.
    pub cohort: Option<Text>,
    /// What it may give out.
    pub groups: Vec<Group>,
    /// In which order it is emptied.
    pub strategy: Strategy,
    /// Whose workloads it takes.
    pub namespaces: Selector,
    /// How flavors replace each other.
    pub fungibility: Fungibility,
    /// Whom its workloads may preempt.
    pub preemption: Preemption,
    /// Its weight among its siblings, in thousand millionths.
    pub weight: u64,
    /// Why it takes nothing, as far as its caller knows: missing flavors and cohorts in a circle are found here.
    pub idle: Option<Idle>,
}

impl QueueSpec {
    /// A queue without quota, as its defaults have it.
    #[must_use]
    pub fn named(name: &str) -> QueueSpec {
        QueueSpec {
            name: name.into(),
            cohort: None,
            groups: Vec::new(),
            strategy: Strategy::default(),
            namespaces: Selector::default(),
            fungibility: Fungibility::default(),
            preemption: Preemption::default(),
            weight: WEIGHT_ONE,
            idle: None,
        }
    }

    /// The group that gives out a resource.
    #[must_use]
    pub fn group_of(&self, resource: &str) -> Option<usize> {
        self.groups.iter().position(|group| group.covers(resource))
    }
}

/// Why a queue takes nothing in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Idle {
    /// It is being deleted.
    Terminating,
    /// `Hold` or `HoldAndDrain`.
    Stopped,
    /// It names a flavor that is not there.
    FlavorNotFound,
    /// It names an admission check that is missing or inactive.
    Checks,
    /// Its cohorts are each other's parents.
    CohortCycle,
}

/// A Cohort object; a name that is only used is a cohort without quota and parent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CohortSpec {
    /// Its name.
    pub name: Text,
    /// The cohort above it.
    pub parent: Option<Text>,
    /// What it owns beyond its members' quota.
    pub groups: Vec<Group>,
    /// Its weight among its siblings, in thousand millionths.
    pub weight: u64,
}

/// A ResourceFlavor.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FlavorSpec {
    /// Its name.
    pub name: Text,
    /// Labels of its nodes.
    pub labels: BTreeMap<Text, Text>,
    /// Taints of its nodes.
    pub taints: Vec<Taint>,
    /// What it makes its pods tolerate.
    pub tolerations: Vec<Toleration>,
}

/// A LocalQueue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocalQueueSpec {
    /// Its namespace.
    pub namespace: Text,
    /// Its name.
    pub name: Text,
    /// The queue it feeds.
    pub queue: Text,
    /// `Hold` or `HoldAndDrain`.
    pub stopped: bool,
}
