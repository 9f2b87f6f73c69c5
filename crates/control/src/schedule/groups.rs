//! What is known of gangs, what the scheduler hears of them, and what is said in their status.
//!
//! # Invariants
//!
//! - A pod belongs for ever to the group that it named when it was first seen; a later change is told and ignored.
//! - A group is looked at again the moment that something it refers to appears or changes. Nothing polls.
//! - Only groups whose pods are ours are written to, a while after the first of several changes, and only when there
//!   is something new to say. Workloads are never written.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use muster_api::gang::status::{self, Verdict};
use muster_api::gang::{
    self, Belongs, Disruption, Form, GroupFacts, Membership, Missing, Origin, Policy, Reads, Resolved,
    WorkloadFacts,
};
use muster_api::kinds;
use muster_api::meta;
use muster_api::paths::{pod as path, pod_group};
use muster_api::pod::Phase;
use muster_api::port::{Act, Call, Guard, Kind, Object, Part, Uid};
use muster_api::time::Time;
use muster_api::words::managers;
use muster_scheduler::{
    self as scheduler, Group, GroupCounts, GroupKey, GroupOutcome, GroupVerdict, Held, Pod, PodKey,
    Scheduler, Standing, Waiting,
};
use muster_tree::Text;

use super::steps;
use crate::cache::{Caches, Seen};
use crate::counters::GroupNumbers;
use crate::plan::{Key, Plan, Step, Wake};

/// How long changes of a group are gathered before its status is written.
pub const GATHER: Duration = Duration::from_millis(100);
/// How long a group or a pod may wait before that is said: most gangs are whole a moment after their first pod.
pub const PATIENCE: Duration = Duration::from_secs(1);

/// What is known of all gangs.
#[derive(Debug)]
pub struct Groups {
    form: Form,
    reads: Reads,
    workloads: BTreeMap<PodKey, WorkloadFacts>,
    groups: BTreeMap<GroupKey, Known>,
    members: BTreeMap<PodKey, Member>,
    /// Groups by the Workload that they name.
    of_workload: BTreeMap<PodKey, BTreeSet<GroupKey>>,
    numbers: GroupNumbers,
    /// How often the members of a group were judged.
    #[cfg(test)]
    pub judged: usize,
}

/// A group that there is an object of, or that pods name.
#[derive(Debug)]
struct Known {
    belongs: Belongs,
    object: Option<(Kind, GroupFacts)>,
    pods: BTreeSet<PodKey>,
    /// Pods with a node that have not failed.
    placed: usize,
    /// Pods that are ours to place.
    ours: usize,
    told: Told,
}

/// What was decided about a group, and who says so.
#[derive(Debug, Default)]
struct Told {
    verdict: Verdict,
    /// How many were enough when enough had nodes: it may lose some again before that is said.
    reached: Option<usize>,
    /// Since when there is nothing to say but that it waits.
    waits_since: Option<Time>,
    /// Whether something was decided that is to be gathered with what follows.
    fresh: bool,
    /// Whether pods of ours were seen since there is this object.
    mine: bool,
    /// Who places its pods.
    by: Option<Text>,
    /// Who evicts it as a whole.
    evicted_by: Option<Text>,
}

#[derive(Debug)]
struct Member {
    uid: Uid,
    group: GroupKey,
    membership: Membership,
    hold: Option<Text>,
    placed: bool,
    ours: bool,
}

impl Default for Groups {
    fn default() -> Groups {
        Groups::new(Form::Proposal, Reads::default())
    }
}

impl Groups {
    /// Gangs that are spelled so, as far as their marks count.
    pub fn new(form: Form, reads: Reads) -> Groups {
        Groups {
            form,
            reads: Reads {
                groups: reads.groups && form.groups().is_some(),
                entries: reads.entries && form.reads_workloads(),
                ..reads
            },
            workloads: BTreeMap::new(),
            groups: BTreeMap::new(),
            members: BTreeMap::new(),
            of_workload: BTreeMap::new(),
            numbers: GroupNumbers::default(),
            #[cfg(test)]
            judged: 0,
        }
    }

