//! Gives the pods of a gang their nodes, all in one stroke.
//!
//! What is decided about a group at once is a batch. Its pods wait until what each of them needs beforehand is there,
//! and then are bound by calls that happen together. Batches of one group go one after the other, as later ones count
//! on the pods of earlier ones.
//!
//! # Invariants
//!
//! - No pod of a batch is bound while another one of it is not ready.
//! - What cannot be bound as decided is given back to the scheduler, with all that counts on it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

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

/// Batches that were decided about and are not bound yet.
#[derive(Debug, Default)]
pub struct Bindings {
    open: BTreeMap<GroupKey, VecDeque<Batch>>,
    of_pod: BTreeMap<PodKey, GroupKey>,
}

#[derive(Debug)]
struct Batch {
    /// The node of each, and which incarnation of the pod is meant.
    pods: BTreeMap<PodKey, (Text, Uid)>,
    /// When it was decided.
    since: Time,
    /// Whether bindings were sent whose reply told nothing, or not all: some may have happened.
    unheard: bool,
}

/// What became of the bindings of a group at a look.
#[derive(Debug, Default)]
pub struct Looked {
    /// What to do.
    pub plan: Plan,
    /// When batches were decided that are all bound now.
    pub bound: Vec<Time>,
    /// Whether a batch was given back.
    pub given_back: bool,
}

/// Where a pod of a batch is.
enum Place {
    /// On its node.
    There,
    /// Gone, or not meant for that node any more.
    Lost,
    /// On its way.
    Waits,
}

impl Bindings {
    /// Takes down a batch.
    pub fn open(&mut self, group: &GroupKey, pods: &[(PodKey, Text)], caches: &Caches, now: Time) {
        let uid_of = |(namespace, name): &PodKey| {
            caches.get(&kinds::PODS, namespace, name).map(|it| meta::uid(&it.tree)).unwrap_or_default()
        };
        let pods: BTreeMap<PodKey, (Text, Uid)> =
            pods.iter().map(|(pod, node)| (pod.clone(), (node.clone(), uid_of(pod)))).collect();
        self.of_pod.extend(pods.keys().map(|pod| (pod.clone(), group.clone())));
        self.open.entry(group.clone()).or_default().push_back(Batch { pods, since: now, unheard: false });
    }

    /// The group that a pod is bound with.
    pub fn group_of(&self, pod: &PodKey) -> Option<&GroupKey> {
        self.of_pod.get(pod)
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
        while let Some(batch) = self.open.get_mut(group).and_then(VecDeque::front_mut) {
            let gone = settle(batch, scheduler, caches, &mut looked.plan.steps);
            let (is_done, since) = (batch.pods.is_empty(), batch.since);
            gone.iter().for_each(|pod| self.leave(pod, group));
            if !is_done {
                self.go_on(group, enough, scheduler, caches, now, &mut looked);
                return looked;
            }
            looked.bound.push(since);
            self.drop_first(group);
        }
        looked
    }

    /// What to do about the first batch.
    fn go_on(
        &mut self,
        group: &GroupKey,
        enough: usize,
        scheduler: &mut Scheduler,
        caches: &Caches,
        now: Time,
        looked: &mut Looked,
    ) {
        let Some(batch) = self.open.get(group).and_then(VecDeque::front) else { return };
        let until = batch.since + ERRANDS_TIMEOUT;
        let counts = scheduler.group_counts(group);
        let ready = if now >= until || counts.assigned + counts.assumed < enough {
            Ready::Never
        } else {
            prepared(batch, scheduler, caches, now)
        };
        let more = match ready {
            Ready::Now => bind(batch, caches),
            Ready::After(plan) => {
                looked.plan.again_at = Some(until);
                plan.steps
            }
            Ready::Never => {
                self.give_back(group, enough, scheduler, now);
                looked.given_back = true;
                Vec::new()
            }
        };
        looked.plan.steps.extend(more);
    }

    /// A call of these bindings was refused; whether a batch, or a pod of it, was given back.
    pub fn refused(
        &mut self,
        group: &GroupKey,
        enough: usize,
        (call, why): (&Call, &Refusal),
        all_or_none: bool,
        scheduler: &mut Scheduler,
        now: Time,
    ) -> bool {
        let Some(batch) = self.open.get_mut(group).and_then(VecDeque::front_mut) else { return false };
        let binds = call.on.part == Part::Binding;
        // A lost reply may still have done it; who was overtaken or told to wait looks again.
        if matches!(why, Refusal::Unknown(_) | Refusal::Conflict(_) | Refusal::Busy { .. }) {
            batch.unheard |= binds;
            return false;
        }
        if binds && !all_or_none {
            // The others are bound, or will be: this one comes after them.
            batch.unheard = true;
            let pod = pod_of(&call.on);
            batch.pods.remove(&pod);
            self.leave(&pod, group);
            scheduler.retry_group(group, &[pod], now);
            return true;
        }
        self.give_back(group, enough, scheduler, now);
        true
    }

