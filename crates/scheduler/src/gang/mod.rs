//! Groups of pods that are placed together: what is told of them, and what is decided.
//!
//! A group is one entry of the queue. It is looked at when its policy is known, enough members are there and none of
//! them is gated; until then it is *held*, which costs nothing. One cycle decides about all members that wait: as
//! many as the group needs get nodes, or none does.
//!
//! # Invariants
//!
//! - Nothing is taken while a group waits, save nominations for room that is being made for it.
//! - An entry that is in a list of the queue belongs to a group that is not held.
//!
//! # Deliberately absent
//!
//! Groups of groups. Reserving nodes for large groups that wait: smaller ones go first if they fit.

mod cycle;
mod domain;
mod gate;
mod order;
mod refuse;
mod room;
mod team;
mod units;

use std::time::Duration;

use muster_tree::Text;

pub use domain::Fence;
pub use refuse::Memory;
pub use team::{State, TeamId, Teams};
pub use units::Unit;

use crate::pod::{GroupKey, PodKey};

/// How many members have to be placed together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Policy {
    /// Each for itself.
    Basic,
    /// So many, or none.
    Gang {
        /// So many.
        min: usize,
    },
}

impl Policy {
    /// So many have to be on nodes before any may be bound.
    #[must_use]
    pub fn min(self) -> usize {
        match self {
            Policy::Basic => 1,
            Policy::Gang { min } => min.max(1),
        }
    }
}

/// What goes when a member has to make room.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Disruption {
    /// That pod.
    #[default]
    Single,
    /// The whole group.
    All,
}

/// What the scheduler is told of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// How many members have to be placed together.
    pub policy: Policy,
    /// Priority of the group itself; `None`: that of its pods, which must agree.
    pub priority: Option<i64>,
    /// Whether it may have others evicted; `None`: what its pods say, which must agree.
    pub preempts: Option<bool>,
    /// What goes when a member has to make room.
    pub disruption: Disruption,
    /// The node label whose value all members must share.
    pub topology: Option<Text>,
    /// How long after the first attempt it is too late.
    pub deadline: Option<Duration>,
}

impl Group {
    /// A group of which so many are placed, or none is; everything else as usual.
    #[must_use]
    pub fn of(policy: Policy) -> Group {
        Group {
            policy,
            priority: None,
            preempts: None,
            disruption: Disruption::Single,
            topology: None,
            deadline: None,
        }
    }
}

/// Whether a group can be looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Standing {
    /// It can.
    Ready(Group),
    /// Something it refers to is missing or contradicts itself.
    Waiting {
        /// Which reference.
        why: Waiting,
        /// What its pods are told.
        words: Text,
    },
}

/// Which reference of a group is missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Waiting {
    /// The group object.
    Group,
    /// Its Workload, or the template in it.
    Workload,
}

/// How many pods of a group are where.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct GroupCounts {
    /// All that have not ended.
    pub all: usize,
    /// On nodes, as the server says.
    pub assigned: usize,
    /// Meant to go to nodes.
    pub assumed: usize,
    /// Without a node.
    pub waiting: usize,
}

/// What was decided about a group of several.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupOutcome {
    /// In short.
    pub verdict: GroupVerdict,
    /// Members that have nodes now, to be bound together.
    pub placed: Vec<(PodKey, Text)>,
    /// Members that have none, each with its words. Those that a success left over are looked at again at once and
    /// hear then.
    pub refused: Vec<RefusedMember>,
    /// Pods to evict so that it can have nodes later.
    pub evict: Vec<PodKey>,
    /// Groups that are evicted as a whole; their pods are in `evict`.
    pub evict_groups: Vec<GroupKey>,
    /// Others whose nomination ends.
    pub outranked: Vec<PodKey>,
}

/// A member without a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusedMember {
    /// Which.
    pub pod: PodKey,
    /// The reason for its condition.
    pub reason: &'static str,
    /// The sentence for its condition.
    pub message: String,
    /// The node on which room is being made for it.
    pub nominated: Option<Text>,
}

/// What was decided, in short.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GroupVerdict {
    /// Enough are on nodes, and at least one came this time.
    Placed,
    /// It was not looked at.
    Held(Held),
    /// There is no place for it, in its own words.
    Unschedulable(String),
    /// Its members break a rule of groups.
    Error(String),
    /// There is no place for it, and its time is over.
    Late(String),
}

/// Why a group was not looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Held {
    /// Too few pods have come.
    Pods,
    /// The group object is missing.
    Group,
    /// The Workload, or the template in it, is missing.
    Workload,
    /// A member is gated.
    Gated,
}

impl From<Waiting> for Held {
    fn from(waiting: Waiting) -> Held {
        match waiting {
            Waiting::Group => Held::Group,
            Waiting::Workload => Held::Workload,
        }
    }
}