    /// The kinds it must see.
    pub fn kinds(&self) -> Vec<Kind> {
        let groups = self.form.groups().filter(|_| self.reads.groups);
        let reads = self.form.reads_workloads() && (self.reads.groups || self.reads.entries);
        let workloads = reads.then(|| self.form.workloads());
        groups.into_iter().chain(workloads).cloned().collect()
    }

    /// The kinds it sees where they are.
    pub fn kinds_if_served(&self) -> Vec<Kind> {
        let foreign = [
            (self.reads.coscheduling, &gang::COSCHEDULING_GROUPS),
            (self.reads.volcano, &gang::VOLCANO_GROUPS),
        ];
        foreign.into_iter().filter(|(reads, _)| *reads).map(|(_, kind)| kind.clone()).collect()
    }

    /// Hears of a Workload or a group; the keys to look at.
    pub fn hear(
        &mut self,
        scheduler: &mut Scheduler,
        seen: &Seen<'_>,
        names: &[&str],
        caches: &Caches,
    ) -> Vec<Wake> {
        if self.form.reads_workloads() && seen.key.kind == *self.form.workloads() {
            return self.hear_workload(scheduler, seen);
        }
        match Origin::of(&seen.key.kind) {
            Some(origin) => {
                // Our own words in its status change nothing.
                let Some(group) = self.hear_group(origin, scheduler, seen) else { return Vec::new() };
                self.judge_members(scheduler, &group, names, caches);
                let wake = self.wake_of(&group);
                self.forget_if_empty(&group);
                wake.into_iter().collect()
            }
            None => Vec::new(),
        }
    }

    fn hear_workload(&mut self, scheduler: &mut Scheduler, seen: &Seen<'_>) -> Vec<Wake> {
        let name = (seen.key.namespace.clone(), seen.key.name.clone());
        let facts = seen.after.map(|it| WorkloadFacts::of(&it.tree));
        if self.workloads.get(&name) == facts.as_ref() {
            return Vec::new();
        }
        match facts {
            Some(facts) => self.workloads.insert(name.clone(), facts),
            None => self.workloads.remove(&name),
        };
        let users: Vec<GroupKey> = self.of_workload.get(&name).into_iter().flatten().cloned().collect();
        users.iter().for_each(|group| self.feed(scheduler, group));
        users.iter().filter_map(|group| self.wake_of(group)).collect()
    }

    /// Takes in a group; which one, if it is not as it was.
    fn hear_group(&mut self, origin: Origin, scheduler: &mut Scheduler, seen: &Seen<'_>) -> Option<GroupKey> {
        let belongs = origin.belongs(&seen.key.name);
        let group = (seen.key.namespace.clone(), belongs.key());
        let facts = seen.after.map(|it| GroupFacts::of(origin, &it.tree));
        let known = self.groups.get(&group).and_then(|it| it.object.as_ref()).map(|(_, facts)| facts);
        if known == facts.as_ref() {
            return None;
        }
        let another = known.map(|it| &it.uid) != facts.as_ref().map(|it| &it.uid);
        self.unlink(&group);
        let known = self.groups.entry(group.clone()).or_insert_with(|| Known::new(belongs));
        known.object = facts.map(|facts| (seen.key.kind.clone(), facts));
        if another {
            let by = known.told.by.take();
            known.told = Told { mine: known.ours > 0, by, ..Told::default() };
        }
        self.link(&group);
        self.feed(scheduler, &group);
        Some(group)
    }

    /// Notes which Workload a group names.
    fn link(&mut self, group: &GroupKey) {
        if let Some(workload) = self.workload_of(group) {
            self.of_workload.entry(workload).or_default().insert(group.clone());
        }
    }

    fn unlink(&mut self, group: &GroupKey) {
        let Some(workload) = self.workload_of(group) else { return };
        if let Some(users) = self.of_workload.get_mut(&workload) {
            users.remove(group);
            if users.is_empty() {
                self.of_workload.remove(&workload);
            }
        }
    }

    fn workload_of(&self, group: &GroupKey) -> Option<PodKey> {
        let known = self.groups.get(group)?;
        let name = match (&known.belongs, &known.object) {
            (Belongs::Entry { workload, .. }, _) => workload.clone(),
            (_, object) => object.as_ref()?.1.reference.as_ref()?.workload.clone(),
        };
        Some((group.0.clone(), name))
    }

