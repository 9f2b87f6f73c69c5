//! What is read of a ClusterQueue.

use muster_tree::{Text, Tree};

use super::condition::{self, Condition};
use super::paths::{check_rule, cluster_queue as path, flavor_quotas, queue_status, quota, resource_group};
use super::words::conditions;
use super::{StopPolicy, texts, weight};
use crate::meta;
use crate::node::amount;
use crate::port::Uid;
use crate::selector::Selector;

/// What is read of a ClusterQueue.
#[derive(Debug, Clone, PartialEq)]
pub struct ClusterQueueFacts {
    /// Name.
    pub name: Text,
    /// UID.
    pub uid: Uid,
    /// How often its spec was changed.
    pub generation: i64,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// Finalizers.
    pub finalizers: Vec<Text>,
    /// What it has.
    pub groups: Vec<ResourceGroup>,
    /// With whom it shares; empty for nobody.
    pub cohort: Text,
    /// Order.
    pub strategy: Strategy,
    /// Whose LocalQueues may use it.
    pub namespaces: Selector,
    /// When to look for another flavor.
    pub fungibility: Fungibility,
    /// Whom it may make leave.
    pub preemption: Preemption,
    /// What else must agree.
    pub checks: Vec<CheckRule>,
    /// Whether it takes work.
    pub stop: StopPolicy,
    /// Its weight among others, in billionths.
    pub weight_nano: i64,
    /// Whether LocalQueues are weighed by what they used.
    pub usage_based: bool,
    /// Its own condition `Active`, as written.
    pub active: bool,
}

/// Resources whose flavors are chosen together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResourceGroup {
    /// The resources.
    pub covered: Vec<Text>,
    /// Flavors, in the order of trying.
    pub flavors: Vec<FlavorQuotas>,
}

/// The quotas of a flavor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FlavorQuotas {
    /// Name of the flavor.
    pub name: Text,
    /// Quotas, by resource.
    pub resources: Vec<Quota>,
}

/// The quota of one resource of one flavor, in the unit of [`amount`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Quota {
    /// Name of the resource.
    pub name: Text,
    /// How much.
    pub nominal: i64,
    /// How much of others at most; any amount when it is not said.
    pub borrowing_limit: Option<i64>,
    /// How much for others at most; all when it is not said.
    pub lending_limit: Option<i64>,
}

/// Order within a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Strategy {
    /// The first one holds up all others.
    StrictFifo,
    /// Who cannot run lets others pass.
    #[default]
    BestEffortFifo,
}

/// When to look for another flavor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Fungibility {
    /// Also when this one could be had by borrowing.
    pub next_before_borrowing: bool,
    /// Also when this one could be had by preempting.
    pub next_before_preempting: bool,
    /// Rather preempt than borrow.
    pub preemption_over_borrowing: bool,
}

/// Whom a queue may make leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Preemption {
    /// In other queues, to get back its own.
    pub reclaim: Within,
    /// In other queues, while it borrows.
    pub borrow: BorrowWithinCohort,
    /// In the queue itself.
    pub within: Within,
}

/// Who may be made to leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Within {
    /// Nobody.
    #[default]
    Never,
    /// Who has a lower priority.
    LowerPriority,
    /// Also who has the same and came later.
    LowerOrNewerEqualPriority,
    /// Anybody.
    Any,
}

/// Who may be made to leave by a queue that borrows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BorrowWithinCohort {
    /// Whether somebody may: who has a lower priority.
    pub lower_priority: bool,
    /// Up to this priority only.
    pub max_priority: Option<i64>,
}

/// What else must agree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckRule {
    /// Name of the AdmissionCheck.
    pub name: Text,
    /// For these flavors; for all when empty.
    pub flavors: Vec<Text>,
}

impl ClusterQueueFacts {
    /// Reads a ClusterQueue.
    #[must_use]
    pub fn of(tree: &Tree) -> ClusterQueueFacts {
        let status = tree.at(path::STATUS).unwrap_or(&Tree::Null);
        let found: Vec<Condition> =
            status.items_at(queue_status::CONDITIONS).iter().map(Condition::of).collect();
        ClusterQueueFacts {
            name: meta::name(tree),
            uid: meta::uid(tree),
            generation: tree.int_at(crate::paths::meta::GENERATION).unwrap_or(0),
            deleting: meta::deleting(tree).is_some(),
            finalizers: texts(tree.items_at(crate::paths::meta::FINALIZERS)),
            groups: tree.items_at(path::GROUPS).iter().map(ResourceGroup::of).collect(),
            cohort: tree.text_at(path::COHORT),
            strategy: match tree.str_at(path::STRATEGY) {
                "StrictFIFO" => Strategy::StrictFifo,
                _ => Strategy::BestEffortFifo,
            },
            namespaces: Selector::of(tree.at(path::NAMESPACES)),
            fungibility: Fungibility {
                next_before_borrowing: tree.str_at(path::WHEN_CAN_BORROW) == "TryNextFlavor",
                next_before_preempting: tree.str_at(path::WHEN_CAN_PREEMPT) != "MayStopSearch",
                preemption_over_borrowing: tree.str_at(path::PREFERENCE) == "PreemptionOverBorrowing",
            },
            preemption: Preemption {
                reclaim: Within::of(tree.str_at(path::RECLAIM)),
                borrow: BorrowWithinCohort {
                    lower_priority: tree.str_at(path::BORROW_POLICY) == "LowerPriority",
                    max_priority: tree.int_at(path::BORROW_THRESHOLD),
                },
                within: Within::of(tree.str_at(path::WITHIN)),
            },
            checks: tree.items_at(path::CHECKS).iter().map(CheckRule::of).collect(),
            stop: StopPolicy::of(tree.str_at(path::STOP)),
            weight_nano: weight(tree.at(path::WEIGHT)),
            usage_based: tree.str_at(path::ADMISSION_MODE) == "UsageBasedAdmissionFairSharing",
            active: condition::holds(&found, conditions::ACTIVE),
        }
    }

    /// Every flavor of every group, in order.
    pub fn flavors(&self) -> impl Iterator<Item = &FlavorQuotas> {
        self.groups.iter().flat_map(|it| &it.flavors)
    }
}

impl ResourceGroup {
    /// Reads one; Cohorts have the same.
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
        // No limit is unlimited, so a limit that is no quantity is zero instead.
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

impl CheckRule {
    fn of(tree: &Tree) -> CheckRule {
        CheckRule { name: tree.text_at(check_rule::NAME), flavors: texts(tree.items_at(check_rule::FLAVORS)) }
    }
}

impl Within {
    fn of(word: &str) -> Within {
        match word {
            "LowerPriority" => Within::LowerPriority,
            "LowerOrNewerEqualPriority" => Within::LowerOrNewerEqualPriority,
            "Any" => Within::Any,
            _ => Within::Never,
        }
    }
}
