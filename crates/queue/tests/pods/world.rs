//! A simulated cluster: pods, Workloads, kubelets and garbage collection. Actions are performed one by one, with a
//! possible crash before any of them.

use std::collections::{BTreeMap, BTreeSet};

use muster_api::client::{ApiObject, Uid};
use muster_api::gang_objects::GangSupport;
use muster_api::meta;
use muster_api::queue::WorkloadFacts;
use muster_queue::pods::expectations::PodExpectations;
use muster_queue::pods::mutate::{self, OwnerLookup, PodMutation, PodWebhookLister};
use muster_queue::pods::queued_pod::{PodAncestry, PodReference, QueuedPod};
use muster_queue::pods::reconciler::{
    ObservedWorkload, PodAction, PodReconcileKey, PodReconcilerSettings, PodRequeueability, WorkloadRef,
};
use muster_tree::{Text, Tree, tree};

use super::picture::{NAMESPACE, at, line, look, stamp};

/// Bound on the reconciliations until convergence.
const LOOKS_MAX: usize = 100;

struct Nothing;

impl PodWebhookLister for Nothing {
    fn namespace(&self) -> Result<Tree, String> {
        Ok(tree!({"metadata": {"name": NAMESPACE}}))
    }
    fn ancestry(&self) -> OwnerLookup {
        OwnerLookup::Unmanaged
    }
    fn has_default_queue(&self) -> bool {
        false
    }
    fn has_default_priority(&self) -> bool {
        false
    }

    fn gangs(&self) -> Option<GangSupport> {
        None
    }
}

/// Why a write failed.
enum Not {
    /// The resourceVersion changed, or the object was deleted.
    Conflict,
    /// No reply: the outcome is unknown.
    Unheard,
    Crashed,
}

/// What is lost of a request.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Lost {
    Call,
    Reply,
}

#[derive(Default)]
pub struct World {
    pub pods: BTreeMap<String, ApiObject>,
    pub workloads: BTreeMap<String, ApiObject>,
    pub notes: BTreeSet<String>,
    pub now: i64,
    pub writes: usize,
    /// Crashes before this write, once.
    pub dies_before: Option<usize>,
    /// The next write to a pod gets no reply; it is performed or not.
    pub loses_next: Option<Lost>,
    stalled: Option<Vec<ApiObject>>,
    memory: PodExpectations,
    settings: PodReconcilerSettings,
    uids: BTreeSet<Uid>,
    revision: u64,
}

impl World {
    fn revised(&mut self, tree: Tree) -> ApiObject {
        self.revision += 1;
        ApiObject { tree, revision: self.revision }
    }

    pub fn create(&mut self, sent: &Tree) {
        let PodMutation::Mutated(taken) =
            mutate::mutate(sent, &Nothing, &mutate::PodWebhookSettings::default())
        else {
            panic!("not taken in: {sent}")
        };
        self.now += 1;
        let name = meta::name(&taken).to_string();
        let uid = Text::from(format!("{name}-{}", self.now));
        let stored = taken.merge(&tree!({"metadata": {"namespace": NAMESPACE, "uid": &uid,
            "creationTimestamp": (stamp(self.now))}, "status": {"phase": "Pending"}}));
        let object = self.revised(stored);
        self.uids.insert(uid);
        self.pods.insert(name, object);
    }

    fn change_pod(&mut self, name: &str, change: impl FnOnce(&Tree) -> Tree) {
        let Some(old) = self.pods.get(name) else { return };
        let new = change(&old.tree);
        if new != old.tree {
            let object = self.revised(new);
            self.pods.insert(name.to_owned(), object);
        }
        let member = QueuedPod::of(&self.pods[name], PodAncestry::Unmanaged);
        let is_held = meta::has_finalizers(&self.pods[name].tree);
        if member.deleting.is_some() && !is_held && (member.terminated() || !member.bound) {
            self.pods.remove(name);
        }
        self.observe();
    }

    /// Lowers expectations by the observed pods.
    fn observe(&mut self) {
        if self.stalled.is_some() {
            return;
        }
        self.pods.values().for_each(|pod| self.memory.observe_pod(pod));
        let alive: BTreeSet<Uid> = self.pods.values().map(|pod| meta::uid(&pod.tree)).collect();
        self.uids.difference(&alive).for_each(|uid| self.memory.observe_deletion(uid));
    }

