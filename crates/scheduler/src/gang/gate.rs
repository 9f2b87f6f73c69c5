//! Which groups are looked at at all: what is told of groups and their members, and what the waiting are told.
//!
//! # Invariants
//!
//! - A held group is in no list of the queue, and no attempt is counted for it.
//! - A member is told why its group is held once per change of the words.

use std::collections::BTreeSet;

use muster_api::time::Time;
use muster_api::words::reasons;
use muster_tree::{Text, literal};

use super::{GroupCounts, GroupOutcome, GroupVerdict, Held, RefusedMember, Standing, TeamId};
use crate::pod::{GroupKey, PodKey};
use crate::queue::{EntryId, Spot};
use crate::world::PodId;
use crate::{Decision, Outcome, Scheduler};

/// Too few members have come.
const QUORUM: Text = literal!("waiting for minCount pods from a gang to appear in scheduling queue");
/// Another member must not be queued.
const FORBIDDEN: Text =
    literal!("waiting for another pod of the pod group, which cannot be scheduled with it");
/// Another member is gated.
const GATED: Text = literal!("waiting for another pod of the pod group, which has scheduling gates");

impl Scheduler {
    /// A group is there, or changed.
    pub fn group(&mut self, key: &GroupKey, standing: Standing) {
        let id = self.world.teams.id(key);
        let team = self.world.teams.of_mut(id);
        if team.standing.as_ref() == Some(&standing) {
            return;
        }
        let helps = !only_asks_for_more(team.standing.as_ref(), &standing);
        team.standing = Some(standing);
        // Priorities and what goes together matter to those who look for victims.
        self.world.changes += 1;
        self.watch_deadline(id);
        let Some(entry) = self.world.teams.of(id).entry else { return };
        self.reorder(entry);
        self.review(id);
        if helps {
            self.queue.wake_parked(entry);
        }
    }

    /// A group is gone: its pods that wait go on waiting, for it to come back; those on nodes stay.
    pub fn group_gone(&mut self, key: &GroupKey) {
        let Some(id) = self.world.teams.find(key) else { return };
        let team = self.world.teams.of_mut(id);
        team.standing = None;
        team.tried = None;
        self.world.changes += 1;
        self.review(id);
        self.sweep_team(id);
    }

    /// How many pods of a group are where.
    #[must_use]
    pub fn group_counts(&self, key: &GroupKey) -> GroupCounts {
        self.world.teams.find(key).map(|id| self.world.teams.of(id).counts()).unwrap_or_default()
    }

    /// These placed members of a group could not be bound: they wait again, and the group is looked at after a while.
    pub fn retry_group(&mut self, key: &GroupKey, pods: &[PodKey], now: Time) {
        let mut failures = 0;
        for id in pods.iter().filter_map(|pod| self.index.get(pod).copied()).collect::<Vec<PodId>>() {
            let pod = self.world.pod(id);
            let ours = pod.team.is_some_and(|team| self.world.teams.of(team).key == *key);
            if !ours || pod.on.is_none() || pod.bound {
                continue;
            }
            self.world.take(id);
            self.queue_up(id);
            let pod = self.world.pod_mut(id);
            pod.failures = pod.failures.saturating_add(1);
            failures = failures.max(pod.failures);
        }
        let team = self.world.teams.find(key).map(|id| self.world.teams.of(id));
        if let Some(entry) = team.filter(|team| failures > 0 && team.held.is_none()).and_then(|it| it.entry) {
            self.queue.delay(entry, now, failures);
        }
        self.wake();
    }

    /// A member that waits joins the entry of its group.
    pub(crate) fn join_entry(&mut self, id: PodId, team_id: TeamId, created: Time) {
        let priority = self.world.pod(id).priority;
        let team = self.world.teams.of(team_id);
        let own = team.group().and_then(|group| group.priority);
        let (key, known) = (team.key.clone(), team.entry);
        let priority = own.unwrap_or(priority);
        let entry = known.unwrap_or_else(|| self.queue.add(key, Some(team_id), priority, created));
        self.queue.entry_mut(entry).members.push(id);
        if own.is_some() {
            self.queue.join(entry, i64::MIN, created);
        } else {
            self.queue.join(entry, priority, created);
        }
        self.world.pod_mut(id).entry = Some(entry);
        let team = self.world.teams.of_mut(team_id);
        team.entry = Some(entry);
        if team.held.is_some() {
            team.unsaid.insert(id);
            self.talk.insert(team_id);
        }
        self.review(team_id);
        self.queue.wake_parked(entry);
    }

    /// Members of a group are not what they were: it may be held now, or no longer, or be worth another look.
    pub(crate) fn members_changed(&mut self, team: TeamId) {
        if self.sweep_team(team) {
            return;
        }
        self.review(team);
        if let Some(entry) = self.world.teams.of(team).entry {
            self.queue.wake_parked(entry);
        }
    }

    fn sweep_team(&mut self, id: TeamId) -> bool {
        let Some(team) = self.world.teams.sweep(id) else { return false };
        self.talk.remove(&id);
        set_time(&mut self.hushed, id, team.tell_at, None);
        set_time(&mut self.deadlines, id, team.late_at, None);
        true
    }