    /// Tells the scheduler of a group as it is now.
    fn feed(&self, scheduler: &mut Scheduler, group: &GroupKey) {
        match self.resolved(group) {
            Some(resolved) => scheduler.group(group, standing(resolved)),
            None => match self.missing(group) {
                Some(words) => scheduler.group(group, Standing::Waiting { why: Waiting::Group, words }),
                None => scheduler.group_gone(group),
            },
        }
    }

    /// What pods of others' groups are told while theirs is missing: its name, not the one that we gave it.
    fn missing(&self, group: &GroupKey) -> Option<Text> {
        let known = self.groups.get(group).filter(|it| !it.pods.is_empty())?;
        let (Belongs::Coscheduling(name) | Belongs::Volcano(name)) = &known.belongs else { return None };
        let words = format!("waiting for pods's pod group \"{name}\" to appear in scheduling queue");
        Some(Text::from(words))
    }

    fn resolved(&self, group: &GroupKey) -> Option<Resolved> {
        let known = self.groups.get(group)?;
        let workload = self.workload_of(group).and_then(|name| self.workloads.get(&name));
        if let Belongs::Entry { workload: name, entry, .. } = &known.belongs {
            return (!known.pods.is_empty()).then(|| gang::resolve_entry(workload, name, entry));
        }
        known.object.as_ref().map(|(_, facts)| gang::resolve(facts, workload))
    }

    /// How many pods with nodes are enough for a group; no number is, while that is not known.
    pub fn enough(&self, group: &GroupKey) -> usize {
        match self.resolved(group) {
            Some(Resolved::Settled(it)) => it.policy.enough(),
            _ => usize::MAX,
        }
    }

    /// A group may name another Workload than its pods do, and then another again.
    fn judge_members(
        &mut self,
        scheduler: &mut Scheduler,
        group: &GroupKey,
        names: &[&str],
        caches: &Caches,
    ) {
        #[cfg(test)]
        {
            self.judged += 1;
        }
        let pods: Vec<PodKey> = self.groups.get(group).into_iter().flat_map(|it| &it.pods).cloned().collect();
        for name in pods {
            let Some(member) = self.members.get(&name) else { continue };
            let hold = self.hold_of(&member.membership, group);
            if hold == member.hold {
                continue;
            }
            if let Some(member) = self.members.get_mut(&name) {
                member.hold = hold;
            }
            if let Some(pod) = caches.get(&kinds::PODS, &name.0, &name.1) {
                scheduler.pod(&self.read_pod(pod, names));
            }
        }
    }

    /// Reads a pod as the scheduler wants it, with what is to be known of its group.
    pub fn read_pod(&self, pod: &Object, names: &[&str]) -> Pod {
        let mut pod = Pod::of(&pod.tree, names);
        if let Some(member) = self.members.get(&pod.key) {
            pod.group = Some(member.group.clone());
            pod.hold.clone_from(&member.hold);
        }
        pod
    }

    fn hold_of(&self, membership: &Membership, group: &GroupKey) -> Option<Text> {
        let (_, facts) = self.groups.get(group)?.object.as_ref()?;
        gang::contradiction(membership, facts).map(Text::from)
    }

    /// Takes in a pod that is new or changed. The keys to look at, and whether it named another group in vain.
    pub fn take_in(
        &mut self,
        scheduler: &mut Scheduler,
        seen: &Seen<'_>,
        names: &[&str],
        caches: &Caches,
    ) -> (Vec<Wake>, bool) {
        let name = (seen.key.namespace.clone(), seen.key.name.clone());
        let Some(pod) = seen.after else { return (self.pod_gone(scheduler, &name), false) };
        let uid = meta::uid(&pod.tree);
        let is_new = seen.before.is_none_or(|before| meta::uid(&before.tree) != uid);
        if !is_new {
            let moved = self.is_moved(&name, seen, caches);
            return (self.count(&name, pod, names), moved);
        }
        let mut wakes = self.pod_gone(scheduler, &name);
        if let Some(membership) = self.read(pod, caches) {
            self.join(scheduler, &name, uid, membership, pod);
            wakes.extend(self.count(&name, pod, names));
        }
        (wakes, false)
    }