    /// Freezes the pod cache.
    pub fn stall(&mut self) {
        self.stalled = Some(self.snapshot());
    }

    /// The content of an up-to-date cache.
    pub fn snapshot(&self) -> Vec<ApiObject> {
        self.pods.values().cloned().collect()
    }

    /// Sets the pod cache to an earlier content.
    pub fn see(&mut self, snapshot: Vec<ApiObject>) {
        self.stalled = Some(snapshot);
    }

    pub fn catch_up(&mut self) {
        self.stalled = None;
        self.observe();
    }

    /// Kubelets run ungated pods and terminate deleted ones.
    pub fn kubelet(&mut self) {
        for name in self.pods.keys().cloned().collect::<Vec<_>>() {
            self.change_pod(&name, |pod| {
                let is_open = pod.items_at(&["spec", "schedulingGates"]).is_empty();
                let deleting = meta::deletion_timestamp(pod).is_some();
                match pod.str_at(&["status", "phase"]) {
                    "Pending" if is_open && !deleting => {
                        pod.with(&["spec", "nodeName"], "node").with(&["status", "phase"], "Running")
                    }
                    "Running" if deleting => pod.with(&["status", "phase"], "Failed"),
                    _ => pod.clone(),
                }
            });
        }
    }

    pub fn is_running(&self, name: &str) -> bool {
        self.pods.get(name).is_some_and(|pod| pod.tree.str_at(&["status", "phase"]) == "Running")
    }

    pub fn end(&mut self, name: &str, phase: &str) {
        self.change_pod(name, |pod| pod.with(&["status", "phase"], phase));
    }

    pub fn delete(&mut self, name: &str) {
        let now = stamp(self.now);
        self.change_pod(name, |pod| {
            if meta::deletion_timestamp(pod).is_some() {
                return pod.clone();
            }
            let marked = pod.with(&["metadata", "deletionTimestamp"], now);
            marked.with(&["metadata", "deletionGracePeriodSeconds"], 30)
        });
    }

    /// Deletes a Workload; it is removed once it has no finalizers.
    pub fn delete_workload(&mut self, name: &str) {
        let now = stamp(self.now);
        self.change_workload(name, |it| it.with(&["metadata", "deletionTimestamp"], now));
    }

    fn change_workload(&mut self, name: &str, change: impl FnOnce(&Tree) -> Tree) {
        let Some(old) = self.workloads.get(name) else { return };
        let new = change(&old.tree);
        let is_gone = meta::deletion_timestamp(&new).is_some() && !meta::has_finalizers(&new);
        let object = self.revised(new);
        self.workloads.insert(name.to_owned(), object);
        if is_gone {
            self.workloads.remove(name);
        }
    }

    /// Garbage collection of Workloads without owners.
    fn collect(&mut self) {
        let alive: BTreeSet<Text> = self.pods.values().map(|pod| meta::uid(&pod.tree)).collect();
        let lost = |it: &Tree| {
            let owners: Vec<_> = meta::owner_references(it).collect();
            !owners.is_empty()
                && owners.iter().all(|owner| !alive.contains(&owner.uid))
                && meta::deletion_timestamp(it).is_none()
        };
        let all: Vec<String> =
            self.workloads.iter().filter(|(_, it)| lost(&it.tree)).map(|(name, _)| name.clone()).collect();
        for name in all {
            self.delete_workload(&name);
        }
    }

    pub fn tell(&mut self, name: &str, kind: &str, holds: bool, reason: &str, message: &str) {
        let status = if holds { "True" } else { "False" };
        let condition = tree!({"type": kind, "status": status, "reason": reason, "message": message,
            "lastTransitionTime": (stamp(self.now))});
        self.change_workload(name, |it| {
            let others =
                it.items_at(&["status", "conditions"]).iter().filter(|old| old.str_at(&["type"]) != kind);
            let all: Vec<Tree> = others.cloned().chain([condition]).collect();
            it.with(&["status", "conditions"], Tree::list(all))
        });
    }

    pub fn workload(&self, name: &str) -> WorkloadFacts {
        WorkloadFacts::of(&self.workloads.get(name).unwrap_or_else(|| panic!("no Workload {name}")).tree)
    }

