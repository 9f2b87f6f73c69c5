//! All groups that are known, by number: what was told of them, who belongs to them, and how many are where.
//!
//! # Invariants
//!
//! - Counts follow every change of a member at once: [`crate::world::World::change`] is the only way to change what
//!   they depend on.
//! - A number is given back when nobody told of the group and nobody belongs to it.

use std::collections::{BTreeMap, BTreeSet};

use muster_api::time::Time;
use muster_tree::Text;

use super::{Disruption, Group, GroupCounts, Held, Standing};
use crate::pod::GroupKey;
use crate::world::PodId;

/// A group, by number.
pub type TeamId = u32;

/// Where a member is, for counting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// On a node, as the server says.
    Assigned,
    /// Meant to go to a node.
    Assumed,
    /// Without a node.
    Waiting {
        /// Whether it is gated.
        gated: bool,
        /// Whether it must not be queued.
        held: bool,
    },
    /// Deleted before it had a node: it no longer counts.
    Leaving,
}

/// One group.
#[derive(Debug, Default)]
pub struct Team {
    /// Its name.
    pub key: GroupKey,
    /// What was told of it.
    pub standing: Option<Standing>,
    /// All its pods.
    pub members: BTreeSet<PodId>,
    /// Its entry in the queue.
    pub entry: Option<u32>,
    /// When it was first tried, since enough were last bound.
    pub tried: Option<Time>,
    /// Why it is not looked at.
    pub held: Option<(Held, Text)>,
    /// Since when, as far as anybody asked.
    pub held_since: Option<Time>,
    /// When its members will be told.
    pub tell_at: Option<Time>,
    /// When its time will be over.
    pub late_at: Option<Time>,
    /// Members that were not told so yet.
    pub unsaid: BTreeSet<PodId>,
    counts: GroupCounts,
    gated: usize,
    forbidden: usize,
}

impl Team {
    /// Its policy, when it can be looked at.
    pub fn group(&self) -> Option<&Group> {
        match &self.standing {
            Some(Standing::Ready(group)) => Some(group),
            _ => None,
        }
    }

    /// How many are where.
    pub fn counts(&self) -> GroupCounts {
        self.counts
    }

    /// How many are on nodes or meant to go there.
    pub fn scheduled(&self) -> usize {
        self.counts.assigned + self.counts.assumed
    }

    /// When its time is over, if it was tried and too few are bound.
    pub fn due_at(&self) -> Option<Time> {
        let group = self.group().filter(|group| self.counts.assigned < group.policy.min())?;
        Some(self.tried? + group.deadline?)
    }

    /// How many that wait are gated.
    pub fn gated(&self) -> usize {
        self.gated
    }

    /// How many that wait must not be queued.
    pub fn forbidden(&self) -> usize {
        self.forbidden
    }

    /// Whether its pods go together.
    pub fn goes_whole(&self) -> bool {
        self.group().is_some_and(|group| group.disruption == Disruption::All)
    }

    /// Counts a member (`more`), or takes it off.
    pub fn count(&mut self, state: State, more: bool) {
        let GroupCounts { all, assigned, assumed, waiting } = &mut self.counts;
        let bump = |number: &mut usize| *number = if more { *number + 1 } else { *number - 1 };
        match state {
            State::Leaving => return,
            State::Assigned => bump(assigned),
            State::Assumed => bump(assumed),
            State::Waiting { gated, held } => {
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
            self.tried = None;
        }
    }
}

/// All groups.
#[derive(Debug, Default)]
pub struct Teams {
    teams: Vec<Option<Team>>,
    index: BTreeMap<GroupKey, TeamId>,
    free: Vec<TeamId>,
}

impl Teams {
    /// The number of a group that is known.
    pub fn find(&self, key: &GroupKey) -> Option<TeamId> {
        self.index.get(key).copied()
    }

    /// The number of a group, given if need be.
    pub fn id(&mut self, key: &GroupKey) -> TeamId {
        if let Some(id) = self.index.get(key) {
            return *id;
        }
        let id = self.free.pop().unwrap_or_else(|| {
            self.teams.push(None);
            TeamId::try_from(self.teams.len() - 1).expect("fewer groups than 2^32")
        });
        self.teams[id as usize] = Some(Team { key: key.clone(), ..Team::default() });
        self.index.insert(key.clone(), id);
        id
    }

    /// A group that exists.
    pub fn of(&self, id: TeamId) -> &Team {
        self.teams[id as usize].as_ref().expect("a numbered group exists")
    }

    /// A group that exists.
    pub fn of_mut(&mut self, id: TeamId) -> &mut Team {
        self.teams[id as usize].as_mut().expect("a numbered group exists")
    }

    /// Forgets a group that nobody tells of and nobody belongs to, and hands it over.
    pub fn sweep(&mut self, id: TeamId) -> Option<Team> {
        let team = self.of(id);
        if team.standing.is_some() || !team.members.is_empty() {
            return None;
        }
        let team = self.teams[id as usize].take()?;
        self.index.remove(&team.key);
        self.free.push(id);
        Some(team)
    }
}