    /// Gives the first batch back to the scheduler, and the others too unless there are enough without it.
    fn give_back(&mut self, group: &GroupKey, enough: usize, scheduler: &mut Scheduler, now: Time) {
        let alone = scheduler.group_counts(group).assigned >= enough;
        let Some(batches) = self.open.get_mut(group) else { return };
        let count = if alone { 1 } else { batches.len() };
        let lost: BTreeSet<PodKey> = batches.drain(..count).flat_map(|it| it.pods.into_keys()).collect();
        if batches.is_empty() {
            self.open.remove(group);
        }
        lost.iter().for_each(|pod| self.leave(pod, group));
        let lost: Vec<PodKey> = lost.into_iter().collect();
        scheduler.retry_group(group, &lost, now);
    }

    fn drop_first(&mut self, group: &GroupKey) {
        let Some(batches) = self.open.get_mut(group) else { return };
        batches.pop_front();
        if batches.is_empty() {
            self.open.remove(group);
        }
    }

    /// A pod left a batch; it may be in a later one.
    fn leave(&mut self, pod: &PodKey, group: &GroupKey) {
        let again = self.open.get(group).is_some_and(|all| all.iter().any(|it| it.pods.contains_key(pod)));
        if !again {
            self.of_pod.remove(pod);
        }
    }
}

/// Takes out of a batch who has arrived or is lost. What was to be told of those whose arrival nobody heard of is told.
fn settle(batch: &mut Batch, scheduler: &Scheduler, caches: &Caches, steps: &mut Vec<Step>) -> Vec<PodKey> {
    let mut gone = Vec::new();
    let unheard = batch.unheard;
    batch.pods.retain(|name, (node, uid)| {
        let pod = caches.get(&kinds::PODS, &name.0, &name.1);
        let stays = match place(pod, name, node, uid, scheduler) {
            Place::Waits => true,
            Place::Lost => false,
            Place::There => {
                steps.extend(pod.filter(|_| unheard).map(|pod| steps::bound(pod, node)));
                false
            }
        };
        if !stays {
            gone.push(name.clone());
        }
        stays
    });
    gone
}

fn place(pod: Option<&Object>, name: &PodKey, node: &Text, uid: &Uid, scheduler: &Scheduler) -> Place {
    let Some(pod) = pod.filter(|it| meta::uid(&it.tree) == *uid) else { return Place::Lost };
    let on = pod.tree.str_at(muster_api::paths::pod::NODE_NAME);
    if on == node.as_str() {
        Place::There
    } else if on.is_empty() && scheduler.node_of(name) == Some(node) {
        Place::Waits
    } else {
        Place::Lost
    }
}

/// Whether all pods of a batch may be bound, or what is to be done for them side by side.
fn prepared(batch: &Batch, scheduler: &mut Scheduler, caches: &Caches, now: Time) -> Ready {
    let mut calls: BTreeMap<Target, Call> = BTreeMap::new();
    let mut all = true;
    for name in batch.pods.keys() {
        let Some(pod) = caches.get(&kinds::PODS, &name.0, &name.1) else { return Ready::Never };
        match errands(scheduler, name, pod, caches, now) {
            Ready::Now => {}
            Ready::Never => return Ready::Never,
            Ready::After(plan) => {
                all = false;
                for step in plan.steps {
                    // Two of them may want the same object: one after the other.
                    if let Step::One(call) = step {
                        calls.entry(call.on.clone()).or_insert(call);
                    }
                }
            }
        }
    }
    if all { Ready::Now } else { Ready::After(Plan::of(vec![Step::Each(calls.into_values().collect())])) }
}

/// All bindings of a batch, and the notes of them.
fn bind(batch: &Batch, caches: &Caches) -> Vec<Step> {
    let mut calls = Vec::with_capacity(batch.pods.len());
    let mut notes = Vec::with_capacity(batch.pods.len());
    for (name, (node, _)) in &batch.pods {
        let Some(pod) = caches.get(&kinds::PODS, &name.0, &name.1) else { continue };
        calls.push(steps::binding(pod, node));
        notes.push(steps::bound(pod, node));
    }
    [Step::Together(calls)].into_iter().chain(notes).collect()
}

fn pod_of(on: &Target) -> PodKey {
    (on.namespace.clone(), on.name.clone())
}
