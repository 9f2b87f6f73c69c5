//! Gives the pods of a gang their nodes, all in one stroke.
//!
//! All pods of a group that have places and are not bound yet are looked at together. Each waits until what it needs
//! beforehand is there. As soon as those that are ready, with those that are on nodes, are enough, they are bound by
//! calls that happen together; the others go on waiting, and follow.
//!
//! # Invariants
//!
//! - Bindings that are sent together, with those that have happened, are enough: whoever looks sees none or enough.
//! - Who cannot be bound as decided is given back to the scheduler alone, if there are enough without it; else all are.

use std::collections::{BTreeMap, BTreeSet};

use muster_api::port::{Call, Object, Part, Refusal, Target, Uid};
use muster_api::time::Time;
use muster_api::{kinds, meta};
use muster_scheduler::{GroupKey, PodKey, Scheduler};
use muster_tree::{Text, literal};

use super::{ERRANDS_TIMEOUT, Ready, errands, steps};
use crate::cache::Caches;
use crate::plan::{Key, Plan, Step};

/// The kind of keys that stand for the bindings of a group: no object has it.
static BINDINGS: muster_api::port::Kind = muster_api::port::Kind {
    group: literal!("muster.dev"),
    version: literal!("v1"),
    plural: literal!("bindings"),
};

/// The key that stands for the bindings of a group.
pub fn key_of(group: &GroupKey) -> Key {
    Key::new(&BINDINGS, &group.0, &group.1)
}

/// The group whose bindings a key stands for.
pub fn group_of(key: &Key) -> Option<GroupKey> {
    (key.kind == BINDINGS).then(|| (key.namespace.clone(), key.name.clone()))
}

/// Pods that were decided about and are not bound yet.
#[derive(Debug, Default)]
pub struct Bindings {
    open: BTreeMap<GroupKey, BTreeMap<PodKey, Slot>>,
    of_pod: BTreeMap<PodKey, GroupKey>,
}

/// A pod with a place.
#[derive(Debug)]
struct Slot {
    node: Text,
    /// Which incarnation of the pod is meant.
    uid: Uid,
    /// When it was decided.
    since: Time,
    /// What was to be written for it before it can be bound.
    asked: Option<Target>,
    /// Whether its binding was sent when its group was last looked at.
    sent: bool,
    /// Whether a binding was sent whose reply told nothing, or not all: it may have happened.
    unheard: bool,
    /// Whether some that were sent with it are bound: it need not wait for others any more.
    passed: bool,
}

impl Slot {
    /// When it has waited for too long.
    fn until(&self) -> Time {
        self.since + ERRANDS_TIMEOUT
    }
}

/// What became of the bindings of a group at a look.
#[derive(Debug, Default)]
pub struct Looked {
    /// What to do.
    pub plan: Plan,
    /// When pods were decided about that are all bound now.
    pub bound: Vec<Time>,
    /// Whether somebody was given back.
    pub given_back: bool,
}

/// Where a pod with a place is.
enum Place {
    /// On its node.
    There,
    /// Gone, or not meant for that node any more.
    Lost,
    /// On its way.
    Waits,
}

/// How far the pods of a group are.
#[derive(Debug, Default)]
struct Progress {
    /// They may be bound.
    ready: BTreeSet<PodKey>,
    /// What they were decided for cannot be had.
    never: BTreeSet<PodKey>,
    /// What is to be written for the others.
    calls: BTreeMap<Target, Call>,
    /// When the first of the others has waited for too long.
    until: Option<Time>,
}

impl Bindings {
    /// Takes down who has a place.
    pub fn open(&mut self, group: &GroupKey, pods: &[(PodKey, Text)], caches: &Caches, now: Time) {
        let open = self.open.entry(group.clone()).or_default();
        for (pod, node) in pods {
            let object = caches.get(&kinds::PODS, &pod.0, &pod.1);
            let uid = object.map(|it| meta::uid(&it.tree)).unwrap_or_default();
            let (node, since) = (node.clone(), now);
            let slot = Slot { node, uid, since, asked: None, sent: false, unheard: false, passed: false };
            open.insert(pod.clone(), slot);
            self.of_pod.insert(pod.clone(), group.clone());
        }
    }

    /// The group that a pod is bound with.
    pub fn group_of(&self, pod: &PodKey) -> Option<&GroupKey> {
        self.of_pod.get(pod)
    }

    /// Whether pods of a group have places and are not bound yet.
    pub fn is_open(&self, group: &GroupKey) -> bool {
        self.open.contains_key(group)
    }

    /// What to do about the bindings of a group of which so many pods with nodes are enough.
    pub fn look(
        &mut self,
        group: &GroupKey,
        enough: usize,
        scheduler: &mut Scheduler,
        caches: &Caches,
        now: Time,
    ) -> Looked {
        let mut looked = Looked::default();
        self.settle(group, scheduler, caches, &mut looked);
        let Some(open) = self.open.get_mut(group) else { return looked };
        let progress = Progress::of(open, scheduler, caches, now);
        looked.given_back = self.give_back(group, &progress.never, enough, scheduler, now);
        let Some(open) = self.open.get_mut(group) else { return looked };
        let assigned = scheduler.group_counts(group).assigned;
        let reached = assigned + progress.ready.len() >= enough;
        let (mut calls, mut notes) = (Vec::new(), Vec::new());
        for (name, slot) in open.iter_mut() {
            slot.sent = (reached || slot.passed) && progress.ready.contains(name);
            if let Some(pod) = caches.get(&kinds::PODS, &name.0, &name.1).filter(|_| slot.sent) {
                calls.push(steps::binding(pod, &slot.node));
                notes.push(steps::bound(pod, &slot.node));
            }
        }
        let steps = &mut looked.plan.steps;
        if !calls.is_empty() {
            steps.push(Step::Together(calls));
            steps.extend(notes);
        }
        if !progress.calls.is_empty() {
            steps.push(Step::Each(progress.calls.into_values().collect()));
        }
        looked.plan.again_at = progress.until;
        looked
    }