    /// What a pod says of its group, where such groups can be.
    fn read(&self, pod: &Object, caches: &Caches) -> Option<Membership> {
        let membership = Membership::of(&pod.tree, self.reads)?;
        let known = |kind: &Kind| caches.kinds().any(|it| it == kind);
        let is = match &membership.belongs {
            Belongs::Native(_) | Belongs::Entry { .. } => true,
            Belongs::Coscheduling(_) => known(&gang::COSCHEDULING_GROUPS),
            Belongs::Volcano(_) => known(&gang::VOLCANO_GROUPS),
        };
        is.then_some(membership)
    }

    /// Whether a pod that was seen before names another group now.
    fn is_moved(&self, name: &PodKey, seen: &Seen<'_>, caches: &Caches) -> bool {
        let (Some(before), Some(after)) = (seen.before, seen.after) else { return false };
        if before.tree.get("metadata") == after.tree.get("metadata") {
            return false;
        }
        let now = self.read(after, caches);
        now != self.read(before, caches) && now.as_ref() != self.members.get(name).map(|it| &it.membership)
    }

    fn join(
        &mut self,
        scheduler: &mut Scheduler,
        name: &PodKey,
        uid: Uid,
        membership: Membership,
        pod: &Object,
    ) {
        let group = (name.0.clone(), membership.belongs.key());
        let known =
            self.groups.entry(group.clone()).or_insert_with(|| Known::new(membership.belongs.clone()));
        known.told.by = Some(steps::scheduler_of(pod));
        let first = known.pods.is_empty();
        known.pods.insert(name.clone());
        // A group that is no object, or none of ours, begins with its first pod.
        if first && !matches!(membership.belongs, Belongs::Native(_)) {
            self.link(&group);
            self.feed(scheduler, &group);
        }
        let hold = self.hold_of(&membership, &group);
        let member = Member { uid, group, membership, hold, placed: false, ours: false };
        self.members.insert(name.clone(), member);
    }

    /// Counts a pod as it is now.
    fn count(&mut self, name: &PodKey, pod: &Object, names: &[&str]) -> Vec<Wake> {
        let Some(member) = self.members.get_mut(name) else { return Vec::new() };
        debug_assert_eq!(member.uid, meta::uid(&pod.tree), "a namesake is another member");
        let phase = Phase::of(pod.tree.str_at(path::PHASE));
        let placed = !pod.tree.str_at(path::NODE_NAME).is_empty() && phase != Phase::Failed;
        let ours = names.contains(&pod.tree.str_at(path::SCHEDULER));
        let was = (std::mem::replace(&mut member.placed, placed), std::mem::replace(&mut member.ours, ours));
        let group = member.group.clone();
        if let Some(known) = self.groups.get_mut(&group) {
            known.recount(was, (placed, ours));
        }
        if placed && !was.0 {
            self.note_reached(&group);
        }
        self.wake_of(&group).into_iter().collect()
    }

    /// Remembers that a group has enough pods with nodes.
    fn note_reached(&mut self, group: &GroupKey) {
        let enough = self.enough(group);
        if let Some(known) = self.groups.get_mut(group).filter(|it| it.placed >= enough) {
            known.told.reached = known.told.reached.max(Some(enough));
        }
    }

    fn pod_gone(&mut self, scheduler: &mut Scheduler, name: &PodKey) -> Vec<Wake> {
        let Some(member) = self.members.remove(name) else { return Vec::new() };
        let group = member.group;
        if let Some(known) = self.groups.get_mut(&group) {
            known.pods.remove(name);
            known.recount((member.placed, member.ours), (false, false));
        }
        let wake = self.wake_of(&group);
        let ends = self.groups.get(&group).is_some_and(|it| it.pods.is_empty() && it.object.is_none());
        if ends {
            self.unlink(&group);
            self.feed(scheduler, &group);
        }
        self.forget_if_empty(&group);
        wake.into_iter().collect()
    }

    fn forget_if_empty(&mut self, group: &GroupKey) {
        if self.groups.get(group).is_some_and(|it| it.pods.is_empty() && it.object.is_none()) {
            self.groups.remove(group);
        }
    }

