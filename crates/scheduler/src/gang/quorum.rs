//! `PreEnqueue` of pod groups: the group object, its quorum of pods and scheduling gates, and the condition that held
//! members report.
//!
//! # Invariants
//!
//! - A held group is in no sub-queue, and no scheduling attempt is counted for it.
//! - The condition of a held member is written once per change of its message.

use std::collections::BTreeSet;

use muster_api::consts::reasons;
use muster_api::time::Time;
use muster_tree::{Text, literal};

use super::{
    GroupCounts, GroupId, GroupOutcome, GroupReadiness, GroupStatus, HoldReason, UnschedulableMember,
};
use crate::cache::PodId;
use crate::pod::{GroupKey, PodKey};
use crate::queue::{EntryId, QueuePosition};
use crate::{Scheduler, SchedulingDecision, SchedulingOutcome};

/// Fewer than `minCount` pods exist.
const QUORUM: Text = literal!("waiting for minCount pods from a gang to appear in scheduling queue");
/// Another member fails `PreEnqueue`.
const FORBIDDEN: Text =
    literal!("waiting for another pod of the pod group, which cannot be scheduled with it");
/// Another member is gated.
const GATED: Text = literal!("waiting for another pod of the pod group, which has scheduling gates");

impl Scheduler {
    /// A pod group was added or updated.
    pub fn update_group(&mut self, key: &GroupKey, standing: GroupReadiness) {
        let id = self.cache.groups.id(key);
        let team = self.cache.groups.of_mut(id);
        if team.readiness.as_ref() == Some(&standing) {
            return;
        }
        let helps = !only_asks_for_more(team.readiness.as_ref(), &standing);
        team.readiness = Some(standing);
        // Group priority and disruption mode change the victims of other pods: cached fit errors are stale.
        self.cache.changes += 1;
        self.watch_deadline(id);
        let Some(entry) = self.cache.groups.of(id).entry else { return };
        self.reorder(entry);
        self.update_hold(id);
        if helps {
            self.queue.requeue(entry);
        }
    }

    /// A pod group was deleted: pending members are held until it exists again; placed members stay.
    pub fn delete_group(&mut self, key: &GroupKey) {
        let Some(id) = self.cache.groups.find(key) else { return };
        let team = self.cache.groups.of_mut(id);
        team.readiness = None;
        team.first_attempt = None;
        self.cache.changes += 1;
        self.update_hold(id);
        self.sweep_team(id);
    }

    /// The number of members by state.
    #[must_use]
    pub fn group_counts(&self, key: &GroupKey) -> GroupCounts {
        self.cache.groups.find(key).map(|id| self.cache.groups.of(id).counts()).unwrap_or_default()
    }

    /// The binding of these members failed: they are forgotten and the group is retried with backoff.
    pub fn group_binding_failed(&mut self, key: &GroupKey, pods: &[PodKey], now: Time) {
        let mut failures = 0;
        for id in pods.iter().filter_map(|pod| self.index.get(pod).copied()).collect::<Vec<PodId>>() {
            let pod = self.cache.pod(id);
            // The pod may have been deleted and created again in another group meanwhile.
            let ours = pod.group.is_some_and(|team| self.cache.groups.of(team).key == *key);
            if !ours || pod.on.is_none() || pod.bound {
                continue;
            }
            self.cache.remove_from_node(id);
            self.enqueue(id);
            let pod = self.cache.pod_mut(id);
            pod.failures = pod.failures.saturating_add(1);
            failures = failures.max(pod.failures);
        }
        let team = self.cache.groups.find(key).map(|id| self.cache.groups.of(id));
        if let Some(entry) = team.filter(|team| failures > 0 && team.held.is_none()).and_then(|it| it.entry) {
            self.queue.retry_with_backoff(entry, now, failures);
        }
        self.requeue_unschedulable();
    }

    /// Adds a pending member to the entry of its group.
    pub(crate) fn join_entry(&mut self, id: PodId, team_id: GroupId, created: Time) {
        let priority = self.cache.pod(id).priority;
        let team = self.cache.groups.of(team_id);
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
        self.cache.pod_mut(id).entry = Some(entry);
        let team = self.cache.groups.of_mut(team_id);
        team.entry = Some(entry);
        if team.held.is_some() {
            team.unreported.insert(id);
            self.unreported.insert(team_id);
        }
        self.update_hold(team_id);
        self.queue.requeue(entry);
    }

    /// A member changed: the group may be held now, or be schedulable.
    pub(crate) fn members_changed(&mut self, team: GroupId) {
        if self.sweep_team(team) {
            return;
        }
        self.update_hold(team);
        if let Some(entry) = self.cache.groups.of(team).entry {
            self.queue.requeue(entry);
        }
    }

    fn sweep_team(&mut self, id: GroupId) -> bool {
        let Some(team) = self.cache.groups.sweep(id) else { return false };
        self.unreported.remove(&id);
        set_time(&mut self.report_times, id, team.report_at, None);
        set_time(&mut self.deadlines, id, team.deadline_at, None);
        true
    }

    /// Sets the time at which the members of a held group report.
    fn set_report_time(&mut self, id: GroupId, at: Option<Time>) {
        let before = std::mem::replace(&mut self.cache.groups.of_mut(id).report_at, at);
        set_time(&mut self.report_times, id, before, at);
    }