    /// A call of these bindings was refused; whether somebody was given back.
    pub fn refused(
        &mut self,
        group: &GroupKey,
        enough: usize,
        (call, why): (&Call, &Refusal),
        all_or_none: bool,
        scheduler: &mut Scheduler,
        now: Time,
    ) -> bool {
        let Some(open) = self.open.get_mut(group) else { return false };
        let binds = call.on.part == Part::Binding;
        // A lost reply may still have done it; who was overtaken or told to wait looks again.
        let doubtful = matches!(why, Refusal::Unknown(_) | Refusal::Conflict(_) | Refusal::Busy { .. });
        if binds && (doubtful || !all_or_none) {
            for slot in open.values_mut().filter(|slot| slot.sent) {
                slot.unheard = true;
                // The others are bound, or will be: the one that was refused comes after them.
                slot.passed |= !doubtful;
            }
        }
        if doubtful {
            return false;
        }
        let concerned = |(name, slot): &(&PodKey, &Slot)| {
            if binds { **name == pod_of(&call.on) } else { slot.asked.as_ref() == Some(&call.on) }
        };
        let lost: BTreeSet<PodKey> = open.iter().filter(concerned).map(|(name, _)| name.clone()).collect();
        self.give_back(group, &lost, enough, scheduler, now)
    }

    /// Gives these back to the scheduler, and the others too unless there are enough without them. Whether it did.
    fn give_back(
        &mut self,
        group: &GroupKey,
        lost: &BTreeSet<PodKey>,
        enough: usize,
        scheduler: &mut Scheduler,
        now: Time,
    ) -> bool {
        let Some(open) = self.open.get_mut(group) else { return false };
        let left = open.keys().filter(|name| !lost.contains(*name)).count();
        let alone = scheduler.group_counts(group).assigned + left >= enough;
        let back: Vec<PodKey> = open
            .iter()
            .filter(|(name, slot)| lost.contains(*name) || !alone && !slot.passed)
            .map(|(name, _)| name.clone())
            .collect();
        back.iter().for_each(|pod| self.leave(pod, group));
        if !back.is_empty() {
            scheduler.retry_group(group, &back, now);
        }
        !back.is_empty()
    }

    /// Takes out who has arrived or is lost. What was to be told of those whose arrival nobody heard of is told.
    fn settle(&mut self, group: &GroupKey, scheduler: &Scheduler, caches: &Caches, looked: &mut Looked) {
        let Some(open) = self.open.get(group) else { return };
        let (mut gone, mut since) = (Vec::new(), BTreeSet::new());
        for (name, slot) in open {
            let pod = caches.get(&kinds::PODS, &name.0, &name.1);
            match place(pod, name, slot, scheduler) {
                Place::Waits => continue,
                Place::Lost => {}
                Place::There => {
                    let told = pod.filter(|_| slot.unheard).map(|pod| steps::bound(pod, &slot.node));
                    looked.plan.steps.extend(told);
                    since.insert(slot.since);
                }
            }
            gone.push(name.clone());
        }
        gone.iter().for_each(|pod| self.leave(pod, group));
        let open = self.open.get(group);
        let waits = |since: &Time| open.is_some_and(|open| open.values().any(|slot| slot.since == *since));
        looked.bound.extend(since.into_iter().filter(|since| !waits(since)));
    }

    /// A pod needs no binding any more.
    fn leave(&mut self, pod: &PodKey, group: &GroupKey) {
        self.of_pod.remove(pod);
        if let Some(open) = self.open.get_mut(group) {
            open.remove(pod);
            if open.is_empty() {
                self.open.remove(group);
            }
        }
    }
}

impl Progress {
    /// Looks how far each is, and takes down what is written for whom.
    fn of(
        open: &mut BTreeMap<PodKey, Slot>,
        scheduler: &mut Scheduler,
        caches: &Caches,
        now: Time,
    ) -> Progress {
        let mut progress = Progress::default();
        for (name, slot) in open {
            slot.asked = None;
            let pod = caches.get(&kinds::PODS, &name.0, &name.1);
            let ready = pod.map_or(Ready::Never, |pod| errands(scheduler, name, pod, caches, now));
            match ready {
                Ready::Now => {
                    progress.ready.insert(name.clone());
                }
                Ready::After(plan) if now < slot.until() => {
                    let until = progress.until.map_or(slot.until(), |at| at.min(slot.until()));
                    progress.until = Some(until);
                    // Two of them may want the same object: one after the other.
                    if let Some(Step::One(call)) = plan.steps.into_iter().next() {
                        slot.asked = Some(call.on.clone());
                        progress.calls.entry(call.on.clone()).or_insert(call);
                    }
                }
                Ready::After(_) | Ready::Never => {
                    progress.never.insert(name.clone());
                }
            }
        }
        progress
    }
}

fn place(pod: Option<&Object>, name: &PodKey, slot: &Slot, scheduler: &Scheduler) -> Place {
    let Some(pod) = pod.filter(|it| meta::uid(&it.tree) == slot.uid) else { return Place::Lost };
    let on = pod.tree.str_at(muster_api::paths::pod::NODE_NAME);
    if on == slot.node.as_str() {
        Place::There
    } else if on.is_empty() && scheduler.node_of(name) == Some(&slot.node) {
        Place::Waits
    } else {
        Place::Lost
    }
}

fn pod_of(on: &Target) -> PodKey {
    (on.namespace.clone(), on.name.clone())
}
