//! Binds the pods of a gang all or none.
//!
//! The pods of a group that have a node and are not bound yet are reconciled together. Each waits for its PreBind requests. As
//! soon as the ready pods, with those that are bound already, reach the quorum, they are bound in one transaction; the others
//! follow when they are ready.
//!
//! # Guarantees
//!
//! - The bindings of a transaction, with those before it, reach the quorum: a watcher sees either none or enough pods bound.
//! - A pod that cannot be bound as decided is returned to the scheduler alone, if the others reach the quorum without it;
//!   otherwise all pods of the group are.

use std::collections::{BTreeMap, BTreeSet};

use muster_api::client::{ApiError, ApiObject, ApiRequest, RequestTarget, Subresource, Uid};
use muster_api::time::Time;
use muster_api::{kinds, meta};
use muster_scheduler::{GroupKey, PodKey, Scheduler};
use muster_tree::{Text, literal};

use super::{PREBIND_TIMEOUT, PreBind, prebind, steps};
use crate::cache::Caches;
use crate::controller::{ObjectKey, Reconciled, Step};

/// The kind of the keys for the bindings of a group: no object has it.
static BINDINGS: muster_api::client::Kind = muster_api::client::Kind {
    group: literal!("muster.dev"),
    version: literal!("v1"),
    plural: literal!("bindings"),
};

/// The key that binds the pods of a group.
pub fn key_of(group: &GroupKey) -> ObjectKey {
    ObjectKey::new(&BINDINGS, &group.0, &group.1)
}

/// The group whose pods a key binds.
pub fn group_of(key: &ObjectKey) -> Option<GroupKey> {
    (key.kind == BINDINGS).then(|| (key.namespace.clone(), key.name.clone()))
}

/// Pods of gangs that have a node and are not bound yet.
#[derive(Debug, Default)]
pub struct Bindings {
    open: BTreeMap<GroupKey, BTreeMap<PodKey, PendingBinding>>,
    of_pod: BTreeMap<PodKey, GroupKey>,
}

/// A pod that is assumed on a node.
#[derive(Debug)]
struct PendingBinding {
    node: Text,
    /// UID of the pod: one that was recreated under its name is not bound.
    uid: Uid,
    /// When it was decided.
    since: Time,
    /// The target of its PreBind request in flight.
    written: Option<RequestTarget>,
    /// Whether its binding was sent by the last reconciliation of its group.
    sent: bool,
    /// Whether the reply to its binding was lost or only partly known: the pod may be bound.
    reply_lost: bool,
    /// Whether pods of the same batch are bound: it need not wait for the quorum any more.
    quorum_bound: bool,
}

impl PendingBinding {
    fn until(&self) -> Time {
        self.since + PREBIND_TIMEOUT
    }
}

/// The result of reconciling the bindings of a group.
#[derive(Debug, Default)]
pub struct BindingProgress {
    /// The steps.
    pub plan: Reconciled,
    /// The decision times of batches whose pods are all bound now.
    pub bound: Vec<Time>,
    /// Whether a pod was returned to the scheduler.
    pub given_back: bool,
}

/// Where an assumed pod is.
enum PodLocation {
    Bound,
    /// Deleted, or no longer assumed on that node.
    Lost,
    /// Not bound yet.
    Pending,
}

/// The PreBind state of the pods of a group.
#[derive(Debug, Default)]
struct Progress {
    ready: BTreeSet<PodKey>,
    /// Pods whose volumes or devices are no longer available.
    never: BTreeSet<PodKey>,
    /// PreBind requests of the others, by target: two pods may need the same object, one after the other.
    calls: BTreeMap<RequestTarget, ApiRequest>,
    /// When the first of the others times out.
    until: Option<Time>,
}

impl Bindings {
    /// Records the assumed pods of a decision.
    pub fn open(&mut self, group: &GroupKey, pods: &[(PodKey, Text)], caches: &Caches, now: Time) {
        let open = self.open.entry(group.clone()).or_default();
        for (pod, node) in pods {
            let object = caches.get(&kinds::PODS, &pod.0, &pod.1);
            let uid = object.map(|it| meta::uid(&it.tree)).unwrap_or_default();
            let (node, since) = (node.clone(), now);
            let binding = PendingBinding {
                node,
                uid,
                since,
                written: None,
                sent: false,
                reply_lost: false,
                quorum_bound: false,
            };
            open.insert(pod.clone(), binding);
            self.of_pod.insert(pod.clone(), group.clone());
        }
    }

    pub fn group_of(&self, pod: &PodKey) -> Option<&GroupKey> {
        self.of_pod.get(pod)
    }

    /// Whether pods of a group are assumed and not bound yet.
    pub fn is_open(&self, group: &GroupKey) -> bool {
        self.open.contains_key(group)
    }

    /// Reconciles the bindings of a group with the quorum `enough`.
    pub fn look(
        &mut self,
        group: &GroupKey,
        enough: usize,
        scheduler: &mut Scheduler,
        caches: &Caches,
        now: Time,
    ) -> BindingProgress {
        let mut progress_result = BindingProgress::default();
        self.settle(group, scheduler, caches, &mut progress_result);
        let Some(open) = self.open.get_mut(group) else { return progress_result };
        let progress = Progress::of(open, scheduler, caches, now);
        progress_result.given_back = self.give_back(group, &progress.never, enough, scheduler, now);
        let Some(open) = self.open.get_mut(group) else { return progress_result };
        let assigned = scheduler.group_counts(group).assigned;
        let reached = assigned + progress.ready.len() >= enough;
        let (mut calls, mut notes) = (Vec::new(), Vec::new());
        for (name, binding) in open.iter_mut() {
            binding.sent = (reached || binding.quorum_bound) && progress.ready.contains(name);
            if let Some(pod) = caches.get(&kinds::PODS, &name.0, &name.1).filter(|_| binding.sent) {
                calls.push(steps::binding(pod, &binding.node));
                notes.push(steps::bound(pod, &binding.node));
            }
        }
        let steps = &mut progress_result.plan.steps;
        if !calls.is_empty() {
            steps.push(Step::Transaction(calls));
            steps.extend(notes);
        }
        if !progress.calls.is_empty() {
            steps.push(Step::Parallel(progress.calls.into_values().collect()));
        }
        progress_result.plan.requeue_at = progress.until;
        progress_result
    }