    /// The UID of a group's object; empty when it has none.
    pub fn uid_of(&self, group: &GroupKey) -> Uid {
        let object = self.groups.get(group).and_then(|it| it.object.as_ref());
        object.map(|(_, facts)| facts.uid.clone()).unwrap_or_default()
    }

    /// Who places the pods of a group.
    pub fn scheduler_of(&self, group: &GroupKey) -> Text {
        let by = self.groups.get(group).and_then(|it| it.told.by.clone());
        by.unwrap_or_else(|| managers::SCHEDULER.clone())
    }

    /// Something was decided about a group; the keys to look at.
    pub fn decided(&mut self, group: &GroupKey, outcome: &GroupOutcome, counts: GroupCounts) -> Vec<Key> {
        self.numbers.tried(&outcome.verdict);
        let by = self.scheduler_of(group);
        let enough = self.enough(group);
        let mut keys = self.evicted(&outcome.evict, &by);
        if let Some(known) = self.groups.get_mut(group) {
            let told = &mut known.told;
            told.fresh = true;
            // Who has enough on their way is not refused because others found no place.
            let on_their_way = counts.assigned + counts.assumed >= enough;
            match verdict(outcome) {
                Verdict::Unschedulable(_) if on_their_way => {}
                verdict => told.verdict = verdict,
            }
        }
        keys.extend(self.key_of(group));
        keys
    }

    /// Somebody has these pods evicted: groups that go as a whole say so. The keys to look at.
    pub fn evicted(&mut self, victims: &[PodKey], by: &Text) -> Vec<Key> {
        let groups: BTreeSet<GroupKey> =
            victims.iter().filter_map(|pod| Some(self.members.get(pod)?.group.clone())).collect();
        let whole = |group: &GroupKey| matches!(self.resolved(group), Some(Resolved::Settled(it)) if it.disruption == Disruption::All);
        let groups: Vec<GroupKey> = groups.into_iter().filter(whole).collect();
        for group in &groups {
            if let Some(known) = self.groups.get_mut(group) {
                known.told.evicted_by = Some(by.clone());
            }
        }
        groups.iter().filter_map(|group| self.key_of(group)).collect()
    }

    /// A batch of pods that was decided about then has its nodes now.
    pub fn bound(&mut self, since: Time, now: Time) {
        self.numbers.times.add(now.since(since));
    }

    /// The key under which the status of a group is written.
    fn key_of(&self, group: &GroupKey) -> Option<Key> {
        let known = self.groups.get(group)?;
        let (Belongs::Native(name) | Belongs::Coscheduling(name) | Belongs::Volcano(name)) = &known.belongs
        else {
            return None;
        };
        let (kind, _) = known.object.as_ref()?;
        Some(Key::new(kind, &group.0, name))
    }

    fn wake_of(&self, group: &GroupKey) -> Option<Wake> {
        Some(Wake { key: self.key_of(group)?, after: GATHER })
    }

    /// Says in the status of a group what is known of it, unless it says so already.
    pub fn say(&mut self, key: &Key, scheduler: &Scheduler, caches: &Caches, now: Time) -> Plan {
        let Some(origin) = Origin::of(&key.kind) else { return Plan::nothing() };
        let group = (key.namespace.clone(), origin.belongs(&key.name).key());
        let Some(object) = caches.find(key) else { return Plan::nothing() };
        let resolved = self.resolved(&group);
        let Some(known) = self.groups.get_mut(&group) else { return Plan::nothing() };
        if std::mem::take(&mut known.told.fresh) {
            return Plan::nothing().again(now + GATHER);
        }
        known.told.mine |= known.ours > 0;
        let counted = object.tree.int_at(pod_group::SCHEDULED).unwrap_or(0) > 0;
        let left_over = known.pods.is_empty() && counted;
        if !known.told.mine && !left_over {
            return Plan::nothing();
        }
        let enough = match &resolved {
            Some(Resolved::Settled(it)) => Ok(it.policy.enough()),
            Some(Resolved::Waits { words, .. }) => Err(words.as_str()),
            None => return Plan::nothing(),
        };
        let seen = status::Seen {
            enough,
            alive: scheduler.group_counts(&group).all,
            placed: known.placed,
            reached: known.told.reached,
            verdict: &known.told.verdict,
            evicted_by: known.told.evicted_by.as_ref(),
        };
        let waits = status::said(origin, &object.tree, &seen).is_some_and(|it| it.status == "Unknown");
        let patch = status::patch(origin, &object.tree, &seen, now);
        let Some(patch) = patch else { return Plan::nothing() };
        if !waits {
            known.told.waits_since = None;
        } else {
            let until = *known.told.waits_since.get_or_insert(now) + PATIENCE;
            if now < until {
                return Plan::nothing().again(until);
            }
        }
        let by = known.told.by.clone().unwrap_or_else(|| managers::SCHEDULER.clone());
        if is_first_time(origin, object, &object.tree.merge(&patch)) {
            let created = known.pods.iter().filter_map(|(namespace, name)| {
                meta::created(&caches.get(&kinds::PODS, namespace, name)?.tree)
            });
            self.numbers.waits.add(created.min().map(|first| now.since(first)).unwrap_or_default());
        }
        Plan::of(vec![Step::One(Call {
            by,
            on: key.target(Part::Status),
            guard: Guard { uid: Some(meta::uid(&object.tree)), revision: Some(object.revision) },
            act: Act::Merge(patch),
        })])
    }