    pub fn condition(&self, workload: &str, kind: &str) -> Option<(bool, String)> {
        self.workload(workload).condition(kind).map(|it| (it.holds, it.reason.to_string()))
    }

    /// Admits a Workload if it is queueable and `room` pods have quota; returns whether it did.
    pub fn admit(&mut self, name: &str, room: u64) -> bool {
        let facts = self.workload(name);
        let asked: u64 = facts.pod_sets.iter().map(|set| u64::from(set.count)).sum();
        if facts.holds("WaitingForReplacementPods")
            || facts.has_quota()
            || facts.is_finished()
            || asked > room
        {
            return false;
        }
        let one = |set: &muster_api::queue::PodSet| tree!({"name": &set.name, "count": set.count, "flavors": {"cpu": "f"}});
        let admission =
            tree!({"clusterQueue": "cq", "podSetAssignments": Tree::list(facts.pod_sets.iter().map(one))});
        self.change_workload(name, |it| it.with(&["status", "admission"], admission));
        self.tell(name, "QuotaReserved", true, "QuotaReserved", "");
        if facts.is_evicted() {
            self.tell(name, "Evicted", false, "QuotaReserved", "Previously: somebody");
        }
        self.tell(name, "Admitted", true, "Admitted", "");
        true
    }

    fn key_of(pod: &ApiObject) -> PodReconcileKey {
        PodReconcileKey::of_pod(&pod.tree)
    }

    fn keys(&self) -> BTreeSet<PodReconcileKey> {
        let mut keys: BTreeSet<PodReconcileKey> = self.pods.values().map(World::key_of).collect();
        for workload in self.workloads.values() {
            let facts = WorkloadFacts::of(&workload.tree);
            let namespace = facts.namespace.clone();
            keys.insert(match facts.controller() {
                Some(owner) => PodReconcileKey::Pod { namespace, name: owner.name.clone() },
                None => PodReconcileKey::Group { namespace, name: facts.name.clone() },
            });
        }
        keys
    }

    fn plan(&self, key: &PodReconcileKey) -> Vec<PodAction> {
        let all: Vec<ApiObject> = match &self.stalled {
            Some(seen) => seen.clone(),
            None => self.pods.values().cloned().collect(),
        };
        let pods: Vec<QueuedPod> = all
            .iter()
            .filter(|pod| World::key_of(pod) == *key)
            .map(|pod| QueuedPod::of(pod, PodAncestry::Unmanaged))
            .collect();
        let is_of = |facts: &WorkloadFacts| match key {
            PodReconcileKey::Group { name, .. } => facts.name == *name,
            PodReconcileKey::Pod { name, .. } => facts.controller().is_some_and(|owner| owner.name == *name),
        };
        let workloads: Vec<ObservedWorkload> =
            self.workloads.values().map(ObservedWorkload::of).filter(|it| is_of(&it.facts)).collect();
        look(
            key,
            &pods,
            &workloads,
            (&self.memory.ungates, &self.memory.cleanups),
            &self.settings,
            (None, at(self.now)),
        )
    }

    /// Reconciles until converged; survives crashes.
    pub fn settle(&mut self) {
        for _ in 0..LOOKS_MAX {
            if !self.look_once() {
                return;
            }
        }
        let left: Vec<String> =
            self.keys().iter().flat_map(|key| self.plan(key)).map(|step| line(&step, at(self.now))).collect();
        panic!("it never becomes quiet: {left:#?}");
    }

    /// Reconciles every key once; returns whether anything was done.
    pub fn look_once(&mut self) -> bool {
        let before = (self.writes, self.dies_before);
        for key in self.keys() {
            match self.run(&key) {
                Ok(()) | Err(Not::Conflict | Not::Unheard) => {}
                Err(Not::Crashed) => {
                    self.memory.clear();
                    self.dies_before = None;
                }
            }
            self.collect();
        }
        before != (self.writes, self.dies_before)
    }

    fn run(&mut self, key: &PodReconcileKey) -> Result<(), Not> {
        for step in self.plan(key) {
            assert!(self.memory.sending(key, &step));
            self.take(step)?;
            self.check();
        }
        Ok(())
    }

