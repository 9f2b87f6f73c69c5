//! The cache of pod groups: spec, members, and the number of members by state.
//!
//! # Invariants
//!
//! - Counts follow every change of a member: [`crate::cache::SchedulerCache::change`] is the only way to change the
//!   state of a member.
//! - An id is freed when the group has neither an object nor members.

use std::collections::{BTreeMap, BTreeSet};

use muster_api::time::Time;
use muster_tree::Text;

use super::{DisruptionMode, GroupCounts, GroupReadiness, GroupSpec, HoldReason};
use crate::cache::PodId;
use crate::pod::GroupKey;

/// Index of a pod group.
pub type GroupId = u32;

/// The state of a member, for the counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemberState {
    Assigned,
    /// Assumed, not bound yet.
    Assumed,
    Waiting {
        /// It has scheduling gates.
        gated: bool,
        /// It is rejected by `PreEnqueue`.
        held: bool,
    },
    /// Deleted while pending: it does not count.
    Terminating,
}

#[derive(Debug, Default)]
pub struct GroupState {
    pub key: GroupKey,
    /// `None` until the group object is observed.
    pub readiness: Option<GroupReadiness>,
    pub members: BTreeSet<PodId>,
    pub entry: Option<u32>,
    /// The first scheduling attempt since `minCount` members were last bound.
    pub first_attempt: Option<Time>,
    /// Why it is held, with the message of its members.
    pub held: Option<(HoldReason, Text)>,
    /// Since when it is held.
    pub held_since: Option<Time>,
    /// When its members report that it is held.
    pub report_at: Option<Time>,
    /// When its deadline is checked.
    pub deadline_at: Option<Time>,
    /// Members that did not report it yet.
    pub unreported: BTreeSet<PodId>,
    counts: GroupCounts,
    gated: usize,
    forbidden: usize,
}

impl GroupState {
    /// Its spec, if it can be scheduled.
    pub fn group(&self) -> Option<&GroupSpec> {
        match &self.readiness {
            Some(GroupReadiness::Ready(group)) => Some(group),
            _ => None,
        }
    }

    pub fn counts(&self) -> GroupCounts {
        self.counts
    }

    /// Members that are assumed or bound.
    pub fn scheduled(&self) -> usize {
        self.counts.assigned + self.counts.assumed
    }

    /// Its deadline, if it was attempted and too few members are bound.
    pub fn due_at(&self) -> Option<Time> {
        let group = self.group().filter(|group| self.counts.assigned < group.policy.min())?;
        Some(self.first_attempt? + group.deadline?)
    }

    /// Pending members with scheduling gates.
    pub fn gated(&self) -> usize {
        self.gated
    }

    /// Pending members that fail `PreEnqueue`.
    pub fn forbidden(&self) -> usize {
        self.forbidden
    }

    /// Whether all its pods are evicted together.
    pub fn disrupted_as_group(&self) -> bool {
        self.group().is_some_and(|group| group.disruption == DisruptionMode::All)
    }

    /// Counts (`more`) or uncounts a member.
    pub fn count(&mut self, state: MemberState, more: bool) {
        let GroupCounts { all, assigned, assumed, waiting } = &mut self.counts;
        let bump = |number: &mut usize| *number = if more { *number + 1 } else { *number - 1 };
        match state {
            MemberState::Terminating => return,
            MemberState::Assigned => bump(assigned),
            MemberState::Assumed => bump(assumed),
            MemberState::Waiting { gated, held } => {
                bump(waiting);
                if gated {
                    bump(&mut self.gated);
                }
                if held {
                    bump(&mut self.forbidden);
                }
            }
        }
        bump(all);
        if self.group().is_some_and(|group| self.counts.assigned >= group.policy.min()) {
            // The deadline starts again if members are lost later.
            self.first_attempt = None;
        }
    }
}

#[derive(Debug, Default)]
pub struct GroupCache {
    teams: Vec<Option<GroupState>>,
    index: BTreeMap<GroupKey, GroupId>,
    free: Vec<GroupId>,
}

impl GroupCache {
    pub fn find(&self, key: &GroupKey) -> Option<GroupId> {
        self.index.get(key).copied()
    }

    /// The id of a group, added if it is new.
    pub fn id(&mut self, key: &GroupKey) -> GroupId {
        if let Some(id) = self.index.get(key) {
            return *id;
        }
        let id = self.free.pop().unwrap_or_else(|| {
            self.teams.push(None);
            GroupId::try_from(self.teams.len() - 1).expect("fewer groups than 2^32")
        });
        self.teams[id as usize] = Some(GroupState { key: key.clone(), ..GroupState::default() });
        self.index.insert(key.clone(), id);
        id
    }

    pub fn of(&self, id: GroupId) -> &GroupState {
        self.teams[id as usize].as_ref().expect("a numbered group exists")
    }

    pub fn of_mut(&mut self, id: GroupId) -> &mut GroupState {
        self.teams[id as usize].as_mut().expect("a numbered group exists")
    }

    /// Removes a group without object and members, and returns it.
    pub fn sweep(&mut self, id: GroupId) -> Option<GroupState> {
        let team = self.of(id);
        if team.readiness.is_some() || !team.members.is_empty() {
            return None;
        }
        let team = self.teams[id as usize].take()?;
        self.index.remove(&team.key);
        self.free.push(id);
        Some(team)
    }
}