    /// Handles a failed request; returns whether a pod was returned to the scheduler.
    pub fn refused(
        &mut self,
        group: &GroupKey,
        enough: usize,
        (call, why): (&ApiRequest, &ApiError),
        all_or_none: bool,
        scheduler: &mut Scheduler,
        now: Time,
    ) -> bool {
        let Some(open) = self.open.get_mut(group) else { return false };
        let binds = call.target.subresource == Subresource::Binding;
        // A request whose reply was lost may have happened; a conflict and a busy server are retried with fresh caches.
        let doubtful = matches!(
            why,
            ApiError::Indeterminate(_) | ApiError::Conflict(_) | ApiError::TooManyRequests { .. }
        );
        if binds && (doubtful || !all_or_none) {
            for binding in open.values_mut().filter(|binding| binding.sent) {
                binding.reply_lost = true;
                // Without transactions the other bindings of the batch happen: the quorum no longer applies to them.
                binding.quorum_bound |= !doubtful;
            }
        }
        if doubtful {
            return false;
        }
        let concerned = |(name, binding): &(&PodKey, &PendingBinding)| {
            if binds {
                **name == pod_of(&call.target)
            } else {
                binding.written.as_ref() == Some(&call.target)
            }
        };
        let lost: BTreeSet<PodKey> = open.iter().filter(concerned).map(|(name, _)| name.clone()).collect();
        self.give_back(group, &lost, enough, scheduler, now)
    }

    /// Returns these pods to the scheduler, and the others too unless the quorum holds without them. Whether any was returned.
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
            .filter(|(name, binding)| lost.contains(*name) || !alone && !binding.quorum_bound)
            .map(|(name, _)| name.clone())
            .collect();
        back.iter().for_each(|pod| self.leave(pod, group));
        if !back.is_empty() {
            scheduler.group_binding_failed(group, &back, now);
        }
        !back.is_empty()
    }

    /// Removes bound and lost pods. A pod whose binding reply was lost gets its Scheduled event now.
    fn settle(
        &mut self,
        group: &GroupKey,
        scheduler: &Scheduler,
        caches: &Caches,
        progress_result: &mut BindingProgress,
    ) {
        let Some(open) = self.open.get(group) else { return };
        let (mut gone, mut since) = (Vec::new(), BTreeSet::new());
        for (name, binding) in open {
            let pod = caches.get(&kinds::PODS, &name.0, &name.1);
            match locate(pod, name, binding, scheduler) {
                PodLocation::Pending => continue,
                PodLocation::Lost => {}
                PodLocation::Bound => {
                    let told = pod.filter(|_| binding.reply_lost).map(|pod| steps::bound(pod, &binding.node));
                    progress_result.plan.steps.extend(told);
                    since.insert(binding.since);
                }
            }
            gone.push(name.clone());
        }
        gone.iter().for_each(|pod| self.leave(pod, group));
        let open = self.open.get(group);
        let waits =
            |since: &Time| open.is_some_and(|open| open.values().any(|binding| binding.since == *since));
        progress_result.bound.extend(since.into_iter().filter(|since| !waits(since)));
    }

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
    /// Runs PreBind for each pod and remembers the target of its request.
    fn of(
        open: &mut BTreeMap<PodKey, PendingBinding>,
        scheduler: &mut Scheduler,
        caches: &Caches,
        now: Time,
    ) -> Progress {
        let mut progress = Progress::default();
        for (name, binding) in open {
            binding.written = None;
            let pod = caches.get(&kinds::PODS, &name.0, &name.1);
            let ready = pod.map_or(PreBind::Failed, |pod| prebind(scheduler, name, pod, caches, now));
            match ready {
                PreBind::Done => {
                    progress.ready.insert(name.clone());
                }
                PreBind::Pending(plan) if now < binding.until() => {
                    let until = progress.until.map_or(binding.until(), |at| at.min(binding.until()));
                    progress.until = Some(until);
                    // Two pods may write the same claim: one request per target, the other follows.
                    if let Some(Step::Request(call)) = plan.steps.into_iter().next() {
                        binding.written = Some(call.target.clone());
                        progress.calls.entry(call.target.clone()).or_insert(call);
                    }
                }
                PreBind::Pending(_) | PreBind::Failed => {
                    progress.never.insert(name.clone());
                }
            }
        }
        progress
    }
}

fn locate(
    pod: Option<&ApiObject>,
    name: &PodKey,
    binding: &PendingBinding,
    scheduler: &Scheduler,
) -> PodLocation {
    let Some(pod) = pod.filter(|it| meta::uid(&it.tree) == binding.uid) else { return PodLocation::Lost };
    let on = pod.tree.str_at(muster_api::paths::pod::NODE_NAME);
    if on == binding.node.as_str() {
        PodLocation::Bound
    } else if on.is_empty() && scheduler.node_of(name) == Some(&binding.node) {
        PodLocation::Pending
    } else {
        PodLocation::Lost
    }
}

fn pod_of(on: &RequestTarget) -> PodKey {
    (on.namespace.clone(), on.name.clone())
}