    /// Sets the time at which the deadline of a group is checked.
    pub(crate) fn set_deadline(&mut self, id: GroupId, at: Option<Time>) {
        let before = std::mem::replace(&mut self.cache.groups.of_mut(id).deadline_at, at);
        set_time(&mut self.deadlines, id, before, at);
    }

    /// Recomputes whether a group is held, and queues or removes its entry.
    pub(crate) fn update_hold(&mut self, id: GroupId) {
        let Some(entry) = self.cache.groups.of(id).entry else { return };
        let why = self.hold_reason(id);
        let held = why.is_some();
        let team = self.cache.groups.of_mut(id);
        if team.held != why {
            team.held = why;
            team.unreported.clear();
            if held {
                team.unreported.extend(&self.queue.entry(entry).members);
                self.unreported.insert(id);
            } else {
                team.held_since = None;
            }
        }
        if held {
            self.queue.leave(entry);
        } else if self.queue.position(entry) == QueuePosition::Detached {
            self.queue.activate(entry);
        }
    }

    /// Why a group is held, and the message of its members.
    fn hold_reason(&self, id: GroupId) -> Option<(HoldReason, Text)> {
        let team = self.cache.groups.of(id);
        match &team.readiness {
            None => {
                let words = format!(
                    "waiting for pods's pod group {:?} to appear in scheduling queue",
                    team.key.1.as_str()
                );
                Some((HoldReason::Group, words.into()))
            }
            Some(GroupReadiness::Waiting { why, words }) => Some(((*why).into(), words.clone())),
            Some(GroupReadiness::Ready(group)) if team.counts().all < group.policy.min() => {
                Some((HoldReason::Pods, QUORUM))
            }
            Some(_) if team.forbidden() > 0 => Some((HoldReason::Gated, FORBIDDEN)),
            Some(_) if team.gated() > 0 => Some((HoldReason::Gated, GATED)),
            Some(_) => None,
        }
    }

    /// The next held group with a condition to report.
    pub(crate) fn next_unreported(&mut self, now: Time) -> Option<GroupId> {
        while let Some(id) = self.unreported.pop_first() {
            let at = *self.cache.groups.of_mut(id).held_since.get_or_insert(now) + self.report_delay;
            if at <= now {
                return Some(id);
            }
            self.set_report_time(id, Some(at));
        }
        let (_, due) = self.report_times.first().copied().filter(|(at, _)| *at <= now)?;
        self.set_report_time(due, None);
        Some(due)
    }

    /// Reports why a group is held; `None` if every member reported that message already.
    pub(crate) fn report_held(&mut self, id: GroupId) -> Option<SchedulingDecision> {
        let team = self.cache.groups.of_mut(id);
        let (why, words) = team.held.clone()?;
        let mut refused = Vec::new();
        for member in std::mem::take(&mut team.unreported) {
            let pod = self.cache.pod_mut(member);
            let words = pod.pre_enqueue_error.clone().unwrap_or_else(|| words.clone());
            if pod.reported_message == words {
                continue;
            }
            pod.reported_message = words.clone();
            refused.push(UnschedulableMember {
                pod: pod.key.clone(),
                reason: reasons::UNSCHEDULABLE,
                message: words.to_string(),
                nominated: self.cache.nominated_name(member),
            });
        }
        (!refused.is_empty()).then(|| self.group_decision(id, GroupStatus::Held(why), refused))
    }

    /// A decision without scheduled pods and victims.
    pub(crate) fn group_decision(
        &self,
        id: GroupId,
        verdict: GroupStatus,
        refused: Vec<UnschedulableMember>,
    ) -> SchedulingDecision {
        let outcome = GroupOutcome {
            status: verdict,
            scheduled: Vec::new(),
            unschedulable: refused,
            victims: Vec::new(),
            victim_groups: Vec::new(),
            nominations_cleared: Vec::new(),
        };
        SchedulingDecision {
            group: self.cache.groups.of(id).key.clone(),
            outcome: SchedulingOutcome::Group(Box::new(outcome)),
        }
    }

    /// Whether victims of an earlier preemption still run on nodes that members are nominated for.
    pub(crate) fn preemption_in_progress(&self, entry: EntryId) -> bool {
        let members = &self.queue.entry(entry).members;
        members.iter().any(|id| {
            let pod = self.cache.pod(*id);
            let leaving = |other: &PodId| {
                self.cache.pod(*other).evicted && self.cache.rank(*other) < self.cache.rank(*id)
            };
            pod.nominated.is_some_and(|row| self.cache.table.pods(row).iter().any(leaving))
        })
    }
}

fn set_time(times: &mut BTreeSet<(Time, GroupId)>, id: GroupId, before: Option<Time>, at: Option<Time>) {
    if let Some(before) = before {
        times.remove(&(before, id));
    }
    times.extend(at.map(|at| (at, id)));
}

/// Whether only `minCount` grew: such an update cannot make the group schedulable.
fn only_asks_for_more(before: Option<&GroupReadiness>, after: &GroupReadiness) -> bool {
    let (Some(GroupReadiness::Ready(before)), GroupReadiness::Ready(after)) = (before, after) else {
        return false;
    };
    let more = after.policy.min() > before.policy.min();
    more && super::GroupSpec { policy: after.policy, ..before.clone() } == *after
}