    /// Has the members of a held group told at this time, and at no other.
    fn tell_at(&mut self, id: TeamId, at: Option<Time>) {
        let before = std::mem::replace(&mut self.world.teams.of_mut(id).tell_at, at);
        set_time(&mut self.hushed, id, before, at);
    }

    /// Has a group looked at when its time is over, and at no other time.
    pub(crate) fn late_at(&mut self, id: TeamId, at: Option<Time>) {
        let before = std::mem::replace(&mut self.world.teams.of_mut(id).late_at, at);
        set_time(&mut self.deadlines, id, before, at);
    }

    /// Looks whether a group is held, and acts on it.
    pub(crate) fn review(&mut self, id: TeamId) {
        let Some(entry) = self.world.teams.of(id).entry else { return };
        let why = self.why_held(id);
        let held = why.is_some();
        let team = self.world.teams.of_mut(id);
        if team.held != why {
            team.held = why;
            team.unsaid.clear();
            if held {
                team.unsaid.extend(&self.queue.entry(entry).members);
                self.talk.insert(id);
            } else {
                team.held_since = None;
            }
        }
        if held {
            self.queue.leave(entry);
        } else if self.queue.spot(entry) == Spot::Out {
            self.queue.activate(entry);
        }
    }

    /// Why a group is not looked at, and what its members are told.
    fn why_held(&self, id: TeamId) -> Option<(Held, Text)> {
        let team = self.world.teams.of(id);
        match &team.standing {
            None => {
                let words = format!(
                    "waiting for pods's pod group {:?} to appear in scheduling queue",
                    team.key.1.as_str()
                );
                Some((Held::Group, words.into()))
            }
            Some(Standing::Waiting { why, words }) => Some(((*why).into(), words.clone())),
            Some(Standing::Ready(group)) if team.counts().all < group.policy.min() => {
                Some((Held::Pods, QUORUM))
            }
            Some(_) if team.forbidden() > 0 => Some((Held::Gated, FORBIDDEN)),
            Some(_) if team.gated() > 0 => Some((Held::Gated, GATED)),
            Some(_) => None,
        }
    }

    /// The next held group with members that are to be told now.
    pub(crate) fn next_to_tell(&mut self, now: Time) -> Option<TeamId> {
        while let Some(id) = self.talk.pop_first() {
            let at = *self.world.teams.of_mut(id).held_since.get_or_insert(now) + self.patience;
            if at <= now {
                return Some(id);
            }
            self.tell_at(id, Some(at));
        }
        let (_, due) = self.hushed.first().copied().filter(|(at, _)| *at <= now)?;
        self.tell_at(due, None);
        Some(due)
    }

    /// Tells the members of a held group why; `None` when all know.
    pub(crate) fn say_held(&mut self, id: TeamId) -> Option<Decision> {
        let team = self.world.teams.of_mut(id);
        let (why, words) = team.held.clone()?;
        let mut refused = Vec::new();
        for member in std::mem::take(&mut team.unsaid) {
            let pod = self.world.pod_mut(member);
            let words = pod.hold.clone().unwrap_or_else(|| words.clone());
            if pod.said == words {
                continue;
            }
            pod.said = words.clone();
            refused.push(RefusedMember {
                pod: pod.key.clone(),
                reason: reasons::UNSCHEDULABLE,
                message: words.to_string(),
                nominated: self.world.nominated_name(member),
            });
        }
        (!refused.is_empty()).then(|| self.spoken(id, GroupVerdict::Held(why), refused))
    }

    /// A decision that places nobody and evicts nobody.
    pub(crate) fn spoken(&self, id: TeamId, verdict: GroupVerdict, refused: Vec<RefusedMember>) -> Decision {
        let outcome = GroupOutcome {
            verdict,
            placed: Vec::new(),
            refused,
            evict: Vec::new(),
            evict_groups: Vec::new(),
            outranked: Vec::new(),
        };
        Decision { group: self.world.teams.of(id).key.clone(), outcome: Outcome::Group(Box::new(outcome)) }
    }

    /// Whether the room that is being made for a group is not free yet: a victim is still on a nominated node.
    pub(crate) fn room_under_way(&self, entry: EntryId) -> bool {
        let members = &self.queue.entry(entry).members;
        members.iter().any(|id| {
            let pod = self.world.pod(*id);
            let leaving = |other: &PodId| {
                self.world.pod(*other).evicted && self.world.rank(*other) < self.world.rank(*id)
            };
            pod.nominated.is_some_and(|row| self.world.table.pods(row).iter().any(leaving))
        })
    }
}

/// Moves a group in a list of times.
fn set_time(times: &mut BTreeSet<(Time, TeamId)>, id: TeamId, before: Option<Time>, at: Option<Time>) {
    if let Some(before) = before {
        times.remove(&(before, id));
    }
    times.extend(at.map(|at| (at, id)));
}

/// Whether a group only asks for more members than before, which helps nobody.
fn only_asks_for_more(before: Option<&Standing>, after: &Standing) -> bool {
    let (Some(Standing::Ready(before)), Standing::Ready(after)) = (before, after) else { return false };
    let more = after.policy.min() > before.policy.min();
    more && super::Group { policy: after.policy, ..before.clone() } == *after
}