    fn write(&mut self) -> Result<(), Not> {
        if self.dies_before == Some(self.writes) {
            return Err(Not::Crashed);
        }
        self.writes += 1;
        Ok(())
    }

    /// Parallel requests: the failure of one does not stop the others.
    fn each<T>(
        &mut self,
        all: &[T],
        mut one: impl FnMut(&mut World, &T) -> Result<(), Not>,
    ) -> Result<(), Not> {
        let mut refused = false;
        for it in all {
            match one(self, it) {
                Ok(()) => self.check(),
                Err(Not::Conflict | Not::Unheard) => refused = true,
                Err(Not::Crashed) => return Err(Not::Crashed),
            }
        }
        if refused { Err(Not::Conflict) } else { Ok(()) }
    }

    fn write_pod(&mut self, this: &PodReference, change: impl FnOnce(&Tree) -> Tree) -> Result<(), Not> {
        self.write()?;
        let name = this.name.to_string();
        let fits = |pod: &ApiObject| meta::uid(&pod.tree) == this.uid && pod.revision == this.revision;
        let lost = self.loses_next.take();
        if lost == Some(Lost::Call) {
            self.memory.unheard(&this.uid);
            return Err(Not::Unheard);
        }
        if !self.pods.get(&name).is_some_and(fits) {
            self.memory.unheard(&this.uid);
            return Err(Not::Conflict);
        }
        self.change_pod(&name, change);
        if lost == Some(Lost::Reply) {
            self.memory.unheard(&this.uid);
            return Err(Not::Unheard);
        }
        Ok(())
    }

    fn write_workload(&mut self, this: &WorkloadRef, change: impl FnOnce(&Tree) -> Tree) -> Result<(), Not> {
        self.write()?;
        let name = this.name.to_string();
        let fits = |it: &ApiObject| meta::uid(&it.tree) == this.uid && it.revision == this.revision;
        if !self.workloads.get(&name).is_some_and(fits) {
            return Err(Not::Conflict);
        }
        self.change_workload(&name, change);
        Ok(())
    }

    fn free(&mut self, this: &PodReference) -> Result<(), Not> {
        self.write_pod(this, |pod| {
            pod.merge(&meta::remove_finalizer_merge_patch(pod, "kueue.x-k8s.io/managed"))
        })
    }

    fn condition_of(&mut self, this: &WorkloadRef, told: (&str, bool, &str, &str)) -> Result<(), Not> {
        self.write_workload(this, Tree::clone)?;
        self.tell(&this.name, told.0, told.1, told.2, told.3);
        Ok(())
    }

