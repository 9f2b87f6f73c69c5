//! Gang scheduling of pod groups.
//!
//! A group is one entry of the scheduling queue. It is *held* until its scheduling policy is known, enough pods exist
//! and no pod has scheduling gates. One cycle schedules all pending members: at least `minCount` or none.
//!
//! # Invariants
//!
//! - A pending group holds no resources, except nominations after preemption.
//! - An entry in a sub-queue belongs to a group that is not held.
//!
//! # Deliberately absent
//!
//! Groups of groups. Reservation of nodes for large pending groups: smaller entries are scheduled first if they fit.

mod cycle;
mod domain;
mod group_cache;
mod order;
mod preemption;
mod quorum;
mod unschedulable;
mod victims;

use std::time::Duration;

use muster_tree::Text;

pub use domain::NodeScope;
pub use group_cache::{GroupCache, GroupId, MemberState};
pub use unschedulable::CachedGroupFailure;
pub use victims::PreemptionUnit;

use crate::pod::{GroupKey, PodKey};

/// The scheduling policy of a pod group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SchedulingPolicy {
    Basic,
    Gang { min: usize },
}

impl SchedulingPolicy {
    /// Members that must be scheduled before any is bound.
    #[must_use]
    pub fn min(self) -> usize {
        match self {
            SchedulingPolicy::Basic => 1,
            SchedulingPolicy::Gang { min } => min.max(1),
        }
    }
}

/// What is evicted if a member is a preemption victim.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DisruptionMode {
    #[default]
    Single,
    All,
}

/// The spec of a pod group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupSpec {
    /// The scheduling policy of a pod group.
    pub policy: SchedulingPolicy,
    /// Priority of the group; `None` uses that of its pods, which must be equal.
    pub priority: Option<i64>,
    /// Whether it may preempt; `None` uses the `preemptionPolicy` of its pods, which must be equal.
    pub preempts: Option<bool>,
    /// What is evicted if a member is a preemption victim.
    pub disruption: DisruptionMode,
    /// The topology key whose value all members must share.
    pub topology: Option<Text>,
    /// Time from the first scheduling attempt to the deadline.
    pub deadline: Option<Duration>,
}

impl GroupSpec {
    /// A group with this policy and defaults for everything else.
    #[must_use]
    pub fn of(policy: SchedulingPolicy) -> GroupSpec {
        GroupSpec {
            policy,
            priority: None,
            preempts: None,
            disruption: DisruptionMode::Single,
            topology: None,
            deadline: None,
        }
    }
}

/// Whether a group can be scheduled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GroupReadiness {
    Ready(GroupSpec),
    /// A referenced object is missing or inconsistent.
    Waiting {
        why: MissingReference,
        /// The message of the condition of its pods.
        words: Text,
    },
}

/// The missing reference of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MissingReference {
    Group,
    /// The Workload, or its pod group template.
    Workload,
}

/// The number of pods of a group by state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct GroupCounts {
    /// All that are not terminal.
    pub all: usize,
    pub assigned: usize,
    /// Assumed, not bound yet.
    pub assumed: usize,
    pub waiting: usize,
}

/// The outcome of the cycle of a pod group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupOutcome {
    pub status: GroupStatus,
    /// Members assumed in this cycle, to be bound together.
    pub scheduled: Vec<(PodKey, Text)>,
    /// Unschedulable members with their conditions. Members left over by a success are retried at once and report then.
    pub unschedulable: Vec<UnschedulableMember>,
    pub victims: Vec<PodKey>,
    /// Groups that are evicted as a whole; their pods are among the victims.
    pub victim_groups: Vec<GroupKey>,
    /// Pods of other entries that lose their nomination.
    pub nominations_cleared: Vec<PodKey>,
}

/// The `PodScheduled` condition of an unschedulable member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnschedulableMember {
    pub pod: PodKey,
    pub reason: &'static str,
    pub message: String,
    /// The value for `status.nominatedNodeName`.
    pub nominated: Option<Text>,
}

/// The result of the cycle of a pod group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GroupStatus {
    /// `minCount` is reached, and at least one member was assumed in this cycle.
    Placed,
    /// It did not pass `PreEnqueue`.
    Held(HoldReason),
    /// Too few members fit; the message of the group.
    Unschedulable(String),
    /// Its members violate a rule of groups, or a plugin failed.
    Error(String),
    /// Too few members were scheduled before the deadline.
    DeadlineExceeded(String),
}

/// Why a group is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HoldReason {
    /// Fewer than `minCount` pods exist.
    Pods,
    /// The PodGroup is missing.
    Group,
    /// The Workload, or its pod group template, is missing.
    Workload,
    /// A member has scheduling gates or fails `PreEnqueue`.
    Gated,
}

impl From<MissingReference> for HoldReason {
    fn from(waiting: MissingReference) -> HoldReason {
        match waiting {
            MissingReference::Group => HoldReason::Group,
            MissingReference::Workload => HoldReason::Workload,
        }
    }
}