    /// What is counted of groups, and how many there are now.
    pub fn numbers(&self) -> GroupNumbers {
        let mut numbers = self.numbers.clone();
        for (group, known) in self.groups.iter().filter(|(_, known)| known.object.is_some()) {
            let Some(Resolved::Settled(it)) = self.resolved(group) else {
                *numbers.groups.entry(("unknown", false)).or_default() += 1;
                continue;
            };
            let policy = if it.policy == Policy::Basic { "basic" } else { "gang" };
            let scheduled = known.placed >= it.policy.enough();
            *numbers.groups.entry((policy, scheduled)).or_default() += 1;
        }
        numbers
    }
}

impl Known {
    fn new(belongs: Belongs) -> Known {
        Known { belongs, object: None, pods: BTreeSet::new(), placed: 0, ours: 0, told: Told::default() }
    }

    /// One pod was counted so and is counted otherwise now.
    fn recount(&mut self, was: (bool, bool), is: (bool, bool)) {
        self.placed = self.placed - usize::from(was.0) + usize::from(is.0);
        self.ours = self.ours - usize::from(was.1) + usize::from(is.1);
        self.told.mine |= self.ours > 0;
    }
}

fn is_first_time(origin: Origin, before: &Object, after: &muster_tree::Tree) -> bool {
    !status::is_scheduled(origin, &before.tree) && status::is_scheduled(origin, after)
}

fn standing(resolved: Resolved) -> Standing {
    let settled = match resolved {
        Resolved::Settled(settled) => settled,
        Resolved::Waits { missing: Missing::Workload | Missing::Template, words } => {
            return Standing::Waiting { why: Waiting::Workload, words: Text::from(words) };
        }
    };
    Standing::Ready(Group {
        policy: match settled.policy {
            Policy::Basic => scheduler::Policy::Basic,
            Policy::Gang { min } => scheduler::Policy::Gang { min },
        },
        priority: settled.priority,
        preempts: settled.preempts,
        disruption: match settled.disruption {
            Disruption::Single => scheduler::Disruption::Single,
            Disruption::All => scheduler::Disruption::All,
        },
        topology: settled.topology,
        deadline: settled.deadline,
    })
}

fn verdict(outcome: &GroupOutcome) -> Verdict {
    match &outcome.verdict {
        GroupVerdict::Placed => Verdict::Placed,
        // What is missing is counted, or resolved, when it is said.
        GroupVerdict::Held(Held::Pods | Held::Group | Held::Workload) => Verdict::None,
        GroupVerdict::Held(Held::Gated) => {
            let words = outcome.refused.first().map(|it| it.message.clone());
            Verdict::Held(words.unwrap_or_else(|| "a pod of the group cannot be queued yet".to_owned()))
        }
        GroupVerdict::Unschedulable(why) => Verdict::Unschedulable(why.clone()),
        GroupVerdict::Error(why) => Verdict::Error(why.clone()),
        GroupVerdict::Late(why) => Verdict::Late(why.clone()),
    }
}