    fn take(&mut self, step: PodAction) -> Result<(), Not> {
        match step {
            PodAction::CreateWorkload(tree, _) => {
                self.write()?;
                let name = meta::name(&tree).to_string();
                if self.workloads.contains_key(&name) {
                    return Err(Not::Conflict);
                }
                let uid = format!("{name}-w{}", self.revision);
                let object = self.revised(tree.with(&["metadata", "uid"], uid));
                self.workloads.insert(name, object);
                Ok(())
            }
            PodAction::UpdateWorkloadSpec(this, spec) => {
                self.write_workload(&this, |it| it.with(&["spec"], spec))
            }
            PodAction::DeleteWorkload(this) => {
                let bare = |it: &Tree| {
                    it.merge(&meta::remove_finalizer_merge_patch(it, "kueue.x-k8s.io/resource-in-use"))
                };
                self.write_workload(&this, bare)?;
                self.delete_workload(&this.name);
                Ok(())
            }
            PodAction::RemoveWorkloadFinalizer(this) => self.write_workload(&this, |it| {
                it.merge(&meta::remove_finalizer_merge_patch(it, "kueue.x-k8s.io/resource-in-use"))
            }),
            PodAction::AddOwnerReferences(this, new) => self.write_workload(&this, |it| {
                let all = it.items_at(&["metadata", "ownerReferences"]).iter().cloned().chain(new);
                it.with(&["metadata", "ownerReferences"], Tree::list(all))
            }),
            PodAction::ChangeQueue(this, queue) => {
                self.write_workload(&this, |it| it.with(&["spec", "queueName"], queue))
            }
            PodAction::ChangePriority(..) => panic!("nobody changes priorities here"),
            PodAction::Finish { workload, reason, message } => {
                self.condition_of(&workload, ("Finished", true, reason, &message))
            }
            PodAction::SetWaitingForReplacementPods { workload, holds, reason, message } => {
                self.condition_of(&workload, ("WaitingForReplacementPods", holds, &reason, &message))
            }
            PodAction::SetReclaimablePods(this, all) => {
                let all = all.iter().map(|(name, count)| tree!({"name": name, "count": *count}));
                let all = Tree::list(all);
                self.write_workload(&this, |it| it.with(&["status", "reclaimablePods"], all))
            }
            PodAction::SetPodsReady(this, ready) => {
                self.condition_of(&this, ("PodsReady", ready, "Started", ""))
            }
            PodAction::ReleaseQuota(this, comeback) => {
                self.write_workload(&this, |it| it.without(&["status", "admission"]))?;
                self.tell(&this.name, "QuotaReserved", false, "Pending", "");
                self.tell(&this.name, "Admitted", false, "NoReservation", "");
                self.tell(&this.name, "Requeued", comeback == PodRequeueability::Possible, "Preempted", "");
                Ok(())
            }
            PodAction::Ungate(all) => {
                self.each(&all, |world, one| world.write_pod(&one.pod, |pod| pod.merge(&one.patch)))
            }
            PodAction::RemoveFinalizer(pods) => self.each(&pods, World::free),
            PodAction::DeleteExcess(pods) => self.each(&pods, |world, pod| {
                world.notes.insert(format!("{} ExcessPodDeleted", pod.name));
                world.free(pod)?;
                world.delete(&pod.name);
                Ok(())
            }),
            PodAction::DeletePods(pods) => self.each(&pods, |world, pod| {
                world.free(pod)?;
                world.delete(&pod.name);
                Ok(())
            }),
            PodAction::Stop { pods, reason, message } => {
                let told = tree!([{"type": "TerminationTarget", "status": "True", "reason": &reason, "message": &message}]);
                self.each(&pods, |world, pod| {
                    world.write_pod(pod, |pod| pod.with(&["status", "conditions"], told.clone()))?;
                    world.notes.insert(format!("{} stopped: {reason}", pod.name));
                    world.write()?;
                    world.delete(&pod.name);
                    Ok(())
                })
            }
            PodAction::Note(note) | PodAction::NoteOnce(note) => {
                self.notes.insert(format!("{}: {}", note.reason, note.message));
                Ok(())
            }
            PodAction::RequeueAt(_) | PodAction::Wait(_) => Ok(()),
        }
    }

    /// Ungated pods that have not terminated.
    pub fn open(&self) -> Vec<&str> {
        let is_open = |pod: &ApiObject| {
            let pod = QueuedPod::of(pod, PodAncestry::Unmanaged);
            !pod.gated && !pod.terminated()
        };
        self.pods.iter().filter(|(_, pod)| is_open(pod)).map(|(name, _)| name.as_str()).collect()
    }

    /// Whether any expectation is open.
    pub fn remembers(&self) -> bool {
        !self.memory.ungates.is_empty() || !self.memory.cleanups.is_empty()
    }

    pub fn is_held(&self, pod: &str) -> bool {
        self.pods.get(pod).is_some_and(|pod| meta::has_finalizer(&pod.tree, "kueue.x-k8s.io/managed"))
    }

    /// Never more pods of a pod set are ungated and alive than were admitted.
    pub fn check(&self) {
        let mut open: BTreeMap<(&str, &str), u32> = BTreeMap::new();
        for pod in self.pods.values().map(|pod| &pod.tree) {
            let member = QueuedPod::of(&ApiObject { tree: pod.clone(), revision: 0 }, PodAncestry::Unmanaged);
            let stamped = meta::annotation(pod, "kueue.x-k8s.io/workload")
                .zip(meta::label(pod, "kueue.x-k8s.io/podset"));
            if let Some(place) = stamped.filter(|_| !member.gated && !member.terminated()) {
                *open.entry(place).or_default() += 1;
            }
        }
        for ((workload, set), open) in open {
            let Some(it) = self.workloads.get(workload) else { continue };
            let count = WorkloadFacts::of(&it.tree).pod_set(set).map_or(0, |set| set.count);
            assert!(open <= count, "{open} of {count} in {workload}/{set}: {:?}", self.open());
        }
    }
}
